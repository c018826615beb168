package run

// One group: blocks until a stop or the cap. A block is redone or excluded whole, within the group's
// retries; an unfinished block of an interrupted session is redone whole, and its arms become superseded.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"flow/builtins/gate"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// pastGroups is how many earlier groups noise is borrowed from.
const pastGroups = 50

// groupRun is the state of one running group.
type groupRun struct {
	plan   *plan.Group
	g      *record.Group
	first  int                   // logical arms of the session before this group
	kept   map[int][]*record.Arm // arms of earlier attempts, by block, from before an interruption
	warmed bool
}

// errEnd ends a group early with a verdict that the facts already carry.
type errEnd struct{ why string }

func (e *errEnd) Error() string { return e.why }

func (s *Session) runGroup(ctx context.Context, pg *plan.Group, res *plan.Resolution, id string, index, first int) (*record.Group, error) {
	r := &groupRun{plan: pg, first: first, kept: map[int][]*record.Arm{}}
	old, err := s.Recorder.Group(ctx, id)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Verdict != "" {
		return old, nil
	}
	if old != nil {
		if err := s.setAside(ctx, pg, old); err != nil {
			return nil, err
		}
		for _, a := range old.Arms {
			r.kept[a.Block] = append(r.kept[a.Block], a)
		}
		r.g = old
		r.g.Arms = nil
		if s.again[id] {
			now, err := s.newGroup(pg, res, id, index)
			if err != nil {
				return nil, err
			}
			r.g.Resolved, r.g.Gates, r.g.Stops = now.Resolved, now.Gates, now.Stops
		}
	} else {
		if r.g, err = s.newGroup(pg, res, id, index); err != nil {
			return nil, err
		}
		past, err := s.Recorder.Past(ctx, s.own(Scope{Machine: s.Session.Machine.ID, Engine: r.g.Engine, Workload: r.g.Workload,
			Model: r.g.Model, Measurer: s.Session.Measurer, Limit: pastGroups}))
		if err != nil {
			return nil, err
		}
		if h, ok := s.Measurer.(Historian); ok {
			past = append(past, h.Past(pg, r.g.Seed)...)
		}
		if k, ok := s.Measurer.(Knower); ok {
			// The same order and the same noise as then: the group's own arms, and later ones, lend it none.
			if was := k.Known(pg, r.g.ID); was != nil {
				r.g.Seed, r.g.Noise = was.Seed, append([]record.Noise{}, was.Noise...)
			}
		}
		r.g.Cold = first == 0 && !pg.WarmArm && pg.Probe == nil
		// Noise is fixed before the first arm, so that every look and every later judgement use the same.
		gate.Borrow(r.g, past)
		if err := s.Recorder.BeginGroup(ctx, r.g); err != nil {
			return nil, err
		}
	}
	s.event(record.Event{Kind: "group.start", Group: r.g.Name, GroupID: r.g.ID, GroupOf: r.g})
	for _, side := range pg.Sides {
		for _, words := range plan.Absent(side.Engine, side.Stack) {
			s.event(record.Event{Kind: "warning", Group: r.g.Name, GroupID: r.g.ID, Text: words})
		}
	}

	if old == nil || len(old.Arms) == 0 {
		err = s.release(ctx, r)
	}
	if err == nil {
		err = s.blocks(ctx, r)
	}
	var end *errEnd
	if asErr(err, &end) {
		r.g.Stopped, err = end.why, nil
	}
	if err != nil {
		return nil, err
	}
	s.judge(r)
	if s.Force != "" {
		force(r.g, s.Force)
	}
	now := s.Clock.Wall()
	r.g.WallEndNS = &now
	if err := s.Recorder.EndGroup(context.WithoutCancel(ctx), r.g); err != nil {
		return nil, err
	}
	s.event(record.Event{Kind: "group.end", Group: r.g.Name, GroupID: r.g.ID, Text: r.g.Verdict, GroupOf: r.g})
	return r.g, nil
}

// newGroup is the group as a fact, before its first arm.
func (s *Session) newGroup(pg *plan.Group, res *plan.Resolution, id string, index int) (*record.Group, error) {
	declared, err := pg.Declared()
	if err != nil {
		return nil, err
	}
	g := &record.Group{
		ID: id, SessionID: s.Session.ID, Index: index, Name: pg.Name, Role: pg.Role, Design: pg.Design, Order: pg.Order,
		Seed: seed(s.Session.Seed, index), Declared: declared, Resolved: res.Hash,
		Engine: res.Engine, Workload: res.Workload, Model: res.Model,
		Control: pg.ControlSide().Label, Primary: pg.Primary, Better: pg.Better, MinEffect: pg.MinEffect, Superior: pg.Superior, Cap: pg.Cap,
		CaseRule: pg.Workload.Rule, Sequential: pg.Sequential(), Pos: pg.Pos.String(), WallStartNS: s.Clock.Wall(),
	}
	for _, side := range pg.Sides {
		c, err := pg.Effective(side)
		if err != nil {
			return nil, err
		}
		g.Sides = append(g.Sides, record.Side{Label: side.Label, Engine: side.Engine.Name, Stack: side.Stack.Record(),
			Command: c, Control: side.Label == g.Control})
	}
	estimated, err := pg.Estimated()
	if err != nil {
		return nil, err
	}
	g.Sides = append(g.Sides, estimated...)
	for metric, limit := range pg.Costs {
		if limit == nil {
			g.CostsShown = append(g.CostsShown, metric)
			continue
		}
		if g.Costs == nil {
			g.Costs = map[string]float64{}
		}
		g.Costs[metric] = *limit
	}
	slices.Sort(g.CostsShown)
	for _, x := range pg.Gates {
		spec := record.GateSpec{Name: x.Name, Kind: "gate", Phase: x.Phase, Scope: x.Scope, Required: x.Required, Params: x.Params}
		if x.Code.Fingerprint != nil {
			if spec.Code, err = x.Code.Fingerprint(); err != nil {
				return nil, err
			}
		}
		g.Gates = append(g.Gates, spec)
	}
	for _, x := range pg.Guards {
		g.Gates = append(g.Gates, record.GateSpec{Name: x.Name, Kind: "guard", Phase: plan.PhaseDuring, Scope: "arm", Required: true, Params: guardParams(x)})
	}
	for _, x := range pg.Stops {
		name := x.Name
		if x.Params != "" && x.Params != "{}" {
			name += " " + x.Params
		}
		g.Stops = append(g.Stops, name)
	}
	return g, nil
}

func guardParams(x plan.Guard) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"sensor":%q`, x.Sensor)
	if x.Above != nil {
		fmt.Fprintf(&b, `,"above":%v`, *x.Above)
	}
	if x.Below != nil {
		fmt.Fprintf(&b, `,"below":%v`, *x.Below)
	}
	if x.Also != nil {
		fmt.Fprintf(&b, `,"also":["%s"]`, strings.Join(x.Also, `","`)) // names of sensors hold no quotes
	}
	if x.Sides != nil {
		fmt.Fprintf(&b, `,"sides":["%s"]`, strings.Join(x.Sides, `","`))
	}
	if x.Step != "" {
		fmt.Fprintf(&b, `,"step":%q`, x.Step)
	}
	if x.While != nil {
		fmt.Fprintf(&b, `,"while":%q,"while_above":%v`, x.While.Sensor, x.While.Above)
	}
	fmt.Fprintf(&b, `,"growth":%v,"hold_ms":%d}`, x.Growth, x.Hold.Milliseconds())
	return b.String()
}

// blocks runs blocks until a stop, the cap, or a reason that more arms cannot help.
func (s *Session) blocks(ctx context.Context, r *groupRun) error {
	if err := s.takeOthers(ctx, r); err != nil {
		return err
	}
	most := r.plan.Cap
	if s.Force != "" {
		most = 1 // every function of the group is called within one block, and the verdict is given
	}
	for b := 0; b < most; b++ {
		if err := s.block(ctx, r, b); err != nil { // it ends judged
			return err
		}
		if r.g.Verdict == record.Infeasible {
			return &errEnd{"infeasible"}
		}
		why, err := s.askStops(ctx, r, false)
		if err != nil {
			return err
		}
		if why != "" {
			return &errEnd{why}
		}
	}
	return nil
}

// takeOthers keeps the warm and probe arms of an interrupted attempt on record; they are not run again
// unless an engine has to be warmed anyway.
func (s *Session) takeOthers(ctx context.Context, r *groupRun) error {
	r.g.Arms = append(r.g.Arms, r.kept[-1]...)
	if r.plan.Probe != nil {
		if err := s.probe(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// askStops asks every stop, inside a block only those that may end one; the first with a reason wins.
func (s *Session) askStops(ctx context.Context, r *groupRun, inside bool) (string, error) {
	for _, st := range r.plan.Stops {
		if st.Rule == nil || inside && !st.EachArm {
			continue
		}
		why, err := st.Rule(ctx, r.g)
		if err != nil {
			return "", s.stopMistake(ctx, r, st, err)
		}
		if why != "" {
			return st.Name + ": " + why, nil
		}
	}
	return "", nil
}

// stopMistake keeps a mistake of a stop's function with the latest arm, as that of a gate is: so that resume knows
// which function failed, and takes the mended one. It counts for nothing else.
func (s *Session) stopMistake(ctx context.Context, r *groupRun, st plan.Stop, err error) error {
	if len(r.g.Arms) == 0 || ctx.Err() != nil {
		return err
	}
	a := r.g.Arms[len(r.g.Arms)-1]
	a.Findings = append(a.Findings, record.Finding{Gate: st.Name, Phase: phaseStop, Scope: "group", Outcome: record.Unmeasured,
		Reason: "the stop's function failed", Error: err.Error()})
	if keep := s.Recorder.JudgeArm(context.WithoutCancel(ctx), a); keep != nil {
		return keep
	}
	return err
}

func (s *Session) judge(r *groupRun) { gate.Judge(r.g, nil) }

// block runs one block until it is whole and valid, or its retries are used up.
func (s *Session) block(ctx context.Context, r *groupRun, b int) error {
	labels := r.plan.BlockAt(b, r.g.Seed&1 == 1).Labels
	attempt, used := 0, 0
	// What an interrupted session left of this block.
	for _, arms := range attempts(r.kept[b]) {
		for _, a := range arms {
			r.g.Arms = append(r.g.Arms, a)
			if err := s.rejudge(ctx, r, a); err != nil {
				return err
			}
		}
		state := stateOf(arms, len(labels))
		if state == "open" {
			// A stop that would have ended the group inside this block still does.
			if why, err := s.askStops(ctx, r, true); err != nil {
				return err
			} else if why != "" {
				return &errEnd{why}
			}
			for _, a := range arms {
				if a.Disposition != record.Superseded {
					a.Disposition, a.Reason = record.Superseded, "its block was redone after an interruption"
					if err := s.Recorder.JudgeArm(ctx, a); err != nil {
						return err
					}
				}
			}
		}
		attempt = arms[0].Attempt + 1
		switch state {
		case "whole":
			return s.afterBlock(r, b)
		case "broken":
			used++
		}
	}
	if !r.warmed && r.plan.WarmArm {
		if err := s.warmArm(ctx, r, labels[0]); err != nil {
			return err
		}
	}
	for ; used <= r.plan.Retry; used, attempt = used+1, attempt+1 {
		if used > 0 && r.plan.Probe != nil {
			if err := s.probe(ctx, r); err != nil {
				return err
			}
		}
		whole, err := s.attempt(ctx, r, b, attempt, used, labels)
		if none := (*NotRecorded)(nil); used > 0 && asErr(err, &none) {
			return s.afterBlock(r, b) // it was not redone then: it is left out, and the next one stands
		}
		if err != nil {
			return err
		}
		if whole {
			return s.afterBlock(r, b)
		}
	}
	return s.exhausted(ctx, r, b)
}

// attempt runs the arms of a block once; it ends at the first arm that does not count, because the block
// is redone or excluded whole.
func (s *Session) attempt(ctx context.Context, r *groupRun, b, attempt, used int, labels []string) (bool, error) {
	if err := s.budgetLeft(r, len(labels)); err != nil {
		return false, err
	}
	var first *record.Arm
	for slot, label := range labels {
		a, err := s.runArm(ctx, r, armAt{label: label, block: b, slot: slot, attempt: attempt, tries: used, purpose: "measured",
			seq: r.first + b*len(labels) + slot})
		if first == nil {
			first = a
		}
		if a != nil && err == nil {
			err = s.sameNeighbours(ctx, first, a)
		}
		if a != nil {
			r.g.Arms = append(r.g.Arms, a)
			s.event(record.Event{Kind: "arm.end", Group: r.g.Name, GroupID: r.g.ID, Arm: record.ArmName(label, a.Seq), Text: a.Disposition, ArmOf: a, GroupOf: r.g})
		}
		if none := (*NotRecorded)(nil); slot > 0 && asErr(err, &none) {
			return false, nil // then this attempt ended here: the next one was whole
		}
		if err != nil {
			return false, err
		}
		switch a.Disposition {
		case record.OK:
		case record.Infeasible:
			if err := s.controlStarts(ctx, r, a); err != nil {
				return false, err
			}
			return false, &errEnd{"infeasible"}
		default:
			return false, nil
		}
		if why := gate.Contrast(r.g, a); why != "" {
			return false, &errEnd{why}
		}
		if slot == len(labels)-1 {
			break // the block is whole: its stops are asked by blocks
		}
		if why, err := s.askStops(ctx, r, true); err != nil {
			return false, err
		} else if why != "" {
			return false, &errEnd{why}
		}
	}
	return true, nil
}

// sameNeighbours voids an arm beside which a neighbour started or ended since the block's first one.
func (s *Session) sameNeighbours(ctx context.Context, first, a *record.Arm) error {
	why := neighbourChange(first, a)
	if why == "" || a.Disposition != record.OK {
		return nil
	}
	a.Disposition, a.Reason = record.Invalid, why
	return s.Recorder.JudgeArm(context.WithoutCancel(ctx), a)
}

func (s *Session) afterBlock(r *groupRun, b int) error {
	s.judge(r)
	s.event(record.Event{Kind: "block.end", Group: r.g.Name, GroupID: r.g.ID, Text: fmt.Sprintf("block %d of at most %d", b+1, r.plan.Cap), GroupOf: r.g})
	return nil
}

// exhausted ends the group when a block could not be completed within its retries: bounded discards, and
// the reason is the answer. Where every attempt died the same way on the same side that is not the
// control, that side is infeasible.
func (s *Session) exhausted(ctx context.Context, r *groupRun, b int) error {
	var lasts []*record.Arm
	for _, arms := range attempts(armsOf(r.g, b)) {
		if a := arms[len(arms)-1]; a.Disposition != record.Superseded && a.Disposition != record.Interrupted {
			lasts = append(lasts, a)
		}
	}
	if len(lasts) == 0 {
		return nil
	}
	last := lasts[len(lasts)-1]
	if last.Disposition == record.Infeasible {
		return &errEnd{"infeasible"} // judged already, and flow ended before the group did
	}
	same := len(lasts) > 1
	for _, a := range lasts {
		same = same && a.Label == last.Label && a.Disposition == record.Failed && shape(a.Reason) == shape(last.Reason)
	}
	if same && last.Label != r.g.Control {
		if err := s.controlStarts(ctx, r, last); err != nil {
			return err
		}
		last.Disposition = record.Infeasible
		last.Reason = fmt.Sprintf("died the same way in %d attempts: %s", len(lasts), last.Reason)
		if err := s.Recorder.JudgeArm(context.Background(), last); err != nil {
			return err
		}
		return &errEnd{"infeasible"}
	}
	if same && last.Label == r.g.Control && !s.started[r.g.Engine] {
		return s.baseFails(r, last)
	}
	often := "once"
	if n := len(lasts); n > 1 {
		often = fmt.Sprintf("%d times", n)
	}
	return &errEnd{fmt.Sprintf("block %d was discarded %s: %s", b+1, often, last.Reason)}
}

// controlStarts makes sure that a side that cannot run is the lever's doing: where no arm of the control was
// ever ready (the coin put the lever first), the control runs once. That it cannot either is the machine's
// trouble, and no verdict on the lever.
func (s *Session) controlStarts(ctx context.Context, r *groupRun, failed *record.Arm) error {
	if failed.Label == r.g.Control || s.started[r.g.Engine] {
		return nil
	}
	a, err := s.runArm(ctx, r, armAt{label: r.g.Control, block: -1, purpose: "probe", seq: r.first})
	if a != nil {
		r.g.Arms = append(r.g.Arms, a)
	}
	if err != nil || s.started[r.g.Engine] || a.Disposition != record.Failed {
		return err
	}
	return s.baseFails(r, a)
}

// baseFails is the error of a control that cannot run.
func (s *Session) baseFails(r *groupRun, a *record.Arm) error {
	return &diag.Error{Kind: diag.Machine, Op: fmt.Sprintf("group %q", r.g.Name),
		Msg: "the base side cannot start: " + a.Reason + tail(a), Fix: s.fixOfLaunch(a)}
}

func (s *Session) warmArm(ctx context.Context, r *groupRun, label string) error {
	a, err := s.runArm(ctx, r, armAt{label: label, block: -1, purpose: "warm", seq: r.first})
	if a != nil {
		r.g.Arms = append(r.g.Arms, a)
	}
	r.warmed = true
	return err
}
