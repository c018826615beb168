package gate

// Below the arm: what a request's place in its arm does to the primary metric. It is no part of the estimate,
// whose unit is the arm, and it says when an arm measures a machine that is still warming up.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// indexMatters is the change over the requests of an arm below which nothing is said.
const indexMatters = .01

// requestIndex warns where the primary metric rises or falls with the index of a request in its arm: the
// medians by index, and the slope with an interval over arms.
func (v *verdict) requestIndex(g *record.Group, blocks []BlockState) {
	for _, cs := range casesOf(g.Arms, g.Primary) {
		slopes := map[string][]float64{}
		byIndex := map[int][]float64{}
		var all []float64
		most := 0
		for _, b := range blocks {
			if !b.Valid {
				continue
			}
			for _, a := range b.Arms {
				x, y := byPlace(a, g.Primary, cs)
				if s, ok := slope(x, y); ok {
					slopes[a.Label] = append(slopes[a.Label], s)
					all = append(all, s)
					most = max(most, len(x))
				}
				for i := range x {
					byIndex[int(x[i])] = append(byIndex[int(x[i])], math.Exp(y[i]))
				}
			}
		}
		e, ok := stats.Mean(all)
		low, high, known := e.Interval(.95)
		over := e.Diff * float64(most-1)
		if !ok || !known || low <= 0 && high >= 0 || math.Abs(over) < indexMatters {
			continue
		}
		effect, fin := stats.Ratio(e.Diff)
		l, fin1 := stats.Ratio(low)
		h, fin2 := stats.Ratio(high)
		if !fin || !fin1 || !fin2 {
			continue
		}
		var medians []string
		for i := range most {
			if x := byIndex[i]; len(x) > 0 {
				medians = append(medians, fmt.Sprintf("%.4g", stats.Median(x)))
			}
		}
		word := "rises"
		if over < 0 {
			word = "falls"
		}
		w := fmt.Sprintf("%s%s %s with the request's place in its arm: medians %s, %s a request [%s, %s] at 95 %% over %d arms; more warm requests (warmup =) would leave that out",
			g.Primary, caseWords(cs), word, strings.Join(medians, ", "), signed(effect), signed(l), signed(h), len(all))
		if a, b := slopes[g.Control], others(slopes, g.Control); len(a) > 1 && len(b) > 1 {
			if t, df, p, ok := stats.Welch(b, a); ok && p < .05 && df > 0 && t != 0 {
				w += "; the sides differ in it, so that the effect depends on how many requests are measured"
			}
		}
		v.warn("%s", w)
	}
}

func others(m map[string][]float64, not string) (x []float64) {
	for k, v := range m {
		if k != not {
			x = append(x, v...)
		}
	}
	slices.Sort(x) // maps have no order, and sums should
	return x
}

// byPlace is the logarithm of a metric of an arm's measured requests by their repeat.
func byPlace(a *record.Arm, metric, cs string) (x, y []float64) {
	for i := range a.Requests {
		q := &a.Requests[i]
		if q.Mark != record.MarkMeasured || q.Status != "ok" || cs != "" && q.Case != cs {
			continue
		}
		for j := range q.Values {
			if m := &q.Values[j]; m.Name == metric && m.Value != nil && *m.Value > 0 && !math.IsInf(*m.Value, 0) {
				x, y = append(x, float64(q.Repeat)), append(y, math.Log(*m.Value))
			}
		}
	}
	return x, y
}

// slope is that of a least-squares line; ok is false for fewer than two places.
func slope(x, y []float64) (s float64, ok bool) {
	n := float64(len(x))
	var mx, my, xx, xy float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	return xy / xx, xx > 0
}

// mostRungs is how many rungs are compared with each other in words.
const mostRungs = 6

// rungContrasts says what each rung of a ladder has over the one before it; the two share controls.
func (v *verdict) rungContrasts(g *record.Group, blocks []BlockState) {
	if g.Role != record.RoleLadder || g.Design != "" || len(g.Sides) > mostRungs+1 || addsUp(g) { // of what adds up there are steps
		return
	}
	cs := firstCase(g)
	var before string
	var said []string
	for _, s := range g.Sides {
		if s.Label == g.Control {
			continue
		}
		if before != "" {
			e, corr, c, ok := v.overBefore(g, blocks, before, s.Label, cs)
			if c.kind != "ladder" {
				return
			}
			effect, fin := stats.Ratio(e.Diff)
			if low, high, known := e.Interval(.95); ok && fin && known {
				l, ok1 := stats.Ratio(low)
				h, ok2 := stats.Ratio(high)
				if ok1 && ok2 {
					said = append(said, fmt.Sprintf("%s over %s%s %s [%s, %s] (correlation %.2g)", s.Label, before, caseWords(cs), signed(effect), signed(l), signed(h), corr))
				}
			}
		}
		before = s.Label
	}
	if len(said) > 0 {
		v.warn("rungs share controls, so that each has over the one before it, at 95 %%: %s", strings.Join(said, ", "))
	}
}
