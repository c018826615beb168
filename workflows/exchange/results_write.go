package exchange

// A session as results JSON: the shape that ReadResultsJSON reads. A group of two sides is one of its groups,
// with the labels A for the control and B for the other; one of more sides is a ladder under its own name.
// Arms that do not count stand in a group of their own whose role says why, so that every published figure is
// that of the arms beside it. What flow did not measure is null, with the reason in null_reasons of the arm.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// WriteResultsJSON writes the groups of a session.
func WriteResultsJSON(w io.Writer, s *record.Session, groups []*record.Group) error {
	top := map[string]any{
		"schema": 1, "date": time.Unix(0, s.WallStartNS).UTC().Format(time.DateOnly), "status": s.Status, "session": s.ID, "flow": s.FlowVersion,
		"engine": null(engineOf(groups)), "model_sha256": null(modelOf(groups)), "hardware": null(hardwareOf(s.Machine)), "metric": map[string]string{
			"steady":              "tokens after the first decode step / the time from the second token-bearing frame to the last",
			"generation":          "generated tokens / generation seconds, without prefill, as an engine's own benchmark counts them; null where a client cannot see it",
			"prompt_processing":   "prompt tokens that were not cached / time to the first token, or the benchmark's own",
			"first_decode_step":   "milliseconds from the first token-bearing frame to the second",
			"pair_deltas_steady":  "the n-th B less the n-th A in tok/s, two decimals",
			"environment_delta":   "of the side to its engine without levers; null is unset",
			"first_token_seconds": "launch of the engine to the first measured token",
		},
	}
	var sections, arms []map[string]any
	for _, g := range groups {
		if len(g.Sides) == 2 {
			for _, part := range partsOf(g) {
				raw, rows := pairSection(g, part)
				sections, arms = append(sections, raw), append(arms, rows...)
			}
			continue
		}
		for _, part := range partsOf(g) {
			name := part.id
			for i := 2; top[name] != nil; i++ {
				name = fmt.Sprintf("%s %d", part.id, i)
			}
			top[name] = ladderSection(g, part)
		}
	}
	top["groups"], top["arms"] = orEmpty(sections), orEmpty(arms)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(top)
}

func orEmpty(x []map[string]any) []map[string]any {
	if x == nil {
		return []map[string]any{}
	}
	return x
}

func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func engineOf(groups []*record.Group) string {
	var out []string
	for _, g := range groups {
		for _, side := range g.Sides {
			words := side.Engine
			for _, a := range g.Arms {
				if a.Label == side.Label && a.Process != nil && a.Process.Version != "" {
					words += ", " + strings.Join(strings.Fields(a.Process.Version), " ")
					break
				}
			}
			if !slices.Contains(out, words) {
				out = append(out, words)
			}
		}
	}
	return strings.Join(out, "; ")
}

func modelOf(groups []*record.Group) string {
	for _, g := range groups {
		if g.Model != "" {
			return g.Model
		}
	}
	return ""
}

func hardwareOf(m record.Machine) string {
	var out []string
	for _, k := range []string{"cpu_model", "cpus", "memory_mib", "gpu0", "kernel"} {
		if v := m.Facts[k]; v != "" {
			out = append(out, strings.ReplaceAll(k, "_", " ")+" "+v)
		}
	}
	return strings.Join(out, "; ")
}

// part is the arms of a group that are published together: those that count, in one case, or those that do not.
type part struct {
	id, role, caseName string
	arms               []*record.Arm
	complete           bool
}

func partsOf(g *record.Group) []part {
	var ok, out []*record.Arm
	cases := []string{}
	for _, a := range g.Arms {
		if a.Purpose != "measured" {
			continue
		}
		if a.Disposition != record.OK {
			out = append(out, a)
			continue
		}
		ok = append(ok, a)
		for _, m := range a.Metrics {
			if m.Name == g.Primary && !slices.Contains(cases, m.Case) {
				cases = append(cases, m.Case)
			}
		}
	}
	if len(cases) == 0 {
		cases = []string{""}
	}
	var parts []part
	for _, c := range cases {
		id := g.Name
		if c != "" {
			id += " " + c
		}
		if len(ok) > 0 {
			parts = append(parts, part{id: id, role: g.Role, caseName: c, arms: ok, complete: true})
		}
	}
	if len(out) > 0 {
		parts = append(parts, part{id: g.Name + " excluded", role: "excluded: " + cmp.Or(out[0].Reason, out[0].Disposition), caseName: cases[0], arms: out})
	}
	return parts
}

// pairSection is a group of two sides and its arms.
func pairSection(g *record.Group, p part) (raw map[string]any, arms []map[string]any) {
	control := g.Control
	letter := func(label string) string {
		if label == control {
			return "A"
		}
		return "B"
	}
	order := ""
	values := map[string]map[string][]float64{"A": {}, "B": {}}
	for i, a := range p.arms {
		l := letter(a.Label)
		order += l
		row := armRow(g, p, a, fmt.Sprintf("%s-%d%s", p.id, i+1, l), values[l])
		row["group"], row["label"] = p.id, l
		arms = append(arms, row)
	}
	raw = map[string]any{"id": p.id, "role": p.role, "order": order, "generated_tokens": nil, "complete": nil, "verdict": null(g.Verdict),
		"medians_A": medians(values["A"]), "medians_B": medians(values["B"])}
	if p.complete { // of what is left out it says nothing
		raw["complete"] = true
	}
	for _, a := range p.arms {
		if n := generated(a, p.caseName); n != nil {
			raw["generated_tokens"] = *n
			break
		}
	}
	for _, side := range g.Sides {
		raw[letter(side.Label)] = sideWords(side)
	}
	for key, name := range map[string]string{"steady_gain_pct": "steady_tok_s", "inclusive_gain_pct": "generation_tok_s", "prefill_gain_pct": "prefill_tok_s"} {
		raw[key] = nil
		if gain, ok := stats.GainOfMediansPct(values["A"][name], values["B"][name]); ok {
			raw[key] = gain
		}
	}
	deltas := []float64{}
	for _, d := range stats.PairDeltas(values["A"]["steady_tok_s"], values["B"]["steady_tok_s"]) {
		deltas = append(deltas, math.Round(d*100)/100)
	}
	raw["pair_deltas_steady"] = deltas
	return raw, arms
}

// ladderSection is a group of more sides: rungs in the order of the sides, arms in time.
func ladderSection(g *record.Group, p part) map[string]any {
	values := map[string]map[string][]float64{}
	var sequence []string
	var arms []map[string]any
	for i, a := range p.arms {
		if values[a.Label] == nil {
			values[a.Label] = map[string][]float64{}
		}
		row := armRow(g, p, a, fmt.Sprintf("%s-%d%s", p.id, i+1, a.Label), values[a.Label])
		row["rung"], row["order"] = a.Label, i+1
		arms, sequence = append(arms, row), append(sequence, a.Label)
	}
	var rungs []map[string]any
	for _, side := range g.Sides {
		v := values[side.Label]
		if v == nil {
			continue
		}
		rung := map[string]any{"id": side.Label, "label": sideWords(side), "binary": side.Engine, "runs": len(v["steady_tok_s"]), "medians": medians(v), "range_steady": nil, "vs_upstream": nil}
		if low, high, ok := stats.Range(v["steady_tok_s"]); ok {
			rung["range_steady"] = []float64{low, high}
		}
		if g.Control == firstOf(sequence) {
			ratios := map[string]float64{}
			for name, x := range v {
				if u := values[g.Control][name]; len(u) > 0 && len(x) > 0 && stats.Median(u) != 0 {
					ratios[name] = stats.Median(x) / stats.Median(u)
				}
			}
			rung["vs_upstream"] = ratios
		}
		rungs = append(rungs, rung)
	}
	return map[string]any{"role": p.role, "sequence": sequence, "rungs": rungs, "arms": arms, "generated_tokens": nil, "verdict": null(g.Verdict)}
}

func firstOf(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

func medians(values map[string][]float64) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"steady_tok_s", "generation_tok_s", "prefill_tok_s", "first_decode_step_ms"} {
		out[name] = nil
		if x := values[name]; len(x) > 0 {
			out[name] = stats.Median(x)
		}
	}
	return out
}

func sideWords(side record.Side) string {
	words := side.Engine
	for i, l := range side.Stack {
		words += map[bool]string{true: ": ", false: " + "}[i == 0] + l.Name
	}
	return words
}

// armRow is an arm; its values are added to its side's.
func armRow(g *record.Group, p part, a *record.Arm, id string, values map[string][]float64) map[string]any {
	why := map[string]string{}
	row := map[string]any{"id": id, "arm_id": a.ID, "block": a.Block, "attempt": a.Attempt, "gate": "passed", "disposition": a.Disposition, "null_reasons": why}
	if a.Disposition != record.OK {
		row["gate"], row["disposition"] = "failed", a.Disposition+": "+cmp.Or(a.Reason, "no reason is on record")
	}
	put := func(key string, v any, reason string) {
		row[key] = v
		if isNull(v) {
			row[key], why[key] = nil, reason
		}
	}
	for _, k := range metricKeys() {
		key := k.keys[0]
		if k.name == "launch_to_first_token_s" {
			key = k.keys[1]
			put(key, launchToToken(a), "no measured token, or flow did not launch the engine")
			continue
		}
		v, reason := published(a, p.caseName, k.name)
		put(key, v, reason)
		if v != nil {
			values[k.name] = append(values[k.name], *v)
		}
	}
	put("prompt_tokens", tokensOf(a, p.caseName, func(q *record.Request) *int { return q.PromptTokens }), neverSaid)
	put("generated_tokens", generated(a, p.caseName), neverSaid)
	sha := ""
	for i := range a.Requests {
		if q := &a.Requests[i]; q.Mark == record.MarkMeasured && q.Case == p.caseName && q.TextSHA != "" {
			sha = q.TextSHA
			break
		}
	}
	put("output_sha256", sha, "no text came")
	if a.Process != nil {
		put("engine_sha256", a.Process.BinarySHA, "the binary was not hashed")
	}
	env, rest := map[string]any{}, map[string]string{}
	for _, side := range g.Sides {
		if side.Label != a.Label {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(side.Command.Delta)) {
			v := side.Command.Delta[k]
			if name, ok := strings.CutPrefix(k, "env "); ok {
				env[name] = v
			} else if name, ok := strings.CutPrefix(k, "unset "); ok {
				env[name] = nil
			} else {
				rest[k] = v
			}
		}
	}
	row["environment_delta"], row["other_delta"] = env, rest
	return row
}

// published is the value of a metric in the format's meaning.
func published(a *record.Arm, caseName, name string) (v *float64, why string) {
	aliases := map[string][]string{"gpu_w": {"nvml.0.power_w_mean"}, "gpu_active_mhz": {"nvml.0.sm_mhz_mean"}, "swap_growth_mib": {"meminfo.swap_used_mib_growth"}}
	why = "not measured"
	for _, n := range append([]string{name}, aliases[name]...) {
		for _, m := range a.Metrics {
			if m.Name != n || m.Case != caseName && m.Case != "" {
				continue
			}
			if n == "generation_tok_s" && strings.Contains(m.Source, "client clock") {
				return nil, "the format's rate is without the prefill, which a client cannot part from the first token"
			}
			if m.Value != nil {
				return m.Value, ""
			}
			why = cmp.Or(m.Why, why)
		}
	}
	return nil, why
}

func tokensOf(a *record.Arm, caseName string, of func(*record.Request) *int) *int {
	for i := range a.Requests {
		if q := &a.Requests[i]; q.Mark == record.MarkMeasured && q.Case == caseName && of(q) != nil {
			return of(q)
		}
	}
	return nil
}

// generated are the tokens of an answer, or what a command engine says that it made.
func generated(a *record.Arm, caseName string) *int {
	if n := tokensOf(a, caseName, func(q *record.Request) *int { return q.CompletionTokens }); n != nil {
		return n
	}
	if v, _ := published(a, caseName, "gen_tokens"); v != nil {
		n := int(*v)
		return &n
	}
	return nil
}

func launchToToken(a *record.Arm) *float64 {
	if a.Process == nil || a.Process.LaunchNS == 0 || a.Process.Pid == 0 {
		return nil
	}
	for i := range a.Requests {
		if q := &a.Requests[i]; q.Mark == record.MarkMeasured && q.FirstContentNS != nil {
			s := float64(*q.FirstContentNS-a.Process.LaunchNS) / 1e9
			return &s
		}
	}
	return nil
}
