package hardware

// /proc/stat: what the CPUs of the machine did, all together. Time comes in ticks of 10 ms for each CPU, so
// a percentage over 100 ms on two CPUs has steps of 5 %: over a window, take the difference of the
// counters in seconds.

import (
	"errors"
	"path/filepath"
)

type stat struct {
	cpu, before      cpuTicks
	ctxt             number
	running, blocked number
}

// cpuTicks are USER_HZ ticks since boot. Kernels before 2.6.11 have no steal.
type cpuTicks struct {
	user, nice, system, idle, iowait, irq, softirq, steal number
}

func (c cpuTicks) busy() uint64 {
	return c.user.v + c.nice.v + c.system.v + c.irq.v + c.softirq.v + c.steal.v
}

func (c cpuTicks) all() uint64 { return c.busy() + c.idle.v + c.iowait.v }

func openStat(o Options) Source {
	return openText(o, "stat", filepath.Join(o.Proc, "stat"), parseStat, []gauge[stat]{
		{name: "stat.cpu_busy_pct", unit: "%", later: true, get: func(s *stat) (float64, bool) { return s.share(cpuTicks.busy) }},
		{name: "stat.cpu_steal_pct", unit: "%", later: true, get: func(s *stat) (float64, bool) {
			return s.share(func(c cpuTicks) uint64 { return c.steal.v })
		}},
		{name: "stat.cpu_busy_s", unit: "s", counter: true, get: func(s *stat) (float64, bool) { return number{s.cpu.busy(), s.cpu.user.ok}.ticks() }},
		{name: "stat.cpu_iowait_s", unit: "s", counter: true, get: func(s *stat) (float64, bool) { return s.cpu.iowait.ticks() }},
		{name: "stat.cpu_steal_s", unit: "s", counter: true, get: func(s *stat) (float64, bool) { return s.cpu.steal.ticks() }},
		{name: "stat.context_switches", unit: "switches", counter: true, get: func(s *stat) (float64, bool) { return s.ctxt.plain() }},
		{name: "stat.procs_running", unit: "tasks", get: func(s *stat) (float64, bool) { return s.running.plain() }},
		{name: "stat.procs_blocked", unit: "tasks", get: func(s *stat) (float64, bool) { return s.blocked.plain() }},
	}, reason)
}

// share is the part of the time since the reading before, in percent. There is none at the first reading,
// between two readings within a tick, and when a counter went back (it does: a CPU taken offline).
func (s *stat) share(of func(cpuTicks) uint64) (float64, bool) {
	if !s.before.user.ok || s.cpu.all() <= s.before.all() {
		return 0, false
	}
	part, whole := of(s.cpu), s.cpu.all()-s.before.all()
	if part < of(s.before) || part-of(s.before) > whole {
		return 0, false
	}
	return 100 * (float64(part-of(s.before)) / float64(whole)), true // in this order: never above 100
}

// parseStat reads (the intr line is as long as the machine has interrupts):
//
//	cpu  11693 56364 10309 87601 251 0 85 98 0 0
//	cpu0 5804 20705 4872 51666 50 0 15 43 0 0
//	intr 816672 0 0 0
//	ctxt 1547702
//	procs_running 3
//	procs_blocked 0
func parseStat(b []byte, s *stat) error {
	*s = stat{before: s.cpu}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		if len(line) < 4 || line[0] != 'c' && line[0] != 'p' {
			continue
		}
		name, rest := cutField(line)
		switch string(name) {
		case "cpu":
			s.cpu = parseCPUTicks(rest)
		case "ctxt":
			f, _ := cutField(rest)
			s.ctxt = numberOf(f)
		case "procs_running":
			f, _ := cutField(rest)
			s.running = numberOf(f)
		case "procs_blocked":
			f, _ := cutField(rest)
			s.blocked = numberOf(f)
		}
	}
	if !s.cpu.user.ok || !s.cpu.idle.ok {
		return errors.New("stat: no cpu line")
	}
	return nil
}

func parseCPUTicks(line []byte) (c cpuTicks) {
	for _, into := range [...]*number{&c.user, &c.nice, &c.system, &c.idle, &c.iowait, &c.irq, &c.softirq, &c.steal} {
		var f []byte
		f, line = cutField(line)
		*into = numberOf(f)
	}
	return c
}
