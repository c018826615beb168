package run_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// metered gives each arm ten joules.
func metered(_ run.Task, a *record.Arm) {
	ten := 10.
	a.Metrics = append(a.Metrics, record.Metric{Name: "wall.energy_j", Unit: "J", Source: "script", Value: &ten})
}

// limited runs a group of two quads under a budget.
func limited(t *testing.T, m *scripted, mem *run.Memory, b record.Budget, gs ...*plan.Group) ([]*record.Group, error) {
	t.Helper()
	s := newSession(m, mem)
	if err := s.Budget(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return s.Run(t.Context(), gs)
}

// A budget ends the session before what it does not hold, keeps blocks that are done, gives no verdict to what it
// cut short, and counts on over a resume, where a larger one finishes what no interruption would have changed.
func TestBudget(t *testing.T) {
	whole := newScripted(t)
	whole.fill = metered
	want := runOne(t, whole, testGroup(t, nil))
	if len(want.Arms) != 8 {
		t.Fatalf("%d arms without a budget", len(want.Arms))
	}
	took := 0.
	for _, a := range want.Arms {
		took += float64(a.MonoEndNS-a.MonoStartNS) / 1e9
	}
	for _, c := range []struct {
		name       string
		less, more record.Budget
		words      string
		arms       int // that ran under the smaller one
	}{
		{"arms", record.Budget{Arms: 7}, record.Budget{Arms: 8}, "4 of 7 arms, and the next block of 4 arms does not fit", 4},
		{"arms, none", record.Budget{Arms: 3}, record.Budget{Arms: 8}, "0 of 3 arms", 0},
		{"time", record.Budget{Seconds: .9 * took}, record.Budget{Seconds: 1.1 * took}, ", and the next block of 4 arms takes about ", 4},
		{"time inside the first block", record.Budget{Seconds: .2 * took}, record.Budget{Seconds: 2 * took}, " of ", 2},
		{"energy", record.Budget{Joules: 79}, record.Budget{Joules: 80}, "40 J of 79 J, and the next block of 4 arms takes about 40 J", 4},
		{"energy inside the first block", record.Budget{Joules: 15}, record.Budget{Joules: 200}, "20 J of 15 J", 2},
		{"the smallest of several", record.Budget{Arms: 100, Joules: 41}, record.Budget{Arms: 100, Joules: 80}, "40 J of 41 J", 4},
	} {
		m, mem, g := newScripted(t), run.NewMemory(), testGroup(t, nil)
		m.fill = metered
		_, err := limited(t, m, mem, c.less, g)
		kind, _ := diag.KindOf(err)
		if kind != diag.Stopped || kind.ExitCode() != 4 || !strings.Contains(err.Error(), "the session's budget is spent: ") || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.words)
		}
		opened := func() int {
			return len(slices.DeleteFunc(slices.Clone(m.trace), func(s string) bool { return !strings.HasPrefix(s, "open ") }))
		}
		if n := opened(); n != c.arms {
			t.Errorf("%s: %d arms ran, want %d", c.name, n, c.arms)
		}
		if past, _ := mem.Past(t.Context(), run.Scope{}); len(past) != 0 {
			t.Errorf("%s: a group that was cut short has a verdict: %s", c.name, past[0].Verdict)
		}
		// The same budget again: what was spent is spent.
		if _, err := limited(t, m, mem, c.less, g); err == nil || opened() != c.arms {
			t.Errorf("%s: resumed under the same budget: %v, %d arms", c.name, err, opened())
		}
		res, err := limited(t, m, mem, c.more, g)
		if err != nil {
			t.Errorf("%s: resumed under more: %v", c.name, err)
			continue
		}
		if got := res[0]; got.Verdict != want.Verdict || got.Comparisons[0].Estimate.Effect != want.Comparisons[0].Estimate.Effect {
			t.Errorf("%s: resumed to %s %s, want %s %s", c.name, got.Verdict, got.Reason, want.Verdict, want.Reason)
		}
		if c.arms%4 == 0 && opened() != 8 {
			t.Errorf("%s: %d arms in all, want 8: finished blocks are kept", c.name, opened())
		}
	}
}

// Arms of blocks that were redone and of a journal that was cut count; a budget that is spent by the last arm ends
// nothing; a later budget replaces the first; groups that ended stay.
func TestBudgetCounts(t *testing.T) {
	m, mem := newScripted(t), run.NewMemory()
	bad := true
	m.during = func(_ context.Context, task run.Task) error {
		if task.Side.Label == "B" && bad {
			bad = false
			return &run.EngineError{Reason: "the engine exited by itself with code 1"}
		}
		return nil
	}
	one := testGroup(t, func(g *plan.Group) { g.Cap = 1 })
	two := testGroup(t, func(g *plan.Group) { g.Cap, g.Name = 1, "screen-y" })
	s := newSession(m, mem)
	if err := s.Budget(t.Context(), record.Budget{Arms: 6}); err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(t.Context(), []*plan.Group{one}) // A B, then A B B A
	if err != nil || labels(res[0]) != "A:ok B:failed A:ok B:ok B:ok A:ok" {
		t.Fatalf("spent by the last arm: %v", err)
	}
	if _, err := s.Run(t.Context(), []*plan.Group{two}); err == nil || !strings.Contains(err.Error(), "6 of 6 arms") {
		t.Errorf("got %v", err)
	}
	if past, _ := mem.Past(t.Context(), run.Scope{}); len(past) != 1 || past[0].Verdict != record.Better {
		t.Errorf("the group that ended: %+v", past)
	}
	cut := newSession(m, mem)
	cut.ForceCut = true
	if err := cut.Budget(t.Context(), record.Budget{Arms: 9}); err != nil {
		t.Fatal(err)
	}
	if _, err := cut.Run(t.Context(), []*plan.Group{two}); err == nil || !strings.Contains(err.Error(), "6 of 9 arms") {
		t.Errorf("after a cut: got %v, want the arms of before to count", err)
	}
	if err := cut.Budget(t.Context(), record.Budget{Arms: 10}); err != nil {
		t.Fatal(err)
	}
	if res, err := cut.Run(t.Context(), []*plan.Group{two}); err != nil || res[0].Verdict != record.Better {
		t.Errorf("a larger one in the same session: %v", err)
	}
}

// An energy budget without a meter is the machine's trouble and not silently kept; a forced walk has no budget.
func TestBudgetOfWhatIsNotMetered(t *testing.T) {
	_, err := limited(t, newScripted(t), run.NewMemory(), record.Budget{Joules: 100}, testGroup(t, nil))
	if kind, _ := diag.KindOf(err); kind != diag.Machine || !strings.Contains(err.Error(), "no metric *.energy_j") {
		t.Errorf("got %v", err)
	}
	s := newSession(newScripted(t), run.NewMemory())
	s.Force = record.Better
	if err := s.Budget(t.Context(), record.Budget{Arms: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), []*plan.Group{testGroup(t, nil)}); err != nil {
		t.Errorf("forced: %v", err)
	}
}
