package stats

// A global straight line: y ~ side + slot over a whole order.

import "math"

// Trend estimates from an order of two sides with one linear drift fitted: what an order such as ABAB shows
// once its drift is taken out. true is B. It over-covers under curvature and is not the default where quads
// are there; it says what a drift-confounded order would show. drift is per slot. ok is false with fewer
// than four arms, or where side and slot cannot be told apart. Not valid at any look.
func Trend(y []float64, order []bool, n *Noise) (e Estimate, drift float64, ok bool) {
	if len(y) != len(order) || len(y) < 4 {
		return e, 0, false
	}
	N := float64(len(y))
	var mb, my float64
	for i := range y {
		my += y[i] / N
		if order[i] {
			mb += 1 / N
		}
	}
	mt := (N - 1) / 2
	var tt, bb, bt, ty, by float64
	for i := range y {
		t, b, v := float64(i)-mt, -mb, y[i]-my
		if order[i] {
			b++
		}
		tt += t * t
		bb += b * b
		bt += b * t
		ty += t * v
		by += b * v
	}
	det := tt*bb - bt*bt
	if !(det > 1e-9*tt) {
		return e, 0, false
	}
	tau, drift := (tt*by-bt*ty)/det, (bb*ty-bt*by)/det
	rss := 0.0
	for i := range y {
		t, b := float64(i)-mt, -mb
		if order[i] {
			b++
		}
		r := y[i] - my - tau*b - drift*t
		rss += r * r
	}
	e = Estimate{Method: "trend", Diff: tau, N: 1}
	e.settle(rss/(N-3), N-3, tt/det, n, maxAbs(y))
	return e, drift, !math.IsNaN(tau)
}
