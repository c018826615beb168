package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// designGroup is a factorial group of levers a, b, … on a base of one lever: runs in the order given, with a
// control before and after, values by what is on.
func designGroup(rows [][]bool, name string, y func(slot int, on []bool) float64) *record.Group {
	base := []record.Lever{{Name: "base", Hash: "base"}}
	lever := func(j int) record.Lever {
		n := string(rune('a' + j))
		return record.Lever{Name: n, Hash: n, Unconfirmed: "a test"}
	}
	g := &record.Group{ID: "d", Name: name, Role: record.RoleScreen, Design: name, Control: "U", Primary: "m", Better: "higher", MinEffect: .01, Cap: 1,
		Sides: []record.Side{{Label: "U", Control: true, Stack: base}}, Noise: []record.Noise{}}
	rows = append(append([][]bool{make([]bool, len(rows[0]))}, rows...), make([]bool, len(rows[0])))
	labels := map[string]string{fmt.Sprint(rows[0]): "U"}
	var order []string
	for slot, on := range rows {
		key := fmt.Sprint(on)
		if labels[key] == "" {
			labels[key] = fmt.Sprintf("R%d", len(labels))
			s := record.Side{Label: labels[key], Stack: append([]record.Lever(nil), base...)}
			for j, x := range on {
				if x {
					s.Stack = append(s.Stack, lever(j))
				}
			}
			g.Sides = append(g.Sides, s)
		}
		order = append(order, labels[key])
		v := y(slot, on)
		g.Arms = append(g.Arms, &record.Arm{Label: labels[key], Slot: slot, Seq: slot, Purpose: "measured", Disposition: record.OK,
			Metrics: []record.Metric{{Name: "m", Better: "higher", Value: &v}}})
	}
	for j := range rows[0] {
		g.Sides = append(g.Sides, record.Side{Label: lever(j).Name, Stack: append(append([]record.Lever(nil), base...), lever(j)), Estimated: true})
	}
	g.Order = strings.Join(order, " ")
	return g
}

func byLever(g *record.Group) map[string]record.Comparison {
	out := map[string]record.Comparison{}
	for _, c := range g.Comparisons {
		out[c.Side] = c
	}
	return out
}

// Section 3.8 through a judgement: effects of a Plackett-Burman group are ratios of each lever, with a drift.
func TestJudgeFactorial(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	effects := []float64{.05, 0, 0, -.03, 0, 0, 0, 0} // logarithms
	y := func(slot int, on []bool) float64 {
		v := math.Log(50) + .002*float64(slot) + .002*r.NormFloat64()
		for j, x := range on {
			if x && j < len(effects) {
				v += effects[j]
			}
		}
		return math.Exp(v)
	}
	rows := stats.PlackettBurman12()
	for i := range rows {
		rows[i] = rows[i][:8]
	}
	g := designGroup(rows, "plackett-burman-12", y)
	g.Noise = []record.Noise{{Metric: "m", SD: .002, DF: 30, From: "history"}}
	Judge(g, nil)
	if len(g.Comparisons) != 8 || g.Verdict != record.Inconclusive || !strings.HasPrefix(g.Reason, "levers differ: a better") {
		t.Fatalf("%d comparisons, %s: %s", len(g.Comparisons), g.Verdict, g.Reason)
	}
	for name, c := range byLever(g) {
		want := 0.0
		if j := int(name[0] - 'a'); j < len(effects) {
			want = effects[j]
		}
		if c.Estimate == nil || math.Abs(c.Estimate.Log-want) > .006 || c.Estimate.SE == nil || c.Estimate.Method != stats.MethodFactorial {
			t.Errorf("%s: %+v", name, c.Estimate)
		}
		// 12 runs and two controls: about 4σ²/12 each, and more for the drift and the unbalanced controls.
		if se := *c.Estimate.SE; se > .002*1.1 {
			t.Errorf("%s: SE %v", name, se)
		}
		if c.NControl+c.NSide != 14 || c.NSide != 6 {
			t.Errorf("%s: %d arms without, %d with", name, c.NControl, c.NSide)
		}
	}
	if a, d := byLever(g)["a"], byLever(g)["d"]; a.Verdict != record.Better || d.Verdict != record.Worse {
		t.Errorf("a %s, d %s", a.Verdict, d.Verdict)
	}
	if !strings.Contains(strings.Join(g.Warnings, "\n"), "of each interaction of two other levers") {
		t.Errorf("no word about interactions: %v", g.Warnings)
	}
	// Asked again, the same; and it lends no noise.
	first := fmt.Sprint(g.Comparisons, g.Reason, g.Warnings)
	Judge(g, nil)
	if again := fmt.Sprint(g.Comparisons, g.Reason, g.Warnings); len(again) != len(first) {
		t.Error("judged differently the second time")
	}
	next := &record.Group{ID: "n", Primary: "m"}
	Borrow(next, []*record.Group{g})
	if len(next.Noise) != 0 {
		t.Errorf("borrowed %v from a factorial residual", next.Noise)
	}
	if why := Hopeless(g); why != "" {
		t.Errorf("hopeless: %s", why)
	}
	// In a family each lever is a member, and no run of the design is.
	if f := Family([]*record.Group{g}); len(f.Screens) != 8 {
		t.Errorf("%d members", len(f.Screens))
	}
}

// A saturated design without known noise takes Lenth's; a fraction names what it cannot tell apart.
func TestJudgeSaturated(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	y := func(slot int, on []bool) float64 {
		v := math.Log(50) + .001*r.NormFloat64()
		if on[0] {
			v += .05
		}
		return math.Exp(v)
	}
	g := designGroup(stats.PlackettBurman12(), "plackett-burman-12", y)
	Judge(g, nil)
	c := byLever(g)
	if c["a"].Verdict != record.Better || !strings.Contains(c["a"].Estimate.Borrowed, "Lenth") {
		t.Errorf("a: %s, %+v", c["a"].Verdict, c["a"].Estimate)
	}
	g = designGroup(stats.Fraction8(5), "fraction-8", y)
	Judge(g, nil)
	if w := strings.Join(g.Warnings, "\n"); !strings.Contains(w, "cannot be told from interactions") || !strings.Contains(w, "e = ") {
		t.Errorf("aliases are not named: %v", w)
	}
}

// What is missing or broken in a design has a reason and no number.
func TestJudgeFactorialEdges(t *testing.T) {
	y := func(slot int, on []bool) float64 { return 50 }
	make := func() *record.Group { return designGroup(stats.Fraction8(4), "fraction-8", y) }

	g := make()
	Judge(g, nil)
	for _, c := range g.Comparisons { // no variation at all
		if c.Estimate == nil || c.Estimate.Effect != 0 || c.Verdict != record.Equivalent {
			t.Errorf("%+v", c)
		}
	}
	g = make()
	g.Arms[3].Metrics = nil
	Judge(g, nil)
	if g.Verdict != record.Invalid || len(g.Warnings) == 0 || g.Comparisons[0].Estimate != nil {
		t.Errorf("a missing value: %s: %s", g.Verdict, g.Reason)
	}
	g = make()
	zero := 0.0
	g.Arms[3].Metrics[0].Value = &zero
	Judge(g, nil)
	if g.Comparisons[0].Estimate != nil || !strings.Contains(g.Comparisons[0].Reason, "not all positive") {
		t.Errorf("a zero: %+v", g.Comparisons[0])
	}
	g = make()
	g.Arms = g.Arms[:5]
	Judge(g, nil)
	if g.Verdict != record.Invalid || !strings.Contains(g.Reason, "5 of 10 arms") {
		t.Errorf("half a design: %s: %s", g.Verdict, g.Reason)
	}
	g = make()
	g.Arms[2].Disposition, g.Arms[2].Reason = record.Infeasible, "out of memory"
	Judge(g, nil)
	if g.Verdict != record.Infeasible {
		t.Errorf("a side that cannot run: %s", g.Verdict)
	}
	g = make()
	g.Costs, g.CostsShown = map[string]float64{"m2": -.01}, nil
	for i, a := range g.Arms {
		v := 10.0
		if i%2 == 0 {
			v = 9
		}
		a.Metrics = append(a.Metrics, record.Metric{Name: "m2", Better: "higher", Value: &v})
	}
	Judge(g, nil)
	costs := 0
	for _, c := range g.Comparisons {
		if c.Cost {
			costs++
		}
	}
	if costs != 4 {
		t.Errorf("%d costs, want one for each lever", costs)
	}
}
