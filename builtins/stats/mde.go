package stats

// The smallest effect that a design can show.

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// MDE is the smallest true difference, in units of the noise of one arm, that a two-sided t test at p finds
// with the given power; the estimate has variance k of an arm's and df degrees of freedom. From the
// noncentral t: the normal formula promises 2 sd at two pairs where 11.5 is true. ok is false without
// degrees of freedom. Valid at any look: it is about the design.
func MDE(k, df, p, power float64) (sds float64, ok bool) {
	if !(df > 0) || !(k > 0) || !(p > 0 && p < 1) || !(power > p && power < 1) {
		return 0, false
	}
	crit := TQuantile(1-p/2, df)
	u := chiNodes(df)
	reach := func(nc float64) bool { return tPower(u, crit, nc) >= power }
	low, high := 0.0, 1.0
	for !reach(high) {
		if high *= 2; high > 1e9 {
			return 0, false
		}
	}
	for high-low > 1e-6*high {
		if mid := (low + high) / 2; reach(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high * math.Sqrt(k), true
}

// chiNodes are the middles of equally likely slices of s/σ, from the smallest.
func chiNodes(df float64) []float64 {
	const n = 64
	if df > 1e5 {
		return []float64{1}
	}
	chi := distuv.ChiSquared{K: df}
	u := make([]float64, n)
	for i := range u {
		q := (float64(i) + .5) / n
		if df > 6 { // Wilson and Hilferty, good to three digits from here on and much faster
			w := 2 / (9 * df)
			u[i] = math.Pow(1-w+distuv.UnitNormal.Quantile(q)*math.Sqrt(w), 1.5)
			continue
		}
		u[i] = math.Sqrt(chi.Quantile(q) / df)
	}
	return u
}

// tPower is P(T > crit) of a noncentral t: the mean of Φ(nc − crit·s/σ) over s. gonum's series loses its
// way for the large noncentralities of one or two degrees of freedom.
func tPower(u []float64, crit, nc float64) float64 {
	sum := 0.0
	for _, x := range u {
		sum += distuv.UnitNormal.CDF(nc - crit*x)
	}
	return sum / float64(len(u))
}
