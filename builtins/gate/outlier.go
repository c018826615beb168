package gate

// An arm that stands far from all others of its side. It stays in the verdict, which its distance widens: to leave it
// out for its result would be to choose the result. But it is named, because something happened there.

import (
	"math"
	"slices"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// outlierFactor is how many times what the others span the gap to them has to be, by the number of arms: Dixon's Q at
// 99 % as Q/(1-Q), so that one normal side in a hundred is told of without having any.
func outlierFactor(n int) float64 {
	if n >= 10 {
		return 1.32
	}
	return map[int]float64{3: 166, 4: 12.5, 5: 4.6, 6: 2.85, 7: 2.13, 8: 1.74, 9: 1.49}[n]
}

// outliers warns of a single arm at one end of its side's values in the primary metric.
func (v *verdict) outliers(g *record.Group, blocks []BlockState) {
	for _, cs := range casesOf(g.Arms, g.Primary) {
		for _, s := range g.Sides {
			arms, values := sideValues(blocks, s.Label, g.Primary, cs)
			logs, ok := stats.Logs(values)
			n := len(logs)
			if !ok || n < 3 {
				continue
			}
			y := slices.Sorted(slices.Values(logs))
			low, high := y[1]-y[0], y[n-1]-y[n-2]
			at, gap, span := y[0], low, y[n-1]-y[1]
			if high > low {
				at, gap, span = y[n-1], high, y[n-2]-y[0]
			}
			if gap < armJump || !(gap > outlierFactor(n)*span) || math.IsInf(gap, 0) {
				continue
			}
			i := slices.Index(logs, at)
			rest := slices.Sorted(slices.Values(slices.Delete(slices.Clone(values), i, i+1)))
			v.warn("outlier: arm %s%s is at %s, the other %d of side %s at %s to %s: it counts, and widens the interval; see what happened there (flow show), and let a gate on its cause leave such arms out, not their result",
				armName(arms[i]), caseWords(cs), number(values[i]), n-1, s.Label, number(rest[0]), number(rest[len(rest)-1]))
		}
	}
}
