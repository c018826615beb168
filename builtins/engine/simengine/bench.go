package simengine

import (
	"context"
	"fmt"
	"io"
	"os"
)

// csvHeader is that of ds4-bench.
const csvHeader = "ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,gen_first_ms,gen_steady_tokens,gen_steady_tps,kvcache_bytes"

// bench is the command form: it reads a prompt, generates, and writes one row of a ds4-bench CSV. Its
// first decode step is longer than the others, as on real engines, so that the inclusive and the steady
// rate differ; the true rate is the steady one.
func bench(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	o, err := parse("bench", args, env, stderr)
	if err != nil {
		return usageCode(err, stderr)
	}
	if o.genTokens < 1 || o.promptTokens < 1 {
		return usageCode(fmt.Errorf("got %d prompt and %d generated tokens, want at least 1 of each", o.promptTokens, o.genTokens), stderr)
	}
	var c clock = realClock{newMonotonic()}
	if o.fast {
		c = &virtualClock{}
	}
	dead := make(chan int, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.ignoreTerm {
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
	}
	e, err := newEngine(o, c, stderr, func(code int) {
		if code == 0 {
			killSelf()
		}
		dead <- code
		cancel()
	})
	if err != nil {
		return usageCode(err, stderr)
	}
	if e.truth != nil {
		defer e.truth.close()
	}
	e.log.printf("sim: start pid=%d seed=%d decode_tok_s=%g prefill_tok_s=%g", os.Getpid(), o.seed, o.decode, o.prefill)
	prompt := madeUp(o.promptTokens, o.seed)
	if o.promptFile != "" {
		data, err := os.ReadFile(o.promptFile)
		if err != nil {
			return usageCode(fmt.Errorf("--prompt-file: %w", err), stderr)
		}
		prompt = string(data)
	}
	if code, ok := e.load(ctx); !ok {
		return code
	}
	if o.neverReady {
		<-ctx.Done()
		return exitRun
	}
	r, ok := e.measure(ctx, prompt)
	if !ok {
		select {
		case code := <-dead:
			return code
		default:
			e.log.printf("sim: interrupted")
			return exitRun
		}
	}
	fmt.Fprintf(stdout, "ds4-bench: gen[ctx=%d] decoded text: \"%s\"\n", r.prompt, r.text)
	fmt.Fprintf(stdout, "ds4: prefill: %.2f t/s, generation: %.2f t/s\n", r.prefill, r.inclusive)
	fmt.Fprintf(stdout, "ds4: generation counts: generated=%d requested=%d decode_seconds=%.6f prompt_tokens=%d prefill_seconds=%.6f\n",
		o.genTokens, o.genTokens, r.decodeSeconds, r.prompt, r.prefillSeconds)
	if o.csv == "" {
		return exitOK
	}
	row := fmt.Sprintf("%s\n%d,%d,%.2f,%d,%.2f,%.3f,%d,%s,%d\n", csvHeader,
		r.prompt, r.prompt, r.prefill, o.genTokens, r.inclusive, r.firstMS, o.genTokens-1, r.steady, 4096*(r.prompt+o.genTokens))
	if err := os.WriteFile(o.csv, []byte(row), 0o644); err != nil {
		e.log.printf("sim: error: --csv: %v", err)
		return exitRun
	}
	return exitOK
}

// result is one measured run.
type result struct {
	prompt                        int
	text                          string
	prefill, inclusive            float64 // tokens per second
	steady                        string  // as printed; "0.00" when there is no second step, as ds4-bench does
	firstMS                       float64
	decodeSeconds, prefillSeconds float64
}

// measure runs the one generation; false is an end before its end.
func (e *engine) measure(ctx context.Context, prompt string) (result, bool) {
	o := e.o
	active := e.active(nil)
	decode, prefill := e.rates(e.begin(), active)
	r := result{prompt: len(keys(prompt))}
	g := &generation{engine: e, ask: ask{kind: native, prompt: prompt, max: o.genTokens}}
	start := e.clock.now()
	if !e.clock.until(ctx, start+int64(float64(r.prompt)/prefill*1e9), true) {
		return r, false
	}
	read := e.clock.now()
	words := newWriter(prompt, e.flavour(active), 0, 0)
	first, step := read, int64(o.firstStep/decode*1e9)
	at := read + step // when the first token is due
	for i := range o.genTokens {
		last := i == o.genTokens-1
		switch {
		case o.work == "cpu":
			e.burn(decode)
		default:
			if !e.clock.until(ctx, at+int64(float64(i)/decode*1e9), i == 0 || last) {
				return r, false
			}
		}
		if i == 0 {
			first = e.clock.now()
			if o.work != "cpu" {
				at = first
			}
		}
		r.text += words.next()
		if o.flood {
			e.log.flood()
		}
		if !g.faults(ctx, i, i+1, &at) {
			return r, false
		}
	}
	end := e.clock.now()
	seconds := func(ns int64) float64 { return float64(ns) / 1e9 }
	r.prefillSeconds, r.decodeSeconds = seconds(read-start), seconds(end-read)
	r.prefill = float64(r.prompt) / r.prefillSeconds
	r.inclusive = float64(o.genTokens) / r.decodeSeconds
	r.firstMS = ms(first - read)
	r.steady = "0.00"
	if o.genTokens > 1 {
		r.steady = fmt.Sprintf("%.2f", float64(o.genTokens-1)/seconds(end-first))
	}
	return r, true
}
