package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Section 3.5: 100 values of 20 launches whose correlation within a launch is .37 are worth 40.3.
func TestWithinDesignEffect(t *testing.T) {
	// Values that have exactly that correlation: within a unit ±w around its mean, unit means ±u around theirs.
	// Five values −w, −w, 0, w, w: within SS 4w², on 4 df: mean square w². Twenty units, ten at +u and ten at −u:
	// between SS 5·20u² on 19 df. ρ = s²/(s²+w²) with s² = (100u²/19 − w²)/5.
	const w, rho = 1., .37
	s2 := rho / (1 - rho) * w * w
	u := math.Sqrt((5*s2 + w*w) * 19 / 100)
	var set [][]float64
	for i := range 20 {
		mean := 10 + u
		if i%2 == 1 {
			mean = 10 - u
		}
		set = append(set, []float64{mean - w, mean - w, mean, mean + w, mean + w})
	}
	n, ok := Within([][][]float64{set})
	if !ok {
		t.Fatal("nothing")
	}
	near(t, "rho", n.Rho, .37, 1e-12)
	near(t, "design effect", n.Effect, 2.48, 1e-12)
	near(t, "effective", n.Effective, 40.3, .05)
	near(t, "within", n.SDValue, w, 1e-12)
	near(t, "between", n.SDUnit, math.Sqrt(s2), 1e-12)
	// A difference of sides is no noise of an arm, and the order of sides and arms says nothing.
	far := make([][]float64, len(set))
	for i := range set {
		far[i] = []float64{}
		for _, y := range set[len(set)-1-i] {
			far[i] = append(far[i], y+5)
		}
	}
	two, ok := Within([][][]float64{far, set})
	if !ok || two.Values != 200 || two.Units != 40 {
		t.Fatalf("got %+v", two)
	}
	near(t, "within of two sides", two.SDValue, w, 1e-12)
	// 2·Σ of squares on 2·19 df: the same mean square.
	near(t, "rho of two sides", two.Rho, .37, 1e-12)
}

func TestWithinEdges(t *testing.T) {
	for name, sets := range map[string][][][]float64{
		"none": nil, "empty": {{}, {{}}}, "one unit": {{{1, 2, 3}}}, "one value a unit": {{{1}, {2}, {3}}},
		"a unit a side": {{{1, 2}}, {{3, 4}}}, "nothing varies": {{{1, 1}, {1, 1}}}, "infinite": {{{1, math.Inf(1)}, {2, 3}}},
	} {
		if n, ok := Within(sets); ok {
			t.Errorf("%s: got %+v", name, n)
		}
	}
	// Units that differ less than their values explain are as good as independent values.
	if n, ok := Within([][][]float64{{{1, 3}, {3, 1}}}); !ok || n.Rho != 0 || n.Effect != 1 || n.Effective != 4 {
		t.Errorf("negative correlation: got %v, %+v", ok, n)
	}
	// Values that do not vary within their unit say nothing the first did not.
	if n, ok := Within([][][]float64{{{1, 1, 1}, {2, 2, 2}}}); !ok || n.Rho != 1 || n.Effect != 3 || n.Effective != 2 {
		t.Errorf("full correlation: got %v, %+v", ok, n)
	}
	// Unequal units: the mean of many is near the truth. ρ = 1/(1+4) = .2.
	r := rand.New(rand.NewPCG(8, 8))
	sum := 0.
	const sessions = 2000
	for range sessions {
		var set [][]float64
		for i := range 12 {
			level := r.NormFloat64()
			unit := make([]float64, 2+i%4)
			for j := range unit {
				unit[j] = level + 2*r.NormFloat64()
			}
			set = append(set, unit)
		}
		n, ok := Within([][][]float64{set})
		if !ok {
			t.Fatal("nothing")
		}
		sum += n.SDValue * n.SDValue
	}
	near(t, "noise of a value", sum/sessions, 4, .1)
}
