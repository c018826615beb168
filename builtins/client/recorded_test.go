package client

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Answers of a real llama-server. The figures were counted with another program.
func TestRecorded(t *testing.T) {
	for _, tt := range []struct {
		file, api             string
		status, kind, words   string
		frames, content       int
		completion, cached    any
		finish, start, ending string
		check                 func(*testing.T, record.Request)
	}{
		{file: "chat_stream_plain.raw", api: plan.APIChat, status: "ok", frames: 66, content: 63, completion: 64, cached: 9, finish: "length", start: " abuse vitamin", ending: " levels begun"},
		{file: "chat_stream_first.body", api: plan.APIChat, status: "ok", frames: 24, content: 21, completion: 25, cached: 0, finish: "stop", start: " abuse vitamin poll bring soul你",
			check: func(t *testing.T, r record.Request) {
				if r.FrameTokens == nil { // timings per token say how many there are
					t.Errorf("no tokens per frame")
				}
			}},
		{file: "chat_stream_nousage.body", api: plan.APIChat, status: "ok", frames: 15, content: 13, completion: 16, cached: 31, finish: "length"},
		{file: "chat_stream_progress.body", api: plan.APIChat, status: "ok", frames: 22, content: 16, completion: 16, cached: 0, finish: "length",
			check: func(t *testing.T, r record.Request) {
				if r.ServerDecodeTokS == nil || *r.ServerDecodeTokS > 1e6 { // progress frames claim 8.8 million
					t.Errorf("got %v tok/s, want those of the last frame", r.ServerDecodeTokS)
				}
			}},
		{file: "completion_stream.body", api: plan.APILlama, status: "ok", frames: 62, content: 61, completion: 64, cached: 0, finish: "length", check: sums(64)},
		{file: "stop_string.body", api: plan.APILlama, status: "ok", frames: 13, content: 7, completion: 12, finish: "stop", check: sums(12)},
		{file: "v1_completions_stream.body", api: plan.APICompletions, status: "ok", frames: 31, content: 30, completion: 32, finish: "length"},
		{file: "chat_nonstream.body", api: plan.APIChat, status: "ok", frames: 1, content: 1, completion: 25, cached: 31, finish: "stop", check: warned("not a stream")},
		{file: "server_killed_midstream.raw", api: plan.APIChat, status: "cut", kind: "closed", words: "in the middle", frames: 108, content: 107},
		{file: "invalid_utf8_chat_stream.raw", api: plan.APIChat, status: "error", kind: "stream", words: "peg-native format", frames: 7, content: 5},
		{file: "ctx_overflow_prompt_stream.raw", api: plan.APIChat, status: "error", kind: "http", words: "HTTP 400: request (9027 tokens) exceeds"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			s := script(t, clock(), false, piece{0, recorded(t, tt.file)})
			r := ask(t, client(t, s.url(), tt.api), Prompt{Text: "x"})
			if r.Status != tt.status || r.ErrorKind != tt.kind || !strings.Contains(r.Error, tt.words) {
				t.Fatalf("got %s, %s, %q, want %s, %s, %q", r.Status, r.ErrorKind, r.Error, tt.status, tt.kind, tt.words)
			}
			if r.Frames != tt.frames || r.ContentFrames != tt.content {
				t.Errorf("got %d frames, %d with content, want %d, %d", r.Frames, r.ContentFrames, tt.frames, tt.content)
			}
			if tt.completion != nil && num(r.CompletionTokens) != tt.completion {
				t.Errorf("got %v tokens, want %v", num(r.CompletionTokens), tt.completion)
			}
			if tt.cached != nil && num(r.CachedTokens) != tt.cached {
				t.Errorf("got %v cached, want %v", num(r.CachedTokens), tt.cached)
			}
			if r.FinishReason != tt.finish || !strings.HasPrefix(r.Text, tt.start) || !strings.HasSuffix(r.Text, tt.ending) {
				t.Errorf("got finish %q, text %q", r.FinishReason, r.Text)
			}
			if tt.check != nil {
				tt.check(t, r)
			}
		})
	}
}

// sums checks that the tokens of the frames are at most the whole, and all but those of the last one:
// text that is held back leaves with a later frame.
func sums(total int) func(*testing.T, record.Request) {
	return func(t *testing.T, r record.Request) {
		sum := 0
		for _, n := range r.FrameTokens {
			sum += n
		}
		if len(r.FrameTokens) != r.ContentFrames || sum > total || sum < total-6 {
			t.Errorf("tokens per frame %v: sum %d, want about %d", r.FrameTokens, sum, total)
		}
	}
}

// Every way of cutting a real answer into two writes gives the same facts.
func TestRecordedCutAnywhere(t *testing.T) {
	for _, file := range []string{"chat_stream_plain.raw", "completion_stream.body"} {
		whole := recorded(t, file)
		kind := plan.APIChat
		if file == "completion_stream.body" {
			kind = plan.APILlama
		}
		var want record.Request
		for cut := len(whole); cut > 0; cut -= 131 {
			a := newAnswer(kind, record.Request{})
			r := &response{onHeaders: a.headers, onPayload: a.payload}
			for i, part := range []string{whole[:cut], whole[cut:]} {
				// The read's buffer is used again: nothing may point into it.
				buf := []byte(part)
				if err := r.feed(buf, stamp{ns: int64(i + 1)}); err != nil {
					t.Fatalf("%s cut at %d: %v", file, cut, err)
				}
				clear(buf)
			}
			if !r.complete {
				t.Fatalf("%s cut at %d: not complete", file, cut)
			}
			got := a.finish(nil)
			if cut == len(whole) {
				want = got
			}
			if got.Status != "ok" || got.TextSHA != want.TextSHA || got.Frames != want.Frames || got.Usage != want.Usage || got.Timings != want.Timings {
				t.Fatalf("%s cut at %d: got %s %q, %d frames, want %d", file, cut, got.Status, got.Error, got.Frames, want.Frames)
			}
		}
	}
}

func TestRecordedMetrics(t *testing.T) {
	data, err := os.ReadFile("testdata/llama/metrics_after.body")
	if err != nil {
		t.Fatal(err)
	}
	m := parseMetrics(string(data))
	if m["llamacpp:prompt_tokens_total"] != 3024 || m["llamacpp:prompt_seconds_total"] != 11.982 {
		t.Errorf("got %v", m)
	}
}

// One byte a read, the hardest cut of all, in real time through a socket.
func TestDribble(t *testing.T) {
	body := sseHead + chunked(chatFrame("é 東")) + chunked(finishFrame) + chunked(doneFrame) + lastOne
	var pieces []piece
	for i := range len(body) {
		pieces = append(pieces, piece{50 * time.Microsecond, body[i : i+1]})
	}
	s := script(t, clock(), false, pieces...)
	r := ask(t, client(t, s.url(), plan.APIChat), Prompt{Text: "x"})
	if r.Status != "ok" || r.Text != "é 東" || r.Frames != 2 {
		t.Errorf("got %s %q, text %q, %d frames", r.Status, r.Error, r.Text, r.Frames)
	}
}

func TestKeptConnections(t *testing.T) {
	answer := sseHead + chunked(chatFrame("a")) + chunked(finishFrame) + chunked(doneFrame) + lastOne
	s := script(t, clock(), true, piece{0, answer})
	c := client(t, s.url(), plan.APIChat)
	for i := range 3 {
		if r := ask(t, c, Prompt{Text: "x"}); r.Status != "ok" {
			t.Fatalf("request %d: %s %q", i, r.Status, r.Error)
		}
	}
	if len(c.pool.idle) != 1 || !c.pool.idle[0].reused {
		t.Errorf("got %d idle connections, want the one that was used again", len(c.pool.idle))
	}
	// A server that closes the kept connection is no error of the next request.
	closing := script(t, clock(), false, piece{0, answer})
	c2 := client(t, closing.url(), plan.APIChat)
	for i := range 5 {
		if r := c2.Do(context.Background(), Prompt{Text: "x"}); r.Status != "ok" {
			t.Fatalf("request %d after a close: %s %q", i, r.Status, r.Error)
		}
	}
}
