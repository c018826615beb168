package stats

// The verdict: what an estimate is called. It does not know which arms were valid; gate does.

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Verdicts.
const (
	Better       = "better"
	Worse        = "worse"
	Equivalent   = "equivalent"
	Inconclusive = "inconclusive"
)

// Rule is what a verdict is held to.
type Rule struct {
	MinEffect float64 // ratio: .01 is 1 %; 0 asks only for a difference
	Lower     bool    // lower is better
	P         float64 // two-sided p of a look; 0 is .05
	Superior  bool    // the whole interval must lie beyond MinEffect
}

func (r Rule) p() float64 {
	if r.P > 0 && r.P < 1 {
		return r.P
	}
	return .05
}

// Level is the level of the interval that decides better and worse: 1−p.
func (r Rule) Level() float64 { return 1 - r.p() }

// EquivalenceLevel is the level of the interval that decides equivalence: 1−2p, .90 for .05 (two one-sided
// tests).
func (r Rule) EquivalenceLevel() float64 { return 1 - 2*r.p() }

// Verdict names an estimate on logarithms: better or worse when the interval excludes 0 and the estimate is
// at least MinEffect in size, equivalent when the 90 % interval lies within ±MinEffect, else inconclusive;
// reason says why it is not more. Valid at any planned look when P is that of PocockP.
func (r Rule) Verdict(e Estimate) (verdict, reason string) {
	low, high, ok := e.Interval(r.Level())
	if !ok {
		return Inconclusive, "no noise is known, so there is no interval: more blocks are needed"
	}
	effect, fin := Ratio(e.Diff)
	if !fin {
		return Inconclusive, "the effect is beyond what can be computed"
	}
	sign := 1.0
	if r.Lower {
		sign = -1
	}
	m := r.MinEffect
	big := math.Abs(effect) >= m
	if r.Superior {
		big = math.Expm1(low) > m || math.Expm1(high) < -m
	}
	differs := low > 0 || high < 0
	switch {
	case differs && big && sign*effect > 0:
		return Better, ""
	case differs && big:
		return Worse, ""
	}
	elow, ehigh, _ := e.Interval(r.EquivalenceLevel())
	if math.Expm1(elow) >= -m && math.Expm1(ehigh) <= m {
		return Equivalent, ""
	}
	if differs {
		return Inconclusive, fmt.Sprintf("a difference, but its size is not known to reach or to stay under %s", pct(m))
	}
	return Inconclusive, "the interval holds 0"
}

// BlocksNeeded is how many more blocks it takes until target (a ratio) can be shown with 80 % power at the
// rule's p, if the noise stays what it is. k(n) and df(n) describe the design with n blocks in all; have is
// how many there are. ok is false when no noise or target is known, or no number up to 1000 is enough.
func (r Rule) BlocksNeeded(e Estimate, have int, target float64, k, df func(n int) float64) (more int, ok bool) {
	if !(target > 0) {
		return 0, false
	}
	return r.BlocksForGap(e, have, math.Log1p(target), k, df)
}

// BlocksForGap is the same for a distance of logarithms: that between an estimate and what its interval is to
// exclude.
func (r Rule) BlocksForGap(e Estimate, have int, gap float64, k, df func(n int) float64) (more int, ok bool) {
	if !e.Known() || e.Zero || !(gap > 0) || math.IsInf(gap, 0) {
		return 0, false
	}
	goal := gap / e.ArmSD
	// The normal formula promises too much, so its answer is where the search begins: few steps are left.
	z := distuv.UnitNormal.Quantile(1-r.p()/2) + distuv.UnitNormal.Quantile(.8)
	const most = 1000
	n := have
	for n <= most && z*math.Sqrt(k(n)) > goal {
		n++
	}
	for ; n <= most; n++ {
		if m, ok := MDE(k(n), df(n), r.p(), .8); ok && m <= goal {
			return n - have, true
		}
	}
	return 0, false
}

// Gap is the distance of logarithms that blocks must be able to show before an inconclusive estimate is
// decided. Of an estimate beyond MinEffect it is what lies between it and what its interval must exclude: 0, or
// MinEffect itself where Superior. Of any other it is MinEffect. 0 where there is none.
func (r Rule) Gap(e Estimate) float64 {
	up, down := math.Log1p(r.MinEffect), math.Inf(1)
	if r.MinEffect < 1 {
		down = -math.Log1p(-r.MinEffect)
	}
	size, bound := math.Abs(e.Diff), up
	if e.Diff < 0 {
		bound = down
	}
	switch {
	case size < bound || size == 0:
		return up
	case r.Superior:
		return size - bound
	}
	return size
}
