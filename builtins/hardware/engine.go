package hardware

// The engine's process tree. Resident memory is the sum over its processes, so a page shared by two counts
// twice. CPU time counts what has ended, too: a worker that dies takes nothing away from engine.cpu_s.

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"flow/workflows/record"
)

// rescan is how often the set of processes is asked for when none has ended: asking may mean walking /proc.
const rescan = int64(500 * time.Millisecond)

type engine struct {
	o       Options
	sensors []record.Sensor
	pids    func() []int // nil: no engine

	procs   []*process
	asked   int64
	stale   bool  // a process has ended since pids was asked
	begun   bool  // had at least one process
	retired tally // of processes that ended and that no parent of ours has waited for
	high    tally // the highest sum so far: a counter does not go back
}

type process struct {
	pid          int
	stat, status *file
	last         procStat
	before       tally // last.children() one sample ago
	owed         tally // of descendants that ended since
	memory       procMemory
	alive        bool
}

func openEngine(o Options) Source {
	e := &engine{o: o}
	// Readable for us is readable for a child of ours with the same user.
	path := filepath.Join(o.Proc, "self", "status")
	f, err := openFile(o, path)
	var why, fix string
	if err != nil {
		why, fix = reason(path, err)
	} else {
		_ = f.close()
	}
	for _, s := range []record.Sensor{
		{Name: "engine.rss_mib", Unit: "MiB"},
		{Name: "engine.vmlck_mib", Unit: "MiB"},
		{Name: "engine.vmpin_mib", Unit: "MiB"},
		{Name: "engine.swap_mib", Unit: "MiB"},
		{Name: "engine.cpu_s", Unit: "s", Counter: true},
		{Name: "engine.majflt", Unit: "faults", Counter: true},
		{Name: "engine.minflt", Unit: "faults", Counter: true},
		{Name: "engine.threads", Unit: "threads"},
		{Name: "engine.processes", Unit: "processes"},
	} {
		s.Source = filepath.Join(o.Proc, "PID", "stat")
		s.Available, s.Why, s.Fix = err == nil, why, fix
		e.sensors = append(e.sensors, s)
	}
	return e
}

func (e *engine) Name() string             { return "engine" }
func (e *engine) Sensors() []record.Sensor { return e.sensors }
func (e *engine) every() time.Duration     { return paceFast }

// bind gives a source of its own for one engine, so that samplers do not share one.
func (e *engine) bind(pids func() []int) Source {
	return &engine{o: e.o, sensors: e.sensors, pids: pids, stale: true}
}

func (e *engine) Close() error {
	for _, p := range e.procs {
		p.close()
	}
	e.procs = nil
	return nil
}

func (e *engine) Sample(now int64, emit func(string, float64)) error {
	if e.pids == nil || !e.sensors[0].Available {
		return nil
	}
	var err error
	if e.stale || now-e.asked >= rescan {
		e.asked, e.stale = now, false
		err = e.follow(e.pids())
	}
	for _, p := range e.procs {
		p.before = p.last.children()
		p.alive = p.read()
	}
	e.retire()
	if !e.begun {
		return err
	}
	e.tell(emit)
	return err
}

// follow opens what is new in the set and lets go what left it.
func (e *engine) follow(pids []int) error {
	var failed error
	for _, pid := range pids {
		if slices.ContainsFunc(e.procs, func(p *process) bool { return p.pid == pid }) {
			continue
		}
		p, err := e.open(pid)
		switch {
		case err == nil:
			e.procs = append(e.procs, p)
			e.begun = true
		case errors.Is(err, os.ErrNotExist): // gone before we came
		default:
			failed = err
		}
	}
	for _, p := range e.procs {
		if !slices.Contains(pids, p.pid) && p.read() { // it lives on, but is not the engine's any more
			e.retired.add(p.last.all())
			p.close()
		}
	}
	e.procs = slices.DeleteFunc(e.procs, func(p *process) bool { return p.stat == nil })
	return failed
}

func (e *engine) open(pid int) (*process, error) {
	dir := filepath.Join(e.o.Proc, strconv.Itoa(pid))
	// An open file of /proc/PID belongs to that process, not to the number: after its end it reads as gone,
	// even when the number is taken again.
	stat, err := openFile(e.o, filepath.Join(dir, "stat"))
	if err != nil {
		return nil, err
	}
	status, err := openFile(e.o, filepath.Join(dir, "status"))
	if err != nil {
		_ = stat.close()
		return nil, err
	}
	p := &process{pid: pid, stat: stat, status: status}
	p.read()
	return p, nil
}

// retire drops processes that ended. What they used is in the tally of the parent that waited for them,
// unless nobody of ours did (a subreaper, flow itself, a parent that ignores SIGCHLD): then it is kept here.
func (e *engine) retire() {
	gone := 0
	for _, p := range e.procs {
		if p.alive {
			continue
		}
		gone++
		if q := e.ancestor(p); q != nil {
			q.owed.add(p.last.all())
		} else {
			e.retired.add(p.last.all())
		}
	}
	if gone == 0 {
		return
	}
	e.stale = true
	for _, q := range e.procs {
		if q.alive && q.owed != (tally{}) {
			q.read() // again: it may have waited since the reading of this sample
			e.retired.add(q.owed.beyond(q.last.children().beyond(q.before)))
			q.owed = tally{}
		}
	}
	for _, p := range e.procs {
		if !p.alive {
			p.close()
		}
	}
	e.procs = slices.DeleteFunc(e.procs, func(p *process) bool { return p.stat == nil })
}

// ancestor is the nearest living process of ours above p.
func (e *engine) ancestor(p *process) *process {
	for range e.procs { // at most as many steps as there are processes
		i := slices.IndexFunc(e.procs, func(q *process) bool { return uint64(q.pid) == p.last.ppid })
		if i < 0 {
			return nil
		}
		if p = e.procs[i]; p.alive {
			return p
		}
	}
	return nil
}

func (e *engine) tell(emit func(string, float64)) {
	var rss, lck, pin, swap number
	var threads uint64
	live := 0
	sum := e.retired
	for _, p := range e.procs {
		sum.add(p.last.all())
		if p.last.state == 'Z' { // ended, not yet waited for: it has time, but no memory and no threads
			continue
		}
		live++
		threads += p.last.threads
		rss.add(p.memory.rss)
		lck.add(p.memory.lck)
		pin.add(p.memory.pin)
		swap.add(p.memory.swap)
	}
	e.high = tally{max(e.high.ticks, sum.ticks), max(e.high.faults, sum.faults), max(e.high.minor, sum.minor)}
	emit("engine.processes", float64(live))
	emit("engine.cpu_s", float64(e.high.ticks)/userHZ)
	emit("engine.majflt", float64(e.high.faults))
	emit("engine.minflt", float64(e.high.minor))
	if live == 0 {
		return
	}
	emit("engine.threads", float64(threads))
	for _, m := range [...]struct {
		name string
		n    number
	}{{"engine.rss_mib", rss}, {"engine.vmlck_mib", lck}, {"engine.vmpin_mib", pin}, {"engine.swap_mib", swap}} {
		if v, ok := m.n.kib(); ok {
			emit(m.name, v)
		}
	}
}

func (n *number) add(m number) {
	if m.ok {
		n.v, n.ok = n.v+m.v, true
	}
}

// read reports whether the process is still there (a zombie is).
func (p *process) read() bool {
	b, err := p.stat.read()
	if err != nil || parseProcStat(b, &p.last) != nil {
		return false
	}
	if b, err = p.status.read(); err != nil {
		return false
	}
	return parseProcStatus(b, &p.memory) == nil
}

func (p *process) close() {
	if p.stat == nil {
		return
	}
	_ = p.stat.close()
	_ = p.status.close()
	p.stat, p.status = nil, nil
}
