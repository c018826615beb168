package run

// What earlier groups say: the history of a lever, and the champion of a base. Simulated and real
// measurements never mix.

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// historyColumns are the columns of History, one row a finished comparison of the primary metric.
var historyColumns = []string{"lever", "lever_hash", "session", "group_id", "role", "verdict", "reason", "effect", "low", "high",
	"stack", "base", "engine", "workload", "this_session"}

// History gives the finished comparisons of a lever (nil: of all), newest first, on this machine and,
// where an engine or a workload is given, of that base.
func (s *Session) History(ctx context.Context, lever *plan.Lever, e *plan.Engine, w *plan.Workload) (*record.Table, error) {
	scope, err := s.scope(ctx, e, w)
	if err != nil {
		return nil, err
	}
	if lever != nil {
		scope.Lever = lever.Key()
	}
	var out *record.Table
	err = s.effect(ctx, "history", plan.Sum(scope), "", &out, func([]string, func([]string) error) (any, error) {
		past, err := s.Recorder.Past(ctx, scope)
		if err != nil {
			return nil, err
		}
		t := &record.Table{Columns: historyColumns, Rows: [][]any{}}
		for _, g := range past {
			t.Rows = append(t.Rows, s.historyRows(g, scope.Lever)...)
		}
		return t, nil
	})
	return numbers(out), err
}

// historyRows are the rows of one group: a lever is what a side adds to the control's stack.
func (s *Session) historyRows(g *record.Group, lever string) [][]any {
	control := map[string]bool{}
	names, base := "", []string{}
	for _, side := range g.Sides {
		if side.Label != g.Control {
			continue
		}
		for i, l := range side.Stack {
			control[l.Hash] = true
			base = append(base, l.Hash)
			if i > 0 {
				names += "+"
			}
			names += l.Name
		}
	}
	baseJSON, err := json.Marshal(base)
	if err != nil {
		return nil
	}
	var rows [][]any
	for _, side := range g.Sides {
		if side.Label == g.Control || g.Design != "" && !side.Estimated { // a run of a design speaks of no lever by itself
			continue
		}
		if below := stepsBelow(g, side.Label); below != nil { // in a ladder that adds up a lever is its step
			rows = append(rows, s.stepRows(g, side, below, lever)...)
			continue
		}
		verdict, reason := g.Verdict, g.Reason
		var effect, low, high any
		for _, c := range g.Comparisons {
			if c.Side == side.Label && c.Metric == g.Primary && !c.Cost {
				if len(g.Sides) > 2 && c.Verdict != "" {
					verdict, reason = c.Verdict, c.Reason
				}
				if c.Estimate != nil {
					effect = c.Estimate.Effect
					low, high = number(c.Estimate.Low), number(c.Estimate.High)
				}
				break
			}
		}
		for _, l := range side.Stack {
			if control[l.Hash] || lever != "" && l.Hash != lever {
				continue
			}
			rows = append(rows, []any{l.Name, l.Hash, g.SessionID, g.ID, g.Role, verdict, reason, effect, low, high,
				names, string(baseJSON), g.Engine, g.Workload, g.SessionID == s.Session.ID})
		}
	}
	return rows
}

// stepsBelow is the side that a rung's steps are compared with, nil where it has none.
func stepsBelow(g *record.Group, label string) *record.Side {
	for _, c := range g.Steps {
		for i := range g.Sides {
			if c.Side == label && g.Sides[i].Label == c.Control {
				return &g.Sides[i]
			}
		}
	}
	return nil
}

// stepRows are the rows of a rung of a ladder that adds up: of the levers that it adds to the rung before, which is
// their base.
func (s *Session) stepRows(g *record.Group, side record.Side, below *record.Side, lever string) (rows [][]any) {
	var names, base []string
	for _, l := range below.Stack {
		names, base = append(names, l.Name), append(base, l.Hash)
	}
	baseJSON, err := json.Marshal(base)
	if err != nil {
		return nil
	}
	for _, c := range g.Steps {
		if c.Side != side.Label {
			continue
		}
		var effect, low, high any
		if c.Estimate != nil {
			effect, low, high = c.Estimate.Effect, number(c.Estimate.Low), number(c.Estimate.High)
		}
		for _, l := range side.Stack {
			if slices.Contains(base, l.Hash) || lever != "" && l.Hash != lever {
				continue
			}
			rows = append(rows, []any{l.Name, l.Hash, g.SessionID, g.ID, g.Role, c.Verdict, c.Reason, effect, low, high,
				strings.Join(names, "+"), string(baseJSON), g.Engine, g.Workload, g.SessionID == s.Session.ID})
		}
		break // the first case, as of the other groups
	}
	return rows
}

func number(p *float64) any {
	if p == nil {
		return nil
	}
	return *p
}

// Champion is the stack of the newest qualification that ended better on this machine with this engine
// and workload; empty when there is none.
func (s *Session) Champion(ctx context.Context, e plan.Engine, w plan.Workload) (plan.Stack, error) {
	scope, err := s.scope(ctx, &e, &w)
	if err != nil {
		return nil, err
	}
	scope.Role = record.RoleQualification
	var out plan.Stack
	err = s.effect(ctx, "champion", plan.Sum(scope), "", &out, func([]string, func([]string) error) (any, error) {
		past, err := s.Recorder.Past(ctx, scope)
		if err != nil {
			return nil, err
		}
		for _, g := range past {
			if g.Verdict != record.Better || len(g.Sides) != 2 {
				continue
			}
			stack := plan.Stack{}
			for _, side := range g.Sides {
				if side.Label == g.Control {
					continue
				}
				for _, r := range side.Stack {
					l, err := plan.LeverFromRecord(r)
					if err != nil {
						return nil, err
					}
					stack = append(stack, l)
				}
			}
			return stack, nil
		}
		return plan.Stack{}, nil
	})
	return out, err
}

// own narrows what the past is to this session where arms are recorded ones: another session on the same arms, or a
// later one, says nothing new of them.
func (s *Session) own(scope Scope) Scope {
	if s.Session.Measurer == record.MeasurerRecorded {
		scope.Session = s.Session.ID
	}
	return scope
}

// scope is this machine, this kind of measurer, and the hashes of what is given.
func (s *Session) scope(ctx context.Context, e *plan.Engine, w *plan.Workload) (Scope, error) {
	scope := s.own(Scope{Machine: s.Session.Machine.ID, Measurer: s.Session.Measurer})
	var engine plan.Engine
	var workload plan.Workload
	if e != nil {
		engine = *e
	}
	if w != nil {
		workload = *w
	}
	eh, model, wh, err := plan.ResolveBase(ctx, engine, workload, s.Measurer.Digests())
	if err != nil {
		return scope, err
	}
	if e != nil {
		scope.Engine, scope.Model = eh, model
	}
	if w != nil {
		scope.Workload = wh
	}
	return scope, nil
}
