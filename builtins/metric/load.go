package metric

// How the load was, and what the client itself cost: an arm whose client was late, busy or short of
// requests in flight measured its client.

import (
	"fmt"
	"sort"

	"flow/workflows/record"
)

// loadDefs are the metrics of an arm that sent requests.
var loadDefs = []Def{
	{"throughput_tok_s", tokS, higher, "completion tokens of measured requests that ended ok / first start to last end, ramps included", "client clock, usage"},
	{"steady_throughput_tok_s", tokS, higher, "tokens that arrived while as many requests as asked were in flight / that time: without ramp-up and drain", "client clock, usage"},
	{"requests_per_s", "1/s", higher, "measured requests that ended ok / first start to last end", "client clock"},
	{"ramp_pct", "%", lower, "share of the measured window in which fewer requests than asked were in flight", "client clock"},
	{"in_flight_mean", "requests", "", "measured requests in flight, over the window", "client clock"},
	{"in_flight_pct", "%", higher, "most requests that were in flight at once, as a share of what was asked; by the server's own count where it gives one", "client clock, metrics endpoint"},
	{"schedule_lag_p99_ms", ms, lower, "99th percentile of how late requests of an open loop were sent", "client clock"},
	{"coalesced_pct", "%", lower, "token-bearing frames that came in one read with another: their stamp is the other's", "client clock"},
	{"client_cpu_pct", "%", lower, "processor time of flow itself while the requests ran, as a share of one core", "getrusage"},
	{"client_cpu_us_per_frame", "µs", lower, "the same per frame: flat in the length of the answer", "getrusage"},
	{"client_cpu_s_per_ktok", "s", lower, "the same per 1,000 completion tokens", "getrusage, usage"},
	{"client_lag_p99_ms", ms, lower, "99th percentile of how late a timer of flow itself was", "client clock"},
	{"net_rtt_ms", ms, lower, "median round trip of a small request before the measured ones; no other metric has it taken off", "client clock"},
	{"net_rtt_spread_ms", ms, lower, "largest less smallest of those round trips", "client clock"},
}

// loaded is the metrics of a.Load; none where there is none.
func loaded(a *record.Arm) []record.Metric {
	l := a.Load
	if l == nil {
		return nil
	}
	vals := map[string]value{}
	frames, content, shared, okN := 0, 0, 0, 0
	tokens, known := 0, true
	var lags []float64
	for i := range a.Requests {
		r := &a.Requests[i]
		if r.Mark != record.MarkMeasured {
			continue
		}
		frames, content, shared = frames+r.Frames, content+r.ContentFrames, shared+r.Coalesced
		if r.ScheduledNS != nil && r.StartNS != nil {
			lags = append(lags, float64(*r.StartNS-*r.ScheduledNS)/1e6)
		}
		if r.Status != "ok" {
			continue
		}
		okN++
		_, apart := disagreement(r, "completion")
		if r.CompletionTokens == nil || apart != "" {
			known = false
			continue
		}
		tokens += *r.CompletionTokens
	}
	window := float64(l.WindowNS) / 1e9
	per := func(n float64, of float64, why string) value {
		if of <= 0 {
			return missing(why)
		}
		return number(n/of, "")
	}
	const noWindow = "no time passed"
	vals["requests_per_s"] = per(float64(okN), window, noWindow)
	switch {
	case !known:
		why := missing("the tokens of a measured request are not known")
		vals["throughput_tok_s"], vals["steady_throughput_tok_s"], vals["client_cpu_s_per_ktok"] = why, why, why
	default:
		vals["throughput_tok_s"] = per(float64(tokens), window, noWindow)
		vals["steady_throughput_tok_s"] = steadyThroughput(a)
		vals["client_cpu_s_per_ktok"] = ofCPU(l, float64(tokens)/1000)
	}
	vals["ramp_pct"] = per(100*float64(l.WindowNS-l.SteadyNS), float64(l.WindowNS), noWindow)
	vals["in_flight_mean"] = number(l.InFlightMean, "")
	vals["in_flight_pct"] = missing("an open loop asks for no number of requests in flight")
	if l.Asked > 0 {
		most, rule := float64(l.InFlightMax), "as the client saw it"
		if l.ServerMax != nil {
			most, rule = min(most, *l.ServerMax), "as the server counts: "+l.ServerSeries
		}
		vals["in_flight_pct"] = number(100*most/float64(l.Asked), rule)
	}
	vals["schedule_lag_p99_ms"] = missing("a closed loop has no schedule")
	if len(lags) > 0 {
		sort.Float64s(lags)
		v := number(percentile(lags, .99), "")
		v.n = len(lags)
		vals["schedule_lag_p99_ms"] = v
	}
	vals["coalesced_pct"] = per(100*float64(shared), float64(content), "no token-bearing frame arrived")
	vals["client_cpu_pct"] = ofCPU(l, window/100)
	vals["client_cpu_us_per_frame"] = ofCPU(l, float64(frames)/1e6)
	vals["client_lag_p99_ms"] = missing("flow's own timers were not watched")
	if l.LagP99US != nil {
		vals["client_lag_p99_ms"] = number(*l.LagP99US/1e3, "")
	}
	vals["net_rtt_ms"], vals["net_rtt_spread_ms"] = missing("no round trip was measured"), missing("no round trip was measured")
	if n := len(l.ProbeUS); n > 0 {
		xs := make([]float64, n)
		for i, us := range l.ProbeUS {
			xs[i] = float64(us) / 1e3
		}
		sort.Float64s(xs)
		v := number(percentile(xs, .5), fmt.Sprintf("median of %d, %.3f to %.3f ms", n, xs[0], xs[n-1]))
		v.n = n
		vals["net_rtt_ms"], vals["net_rtt_spread_ms"] = v, number(xs[n-1]-xs[0], "")
	}
	out := make([]record.Metric, 0, len(loadDefs))
	for _, d := range loadDefs {
		out = append(out, vals[d.Name].metric(d))
	}
	return out
}

func ofCPU(l *record.Load, per float64) value {
	if l.CPUSeconds == nil {
		return missing("this system does not say how much processor time flow used")
	}
	if per <= 0 {
		return missing("nothing to divide by")
	}
	return number(*l.CPUSeconds/per, "")
}

// steadyThroughput counts the tokens that arrived while as many requests as asked were in flight. Tokens of
// a frame are known, or each frame of a request carries the same share.
func steadyThroughput(a *record.Arm) value {
	l := a.Load
	if l.Asked == 0 {
		return missing("an open loop has no level to hold")
	}
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for i := range a.Requests {
		r := &a.Requests[i]
		if end := look(r).end(); r.Mark == record.MarkMeasured && r.StartNS != nil && end != nil && *end > *r.StartNS {
			edges = append(edges, edge{*r.StartNS, 1}, edge{*end, -1})
		}
	}
	sort.Slice(edges, func(i, j int) bool {
		return edges[i].at < edges[j].at || edges[i].at == edges[j].at && edges[i].step < edges[j].step
	})
	var from, to int64
	level, reached := 0, false
	for _, e := range edges {
		level += e.step
		if level >= l.Asked && !reached {
			from, reached = e.at, true
		}
		if e.step < 0 && level == l.Asked-1 {
			to = e.at
		}
	}
	if !reached || to <= from {
		return missing("the asked number of requests was never in flight")
	}
	// The first time the level is reached to the last time it is left: between them a place is empty only for
	// the instant between an answer and its next request.
	total := 0.0
	for i := range a.Requests {
		r := &a.Requests[i]
		if r.Mark != record.MarkMeasured || r.Status != "ok" || r.CompletionTokens == nil {
			continue
		}
		at, _, why := contentUS(r)
		if why != "" {
			return missing(why)
		}
		each := float64(*r.CompletionTokens) / float64(len(at))
		for _, us := range at {
			if ns := *r.SentNS + us*1000; ns > from && ns <= to {
				total += each
			}
		}
	}
	return number(total/(float64(to-from)/1e9), fmt.Sprintf("%.1f s at full load", float64(to-from)/1e9))
}
