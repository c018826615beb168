package metric

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"flow/workflows/record"
)

func ptr[T any](v T) *T { return &v }

func at(ms float64) *int64 { return ptr(int64(ms * 1e6)) }

// stream builds a request sent at 0 from frames, as a client would record it.
type frame struct {
	ms   float64
	what string // role, think, text, empty, usage
	n    int    // tokens, where the engine says so
}

func stream(fs ...frame) *record.Request {
	r := &record.Request{Mark: record.MarkMeasured, Status: "ok", SentNS: at(0), Frames: len(fs)}
	var before int64
	for _, f := range fs {
		us := int64(f.ms * 1e3)
		r.ArrivalsUS = append(r.ArrivalsUS, us-before)
		before = us
		ns := us * 1000
		if f.what == "usage" || f.what == "error" {
			r.OtherFrames = append(r.OtherFrames, len(r.ArrivalsUS)-1)
		} else {
			if r.FirstChoiceNS == nil {
				r.FirstChoiceNS = &ns
			}
			r.LastChoiceNS = &ns
		}
		if f.what != "text" && f.what != "think" {
			continue
		}
		r.ContentFrames++
		r.LastContentNS = &ns
		if f.what == "text" && r.FirstContentNS == nil {
			r.FirstContentNS = &ns
		}
		if f.what == "think" && r.FirstReasoningNS == nil {
			r.FirstReasoningNS = &ns
		}
		if f.n > 0 {
			r.FrameTokens = append(r.FrameTokens, f.n)
		}
	}
	return r
}

func usage(r *record.Request, prompt, completion int) *record.Request {
	r.PromptTokens, r.CompletionTokens = &prompt, &completion
	r.Usage = "{}"
	return r
}

func named(t *testing.T, ms []record.Metric, name string) record.Metric {
	t.Helper()
	for _, m := range ms {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no metric %s", name)
	return record.Metric{}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// Every case is computed by hand beside it. A name with a number must have that value; a name in whys must
// be nil with that reason.
func TestRequest(t *testing.T) {
	every := func(from, step float64, n int) (fs []frame) {
		for i := range n {
			fs = append(fs, frame{ms: from + step*float64(i), what: "text"})
		}
		return fs
	}
	long := usage(stream(every(10, 10, 101)...), 50, 101)
	tests := []struct {
		name string
		r    *record.Request
		want map[string]float64
		whys map[string]string
		held map[string]float64
	}{
		{
			// 5 tokens at 100, 120, 130, 140, 150 ms after a role-only frame at 40.
			name: "role-only first frame",
			r:    usage(stream(frame{40, "role", 0}, frame{100, "text", 0}, frame{120, "text", 0}, frame{130, "text", 0}, frame{140, "text", 0}, frame{150, "text", 0}, frame{151, "empty", 0}, frame{151, "usage", 0}), 50, 5),
			want: map[string]float64{
				"ttfr_ms": 40, "ttft_ms": 100, "ttft_content_ms": 100,
				"decode_tok_s":         4 / .050,
				"generation_tok_s":     5 / .150,
				"steady_tok_s":         3 / .030,
				"prefill_tok_s":        50 / .100,
				"first_decode_step_ms": 20,
				"e2e_ms":               150,
				"icl_p50_ms":           10,
				"itl_p50_ms":           10, // as many tokens as frames
				"completion_tokens":    5,
			},
			whys: map[string]string{"itl_p95_ms": "p95 needs 20 gaps, got 4", "icl_p99_ms": "p99 needs 100 gaps", "cached_tokens": "cached", "server_decode_tok_s": "no timings"},
		},
		{
			name: "reasoning first",
			r:    usage(stream(frame{30, "role", 0}, frame{50, "think", 0}, frame{60, "think", 0}, frame{80, "text", 0}, frame{90, "text", 0}), 10, 4),
			want: map[string]float64{"ttft_ms": 50, "ttft_content_ms": 80, "decode_tok_s": 3 / .040, "first_decode_step_ms": 10, "steady_tok_s": 2 / .030, "prefill_tok_s": 10 / .050},
		},
		{
			name: "only reasoning",
			r:    usage(stream(frame{50, "think", 0}, frame{60, "think", 0}), 10, 2),
			want: map[string]float64{"ttft_ms": 50, "decode_tok_s": 1 / .010},
			whys: map[string]string{"ttft_content_ms": "a frame with content was not seen"},
		},
		{
			// First frame of 3, then 2 and 2: (7 − 3) over 40 ms, where 1 for the first would give (7 − 1).
			name: "bundled first frame, tokens known",
			r:    usage(stream(frame{100, "text", 3}, frame{120, "text", 2}, frame{140, "text", 2}), 10, 7),
			want: map[string]float64{"decode_tok_s": 4 / .040, "steady_tok_s": 2 / .020, "icl_p50_ms": 20, "first_decode_step_ms": 20},
			held: map[string]float64{"itl_p50_ms": 10}, // two tokens in each gap of 20 ms
		},
		{
			name: "bundled first frame, only its tokens known",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}, frame{120, "text", 0}, frame{140, "text", 0}), 10, 7)
				r.FirstFrameTokens = ptr(3)
				return r
			}(),
			want: map[string]float64{"decode_tok_s": 4 / .040, "steady_tok_s": 3 / .020},
			whys: map[string]string{"itl_p50_ms": "tokens per frame are unknown"},
		},
		{
			name: "several tokens a frame, tokens unknown",
			r:    usage(stream(frame{100, "text", 0}, frame{120, "text", 0}, frame{140, "text", 0}), 10, 9),
			want: map[string]float64{"decode_tok_s": 8 / .040, "icl_p50_ms": 20},
			whys: map[string]string{"itl_p50_ms": "tokens per frame are unknown"},
		},
		{
			name: "percentiles",
			r:    long, // 101 tokens, 100 gaps of 10 ms
			want: map[string]float64{"itl_p50_ms": 10, "itl_p95_ms": 10, "itl_p99_ms": 10, "icl_p99_ms": 10, "decode_tok_s": 100},
		},
		{
			name: "no usage",
			r:    stream(frame{100, "text", 0}, frame{120, "text", 0}),
			want: map[string]float64{"ttft_ms": 100, "icl_p50_ms": 20, "first_decode_step_ms": 20},
			whys: map[string]string{"decode_tok_s": "no usage", "generation_tok_s": "no usage", "steady_tok_s": "no usage", "prefill_tok_s": "no usage", "itl_p50_ms": "unknown", "completion_tokens": "does not say", "token_count_gap_pct": "one source"},
		},
		{
			name: "one token",
			r:    usage(stream(frame{100, "text", 0}), 10, 1),
			want: map[string]float64{"ttft_ms": 100, "generation_tok_s": 10},
			whys: map[string]string{"decode_tok_s": "one frame or read", "first_decode_step_ms": "no decode step", "steady_tok_s": "no decode step", "icl_p50_ms": "fewer than two"},
		},
		{
			name: "nothing came",
			r:    usage(stream(), 10, 5),
			whys: map[string]string{"ttft_ms": "was not seen", "decode_tok_s": "no token-bearing frame", "prefill_tok_s": "no token-bearing frame", "e2e_ms": "was not seen"},
		},
		{
			name: "all in one read",
			r:    usage(stream(frame{100, "role", 0}, frame{100, "text", 0}, frame{100, "text", 0}, frame{100, "empty", 0}), 10, 2),
			want: map[string]float64{"ttft_ms": 100},
			whys: map[string]string{"decode_tok_s": "one frame or read", "first_decode_step_ms": "read of the first"},
		},
		{
			// The role-only frame shares the read of the first token, the finish frame that of the last.
			name: "edges share a read",
			r:    usage(stream(frame{100, "role", 0}, frame{100, "text", 0}, frame{110, "text", 0}, frame{130, "text", 0}, frame{130, "empty", 0}, frame{130, "usage", 0}), 10, 3),
			want: map[string]float64{"first_decode_step_ms": 10, "icl_p50_ms": 15, "steady_tok_s": 1 / .020},
		},
		{
			// A busy machine: two frames in the first read, so its stamp is that of the second and 4 of 6 tokens lie
			// in the 40 ms after it. n = 1 would give 125 tokens a second.
			name: "two frames in the first read",
			r:    usage(stream(frame{100, "role", 0}, frame{100, "text", 0}, frame{100, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}, frame{130, "text", 0}, frame{140, "text", 0}), 10, 6),
			want: map[string]float64{"decode_tok_s": 4 / .040, "icl_p50_ms": 10},
			whys: map[string]string{"first_decode_step_ms": "read of the first", "steady_tok_s": "read of the first"},
			held: map[string]float64{"itl_p50_ms": 10}, // one of five frames has no time of its own
		},
		{
			name: "two frames in the second read",
			r:    usage(stream(frame{100, "text", 0}, frame{120, "text", 0}, frame{120, "text", 0}, frame{130, "text", 0}), 10, 4),
			want: map[string]float64{"decode_tok_s": 3 / .030},
			whys: map[string]string{"first_decode_step_ms": "one read with the third", "steady_tok_s": "one read with the third"},
		},
		{
			name: "most frames share reads",
			r:    usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{110, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}), 10, 9),
			want: map[string]float64{"decode_tok_s": 8 / .020, "icl_p50_ms": 5}, // gaps 0, 0, 10, 10
		},
		{
			name: "nearly all frames share reads",
			r:    usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{110, "text", 0}, frame{110, "text", 0}, frame{110, "text", 0}), 10, 5),
			whys: map[string]string{"icl_p50_ms": "3 of 4 frames came in the read of the one before", "itl_p50_ms": "nothing to tell apart"},
		},
		{
			name: "empty frame between, not noted",
			r:    usage(stream(frame{100, "text", 0}, frame{110, "empty", 0}, frame{130, "text", 0}), 10, 2),
			want: map[string]float64{"decode_tok_s": 1 / .030},
			whys: map[string]string{"icl_p50_ms": "1 frames without tokens came between", "first_decode_step_ms": "without tokens"},
		},
		{
			name: "empty frame between, noted",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}, frame{110, "empty", 0}, frame{130, "text", 0}), 10, 2)
				r.BlankFrames = []int{1}
				return r
			}(),
			want: map[string]float64{"icl_p50_ms": 30, "first_decode_step_ms": 30},
		},
		{
			// Ended by itself: usage counts an end token that no frame carried. 3 tokens came, 2 after the first.
			name: "end token without a frame",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}, frame{130, "empty", 0}), 10, 4)
				r.FinishReason = "stop"
				return r
			}(),
			want: map[string]float64{"decode_tok_s": 2 / .020, "itl_p50_ms": 10, "steady_tok_s": 1 / .010},
		},
		{
			name: "cached prompt tokens",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}), 40, 1)
				r.CachedTokens = ptr(30)
				return r
			}(),
			want: map[string]float64{"prefill_tok_s": 100, "cached_tokens": 30},
		},
		{
			name: "whole prompt cached",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}), 40, 1)
				r.CachedTokens = ptr(40)
				return r
			}(),
			whys: map[string]string{"prefill_tok_s": "came from the cache"},
		},
		{
			// llama.cpp: predicted_ms begins with the first token. 5 tokens at 0..40 ms: 4 steps in 40 ms; it
			// prints 5 / .040 = 125.
			name: "server counts n over n − 1 steps",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}, frame{130, "text", 0}, frame{140, "text", 0}), 10, 5)
				r.ServerDecodeN, r.ServerDecodeMS, r.ServerDecodeTokS = ptr(5), ptr(40.0), ptr(125.0)
				r.ServerPromptN, r.ServerPromptMS = ptr(10), ptr(80.0)
				return r
			}(),
			want: map[string]float64{"decode_tok_s": 100, "server_decode_tok_s": 100, "server_decode_printed_tok_s": 125, "server_prefill_tok_s": 125, "server_prompt_ms": 80, "token_count_gap_pct": 0},
		},
		{
			// Strata: the interval begins with the end of the prompt. 5 tokens, 5 steps, 50 ms.
			name: "server counts n over n steps",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}, frame{130, "text", 0}, frame{140, "text", 0}), 10, 5)
				r.ServerDecodeN, r.ServerDecodeMS, r.ServerDecodeTokS = ptr(5), ptr(50.0), ptr(100.0)
				return r
			}(),
			want: map[string]float64{"decode_tok_s": 100, "server_decode_tok_s": 100, "server_decode_printed_tok_s": 100},
		},
		{
			// llama.cpp with an end token: 4 tokens in 3 steps of 10 ms, the client saw three in two steps.
			name: "server with an end token",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}), 10, 4)
				r.FinishReason = "stop"
				r.ServerDecodeN, r.ServerDecodeMS = ptr(4), ptr(30.0)
				return r
			}(),
			want: map[string]float64{"decode_tok_s": 100, "server_decode_tok_s": 100},
		},
		{
			// Usage says 10, the server's timings 5: which is wrong cannot be known.
			name: "usage against timings",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}, frame{120, "text", 0}), 10, 10)
				r.ServerDecodeN = ptr(5)
				return r
			}(),
			want: map[string]float64{"ttft_ms": 100, "token_count_gap_pct": 50},
			held: map[string]float64{"decode_tok_s": 9 / .020, "generation_tok_s": 10 / .120},
		},
		{
			name: "more frames than tokens",
			r: func() *record.Request {
				return usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}, frame{130, "text", 0}), 10, 2)
			}(),
			held: map[string]float64{"decode_tok_s": 1 / .030},
		},
		{
			name: "failed",
			r: func() *record.Request {
				r := usage(stream(frame{100, "text", 0}, frame{120, "text", 0}), 10, 2)
				r.Status, r.Error = "error", "connection reset"
				return r
			}(),
			want: map[string]float64{"ttft_ms": 100},
			held: map[string]float64{"decode_tok_s": 1 / .020},
			whys: map[string]string{"server_decode_tok_s": "no timings"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ms := Request(tt.r)
			if len(ms) != len(requestDefs) {
				t.Fatalf("%d metrics, want %d", len(ms), len(requestDefs))
			}
			for _, m := range ms {
				if m.Value == nil && m.Why == "" {
					t.Errorf("%s: nil without a reason", m.Name)
				}
				for _, v := range []*float64{m.Value, m.Withheld} {
					if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
						t.Errorf("%s: %v", m.Name, *v)
					}
				}
			}
			for name, want := range tt.want {
				m := named(t, ms, name)
				if m.Value == nil || !near(*m.Value, want) {
					t.Errorf("%s: got %v (%s), want %v", name, show(m.Value), m.Why, want)
				}
			}
			for name, why := range tt.whys {
				m := named(t, ms, name)
				if m.Value != nil || m.Withheld != nil || !strings.Contains(m.Why, why) {
					t.Errorf("%s: got %v, %q, want nil because %q", name, show(m.Value), m.Why, why)
				}
			}
			for name, want := range tt.held {
				m := named(t, ms, name)
				if m.Value != nil || m.Withheld == nil || !near(*m.Withheld, want) || m.Why == "" {
					t.Errorf("%s: got %v, withheld %v (%s), want %v withheld", name, show(m.Value), show(m.Withheld), m.Why, want)
				}
			}
		})
	}
}

func show(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

// The rule of decode says what was assumed about the first frame.
func TestDecodeRule(t *testing.T) {
	r := usage(stream(frame{100, "text", 0}, frame{120, "text", 0}), 10, 9)
	if m := named(t, Request(r), "decode_tok_s"); !strings.Contains(m.Rule, "unknown") {
		t.Errorf("rule %q does not mark the unknown first frame", m.Rule)
	}
	r.FirstFrameTokens = ptr(2)
	if m := named(t, Request(r), "decode_tok_s"); m.Rule != "n = 2 as the engine says" {
		t.Errorf("rule %q", m.Rule)
	}
}

// Published rows of a Strata campaign: 256 tokens in 247 frames, server rates as n over n steps. Their
// prompt rate is prompt_tokens/ttft, their decode rate (completion − 1)/(finish − first), their server
// rates are printed with one decimal.
func TestStrataRows(t *testing.T) {
	f, err := os.Open("testdata/strata-rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := 0
	for sc := bufio.NewScanner(f); sc.Scan(); rows++ {
		var row struct {
			ID            string  `json:"row_id"`
			Decode        float64 `json:"decode_tok_s"`
			DecodeServer  float64 `json:"decode_tok_s_server"`
			PromptClient  float64 `json:"prompt_tok_s_client"`
			PromptServer  float64 `json:"prompt_tok_s_server"`
			TTFT          float64 `json:"ttft_ms"`
			Prompt        int     `json:"prompt_tokens"`
			Completion    int     `json:"completion_tokens"`
			Cached        int     `json:"cached_tokens"`
			ContentFrames int     `json:"content_frames"`
			Finish        string  `json:"finish_reason"`
			Timings       struct {
				PromptN     int     `json:"prompt_n"`
				PromptMS    float64 `json:"prompt_ms"`
				PredictedN  int     `json:"predicted_n"`
				PredictedMS float64 `json:"predicted_ms"`
			} `json:"server_timings"`
			Generated int `json:"engine_generated"`
			Metrics   int `json:"metrics_output_tokens"`
		}
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		last := row.TTFT + 1000*float64(row.Completion-1)/row.Decode
		r := &record.Request{
			Status: "ok", SentNS: at(0), FirstContentNS: at(row.TTFT), LastContentNS: at(last), ContentFrames: row.ContentFrames,
			FinishReason: row.Finish, Usage: "{}", PromptTokens: &row.Prompt, CompletionTokens: &row.Completion, CachedTokens: &row.Cached,
			ServerDecodeTokS: &row.DecodeServer, ServerPromptMS: &row.Timings.PromptMS, ServerPromptN: &row.Timings.PromptN,
			ServerDecodeMS: &row.Timings.PredictedMS, ServerDecodeN: &row.Timings.PredictedN,
			Counts: []record.Count{{Source: "log", What: "completion", N: row.Generated}, {Source: "metrics", What: "completion", N: row.Metrics}},
		}
		ms := Request(r)
		for name, want := range map[string]struct{ v, within float64 }{
			"decode_tok_s":                {row.Decode, .0005},
			"prefill_tok_s":               {row.PromptClient, .05},
			"server_prefill_tok_s":        {row.PromptServer, .05},
			"server_decode_tok_s":         {row.DecodeServer, .05},
			"server_decode_printed_tok_s": {row.DecodeServer, 0},
			"token_count_gap_pct":         {0, 0},
			"ttft_ms":                     {row.TTFT, 1e-6},
		} {
			m := named(t, ms, name)
			if m.Value == nil || math.Abs(*m.Value-want.v) > want.within {
				t.Errorf("%s: %s: got %v (%s), want %v", row.ID, name, show(m.Value), m.Why, want.v)
			}
		}
		// 247 frames of 256 tokens: no time between tokens, and frames are no reason to withhold.
		if m := named(t, ms, "itl_p50_ms"); m.Value != nil {
			t.Errorf("%s: itl from frames that are not tokens", row.ID)
		}
	}
	if rows != 4 {
		t.Fatalf("%d rows", rows)
	}
}

// Prompt counts: a recount misses the chat template, timings leave cached tokens out. Both are no
// disagreement; a count that is off either way is.
func TestPromptCounts(t *testing.T) {
	make := func(usageN, cached, timings, tokenize int) *record.Request {
		r := usage(stream(frame{100, "text", 0}), usageN, 1)
		r.CachedTokens, r.ServerPromptN = &cached, &timings
		r.Counts = []record.Count{{Source: "tokenize", What: "prompt", N: tokenize}}
		return r
	}
	for _, tt := range []struct {
		name     string
		r        *record.Request
		withheld bool
	}{
		{"cached left out", make(100, 60, 40, 80), false},
		{"template missed", make(100, 0, 100, 80), false},
		{"recount larger", make(100, 0, 100, 120), true},
		{"timings differ", make(100, 10, 50, 90), true},
	} {
		m := named(t, Request(tt.r), "prefill_tok_s")
		if (m.Withheld != nil) != tt.withheld {
			t.Errorf("%s: withheld %v (%s)", tt.name, show(m.Withheld), m.Why)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Names() {
		if seen[d.Name] {
			t.Errorf("%s twice", d.Name)
		}
		seen[d.Name] = true
		if d.Doc == "" || d.Source == "" {
			t.Errorf("%s has no definition or source", d.Name)
		}
		if got, ok := Lookup(d.Name); !ok || got != d {
			t.Errorf("Lookup(%s)", d.Name)
		}
	}
	for name := range countedBy {
		if _, ok := requestDef(name); !ok {
			t.Errorf("countedBy names %s, which is no request metric", name)
		}
	}
}

// The metrics of a request of 32,000 frames: the cost is flat per frame.
func BenchmarkRequest(b *testing.B) {
	for _, n := range []int{320, 3200, 32000} {
		var fs []frame
		for i := range n {
			fs = append(fs, frame{ms: 100 + 10*float64(i), what: "text"})
		}
		r := usage(stream(fs...), 50, n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				Request(r)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/frame")
		})
	}
}

// A count above what was asked for is not believed, whatever the frames look like; one token more is.
func TestImpossibleCounts(t *testing.T) {
	of := func(n, asked int) *record.Request {
		r := usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}), 50, n)
		r.MaxTokens = asked
		return r
	}
	for _, tc := range []struct {
		n, asked int
		held     bool
	}{{8, 8, true}, {9, 8, true}, {10, 8, false}, {800, 8, false}, {math.MaxInt, 8, false}, {800, 0, true}} {
		r := of(tc.n, tc.asked)
		ms := Request(r)
		for _, name := range []string{"decode_tok_s", "generation_tok_s", "steady_tok_s", "completion_tokens"} {
			m := named(t, ms, name)
			if (m.Value != nil) != tc.held {
				t.Errorf("%d tokens of %d: %s is %v (%s)", tc.n, tc.asked, name, m.Value, m.Why)
			}
			if !tc.held && (m.Withheld == nil || !strings.Contains(m.Why, "at most 8 were asked for")) {
				t.Errorf("%d tokens of %d: %s is withheld as %v because %q", tc.n, tc.asked, name, m.Withheld, m.Why)
			}
		}
		a := &record.Arm{Requests: []record.Request{*r}, Load: &record.Load{WindowNS: 1e9}}
		if m := named(t, Arm(a, nil, Inputs{}), "throughput_tok_s"); (m.Value != nil) != tc.held {
			t.Errorf("%d tokens of %d: throughput is %v", tc.n, tc.asked, m.Value)
		}
	}
	// The server's own timings alone, too.
	r := of(4, 8)
	r.Usage, r.CompletionTokens, r.ServerDecodeN, r.ServerDecodeMS = "", nil, ptr(5000), ptr(20.0)
	if m := named(t, Request(r), "server_decode_tok_s"); m.Value != nil {
		t.Errorf("5000 tokens of 8 in timings: got %v", *m.Value)
	}
}
