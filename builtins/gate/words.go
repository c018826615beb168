package gate

// What a judgement says in words, so that every printer says the same.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// signed is a ratio minus one as a percentage with its sign, "+2.06 %".
func signed(x float64) string {
	if math.Abs(x) >= huge {
		return fmt.Sprintf("×%.4g", 1+x)
	}
	return fmt.Sprintf("%+.*f %%", digits(x), 100*x)
}

// share is the same without a sign.
func share(x float64) string {
	if math.Abs(x) >= huge {
		return fmt.Sprintf("×%.4g", 1+x)
	}
	return fmt.Sprintf("%.*f %%", digits(x), 100*x)
}

// huge is where a factor says more than a percentage, which may not even be a number any more.
const huge = 1e4

func digits(x float64) int {
	switch x = math.Abs(100 * x); {
	case x >= 100:
		return 1
	case x >= .1 || x == 0:
		return 2
	case x >= .01:
		return 3
	}
	return 4
}

// effectWords is an estimate in one line: "+2.06 % [+1.86 %, +2.25 %] at 95 %, 2 quads".
func effectWords(e *record.Estimate) string {
	w := signed(e.Effect)
	switch {
	case e.Low != nil && e.High != nil:
		w += fmt.Sprintf(" [%s, %s] at %.4g %%", signed(*e.Low), signed(*e.High), 100*e.Level)
	case e.SE != nil:
		w += " with an interval beyond all numbers"
	default:
		w += " without an interval"
	}
	unit := map[string]string{stats.MethodQuad: "quad", stats.MethodLadder: "ladder"}[e.Method]
	if unit == "" {
		unit = "block"
	}
	w += fmt.Sprintf(", %d %s", e.Blocks, unit)
	if e.Blocks != 1 {
		w += "s"
	}
	return w
}

// noiseWords warns about noise that is not there or not these arms' own.
func (v *verdict) noiseWords(e stats.Estimate, metric, cs string) {
	in := metric + caseWords(cs) + ": "
	if w := e.NoVariation(); w != "" {
		v.warn("%s%s", in, w)
	}
	if e.Borrowed != "" {
		v.warn("%s%s", in, e.Borrowed)
	}
}

// labels warns about what the design cannot show, and what stands behind the levers.
func (v *verdict) labels(g *record.Group, blocks []BlockState) {
	var quads, bFirst int
	for _, b := range blocks {
		if !b.Valid {
			continue
		}
		if b.Kind == "quad" {
			quads++
			if b.Labels[0] != g.Control {
				bFirst++
			}
		}
		if b.Kind == "ladder" {
			continue
		}
		order := make([]bool, len(b.Labels))
		for i, l := range b.Labels {
			order[i] = l != g.Control
		}
		if bias, ok := stats.BiasOf(order); ok && bias.Confounded() {
			v.confounded(g, b, order)
		}
	}
	if quads > 1 && (bFirst == 0 || bFirst == quads) {
		v.warn("all %d quads have one orientation: a curved drift and a cold first slot pass for an effect", quads)
	}
	v.fewRuns()
	v.normality()
	for _, s := range g.Sides {
		for _, l := range s.Stack {
			if want, _ := confirms(l); l.Unconfirmed != "" && len(want) == 0 {
				v.warn("lever %s is unconfirmed: %s", l.Name, l.Unconfirmed)
			}
		}
	}
	for _, b := range blocks {
		for _, a := range b.Arms {
			if b.Valid && a != nil && a.Attached {
				v.warn("attached to an engine that flow did not launch: weaker evidence")
			}
		}
	}
}

// fewRuns warns about sides of one or two runs: what is printed as their range claims nothing. Where the noise of
// earlier arms gives an interval all the same, it is said that the two are not the same thing.
func (v *verdict) fewRuns() {
	for n := 1; n <= 2; n++ {
		for _, borrowed := range []bool{false, true} {
			var few []string
			for _, c := range v.comparisons {
				if !c.Cost && c.NSide == n && (c.Estimate != nil && c.Estimate.BorrowedDF > 0) == borrowed && !slices.Contains(few, c.Side) {
					few = append(few, c.Side)
				}
			}
			words := "an observed range, not an interval"
			if borrowed {
				words = "an observed range; the interval is that of noise known from earlier arms"
			}
			switch {
			case len(few) == 1:
				v.warn("%s of side %s: %s", runs(n), few[0], words)
			case len(few) > 1:
				v.warn("%s of each of the sides %s: %s", runs(n), strings.Join(few, ", "), words)
			}
		}
	}
}

// normality warns about intervals that so few differences have only because their noise is taken for normal.
// A ladder and a design have no differences that could be exchanged at all, and say what they are elsewhere.
func (v *verdict) normality() {
	if v.any != nil && v.any.Kind == stats.AnytimeSign {
		return
	}
	for _, c := range v.comparisons {
		e := c.Estimate
		if c.Cost || e == nil || e.SE == nil {
			continue
		}
		n := 0
		switch e.Method {
		case stats.MethodQuad:
			n = e.Blocks
		case stats.MethodPair:
			n = c.NSide
		default:
			continue
		}
		if w := stats.Attainable(n, .95); w != "" {
			unit := e.Method
			if n != 1 {
				unit += "s"
			}
			v.warn("%d %s %s", n, unit, w)
		}
	}
}

func runs(n int) string {
	if n == 1 {
		return "one run"
	}
	return "two runs"
}

// confounded warns about an order in which a steady drift passes for an effect, and says what is left with
// the drift fitted, where that can be said.
func (v *verdict) confounded(g *record.Group, b BlockState, order []bool) {
	w := fmt.Sprintf("drift-confounded order %s: a steady drift passes for an effect", strings.Join(b.Labels, ""))
	if len(b.Labels[0]) > 1 {
		w = fmt.Sprintf("drift-confounded order %q: a steady drift passes for an effect", strings.Join(b.Labels, " "))
	}
	for _, cs := range casesOf(g.Arms, g.Primary) {
		if y, _, ok := series(b, g.Control, g.Primary, cs); ok && len(g.Sides) == 2 {
			e, drift, ok := stats.Trend(y, order, nil)
			effect, fin := stats.Ratio(e.Diff)
			slope, fin2 := stats.Ratio(drift)
			if ok && fin && fin2 && math.Abs(effect) < huge && math.Abs(slope) < huge {
				w += fmt.Sprintf("; with a drift of %s an arm fitted the effect is %s%s", signed(slope), signed(effect), caseWords(cs))
			}
		}
	}
	v.warn("%s", w)
}

// equivalentWords is the two one-sided tests in words: the interval that lies within the margin, and their p
// where it is looked at once.
func equivalentWords(e stats.Estimate, r *record.Estimate, rule stats.Rule, once bool) string {
	if r.Low90 == nil || r.High90 == nil || !(rule.MinEffect > 0) || rule.MinEffect >= 1 {
		return ""
	}
	w := fmt.Sprintf("two one-sided tests: [%s, %s] at %.4g %% lies within ±%s", signed(*r.Low90), signed(*r.High90), 100*rule.EquivalenceLevel(), share(rule.MinEffect))
	if p, ok := e.Within(math.Log1p(-rule.MinEffect), math.Log1p(rule.MinEffect)); ok && once {
		w += fmt.Sprintf(", p %.2g", p)
	}
	return w
}
