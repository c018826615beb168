package metric

// What other tools print, under their names, from the same raw stamps. Tools that share a word do not
// share its meaning: vLLM's TTFT takes the first message with choices, even one with the role alone;
// GuideLLM's TPOT holds the prefill; llmperf's ITL is the whole time over chunks. So a published number is
// matched by its own definition only, never by a similar word.
//
// Symbols: s is the start of the request (before it was written, which is where these tools start their
// watches), m_i the arrival of the i-th message that has choices, c_i of the i-th with tokens, K their
// number, e the end of the stream, N the output tokens.

import (
	"fmt"
	"sort"

	"flow/workflows/record"
)

// compatDef is a metric of another tool.
type compatDef struct {
	Def
	of      func(*view) value
	counted bool // depends on N: withheld when the counts disagree
}

const clock = "client clock"

// compatDefs: the value of an arm is the median of its measured requests.
var compatDefs = []compatDef{
	{Def{"vllm_ttft_ms", ms, lower, "m_1 − s: the first message with choices, even a role-only or empty one", clock}, func(v *view) value { return v.since(v.r.FirstChoiceNS) }, false},
	{Def{"vllm_itl_ms", ms, lower, "mean of m_i − m_(i−1) of one request: between messages, which are not tokens", clock}, (*view).vllmITL, false},
	{Def{"vllm_tpot_ms", ms, lower, "(E2E − TTFT) / (N − 1), of vLLM's own E2E and TTFT; none for N ≤ 1", clock}, (*view).vllmTPOT, true},
	{Def{"vllm_e2e_ms", ms, lower, "m_last − s: the last message with choices, the usage message left out", clock}, func(v *view) value { return v.since(v.r.LastChoiceNS) }, false},
	{Def{"sglang_ttft_ms", ms, lower, "c_1 − s", clock}, func(v *view) value { return v.since(v.first()) }, false},
	{Def{"sglang_itl_ms", ms, lower, "mean of c_i − c_(i−1) of one request", clock}, (*view).icl, false},
	{Def{"sglang_tpot_ms", ms, lower, "(e − c_1) / (N − 1)", clock}, func(v *view) value { return v.perToken(v.first(), v.end(), v.n-1) }, true},
	{Def{"guidellm_ttft_ms", ms, lower, "c_1 − s, reasoning included", clock}, func(v *view) value { return v.since(v.first()) }, false},
	{Def{"guidellm_ttfot_ms", ms, lower, "first content that is no reasoning − s", clock}, func(v *view) value { return v.since(v.r.FirstContentNS) }, false},
	{Def{"guidellm_itl_ms", ms, lower, "(c_K − c_1) / (N − 1)", clock}, func(v *view) value { return v.perToken(v.first(), v.r.LastContentNS, v.n-1) }, true},
	{Def{"guidellm_tpot_ms", ms, lower, "(c_K − s) / N: includes the prefill", clock}, func(v *view) value { return v.perToken(v.s, v.r.LastContentNS, v.n) }, true},
	{Def{"guidellm_latency_ms", ms, lower, "e − s", clock}, func(v *view) value { return v.since(v.end()) }, false},
	{Def{"aiperf_ttft_ms", ms, lower, "c_1 − s", clock}, func(v *view) value { return v.since(v.first()) }, false},
	{Def{"aiperf_ttst_ms", ms, lower, "c_2 − c_1", clock}, (*view).second, false},
	{Def{"aiperf_ttfo_ms", ms, lower, "first content that is no reasoning − s", clock}, func(v *view) value { return v.since(v.r.FirstContentNS) }, false},
	{Def{"aiperf_icl_ms", ms, lower, "mean of c_i − c_(i−1) of one request: inter-chunk latency", clock}, (*view).icl, false},
	{Def{"aiperf_itl_ms", ms, lower, "(c_K − c_1) / (N − 1)", clock}, func(v *view) value { return v.perToken(v.first(), v.r.LastContentNS, v.n-1) }, true},
	{Def{"aiperf_chunk_usage_itl_ms", ms, lower, "(c_K − c_1) / (N − tokens of the first chunk), with usage in every chunk", clock}, (*view).chunkUsage, true},
	{Def{"aiperf_latency_ms", ms, lower, "c_K − s", clock}, func(v *view) value { return v.since(v.r.LastContentNS) }, false},
	{Def{"inference_perf_ttft_ms", ms, lower, "c_1 − s", clock}, func(v *view) value { return v.since(v.first()) }, false},
	{Def{"inference_perf_tpot_ms", ms, lower, "(E2E − TTFT) / (N − 1), E2E = e − s", clock}, func(v *view) value { return v.perToken(v.first(), v.end(), v.n-1) }, true},
	{Def{"inference_perf_ntpot_ms", ms, lower, "E2E / N", clock}, func(v *view) value { return v.perToken(v.s, v.end(), v.n) }, true},
	{Def{"inference_benchmarker_itl_ms", ms, lower, "Σ gaps from the second on / (N − 1)", clock}, func(v *view) value { return v.perToken(v.first(), v.r.LastContentNS, v.n-1) }, true},
	{Def{"llmperf_ttft_ms", ms, lower, "c_1 − s", clock}, func(v *view) value { return v.since(v.first()) }, false},
	{Def{"llmperf_itl_ms", ms, lower, "Σ of all gaps, TTFT included, / K: the whole time over chunks", clock}, func(v *view) value { return v.perToken(v.s, v.r.LastContentNS, v.r.ContentFrames) }, false},
	{Def{"llama_benchy_ttfr_ms", ms, lower, "m_1 − s", clock}, func(v *view) value { return v.since(v.r.FirstChoiceNS) }, false},
	{Def{"llama_benchy_tg_tok_s", tokS, higher, "(K − 1) / (e − c_1) as its code has it: chunks, up to the close of the stream", clock}, (*view).benchy, false},
	{Def{"llama_bench_tg_tok_s", tokS, higher, "as many tokens as steps: (N − n) / (c_K − c_1), n the tokens of the first chunk. llama-bench has no HTTP, sampling or tokens to text", clock}, nil, true},
	{Def{"ollama_eval_tok_s", tokS, higher, "eval_count / eval_duration, as Ollama prints it", "server timings"}, (*view).evalRate, false},
	{Def{"mlperf_latency_ms", ms, lower, "completion − scheduled time; in a closed loop there is no schedule", clock}, func(v *view) value { return span(v.r.ScheduledNS, v.end(), "a scheduled time", "the end") }, false},
}

// pooledDefs are over all gaps of an arm together, as vLLM prints its ITL.
var pooledDefs = []struct {
	Def
	at float64
}{
	{Def{"vllm_pooled_itl_p50_ms", ms, lower, "median of m_i − m_(i−1), all measured requests pooled", clock}, .5},
	{Def{"vllm_pooled_itl_p99_ms", ms, lower, "99th percentile of m_i − m_(i−1), all measured requests pooled", clock}, .99},
}

// view is a request as other tools look at it.
type view struct {
	r *record.Request
	s *int64
	n int // N, 0 where nobody says
}

func look(r *record.Request) *view {
	v := &view{r: r, s: r.StartNS}
	if v.s == nil {
		v.s = r.SentNS
	}
	if r.CompletionTokens != nil {
		v.n = *r.CompletionTokens
	}
	return v
}

func (v *view) first() *int64 { return firstToken(v.r) }

// end of the stream: [DONE], else the close, else the last frame with tokens.
func (v *view) end() *int64 {
	for _, at := range []*int64{v.r.DoneNS, v.r.CloseNS} {
		if at != nil {
			return at
		}
	}
	return v.r.LastContentNS
}

func (v *view) since(at *int64) value { return span(v.s, at, "the start", "what it waits for") }

func (v *view) perToken(from, to *int64, n int) value {
	d := span(from, to, "the beginning", "the end")
	switch {
	case d.v == nil:
		return d
	case v.n == 0 && n <= 0:
		return missing("no count of the completion's tokens")
	case n < 1:
		return missing("one token: nothing to divide by")
	}
	return number(*d.v/float64(n), "")
}

func (v *view) vllmTPOT() value {
	if v.r.LastChoiceNS == nil {
		return missing("the last message with choices was not noted")
	}
	return v.perToken(v.r.FirstChoiceNS, v.r.LastChoiceNS, v.n-1)
}

// choiceGaps is the milliseconds between messages with choices.
func choiceGaps(r *record.Request) (gaps []float64, why string) {
	if len(r.ArrivalsUS) == 0 {
		return nil, "arrivals of frames were not recorded"
	}
	if r.LastChoiceNS == nil {
		return nil, "which frames had choices was not noted"
	}
	other := map[int]bool{}
	for _, i := range r.OtherFrames {
		other[i] = true
	}
	var at, last int64
	seen := false
	for i, d := range r.ArrivalsUS {
		at += d
		if other[i] {
			continue
		}
		if seen {
			gaps = append(gaps, float64(at-last)/1e3)
		}
		seen, last = true, at
	}
	if len(gaps) == 0 {
		return nil, "fewer than two messages with choices"
	}
	return gaps, ""
}

func (v *view) vllmITL() value {
	gaps, why := choiceGaps(v.r)
	if why != "" {
		return missing(why)
	}
	return number(mean(gaps), "")
}

func (v *view) icl() value {
	at, _, why := contentUS(v.r)
	switch {
	case why != "":
		return missing(why)
	case len(at) < 2:
		return missing("fewer than two token-bearing frames")
	}
	return number(float64(at[len(at)-1]-at[0])/1e3/float64(len(at)-1), "")
}

func (v *view) second() value {
	at, lead, why := contentUS(v.r)
	switch {
	case why != "":
		return missing(why)
	case len(at) < 2:
		return missing("fewer than two token-bearing frames")
	case !lead:
		return missing("frames of the first read cannot be told apart")
	}
	return number(float64(at[1]-at[0])/1e3, "")
}

func (v *view) chunkUsage() value {
	if v.r.FirstFrameTokens == nil {
		return missing("the engine does not say the tokens of its first chunk")
	}
	return v.perToken(v.first(), v.r.LastContentNS, v.n-*v.r.FirstFrameTokens)
}

func (v *view) benchy() value {
	d := span(v.first(), v.end(), "a token-bearing frame", "the end")
	if d.v == nil {
		return d
	}
	if v.r.ContentFrames < 2 {
		return missing("fewer than two token-bearing frames")
	}
	return number(float64(v.r.ContentFrames-1)/(*d.v/1e3), "")
}

func (v *view) evalRate() value {
	if n, t := v.r.ServerDecodeN, v.r.ServerDecodeMS; n != nil && t != nil && *t > 0 {
		return number(float64(*n)/(*t/1e3), "")
	}
	return missing("the server gave no timings")
}

// Compatible is one request in the definitions of other tools.
func Compatible(r *record.Request) []record.Metric {
	v := look(r)
	_, apart := disagreement(r, "completion")
	if r.Status != "ok" {
		apart = "the request did not end ok"
	}
	out := make([]record.Metric, 0, len(compatDefs))
	for _, d := range compatDefs {
		var x value
		if d.of != nil {
			x = d.of(v)
		} else {
			x = sameAsDecode(r)
		}
		if d.counted && apart != "" && x.v != nil {
			x.withheld, x.why = true, apart
		}
		m := x.metric(d.Def)
		m.Case = r.Case
		out = append(out, m)
	}
	return out
}

func sameAsDecode(r *record.Request) value {
	vals := map[string]value{}
	rates(r, vals)
	return vals["decode_tok_s"]
}

// compatible is the medians of a case's measured requests, and what is pooled.
func compatible(a *record.Arm, c string) []record.Metric {
	of := map[string][]record.Metric{}
	var pooled []float64
	tally := survivors(a, c)
	pooledWhy := ""
	for i := range a.Requests {
		r := &a.Requests[i]
		if r.Mark != record.MarkMeasured || r.Case != c || r.Status != "ok" {
			continue
		}
		for _, m := range Compatible(r) {
			of[m.Name] = append(of[m.Name], m)
		}
		gaps, why := choiceGaps(r)
		if why != "" && pooledWhy == "" {
			pooledWhy = why
		}
		pooled = append(pooled, gaps...)
	}
	var out []record.Metric
	for _, d := range compatDefs {
		m := medianOf(of[d.Name], tally).metric(d.Def)
		m.Case = c
		out = append(out, m)
	}
	sort.Float64s(pooled)
	for _, d := range pooledDefs {
		x := missing(pooledWhy)
		switch {
		case tally.ok == 0:
			x = missing("no measured request ended ok")
		case pooledWhy != "":
		case d.at == .99 && len(pooled) < 100:
			x = missing(fmt.Sprintf("p99 needs 100 gaps, got %d", len(pooled)))
		default:
			x = number(percentile(pooled, d.at), "all gaps pooled, as numpy interpolates"+tally.words())
			x.n = len(pooled)
		}
		m := x.metric(d.Def)
		m.Case = c
		out = append(out, m)
	}
	return out
}

func mean(xs []float64) float64 {
	total := 0.0
	for _, x := range xs {
		total += x
	}
	return total / float64(len(xs))
}
