package gate

// The stops that look at results. Both are asked after a block; Hopeless also inside one.

import (
	"fmt"
	"math"
	"slices"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// Decided is the stop rule decided(): the reason to stop, or "". Group-sequential: every look is at the
// level of Pocock for as many looks as the group's cap allows, so that all looks together keep 5 %. The
// first look is after two blocks, or after one with at least eight borrowed degrees of freedom in
// g.Noise. It judges from the arms and from g.Noise alone, whatever g.Comparisons says.
func Decided(g *record.Group) string {
	v := look(g, true, false)
	if v.blocks < firstLook(g) {
		return ""
	}
	switch v.verdict {
	case record.Better, record.Worse, record.Equivalent:
	default:
		if !settled(g, v) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %s; look %d of at most %d", v.verdict, v.reason, v.blocks-firstLook(g)+1, v.looks)
}

// settled: every comparison has its verdict, although they do not agree.
func settled(g *record.Group, v verdict) bool {
	n := 0
	for _, c := range v.comparisons {
		if c.Cost {
			continue
		}
		switch c.Verdict {
		case record.Better, record.Worse, record.Equivalent:
			n++
		default:
			return false
		}
	}
	return n > 0
}

// farLevel is the level of "far outside the noise", for looks inside a block: one in a thousand each.
const farLevel = .999

// Hopeless is the stop rule hopeless(): the reason why no outcome of the remaining blocks is likely to make
// any side better, or "".
//
//   - After a block, at the first look or later: the end of the interval in the good direction, at the level
//     of the looks, stays short of min_effect (of 0 when there is none), in one case at least under the rule
//     all or worst, in every case under each.
//   - Inside a block, and after a first block that is not yet a look: pairs so far lose, and the whole
//     interval at 99.9 % from borrowed noise lies below both −min_effect and 0. So −8 % after one pair ends a
//     group whose noise is known to be .3 %.
//   - Without known noise: a whole block in which the worst control beats the best arm of the side by at
//     least 3 % and by more than five times what either side's own arms differ by.
//
// Stopping for this reason cannot make a false "better"; what it costs is power. A truly better lever is
// given up with a probability below half of the looks' 5 % by the first rule, .0005 a look by the second,
// and, for normal noise and no drift, less than 1 % by the third (TestHopelessErrors).
func Hopeless(g *record.Group) string {
	if g.Design != "" {
		return "" // every arm of a factorial design speaks for other levers too
	}
	blocks := Blocks(g)
	whole := slices.DeleteFunc(slices.Clone(blocks), func(b BlockState) bool { return !b.Valid })
	var cases []string
	if cases = casesOf(g.Arms, g.Primary); len(cases) == 0 {
		return ""
	}
	reasons := []string{}
	for _, s := range g.Sides {
		if s.Label == g.Control {
			continue
		}
		var lost []string
		for _, cs := range cases {
			if why := hopelessIn(g, blocks, whole, s.Label, cs); why != "" {
				lost = append(lost, why)
			}
		}
		if len(lost) == 0 || g.CaseRule == "each" && len(lost) < len(cases) {
			return "" // this side may still become better
		}
		reasons = append(reasons, lost[0])
	}
	if len(reasons) == 0 {
		return ""
	}
	if len(reasons) > 1 {
		return fmt.Sprintf("no rung can become better: %s", reasons[0])
	}
	return reasons[0]
}

func hopelessIn(g *record.Group, blocks, whole []BlockState, side, cs string) string {
	n := lent(g, g.Primary, cs)
	c := collect(g, whole, side, g.Primary, cs)
	where := caseWords(cs)
	if len(c.blocks) >= firstLook(g) {
		e, ok := c.estimate(n)
		if why := outOfReach(g, e, stats.LookLevel(looksOf(g)), 0); ok && why != "" {
			return why + where
		}
	}
	if n.Usable() {
		var e stats.Estimate
		ok := false
		if len(blocks) > 0 && !blocks[len(blocks)-1].Valid && len(c.blocks) == 0 {
			if pair, is := partPairs(g, blocks[len(blocks)-1]); is {
				e, ok = collect(g, []BlockState{pair}, side, g.Primary, cs).estimate(n)
			}
		} else if len(c.blocks) > 0 && len(c.blocks) < firstLook(g) {
			e, ok = c.estimate(n)
		}
		if ok {
			if why := outOfReach(g, e, farLevel, -g.MinEffect); why != "" {
				return why + ", far outside the noise" + where
			}
		}
		return ""
	}
	return beaten(g, c)
}

// outOfReach: the good end of the interval stays short of a bound: min_effect, or at most bound where that is
// given.
func outOfReach(g *record.Group, e stats.Estimate, level, bound float64) string {
	low, high, ok := e.Interval(level)
	if !ok || e.Zero && bound != 0 {
		return ""
	}
	good := math.Expm1(high)
	if g.Better == "lower" {
		good = -math.Expm1(low)
	}
	limit := g.MinEffect
	if bound < 0 {
		limit = bound
	}
	effect, fin := stats.Ratio(e.Diff)
	if !fin || good >= limit || math.IsNaN(good) {
		return ""
	}
	if g.Better == "lower" {
		good = -good
	}
	return fmt.Sprintf("at %s the best it can still be is %s at %.4g %%, and %s is asked for", signed(effect), signed(good), 100*level, share(g.MinEffect))
}

// beaten is the rule without known noise.
func beaten(g *record.Group, c collected) string {
	if len(c.blocks) == 0 || c.kind == "ladder" {
		return ""
	}
	a, _ := stats.Logs(c.values(c.blocks, c.control))
	b, _ := stats.Logs(c.values(c.blocks, c.side))
	if len(a) < 2 || len(b) < 2 {
		return ""
	}
	if g.Better == "lower" {
		for _, y := range [][]float64{a, b} {
			for i := range y {
				y[i] = -y[i]
			}
		}
	}
	alow, ahigh, _ := stats.Range(a)
	blow, bhigh, _ := stats.Range(b)
	gap, own := alow-bhigh, math.Max(ahigh-alow, bhigh-blow)
	if gap < .03 || gap <= 5*own {
		return ""
	}
	return fmt.Sprintf("the best of %d runs loses %s to the worst of the control, more than five times what either side varies by", len(b), share(-math.Expm1(-gap)))
}

// partPairs makes a block of the pairs that an unfinished block holds: arms that are ok, as many of each of
// two sides, the i-th with the i-th. ok is false where an arm is not ok or no pair is there.
func partPairs(g *record.Group, b BlockState) (pair BlockState, ok bool) {
	if len(g.Sides) != 2 || b.Complete {
		return b, false
	}
	var as, bs []*record.Arm
	for _, a := range b.Arms {
		switch {
		case a == nil:
		case a.Disposition != record.OK || Contrast(g, a) != "":
			return b, false
		case a.Label == g.Control:
			as = append(as, a)
		default:
			bs = append(bs, a)
		}
	}
	n := min(len(as), len(bs))
	if n == 0 {
		return b, false
	}
	pair = BlockState{Index: b.Index, Attempt: b.Attempt, Kind: "pair", Complete: true, Valid: true}
	pair.Arms = append(slices.Clone(as[:n]), bs[:n]...)
	slices.SortFunc(pair.Arms, func(x, y *record.Arm) int { return x.Slot - y.Slot })
	for _, a := range pair.Arms {
		pair.Labels = append(pair.Labels, a.Label)
	}
	return pair, true
}
