// Package stats holds designs, estimators, verdicts and stopping rules for two to ten blocks of arms.
//
// Its opinion: the experimental unit is one launch of the engine, the order of the launches is part of
// the estimator, and with so few of them the noise must be said rather than assumed. So every estimate
// carries where its noise came from, a comparison without known noise has no interval, and a result with
// no residual variation is told in words and never as p = 0. Effects are differences of logarithms; the
// caller takes the logarithms (Logs) and turns the result back with Ratio.
//
// Functions are pure and never return NaN or an infinity as a measured value. Each says whether it is
// valid at any look: a function that is not may be used once, after the last arm, and must not decide
// whether there will be a next arm. ValidAtAnyLook answers the same for a name, for callers that refuse.
//
// Its neighbours: gate decides which arms count and asks this package what they show.
package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Methods of an Estimate.
const (
	MethodQuad     = "quad"
	MethodPair     = "pair"
	MethodLadder   = "ladder"
	MethodUnpaired = "unpaired"
)

// Estimate is the difference of a side to its control on the scale that was analysed.
type Estimate struct {
	Method     string
	Diff       float64  // side minus control
	SE         float64  // of Diff; meaningful only when DF > 0
	DF         float64  // 0: no noise is known, so there is no interval
	ArmSD      float64  // noise of one arm behind SE
	K          float64  // SE² = K·ArmSD²: what one unit of the design buys
	N          int      // blocks behind it: quads, pairs, ladders
	OwnDF      float64  // degrees of freedom from these arms
	BorrowedDF float64  // and from earlier ones
	Borrowed   string   // what was borrowed, or why nothing was, in words
	Zero       bool     // no residual variation: SE is 0 and intervals are points
	Any        *Anytime // intervals hold at any look; nil: at one
}

// Known reports whether there is an interval at all.
func (e Estimate) Known() bool { return e.DF > 0 }

// Interval is the two-sided interval of Diff at a level such as .95; ok is false when no noise is known.
// Not valid at any look: at a look ask for the level of LookLevel, or of the estimate's Anytime.
func (e Estimate) Interval(level float64) (low, high float64, ok bool) {
	if !e.Known() || !(level > 0 && level < 1) {
		return 0, 0, false
	}
	if e.Any != nil {
		return e.Any.interval(e, level)
	}
	if e.Zero {
		return e.Diff, e.Diff, true
	}
	h := TQuantile((1+level)/2, e.DF) * e.SE
	return e.Diff - h, e.Diff + h, true
}

// T is the t statistic of Diff against shift; ok is false when no noise is known or there is no residual
// variation.
func (e Estimate) T(shift float64) (t float64, ok bool) {
	if !e.Known() || e.Zero {
		return 0, false
	}
	return (e.Diff - shift) / e.SE, true
}

// P is the two-sided p-value of Diff against 0, with the same ok as T: p = 0 is never said.
// Not valid at any look.
func (e Estimate) P() (p float64, ok bool) {
	t, ok := e.T(0)
	if !ok {
		return 0, false
	}
	return 2 * TTail(math.Abs(t), e.DF), true
}

// NoVariation says in words that the arms left no residual variation; "" when they did.
func (e Estimate) NoVariation() string {
	if !e.Zero {
		return ""
	}
	return fmt.Sprintf("no residual variation, df=%g: the interval is a point, and how far to trust it the arms cannot say", e.DF)
}

// Logs takes the logarithms; ok is false when a value has none.
func Logs(y []float64) (logs []float64, ok bool) {
	logs = make([]float64, len(y))
	for i, v := range y {
		if !(v > 0) || math.IsInf(v, 0) {
			return nil, false
		}
		logs[i] = math.Log(v)
	}
	return logs, true
}

// Ratio turns a difference of logarithms into a ratio minus one; ok is false beyond what a float holds.
func Ratio(diff float64) (effect float64, ok bool) {
	r := math.Expm1(diff)
	return r, !math.IsNaN(r) && !math.IsInf(r, 0)
}

// TQuantile is the quantile of Student's t.
func TQuantile(p, df float64) float64 {
	switch {
	case p == .5:
		return 0
	case df > 1e7:
		return distuv.UnitNormal.Quantile(p)
	case df == 1: // exact, where a general routine is weakest
		return math.Tan(math.Pi * (p - .5))
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}

// TTail is the upper tail of Student's t.
func TTail(t, df float64) float64 {
	if df > 1e7 {
		return distuv.UnitNormal.Survival(t)
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.CDF(-t)
}

// ValidAtAnyLook reports whether a function of this package, by its name in a workflow, may be asked by a
// stop between blocks. Unknown names are not valid.
func ValidAtAnyLook(name string) bool {
	switch name {
	case "median", "range", "mean", "sd", "gain_of_medians", "pair_deltas", // descriptions, no claim
		"order_bias", "mde", "pocock_p", "look_level", // about designs, not about results
		"pooled", "floor", // noise from arms that are not part of the comparison
		"min_pairs", "best_of_nulls", "expected_gain", "interaction", // about designs and choices
		"sign_e", "multiply_e", "ebh", // evidence that pays for its looks
		"quad_e", "quad_e_critical", "e_value":
		return true
	}
	return false
}
