package builtins

// What a record shows, and to whom. A stop that looks at results has to say so, because intervals pay for
// its looks: one that did not is blind to them.

import (
	"fmt"
	"path"
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
	inside  bool   // that stop is asked inside blocks, too
	asked   *bool  // set where a gate asks for the primary metric of its group; nil does not ask
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
	"disposition", "findings", "neighbours", "attached", "host", "host_why"}

// blindFinding is what of a gate's finding it may know. Observed and reason hold figures, as the arm's own reason
// does; and the outcome says on which side of a limit a figure was, for a gate may judge any of them. That an arm
// did not count its disposition says.
var blindFinding = []string{"gate", "phase", "scope", "required"}

// hostLevels are the sensors of the machine's condition that a blind stop may read, all of them levels. What an
// engine or a collector says is left out, for it can be the result itself; counters are, because the first and the
// last of one tell how long the arm took, what it used or what it did; and so are clocks, load and power of what
// computes, which follow the speed.
var hostLevels = []string{"meminfo.*", "loadavg.*", "psi.*_pct", "cpufreq.*", "power.ac", "power.battery_pct", "power.low_power_mode",
	"thermal.*", "hwmon.*_c", "hwmon.*_rpm", "nvme.*", "nvml.*.temp*_c", "nvml.*.power_limit_w", "nvml.*.reason_*", "nvml.*.foreign_*",
	"amdgpu.*.temp*_c", "amdgpu.*.power_limit_w", "procs.engines.count", "procs.builds.count", "procs.agents.count"}

func hostLevel(sensor string) bool {
	return slices.ContainsFunc(hostLevels, func(pattern string) bool {
		ok, err := path.Match(pattern, sensor) // no name of a sensor holds a slash
		return err == nil && ok
	})
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

// shows refuses all fields but these. Names that do not exist get the usual error.
func (w view) shows(of string, exists func() []string, fields []string) func(string) error {
	return func(name string) error {
		if slices.Contains(fields, name) || !slices.Contains(exists(), name) {
			return nil
		}
		return peeked(w.blind, "."+name+" of "+of)
	}
}

// summed is the arms whose time and energy a total may hold. A blind stop that is asked inside a block gets those of
// whole blocks: from one arm to the next a total would tell what each of them took.
func (w view) summed(g *record.Group) []*record.Arm {
	if w.blind == "" || !w.inside {
		return g.Arms
	}
	last, attempt := -1, 0
	for _, a := range g.Arms {
		if a.Block > last {
			last, attempt = a.Block, 0
		}
		if a.Block == last {
			attempt = max(attempt, a.Attempt)
		}
	}
	n := 0
	for _, a := range g.Arms {
		if a.Block == last && a.Attempt == attempt && a.Disposition == record.OK {
			n++
		}
	}
	if last >= 0 && n >= len(orderOf(g).BlockAt(last, false).Labels) {
		return g.Arms
	}
	var out []*record.Arm
	for _, a := range g.Arms {
		if a.Block >= 0 && a.Block < last {
			out = append(out, a)
		}
	}
	return out
}

// sample refuses samples to a blind stop, but for how the machine is: levels of the latest arm.
func (w view) sample(a *record.Arm, g *record.Group, method, sensor, step string) error {
	if w.blind == "" {
		return nil
	}
	switch {
	case method == "growth" || method == "sensor" || step != "":
		return peeked(w.blind, "."+method+"() of an arm, which tells how long it took")
	case g != nil && len(g.Arms) > 0 && g.Arms[len(g.Arms)-1] != a:
		return peeked(w.blind, "sensors of an arm that is not the latest")
	case !hostLevel(sensor):
		return peeked(w.blind, "sensor "+sensor+", which is no level of the machine's condition")
	}
	return nil
}

func peeked(stop, what string) error {
	return &diag.Error{Kind: diag.Workflow, Msg: fmt.Sprintf("stop %q reads %s, and does not say that it looks at results", stop, what),
		Fix: fmt.Sprintf("stop(%q, …, sequential = True), so that intervals pay for its looks; or decided() of @flow//stops.star", stop)}
}
