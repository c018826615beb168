package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestClusters(t *testing.T) {
	for _, c := range []struct {
		name      string
		x         []float64
		low, high int // how many in each; 0 is no clusters
	}{
		{"two states of a clock", []float64{1, 1.6, 1.01, 1.61, 1, 1.6}, 3, 3},
		{"two of seven", []float64{5, 5.01, 5.02, 5, 5.01, 7, 7.01}, 5, 2},
		{"four values, far apart", []float64{1, 1.01, 2, 2.01}, 2, 2},
		{"four values, not far enough for four", []float64{1, 1.01, 1.08, 1.09}, 0, 0},
		{"the same gap is enough for eight", []float64{1, 1.01, 1.08, 1.09, 1, 1.01, 1.08, 1.09}, 4, 4},
		{"one depressed value is no cluster", []float64{1, 1, 1.01, 1, 1.01, .5}, 0, 0},
		{"a steady drift", []float64{1, 2, 3, 4, 5, 6, 7, 8}, 0, 0},
		{"a drift as quads see it", []float64{0, 3, 4, 7, 8, 11, 12, 15}, 0, 0},
		{"ties on both sides", []float64{1, 1, 1, 2, 2, 2}, 3, 3},
		{"all equal", []float64{1, 1, 1, 1, 1, 1}, 0, 0},
		{"the last digit printed is no gap worth a word", []float64{1, 1, 1, 1.004, 1.004, 1.004}, 0, 0},
		{"three values", []float64{1, 1, 2}, 0, 0},
		{"none", nil, 0, 0},
		{"not a number", []float64{1, 1, math.NaN(), 2, 2}, 0, 0},
		{"infinite", []float64{1, 1, 2, math.Inf(1)}, 0, 0},
	} {
		got, ok := Clusters(c.x, .005)
		if ok != (c.low > 0) || ok && (len(got.Low) != c.low || len(got.High) != c.high) {
			t.Errorf("%s: got %v, %+v, want %d and %d", c.name, ok, got, c.low, c.high)
		}
	}
}

// At most one normal sample in a hundred is flagged, of any size; of heavier tails no more, because a lone value is
// no cluster. The same share found of two states a true distance apart is what the rule is good for.
func TestClustersFalseAlarms(t *testing.T) {
	const sessions = 20_000
	r := rand.New(rand.NewPCG(26, 26))
	t3 := func() float64 {
		a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		return r.NormFloat64() / math.Sqrt((a*a+b*b+c*c)/3)
	}
	share := func(n int, draw func(i int) float64) float64 {
		k := 0
		x := make([]float64, n)
		for range sessions {
			for i := range x {
				x[i] = draw(i)
			}
			if _, ok := Clusters(x, 0); ok {
				k++
			}
		}
		return float64(k) / sessions
	}
	for n := 4; n <= 24; n++ {
		// One percent and three standard errors of a share of 20,000.
		if got := share(n, func(int) float64 { return r.NormFloat64() }); got > .01+3*math.Sqrt(.01*.99/sessions) {
			t.Errorf("%d normal values: %.2f %% flagged, want at most 1 %%", n, 100*got)
		}
		if got := share(n, func(int) float64 { return t3() }); got > .012 {
			t.Errorf("%d values of t with 3 df: %.2f %% flagged", n, 100*got)
		}
		if got := share(n, func(i int) float64 { return r.NormFloat64() + float64(20*(i%2)) }); n > 4 && got < .85 || got < .65 {
			t.Errorf("%d values in two states 20 sd apart: only %.1f %% found", n, 100*got)
		}
		if n == 8 {
			for apart, want := range map[int]float64{6: .32, 10: .88} { // as clusterFactor says
				if got := share(n, func(i int) float64 { return r.NormFloat64() + float64(apart*(i%2)) }); math.Abs(got-want) > .02 {
					t.Errorf("8 values in two states %d sd apart: %.1f %% found, want %.0f %%", apart, 100*got, 100*want)
				}
			}
		}
	}
}
