package builtins_test

import (
	"context"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"flow/builtins"
	"flow/starlark/script"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func ptr[T any](x T) *T { return &x }

// fakeSession remembers what was asked, acts out bodies and gates of groups, and answers with results.
type fakeSession struct {
	calls     []string
	groups    []*plan.Group
	results   []*record.Group // answers of Run, in order; nil is a plain one
	table     *record.Table
	stack     plan.Stack
	samples   []record.Sample
	params    map[string]any
	scope     builtins.HistoryScope
	sensors   []string
	timeout   time.Duration
	err       error
	replaying bool
	arm       *fakeArm
	findings  []record.Finding
}

var _ builtins.Session = (*fakeSession)(nil)

func (s *fakeSession) say(format string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *fakeSession) Run(ctx context.Context, groups []*plan.Group) ([]*record.Group, error) {
	if s.err != nil {
		return nil, s.err
	}
	var out []*record.Group
	for i, g := range groups {
		s.say("run %s", g.Name)
		s.groups = append(s.groups, g)
		if g.Body != nil {
			s.arm = &fakeArm{side: g.Sides[0], work: g.Workload}
			if err := g.Body(ctx, s.arm); err != nil {
				return nil, err
			}
		}
		for _, x := range g.Gates {
			f, err := x.Check(ctx, armWith(g))
			if err != nil {
				return nil, err
			}
			s.findings = append(s.findings, f)
		}
		if i < len(s.results) {
			out = append(out, s.results[i])
			continue
		}
		out = append(out, &record.Group{Name: g.Name, Verdict: record.Inconclusive})
	}
	return out, nil
}

// armWith is an arm of a group with one metric and some samples.
func armWith(g *plan.Group) *record.Arm {
	a := &record.Arm{
		ID: "arm-1", Label: "A", Seq: 0, MonoStartNS: 5e9, Disposition: record.OK,
		Metrics: []record.Metric{{Name: "decode_tok_s", Value: ptr(20.5)}, {Name: "ttft_ms", Why: "the stream had no tokens"}},
		Samples: []record.Sample{{Sensor: "meminfo.swap_used_mib", MonoNS: 6e9, Value: 4}, {Sensor: "meminfo.swap_used_mib", MonoNS: 7e9, Value: 1}, {Sensor: "meminfo.swap_used_mib", MonoNS: 8e9, Value: 7}},
		Steps:   []record.Step{{Name: "measure", StartNS: 65e8, EndNS: 9e9}},
	}
	if g != nil {
		a.Group = &record.Group{Name: g.Name, Control: g.Sides[0].Label, Arms: []*record.Arm{a}}
		for _, s := range g.Sides {
			a.Group.Sides = append(a.Group.Sides, record.Side{Label: s.Label, Stack: s.Stack.Record()})
		}
	}
	return a
}

func (s *fakeSession) Query(_ context.Context, sql string, params map[string]any) (*record.Table, error) {
	s.say("query %s", sql)
	s.params = params
	return s.table, s.err
}
func (s *fakeSession) History(_ context.Context, scope builtins.HistoryScope) (*record.Table, error) {
	s.say("history")
	s.scope = scope
	return s.table, s.err
}
func (s *fakeSession) Champion(_ context.Context, e plan.Engine, w plan.Workload) (plan.Stack, error) {
	s.say("champion %s", e.Name)
	return s.stack, s.err
}
func (s *fakeSession) Read(_ context.Context, sensors []string) ([]record.Sample, error) {
	s.say("read %v", sensors)
	return s.samples, s.err
}
func (s *fakeSession) WaitUntil(ctx context.Context, check plan.Check, code plan.Code, sensors []string, timeout time.Duration) (bool, error) {
	s.say("wait_until")
	s.sensors, s.timeout = sensors, timeout
	if code.Fingerprint == nil {
		return false, fmt.Errorf("the check has no code")
	}
	f, err := check(ctx, &record.Arm{Samples: []record.Sample{{Sensor: "loadavg.1m", Value: .5}}})
	return f.Outcome == record.Pass, err
}
func (s *fakeSession) Note(_ context.Context, text string) error {
	s.say("note %s", text)
	return s.err
}
func (s *fakeSession) Budget(_ context.Context, b record.Budget) error {
	s.say("budget %+v", b)
	return s.err
}
func (s *fakeSession) Replaying() bool { return s.replaying }

// fakeArm remembers what a body did.
type fakeArm struct {
	side    plan.Side
	work    plan.Workload
	calls   []string
	metrics []record.Metric
}

var _ plan.Arm = (*fakeArm)(nil)

func (a *fakeArm) Side() plan.Side         { return a.side }
func (a *fakeArm) Workload() plan.Workload { return a.work }
func (a *fakeArm) Label() string           { return a.side.Label }
func (a *fakeArm) Launch(_ context.Context, e plan.Engine) (plan.Process, error) {
	a.calls = append(a.calls, "launch "+e.Name)
	return &fakeProcess{arm: a}, nil
}
func (a *fakeArm) Check(ctx context.Context, g plan.Gate) (record.Finding, error) {
	a.calls = append(a.calls, "check "+g.Name)
	return g.Check(ctx, armWith(nil))
}
func (a *fakeArm) Warm(context.Context, plan.Process, plan.Workload) error {
	a.calls = append(a.calls, "warm")
	return nil
}
func (a *fakeArm) Measure(_ context.Context, _ plan.Process, w plan.Workload) error {
	a.calls = append(a.calls, fmt.Sprintf("measure %d", w.Repeat))
	return nil
}
func (a *fakeArm) Sample(_ context.Context, d time.Duration) ([]record.Sample, error) {
	a.calls = append(a.calls, "sample "+d.String())
	return []record.Sample{{Sensor: "x", MonoNS: 1, Value: 2}}, nil
}
func (a *fakeArm) Exec(_ context.Context, argv []string) (record.Exec, error) {
	a.calls = append(a.calls, fmt.Sprint("exec ", argv))
	return record.Exec{Argv: argv, Stdout: "done"}, nil
}
func (a *fakeArm) Record(m record.Metric) error {
	a.metrics = append(a.metrics, m)
	return nil
}

type fakeProcess struct{ arm *fakeArm }

func (p *fakeProcess) Confirm(context.Context) ([]record.Evidence, error) {
	p.arm.calls = append(p.arm.calls, "confirm")
	return []record.Evidence{{Lever: "fast", Kind: "log", Found: true}}, nil
}
func (p *fakeProcess) Generate(_ context.Context, w plan.Workload, mark string) ([]record.Request, error) {
	p.arm.calls = append(p.arm.calls, "generate "+mark)
	return []record.Request{{Index: 0, Mark: mark, Status: "ok"}, {Index: 1, Mark: mark, Status: "error", Error: "closed", CompletionTokens: ptr(3)}}, nil
}
func (p *fakeProcess) Stop(context.Context) error {
	p.arm.calls = append(p.arm.calls, "stop")
	return nil
}
func (p *fakeProcess) Info() *record.Process { return &record.Process{Pid: 42} }

// callMain runs a chunk's main(session), if it has one.
func callMain(ctx context.Context, l *script.Loader, globals starlark.StringDict) error {
	main, ok := globals["main"].(starlark.Callable)
	if !ok {
		return nil
	}
	_, err := l.Call(ctx, "", main, starlark.Tuple{builtins.SessionValue(l, &fakeSession{})}, nil)
	return err
}
