package gate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// sessions is how many sessions a simulated rate has; FLOW_SESSIONS asks for more.
func sessions(t testing.TB) int {
	if n, err := strconv.Atoi(os.Getenv("FLOW_SESSIONS")); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return 400
	}
	return 1200
}

// session runs the default screen (decided, hopeless, at most 4 quads) on simulated arms and gives what it
// ends with.
func session(r *rand.Rand, past []*record.Group, effect, sd, drift float64) (g *record.Group, quads int) {
	whole := quadsOf(r, 4, effect, sd, drift)
	g = ab("")
	g.MinEffect, g.Sequential = 0, true
	Borrow(g, past)
	for q := range 4 {
		g.Arms = append(g.Arms, whole.Arms[4*q:4*q+4]...)
		if why := Decided(g); why != "" {
			g.Stopped = "decided: " + why
			break
		}
		if why := Hopeless(g); why != "" {
			g.Stopped = "hopeless: " + why
			break
		}
	}
	Judge(g, past)
	return g, len(g.Arms) / 4
}

// The default rule end to end: false verdicts under no effect, with drift, with and without history; and that
// a true effect of four sd of an arm is found in far fewer arms than the cap.
func TestDefaultRuleErrors(t *testing.T) {
	n := sessions(t)
	for _, c := range []struct {
		name   string
		past   bool
		effect float64
		drift  float64
	}{{"no effect", false, 0, 0}, {"drift of 1 sd an arm", false, 0, .003}, {"no effect, history", true, 0, 0}, {"a true effect, history", true, .012, .001}, {"a true effect", false, .012, 0}} {
		r := rand.New(rand.NewPCG(9, uint64(len(c.name))))
		count := map[string]int{}
		quads := 0
		for range n {
			var past []*record.Group
			if c.past {
				past = []*record.Group{pastQuads(r, "old", 5, .003)}
			}
			g, q := session(r, past, c.effect, .003, c.drift)
			count[g.Verdict]++
			quads += q
		}
		t.Logf("%s: %v, %.2f quads", c.name, count, float64(quads)/float64(n))
		rate := func(v string) float64 { return float64(count[v]) / float64(n) }
		tol := 4 * math.Sqrt(.05*.95/float64(n))
		if c.effect == 0 && (rate(record.Better)+rate(record.Worse) > .05+tol || rate(record.Better) > .03+tol) {
			t.Errorf("%s: false verdicts %v of %d", c.name, count, n)
		}
		if c.effect > 0 && (rate(record.Better) < .95 || float64(quads)/float64(n) > 3) {
			t.Errorf("%s: %v of %d in %.2f quads", c.name, count, n, float64(quads)/float64(n))
		}
	}
}

// How often hopeless() gives up a lever that is truly better by its min_effect, looking inside blocks too.
func TestHopelessErrors(t *testing.T) {
	n := sessions(t)
	for _, c := range []struct {
		name string
		past bool
		sd   float64
	}{{"known noise", true, .003}, {"no history, calm", false, .003}, {"no history, noisy", false, .03}} {
		r := rand.New(rand.NewPCG(10, uint64(len(c.name))))
		gave := 0
		for range n {
			whole := quadsOf(r, 4, math.Log1p(.01), c.sd, 0)
			g := ab("")
			if c.past {
				Borrow(g, []*record.Group{pastQuads(r, "old", 5, c.sd)})
			}
			for i, a := range whole.Arms {
				g.Arms = append(g.Arms, a)
				if i > 0 && Hopeless(g) != "" {
					gave++
					break
				}
			}
		}
		rate := float64(gave) / float64(n)
		t.Logf("%s: %.4f", c.name, rate)
		if rate > .035 {
			t.Errorf("%s: a lever better by min_effect is given up in %.4f of sessions", c.name, rate)
		}
	}
}

// The rule of hopeless() that needs no known noise, alone, on one quad: for a lever that is worth nothing.
func TestHopelessWithoutNoise(t *testing.T) {
	n := 5 * sessions(t)
	for _, sd := range []float64{.003, .03, .1, .3} {
		r := rand.New(rand.NewPCG(12, uint64(1e4*sd)))
		gave := 0
		for range n {
			if Hopeless(quadsOf(r, 1, 0, sd, 0)) != "" {
				gave++
			}
		}
		rate := float64(gave) / float64(n)
		t.Logf("sd %g: %.4f", sd, rate)
		if rate > .015 {
			t.Errorf("sd %g: given up in %.4f of sessions", sd, rate)
		}
	}
}

// Swapping the labels of the sides turns every ratio over; scaling the metric changes no ratio; the order in
// which arms are listed changes nothing.
func TestJudgeProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	for range 500 {
		g := quadsOf(r, 1+r.IntN(4), .03*r.NormFloat64(), .005, .002*r.NormFloat64())
		Judge(g, nil)
		e := g.Comparisons[0].Estimate

		swapped := ab("")
		scaled := ab("")
		shuffled := ab("")
		for _, a := range g.Arms {
			x, y, z := *a, *a, *a
			x.Label = map[string]string{"A": "B", "B": "A"}[a.Label]
			v := *a.Metrics[0].Value * 37
			y.Metrics = []record.Metric{value("decode_tok_s", v)}
			swapped.Arms, scaled.Arms, shuffled.Arms = append(swapped.Arms, &x), append(scaled.Arms, &y), append(shuffled.Arms, &z)
		}
		r.Shuffle(len(shuffled.Arms), func(i, j int) {
			shuffled.Arms[i], shuffled.Arms[j] = shuffled.Arms[j], shuffled.Arms[i]
		})
		for _, x := range []*record.Group{swapped, scaled, shuffled} {
			Judge(x, nil)
		}
		s := swapped.Comparisons[0].Estimate
		if math.Abs(s.Log+e.Log) > 1e-12 || math.Abs((1+*s.Low)*(1+*e.High)-1) > 1e-9 {
			t.Fatalf("swapped: %+v of %+v", s, e)
		}
		flip := map[string]string{record.Better: record.Worse, record.Worse: record.Better}
		if want, ok := flip[g.Verdict]; ok && math.Abs(e.Log) > .0103 && swapped.Verdict != want {
			t.Fatalf("swapped: %s of %s", swapped.Verdict, g.Verdict)
		}
		if x := scaled.Comparisons[0].Estimate; math.Abs(x.Log-e.Log) > 1e-12 || math.Abs(*x.Low-*e.Low) > 1e-9 || scaled.Verdict != g.Verdict {
			t.Fatalf("scaled: %+v of %+v", x, e)
		}
		if x := shuffled.Comparisons[0].Estimate; !reflect.DeepEqual(x, e) || shuffled.Reason != g.Reason {
			t.Fatalf("shuffled: %+v of %+v", x, e)
		}
	}
}

// randomGroup is a small group of any kind, with anything wrong in it.
func randomGroup(r *rand.Rand) *record.Group {
	orders := []string{"", "ABBA", "BAAB", "ABAB", "AB", "BA", "ABBABAAB", "AABB", "ABA", "A B A B A", "ABB", "U S1 U S2 U", "U S1 S2 S2 S1 U", "Q"}
	g := ab(orders[r.IntN(len(orders))])
	if strings.HasPrefix(g.Order, "U") {
		g.Control, g.Sides = "U", []record.Side{{Label: "U"}, {Label: "S1"}, {Label: "S2"}}
	}
	g.Cap, g.MinEffect = 1+r.IntN(5), []float64{0, .01, .5}[r.IntN(3)]
	g.Sequential = r.IntN(2) == 0
	g.Superior = r.IntN(4) == 0
	g.Stops = [][]string{nil, nil, {"decided"}, {"always_valid"}, {`always_valid {"kind":"sign"}`}}[r.IntN(5)]
	g.Better = []string{"higher", "lower", ""}[r.IntN(3)]
	g.CaseRule = []string{"", "all", "worst", "each"}[r.IntN(4)]
	g.Stopped = []string{"", "hopeless: x"}[r.IntN(2)]
	g.Costs = map[string]float64{"cost": r.NormFloat64() / 10}
	values := []float64{0, -1, 1, 1, 100, 100.5, 101, 99, 1e308, 1e-308, math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1)}
	calm := r.IntN(2) == 0
	labels := plan.Labels(g.Order)
	for b := range r.IntN(5) {
		l := labels
		if len(l) == 0 {
			l = plan.Labels([]string{"ABBA", "BAAB"}[r.IntN(2)])
		}
		for slot, label := range l {
			if r.IntN(12) == 0 {
				continue
			}
			a := &record.Arm{Label: label, Block: b, Slot: slot, Seq: len(g.Arms), Purpose: "measured", Disposition: record.OK, Group: g}
			if r.IntN(15) == 0 {
				a.Disposition = []string{record.Invalid, record.Failed, record.Superseded, record.Infeasible, ""}[r.IntN(5)]
			}
			for _, name := range []string{g.Primary, "cost"} {
				for c := range 1 + r.IntN(2)*r.IntN(2) {
					v := 100 + r.NormFloat64()
					if !calm {
						v = values[r.IntN(len(values))]
					}
					m := value(name, v)
					m.Case = []string{"", "4K"}[c]
					if r.IntN(15) == 0 {
						m.Value, m.Withheld = nil, &v
					}
					a.Metrics = append(a.Metrics, m)
				}
			}
			g.Arms = append(g.Arms, a)
		}
	}
	return g
}

// checkFinite fails on any number that is not one, anywhere in what was judged.
func checkFinite(t *testing.T, g *record.Group) {
	t.Helper()
	x := *g
	x.Arms = nil
	if _, err := json.Marshal(x); err != nil { // refuses NaN and infinities
		t.Fatalf("order %q: %v\n%+v", g.Order, err, g.Comparisons)
	}
	if g.Verdict == "" || g.Reason == "" {
		t.Fatalf("order %q: verdict %q without a reason or the other way round: %q", g.Order, g.Verdict, g.Reason)
	}
	text := g.Reason + strings.Join(g.Warnings, " ")
	for _, c := range g.Comparisons {
		text += c.Reason
	}
	for _, bad := range []string{"NaN", "Inf", "%!"} {
		if strings.Contains(text, bad) {
			t.Fatalf("order %q says %s: %s", g.Order, bad, text)
		}
	}
}

func judgeEverything(t *testing.T, r *rand.Rand) {
	t.Helper()
	past := []*record.Group{randomGroup(r), randomGroup(r)}
	for _, p := range past {
		p.ID, p.SessionID = "past", []string{"s", "t"}[r.IntN(2)]
		Judge(p, nil)
		checkFinite(t, p)
	}
	g := randomGroup(r)
	Decided(g)
	Judge(g, past)
	checkFinite(t, g)
	Decided(g)
	Hopeless(g)
	Futile(g)
	Equivalent(g)
	AlwaysValid(g)
	for _, a := range g.Arms {
		JudgeArm(a)
	}
}

func TestNoNaNAnywhere(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 500
	}
	for seed := range uint64(n) {
		judgeEverything(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func FuzzJudge(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { judgeEverything(t, rand.New(rand.NewPCG(a, b))) })
}

func BenchmarkJudgeOneQuad(b *testing.B) {
	g := block(ab(""), 0, "ABBA", 100, 104, 101, 99)
	for b.Loop() {
		Judge(g, nil)
	}
}

func BenchmarkLookFourQuads(b *testing.B) {
	g := quadsOf(rand.New(rand.NewPCG(1, 1)), 4, .001, .01, 0)
	for b.Loop() {
		Decided(g)
		Hopeless(g)
	}
}

func BenchmarkKnownNoise(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var past []*record.Group
	for range 50 {
		past = append(past, pastQuads(r, "old", 2, .003))
	}
	g := ab("")
	for b.Loop() {
		KnownNoise(g, past)
	}
}
