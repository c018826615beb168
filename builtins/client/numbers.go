package client

import (
	"encoding/json"
	"math"

	"flow/workflows/record"
)

// usageFields is what of `usage` is read. A pointer: absent is unknown, never 0.
type usageFields struct {
	Prompt     *int `json:"prompt_tokens"`
	Completion *int `json:"completion_tokens"`
	PromptOf   *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionOf *struct {
		Reasoning *int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// timingFields is what of llama.cpp's `timings` is read. Progress frames have nulls in it.
type timingFields struct {
	CacheN    *float64 `json:"cache_n"`
	PromptN   *float64 `json:"prompt_n"`
	PromptMS  *float64 `json:"prompt_ms"`
	DecodeN   *float64 `json:"predicted_n"`
	DecodeMS  *float64 `json:"predicted_ms"`
	DecodeTok *float64 `json:"predicted_per_second"`
	Drafts    *float64 `json:"draft_n"`
	Accepted  *float64 `json:"draft_n_accepted"`

	// Ollama's last line: counts, and durations in nanoseconds.
	EvalCount   *float64 `json:"eval_count"`
	EvalNS      *float64 `json:"eval_duration"`
	PromptCount *float64 `json:"prompt_eval_count"`
	PromptNS    *float64 `json:"prompt_eval_duration"`
}

// ollama puts Ollama's numbers where llama.cpp's stand. What it prints as its rate is count over duration.
func (t *timingFields) ollama() {
	ms := func(ns *float64) *float64 {
		if ns == nil {
			return nil
		}
		v := *ns / 1e6
		return &v
	}
	t.PromptN, t.PromptMS, t.DecodeN, t.DecodeMS = t.PromptCount, ms(t.PromptNS), t.EvalCount, ms(t.EvalNS)
	if t.EvalCount != nil && t.EvalNS != nil && *t.EvalNS > 0 {
		v := *t.EvalCount / *t.EvalNS * 1e9
		t.DecodeTok = &v
	}
}

// tally is a count, nil for what is none.
func tally(v *float64) *int {
	if v == nil || *v < 0 || *v != math.Trunc(*v) || *v > 1e15 {
		return nil
	}
	n := int(*v)
	return &n
}

// numbers fills in the counts, from every source there is.
func (a *answer) numbers() {
	row := &a.row
	add := func(source, what string, n *int) {
		if n != nil {
			row.Counts = append(row.Counts, record.Count{Source: source, What: what, N: *n})
		}
	}
	first := func(to **int, n *int) {
		if *to == nil {
			*to = n
		}
	}
	if a.rawUsage != nil {
		row.Usage = string(a.rawUsage)
		var u usageFields
		if err := json.Unmarshal(a.rawUsage, &u); err != nil {
			a.warn("usage could not be read: %v", err)
			u = usageFields{}
		}
		add("usage", "prompt", u.Prompt)
		add("usage", "completion", u.Completion)
		first(&row.PromptTokens, u.Prompt)
		first(&row.CompletionTokens, u.Completion)
		if u.PromptOf != nil {
			add("usage", "cached", u.PromptOf.Cached)
			first(&row.CachedTokens, u.PromptOf.Cached)
		}
		if u.CompletionOf != nil {
			row.ReasoningTokens = u.CompletionOf.Reasoning
		}
	}
	if a.native && a.ended {
		known := func(n int) *int {
			if n < 0 {
				return nil
			}
			return &n
		}
		// llama.cpp's own API has no usage object; these two fields are its usage.
		add("usage", "prompt", known(a.evaluated))
		add("usage", "completion", known(a.predicted))
		first(&row.PromptTokens, known(a.evaluated))
		first(&row.CompletionTokens, known(a.predicted))
	}
	a.timings(add, first)
	if row.ContentFrames > 0 {
		add("frames", "completion", &row.ContentFrames)
	}
	if len(a.tokens) > 0 {
		row.FirstFrameTokens = &a.tokens[0]
		if a.unknown {
			row.FirstFrameTokens = nil
		} else {
			row.FrameTokens = a.tokens
		}
	}
}

// timings reads the server's own figures.
func (a *answer) timings(add func(source, what string, n *int), first func(to **int, n *int)) {
	if a.rawTimes == nil {
		return
	}
	row := &a.row
	row.Timings = string(a.rawTimes)
	var t timingFields
	if err := json.Unmarshal(a.rawTimes, &t); err != nil {
		a.warn("timings could not be read: %v", err)
		return
	}
	if a.ollama {
		t.ollama()
	}
	row.DraftTokens, row.DraftAccepted = tally(t.Drafts), tally(t.Accepted)
	row.ServerDecodeTokS, row.ServerPromptMS, row.ServerDecodeMS = t.DecodeTok, t.PromptMS, t.DecodeMS
	row.ServerPromptN, row.ServerDecodeN = tally(t.PromptN), tally(t.DecodeN)
	if !a.ended {
		return // what they say so far is no count of the answer
	}
	cached := tally(t.CacheN)
	var prompt *int
	if n := row.ServerPromptN; n != nil && cached != nil { // prompt_n leaves cached tokens out
		sum := *n + *cached
		prompt = &sum
	} else if a.ollama {
		prompt = row.ServerPromptN // nothing else says how long the prompt was
	}
	add("timings", "prompt", prompt)
	add("timings", "completion", row.ServerDecodeN)
	add("timings", "cached", cached)
	first(&row.PromptTokens, prompt)
	first(&row.CompletionTokens, row.ServerDecodeN)
	first(&row.CachedTokens, cached)
}
