package stats

// Small formulas around the main estimators: what pairs of a quad suffer from drift, two samples by ranks,
// and the boldest bet on signs.

import "math"

// PairVariance is the expected sample variance, in units of that of one arm, of the 2k pair deltas of k ABBA
// quads under a drift of so many arm standard deviations a slot: 2 + drift²·2k/(2k−1), because the deltas of a
// quad are τ+g and τ−g (section 3.2). It is why pairs are no noise where there is drift. Valid at any look: it
// is about the design.
func PairVariance(quads int, drift float64) float64 {
	n := 2 * float64(quads)
	return 2 + drift*drift*n/(n-1)
}

// mostSplits bounds what MannWhitney enumerates.
const mostSplits = 200_000

// MannWhitney is the exact rank-sum test of two samples without an order: u counts the pairs in which a is the
// larger, ties as a half, of those two counts the smaller; p is two-sided over all ways to split the values,
// ties kept (sections 3.2 and 3.3). ok is false for an empty side and where the splits are too many to
// enumerate. Not valid at any look.
func MannWhitney(a, b []float64) (u, p float64, ok bool) {
	if len(a) == 0 || len(b) == 0 || lchoose(len(a)+len(b), len(a)) > math.Log(mostSplits) {
		return 0, 0, false
	}
	all := append(append([]float64(nil), a...), b...)
	for _, v := range all {
		if math.IsNaN(v) {
			return 0, 0, false
		}
	}
	ranks := make([]int, len(all)) // doubled, so that ties are whole numbers; by value, where midranks goes by size
	for i, v := range all {
		for _, w := range all {
			switch {
			case w < v:
				ranks[i] += 2
			case w == v:
				ranks[i]++
			}
		}
		ranks[i]++
	}
	sum := 0
	for i := range a {
		sum += ranks[i]
	}
	na, n := len(a), len(all)
	middle := na * (n + 1) // of twice the rank sum
	far := abs(sum - middle)
	var hits, total float64
	var split func(from, left, s int)
	split = func(from, left, s int) {
		if left == 0 {
			total++
			if abs(s-middle) >= far {
				hits++
			}
			return
		}
		for i := from; i <= n-left; i++ {
			split(i+1, left-1, s+ranks[i])
		}
	}
	split(0, na, 0)
	u = float64(sum)/2 - float64(na*(na+1))/2
	return math.Min(u, float64(na*len(b))-u), hits / total, true
}

// AllInE is the evidence of k good ones among n signs for whoever stakes all on each of them: 2ⁿ while all are
// good, nothing after one that is not (section 3.7, rule 5). One-sided, and valid at any look.
func AllInE(k, n int) float64 {
	if k < n {
		return 0
	}
	return math.Exp2(math.Min(float64(n), 1000))
}
