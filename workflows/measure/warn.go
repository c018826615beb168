package measure

// What a reader of an arm's numbers must know. Each warning begins with its topic, so that a group can say
// once what holds of many arms. They are facts of the record, not judgements: a gate may make more of them.

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Limits beyond which a warning is worth its line.
const (
	fewFrames    = .95 // frames per token
	manyShared   = 5.  // percent of frames that share a read
	longGapMS    = 1.  // between the first message and the first token
	longTailMS   = 50. // after the last token
	slowSendMS   = 20.
	lateTimerMS  = 20.
	busyClient   = 10.   // percent of a core
	briefNS      = 100e6 // of a window in which a share of a core says nothing
	lateSendMS   = 10.
	rampShare    = 20. // percent of the window
	notHeld      = 98. // percent of the asked requests in flight
	cachedShare  = 1.  // percent of the prompt
	cachedSlack  = 8   // tokens a request: what a chat template has in common
	waitShare    = .2  // of the server's own time for the prompt
	waitMS       = 50.
	repeatsBelow = .12 // compressed size of a prompt that repeats itself
	noiseAbove   = .72 // and of one that is noise
	promptLeast  = 400 // bytes: shorter texts say nothing
	newWords     = .92 // share of different words in one that is a list of random ones
)

// warnings is what there is to say about an arm.
func warnings(a *record.Arm, prompts []string) []string {
	w := &warner{a: a}
	w.requests()
	w.stream()
	w.cache()
	w.load()
	for _, p := range prompts {
		if why := promptTrouble(p); why != "" {
			w.say("prompt", "%s", why)
		}
	}
	return w.out
}

type warner struct {
	a   *record.Arm
	out []string
}

func (w *warner) say(topic, format string, args ...any) {
	if s := topic + ": " + fmt.Sprintf(format, args...); !slices.Contains(w.out, s) {
		w.out = append(w.out, s)
	}
}

// metric is the largest value of a metric over cases, withheld or not.
func (w *warner) metric(name string) (float64, bool) {
	most, ok := 0.0, false
	for _, m := range w.a.Metrics {
		if m.Name != name {
			continue
		}
		v := m.Value
		if v == nil {
			v = m.Withheld
		}
		if v != nil && (!ok || *v > most) {
			most, ok = *v, true
		}
	}
	return most, ok
}

func (w *warner) least(name string) (float64, bool) {
	least, ok := 0.0, false
	for _, m := range w.a.Metrics {
		if m.Name == name && m.Value != nil && (!ok || *m.Value < least) {
			least, ok = *m.Value, true
		}
	}
	return least, ok
}

func (w *warner) requests() {
	bad, n := 0, 0
	seen := map[string]int{}
	var order []string
	for i := range w.a.Requests {
		r := &w.a.Requests[i]
		if r.Mark != record.MarkMeasured {
			continue
		}
		n++
		if r.Status != "ok" {
			bad++
		}
		for _, x := range r.Warnings {
			if seen[x] == 0 {
				order = append(order, x)
			}
			seen[x]++
		}
	}
	if bad > 0 {
		w.say("failed requests", "%d of %d measured requests did not end ok; every figure of the arm is of the survivors", bad, n)
	}
	for _, x := range order[:min(len(order), 5)] {
		w.say("request", "%s (%d of %d)", x, seen[x], n)
	}
}

func (w *warner) stream() {
	if v, ok := w.least("frames_per_token"); ok && v < fewFrames {
		w.say("frames are not tokens", "%.2f frames a token: times between tokens are withheld, icl_* are between frames", v)
		for i := range w.a.Requests {
			r := &w.a.Requests[i]
			if r.Mark == record.MarkMeasured && r.Status == "ok" && r.FirstFrameTokens == nil && r.ContentFrames > 0 {
				w.say("first frame", "how many tokens the first frame carried is not known: rates count one; the engine may say so with usage in every frame")
				break
			}
		}
	}
	for i := range w.a.Requests {
		if r := &w.a.Requests[i]; r.Mark == record.MarkMeasured && r.FirstFrameTokens != nil && *r.FirstFrameTokens > 1 {
			w.say("first frame", "the first frame carried %d tokens: rates leave them all out", *r.FirstFrameTokens)
			break
		}
	}
	if v, ok := w.metric("first_frame_gap_ms"); ok && v > longGapMS {
		w.say("empty first frame", "the first message came %.1f ms before the first token: a tool that takes it for the first token prints a time to first token that is too short by that", v)
	}
	for i := range w.a.Requests {
		if r := &w.a.Requests[i]; r.Mark == record.MarkMeasured && r.FirstReasoningNS != nil {
			w.say("reasoning", "answers begin with reasoning: ttft_ms counts it, ttft_content_ms does not")
			break
		}
	}
	if v, ok := w.metric("coalesced_pct"); ok && v > manyShared {
		w.say("frames share reads", "%.0f %% of the frames came in one read with another: their times are the read's", v)
	}
	if v, ok := w.metric("tail_ms"); ok && v > longTailMS {
		w.say("long tail", "the stream ended %.0f ms after its last token: whole times differ by that between tools", v)
	}
	if v, ok := w.metric("send_ms"); ok && v > slowSendMS {
		w.say("slow sending", "it took %.0f ms to connect and write a request: not a part of ttft_ms", v)
	}
	if over, ok := w.metric("ttft_over_server_ms"); ok {
		if own, _ := w.metric("server_prompt_ms"); over > waitMS && over > waitShare*own {
			w.say("waiting", "the first token came %.0f ms later than the server's own time for the prompt, %.0f ms, explains: waiting in the server, the network, or the client", over, own)
		}
	}
	for i := range w.a.Requests {
		r := &w.a.Requests[i]
		if r.Mark != record.MarkMeasured || r.CompletionTokens == nil {
			continue
		}
		for _, c := range r.Counts {
			if n := *r.CompletionTokens; c.Source == "tokenize" && c.What == "completion" && math.Abs(float64(n-c.N)) > max(1, .03*float64(n)) {
				w.say("recount", "request %d: its text cut again gives %d tokens of %d: a text does not lead back to its tokens, so the recount is not used against other counters", r.Index, c.N, n)
				return
			}
		}
	}
}

func (w *warner) cache() {
	prompt, cached, unknown, n := 0, 0, false, 0
	for i := range w.a.Requests {
		r := &w.a.Requests[i]
		if r.Mark != record.MarkMeasured || r.Status != "ok" {
			continue
		}
		n++
		if r.CachedTokens == nil || r.PromptTokens == nil {
			unknown = true
			continue
		}
		prompt, cached = prompt+*r.PromptTokens, cached+*r.CachedTokens
	}
	switch {
	case n == 0:
	case cached > cachedSlack*n && float64(cached)*100 > cachedShare*float64(prompt):
		w.say("prompt cache", "%d of %d prompt tokens came from a cache: times to the first token are those of a warm cache", cached, prompt)
	case unknown:
		w.say("prompt cache", "the server does not say how many prompt tokens came from a cache: unknown, not none")
	}
}

func (w *warner) load() {
	l := w.a.Load
	if l == nil {
		return
	}
	if v, ok := w.metric("client_lag_p99_ms"); ok && v > lateTimerMS {
		w.say("late client", "timers of flow itself were up to %.0f ms late (p99): the machine had no time for it", v)
	}
	if v, ok := w.metric("client_cpu_pct"); ok && v > busyClient && l.WindowNS >= briefNS { // of a refused request it is the sending alone
		w.say("busy client", "flow itself used %.0f %% of a core while the requests ran: if the engine needs all cores, pin flow with client_cpus", v)
	}
	if l.ClockStepNS != 0 {
		w.say("clock step", "the wall clock was stepped by %.1f ms during the requests: times are on the monotonic clock, wall times of the arm are not comparable across it", float64(l.ClockStepNS)/1e6)
	}
	if l.Asked > 1 {
		if v, ok := w.metric("in_flight_pct"); ok && v < notHeld {
			who := "the client"
			if l.ServerMax != nil && *l.ServerMax < float64(l.InFlightMax) {
				who = fmt.Sprintf("the server (%s at most %g)", l.ServerSeries, *l.ServerMax)
			}
			w.say("concurrency not held", "%d requests at once were asked, %s ran %.0f %% of that", l.Asked, who, v)
		}
		if v, ok := w.metric("ramp_pct"); ok && v > rampShare {
			w.say("ramps", "fewer than %d requests were in flight for %.0f %% of the window: throughput_tok_s holds that, steady_throughput_tok_s does not; more requests make it less", l.Asked, v)
		}
	}
	if v, ok := w.metric("schedule_lag_p99_ms"); ok && v > lateSendMS {
		w.say("late sending", "requests were sent up to %.0f ms after they were due (p99): response_ms counts from when they were due", v)
	}
	if rtt, ok := w.metric("net_rtt_ms"); ok {
		spread, _ := w.metric("net_rtt_spread_ms")
		if ttft, ok := w.least("ttft_ms"); ok && rtt > ttft/5 {
			w.say("round trip", "a small request takes %.2f ms (spread %.2f ms), against a time to first token of %.2f ms, which has it inside: no figure is corrected for it", rtt, spread, ttft)
		}
	}
	if l.StableWarm != nil && !*l.StableWarm {
		w.say("warm-up", "requests did not become stable in %d warm ones", l.WarmRequests)
	}
}

// promptTrouble says what is wrong with a prompt as a stand-in for real work.
func promptTrouble(text string) string {
	if len(text) < promptLeast {
		return ""
	}
	words := strings.Fields(text)
	different := map[string]bool{}
	for _, x := range words {
		different[x] = true
	}
	var small bytes.Buffer
	z, err := flate.NewWriter(&small, flate.BestSpeed)
	if err != nil {
		return ""
	}
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	ratio := float64(small.Len()) / float64(len(text))
	switch {
	case ratio < repeatsBelow:
		return fmt.Sprintf("it repeats itself (compressed to %.0f %%): speculation and caches will look better than on real text", 100*ratio)
	case ratio > noiseAbove, len(words) >= 100 && float64(len(different)) > newWords*float64(len(words)):
		return "it looks random: random tokens take other experts and defeat speculation, so effects may not hold on real text"
	}
	return ""
}

// deadKnobs says which environment variables of the arm's levers are in no byte of the program, and gives the
// evidence of it. A lever that its own evidence confirms is not asked: programs also make names at run time.
func (p *process) deadKnobs(ctx context.Context, found []record.Evidence) (more []record.Evidence, notes []string) {
	for _, l := range p.r.t.Side.Stack {
		confirmed := slices.ContainsFunc(found, func(e record.Evidence) bool {
			return e.Lever == l.Name && e.Found && e.Kind != plan.ConfirmEnviron && e.Kind != plan.ConfirmNone
		})
		if confirmed || len(l.Env) == 0 {
			continue
		}
		for name := range l.Env {
			ask := plan.Lever{Name: l.Name, Confirm: []plan.Confirm{{Kind: plan.ConfirmLiteral, Text: name}}}
			for _, e := range p.ep.Confirm(ctx, []plan.Lever{ask}, "stop") {
				if e.Error != "" || e.Found {
					continue
				}
				more = append(more, e)
				notes = append(notes, fmt.Sprintf("dead knob: lever %s sets %s, a name that is nowhere in the program and its libraries", l.Name, name))
			}
		}
	}
	return more, notes
}
