package builtins

// What a record shows, and to whom. A stop that looks at results has to say so, because intervals pay for
// its looks: one that did not is blind to them.

import (
	"fmt"
	"slices"
	"strings"

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

// A blind stop may know what ran and how it was disposed of, and what all arms took together. Everything that
// differs between the sides because of a lever is a result, whatever it is called: a metric, a text, a log, and as
// much the time that an arm took. A function keeps nothing from one call to the next, so totals tell it no difference.
var blindArm = []string{"id", "group_id", "group", "label", "side", "levers", "changes_output", "index", "seq", "block", "slot", "attempt", "purpose",
	"disposition", "reason", "findings", "neighbours", "attached", "host", "host_why"}

// blindFinding is what of a gate's finding it may know: observed and reason hold figures.
var blindFinding = []string{"gate", "phase", "scope", "required", "outcome"}

// hides refuses fields by their names.
func (w view) hides(of string, fields ...string) func(string) error {
	return func(name string) error {
		if !slices.Contains(fields, name) {
			return nil
		}
		return peeked(w.blind, "."+name+" of "+of)
	}
}

// shows refuses all fields but these. Names that do not exist get the usual error.
func (w view) shows(of string, exists func() []string, fields []string) func(string) error {
	return func(name string) error {
		if slices.Contains(fields, name) || !slices.Contains(exists(), name) {
			return nil
		}
		return peeked(w.blind, "."+name+" of "+of)
	}
}

// sample refuses samples to a blind stop, but for how the machine is: levels of the latest arm.
func (w view) sample(a *record.Arm, g *record.Group, method, step string) error {
	if w.blind == "" {
		return nil
	}
	switch {
	case method == "growth" || method == "sensor" || step != "":
		return peeked(w.blind, "."+method+"() of an arm, which tells how long it took")
	case g != nil && len(g.Arms) > 0 && g.Arms[len(g.Arms)-1] != a:
		return peeked(w.blind, "sensors of an arm that is not the latest")
	}
	return nil
}

func peeked(stop, what string) error {
	return &diag.Error{Kind: diag.Workflow, Msg: fmt.Sprintf("stop %q reads %s, and does not say that it looks at results", stop, what),
		Fix: fmt.Sprintf("stop(%q, …, sequential = True), so that intervals pay for its looks; or decided() of @flow//stops.star", stop)}
}
