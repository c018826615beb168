package measure

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
)

// Traps of token counts: caches that are not told, texts that do not lead back, and counters that disagree.

func TestT12PromptCache(t *testing.T) {
	long := strings.Repeat("south of the harbour the light is grey and ", 20)
	url := simURL(t)
	a := armOn(t, url, setup{prompt: long, work: plan.Workload{Repeat: 2, Warmup: 1}})
	warns(t, a, "prompt cache", "came from a cache")
	b := armOn(t, simURL(t), setup{prompt: long, work: plan.Workload{Repeat: 2, Warmup: 1, Nonce: true}})
	silent(t, b, "prompt cache")
}

func TestT13CachedUnknownIsNotNone(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("a"), time.Millisecond, says("b"), finish, usageOf(50, 2, ""), end)
	}), setup{})
	warns(t, a, "prompt cache", "unknown, not none")
	for _, name := range []string{"cached_tokens", "cached_pct"} {
		if m := value(t, a, name); m.Value != nil || m.Why == "" {
			t.Errorf("%s: got %+v, want none with its reason", name, m)
		}
	}
}

// A server that reports more tokens than its text holds is found by the recount; one whose text can be cut
// into fewer tokens than it made is not accused when its own timings agree with its usage.
func TestT15RecountOfText(t *testing.T) {
	api := &plan.API{Kind: plan.APIChat, Tokenize: "/tokenize"}
	lying := armOn(t, simURL(t, "--wrong-usage", "30", "--no-timings", "--decode-tok-s", "400"), setup{api: api, tokens: 60})
	m := value(t, lying, "decode_tok_s")
	if m.Value != nil || m.Withheld == nil || !strings.Contains(m.Why, "tokenize 60") {
		t.Errorf("decode_tok_s: got %+v, want it withheld by the recount", m)
	}
	merging := armOn(t, handled(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tokenize" {
			_, _ = io.WriteString(w, `{"tokens":[1,2]}`) // the text cut again: "ab" and "cd"
			return
		}
		sseOf(w, says("a"), time.Millisecond, says("b"), time.Millisecond, says("c"), time.Millisecond, says("d"), finish,
			`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":4},"timings":{"prompt_n":5,"prompt_ms":1.0,"predicted_n":4,"predicted_ms":3.0}}`, end)
	}), setup{api: api})
	if m := value(t, merging, "decode_tok_s"); m.Value == nil {
		t.Errorf("decode_tok_s is not measured: %s", m.Why)
	}
	warns(t, merging, "recount", "does not lead back to its tokens")
}

// strataAPI is as @flow//engines/strata.star has it.
func strataAPI() *plan.API {
	return &plan.API{Kind: plan.APIChat, Metrics: "/metrics?requests=all", Counts: []plan.CountFrom{
		{What: "completion", Log: `^strata serve: prompt \d+ tokens = .*, (\d+) generated in`},
		{What: "cached", Log: `^strata serve: prompt \d+ tokens = (\d+) reused`},
		{What: "accepted", Log: `^strata serve: prompt .* drafts accepted (\d+) of \d+`},
		{What: "completion", Series: "requests.*.output_tokens"},
	}}
}

// Counts of every source of a Strata-like server: usage, timings, log lines, and a metrics endpoint that
// lags the stream. A usage that lies is found by the others, and the rates are withheld.
func TestCountsOfEverySource(t *testing.T) {
	e := simEngine("--as", "strata")
	e.API = strataAPI()
	a := armOn(t, "", setup{engine: e, tokens: 60, work: plan.Workload{Repeat: 2, Warmup: 1, Nonce: true}})
	for _, r := range a.Requests {
		sources := map[string]int{}
		for _, c := range r.Counts {
			if c.What == "completion" && c.Source != "frames" {
				sources[c.Source] = c.N
			}
		}
		for _, s := range []string{"usage", "timings", "log", "metrics"} {
			if sources[s] != 60 {
				t.Errorf("request %d: %s counts %d tokens, want 60: %v", r.Index, s, sources[s], sources)
			}
		}
		if r.DraftTokens == nil || *r.DraftTokens != 30 || r.DraftAccepted == nil || *r.DraftAccepted != 20 {
			t.Errorf("request %d: drafts %v, accepted %v", r.Index, r.DraftTokens, r.DraftAccepted)
		}
	}
	if v := number(t, a, "draft_accept_pct"); v < 66 || v > 67 {
		t.Errorf("draft_accept_pct: got %v", v)
	}
	if v := number(t, a, "decode_tok_s"); v <= 0 {
		t.Errorf("decode_tok_s: got %v", v)
	}
	lies := simEngine("--as", "strata", "--wrong-usage", "20")
	lies.API = strataAPI()
	b := armOn(t, "", setup{engine: lies, tokens: 60})
	m := value(t, b, "decode_tok_s")
	if m.Value != nil || m.Withheld == nil || !strings.Contains(m.Why, "log 60") || !strings.Contains(m.Why, "metrics 60") {
		t.Errorf("decode_tok_s: got %+v, want it withheld by log and metrics", m)
	}
}

// Ollama's own API, end to end.
func TestOllamaEndToEnd(t *testing.T) {
	e := simEngine()
	e.API = &plan.API{Kind: plan.APIOllama, Model: "sim"}
	a := armOn(t, "", setup{engine: e, tokens: 100, work: plan.Workload{Repeat: 2, Nonce: true}})
	if v := number(t, a, "decode_tok_s"); v < 200 || v > 2200 {
		t.Errorf("decode_tok_s: got %v, the engine's is 2000", v)
	}
	client, printed := number(t, a, "server_decode_tok_s"), number(t, a, "ollama_eval_tok_s")
	if r := printed / client; r < .995 || r > 1.02 { // 100 tokens over an interval of 99 steps
		t.Errorf("Ollama prints %v, on the client's convention it is %v", printed, client)
	}
	for _, r := range a.Requests {
		if r.Status != "ok" || r.CompletionTokens == nil || *r.CompletionTokens != 100 {
			t.Errorf("request %d: %s %s, tokens %v", r.Index, r.Status, r.Error, r.CompletionTokens)
		}
	}
}

func TestSeriesWithLabels(t *testing.T) {
	m := map[string]float64{"a": 1, `b{engine="0"}`: 2, `b{engine="1"}`: 3, "bc": 9}
	for name, want := range map[string]float64{"a": 1, "b": 5} {
		if got, ok := ofSeries(m, name); !ok || got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if _, ok := ofSeries(m, "d"); ok {
		t.Error("a series that is not there was found")
	}
}
