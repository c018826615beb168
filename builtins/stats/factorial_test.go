package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// runsOf are runs of one block in time.
func runsOf(rows [][]bool, y func(x []float64) float64) []Run {
	var out []Run
	for _, r := range rows {
		x := make([]float64, len(r))
		for j, on := range r {
			x[j] = sign(on)
		}
		out = append(out, Run{On: r, Y: y(x)})
	}
	return out
}

func diffs(es []Estimate) []float64 {
	var d []float64
	for _, e := range es {
		d = append(d, e.Diff)
	}
	return d
}

// Section 3.8: the generator gives orthogonal, balanced columns.
func TestSection38PlackettBurmanIsOrthogonal(t *testing.T) {
	for name, rows := range map[string][][]bool{"12": PlackettBurman12(), "24": FoldOver(PlackettBurman12()), "8": Fraction8(7), "16": FoldOver(Fraction8(7))} {
		for j := range rows[0] {
			for k := range rows[0] {
				dot, sum := 0.0, 0.0
				for _, r := range rows {
					dot += sign(r[j]) * sign(r[k])
					sum += sign(r[j])
				}
				if sum != 0 || j != k && dot != 0 {
					t.Fatalf("%s: columns %d and %d: sum %v, product %v", name, j, k, sum, dot)
				}
			}
		}
	}
}

// Section 3.8: y = 100 + 3x₁ − 2x₄ + 1.5x₁x₄ on Plackett-Burman 12.
func TestSection38PlackettBurman(t *testing.T) {
	y := func(x []float64) float64 { return 100 + 3*x[0] - 2*x[3] + 1.5*x[0]*x[3] }
	es, ok := Factorial(runsOf(PlackettBurman12(), y), false, nil)
	if !ok {
		t.Fatal("no effects")
	}
	// High minus low is twice the coefficient: 6, −4; every other holds ±⅓ of the interaction, 3: ±1.
	want := []float64{6, -1, 1, -4, 1, 1, -1, -1, -1, -1, -1}
	nearAll(t, "effects", diffs(es), want, 1e-9)
	l, ok := Lenth(diffs(es))
	if !ok {
		t.Fatal("no noise")
	}
	near(t, "s0", l.S0, 1.5, 1e-9)         // 1.5·median = 1.5·1
	near(t, "PSE", l.PSE, 1.5, 1e-9)       // 1.5·median below 3.75
	near(t, "ME", l.ME(.95), 4.3183, 5e-5) // t.975(11/3)·1.5
	for j, e := range es {
		// No degree of freedom is left of 12 runs for 11 levers and a level: Lenth's noise.
		low, high, ok := e.Interval(.95)
		if !ok || (low > 0 || high < 0) != (j == 0) {
			t.Errorf("lever %d: [%v, %v], %v: only the first is active", j+1, low, high, ok)
		}
		near(t, "K", e.K, 1./3, 1e-9) // 4σ²/12
		if !strings.Contains(e.Borrowed, "Lenth") {
			t.Error(e.Borrowed)
		}
	}
	for _, a := range Aliases(runsOf(PlackettBurman12(), y), false) {
		if a.Lever == a.J || a.Lever == a.K || math.Abs(math.Abs(a.Share)-1./3) > 1e-9 {
			t.Fatalf("alias %+v, want thirds of interactions of two others", a)
		}
	}
	if n := len(Aliases(runsOf(PlackettBurman12(), y), false)); n != 11*45 { // each effect with all pairs of the ten others
		t.Errorf("%d aliases", n)
	}
	// Fold-over: main effects are clear, whatever the interaction.
	es, _ = Factorial(runsOf(FoldOver(PlackettBurman12()), y), false, nil)
	nearAll(t, "folded", diffs(es), []float64{6, 0, 0, -4, 0, 0, 0, 0, 0, 0, 0}, 1e-9)
	near(t, "folded K", es[0].K, 4./24, 1e-9)
	if a := Aliases(runsOf(FoldOver(PlackettBurman12()), y), false); len(a) != 0 {
		t.Errorf("folded: %v", a)
	}
}

// Section 3.8: 2^(4−1) with D = ABC, from 100 + 2A − 1.5C + .5ABC + 1·AB.
func TestSection38Fraction(t *testing.T) {
	y := func(x []float64) float64 {
		a, b, c := x[0], x[1], x[2]
		return 100 + 2*a - 1.5*c + .5*a*b*c + a*b
	}
	rows := Fraction8(7)
	runs := runsOf(rows, y)
	for at, want := range map[string]float64{"---": 100, "+--": 103, "-+-": 99, "++-": 104, "--+": 98, "+-+": 99, "-++": 95, "+++": 102} {
		for i, r := range rows {
			if at == mark(r[0])+mark(r[1])+mark(r[2]) {
				near(t, at, runs[i].Y, want, 1e-9)
			}
		}
	}
	es, ok := Factorial(runs, false, nil)
	if !ok {
		t.Fatal("no effects")
	}
	nearAll(t, "A, B, C, D, BC, AC, AB", diffs(es), []float64{4, 0, -3, 1, 0, 0, 2}, 1e-9)
	// Four levers: no interaction of two in a main effect.
	if a := Aliases(runsOf(Fraction8(4), y), false); len(a) != 0 {
		t.Errorf("resolution IV: %v", a)
	}
	// The alias words of five: with E = BC, a lever's effect is an interaction of others, in full.
	found := false
	for _, a := range Aliases(runsOf(Fraction8(5), y), false) {
		near(t, "share", math.Abs(a.Share), 1, 1e-9)
		found = found || a == Alias{Lever: 4, J: 1, K: 2, Share: a.Share}
	}
	if !found {
		t.Error("E = BC is not found")
	}
}

func mark(x bool) string {
	if x {
		return "+"
	}
	return "-"
}

// A drift does not pass for an effect, and two blocks of different levels do not either.
func TestFactorialDrift(t *testing.T) {
	off := make([]bool, 11)
	rows := append([][]bool{off}, PlackettBurman12()...)
	rows = append(rows, off, off)
	var runs []Run
	for b := range 2 {
		for i, r := range rows {
			y := 10*float64(b) + .3*float64(i)*float64(1+b)
			if r[2] {
				y += 5
			}
			runs = append(runs, Run{Block: b, On: r, Y: y})
		}
	}
	es, ok := Factorial(runs, true, nil)
	if !ok {
		t.Fatal("no effects")
	}
	want := make([]float64, 11)
	want[2] = 5
	nearAll(t, "effects", diffs(es), want, 1e-9)
	if es[0].N != 2 || es[0].OwnDF != 30-11-4 {
		t.Errorf("%+v", es[0])
	}
}

// The interval covers what it says, with noise of its own, borrowed noise and a drift.
func TestFactorialCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	rows := append([][]bool{make([]bool, 4)}, Fraction8(4)...)
	rows = append(rows, make([]bool, 4))
	for name, n := range map[string]*Noise{"own": nil, "borrowed": {SD: 1, DF: 40, From: "history"}} {
		hit, all := 0, 0
		for range 1200 {
			runs := runsOf(rows, func(x []float64) float64 { return 1.5*x[1] + r.NormFloat64() })
			for i := range runs {
				runs[i].Y += .8 * float64(i)
			}
			es, _ := Factorial(runs, true, n)
			for j, e := range es {
				low, high, _ := e.Interval(.95)
				truth := 0.0
				if j == 1 {
					truth = 3
				}
				all++
				if low <= truth && truth <= high {
					hit++
				}
			}
		}
		if c := float64(hit) / float64(all); c < .94 || c > .985 {
			t.Errorf("%s: coverage %v", name, c)
		}
	}
}

// Another unit changes no effect of logarithms; levers exchanged exchange their effects; on and off exchanged
// turns the sign; the runs of a design without drift may stand in any order.
func TestFactorialProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	n := &Noise{SD: .8, DF: 12, From: "history"}
	same := func(what string, got, want []Estimate, pick func(j int) (at int, sign float64)) {
		t.Helper()
		for j := range want {
			at, s := pick(j)
			if math.Abs(s*got[at].Diff-want[j].Diff) > 1e-9 || math.Abs(got[at].SE-want[j].SE) > 1e-9 || got[at].DF != want[j].DF {
				t.Fatalf("%s: lever %d: got %+v, want %+v", what, j, got[at], want[j])
			}
		}
	}
	as := func(j int) (int, float64) { return j, 1 }
	for range 50 {
		rows := PlackettBurman12()
		for i := range rows {
			rows[i] = rows[i][:7]
		}
		runs := runsOf(rows, func([]float64) float64 { return r.NormFloat64() })
		drift := r.IntN(2) == 0
		want, _ := Factorial(runs, drift, n)
		change := func(f func(*Run)) []Estimate {
			var out []Run
			for _, x := range runs {
				x.On = append([]bool(nil), x.On...)
				f(&x)
				out = append(out, x)
			}
			got, ok := Factorial(out, drift, n)
			if !ok {
				t.Fatal("no effects")
			}
			return got
		}
		same("another unit", change(func(x *Run) { x.Y += 5 }), want, as)
		same("exchanged", change(func(x *Run) { x.On[1], x.On[4] = x.On[4], x.On[1] }), want, func(j int) (int, float64) {
			return map[int]int{1: 4, 4: 1}[j] + map[bool]int{true: 0, false: j}[j == 1 || j == 4], 1
		})
		same("turned", change(func(x *Run) { x.On[2] = !x.On[2] }), want, func(j int) (int, float64) { return j, sign(j != 2) })
		r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		if got, _ := Factorial(runs, false, n); !drift {
			same("shuffled", got, want, as)
		}
	}
}

func TestFactorialRefuses(t *testing.T) {
	for name, runs := range map[string][]Run{
		"nothing":      nil,
		"no levers":    {{Y: 1}, {Y: 2}},
		"few":          {{On: []bool{true}, Y: 1}},
		"together":     {{On: []bool{true, true}}, {On: []bool{false, false}}, {On: []bool{true, true}}, {On: []bool{false, false}}},
		"unequal rows": {{On: []bool{true}}, {On: []bool{true, false}}},
		"always on":    {{On: []bool{true}}, {On: []bool{true}}, {On: []bool{true}}},
	} {
		if _, ok := Factorial(runs, false, nil); ok {
			t.Errorf("%s: has effects", name)
		}
		if a := Aliases(runs, false); a != nil {
			t.Errorf("%s: aliases %v", name, a)
		}
	}
	if _, ok := Lenth([]float64{1, 2, 3, 4}); ok {
		t.Error("noise from four effects")
	}
	if _, ok := Lenth(make([]float64, 8)); ok {
		t.Error("noise from effects of 0")
	}
}

// Section 3.8: interactions on logarithms.
func TestSection38Interaction(t *testing.T) {
	i, ok := Interaction(100, 105, 104, 107)
	near(t, "expected", 100*1.05*1.04, 109.2, 1e-9)
	near(t, "I", i, -.0203522, 5e-8)
	near(t, "ratio", math.Exp(i), .979853, 5e-7) // 107/109.2
	if _, ok2 := Interaction(100, 0, 104, 107); !ok || ok2 {
		t.Error("the interaction with nothing")
	}
	// σ = .5 % an arm, four arms a side: a main effect has σ√(2/4), an interaction σ√(4/4).
	const sd, n = .005, 4
	near(t, "SE of a main effect", sd*math.Sqrt(2./n), .003536, 5e-7)
	near(t, "SE of an interaction", sd*math.Sqrt(4./n), .005, 1e-12)
	// From separate estimates: the errors add in squares.
	main := func(d float64) Estimate { return Estimate{Diff: d, SE: .003, DF: 8} }
	e, ok := InteractionOf(main(math.Log(1.07)), []Estimate{main(math.Log(1.05)), main(math.Log(1.04))})
	near(t, "of estimates", e.Diff, -.0203522, 5e-8)
	near(t, "its SE", e.SE, .003*math.Sqrt(3), 1e-12)
	near(t, "its df", e.DF, 24, 1e-9) // (3v)²/(3v²/8)
	if !ok {
		t.Error("no interaction")
	}
	if _, ok := InteractionOf(main(1), []Estimate{{Diff: 1}}); ok {
		t.Error("an interaction without noise")
	}
}

func FuzzFactorial(f *testing.F) {
	f.Add(uint64(1), 1.0, 2.0)
	f.Fuzz(func(t *testing.T, seed uint64, level, sd float64) {
		if math.IsNaN(level) || math.Abs(level) > 1500 || math.IsNaN(sd) || math.Abs(sd) > 100 {
			t.Skip()
		}
		r := rand.New(rand.NewPCG(seed, 1))
		rows := PlackettBurman12()
		m := 1 + r.IntN(11)
		for i := range rows {
			rows[i] = rows[i][:m]
		}
		es, ok := Factorial(runsOf(rows, func([]float64) float64 { return level + sd*r.NormFloat64() }), r.IntN(2) == 0, &Noise{SD: math.Abs(sd), DF: 8})
		for _, e := range es {
			for _, v := range []float64{e.Diff, e.SE, e.DF, e.ArmSD, e.K} {
				if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("%+v", e)
				}
			}
			if low, high, ok := e.Interval(.95); ok && !(low <= high) {
				t.Fatalf("[%v, %v]", low, high)
			}
		}
	})
}
