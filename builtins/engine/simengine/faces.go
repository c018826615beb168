package simengine

// Faces: what the engine says beside its answers in the manner of another engine, so that what reads logs
// and metrics can be tried against a process.
//
// strata: a log line a request, a metrics endpoint in JSON that lists the newest requests and lags the
// stream, drafts in the timings, request tuning under strata_tune. Ollama's API is always there.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// strataLag is how long after an answer its row appears.
const strataLag = 120 * time.Millisecond

// served is one request as the strata face remembers it.
type served struct {
	at                             int64
	prompt, cached, out            int
	promptMS, decodeMS             float64
	drafts, accepted, hits, lookup int
	finish                         string
}

// drafted is a made-up but steady account of speculation: a third of the tokens was accepted.
func (g *generation) drafted() (offered, accepted int) { return g.out / 2, g.out / 3 }

// face says in the log what the engine's model would say, and remembers it.
func (e *engine) face(g *generation) {
	if e.o.as != "strata" {
		return
	}
	drafts, accepted := g.drafted()
	r := served{at: e.clock.now(), prompt: g.prompt, cached: g.cached, out: g.out, promptMS: ms(g.promptNS), decodeMS: ms(g.decodeNS),
		drafts: drafts, accepted: accepted, lookup: 512 * g.out, hits: 384 * g.out, finish: g.finish}
	per := func(n int, ms float64) float64 { return float64(n) / max(ms, 1e-3) * 1e3 }
	e.log.printf("strata serve: prompt %d tokens = %d reused + %d read in %.0f ms (%.1f tok/s), %d generated in %.0f ms (%.1f tok/s), drafts accepted %d of %d, 1 checkpoints",
		r.prompt, r.cached, r.prompt-r.cached, r.promptMS, per(r.prompt-r.cached, r.promptMS), r.out, r.decodeMS, per(r.out, r.decodeMS), accepted, drafts)
	e.log.printf("strata serve: decode expert cache hit rate: %.1f%% (%d hits / %d lookups)", 75.0, r.hits, r.lookup)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.served = append(e.served, r)
}

// strataMetrics is the JSON that Strata serves: newest requests first.
func (e *engine) strataMetrics() any {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.now()
	rows := []any{}
	total := 0
	for i := len(e.served) - 1; i >= 0; i-- {
		r := e.served[i]
		if now-r.at < int64(strataLag) {
			continue
		}
		total += r.out
		rows = append(rows, map[string]any{"time": float64(r.at) / 1e9, "finish": r.finish, "prompt_tokens": r.prompt, "reused": r.cached, "output_tokens": r.out, "engine_generated": r.out,
			"prompt_ms": r.promptMS, "decode_ms": r.decodeMS, "hit_rate": .75, "projection": nil})
	}
	return map[string]any{
		"engine": map[string]any{"model": "sim", "version": "0.1.38", "max_context": e.o.ctx}, "live": map[string]any{"state": "idle", "queued": 0, "tok_s": nil},
		"requests": rows, "totals": map[string]any{"requests": len(rows), "output_tokens": total}, "hardware": map[string]any{},
	}
}

// ollamaLine is a line of Ollama's own stream.
func (g *generation) ollamaLine(d delta) []byte {
	b := []byte(`{"model":"sim","created_at":"2026-01-01T00:00:00Z","response":`)
	b = quote(b, d.content+d.reasoning)
	return append(b, `,"done":false}`...)
}

// ollamaEnd is its last line: counts, and times in nanoseconds.
func (g *generation) ollamaEnd() []byte {
	return fmt.Appendf(nil, `{"model":"sim","created_at":"2026-01-01T00:00:00Z","response":"","done":true,"done_reason":%q,"context":[1,2,3],"total_duration":%d,"load_duration":1,`+
		`"prompt_eval_count":%d,"prompt_eval_duration":%d,"eval_count":%d,"eval_duration":%d}`,
		g.finish, g.promptNS+g.decodeNS, g.prompt, max(g.promptNS, 1), g.out+g.o.wrongUsage, max(g.decodeNS, 1))
}

// ollamaOptions are what Ollama's requests have in a place of their own.
func ollamaOptions(a *ask, raw json.RawMessage) error {
	var o struct {
		Temperature float64 `json:"temperature"`
		Seed        int64   `json:"seed"`
		NumPredict  *int    `json:"num_predict"`
	}
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	a.temperature, a.seed = o.Temperature, o.Seed
	if o.NumPredict != nil && *o.NumPredict > 0 {
		a.max = *o.NumPredict
	}
	return nil
}

func (s *server) metricsPage(w http.ResponseWriter, _ *http.Request) {
	if s.o.as == "strata" {
		respond(w, 200, s.strataMetrics())
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = fmt.Fprint(w, s.metrics())
}
