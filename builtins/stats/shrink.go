package stats

// What selection does to estimates: the best of many is too good. Shrinking takes out what can be foreseen
// of it; fresh arms take out all of it.

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Shrunk is effects after empirical-Bayes shrinkage.
type Shrunk struct {
	Mean []float64 // x̄ + B(x−x̄)
	SD   []float64 // of each posterior: s·√B
	Grand,
	Tau2 float64 // the mean of all, and how much the true effects vary: max(0, s_x²−s̄²)
	B []float64 // what is left of each distance to the mean: τ²/(τ²+s²)
}

// Shrink moves estimated effects towards their mean, the more the noisier they are; v are the squares of
// their standard errors. ok is false for fewer than three effects, from which no spread can be learnt, and
// where lengths differ. Not valid at any look.
func Shrink(x, v []float64) (s Shrunk, ok bool) {
	if len(x) < 3 || len(x) != len(v) {
		return s, false
	}
	mean, ss := meanSS(x)
	noise := 0.0
	for _, w := range v {
		if !(w >= 0) || math.IsInf(w, 0) {
			return s, false
		}
		noise += w / float64(len(v))
	}
	s.Grand, s.Tau2 = mean, math.Max(0, ss/float64(len(x)-1)-noise)
	if math.IsNaN(s.Tau2) || math.IsInf(s.Tau2, 0) {
		return Shrunk{}, false
	}
	for i := range x {
		b := 1.0
		if v[i] > 0 {
			b = s.Tau2 / (s.Tau2 + v[i])
		}
		s.B = append(s.B, b)
		s.Mean = append(s.Mean, mean+(x[i]-mean)*b)
		s.SD = append(s.SD, math.Sqrt(v[i]*b))
	}
	return s, true
}

// ExpectedGain is E[(δ−m)⁺] for δ ~ N(mean, sd): how much a lever can be expected to bring beyond m, over all
// that it may turn out to be. Valid at any look: it is about what is asked next.
func ExpectedGain(mean, sd, m float64) float64 {
	if !(sd > 0) {
		return math.Max(0, mean-m)
	}
	z := (mean - m) / sd
	return math.Max(0, sd*(phi(z)+z*distuv.UnitNormal.CDF(z)))
}

// BestOfNulls is the mean of the largest of k standard normals: what the best of k levers that do nothing
// shows, in standard errors. Valid at any look: it is about the design.
func BestOfNulls(k int) float64 { return TopOfNulls(k, 1) }

// TopOfNulls is the mean sum of the top largest of k standard normals.
func TopOfNulls(k, top int) float64 {
	// E of the sum of the largest: ∫ x·φ(x)·k·P(at most top−1 of the k−1 others are larger) dx.
	const from, steps = -9.0, 4000
	h := 2 * -from / steps
	sum := 0.0
	for i := 0; i <= steps; i++ {
		x := from + float64(i)*h
		w := 2.0
		switch {
		case i == 0 || i == steps:
			w = 1
		case i%2 == 1:
			w = 4
		}
		q := upper(x)
		beaten := 0.0
		for j := 0; j < min(top, k); j++ {
			beaten += math.Exp(lchoose(k-1, j)) * math.Pow(upper(-x), float64(k-1-j)) * math.Pow(q, float64(j))
		}
		sum += w * x * phi(x) * float64(k) * beaten
	}
	return sum * h / 3
}

// TypeM is what passing does to an effect of so many standard errors: shown is the mean estimate among those
// beyond z standard errors in the right direction, factor how much too large that is, and wrong the share of
// all that pass, in either direction, which point the wrong way (type S). Valid at any look: it is about the
// design.
func TypeM(effect, z float64) (shown, factor, wrong float64, ok bool) {
	pass := upper(z - effect)
	if !(effect > 0) || !(pass > 0) {
		return 0, 0, 0, false
	}
	shown = effect + phi(z-effect)/pass
	return shown, shown / effect, upper(z+effect) / (pass + upper(z+effect)), true
}
