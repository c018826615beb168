package simengine

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// engine is the model of speed and the state that requests share.
type engine struct {
	o     *options
	clock clock
	log   *logger
	start int64
	noise struct{ decode, prefill float64 } // factors of this launch
	slots chan struct{}                     // nil: no limit
	die   func(code int)
	truth *truthFile // nil: none

	mu       sync.Mutex
	requests int
	recent   [][]uint64 // prompts, newest last
	totals   totals
	memory   [][]byte
	served   []served // with a face that lists requests
	running  atomic.Int64
	burnt    atomic.Uint64 // results of --work cpu, so that the work is not optimised away
}

type totals struct{ requests, tokens, promptTokens, cachedTokens int }

func newEngine(o *options, c clock, log io.Writer, die func(int)) (*engine, error) {
	e := &engine{o: o, clock: c, log: &logger{w: log}, start: c.now(), die: die}
	rng := rand.New(rand.NewPCG(uint64(o.seed), hash(o.nonce)))
	e.noise.decode = math.Exp(o.noise * rng.NormFloat64())
	e.noise.prefill = math.Exp(o.noise * rng.NormFloat64())
	if o.slots > 0 {
		e.slots = make(chan struct{}, o.slots)
	}
	if _, waits := c.(realClock); waits && o.work == "" {
		prefer()
	}
	if o.truth != "" {
		f, err := os.Create(o.truth)
		if err != nil {
			return nil, fmt.Errorf("--truth: %w", err)
		}
		e.truth = &truthFile{f: f, w: bufio.NewWriter(f)}
	}
	return e, nil
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// announce writes the evidence: one line per lever that is in effect. A dead lever says nothing.
func (e *engine) announce() {
	for _, name := range e.o.on {
		if l := e.o.levers[name]; !l.dead {
			e.log.printf("sim: lever %s active effect=%+.1f%%", name, 100*(l.decode-1))
		}
	}
}

// load is what happens between the start and ready. ok is false when the engine ends instead.
func (e *engine) load(ctx context.Context) (code int, ok bool) {
	o := e.o
	if o.leaveChild {
		if pid, err := leaveChild(); err != nil {
			e.log.printf("sim: leave child: %v", err)
		} else {
			e.log.printf("sim: left child pid %s", pid)
		}
	}
	if o.takeMemory > 0 {
		e.take(o.takeMemory)
	}
	if o.slowStart > 0 && !e.clock.until(ctx, e.clock.now()+int64(o.slowStart), false) {
		return exitOK, false
	}
	if o.exitBefore >= 0 {
		e.log.printf("sim: error: failed to load model (--exit-before-ready)")
		return o.exitBefore, false
	}
	e.announce()
	return exitOK, true
}

// take touches every page, so that the memory is the process's own.
func (e *engine) take(mib int) {
	e.log.printf("sim: taking %d MiB", mib)
	for range mib {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		e.memory = append(e.memory, block)
	}
}

// leaveChild starts a process that outlives this one, in a session of its own and not as its child.
func leaveChild() (pid string, err error) {
	cmd, err := detached(command, "sleep", "detach", "600")
	if err != nil {
		return "", err
	}
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// active is the levers in effect for a request: those of the process and those that its body adds.
func (e *engine) active(more []string) []string {
	var out []string
	for _, name := range slices.Concat(e.o.on, more) {
		if l, ok := e.o.levers[name]; ok && !l.dead && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// rates are the true rates of request number n (from 0) in tokens per second.
func (e *engine) rates(n int, active []string) (decode, prefill float64) {
	decode, prefill = e.o.decode*e.noise.decode, e.o.prefill*e.noise.prefill
	for _, name := range active {
		l := e.o.levers[name]
		decode *= l.decode
		prefill *= l.prefill
	}
	switch e.o.drift.unit {
	case "request":
		decode *= math.Pow(1+e.o.drift.per, float64(n))
	case "s":
		decode *= math.Pow(1+e.o.drift.per, time.Duration(e.clock.now()-e.start).Seconds())
	}
	if n == 0 {
		decode *= 1 - e.o.warmPenalty
		prefill *= 1 - e.o.warmPenalty
	}
	return decode, prefill
}

// flavour names the text levers that are on; "" is the plain text.
func (e *engine) flavour(active []string) string {
	var out []string
	for _, name := range active {
		if e.o.levers[name].text {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// cached is how many tokens of the prompt an earlier one shares, from the front; as in llama.cpp the
// last token is always read anew. The prompt is remembered.
func (e *engine) cached(prompt []uint64, use bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.o.noPromptCache {
		return 0
	}
	best := 0
	for _, old := range e.recent {
		n := 0
		for n < len(old) && n < len(prompt) && old[n] == prompt[n] {
			n++
		}
		best = max(best, n)
	}
	const keep = 16
	e.recent = append(e.recent, prompt)
	if len(e.recent) > keep {
		e.recent = slices.Delete(e.recent, 0, 1)
	}
	if !use {
		return 0
	}
	return max(0, min(best, len(prompt)-1))
}

// begin counts a request and gives its number, from 0.
func (e *engine) begin() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests++
	return e.requests - 1
}

func (e *engine) count(t totals) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.totals.requests += t.requests
	e.totals.tokens += t.tokens
	e.totals.promptTokens += t.promptTokens
	e.totals.cachedTokens += t.cachedTokens
}

// metrics is the Prometheus text.
func (e *engine) metrics() string {
	e.mu.Lock()
	t := e.totals
	e.mu.Unlock()
	var b strings.Builder
	for _, m := range []struct {
		name, help string
		n          int
	}{
		{"sim_requests_total", "Requests that were answered.", t.requests},
		{"sim_tokens_total", "Tokens generated.", t.tokens},
		{"sim_prompt_tokens_total", "Prompt tokens, cached ones included.", t.promptTokens},
		{"sim_cached_tokens_total", "Prompt tokens that came from the cache.", t.cachedTokens},
	} {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s counter\n%s %d\n", m.name, m.help, m.name, m.name, m.n)
	}
	fmt.Fprintf(&b, "# HELP sim_requests_running Requests that are being answered now.\n# TYPE sim_requests_running gauge\nsim_requests_running %d\n", e.running.Load())
	b.WriteString("# HELP lever_active Whether a declared lever is in effect.\n# TYPE lever_active gauge\n")
	active := e.active(nil)
	for _, name := range slices.Sorted(maps.Keys(e.o.levers)) {
		on := 0
		if slices.Contains(active, name) {
			on = 1
		}
		fmt.Fprintf(&b, "lever_active{name=%q} %d\n", name, on)
	}
	return b.String()
}

// burn is one token's work with --work cpu: a fixed number of steps at a rate, so that a lever changes
// the amount of work and the machine decides how long it takes.
func (e *engine) burn(rate float64) {
	const stepsPerSecond = 4e8 // of one core, roughly
	x := uint64(88172645463325252)
	for range int(stepsPerSecond / rate) {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	e.burnt.Add(x)
}

// logger writes whole lines from any goroutine.
type logger struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *logger) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format+"\n", args...)
}

// flood writes 64 KiB of lines.
func (l *logger) flood() {
	const line = "sim: flood 0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefgh\n"
	text := strings.Repeat(line, (64<<10)/len(line))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, text)
}

// truthFile is the time of every write, for judging a client's stamps.
type truthFile struct {
	mu sync.Mutex
	f  *os.File
	w  *bufio.Writer
}

// add keeps the times of one request, named by its number and the first line of its prompt: before and
// after the write of each frame.
func (t *truthFile) add(request int, prompt string, writes []write) {
	line, _, _ := strings.Cut(prompt, "\n")
	name, _ := json.Marshal(line[:min(len(line), 64)]) // a string cannot fail
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range writes {
		fmt.Fprintf(t.w, `{"request":%d,"prompt":%s,"frame":%d,"before_ns":%d,"after_ns":%d,"tokens":%d}`+"\n", request, name, i, w.before, w.after, w.tokens)
	}
	_ = t.w.Flush()
}

func (t *truthFile) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.w.Flush()
	_ = t.f.Close()
}

// write is one frame as it left; tokens is 0 for frames without any.
type write struct {
	before, after int64
	tokens        int
}
