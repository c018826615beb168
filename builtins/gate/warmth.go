package gate

// The warm state as a covariate below the arm: what had warmed an engine before its measured requests. Like a
// request's place it is no part of the estimate; it says when part of an effect may be warmth.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// warmthMatters is the difference by warm state below which nothing is said.
const warmthMatters = .01

// unstable is how a warm state ends whose warm-up did not reach what was asked.
const unstable = "not stable"

// warmState is what had warmed the engine of an arm before the first of its measured requests; "" where it is not known.
func warmState(a *record.Arm) string {
	for i := range a.Requests {
		if q := &a.Requests[i]; q.Mark == record.MarkMeasured && q.WarmState != "" {
			return q.WarmState
		}
	}
	return ""
}

// warmth warns where arms whose warm-up was not stable differ from the others of their side, and where a side was
// warmed by more or fewer requests than the control throughout.
func (v *verdict) warmth(g *record.Group, blocks []BlockState) {
	counts := map[string][]float64{}
	for _, cs := range casesOf(g.Arms, g.Primary) {
		var cold, warm []float64 // on logarithms, less the mean of their side
		var names []string
		for _, s := range g.Sides {
			arms, values := sideValues(blocks, s.Label, g.Primary, cs)
			logs, ok := stats.Logs(values)
			mean, ok2 := stats.Mean(logs)
			for i, a := range arms {
				state := warmState(a)
				if state == "" || !ok || !ok2 {
					continue
				}
				if a.Load != nil && cs == firstCase(g) {
					counts[s.Label] = append(counts[s.Label], float64(a.Load.WarmRequests))
				}
				if strings.HasSuffix(state, unstable) {
					cold, names = append(cold, logs[i]-mean.Diff), append(names, armName(a))
				} else {
					warm = append(warm, logs[i]-mean.Diff)
				}
			}
		}
		if len(cold) < 2 || len(warm) < 2 {
			continue
		}
		_, df, p, ok := stats.Welch(cold, warm)
		a, _ := stats.Mean(cold)
		b, _ := stats.Mean(warm)
		effect, fin := stats.Ratio(a.Diff - b.Diff)
		if !ok || !fin || df <= 0 || p >= .05 || math.Abs(effect) < warmthMatters {
			continue
		}
		v.warn("warm state: arms whose warm-up was not stable (%s) are at %s of the others of their side%s (p %.2g over %d arms): more warm requests would leave that out",
			strings.Join(names, ", "), signed(effect), caseWords(cs), p, len(cold)+len(warm))
	}
	for _, s := range g.Sides {
		a, b := counts[g.Control], counts[s.Label]
		if s.Label == g.Control || len(a) == 0 || len(b) == 0 || slices.Max(a) >= slices.Min(b) && slices.Max(b) >= slices.Min(a) {
			continue
		}
		v.warn("warm state: side %s was warmed by %s requests, side %s by %s: part of their difference may be warmth", g.Control, spanWords(a), s.Label, spanWords(b))
	}
}

// spanWords is "3", or "2 to 4".
func spanWords(x []float64) string {
	if low, high := slices.Min(x), slices.Max(x); low != high {
		return fmt.Sprintf("%.0f to %.0f", low, high)
	}
	return fmt.Sprintf("%.0f", x[0])
}
