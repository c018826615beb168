package main

// The walk of flow plan: main on the simulated measurer, with the past of the database, which is only read.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"flow/builtins"
	"flow/builtins/machine"
	"flow/workflows/measure"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// walk is main with every group ending in a verdict; it gives the groups before their first arm.
func walk(ctx context.Context, w *workflow, verdict string, past []*record.Group) (*beginning, error) {
	m := measure.NewSimulated(measure.Model{SD: .001}, record.Machine{ID: "plan"}, func() int64 { return 0 })
	mem := run.NewMemory()
	kept := &beginning{Memory: mem, past: past, digests: machine.NewDigester(w.root, "")}
	s := run.NewSession(run.Config{
		Session: &record.Session{ID: "plan", Measurer: record.MeasurerSimulated, Machine: m.On, Seed: 1},
		Clock:   m.Clock(), Sleep: m.Sleep, Measurer: m, Recorder: kept, Journal: mem, Force: verdict,
	})
	err := w.act(ctx, planSession{session{s}, kept})
	return kept, err
}

// beginning keeps the groups of a session as they began, and answers what it asks of the past.
type beginning struct {
	*run.Memory
	groups  []*record.Group
	past    []*record.Group // of the database, newest first
	digests plan.Digests
	asked   *asked // what the question under way is about; nil where the past is not meant (noise)
	budget  *record.Budget
	found   []string // what the database answered, in words
}

// asked is the base of a question.
type asked struct {
	what     string
	engine   *plan.Engine
	workload *plan.Workload
}

func (k *beginning) BeginGroup(ctx context.Context, g *record.Group) error {
	c := *g
	k.groups = append(k.groups, &c)
	return k.Memory.BeginGroup(ctx, g)
}

// Past are the groups of this walk, then those of the database that are of the same command and workload. Hashes
// of the database hold digests of files, and the walk reads none but prompts: so engines meet by their command.
func (k *beginning) Past(ctx context.Context, sc run.Scope) ([]*record.Group, error) {
	out, err := k.Memory.Past(ctx, sc)
	if err != nil || k.asked == nil {
		return out, err
	}
	workload := ""
	if k.asked.workload != nil {
		if _, _, workload, err = plan.ResolveBase(ctx, plan.Engine{}, *k.asked.workload, k.digests); err != nil {
			return out, nil // a prompt that is not there yet was never measured with
		}
	}
	n := 0
	for _, g := range k.past {
		if sc.Role != "" && g.Role != sc.Role || workload != "" && g.Workload != workload || sc.Lever != "" && !hasLever(g, sc.Lever) ||
			k.asked.engine != nil && !runsOn(g, *k.asked.engine) {
			continue
		}
		out = append(out, g)
		n++
	}
	if words := fmt.Sprintf("%s from %s", k.asked.what, countOf(n, "earlier group")); n > 0 && !slices.Contains(k.found, words) {
		k.found = append(k.found, words)
	}
	return out, nil
}

func hasLever(g *record.Group, hash string) bool {
	return slices.ContainsFunc(g.Sides, func(s record.Side) bool {
		return !s.Control && slices.ContainsFunc(s.Stack, func(l record.Lever) bool { return l.Hash == hash })
	})
}

// runsOn reports whether a group's control is the command of an engine with the control's levers.
func runsOn(g *record.Group, e plan.Engine) bool {
	for _, s := range g.Sides {
		if s.Label != g.Control {
			continue
		}
		var stack plan.Stack
		for _, r := range s.Stack {
			l, err := plan.LeverFromRecord(r)
			if err != nil {
				return false
			}
			stack = append(stack, l)
		}
		c, err := plan.Effective(e, stack)
		if err != nil {
			return false
		}
		was := s.Command
		c.Delta, was.Delta = nil, nil
		return plan.Sum(c) == plan.Sum(was)
	}
	return false
}

// planSession tells the records what is asked before it asks.
type planSession struct {
	session
	kept *beginning
}

// Budget is kept: the walk runs nothing that it could limit.
func (s planSession) Budget(_ context.Context, b record.Budget) error {
	s.kept.budget = &b
	return nil
}

func (s planSession) Champion(ctx context.Context, e plan.Engine, w plan.Workload) (plan.Stack, error) {
	s.kept.asked = &asked{"the champion", &e, &w}
	defer func() { s.kept.asked = nil }()
	return s.session.Champion(ctx, e, w)
}

func (s planSession) History(ctx context.Context, h builtins.HistoryScope) (*record.Table, error) {
	what := "history"
	if h.Lever != nil {
		what = strings.TrimSpace("history of " + h.Lever.Name)
	}
	s.kept.asked = &asked{what, h.Engine, h.Workload}
	defer func() { s.kept.asked = nil }()
	return s.session.History(ctx, h)
}
