package exchange

// What a results JSON says against what its arms say.

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"flow/builtins/stats"
)

func (res *Results) add(kind, where, published, recomputed, note string) {
	res.Disagreements = append(res.Disagreements, Disagreement{kind, where, published, recomputed, note})
}

func (res *Results) compare() {
	for _, s := range res.sections {
		for _, g := range s.groups {
			res.checkComplete(g)
			res.checkMedians(g)
			res.checkGains(g)
			res.checkNamedArms(g)
			res.checkContrast(g)
			res.checkDisposition(g)
		}
		if s.ladder != nil {
			res.checkLadder(s.ladder)
		}
		res.checkTimes(s)
		res.checkAdditive(s)
	}
	res.checkArms()
	res.checkOutliers()
	res.checkClock()
	res.checkFields()
	res.checkBase()
	res.checkCosts()
	res.checkUnsupported()
	res.checkNames()
}

// values of a metric on one side, in time, with the most decimals that any of them was written with.
func (g *resultsGroup) values(label string, keys ...string) (x []float64, decimals int) {
	for i, a := range g.arms {
		l := a.text("label")
		if l == "" && i < len(g.order) {
			l = g.order[i]
		}
		if l != label {
			continue
		}
		if v, d, ok := a.number(keys...); ok {
			x, decimals = append(x, v), max(decimals, d)
		}
	}
	return x, decimals
}

// checkComplete: a group is complete when its order is.
func (res *Results) checkComplete(g *resultsGroup) {
	said, ok := g.raw["complete"].(bool)
	if is := len(g.arms) == len(g.order); ok && said != is {
		res.add("complete", g.where+".complete", fmt.Sprint(said), fmt.Sprint(is), fmt.Sprintf("%d of %d arms", len(g.arms), len(g.order)))
	}
}

func (g *resultsGroup) medians(label string) object {
	if m := g.raw.object("medians_" + label); m != nil {
		return m
	}
	return g.raw.object("medians").object(label)
}

// checkMedians compares medians bit for bit; one within half a unit of the arms' last digit is called rounding.
func (res *Results) checkMedians(g *resultsGroup) {
	for _, label := range []string{"A", "B"} {
		m := g.medians(label)
		for _, k := range metricKeys() {
			want, _, ok := m.number(k.keys...)
			x, decimals := g.values(label, k.keys...)
			if !ok || len(x) == 0 {
				continue
			}
			res.figure("median", fmt.Sprintf("%s.medians_%s.%s", g.where, label, k.name), want, stats.Median(x), decimals)
		}
	}
}

func (res *Results) figure(kind, where string, want, got float64, decimals int) {
	if want == got {
		return
	}
	note := ""
	if math.Abs(want-got) <= .5*math.Pow10(-decimals)+1e-9 {
		note = fmt.Sprintf("within half a unit of the last digit of its arms (%d decimals): computed from unrounded values", decimals)
	}
	res.add(kind, where, number(want), number(got), note)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 12, 64) }

// checkGains: gains of medians in the published form, pair deltas at two decimals, and gains of opposite sign.
func (res *Results) checkGains(g *resultsGroup) {
	gain := map[string]float64{}
	for _, k := range []struct{ published, metric string }{{"steady_gain_pct", "steady_tok_s"}, {"inclusive_gain_pct", "generation_tok_s"}} {
		want, _, ok := g.raw.number(k.published)
		a, _ := g.values("A", k.metric)
		b, _ := g.values("B", k.metric)
		got, can := stats.GainOfMediansPct(a, b)
		if ok && can {
			gain[k.metric] = got
			res.figure("gain", g.where+"."+k.published, want, got, 12)
		}
	}
	if s, i := gain["steady_tok_s"], gain["generation_tok_s"]; s*i < 0 {
		res.add("sign", g.where, fmt.Sprintf("steady %+.4f %%", s), fmt.Sprintf("inclusive %+.4f %%", i), "the two gains have opposite signs")
	}
	deltas, _ := g.raw["pair_deltas_steady"].([]any)
	a, _ := g.values("A", "steady_tok_s")
	b, _ := g.values("B", "steady_tok_s")
	for i, d := range stats.PairDeltas(a, b) {
		if i >= len(deltas) {
			break
		}
		if want, _ := strconv.ParseFloat(fmt.Sprint(deltas[i]), 64); want != math.Round(d*100)/100 {
			res.add("pair-delta", fmt.Sprintf("%s.pair_deltas_steady[%d]", g.where, i), number(want), number(math.Round(d*100)/100), "")
		}
	}
}

var namedArm = regexp.MustCompile(`\barm (\d+[A-Z])\b`)

// checkNamedArms: an arm that the text names and the file does not have.
func (res *Results) checkNamedArms(g *resultsGroup) {
	for _, m := range namedArm.FindAllStringSubmatch(g.raw.text("A")+" "+g.raw.text("B"), -1) {
		if !slices.ContainsFunc(g.arms, func(a object) bool { return strings.HasSuffix(armID(a), "-"+m[1]) }) {
			res.add("missing-arm", g.where+".B", "names arm "+m[1], fmt.Sprintf("the file has %d of %d arms, and not this one", len(g.arms), len(g.order)), "")
		}
	}
}

// checkContrast: sides that differ in the cache alone, although a group is said to compare stacks.
func (res *Results) checkContrast(g *resultsGroup) {
	what := func(label string) (words string, cache float64, ok bool) {
		for _, a := range g.arms {
			if a.text("label") == label {
				c, _, _ := a.number("requested_cache_experts")
				return a.text("binary", "binary_tree") + " " + fmt.Sprint(sortedText(a.object("environment_delta"))), c, true
			}
		}
		return "", 0, false
	}
	a, ca, oka := what("A")
	b, cb, okb := what("B")
	if oka && okb && a == b {
		res.add("contrast", g.where, "A and B have the same binary and environment_delta", fmt.Sprintf("only requested_cache_experts differs: %g and %g", ca, cb),
			"binary "+strings.Fields(a)[0])
	}
}

func sortedText(o object) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(o)) {
		out = append(out, fmt.Sprintf("%s=%v", k, o[k]))
	}
	return out
}

// checkDisposition: an arm that passed its gate and is excluded with its group.
func (res *Results) checkDisposition(g *resultsGroup) {
	for _, a := range g.arms {
		if d := a.text("disposition"); a.text("gate") == "passed" && strings.HasPrefix(d, "excluded") {
			res.add("disposition", "arms["+armID(a)+"]", "gate passed", "disposition "+strconv.Quote(d), "")
		}
	}
}

// checkLadder: medians, ranges, counts and ratios to the first rung.
func (res *Results) checkLadder(g *resultsGroup) {
	control := g.order[0]
	for _, label := range slices.Sorted(maps.Keys(g.rungs)) {
		rung := g.rungs[label]
		where := fmt.Sprintf("%s.rungs[%s]", g.where, rung.text("id"))
		for _, k := range metricKeys() {
			x, decimals := g.values(label, k.keys...)
			u, _ := g.values(control, k.keys...)
			if want, _, ok := rung.object("medians").number(k.keys...); ok && len(x) > 0 {
				res.figure("median", where+".medians."+k.name, want, stats.Median(x), decimals)
			}
			if want, _, ok := rung.object("vs_upstream").number(k.keys...); ok && len(x) > 0 && len(u) > 0 {
				res.figure("ratio", where+".vs_upstream."+k.name, want, stats.Median(x)/stats.Median(u), 12)
			}
		}
		x, _ := g.values(label, "steady_tok_s")
		if want, _, ok := rung.number("runs"); ok && int(want) != len(x) {
			res.add("runs", where+".runs", number(want), fmt.Sprint(len(x)), "")
		}
		if r, ok := rung["range_steady"].([]any); ok && len(r) == 2 {
			low, high, _ := stats.Range(x)
			if fmt.Sprint(r[0]) != number(low) || fmt.Sprint(r[1]) != number(high) {
				res.add("range", where+".range_steady", fmt.Sprint(r), fmt.Sprintf("[%s %s]", number(low), number(high)), "")
			}
		}
	}
}

// checkTimes: all tokens over the whole generation must take what the first step and the others take. Each
// number may be off by half a unit of its last digit.
func (res *Results) checkTimes(s *section) {
	check := func(a object, tokens int) {
		n := float64(tokens)
		gen, dg, ok1 := a.number("generation_tok_s")
		steady, ds, ok2 := a.number("steady_tok_s")
		first, df, ok3 := a.number("first_decode_step_ms")
		if !ok1 || !ok2 || !ok3 || n < 2 {
			return
		}
		// Values that were printed from a float without rounding are exact to two decimals at the best.
		half := func(decimals int) float64 { return .5 * math.Pow10(-min(max(decimals, 2), 2)) }
		hg, hs, hf := half(dg), half(ds), .5*math.Pow10(-df)
		least := n / (gen + hg) // seconds
		most := (first+hf)/1000 + (n-1)/(steady-hs)
		if least > most {
			exact := (first)/1000 + (n-1)/steady
			res.add("time", s.path("arms["+armID(a)+"].generation_tok_s"), number(gen), number(n/exact),
				fmt.Sprintf("%.0f ms of decode time are in neither the first step nor the others", 1000*(n/gen-exact)))
		}
	}
	for _, g := range s.groups {
		for _, a := range g.arms {
			check(a, g.tokens)
		}
	}
	if s.ladder != nil {
		for _, a := range s.ladder.arms {
			check(a, s.ladder.tokens)
		}
	}
}

// checkArms: ids that stand twice, labels that are not a beginning of the order, and texts that are not the
// reference of their length.
func (res *Results) checkArms() {
	seen := map[string]bool{}
	refs := res.top.object("reference_output_sha256")
	for _, s := range res.sections {
		groups := s.groups
		if s.ladder != nil {
			groups = append(slices.Clone(groups), s.ladder)
		}
		for _, g := range groups {
			for i, a := range g.arms {
				where := s.path("arms[" + armID(a) + "]")
				if seen[armID(a)] {
					res.add("arm", where, "an id of its own", "the id stands twice", "")
				}
				seen[armID(a)] = true
				if l := a.text("label"); l != "" && (i >= len(g.order) || g.order[i] != l) {
					res.add("arm", where+".label", l, fmt.Sprintf("the order %v has another side in place %d", g.order, i+1), "")
				}
				want := refs.text(fmt.Sprintf("%d_generated", g.tokens))
				if got := a.text("output_sha256"); want != "" && got != "" && got != want {
					res.add("output", where+".output_sha256", got, want, "the reference of its length")
				}
			}
		}
	}
}

// checkOutliers: a side whose own arms differ by far more than those of all other sides.
func (res *Results) checkOutliers() {
	type pair struct {
		g     *resultsGroup
		label string
		x     []float64
		ln    float64
	}
	var all []pair
	var sizes []float64
	for _, s := range res.sections {
		for _, g := range s.groups {
			if len(g.arms) != len(g.order) {
				continue
			}
			for _, label := range []string{"A", "B"} {
				x, _ := g.values(label, "steady_tok_s")
				if low, high, ok := stats.Range(x); ok && len(x) > 1 && low > 0 {
					ln := math.Log(high / low)
					all, sizes = append(all, pair{g, label, x, ln}), append(sizes, ln)
				}
			}
		}
	}
	middle := stats.Median(sizes)
	for _, p := range all {
		if len(sizes) < 8 || p.ln < 8*middle {
			continue
		}
		ids := ""
		for _, a := range p.g.arms {
			if a.text("label") == p.label {
				v, _, _ := a.number("steady_tok_s")
				ids += fmt.Sprintf(" %s %g", armID(a), v)
			}
		}
		rest := ""
		a, _ := p.g.values("A", "steady_tok_s")
		b, _ := p.g.values("B", "steady_tok_s")
		if len(a) == 2 && len(b) == 2 {
			rest = fmt.Sprintf("; the pairs alone: %+.4f %%, %+.4f %%", 100*(b[0]/a[0]-1), 100*(b[1]/a[1]-1))
		}
		gain, _, _ := p.g.raw.number("steady_gain_pct")
		res.add("outlier", p.g.where, fmt.Sprintf("%+.4f %%", gain), fmt.Sprintf("side %s differs by %.3f %% within itself, %.0f times the middle of all sides", p.label, 100*p.ln, p.ln/middle), strings.TrimSpace(ids)+rest)
	}
}

var megahertz = regexp.MustCompile(`(\d[\d,]*) ?MHz`)

// checkClock: a clock that the gates ask for, and arms below it.
func (res *Results) checkClock() {
	gates, _ := res.top["gates"].([]any)
	for i, x := range gates {
		m := megahertz.FindStringSubmatch(fmt.Sprint(x))
		if m == nil {
			continue
		}
		floor, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
		if err != nil {
			continue
		}
		for _, s := range res.sections {
			for _, a := range s.arms {
				mhz, _, ok := a.number("gpu_active_mhz")
				if !ok || mhz >= floor {
					continue
				}
				note := "no gate field, and used in the medians"
				if g := a.text("gate"); g != "" {
					note = "gate " + g
				}
				res.add("gate", fmt.Sprintf("gates[%d]", i), fmt.Sprintf("at least %g MHz, no scope given", floor), fmt.Sprintf("%s: %.2f MHz", armID(a), mhz), note)
			}
		}
	}
}
