package hardware

// Context switches of the engine: voluntary ones are waits, involuntary ones are others that wanted the
// CPU. The kernel counts them for each thread, so all threads of all processes are read, once a second;
// what threads that ended had done stays in the sum as far as it was seen.

import (
	"bytes"
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"flow/workflows/record"
)

// switchesMost bounds the threads that are read; with more there is no value, rather than a part of one.
const switchesMost = 2048

type switches struct {
	o       Options
	pids    func() []int
	sensors []record.Sensor
	threads map[int]*threadCount
	gone    switchCount
	round   uint64
}

type switchCount struct{ voluntary, involuntary uint64 }

type threadCount struct {
	switchCount
	round uint64
}

func openSwitches(o Options) Source {
	s := &switches{o: o}
	path := filepath.Join(o.Proc, "self/status")
	f, err := openFile(o, path)
	var why, fix string
	if err != nil {
		why, fix = reason(path, err)
	} else {
		_ = f.close()
	}
	for _, n := range []string{"engine.voluntary_switches", "engine.involuntary_switches"} {
		s.sensors = append(s.sensors, record.Sensor{Name: n, Unit: "switches", Counter: true, PeriodMS: 1000,
			Source: filepath.Join(o.Proc, "PID/task/TID/status"), Available: err == nil, Why: why, Fix: fix})
	}
	return s
}

func (s *switches) Name() string             { return "switches" }
func (s *switches) Sensors() []record.Sensor { return s.sensors }
func (s *switches) Close() error             { return nil }
func (s *switches) every() time.Duration     { return paceSlow }
func (s *switches) bind(pids func() []int) Source {
	return &switches{o: s.o, sensors: s.sensors, pids: pids, threads: map[int]*threadCount{}}
}

func (s *switches) Sample(_ int64, emit func(string, float64)) error {
	if s.pids == nil || !s.sensors[0].Available {
		return nil
	}
	s.round++
	n := 0
	for _, pid := range s.pids() {
		for _, dir := range numbered(filepath.Join(s.o.Proc, strconv.Itoa(pid), "task"), "") {
			if n++; n > switchesMost {
				return errors.New("more than 2048 threads: context switches are not counted")
			}
			s.look(dir)
		}
	}
	sum := s.gone
	for tid, x := range s.threads {
		if x.round != s.round {
			s.gone.voluntary += x.voluntary
			s.gone.involuntary += x.involuntary
			delete(s.threads, tid)
		}
		sum.voluntary += x.voluntary
		sum.involuntary += x.involuntary
	}
	if len(s.threads) > 0 || sum != (switchCount{}) {
		emit("engine.voluntary_switches", float64(sum.voluntary))
		emit("engine.involuntary_switches", float64(sum.involuntary))
	}
	return nil
}

func (s *switches) look(dir string) {
	text, err := readText(s.o, filepath.Join(dir, "status"))
	if err != nil {
		return // ended meanwhile
	}
	c, ok := parseSwitches([]byte(text))
	tid, _ := strconv.Atoi(filepath.Base(dir))
	if !ok {
		return
	}
	x := s.threads[tid]
	if x == nil {
		x = &threadCount{}
		s.threads[tid] = x
	}
	if c.voluntary < x.voluntary || c.involuntary < x.involuntary { // the number was taken again
		s.gone.voluntary += x.voluntary
		s.gone.involuntary += x.involuntary
	}
	x.switchCount, x.round = c, s.round
}

// parseSwitches reads:
//
//	voluntary_ctxt_switches:	150
//	nonvoluntary_ctxt_switches:	545
func parseSwitches(b []byte) (c switchCount, ok bool) {
	var a, z bool
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		i := bytes.IndexByte(line, ':')
		if i < 0 {
			continue
		}
		f, _ := cutField(line[i+1:])
		switch string(line[:i]) {
		case "voluntary_ctxt_switches":
			c.voluntary, a = uintOf(f)
		case "nonvoluntary_ctxt_switches":
			c.involuntary, z = uintOf(f)
		}
	}
	return c, a && z
}

func sortProcesses(ps []Process) {
	slices.SortFunc(ps, func(a, b Process) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Pattern, b.Pattern)) })
}
