package run_test

// The scripted machine that the tests of this package run on.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

func (m *scripted) tick() int64 { m.clock += 1e6; return m.clock }

func (m *scripted) Clock() run.Clock { return run.Clock{Mono: m.tick, Wall: m.tick} }

func (m *scripted) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func (m *scripted) Digests() plan.Digests { return m }

func (m *scripted) Close() error { return nil }

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

func (r *scriptedRig) Mark(step string) { r.m.note("%s %s", step, r.t.Side.Label) }

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

func (p *scriptedProcess) Info() *record.Process { return &record.Process{} }

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
