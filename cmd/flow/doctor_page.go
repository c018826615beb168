package main

// The doctor's page: what a measurement would meet first, then what can be sampled, then what cannot and
// why. It is made from values only, so that a recorded machine gives the same page everywhere.

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"flow/builtins/hardware"
	"flow/workflows/record"
)

// checkup is everything that flow doctor says.
type checkup struct {
	Machine    record.Machine        `json:"machine"`
	Conditions []cond                `json:"conditions"`
	SettleS    *float64              `json:"settle_s"` // null: nothing that passes by itself
	SettleBy   string                `json:"settle_by,omitempty"`
	Settings   []hardware.Setting    `json:"settings"`
	Processes  []hardware.Process    `json:"processes,omitempty"`
	OnGPUs     []hardware.GPUProcess `json:"gpu_processes,omitempty"` // that are not flow's
	Sensors    []record.Sensor       `json:"sensors"`
	Values     map[string]float64    `json:"values"`
}

// examine reads the machine twice, pause between, so that counters have a rate.
func examine(ctx context.Context, o hardware.Options, m record.Machine, pause func(context.Context)) checkup {
	srcs := hardware.Open(o)
	defer func() {
		for _, s := range srcs {
			_ = s.Close()
		}
	}()
	before, _ := readAll(srcs, o.Now())
	began := o.Now()
	pause(ctx)
	values, sensors := readAll(srcs, o.Now())
	rates := map[string]float64{}
	if seconds := float64(o.Now()-began) / 1e9; seconds > 0 {
		for _, s := range sensors {
			if was, ok := before[s.Name]; ok && s.Counter && values[s.Name] > was {
				rates[s.Name] = (values[s.Name] - was) / seconds
			}
		}
	}
	for name, v := range before { // what is read once a second has no second value
		if _, ok := values[name]; !ok {
			values[name] = v
		}
	}
	c := checkup{Machine: m, Sensors: sensors, Values: values, Settings: hardware.Settings(o), Processes: hardware.Processes(o)}
	c.OnGPUs, _ = hardware.GPUProcesses(srcs) // the sensor says why not
	settings := map[string]hardware.Setting{}
	for _, s := range c.Settings {
		settings[s.Name] = s
	}
	cpus, err := strconv.Atoi(m.Facts["cpus"])
	if err != nil || cpus < 1 {
		cpus = 1
	}
	c.Conditions = scene{values: c.Values, rates: rates, settings: settings, processes: c.Processes, onGPUs: c.OnGPUs, cpus: cpus}.conditions()
	c.SettleS, c.SettleBy = settleOf(c.Conditions)
	return c
}

// readAll takes one value of everything; what fails now is missing, and its sensor says why.
func readAll(srcs []hardware.Source, now int64) (map[string]float64, []record.Sensor) {
	values := map[string]float64{}
	var sensors []record.Sensor
	for _, s := range srcs {
		err := s.Sample(now, func(name string, v float64) { values[name] = v })
		for _, x := range s.Sensors() {
			if _, ok := values[x.Name]; !ok && x.Available && err != nil {
				x.Available, x.Why = false, err.Error()
			}
			sensors = append(sensors, x)
		}
	}
	return values, sensors
}

// page writes the checkup for a person.
func (c checkup) page(w io.Writer) {
	fmt.Fprintf(w, "machine %s (%s)\n", c.Machine.ID, c.Machine.Host)
	for _, k := range slices.Sorted(maps.Keys(c.Machine.Facts)) {
		fmt.Fprintf(w, "  %-18s %s\n", k, c.Machine.Facts[k])
	}
	c.nowPart(w)
	c.sampledPart(w)
	c.missingPart(w)
}

func (c checkup) nowPart(w io.Writer) {
	n := 0
	for _, x := range c.Conditions {
		if x.State == condDisturbs {
			n++
		}
	}
	switch n {
	case 0:
		fmt.Fprint(w, "\nNothing that flow knows of would disturb a measurement now.\n")
	case 1:
		fmt.Fprint(w, "\nOne thing would disturb a measurement now.\n")
	default:
		fmt.Fprintf(w, "\n%d things would disturb a measurement now.\n", n)
	}
	mark := map[string]string{condOK: "ok", condDisturbs: "!!", condNote: " -", condUnknown: " ?"}
	for _, x := range c.Conditions {
		line := fmt.Sprintf("  %s %-16s %s", mark[x.State], x.Name, x.Observed)
		if x.Want != "" && x.State != condOK {
			line += "; want " + x.Want
		}
		fmt.Fprintln(w, line)
		if x.Fix != "" {
			fmt.Fprintf(w, "     fix: %s\n", x.Fix)
		}
	}
	switch {
	case c.SettleS != nil:
		fmt.Fprintf(w, "  settle: about %v, when what causes it has ended (%s)\n", time.Duration(*c.SettleS*float64(time.Second)), c.SettleBy)
	case n > 0:
		fmt.Fprintln(w, "  settle: waiting alone does not help")
	}
}

// sampledPart lists families of sensors: the names without what they share.
func (c checkup) sampledPart(w io.Writer) {
	var order []string
	by := map[string][]record.Sensor{}
	n := 0
	for _, s := range c.Sensors {
		if !s.Available {
			continue
		}
		n++
		f := familyName(s.Name)
		if by[f] == nil {
			order = append(order, f)
		}
		by[f] = append(by[f], s)
	}
	fmt.Fprintf(w, "\n%d of %d sensors can be sampled (flow doctor --sensors lists each).\n", n, len(c.Sensors))
	for _, f := range order {
		var names []string
		slow := 0
		for _, s := range by[f] {
			names = append(names, strings.TrimPrefix(strings.TrimPrefix(s.Name, f), "."))
			slow = max(slow, s.PeriodMS)
		}
		every := ""
		if slow > 0 {
			every = " (updates every " + time.Duration(slow*int(time.Millisecond)).String() + " at the slowest)"
		}
		wrapped(w, fmt.Sprintf("  %-14s ", f), strings.Join(names, " ")+every)
	}
}

// familyName is a sensor's name up to what tells it from its siblings: "psi.user", "nvml.0", "cpufreq".
func familyName(name string) string {
	parts := strings.Split(name, ".")
	switch {
	case len(parts) < 3:
		return parts[0]
	case parts[0] == "psi" && parts[1] == "user":
		return "psi.user"
	case parts[0] == "psi", parts[0] == "procs", parts[0] == "net", parts[0] == "hwmon", parts[0] == "nvme", parts[0] == "rapl":
		return parts[0]
	}
	return parts[0] + "." + parts[1]
}

// missingPart groups what is missing by its reason.
func (c checkup) missingPart(w io.Writer) {
	type cause struct{ why, fix string }
	var order []cause
	by := map[cause][]string{}
	for _, s := range c.Sensors {
		if s.Available {
			continue
		}
		k := cause{s.Why, s.Fix}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], s.Name)
	}
	if len(order) == 0 {
		return
	}
	fmt.Fprint(w, "\nMissing, and why:\n")
	for _, k := range order {
		names := by[k]
		what := strings.Join(names, " ")
		if p := shared(names); len(names) > 3 && p != "" {
			what = fmt.Sprintf("%s* (%d sensors)", p, len(names))
		}
		wrapped(w, "  ", what+": "+k.why)
		if k.fix != "" {
			wrapped(w, "     ", "fix: "+k.fix)
		}
	}
}

// shared is what names have in common, up to a point.
func shared(names []string) string {
	p := names[0]
	for _, n := range names[1:] {
		for !strings.HasPrefix(n, p) {
			p = p[:len(p)-1]
		}
	}
	return p[:strings.LastIndexByte(p, '.')+1]
}

// wrapped writes text behind a heading in lines of a page's width.
func wrapped(w io.Writer, head, text string) {
	const width = 110
	indent := strings.Repeat(" ", len([]rune(head)))
	line := head
	fresh := true
	for word := range strings.FieldsSeq(text) {
		if !fresh && len([]rune(line))+1+len([]rune(word)) > width {
			fmt.Fprintln(w, line)
			line, fresh = indent, true
		}
		if !fresh {
			line += " "
		}
		line += word
		fresh = false
	}
	fmt.Fprintln(w, line)
}
