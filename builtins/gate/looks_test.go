package gate

import (
	"fmt"
	"math"
	"testing"

	"flow/builtins/stats"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Section 4, default number of quads: the first look is after one quad with at least eight borrowed degrees of
// freedom, else after two; every look is at the Pocock level of the cap; without looks the interval is .95 and
// what a cap shows is the table of smallest effects.
func TestSection4LooksAndShows(t *testing.T) {
	quad := plan.Block{Kind: "quad", Labels: plan.Labels("ABBA")}
	group := func(limit int, df float64, stop ...string) *record.Group {
		g := block(ab(""), 0, "ABBA", 100, 101, 101, 100)
		g.Cap, g.Stops = limit, stop
		if df > 0 {
			g.Noise = []record.Noise{{Metric: g.Primary, SD: .003, DF: df, From: "earlier sessions"}}
		}
		return g
	}
	for _, c := range []struct {
		limit int
		df    float64
		first int
		p     float64
	}{
		{4, 0, 2, .0221}, {4, 7.9, 2, .0221}, {4, 8, 1, .0182}, {4, 40, 1, .0182},
		{2, 8, 1, .0294}, {3, 8, 1, .0221}, {5, 8, 1, .0158}, {3, 0, 2, .0294}, {2, 0, 2, .05},
	} {
		g := group(c.limit, c.df, "decided()")
		name := fmt.Sprintf("cap %d, %g df", c.limit, c.df)
		if got := firstLook(g); got != c.first {
			t.Errorf("%s: first look after %d quads, want %d", name, got, c.first)
		}
		if got := 1 - ruleOf(g, looksAtResults(g)).Level(); math.Abs(got-c.p) > 5e-5 {
			t.Errorf("%s: each look at p %.5f, want %.4f", name, got, c.p)
		}
		fixed := group(c.limit, c.df)
		if got := ruleOf(fixed, looksAtResults(fixed)).Level(); math.Abs(got-.95) > 1e-12 {
			t.Errorf("%s without looks: level %v", name, got)
		}
	}
	for i, c := range []struct{ own, borrowed float64 }{{16.3, 3.15}, {3.01, 2.18}, {2.03, 1.75}, {1.63, 1.50}, {1.41, 1.33}, {1.26, 1.21}} {
		for df, want := range map[float64]float64{0: c.own, 8: c.borrowed, 60: c.borrowed} { // no more than eight are lent
			if got, ok := Shows(group(i+1, df), quad); !ok || math.Abs(got/want-1) > 4e-3 {
				t.Errorf("%d quads, %g df: shows %.3f sd, want %.2f", i+1, df, got, want)
			}
		}
	}
	// Section 4, sequential: the first quad count at which the always-valid rule can stop at all.
	for g, want := range map[float64]int{1: 3, 4: 2, 10: 2} {
		n := 1
		for ; n < 9; n++ {
			if _, ok := stats.ECritical(float64(n), float64(2*n-1), .05, g); ok {
				break
			}
		}
		if n != want {
			t.Errorf("g = %g: first stop at %d quads, want %d", g, n, want)
		}
	}
}
