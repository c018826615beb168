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

// Recorded is the measurer. A group takes the arms of one recorded group only: the one with its name, role and
// sides, where a side is what is effective on it (command, environment, config, request); of several the next.
// An arm goes to the block and the slot that it was measured in. So arms that screened a lever are never handed
// to its qualification, and a workflow that was not changed says what it said.
type Recorded struct {
	session *record.Session
	samples func(ctx context.Context, arm string) ([]record.Sample, error)
	mu      sync.Mutex
	mono    int64
	groups  []*recordedGroup // in time
}

var (
	_ run.Measurer = (*Recorded)(nil)
	_ run.Knower   = (*Recorded)(nil)
)

// recordedGroup is a group whose arms can be taken; by is the group that has them, "" while none has.
type recordedGroup struct {
	g    *record.Group
	key  string
	arms []*recordedArm // in time
	by   string
}

type recordedArm struct {
	arm     *record.Arm
	side    plan.Hash
	purpose string
	tries   int // attempts of its block before its own that counted
	taken   bool
}

// NewRecorded makes a measurer of the arms of a recorded session. samples gives those of an arm; nil gives
// none.
func NewRecorded(s *record.Session, groups []*record.Group, samples func(ctx context.Context, arm string) ([]record.Sample, error)) *Recorded {
	m := &Recorded{session: s, samples: samples, mono: max(s.MonoStartNS, 1)}
	for _, g := range groups {
		m.groups = append(m.groups, &recordedGroup{g: g, key: keyOfRecord(g), arms: armsOfGroup(g)})
	}
	return m
}

// keyOfRecord is what a group takes arms by: its name, its role and its sides.
func keyOfRecord(g *record.Group) string {
	keys := map[string]plan.Hash{}
	for _, s := range g.Sides {
		if !s.Estimated {
			keys[s.Label] = commandKey(s.Command)
		}
	}
	return groupKey(g.Name, g.Role, keys)
}

func groupKey(name, role string, sides map[string]plan.Hash) string {
	return strings.Join(append([]string{name, role}, slices.Sorted(maps.Values(sides))...), "\x00")
}

// armsOfGroup is the arms that can be measured with again: those that ran to an end of their own.
func armsOfGroup(g *record.Group) []*recordedArm {
	keys := map[string]plan.Hash{}
	for _, s := range g.Sides {
		if !s.Estimated {
			keys[s.Label] = commandKey(s.Command)
		}
	}
	attempts := map[int][]int{} // of a block: those that counted
	var out []*recordedArm
	for _, a := range g.Arms {
		switch a.Disposition {
		case record.Interrupted, record.Superseded:
			continue
		}
		if !slices.Contains(attempts[a.Block], a.Attempt) {
			attempts[a.Block] = append(attempts[a.Block], a.Attempt)
		}
		out = append(out, &recordedArm{arm: a, side: keys[a.Label], purpose: orMeasured(a.Purpose), tries: len(attempts[a.Block]) - 1})
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

// Known is what the recorded group of the same name, role and sides began with: what was known of the noise, and
// the seed that its coin fell by. nil where there is none: then nothing is lent.
func (m *Recorded) Known(g *plan.Group, id string) *record.Group {
	r, err := m.of(g, id)
	if err != nil || r == nil {
		return nil
	}
	return r.g
}

// of is the recorded group of a group of this session: the one it has, else the first that nobody has.
func (m *Recorded) of(g *plan.Group, id string) (*recordedGroup, error) {
	keys, err := planKeys(g)
	if err != nil {
		return nil, err
	}
	return m.assign(groupKey(g.Name, g.Role, keys), id), nil
}

func (m *Recorded) assign(key, id string) *recordedGroup {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, free := range []string{id, ""} {
		for _, r := range m.groups {
			if r.key == key && r.by == free {
				r.by = id
				return r
			}
		}
	}
	return nil
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

// Skip marks what an interrupted session of this measurer has taken already, so that the resumed one goes
// on where it would have. Blocks that will be redone give their arms back.
func (m *Recorded) Skip(groups []*record.Group) {
	for _, g := range groups {
		r := m.assign(keyOfRecord(g), g.ID)
		if r == nil {
			continue
		}
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
			m.take(r, a.side, a.purpose, a.arm.Block, a.arm.Slot, a.tries)
		}
	}
}

// take takes a group's arm of that side at that place: its block, its slot, and how often the block was tried
// before. Arms outside blocks stand at none and are taken in their order.
func (m *Recorded) take(r *recordedGroup, side plan.Hash, purpose string, block, slot, tries int) *record.Arm {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range r.arms {
		if !a.taken && a.side == side && a.purpose == purpose && a.arm.Block == block && (block < 0 || a.arm.Slot == slot && a.tries == tries) {
			a.taken = true
			return a.arm
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

// Open takes the recorded arm of the task's side and place.
func (m *Recorded) Open(ctx context.Context, t run.Task) (run.Rig, error) {
	r, err := m.of(t.Group, t.GroupID)
	if err != nil {
		return nil, err
	}
	keys, err := planKeys(t.Group)
	if err != nil {
		return nil, err
	}
	mine := keys[t.Side.Label]
	var a *record.Arm
	if r != nil {
		a = m.take(r, mine, orMeasured(t.Purpose), t.Block, t.Slot, t.Attempt)
	}
	if a == nil && r != nil && t.Purpose == "warm" { // an arm that is only there to warm needs no facts
		a = &record.Arm{Purpose: "warm", Disposition: record.OK, Process: &record.Process{ReadyNS: m.now()}, MonoStartNS: m.now(), MonoEndNS: m.now()}
	}
	if a == nil {
		return nil, m.none(t, r, mine)
	}
	rig := &recordedRig{m: m, arm: a}
	if m.samples != nil && a.ID != "" {
		if rig.samples, err = m.samples(ctx, a.ID); err != nil {
			return nil, err
		}
	}
	if t.OnSample != nil {
		for _, s := range rig.samples {
			t.OnSample(s)
		}
	}
	return rig, nil
}

// none says why there is no arm: no such group, never one of this side, not at this place, or not as many.
func (m *Recorded) none(t run.Task, r *recordedGroup, side plan.Hash) error {
	n := 0
	if r != nil {
		for _, a := range r.arms {
			if a.side == side && a.purpose == orMeasured(t.Purpose) {
				n++
			}
		}
	}
	where := fmt.Sprintf("group %q, side %s: session %s ", t.Group.Name, t.Side.Label, m.session.ID)
	fix := "record it: run the workflow without --recorded; or see what is there: flow show " + m.session.ID
	var msg string
	switch at := m.elsewhere(side); {
	case n > 0 && t.Block >= 0:
		msg = fmt.Sprintf("%shas %d such arms, and none for block %d slot %d of this order", where, n, t.Block+1, t.Slot+1)
		fix = "leave the order as it was recorded, and ask for fewer blocks, such as stops = [after(blocks = 1)]"
	case n > 0:
		msg = fmt.Sprintf("%shas %d such arms, and all are used", where, n)
	case r == nil && at != "":
		msg = fmt.Sprintf("%shas such arms in %s only, and arms serve a group of the name, role and sides that they were recorded for: those of a screen are no fresh ones", where, at)
	default:
		msg = fmt.Sprintf("%shas no %s arm with this command, environment, config and request", where, orMeasured(t.Purpose))
	}
	err := &diag.Error{Pos: t.Group.Pos, Kind: diag.Workflow, Op: "--recorded", Msg: msg, Fix: fix}
	if r != nil && t.Block >= 0 {
		return &run.NotRecorded{Err: err}
	}
	return err
}

// elsewhere names a recorded group that has arms of a side, "" when none has.
func (m *Recorded) elsewhere(side plan.Hash) string {
	for _, r := range m.groups {
		for _, a := range r.arms {
			if a.side == side {
				used := ""
				if r.by != "" {
					used = ", whose arms are used"
				}
				return fmt.Sprintf("group %q (%s)%s", r.g.Name, r.g.Role, used)
			}
		}
	}
	return ""
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
	a.Load = o.Load
	for _, w := range o.Warnings {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(a.Warnings, w)
		}
	}
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
