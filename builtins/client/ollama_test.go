package client

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
)

const (
	ndjsonHead = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
	ollamaLast = `{"model":"m","created_at":"2026-08-01T10:00:00Z","response":"","done":true,"done_reason":"length","context":[1,2],` +
		`"total_duration":400000000,"load_duration":1000000,"prompt_eval_count":26,"prompt_eval_duration":130000000,"eval_count":3,"eval_duration":237000000}` + "\n"
)

func ollamaLine(text string) string {
	b, _ := json.Marshal(text)
	return `{"model":"m","created_at":"2026-08-01T10:00:00Z","response":` + string(b) + `,"done":false}` + "\n"
}

// Ollama's own API is one JSON object a line, cut anywhere; its last line has the counts and, in
// nanoseconds, the times.
func TestOllama(t *testing.T) {
	whole := ollamaLine("one") + ollamaLine("") + ollamaLine(" über") + ollamaLine(" three") + ollamaLast
	half := len(ollamaLine("one")) + 20
	for name, pieces := range map[string][]piece{
		"a line a write":  {{0, ndjsonHead}, {0, chunked(ollamaLine("one"))}, {5 * time.Millisecond, chunked(whole[len(ollamaLine("one")):])}, {0, lastOne}},
		"cut in a line":   {{0, ndjsonHead + chunked(whole[:half])}, {5 * time.Millisecond, chunked(whole[half:])}, {0, lastOne}},
		"last without LF": {{0, "HTTP/1.0 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"}, {0, strings.TrimSuffix(whole, "\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := script(t, clock(), false, pieces...)
			c := client(t, s.url(), plan.APIOllama)
			r := ask(t, c, Prompt{Text: "x", MaxTokens: 3})
			if r.Status != "ok" || r.FinishReason != "length" || r.Text != "one über three" || len(r.Warnings) > 0 {
				t.Fatalf("got %s %q, finish %q, text %q, warnings %q", r.Status, r.Error, r.FinishReason, r.Text, r.Warnings)
			}
			if r.Frames != 5 || r.ContentFrames != 3 || r.FrameTokens != nil {
				t.Errorf("got %d frames, %d with content, tokens %v", r.Frames, r.ContentFrames, r.FrameTokens)
			}
			if num(r.CompletionTokens) != 3 || num(r.PromptTokens) != 26 || num(r.CachedTokens) != "none" {
				t.Errorf("got %v, %v, %v tokens: cached ones are unknown", num(r.CompletionTokens), num(r.PromptTokens), num(r.CachedTokens))
			}
			if r.ServerDecodeMS == nil || *r.ServerDecodeMS != 237 || *r.ServerPromptMS != 130 || math.Abs(*r.ServerDecodeTokS-3/.237) > 1e-9 {
				t.Errorf("got timings %s", r.Timings)
			}
			if r.DoneNS == nil || r.UsageNS == nil || r.LastChoiceNS == nil {
				t.Error("the last line is the end and the usage")
			}
			if !strings.Contains(s.head(0), "POST /api/generate") || !strings.Contains(s.head(0), `"options":{"num_predict":3,"seed":0,"temperature":0}`) {
				t.Errorf("asked %s", s.head(0))
			}
		})
	}
}

func TestOllamaChat(t *testing.T) {
	lines := `{"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}` + "\n" + `{"message":{"role":"assistant","content":"yes"},"done":false}` + "\n" +
		`{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":3,"eval_duration":5}` + "\n"
	s := script(t, clock(), false, piece{0, ndjsonHead + chunked(lines) + lastOne})
	c := New(Options{API: plan.API{Kind: plan.APIOllama, Path: "/api/chat", Model: "m"}, BaseURL: s.url(), Now: clock()})
	defer c.Close()
	r := ask(t, c, Prompt{Text: "x", MaxTokens: 3})
	if r.Status != "ok" || r.Text != "yes" || r.FirstReasoningNS == nil || r.ReasoningSHA == "" || r.FinishReason != "stop" {
		t.Errorf("got %s %q, text %q, finish %q", r.Status, r.Error, r.Text, r.FinishReason)
	}
	if !strings.Contains(s.head(0), `"messages":[{"content":"x","role":"user"}]`) || !strings.Contains(s.head(0), `"model":"m"`) {
		t.Errorf("asked %s", s.head(0))
	}
}

func TestOllamaWrong(t *testing.T) {
	for name, tt := range map[string]struct{ answer, status, kind string }{
		"error line":  {ndjsonHead + chunked(ollamaLine("a")+`{"error":"model runner has crashed"}`+"\n") + lastOne, "error", "stream"},
		"cut":         {ndjsonHead + chunked(ollamaLine("a")), "cut", "closed"},
		"no last":     {ndjsonHead + chunked(ollamaLine("a")) + lastOne, "cut", "closed"},
		"half a line": {ndjsonHead + chunked(ollamaLine("a")+`{"response":"b`) + lastOne, "cut", "closed"},
		"not found":   {"HTTP/1.1 404 No\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n" + `{"error":"model 'm' not foun"}`, "error", "http"},
	} {
		t.Run(name, func(t *testing.T) {
			s := script(t, clock(), false, piece{0, tt.answer})
			r := ask(t, client(t, s.url(), plan.APIOllama), Prompt{Text: "x"})
			if r.Status != tt.status || r.ErrorKind != tt.kind || r.CompletionTokens != nil {
				t.Errorf("got %s %s %q", r.Status, r.ErrorKind, r.Error)
			}
		})
	}
}

func TestJSONMetrics(t *testing.T) {
	got, err := parseJSONMetrics([]byte(`{"live":{"state":"idle","tok_s":null,"queued":2},"requests":[{"output_tokens":256,"hit_rate":0.873}],"ok":true,"e":1e999}`))
	want := map[string]float64{"live.queued": 2, "requests.0.output_tokens": 256, "requests.0.hit_rate": .873, "ok": 1}
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %v, %v", got, err)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %v, want %v", k, got[k], v)
		}
	}
	if _, err := parseJSONMetrics([]byte(`{"a":`)); err == nil {
		t.Error("half an object was accepted")
	}
}

func FuzzJSONMetrics(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,2,{"c":true}]},"d":null}`))
	f.Add([]byte(`{"a":1e400,"":-0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseJSONMetrics(data)
		if err != nil {
			return
		}
		for k, v := range got {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s is %v", k, v)
			}
		}
	})
}

// Lines cut anywhere give the frames of the whole.
func FuzzLines(f *testing.F) {
	f.Add([]byte(ollamaLine("a")+ollamaLast), 7)
	f.Add([]byte("{}\r\n\n{}"), 1)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		collect := func(parts ...[]byte) (out []string) {
			s := sse{lines: true, onFrame: func(b []byte, _ stamp) error { out = append(out, string(b)); return nil }}
			for _, p := range parts {
				if err := s.feed(append([]byte(nil), p...), stamp{}); err != nil {
					t.Fatal(err)
				}
			}
			_ = s.end(stamp{})
			return out
		}
		at := 0
		if len(data) > 0 {
			at = ((cut % len(data)) + len(data)) % len(data)
		}
		a, b := collect(data), collect(data[:at], data[at:])
		if strings.Join(a, "\x00") != strings.Join(b, "\x00") {
			t.Errorf("cut at %d: got %q, want %q", at, b, a)
		}
	})
}
