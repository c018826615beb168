package stats

// What the field publishes: medians, ranges, gains of medians and pair deltas, on raw values. They are
// descriptions and claim nothing, so all of them are valid at any look.

import (
	"math"
	"slices"
)

// Median of values; that of two is their mean. 0 for none: ask for the length first.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Clone(x)
	slices.Sort(s)
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}

// Range is the smallest and the largest value; ok is false for none.
func Range(x []float64) (low, high float64, ok bool) {
	if len(x) == 0 {
		return 0, 0, false
	}
	return slices.Min(x), slices.Max(x), true
}

// GainOfMediansPct is 100*(median(b)/median(a) - 1), in exactly that form: other forms differ from the
// published figures in the last bit. ok is false when a side is empty or the result is not a number.
func GainOfMediansPct(a, b []float64) (pct float64, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return 0, false
	}
	g := 100 * (Median(b)/Median(a) - 1)
	return g, !math.IsNaN(g) && !math.IsInf(g, 0)
}

// PairDeltas is the i-th b less the i-th a, in the metric's unit, for as many as both have.
func PairDeltas(a, b []float64) []float64 {
	var d []float64
	for i := range min(len(a), len(b)) {
		if x := b[i] - a[i]; !math.IsInf(x, 0) && !math.IsNaN(x) {
			d = append(d, x)
		}
	}
	return d
}
