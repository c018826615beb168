package stats

// Looking at results while they come in, and paying for it.

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// pocockZ is Pocock's constant for a two-sided .05 by number of looks, from the recursion of
// Armitage, McPherson and Rowe (PocockCrossing, which tests check it with).
var pocockZ = [...]struct { // never written to
	looks int
	z     float64
}{
	{1, 1.959964}, {2, 2.178272}, {3, 2.289478}, {4, 2.361298}, {5, 2.413176}, {6, 2.453211}, {7, 2.485488},
	{8, 2.512336}, {9, 2.535195}, {10, 2.555013}, {12, 2.587962}, {15, 2.626096}, {20, 2.671968}, {30, 2.730956},
	{50, 2.797076}, {100, 2.874676},
}

// PocockP is the two-sided p that each of up to looks looks may use so that all of them together keep
// .05 (Pocock 1977). From the known-variance constants; with t on few degrees of freedom it stays within
// .053. Beyond the table the next larger number of looks is used, which errs on the safe side.
// Valid at any look: it is about the design.
func PocockP(looks int) float64 {
	if looks <= 1 {
		return .05
	}
	for _, e := range pocockZ {
		if e.looks >= looks {
			return 2 * distuv.UnitNormal.Survival(e.z)
		}
	}
	return .05 / float64(looks) // Bonferroni, valid for any number
}

// LookLevel is the level of the interval at each of up to looks looks: 1−PocockP.
func LookLevel(looks int) float64 { return 1 - PocockP(looks) }

// PocockCrossing is the probability that a null z-statistic of looks equal steps is ever beyond ±z: the
// recursion by which constants are found. It is slow and exact to about 1e-6.
func PocockCrossing(looks int, z float64) float64 {
	return crossing(looks, func(int) float64 { return z })
}

// crossing integrates the density of the sum of i standard normals that stayed within z(i)·√i.
func crossing(looks int, z func(look int) float64) float64 {
	const n = 400 // Simpson points on each look's interval
	grid := func(i int) (x, w []float64) {
		c := z(i) * math.Sqrt(float64(i))
		h := 2 * c / n
		for j := 0; j <= n; j++ {
			s := 2.0
			switch {
			case j == 0 || j == n:
				s = 1
			case j%2 == 1:
				s = 4
			}
			x = append(x, -c+float64(j)*h)
			w = append(w, s*h/3)
		}
		return x, w
	}
	phi := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	x, w := grid(1)
	f := make([]float64, len(x))
	inside := 0.0
	for j := range x {
		f[j] = phi(x[j])
		inside += w[j] * f[j]
	}
	for i := 2; i <= looks; i++ {
		nx, nw := grid(i)
		nf := make([]float64, len(nx))
		inside = 0
		for a := range nx {
			for b := range x {
				nf[a] += w[b] * f[b] * phi(nx[a]-x[b])
			}
			inside += nw[a] * nf[a]
		}
		x, w, f = nx, nw, nf
	}
	return 1 - inside
}

// OBrienFlemingZ is the boundary at look i of looks for a final constant c: c·√(looks/i).
func OBrienFlemingZ(look, looks int, c float64) float64 {
	return c * math.Sqrt(float64(looks)/float64(look))
}

// EValue is the right-Haar t e-process with effect prior N(0, g) for n units and ν degrees of freedom: the
// evidence against no effect, valid at any look; stop at 1/α. Zero residual variation has no t: use the
// ceiling, EValue at an infinite t.
func EValue(n, nu, t, g float64) float64 {
	a := 1 + n*g
	if math.IsInf(t, 0) {
		return math.Pow(a, nu/2)
	}
	return math.Pow(a, -.5) * math.Pow((1+t*t/(nu*a))/(1+t*t/nu), -(nu+1)/2)
}

// QuadE is EValue on quads: n is their number and ν = 2Q−1. g = 10 by default (0). Valid at any look.
func QuadE(quads int, t, g float64) float64 {
	if g <= 0 {
		g = 10
	}
	return EValue(float64(quads), float64(2*quads-1), t, g)
}

// ECritical is the |t| at which EValue reaches 1/α, in closed form; ok is false when no t does. Valid at any
// look.
func ECritical(n, nu, alpha, g float64) (t float64, ok bool) {
	a := 1 + n*g
	// E = 1/α where (1+x/a)/(1+x) = r, with x = t²/ν; x goes to infinity as r falls to 1/a, the ceiling.
	r := math.Pow(alpha/math.Sqrt(a), 2/(nu+1))
	if r <= 1/a {
		return 0, false
	}
	return math.Sqrt(nu * (1 - r) / (r - 1/a)), true
}
