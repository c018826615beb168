package stats

// The quad model: y ~ quad + quad:slot + side, in closed form. A drift that is linear within a quad cancels
// exactly, and what is left of each quad besides its contrast (h, one degree of freedom) estimates noise,
// so that even one quad has an interval.

import "math"

// Quad is four arms in time, ABBA or BAAB.
type Quad struct {
	Y      [4]float64 // by slot, logarithms
	BFirst bool       // BAAB
}

// Contrast is B minus A: the mean of the two B less the mean of the two A. Its variance is that of one arm.
func (q Quad) Contrast() float64 {
	c := (q.Y[1] + q.Y[2] - q.Y[0] - q.Y[3]) / 2
	if q.BFirst {
		return -c
	}
	return c
}

// Curvature is what neither side, level nor linear drift explains; its variance is 20 times that of an arm.
func (q Quad) Curvature() float64 { return -q.Y[0] + 3*q.Y[1] - 3*q.Y[2] + q.Y[3] }

// Quads is the recommended estimator. τ is the mean contrast; the variance of an arm is
// s² = (Σh²/20 + Σ(c−τ)²)/(2Q−1) on 2Q−1 degrees of freedom, and from two quads on not less than var(c):
// the larger of the model's and the contrasts' standard error, which keeps its promise under curvature and
// cold slots. n is borrowed within bounds; nil borrows nothing. ok is false without quads.
// Not valid at any look by itself: at a look use the level of LookLevel.
func Quads(qs []Quad, n *Noise) (e Estimate, ok bool) {
	if len(qs) == 0 {
		return e, false
	}
	var scale float64
	for _, q := range qs {
		for _, y := range q.Y {
			scale = math.Max(scale, math.Abs(y))
		}
	}
	tau, model, spread := quadSums(qs)
	Q := float64(len(qs))
	df := 2*Q - 1
	s2 := (model + spread) / df
	if Q > 1 {
		s2 = math.Max(s2, spread/(Q-1))
	}
	e = Estimate{Method: MethodQuad, Diff: tau, N: len(qs)}
	e.settle(s2, df, 1/Q, n, scale)
	return e, true
}

// quadSums gives the mean contrast, Σh²/20 and Σ(c−τ)².
func quadSums(qs []Quad) (tau, curvature, spread float64) {
	for _, q := range qs {
		tau += q.Contrast() / float64(len(qs))
		curvature += q.Curvature() * q.Curvature() / 20
	}
	for _, q := range qs {
		d := q.Contrast() - tau
		spread += d * d
	}
	return tau, curvature, spread
}

// QuadUnits is the noise that quads of one comparison hold, for Pool: one unit for each quad's curvature,
// and one for the dispersion of the contrasts. names are of the quads; whole names their group.
func QuadUnits(qs []Quad, names []string, whole string) []Unit {
	var us []Unit
	for i, q := range qs {
		us = append(us, Unit{Name: names[i], SS: q.Curvature() * q.Curvature() / 20, DF: 1})
	}
	if len(qs) > 1 {
		_, _, spread := quadSums(qs)
		us = append(us, Unit{Name: whole, SS: spread, DF: float64(len(qs) - 1)})
	}
	return us
}
