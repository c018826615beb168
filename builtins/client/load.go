package client

// Load: how requests are sent, and how the client itself did meanwhile. A client that is late, busy or
// short of requests in flight measures itself; that must show in the record.

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"flow/workflows/record"
)

// LoadOptions is how a list of requests is sent. Prompts with a ScheduledNS are sent at that time, whatever
// is in flight: an open loop. Without one they are a closed loop.
type LoadOptions struct {
	Concurrency int           // closed loop: requests at once; 1 when zero
	Think       time.Duration // closed loop: pause of a place between an answer and its next request
	Arrival     string        // in words, for the record
	Running     func(context.Context) (float64, bool)
	// Running asks the server how many requests it runs; nil asks nothing.
}

// span is when a request was in flight.
type span struct{ from, to int64 }

// runningEvery is how often a server is asked what it runs: rarely, because the question costs it time.
const runningEvery = 200 * time.Millisecond

// Load makes the requests and says how the client did. The rows are in the order of ps.
func (c *Client) Load(ctx context.Context, ps []Prompt, o LoadOptions) ([]record.Request, *record.Load) {
	rows, spans := make([]record.Request, len(ps)), make([]span, len(ps))
	one := func(i int) {
		spans[i].from = c.o.Now()
		rows[i] = c.Do(ctx, ps[i])
		spans[i].to = c.o.Now()
	}
	open := slices.ContainsFunc(ps, func(p Prompt) bool { return p.ScheduledNS != nil })
	asked := min(max(o.Concurrency, 1), len(ps))
	if open {
		asked = 0
	}
	m := c.watch(o.Running)
	if open {
		c.openLoop(ctx, ps, one)
	} else {
		closedLoop(ctx, len(ps), asked, o.Think, one)
	}
	l := m.end()
	l.Arrival, l.Asked = o.Arrival, asked
	flight(l, spans)
	return rows, l
}

// closedLoop sends the next request when a place is free.
func closedLoop(ctx context.Context, n, places int, think time.Duration, one func(i int)) {
	next := make(chan int)
	var done sync.WaitGroup
	for range places {
		done.Go(func() {
			for i := range next {
				one(i)
				if think > 0 {
					pause(ctx, think)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	done.Wait()
}

// openLoop sends each request when it is due. One that is late is sent at once and keeps its schedule, so
// that its wait shows; nothing is left out to catch up.
func (c *Client) openLoop(ctx context.Context, ps []Prompt, one func(i int)) {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	due := func(i int) int64 {
		if at := ps[i].ScheduledNS; at != nil {
			return *at
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(due(a), due(b)) })
	var done sync.WaitGroup
	for _, i := range order {
		if wait := time.Duration(due(i) - c.o.Now()); wait > 0 {
			pause(ctx, wait)
		}
		done.Go(func() { one(i) })
	}
	done.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// flight fills in what was in flight, from the spans.
func flight(l *record.Load, spans []span) {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	var busy int64
	for _, s := range spans {
		if s.to > s.from {
			edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
			busy += s.to - s.from
		}
	}
	if len(edges) == 0 {
		return
	}
	// At one instant an end comes first: a place that is filled anew was not two.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	level, last := 0, edges[0].at
	for _, e := range edges {
		if level >= max(l.Asked, 1) {
			l.SteadyNS += e.at - last
		}
		level += e.step
		last = e.at
		l.InFlightMax = max(l.InFlightMax, level)
	}
	l.WindowNS = last - edges[0].at
	if l.Asked == 0 {
		l.SteadyNS = l.WindowNS
	}
	if l.WindowNS > 0 {
		l.InFlightMean = float64(busy) / float64(l.WindowNS)
	}
}

// meter watches the process while requests run.
type meter struct {
	stop    chan struct{}
	done    sync.WaitGroup
	lags    []int64
	cpu     time.Duration
	cpuOK   bool
	running *float64
}

// lagEvery is how often the meter sleeps to see how late it wakes.
const lagEvery = 10 * time.Millisecond

func (c *Client) watch(running func(context.Context) (float64, bool)) *meter {
	m := &meter{stop: make(chan struct{})}
	m.cpu, m.cpuOK = processorTimeNow()
	m.done.Go(func() {
		t := time.NewTimer(lagEvery)
		defer t.Stop()
		for {
			due := c.o.Now() + int64(lagEvery)
			select {
			case <-m.stop:
				return
			case <-t.C:
				m.lags = append(m.lags, max(c.o.Now()-due, 0))
				t.Reset(lagEvery)
			}
		}
	})
	if running != nil {
		m.done.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			t := time.NewTicker(runningEvery)
			defer t.Stop()
			for {
				select {
				case <-m.stop:
					return
				case <-t.C:
				}
				if n, ok := running(ctx); ok && (m.running == nil || n > *m.running) {
					m.running = &n
				}
			}
		})
	}
	return m
}

// end stops watching.
func (m *meter) end() *record.Load {
	close(m.stop)
	m.done.Wait()
	l := &record.Load{ServerMax: m.running}
	if now, ok := processorTimeNow(); ok && m.cpuOK {
		s := (now - m.cpu).Seconds()
		l.CPUSeconds = &s
	}
	if len(m.lags) > 0 {
		slices.Sort(m.lags)
		at := func(p float64) *float64 {
			us := float64(m.lags[int(math.Round(p*float64(len(m.lags)-1)))]) / 1e3
			return &us
		}
		l.LagP50US, l.LagP99US, l.LagMaxUS = at(.5), at(.99), at(1)
	}
	return l
}

// Probe is n round trips of the smallest request there is, in microseconds: a GET of path on a connection
// of its own, or a connection alone where path is "". It is never subtracted from anything.
func (c *Client) Probe(ctx context.Context, path string, n int) []int64 {
	base, err := c.o.base()
	if err != nil {
		return nil
	}
	var out []int64
	for range n {
		began := c.o.Now()
		if path != "" {
			if _, err := c.small(ctx, http.MethodGet, path, nil); err != nil {
				return out
			}
		} else {
			d := net.Dialer{Timeout: time.Second}
			conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(base.Hostname(), cmp.Or(base.Port(), map[string]string{"http": "80", "https": "443"}[base.Scheme])))
			if err != nil {
				return out
			}
			_ = conn.Close()
		}
		out = append(out, (c.o.Now()-began)/1000)
	}
	return out
}
