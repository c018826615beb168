package run_test

// A session that the machine ended, and goes on once the machine is mended.

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

// TestMendedMachineIsLaunchedAnew: what failed before the machine was mended is neither the answer of a resumed
// session nor held against a lever, whichever side came first and however it failed.
func TestMendedMachineIsLaunchedAnew(t *testing.T) {
	for _, how := range []struct {
		name string
		set  func(*scripted)
	}{
		{"cannot be launched", func(m *scripted) {
			m.launch = func(run.Task) error { return &run.LaunchError{Reason: "no such file", Permanent: true} }
		}},
		{"is not ready", func(m *scripted) {
			m.launch = func(run.Task) error { return &run.LaunchError{Reason: "exited with 1"} }
		}},
	} {
		for _, order := range []string{"ABBA", "BAAB"} {
			t.Run(how.name+" "+order, func(t *testing.T) {
				m, mem := newScripted(t), run.NewMemory()
				g := testGroup(t, func(g *plan.Group) { g.Order, g.Cap = order, 1 })
				opened := func() int { return strings.Count(strings.Join(m.trace, " "), "open") }
				for range 3 { // as long as nothing is mended, each resume tries
					how.set(m)
					before := opened()
					_, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
					if k, _ := diag.KindOf(err); k != diag.Machine || !strings.Contains(err.Error(), "base side cannot start") {
						t.Fatalf("got %v, want the machine's error", err)
					}
					if opened() == before {
						t.Fatal("nothing was launched: the error is the recorded one")
					}
				}
				m.launch = nil
				res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
				if err != nil || res[0].Verdict != record.Better {
					t.Fatalf("mended: %v, %+v", err, res)
				}
				for _, a := range res[0].Arms {
					if a.Disposition != record.OK && a.Disposition != record.Superseded {
						t.Errorf("arm %s: %s, %s", a.Label, a.Disposition, a.Reason)
					}
					if a.Disposition == record.Superseded && !strings.Contains(a.Reason, "no such file") && !strings.Contains(a.Reason, "exited with 1") {
						t.Errorf("a superseded arm no longer says how it failed: %q", a.Reason)
					}
				}
			})
		}
	}
}

// TestMachineErrorTakesNoRetry: an arm that the machine spoilt is done again though its group has no retries.
func TestMachineErrorTakesNoRetry(t *testing.T) {
	m, mem := newScripted(t), run.NewMemory()
	g := testGroup(t, func(g *plan.Group) { g.Cap, g.Retry = 1, 0 })
	s := newSession(m, mem)
	s.Measurer = fullDisk{m}
	if _, err := s.Run(t.Context(), []*plan.Group{g}); err == nil {
		t.Fatal("want the machine's trouble")
	}
	res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
	if err != nil || labels(res[0]) != "A:superseded A:ok B:ok B:ok A:ok" {
		t.Fatalf("mended: %v, %+v", err, res)
	}
}

// TestFailuresOfALeverAreKept: where the control ran after them, failures of a lever stay what they are.
func TestFailuresOfALeverAreKept(t *testing.T) {
	m, mem := newScripted(t), run.NewMemory()
	g := testGroup(t, func(g *plan.Group) { g.Order = "BAAB" })
	m.launch = func(task run.Task) error {
		if task.Side.Label == "B" {
			return &run.LaunchError{Reason: "exited with 1"}
		}
		return nil
	}
	s := newSession(m, mem)
	s.Recorder = &failingEnd{Memory: mem}
	if _, err := s.Run(t.Context(), []*plan.Group{g}); err == nil || errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the recorder's error", err)
	}
	steps := len(m.trace)
	res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
	if err != nil || res[0].Verdict != record.Infeasible || labels(res[0]) != "A:ok B:failed B:infeasible" {
		t.Fatalf("%v, %s, %s", err, res[0].Verdict, labels(res[0]))
	}
	if len(m.trace) != steps {
		t.Errorf("arms that were on record ran again: %v", m.trace[steps:])
	}
}
