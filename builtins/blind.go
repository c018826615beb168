package builtins

// What a record shows, and to whom. A stop that looks at results has to say so, because intervals pay for
// its looks: one that did not is blind to them.

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// view is what of a record can be read.
type view struct {
	samples bool   // samples and the log are at hand: not in results, which must replay
	blind   string // the stop that may not look at results; "" looks
}

// blindName is the name of a stop that may not look at results, "" for one whose looks are paid for. The
// judge takes stops named decided… and hopeless… for sequential ones, whatever they say.
func blindName(s plan.Stop) string {
	if s.Sequential || strings.HasPrefix(s.Name, "decided") || strings.HasPrefix(s.Name, "hopeless") {
		return ""
	}
	return s.Name
}

// hides refuses fields by their names.
func (w view) hides(of string, fields ...string) func(string) error {
	return func(name string) error {
		if !slices.Contains(fields, name) {
			return nil
		}
		return peeked(w.blind, "."+name+" of "+of)
	}
}

// look refuses a metric to a blind stop. Energy is what budgets are made of, and may be read unless the
// verdict is about it.
func (w view) look(g *record.Group, name, what string) error {
	if w.blind == "" || strings.HasSuffix(name, ".energy_j") && (g == nil || g.Primary != name) {
		return nil
	}
	return peeked(w.blind, what)
}

// metric is the record of one, without its numbers where the stop may not look.
func (w view) metric(env *Env, g *record.Group, m record.Metric) starlark.Value {
	err := w.look(g, m.Name, "the metric "+m.Name+" of an arm")
	if err != nil {
		m.Value, m.Withheld, m.Why = nil, nil, ""
	}
	f := newFact(env, "metric", m)
	if err != nil {
		f.hide = func(name string) error {
			if name == "value" || name == "withheld" || name == "why" {
				return err
			}
			return nil
		}
	}
	return f
}

func peeked(stop, what string) error {
	return &diag.Error{Kind: diag.Workflow, Msg: fmt.Sprintf("stop %q reads %s, and does not say that it looks at results", stop, what),
		Fix: fmt.Sprintf("stop(%q, …, sequential = True), so that intervals pay for its looks; or decided() of @flow//stops.star", stop)}
}
