package stats

// Rules that hold at any look, however many there are: e-values and the confidence sequences that they
// turn into. Nothing here borrows noise: the promise is kept by these arms alone.

import (
	"math"
	"slices"
)

// Kinds of Anytime.
const (
	AnytimeT    = "t"    // right-Haar t e-process on quads or pairs; assumes normal noise of arms
	AnytimeSign = "sign" // signs of quads; assumes only that no effect leaves both signs equally likely
)

// DefaultG is the variance of the effects expected, in units of the noise of a unit, of the t e-process.
const DefaultG = 10

// Anytime makes the intervals of an Estimate hold at any look.
type Anytime struct {
	Kind   string
	G      float64   // of AnytimeT; DefaultG when 0
	Points []float64 // of AnytimeSign: one contrast per quad or pair, in time
}

func (a *Anytime) g() float64 {
	if a.G > 0 {
		return a.G
	}
	return DefaultG
}

// Anytime gives the estimate back with intervals that hold at any look. ok is false where the design has no
// such rule: ladders and samples without an order. Borrowed noise is not allowed for.
func (e Estimate) Anytime(a Anytime) (Estimate, bool) {
	if e.Method != MethodQuad && e.Method != MethodPair || e.BorrowedDF != 0 {
		return e, false
	}
	e.Any = &a
	return e, true
}

// units is the number of quads or pairs.
func (e Estimate) units() float64 {
	if e.Method == MethodQuad {
		return float64(e.N)
	}
	return e.OwnDF + 1
}

// interval is the confidence sequence at this look.
func (a *Anytime) interval(e Estimate, level float64) (low, high float64, ok bool) {
	if a.Kind == AnytimeSign {
		return SignSequence(a.Points, 1-level)
	}
	n := e.units()
	if !(e.OwnDF > 0) {
		return 0, 0, false
	}
	t, ok := ECritical(n, e.OwnDF, 1-level, a.g())
	if !ok {
		return 0, 0, false
	}
	if e.Zero {
		return e.Diff, e.Diff, true
	}
	return e.Diff - t*e.SE, e.Diff + t*e.SE, true
}

// E is the evidence against no effect; 20 or more is evidence at 5 %. 1 where nothing is known.
func (e Estimate) E() float64 {
	switch {
	case e.Any == nil || !(e.OwnDF > 0) && e.Any.Kind != AnytimeSign:
		return 1
	case e.Any.Kind == AnytimeSign:
		k, n := 0, 0
		for _, x := range e.Any.Points {
			if x != 0 {
				n++
			}
			if x > 0 {
				k++
			}
		}
		return SignE(k, n)
	case e.Zero && e.Diff == 0:
		return 1
	case e.Zero:
		return EValue(e.units(), e.OwnDF, math.Inf(1), e.Any.g())
	}
	return EValue(e.units(), e.OwnDF, e.Diff/e.SE, e.Any.g())
}

// SignSequence is the confidence sequence of the median of the points that SignE turns into: the values that
// so many signs do not speak against. ok is false while there are too few points. Valid at any look.
func SignSequence(points []float64, alpha float64) (low, high float64, ok bool) {
	n := len(points)
	d := 0 // the smallest number of signs on one side that is still not evidence
	for d <= n/2 && SignE(d, n) >= 1/alpha {
		d++
	}
	if d == 0 || d > n/2 {
		return 0, 0, false
	}
	s := slices.Clone(points)
	slices.Sort(s)
	return s[d-1], s[n-d], true
}

// AnytimeBlocks is how many units it takes, n already there, until the t e-process decides for an effect of
// target at a noise of sd a unit. ok is false when 1000 are not enough.
func AnytimeBlocks(target, sd, g, alpha float64, df func(n int) float64) (n int, ok bool) {
	if !(target > 0) || !(sd > 0) {
		return 0, false
	}
	for n = 1; n <= 1000; n++ {
		if t, can := ECritical(float64(n), df(n), alpha, g); can && t*sd/math.Sqrt(float64(n)) <= target {
			return n, true
		}
	}
	return 0, false
}

// KnownE is the mixture sequential probability ratio of a mean of n values with known noise sigma, for
// effects spread by tau around 0. Valid at any look.
func KnownE(n int, mean, sigma, tau float64) float64 {
	k := float64(n)
	v := sigma*sigma + k*tau*tau
	return math.Sqrt(sigma*sigma/v) * math.Exp(k*k*tau*tau*mean*mean/(2*sigma*sigma*v))
}

// KnownRadius is the half-width of the confidence sequence that KnownE turns into. Valid at any look.
func KnownRadius(n int, sigma, tau, alpha float64) float64 {
	k := float64(n)
	v := sigma*sigma + k*tau*tau
	return math.Sqrt(2 * sigma * sigma * v / (k * k * tau * tau) * math.Log(math.Sqrt(v/(sigma*sigma))/alpha))
}
