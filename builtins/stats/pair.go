package stats

// Pairs and samples without an order: what is left when the arms do not form quads.

import (
	"math"
)

// Pairs estimates from the i-th B less the i-th A. The pairs' own spread includes any drift between
// neighbours of opposite order, so quads are better whenever there are quads. One pair has no noise of its
// own: an interval only with a borrowed one. ok is false without pairs or with sides of unequal length.
// Not valid at any look.
func Pairs(a, b []float64, n *Noise) (e Estimate, ok bool) {
	if len(a) == 0 || len(a) != len(b) {
		return e, false
	}
	d := make([]float64, len(a))
	scale := 0.0
	for i := range a {
		d[i] = b[i] - a[i]
		scale = math.Max(scale, math.Max(math.Abs(a[i]), math.Abs(b[i])))
	}
	m, ss := meanSS(d)
	k := float64(len(d))
	e = Estimate{Method: MethodPair, Diff: m, N: len(d)}
	own := 0.0
	if k > 1 {
		own = ss / (k - 1) / 2
	}
	e.settle(own, k-1, 2/k, n, scale)
	return e, true
}

// Unpaired estimates from two samples without an order, with one common variance: the last resort. ok is
// false when a side is empty. Not valid at any look.
func Unpaired(a, b []float64, n *Noise) (e Estimate, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return e, false
	}
	ma, sa := meanSS(a)
	mb, sb := meanSS(b)
	na, nb := float64(len(a)), float64(len(b))
	scale := math.Max(maxAbs(a), maxAbs(b))
	e = Estimate{Method: MethodUnpaired, Diff: mb - ma, N: min(len(a), len(b))}
	df, own := na+nb-2, 0.0
	if df > 0 {
		own = (sa + sb) / df
	}
	e.settle(own, df, 1/na+1/nb, n, scale)
	return e, true
}

// Welch compares two samples without assuming one variance: t of mean(a)−mean(b), its degrees of freedom
// and the two-sided p. ok is false with fewer than two values on a side or without any variation.
// Not valid at any look.
func Welch(a, b []float64) (t, df, p float64, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return 0, 0, 0, false
	}
	ma, sa := meanSS(a)
	mb, sb := meanSS(b)
	na, nb := float64(len(a)), float64(len(b))
	va, vb := sa/(na-1)/na, sb/(nb-1)/nb
	if !(va+vb > 0) {
		return 0, 0, 0, false
	}
	t = (ma - mb) / math.Sqrt(va+vb)
	df = (va + vb) * (va + vb) / (va*va/(na-1) + vb*vb/(nb-1))
	return t, df, 2 * TTail(math.Abs(t), df), true
}

// Mean is the estimate of a mean from a plain sample, for differences already taken: SE = sd/√n with n−1
// degrees of freedom. One value has no noise. Not valid at any look.
func Mean(d []float64) (e Estimate, ok bool) {
	if len(d) == 0 {
		return e, false
	}
	m, ss := meanSS(d)
	k := float64(len(d))
	e = Estimate{Method: "mean", Diff: m, N: len(d)}
	own := 0.0
	if k > 1 {
		own = ss / (k - 1)
	}
	e.settle(own, k-1, 1/k, nil, maxAbs(d))
	return e, true
}

func meanSS(x []float64) (mean, ss float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		ss += (v - mean) * (v - mean)
	}
	return mean, ss
}

func maxAbs(x []float64) (m float64) {
	for _, v := range x {
		m = math.Max(m, math.Abs(v))
	}
	return m
}
