package gate

// Costs: secondary metrics. One with a limit takes part in the verdict, because a lever that buys its gain with
// something that was not to be paid is no lever to keep. One without a limit is only told.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// heldCost is a cost of one side and case that speaks against it.
type heldCost struct {
	side, cs string
	metric   string
	shown    bool   // the whole interval lies beyond the limit
	words    string // the cost, its effect, its interval, its limit
	more     *int   // blocks that should decide it; nil where none are known to
}

// limitSlack keeps the rounding of logarithms from breaking a limit of 0 %.
const limitSlack = 1e-9

// cost compares a secondary metric. Its own verdict asks only for a difference in the metric's own direction.
func (v *verdict) cost(g *record.Group, blocks []BlockState, side, metric, cs string, rule stats.Rule) record.Comparison {
	better := directionOf(g, metric)
	rule.MinEffect, rule.Lower, rule.Superior = 0, better == "lower", false
	cmp, need := v.compare(g, blocks, side, metric, cs, rule)
	return v.hold(g, cmp, better, need)
}

// hold marks a comparison as a cost and holds it against its limit; better is the metric's direction.
func (v *verdict) hold(g *record.Group, cmp record.Comparison, better string, need needs) record.Comparison {
	name, side := "cost "+cmp.Metric+caseWords(cmp.Case), cmp.Side
	cmp.Cost, cmp.BlocksNeeded = true, nil
	if cmp.Estimate != nil {
		cmp.Reason = effectWords(cmp.Estimate)
		if better == "" { // neither way is better
			cmp.Verdict = ""
		}
	}
	limit, ok := g.Costs[cmp.Metric]
	if !ok {
		return cmp
	}
	up := better == "lower" || better == "" && limit >= 0
	if better == "lower" && limit < 0 || better == "higher" && limit > 0 {
		v.warn("the limit %s of cost %s asks for a gain, because %s is better: a loss that is accepted is %s", signed(limit), cmp.Metric, better, signed(-limit))
	}
	beyond := func(x float64) bool { return up && x > limit+limitSlack || !up && x < limit-limitSlack }
	effect, words, ok := costEffect(cmp)
	if !ok {
		v.warn("%s of side %s could not be held against its limit %s: %s", name, side, signed(limit), cmp.Reason)
		v.held = append(v.held, heldCost{side: side, cs: cmp.Case, metric: cmp.Metric, words: name + " was not measured: " + cmp.Reason})
		return cmp
	}
	near, far := math.Inf(-1), math.Inf(1) // the ends of the interval, from the side of the limit
	if !up {
		near, far = far, near
	}
	if e := cmp.Estimate; e != nil && e.Low != nil && e.High != nil {
		near, far = *e.Low, *e.High
		if !up {
			near, far = far, near
		}
	}
	cmp.CostBroken = beyond(effect)
	switch {
	case cmp.CostBroken:
		v.warn("%s of side %s is %s, beyond its limit %s", name, side, words, signed(limit))
		h := heldCost{side: side, cs: cmp.Case, metric: cmp.Metric, shown: beyond(near), words: fmt.Sprintf("%s is %s, beyond its limit %s", name, words, signed(limit))}
		if !h.shown {
			h.words += ", which these blocks do not show"
			if need != nil && v.plan && cmp.Estimate != nil && limit > -1 {
				if n, ok := need(math.Abs(cmp.Estimate.Log - math.Log1p(limit))); ok && n > 0 {
					h.more = &n
				}
			}
		}
		v.held = append(v.held, h)
	case cmp.Estimate != nil && cmp.Estimate.SE == nil:
		v.warn("%s of side %s is %s: within its limit of %s, as far as one can tell without knowing its noise", name, side, words, signed(limit))
	case cmp.Estimate != nil && beyond(far):
		v.warn("%s of side %s is %s: the estimate is within its limit of %s, the interval reaches past it", name, side, words, signed(limit))
	}
	return cmp
}

// costEffect is the change of a cost as a ratio minus one, and in words. What is 0 on both sides did not change,
// though it has no ratio.
func costEffect(cmp record.Comparison) (effect float64, words string, ok bool) {
	switch {
	case cmp.Estimate != nil:
		return cmp.Estimate.Effect, effectWords(cmp.Estimate), true
	case cmp.GainOfMediansPct != nil:
		return *cmp.GainOfMediansPct / 100, signed(*cmp.GainOfMediansPct/100) + " in its median, without an interval", true
	case cmp.MedianControl == nil || cmp.MedianSide == nil || *cmp.MedianControl != 0:
		return 0, "", false
	case *cmp.MedianSide == 0:
		return 0, "0 on both sides in its median", true
	}
	return math.Inf(int(math.Copysign(1, *cmp.MedianSide))), fmt.Sprintf("%.4g in its median where the control has 0", *cmp.MedianSide), true
}

// unmeasured is a cost that no arm has.
func (v *verdict) unmeasured(g *record.Group, metric string, sides ...string) {
	v.warn("cost %s was not measured", metric)
	if _, limited := g.Costs[metric]; !limited {
		return
	}
	for _, s := range sides {
		v.held = append(v.held, heldCost{side: s, metric: metric, words: "cost " + metric + " was not measured: no arm has it"})
	}
}

// weigh lets the costs speak on the verdict of their side and case, each by its own interval at the group's
// level. A cost that has shown to be beyond its limit makes it worse. One whose estimate lies beyond, or that was
// not measured, leaves no better: more blocks, where the group still has some, may show which it is. A cost of a
// case that the primary metric does not have speaks on all of its side's.
func (v *verdict) weigh(g *record.Group) {
	for i := range v.comparisons {
		c := &v.comparisons[i]
		if c.Cost || c.Verdict == record.Invalid {
			continue
		}
		verdict, words, more := c.Verdict, []string{}, 0
		known := true
		for _, h := range v.held {
			if h.side != c.Side || h.cs != c.Case && v.hasCase(c.Side, h.cs) {
				continue
			}
			switch {
			case h.shown:
				verdict = record.Worse
			case c.Verdict != record.Better:
				continue
			case verdict == record.Better:
				verdict = record.Inconclusive
			}
			words = append(words, h.words)
			if h.more != nil {
				more = max(more, *h.more)
			} else {
				known = false
			}
		}
		if len(words) == 0 {
			continue
		}
		old := *c
		c.Verdict, c.BlocksNeeded = verdict, nil
		c.Reason = fmt.Sprintf("%s; %s alone is %s: %s", strings.Join(words, "; "), g.Primary, old.Verdict, old.Reason)
		if known && verdict == record.Inconclusive {
			v.askFor(g, c, more)
		}
	}
}

// against is what the costs have against a comparison, where they made its verdict another; else "".
func against(g *record.Group, c *record.Comparison) string {
	words, alone, ok := strings.Cut(c.Reason, "; "+g.Primary+" alone is ")
	if verdict, _, _ := strings.Cut(alone, ":"); !ok || c.Cost || verdict == c.Verdict {
		return ""
	}
	return words
}

// hasCase: the side is compared in that case of the primary metric.
func (v *verdict) hasCase(side, cs string) bool {
	return slices.ContainsFunc(v.comparisons, func(c record.Comparison) bool { return !c.Cost && c.Side == side && c.Case == cs })
}

// directionOf is the direction that arms record for a metric.
func directionOf(g *record.Group, metric string) string {
	for _, a := range g.Arms {
		for i := range a.Metrics {
			if m := &a.Metrics[i]; m.Name == metric && m.Better != "" {
				return m.Better
			}
		}
	}
	return ""
}

// needs says how many more blocks it should take until a distance of logarithms can be shown.
type needs func(gap float64) (more int, ok bool)

// ask says of an inconclusive comparison how many more blocks should decide it.
func (v *verdict) ask(g *record.Group, cmp *record.Comparison, gap float64, need needs) {
	if !v.plan || cmp.Verdict != record.Inconclusive {
		return
	}
	if n, ok := need(gap); ok {
		v.askFor(g, cmp, n)
	}
}

// askFor puts down that n more blocks should decide a comparison. Of a group that was given up there is nothing
// to wait for.
func (v *verdict) askFor(g *record.Group, cmp *record.Comparison, n int) {
	if !v.plan || n <= 0 || strings.HasPrefix(g.Stopped, "hopeless") || strings.HasPrefix(g.Stopped, "futile") {
		return
	}
	cmp.BlocksNeeded = &n
	cmp.Reason += fmt.Sprintf("; about %s should decide it", blocksWords(n))
	if v.blocks+n > g.Cap {
		cmp.Reason += fmt.Sprintf(", beyond the cap of %d (after(blocks = %d))", g.Cap, v.blocks+n)
	}
}

func blocksWords(n int) string {
	if n == 1 {
		return "1 more block"
	}
	return fmt.Sprintf("%d more blocks", n)
}
