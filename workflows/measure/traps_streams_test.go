package measure

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Traps of streams: what a frame is, what shares a read, where a stream begins and ends.

func TestT01FramesAreNotTokens(t *testing.T) {
	a := armOn(t, simURL(t, "--tokens-per-frame", "4", "--decode-tok-s", "200"), setup{tokens: 120})
	warns(t, a, "frames are not tokens", "0.25 frames a token")
	for _, name := range []string{"itl_p50_ms", "itl_p95_ms"} {
		if m := value(t, a, name); m.Value != nil || m.Why == "" {
			t.Errorf("%s stands: %+v", name, m)
		}
	}
	if v := number(t, a, "icl_p50_ms"); v < 15 {
		t.Errorf("icl_p50_ms is %v, frames come every 20 ms", v)
	}
}

func TestT02EmptyFirstFrame(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, `{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`, 40*time.Millisecond, says("a"), 2*time.Millisecond, says("b"), finish, usageOf(5, 2, ""), end)
	}), setup{})
	warns(t, a, "empty first frame", "came")
	if gap := number(t, a, "ttft_ms") - number(t, a, "vllm_ttft_ms"); gap < 30 {
		t.Errorf("ttft_ms is %v ms after vLLM's, want 40", gap)
	}
}

func TestT03ReasoningCounts(t *testing.T) {
	for name, field := range map[string]string{"reasoning_content": "reasoning_content", "reasoning": "reasoning"} {
		t.Run(name, func(t *testing.T) {
			a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
				sseOf(w, `{"choices":[{"index":0,"delta":{"`+field+`":"hm"}}]}`, 30*time.Millisecond, says("a"), time.Millisecond, says("b"), finish, usageOf(5, 3, ""), end)
			}), setup{})
			warns(t, a, "reasoning", "ttft_content_ms does not")
			if d := number(t, a, "ttft_content_ms") - number(t, a, "ttft_ms"); d < 20 {
				t.Errorf("content came %v ms after the first token, want 30", d)
			}
		})
	}
}

func TestT04FirstFrameOfSeveralTokens(t *testing.T) {
	frame := func(text string, n int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, text, n)
	}
	known := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, frame("abcd", 4), 10*time.Millisecond, frame("e", 5), 10*time.Millisecond, frame("f", 6), finish, usageOf(5, 6, ""), end)
	}), setup{})
	warns(t, known, "first frame", "carried 4 tokens")
	q := known.Requests[0]
	if left := number(t, known, "decode_tok_s") * float64(*q.LastContentNS-*q.FirstContentNS) / 1e9; left < 1.99 || left > 2.01 {
		t.Errorf("decode_tok_s counts %v tokens after the first frame, want 2 and not 5", left)
	}
	unknown := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("abcd"), 10*time.Millisecond, says("e"), 10*time.Millisecond, says("f"), finish, usageOf(5, 6, ""), end)
	}), setup{})
	warns(t, unknown, "first frame", "is not known")
	if m := value(t, unknown, "decode_tok_s"); !strings.Contains(m.Rule, "unknown") {
		t.Errorf("the rule does not say what was assumed: %q", m.Rule)
	}
}

func TestT05FramesThatShareARead(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("a"), says("b"), says("c"), 10*time.Millisecond, says("d"), says("e"), says("f"), 10*time.Millisecond, says("g"), says("h"), says("i"), finish, usageOf(5, 9, ""), end)
	}), setup{})
	warns(t, a, "frames share reads", "%")
	if m := value(t, a, "itl_p50_ms"); m.Value != nil {
		t.Errorf("itl_p50_ms stands: %+v", m)
	}
	if r := a.Requests[0]; r.Coalesced < 6 {
		t.Errorf("got %d coalesced frames, want 6", r.Coalesced)
	}
}

func TestT06TheEndIsNotTheLastToken(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("a"), 5*time.Millisecond, says("b"), finish, usageOf(5, 2, ""), 90*time.Millisecond, end)
	}), setup{})
	warns(t, a, "long tail", "after its last token")
	if e2e, whole := number(t, a, "e2e_ms"), number(t, a, "guidellm_latency_ms"); whole-e2e < 80 {
		t.Errorf("e2e_ms %v, to the end of the stream %v", e2e, whole)
	}
}
