package measure

// The recorded measurer: arms that were measured before, in their order, for a workflow that is run again
// with other gates, stops or rules. Nothing is launched; an arm keeps the times it had. What the gates found
// then is not taken over: they are asked anew.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// Recorded is the measurer. Arms are matched by what is effective on their side (command, environment,
// config, request). A group takes the arms of recorded groups that compare the same sides first, so that
// the controls are those that stood beside them; then those of any other group.
type Recorded struct {
	session *record.Session
	samples func(ctx context.Context, arm string) ([]record.Sample, error)
	mu      sync.Mutex
	mono    int64
	arms    []*recordedArm            // in time
	noise   map[string][]record.Noise // known before a group, by its sides
}

var (
	_ run.Measurer = (*Recorded)(nil)
	_ run.Knower   = (*Recorded)(nil)
)

type recordedArm struct {
	arm     *record.Arm
	side    plan.Hash
	sides   string // of its group
	purpose string
	taken   bool
}

// NewRecorded makes a measurer of the arms of a recorded session. samples gives those of an arm; nil gives
// none.
func NewRecorded(s *record.Session, groups []*record.Group, samples func(ctx context.Context, arm string) ([]record.Sample, error)) *Recorded {
	m := &Recorded{session: s, samples: samples, mono: max(s.MonoStartNS, 1), noise: map[string][]record.Noise{}}
	for _, g := range groups {
		arms := armsOfGroup(g)
		m.arms = append(m.arms, arms...)
		if len(arms) > 0 && m.noise[arms[0].sides] == nil && g.Noise != nil {
			m.noise[arms[0].sides] = g.Noise
		}
	}
	return m
}

// armsOfGroup is the arms that can be measured with again: those that ran to an end of their own.
func armsOfGroup(g *record.Group) []*recordedArm {
	keys := map[string]plan.Hash{}
	for _, s := range g.Sides {
		if !s.Estimated {
			keys[s.Label] = commandKey(s.Command)
		}
	}
	var out []*recordedArm
	for _, a := range g.Arms {
		switch a.Disposition {
		case record.Interrupted, record.Superseded:
			continue
		}
		out = append(out, &recordedArm{arm: a, side: keys[a.Label], sides: sidesKey(slices.Collect(maps.Values(keys))), purpose: orMeasured(a.Purpose)})
	}
	return out
}

// planKeys is what is effective on each side.
func planKeys(g *plan.Group) (map[string]plan.Hash, error) {
	keys := map[string]plan.Hash{}
	for _, s := range g.Sides {
		c, err := g.Effective(s)
		if err != nil {
			return nil, err
		}
		keys[s.Label] = commandKey(c)
	}
	return keys, nil
}

// Noise is what was known before the recorded group of the same sides; nil leaves it to the history.
func (m *Recorded) Noise(g *plan.Group) []record.Noise {
	keys, err := planKeys(g)
	if err != nil {
		return nil
	}
	return m.noise[sidesKey(slices.Collect(maps.Values(keys)))]
}

// orMeasured: imported arms may say no purpose.
func orMeasured(purpose string) string {
	if purpose == "" {
		return "measured"
	}
	return purpose
}

func commandKey(c record.Command) plan.Hash {
	c.Delta = nil // relative to the group's base, so not what is effective
	return plan.Sum(c)
}

func sidesKey(keys []plan.Hash) string {
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// Skip marks what an interrupted session of this measurer has taken already, so that the resumed one goes
// on where it would have. Blocks that will be redone give their arms back.
func (m *Recorded) Skip(groups []*record.Group) {
	for _, g := range groups {
		for _, a := range armsOfGroup(g) {
			whole := 0
			for _, x := range g.Arms {
				if x.Block == a.arm.Block && x.Attempt == a.arm.Attempt && (x.Slot == 0 || x.Disposition == record.OK) {
					whole++
				}
			}
			p := plan.Group{Order: g.Order}
			for _, s := range g.Sides {
				p.Sides = append(p.Sides, plan.Side{Label: s.Label})
			}
			if a.purpose == "measured" && a.arm.Disposition == record.OK && g.Verdict == "" && whole < len(p.BlockAt(a.arm.Block, false).Labels) {
				continue
			}
			m.take(a.side, a.sides, a.purpose)
		}
	}
}

func (m *Recorded) take(side plan.Hash, sides, purpose string) *record.Arm {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, same := range []bool{true, false} {
		for _, a := range m.arms {
			if !a.taken && a.side == side && a.purpose == purpose && (a.sides == sides) == same {
				a.taken = true
				return a.arm
			}
		}
	}
	return nil
}

// Clock stands at the arm that was taken last: its times are those of its own session.
func (m *Recorded) Clock() run.Clock {
	offset := m.session.OffsetStartNS
	return run.Clock{Mono: m.now, Wall: func() int64 { return m.now() + offset }}
}

// Sleep does not wait: what was waited for is past.
func (m *Recorded) Sleep(ctx context.Context, _ time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (m *Recorded) now() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mono
}

func (m *Recorded) set(mono int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mono = mono
}

// Digests takes names for what they name: nothing is read.
func (m *Recorded) Digests() plan.Digests { return named{} }

// Machine is the one that was recorded.
func (m *Recorded) Machine(context.Context) (record.Machine, error) { return m.session.Machine, nil }

// Sensors is empty: the samples are those of the record.
func (m *Recorded) Sensors(context.Context) ([]record.Sensor, error) { return nil, nil }

// Read has nothing to read from.
func (m *Recorded) Read(_ context.Context, sensors []string) ([]record.Sample, error) {
	return nil, &diag.Error{Kind: diag.Workflow, Op: "--recorded", Msg: "sensors cannot be read outside an arm: " + strings.Join(sensors, ", ") + " of session " + m.session.ID + " is past",
		Fix: "run the workflow without --recorded, or with --simulate"}
}

// Close has nothing to release.
func (m *Recorded) Close() error { return nil }

// Open takes the next recorded arm of the task's side.
func (m *Recorded) Open(ctx context.Context, t run.Task) (run.Rig, error) {
	keys, err := planKeys(t.Group)
	if err != nil {
		return nil, err
	}
	mine := keys[t.Side.Label]
	a := m.take(mine, sidesKey(slices.Collect(maps.Values(keys))), orMeasured(t.Purpose))
	if a == nil && t.Purpose == "warm" { // an arm that is only there to warm needs no facts
		a = &record.Arm{Purpose: "warm", Disposition: record.OK, Process: &record.Process{ReadyNS: m.now()}, MonoStartNS: m.now(), MonoEndNS: m.now()}
	}
	if a == nil {
		return nil, m.none(t, mine)
	}
	r := &recordedRig{m: m, arm: a}
	if m.samples != nil && a.ID != "" {
		if r.samples, err = m.samples(ctx, a.ID); err != nil {
			return nil, err
		}
	}
	if t.OnSample != nil {
		for _, s := range r.samples {
			t.OnSample(s)
		}
	}
	return r, nil
}

// none says why there is no arm: never one of this side, or not as many.
func (m *Recorded) none(t run.Task, side plan.Hash) error {
	n := 0
	for _, a := range m.arms {
		if a.side == side && a.purpose == orMeasured(t.Purpose) {
			n++
		}
	}
	msg := fmt.Sprintf("group %q, side %s: session %s has no %s arm with this command, environment, config and request", t.Group.Name, t.Side.Label, m.session.ID, orMeasured(t.Purpose))
	fix := "record it: run the workflow without --recorded; or see what is there: flow show " + m.session.ID
	if n > 0 {
		msg = fmt.Sprintf("group %q, side %s: session %s has %d such arms, and all are used", t.Group.Name, t.Side.Label, m.session.ID, n)
		fix = "ask for fewer blocks, such as stops = [after(blocks = 1)], or for fewer groups"
	}
	return &diag.Error{Pos: t.Group.Pos, Kind: diag.Workflow, Op: "--recorded", Msg: msg, Fix: fix}
}

type recordedRig struct {
	m       *Recorded
	arm     *record.Arm
	samples []record.Sample
	process *recordedProcess
}

func (r *recordedRig) Samples() []record.Sample { return slices.Clone(r.samples) }

// Words are what the machine said then.
func (r *recordedRig) Words(_ context.Context, names []string) (said, why map[string]string) {
	said, why = map[string]string{}, map[string]string{}
	for _, n := range names {
		if v, ok := r.arm.Host[n]; ok {
			said[n] = v
		} else if why[n] = r.arm.HostWhy[n]; why[n] == "" {
			why[n] = "the recorded arm was not asked for it"
		}
	}
	return said, why
}

// Mark has no step to open: the arm's own stand.
func (r *recordedRig) Mark(string) {}

func (r *recordedRig) Launch(ctx context.Context, _ plan.Engine) (plan.Process, error) {
	if p := r.arm.Process; p == nil || p.ReadyNS == 0 && r.arm.Disposition != record.OK && r.arm.Disposition != record.Invalid {
		switch r.arm.Disposition {
		case record.Infeasible, record.Failed:
			return nil, &run.LaunchError{Reason: r.arm.Reason, Permanent: r.arm.Disposition == record.Infeasible}
		}
	}
	r.process = &recordedProcess{arm: r.arm}
	return r.process, ctx.Err()
}

// Close gives the recorded facts, with the times they had.
func (r *recordedRig) Close(_ context.Context, a *record.Arm) error {
	o := r.arm
	a.Process, a.Evidence, a.Steps, a.Samples, a.Requests = o.Process, o.Evidence, o.Steps, r.samples, o.Requests
	a.Neighbours, a.Attached, a.Execs = o.Neighbours, o.Attached, append(a.Execs, o.Execs...)
	have := map[[2]string]bool{}
	for _, m := range a.Metrics {
		have[[2]string{m.Name, m.Case}] = true
	}
	for _, m := range o.Metrics {
		if !have[[2]string{m.Name, m.Case}] {
			a.Metrics = append(a.Metrics, m)
		}
	}
	a.MonoStartNS, a.WallStartNS = o.MonoStartNS, o.WallStartNS
	r.m.set(o.MonoEndNS)
	return nil
}

type recordedProcess struct{ arm *record.Arm }

func (p *recordedProcess) Confirm(ctx context.Context) ([]record.Evidence, error) {
	return p.arm.Evidence, ctx.Err()
}

func (p *recordedProcess) Generate(ctx context.Context, _ plan.Workload, mark string) ([]record.Request, error) {
	var out []record.Request
	for _, q := range p.arm.Requests {
		if q.Mark == mark {
			out = append(out, q)
		}
	}
	if mark == record.MarkMeasured && p.arm.Disposition == record.Failed && len(out) == 0 {
		return nil, &run.EngineError{Reason: p.arm.Reason}
	}
	return out, ctx.Err()
}

func (p *recordedProcess) Stop(context.Context) error { return nil }

func (p *recordedProcess) Info() *record.Process {
	if p.arm.Process == nil {
		return &record.Process{}
	}
	c := *p.arm.Process
	return &c
}
