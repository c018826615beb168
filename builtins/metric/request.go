package metric

import (
	"fmt"

	"flow/workflows/record"
)

// Request is every metric of one request, in the order of Names: the value, or nil with the reason. Times
// of a failed request stand, its rates are withheld.
func Request(r *record.Request) []record.Metric {
	vals := map[string]value{}
	times(r, vals)
	rates(r, vals)
	gaps(r, vals)
	server(r, vals)
	counts(r, vals)
	withhold(r, vals)
	out := make([]record.Metric, 0, len(requestDefs))
	for _, d := range requestDefs {
		m := vals[d.Name].metric(d)
		m.Case = r.Case
		out = append(out, m)
	}
	return out
}

// span is the milliseconds from a to b.
func span(a, b *int64, from, to string) value {
	switch {
	case a == nil:
		return missing(from + " was not seen")
	case b == nil:
		return missing(to + " was not seen")
	case *b < *a:
		return missing(to + " came before " + from)
	}
	return number(float64(*b-*a)/1e6, "")
}

func times(r *record.Request, vals map[string]value) {
	const sent, last = "the end of sending", "a token-bearing frame"
	vals["ttft_ms"] = span(r.SentNS, firstToken(r), sent, last)
	vals["ttft_content_ms"] = span(r.SentNS, r.FirstContentNS, sent, "a frame with content")
	vals["ttfr_ms"] = span(r.SentNS, r.FirstChoiceNS, sent, "a message with choices")
	vals["e2e_ms"] = span(r.SentNS, r.LastContentNS, sent, last)
	tail := span(r.LastContentNS, r.DoneNS, last, "[DONE]")
	if r.DoneNS == nil {
		tail = span(r.LastContentNS, r.CloseNS, last, "the close")
		tail.rule = "to the close: no [DONE]"
	}
	vals["tail_ms"] = tail
	vals["response_ms"] = span(r.ScheduledNS, r.LastContentNS, "a scheduled time", last)
	vals["schedule_lag_ms"] = span(r.ScheduledNS, r.StartNS, "a scheduled time", "the start")
	vals["send_ms"] = span(r.StartNS, r.SentNS, "the start", sent)
	vals["first_frame_gap_ms"] = span(r.FirstChoiceNS, firstToken(r), "a message with choices", last)
	vals["ttft_over_server_ms"] = missing("the server gave no timings")
	if t, s := vals["ttft_ms"].v, r.ServerPromptMS; t != nil && s != nil && *s > 0 {
		vals["ttft_over_server_ms"] = number(*t-*s, "")
	}
}

// rates are tokens over client time. They say by a rule what was assumed.
func rates(r *record.Request, vals map[string]value) {
	const noCount = "no count of the completion's tokens: no usage and no other source"
	first, last := firstToken(r), r.LastContentNS
	vals["prefill_tok_s"] = prefill(r)
	for _, name := range []string{"decode_tok_s", "generation_tok_s", "steady_tok_s"} {
		switch {
		case first == nil || last == nil || r.SentNS == nil:
			vals[name] = missing("no token-bearing frame arrived")
		case r.CompletionTokens == nil || *r.CompletionTokens <= 0:
			vals[name] = missing(noCount)
		}
	}
	if _, bad := vals["decode_tok_s"]; !bad {
		vals["decode_tok_s"] = decode(r, *first, *last)
		g := rate(float64(*r.CompletionTokens), *last-*r.SentNS, "")
		vals["generation_tok_s"] = g
	}
	at, lead, why := contentUS(r)
	switch {
	case why == "" && len(at) < 2:
		why = "one token-bearing frame only: no decode step"
	case why == "" && !lead:
		why = "frames of the first read cannot be told apart"
	case why == "" && at[1]-at[0] <= 1:
		why = "the second token-bearing frame came in the read of the first"
	case why == "" && len(at) > 2 && at[2]-at[1] <= 1:
		why = "the second token-bearing frame came in one read with the third: when is not known"
	}
	if why != "" {
		vals["first_decode_step_ms"] = missing(why)
		if _, bad := vals["steady_tok_s"]; !bad {
			vals["steady_tok_s"] = missing(why)
		}
		return
	}
	vals["first_decode_step_ms"] = number(float64(at[1]-at[0])/1e3, "")
	if _, bad := vals["steady_tok_s"]; !bad {
		vals["steady_tok_s"] = steady(r, at)
	}
}

// decode is (N − n) / (t_last − t_first). The stamp of a read is that of its last frame, so where the first
// read brought several token-bearing frames n is the tokens of all of them.
func decode(r *record.Request, first, last int64) value {
	k := firstRead(r)
	n, rule := k, fmt.Sprintf("n = %d: tokens of the first frame unknown", k)
	if per, how := frameTokens(r); per != nil {
		n = sum(per[:k])
		rule = fmt.Sprintf("n = %d: %s", n, how)
	} else if r.FirstFrameTokens != nil {
		n = *r.FirstFrameTokens + k - 1
		rule = fmt.Sprintf("n = %d as the engine says", n)
	}
	if k > 1 {
		rule += fmt.Sprintf("; %d frames in the first read", k)
	}
	left := *r.CompletionTokens - n
	if endTokens(r) == 1 {
		left--
		rule += "; an end token without a frame is not counted"
	}
	if left <= 0 || last <= first {
		return missing("all tokens came in one frame or read: no decode interval")
	}
	return rate(float64(left), last-first, rule)
}

// steady leaves the first decode step out: the tokens after the second frame over the time after it.
func steady(r *record.Request, at []int64) value {
	left, rule := *r.CompletionTokens-2, "the first two frames count one token each: their tokens are unknown"
	if per, how := frameTokens(r); len(per) >= 2 {
		left, rule = *r.CompletionTokens-per[0]-per[1], how
	} else if r.FirstFrameTokens != nil {
		left, rule = *r.CompletionTokens-*r.FirstFrameTokens-1, "the second frame counts one token: its tokens are unknown"
	}
	left -= endTokens(r)
	us := at[len(at)-1] - at[1]
	if left <= 0 || us <= 0 {
		return missing("nothing is left after the first decode step")
	}
	return rate(float64(left), us*1000, rule)
}

func prefill(r *record.Request) value {
	first := firstToken(r)
	switch {
	case first == nil || r.SentNS == nil || *first <= *r.SentNS:
		return missing("no token-bearing frame arrived")
	case r.PromptTokens == nil:
		return missing("no count of the prompt's tokens: no usage and no other source")
	}
	n, rule := *r.PromptTokens, "all prompt tokens: cached ones are unknown"
	if r.CachedTokens != nil {
		n, rule = n-*r.CachedTokens, fmt.Sprintf("without %d cached", *r.CachedTokens)
	}
	if n <= 0 {
		return missing("the whole prompt came from the cache")
	}
	return rate(float64(n), *first-*r.SentNS, rule)
}

func rate(n float64, ns int64, rule string) value {
	if ns <= 0 {
		return missing("no time passed")
	}
	return number(n/(float64(ns)/1e9), rule)
}

// gaps are the percentiles between frames, and between tokens where their frames are known.
func gaps(r *record.Request, vals map[string]value) {
	at, _, why := contentUS(r)
	between := gapsMS(at)
	zero := 0
	for _, g := range between {
		if g < .0015 {
			zero++
		}
	}
	shared := ""
	if zero > 0 {
		shared = fmt.Sprintf("%d of %d frames came in the read of the one before", zero, len(between))
	}
	spread(vals, "icl", between, why, shared)
	per, how := frameTokens(r)
	switch {
	case why != "":
		spread(vals, "itl", nil, why, "")
	case per == nil:
		spread(vals, "itl", nil, "tokens per frame are unknown: see icl", "")
	default:
		spread(vals, "itl", perTokenMS(at, per), "", how)
		// Tokens that arrive together have no times of their own: the spread is kept, but not as a fact.
		switch {
		case sum(per[1:]) > len(per)-1:
			doubt(vals, "frames carry several tokens: the time between those is not known; see icl")
		case float64(zero) > maxShared*float64(len(between)):
			doubt(vals, shared+": the time between those is not known; see icl")
		}
	}
}

// maxShared is the share of frames that may have come in the read of another before the times between
// tokens are no longer a fact: a busy machine wakes the reader late.
const maxShared = .05

func doubt(vals map[string]value, why string) {
	for _, p := range []string{"p50", "p95", "p99"} {
		if v := vals["itl_"+p+"_ms"]; v.v != nil {
			v.withheld, v.why = true, why
			vals["itl_"+p+"_ms"] = v
		}
	}
}

// spread fills the three percentiles of sorted gaps. A percentile needs one gap beyond it.
func spread(vals map[string]value, name string, sorted []float64, why, rule string) {
	for _, p := range []struct {
		name  string
		at    float64
		least int
	}{{"p50", .5, 1}, {"p95", .95, 20}, {"p99", .99, 100}} {
		v := missing(why)
		switch {
		case why != "":
		case len(sorted) == 0:
			v = missing("fewer than two token-bearing frames")
		case len(sorted) < p.least:
			v = missing(fmt.Sprintf("%s needs %d gaps, got %d", p.name, p.least, len(sorted)))
		default:
			if v = number(percentile(sorted, p.at), rule); v.v != nil && *v.v < .0015 {
				v = missing("nothing to tell apart: " + rule)
			}
		}
		v.n = len(sorted)
		vals[name+"_"+p.name+"_ms"] = v
	}
}

// server is what the server says of itself. Conventions differ: llama.cpp's decode time begins with the
// first token, so it holds one step less than tokens (n − 1); Strata's begins with the end of the prompt
// and holds a step for each (n). The interval tells: one that is longer than the client's by more than
// half a step holds the first token's step as well.
func server(r *record.Request, vals map[string]value) {
	const none = "the server gave no timings"
	vals["server_decode_printed_tok_s"] = missing("the server printed no rate")
	if r.ServerDecodeTokS != nil && *r.ServerDecodeTokS > 0 {
		vals["server_decode_printed_tok_s"] = number(*r.ServerDecodeTokS, "as printed")
	}
	vals["server_decode_tok_s"] = missing(none)
	if n, t := r.ServerDecodeN, r.ServerDecodeMS; n != nil && t != nil {
		vals["server_decode_tok_s"] = serverDecode(r, *n, *t)
	}
	vals["server_prompt_ms"], vals["server_prefill_tok_s"] = missing(none), missing(none)
	if t := r.ServerPromptMS; t != nil && *t > 0 {
		vals["server_prompt_ms"] = number(*t, "")
		vals["server_prefill_tok_s"] = missing("the server does not say how many prompt tokens it read")
		if n := r.ServerPromptN; n != nil && *n > 0 {
			vals["server_prefill_tok_s"] = number(float64(*n)/(*t/1e3), "tokens read, cached ones left out")
		}
	}
}

func serverDecode(r *record.Request, n int, t float64) value {
	if n < 2 || t <= 0 {
		return missing("one token: no decode interval")
	}
	steps, rule := n-1, "(n − 1) tokens: the interval begins with the first token"
	if first, last := firstToken(r), r.LastContentNS; first != nil && last != nil && *last > *first {
		client := float64(*last-*first) / 1e6
		between := n - 1
		if endTokens(r) == 1 {
			between-- // the client saw no frame for the end token, so its interval holds a step less
			client *= float64(between+1) / float64(max(between, 1))
		}
		if step := client / float64(n-1); between > 0 && t-client > step/2 {
			steps, rule = n, "n tokens: the interval begins with the end of the prompt"
		}
	}
	return number(float64(steps)/(t/1e3), rule)
}

func counts(r *record.Request, vals map[string]value) {
	put := func(name, what string, n *int) {
		vals[name] = missing("the server does not say " + what)
		if n != nil {
			vals[name] = number(float64(*n), "")
		}
	}
	put("prompt_tokens", "how many prompt tokens there were", r.PromptTokens)
	put("completion_tokens", "how many tokens it generated", r.CompletionTokens)
	put("cached_tokens", "how many prompt tokens were cached", r.CachedTokens)
	vals["frames_per_token"] = missing("the server does not say how many tokens it generated")
	if n := r.CompletionTokens; n != nil && *n-endTokens(r) > 0 && r.ContentFrames > 0 {
		vals["frames_per_token"] = number(float64(r.ContentFrames)/float64(*n-endTokens(r)), "")
	}
	vals["draft_accept_pct"] = missing("the server names no speculated tokens")
	if d, k := r.DraftTokens, r.DraftAccepted; d != nil && k != nil && *d > 0 {
		vals["draft_accept_pct"] = number(100*float64(*k)/float64(*d), "")
	}
	gap, _ := disagreement(r, "completion")
	if why := impossible(r, countsOf(r, "completion")); why != "" {
		for _, name := range []string{"completion_tokens", "frames_per_token"} {
			if v := vals[name]; v.v != nil {
				v.withheld, v.why = true, why
				vals[name] = v
			}
		}
		vals["token_count_gap_pct"] = missing(why)
		return
	}
	if gap == nil {
		vals["token_count_gap_pct"] = missing("one source of the count only")
		return
	}
	vals["token_count_gap_pct"] = number(*gap*100, "")
}

// withhold takes back rates that rest on counts that disagree, and all rates of a failed request.
func withhold(r *record.Request, vals map[string]value) {
	why := map[string]string{}
	for _, what := range []string{"completion", "prompt"} {
		_, why[what] = disagreement(r, what)
	}
	failed := ""
	if r.Status != "ok" {
		if failed = "the request did not end ok"; r.Error != "" {
			failed += ": " + r.Error
		}
	}
	for name, what := range countedBy {
		v := vals[name]
		reason := why[what]
		if failed != "" {
			reason = failed
		}
		if reason == "" {
			continue
		}
		if v.v != nil {
			v.withheld, v.why = true, reason
		}
		vals[name] = v
	}
}
