package exchange

// What a results JSON says in one place against what it says in another.

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// checkFields: fields that some parts of the file have on every arm, and others on none.
func (res *Results) checkFields() {
	for _, field := range []string{"gate", "disposition", "side"} {
		with, without := map[string]int{}, map[string]int{}
		for _, s := range res.sections {
			for _, a := range s.arms {
				if _, ok := a[field]; ok {
					with[orElse(s.name, "the file itself")]++
				} else {
					without[orElse(s.name, "the file itself")]++
				}
			}
		}
		if len(with) > 0 && len(without) > 0 {
			res.add("fields", "arms[]."+field, "on "+counted(with), "absent on "+counted(without), "")
		}
	}
}

func counted(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%d arms of %s", m[k], k))
	}
	return strings.Join(out, ", ")
}

// checkBase: an empty delta on controls that do not run the same thing, and deltas on controls.
func (res *Results) checkBase() {
	var bases []string
	for _, s := range res.sections {
		empty := 0
		for _, a := range s.arms {
			if a.text("label") != "A" {
				continue
			}
			if d := a.object("environment_delta"); len(d) == 0 {
				empty++
			} else if strings.HasSuffix(armID(a), "1A") {
				res.add("base", s.path("arms["+armID(a)+"].environment_delta"), strings.Join(sortedText(d), " "), "the control carries the setting", "")
			}
		}
		control := orElse(s.raw.text("control"), s.raw.object("control").text("profile"))
		if empty > 0 && control != "" {
			bases = append(bases, fmt.Sprintf("%s: %d arms with {} on %q", orElse(s.name, "the file itself"), empty, control))
		}
	}
	if len(bases) > 1 {
		res.add("base", "arms[].environment_delta", "{} on controls", strings.Join(bases, "; "), "the delta is relative to the base of each group, not to the engine")
	}
}

var versus = regexp.MustCompile(`^([\d.]+) vs ([\d.]+)`)

// checkCosts: costs told in words, at the digits that they were printed with.
func (res *Results) checkCosts() {
	costs := res.top.object("costs")
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		m := versus.FindStringSubmatch(fmt.Sprint(costs[name]))
		parts := strings.Split(name, "_")
		if m == nil || len(parts) < 3 {
			continue
		}
		tokens := parts[len(parts)-1]
		keys := map[string][]string{"prefill": {"prompt_processing_tok_s", "prefill_tok_s"}, "gpu_power_w": {"gpu_w"}}[strings.Join(parts[:len(parts)-2], "_")]
		if keys == nil {
			keys = []string{strings.Join(parts[:len(parts)-2], "_") + "_ms", strings.Join(parts[:len(parts)-2], "_")}
		}
		for _, s := range res.sections {
			for _, g := range s.groups {
				if s.name != "" || !strings.HasPrefix(g.raw.text("role"), "qualification") || fmt.Sprint(g.tokens) != tokens {
					continue
				}
				for i, label := range []string{"B", "A"} {
					x, _ := g.values(label, keys...)
					_, frac, _ := strings.Cut(m[i+1], ".")
					if got := strconv.FormatFloat(stats.Median(x), 'f', len(frac), 64); len(x) > 0 && got != m[i+1] {
						res.add("costs", "costs."+name, m[i+1]+" for "+label, fmt.Sprintf("%s (median of the printed arms %s)", got, number(stats.Median(x))), "from unrounded values")
					}
				}
			}
		}
	}
}

// checkAdditive: a stack against the product of its single levers.
func (res *Results) checkAdditive(s *section) {
	adds := s.raw.object("adds")
	if adds == nil {
		adds = s.raw.object("candidate").object("adds")
	}
	product, names := map[int]float64{}, map[int][]string{}
	var stacks []*resultsGroup
	for _, g := range s.groups {
		gain, _, ok := g.raw.number("steady_gain_pct")
		switch role := g.raw.text("role"); {
		case !ok || len(g.arms) != len(g.order):
		case role == "qualification":
			stacks = append(stacks, g)
		case role == "single lever" && inside(g, adds):
			tokens := 0 // of every length, where the lever is not the cache, which was screened at each
			if a, b := delta(g, "A"), delta(g, "B"); len(a) == len(b) {
				tokens = g.tokens
			}
			if product[tokens] == 0 {
				product[tokens] = 1
			}
			product[tokens] *= 1 + gain/100
			names[tokens] = append(names[tokens], g.id)
		}
	}
	if product[0] == 0 {
		return
	}
	for _, g := range stacks {
		p, of := product[0], names[0]
		if q := product[g.tokens]; q != 0 {
			p, of = p*q, append(slices.Clone(of), names[g.tokens]...)
		}
		gain, _, _ := g.raw.number("steady_gain_pct")
		word := "above"
		if gain < 100*(p-1) {
			word = "below"
		}
		res.add("additivity", g.where, fmt.Sprintf("%+.4f %%", gain), fmt.Sprintf("product of single levers %+.4f %%", 100*(p-1)), fmt.Sprintf("%s it by %.2f points: %s", word, math.Abs(gain-100*(p-1)), strings.Join(of, ", ")))
	}
}

func delta(g *resultsGroup, label string) object {
	for _, a := range g.arms {
		if a.text("label") == label {
			return a.object("environment_delta")
		}
	}
	return nil
}

// inside: what the lever adds is part of the stack, with the same value; a lever that only changes the cache is.
func inside(g *resultsGroup, adds object) bool {
	a, b := delta(g, "A"), delta(g, "B")
	if len(b) < len(a) {
		return false
	}
	for k, v := range b {
		if _, had := a[k]; !had && fmt.Sprint(adds[k]) != fmt.Sprint(v) {
			return false
		}
	}
	return true
}

// checkUnsupported: figures for which the file has no arms, and names for which it has no group.
func (res *Results) checkUnsupported() {
	for _, name := range slices.Sorted(maps.Keys(res.top)) {
		sub := res.top.object(name)
		if sub == nil || len(sub.objects("arms")) > 0 || sub.object("qualification") == nil {
			continue
		}
		q := sub.object("qualification")
		for _, k := range slices.Sorted(maps.Keys(q)) {
			g := q.object(k)
			if gain, _, ok := g.number("steady_gain_pct"); ok {
				res.add("unsupported", name+".qualification."+k+".steady_gain_pct", number(gain), "no arms and no steady medians: nothing to compute it from", "")
			}
			a, _, oka := g.object("prefill_tok_s").number("A")
			b, _, okb := g.object("prefill_tok_s").number("B")
			if want, _, ok := g.number("prefill_gain_pct"); ok && oka && okb {
				res.figure("gain", name+".qualification."+k+".prefill_gain_pct", want, 100*(b/a-1), 12)
			}
		}
		l := sub.object("ladder")
		for _, k := range slices.Sorted(maps.Keys(l)) {
			for _, m := range []string{"steady_tok_s", "generation_tok_s", "prefill_tok_s"} {
				want, _, ok := l.object(k).object("vs_upstream").number(m)
				x, _, okx := l.object(k).object("medians").number(m)
				u, _, oku := l.object("upstream-internal").object("medians").number(m)
				if ok && okx && oku {
					res.figure("ratio", name+".ladder."+k+".vs_upstream."+m, want, x/u, 12)
				}
			}
		}
		if len(l) > 0 {
			res.add("unsupported", name+".ladder", fmt.Sprintf("%d rungs", len(l)), "no arms, labels or ranges", "")
		}
		qc, _, ok1 := sub.number("qualification_cache_experts")
		lc, _, ok2 := sub.number("ladder_cache_experts")
		if ok1 && ok2 && qc != lc {
			res.add("cache", name, fmt.Sprintf("qualification_cache_experts %g", qc), fmt.Sprintf("ladder_cache_experts %g", lc), "the two speak of different engines")
		}
	}
	dead := res.top.object("did_not_work")
	for _, k := range slices.Sorted(maps.Keys(dead)) {
		words := strings.Fields(strings.ReplaceAll(k, "_", " "))
		if list, ok := dead[k].([]any); ok {
			res.add("unsupported", "did_not_work."+k, fmt.Sprintf("%d names", len(list)), "no group and no arm", "")
		} else if !slices.ContainsFunc(res.Groups, func(g *record.Group) bool { return strings.Contains(g.ID, strings.Join(words, "-")) }) {
			res.add("unsupported", "did_not_work."+k, fmt.Sprint(dead[k]), "no group and no arm", "")
		}
	}
}

// checkNames: one thing under two names.
func (res *Results) checkNames() {
	for _, names := range [][]string{{"arm", "id"}, {"prompt_processing_tok_s", "prefill_tok_s"}, {"engine_launch_to_first_token_s", "engine_launch_to_first_token_seconds"}, {"binary", "binary_tree"}} {
		seen := map[string]int{}
		for _, s := range res.sections {
			for _, a := range s.arms {
				for _, n := range names {
					if _, ok := a[n]; ok {
						seen[n]++
					}
				}
			}
		}
		if len(seen) > 1 {
			res.add("names", "arms[]", names[0], names[1], fmt.Sprintf("%d and %d arms", seen[names[0]], seen[names[1]]))
		}
	}
	group := map[string]int{}
	for _, s := range res.sections {
		for _, g := range s.groups {
			for _, n := range []string{"order", "sequence", "medians_A", "medians"} {
				if _, ok := g.raw[n]; ok {
					group[n]++
				}
			}
		}
	}
	for _, pair := range [][2]string{{"order", "sequence"}, {"medians_A", "medians"}} {
		if group[pair[0]] > 0 && group[pair[1]] > 0 {
			res.add("names", "groups[]", pair[0], pair[1], fmt.Sprintf("%d and %d groups", group[pair[0]], group[pair[1]]))
		}
	}
}
