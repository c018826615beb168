package main

// What flow check asks this machine: whether prompt files, programs and sensors that a workflow names are
// here. It looks at names only and opens no file of the workflow's but its own. A file that is missing is a
// mistake; a program or a sensor may be on the machine that the workflow is for, so that is a warning.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/builtins/metric"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// here is what is known of this machine, asked for once.
type here struct {
	root    string
	params  []string // names of parameters: their stand-ins have braces
	sensors []string // nil until somebody asks
}

// prompts refuses a workload whose prompt file is not below the root. A stand-in of a parameter has braces.
func (h *here) prompts(w plan.Workload) error {
	for _, c := range w.Cases {
		for _, p := range c.Prompts {
			if p.File == "" || strings.Contains(p.File, "{") || !filepath.IsLocal(p.File) {
				continue
			}
			st, err := os.Stat(filepath.Join(h.root, p.File))
			switch {
			case err == nil && st.IsDir():
				return &diag.Error{Pos: w.Pos, Kind: diag.Workflow, Op: "workload", Msg: fmt.Sprintf("prompt file %q is a folder", p.File), Fix: "name a file in it"}
			case errors.Is(err, fs.ErrNotExist):
				return &diag.Error{Pos: w.Pos, Kind: diag.Workflow, Op: "workload", Msg: fmt.Sprintf("prompt file %q is not below the workflow's folder", p.File), Fix: h.nearFile(p.File)}
			}
		}
	}
	return nil
}

// nearFile is what to write instead of a file that is missing.
func (h *here) nearFile(name string) string {
	dir := filepath.Dir(name)
	entries, _ := os.ReadDir(filepath.Join(h.root, dir))
	var names []string
	for _, e := range entries {
		if !e.IsDir() && !strings.HasSuffix(e.Name(), ".star") {
			names = append(names, e.Name())
		}
	}
	if near := diag.Nearest(filepath.Base(name), names); near != "" {
		return fmt.Sprintf("prompt_file(%q)", filepath.ToSlash(filepath.Join(dir, near)))
	}
	return fmt.Sprintf("write the prompt to %s beside the workflow, or say it: prompt = \"…\"", filepath.ToSlash(name))
}

// programs are the sides whose program is not here.
func (h *here) programs(g *record.Group) (out []string) {
	var order []string
	sides := map[string][]string{}
	missing := func(what, side string) {
		if sides[what] == nil {
			order = append(order, what)
		}
		sides[what] = append(sides[what], side)
	}
	for _, s := range g.Sides {
		if len(s.Command.Argv) == 0 {
			continue
		}
		name := s.Command.Argv[0]
		switch {
		case name == "" || strings.Contains(name, "{"):
			continue
		case strings.Contains(name, "/"):
			path := name
			if !filepath.IsAbs(path) {
				path = filepath.Join(cmp.Or(s.Command.Dir, h.root), path)
			}
			if strings.Contains(path, "{") {
				continue
			}
			if _, err := os.Stat(path); err == nil {
				continue
			}
			missing(fmt.Sprintf("program %s is not on this machine", name), s.Label)
		default:
			if _, err := exec.LookPath(name); err == nil {
				continue
			}
			missing(fmt.Sprintf("program %s is not in PATH", name), s.Label)
		}
	}
	for _, what := range order {
		out = append(out, fmt.Sprintf("%s: in group %q %s cannot start here", what, g.Name, strings.Join(sides[what], ", ")))
	}
	return out
}

// needs are the sensors of an arm that this machine does not know. What a collector brings has names of its
// own, so beside one only a near miss is told.
func (h *here) needs(t run.Task) (out []string) {
	return h.lacks(fmt.Sprintf("group %q needs", t.Group.Name), t.Sensors, len(t.Group.Collectors) > 0)
}

// lacks are the sensors of names that this machine does not know; others says that a collector brings more.
func (h *here) lacks(who string, names []string, others bool) (out []string) {
	for _, name := range names {
		if h.sensors == nil {
			h.sensors = sensorsHere()
		}
		prefix, star := strings.CutSuffix(name, "*")
		if strings.Contains(name, "{") || slices.ContainsFunc(h.sensors, func(s string) bool { return s == name || star && strings.HasPrefix(s, prefix) }) {
			continue
		}
		w := fmt.Sprintf("%s sensor %s, which this machine does not have", who, name)
		near := diag.Nearest(name, h.sensors)
		switch {
		case near != "" && !star:
			w += fmt.Sprintf(" (did you mean %s?)", near)
		case others:
			continue
		default:
			w += ": flow doctor --sensors lists them"
		}
		out = append(out, w)
	}
	return out
}

// metrics are the metrics of a group that no sensor of this machine can give: of a primary metric or a cost
// that nobody measures, the group would learn when its arms have run.
func (h *here) metrics(g *plan.Group) (out []string) {
	named := slices.Sorted(maps.Keys(g.Costs))
	if g.Primary != "" {
		named = append([]string{g.Primary}, named...)
	}
	if g.Probe != nil {
		named = append(named, g.Probe.Metric)
	}
	for _, name := range named {
		of := metric.SensorsOf(name)
		if len(of) == 0 || strings.Contains(name, "{") || declares(g, name) {
			continue
		}
		if h.sensors == nil {
			h.sensors = sensorsHere()
		}
		if slices.ContainsFunc(of, func(s string) bool { return slices.Contains(h.sensors, s) }) {
			continue
		}
		w := fmt.Sprintf("group %q: metric %s is of a sensor that this machine does not have", g.Name, name)
		near := ""
		for _, s := range of {
			summary, ok := strings.CutPrefix(name, s) // energy has several sensors, and is not called like one
			if n := diag.Nearest(s, h.sensors); ok && summary != "" && n != "" && near == "" {
				near = n + summary
			}
		}
		switch {
		case near != "":
			w += fmt.Sprintf(" (did you mean %s?)", near)
		case len(g.Collectors) > 0:
			continue
		default:
			w += ": flow doctor --sensors lists them"
		}
		out = append(out, w)
	}
	return out
}

// limits are the costs whose limit lies on the side on which their metric gets better.
func limits(g *plan.Group) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(g.Costs)) {
		limit, better := g.Costs[name], ""
		if d, ok := metric.Lookup(name); ok {
			better = d.Better
		}
		for _, m := range g.Sides[0].Engine.Metrics {
			if m.Name == name {
				better = m.Better
			}
		}
		if limit != nil && (better == "lower" && *limit < 0 || better == "higher" && *limit > 0) {
			out = append(out, fmt.Sprintf("group %q: the limit %+.4g%% of cost %s asks for a gain, because %s is better: a loss that is accepted is %q",
				g.Name, *limit*100, name, better, fmt.Sprintf("%.4g%%", -*limit*100)))
		}
	}
	return out
}

// declares says whether an engine of the group has a metric of that name.
func declares(g *plan.Group, name string) bool {
	return slices.ContainsFunc(g.Sides, func(s plan.Side) bool {
		return slices.ContainsFunc(s.Engine.Metrics, func(m plan.Metric) bool { return m.Name == name })
	})
}

// sensorsHere are the names of all sensors that flow knows on this machine, available or not.
func sensorsHere() []string {
	srcs := hardware.Open(hardware.Options{Proc: "/proc", Sys: "/sys", Now: machine.Monotonic, NVML: true})
	out := []string{}
	for _, s := range srcs {
		for _, x := range s.Sensors() {
			out = append(out, x.Name)
		}
		_ = s.Close()
	}
	return out
}
