package exchange

// Rows: one JSON object a request, in the shape of the strata-bench record. Every key of that record is
// there; what flow did not measure is null, and why is in "null_reasons". What an engine says of itself alone
// stands under the engine's own name, where the record has "strata". Arms that do not count are there as well:
// rows travel alone, so each says its arm's disposition.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"flow/workflows/record"
)

// RowsInput is what rows are made of: arms with their requests and samples.
type RowsInput struct {
	Session *record.Session
	Group   *record.Group
	Arm     *record.Arm
	Engine  string            // its name
	Origin  map[string]string // where its binary came from, as far as it was said
	Files   map[string]string // model files to SHA-256
}

// decodeRule is how decode_tok_s is made; each row says it, because rows travel alone.
const decodeRule = "client clock: (completion tokens − n) / (last − first token-bearing frame), n the tokens of the first one; " +
	"null, with the computed value under decode_tok_s_withheld, when the token counts disagree"

// WriteRows writes one line for each measured request.
func WriteRows(w io.Writer, in RowsInput) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	since := 0
	for i := range in.Arm.Requests {
		r := &in.Arm.Requests[i]
		since++
		if r.Mark != record.MarkMeasured {
			continue
		}
		if err := enc.Encode(row(in, r, since)); err != nil {
			return fmt.Errorf("rows: request %d of arm %s: %w", r.Index, in.Arm.ID, err)
		}
	}
	return nil
}

// rowOf collects the members of a row and the reasons of what is null.
type rowOf struct {
	m   map[string]any
	why map[string]string
	at  string // prefix of the keys in why
}

func (o *rowOf) put(key string, v any, why string) {
	if isNull(v) {
		o.m[key] = nil
		o.why[o.at+key] = why
		return
	}
	o.m[key] = v
}

func isNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case *float64:
		return v == nil
	case *int:
		return v == nil
	case string:
		return v == ""
	case map[string]string:
		return len(v) == 0
	case []string:
		return v == nil
	case json.RawMessage:
		return len(v) == 0
	}
	return false
}

// within is a nested object whose reasons carry its name.
func (o *rowOf) within(key string) *rowOf {
	n := &rowOf{m: map[string]any{}, why: o.why, at: o.at + key + "."}
	o.m[key] = n.m
	return n
}

const (
	neverSaid  = "the engine does not say"
	noSensor   = "no sensor of it had samples in the measured window"
	notKept    = "flow does not measure it"
	notAbsent  = "none"
	notStarted = "flow did not launch the engine"
)

func row(in RowsInput, r *record.Request, since int) map[string]any {
	a := in.Arm
	o := &rowOf{m: map[string]any{}, why: map[string]string{}}
	o.put("row_id", fmt.Sprintf("%s/%s/%s%d/run-%03d", in.Group.Name, cmp.Or(r.Case, "all"), a.Label, a.Seq+1, r.Index), "")
	o.put("arm", a.Label, "")
	o.put("purpose", a.Purpose, "the record does not say")
	o.put("disposition", a.Disposition, "the arm has not ended")
	o.put("disposition_reason", a.Reason, notAbsent)
	o.put("engine", in.Engine, "the engine has no name")
	o.put("engine_commit", in.Origin["commit"], "the engine's origin names no commit")
	o.put("quant", in.Origin["quant"], "nothing names the quantisation")
	o.put("file_sha256", in.Files, "the engine names no model files")
	var argv []string
	if a.Process != nil {
		argv = a.Process.Argv
	}
	o.put("command_line", argv, notStarted)
	o.put("ctx", r.Case, "the workload has one case")
	o.put("repeat", r.Repeat, "")
	o.put("run", r.Index, "")
	o.put("slice_sha256", r.PromptSHA, "the prompt was not hashed")
	o.put("prompt_sha256", cmp.Or(r.BodySHA, r.PromptSHA), "the prompt was not hashed")
	o.put("nonce", r.Nonce, "the workload has no nonce")
	o.put("requests_since_start", since, "")
	o.put("status", r.Status, "")
	o.put("fail_kind", r.ErrorKind, notAbsent)
	o.put("error", r.Error, notAbsent)
	o.rates(r)
	o.put("count_check", countCheck(r), "")
	o.put("token_frames", r.ContentFrames, "")
	o.put("content_frames", r.ContentFrames, "")
	o.put("frames", r.Frames, "")
	o.put("thinking_seen", r.FirstReasoningNS != nil, "")
	threads := o.within("threads")
	for _, k := range []string{"workers", "host_thread", "line"} {
		threads.put(k, nil, notKept)
	}
	o.put("prompt_tokens", r.PromptTokens, neverSaid)
	o.put("completion_tokens", r.CompletionTokens, neverSaid)
	o.put("cached_tokens", r.CachedTokens, neverSaid)
	o.put("finish_reason", r.FinishReason, "the answer named none")
	o.put("server_timings", json.RawMessage(r.Timings), "the server sent none")
	o.put("short_completion", r.FinishReason == "stop", "")
	o.put("cache_flag", cacheFlag(r), notAbsent)
	o.put("completion_sha256", r.TextSHA, "no answer came")
	o.put("completion_head", head(r.Text, 80), "the text was not read from the record")
	o.engine(in, r)
	o.telemetry(a)
	reasons := map[string]string{}
	maps.Copy(reasons, o.why)
	o.m["null_reasons"] = reasons
	return o.m
}

func head(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}

func cacheFlag(r *record.Request) any {
	if r.CachedTokens != nil && *r.CachedTokens > 0 {
		return fmt.Sprintf("%d prompt tokens came from a cache", *r.CachedTokens)
	}
	return nil
}

// metric gives a metric's value, the withheld one and the reason.
func metric(ms []record.Metric, name string) (value, withheld *float64, why string) {
	for _, m := range ms {
		if m.Name == name {
			return m.Value, m.Withheld, cmp.Or(m.Why, "not measured")
		}
	}
	return nil, nil, "not measured"
}

func (o *rowOf) rates(r *record.Request) {
	const agree = "nothing is withheld: the counts agree"
	for _, m := range []struct{ key, name string }{{"decode_tok_s", "decode_tok_s"}, {"decode_tok_s_server", "server_decode_printed_tok_s"}} {
		v, held, why := metric(r.Values, m.name)
		o.put(m.key, v, why)
		o.put(m.key+"_withheld", held, agree)
	}
	o.put("decode_rule", decodeRule, "")
	for key, name := range map[string]string{"prompt_tok_s_server": "server_prefill_tok_s", "prompt_tok_s_client": "prefill_tok_s", "ttft_ms": "ttft_ms"} {
		v, _, why := metric(r.Values, name)
		o.put(key, v, why)
	}
}

// countCheck lays the counts of all sources side by side.
func countCheck(r *record.Request) map[string]any {
	against, gaps := map[string]any{}, map[string]any{}
	unread := []string{}
	ref := 0
	if r.CompletionTokens != nil {
		ref = *r.CompletionTokens
	}
	worst := 0.0
	for _, c := range r.Counts {
		if c.What != "completion" || c.Source == "usage" || c.Source == "frames" {
			continue
		}
		against[c.Source] = c.N
		gap := c.N - ref
		gaps[c.Source] = gap
		if ref > 0 {
			worst = max(worst, math.Abs(float64(gap))/float64(ref))
		}
	}
	for _, s := range []string{"timings", "log", "metrics", "tokenize"} {
		if _, ok := against[s]; !ok {
			unread = append(unread, s)
		}
	}
	verdict := "agree"
	switch _, held, _ := metric(r.Values, "decode_tok_s"); {
	case r.CompletionTokens == nil:
		verdict = "no count"
	case held != nil:
		verdict = "COUNT-MISMATCH"
	case len(against) == 0:
		verdict = "one source only"
	}
	var n any
	if r.CompletionTokens != nil {
		n = *r.CompletionTokens
	}
	return map[string]any{
		"verdict": verdict, "completion_tokens": n, "against": against, "gaps": gaps, "unread": unread, "tolerance": "3% of the larger count, and one token",
		"rule": "usage against the server's timings, the engine's log, its metrics endpoint and a recount of the text, each where there is one",
	}
}

// engine is what the engine alone says, under its own name.
func (o *rowOf) engine(in RowsInput, r *record.Request) {
	n := o.within(cmp.Or(in.Engine, "engine"))
	of := func(name string) *float64 { v, _, _ := metric(in.Arm.Metrics, name); return v }
	const other = "not a metric of this engine"
	n.put("hit_rate_log", of("expert_hit_rate"), other)
	n.put("hits", of("expert_hits"), other)
	n.put("lookups", of("expert_lookups"), other)
	n.put("drafts_accepted", r.DraftAccepted, "the engine names no drafts")
	n.put("drafts_offered", r.DraftTokens, "the engine names no drafts")
	n.put("engine_generated", countFrom(r, "log", "timings", "metrics"), neverSaid)
	n.put("engine_decode_tok_s", r.ServerDecodeTokS, neverSaid)
	v, _, why := metric(r.Values, "server_prefill_tok_s")
	n.put("engine_prompt_tok_s", v, why)
	n.put("reused", r.CachedTokens, neverSaid)
	own := map[string]any{}
	for _, m := range in.Arm.Metrics {
		if m.Value != nil && (strings.HasPrefix(m.Source, "metrics endpoint") || m.Source == "log" || strings.HasPrefix(m.Source, "csv ")) {
			own[m.Name] = *m.Value
		}
	}
	n.m["metrics"] = own
	var rounds any
	if r.DraftAccepted != nil && r.CompletionTokens != nil && *r.CompletionTokens > *r.DraftAccepted {
		rounds = float64(*r.CompletionTokens) / float64(*r.CompletionTokens-*r.DraftAccepted)
	}
	n.put("tokens_per_round_derived", rounds, "the engine names no drafts")
	n.put("tokens_per_round_rule", "generated / (generated − drafts accepted)", "")
}

func countFrom(r *record.Request, sources ...string) *int {
	for _, s := range sources {
		for _, c := range r.Counts {
			if c.Source == s && c.What == "completion" {
				return &c.N
			}
		}
	}
	return nil
}

// telemetry is of the arm's measured step: a request is shorter than most sensors' period.
func (o *rowOf) telemetry(a *record.Arm) {
	t := o.within("telemetry")
	s := newSeries(a)
	win := t.within("window")
	if s.to > s.from {
		offset := a.WallStartNS - a.MonoStartNS
		win.m["t0"], win.m["t1"] = float64(s.from+offset)/1e9, float64(s.to+offset)/1e9
		win.m["seconds"] = float64(s.to-s.from) / 1e9
	} else {
		for _, k := range []string{"t0", "t1", "seconds"} {
			win.put(k, nil, "the arm has no measured step")
		}
	}
	win.m["host_samples"], win.m["gpu_samples"] = s.most("meminfo."), s.most("nvml.")
	board := t.within("board")
	of := func(name string) *float64 { v, _, _ := metric(a.Metrics, name); return v }
	board.put("joules", of("nvml.0.energy_j"), noSensor)
	board.put("mean_w", s.mean("nvml.0.power_w"), noSensor)
	board.put("max_w", s.max("nvml.0.power_w"), noSensor)
	board.put("rule", s.rule("nvml.0.energy_j"), noSensor)
	rapl := t.within("rapl_package0")
	energy := s.first("energy_j", "rapl", "package")
	rapl.put("joules", of(energy), noSensor)
	rapl.put("label", energy, noSensor)
	rapl.put("source", s.source(energy), noSensor)
	rapl.put("span_s", nil, notKept)
	reads := t.within("data_reads_per_s")
	reads.put("mean", nil, notKept)
	reads.put("max", nil, notKept)
	t.within("data_read_mb_per_s").put("mean", s.rate("disk", "read_mib", 1.048576), noSensor)
	temps := t.within("temps")
	temps.put("gpu_max_c", s.max("nvml.0.temp_c"), noSensor)
	temps.put("ssd_max_c", s.maxOf("nvme"), noSensor)
	vram := t.within("vram")
	used, base := s.max("nvml.0.mem_used_mib"), s.before("nvml.0.mem_used_mib")
	vram.put("max_used_mib", used, noSensor)
	vram.put("baseline_mib", base, noSensor)
	vram.put("growth_mib", less(used, base), noSensor)
	vram.put("rule", "largest in the measured step less the first of the arm, before the launch", "")
	pinned := t.within("pinned")
	pinned.put("vmlck_max_bytes", scaled(s.max("engine.vmlck_mib"), 1<<20), noSensor)
	pinned.put("vmpin_max_bytes", scaled(s.max("engine.vmpin_mib"), 1<<20), noSensor)
	pinned.put("vmrss_max_bytes", scaled(s.max("engine.rss_mib"), 1<<20), noSensor)
	pinned.put("rule", "sum over the engine's processes", "")
	load := t.within("load")
	load.put("load1_mean", s.mean("loadavg.1m"), noSensor)
	load.put("claude_procs_max", nil, notKept)
	mem := t.within("memory")
	mem.put("mem_available_gib_min", scaled(s.min("meminfo.available_mib"), 1./1024), noSensor)
	mem.put("user_psi_full_avg10_max", s.maxOf("psi.user"), noSensor)
	mem.put("psi_full_avg10_max", s.max("psi.memory.full_avg10_pct"), noSensor)
	mem.put("unit_psi_full_avg10_max", s.maxOf("cgroup.psi"), noSensor)
	mem.put("psi_rule", "psi is of the whole machine, user_psi of the user's cgroup, unit_psi of the engine's", "")
	mem.put("unit_max_events_delta", nil, notKept)
	limit := t.within("power_limit")
	limit.put("min_w", s.min("nvml.0.power_limit_w"), noSensor)
	limit.put("max_w", s.max("nvml.0.power_limit_w"), noSensor)
	limit.put("rule", "as the driver enforced it, read with every sample", "")
}

// series is the samples of an arm's measured step.
type series struct {
	a        *record.Arm
	from, to int64
	by       map[string][]record.Sample
}

func newSeries(a *record.Arm) *series {
	s := &series{a: a, by: map[string][]record.Sample{}}
	for _, st := range a.Steps {
		if st.Name == "measure" && st.EndNS > st.StartNS {
			s.from, s.to = st.StartNS, st.EndNS
		}
	}
	for _, x := range a.Samples {
		s.by[x.Sensor] = append(s.by[x.Sensor], x)
	}
	return s
}

func (s *series) fold(name string, f func(acc, v float64, n int) float64) *float64 {
	acc, n := 0.0, 0
	for _, x := range s.by[name] {
		if x.MonoNS >= s.from && x.MonoNS <= s.to {
			n++
			acc = f(acc, x.Value, n)
		}
	}
	if n == 0 {
		return nil
	}
	return &acc
}

func (s *series) mean(name string) *float64 {
	return s.fold(name, func(acc, v float64, n int) float64 { return acc + (v-acc)/float64(n) })
}

func (s *series) max(name string) *float64 {
	return s.fold(name, func(acc, v float64, n int) float64 {
		if n == 1 {
			return v
		}
		return math.Max(acc, v)
	})
}

func (s *series) min(name string) *float64 {
	return s.fold(name, func(acc, v float64, n int) float64 {
		if n == 1 {
			return v
		}
		return math.Min(acc, v)
	})
}

// maxOf is the largest over the sensors whose names begin so.
func (s *series) maxOf(prefix string) (most *float64) {
	for _, name := range slices.Sorted(maps.Keys(s.by)) {
		if strings.HasPrefix(name, prefix) {
			if v := s.max(name); v != nil && (most == nil || *v > *most) {
				most = v
			}
		}
	}
	return most
}

// most is the largest number of samples that a sensor with that beginning had in the window.
func (s *series) most(prefix string) int {
	most := 0
	for name, xs := range s.by {
		n := 0
		for _, x := range xs {
			if x.MonoNS >= s.from && x.MonoNS <= s.to {
				n++
			}
		}
		if strings.HasPrefix(name, prefix) {
			most = max(most, n)
		}
	}
	return most
}

// before is the first sample of an arm.
func (s *series) before(name string) *float64 {
	if xs := s.by[name]; len(xs) > 0 {
		return &xs[0].Value
	}
	return nil
}

// rate is the growth a second of counters that match, summed.
func (s *series) rate(prefix, suffix string, scale float64) *float64 {
	total, seen := 0.0, false
	for name, xs := range s.by {
		if !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, suffix) {
			continue
		}
		var first, last *record.Sample
		for i := range xs {
			if xs[i].MonoNS >= s.from && xs[i].MonoNS <= s.to {
				if first == nil {
					first = &xs[i]
				}
				last = &xs[i]
			}
		}
		if first != nil && last.MonoNS > first.MonoNS {
			total, seen = total+(last.Value-first.Value)/(float64(last.MonoNS-first.MonoNS)/1e9), true
		}
	}
	if !seen {
		return nil
	}
	total *= scale
	return &total
}

// first is the name of the arm's metric that ends so and holds all words.
func (s *series) first(suffix string, words ...string) string {
	for _, m := range s.a.Metrics {
		if strings.HasSuffix(m.Name, suffix) && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(m.Name, w) }) {
			return m.Name
		}
	}
	return ""
}

func (s *series) source(name string) string {
	for _, m := range s.a.Metrics {
		if m.Name == name {
			return m.Source
		}
	}
	return ""
}

func (s *series) rule(name string) string {
	for _, m := range s.a.Metrics {
		if m.Name == name {
			return m.Rule
		}
	}
	return ""
}

func scaled(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	x := *v * by
	return &x
}

func less(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	x := *a - *b
	return &x
}
