package gate

import (
	"math"
	"strings"
	"testing"

	"flow/workflows/record"
)

// risingLadder is U S1 U S2 U S3 U twice: S1 has a, S2 a and b, S3 a, b and c.
func risingLadder(y map[string]float64) *record.Group {
	a, b, c := lever("a"), lever("b"), lever("c")
	g := ab("")
	g.Role, g.Control, g.Order, g.Cap = record.RoleLadder, "U", "U S1 U S2 U S3 U", 2
	g.Sides = []record.Side{{Label: "U", Control: true}, {Label: "S1", Stack: []record.Lever{a}},
		{Label: "S2", Stack: []record.Lever{a, b}}, {Label: "S3", Stack: []record.Lever{a, b, c}}}
	for b := range 2 {
		for i, l := range strings.Fields(g.Order) {
			wobble := 1 + .0004*float64((7*i+3*b)%5-2)
			m := value("ttft_ms", 10*wobble)
			if l == "S2" || l == "S3" {
				m = value("ttft_ms", 10*wobble*y["ttft"])
			}
			m.Better = "lower"
			g.Arms = append(g.Arms, &record.Arm{Label: l, Block: b, Slot: i, Seq: len(g.Arms), Purpose: "measured", Disposition: record.OK, Group: g,
				Metrics: []record.Metric{value(g.Primary, y[l]*wobble), m}})
		}
	}
	return g
}

// A lever that does harm does not hide behind the levers below it: its own step is worse, though the rung is still
// better than the control, and the family reads the steps.
func TestStepsShowTheHarmfulLever(t *testing.T) {
	g := risingLadder(map[string]float64{"U": 100, "S1": 110, "S2": 110, "S3": 103.4, "ttft": 1})
	Judge(g, nil)
	for _, c := range g.Comparisons {
		if c.Verdict != record.Better {
			t.Errorf("%s over the control: %s", c.Side, c.Verdict)
		}
	}
	if len(g.Steps) != 2 {
		t.Fatalf("got steps %+v", g.Steps)
	}
	b, c := g.Steps[0], g.Steps[1]
	if b.Side != "S2" || b.Control != "S1" || b.Verdict != record.Equivalent || c.Side != "S3" || c.Control != "S2" || c.Verdict != record.Worse {
		t.Errorf("got %s over %s %s, %s over %s %s", b.Side, b.Control, b.Verdict, c.Side, c.Control, c.Verdict)
	}
	// 103.4/110 - 1 = -6 %; the wobble of the arms is at most .08 %.
	if e := c.Estimate.Effect; math.Abs(e+.06) > .002 || math.Abs(*c.MedianControl-110) > .1 || c.NControl != 2 {
		t.Errorf("the step of c: %+v", c)
	}
	if g.Verdict != record.Inconclusive || !strings.Contains(g.Reason, "c (S3 over S2) is worse") {
		t.Errorf("got %s: %s", g.Verdict, g.Reason)
	}
	got := map[string]string{}
	for _, m := range Family([]*record.Group{g}).Screens {
		got[m.What] = m.Verdict
	}
	if len(got) != 3 || got["a"] != record.Better || got["b"] != record.Equivalent || got["c"] != record.Worse {
		t.Errorf("family: %v", got)
	}
	if w := strings.Join(g.Warnings, "\n"); strings.Contains(w, "rungs share controls") {
		t.Errorf("steps are told twice: %s", w)
	}
}

// What a rung costs speaks on the step that brought it, and not on the next one.
func TestStepsReadCosts(t *testing.T) {
	g := risingLadder(map[string]float64{"U": 100, "S1": 105, "S2": 110, "S3": 116, "ttft": 1.2})
	g.Costs = map[string]float64{"ttft_ms": .05}
	Judge(g, nil)
	if len(g.Steps) != 2 || g.Steps[0].Verdict != record.Worse || !strings.HasPrefix(g.Steps[0].Reason, "cost ttft_ms") || g.Steps[1].Verdict != record.Better {
		t.Errorf("got %+v", g.Steps)
	}
	for _, m := range Family([]*record.Group{g}).Screens {
		if m.Passes == (m.What == "b") {
			t.Errorf("family: %+v", m)
		}
	}
}

// Rungs that do not stand on each other have no steps; levels of one flag take each other's place, and that is said.
func TestStepsOfWhatAddsUp(t *testing.T) {
	y := map[string]float64{"U": 100, "S1": 110, "S2": 110, "S3": 103.4, "ttft": 1}
	g := risingLadder(y)
	g.Sides[2].Stack = g.Sides[2].Stack[1:]
	if Judge(g, nil); g.Steps != nil || !strings.Contains(strings.Join(g.Warnings, "\n"), "rungs share controls") {
		t.Errorf("got %+v and %q", g.Steps, g.Warnings)
	}
	g = risingLadder(y)
	for i, d := range []map[string]string{{"arg -t": "2"}, {"arg -t": "2", "arg -level": "5"}, {"arg -t": "2", "arg -level": "3"}, {"arg -t": "2", "arg -level": "3", "env X": "1"}} {
		g.Sides[i].Command.Delta = d
	}
	got := TakenBack(g)
	if len(got) != 1 || !strings.Contains(got[0], "rung S2 sets arg -level to 3, which S1 had set to 5") || !strings.Contains(got[0], "cumulative = False") {
		t.Errorf("got %q", got)
	}
}
