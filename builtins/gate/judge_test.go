package gate

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"flow/builtins/stats"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func warned(g *record.Group, words string) bool {
	return strings.Contains(strings.Join(g.Warnings, "\n"), words)
}

// quadsOf is a group of quads with a true effect, noise and drift, on logarithms.
func quadsOf(r *rand.Rand, n int, effect, sd, drift float64) *record.Group {
	g := ab("")
	for q := range n {
		labels := "ABBA"
		if q%2 == 1 {
			labels = "BAAB"
		}
		var y []float64
		for i, l := range labels {
			x := math.Log(100) + sd*r.NormFloat64() + drift*float64(4*q+i)
			if l == 'B' {
				x += effect
			}
			y = append(y, math.Exp(x))
		}
		block(g, q, labels, y...)
	}
	return g
}

func TestJudgeVerdicts(t *testing.T) {
	for _, c := range []struct {
		name   string
		g      func() *record.Group
		want   string
		reason string
		warn   string
	}{
		{"section 4's two quads", func() *record.Group {
			return block(block(ab("ABBABAAB"), 0, "ABBA", 100.0, 102.3, 102.9, 101.1), 1, "BAAB", 103.0, 101.2, 101.5, 103.9)
		}, record.Better, "+2.06 % [+1.86 %, +2.25 %] at 95 %, 2 quads", ""},
		{"a loss", func() *record.Group {
			return block(block(ab(""), 0, "ABBA", 100, 95, 95.1, 100), 1, "BAAB", 95, 100, 100.1, 95)
		}, record.Worse, "-5.00 % [", ""},
		{"lower is better", func() *record.Group {
			g := ab("")
			g.Better = "lower"
			return block(block(g, 0, "ABBA", 100, 95, 95.1, 100), 1, "BAAB", 95, 100, 100.1, 95)
		}, record.Better, "-5.00 % [", ""},
		{"equivalent", func() *record.Group {
			return block(block(ab(""), 0, "ABBA", 100, 100.1, 100, 100.1), 1, "BAAB", 100, 100.1, 100, 100)
		}, record.Equivalent, "", ""},
		{"one noisy quad", func() *record.Group { return block(ab(""), 0, "ABBA", 100, 104, 101, 99) }, record.Inconclusive, "the interval holds 0; about ", "two runs of side B: an observed range, not an interval"},
		{"no residual variation", func() *record.Group { return block(ab(""), 0, "ABBA", 100, 102, 102, 100) }, record.Better, "+2.00 % [+2.00 %, +2.00 %]", "decode_tok_s: no residual variation, df=1"},
		{"nothing changes", func() *record.Group { return block(ab(""), 0, "ABBA", 100, 100, 100, 100) }, record.Equivalent, "", "no residual variation"},
		{"one pair", func() *record.Group { return block(ab("AB"), 0, "AB", 100, 105) }, record.Inconclusive, "+5.00 % without an interval, 1 block; no noise is known", "drift-confounded order AB"},
		{"two pairs", func() *record.Group { return block(block(ab("AB"), 0, "AB", 100, 105), 1, "AB", 100, 105.1) }, record.Better, "", "drift-confounded order AB"},
		{"ABAB with drift", func() *record.Group { return block(ab("ABAB"), 0, "ABAB", 100, 103, 102, 105) }, record.Better, "", "with a drift of +0.98 % an arm fitted the effect is +1.97 %"},
		{"BAAB twice", func() *record.Group {
			return block(block(ab("BAAB"), 0, "BAAB", 102, 100, 100, 102.1), 1, "BAAB", 102, 100, 100.1, 102)
		}, record.Better, "", "all 2 quads have one orientation"},
		{"nothing measured", func() *record.Group { return ab("") }, record.Invalid, "no arm was measured", ""},
		{"an unfinished block", func() *record.Group { return block(ab(""), 0, "ABBA", 100, 110) }, record.Invalid, "no valid block: block 1: 2 of 4 arms", ""},
		{"a block left out", func() *record.Group {
			g := block(block(ab(""), 0, "ABBA", 100, 105, 105, 100.1), 1, "BAAB", 90, 100, 100, 105)
			g.Arms[4].Disposition, g.Arms[4].Reason = record.Invalid, "gate clock: observed 762"
			return g
		}, record.Better, "1 quad", "block 2 left out: arm B5 is invalid: gate clock: observed 762"},
		{"infeasible", func() *record.Group {
			g := block(ab(""), 0, "ABBA", 100, 105, 105)
			g.Arms[1].Disposition, g.Arms[1].Reason = record.Infeasible, "no such file: ./nothing"
			return g
		}, record.Infeasible, "side B cannot run: no such file: ./nothing", ""},
		{"withheld", func() *record.Group {
			g := block(block(ab(""), 0, "ABBA", 100, 105, 105, 100.1), 1, "BAAB", 105, 100, 100, 105)
			v := 105.0
			g.Arms[7].Metrics[0] = record.Metric{Name: "decode_tok_s", Withheld: &v, Why: "usage says 200 tokens, the log 180"}
			return g
		}, record.Better, "1 quad", "block 2 left out: arm B8: decode_tok_s is withheld: usage says 200 tokens, the log 180"},
		{"all withheld", func() *record.Group {
			g := block(ab(""), 0, "ABBA", 100, 105, 105, 100.1)
			g.Arms[0].Metrics[0] = record.Metric{Name: "decode_tok_s", Why: "no usage"}
			return g
		}, record.Invalid, "no block has decode_tok_s on both sides: block 1 left out: arm A1: decode_tok_s was not measured: no usage", ""},
		{"a value without a logarithm", func() *record.Group { return block(ab(""), 0, "ABBA", 0, 5, 5, 1) }, record.Inconclusive, "the values are not all positive", ""},
		{"a gate of the group", func() *record.Group {
			g := block(ab(""), 0, "ABBA", 100, 105, 105, 100.1)
			g.Arms[2].Findings = []record.Finding{{Gate: "range", Scope: "group", Outcome: record.Pass, Required: true}}
			g.Arms[3].Findings = []record.Finding{{Gate: "range", Scope: "group", Outcome: record.Fail, Required: true, Observed: "3 %", Limit: "2 %"}}
			return g
		}, record.Invalid, "gate range: observed 3 %, limit 2 %", ""},
		{"an unconfirmed lever", func() *record.Group {
			g := ab("", lever("env", plan.Confirm{Kind: plan.ConfirmNone, Reason: "the engine prints nothing"}))
			return block(g, 0, "ABBA", 100, 105, 105, 100.1)
		}, record.Better, "", "lever env is unconfirmed: the engine prints nothing"},
		{"attached", func() *record.Group {
			g := block(ab(""), 0, "ABBA", 100, 105, 105, 100.1)
			g.Arms[2].Attached = true
			return g
		}, record.Better, "", "weaker evidence"},
		{"an unbalanced record", func() *record.Group { return block(ab("ABBB"), 0, "ABBB", 100, 105, 105.1, 105.2) }, record.Better, "", ""},
		{"a noise floor", func() *record.Group {
			g := ab("")
			g.Role = record.RoleNoiseFloor
			return block(g, 0, "ABBA", 100, 100.2, 100.1, 100)
		}, record.Equivalent, "", "noise floor: one arm varies by 0.067 % (1 df)"},
		{"sides without a control", func() *record.Group {
			g := block(ab("ABBA"), 0, "ABBA", 1, 2, 3, 4)
			g.Control = "X"
			return g
		}, record.Invalid, "", ""},
	} {
		g := c.g()
		Judge(g, nil)
		if g.Verdict != c.want || !strings.Contains(g.Reason, c.reason) || c.warn != "" && !warned(g, c.warn) {
			t.Errorf("%s: got %s: %s\n\t%s", c.name, g.Verdict, g.Reason, strings.Join(g.Warnings, "\n\t"))
		}
		again := *g
		Judge(&again, nil)
		if !reflect.DeepEqual(g, &again) {
			t.Errorf("%s: judged again, it says something else", c.name)
		}
	}
}

// costGroup is a quad in which B is 5 % better, with a cost of 100 and of b on the sides; spread is how much the
// cost of equal arms differs.
func costGroup(better string, limit, a, b, spread float64) *record.Group {
	g := block(ab(""), 0, "ABBA", 100, 105, 105.1, 100.1)
	g.Costs = map[string]float64{"cost": limit}
	g.CostsShown = []string{"shown", "absent"}
	for i, l := range "ABBA" {
		v := a
		if l == 'B' {
			v = b
		}
		v *= 1 + spread*[]float64{1, -1, 1, -1}[i]
		m := value("cost", v)
		m.Better = better
		g.Arms[i].Metrics = append(g.Arms[i].Metrics, m, value("shown", []float64{3, 30, 30, 3}[i]))
	}
	return g
}

func TestCosts(t *testing.T) {
	const sure, unsure = .0001, .02
	for _, c := range []struct {
		name          string
		better        string
		limit, b      float64
		spread        float64
		want, broken  string
		reason, warns string
	}{
		{"within", "higher", -.03, 98, sure, record.Better, "", "", ""},
		{"less of what should be high", "higher", -.03, 96, sure, record.Worse, "broken", "cost cost is -4.0", "beyond its limit"},
		{"more of what should be high", "higher", -.03, 120, sure, record.Better, "", "", ""},
		{"within", "lower", .05, 104, sure, record.Better, "", "", ""},
		{"more of what should be low", "lower", .05, 166.9, sure, record.Worse, "broken", "beyond its limit +5.00 %; decode_tok_s alone is better: +5.00 %", "beyond its limit"},
		{"less of what should be low", "lower", .05, 50, sure, record.Better, "", "", ""},
		{"beyond and not shown", "lower", .05, 106, unsure, record.Inconclusive, "broken", "beyond its limit +5.00 %, which these blocks do not show; decode_tok_s alone is better", "beyond its limit"},
		{"within and not shown", "lower", .05, 104, unsure, record.Better, "", "", "the interval reaches past it"},
		{"no direction, a limit below", "", -.03, 96, sure, record.Worse, "broken", "beyond its limit -3.00 %", "beyond"},
		{"no direction, a limit above", "", .05, 106, sure, record.Worse, "broken", "beyond its limit +5.00 %", "beyond"},
		{"no direction, the other way", "", .05, 96, sure, record.Better, "", "", ""},
		{"a limit of the wrong sign", "higher", .03, 100, sure, record.Worse, "broken", "beyond its limit +3.00 %", "asks for a gain, because higher is better: a loss that is accepted is -3.00 %"},
		{"nothing changed, and nothing may", "lower", 0, 100, 0, record.Better, "", "", ""},
	} {
		g := costGroup(c.better, c.limit, 100, c.b, c.spread)
		Judge(g, nil)
		if g.Verdict != c.want || !strings.Contains(g.Reason, c.reason) || c.reason == "" && strings.Contains(g.Reason, "cost") {
			t.Errorf("%s %q: got %s: %s, want %s", c.name, c.better, g.Verdict, g.Reason, c.want)
		}
		if c.warns != "" && !warned(g, c.warns) || !warned(g, "cost absent was not measured") {
			t.Errorf("%s: %v", c.name, g.Warnings)
		}
		for _, x := range g.Comparisons {
			if x.Metric == "cost" && (!x.Cost || x.CostBroken != (c.broken != "") || x.BlocksNeeded != nil) {
				t.Errorf("%s: %+v", c.name, x)
			}
			if x.Metric == g.Primary && x.Verdict != c.want {
				t.Errorf("%s: the comparison says %s, the group %s", c.name, x.Verdict, c.want)
			}
		}
	}
	// A cost of zeros did not change, one that came from zero did, and one that was not measured leaves no better.
	g := costGroup("lower", .05, 0, 0, 0)
	if Judge(g, nil); g.Verdict != record.Better || warned(g, "beyond") {
		t.Errorf("zeros: %s %s %v", g.Verdict, g.Reason, g.Warnings)
	}
	g = costGroup("lower", .05, 0, 12, 0)
	if Judge(g, nil); g.Verdict != record.Inconclusive || !strings.Contains(g.Reason, "12 in its median where the control has 0") {
		t.Errorf("from zero: %s %s", g.Verdict, g.Reason)
	}
	g = costGroup("lower", .05, 100, 100, sure)
	g.Arms[1].Metrics[1].Value, g.Arms[1].Metrics[1].Why = nil, "no sensor"
	if Judge(g, nil); g.Verdict != record.Inconclusive || !strings.Contains(g.Reason, "cost cost was not measured") || !strings.Contains(g.Reason, "no sensor") {
		t.Errorf("not measured: %s %s", g.Verdict, g.Reason)
	}
	g = costGroup("lower", .05, 100, 100, sure)
	g.Costs["never"] = .05
	if Judge(g, nil); g.Verdict != record.Inconclusive || !strings.Contains(g.Reason, "cost never was not measured: no arm has it") {
		t.Errorf("never measured: %s %s", g.Verdict, g.Reason)
	}
}

// TestCostsOfCasesAndRungs: a cost speaks on its own side and case.
func TestCostsOfCasesAndRungs(t *testing.T) {
	g := costGroup("lower", .05, 100, 166.9, .0001)
	for _, a := range g.Arms {
		p, c := a.Metrics[0], a.Metrics[1]
		a.Metrics = nil
		for _, cs := range []string{"4K", "32K"} {
			q, k := p, c
			q.Case, k.Case = cs, cs
			if cs == "4K" {
				k.Value = finite(100)
			}
			a.Metrics = append(a.Metrics, q, k)
		}
	}
	for rule, want := range map[string]string{"all": record.Worse, "worst": record.Worse, "each": record.Inconclusive} {
		g.CaseRule = rule
		if Judge(g, nil); g.Verdict != want || g.Comparisons[0].Verdict != record.Better || g.Comparisons[1].Verdict != record.Worse {
			t.Errorf("%s: got %s: %s, want %s", rule, g.Verdict, g.Reason, want)
		}
	}
	ladder := ab("", lever("x"))
	ladder.Sides[1].Label = "S1"
	ladder.Sides = append(ladder.Sides, record.Side{Label: "S2", Stack: []record.Lever{lever("y")}})
	ladder.Role, ladder.Costs = record.RoleLadder, map[string]float64{"cost": .05}
	for b := range 2 {
		y, labels := []float64{100, 105, 100.1, 105.1, 100}, []string{"A", "S1", "A", "S2", "A"}
		for i, l := range labels {
			m := value("cost", 100+.01*float64(i*(1+b)))
			if l == "S2" {
				m = value("cost", 170)
			}
			m.Better = "lower"
			ladder.Arms = append(ladder.Arms, &record.Arm{Label: l, Block: b, Slot: i, Seq: len(ladder.Arms), Purpose: "measured", Disposition: record.OK, Group: ladder,
				Metrics: []record.Metric{value(ladder.Primary, y[i]*(1+.0001*float64(b*i))), m}})
		}
	}
	ladder.Order = "A S1 A S2 A"
	Judge(ladder, nil)
	got := map[string]string{}
	for _, c := range ladder.Comparisons {
		if !c.Cost {
			got[c.Side] = c.Verdict
		}
	}
	if got["S1"] != record.Better || got["S2"] != record.Worse {
		t.Errorf("rungs: %v, %s: %s", got, ladder.Verdict, ladder.Reason)
	}
	for _, m := range Family([]*record.Group{ladder}).Screens {
		if want := got[map[string]string{"x": "S1", "y": "S2"}[m.What]]; m.Verdict != want {
			t.Errorf("family: %s is %s, want %s", m.What, m.Verdict, want)
		}
	}
}

// TestDecidedWaitsForCosts: decided() does not end a group as better while a cost may be beyond its limit, and
// does once that is shown.
func TestDecidedWaitsForCosts(t *testing.T) {
	g := costGroup("lower", .05, 100, 106, .02)
	g.Sequential, g.Stops = true, []string{"decided"}
	block(g, 1, "BAAB", 105.1, 100, 100.1, 105)
	add := func(spread float64) {
		for i, a := range g.Arms[4:] {
			m := value("cost", 100*(1+spread*[]float64{1, -1, 1, -1}[i]))
			if a.Label == "B" {
				m = value("cost", 106*(1+spread*[]float64{1, -1, 1, -1}[i]))
			}
			m.Better = "lower"
			a.Metrics = append(a.Metrics, m)
		}
	}
	add(.02)
	if why := Decided(g); why != "" {
		t.Errorf("ended: %s", why)
	}
	Judge(g, nil)
	c := g.Comparisons[0]
	if c.Verdict != record.Inconclusive || c.BlocksNeeded == nil || *c.BlocksNeeded < 2 || !strings.Contains(c.Reason, "should decide it, beyond the cap of 4 (after(blocks = ") {
		t.Errorf("%+v", c)
	}
	g = costGroup("lower", .05, 100, 166.9, .0001)
	g.Sequential, g.Stops = true, []string{"decided"}
	block(g, 1, "BAAB", 105.1, 100, 100.1, 105)
	for _, a := range g.Arms[4:] {
		m := value("cost", map[string]float64{"A": 100.01, "B": 166.9}[a.Label])
		m.Better = "lower"
		a.Metrics = append(a.Metrics, m)
	}
	if why := Decided(g); !strings.HasPrefix(why, "worse: cost cost is ") {
		t.Errorf("got %q, want the group ended as worse", why)
	}
}

func TestCases(t *testing.T) {
	better, same, worse, unsure := []float64{100, 105, 105.1, 100}, []float64{100, 100.1, 100.1, 100}, []float64{100, 95, 95.1, 100}, []float64{100, 104, 101, 99}
	for _, c := range []struct {
		rule string
		x, y []float64
		want string
	}{
		{"", better, better, record.Better}, {"all", better, same, record.Inconclusive}, {"all", same, same, record.Equivalent},
		{"all", better, worse, record.Worse}, {"all", better, unsure, record.Inconclusive},
		{"worst", better, same, record.Equivalent}, {"worst", better, worse, record.Worse}, {"worst", better, better, record.Better},
		{"each", better, worse, record.Inconclusive}, {"each", better, better, record.Better},
		{"all", better, nil, record.Invalid}, {"each", better, nil, record.Invalid},
	} {
		g := ab("ABBA")
		g.CaseRule = c.rule
		block(g, 0, "ABBA", better...)
		for i, a := range g.Arms {
			a.Metrics = []record.Metric{value("decode_tok_s", 1)}
			for j, y := range [][]float64{c.x, c.y} {
				m := record.Metric{Name: "decode_tok_s", Case: []string{"4K", "32K"}[j], Why: "timed out"}
				if y != nil {
					m.Value = &y[i]
				}
				a.Metrics = append(a.Metrics, m)
			}
		}
		Judge(g, nil)
		if g.Verdict != c.want || len(g.Comparisons) != 2 || g.Comparisons[0].Case != "4K" {
			t.Errorf("%s: got %s: %s, want %s", c.rule, g.Verdict, g.Reason, c.want)
		}
	}
}

func TestLadderRungsDiffer(t *testing.T) {
	g := &record.Group{Role: record.RoleLadder, Order: "U S1 U S2 U", Control: "U", Primary: "decode_tok_s", Better: "higher", MinEffect: .01, Cap: 1,
		Sides: []record.Side{{Label: "U"}, {Label: "S1"}, {Label: "S2"}}}
	block(g, 0, g.Order, 100, 110, 100.1, 90, 100)
	Judge(g, nil)
	if g.Verdict != record.Inconclusive || !strings.HasPrefix(g.Reason, "rungs differ: S1 better (") || !strings.Contains(g.Reason, "S2 worse (") {
		t.Errorf("got %s: %s", g.Verdict, g.Reason)
	}
	if !warned(g, "one run of each of the sides S1, S2: an observed range, not an interval") {
		t.Errorf("%v", g.Warnings)
	}
}

// noise is a past group of quads with this noise, valid.
func pastQuads(r *rand.Rand, id string, n int, sd float64) *record.Group {
	g := quadsOf(r, n, 0, sd, 0)
	g.ID, g.Name, g.SessionID, g.Verdict = id, id, "earlier", record.Inconclusive
	return g
}

func TestKnownNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := ab("")
	g.Engine, g.Model = "e1", "m1"
	wide := pastQuads(r, "other engine", 4, .5)
	wide.Engine = "e2"
	bad := pastQuads(r, "bad", 4, .5)
	bad.Verdict = record.Invalid
	old := pastQuads(r, "old", 4, .003)
	n := KnownNoise(g, []*record.Group{wide, bad, old})
	if n == nil || n.SD > .006 || n.SD < .0015 || n.DF != 7 || !strings.HasPrefix(n.From, "earlier sessions: ") {
		t.Errorf("got %+v", n)
	}
	// This session's own first; others only while it lends too little.
	mine := pastQuads(r, "mine", 2, .003)
	mine.SessionID = g.SessionID
	if n = KnownNoise(g, []*record.Group{mine, old}); n.DF != 10 || !strings.HasPrefix(n.From, "this session and earlier ones: ") {
		t.Errorf("got %+v", n)
	}
	mine = pastQuads(r, "mine", 5, .003)
	mine.SessionID = g.SessionID
	if n = KnownNoise(g, []*record.Group{mine, old}); n.DF != 9 || !strings.HasPrefix(n.From, "this session: ") {
		t.Errorf("got %+v", n)
	}
	if n = KnownNoise(g, nil); n != nil {
		t.Errorf("got %+v", n)
	}
	// What was borrowed is written down once and does not change with what comes later.
	block(g, 0, "ABBA", 100, 102, 102.1, 100.1)
	Judge(g, []*record.Group{old})
	first := g.Noise
	Judge(g, []*record.Group{wide, mine, old})
	if len(first) != 1 || !reflect.DeepEqual(first, g.Noise) || g.Comparisons[0].Estimate.BorrowedDF != 7 {
		t.Errorf("got %+v after %+v", g.Noise, first)
	}
	if !warned(g, "from earlier sessions: ") {
		t.Errorf("%v", g.Warnings)
	}
	// An effect and a drift of earlier groups are not noise.
	n = KnownNoise(g, []*record.Group{func() *record.Group {
		p := quadsOf(r, 6, .3, .003, .01)
		p.ID, p.Verdict = "past", record.Better
		return p
	}()})
	if n == nil || n.SD > .006 {
		t.Errorf("got %+v", n)
	}
	abab := block(block(ab("ABAB"), 0, "ABAB", 100, 121, 102.1, 123), 1, "ABAB", 104, 125, 106, 127.2)
	abab.ID = "past"
	if n = KnownNoise(g, []*record.Group{abab}); n == nil || n.SD > .01 || n.DF != 2 {
		t.Errorf("got %+v", n)
	}
}

func TestDecided(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	clear := func(n int) *record.Group { return quadsOf(r, n, .05, .002, .001) }
	if why := Decided(clear(1)); why != "" {
		t.Errorf("after one quad without history: %s", why)
	}
	why := Decided(clear(2))
	if !strings.HasPrefix(why, "better: +") || !strings.Contains(why, "at 97.79 %") || !strings.Contains(why, "look 1 of at most 3") {
		t.Errorf("after two: %q", why)
	}
	g := clear(1)
	g.Noise = []record.Noise{{Metric: "decode_tok_s", SD: .002, DF: 8, From: "history"}}
	if why := Decided(g); !strings.Contains(why, "look 1 of at most 4") || !strings.Contains(why, "at 98.18 %") {
		t.Errorf("after one with history: %q", why)
	}
	g.Noise[0].DF = 7
	if why := Decided(g); why != "" {
		t.Errorf("with seven degrees of freedom: %q", why)
	}
	if why := Decided(quadsOf(r, 2, .0005, .02, 0)); why != "" {
		t.Errorf("undecided: %q", why)
	}
	if why := Decided(quadsOf(r, 3, 0, .0005, 0)); !strings.HasPrefix(why, "equivalent") {
		t.Errorf("equivalent: %q", why)
	}
	if why := Decided(ab("")); why != "" {
		t.Errorf("no arms: %q", why)
	}
	// Judged after the stop, the interval is at the level of the looks, and says so.
	g = clear(2)
	g.Sequential = true
	Judge(g, nil)
	e := g.Comparisons[0].Estimate
	if math.Abs(1-e.Level-stats.PocockP(3)) > 1e-12 || e.Looks != 3 || !e.ValidAnytime {
		t.Errorf("%+v", e)
	}
	g.Sequential, g.Stops = false, []string{"decided {}", "after"}
	Judge(g, nil)
	if g.Comparisons[0].Estimate.Looks != 3 {
		t.Error("a stop by its name does not count as a look")
	}
	g.Stops = []string{"after"}
	Judge(g, nil)
	if e := g.Comparisons[0].Estimate; e.Level != .95 || e.Looks != 0 || e.ValidAnytime {
		t.Errorf("%+v", e)
	}
	// Cases that are each settled, on different sides, are settled.
	g = block(block(ab(""), 0, "ABBA", 100, 105, 105.1, 100), 1, "BAAB", 105, 100, 100.1, 105)
	for _, a := range g.Arms {
		v := 100.0 + .01*float64(a.Seq%3)
		a.Metrics[0].Case = "4K"
		a.Metrics = append(a.Metrics, record.Metric{Name: "decode_tok_s", Case: "32K", Value: &v})
	}
	if why := Decided(g); !strings.HasPrefix(why, "inconclusive: not every case is better: 4K better") {
		t.Errorf("got %q", why)
	}
}

func TestHopeless(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	known := []record.Noise{{Metric: "decode_tok_s", SD: .003, DF: 12, From: "history"}}
	for _, c := range []struct {
		name string
		g    *record.Group
		n    []record.Noise
		want string
	}{
		{"a loss after two quads", quadsOf(r, 2, -.02, .002, .001), nil, "and 1.00 % is asked for"},
		{"nothing after three calm quads", quadsOf(r, 3, 0, .001, 0), nil, "the best it can still be is"},
		{"a win", quadsOf(r, 2, .05, .002, 0), nil, ""},
		{"unsure", quadsOf(r, 2, 0, .02, 0), nil, ""},
		{"one pair far outside", block(ab(""), 0, "ABBA", 100, 92), known, "far outside the noise"},
		{"one pair inside the noise", block(ab(""), 0, "ABBA", 100, 98.9), known, ""},
		{"one pair without history", block(ab(""), 0, "ABBA", 100, 92), nil, ""},
		{"one pair, much better", block(ab(""), 0, "ABBA", 100, 109), known, ""},
		{"three arms", block(ab(""), 0, "BAAB", 92, 100, 100.1), known, "far outside the noise"},
		{"one arm", block(ab(""), 0, "ABBA", 100), known, ""},
		{"one quad without history, beaten", block(ab(""), 0, "ABBA", 100, 92, 92.1, 100.2), nil, "more than five times what either side varies by"},
		{"one quad without history, close", block(ab(""), 0, "ABBA", 100, 97.5, 97.5, 100), nil, ""},
		{"one quad without history, wild", block(ab(""), 0, "ABBA", 100, 90, 80, 100), nil, ""},
		{"nothing measured", ab(""), known, ""},
	} {
		c.g.Noise = c.n
		if got := Hopeless(c.g); (got != "") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	// Lower is better: the same, mirrored.
	g := block(ab(""), 0, "ABBA", 100, 109)
	g.Better, g.Noise = "lower", known
	if why := Hopeless(g); !strings.Contains(why, "+9.00 %") {
		t.Errorf("got %q", why)
	}
	g.Arms[1].Metrics[0] = value("decode_tok_s", 92)
	if why := Hopeless(g); why != "" {
		t.Errorf("got %q", why)
	}
	// A ladder is hopeless only when every rung is.
	l := &record.Group{Order: "U S1 U S2 U", Control: "U", Primary: "decode_tok_s", Better: "higher", Cap: 1, Noise: known,
		Sides: []record.Side{{Label: "U"}, {Label: "S1"}, {Label: "S2"}}}
	block(l, 0, l.Order, 100, 90, 100.1, 110, 100)
	if why := Hopeless(l); why != "" {
		t.Errorf("got %q", why)
	}
	l.Arms[3].Metrics[0] = value("decode_tok_s", 90)
	if why := Hopeless(l); !strings.HasPrefix(why, "no rung can become better") {
		t.Errorf("got %q", why)
	}
}
