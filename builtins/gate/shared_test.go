package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// sharedNulls is a sieve of n levers that do nothing, three between two controls.
func sharedNulls(r *rand.Rand, n int, mirror bool) *record.Group {
	labels := []string{"U"}
	g := &record.Group{Name: "sieve", Role: record.RoleScreen, Control: "U", Primary: "m", Better: "higher", Cap: 1, Sides: []record.Side{{Label: "U", Control: true}}}
	for i := range n {
		l := fmt.Sprint("S", i+1)
		labels = append(labels, l)
		if i%3 == 2 || i == n-1 {
			labels = append(labels, "U")
		}
		g.Sides = append(g.Sides, record.Side{Label: l, Stack: []record.Lever{{Name: l, Hash: l}}})
	}
	if mirror {
		for _, l := range slices.Backward(labels[:len(labels)-1]) {
			labels = append(labels, l)
		}
	}
	g.Order = strings.Join(labels, " ")
	for i, l := range labels {
		v := 100 * math.Exp(.003*r.NormFloat64()+.0005*float64(i))
		g.Arms = append(g.Arms, &record.Arm{Label: l, Slot: i, Seq: i, Purpose: "measured", Disposition: record.OK, Metrics: []record.Metric{{Name: "m", Value: &v}}})
	}
	return g
}

// Levers that share controls are no independent witnesses. Of sieves of nulls at most 5 % find one by
// Benjamini-Hochberg, which section 3.8 allows beside e-values; and the one-sidedness alarm, for which one low control
// counts as many levers, keeps its 1 %, where the sign test alone is at three times as much.
func TestSharedControlsFamily(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	runs := 200
	if testing.Short() {
		runs = 100
	}
	found, alarms, naive, n := 0, 0, 0, 0
	for _, levers := range []int{9, 12, 17} {
		for range runs {
			g := sharedNulls(r, levers, levers == 12)
			g.Noise = []record.Noise{{Metric: "m", SD: .003 * math.Sqrt(stats11(r)), DF: 11}}
			v := look(g, false, false)
			g.Comparisons, g.Verdict = v.comparisons, v.verdict
			f := Family([]*record.Group{g})
			if len(f.Screens) != levers || f.Rule != "BH" {
				t.Fatalf("%d members by %s, want %d", len(f.Screens), f.Rule, levers)
			}
			n++
			if slices.ContainsFunc(f.Screens, func(m Member) bool { return m.Passes }) {
				found++
			}
			if f.OneSided != "" {
				alarms++
			}
			var x []float64
			for _, m := range f.Screens {
				x = append(x, m.log)
			}
			if _, alarm := stats.OneSided(x); alarm {
				naive++
			}
		}
	}
	share := func(k int) float64 { return float64(k) / float64(n) }
	t.Logf("of %d sieves of nulls %.1f %% find a lever, %.2f %% alarm, %.2f %% would by the sign test", n, 100*share(found), 100*share(alarms), 100*share(naive))
	if share(found) > .05 {
		t.Errorf("%.1f %% of sieves of nulls find a lever, want at most 5 %%", 100*share(found))
	}
	if share(alarms) > .01+3*math.Sqrt(.01*.99/float64(n)) || share(naive) < .015 {
		t.Errorf("%.2f %% alarm, want at most 1 %%; the sign test %.2f %%", 100*share(alarms), 100*share(naive))
	}
	// One cause behind all of them is still told.
	g := sharedNulls(r, 17, true)
	for _, a := range g.Arms {
		if a.Label != "U" {
			*a.Metrics[0].Value *= 1.01
		}
	}
	Judge(g, nil)
	if f := Family([]*record.Group{g}); !strings.Contains(f.OneSided, "17 of 17 screened effects point up") {
		t.Errorf("a cause behind all: got %q", f.OneSided)
	}
}
