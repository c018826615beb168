package stats

import (
	"math"
	"slices"
)

// Two is a sample that falls into two clusters.
type Two struct {
	Low, High []float64 // the values, sorted
	Gap       float64   // between the clusters' nearest values
	Width     float64   // from end to end of the wider one
}

// clusterFactor is by how much the gap must exceed the width of the wider cluster, by the size of the sample. The
// fewer values, the more often two lie together by chance: each factor is such that at most one normal sample in a
// hundred is flagged (TestClustersFalseAlarms). What it finds is coarse, two states of a clock or a cache and not
// two neighbouring modes: of eight values in two states six standard deviations apart a third, ten apart nine in ten.
func clusterFactor(n int) float64 {
	switch {
	case n >= 12:
		return 1.25
	case n >= 10:
		return 1.5
	}
	return map[int]float64{4: 9.5, 5: 5.5, 6: 3.5, 7: 2.5, 8: 2, 9: 2}[n]
}

// Clusters splits a sample at its widest gap, and says whether the two parts are clusters: at least two values in
// each, the gap at least smallest, and the gap clusterFactor times what the wider part spans. Fewer than four
// values have none. It is a description and no test of a difference between sides; valid at any look.
func Clusters(x []float64, smallest float64) (t Two, ok bool) {
	n := len(x)
	if n < 4 {
		return t, false
	}
	y := slices.Clone(x)
	slices.Sort(y)
	if math.IsNaN(y[0]) || math.IsInf(y[0], 0) || math.IsInf(y[n-1], 0) {
		return t, false
	}
	at := 0
	for i := 2; i <= n-2; i++ {
		if gap := y[i] - y[i-1]; gap > t.Gap {
			t.Gap, at = gap, i
		}
	}
	if at == 0 {
		return t, false
	}
	t.Low, t.High = y[:at], y[at:]
	t.Width = math.Max(y[at-1]-y[0], y[n-1]-y[at])
	return t, t.Gap >= smallest && t.Gap > clusterFactor(n)*t.Width
}
