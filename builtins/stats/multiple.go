package stats

// Many comparisons at once. Of twenty levers that do nothing one passes 5 % in two sessions of three, so a
// screen controls the share of false discoveries (Benjamini-Hochberg, or its form on e-values, which holds
// under any dependence, such as shared controls), and a claim the chance of any (Holm).

import (
	"math"
	"slices"
)

// FamilyError is the probability that at least one of k independent true nulls passes alpha: 1−(1−α)^k.
func FamilyError(k int, alpha float64) float64 { return -math.Expm1(float64(k) * math.Log1p(-alpha)) }

// Sidak is the level each of k independent tests may use so that all together keep alpha.
func Sidak(k int, alpha float64) float64 {
	return -math.Expm1(math.Log1p(-alpha) / float64(max(1, k)))
}

// byP is the places of p in rising order.
func byP(p []float64) []int {
	at := make([]int, len(p))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(i, j int) int {
		switch {
		case p[i] < p[j]:
			return -1
		case p[i] > p[j]:
			return 1
		}
		return 0
	})
	return at
}

// Holm is the adjusted p of each: compare with .05, and the chance of any false claim is at most that.
func Holm(p []float64) []float64 {
	out, worst := make([]float64, len(p)), 0.0
	for r, i := range byP(p) {
		worst = math.Max(worst, math.Min(1, float64(len(p)-r)*p[i]))
		out[i] = worst
	}
	return out
}

// BH is the adjusted p of each: compare with q, and of those that pass a share of at most q is false, for
// independent or positively dependent tests.
func BH(p []float64) []float64 {
	out, best := make([]float64, len(p)), 1.0
	at := byP(p)
	for r := len(at) - 1; r >= 0; r-- {
		best = math.Min(best, p[at[r]]*float64(len(p))/float64(r+1))
		out[at[r]] = best
	}
	return out
}

// EBH says which of the e-values are discoveries at false discovery rate q, whatever their dependence: the k
// largest, for the largest k with the k-th at least m/(k·q) (Wang and Ramdas). Valid at any look when its
// e-values are.
func EBH(e []float64, q float64) []bool {
	out := make([]bool, len(e))
	neg := make([]float64, len(e))
	for i, v := range e {
		neg[i] = -v
	}
	at := byP(neg)
	for k := len(at); k > 0; k-- {
		if e[at[k-1]] >= float64(len(e))/(float64(k)*q) {
			for _, i := range at[:k] {
				out[i] = true
			}
			break
		}
	}
	return out
}

// PToE is an e-value from a p-value, ½·p^(−½): what a p is worth where e-values are asked for. It is a weak
// one, because it must hold for every p-value.
func PToE(p float64) float64 {
	if !(p > 0) {
		p = math.SmallestNonzeroFloat64
	}
	return .5 / math.Sqrt(p)
}

// SignE is the e-value of k positive signs among n, without a distribution and two-sided (Krichevsky and
// Trofimov's mixture): 2ⁿ·B(k+½, n−k+½)/B(½, ½). Valid at any look: seven unanimous blocks reach 20.
func SignE(k, n int) float64 {
	if n <= 0 || k < 0 || k > n {
		return 1
	}
	lbeta := func(a, b float64) float64 {
		x, _ := math.Lgamma(a)
		y, _ := math.Lgamma(b)
		z, _ := math.Lgamma(a + b)
		return x + y - z
	}
	return math.Exp(float64(n)*math.Ln2 + lbeta(float64(k)+.5, float64(n-k)+.5) - lbeta(.5, .5))
}

// MultiplyE is the evidence of independent sessions together: their e-values multiplied, at most the largest
// float. Valid at any look. Sessions are independent when none was chosen for its result; a session left out
// because it said nothing is a choice.
func MultiplyE(e []float64) float64 {
	log := 0.0
	for _, v := range e {
		log += math.Log(v)
	}
	if math.IsNaN(log) {
		return 1
	}
	return math.Min(math.Exp(log), math.MaxFloat64)
}

// OneSided is the one-sidedness alarm: whether so many of the effects have one sign that it looks like one
// cause behind all of them (a cold first arm, a clock that rose) rather than many levers that work. Most
// levers do nothing, and nothing has either sign. p is the sign test's; alarm is at .01, which takes eight
// effects that agree.
func OneSided(effects []float64) (e Exact, alarm bool) {
	e = SignTest(effects)
	return e, e.Why == "" && e.P < .01
}
