// Package hardware samples the machine while an engine runs: memory, swap, pressure, load, clocks, disks,
// network, temperatures, energy, the engine's own process tree and cgroup, GPUs, and whatever an external
// collector prints.
//
// Its opinion: a number that was not measured is absent, never 0, and what is absent says why and how to
// get it. Every source lives in one file, reads below injectable roots and splits reading from parsing.
// Sampling is on the clock of the measurement, so it must not disturb it: files stay open and are read
// with pread, text is parsed by hand, and a sample in steady state allocates nothing. Each source measures
// itself; one that fails in mid-run is noted in Stats and does not end the arm.
//
// A source may not: write anything, take a lock that an engine may hold, or take longer than a few
// milliseconds on the common lane (NVML, slow chips, page residency and everything that runs a command have
// lanes of their own). Only a collector that the workflow asks for, and macOS, start processes.
//
// The package knows nothing of arms. workflows/measure joins it with engine and client; builtins/machine
// says what the machine is.
package hardware

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// Options say where to look. The zero value is the machine itself, without NVML.
type Options struct {
	Proc string       // "/proc" when empty
	Sys  string       // "/sys" when empty
	Now  func() int64 // monotonic nanoseconds; CLOCK_MONOTONIC when nil
	NVML bool         // try the NVIDIA library; otherwise its sensors say that it was not asked for

	NVMLFile  string                         // a recording to read instead of the library ("" is the library): see recordedGPUs
	RAPL      string                         // the one powercap domain for energy, by its name ("psys") or its path; "" is every package
	Processes []Pattern                      // processes to count by pattern; DefaultPatterns when nil
	OpenFile  func(string) (*os.File, error) // openRegular when nil: a test refuses permission with it
	Wall      func() int64                   // nanoseconds since the epoch, to say how old an attached file is; the clock when nil
	Command   func([]string) ([]byte, error) // runs a command of the system on darwin; nil runs it
	OS        string                         // runtime.GOOS when empty

	gpus gpuLibrary // the real library when nil: tests script one
}

func (o Options) withDefaults() Options {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	if o.Now == nil {
		o.Now = monotonic
	}
	if o.OpenFile == nil {
		o.OpenFile = openRegular
	}
	if o.Wall == nil {
		o.Wall = func() int64 { return time.Now().UnixNano() }
	}
	if o.OS == "" {
		o.OS = runtime.GOOS
	}
	if o.Processes == nil {
		o.Processes = DefaultPatterns()
	}
	return o
}

// Source is one place that numbers come from.
//
// Sensors lists everything the source could say, available or not; it does not change after Open. Sample
// reads once and emits what it read, each sensor at most once; a sensor whose value is not known is not
// emitted. An error does not take back what was emitted. Sample is not called from two goroutines at once.
type Source interface {
	Name() string
	Sensors() []record.Sensor
	Sample(now int64, emit func(sensor string, value float64)) error
	Close() error
}

// Optional abilities of a source, looked for by the sampler and by ReadOnce.
type (
	// resetter forgets what was read before, so that a difference never spans two arms.
	resetter interface{ reset() }
	// slowpoke must not share a lane with the others.
	slowpoke interface{ slow() bool }
	// binder follows the processes of an engine.
	binder interface {
		bind(pids func() []int) Source
	}
	// pacer must not be read more often than this: its numbers change no faster, or reading costs.
	pacer interface{ every() time.Duration }
	// marker can read its counters of energy apart from everything else: at the marks of an arm, where a
	// value between two ticks would be a guess.
	marker interface {
		mark(emit func(sensor string, value float64)) error
	}
	// stamped has values that came at times of their own since the last drain.
	stamped interface {
		drain(emit func(at int64, sensor string, value float64)) error
	}
)

// Paces. What can change within a tick of the kernel may be read at 100 Hz; what the kernel keeps for
// people is read at 10 Hz however fast the sampler is.
const (
	paceFast  = 10 * time.Millisecond
	paceUsual = 100 * time.Millisecond
	paceSlow  = time.Second
	paceRare  = 5 * time.Second
)

// Open opens every source. A source that has nothing here is in the list all the same: its sensors say
// why, and it emits nothing.
func Open(o Options) []Source {
	o = o.withDefaults()
	srcs := []Source{openMeminfo(o), openVmstat(o), openLoadavg(o), openStat(o), openDiskstats(o), openPower(o)}
	if o.OS == "darwin" {
		srcs = openDarwin(o)
	}
	for _, what := range []string{"cpu", "io", "memory"} {
		srcs = append(srcs, openPressure(o, what))
	}
	srcs = append(srcs, openUserPressure(o)...)
	lib := openNVML(o)
	srcs = append(srcs, openCpufreq(o), openCPUPolicy(o), openNetwork(o), openUptime(o),
		openEngine(o), openSwitches(o), openCgroup(o), openSelf(o), openProcs(o),
		openRAPL(o), openHwmon(o), openThermal(o), openNVMe(o), openAMDGPU(o), lib, lib.pcie(), lib.processes())
	for i, s := range srcs {
		srcs[i] = &guarded{Source: s}
	}
	return srcs
}

// guarded lets a sampler and ReadOnce share sources: one reading at a time.
type guarded struct {
	mu sync.Mutex
	Source
}

func (g *guarded) Sample(now int64, emit func(string, float64)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Source.Sample(now, emit)
}

// Close waits for a reading that goes on, but not for ever: a driver may hang, and what it holds goes with
// the process.
func (g *guarded) Close() error {
	if err := lockSoon(&g.mu, g.Name()); err != nil {
		return err
	}
	defer g.mu.Unlock()
	return g.Source.Close()
}

func (g *guarded) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.Source.(resetter); ok {
		r.reset()
	}
}

func (g *guarded) slow() bool {
	s, ok := g.Source.(slowpoke)
	return ok && s.slow()
}

func (g *guarded) every() time.Duration {
	if p, ok := g.Source.(pacer); ok {
		return p.every()
	}
	return paceUsual
}

// marks reports whether the source has counters of energy to read at marks.
func (g *guarded) marks() bool {
	if _, ok := g.Source.(marker); !ok {
		return false
	}
	return slices.ContainsFunc(g.Sensors(), isEnergyCounter)
}

// isEnergyCounter: what is read at marks. Power is not: readings that crowd around marks would bend its mean.
func isEnergyCounter(s record.Sensor) bool { return s.Available && s.Counter && s.Unit == "J" }

func (g *guarded) mark(emit func(string, float64)) error {
	m, ok := g.Source.(marker)
	if !ok {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return m.mark(emit)
}

// drain gives what came since the last time, and reports whether the source has stamps of its own.
func (g *guarded) drain(emit func(int64, string, float64)) (own bool, err error) {
	s, ok := g.Source.(stamped)
	if !ok {
		return false, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return true, s.drain(emit)
}

func (g *guarded) bind(pids func() []int) Source {
	if b, ok := g.Source.(binder); ok {
		return b.bind(pids)
	}
	return nil
}

// Sensors lists the sensors of all sources, sorted by source and then as the source lists them.
func Sensors(srcs []Source) []record.Sensor {
	var out []record.Sensor
	for _, s := range srcs {
		out = append(out, s.Sensors()...)
	}
	return out
}

// Match reports whether a sensor is asked for: a pattern is a name, or a beginning followed by "*".
func Match(patterns []string, sensor string) bool {
	for _, p := range patterns {
		if matches(p, sensor) {
			return true
		}
	}
	return false
}

func matches(pattern, sensor string) bool {
	if head, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(sensor, head)
	}
	return pattern == sensor
}

// ReadOnce takes one value of each sensor that a pattern names, now. A sensor that is a difference (CPU
// busy) needs two readings: then it takes 100 ms. An unknown or unavailable sensor is a diag.Error of kind
// Machine that says why. now is the monotonic clock (CLOCK_MONOTONIC when nil).
func ReadOnce(srcs []Source, now func() int64, sensors []string) ([]record.Sample, error) {
	if now == nil {
		now = monotonic
	}
	all := Sensors(srcs)
	if err := check(all, sensors); err != nil {
		return nil, err
	}
	got := map[string]record.Sample{}
	failed := map[string]error{}
	read := func() {
		for _, s := range srcs {
			if !slices.ContainsFunc(s.Sensors(), func(x record.Sensor) bool { return x.Available && Match(sensors, x.Name) }) {
				continue
			}
			t := now()
			if err := s.Sample(t, func(name string, v float64) {
				if Match(sensors, name) && finite(v) {
					got[name] = record.Sample{Sensor: name, MonoNS: t, Value: v}
				}
			}); err != nil {
				failed[s.Name()] = err
			}
		}
	}
	for _, s := range srcs {
		if r, ok := s.(resetter); ok {
			r.reset()
		}
	}
	read()
	if firstMissing(all, sensors, got) != nil {
		time.Sleep(100 * time.Millisecond) // the second reading of a difference
		read()
	}
	if m := firstMissing(all, sensors, got); m != nil {
		return nil, noValue(*m, "", failed[sourceOf(srcs, m.Name)])
	}
	out := make([]record.Sample, 0, len(got))
	for _, s := range got {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b record.Sample) int {
		return cmp.Or(cmp.Compare(a.MonoNS, b.MonoNS), cmp.Compare(a.Sensor, b.Sensor))
	})
	return out, nil
}

func sourceOf(srcs []Source, sensor string) string {
	for _, s := range srcs {
		for _, x := range s.Sensors() {
			if x.Name == sensor {
				return s.Name()
			}
		}
	}
	return ""
}

// waited reports whether a first value of the sensor can be waited for: those of the engine's processes
// come only with an engine.
func waited(s record.Sensor) bool {
	return s.Available && !strings.HasPrefix(s.Name, "engine.")
}

// firstMissing is a sensor that is wanted, can be had, and is not in got; nil when there is none.
func firstMissing[V any](all []record.Sensor, patterns []string, got map[string]V) *record.Sensor {
	for _, s := range all {
		if !waited(s) || !Match(patterns, s.Name) {
			continue
		}
		if _, ok := got[s.Name]; !ok {
			return &s
		}
	}
	return nil
}

// check refuses patterns that name nothing, or nothing that can be had here.
func check(all []record.Sensor, patterns []string) error {
	for _, p := range patterns {
		var known, available *record.Sensor
		for i := range all {
			if !matches(p, all[i].Name) {
				continue
			}
			if known == nil {
				known = &all[i]
			}
			if all[i].Available {
				available = &all[i]
				break
			}
		}
		if known == nil {
			known = familyOf(all, p)
		}
		switch {
		case available != nil:
		case known == nil:
			return &diag.Error{Kind: diag.Machine, Op: fmt.Sprintf("sensor %q", p), Msg: "no such sensor on this machine",
				Fix: "use one of those that flow doctor lists" + similar(all, p)}
		default:
			return &diag.Error{Kind: diag.Machine, Op: fmt.Sprintf("sensor %q", p), Msg: "not available: " + known.Why, Fix: known.Fix}
		}
	}
	return nil
}

// familyOf is a sensor of the same family where none of the family is available: a disk or a GPU that
// cannot be listed has no name to be found by.
func familyOf(all []record.Sensor, p string) *record.Sensor {
	family, _, _ := strings.Cut(p, ".")
	var first *record.Sensor
	for i := range all {
		if !strings.HasPrefix(all[i].Name, family+".") {
			continue
		}
		if all[i].Available {
			return nil
		}
		if first == nil {
			first = &all[i]
		}
	}
	return first
}

// similar names sensors of the same family, for a name that is not one.
func similar(all []record.Sensor, p string) string {
	family, _, _ := strings.Cut(p, ".")
	var out []string
	for _, s := range all {
		if strings.HasPrefix(s.Name, family+".") && s.Available && len(out) < 4 {
			out = append(out, s.Name)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ", such as " + strings.Join(out, ", ")
}

func noValue(s record.Sensor, after string, err error) error {
	msg := "no value"
	if after != "" {
		msg += " after " + after
	}
	fix := s.Fix
	if fix == "" {
		fix = "see what it says now: flow doctor"
	}
	return &diag.Error{Kind: diag.Machine, Op: fmt.Sprintf("sensor %q", s.Name), Msg: msg + " from " + s.Source, Fix: fix, Err: err}
}

// reason says in words why a file cannot be read, and what to do about it.
func reason(path string, err error) (why, fix string) {
	switch {
	case runtime.GOOS != "linux" && errors.Is(err, fs.ErrNotExist):
		return "flow reads this on Linux only, not on " + runtime.GOOS, "run on Linux"
	case errors.Is(err, fs.ErrNotExist):
		return path + " is not there", "mount it, or use a kernel that has it"
	case errors.Is(err, fs.ErrPermission):
		return "no permission to read " + path, "sudo chmod a+r " + path + ", or run with the right to read it"
	}
	return err.Error(), ""
}
