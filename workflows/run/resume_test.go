package run_test

// What a session that goes on keeps, refuses and returns.

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// TestMendedGate: the function that failed may change, and judges everything that is on record; nothing
// else may.
func TestMendedGate(t *testing.T) {
	code := func(text string) plan.Code {
		return plan.Code{Name: "check", Fingerprint: func() (string, error) { return text, nil }}
	}
	group := func(first, second string, judged *int, fails bool) *plan.Group {
		return testGroup(t, func(g *plan.Group) {
			g.Cap = 1
			g.Gates = []plan.Gate{
				{Name: "first", Phase: plan.PhaseAfter, Scope: "arm", Required: true, Code: code(first), Check: func(context.Context, *record.Arm) (record.Finding, error) {
					return record.Finding{Outcome: record.Pass}, nil
				}},
				{Name: "second", Phase: plan.PhaseAfter, Scope: "arm", Required: true, Code: code(second), Check: func(context.Context, *record.Arm) (record.Finding, error) {
					if *judged++; fails && *judged == 4 {
						return record.Finding{}, &diag.Error{Kind: diag.Workflow, Msg: "got None, want number"}
					}
					return record.Finding{Outcome: record.Pass}, nil
				}},
			}
		})
	}
	m, mem, judged := newScripted(t), run.NewMemory(), 0
	if _, err := newSession(m, mem).Run(t.Context(), []*plan.Group{group("1", "1", &judged, true)}); err == nil {
		t.Fatal("the gate's mistake did not end the session")
	}
	for name, g := range map[string]*plan.Group{"another gate": group("2", "1", &judged, false), "both": group("2", "2", &judged, false)} {
		if _, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g}); err == nil || !strings.Contains(err.Error(), "gate first changed") {
			t.Errorf("%s changed: got %v, want a refusal", name, err)
		}
	}
	judged = 0
	res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{group("1", "2", &judged, false)})
	if err != nil || res[0].Verdict != record.Better || labels(res[0]) != "A:ok B:ok B:ok A:ok" {
		t.Fatalf("after the fix: %v, %s %s %s", err, res[0].Verdict, res[0].Reason, labels(res[0]))
	}
	if judged != 4 {
		t.Errorf("the mended gate judged %d arms, want the four on record", judged)
	}
	if res[0].Gates[1].Code != "2" {
		t.Errorf("the record says gate code %q, want the mended one", res[0].Gates[1].Code)
	}
}

// TestMendedStop: a stop's function that failed may change, after a block and inside one, and nothing else may. The
// arms on record stay; what was kept of the mistake is gone once it is mended.
func TestMendedStop(t *testing.T) {
	code := func(text string) plan.Code {
		return plan.Code{Name: "check", Fingerprint: func() (string, error) { return text, nil }}
	}
	group := func(first, second string, eachArm, fails bool) *plan.Group {
		return testGroup(t, func(g *plan.Group) {
			g.Stops = []plan.Stop{
				{Name: "first", Code: code(first), Rule: func(context.Context, *record.Group) (string, error) { return "", nil }},
				{Name: "second", Code: code(second), EachArm: eachArm, Rule: func(context.Context, *record.Group) (string, error) {
					if fails {
						return "", &diag.Error{Kind: diag.Workflow, Msg: "got None, want number"}
					}
					return "enough", nil
				}},
			}
		})
	}
	for _, eachArm := range []bool{false, true} {
		m, mem := newScripted(t), run.NewMemory()
		if _, err := newSession(m, mem).Run(t.Context(), []*plan.Group{group("1", "1", eachArm, true)}); err == nil || !strings.Contains(err.Error(), "got None") {
			t.Fatalf("got %v, want the stop's mistake", err)
		}
		opened := strings.Count(strings.Join(m.trace, " "), "open")
		if _, err := newSession(m, mem).Run(t.Context(), []*plan.Group{group("1", "1", eachArm, true)}); err == nil || !strings.Contains(err.Error(), "got None") {
			t.Errorf("not mended: got %v, want the mistake again", err)
		}
		for name, g := range map[string]*plan.Group{"another stop": group("2", "1", eachArm, false), "both": group("2", "2", eachArm, false)} {
			if _, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g}); err == nil || !strings.Contains(err.Error(), "stop first changed") {
				t.Errorf("%s changed: got %v, want a refusal", name, err)
			}
		}
		res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{group("1", "2", eachArm, false)})
		if err != nil || res[0].Stopped != "second: enough" {
			t.Fatalf("mended: %v, %+v", err, res)
		}
		for _, a := range res[0].Arms {
			if len(a.Findings) > 0 {
				t.Errorf("arm %s keeps %+v", a.Label, a.Findings)
			}
		}
		if now := strings.Count(strings.Join(m.trace, " "), "open"); now != opened {
			t.Errorf("each arm %v: %d arms were run, want the %d on record", eachArm, now, opened)
		}
	}
}

func TestStopsAreAskedBeforeNewArms(t *testing.T) {
	asked := 0
	g := testGroup(t, func(g *plan.Group) {
		g.Stops = []plan.Stop{{Name: "first", Rule: func(_ context.Context, g *record.Group) (string, error) {
			asked++
			return "enough", nil
		}}}
	})
	m := newScripted(t)
	mem := run.NewMemory()
	full := &failingEnd{Memory: mem}
	s := newSession(m, mem)
	s.Recorder = full
	if _, err := s.Run(t.Context(), []*plan.Group{g}); err == nil {
		t.Fatal("want the recorder's error")
	}
	arms := len(m.trace)
	res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.trace) != arms {
		t.Errorf("a resumed group whose stop had spoken ran more arms: %v", m.trace[arms:])
	}
	if !strings.Contains(res[0].Stopped, "enough") || asked != 2 {
		t.Errorf("stopped %q, asked %d times", res[0].Stopped, asked)
	}
}

// failingEnd dies between the last arm and the group's end.
type failingEnd struct{ *run.Memory }

func (failingEnd) EndGroup(context.Context, *record.Group) error { return errors.New("power cut") }

func TestResumeRefusesWhatChanged(t *testing.T) {
	m := newScripted(t)
	mem := run.NewMemory()
	g := testGroup(t, nil)
	if _, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g}); err != nil {
		t.Fatal(err)
	}
	changed := testGroup(t, func(g *plan.Group) { g.MinEffect = .05 })
	_, err := newSession(m, mem).Run(t.Context(), []*plan.Group{changed})
	if err == nil || !strings.Contains(err.Error(), "design") {
		t.Errorf("got %v, want a refusal that names the design", err)
	}
	m.digest = "new"
	_, err = newSession(m, mem).Run(t.Context(), []*plan.Group{g})
	if err == nil || !strings.Contains(err.Error(), "engine e of side A changed") {
		t.Errorf("got %v, want a refusal that names the engine", err)
	}
	s := newSession(m, mem)
	s.ForceCut = true
	res, err := s.Run(t.Context(), []*plan.Group{g})
	if err != nil || res[0].Verdict != record.Better {
		t.Errorf("forced: %v", err)
	}
}

func TestReplayReturnsWhatTheWorkflowSaw(t *testing.T) {
	m := newScripted(t)
	mem := run.NewMemory()
	g := testGroup(t, nil)
	first, err := newSession(m, mem).Run(t.Context(), []*plan.Group{g})
	if err != nil {
		t.Fatal(err)
	}
	n := len(m.trace)
	again := newSession(m, mem)
	if !again.Replaying() {
		t.Error("a session with a done effect ahead is not replaying")
	}
	second, err := again.Run(t.Context(), []*plan.Group{g})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(first)
	b, _ := json.Marshal(second)
	if string(a) != string(b) {
		t.Errorf("replayed result differs:\n%s\n%s", a, b)
	}
	if len(m.trace) != n {
		t.Errorf("replay touched the machine: %v", m.trace[n:])
	}
	if again.Replaying() {
		t.Error("still replaying after the last effect")
	}
}
