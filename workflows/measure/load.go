package measure

// How an arm's requests are laid out in time, and what warms the engine before them.

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"crypto/sha256"

	"flow/builtins/client"
	"flow/builtins/machine"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// runIn is how long before the first request of an open loop is due: time to get there.
const runIn = 20 * time.Millisecond

// probes is how many small round trips are measured before the requests.
const probes = 5

// schedule gives n due times as offsets from the beginning. Random ones are a function of the group's seed:
// the same in every arm.
func schedule(a plan.Arrival, n int, seed uint64) []time.Duration {
	out := make([]time.Duration, n)
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	switch a.Kind {
	case plan.ArrivalConstant:
		for i := range out {
			out[i] = seconds(float64(i) / a.Rate)
		}
	case plan.ArrivalPoisson:
		h := sha256.Sum256(fmt.Appendf(nil, "arrival/%d", seed))
		rng := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(h[:]), binary.LittleEndian.Uint64(h[8:])))
		at := 0.0
		for i := range out {
			out[i] = seconds(at)
			at += rng.ExpFloat64() / a.Rate
		}
	case plan.ArrivalBurst:
		for i := range out {
			out[i] = time.Duration(i/a.Size) * a.Every
		}
	case plan.ArrivalTrace:
		// A trace shorter than the requests is played again, a mean gap after its end.
		span := 0.0
		if k := len(a.Times); k > 1 {
			span = (a.Times[k-1] - a.Times[0]) * float64(k) / float64(k-1)
		}
		for i := range out {
			k := len(a.Times)
			out[i] = seconds(a.Times[i%k] + float64(i/k)*span)
		}
	}
	return out
}

// arrivalWords is the load in words.
func arrivalWords(w plan.Workload) string {
	a := w.Arrival
	if a == nil {
		s := fmt.Sprintf("closed loop of %d", max(w.Concurrency, 1))
		if w.Think > 0 {
			s += fmt.Sprintf(", %s between an answer and the next request", w.Think)
		}
		return s
	}
	switch a.Kind {
	case plan.ArrivalBurst:
		return fmt.Sprintf("open loop, bursts of %d every %s", a.Size, a.Every)
	case plan.ArrivalTrace:
		return fmt.Sprintf("open loop, a trace of %d times", len(a.Times))
	}
	return fmt.Sprintf("open loop, %s %g/s", a.Kind, a.Rate)
}

// send makes the requests. Of measured ones the load is kept.
func (p *process) send(ctx context.Context, w plan.Workload, ps []client.Prompt, mark string) ([]record.Request, error) {
	if mark == record.MarkWarm {
		if w.Stable != nil {
			return p.warmUntilStable(ctx, *w.Stable, ps), nil
		}
		return p.client.Run(ctx, ps, w.Concurrency), nil
	}
	offset := p.r.m.wallOffset()
	path := ""
	if p.e.Ready.Kind == plan.ReadyHTTP {
		path = p.e.Ready.Path
	}
	rtts := p.client.Probe(ctx, path, probes)
	if w.ClientCPUs != "" {
		cpus, err := parseCPUs(w.ClientCPUs)
		if err != nil {
			return nil, err
		}
		undo, err := client.Pin(cpus)
		if err != nil {
			return nil, &diag.Error{Kind: diag.Machine, Op: "workload", Msg: "client_cpus = " + strconv.Quote(w.ClientCPUs), Err: err, Fix: "name CPUs that flow may run on: see `flow doctor`"}
		}
		defer undo()
	}
	if w.Arrival != nil {
		begin := machine.Monotonic() + int64(runIn)
		for i, d := range schedule(*w.Arrival, len(ps), p.r.t.GroupSeed) {
			at := begin + int64(d)
			ps[i].ScheduledNS = &at
		}
	}
	series := runningSeries(p.e)
	o := client.LoadOptions{Concurrency: w.Concurrency, Think: w.Think, Arrival: arrivalWords(w)}
	if series != "" && (w.Concurrency > 1 || w.Arrival != nil) {
		o.Running = func(ctx context.Context) (float64, bool) {
			m, err := p.client.Metrics(ctx)
			n, ok := ofSeries(m, series)
			return n, err == nil && ok
		}
	}
	rows, load := p.client.Load(ctx, ps, o)
	load.ProbeUS, load.ClientCPUs = rtts, w.ClientCPUs
	if step := p.r.m.wallOffset() - offset; step > int64(time.Millisecond) || step < -int64(time.Millisecond) {
		load.ClockStepNS = step
	}
	if load.ServerMax != nil {
		load.ServerSeries = series
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	warm := 0
	for _, q := range p.requests {
		if q.Mark == record.MarkWarm {
			warm++
		}
	}
	load.WarmRequests, load.StableWarm = warm, p.stable
	if p.load == nil || p.load.WindowNS < load.WindowNS { // of several measured steps the longest speaks
		p.load = load
	}
	state := fmt.Sprintf("after %d warm requests", warm)
	if p.stable != nil && !*p.stable {
		state += ", not stable"
	}
	for i := range rows {
		rows[i].WarmState = state
	}
	return rows, nil
}

// warmUntilStable sends the warm requests of each case one by one, until the last ones took the same time.
func (p *process) warmUntilStable(ctx context.Context, s plan.Stable, ps []client.Prompt) []record.Request {
	var out []record.Request
	all := true
	for from := 0; from < len(ps); {
		to := from
		for to < len(ps) && ps[to].Case == ps[from].Case {
			to++
		}
		var took []float64
		settled := false
		for i := from; i < to && !settled && ctx.Err() == nil; i++ {
			r := p.client.Do(ctx, ps[i])
			out = append(out, r)
			if r.Status != "ok" || r.StartNS == nil || r.LastContentNS == nil {
				took = nil
				continue
			}
			took = append(took, float64(*r.LastContentNS-*r.StartNS))
			settled = isStable(took, s)
		}
		all = all && settled
		from = to
	}
	p.mu.Lock()
	p.stable = &all
	p.mu.Unlock()
	return out
}

// isStable: the last ones differ by less than asked.
func isStable(took []float64, s plan.Stable) bool {
	if len(took) < s.Window {
		return false
	}
	least, most := math.Inf(1), 0.0
	for _, t := range took[len(took)-s.Window:] {
		least, most = min(least, t), max(most, t)
	}
	return least > 0 && most/least-1 <= s.Within
}

// wallOffset is wall minus monotonic time, the tightest of a few readings.
func (m *Real) wallOffset() int64 {
	var offset, width int64 = 0, math.MaxInt64
	for range 5 {
		a := machine.Monotonic()
		wall := m.o.Wall()
		b := machine.Monotonic()
		if b-a < width {
			width, offset = b-a, wall-(a+(b-a)/2)
		}
	}
	return offset
}

// parseCPUs reads "0", "0-1,4".
func parseCPUs(s string) ([]int, error) {
	bad := &diag.Error{Kind: diag.Workflow, Op: "workload", Msg: fmt.Sprintf("client_cpus: got %q, want CPUs such as \"0-1,4\"", s), Fix: `client_cpus = "0"`}
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		a, b, ok := strings.Cut(strings.TrimSpace(part), "-")
		if !ok {
			b = a
		}
		from, err1 := strconv.Atoi(a)
		to, err2 := strconv.Atoi(b)
		if err1 != nil || err2 != nil || from < 0 || to < from || to > 1023 {
			return nil, bad
		}
		for n := from; n <= to; n++ {
			out = append(out, n)
		}
	}
	return out, nil
}

// randomWords is made-up text: the same for a seed on every machine.
func randomWords(n int, seed int64) string {
	rng := rand.New(rand.NewPCG(uint64(seed), 0x9e3779b97f4a7c15))
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		for range 3 + rng.IntN(6) {
			b.WriteByte(letters[rng.IntN(len(letters))])
		}
	}
	return b.String()
}

// head is the beginning of a text: at most n bytes, whole words and whole characters.
func head(text string, n int) string {
	if n <= 0 || len(text) <= n {
		return text
	}
	cut := text[:n]
	if i := strings.LastIndexAny(cut, " \n\t"); i > n/2 {
		return cut[:i]
	}
	return strings.ToValidUTF8(cut, "")
}
