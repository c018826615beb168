package stats

// Before the arms: what an earlier noise floor lets a later mean show, how many requests a launch should
// have, how fast an error rate may be spent, and what is still to be expected.

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Floor is what a later mean of n differences must exceed, from a noise floor of sd s0 on n0 differences.
// mean says that the floor's own mean is taken off as well. Valid at any look: it sees no arm of the
// comparison.
func Floor(s0 float64, n0, n int, mean bool) (floor float64, ok bool) {
	if n0 < 2 || n < 1 || !(s0 >= 0) {
		return 0, false
	}
	v := 1 / float64(n)
	if mean {
		v += 1 / float64(n0)
	}
	return TQuantile(.975, float64(n0-1)) * s0 * math.Sqrt(v), true
}

// SDBound is the factor by which the true noise may exceed one found on df degrees of freedom, at 95 %: 4.4
// for three differences, so that a noise floor of three is worth next to nothing. Valid at any look.
func SDBound(df float64) (factor float64, ok bool) {
	if !(df > 0) {
		return 0, false
	}
	return math.Sqrt(df / distuv.ChiSquared{K: df}.Quantile(.05)), true
}

// DesignEffect is by how much m values of one launch with correlation rho count for less than m. Valid at
// any look.
func DesignEffect(m int, rho float64) float64 { return 1 + float64(m-1)*rho }

// BestRepeats is how many requests a launch should have: launch and request are what each costs, and their
// noise is sdLaunch and sdRequest (Kalibera and Jones 2013). ok is false without noise between launches.
// Valid at any look.
func BestRepeats(launch, request, sdLaunch, sdRequest float64) (m float64, ok bool) {
	if !(sdLaunch > 0) || !(request > 0) || !(launch > 0) {
		return 0, false
	}
	return math.Sqrt(launch / request * (sdRequest * sdRequest) / (sdLaunch * sdLaunch)), true
}

// SpendOBrienFleming and SpendPocock are how much of a two-sided .05 may be spent by the share t of the
// information (Lan and DeMets 1983). Valid at any look: they are about the design.
func SpendOBrienFleming(t float64) float64 {
	if !(t > 0) {
		return 0
	}
	return 2 * distuv.UnitNormal.Survival(distuv.UnitNormal.Quantile(.975)/math.Sqrt(math.Min(t, 1)))
}

// SpendPocock spends evenly; see SpendOBrienFleming.
func SpendPocock(t float64) float64 {
	if !(t > 0) {
		return 0
	}
	return .05 * math.Log1p((math.E-1)*math.Min(t, 1))
}

// ConditionalPower is the probability that a group ends better: diff is the estimate after have of cap
// blocks (in the good direction), sd the noise of an arm and k the design's factor for one block; the rest is
// expected to go on as it began. bound is what the final estimate must reach. Valid at any look: giving up
// makes no false better.
func ConditionalPower(diff, sd, k float64, have, limit int, bound float64) float64 {
	left := float64(limit - have)
	if left <= 0 || !(sd > 0) {
		if diff >= bound {
			return 1
		}
		return 0
	}
	spread := left / float64(limit) * sd * math.Sqrt(k/left)
	return distuv.UnitNormal.CDF((diff - bound) / spread)
}

// Within is TOST with a margin of its own on either side, as a ratio's margin has on logarithms. Not valid at
// any look.
func (e Estimate) Within(low, high float64) (p float64, ok bool) {
	l, ok1 := e.T(low)
	h, ok2 := e.T(high)
	if !ok1 || !ok2 || !(low < high) {
		return 0, false
	}
	return math.Max(TTail(l, e.DF), TTail(-h, e.DF)), true
}
