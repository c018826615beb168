package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func unitsOf(samples ...[]float64) (us []Unit) {
	for i, x := range samples {
		_, ss := meanSS(x)
		us = append(us, Unit{Name: fmt.Sprint(i), SS: ss, DF: float64(len(x) - 1)})
	}
	return us
}

// Section 3.5: the guard of pooling where there are more than two variances. The figures are those of another
// program (scipy's bartlett); for two variances that of the textbook formula by hand.
func TestSection35Bartlett(t *testing.T) {
	for _, c := range []struct {
		name        string
		us          []Unit
		stat, df, p float64
	}{
		{"one of three is larger", unitsOf(
			[]float64{2.1, 1.9, 1.5, 2.4, 1.5}, []float64{1, 1.4, .2, 1.9, 2.2}, []float64{5, 1, 9, 3.3, 2}),
			13.943898014217279, 2, .0009378232991803228},
		{"of unequal sizes", unitsOf(
			[]float64{2.1, 1.9, 1.5, 2.4, 1.5}, []float64{.2, -.3, .1, .4, -.1, .3}, []float64{2.1, 1.9, -.4, 2.4, 1.5, .3}),
			9.504171449122992, 2, .00863366895536564},
		// Pooled 6.84/12 = .57: 12·ln .57 − 9·ln .64 − 3·ln .36 = .336111, over 1 + (1/9 + 1/3 − 1/12)/3 = 1.120370.
		{"two, (10, .8) and (4, .6)", []Unit{{"a", 9 * .64, 9}, {"b", 3 * .36, 3}}, .2999996, 1, .5838827},
		{"alike", []Unit{{"a", 4, 4}, {"b", 2, 2}, {"c", 8, 8}}, 0, 2, 1},
		{"one without variation says nothing", []Unit{{"a", 4, 4}, {"b", 2, 2}, {"c", 8, 8}, {"zero", 0, 1}}, 0, 2, 1},
	} {
		stat, df, p, ok := Bartlett(c.us)
		if !ok {
			t.Fatalf("%s: no test", c.name)
		}
		near(t, c.name+": statistic", stat, c.stat, 1e-6)
		near(t, c.name+": df", df, c.df, 0)
		near(t, c.name+": p", p, c.p, 1e-6)
		scaled := append([]Unit(nil), c.us...)
		for i := range scaled { // another unit, another order
			scaled[i] = c.us[len(c.us)-1-i]
			scaled[i].SS *= 1e6
		}
		other, _, _, _ := Bartlett(scaled)
		near(t, c.name+": scaled", other, stat, 1e-9)
	}
	for _, us := range [][]Unit{nil, {{"a", 1, 1}}, {{"a", 1, 1}, {"zero", 0, 1}}, {{"a", math.MaxFloat64, 1}, {"b", math.MaxFloat64, 1}}} {
		if _, _, _, ok := Bartlett(us); ok {
			t.Errorf("a test of %v", us)
		}
	}
}

// Bartlett keeps its level for units of several degrees of freedom, and is cautious where each has one, as the
// curvatures of quads.
func TestBartlettLevel(t *testing.T) {
	n := sessions(t)
	for _, c := range []struct {
		name string
		df   []float64
		want float64
	}{{"four of 3", []float64{3, 3, 3, 3}, .048}, {"a quad's units", []float64{1, 1, 1, 1, 1, 4}, .034}} {
		r := rand.New(rand.NewPCG(35, uint64(len(c.df))))
		hits := 0
		for range n {
			us := make([]Unit, len(c.df))
			for i, df := range c.df {
				us[i].DF = df
				for range int(df) {
					x := r.NormFloat64()
					us[i].SS += x * x
				}
			}
			if _, _, p, _ := Bartlett(us); p < .05 {
				hits++
			}
		}
		nearRate(t, c.name, float64(hits)/float64(n), n, c.want, 200_000, .001)
	}
}

// A history of two kinds of noise lends half, and says so; one kind lends all.
func TestPoolOfUnequalNoise(t *testing.T) {
	n, left := Pool([]Unit{{"calm", 10, 10}, {"calm too", 9, 10}, {"wild", 160, 10}})
	if len(left) != 0 || n.DF != unequalDF || !strings.Contains(n.From, "Bartlett p ") || !strings.HasSuffix(n.From, "4 of 30 df are lent") {
		t.Errorf("left out %v, %+v", left, n)
	}
	near(t, "sd", n.SD, math.Sqrt(179./30), 1e-12)
	if n, _ := Pool([]Unit{{"calm", 10, 10}, {"calm too", 9, 10}, {"less calm", 16, 10}}); n.DF != 30 || strings.Contains(n.From, "Bartlett") {
		t.Errorf("%+v", n)
	}
	// Fewer than are lent at most stay what they are.
	if n, _ := Pool([]Unit{{"calm", 1e-6, 2}, {"wild", 160, 2}}); n.DF != 4 {
		t.Errorf("%+v", n)
	}
}
