package metric

// The built-in metrics, each with its definition in one line: the one place where a name, its unit and
// its direction are said. The order is the order in which they are printed.

// requestDefs are the metrics of one request. An arm's value is the median of its measured requests.
var requestDefs = []Def{
	{"decode_tok_s", tokS, higher, "(completion tokens − n) / (last − first token-bearing frame), n the tokens of the first such frame (1 where unknown)", "client clock, usage"},
	{"generation_tok_s", tokS, higher, "completion tokens / (last token-bearing frame − request sent): the whole generation, prefill included", "client clock, usage"},
	{"steady_tok_s", tokS, higher, "decode rate without the first decode step: tokens after the second token-bearing frame / (last − second)", "client clock, usage"},
	{"prefill_tok_s", tokS, higher, "(prompt tokens − cached ones) / ttft", "client clock, usage"},
	{"ttft_ms", ms, lower, "request sent to the first token-bearing frame, reasoning included", "client clock"},
	{"ttft_content_ms", ms, lower, "request sent to the first frame with content, reasoning left out", "client clock"},
	{"ttfr_ms", ms, lower, "request sent to the first message with choices, even an empty or role-only one", "client clock"},
	{"first_decode_step_ms", ms, lower, "first to second token-bearing frame", "client clock"},
	{"e2e_ms", ms, lower, "request sent to the last token-bearing frame", "client clock"},
	{"tail_ms", ms, lower, "last token-bearing frame to [DONE], or to the close of a stream without one", "client clock"},
	{"itl_p50_ms", ms, lower, "median time between tokens, only where the tokens of every frame are known", "client clock"},
	{"itl_p95_ms", ms, lower, "95th percentile of the time between tokens; needs 20 of them", "client clock"},
	{"itl_p99_ms", ms, lower, "99th percentile of the time between tokens; needs 100 of them", "client clock"},
	{"icl_p50_ms", ms, lower, "median time between token-bearing frames, which are not tokens", "client clock"},
	{"icl_p95_ms", ms, lower, "95th percentile of the time between token-bearing frames; needs 20 of them", "client clock"},
	{"icl_p99_ms", ms, lower, "99th percentile of the time between token-bearing frames; needs 100 of them", "client clock"},
	{"server_decode_tok_s", tokS, higher, "the server's own token count and decode time on the client's convention: as many tokens as steps", "server timings"},
	{"server_decode_printed_tok_s", tokS, higher, "the server's decode rate as it prints it, on its own convention", "server timings"},
	{"server_prefill_tok_s", tokS, higher, "prompt tokens that the server read / its time for them", "server timings"},
	{"server_prompt_ms", ms, lower, "the server's time for the prompt", "server timings"},
	{"prompt_tokens", tokens, "", "tokens of the prompt, cached ones included", "usage"},
	{"completion_tokens", tokens, "", "tokens of the completion, reasoning included", "usage"},
	{"cached_tokens", tokens, "", "prompt tokens that came from a cache; not measured where the server does not say", "usage"},
	{"response_ms", ms, lower, "scheduled time to the last token-bearing frame: in an open loop, what a user waits", "client clock"},
	{"schedule_lag_ms", ms, lower, "scheduled time to the start of the request: how late it was sent", "client clock"},
	{"send_ms", ms, lower, "start of the request to the last byte written: connecting, and a server that does not read", "client clock"},
	{"first_frame_gap_ms", ms, lower, "first message with choices to the first token-bearing frame: what a client gains by taking the wrong one", "client clock"},
	{"ttft_over_server_ms", ms, lower, "ttft less the server's own time for the prompt: waiting, network, and the client", "client clock, server timings"},
	{"frames_per_token", "", "", "token-bearing frames / completion tokens: below 1 frames carry several", "client clock, usage"},
	{"draft_accept_pct", "%", higher, "speculated tokens that were accepted, as the server counts", "server timings"},
	{"token_count_gap_pct", "%", lower, "largest difference between the sources of the completion's token count", "usage, timings, log, metrics, tokenize"},
}

// armDefs are the metrics of an arm as a whole.
var armDefs = []Def{
	{"wall_s", "s", lower, "seconds of the measured step", "flow's clock"},
	{"ready_ms", ms, lower, "launch of the engine until it was ready", "flow's clock"},
	{"exit_code", "", "", "exit code of an engine that ended by itself", "wait status"},
	{"errors", "requests", lower, "measured requests that did not end ok", "client"},
	{"error_rate_pct", "%", lower, "share of measured requests that did not end ok", "client"},
	{"cached_pct", "%", "", "share of the prompt tokens of all measured requests that came from a cache", "usage"},
}

// Rates that depend on a token count, and on which one: withheld when the count's sources disagree.
var countedBy = map[string]string{
	"decode_tok_s":                "completion",
	"generation_tok_s":            "completion",
	"steady_tok_s":                "completion",
	"itl_p50_ms":                  "completion",
	"itl_p95_ms":                  "completion",
	"itl_p99_ms":                  "completion",
	"server_decode_tok_s":         "completion",
	"server_decode_printed_tok_s": "completion",
	"prefill_tok_s":               "prompt",
	"server_prefill_tok_s":        "prompt",
}

// Names is every built-in metric: of requests (an arm has their median) and of arms. A sensor NAME with
// samples adds NAME_mean, _max, _min, _p05, _p50, _p95, _p99, _growth, _rise, _diff and _per_s, each with
// _prefill or _decode before it for that part of the step; PREFIX.power_w or an energy counter adds
// PREFIX.energy_j, .energy_prefill_j, .energy_decode_j, .energy_per_token_j, .energy_per_request_j and
// .energy_1hz_j. These depend on the machine and are not listed.
func Names() []Def {
	out := append([]Def(nil), requestDefs...)
	out = append(append(out, armDefs...), loadDefs...)
	for _, d := range compatDefs {
		out = append(out, d.Def)
	}
	for _, d := range pooledDefs {
		out = append(out, d.Def)
	}
	return out
}

// Lookup finds a built-in metric.
func Lookup(name string) (Def, bool) {
	for _, d := range Names() {
		if d.Name == name {
			return d, true
		}
	}
	return Def{}, false
}

// OfCommand says whether an engine that runs to its end, and is sent no requests, has that built-in metric.
func OfCommand(name string) bool {
	return name == "wall_s" || name == "ready_ms" || name == "exit_code"
}
