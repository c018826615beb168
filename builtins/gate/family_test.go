package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// screened is a finished group of one lever with an effect and its standard error, on logarithms.
func screened(name, role string, log, se float64) *record.Group {
	e := stats.Estimate{Method: stats.MethodQuad, Diff: log, SE: se, DF: 11, ArmSD: se, K: 1, N: 1}
	rule := stats.Rule{MinEffect: .005}
	effect, _ := stats.Ratio(log)
	v, why := rule.Verdict(e)
	var stack []record.Lever
	for _, n := range strings.Split(name, "+") {
		stack = append(stack, record.Lever{Name: n, Hash: n})
	}
	return &record.Group{Name: role + " " + name, Role: role, Control: "A", Primary: "m", Better: "higher", MinEffect: .005, Verdict: v, Reason: why,
		Sides:       []record.Side{{Label: "A", Control: true}, {Label: "B", Stack: stack}},
		Comparisons: []record.Comparison{{Side: "B", Control: "A", Metric: "m", Verdict: v, Estimate: recorded(e, effect, rule, 0)}}}
}

func find(t *testing.T, ms []Member, what string) Member {
	t.Helper()
	for _, m := range ms {
		if m.What == what {
			return m
		}
	}
	t.Fatalf("no member %q among %v", what, ms)
	return Member{}
}

// A lever that is better by itself at p = .03 is none of twenty.
func TestFamilyOfTwenty(t *testing.T) {
	var gs []*record.Group
	for i := range 18 {
		gs = append(gs, screened(fmt.Sprintf("null%d", i), record.RoleScreen, .002*float64(1-2*(i%2)), .003))
	}
	lucky := .003 * stats.TQuantile(.985, 11) // two-sided p = .03
	gs = append(gs, screened("lucky", record.RoleScreen, lucky, .003), screened("good", record.RoleScreen, .05, .003))
	gs = append(gs, screened("lucky+good", record.RoleQualification, .048, .003))
	r := Family(gs)
	if len(r.Screens) != 20 || len(r.Claims) != 1 || r.Rule != "BH" {
		t.Fatalf("%d screens, %d claims, rule %q", len(r.Screens), len(r.Claims), r.Rule)
	}
	l, g := find(t, r.Screens, "lucky"), find(t, r.Screens, "good")
	if l.Verdict != record.Better || l.Passes || math.Abs(l.P-.03) > 1e-9 || math.Abs(l.Adjusted-.3) > 1e-9 { // .03·20/2
		t.Errorf("lucky: %+v", l)
	}
	if !g.Passes || g.Adjusted > 1e-6 {
		t.Errorf("good: %+v", g)
	}
	c := r.Claims[0]
	if !c.Passes || c.Promised == nil || c.Expected == nil || len(c.Missing) != 0 {
		t.Fatalf("claim: %+v", c)
	}
	if want := math.Expm1(lucky + .05); math.Abs(*c.Promised-want) > 1e-12 || *c.Expected >= *c.Promised {
		t.Errorf("the claim stands beside %v, shrunk %v, want %v and less", *c.Promised, *c.Expected, want)
	}
	// Three effects of SE .003 on 11 df: the contrast has .003·√3 on 33 df, t.975 2.0345.
	if i := .048 - .05 - lucky; c.Interaction == nil || math.Abs(math.Log1p(*c.Interaction)-i) > 1e-12 ||
		math.Abs(math.Log1p(c.Range[1])-i-2.0345*.003*math.Sqrt(3)) > 1e-6 {
		t.Errorf("interaction %v %v", c.Interaction, c.Range)
	}
	text := strings.Join(r.Lines(), "\n")
	for _, want := range []string{"20 screened effects as one family", "good +5.13 %", "does not stand among 20, although better by itself (q 0.3)", "where the screens showed"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if r.OneSided != "" {
		t.Errorf("alarm: %s", r.OneSided)
	}
}

func TestFamilyAlarmAndClaims(t *testing.T) {
	var gs []*record.Group
	for i := range 9 {
		gs = append(gs, screened(fmt.Sprint("l", i), record.RoleScreen, .004+.0003*float64(i), .003))
	}
	gs = append(gs, screened("l0+x", record.RoleQualification, .02, .003), screened("l1+l2", record.RoleQualification, .0073, .003))
	r := Family(gs)
	if !strings.Contains(r.OneSided, "9 of 9 screened effects point up") {
		t.Errorf("got %q", r.OneSided)
	}
	if m := r.Claims[0].Missing; !slices.Equal(m, []string{"x"}) {
		t.Errorf("missing %v", m)
	}
	// Holm of two: the larger p stays, the smaller doubles.
	if a, b := r.Claims[0], r.Claims[1]; a.Adjusted != 2*a.P || b.Adjusted != b.P || !a.Passes || !b.Passes {
		t.Errorf("claims %+v, %+v", a, b)
	}
	// What no one saw is no member: invalid groups, noise floors, groups without known noise.
	invalid := screened("bad", record.RoleScreen, .1, .003)
	invalid.Verdict = record.Invalid
	floor := screened("floor", record.RoleNoiseFloor, 0, .003)
	unknown := screened("unknown", record.RoleScreen, .1, .003)
	unknown.Comparisons[0].Estimate.SE = nil
	if r := Family([]*record.Group{invalid, floor, unknown}); len(r.Screens)+len(r.Claims) != 0 || len(r.Lines()) != 0 {
		t.Errorf("%+v", r)
	}
	if r := Family(nil); r.Lines() != nil || r.Rule != "" {
		t.Errorf("the family of nothing: %+v", r)
	}
}

// The family reads the verdict that the costs are part of: an effect that is paid for with too much does not stand.
func TestFamilyReadsCosts(t *testing.T) {
	dear := func(role string, log float64) *record.Group {
		g := screened("dear", role, log, .003)
		g.Costs = map[string]float64{"ttft_ms": .05}
		v := verdict{comparisons: g.Comparisons, held: []heldCost{{side: "B", shown: true, words: "cost ttft_ms is +9.00 %, beyond its limit +5.00 %"}}}
		v.comparisons[0].Reason = "+6.18 %"
		v.weigh(g)
		v.join(g)
		g.Comparisons, g.Verdict, g.Reason = v.comparisons, v.verdict, v.reason
		return g
	}
	for _, log := range []float64{.06, 0, -.06} {
		r := Family([]*record.Group{dear(record.RoleScreen, log), screened("good", record.RoleScreen, .05, .003), dear(record.RoleQualification, .06), screened("good", record.RoleQualification, .05, .003)})
		m := find(t, r.Screens, "dear")
		if m.Verdict != record.Worse || m.Passes != (log < 0) || !find(t, r.Screens, "good").Passes || r.Claims[0].Passes || !r.Claims[1].Passes {
			t.Errorf("log %g: got %+v and %+v", log, m, r.Claims)
		}
		text := strings.Join(r.Lines(), "\n")
		if got := strings.Contains(text, "worse for its costs (cost ttft_ms is +9.00 %, beyond its limit +5.00 %)"); got != (log >= 0) {
			t.Errorf("log %g: costs are told: %v, in\n%s", log, got, text)
		}
		if !strings.Contains(text, "worse all the same, for its costs (cost ttft_ms") {
			t.Errorf("a claim that its costs speak against stands in\n%s", text)
		}
	}
}

// The cases of a side are one finding under all and worst, and each its own under each.
func TestFamilyCases(t *testing.T) {
	g := screened("x", record.RoleScreen, .05, .003)
	second := screened("x", record.RoleScreen, .008, .003).Comparisons[0]
	g.Comparisons[0].Case, second.Case = "4K", "32K"
	g.Comparisons = append(g.Comparisons, second)
	r := Family([]*record.Group{g})
	if len(r.Screens) != 1 || r.Screens[0].Case != "" || r.Screens[0].Effect != second.Estimate.Effect {
		t.Errorf("all: %+v", r.Screens)
	}
	g.CaseRule = "each"
	if r := Family([]*record.Group{g}); len(r.Screens) != 2 || r.Screens[1].Case != "32K" {
		t.Errorf("each: %+v", r.Screens)
	}
}

// The p of a group that looked holds over its looks: at Pocock's level it is .05, whatever their number.
func TestFamilyPaysForLooks(t *testing.T) {
	for looks := 2; looks <= 5; looks++ {
		se := .01
		e := &record.Estimate{Log: se * stats.TQuantile(1-stats.PocockP(looks)/2, 1e9), SE: &se, DF: 1e9, Looks: looks}
		if p, ok := pOf(e); !ok || math.Abs(p-.05) > 1e-4 {
			t.Errorf("%d looks: got %v", looks, p)
		}
	}
}

// Of families of nulls, 5 % find something.
func TestFamilyErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	const runs = 1500
	found := 0
	for range runs {
		var gs []*record.Group
		for i := range 12 {
			se := .003 * math.Sqrt(stats11(r))
			gs = append(gs, screened(fmt.Sprint(i), record.RoleScreen, .003*r.NormFloat64(), se))
		}
		f := Family(gs)
		if slices.ContainsFunc(f.Screens, func(m Member) bool { return m.Passes }) {
			found++
		}
	}
	if rate := float64(found) / runs; rate < .03 || rate > .07 {
		t.Errorf("%v of families of nulls find something, want .05", rate)
	}
}

// stats11 is χ²/11 on 11 degrees of freedom.
func stats11(r *rand.Rand) float64 {
	s := 0.0
	for range 11 {
		x := r.NormFloat64()
		s += x * x / 11
	}
	return s
}

// The published campaign as one family: which of its screens stand together.
func TestFamilyOfSeeds(t *testing.T) {
	got := judgeSeeds(t, nil)
	var gs []*record.Group
	for _, s := range seeds(t).Groups {
		gs = append(gs, got[s.ID])
	}
	r := Family(gs)
	if len(r.Screens) != 16 || len(r.Claims) != 0 {
		t.Fatalf("%d screens, %d claims", len(r.Screens), len(r.Claims))
	}
	var fall []string
	for _, m := range r.Screens {
		if m.Adjusted < m.P-1e-15 || !(m.P > 0) || m.P > 1 || m.Adjusted > 1 {
			t.Errorf("%+v", m)
		}
		if !m.Passes {
			fall = append(fall, m.What)
		}
	}
	if want := []string{"flush512", "post-moe-flush-all-layers", "victim-prescan"}; !slices.Equal(fall, want) {
		t.Errorf("of 16 levers %v do not stand, want %v", fall, want)
	}
	// 15 of 16 up: 2·(16+1)/2¹⁶ = .00052.
	if !strings.Contains(r.OneSided, "15 of 16 screened effects point up (p 0.00052") {
		t.Errorf("got %q", r.OneSided)
	}
}
