package client

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

var quick = []string{"--decode-tok-s", "2000", "--prefill-tok-s", "100000"}

func TestKinds(t *testing.T) {
	for _, kind := range []string{plan.APIChat, plan.APICompletions, plan.APILlama} {
		t.Run(kind, func(t *testing.T) {
			c := client(t, sim(t, quick...).URL, kind)
			r := ask(t, c, Prompt{Index: 3, Repeat: 1, Case: "4K", Mark: record.MarkMeasured, Text: "one two three", MaxTokens: 20})
			if r.Status != "ok" || r.ErrorKind != "" || r.HTTPStatus != 200 || r.FinishReason != "length" {
				t.Fatalf("got %s %s %q %d %s, want ok", r.Status, r.ErrorKind, r.Error, r.HTTPStatus, r.FinishReason)
			}
			if r.Index != 3 || r.Repeat != 1 || r.Case != "4K" || r.Mark != "measured" {
				t.Errorf("labels: got %d %d %q %q", r.Index, r.Repeat, r.Case, r.Mark)
			}
			if num(r.CompletionTokens) != 20 || num(r.PromptTokens) != 3 || num(r.CachedTokens) != 0 {
				t.Errorf("counts: got %v completion, %v prompt, %v cached, want 20, 3, 0", num(r.CompletionTokens), num(r.PromptTokens), num(r.CachedTokens))
			}
			if r.ContentFrames != 20 || len(r.ArrivalsUS) != r.Frames {
				t.Errorf("got %d content frames, %d arrivals of %d frames", r.ContentFrames, len(r.ArrivalsUS), r.Frames)
			}
			if n, err := c.Tokenize(context.Background(), r.Text); err != nil || n != 20 {
				t.Errorf("tokenize(text): got %d, %v, want 20", n, err)
			}
			blank := map[string][]int{plan.APIChat: {0, 21, 22}, plan.APICompletions: {20, 21}, plan.APILlama: {20}}[kind]
			if !slices.Equal(r.BlankFrames, blank) {
				t.Errorf("frames without tokens: got %v, want %v", r.BlankFrames, blank)
			}
			order(t, r)
			if kind == plan.APILlama {
				if len(r.FrameTokens) != 20 || num(r.FirstFrameTokens) != 1 {
					t.Errorf("frame tokens: got %v", r.FrameTokens)
				}
			} else if r.FrameTokens != nil || r.FirstFrameTokens != nil {
				t.Errorf("frame tokens: got %v, want none: the engine did not say", r.FrameTokens)
			}
			if len(r.Warnings) > 0 {
				t.Errorf("warnings: %q", r.Warnings)
			}
			// The engine's clock and ours agree: 19 steps at 2000/s are 9.5 ms, and a machine may be late.
			if r.ServerDecodeMS == nil || *r.ServerDecodeMS < 9.4 || num(r.ServerDecodeN) != 20 || num(r.ServerPromptN) != 3 {
				t.Errorf("timings: got %s", r.Timings)
			}
		})
	}
}

// order checks that the stamps of a whole stream are all there and in their order.
func order(t *testing.T, r record.Request) {
	t.Helper()
	steps := []struct {
		name string
		at   *int64
	}{{"sent", r.SentNS}, {"headers", r.HeadersNS}, {"first_byte", r.FirstByteNS}, {"first_choice", r.FirstChoiceNS}, {"first_content", r.FirstContentNS},
		{"last_content", r.LastContentNS}, {"usage", r.UsageNS}, {"done", r.DoneNS}, {"close", r.CloseNS}}
	last := int64(0)
	for _, s := range steps {
		switch {
		case s.at == nil:
			t.Errorf("%s is missing", s.name)
		case *s.at < last-int64(time.Millisecond): // sent is ours, the others may be the kernel's
			t.Errorf("%s is %d ns before the one before", s.name, last-*s.at)
		default:
			last = *s.at
		}
	}
}

func TestGreedyTextDependsOnThePrompt(t *testing.T) {
	c := client(t, sim(t, quick...).URL, plan.APIChat)
	a := ask(t, c, Prompt{Text: "same", Nonce: "n1", MaxTokens: 8})
	b := ask(t, c, Prompt{Text: "same", Nonce: "n1", MaxTokens: 8})
	other := ask(t, c, Prompt{Text: "same", Nonce: "n2", MaxTokens: 8})
	if a.TextSHA == "" || a.TextSHA != b.TextSHA || a.BodySHA != b.BodySHA {
		t.Errorf("equal requests: text %q and %q", a.Text, b.Text)
	}
	if a.TextSHA == other.TextSHA || a.PromptSHA != other.PromptSHA || other.Nonce != "n2" {
		t.Errorf("another nonce: text %q and %q, prompt %s and %s", a.Text, other.Text, a.PromptSHA, other.PromptSHA)
	}
	if num(b.CachedTokens) == 0 || num(a.CachedTokens) != 0 || num(other.CachedTokens) != 0 {
		t.Errorf("cached: got %v, %v, %v, want 0, some, 0", num(a.CachedTokens), num(b.CachedTokens), num(other.CachedTokens))
	}
}

func TestFaults(t *testing.T) {
	type want struct {
		status, kind, words string
		content             int // -1: any
	}
	for name, tt := range map[string]struct {
		flags []string
		api   string
		want  want
		check func(*testing.T, record.Request)
	}{
		"dies":          {flags: []string{"--die-at-token", "5"}, want: want{"cut", "closed", "in the middle", 5}},
		"error frame":   {flags: []string{"--error-at-token", "5"}, want: want{"error", "stream", "failed in the middle", 5}},
		"garbage":       {flags: []string{"--garbage-frames"}, want: want{"error", "garbage", "no JSON object", 20}},
		"no done":       {flags: []string{"--no-done"}, want: want{"ok", "", "", 20}, check: warned("no [DONE]")},
		"no usage":      {flags: []string{"--no-usage"}, want: want{"ok", "", "", 20}, check: noUsage},
		"nothing known": {flags: []string{"--no-usage", "--no-timings"}, want: want{"ok", "", "", 20}, check: unknownCount},
		"wrong usage":   {flags: []string{"--wrong-usage", "7"}, want: want{"ok", "", "", 20}, check: disagree},
		"cached":        {flags: []string{"--cached-tokens", "9"}, want: want{"ok", "", "", 20}, check: cachedNine},
		"five a frame":  {flags: []string{"--tokens-per-frame", "5"}, want: want{"ok", "", "", 4}},
		"five native":   {flags: []string{"--tokens-per-frame", "5"}, api: plan.APILlama, want: want{"ok", "", "", 4}, check: fives},
		"role first":    {flags: []string{"--prefill-tok-s", "100"}, want: want{"ok", "", "", 20}, check: roleFirst},
		"no role":       {flags: []string{"--role-only-first=false"}, want: want{"ok", "", "", 20}, check: noRole},
		"reasoning":     {flags: []string{"--reasoning-first", "6"}, want: want{"ok", "", "", 20}, check: reasoned},
		"crlf":          {flags: []string{"--crlf"}, want: want{"ok", "", "", 20}, check: plainText},
		"comments":      {flags: []string{"--keepalive-comments"}, want: want{"ok", "", "", 20}, check: plainText},
		"split":         {flags: []string{"--split-frames"}, want: want{"ok", "", "", 20}, check: plainText},
		"split crlf":    {flags: []string{"--split-frames", "--crlf"}, want: want{"ok", "", "", 20}, check: plainText},
		"never ready":   {flags: []string{"--never-ready"}, want: want{"error", "http", "Loading model", 0}},
		"too long":      {flags: []string{"--ctx", "3"}, want: want{"error", "http", "exceeds the available context size", 0}},
		"ends itself":   {flags: []string{"--eos-at", "8"}, want: want{"ok", "", "", 7}, check: stopped},
		"dies native":   {flags: []string{"--die-at-token", "5"}, api: plan.APILlama, want: want{"cut", "closed", "in the middle", 5}},
		"error native":  {flags: []string{"--error-at-token", "5"}, api: plan.APILlama, want: want{"error", "stream", "failed in the middle", 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := tt.api
			if api == "" {
				api = plan.APIChat
			}
			c := client(t, sim(t, append(slices.Clone(quick), tt.flags...)...).URL, api)
			r := ask(t, c, Prompt{Text: "one two three four", MaxTokens: 20})
			if r.Status != tt.want.status || r.ErrorKind != tt.want.kind || !strings.Contains(r.Error, tt.want.words) {
				t.Fatalf("got %s, %s, %q, want %s, %s, %q", r.Status, r.ErrorKind, r.Error, tt.want.status, tt.want.kind, tt.want.words)
			}
			if r.ContentFrames != tt.want.content {
				t.Errorf("got %d content frames, want %d", r.ContentFrames, tt.want.content)
			}
			if tt.want.content > 0 && (r.TextSHA == "" || r.FirstContentNS == nil || r.LastContentNS == nil) {
				t.Errorf("what arrived was not kept: %+v", r)
			}
			if tt.check != nil {
				tt.check(t, r)
			}
		})
	}
}

func warned(words string) func(*testing.T, record.Request) {
	return func(t *testing.T, r record.Request) {
		if !strings.Contains(strings.Join(r.Warnings, "\n"), words) {
			t.Errorf("warnings: got %q, want %q", r.Warnings, words)
		}
	}
}

func noUsage(t *testing.T, r record.Request) {
	if r.Usage != "" || r.UsageNS != nil || num(r.CompletionTokens) != 20 || len(r.Counts) == 0 || r.Counts[0].Source != "timings" {
		t.Errorf("got usage %q, completion %v, counts %v, want the timings' count", r.Usage, num(r.CompletionTokens), r.Counts)
	}
}

func unknownCount(t *testing.T, r record.Request) {
	if r.CompletionTokens != nil || r.CachedTokens != nil || r.PromptTokens != nil {
		t.Errorf("got %v, %v, %v, want nothing: frames are not tokens", num(r.CompletionTokens), num(r.CachedTokens), num(r.PromptTokens))
	}
}

func disagree(t *testing.T, r record.Request) {
	counts := map[string]int{}
	for _, c := range r.Counts {
		if c.What == "completion" {
			counts[c.Source] = c.N
		}
	}
	if counts["usage"] != 27 || counts["timings"] != 20 || counts["frames"] != 20 {
		t.Errorf("got counts %v, want usage 27, timings 20, frames 20", counts)
	}
}

func cachedNine(t *testing.T, r record.Request) {
	if num(r.CachedTokens) != 9 {
		t.Errorf("got %v cached, want 9", num(r.CachedTokens))
	}
}

func fives(t *testing.T, r record.Request) {
	if !slices.Equal(r.FrameTokens, []int{5, 5, 5, 5}) || num(r.FirstFrameTokens) != 5 {
		t.Errorf("got frame tokens %v, first %v", r.FrameTokens, num(r.FirstFrameTokens))
	}
}

func roleFirst(t *testing.T, r record.Request) {
	// Four tokens at 100/s: the first content comes 40 ms after the role.
	if gap := *r.FirstContentNS - *r.FirstChoiceNS; gap < 35e6 {
		t.Errorf("first content is %d ns after the first choice, want about 40 ms", gap)
	}
}

func noRole(t *testing.T, r record.Request) {
	if *r.FirstContentNS != *r.FirstChoiceNS {
		t.Errorf("first choice and first content differ without a role frame")
	}
}

func reasoned(t *testing.T, r record.Request) {
	if num(r.ReasoningTokens) != 6 || r.ReasoningSHA == "" || r.FirstReasoningNS == nil || *r.FirstReasoningNS > *r.FirstContentNS {
		t.Errorf("got %v reasoning tokens, sha %q", num(r.ReasoningTokens), r.ReasoningSHA)
	}
	if got := len(strings.Fields(r.Text)); got != 14 {
		t.Errorf("got %d words of answer, want 14: reasoning is apart", got)
	}
}

// plainText compares with the text of an engine without the fault.
func plainText(t *testing.T, r record.Request) {
	c := client(t, sim(t, quick...).URL, plan.APIChat)
	plain := ask(t, c, Prompt{Text: "one two three four", MaxTokens: 20})
	if r.TextSHA != plain.TextSHA {
		t.Errorf("got text %q, want %q", r.Text, plain.Text)
	}
	if num(r.CompletionTokens) != 20 || r.Frames != plain.Frames {
		t.Errorf("got %v tokens, %d frames, want 20, %d", num(r.CompletionTokens), r.Frames, plain.Frames)
	}
}

func stopped(t *testing.T, r record.Request) {
	if r.FinishReason != "stop" || num(r.CompletionTokens) != 8 {
		t.Errorf("got %s after %v tokens, want stop after 8: the end token counts", r.FinishReason, num(r.CompletionTokens))
	}
}

func TestContinuousUsage(t *testing.T) {
	c := client(t, sim(t, append(slices.Clone(quick), "--tokens-per-frame", "3")...).URL, plan.APIChat)
	r := ask(t, c, Prompt{Text: "x", MaxTokens: 10, Body: `{"stream_options":{"continuous_usage_stats":true}}`})
	if !slices.Equal(r.FrameTokens, []int{3, 3, 3, 1}) || num(r.FirstFrameTokens) != 3 || num(r.CompletionTokens) != 10 {
		t.Errorf("got %v, first %v, %v tokens, want [3 3 3 1]", r.FrameTokens, num(r.FirstFrameTokens), num(r.CompletionTokens))
	}
}

func TestHangIsATimeout(t *testing.T) {
	s := sim(t, append(slices.Clone(quick), "--hang-at-token", "4")...)
	c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: s.URL, Now: clock(), Timeout: 300 * time.Millisecond})
	defer c.Close()
	r := ask(t, c, Prompt{Text: "x", MaxTokens: 10})
	if r.Status != "cut" || r.ErrorKind != "timeout" || r.ContentFrames != 4 || !strings.Contains(r.Error, "300ms") {
		t.Errorf("got %s, %s, %q, %d content frames, want cut, timeout, 4", r.Status, r.ErrorKind, r.Error, r.ContentFrames)
	}
}

func TestCancelled(t *testing.T) {
	s := sim(t, append(slices.Clone(quick), "--hang-at-token", "4")...)
	c := client(t, s.URL, plan.APIChat)
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(100*time.Millisecond, cancel)
	defer timer.Stop()
	begin := time.Now()
	rows := c.Run(ctx, []Prompt{{Index: 0, Text: "x", MaxTokens: 10}, {Index: 1, Text: "y", MaxTokens: 10}}, 1)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("cancelling took %s", took)
	}
	if rows[0].Status != "cut" || rows[0].ErrorKind != "cancelled" {
		t.Errorf("first: got %s, %s", rows[0].Status, rows[0].ErrorKind)
	}
	if rows[1].Status != "error" || rows[1].ErrorKind != "cancelled" || rows[1].SentNS != nil || rows[1].Index != 1 {
		t.Errorf("second: got %+v, want nothing sent", rows[1])
	}
}

func TestRunKeepsTheOrder(t *testing.T) {
	c := client(t, sim(t, quick...).URL, plan.APILlama)
	var ps []Prompt
	for i := range 40 {
		ps = append(ps, Prompt{Index: i, Text: "p", MaxTokens: 1 + i%7})
	}
	for i, r := range c.Run(context.Background(), ps, 8) {
		if r.Index != i || r.Status != "ok" || num(r.CompletionTokens) != 1+i%7 {
			t.Errorf("row %d: got index %d, %s %q, %v tokens", i, r.Index, r.Status, r.Error, num(r.CompletionTokens))
		}
	}
}

func TestMetrics(t *testing.T) {
	c := client(t, sim(t, append(slices.Clone(quick), "--lever", `fast=+20%,null=0`, "--on", "fast")...).URL, plan.APILlama)
	ask(t, c, Prompt{Text: "a b", MaxTokens: 5})
	m, err := c.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"sim_tokens_total": 5, "sim_prompt_tokens_total": 2, `lever_active{name="fast"}`: 1, `lever_active{name="null"}`: 0} {
		if got, ok := m[name]; !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: got %v (%t), want %v", name, got, ok, want)
		}
	}
}

func TestNoPathsNoRequests(t *testing.T) {
	c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: "http://127.0.0.1:1", Now: clock()})
	defer c.Close()
	if _, err := c.Tokenize(context.Background(), "x"); err == nil || !strings.Contains(err.Error(), "names no tokenize path") {
		t.Errorf("tokenize: got %v", err)
	}
	if _, err := c.Metrics(context.Background()); err == nil || !strings.Contains(err.Error(), "names no metrics path") {
		t.Errorf("metrics: got %v", err)
	}
	if r := ask(t, c, Prompt{Text: "x"}); r.Status != "error" || r.ErrorKind != "connect" || r.SentNS != nil {
		t.Errorf("nobody listens: got %s, %s, %q", r.Status, r.ErrorKind, r.Error)
	}
}

// TestMarks: a measured request says when it is sent, has its first token and has ended; a warm one says
// nothing.
func TestMarks(t *testing.T) {
	var marks atomic.Int64
	c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: sim(t, quick...).URL, Now: clock(), Timeout: 20 * time.Second, OnMark: func() { marks.Add(1) }})
	t.Cleanup(c.Close)
	ask(t, c, Prompt{Mark: record.MarkWarm, Text: "one", MaxTokens: 5})
	if n := marks.Load(); n != 0 {
		t.Errorf("a warm request made %d marks", n)
	}
	r := ask(t, c, Prompt{Mark: record.MarkMeasured, Text: "one", MaxTokens: 5})
	if n := marks.Load(); n != 3 || r.Status != "ok" {
		t.Errorf("a measured request (%s) made %d marks, want 3", r.Status, n)
	}
}
