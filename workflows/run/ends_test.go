package run_test

// How arms end that do not end well.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

func TestDispositions(t *testing.T) {
	permanent := &run.LaunchError{Reason: "no such file", Permanent: true}
	dies := func(ctx context.Context, task run.Task) error {
		if task.Side.Label == "B" {
			return &run.EngineError{Reason: fmt.Sprintf("the engine exited by itself with code 1 after %d content frames", 40+task.Seq)}
		}
		return nil
	}
	fails := plan.Gate{Name: "quiet", Phase: plan.PhaseAfter, Scope: "arm", Required: true,
		Check: func(context.Context, *record.Arm) (record.Finding, error) {
			return record.Finding{Outcome: record.Fail, Observed: "3 pages", Limit: "0 pages", Reason: "swap grew"}, nil
		}}
	blind := fails
	blind.Check = func(context.Context, *record.Arm) (record.Finding, error) {
		return record.Finding{Outcome: record.Unmeasured, Reason: "no sensor"}, nil
	}
	optional := blind
	optional.Required = false
	before := fails
	before.Phase = plan.PhaseBefore
	tests := []struct {
		name    string
		script  func(*scripted)
		group   func(*plan.Group)
		arms    string
		verdict string
		reason  string // part of the group's reason
	}{
		{name: "a lever's side cannot start", script: func(m *scripted) {
			m.launch = func(task run.Task) error {
				if task.Side.Label == "B" {
					return permanent
				}
				return nil
			}
		}, arms: "A:ok B:infeasible", verdict: record.Infeasible, reason: "no such file"},
		{name: "a lever's side that comes first cannot start: the control is asked", script: func(m *scripted) {
			m.launch = func(task run.Task) error {
				if task.Side.Label == "B" {
					return permanent
				}
				return nil
			}
		}, group: func(g *plan.Group) { g.Order = "BAAB" }, arms: "B:infeasible A:ok", verdict: record.Infeasible, reason: "no such file"},
		{name: "a lever's side dies the same way every time", script: func(m *scripted) { m.during = dies },
			arms: "A:ok B:failed A:ok B:infeasible", verdict: record.Infeasible, reason: "same way in 2 attempts"},
		{name: "a lever that the engine ignores", script: func(m *scripted) { m.found = func(plan.Lever, run.Task) bool { return false } },
			arms: "A:ok B:invalid A:ok B:invalid", verdict: record.Invalid, reason: "no evidence"},
		{name: "a lever that holds on the control", script: func(m *scripted) { m.found = func(plan.Lever, run.Task) bool { return true } },
			arms: "A:ok", verdict: record.Invalid, reason: "no contrast"},
		{name: "a failing gate", group: func(g *plan.Group) { g.Gates = []plan.Gate{fails} },
			arms: "A:invalid A:invalid", verdict: record.Invalid, reason: "quiet"},
		{name: "a gate that cannot measure", group: func(g *plan.Group) { g.Gates = []plan.Gate{blind} },
			arms: "A:invalid A:invalid", verdict: record.Invalid, reason: "no sensor"},
		{name: "a gate that need not measure", group: func(g *plan.Group) { g.Gates = []plan.Gate{optional} },
			arms: "A:ok B:ok B:ok A:ok A:ok B:ok B:ok A:ok", verdict: record.Better},
		{name: "a before-gate launches nothing", group: func(g *plan.Group) { g.Gates = []plan.Gate{before} },
			arms: "A:invalid A:invalid", verdict: record.Invalid, reason: "quiet"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m := newScripted(t)
			if tc.script != nil {
				tc.script(m)
			}
			g := runOne(t, m, testGroup(t, tc.group))
			if got := labels(g); got != tc.arms {
				t.Errorf("arms: got %s, want %s", got, tc.arms)
			}
			if g.Verdict != tc.verdict || !strings.Contains(g.Reason+" "+g.Stopped, tc.reason) {
				t.Errorf("verdict %q, reason %q, stopped %q; want %s because %s", g.Verdict, g.Reason, g.Stopped, tc.verdict, tc.reason)
			}
		})
	}
}

func TestBaseThatCannotStartIsTheMachine(t *testing.T) {
	for _, order := range []string{"ABBA", "BAAB"} {
		t.Run(order, func(t *testing.T) { baseCannotStart(t, order) })
	}
}

func baseCannotStart(t *testing.T, order string) {
	m := newScripted(t)
	m.launch = func(run.Task) error {
		return &run.LaunchError{Reason: "exited with 1 before it was ready", Permanent: true, LogTail: "bad magic\n"}
	}
	mem := run.NewMemory()
	_, err := newSession(m, mem).Run(t.Context(), []*plan.Group{testGroup(t, func(g *plan.Group) { g.Order = order })})
	if k, ok := diag.KindOf(err); !ok || k != diag.Machine {
		t.Fatalf("got %v, want a machine error", err)
	}
	for _, want := range []string{"base side cannot start", "exited with 1", "bad magic"} {
		if !strings.Contains(diag.Format(err), want) {
			t.Errorf("error does not say %q:\n%s", want, diag.Format(err))
		}
	}
}

func TestGuardEndsTheArm(t *testing.T) {
	m := newScripted(t)
	limit := 50.0
	m.during = func(ctx context.Context, task run.Task) error {
		task.OnSample(record.Sample{Sensor: "swap", MonoNS: 1, Value: 10})
		if ctx.Err() != nil {
			return errors.New("ended too early")
		}
		task.OnSample(record.Sample{Sensor: "swap", MonoNS: 2, Value: 60})
		<-ctx.Done()
		return context.Cause(ctx)
	}
	g := runOne(t, m, testGroup(t, func(g *plan.Group) {
		g.Guards = []plan.Guard{{Name: "swap", Sensor: "swap", Above: &limit}}
	}))
	if got := labels(g); got != "A:invalid A:invalid" {
		t.Errorf("arms: %s", got)
	}
	if a := g.Arms[0]; !strings.Contains(a.Reason, "swap") || !strings.Contains(a.Reason, "60") {
		t.Errorf("reason %q does not name sensor and value", a.Reason)
	}
}

// TestMistakeInGateKeepsTheArm: the arm is recorded, its finding is unmeasured with the error, the session
// ends as the workflow's fault; after the fix the arm is judged again from the record, and not run again.
func TestMistakeInGateKeepsTheArm(t *testing.T) {
	m := newScripted(t)
	mem := run.NewMemory()
	calls := 0
	g := testGroup(t, func(g *plan.Group) {
		g.Cap = 1
		g.Gates = []plan.Gate{{Name: "mine", Phase: plan.PhaseAfter, Scope: "arm", Required: true,
			Check: func(context.Context, *record.Arm) (record.Finding, error) {
				if calls++; calls == 4 {
					return record.Finding{}, &diag.Error{Kind: diag.Workflow, Msg: "got None, want number"}
				}
				return record.Finding{Outcome: record.Pass}, nil
			}}}
	})
	_, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
	if k, _ := diag.KindOf(err); err == nil || k != diag.Workflow {
		t.Fatalf("got %v, want the workflow's error", err)
	}
	e, _ := mem.Effect(t.Context(), "s", 0)
	kept, _ := mem.Group(t.Context(), e.Refs[0])
	if len(kept.Arms) != 4 || kept.Arms[3].Findings[0].Outcome != record.Unmeasured || kept.Arms[3].Findings[0].Error == "" {
		t.Fatalf("kept: %+v", kept.Arms)
	}
	opened := len(m.trace)
	res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
	if err != nil || res[0].Verdict != record.Better {
		t.Fatalf("after the fix: %v, %+v", err, res)
	}
	if got := labels(res[0]); got != "A:ok B:ok B:ok A:ok" {
		t.Errorf("arms: %s; want the last judged again from the record, not redone", got)
	}
	if len(m.trace) != opened {
		t.Errorf("arms were run again: %v", m.trace[opened:])
	}
}

// TestCancelledAtEveryStep: wherever the context ends, the arm is recorded as interrupted and a resumed
// session ends with the verdict of an undisturbed one.
func TestCancelledAtEveryStep(t *testing.T) {
	g := testGroup(t, nil)
	whole := newScripted(t)
	want := runOne(t, whole, g)
	for step := range len(whole.trace) {
		ctx, cancel := context.WithCancelCause(t.Context())
		m := newScripted(t)
		mem := run.NewMemory()
		stopAt := &cancelling{scripted: m, at: step, cancel: func() { cancel(errors.New("signal")) }}
		s := newSession(m, mem)
		s.Measurer = stopAt
		_, err := s.Run(ctx, []*plan.Group{g})
		if err == nil {
			continue // the last step's note came after everything was done
		}
		if ctx.Err() == nil {
			t.Fatalf("step %d (%s): %v", step, whole.trace[step], err)
		}
		res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
		if err != nil {
			t.Fatalf("step %d (%s): resume: %v", step, whole.trace[step], err)
		}
		if res[0].Verdict != want.Verdict {
			t.Errorf("step %d (%s): resumed verdict %s, want %s", step, whole.trace[step], res[0].Verdict, want.Verdict)
		}
		ok := 0
		for _, a := range res[0].Arms {
			if a.Disposition == record.OK {
				ok++
			}
		}
		if ok != 8 {
			t.Errorf("step %d (%s): %d arms count, want 8: %s", step, whole.trace[step], ok, labels(res[0]))
		}
	}
}

type cancelling struct {
	*scripted
	at     int
	cancel func()
}

func (c *cancelling) Open(ctx context.Context, t run.Task) (run.Rig, error) {
	r, err := c.scripted.Open(ctx, t)
	return &cancellingRig{r, c}, err
}

type cancellingRig struct {
	run.Rig
	c *cancelling
}

func (r *cancellingRig) Mark(step string) {
	r.Rig.Mark(step)
	if len(r.c.trace) == r.c.at+1 {
		r.c.cancel()
	}
}

// TestMachineTroubleAtTheEndOfAnArm: what the machine could not keep ends the session, and blames no side.
func TestMachineTroubleAtTheEndOfAnArm(t *testing.T) {
	m := newScripted(t)
	mem := run.NewMemory()
	s := newSession(m, mem)
	s.Measurer = fullDisk{m}
	_, err := s.Run(t.Context(), []*plan.Group{testGroup(t, nil)})
	if k, ok := diag.KindOf(err); !ok || k != diag.Machine || !strings.Contains(err.Error(), "no room") {
		t.Fatalf("got %v, want the machine's trouble", err)
	}
	e, _ := mem.Effect(t.Context(), "s", 0)
	kept, _ := mem.Group(t.Context(), e.Refs[0])
	if len(kept.Arms) != 1 || kept.Arms[0].Disposition != record.Failed {
		t.Errorf("kept: %+v", kept.Arms)
	}
}

type fullDisk struct{ *scripted }

func (f fullDisk) Open(ctx context.Context, t run.Task) (run.Rig, error) {
	r, err := f.scripted.Open(ctx, t)
	return fullDiskRig{r}, err
}

type fullDiskRig struct{ run.Rig }

func (r fullDiskRig) Close(ctx context.Context, a *record.Arm) error {
	return errors.Join(r.Rig.Close(ctx, a), &diag.Error{Kind: diag.Machine, Op: "arm files", Msg: "no room was left"})
}
