package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// scripted is a machine whose every step is told by the test. Its clock counts steps.
type scripted struct {
	t     *testing.T
	clock int64
	trace []string

	value  func(t run.Task) float64                    // primary metric of an arm
	launch func(t run.Task) error                      // nil: ready
	during func(ctx context.Context, t run.Task) error // what happens while it measures
	found  func(l plan.Lever, t run.Task) bool         // evidence; nil: on the sides that have the lever
	fill   func(t run.Task, a *record.Arm)             // more facts
	digest string                                      // of every file and binary
}

func newScripted(t *testing.T) *scripted {
	return &scripted{t: t, value: func(t run.Task) float64 {
		v := 100 + .05*float64(t.Slot%3)
		if len(t.Side.Stack) > 0 {
			v *= 1.1
		}
		return v
	}}
}

func (m *scripted) tick() int64      { m.clock += 1e6; return m.clock }
func (m *scripted) Clock() run.Clock { return run.Clock{Mono: m.tick, Wall: m.tick} }
func (m *scripted) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}
func (m *scripted) Digests() plan.Digests                           { return m }
func (m *scripted) Close() error                                    { return nil }
func (m *scripted) File(context.Context, string) (plan.Hash, error) { return "file" + m.digest, nil }
func (m *scripted) Binary(context.Context, string) (plan.Hash, error) {
	return "binary" + m.digest, nil
}
func (m *scripted) Machine(context.Context) (record.Machine, error) {
	return record.Machine{ID: "m"}, nil
}
func (m *scripted) Sensors(context.Context) ([]record.Sensor, error) { return nil, nil }
func (m *scripted) Read(_ context.Context, s []string) ([]record.Sample, error) {
	return []record.Sample{{Sensor: s[0], MonoNS: m.tick(), Value: 1}}, nil
}

func (m *scripted) Open(_ context.Context, t run.Task) (run.Rig, error) {
	m.note("open %s", t.Side.Label)
	return &scriptedRig{m: m, t: t}, nil
}

type scriptedRig struct {
	m     *scripted
	t     run.Task
	ready bool
	ev    []record.Evidence
}

func (r *scriptedRig) Samples() []record.Sample { return nil }
func (r *scriptedRig) Mark(step string)         { r.m.note("%s %s", step, r.t.Side.Label) }

func (r *scriptedRig) Launch(context.Context, plan.Engine) (plan.Process, error) {
	if r.m.launch != nil {
		if err := r.m.launch(r.t); err != nil {
			return nil, err
		}
	}
	r.ready = true
	return &scriptedProcess{r}, nil
}

func (r *scriptedRig) Close(_ context.Context, a *record.Arm) error {
	r.m.note("close %s", r.t.Side.Label)
	if !r.ready {
		return nil
	}
	a.Process = &record.Process{ReadyNS: r.m.tick()}
	a.Evidence = r.ev
	v := r.m.value(r.t)
	a.Metrics = append(a.Metrics, record.Metric{Name: "decode_tok_s", Unit: "tok/s", Better: "higher", Source: "script", Value: &v})
	if r.m.fill != nil {
		r.m.fill(r.t, a)
	}
	return nil
}

type scriptedProcess struct{ r *scriptedRig }

func (p *scriptedProcess) Confirm(context.Context) ([]record.Evidence, error) {
	for _, l := range p.r.t.Levers {
		on := slices.ContainsFunc(p.r.t.Side.Stack, func(x plan.Lever) bool { return x.Key() == l.Key() })
		if p.r.m.found != nil {
			on = p.r.m.found(l, p.r.t)
		}
		p.r.ev = append(p.r.ev, record.Evidence{Lever: l.Name, Kind: plan.ConfirmLog, What: "x", When: "ready", Found: on})
	}
	return p.r.ev, nil
}

func (p *scriptedProcess) Generate(ctx context.Context, _ plan.Workload, mark string) ([]record.Request, error) {
	if mark == record.MarkMeasured && p.r.m.during != nil {
		return nil, p.r.m.during(ctx, p.r.t)
	}
	return nil, ctx.Err()
}
func (p *scriptedProcess) Stop(context.Context) error { return nil }
func (p *scriptedProcess) Info() *record.Process      { return &record.Process{} }

// testEngine and testLever are the smallest that a group takes.
func testEngine() plan.Engine {
	return plan.Engine{Name: "e", Command: []string{"engine"}, API: &plan.API{Kind: plan.APIChat}}
}

func testLever(name string) plan.Lever {
	return plan.Lever{Name: name, Env: map[string]string{"X_" + name: "1"}, Confirm: []plan.Confirm{{Kind: plan.ConfirmLog, Pattern: "x"}}}
}

func testGroup(t *testing.T, change func(*plan.Group)) *plan.Group {
	t.Helper()
	g := plan.Group{Name: "screen-x", Order: "ABBA", Cap: 2, Retry: 1, Workload: plan.Workload{Cases: []plan.Case{{Prompts: []plan.Prompt{{Text: "p"}}, MaxTokens: 8}}, Repeat: 1},
		Sides: []plan.Side{{Label: "A", Engine: testEngine()}, {Label: "B", Engine: testEngine(), Stack: plan.Stack{testLever("x")}}}}
	if change != nil {
		change(&g)
	}
	out, err := plan.NewGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newSession(m *scripted, mem *run.Memory) *run.Session {
	ids := 0
	return run.NewSession(run.Config{
		Session: &record.Session{ID: "s", Seed: 7, Machine: record.Machine{ID: "m"}}, Clock: m.Clock(), Measurer: m, Recorder: mem, Journal: mem,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		NewID: func() string { ids++; return fmt.Sprintf("id%d-%d", m.clock, ids) },
	})
}

func runOne(t *testing.T, m *scripted, g *plan.Group) *record.Group {
	t.Helper()
	res, err := newSession(m, run.NewMemory()).Run(t.Context(), []*plan.Group{g})
	if err != nil {
		t.Fatal(err)
	}
	return res[0]
}

// labels is the group's arms as "A:ok B:ok …".
func labels(g *record.Group) string {
	var out []string
	for _, a := range g.Arms {
		out = append(out, a.Label+":"+a.Disposition)
	}
	return strings.Join(out, " ")
}

func TestArmStepsInOrder(t *testing.T) {
	m := newScripted(t)
	g := runOne(t, m, testGroup(t, func(g *plan.Group) { g.Cap = 1 }))
	want := "open A|settle A|gates A|launch A|confirm A|warm A|measure A|stop A|close A"
	if got := strings.Join(m.trace[:9], "|"); got != want {
		t.Errorf("steps of the first arm:\ngot  %s\nwant %s", got, want)
	}
	if got := labels(g); got != "A:ok B:ok B:ok A:ok" {
		t.Errorf("arms: %s", got)
	}
	if g.Verdict != record.Better {
		t.Errorf("verdict %s (%s), want better: B is 10 %% faster", g.Verdict, g.Reason)
	}
}

func TestBlockIsRedoneWhole(t *testing.T) {
	m := newScripted(t)
	bad := true
	m.during = func(_ context.Context, task run.Task) error {
		if task.Side.Label == "B" && bad {
			bad = false
			return &run.EngineError{Reason: "the engine exited by itself with code 1"}
		}
		return nil
	}
	g := runOne(t, m, testGroup(t, func(g *plan.Group) { g.Cap = 1 }))
	if got := labels(g); got != "A:ok B:failed A:ok B:ok B:ok A:ok" {
		t.Errorf("arms: %s; want the block redone from its first arm", got)
	}
	if g.Verdict != record.Better {
		t.Errorf("verdict %s: %s", g.Verdict, g.Reason)
	}
}

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

func TestProbeHoldsTheGroup(t *testing.T) {
	m := newScripted(t)
	m.value = func(task run.Task) float64 {
		if task.Purpose == "probe" && task.Slot == 0 {
			return 40
		}
		return 100
	}
	floor := 90.0
	g := runOne(t, m, testGroup(t, func(g *plan.Group) { g.Cap, g.Probe = 1, &plan.Probe{Metric: "decode_tok_s", Above: &floor} }))
	if got := labels(g); got != "A:ok A:ok A:ok B:ok B:ok A:ok" {
		t.Errorf("arms: %s; want two probe arms before the block", got)
	}
	m.value = func(run.Task) float64 { return 40 }
	g = runOne(t, m, testGroup(t, func(g *plan.Group) { g.Cap, g.Probe = 1, &plan.Probe{Metric: "decode_tok_s", Above: &floor} }))
	if g.Verdict != record.Invalid || !strings.Contains(g.Reason+g.Stopped, "probe arm: decode_tok_s is 40") {
		t.Errorf("verdict %s, reason %q, stopped %q", g.Verdict, g.Reason, g.Stopped)
	}
}

// TestQuarantineHoldsAcrossGroups: a group that ends in an incident leaves its quarantine to the next one, which
// runs the first group's control until it is inside the band again; a resumed session does as well.
func TestQuarantineHoldsAcrossGroups(t *testing.T) {
	floor := 90.0
	for _, c := range []struct {
		name       string
		sick       int  // probes after the incident that are outside
		resumed    bool // the session is begun anew between the groups
		probes     int  // after the incident
		second     string
		stopped    string
		after      string // arms of a third group
		afterCount int    // probes in all, when it has run
	}{
		{"released at once", 0, false, 1, "A:ok B:ok B:ok A:ok", "", "A:ok B:ok B:ok A:ok", 1},
		{"released at the second try", 1, false, 2, "A:ok B:ok B:ok A:ok", "", "A:ok B:ok B:ok A:ok", 2},
		{"released after a resume", 1, true, 2, "A:ok B:ok B:ok A:ok", "", "A:ok B:ok B:ok A:ok", 2},
		{"never inside", 99, false, 2, "", `quarantine since arm B3 of group "sick" was invalid: probe arm: decode_tok_s is 40, want above 90, after 2 tries`, "", 4},
		{"inside only before the third group", 2, false, 2, "", "quarantine since arm", "A:ok B:ok B:ok A:ok", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newScripted(t)
			mem := run.NewMemory()
			incident, probes := false, 0
			m.value = func(task run.Task) float64 {
				if task.Purpose == "probe" && incident {
					probes++
					if task.Group.Name != "sick" || task.Side.Label != "A" {
						t.Errorf("the probe is side %s of group %q, want the control of the group that fell ill", task.Side.Label, task.Group.Name)
					}
					if probes <= c.sick {
						return 40
					}
				}
				if task.Group.Name == "sick" && task.Side.Label == "B" {
					incident = true
				}
				return 100
			}
			sick := testGroup(t, func(g *plan.Group) {
				g.Name, g.Cap, g.Retry, g.Probe = "sick", 1, 0, &plan.Probe{Metric: "decode_tok_s", Above: &floor, Retries: 2}
				g.Gates = []plan.Gate{{Name: "no swap", Phase: plan.PhaseAfter, Required: true, Check: func(_ context.Context, a *record.Arm) (record.Finding, error) {
					if a.Label == "B" {
						return record.Finding{Outcome: record.Fail, Observed: "swap"}, nil
					}
					return record.Finding{Outcome: record.Pass}, nil
				}}}
			})
			plain := func(name string) *plan.Group {
				return testGroup(t, func(g *plan.Group) { g.Name, g.Cap = name, 1 })
			}
			s := newSession(m, mem)
			res, err := s.Run(t.Context(), []*plan.Group{sick})
			if err != nil || res[0].Verdict != record.Invalid || probes != 0 {
				t.Fatalf("the first group: %v, %v, %d probes after its incident", err, res, probes)
			}
			if c.resumed {
				s = newSession(m, mem)
				if res, err = s.Run(t.Context(), []*plan.Group{sick}); err != nil || labels(res[0]) != "A:ok A:ok B:invalid" {
					t.Fatalf("replay: %v", err)
				}
			}
			res, err = s.Run(t.Context(), []*plan.Group{plain("second")})
			if err != nil {
				t.Fatal(err)
			}
			if got := labels(res[0]); got != c.second || probes != c.probes || !strings.Contains(res[0].Stopped, c.stopped) {
				t.Errorf("the second group has %q after %d probes, stopped %q; want %q after %d, stopped %q", got, probes, res[0].Stopped, c.second, c.probes, c.stopped)
			}
			if c.second == "" && res[0].Verdict != record.Invalid {
				t.Errorf("a group that never began is %s", res[0].Verdict)
			}
			e, _ := mem.Effect(t.Context(), "s", 0)
			kept, _ := mem.Group(t.Context(), e.Refs[0])
			if len(kept.Arms) != 3+c.probes || kept.Arms[len(kept.Arms)-1].Purpose != "probe" || kept.Arms[3].Seq != 3 {
				t.Errorf("the first group keeps %s", labels(kept))
			}
			if res, err = s.Run(t.Context(), []*plan.Group{plain("third")}); err != nil || labels(res[0]) != c.after || probes != c.afterCount {
				t.Errorf("the third group: %v, %q after %d probes, want %q after %d", err, labels(res[0]), probes, c.after, c.afterCount)
			}
		})
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
