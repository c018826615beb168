package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func nearAll(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
	for i := range got {
		near(t, what, got[i], want[i], tol)
	}
}

// Section 3.8: corrections.
func TestSection38Corrections(t *testing.T) {
	near(t, "one false of 20", FamilyError(20, .05), .6415, 5e-5) // 1−.95²⁰
	near(t, "Šidák of 20", Sidak(20, .05), .002561, 5e-7)         // 1−.95^(1/20)
	p := []float64{.001, .008, .039, .041, .9}
	nearAll(t, "Holm", Holm(p), []float64{.005, .032, .117, .117, .9}, 1e-12) // 5·.001, 4·.008, 3·.039, not less, 1·.9
	nearAll(t, "BH", BH(p), []float64{.005, .020, .05125, .05125, .9}, 1e-12) // 5·.001, 5/2·.008, (5/4·.041), 5/4·.041, .9
	for name, adjusted := range map[string][]float64{"Holm": Holm(p), "BH": BH(p)} {
		if adjusted[1] > .05 || adjusted[2] <= .05 {
			t.Errorf("%s rejects other than the first two: %v", name, adjusted)
		}
	}
	// Any order gives each its own.
	q := []float64{.9, .041, .001, .039, .008}
	nearAll(t, "Holm in another order", Holm(q), []float64{.9, .117, .005, .117, .032}, 1e-12)
	nearAll(t, "BH in another order", BH(q), []float64{.9, .05125, .005, .05125, .020}, 1e-12)
	if len(Holm(nil)) != 0 || len(BH(nil)) != 0 || len(EBH(nil, .05)) != 0 {
		t.Error("corrections of nothing")
	}
	// e-BH of 4 at .05: the first needs 80, the second 40, the third 26.7, the fourth 20.
	for _, c := range []struct {
		e    []float64
		want []bool
	}{
		{[]float64{79, 1, 1, 1}, []bool{false, false, false, false}},
		{[]float64{1, 80, 1, 1}, []bool{false, true, false, false}},
		{[]float64{41, 1, 41, 1}, []bool{true, false, true, false}},
		{[]float64{20, 20, 20, 20}, []bool{true, true, true, true}},
		{[]float64{27, 1, 27, 27}, []bool{true, false, true, true}},
	} {
		if got := EBH(c.e, .05); !slices.Equal(got, c.want) {
			t.Errorf("e-BH of %v: got %v, want %v", c.e, got, c.want)
		}
	}
	near(t, "p to e", PToE(.0001), 50, 1e-9) // ½/√p
}

// The calibrator is an e-value: its mean over uniform p is 1.
func TestPToEIsFair(t *testing.T) {
	sum, n := 0.0, 200000
	for i := range n {
		sum += PToE((float64(i) + .5) / float64(n))
	}
	near(t, "mean", sum/float64(n), 1, .005)
}

// Section 3.8: under all nulls, BH and Holm find something in 5 % of families of independent tests.
func TestSection38FamilyErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const runs = 20000
	bh, holm := 0, 0
	for range runs {
		p := make([]float64, 12)
		for i := range p {
			p[i] = r.Float64()
		}
		if slices.Min(BH(p)) <= .05 {
			bh++
		}
		if slices.Min(Holm(p)) <= .05 {
			holm++
		}
	}
	nearRate(t, "BH", float64(bh)/runs, runs, .05, exactly, 0)
	nearRate(t, "Holm", float64(holm)/runs, runs, FamilyError(12, .05/12), exactly, 0) // 1−(1−.05/12)¹² = .0489
}

// Section 3.7, rule 5: the e-process of signs.
func TestSection37SignE(t *testing.T) {
	for n, want := range map[int]float64{2: 1.5, 3: 2.5, 4: 4.375, 5: 7.875, 6: 14.4375, 7: 26.8125, 8: 50.27, 9: 94.96, 10: 180.43} {
		near(t, "unanimous", SignE(n, n), want, 6e-3)
		near(t, "unanimous the other way", SignE(0, n), want, 6e-3)
	}
	near(t, "one dissent of ten", SignE(9, 10), 9.496, 5e-4)
	// A martingale under a fair coin: the mean over the next sign is what it is now.
	for n := range 12 {
		for k := range n + 1 {
			near(t, "next", (SignE(k, n+1)+SignE(k+1, n+1))/2, SignE(k, n), 1e-9*SignE(k, n))
		}
	}
	// Two sessions of five unanimous blocks each: 7.875² = 62.02, more than either can say.
	near(t, "two sessions", MultiplyE([]float64{SignE(5, 5), SignE(5, 5)}), 62.015625, 1e-9)
	if v := MultiplyE([]float64{1e300, 1e300}); math.IsInf(v, 0) {
		t.Error("beyond all numbers")
	}
	near(t, "nothing", MultiplyE(nil), 1, 0)
	near(t, "no evidence at all", MultiplyE([]float64{0, 50}), 0, 0)
}

func TestOneSided(t *testing.T) {
	for _, c := range []struct {
		x     []float64
		alarm bool
	}{
		{[]float64{1, 2, 3, 1, 2, 3, 1}, false},                // 2/2⁷ = .0156
		{[]float64{1, 2, 3, 1, 2, 3, 1, 1}, true},              // 2/2⁸ = .0078
		{[]float64{-1, -2, -3, -1, -2, -3, -1, -1}, true},      // or all the other way
		{[]float64{1, 2, 3, 1, 2, 3, 1, -1}, false},            // 2·9/2⁸
		{[]float64{1, 2, 3, 1, 2, 3, 1, 1, 1, 1, 1, -1}, true}, // 2·13/2¹² = .0063
		{nil, false},
	} {
		if e, alarm := OneSided(c.x); alarm != c.alarm {
			t.Errorf("%v: got %v (%+v)", c.x, alarm, e)
		}
	}
}

// Section 3.8: shrinkage.
func TestSection38Shrink(t *testing.T) {
	x := []float64{5, 2.1, 1.8, .9, .4, -.3, -.6, -1.2}
	s, ok := Shrink(x, []float64{1, 1, 1, 1, 1, 1, 1, 1})
	if !ok {
		t.Fatal("nothing")
	}
	near(t, "mean", s.Grand, 1.0125, 1e-12) // 8.1/8
	near(t, "τ²", s.Tau2, 2.90125, 1e-9)    // 3.90125 − 1
	near(t, "B", s.B[0], .74367, 5e-6)      // 2.90125/3.90125
	near(t, "5", s.Mean[0], 3.9779, 5e-5)   // 1.0125 + 3.9875·.74367
	near(t, "2.1", s.Mean[1], 1.8212, 5e-5)
	near(t, "1.8", s.Mean[2], 1.5981, 5e-5)
	near(t, "sd", s.SD[0], math.Sqrt(.74367), 5e-6) // s·√B
	// Noise larger than the spread leaves nothing but the mean.
	s, _ = Shrink([]float64{1, 2, 3}, []float64{9, 9, 9})
	nearAll(t, "all noise", s.Mean, []float64{2, 2, 2}, 1e-12)
	if _, ok := Shrink([]float64{1, 2}, []float64{1, 1}); ok {
		t.Error("a spread from two")
	}
	if _, ok := Shrink([]float64{1, 2, 3}, []float64{1, 1, math.NaN()}); ok {
		t.Error("shrunk by no number")
	}
}

// Section 3.8: the winner's curse.
func TestSection38WinnersCurse(t *testing.T) {
	for k, want := range map[int]float64{2: .5642, 3: .8463, 5: 1.1630, 10: 1.5388, 20: 1.8675, 50: 2.2491} {
		near(t, "best of nulls", BestOfNulls(k), want, 6e-5)
	}
	near(t, "three of ten", TopOfNulls(10, 3), 3.196, 5e-4)
	near(t, "all of ten", TopOfNulls(10, 10), 0, 1e-9)
	shown, factor, wrong, ok := TypeM(1, 1.96) // 1 + φ(.96)/(1−Φ(.96)) = 1 + .25164/.16853
	near(t, "shown", shown, 2.493, 5e-4)
	near(t, "factor", factor, 2.493, 5e-4)
	near(t, "wrong sign", wrong, .00154/(.00154+.16853), 1e-4) // Φ̄(2.96) of both
	if _, _, _, ok2 := TypeM(0, 1.96); !ok || ok2 {
		t.Error("the exaggeration of nothing")
	}
}

func TestExpectedGain(t *testing.T) {
	near(t, "at the bar", ExpectedGain(1, 2, 1), 2/math.Sqrt(2*math.Pi), 1e-12)
	near(t, "known", ExpectedGain(3, 0, 1), 2, 1e-12)
	near(t, "known to be bad", ExpectedGain(0, 0, 1), 0, 0)
	near(t, "sure", ExpectedGain(10, .1, 1), 9, 1e-9)
	if g := ExpectedGain(-100, 1, 0); g < 0 || math.IsNaN(g) {
		t.Error(g)
	}
}
