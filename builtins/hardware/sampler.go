package hardware

// The sampler: absolute deadlines on its own monotonic clock, one lane for everything quick and one for
// each slow source, values kept in chunks so that steady state allocates only a chunk now and then.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"flow/workflows/record"
)

// SamplerOptions say what is sampled, and how often.
type SamplerOptions struct {
	Sources  []Source
	Interval time.Duration       // between ticks; 100 ms when zero
	Now      func() int64        // monotonic nanoseconds; CLOCK_MONOTONIC when nil
	Need     []string            // sensors without whose first value nothing may start; a trailing * matches
	OnSample func(record.Sample) // called for every value, one call at a time, from the sampler; must not block
	Barrier  time.Duration       // how long to wait for the first values; 5 s when zero

	patience time.Duration // how long Stop waits for a source that does not return; patience when zero
}

// Stats is what sampling itself took, and what went wrong in it.
type Stats struct {
	Ticks   int           `json:"ticks"`   // of the common lane
	Late    int           `json:"late"`    // ticks that began more than half an interval after their deadline
	Dropped int           `json:"dropped"` // ticks that never were, because an earlier one took too long
	CPUS    *float64      `json:"cpu_s"`   // CPU seconds of all ticks; nil where the system cannot tell
	Sources []SourceStats `json:"sources"`
}

// SourceStats is what one source took.
type SourceStats struct {
	Name      string        `json:"name"`
	Reads     int           `json:"reads"`
	Marks     int           `json:"marks,omitempty"` // of them at marks, beside the ticks
	Errors    int           `json:"errors"`
	LastError string        `json:"last_error,omitempty"`
	Total     time.Duration `json:"total_ns"`
	Max       time.Duration `json:"max_ns"`
	reading   bool
}

// Sampler samples until Stop. Its methods may be called from any goroutine.
type Sampler struct {
	o      SamplerOptions
	cancel context.CancelFunc
	lanes  []*lane // the common one last

	seeing sync.Mutex // OnSample, one call at a time

	mu    sync.Mutex
	ids   map[string]uint32 // sensor to its place in names
	names []string
	seen  []bool // by id: has had a value
	news  chan struct{}

	stop  sync.Once
	stats Stats
}

// patience is how long Stop waits for a source that does not return.
const patience = 2 * time.Second

// StartSampler begins to sample and returns when every sensor in Need has a first value: before that no
// engine may start. Where one has none it returns a diag.Error of kind Machine that names the sensor, why,
// and what to do. The sampler ends with Stop, or with ctx.
func StartSampler(ctx context.Context, o SamplerOptions) (*Sampler, error) {
	if o.Interval <= 0 {
		o.Interval = 100 * time.Millisecond
	}
	if o.Barrier <= 0 {
		o.Barrier = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = monotonic
	}
	if o.patience <= 0 {
		o.patience = patience
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := Sensors(o.Sources)
	if err := check(all, o.Need); err != nil {
		return nil, err
	}
	s := &Sampler{o: o, ids: map[string]uint32{}, news: make(chan struct{}, 1)}
	ctx, s.cancel = context.WithCancel(ctx)
	var common []Source
	for _, src := range o.Sources {
		if r, ok := src.(resetter); ok {
			r.reset()
		}
		if p, ok := src.(slowpoke); ok && p.slow() {
			s.lane(ctx, src)
			continue
		}
		common = append(common, src)
	}
	s.lane(ctx, common...)
	if err := s.barrier(ctx, all); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// lane starts a goroutine for sources.
func (s *Sampler) lane(ctx context.Context, sources ...Source) {
	l := &lane{s: s, ids: map[string]uint32{}, done: make(chan struct{})}
	for _, src := range sources {
		x := laneSource{Source: src, stats: SourceStats{Name: src.Name()}, every: s.pace(src)}
		if g, ok := src.(*guarded); ok && g.marks() {
			x.marks, l.edge = true, make(chan struct{}, 1)
		}
		l.sources = append(l.sources, x)
	}
	l.interval = int64(s.o.Interval)
	if len(l.sources) == 1 { // nothing to wake up for in between
		l.interval = max(l.interval, l.sources[0].every)
	}
	l.emit, l.emitAt = l.keep, l.keepAt
	s.lanes = append(s.lanes, l)
	go func() {
		defer close(l.done)
		l.run(ctx)
	}()
}

// pace is how far apart the readings of a source are at least.
func (s *Sampler) pace(src Source) int64 {
	if p, ok := src.(pacer); ok {
		return int64(p.every())
	}
	return 0
}

func (s *Sampler) barrier(ctx context.Context, all []record.Sensor) error {
	timeout := time.NewTimer(s.o.Barrier)
	defer timeout.Stop()
	for {
		missing := firstMissing(all, s.o.Need, s.have())
		if missing == nil {
			return nil
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return noValue(*missing, s.o.Barrier.String(), s.errorOf(sourceOf(s.o.Sources, missing.Name)))
		}
	}
}

func (s *Sampler) have() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]bool, len(s.names))
	for i, n := range s.names {
		if s.seen[i] {
			out[n] = true
		}
	}
	return out
}

// errorOf is what a source last failed with, nil when it did not.
func (s *Sampler) errorOf(source string) error {
	for _, l := range s.lanes {
		l.mu.Lock()
		for _, src := range l.sources {
			if src.stats.Name == source && src.stats.LastError != "" {
				defer l.mu.Unlock()
				return fmt.Errorf("%s", src.stats.LastError)
			}
		}
		l.mu.Unlock()
	}
	return nil
}

// Engine makes the sampler follow the processes that pids names from now on; the set may change at any
// time, and pids is asked from the sampler, about twice a second. nil: no engine any more.
func (s *Sampler) Engine(pids func() []int) {
	for _, l := range s.lanes {
		l.follow(pids)
	}
}

func (s *Sampler) indexOf(source string) int {
	return slices.IndexFunc(s.o.Sources, func(x Source) bool { return x.Name() == source })
}

// Mark has the counters of energy read now, beside the ticks: at the edge of a step a value between two ticks
// would be a guess. It only asks, and does not wait: it may be called where time is measured.
func (s *Sampler) Mark() {
	for _, l := range s.lanes {
		if l.edge == nil {
			continue
		}
		select {
		case l.edge <- struct{}{}:
		default: // one is asked for already
		}
	}
}

// Samples is a copy of all values so far, in time.
func (s *Sampler) Samples() []record.Sample {
	s.mu.Lock()
	names := s.names // append-only: the prefix seen here stays
	s.mu.Unlock()
	var out []record.Sample
	for _, l := range s.lanes {
		l.mu.Lock()
		for _, c := range l.chunks {
			out = slices.Grow(out, c.n)
			for i := range c.n {
				if int(c.id[i]) >= len(names) { // named since: take the longer list
					s.mu.Lock()
					names = s.names
					s.mu.Unlock()
				}
				out = append(out, record.Sample{Sensor: names[c.id[i]], MonoNS: c.ns[i], Value: c.value[i]})
			}
		}
		l.mu.Unlock()
	}
	if len(s.lanes) > 1 {
		slices.SortStableFunc(out, func(a, b record.Sample) int { return cmp.Compare(a.MonoNS, b.MonoNS) })
	}
	return out
}

// Stop ends the sampling and says what it took. It may be called more than once, but not from OnSample. It
// does not close the sources of SamplerOptions.
func (s *Sampler) Stop() Stats {
	s.stop.Do(func() {
		s.cancel()
		timeout := time.NewTimer(s.o.patience)
		defer timeout.Stop()
		known, cpu := true, int64(0)
		for i, l := range s.lanes {
			hung := false
			select {
			case <-l.done:
			case <-timeout.C:
				hung = true
				timeout.Reset(0) // the lanes after it have had their time as well
			}
			l.mu.Lock()
			l.ended = true
			cpu += l.cpuNS
			known = known && !l.noCPU
			s.stats.Late += l.late
			s.stats.Dropped += l.dropped
			if i == len(s.lanes)-1 {
				s.stats.Ticks = l.ticks
			}
			for _, src := range l.sources {
				if hung && src.stats.reading {
					src.stats.Errors++
					src.stats.LastError = "a reading did not return"
				}
				s.stats.Sources = append(s.stats.Sources, src.stats)
			}
			l.mu.Unlock()
		}
		s.Engine(nil)
		if known {
			seconds := float64(cpu) / 1e9
			s.stats.CPUS = &seconds
		}
	})
	return s.stats
}

// id is the place of a sensor's name, which has a value now.
func (s *Sampler) id(sensor string) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.ids[sensor]
	if !ok {
		id = uint32(len(s.names))
		s.ids[sensor] = id
		s.names = append(s.names, sensor)
		s.seen = append(s.seen, false)
	}
	s.seen[id] = true
	return id
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
