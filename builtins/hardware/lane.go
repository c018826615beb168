package hardware

// A lane of the sampler: a goroutine that reads its sources on absolute deadlines, and its counters of energy
// at marks, and keeps the values by column.

import (
	"context"
	"runtime"
	"sync"
	"time"

	"flow/workflows/record"
)

// lane is a goroutine with sources that it reads in turn. No lock is held while a source reads: a driver
// that hangs must not hang those who want the other values.
type lane struct {
	s        *Sampler
	done     chan struct{}
	interval int64         // between ticks
	edge     chan struct{} // a mark asks for the counters of energy; nil where the lane has none

	// Of the lane's goroutine alone.
	emit   func(string, float64) // made once: a closure for each sample would be an allocation
	emitAt func(int64, string, float64)
	at     int64
	marked int64             // when the counters were last read for a mark
	ids    map[string]uint32 // the lane's own view of Sampler.ids, so that a value takes no shared lock

	mu      sync.Mutex
	sources []laneSource
	chunks  []*chunk
	ticks   int
	late    int
	dropped int
	cpuNS   int64
	noCPU   bool
	fresh   bool // a sensor had its first value in this tick
	ended   bool // Stop has returned: what still comes is too late
}

type laneSource struct {
	Source
	stats SourceStats
	every int64 // ns between readings
	next  int64 // not before
	marks bool  // has counters of energy to read at marks
}

// markApart is how close two readings for marks may be: many requests at once make many marks.
const markApart = int64(2 * time.Millisecond)

// chunk holds values by column: 20 bytes each instead of the 32 of a record.Sample.
type chunk struct {
	n     int
	ns    [chunkLen]int64
	value [chunkLen]float64
	id    [chunkLen]uint32
}

const chunkLen = 2048

func (l *lane) follow(pids func() []int) {
	// Closing waits for a reading, and a reading that keeps its values waits for the lane: so it comes after.
	var old []Source
	defer func() {
		for _, src := range old {
			_ = src.Close() // an unbound source has nothing open, a bound one its processes' files
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.s
	for i, src := range l.sources {
		b, ok := s.o.Sources[s.indexOf(src.stats.Name)].(binder)
		if !ok {
			continue
		}
		bound := b.bind(pids)
		if bound == nil {
			continue
		}
		l.sources[i].Source = &guarded{Source: bound}
		l.sources[i].next = 0
		old = append(old, src.Source)
	}
}

func (l *lane) run(ctx context.Context) {
	interval := l.interval
	timer := time.NewTimer(0)
	defer timer.Stop()
	deadline := l.s.o.Now()
	for {
		select {
		case <-ctx.Done():
			// A window that ended since the last tick has its edge between that and this reading.
			l.tick(0, true)
			return
		case <-l.edge:
			l.readEdge()
			continue
		case <-timer.C:
		}
		now := l.s.o.Now()
		l.tick(now-deadline, false)
		// The next deadline is on the grid of the first one: a late tick does not move those after it.
		deadline += interval
		now = l.s.o.Now()
		if missed := (now - deadline) / interval; missed > 0 {
			l.mu.Lock()
			l.dropped += int(missed)
			l.mu.Unlock()
			deadline += missed * interval
		}
		timer.Reset(time.Duration(max(deadline-now, 0)))
	}
}

// tick reads every source of the lane that is due; at the last one, those that are read at every tick.
func (l *lane) tick(behind int64, last bool) {
	// The thread's CPU clock is only ours while the goroutine cannot move to another thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu, ok := threadCPU()

	l.mu.Lock()
	if !last {
		l.ticks++
	}
	if behind > l.interval/2 {
		l.late++
	}
	for i := range l.sources { // never grows, and only Engine changes an entry
		src := l.sources[i].Source
		at := l.s.o.Now()
		// Half an interval early is on time: ticks jitter, and a source of 100 ms at 10 Hz is read every tick.
		if at+l.interval/2 < l.sources[i].next && !last || last && l.sources[i].every > int64(paceUsual) {
			continue
		}
		// On a grid of its own, so that jitter does not add up; after a pause from now.
		if l.sources[i].next += l.sources[i].every; l.sources[i].next <= at {
			l.sources[i].next = at + l.sources[i].every
		}
		l.sources[i].stats.reading = true
		l.mu.Unlock()
		l.at = at
		err := l.read(src)
		took := time.Duration(l.s.o.Now() - at)
		l.mu.Lock()
		l.sources[i].stats.add(took, err)
	}
	if ok {
		end, _ := threadCPU()
		l.cpuNS += end - cpu
	} else {
		l.noCPU = true
	}
	fresh := l.fresh
	l.fresh = false
	l.mu.Unlock()
	if fresh {
		select {
		case l.s.news <- struct{}{}:
		default:
		}
	}
}

// readEdge reads the counters of energy for a mark. It is no tick: nothing else is read, and nothing is late.
func (l *lane) readEdge() {
	if now := l.s.o.Now(); l.marked != 0 && now-l.marked < markApart {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu, ok := threadCPU()
	l.mu.Lock()
	for i := range l.sources {
		g, is := l.sources[i].Source.(*guarded)
		if !is || !l.sources[i].marks {
			continue
		}
		l.sources[i].stats.reading = true
		l.mu.Unlock()
		l.at = l.s.o.Now()
		l.marked = l.at
		err := g.mark(l.emit)
		took := time.Duration(l.s.o.Now() - l.at)
		l.mu.Lock()
		l.sources[i].stats.add(took, err)
		l.sources[i].stats.Marks++
	}
	if ok {
		end, _ := threadCPU()
		l.cpuNS += end - cpu
	}
	l.mu.Unlock()
}

// read takes what a source says now, or, of one whose values come by themselves, what has come.
func (l *lane) read(src Source) error {
	if g, ok := src.(*guarded); ok {
		if own, err := g.drain(l.emitAt); own {
			return err
		}
	}
	return src.Sample(l.at, l.emit)
}

// keepAt stores a value that has a time of its own.
func (l *lane) keepAt(at int64, sensor string, value float64) {
	l.at = at
	l.keep(sensor, value)
}

func (s *SourceStats) add(took time.Duration, err error) {
	s.reading = false
	s.Reads++
	s.Total += took
	s.Max = max(s.Max, took)
	if err != nil {
		s.Errors++
		s.LastError = err.Error()
	}
}

// keep stores a value. It is the emit of every source of the lane.
func (l *lane) keep(sensor string, value float64) {
	if !finite(value) {
		return // not a measurement
	}
	id, ok := l.ids[sensor]
	if !ok {
		id = l.s.id(sensor)
		l.ids[sensor] = id
	}
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.fresh = l.fresh || !ok
	var c *chunk
	if n := len(l.chunks); n > 0 {
		c = l.chunks[n-1]
	}
	if c == nil || c.n == chunkLen {
		c = &chunk{}
		l.chunks = append(l.chunks, c)
	}
	c.ns[c.n], c.value[c.n], c.id[c.n] = l.at, value, id
	c.n++
	l.mu.Unlock()
	if l.s.o.OnSample != nil {
		l.s.seeing.Lock()
		l.s.o.OnSample(record.Sample{Sensor: sensor, MonoNS: l.at, Value: value})
		l.s.seeing.Unlock()
	}
}
