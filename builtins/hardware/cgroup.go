package hardware

// The engine's cgroup: what the kernel itself counts of it, children that ended included, and its own
// pressure. Its place comes from /proc/PID/cgroup and the mount table, because hybrid hosts mount v2 at
// /sys/fs/cgroup/unified and keep memory in v1. Where the engine has no cgroup of its own (it shares flow's),
// nothing is emitted: the numbers would be of both.

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"flow/workflows/record"
)

type cgroup struct {
	o       Options
	pids    func() []int
	sensors []record.Sensor
	mounts  []cgroupMount
	own     map[string]string // flow's own folders, by mount point
	files   []cgroupFile
	asked   int64
	tries   int
	settled bool
}

// cgroupTries is how often an engine without a cgroup of its own is asked for one: for ten seconds.
const cgroupTries = 20

type cgroupFile struct {
	f     *file
	parse func([]byte, func(string, float64))
}

// cgroupMount is a mounted hierarchy: v2, or the v1 hierarchy of one controller set.
type cgroupMount struct {
	root, point string
	v1          string // "memory" or "cpu,cpuacct"; "" is v2
}

var cgroupSensors = []record.Sensor{
	{Name: "engine.cgroup.memory_mib", Unit: "MiB"},
	{Name: "engine.cgroup.memory_peak_mib", Unit: "MiB"},
	{Name: "engine.cgroup.memory_high", Unit: "events", Counter: true},
	{Name: "engine.cgroup.memory_max", Unit: "events", Counter: true},
	{Name: "engine.cgroup.oom", Unit: "events", Counter: true},
	{Name: "engine.cgroup.oom_kill", Unit: "kills", Counter: true},
	{Name: "engine.cgroup.cpu_s", Unit: "s", Counter: true},
	{Name: "engine.cgroup.throttled_s", Unit: "s", Counter: true},
	{Name: "engine.cgroup.throttled", Unit: "periods", Counter: true},
}

// cgroupPressures are the sensors of the engine's own pressure, by file.
var cgroupPressures = []string{"cpu", "io", "memory"}

func openCgroup(o Options) Source {
	c := &cgroup{o: o}
	table, err := readText(o, filepath.Join(o.Proc, "self/mountinfo"))
	c.mounts = cgroupMounts(table)
	var v2, memory1 bool
	for _, m := range c.mounts {
		v2 = v2 || m.v1 == ""
		memory1 = memory1 || m.has("memory")
	}
	var why, fix string
	switch {
	case err != nil:
		why, fix = reason(filepath.Join(o.Proc, "self/mountinfo"), err)
	case !v2 && !memory1:
		why, fix = "no cgroup hierarchy is mounted", "mount -t cgroup2 none /sys/fs/cgroup"
	}
	c.own = c.foldersOf("self")
	for _, s := range cgroupSensors {
		s.Source, s.Why, s.Fix, s.Available = "the engine's cgroup", why, fix, why == ""
		if s.Available && memory1 && !onlyV1(s.Name) {
			s.Available, s.Why, s.Fix = false, "the host is hybrid: memory is a v1 controller, which does not count this", "boot with systemd.unified_cgroup_hierarchy=1"
		}
		if s.Available && !v2 && strings.Contains(s.Name, "throttled") {
			s.Available, s.Why, s.Fix = false, "no cgroup v2", "boot with systemd.unified_cgroup_hierarchy=1"
		}
		c.sensors = append(c.sensors, s)
	}
	for _, what := range cgroupPressures {
		for _, kind := range []string{"some_avg10_pct", "full_avg10_pct"} {
			s := record.Sensor{Name: "engine.psi." + what + "." + kind, Unit: "%", PeriodMS: 2000, Source: "the engine's cgroup, " + what + ".pressure", Why: why, Fix: fix}
			switch {
			case why != "":
			case !v2:
				s.Why, s.Fix = "no cgroup v2", "boot with systemd.unified_cgroup_hierarchy=1"
			case !exists(filepath.Join(o.Proc, "pressure", what)):
				s.Why, s.Fix = noPressure(filepath.Join(o.Proc, "pressure", what), fs.ErrNotExist)
			default:
				s.Available = true
			}
			c.sensors = append(c.sensors, s)
		}
	}
	return c
}

func onlyV1(name string) bool {
	switch name {
	case "engine.cgroup.memory_high", "engine.cgroup.memory_max", "engine.cgroup.oom":
		return false
	}
	return true
}

func (m cgroupMount) has(controller string) bool {
	for c := range strings.SplitSeq(m.v1, ",") {
		if c == controller {
			return true
		}
	}
	return false
}

// cgroupMounts reads lines of /proc/self/mountinfo:
//
//	38 31 0:41 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
//	40 31 0:33 /docker/ab /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory
func cgroupMounts(table string) []cgroupMount {
	var out []cgroupMount
	for line := range strings.Lines(table) {
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 5 || len(g) < 1 {
			continue
		}
		m := cgroupMount{root: f[3], point: f[4]}
		switch g[0] {
		case "cgroup2":
			out = append(out, m)
		case "cgroup":
			if len(g) < 3 {
				continue
			}
			for opt := range strings.SplitSeq(g[2], ",") {
				switch opt {
				case "memory", "cpu", "cpuacct":
					m.v1 += "," + opt
				}
			}
			if m.v1 = strings.TrimPrefix(m.v1, ","); m.v1 != "" {
				out = append(out, m)
			}
		}
	}
	return out
}

// foldersOf is where a process sits in each mounted hierarchy, by mount point. Its /proc/PID/cgroup:
//
//	5:memory:/docker/ab
//	0::/user.slice/flow.scope
func (c *cgroup) foldersOf(pid string) map[string]string {
	text := textOf(c.o, filepath.Join(c.o.Proc, pid, "cgroup"))
	out := map[string]string{}
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(strings.TrimRight(line, "\n"), ":")
		controllers, at, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 {
			continue
		}
		for _, m := range c.mounts {
			if m.v1 == "" != (controllers == "") || m.v1 != "" && !overlap(m.v1, controllers) {
				continue
			}
			if below, ok := belowRoot(at, m.root); ok {
				out[m.point] = filepath.Join(c.mountPoint(m), below)
			}
		}
	}
	return out
}

// mountPoint is where the mount is below the roots that a test gives.
func (c *cgroup) mountPoint(m cgroupMount) string {
	if rest, ok := strings.CutPrefix(m.point, "/sys/"); ok {
		return filepath.Join(c.o.Sys, rest)
	}
	return m.point
}

func overlap(a, b string) bool {
	for x := range strings.SplitSeq(a, ",") {
		for y := range strings.SplitSeq(b, ",") {
			if x == y {
				return true
			}
		}
	}
	return false
}

// belowRoot is a cgroup's path as the mount shows it: a container's mount begins at the container's own.
func belowRoot(at, root string) (string, bool) {
	at = path.Clean(at)
	if root == "/" || root == "" {
		return at, true
	}
	if at == root {
		return "/", true
	}
	if rest, ok := strings.CutPrefix(at, root+"/"); ok {
		return rest, true
	}
	return at, at == "/" // a cgroup namespace shows its own root as /
}

func (c *cgroup) Name() string             { return "cgroup" }
func (c *cgroup) Sensors() []record.Sensor { return c.sensors }
func (c *cgroup) every() time.Duration     { return paceUsual }
func (c *cgroup) bind(pids func() []int) Source {
	return &cgroup{o: c.o, sensors: c.sensors, mounts: c.mounts, own: c.own, pids: pids, asked: -rescan}
}

func (c *cgroup) Close() error {
	var err error
	for _, x := range c.files {
		err = errors.Join(err, x.f.close())
	}
	c.files = nil
	return err
}

func (c *cgroup) Sample(now int64, emit func(string, float64)) error {
	if c.pids == nil {
		return nil
	}
	if !c.settled && c.tries < cgroupTries && now-c.asked >= rescan {
		c.asked = now
		c.tries++
		c.find()
	}
	var failed error
	for i := range c.files {
		b, err := c.files[i].f.read()
		if err != nil {
			failed = err
			continue
		}
		c.files[i].parse(b, emit)
	}
	if errors.Is(failed, fs.ErrNotExist) || failed != nil && strings.Contains(failed.Error(), "no such device") {
		return nil // the cgroup is gone: the engine ended
	}
	return failed
}

// find opens the files of the engine's cgroup once a process of it is in one that is not flow's. A
// supervisor of flow's own may be among the processes, and stays where flow is.
func (c *cgroup) find() {
	for _, pid := range c.pids() {
		at := c.foldersOf(strconv.Itoa(pid))
		for _, m := range c.mounts {
			dir := at[m.point]
			if dir == "" || dir == c.own[m.point] {
				continue
			}
			c.settled = true
			if m.v1 == "" {
				c.openV2(dir)
			} else {
				c.openV1(m, dir)
			}
		}
		if c.settled {
			return
		}
	}
}

func (c *cgroup) open(path string, parse func([]byte, func(string, float64))) {
	if f, err := openFile(c.o, path); err == nil {
		c.files = append(c.files, cgroupFile{f, parse})
	}
}

func (c *cgroup) openV2(dir string) {
	c.open(filepath.Join(dir, "memory.current"), oneValue("engine.cgroup.memory_mib", 1./(1<<20)))
	c.open(filepath.Join(dir, "memory.peak"), oneValue("engine.cgroup.memory_peak_mib", 1./(1<<20)))
	c.open(filepath.Join(dir, "memory.events"), parseMemoryEvents)
	c.open(filepath.Join(dir, "cpu.stat"), parseCPUStat)
	for _, what := range cgroupPressures {
		some, full := "engine.psi."+what+".some_avg10_pct", "engine.psi."+what+".full_avg10_pct"
		c.open(filepath.Join(dir, what+".pressure"), func(b []byte, emit func(string, float64)) {
			var p pressure
			if parsePressure(b, &p) != nil {
				return
			}
			emit(some, p.some.avg10)
			if p.full.ok {
				emit(full, p.full.avg10)
			}
		})
	}
}

func (c *cgroup) openV1(m cgroupMount, dir string) {
	if m.has("memory") {
		c.open(filepath.Join(dir, "memory.usage_in_bytes"), oneValue("engine.cgroup.memory_mib", 1./(1<<20)))
		c.open(filepath.Join(dir, "memory.max_usage_in_bytes"), oneValue("engine.cgroup.memory_peak_mib", 1./(1<<20)))
		c.open(filepath.Join(dir, "memory.oom_control"), func(b []byte, emit func(string, float64)) {
			eachKey(b, func(key []byte, v uint64) {
				if string(key) == "oom_kill" {
					emit("engine.cgroup.oom_kill", float64(v))
				}
			})
		})
	}
	if m.has("cpuacct") {
		c.open(filepath.Join(dir, "cpuacct.usage"), oneValue("engine.cgroup.cpu_s", 1e-9))
	}
}

func oneValue(sensor string, by float64) func([]byte, func(string, float64)) {
	get := scaled(by)
	return func(b []byte, emit func(string, float64)) {
		if v, ok := get(b); ok {
			emit(sensor, v)
		}
	}
}

// eachKey reads lines of "key number".
func eachKey(b []byte, f func(key []byte, v uint64)) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		key, rest := cutField(line)
		value, _ := cutField(rest)
		if v, ok := uintOf(bytes.TrimSpace(value)); ok {
			f(key, v)
		}
	}
}

// parseMemoryEvents reads:
//
//	low 0
//	high 0
//	max 12
//	oom 0
//	oom_kill 0
func parseMemoryEvents(b []byte, emit func(string, float64)) {
	eachKey(b, func(key []byte, v uint64) {
		switch string(key) {
		case "high":
			emit("engine.cgroup.memory_high", float64(v))
		case "max":
			emit("engine.cgroup.memory_max", float64(v))
		case "oom":
			emit("engine.cgroup.oom", float64(v))
		case "oom_kill":
			emit("engine.cgroup.oom_kill", float64(v))
		}
	})
}

// parseCPUStat reads (the last three lines only where a cpu controller is enabled):
//
//	usage_usec 1234567
//	nr_periods 10
//	nr_throttled 3
//	throttled_usec 45000
func parseCPUStat(b []byte, emit func(string, float64)) {
	eachKey(b, func(key []byte, v uint64) {
		switch string(key) {
		case "usage_usec":
			emit("engine.cgroup.cpu_s", float64(v)/1e6)
		case "nr_throttled":
			emit("engine.cgroup.throttled", float64(v))
		case "throttled_usec":
			emit("engine.cgroup.throttled_s", float64(v)/1e6)
		}
	})
}
