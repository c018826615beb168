package hardware

// What the CPUs are allowed to do: governor, energy preference, boost, the clock's cap; and how often the
// hardware itself held them back. Words become numbers, because a sample is one: the share of the CPUs'
// policies whose governor is "performance", and so on. Settings has the words.

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"flow/workflows/record"
)

type cpupolicy struct {
	sensors    []record.Sensor
	governors  []*file
	prefers    []*file
	caps       []*file
	boost      *file
	noTurbo    bool // the file says what is off, as intel_pstate's does
	cores      []*file
	packages   []*file
	everything []*file
}

func openCPUPolicy(o Options) Source {
	c := &cpupolicy{}
	cpu := filepath.Join(o.Sys, "devices/system/cpu")
	policies := numbered(filepath.Join(cpu, "cpufreq"), "policy")
	step := max((len(policies)+cpufreqMost-1)/cpufreqMost, 1)
	var few []string
	for i := 0; i < len(policies); i += step {
		few = append(few, policies[i])
	}
	glob := filepath.Join(cpu, "cpufreq/policy*")
	c.governors = c.several(o, few, "scaling_governor", record.Sensor{Name: "cpufreq.governor_performance", Unit: "share", Source: glob + "/scaling_governor", PeriodMS: 1000})
	c.prefers = c.several(o, few, "energy_performance_preference", record.Sensor{Name: "cpufreq.epp_performance", Unit: "share", Source: glob + "/energy_performance_preference", PeriodMS: 1000})
	c.caps = c.several(o, few, "scaling_max_freq", record.Sensor{Name: "cpufreq.cap_mhz", Unit: "MHz", Source: glob + "/scaling_max_freq", PeriodMS: 1000})
	c.openBoost(o, cpu)
	cores, packages := throttleFiles(o, cpu)
	c.cores = c.several(o, cores, "core_throttle_count", record.Sensor{Name: "cpu.core_throttles", Unit: "events", Counter: true, Source: cpu + "/cpu*/thermal_throttle", PeriodMS: 1000})
	c.packages = c.several(o, packages, "package_throttle_count", record.Sensor{Name: "cpu.package_throttles", Unit: "events", Counter: true, Source: cpu + "/cpu*/thermal_throttle", PeriodMS: 1000})
	return c
}

// several opens one file in each folder. A counter needs all of them: a part of a sum is no sum.
func (c *cpupolicy) several(o Options, dirs []string, name string, s record.Sensor) (out []*file) {
	var failed error = fs.ErrNotExist
	for _, d := range dirs {
		f, err := openFile(o, filepath.Join(d, name))
		if err != nil {
			failed = err
			continue
		}
		if _, err = f.read(); err != nil {
			failed = err
			_ = f.close()
			continue
		}
		out = append(out, f)
	}
	c.everything = append(c.everything, out...)
	switch {
	case len(out) == 0 && errors.Is(failed, fs.ErrNotExist) && o.OS == "linux":
		s.Why, s.Fix = "the CPU driver gives no "+name, "run on the hardware itself, with a driver that has it"
	case len(out) == 0:
		s.Why, s.Fix = reason(s.Source, failed)
	default:
		s.Available = true
	}
	c.sensors = append(c.sensors, s)
	return out
}

func (c *cpupolicy) openBoost(o Options, cpu string) {
	s := record.Sensor{Name: "cpufreq.boost", Unit: "0 or 1", PeriodMS: 1000}
	for _, at := range []struct {
		path string
		no   bool
	}{{"intel_pstate/no_turbo", true}, {"cpufreq/boost", false}, {"amd_pstate/cpb_boost", false}} {
		path := filepath.Join(cpu, at.path)
		f, err := openFile(o, path)
		if err != nil {
			continue
		}
		c.boost, c.noTurbo = f, at.no
		c.everything = append(c.everything, f)
		s.Source, s.Available = path, true
		break
	}
	if c.boost == nil {
		s.Source = filepath.Join(cpu, "cpufreq/boost")
		s.Why, s.Fix = nothingIn(o, cpu, "neither intel_pstate/no_turbo nor cpufreq/boost"), "run on the hardware itself"
	}
	c.sensors = append(c.sensors, s)
}

// throttleFiles picks one CPU of each core and one of each package: their siblings show the same counter.
func throttleFiles(o Options, cpu string) (cores, packages []string) {
	seenCore, seenPackage := map[string]bool{}, map[string]bool{}
	for i, d := range numbered(cpu, "cpu") {
		dir := filepath.Join(d, "thermal_throttle")
		if !exists(dir) {
			continue
		}
		pkg := textOf(o, filepath.Join(d, "topology/physical_package_id"))
		core := textOf(o, filepath.Join(d, "topology/core_id"))
		if core == "" {
			core = itoa(i)
		}
		if !seenCore[pkg+"/"+core] {
			seenCore[pkg+"/"+core] = true
			cores = append(cores, dir)
		}
		if !seenPackage[pkg] {
			seenPackage[pkg] = true
			packages = append(packages, dir)
		}
	}
	return cores, packages
}

func (c *cpupolicy) Name() string             { return "cpupolicy" }
func (c *cpupolicy) Sensors() []record.Sensor { return c.sensors }
func (c *cpupolicy) every() time.Duration     { return paceSlow }
func (c *cpupolicy) Close() error {
	var err error
	for _, f := range c.everything {
		err = errors.Join(err, f.close())
	}
	*c = cpupolicy{sensors: c.sensors}
	return err
}

func (c *cpupolicy) Sample(_ int64, emit func(string, float64)) error {
	failed := shareOf(c.governors, "cpufreq.governor_performance", emit)
	if err := shareOf(c.prefers, "cpufreq.epp_performance", emit); err != nil {
		failed = err
	}
	if len(c.caps) > 0 {
		low := 0.0
		for i, f := range c.caps {
			v, err := readKHz(f)
			if err != nil {
				failed = err
				continue
			}
			if mhz := float64(v) / 1000; i == 0 || low == 0 || mhz < low {
				low = mhz
			}
		}
		if low > 0 {
			emit("cpufreq.cap_mhz", low)
		}
	}
	if c.boost != nil {
		v, err := c.boost.readUint()
		switch {
		case err != nil:
			failed = err
		case (v != 0) != c.noTurbo:
			emit("cpufreq.boost", 1)
		default:
			emit("cpufreq.boost", 0)
		}
	}
	for _, k := range [...]struct {
		files  []*file
		sensor string
	}{{c.cores, "cpu.core_throttles"}, {c.packages, "cpu.package_throttles"}} {
		if err := sumOf(k.files, k.sensor, emit); err != nil {
			failed = err
		}
	}
	return failed
}

var performance = []byte("performance")

func shareOf(files []*file, sensor string, emit func(string, float64)) (failed error) {
	n, yes := 0, 0
	for _, f := range files {
		b, err := f.read()
		if err != nil {
			failed = err
			continue
		}
		n++
		if bytes.Equal(firstWord(b), performance) {
			yes++
		}
	}
	if n > 0 {
		emit(sensor, float64(yes)/float64(n))
	}
	return failed
}

func sumOf(files []*file, sensor string, emit func(string, float64)) error {
	var sum uint64
	for _, f := range files {
		v, err := f.readUint()
		if err != nil {
			return err
		}
		sum += v
	}
	if len(files) > 0 {
		emit(sensor, float64(sum))
	}
	return nil
}

// Setting is something of the host that changes what is measured, in words.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"` // "" is unknown
	Path  string `json:"path"`
	Why   string `json:"why,omitempty"` // why it is not known
}

// Settings reads them: governor, energy preference, boost, transparent huge pages, swappiness, NUMA
// balancing, address randomisation, mixed values joined by a comma.
func Settings(o Options) []Setting {
	o = o.withDefaults()
	cpu := filepath.Join(o.Sys, "devices/system/cpu")
	var out []Setting
	mixed := func(name, file string) {
		s := Setting{Name: name, Path: filepath.Join(cpu, "cpufreq/policy*", file)}
		var all []string
		for _, p := range numbered(filepath.Join(cpu, "cpufreq"), "policy") {
			v, err := readText(o, filepath.Join(p, file))
			if err != nil {
				s.Why, _ = reason(filepath.Join(p, file), err)
				continue
			}
			if v != "" && !contains(all, v) {
				all = append(all, v)
			}
		}
		if s.Value = strings.Join(all, ", "); s.Value != "" {
			s.Why = ""
		} else if s.Why == "" {
			s.Why = nothingIn(o, filepath.Join(cpu, "cpufreq"), "no CPU frequency driver")
		}
		out = append(out, s)
	}
	mixed("governor", "scaling_governor")
	mixed("epp", "energy_performance_preference")
	one := func(name, path string, word func(string) string) {
		s := Setting{Name: name, Path: path}
		v, err := readText(o, path)
		if err != nil {
			s.Why, _ = reason(path, err)
		} else {
			s.Value = word(v)
		}
		out = append(out, s)
	}
	onOff := func(v string) string { return map[string]string{"0": "off", "1": "on"}[v] }
	if p := filepath.Join(cpu, "intel_pstate/no_turbo"); exists(p) {
		one("boost", p, func(v string) string { return map[string]string{"1": "off", "0": "on"}[v] })
	} else {
		one("boost", filepath.Join(cpu, "cpufreq/boost"), onOff)
	}
	chosen := func(v string) string {
		if i, j := strings.IndexByte(v, '['), strings.IndexByte(v, ']'); i >= 0 && j > i {
			return v[i+1 : j]
		}
		return v
	}
	same := func(v string) string { return v }
	one("smt", filepath.Join(cpu, "smt/control"), same)
	one("thp", filepath.Join(o.Sys, "kernel/mm/transparent_hugepage/enabled"), chosen)
	one("swappiness", filepath.Join(o.Proc, "sys/vm/swappiness"), same)
	one("numa_balancing", filepath.Join(o.Proc, "sys/kernel/numa_balancing"), onOff)
	one("aslr", filepath.Join(o.Proc, "sys/kernel/randomize_va_space"), same)
	return out
}

func contains(all []string, v string) bool {
	for _, x := range all {
		if x == v {
			return true
		}
	}
	return false
}
