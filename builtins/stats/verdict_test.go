package stats

import (
	"math"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	// An estimate with a standard error of 1 % on 8 df: t.975 = 2.306, t.95 = 1.860.
	at := func(effect, se float64) Estimate {
		return Estimate{Method: MethodQuad, Diff: math.Log1p(effect), SE: se, DF: 8, ArmSD: se, K: 1, N: 1}
	}
	for _, c := range []struct {
		name string
		e    Estimate
		r    Rule
		want string
	}{
		{"clear", at(.05, .01), Rule{}, Better},
		{"clear loss", at(-.05, .01), Rule{}, Worse},
		{"lower is better", at(-.05, .01), Rule{Lower: true}, Better},
		{"lower is better, loss", at(.05, .01), Rule{Lower: true}, Worse},
		{"holds 0", at(.02, .01), Rule{}, Inconclusive},
		{"a difference under min effect, not equivalent", at(.009, .003), Rule{MinEffect: .01}, Inconclusive},
		{"a difference under min effect, equivalent", at(.005, .001), Rule{MinEffect: .01}, Equivalent},
		{"equivalent around 0", at(.001, .004), Rule{MinEffect: .01}, Equivalent},
		{"beyond min effect although the interval is not", at(.012, .004), Rule{MinEffect: .01}, Better},
		{"superior asks for the interval", at(.012, .004), Rule{MinEffect: .01, Superior: true}, Inconclusive},
		{"superior", at(.03, .004), Rule{MinEffect: .01, Superior: true}, Better},
		{"a look is stricter", at(.025, .01), Rule{P: .0182}, Inconclusive},
		{"the same at .05", at(.025, .01), Rule{P: .05}, Better},
		{"no noise", Estimate{Diff: .1}, Rule{}, Inconclusive},
		{"no variation", Estimate{Diff: .1, DF: 1, Zero: true}, Rule{MinEffect: .01}, Better},
		{"no variation, no effect", Estimate{DF: 1, Zero: true}, Rule{}, Equivalent},
	} {
		got, why := c.r.Verdict(c.e)
		if got != c.want {
			t.Errorf("%s: got %s (%s), want %s", c.name, got, why, c.want)
		}
		if got == Inconclusive && why == "" {
			t.Errorf("%s: inconclusive without a reason", c.name)
		}
	}
	if _, why := (Rule{}).Verdict(Estimate{Diff: .1}); !strings.Contains(why, "no noise is known") {
		t.Errorf("got %q", why)
	}
	// Section 3.6: mean .1, sd .260768 of six differences within ±1: equivalent by [−.114518, .314518].
	e, _ := Mean([]float64{.2, -.3, .1, .4, -.1, .3})
	low, high, _ := e.Interval((Rule{}).EquivalenceLevel())
	near(t, "sd", e.ArmSD, .260768, 5e-7)
	near(t, "low", low, -.114518, 5e-7)
	near(t, "high", high, .314518, 5e-7)
}

func TestBlocksNeeded(t *testing.T) {
	k := func(n int) float64 { return 1 / float64(n) }
	df := func(n int) float64 { return float64(2*n - 1) }
	e := Estimate{Diff: .001, SE: .01, DF: 1, ArmSD: .01, K: 1, N: 1}
	// MDE in sd of an arm: 16.3, 3.01, 2.03, 1.63: an effect of 2.1 sd needs three quads, 20 sd one.
	for _, c := range []struct {
		target float64
		have   int
		more   int
		ok     bool
	}{{.0212, 1, 2, true}, {.0212, 3, 0, true}, {.5, 1, 0, false}, {1e-7, 1, 0, false}, {0, 1, 0, false}} {
		more, ok := (Rule{}).BlocksNeeded(e, c.have, c.target, k, df)
		if c.target == .5 { // beyond 16.3 sd: enough already
			c.ok = true
		}
		if more != c.more || ok != c.ok {
			t.Errorf("target %v with %d: got %d, %v, want %d, %v", c.target, c.have, more, ok, c.more, c.ok)
		}
	}
}

func TestBorrowing(t *testing.T) {
	q := logQuads(twoQuads)[:1]
	own, _ := Quads(q, nil)
	for _, c := range []struct {
		name  string
		n     *Noise
		df    float64
		words string
	}{
		{"nil", nil, 1, ""},
		{"few", &Noise{SD: own.ArmSD, DF: 3, From: "x"}, 4, "noise of"},
		{"many", &Noise{SD: own.ArmSD, DF: 500, From: "x"}, 9, "8 of 500 df"},
		{"much calmer", &Noise{SD: own.ArmSD / 10, DF: 20, From: "x"}, 1, "nothing borrowed"},
		{"zero", &Noise{SD: 0, DF: 20}, 1, ""},
		{"not a number", &Noise{SD: math.NaN(), DF: 20}, 1, ""},
		{"infinite", &Noise{SD: math.Inf(1), DF: 20}, 1, ""},
	} {
		e, _ := Quads(q, c.n)
		if e.DF != c.df || !strings.Contains(e.Borrowed, c.words) || c.words == "" && e.Borrowed != "" {
			t.Errorf("%s: got df %v, %q", c.name, e.DF, e.Borrowed)
		}
	}
	// One pair has no noise of its own.
	p, _ := Pairs([]float64{1}, []float64{1.1}, nil)
	if p.Known() {
		t.Error("one pair knows its noise")
	}
	if _, _, ok := p.Interval(.95); ok {
		t.Error("one pair has an interval")
	}
	p, _ = Pairs([]float64{1}, []float64{1.1}, &Noise{SD: .01, DF: 8})
	near(t, "SE of one pair", p.SE, .01*math.Sqrt2, 1e-12)
}

func TestPoolLeavesOut(t *testing.T) {
	var us []Unit
	for i := range 20 {
		us = append(us, Unit{string(rune('a' + i)), .8 + .02*float64(i), 1})
	}
	us = append(us, Unit{"depressed", 600, 1})
	n, left := Pool(us)
	if len(left) != 1 || left[0] != "depressed" || n.DF != 20 || !strings.HasSuffix(n.From, "without depressed") {
		t.Errorf("left out %v, %+v", left, n)
	}
	// A quarter at most: what sticks out more often is the noise.
	us = us[:4]
	for range 4 {
		us = append(us, Unit{"wild", 900, 1})
	}
	if _, left := Pool(us); len(left) > 2 {
		t.Errorf("left out %v of 8", left)
	}
	// Too few to tell.
	if _, left := Pool([]Unit{{"a", 1, 1}, {"b", 1, 1}, {"c", 1, 1}, {"wild", 900, 1}}); len(left) != 0 {
		t.Errorf("left out %v of 4", left)
	}
}

func TestField(t *testing.T) {
	if m := Median([]float64{3, 1, 2}); m != 2 {
		t.Error(m)
	}
	x := []float64{3, 1}
	if Median(x) != 2 || x[0] != 3 {
		t.Error("the median sorted its argument")
	}
	if _, ok := GainOfMediansPct([]float64{0}, []float64{1}); ok {
		t.Error("a gain over nothing")
	}
	if _, ok := GainOfMediansPct(nil, []float64{1}); ok {
		t.Error("a gain over no runs")
	}
	if d := PairDeltas([]float64{1, 2}, []float64{4}); len(d) != 1 || d[0] != 3 {
		t.Error(d)
	}
	if _, _, ok := Range(nil); ok {
		t.Error("a range of nothing")
	}
}

func TestEmpty(t *testing.T) {
	if _, ok := Quads(nil, nil); ok {
		t.Error("quads of nothing")
	}
	if _, ok := Pairs(nil, nil, nil); ok {
		t.Error("pairs of nothing")
	}
	if _, ok := Pairs([]float64{1}, []float64{1, 2}, nil); ok {
		t.Error("pairs of unequal sides")
	}
	if _, ok := Unpaired(nil, []float64{1}, nil); ok {
		t.Error("unpaired of nothing")
	}
	if _, ok := Rung([]Ladder{{[]float64{1, 2}, []string{"U", "S"}}}, "U", "S", nil); ok {
		t.Error("a rung without a closing control")
	}
	if _, ok := Mean(nil); ok {
		t.Error("mean of nothing")
	}
	if _, _, ok := Trend([]float64{1, 2, 3, 4}, sides("AAAA"), nil); ok {
		t.Error("a trend of one side")
	}
	if _, ok := Logs([]float64{1, 0}); ok {
		t.Error("the logarithm of 0")
	}
	for _, name := range []string{"quads", "welch", "p", "anything"} {
		if ValidAtAnyLook(name) {
			t.Errorf("%s is valid at any look", name)
		}
	}
	if !ValidAtAnyLook("median") || !ValidAtAnyLook("quad_e") {
		t.Error("descriptions are not valid at any look")
	}
}

// No estimator says NaN or an infinity, whatever finite values it gets.
func FuzzEstimators(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, .1, 8.0)
	f.Add(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
	f.Add(1e308, -1e308, 1e308, 1e-308, 1e300, 1e300)
	f.Add(1e-300, 1.0, 1.0, 1.0, 1e-300, 1.0)
	f.Fuzz(func(t *testing.T, a, b, c, d, sd, df float64) {
		y := []float64{a, b, c, d}
		for _, v := range y { // what logarithms of positive floats can be
			if math.IsNaN(v) || math.Abs(v) > 1500 {
				t.Skip()
			}
		}
		n := &Noise{SD: sd, DF: df, From: "fuzz"}
		check := func(e Estimate, ok bool) {
			if !ok {
				return
			}
			for _, v := range []float64{e.Diff, e.SE, e.DF, e.ArmSD, e.K, e.OwnDF, e.BorrowedDF} {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("%v gives %+v", y, e)
				}
			}
			for _, level := range []float64{.9, .95, .999} {
				low, high, ok := e.Interval(level)
				if ok && (math.IsNaN(low) || math.IsNaN(high) || low > high) {
					t.Fatalf("%v gives [%v, %v]", y, low, high)
				}
			}
			if p, ok := e.P(); ok && !(p > 0 || math.Abs(e.Diff/e.SE) > 30) || p > 1 {
				t.Fatalf("%v gives p %v", y, p)
			}
			v, why := (Rule{MinEffect: .01}).Verdict(e)
			if v == Inconclusive && why == "" {
				t.Fatal("no reason")
			}
		}
		q := Quad{Y: [4]float64{a, b, c, d}}
		for _, nn := range []*Noise{nil, n} {
			check(Quads([]Quad{q}, nn))
			check(Quads([]Quad{q, {Y: [4]float64{d, a, b, c}, BFirst: true}}, nn))
			check(Pairs(y[:2], y[2:], nn))
			check(Unpaired(y[:1], y[1:], nn))
			check(Rung([]Ladder{{append(y, a), []string{"U", "S", "S", "T", "U"}}}, "U", "S", nn))
			e, _, ok := Trend(y, sides("ABAB"), nn)
			check(e, ok)
		}
	})
}

func BenchmarkQuads(b *testing.B) {
	qs := logQuads(twoQuads)
	n := &Noise{SD: .003, DF: 20, From: "history"}
	for b.Loop() {
		e, _ := Quads(qs, n)
		e.Interval(.95)
	}
}

func BenchmarkBlocksNeeded(b *testing.B) {
	k := func(n int) float64 { return 1 / float64(n) }
	df := func(n int) float64 { return float64(2*n - 1) }
	e := Estimate{SE: .01, DF: 3, ArmSD: .01, K: 1, N: 2}
	for b.Loop() {
		(Rule{}).BlocksNeeded(e, 2, .005, k, df)
	}
}

func BenchmarkMDE(b *testing.B) {
	for b.Loop() {
		MDE(.5, 3, .05, .8)
	}
}

// TestGap: an estimate far beyond what is asked for is decided when its interval excludes no change, and not
// when the smallest effect of interest could be shown.
func TestGap(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		diff float64
		want float64
	}{
		{Rule{MinEffect: .05}, math.Log(.23), -math.Log(.23)},
		{Rule{MinEffect: .05}, math.Log(1.2), math.Log(1.2)},
		{Rule{MinEffect: .05}, math.Log(1.01), math.Log(1.05)},
		{Rule{MinEffect: .05}, math.Log(.97), math.Log(1.05)},
		{Rule{}, .01, .01}, {Rule{}, 0, 0},
		{Rule{MinEffect: .05, Superior: true}, math.Log(1.2), math.Log(1.2) - math.Log(1.05)},
		{Rule{MinEffect: .05, Superior: true}, math.Log(.8), -math.Log(.8) + math.Log(.95)},
		{Rule{MinEffect: 2}, math.Log(.1), math.Log(3)},
	} {
		if got := c.rule.Gap(Estimate{Diff: c.diff}); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v at %v: got %v, want %v", c.rule, c.diff, got, c.want)
		}
	}
	// -77 % after one quad with an arm noise of 30 %: one more decides it, where 5 % would take hundreds.
	e := Estimate{Diff: math.Log(.23), SE: .3, DF: 1, ArmSD: .3, K: 1, N: 1}
	k, df := func(n int) float64 { return 1 / float64(n) }, func(n int) float64 { return float64(2*n - 1) }
	rule := Rule{MinEffect: .05}
	few, ok := rule.BlocksForGap(e, 1, rule.Gap(e), k, df)
	many, ok2 := rule.BlocksNeeded(e, 1, .05, k, df)
	if !ok || !ok2 || few < 1 || few > 2 || many < 100 {
		t.Errorf("got %d (%v), where the smallest effect takes %d (%v)", few, ok, many, ok2)
	}
}
