package gate

// Before the first arm: how soon a group may end, and what it can show.

import (
	"fmt"
	"math"

	"flow/builtins/stats"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// FirstLook is how many blocks a group takes at least: the first look of a stop that looks at results, else
// its cap.
func FirstLook(g *record.Group) int {
	switch {
	case anytimeOf(g) != nil:
		for n := 1; n < g.Cap; n++ {
			if _, ok := stats.ECritical(float64(n), math.Max(1, float64(2*n-1)), .05, gOf(anytimeOf(g))); ok {
				return n
			}
		}
		return g.Cap
	case looksAtResults(g):
		return min(firstLook(g), g.Cap)
	}
	return g.Cap
}

// Shows is the smallest effect, in standard deviations of an arm, that the group finds at its cap with 80 %
// power. ok is false for orders that have no plain answer.
func Shows(g *record.Group, b plan.Block) (sds float64, ok bool) {
	n := float64(g.Cap)
	lentDF := 0.0
	for _, x := range g.Noise {
		if x.Metric == g.Primary {
			lentDF = math.Min(stats.MaxBorrowedDF, x.DF)
		}
	}
	p := 1 - ruleOf(g, looksAtResults(g)).Level()
	switch b.Kind {
	case "quad":
		if a := anytimeOf(g); a != nil {
			t, ok := stats.ECritical(n, 2*n-1, .05, gOf(a))
			return (t + stats.TQuantile(.8, 2*n-1)) / math.Sqrt(n), ok
		}
		return stats.MDE(1/n, 2*n-1+lentDF, p, .8)
	case "pair":
		return stats.MDE(2/n, n-1+lentDF, p, .8)
	case "ladder":
		worst := 0.0
		l := stats.Ladder{Y: make([]float64, len(b.Labels)), Labels: b.Labels}
		for _, s := range g.Sides {
			_, factors := l.Deltas(g.Control, s.Label)
			k := 0.0
			for _, f := range factors {
				k += f / float64(len(factors)) / float64(len(factors))
			}
			if len(factors) > 0 && s.Label != g.Control {
				worst = math.Max(worst, k)
			}
		}
		controls := float64(len(l.Controls(g.Control)) - 1)
		if worst == 0 || controls < 1 {
			return 0, false
		}
		df := n * 2 * controls * controls / (3*controls - 1)
		return stats.MDE(worst/n, df+lentDF, p, .8)
	}
	return 0, false
}

// tooFine warns about a min_effect that the cap cannot show with the noise that is known.
func tooFine(g *record.Group, b plan.Block) string {
	if g.MinEffect <= 0 {
		return ""
	}
	for _, x := range g.Noise {
		if x.Metric != g.Primary || !(x.DF > 0) {
			continue
		}
		sds, ok := Shows(g, b)
		can, fin := stats.Ratio(sds * x.SD)
		if ok && fin && can > 2*g.MinEffect {
			return fmt.Sprintf("min_effect %s is far below the %s that %d blocks can show with the known noise of %s an arm", share(g.MinEffect), share(can), g.Cap, share(x.SD))
		}
	}
	return ""
}

func kindOf(b BlockState) plan.Block { return plan.Block{Kind: b.Kind, Labels: b.Labels} }
