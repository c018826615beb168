package measure

// What is sampled in one arm beside the machine's own sensors: the group's collectors and the model files
// of its engine. They are opened before the barrier and closed with the arm.

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// sourcesOf gives every source of an arm, and those of them that end with it.
func (m *Real) sourcesOf(ctx context.Context, t run.Task) (all, own []hardware.Source, err error) {
	o := hardware.Options{Proc: m.o.Proc, Sys: m.o.Sys, Now: machine.Monotonic}
	if files := m.files(t.Side.Engine); len(files) > 0 {
		own = append(own, hardware.OpenFiles(o, files))
	}
	if p := patterns(t.Group.Collectors); len(p) > 0 {
		own = append(own, hardware.OpenProcesses(o, p))
	}
	for _, c := range t.Group.Collectors {
		if c.Processes != "" {
			continue
		}
		src, err := hardware.OpenCollector(ctx, o, hardware.Collector{Collector: c, Dir: m.o.Root})
		if err != nil {
			return nil, nil, errors.Join(err, closeSources(own))
		}
		own = append(own, src)
	}
	return append(slices.Clone(m.sources), own...), own, nil
}

// patterns are the processes that a group wants counted.
func patterns(cs []plan.Collector) []hardware.Pattern {
	var out []hardware.Pattern
	for _, c := range cs {
		if re, err := regexp.Compile(c.Processes); c.Processes != "" && err == nil { // checked where it was declared
			out = append(out, hardware.Pattern{Name: c.Name, Match: re})
		}
	}
	return out
}

// files are the engine's files, as paths.
func (m *Real) files(e plan.Engine) []string {
	var out []string
	for _, f := range e.Files {
		if !filepath.IsAbs(f) {
			f = filepath.Join(m.o.Root, f)
		}
		out = append(out, f)
	}
	return out
}

// saw keeps what sensors an arm had of its own.
func (m *Real) saw(own []hardware.Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range hardware.Sensors(own) {
		if !slices.ContainsFunc(m.extra, func(x record.Sensor) bool { return x.Name == s.Name }) {
			m.extra = append(m.extra, s)
		}
	}
}

func closeSources(srcs []hardware.Source) error {
	var err error
	for _, s := range srcs {
		err = errors.Join(err, s.Close())
	}
	return err
}

// samplerMetrics are what sampling itself took, as facts of the arm: who reads a figure can see what the
// instrument cost, and how much of it is missing.
func samplerMetrics(st hardware.Stats, every time.Duration, ns int64, samples int) []record.Metric {
	count := func(name, unit string, v int, rule string) record.Metric {
		f := float64(v)
		return record.Metric{Name: name, Unit: unit, Source: "sampler", Rule: rule, Value: &f}
	}
	cpu := record.Metric{Name: "sampler_cpu_pct", Unit: "%", Better: "lower", Source: "sampler", Rule: "CPU time of the sampler's threads while reading / the time it ran, of one core"}
	switch {
	case st.CPUS == nil:
		cpu.Why = "the system does not tell a thread's CPU time"
	case ns <= 0:
		cpu.Why = "no time passed"
	default:
		v := 100 * *st.CPUS / (float64(ns) / 1e9)
		cpu.Value = &v
	}
	bad := 0
	for _, s := range st.Sources {
		bad += s.Errors
	}
	return []record.Metric{
		cpu,
		count("sampler_interval_ms", "ms", int(every.Milliseconds()), "between two ticks as asked; a source may be read more rarely"),
		count("sampler_ticks", "ticks", st.Ticks, "of the common lane"),
		count("sampler_late", "ticks", st.Late, "began more than half an interval after their time"),
		count("sampler_dropped", "ticks", st.Dropped, "never were, because one before took too long"),
		count("sampler_errors", "readings", bad, "failed, over all sources"),
		count("sampler_samples", "samples", samples, ""),
	}
}
