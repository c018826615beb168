package metric

import (
	"strings"
	"testing"

	"flow/workflows/record"
)

// began sets the start, which other tools count from, apart from the end of sending at 0.
func began(r *record.Request, ms float64) *record.Request {
	r.StartNS = at(ms)
	return r
}

func done(r *record.Request, doneMS, closeMS float64) *record.Request {
	if doneMS > 0 {
		r.DoneNS = at(doneMS)
	}
	if closeMS > 0 {
		r.CloseNS = at(closeMS)
	}
	return r
}

// Other tools' numbers, each computed by hand from the stamps beside it. whys are nil for that reason,
// held are withheld with that value.
func TestCompatible(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    *record.Request
		want map[string]float64
		whys map[string]string
		held map[string]float64
	}{
		{
			// Start at −10, role at 40, five tokens at 100, 120, 130, 140, 150, finish at 155, usage at 160, [DONE] at 170.
			name: "role-only first, usage-only last",
			r: done(began(usage(stream(frame{40, "role", 0}, frame{100, "text", 0}, frame{120, "text", 0}, frame{130, "text", 0}, frame{140, "text", 0}, frame{150, "text", 0},
				frame{155, "empty", 0}, frame{160, "usage", 0}), 50, 5), -10), 170, 171),
			want: map[string]float64{
				"vllm_ttft_ms": 50, "vllm_e2e_ms": 165, "vllm_tpot_ms": (155. - 40) / 4, "vllm_itl_ms": (155. - 40) / 6,
				"sglang_ttft_ms": 110, "sglang_itl_ms": 50. / 4, "sglang_tpot_ms": (170. - 100) / 4,
				"guidellm_ttft_ms": 110, "guidellm_itl_ms": 50. / 4, "guidellm_tpot_ms": 160. / 5, "guidellm_latency_ms": 180,
				"aiperf_ttft_ms": 110, "aiperf_ttst_ms": 20, "aiperf_itl_ms": 50. / 4, "aiperf_icl_ms": 50. / 4, "aiperf_latency_ms": 160,
				"inference_perf_tpot_ms": 70. / 4, "inference_perf_ntpot_ms": 180. / 5, "inference_benchmarker_itl_ms": 50. / 4,
				"llmperf_itl_ms": 160. / 5, "llama_benchy_ttfr_ms": 50, "llama_benchy_tg_tok_s": 4 / .070, "llama_bench_tg_tok_s": 4 / .050,
			},
			whys: map[string]string{"aiperf_chunk_usage_itl_ms": "does not say the tokens of its first chunk", "mlperf_latency_ms": "a scheduled time", "ollama_eval_tok_s": "no timings"},
		},
		{
			// Reasoning at 50 and 60, content at 80 and 90, close at 95 without [DONE].
			name: "reasoning first, close without [DONE]",
			r:    done(began(usage(stream(frame{30, "role", 0}, frame{50, "think", 0}, frame{60, "think", 0}, frame{80, "text", 0}, frame{90, "text", 0}), 10, 4), 0), 0, 95),
			want: map[string]float64{
				"vllm_ttft_ms": 30, "sglang_ttft_ms": 50, "guidellm_ttft_ms": 50, "guidellm_ttfot_ms": 80, "aiperf_ttfo_ms": 80, "aiperf_ttst_ms": 10,
				"guidellm_itl_ms": 40. / 3, "guidellm_tpot_ms": 90. / 4, "sglang_tpot_ms": 45. / 3, "vllm_tpot_ms": 60. / 3, "guidellm_latency_ms": 95,
			},
		},
		{
			// Four tokens in the first chunk, then one each: 8 tokens in 5 frames, with usage in every chunk.
			name: "bundled first chunk",
			r:    done(began(firstOf(usage(stream(frame{100, "text", 4}, frame{110, "text", 1}, frame{120, "text", 1}, frame{130, "text", 1}, frame{140, "text", 1}), 10, 8), 4), 0), 141, 141),
			want: map[string]float64{
				"aiperf_itl_ms": 40. / 7, "aiperf_chunk_usage_itl_ms": 40. / 4, "aiperf_icl_ms": 10, "guidellm_tpot_ms": 140. / 8, "llama_bench_tg_tok_s": 4 / .040,
				"llmperf_itl_ms": 140. / 5, "llama_benchy_tg_tok_s": 4 / .041,
			},
		},
		{
			// Twelve tokens in four frames: speculation in bursts.
			name: "several tokens a frame",
			r:    done(began(usage(stream(frame{100, "text", 3}, frame{130, "text", 3}, frame{160, "text", 3}, frame{190, "text", 3}), 10, 12), 0), 190, 190),
			want: map[string]float64{"vllm_itl_ms": 30, "vllm_tpot_ms": 90. / 11, "sglang_itl_ms": 30, "guidellm_itl_ms": 90. / 11, "llmperf_itl_ms": 190. / 4, "llama_bench_tg_tok_s": 9 / .090},
		},
		{
			// Empty deltas between: messages for vLLM, nothing for the others.
			name: "empty deltas",
			r:    done(began(blank(usage(stream(frame{100, "text", 0}, frame{105, "empty", 0}, frame{110, "text", 0}, frame{120, "empty", 0}, frame{130, "text", 0}), 10, 3), 1, 3), 0), 130, 130),
			want: map[string]float64{"vllm_itl_ms": 30. / 4, "vllm_tpot_ms": 15, "sglang_itl_ms": 15, "aiperf_ttst_ms": 10},
		},
		{
			name: "missing usage",
			r:    done(began(stream(frame{100, "text", 0}, frame{110, "text", 0}), 0), 111, 111),
			want: map[string]float64{"vllm_ttft_ms": 100, "vllm_itl_ms": 10, "llmperf_itl_ms": 55, "aiperf_icl_ms": 10},
			whys: map[string]string{"vllm_tpot_ms": "no count", "guidellm_itl_ms": "no count", "inference_perf_ntpot_ms": "no count", "llama_bench_tg_tok_s": "no count"},
		},
		{
			name: "one token",
			r:    done(began(usage(stream(frame{100, "text", 0}), 10, 1), 0), 101, 101),
			want: map[string]float64{"vllm_ttft_ms": 100, "guidellm_tpot_ms": 100},
			whys: map[string]string{"vllm_tpot_ms": "one token", "aiperf_itl_ms": "one token", "aiperf_ttst_ms": "fewer than two", "vllm_itl_ms": "fewer than two messages", "llama_benchy_tg_tok_s": "fewer than two"},
		},
		{
			// An error frame after two tokens: what needs a count of tokens is withheld, times stand.
			name: "error frame",
			r: func() *record.Request {
				r := began(usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{115, "error", 0}), 10, 2), 0)
				r.Status = "error"
				return r
			}(),
			want: map[string]float64{"vllm_ttft_ms": 100, "vllm_e2e_ms": 110, "vllm_itl_ms": 10},
			held: map[string]float64{"vllm_tpot_ms": 10},
		},
		{
			// 20 reported, 10 seen by the server's own timings.
			name: "counts that disagree",
			r: func() *record.Request {
				r := done(began(usage(stream(frame{100, "text", 0}, frame{200, "text", 0}), 10, 20), 0), 200, 200)
				n := 10
				r.ServerDecodeN = &n
				return r
			}(),
			want: map[string]float64{"vllm_itl_ms": 100},
			held: map[string]float64{"vllm_tpot_ms": 100. / 19, "guidellm_tpot_ms": 200. / 20},
		},
		{
			// n tokens over an interval of n − 1 steps: Ollama and llama.cpp print n / t.
			name: "n against n − 1",
			r: func() *record.Request {
				r := done(began(usage(stream(frame{100, "text", 0}, frame{110, "text", 0}, frame{120, "text", 0}), 10, 3), 0), 120, 120)
				n, t := 3, 20.
				r.ServerDecodeN, r.ServerDecodeMS = &n, &t
				return r
			}(),
			want: map[string]float64{"ollama_eval_tok_s": 3 / .020, "llama_bench_tg_tok_s": 2 / .020},
		},
		{
			name: "scheduled",
			r: func() *record.Request {
				r := done(began(usage(stream(frame{100, "text", 0}, frame{110, "text", 0}), 10, 2), -1), 112, 112)
				r.ScheduledNS = at(-300)
				return r
			}(),
			want: map[string]float64{"mlperf_latency_ms": 412, "guidellm_latency_ms": 113},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Compatible(tt.r)
			for name, v := range tt.want {
				want(t, named(t, got, name), v)
			}
			for name, why := range tt.whys {
				wantNil(t, named(t, got, name), why)
			}
			for name, v := range tt.held {
				if m := named(t, got, name); m.Value != nil || m.Withheld == nil || !near(*m.Withheld, v) || m.Why == "" {
					t.Errorf("%s: got %v withheld %v because %q, want %v withheld", name, show(m.Value), show(m.Withheld), m.Why, v)
				}
			}
			for _, m := range got {
				if m.Value == nil && m.Why == "" {
					t.Errorf("%s is missing without a reason", m.Name)
				}
			}
		})
	}
}

func firstOf(r *record.Request, n int) *record.Request { r.FirstFrameTokens = &n; return r }

func blank(r *record.Request, at ...int) *record.Request { r.BlankFrames = at; return r }

// vLLM pools the gaps of all requests: one stall in many gaps is nothing at the median of the pool.
func TestPooled(t *testing.T) {
	a := armOf(began(decodeOf(10, 60, ""), 0), began(decodeOf(20, 61, ""), 0))
	ms := Arm(a, nil, Inputs{})
	want(t, of(t, ms, "vllm_pooled_itl_p50_ms", ""), 20) // 59 gaps of 10, 60 of 20
	want(t, of(t, ms, "vllm_itl_ms", ""), 15)            // the median of 10 and 20
	want(t, of(t, ms, "vllm_pooled_itl_p99_ms", ""), 20)
	a.Requests[0].LastChoiceNS = nil
	wantNil(t, of(t, Arm(a, nil, Inputs{}), "vllm_pooled_itl_p50_ms", ""), "not noted")
}

func TestSurvivorsAreLabelled(t *testing.T) {
	bad := decodeOf(10, 60, "")
	bad.Status, bad.Error = "cut", "gone"
	ms := Arm(armOf(decodeOf(10, 60, ""), bad, decodeOf(10, 60, "")), nil, Inputs{})
	m := of(t, ms, "decode_tok_s", "")
	if m.Value == nil || !strings.Contains(m.Rule, "survivors only: 1 of 3 measured requests did not end ok") {
		t.Errorf("got %v by %q", show(m.Value), m.Rule)
	}
	want(t, of(t, ms, "error_rate_pct", ""), 100./3)
}

// The load, by hand: two requests of 100 tokens, one from 0 to 1 s and one from 0 to 2 s.
func TestLoadMetrics(t *testing.T) {
	one, two := decodeOf(9, 101, ""), decodeOf(19, 101, "")
	for _, r := range []*record.Request{one, two} {
		r.StartNS, r.DoneNS = at(0), r.LastContentNS
	}
	a := armOf(one, two)
	cpu, lag, most := .02, 1500., 1.
	a.Load = &record.Load{Asked: 2, WindowNS: 2e9, SteadyNS: 1e9, InFlightMean: 1.5, InFlightMax: 2, CPUSeconds: &cpu, LagP99US: &lag, ProbeUS: []int64{300, 100, 200}}
	ms := Arm(a, nil, Inputs{})
	want(t, of(t, ms, "throughput_tok_s", ""), 101)
	want(t, of(t, ms, "ramp_pct", ""), 50)
	want(t, of(t, ms, "requests_per_s", ""), 1)
	want(t, of(t, ms, "in_flight_pct", ""), 100)
	want(t, of(t, ms, "client_cpu_pct", ""), 1)
	want(t, of(t, ms, "client_cpu_us_per_frame", ""), .02e6/202)
	want(t, of(t, ms, "client_cpu_s_per_ktok", ""), .02/.202)
	want(t, of(t, ms, "client_lag_p99_ms", ""), 1.5)
	want(t, of(t, ms, "net_rtt_ms", ""), .2)
	want(t, of(t, ms, "net_rtt_spread_ms", ""), .2)
	wantNil(t, of(t, ms, "schedule_lag_p99_ms", ""), "no schedule")
	// Both at once from 0 to 1 s: 101 tokens of the first (100 to 1000 ms), of the second those up to 1000 ms:
	// 100 + 19 i ≤ 1000, 48 of them.
	want(t, of(t, ms, "steady_throughput_tok_s", ""), 101+48)
	a.Load.ServerMax, a.Load.ServerSeries = &most, "running"
	want(t, of(t, Arm(a, nil, Inputs{}), "in_flight_pct", ""), 50)
	a.Load = &record.Load{WindowNS: 2e9, SteadyNS: 2e9}
	a.Requests[0].ScheduledNS, a.Requests[1].ScheduledNS = at(-5), at(0)
	ms = Arm(a, nil, Inputs{})
	want(t, of(t, ms, "schedule_lag_p99_ms", ""), 4.95)
	want(t, of(t, ms, "response_ms", ""), (1005+2000)/2.) // 1000+5 and 2000
	wantNil(t, of(t, ms, "in_flight_pct", ""), "open loop")
	wantNil(t, of(t, ms, "client_cpu_pct", ""), "does not say")
}

// A recount is no proof against two counters of the engine; against usage alone it is.
func TestRecountIsNoProof(t *testing.T) {
	r := decodeOf(10, 100, "")
	r.Counts = []record.Count{{Source: "tokenize", What: "completion", N: 70}}
	if _, why := disagreement(r, "completion"); !strings.Contains(why, "tokenize 70") {
		t.Errorf("usage alone: got %q", why)
	}
	r.Counts = append(r.Counts, record.Count{Source: "timings", What: "completion", N: 100})
	if _, why := disagreement(r, "completion"); why != "" {
		t.Errorf("confirmed: got %q", why)
	}
	r.Counts[0].N = 130
	if _, why := disagreement(r, "completion"); why != "" {
		t.Errorf("from above: got %q", why)
	}
	r.Counts = r.Counts[:1]
	if _, why := disagreement(r, "completion"); !strings.Contains(why, "tokenize 130") {
		t.Errorf("from above, usage alone: got %q", why)
	}
}
