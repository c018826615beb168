package run

// The life of an arm: settle, before-gates, launch, ready, confirm, warm up, measure, stop, record,
// after-gates, findings recorded. An arm is durable before its after-gates are judged, so that a mistake
// in a gate never loses it.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"flow/builtins/gate"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// armAt says which arm to run.
type armAt struct {
	label                string
	block, slot, attempt int
	tries                int // attempts of the block that counted: what the simulated measurer varies with
	seq                  int // logical place in the session
	purpose              string
}

// EngineError is an engine that failed while an arm ran: it died, hung, or answered garbage. It is
// transient until it happens the same way every time.
type EngineError struct{ Reason string }

func (e *EngineError) Error() string { return e.Reason }

// runArm runs one arm and records it. A nil error with a disposition other than ok is an arm that does not
// count; an error ends the session.
func (s *Session) runArm(ctx context.Context, r *groupRun, at armAt) (*record.Arm, error) {
	s.launchFix = ""
	if err := s.budgetLeft(r, 1); err != nil {
		return nil, err
	}
	side := r.plan.Sides[slices.IndexFunc(r.plan.Sides, func(x plan.Side) bool { return x.Label == at.label })]
	a := &record.Arm{
		ID: s.NewID(), GroupID: r.g.ID, Label: at.label, Block: at.block, Slot: at.slot, Attempt: at.attempt, Seq: len(r.g.Arms),
		Purpose: at.purpose, WallStartNS: s.Clock.Wall(), MonoStartNS: s.Clock.Mono(), Group: r.g, Attached: side.Engine.URL != "",
	}
	s.event(record.Event{Kind: "arm.start", Group: r.g.Name, GroupID: r.g.ID, Arm: at.label, Text: at.purpose, ArmOf: a, GroupOf: r.g})

	actx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatches(r.plan.Guards, at.label, cancel)
	settling := newSettleWatch(r.plan.Settling)
	rig, err := s.Measurer.Open(actx, Task{
		SessionID: s.Session.ID, GroupID: r.g.ID, ArmID: a.ID, Group: r.plan, GroupSeed: r.g.Seed, Side: side, Levers: r.plan.Levers(),
		Block: at.block, Slot: at.slot, Attempt: at.tries, Seq: at.seq, Purpose: at.purpose, Sensors: sensors(r.plan, at.label),
		OnSample: func(x record.Sample) { settling.sample(x); watch.sample(x) },
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	h := &arm{s: s, r: r, rig: rig, side: side, rec: a, watch: watch}
	failure := s.act(actx, h, settling)
	held := watch.stop()
	closeErr := rig.Close(context.WithoutCancel(ctx), a)
	a.MonoEndNS = s.Clock.Mono()
	if h.settled > 0 {
		a.OverheadNS = overhead(a)
	}
	mistake := s.dispose(ctx, actx, a, h, failure)
	if h.launched {
		a.Findings = append(a.Findings, held...)
	}
	if closeErr != nil && mistake == nil {
		a.Disposition, a.Reason = record.Failed, closeErr.Error()
		if k, ok := diag.KindOf(closeErr); ok && k == diag.Machine {
			mistake = closeErr // the machine cannot go on: no side is to blame
		}
	}
	durable := context.WithoutCancel(ctx)
	if err := s.Recorder.EndArm(durable, a); err != nil {
		return nil, err
	}
	if mistake == nil && a.Disposition == record.OK && at.purpose == "measured" {
		mistake = s.afterGates(ctx, r, a)
	}
	if a.Disposition == record.OK || a.Disposition == record.Invalid {
		a.Disposition, a.Reason = gate.JudgeArm(a)
	}
	s.spend(a)
	if err := s.Recorder.JudgeArm(durable, a); err != nil {
		return a, err
	}
	if mistake != nil {
		return a, mistake
	}
	if a.Disposition == record.Interrupted {
		return a, context.Cause(ctx)
	}
	return a, nil
}

// act settles, judges before-gates, applies host settings and runs the body.
func (s *Session) act(ctx context.Context, h *arm, settling *settleWatch) error {
	h.step("settle")
	if err := s.settle(ctx, h, settling); err != nil {
		return err
	}
	h.settled = s.Clock.Mono()
	h.step("gates")
	s.hostWords(ctx, h)
	h.rec.Samples = h.rig.Samples()
	for _, g := range h.r.plan.Gates {
		if g.Phase != plan.PhaseBefore || h.rec.Purpose != "measured" {
			continue
		}
		f, err := judgeOne(ctx, g, h.rec)
		h.rec.Findings = append(h.rec.Findings, f)
		if err != nil {
			return err
		}
		if f.Outcome != record.Pass && f.Required {
			return errSkip
		}
	}
	if err := s.hostSettings(ctx, h); err != nil {
		return err
	}
	body := h.r.plan.Body
	if body == nil {
		body = Standard
	}
	return body(ctx, h)
}

// errSkip ends an arm whose before-gate did not pass: there is nothing to measure.
var errSkip = errors.New("a gate did not pass before the arm")

// Standard is the body of a group that names none: launch, confirm, warm, measure, stop.
func Standard(ctx context.Context, a plan.Arm) error {
	p, err := a.Launch(ctx, a.Side().Engine)
	if err != nil {
		return err
	}
	if _, err := p.Confirm(ctx); err != nil {
		return err
	}
	if err := a.Warm(ctx, p, a.Workload()); err != nil {
		return err
	}
	if err := a.Measure(ctx, p, a.Workload()); err != nil {
		return err
	}
	return p.Stop(ctx)
}

// dispose turns what happened into a disposition. It returns an error only for a mistake in the workflow
// or a machine that cannot go on.
func (s *Session) dispose(ctx, actx context.Context, a *record.Arm, h *arm, failure error) error {
	var b *breach
	var le *LaunchError
	var ee *EngineError
	if a.Label == h.r.g.Control && h.launched && a.Process != nil && a.Process.ReadyNS != 0 && (h.side.Engine.API != nil || failure == nil) { // a command is ready at once: it has to have run
		s.started[h.r.g.Engine] = true
	}
	switch {
	case ctx.Err() != nil:
		a.Disposition, a.Reason = record.Interrupted, context.Cause(ctx).Error()
	case asErr(context.Cause(actx), &b):
		a.Disposition = record.Invalid
		a.Reason = b.Error()
		a.Findings = append(a.Findings, gate.GuardFinding(b.guard, b.words))
	case errors.Is(failure, errSkip):
		a.Disposition = record.Invalid
	case asErr(failure, &le) || asErr(h.failure, &le):
		return s.disposeLaunch(a, h, le)
	case asErr(failure, &ee) || asErr(h.failure, &ee):
		a.Disposition, a.Reason = record.Failed, ee.Reason
	case failure != nil:
		a.Disposition, a.Reason = record.Failed, "the body of the arm ended with an error: "+failure.Error()
		return s.inArm(h.r, a, failure)
	default:
		a.Disposition, a.Reason = record.OK, ""
		if why := brokenRequest(a); why != "" {
			a.Disposition, a.Reason = record.Failed, why
		}
	}
	return nil
}

// disposeLaunch decides what an engine that did not get ready means: on the control it is the machine's
// trouble (exit 3), on another side the lever's.
func (s *Session) disposeLaunch(a *record.Arm, h *arm, le *LaunchError) error {
	a.Disposition, a.Reason = record.Failed, le.Error()
	if a.Process == nil && le.LogTail != "" {
		a.Process = &record.Process{LogTail: le.LogTail}
	}
	if kind, ok := diag.KindOf(le); ok && kind == diag.Bug {
		return le // a mistake of flow says nothing about a side
	}
	s.launchFix = ""
	if why := (*diag.Error)(nil); errors.As(le.Err, &why) {
		s.launchFix = why.Fix
	}
	if !le.Permanent {
		return nil
	}
	if a.Label != h.r.g.Control {
		a.Disposition = record.Infeasible
		return nil
	}
	if !s.started[h.r.g.Engine] {
		return &diag.Error{Pos: h.side.Engine.Pos, Kind: diag.Machine, Op: "engine " + h.side.Engine.Name,
			Msg: "the base side cannot start: " + le.Error() + tail(a), Fix: s.fixOfLaunch(a)}
	}
	return nil
}

// fixOfLaunch is what the failed launch itself said would help, or what always does.
func (s *Session) fixOfLaunch(a *record.Arm) string {
	if s.launchFix != "" {
		return s.launchFix
	}
	return "run the command by hand in an empty folder, as flow does (a file of the workflow's is a param of type \"path\", or cwd = says where), and see `flow show " + a.ID + "`"
}

// brokenRequest says why an arm whose measured requests did not all succeed does not count.
func brokenRequest(a *record.Arm) string {
	bad, n, first := 0, 0, ""
	for _, q := range a.Requests {
		if q.Mark != record.MarkMeasured {
			continue
		}
		n++
		if q.Status != "ok" {
			bad++
			if first == "" {
				first = fmt.Sprintf("request %d: %s: %s", q.Index, q.ErrorKind, q.Error)
			}
		}
	}
	if bad == 0 {
		return ""
	}
	why := fmt.Sprintf("%d of %d measured requests failed; %s", bad, n, first)
	if p := a.Process; p != nil && p.StoppedBy == "itself" {
		why += "; the engine " + ended(p)
	}
	return why
}

// ended is how an engine ended, in words.
func ended(p *record.Process) string {
	switch {
	case p.OOMKilled:
		return "was killed for want of memory"
	case p.Signal != "":
		return "ended by signal " + p.Signal
	case p.ExitCode != nil:
		return fmt.Sprintf("exited by itself with code %d", *p.ExitCode)
	}
	return "ended by itself"
}

// afterGates judges what was measured. A mistake in a gate's function makes its finding unmeasured, with
// the error, and ends the session.
func (s *Session) afterGates(ctx context.Context, r *groupRun, a *record.Arm) error {
	for _, g := range r.plan.Gates {
		if g.Phase == plan.PhaseBefore {
			continue
		}
		f, err := judgeOne(ctx, g, a)
		a.Findings = append(a.Findings, f)
		if err != nil {
			return s.inArm(r, a, err)
		}
	}
	return nil
}

// phaseStop is the phase of a finding that is no gate's: a stop's function failed after this arm.
const phaseStop = "stop"

// rejudge judges a kept arm again where its judgement was lost (flow ended between the arm and its
// findings) or was a mistake of a gate's function. It works from the record alone.
func (s *Session) rejudge(ctx context.Context, r *groupRun, a *record.Arm) error {
	had := len(a.Findings)
	a.Findings = slices.DeleteFunc(a.Findings, func(f record.Finding) bool { return f.Phase == phaseStop }) // its stop is asked again
	mistaken := slices.ContainsFunc(a.Findings, func(f record.Finding) bool { return f.Error != "" })
	if a.Purpose != "measured" || !(a.Disposition == record.OK || a.Disposition == record.Invalid && mistaken) {
		if len(a.Findings) < had {
			return s.Recorder.JudgeArm(context.WithoutCancel(ctx), a)
		}
		return nil
	}
	after := func(name string) bool {
		return slices.ContainsFunc(r.plan.Gates, func(g plan.Gate) bool { return g.Name == name && g.Phase != plan.PhaseBefore })
	}
	found := 0
	for _, f := range a.Findings {
		if f.Error == "" && after(f.Gate) {
			found++
		}
	}
	want := 0
	for _, g := range r.plan.Gates {
		if after(g.Name) {
			want++
		}
	}
	a.Group = r.g
	if mistaken || found < want || s.again[r.g.ID] {
		samples, err := s.Recorder.Samples(ctx, a.ID, "")
		if err != nil {
			return err
		}
		a.Samples = samples
		a.Findings = slices.DeleteFunc(a.Findings, func(f record.Finding) bool { return after(f.Gate) })
		a.Disposition, a.Reason = record.OK, ""
		if err := s.afterGates(ctx, r, a); err != nil {
			return err
		}
	}
	a.Disposition, a.Reason = gate.JudgeArm(a)
	return s.Recorder.JudgeArm(context.WithoutCancel(ctx), a)
}

// judgeOne asks one gate and fills in what the gate does not say itself.
func judgeOne(ctx context.Context, g plan.Gate, a *record.Arm) (record.Finding, error) {
	f, err := g.Check(ctx, a)
	if f.Warning != "" && !slices.Contains(a.Warnings, f.Warning) {
		a.Warnings = append(a.Warnings, f.Warning)
	}
	return gate.FindingOf(g, f, err), err
}

// inArm adds the group and the arm to a mistake that came out of a workflow's function.
func (s *Session) inArm(r *groupRun, a *record.Arm, err error) error {
	var d *diag.Error
	if errors.As(err, &d) && strings.Contains(d.Error(), "group") {
		return err
	}
	kind := diag.Workflow
	if k, ok := diag.KindOf(err); ok {
		kind = k
	}
	return &diag.Error{Kind: kind, Op: fmt.Sprintf("group %q, arm %s", r.g.Name, record.ArmName(a.Label, a.Seq)), Err: err}
}

// overhead is flow's own part of an arm: everything but settling and the engine's time.
func overhead(a *record.Arm) int64 {
	left := a.MonoEndNS - a.MonoStartNS
	for _, st := range a.Steps {
		switch st.Name {
		case "settle", "launch", "warm", "measure", "stop":
			left -= st.EndNS - st.StartNS
		}
	}
	return max(left, 0)
}

// sensors is what gates, guards and settling of a group need on a side. A guard's Also may be missing.
func sensors(g *plan.Group, side string) []string {
	out := g.Settling.Sensors()
	for _, x := range g.Gates {
		for _, n := range x.Needs {
			if !strings.HasPrefix(n, hostPrefix) {
				out = append(out, n)
			}
		}
	}
	for _, x := range g.Guards {
		if !gate.Applies(x, side) {
			continue
		}
		out = append(out, x.Sensor)
		if x.While != nil {
			out = append(out, x.While.Sensor)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// asErr is errors.As that takes nil.
func asErr[T error](err error, into *T) bool { return err != nil && errors.As(err, into) }

var _ plan.Arm = (*arm)(nil)

// execOutput is how much of a command's output is kept, each stream.
const execOutput = 64 << 10
