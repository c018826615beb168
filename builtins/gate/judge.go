package gate

// The verdict of a group, from its arms alone.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// Judge fills Comparisons, Steps, Verdict, Reason and Warnings from the arms, and Noise where it is nil. It is pure
// over the facts of g and past: asked again, it says the same. past are earlier groups, newest first.
//
// Every side but the control is compared in every case of the workload, in the primary metric and in the
// costs. A cost beyond its limit takes part in the verdict of its side and case (weigh). The group's verdict: infeasible when a side is; invalid when there is no contrast, when a gate of
// the group did not pass, or when nothing valid is left; else the verdict of the side, where cases are
// joined by the workload's rule (joinCases). A ladder has one verdict per rung, and as a whole the one on
// which all rungs agree, else inconclusive with the rungs named: a ladder screens, and "better" for a whole
// of which a part is not would be kept by mistake. So it is where a step of a ladder that adds up is worse.
func Judge(g *record.Group, past []*record.Group) {
	Borrow(g, past)
	v := look(g, looksAtResults(g), true)
	g.Steps = v.steps
	g.Comparisons, g.Verdict, g.Reason, g.Warnings = v.comparisons, v.verdict, v.reason, append(append(v.warnings, Causes(g)...), Traps(g)...)
}

// verdict is what one judgement says.
type verdict struct {
	comparisons []record.Comparison
	steps       []record.Comparison
	verdict     string
	reason      string
	warnings    []string
	blocks      int            // valid ones
	looks       int            // how many the group may take; 0 when none is taken
	any         *stats.Anytime // the group's rule holds at any look
	plan        bool
	held        []heldCost // costs with a limit
}

func (v *verdict) warn(format string, args ...any) {
	w := fmt.Sprintf(format, args...)
	if w != "" && !slices.Contains(v.warnings, w) {
		v.warnings = append(v.warnings, w)
	}
}

func (v *verdict) end(verdict, format string, args ...any) verdict {
	v.verdict, v.reason = verdict, fmt.Sprintf(format, args...)
	return *v
}

// looksAtResults: a stop that looks at results narrows every interval of the group, whether it stopped it or
// not.
func looksAtResults(g *record.Group) bool {
	return g.Sequential || slices.ContainsFunc(g.Stops, func(s string) bool {
		return strings.HasPrefix(s, "decided") || strings.HasPrefix(s, "hopeless")
	})
}

// firstLook is the number of blocks at the first look: one with eight borrowed degrees of freedom in every
// case of the primary metric that noise is known of, else two. It depends on what was known before the
// group began only, so that the number of looks is fixed.
func firstLook(g *record.Group) int {
	n := 0
	for _, x := range g.Noise {
		if x.Metric != g.Primary {
			continue
		}
		n++
		if x.DF < stats.MaxBorrowedDF {
			return 2
		}
	}
	if n == 0 {
		return 2
	}
	for _, c := range casesOf(g.Arms, g.Primary) {
		if lent(g, g.Primary, c) == nil {
			return 2
		}
	}
	return 1
}

// looksOf is how many looks the group may take: one after every block from the first look to its cap.
func looksOf(g *record.Group) int { return max(1, g.Cap-firstLook(g)+1) }

// look judges the group as it stands; sequential gives the interval the level of its looks, plan asks how
// many blocks are still needed.
func look(g *record.Group, sequential, plan bool) verdict {
	v := verdict{plan: plan, any: anytimeOf(g)}
	rule := ruleOf(g, sequential)
	if sequential && v.any == nil {
		v.looks = looksOf(g)
	}
	if sideOf(g, g.Control) == nil {
		return v.end(record.Invalid, "the control %q is not one of the sides", g.Control)
	}
	for _, a := range g.Arms {
		if measured(a) && a.Disposition == record.Infeasible {
			return v.end(record.Infeasible, "side %s cannot run: %s", a.Label, orWord(a.Reason, "it dies the same way every time"))
		}
	}
	for _, a := range g.Arms {
		if measured(a) && a.Disposition == record.OK {
			if w := Contrast(g, a); w != "" {
				return v.end(record.Invalid, "%s", w)
			}
		}
	}
	blocks := Blocks(g)
	for _, n := range g.Noise {
		if n.DF == 0 {
			v.warn("%s", n.From)
		}
	}
	if plan && len(blocks) > 0 {
		v.warn("%s", tooFine(g, kindOf(blocks[0])))
	}
	for _, b := range blocks {
		if b.Valid {
			v.blocks++
		} else {
			v.warn("%s", leftOut(b))
		}
	}
	if v.blocks == 0 {
		return onlyPart(g, blocks, rule, v)
	}
	if w := groupFinding(g); w != "" {
		v.compareAll(g, blocks, rule)
		return v.end(record.Invalid, "%s", w)
	}
	v.compareAll(g, blocks, rule)
	v.steps = v.stepsOf(g, blocks, rule)
	for _, w := range TakenBack(g) {
		v.warn("%s", w)
	}
	v.labels(g, blocks)
	if plan {
		v.requestIndex(g, blocks)
		v.replicates(g, blocks)
		v.warmth(g, blocks)
		v.bimodal(g, blocks)
		v.outliers(g, blocks)
		v.rungContrasts(g, blocks)
	}
	v.join(g)
	if g.Role == record.RoleNoiseFloor && (v.verdict == record.Better || v.verdict == record.Worse) {
		v.warn("the same thing differs from itself: until that is understood, this instrument shows differences that are none")
	}
	return v
}

// leftOut says that a block does not count.
func leftOut(b BlockState) string { return fmt.Sprintf("block %d left out: %s", b.Index+1, b.Reason) }

// ruleOf is what the group's verdicts are held to: at the level of its looks where it is sequential. An
// always-valid group has its price in its intervals.
func ruleOf(g *record.Group, sequential bool) stats.Rule {
	r := stats.Rule{MinEffect: g.MinEffect, Lower: g.Better == "lower", Superior: g.Superior}
	if sequential && anytimeOf(g) == nil {
		r.P = stats.PocockP(looksOf(g))
	}
	return r
}

// groupFinding is a required gate of the group's scope that did not pass on the latest arm that it saw.
func groupFinding(g *record.Group) string {
	latest := map[string]record.Finding{}
	var order []string
	for _, a := range g.Arms {
		if !measured(a) || a.Disposition == record.Superseded {
			continue
		}
		for _, f := range a.Findings {
			if f.Scope == scopeGroup && f.Required {
				if _, ok := latest[f.Gate]; !ok {
					order = append(order, f.Gate)
				}
				latest[f.Gate] = f
			}
		}
	}
	for _, name := range order {
		if f := latest[name]; f.Outcome != record.Pass {
			return findingWords(f)
		}
	}
	return ""
}

// compareAll fills in one comparison per side, metric and case, and holds the primary ones against the costs.
func (v *verdict) compareAll(g *record.Group, blocks []BlockState, rule stats.Rule) {
	v.compareEach(g, blocks, rule)
	v.weigh(g)
}

func (v *verdict) compareEach(g *record.Group, blocks []BlockState, rule stats.Rule) {
	if g.Design != "" {
		v.factorial(g, blocks, rule)
		return
	}
	for _, side := range g.Sides {
		if side.Label == g.Control {
			continue
		}
		cases := casesOf(g.Arms, g.Primary)
		if len(cases) == 0 {
			cases = []string{""}
		}
		for _, cs := range cases {
			cmp, _ := v.compare(g, blocks, side.Label, g.Primary, cs, rule)
			v.comparisons = append(v.comparisons, cmp)
		}
		for _, metric := range costsOf(g) {
			for _, cs := range casesOf(g.Arms, metric) {
				v.comparisons = append(v.comparisons, v.cost(g, blocks, side.Label, metric, cs, rule))
			}
			if len(casesOf(g.Arms, metric)) == 0 {
				v.unmeasured(g, metric, side.Label)
			}
		}
	}
}

// compare is one side against the control in one metric and case.
func (v *verdict) compare(g *record.Group, blocks []BlockState, side, metric, cs string, rule stats.Rule) (cmp record.Comparison, need needs) {
	c := collect(g, blocks, side, metric, cs)
	for _, w := range c.left {
		v.warn("%s", w)
	}
	cmp = record.Comparison{Side: side, Control: g.Control, Case: cs, Metric: metric}
	published(&cmp, c, c.raw)
	if cmp.NControl == 0 || cmp.NSide == 0 {
		cmp.Verdict, cmp.Reason = record.Invalid, "no block has "+metric+" on both sides"+caseWords(cs)
		if len(c.left) > 0 {
			cmp.Reason += ": " + c.left[0]
		}
		return cmp, nil
	}
	noise := lent(g, metric, cs)
	if v.any != nil {
		noise = nil
	}
	e, ok := c.estimate(noise)
	if v.any != nil && ok {
		var can bool
		if e, can = c.anytime(e, *v.any); !can && metric == g.Primary {
			v.warn("%s has no rule that holds at any look: its interval holds at one", metric)
		}
	}
	effect, finite := stats.Ratio(e.Diff)
	if !ok || !finite {
		cmp.Verdict, cmp.Reason = record.Inconclusive, "no ratio can be taken: the values are not all positive"
		if !c.noLog {
			cmp.Reason = "no ratio can be taken of these arms"
		}
		return cmp, nil
	}
	cmp.Estimate = recorded(e, effect, rule, v.looks)
	if metric == g.Primary { // a cost's is in its estimate
		v.noiseWords(e, metric, cs)
		if g.Role == record.RoleNoiseFloor && e.Known() && !e.Zero {
			v.warn("noise floor%s: one arm varies by %s (%.3g df)", caseWords(cs), share(e.ArmSD), e.DF)
		}
	}
	cmp.Verdict, cmp.Reason = rule.Verdict(e)
	if cmp.Verdict == record.Equivalent {
		cmp.Reason = equivalentWords(e, cmp.Estimate, rule, v.looks == 0 && v.any == nil)
	}
	cmp.Reason = strings.TrimSuffix(effectWords(cmp.Estimate)+"; "+cmp.Reason, "; ")
	k, df := c.design(e)
	need = func(gap float64) (int, bool) {
		if e.Any == nil {
			return rule.BlocksForGap(e, e.N, gap, k, df)
		}
		n, ok := stats.AnytimeBlocks(gap, e.ArmSD*math.Sqrt(k(1)), gOf(e.Any), .05, func(n int) float64 { return math.Max(1, df(n)) })
		return n - e.N, ok
	}
	v.ask(g, &cmp, rule.Gap(e), need)
	return cmp, need
}

// published is what the field prints, on raw values.
func published(cmp *record.Comparison, c collected, blocks []BlockState) {
	a, b := c.values(blocks, c.control), c.values(blocks, c.side)
	cmp.NControl, cmp.NSide = len(a), len(b)
	if low, high, ok := stats.Range(a); ok {
		m := stats.Median(a)
		cmp.MedianControl, cmp.RangeControl = finite(m), []float64{low, high}
	}
	if low, high, ok := stats.Range(b); ok {
		m := stats.Median(b)
		cmp.MedianSide, cmp.RangeSide = finite(m), []float64{low, high}
	}
	if gain, ok := stats.GainOfMediansPct(a, b); ok {
		cmp.GainOfMediansPct = &gain
	}
	if len(a) == len(b) {
		cmp.PairDeltas = stats.PairDeltas(a, b)
	}
}

// recorded is an estimate as a fact: ratios, at the rule's level.
func recorded(e stats.Estimate, effect float64, rule stats.Rule, looks int) *record.Estimate {
	r := &record.Estimate{Method: e.Method, Effect: effect, Log: e.Diff, DF: e.DF, Level: rule.Level(), Blocks: e.N,
		Borrowed: e.Borrowed, BorrowedDF: e.BorrowedDF, ValidAnytime: looks > 0 || e.Any != nil, Looks: looks}
	if low, high, ok := e.Interval(rule.Level()); ok {
		r.SE = finite(e.SE)
		r.Low, r.High = finite(math.Expm1(low)), finite(math.Expm1(high))
	}
	if low, high, ok := e.Interval(rule.EquivalenceLevel()); ok {
		r.Low90, r.High90 = finite(math.Expm1(low)), finite(math.Expm1(high))
	}
	return r
}

// finite is nil for what is not a number that can be stored.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// onlyPart ends a group that has no valid block. Where hopeless() ended it inside its first block, the arms
// that are there are judged as pairs, far outside the noise being asked for; else it is invalid and says
// why, with what the arms of an unfinished block show and no verdict from them.
func onlyPart(g *record.Group, blocks []BlockState, rule stats.Rule, v verdict) verdict {
	if len(blocks) == 0 {
		return v.end(record.Invalid, "no arm was measured")
	}
	part := blocks[len(blocks)-1]
	v.warnings = slices.DeleteFunc(v.warnings, func(w string) bool { return w == leftOut(part) }) // what follows says it, or counts it
	pair, ok := partPairs(g, part)
	why := fmt.Sprintf("no valid block: block %d: %s", part.Index+1, part.Reason)
	if !ok {
		return v.end(record.Invalid, "%s", why)
	}
	rule.P = 1 - farLevel
	v.looks = 0
	for _, side := range g.Sides {
		if side.Label == g.Control {
			continue
		}
		for _, cs := range casesOf(g.Arms, g.Primary) {
			cmp, _ := v.compare(g, []BlockState{pair}, side.Label, g.Primary, cs, rule)
			v.comparisons = append(v.comparisons, cmp)
		}
	}
	if strings.HasPrefix(g.Stopped, "hopeless") {
		v.warn("ended inside its first block: %d of %d arms, judged as pairs", v.arms(), len(part.Labels))
		v.labels(g, []BlockState{pair})
		v.join(g)
		return v
	}
	for i := range v.comparisons {
		v.comparisons[i].Verdict, v.comparisons[i].Reason, v.comparisons[i].BlocksNeeded = record.Invalid, why, nil
	}
	return v.end(record.Invalid, "%s", why)
}

func (v *verdict) arms() int {
	n := 0
	for _, c := range v.comparisons {
		n = max(n, c.NControl+c.NSide)
	}
	return n
}

// join makes one verdict of the comparisons in the primary metric.
func (v *verdict) join(g *record.Group) {
	type rung struct{ side, verdict, reason string }
	var rungs []rung
	for _, s := range g.Sides {
		var cs []record.Comparison
		for _, c := range v.comparisons {
			if c.Side == s.Label && !c.Cost {
				cs = append(cs, c)
			}
		}
		if len(cs) > 0 {
			w, r := joinCases(g.CaseRule, cs)
			rungs = append(rungs, rung{s.Label, w, r})
		}
	}
	if len(rungs) == 0 {
		v.end(record.Invalid, "nothing was compared")
		return
	}
	if len(rungs) == 1 {
		v.end(rungs[0].verdict, "%s", rungs[0].reason)
		return
	}
	same := true
	var words []string
	for _, r := range rungs {
		same = same && r.verdict == rungs[0].verdict
		words = append(words, fmt.Sprintf("%s %s (%s)", r.side, r.verdict, r.reason))
	}
	word := "rung"
	if g.Design != "" {
		word = "lever"
	}
	if w := harm(g, v.steps); same && rungs[0].verdict == record.Better && w != "" {
		v.end(record.Inconclusive, "every %s is better than the control, and not every step: %s", word, w)
		return
	}
	if same {
		v.end(rungs[0].verdict, "every %s: %s", word, strings.Join(words, "; "))
		return
	}
	v.end(record.Inconclusive, "%ss differ: %s", word, strings.Join(words, "; "))
}

// joinCases is the verdict over the cases of one side.
//
//	all    every case better is better, every case equivalent is equivalent, any worse is worse
//	worst  the verdict of the case with the least gain, in the metric's direction
//	each   cases stand for themselves: a joint verdict only where they agree
//
// Any case without a valid block is invalid under every rule: a verdict over the cases that happened to
// work would hide the one that did not.
func joinCases(rule string, cs []record.Comparison) (verdict, reason string) {
	if len(cs) == 1 {
		return cs[0].Verdict, cs[0].Reason
	}
	count := map[string]int{}
	var words []string
	for _, c := range cs {
		count[c.Verdict]++
		words = append(words, fmt.Sprintf("%s %s (%s)", orWord(c.Case, "(no case)"), c.Verdict, c.Reason))
	}
	reason = strings.Join(words, "; ")
	switch {
	case count[record.Invalid] > 0:
		return record.Invalid, reason
	case count[cs[0].Verdict] == len(cs):
		return cs[0].Verdict, reason
	case rule == "each":
		return record.Inconclusive, "cases differ: " + reason
	case rule == "worst":
		rank := []string{record.Worse, record.Inconclusive, record.Equivalent, record.Better}
		for _, r := range rank {
			if count[r] > 0 {
				return r, "the worst case: " + reason
			}
		}
	case count[record.Worse] > 0:
		return record.Worse, reason
	}
	return record.Inconclusive, "not every case is better: " + reason
}
