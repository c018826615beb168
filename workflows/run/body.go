package run

// What a body may do with its arm: the arm and its process as they are handed out. Every trouble is kept, so
// that a body that swallows an error does not hide it.

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"flow/builtins/command"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// arm is what a body holds.
type arm struct {
	s        *Session
	r        *groupRun
	rig      Rig
	side     plan.Side
	rec      *record.Arm
	watch    *watches
	launched bool
	settled  int64
	failure  error // of the engine, kept even when a body's language wraps it
}

func (h *arm) step(name string) {
	h.rig.Mark(name)
	h.watch.on(name)
	h.s.event(record.Event{Kind: "arm.step", Group: h.r.g.Name, GroupID: h.r.g.ID, Arm: h.rec.Label, Text: name, ArmOf: h.rec})
}

func (h *arm) fail(err error) error {
	if err != nil && h.failure == nil {
		h.failure = err
	}
	return err
}

func (h *arm) Side() plan.Side { return h.side }

func (h *arm) Workload() plan.Workload { return h.r.plan.WorkloadOf(h.side) }

func (h *arm) Label() string { return h.rec.Label }

func (h *arm) Launch(ctx context.Context, e plan.Engine) (plan.Process, error) {
	if h.launched {
		return nil, &diag.Error{Kind: diag.Workflow, Op: "arm.launch", Msg: "an arm is one launch: its engine was launched already",
			Fix: "measure a second launch in an arm of its own"}
	}
	h.launched = true
	h.step("launch")
	p, err := h.rig.Launch(ctx, e)
	if err != nil {
		return nil, h.fail(err)
	}
	h.step("confirm")
	return &process{h: h, Process: p}, nil
}

func (h *arm) Check(ctx context.Context, g plan.Gate) (record.Finding, error) {
	h.rec.Samples = h.rig.Samples()
	f, err := judgeOne(ctx, g, h.rec)
	h.rec.Findings = append(h.rec.Findings, f)
	return f, err
}

func (h *arm) Warm(ctx context.Context, p plan.Process, w plan.Workload) error {
	h.step("warm")
	_, err := p.Generate(ctx, w, record.MarkWarm)
	return err
}

func (h *arm) Measure(ctx context.Context, p plan.Process, w plan.Workload) error {
	h.step("measure")
	_, err := p.Generate(ctx, w, record.MarkMeasured)
	if err == nil {
		h.step("stop")
	}
	return err
}

func (h *arm) Sample(ctx context.Context, d time.Duration) ([]record.Sample, error) {
	from := h.s.Clock.Mono()
	if err := h.s.Sleep(ctx, d); err != nil {
		return nil, err
	}
	var out []record.Sample
	for _, x := range h.rig.Samples() {
		if x.MonoNS >= from {
			out = append(out, x)
		}
	}
	return out, nil
}

func (h *arm) Exec(ctx context.Context, argv []string) (record.Exec, error) {
	if len(argv) == 0 {
		return record.Exec{}, &diag.Error{Kind: diag.Workflow, Op: "arm.exec", Msg: "got an empty command", Fix: `write arm.exec(["sync"])`}
	}
	began := h.s.Clock.Mono()
	cmd := exec.Command(argv[0], argv[1:]...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &capped{w: &out}, &capped{w: &errs}
	left, err := command.Run(ctx, cmd)
	if len(left) > 0 {
		h.rec.Warnings = append(h.rec.Warnings, "arm.exec: "+(&command.LeftError{Argv: argv, Left: left}).Error())
	}
	e := record.Exec{Argv: argv, Stdout: out.String(), Stderr: errs.String(), Seconds: float64(h.s.Clock.Mono()-began) / 1e9, ExitCode: cmd.ProcessState.ExitCode()}
	h.rec.Execs = append(h.rec.Execs, e)
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return e, context.Cause(ctx)
	}
	if err != nil && !errors.As(err, &exit) {
		return e, &diag.Error{Kind: diag.Machine, Op: "arm.exec", Msg: "cannot run " + argv[0], Err: err}
	}
	return e, nil
}

// capped keeps the first execOutput bytes and lets the rest go.
type capped struct{ w *strings.Builder }

func (c *capped) Write(p []byte) (int, error) {
	if room := execOutput - c.w.Len(); room > 0 {
		c.w.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (h *arm) Record(m record.Metric) error {
	if m.Source == "" {
		m.Source = "arm.record"
	}
	h.rec.Metrics = append(h.rec.Metrics, m)
	return nil
}

// process remembers an engine's failures for the arm.
type process struct {
	plan.Process
	h *arm
}

func (p *process) Generate(ctx context.Context, w plan.Workload, mark string) ([]record.Request, error) {
	r, err := p.Process.Generate(ctx, w, mark)
	return r, p.h.fail(err)
}

func (p *process) Confirm(ctx context.Context) ([]record.Evidence, error) {
	e, err := p.Process.Confirm(ctx)
	return e, p.h.fail(err)
}

func (p *process) Stop(ctx context.Context) error { return p.h.fail(p.Process.Stop(ctx)) }
