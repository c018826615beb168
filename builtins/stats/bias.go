package stats

// What an order of two sides does to mean(B) − mean(A) when nothing differs: used to label designs.

import "math"

// OrderBias is the exact bias of mean(B)−mean(A) of an order, per unit of each trouble. Slots count from
// 0. Signs are in the unit of the metric: a cold first slot *adds* its cost, as a time does; for tokens a
// second turn the sign.
type OrderBias struct {
	Linear    float64 // drift of g·t
	Quadratic float64 // q·t²
	Cubic     float64 // t³
	ColdFirst float64 // cost on slot 0
	CarryOver float64 // cost on an arm that follows a B, no arm before the first
	CarryWarm float64 // the same with a warm-up of slot 0's side before it
}

// BiasOf gives the biases of an order; true is B. An order without both sides has none to speak of: ok is
// false. Valid at any look: it is about the design.
func BiasOf(order []bool) (b OrderBias, ok bool) {
	nb := 0
	for _, x := range order {
		if x {
			nb++
		}
	}
	na := len(order) - nb
	if na == 0 || nb == 0 {
		return b, false
	}
	of := func(cost func(t int) float64) float64 {
		var sa, sb float64
		for t, x := range order {
			if x {
				sb += cost(t)
			} else {
				sa += cost(t)
			}
		}
		return sb/float64(nb) - sa/float64(na)
	}
	power := func(n float64) func(int) float64 {
		return func(t int) float64 { return math.Pow(float64(t), n) }
	}
	is := func(x bool) float64 {
		if x {
			return 1
		}
		return 0
	}
	b.Linear, b.Quadratic, b.Cubic = of(power(1)), of(power(2)), of(power(3))
	b.ColdFirst = of(func(t int) float64 { return is(t == 0) })
	b.CarryOver = of(func(t int) float64 { return is(t > 0 && order[t-1]) })
	b.CarryWarm = of(func(t int) float64 { return is(t > 0 && order[t-1] || t == 0 && order[0]) })
	return b, true
}

// Confounded reports whether a steady drift passes for an effect in this order.
func (b OrderBias) Confounded() bool { return math.Abs(b.Linear) > 1e-9 }
