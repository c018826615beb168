package run

// Probes and quarantine: arms of the control whose metric must be inside a band before the machine is
// believed again. After an incident (an arm that did not count) arms are often slow though nothing is wrong
// with them, and the machine does not know where a group ends: a quarantine that a group could not leave
// holds for the groups after it.

import (
	"context"
	"fmt"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// incident is an arm that did not count in a group with a probe, after which no probe was inside the band.
type incident struct {
	plan  *plan.Group
	group string // its ID
	why   string
}

// probe runs the control until its metric is inside the band, and ends the group when it does not get there.
func (s *Session) probe(ctx context.Context, r *groupRun) error {
	p := r.plan.Probe
	tries := p.Retries
	if tries == 0 {
		tries = 3
	}
	why := ""
	for n := 0; n < tries; n++ {
		if n > 0 {
			if err := s.Sleep(ctx, p.Pause); err != nil {
				return err
			}
		}
		a, err := s.runArm(ctx, r, armAt{label: r.g.Control, block: -1, slot: n, purpose: "probe", seq: r.first})
		if a != nil {
			r.g.Arms = append(r.g.Arms, a)
		}
		if err != nil {
			return err
		}
		if why = outside(p, a); why == "" {
			return nil
		}
	}
	return &errEnd{fmt.Sprintf("probe arm: %s, after %d tries", why, tries)}
}

// outside says how a probe arm misses its band; "" when it is inside.
func outside(p *plan.Probe, a *record.Arm) string {
	if a.Disposition != record.OK {
		return "the arm is " + a.Disposition + ": " + a.Reason
	}
	for _, m := range a.Metrics {
		if m.Name != p.Metric {
			continue
		}
		switch {
		case m.Value == nil:
			return p.Metric + " was not measured: " + m.Why
		case p.Above != nil && *m.Value <= *p.Above:
			return fmt.Sprintf("%s is %.4g, want above %.4g", p.Metric, *m.Value, *p.Above)
		case p.Below != nil && *m.Value >= *p.Below:
			return fmt.Sprintf("%s is %.4g, want below %.4g", p.Metric, *m.Value, *p.Below)
		}
		return ""
	}
	return "the arm has no metric " + p.Metric
}

// incidentIn keeps what a finished group leaves: it works from the record, so that a resumed session knows it too.
func (s *Session) incidentIn(pg *plan.Group, g *record.Group) {
	if pg.Probe == nil {
		if len(g.Arms) > 0 {
			s.incident = nil // its arms ran, so it was released before them
		}
		return
	}
	s.incident = nil
	for _, a := range g.Arms {
		switch {
		case a.Disposition == record.Superseded || a.Disposition == record.Interrupted:
		case a.Purpose == "probe" && outside(pg.Probe, a) == "":
			s.incident = nil
		case a.Purpose == "probe" || a.Disposition != record.OK:
			s.incident = &incident{pg, g.ID, fmt.Sprintf("arm %s of group %q was %s", record.ArmName(a.Label, a.Seq), g.Name, a.Disposition)}
		}
	}
}

// release leaves the quarantine of an earlier group before a group that has no probe of its own: the controls of
// that earlier group are run, and kept with it, until its metric is back inside its band.
func (s *Session) release(ctx context.Context, r *groupRun) error {
	q := s.incident
	if q == nil || r.plan.Probe != nil || s.Force != "" {
		return nil
	}
	g, err := s.Recorder.Group(ctx, q.group)
	if err != nil || g == nil {
		return err
	}
	s.event(record.Event{Kind: "warning", Group: r.g.Name, GroupID: r.g.ID,
		Text: fmt.Sprintf("quarantine: %s; its control is run until %s is inside the band", q.why, q.plan.Probe.Metric)})
	err = s.probe(ctx, &groupRun{plan: q.plan, g: g, first: r.first})
	var end *errEnd
	if asErr(err, &end) {
		return &errEnd{fmt.Sprintf("quarantine since %s: %s", q.why, end.why)}
	}
	if err == nil {
		s.incident = nil
	}
	return err
}
