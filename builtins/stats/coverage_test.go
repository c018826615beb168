package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// coverage is how often the interval of the plain quad model holds no effect, in n sessions of Q quads of a
// machine. The noise of an arm is 1, and effects of place are small, so that World's logarithms are values.
func coverage(w World, mode string, warmArm bool, Q, n int, seed uint64) float64 {
	hit := 0
	w.SD = 1
	for s := range n {
		key := seed<<32 | uint64(s)
		r := rand.New(rand.NewPCG(key, 77))
		qs := make([]Quad, Q)
		before := false
		for q := range qs {
			switch mode {
			case "alternating":
				qs[q].BFirst = q%2 == 1
			case "random":
				qs[q].BFirst = r.IntN(2) == 1
			}
			for i := range 4 {
				isB := (i == 1 || i == 2) != qs[q].BFirst
				if i == 0 && warmArm {
					before = isB
				}
				qs[q].Y[i] = w.Log(Place{Seed: key, Session: 4*q + i, Block: q, Slot: i, BlockLen: 4, After: before})
				before = isB
			}
		}
		tau, curvature, spread := quadSums(qs)
		df := float64(2*Q - 1)
		half := TQuantile(.975, df) * math.Sqrt((curvature+spread)/df/float64(Q))
		if math.Abs(tau) <= half {
			hit++
		}
	}
	return float64(hit) / float64(n)
}

// Section 4: coverage of the quad model's 95 % interval under the troubles of a machine, Q = 1/2/3/5.
func TestSection4Coverage(t *testing.T) {
	n := 4000
	if testing.Short() {
		n = 1000
	}
	for i, c := range []struct {
		name    string
		w       World
		warmArm bool
		mode    string
		want    [4]float64
	}{
		{"linear to 2 sd an arm", World{Drift: 2}, false, "ABBA", [4]float64{.95, .95, .95, .95}},
		{"linear to 2 sd an arm", World{Drift: 2}, false, "random", [4]float64{.95, .95, .95, .95}},
		{"quadratic .3", World{Curve: .3}, false, "ABBA", [4]float64{.939, .903, .859, .777}},
		{"quadratic .3", World{Curve: .3}, false, "alternating", [4]float64{.942, .961, .957, .962}},
		{"quadratic .3", World{Curve: .3}, false, "random", [4]float64{.938, .931, .933, .935}},
		{"cold first slot, 2 sd", World{ColdBlock: 2}, false, "ABBA", [4]float64{.937, .851, .744, .531}},
		{"cold first slot, 2 sd", World{ColdBlock: 2}, false, "alternating", [4]float64{.934, .982, .969, .978}},
		{"cold first slot, 2 sd", World{ColdBlock: 2}, false, "random", [4]float64{.933, .917, .914, .920}},
		{"cold first slot, 5 sd", World{ColdBlock: 5}, false, "ABBA", [4]float64{.913, .594, .221, .013}},
		{"cold first slot, 5 sd", World{ColdBlock: 5}, false, "alternating", [4]float64{.914, 1, .999, .999}},
		{"cold first slot, 5 sd", World{ColdBlock: 5}, false, "random", [4]float64{.917, .796, .806, .882}},
		{"cold session", World{Cold: 5}, false, "alternating", [4]float64{.92, .94, .93, .93}},
		{"carry-over, no warm arm", World{Carry: 1}, false, "ABBA", [4]float64{.954, .959, .959, .959}},
		{"carry-over, no warm arm", World{Carry: 1}, false, "alternating", [4]float64{.958, .959, .948, .912}},
		{"carry-over, no warm arm", World{Carry: 1}, false, "random", [4]float64{.954, .950, .949, .938}},
		{"carry-over, warm arm", World{Carry: 1}, true, "ABBA", [4]float64{.955, .959, .960, .958}},
		{"AR(1) .5", World{AR: .5}, false, "alternating", [4]float64{.940, .936, .938, .939}},
		{"AR(1) .5", World{AR: .5}, false, "random", [4]float64{.938, .933, .928, .928}},
		{"t3", World{T3: true}, false, "alternating", [4]float64{.956, .956, .956, .956}},
	} {
		for k, Q := range []int{1, 2, 3, 5} {
			want := c.want[k]
			tol := 4*math.Sqrt(math.Max(want*(1-want), .004)/float64(n)) + .004
			near(t, fmt.Sprintf("%s, %s, Q = %d", c.name, c.mode, Q), coverage(c.w, c.mode, c.warmArm, Q, n, uint64(i+1)), want, tol)
		}
	}
}

// Section 4: the seeds' own rule, two runs a side, both deltas positive, a gain of at least m; σ = .27 %.
func TestSection4SeedsRule(t *testing.T) {
	const n = 40000
	accept := func(order string, w World, effect, m float64) float64 {
		hit := 0
		w.SD = .27
		for s := range uint64(n) {
			var a, b []float64
			for i, l := range order {
				x := w.Log(Place{Seed: s, Session: i, Block: 0, Slot: i, BlockLen: 4})
				if l == 'B' {
					b = append(b, x+effect)
				} else {
					a = append(a, x)
				}
			}
			d := PairDeltas(a, b)
			if d[0] > 0 && d[1] > 0 && (d[0]+d[1])/2 >= m {
				hit++
			}
		}
		return float64(hit) / n
	}
	for _, c := range []struct{ m, want, tol float64 }{{0, .25, .01}, {.25, .147, .008}, {.45, .045, .005}, {1, .0001, .0003}} {
		near(t, fmt.Sprintf("false positives at m = %v", c.m), accept("ABAB", World{}, 0, c.m), c.want, c.tol)
	}
	near(t, "cold first arm, ABBA", accept("ABBA", World{Cold: 1}, 0, 0), .50, .012)
	near(t, "cold first arm, ABAB", accept("ABAB", World{Cold: 1}, 0, 0), .50, .012)
	near(t, "cold first arm, BAAB", accept("BAAB", World{Cold: 1}, 0, 0), .002, .001)
	near(t, "ABAB with .16 % an arm of drift", accept("ABAB", World{Drift: .16}, 0, 0), .44, .01)
	for _, c := range []struct{ effect, want float64 }{{.25, .55}, {.45, .78}, {.8, .96}} {
		near(t, fmt.Sprintf("power at %v %%", c.effect), accept("ABAB", World{}, c.effect, 0), c.want, .012)
	}
}
