package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// lever is a recorded lever with its evidence declared.
func lever(name string, confirm ...plan.Confirm) record.Lever {
	b, _ := json.Marshal(plan.Lever{Name: name, Confirm: confirm})
	l := record.Lever{Name: name, Hash: name, Declared: string(b)}
	for _, c := range confirm {
		if c.Kind == plan.ConfirmNone {
			l.Unconfirmed = c.Reason
		}
	}
	return l
}

// ab is a group of A and B in an order, with no arms yet.
func ab(order string, levers ...record.Lever) *record.Group {
	return &record.Group{ID: "g", Name: "g", SessionID: "s", Role: record.RoleScreen, Order: order, Control: "A", Primary: "decode_tok_s",
		Better: "higher", MinEffect: .01, Cap: 4, Sides: []record.Side{{Label: "A", Control: true}, {Label: "B", Stack: levers}}}
}

// block adds a block of arms to g with these values of the primary metric.
func block(g *record.Group, index int, labels string, y ...float64) *record.Group {
	for i, l := range plan.Labels(labels)[:len(y)] {
		g.Arms = append(g.Arms, &record.Arm{ID: fmt.Sprintf("%d.%d", index, i), Label: l, Block: index, Slot: i, Seq: len(g.Arms),
			Purpose: "measured", Disposition: record.OK, Group: g, Metrics: []record.Metric{value(g.Primary, y[i])}})
	}
	return g
}

func TestJudgeArm(t *testing.T) {
	log := plan.Confirm{Kind: plan.ConfirmLog, Pattern: "n_ubatch"}
	http := plan.Confirm{Kind: plan.ConfirmHTTP, Path: "/props"}
	found := record.Evidence{Lever: "ub", Kind: "log", What: "n_ubatch", When: "ready", Found: true}
	missing := record.Evidence{Lever: "ub", Kind: "log", What: "n_ubatch", When: "ready"}
	for _, c := range []struct {
		name   string
		lever  record.Lever
		arm    record.Arm
		want   string
		reason string
	}{
		{"nothing to say", lever("ub", log), record.Arm{Label: "A"}, record.OK, ""},
		{"failed stays", lever("ub", log), record.Arm{Label: "B", Disposition: record.Failed, Reason: "died at token 40"}, record.Failed, "died at token 40"},
		{"infeasible stays", lever("ub", log), record.Arm{Label: "B", Disposition: record.Infeasible, Reason: "no such file"}, record.Infeasible, "no such file"},
		{"interrupted stays", lever("ub", log), record.Arm{Label: "B", Disposition: record.Interrupted, Reason: "ctrl-c"}, record.Interrupted, "ctrl-c"},
		{"superseded stays", lever("ub", log), record.Arm{Label: "B", Disposition: record.Superseded}, record.Superseded, ""},
		{"a gate failed", lever("ub", log), record.Arm{Label: "A", Findings: []record.Finding{{Gate: "swap", Outcome: record.Fail, Required: true, Observed: "12 MiB", Limit: "0 MiB"}}},
			record.Invalid, "gate swap: observed 12 MiB, limit 0 MiB"},
		{"a gate not required", lever("ub", log), record.Arm{Label: "A", Findings: []record.Finding{{Gate: "swap", Outcome: record.Fail}}}, record.OK, ""},
		{"unmeasured", lever("ub", log), record.Arm{Label: "A", Findings: []record.Finding{{Gate: "clock", Outcome: record.Unmeasured, Required: true, Reason: "no sensor"}}},
			record.Invalid, "gate clock could not be measured: no sensor"},
		{"a mistake in the gate", lever("ub", log), record.Arm{Label: "A", Findings: []record.Finding{{Gate: "clock", Outcome: record.Unmeasured, Required: true, Error: "x.star:3: no key"}}},
			record.Invalid, "gate clock could not be measured: x.star:3: no key"},
		{"an outcome that does not exist", lever("ub", log), record.Arm{Label: "A", Findings: []record.Finding{{Gate: "clock", Required: true}}},
			record.Invalid, `gate clock said "", want pass`},
		{"of the group's scope", lever("ub", log), record.Arm{Label: "A", Findings: []record.Finding{{Gate: "range", Scope: "group", Outcome: record.Fail, Required: true}}}, record.OK, ""},
		{"judged again after the fix", lever("ub", log), record.Arm{Label: "A", Disposition: record.Invalid, Reason: "gate clock: …",
			Findings: []record.Finding{{Gate: "clock", Outcome: record.Pass, Required: true}}}, record.OK, ""},
		{"evidence found", lever("ub", log), record.Arm{Label: "B", Evidence: []record.Evidence{found}}, record.OK, ""},
		{"evidence found late", lever("ub", log), record.Arm{Label: "B", Evidence: []record.Evidence{missing, found}}, record.OK, ""},
		{"no evidence", lever("ub", log), record.Arm{Label: "B", Evidence: []record.Evidence{missing}}, record.Invalid, "lever ub: no evidence that it took effect: log n_ubatch was not found"},
		{"evidence not read", lever("ub", log), record.Arm{Label: "B"}, record.Invalid, "lever ub: no evidence that it took effect: none was read"},
		{"one of two", lever("ub", log, http), record.Arm{Label: "B", Evidence: []record.Evidence{found}}, record.Invalid, "its http was not read"},
		{"one of two fails", lever("ub", log, http), record.Arm{Label: "B", Evidence: []record.Evidence{found, {Lever: "ub", Kind: "http", What: "/props", Observed: "512"}}},
			record.Invalid, "http /props shows 512"},
		{"unreadable", lever("ub", http), record.Arm{Label: "B", Evidence: []record.Evidence{{Lever: "ub", Kind: "http", What: "/props", Error: "connection refused"}}},
			record.Invalid, "http /props could not be read: connection refused"},
		{"unconfirmed", lever("ub", plan.Confirm{Kind: plan.ConfirmNone, Reason: "prints nothing"}), record.Arm{Label: "B"}, record.OK, ""},
		{"evidence is not the control's", lever("ub", log), record.Arm{Label: "A", Evidence: []record.Evidence{missing}}, record.OK, ""},
		{"both a gate and no evidence", lever("ub", log), record.Arm{Label: "B", Evidence: []record.Evidence{missing}, Findings: []record.Finding{{Gate: "swap", Outcome: record.Fail, Required: true}}},
			record.Invalid, "gate swap; lever ub: no evidence"},
	} {
		a := c.arm
		a.Group, a.Purpose = ab("ABBA", c.lever), "measured"
		got, reason := JudgeArm(&a)
		if got != c.want || !strings.Contains(reason, c.reason) || c.reason == "" && reason != "" {
			t.Errorf("%s: got %s %q, want %s %q", c.name, got, reason, c.want, c.reason)
		}
	}
}

func TestContrast(t *testing.T) {
	log := plan.Confirm{Kind: plan.ConfirmLog, Pattern: "n_ubatch"}
	lit := plan.Confirm{Kind: plan.ConfirmLiteral, Text: "UBATCH"}
	ev := func(kind string, found bool) record.Evidence {
		return record.Evidence{Lever: "ub", Kind: kind, What: kind, Found: found, Observed: "n_ubatch = 512"}
	}
	for _, c := range []struct {
		name  string
		label string
		role  string
		lever record.Lever
		ev    []record.Evidence
		want  string
	}{
		{"fails on the control", "A", "", lever("ub", log), []record.Evidence{ev("log", false)}, ""},
		{"holds on the control", "A", "", lever("ub", log), []record.Evidence{ev("log", true)}, "no contrast: lever ub also holds on the control (log log: n_ubatch = 512)"},
		{"not the control", "B", "", lever("ub", log), []record.Evidence{ev("log", true)}, ""},
		{"one of two holds", "A", "", lever("ub", log), []record.Evidence{ev("log", true), ev("http", false)}, ""},
		{"nothing was read", "A", "", lever("ub", log), nil, ""},
		{"a literal is on both sides", "A", "", lever("ub", lit), []record.Evidence{ev("literal", true)}, ""},
		{"noise floor", "A", record.RoleNoiseFloor, lever("ub", log), []record.Evidence{ev("log", true)}, ""},
	} {
		g := ab("ABBA", c.lever)
		if c.role != "" {
			g.Role = c.role
		}
		if got := Contrast(g, &record.Arm{Label: c.label, Evidence: c.ev}); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	// A lever of both sides is no question of contrast, and the group says invalid where there is none.
	g := ab("ABBA", lever("base", log), lever("ub", log))
	g.Sides[0].Stack = []record.Lever{lever("base", log)}
	block(g, 0, "ABBA", 100, 101, 101, 100)
	g.Arms[0].Evidence = []record.Evidence{{Lever: "base", Kind: "log", What: "x", Found: true}}
	Judge(g, nil)
	if g.Verdict == record.Invalid {
		t.Errorf("got %s", g.Reason)
	}
	g.Arms[3].Evidence = []record.Evidence{ev("log", true)}
	Judge(g, nil)
	if g.Verdict != record.Invalid || !strings.HasPrefix(g.Reason, "no contrast: lever ub") {
		t.Errorf("got %s: %s", g.Verdict, g.Reason)
	}
}

func TestFindingOf(t *testing.T) {
	spec := plan.Gate{Name: "swap", Phase: plan.PhaseAfter, Scope: "arm", Required: true}
	f := FindingOf(spec, record.Finding{Outcome: record.Pass, Observed: "0"}, nil)
	if f.Gate != "swap" || f.Phase != "after" || !f.Required || f.Outcome != record.Pass {
		t.Errorf("%+v", f)
	}
	f = FindingOf(spec, record.Finding{Outcome: record.Pass}, errors.New("boom"))
	if f.Outcome != record.Unmeasured || f.Error != "boom" {
		t.Errorf("%+v", f)
	}
	f = FindingOf(spec, record.Finding{Outcome: "fine"}, nil)
	if f.Outcome != record.Unmeasured || !strings.Contains(f.Reason, `"fine"`) {
		t.Errorf("%+v", f)
	}
}

func TestWatch(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	at := func(ms int, v float64) record.Sample {
		return record.Sample{Sensor: "swap_mib", MonoNS: int64(ms) * 1e6, Value: v}
	}
	for _, c := range []struct {
		name    string
		guard   plan.Guard
		samples []record.Sample
		want    string
	}{
		{"above", plan.Guard{Sensor: "swap_mib", Above: f(64)}, []record.Sample{at(0, 10), at(100, 65)}, "swap_mib was 65, above 64"},
		{"at the limit", plan.Guard{Sensor: "swap_mib", Above: f(64)}, []record.Sample{at(0, 64)}, ""},
		{"below", plan.Guard{Sensor: "swap_mib", Below: f(1600)}, []record.Sample{at(0, 1620), at(100, 762)}, "swap_mib was 762, below 1600"},
		{"growth", plan.Guard{Sensor: "swap_mib", Above: f(64), Growth: true}, []record.Sample{at(0, 4000), at(100, 4064), at(200, 4065)}, "growth of swap_mib was 65, above 64"},
		{"held", plan.Guard{Sensor: "swap_mib", Above: f(64), Hold: time.Second}, []record.Sample{at(0, 70), at(500, 70), at(1000, 71)}, "swap_mib was 71, above 64 for 1s (limit 1s)"},
		{"not held", plan.Guard{Sensor: "swap_mib", Above: f(64), Hold: time.Second}, []record.Sample{at(0, 70), at(900, 60), at(1000, 70), at(1900, 70)}, ""},
		{"another sensor", plan.Guard{Sensor: "psi", Above: f(1)}, []record.Sample{at(0, 70)}, ""},
		{"star", plan.Guard{Sensor: "swap*", Above: f(1)}, []record.Sample{at(0, 70)}, "swap_mib was 70, above 1"},
	} {
		w := NewWatch(c.guard)
		got := ""
		for _, s := range c.samples {
			got = w.Sample(s)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		fd := w.Finding()
		switch {
		case c.want != "" && (fd.Outcome != record.Fail || fd.Observed != c.want || !fd.Required || fd.Limit == ""):
			t.Errorf("%s: finding %+v", c.name, fd)
		case c.want == "" && c.name == "another sensor" && fd.Outcome != record.Unmeasured:
			t.Errorf("%s: finding %+v", c.name, fd)
		case c.want == "" && c.name != "another sensor" && (fd.Outcome != record.Pass || fd.Observed == ""):
			t.Errorf("%s: finding %+v", c.name, fd)
		}
		if c.want != "" && w.Sample(at(5000, 0)) != c.want {
			t.Errorf("%s: the breach does not stand", c.name)
		}
	}
	if fd := GuardFinding(plan.Guard{Name: "swap", Sensor: "swap_mib", Above: f(64), Growth: true}, ""); fd.Limit != "swap_mib growth at most 64" || fd.Outcome != record.Pass {
		t.Errorf("%+v", fd)
	}
	// Two devices under one guard hold their breaches apart.
	w := NewWatch(plan.Guard{Sensor: "gpu.*", Above: f(90), Hold: time.Second})
	for i, s := range []string{"gpu.0", "gpu.1", "gpu.0", "gpu.1"} {
		if b := w.Sample(record.Sample{Sensor: s, MonoNS: int64(i) * 6e8, Value: 91 - 5*float64(i/2*(1-i%2))}); b != "" && s != "gpu.1" {
			t.Errorf("%s: %s", s, b)
		}
	}
	if fd := w.Finding(); fd.Outcome != record.Fail || !strings.HasPrefix(fd.Observed, "gpu.1") {
		t.Errorf("%+v", fd)
	}
}

func TestBlocks(t *testing.T) {
	g := ab("")
	block(g, 0, "BAAB", 101, 100, 100, 101)
	block(g, 1, "ABBA", 100, 101, 101)
	bs := Blocks(g)
	if len(bs) != 2 || !bs[0].Valid || bs[1].Valid || bs[1].Complete || bs[1].Reason != "3 of 4 arms" {
		t.Fatalf("%+v", bs)
	}
	if strings.Join(bs[0].Labels, "") != "BAAB" || strings.Join(bs[1].Labels, "") != "ABBA" || bs[0].Kind != "quad" {
		t.Errorf("%+v", bs)
	}
	// Its first attempt was interrupted; the second is what counts, whatever stands in the first.
	for _, a := range g.Arms[4:] {
		a.Disposition = record.Superseded
	}
	block(g, 1, "ABBA", 100, 101, 101, 100)
	for _, a := range g.Arms[7:] {
		a.Attempt = 1
	}
	if bs = Blocks(g); !bs[1].Valid || bs[1].Attempt != 1 {
		t.Errorf("%+v", bs[1])
	}
	// An arm that does not count takes its block with it, by name.
	g.Arms[8].Disposition, g.Arms[8].Reason = record.Invalid, "gate swap: observed 12 MiB, limit 0 MiB"
	if bs = Blocks(g); bs[1].Valid || !bs[1].Complete || bs[1].Reason != "arm B9 is invalid: gate swap: observed 12 MiB, limit 0 MiB" {
		t.Errorf("%+v", bs[1])
	}
	g.Arms[8].Disposition = record.OK
	// A neighbour that comes in the middle voids the block; one that was there throughout does not.
	for _, a := range g.Arms[7:] {
		a.Neighbours = []string{"other"}
	}
	if bs = Blocks(g); !bs[1].Valid {
		t.Errorf("%+v", bs[1])
	}
	g.Arms[9].Neighbours = nil
	if bs = Blocks(g); bs[1].Valid || !strings.Contains(bs[1].Reason, "a neighbour started or ended inside the block") {
		t.Errorf("%+v", bs[1])
	}
	g.Arms[9].Neighbours = []string{"other"}
	// A binary replaced under a side.
	for i, a := range g.Arms {
		a.Process = &record.Process{BinarySHA: "one"}
		if i == 10 {
			a.Process.BinarySHA = "two"
		}
	}
	if bs = Blocks(g); bs[1].Valid || !strings.Contains(bs[1].Reason, "the binary of side A changed") {
		t.Errorf("%+v", bs[1])
	}
	// Warm and probe arms are none of it.
	g.Arms = append(g.Arms, &record.Arm{Label: "A", Block: -1, Purpose: "warm"}, &record.Arm{Label: "A", Block: 0, Purpose: "probe"})
	if bs = Blocks(g); len(bs) != 2 || !bs[0].Valid {
		t.Errorf("%+v", bs)
	}
	// Only superseded arms are left: the block is there, to be redone.
	for _, a := range g.Arms {
		if a.Block == 1 {
			a.Disposition = record.Superseded
		}
	}
	if bs = Blocks(g); len(bs) != 2 || bs[1].Complete || bs[1].Reason != "superseded" {
		t.Errorf("%+v", bs[1])
	}
	for _, c := range []struct{ order, kind string }{{"ABBA", "quad"}, {"ABAB", "order"}, {"AB", "pair"}, {"ABA", "ladder"}, {"ABBABAAB", "quad"}} {
		g := ab(c.order)
		block(g, 0, c.order, make([]float64, len(plan.Labels(c.order)))...)
		if bs := Blocks(g); bs[0].Kind != c.kind {
			t.Errorf("%s: %s", c.order, bs[0].Kind)
		}
	}
	// An arm where the order has none of it.
	g = block(ab("ABBA"), 0, "ABAB", 1, 2, 3, 4)
	if bs := Blocks(g); bs[0].Valid || bs[0].Complete || !strings.Contains(bs[0].Reason, "stands in slot") {
		t.Errorf("%+v", bs[0])
	}
}
