package measure

import (
	"context"
	"errors"
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

func errText(err error) string {
	var d *diag.Error
	if errors.As(err, &d) {
		return d.Error() + " " + d.Fix
	}
	return err.Error()
}

// screenOf is a screen of a server engine with one lever.
func screenOf(t *testing.T, lever string, order string, blocks int) *plan.Group {
	t.Helper()
	e := plan.Engine{Name: "e", Command: []string{"server"}, API: &plan.API{Kind: plan.APIChat}}
	l := plan.Lever{Name: lever, Env: map[string]string{lever: "1"}, Confirm: []plan.Confirm{{Kind: plan.ConfirmLog, Pattern: lever}}}
	w := plan.Workload{Repeat: 1, Cases: []plan.Case{{Name: "4K", MaxTokens: 16, Prompts: []plan.Prompt{{Text: "a"}}}, {Name: "32K", MaxTokens: 16, Prompts: []plan.Prompt{{Text: "b"}}}}}
	g, err := plan.NewGroup(plan.Group{Name: lever, Sides: []plan.Side{{Label: "A", Engine: e}, {Label: "B", Engine: e, Stack: plan.Stack{l}}}, Order: order, Workload: w, Cap: blocks, MinEffect: .01})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func simulate(t *testing.T, model string, groups ...*plan.Group) (*record.Session, []*record.Group) {
	t.Helper()
	m, err := ParseModel(model)
	if err != nil {
		t.Fatal(err)
	}
	sim := NewSimulated(m, record.Machine{ID: "m"}, func() int64 { return 1e18 })
	rs := &record.Session{ID: "recorded-session", Measurer: record.MeasurerSimulated, Machine: sim.On, Seed: 5}
	mem := run.NewMemory()
	s := run.NewSession(run.Config{Session: rs, Clock: sim.Clock(), Sleep: sim.Sleep, Measurer: sim, Recorder: mem, Journal: mem})
	out, err := s.Run(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	full := make([]*record.Group, len(out))
	for i, g := range out {
		if full[i], err = mem.Group(t.Context(), g.ID); err != nil {
			t.Fatal(err)
		}
	}
	return rs, full
}

func again(t *testing.T, m *Recorded, rs *record.Session, groups ...*plan.Group) ([]*record.Group, error) {
	t.Helper()
	mem := run.NewMemory()
	s := run.NewSession(run.Config{Session: &record.Session{ID: "again", Measurer: record.MeasurerRecorded, Machine: rs.Machine, Seed: rs.Seed}, Clock: m.Clock(), Sleep: m.Sleep,
		Measurer: m, Recorder: mem, Journal: mem})
	return s.Run(t.Context(), groups)
}

// The same workflow on recorded arms says what it said, arm by arm; a shorter one takes the first of them.
func TestRecorded(t *testing.T) {
	rs, was := simulate(t, "effect.fast=5%,sd=.5%", screenOf(t, "fast", "", 2), screenOf(t, "null", "", 2))
	got, err := again(t, NewRecorded(rs, was, nil), rs, screenOf(t, "fast", "", 2), screenOf(t, "null", "", 2))
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].Verdict != was[i].Verdict || len(got[i].Arms) != len(was[i].Arms) {
			t.Errorf("group %d: %s of %s", i, got[i].Verdict, was[i].Verdict)
		}
		for j, a := range got[i].Arms {
			w := was[i].Arms[j]
			if *a.Metrics[0].Value != *w.Metrics[0].Value || a.MonoStartNS != w.MonoStartNS || a.MonoEndNS != w.MonoEndNS || a.Label != w.Label {
				t.Errorf("group %d, arm %d: %+v, want %+v", i, j, a, w)
			}
		}
	}
	// A shorter group leaves its other arms to nobody before they are needed.
	got, err = again(t, NewRecorded(rs, was, nil), rs, screenOf(t, "fast", "", 1), screenOf(t, "null", "", 2))
	if err != nil {
		t.Fatal(err)
	}
	if *got[1].Arms[0].Metrics[0].Value != *was[1].Arms[0].Metrics[0].Value {
		t.Error("the second group took arms of the first")
	}
}

// Warm arms are taken where there are any, and cost nothing where there are none.
func TestRecordedWarmArm(t *testing.T) {
	warm := func() *plan.Group {
		g := screenOf(t, "fast", "", 2)
		g.WarmArm = true
		return g
	}
	rs, was := simulate(t, "effect.fast=5%,sd=.5%", warm())
	bare, without := simulate(t, "effect.fast=5%,sd=.5%", screenOf(t, "fast", "", 2))
	for _, c := range []struct {
		rs  *record.Session
		was []*record.Group
	}{{rs, was}, {bare, without}} {
		m := NewRecorded(c.rs, c.was, nil)
		got, err := again(t, m, c.rs, warm())
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Verdict != c.was[0].Verdict || got[0].Arms[0].Purpose != "warm" || len(got[0].Arms) != 9 {
			t.Errorf("got %s with %d arms", got[0].Verdict, len(got[0].Arms))
		}
		NewRecorded(c.rs, c.was, nil).Skip(got)
	}
}

func TestRecordedRefuses(t *testing.T) {
	rs, was := simulate(t, "sd=.5%", screenOf(t, "fast", "", 1))
	renamed := screenOf(t, "fast", "", 1)
	renamed.Role = record.RoleQualification
	for want, g := range map[string]*plan.Group{
		"has 2 such arms, and none for block 2 slot 1":                           screenOf(t, "fast", "", 2),
		`has such arms in group "fast" (screen) only`:                            renamed,
		"has no measured arm with this command, environment, config and request": screenOf(t, "other", "", 1),
	} {
		_, err := again(t, NewRecorded(rs, was, nil), rs, g)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if k, ok := diag.KindOf(err); !ok || k != diag.Workflow {
			t.Errorf("%v: exit %d", err, k.ExitCode())
		}
	}
	if _, err := NewRecorded(rs, was, nil).Read(t.Context(), []string{"x"}); err == nil {
		t.Error("a sensor of the past was read")
	}
}

// A screen and a qualification that compare the same sides: each keeps its own arms and its own noise, whatever
// is recorded later. Only the first one borrows nothing, as it did.
func TestRecordedKeepsGroupsApart(t *testing.T) {
	groups := func() []*plan.Group {
		q := screenOf(t, "fast", "", 2)
		q.Role = record.RoleQualification
		return []*plan.Group{screenOf(t, "fast", "", 2), screenOf(t, "null", "", 2), q}
	}
	rs, was := simulate(t, "effect.fast=5%,sd=.5%", groups()...)
	if len(was[0].Noise) != 0 || len(was[2].Noise) == 0 {
		t.Fatalf("want no noise known at first, and some later: %v, %v", was[0].Noise, was[2].Noise)
	}
	was[0].Noise = nil // as an empty list comes back from the record
	for name, gs := range map[string][]*plan.Group{"all": groups(), "the second and third only": groups()[1:]} {
		got, err := again(t, NewRecorded(rs, was, nil), rs, gs...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, g := range got {
			w := was[len(was)-len(got)+i]
			if g.Reason != w.Reason || g.Seed != w.Seed || len(g.Noise) != len(w.Noise) || len(g.Arms) != len(w.Arms) {
				t.Errorf("%s, %s %s: got %s, seed %d, noise %v; want %s, %d, %v", name, g.Role, g.Name, g.Reason, g.Seed, g.Noise, w.Reason, w.Seed, w.Noise)
				continue
			}
			for j, a := range g.Arms {
				if a.MonoStartNS != w.Arms[j].MonoStartNS {
					t.Errorf("%s, %s %s: arm %d is not its own", name, g.Role, g.Name, j)
				}
			}
		}
	}
}

// A gate that is stricter than it was leaves a block out that was not redone then; one that is laxer takes the
// attempt that was whole.
func TestRecordedOtherGates(t *testing.T) {
	gated := func(bad func(*record.Arm) bool) *plan.Group {
		g := screenOf(t, "fast", "", 3)
		g.Retry = 2
		g.Gates = []plan.Gate{{Name: "quiet", Phase: plan.PhaseAfter, Required: true, Check: func(_ context.Context, a *record.Arm) (record.Finding, error) {
			if bad(a) {
				return record.Finding{Outcome: record.Fail}, nil
			}
			return record.Finding{Outcome: record.Pass}, nil
		}}}
		return g
	}
	none := func(*record.Arm) bool { return false }
	rs, was := simulate(t, "effect.fast=5%,sd=.5%", gated(none))
	got, err := again(t, NewRecorded(rs, was, nil), rs, gated(func(a *record.Arm) bool { return a.Block == 1 && a.Slot == 2 }))
	if err != nil {
		t.Fatal(err)
	}
	if e := got[0].Comparisons[0].Estimate; e == nil || e.Blocks != 2 || len(got[0].Arms) != 11 {
		t.Errorf("stricter: got %+v of %d arms, want 2 blocks of 11 arms", e, len(got[0].Arms))
	}
	rs, was = simulate(t, "effect.fast=5%,sd=.5%", gated(func(a *record.Arm) bool { return a.Block == 1 && a.Slot == 2 && a.Attempt == 0 }))
	if len(was[0].Arms) != 15 {
		t.Fatalf("want a block that was redone, got %d arms", len(was[0].Arms))
	}
	got, err = again(t, NewRecorded(rs, was, nil), rs, gated(none))
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Reason != was[0].Reason || len(got[0].Arms) != 15 {
		t.Errorf("laxer: got %s of %d arms, want %s", got[0].Reason, len(got[0].Arms), was[0].Reason)
	}
}

// A resumed session goes on with the arms that it has not used.
func TestRecordedSkip(t *testing.T) {
	rs, was := simulate(t, "sd=.5%", screenOf(t, "fast", "", 3))
	m := NewRecorded(rs, was, nil)
	part := *was[0]
	part.Verdict = ""
	part.Arms = part.Arms[:6] // a whole quad and half of the next, which is redone
	m.Skip([]*record.Group{&part})
	left := 0
	for _, a := range m.groups[0].arms {
		if !a.taken {
			left++
		}
	}
	if left != 8 {
		t.Errorf("%d arms are left, want 8", left)
	}
}

// Noise by case, and a history that lends degrees of freedom.
func TestSimulatedCases(t *testing.T) {
	_, was := simulate(t, "sd=0,sd.32K=2%", screenOf(t, "fast", "", 4))
	spread := map[string]float64{}
	for _, c := range was[0].Comparisons {
		if !c.Cost {
			spread[c.Case] = c.RangeSide[1] - c.RangeSide[0]
		}
	}
	if spread["4K"] > .001 || spread["32K"] < .1 {
		t.Errorf("got %v", spread)
	}
}
