// Package exchange reads and writes what other tools of the field record.
//
// Its opinion: a published record is evidence, not truth. Reading one keeps its raw arms and computes every
// figure again from them; what was published beside them is compared, and where the two disagree, the
// reader says so in words. Nothing is corrected silently and nothing is taken on trust.
//
// Its neighbours: record holds what was read, stats computes the figures.
package exchange

// The results JSON of the argodrive campaigns: groups of two sides with their arms, ladders, and the figures
// that were published of them. Key names changed from campaign to campaign; both spellings are read.

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"flow/workflows/record"
)

// Results is a results JSON, read.
type Results struct {
	Session       *record.Session
	Groups        []*record.Group
	Disagreements []Disagreement // of the published figures with the raw arms, in the order of the file

	sections []*section
	top      object
}

// Disagreement is one place where a published record does not agree with its own arms or with itself.
type Disagreement struct {
	Kind       string `json:"kind"`  // complete, median, gain, pair-delta, missing-arm, gate, fields, contrast, costs, base, unsupported, cache, sign, outlier, additivity, names, time
	Where      string `json:"where"` // path into the file
	Published  string `json:"published"`
	Recomputed string `json:"recomputed"`
	Note       string `json:"note,omitempty"`
}

func (d Disagreement) String() string {
	s := fmt.Sprintf("%s: %s: published %s, recomputed %s", d.Kind, d.Where, d.Published, d.Recomputed)
	if d.Note != "" {
		s += " (" + d.Note + ")"
	}
	return s
}

// object is one JSON object; numbers keep their spelling.
type object map[string]any

func (o object) text(keys ...string) string {
	for _, k := range keys {
		if s, ok := o[k].(string); ok {
			return s
		}
	}
	return ""
}

// number gives a value and how many decimals it was written with.
func (o object) number(keys ...string) (x float64, decimals int, ok bool) {
	for _, k := range keys {
		if n, is := o[k].(json.Number); is {
			x, err := n.Float64()
			_, frac, _ := strings.Cut(n.String(), ".")
			return x, len(frac), err == nil
		}
	}
	return 0, 0, false
}

func (o object) object(key string) object {
	m, _ := o[key].(map[string]any)
	return m
}

func (o object) objects(key string) []object {
	l, _ := o[key].([]any)
	var out []object
	for _, x := range l {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// section is a part of the file that has arms: the file itself, a follow-up, a ladder.
type section struct {
	name   string // "" for the file itself
	raw    object
	groups []*resultsGroup
	ladder *resultsGroup
	arms   []object
}

// resultsGroup is one published group with its arms.
type resultsGroup struct {
	id, where string
	raw       object
	order     []string
	tokens    int
	arms      []object
	record    *record.Group
	rungs     map[string]object // of a ladder, by label
}

// metricKeys are the metrics of an arm: flow's name, unit, direction, and how the file spells it.
func metricKeys() []struct {
	name, unit, better string
	keys               []string
} {
	return []struct {
		name, unit, better string
		keys               []string
	}{
		{"steady_tok_s", "tok/s", "higher", []string{"steady_tok_s"}},
		{"generation_tok_s", "tok/s", "higher", []string{"generation_tok_s"}},
		{"prefill_tok_s", "tok/s", "higher", []string{"prefill_tok_s", "prompt_processing_tok_s"}},
		{"first_decode_step_ms", "ms", "lower", []string{"first_decode_step_ms"}},
		{"gpu_w", "W", "lower", []string{"gpu_w"}},
		{"gpu_active_mhz", "MHz", "", []string{"gpu_active_mhz"}},
		{"swap_growth_mib", "MiB", "lower", []string{"swap_growth_mb"}},
		{"steady_misses_per_token", "", "lower", []string{"steady_misses_per_token"}},
		{"launch_to_first_token_s", "s", "lower", []string{"engine_launch_to_first_token_s", "engine_launch_to_first_token_seconds"}},
	}
}

// ReadResultsJSON reads a results JSON and compares every published figure with its arms.
func ReadResultsJSON(r io.Reader) (*Results, error) {
	d := json.NewDecoder(r)
	d.UseNumber()
	var top object
	if err := d.Decode(&top); err != nil {
		return nil, fmt.Errorf("results JSON: %w", err)
	}
	res := &Results{top: top}
	res.Session = &record.Session{ID: "results-" + top.text("date"), Workflow: top.text("engine"), Status: "done", Measurer: record.MeasurerReal, Imported: true,
		Machine: record.Machine{ID: "imported", Facts: map[string]string{"hardware": top.text("hardware")}}}
	if err := res.section("", top); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if sub := top.object(name); sub != nil {
			if err := res.section(name, sub); err != nil {
				return nil, err
			}
		}
	}
	if len(res.Groups) == 0 {
		return nil, fmt.Errorf("results JSON: no groups with arms: want an object with groups and arms, or with sequence and arms")
	}
	res.compare()
	return res, nil
}

// section reads a part that has arms; other parts are none.
func (res *Results) section(name string, raw object) error {
	s := &section{name: name, raw: raw, arms: raw.objects("arms")}
	if len(s.arms) == 0 {
		return nil
	}
	groups := raw.objects("groups")
	if len(groups) == 0 {
		return res.ladder(s)
	}
	for i, g := range groups {
		rg := &resultsGroup{id: g.text("id"), raw: g, where: s.path(fmt.Sprintf("groups[%s]", g.text("id")))}
		if rg.id == "" {
			return fmt.Errorf("results JSON: group %d of %s has no id", i+1, s.path("groups"))
		}
		rg.order = strings.Split(g.text("order", "sequence"), "")
		n, _, _ := g.number("generated_tokens")
		rg.tokens = int(n)
		for _, a := range s.arms {
			if a.text("group") == rg.id {
				rg.arms = append(rg.arms, a)
			}
		}
		rg.record = res.group(rg, rg.order, "A")
		rg.record.Sides = []record.Side{side(rg, "A", true), side(rg, "B", false)}
		rg.record.Role = roleOf(g.text("role"))
		s.groups = append(s.groups, rg)
		res.Groups = append(res.Groups, rg.record)
	}
	res.sections = append(res.sections, s)
	return nil
}

func (s *section) path(rest string) string {
	if s.name == "" {
		return rest
	}
	return s.name + "." + rest
}

func roleOf(role string) string {
	if strings.HasPrefix(role, "qualification") {
		return record.RoleQualification
	}
	return record.RoleScreen
}

// ladder reads a section of rungs.
func (res *Results) ladder(s *section) error {
	seq, _ := s.raw["sequence"].([]any)
	rg := &resultsGroup{id: s.name, raw: s.raw, where: s.name, arms: s.arms, rungs: map[string]object{}}
	for _, x := range seq {
		label, _ := x.(string)
		rg.order = append(rg.order, label)
	}
	if len(rg.order) == 0 {
		return nil
	}
	n, _, _ := s.raw.number("generated_tokens")
	rg.tokens = int(n)
	ids := map[string]string{} // rung id to label, from the arms' places
	for i, a := range s.arms {
		if i < len(rg.order) {
			ids[a.text("rung")] = rg.order[i]
		}
	}
	rg.record = res.group(rg, rg.order, rg.order[0])
	rg.record.Role, rg.record.Order = record.RoleLadder, strings.Join(rg.order, " ")
	for _, rung := range s.raw.objects("rungs") {
		label := ids[rung.text("id")]
		if label == "" {
			continue
		}
		rg.rungs[label] = rung
		rg.record.Sides = append(rg.record.Sides, record.Side{Label: label, Engine: rung.text("binary"), Control: label == rg.order[0]})
	}
	s.ladder = rg
	res.sections = append(res.sections, s)
	res.Groups = append(res.Groups, rg.record)
	return nil
}

// group is a published group as a record.
func (res *Results) group(rg *resultsGroup, order []string, control string) *record.Group {
	g := &record.Group{ID: rg.id, Name: rg.id, SessionID: res.Session.ID, Index: len(res.Groups), Order: strings.Join(order, ""), Control: control,
		Primary: "steady_tok_s", Better: "higher", Cap: 1, Model: res.top.text("model_sha256"), Workload: fmt.Sprintf("%d generated", rg.tokens),
		CostsShown: []string{"first_decode_step_ms", "generation_tok_s", "gpu_w", "prefill_tok_s"}}
	excluded := strings.HasPrefix(rg.raw.text("role"), "excluded")
	for i, a := range rg.arms {
		arm := &record.Arm{ID: armID(a), GroupID: g.ID, Label: a.text("label"), Slot: i, Seq: i, Purpose: "measured", Disposition: record.OK, Group: g}
		if arm.Label == "" && i < len(order) {
			arm.Label = order[i]
		}
		for _, k := range metricKeys() {
			if v, _, ok := a.number(k.keys...); ok {
				arm.Metrics = append(arm.Metrics, record.Metric{Name: k.name, Unit: k.unit, Better: k.better, Source: "results.json", Value: &v, N: 1})
			}
		}
		switch {
		case a.text("gate") == "failed":
			arm.Disposition, arm.Reason = record.Invalid, orElse(a.text("disposition"), "a gate failed")
			if mhz, _, ok := a.number("gpu_active_mhz"); ok {
				arm.Reason += fmt.Sprintf(": gpu_active_mhz %g", mhz)
			}
		case excluded:
			arm.Disposition, arm.Reason = record.Invalid, orElse(a.text("disposition"), rg.raw.text("role"))
		}
		g.Arms = append(g.Arms, arm)
	}
	return g
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func armID(a object) string { return a.text("arm", "id") }

// side is a side as the arms show it: its lever is what the environment delta says.
func side(rg *resultsGroup, label string, control bool) record.Side {
	s := record.Side{Label: label, Control: control, Engine: rg.raw.text(label)}
	for _, a := range rg.arms {
		if a.text("label") != label {
			continue
		}
		delta := a.object("environment_delta")
		s.Command.Env = map[string]string{}
		for _, k := range slices.Sorted(maps.Keys(delta)) {
			v := fmt.Sprint(delta[k])
			s.Command.Env[k] = v
			s.Stack = append(s.Stack, record.Lever{Name: leverName(k, v), Change: fmt.Sprintf(`{"env":{%q:%q}}`, k, v), Hash: k + "=" + v, Unconfirmed: "imported"})
		}
		if n, _, ok := a.number("requested_cache_experts"); ok {
			s.Command.Delta = map[string]string{"cache_experts": fmt.Sprint(n)}
		}
		break
	}
	return s
}

var prefixed = regexp.MustCompile(`^[A-Z0-9]+_ARGODRIVE_`)

func leverName(key, value string) string {
	name := strings.ToLower(strings.ReplaceAll(prefixed.ReplaceAllString(key, ""), "_", "-"))
	if value != "1" {
		name += "=" + value
	}
	return name
}
