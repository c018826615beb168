package stats

import "math"

// Nested is the noise of values within units (requests within arms) and of the units themselves.
type Nested struct {
	Values, Units int
	M             float64 // values a unit, as the design effect counts them: Σm²/Σm
	SDUnit        float64 // between units beyond what their values explain
	SDValue       float64 // of a value within its unit
	Rho           float64 // correlation of two values of one unit
	Effect        float64 // design effect 1+(m−1)ρ
	Effective     float64 // how many independent values they are worth
}

// Within is the one-way analysis of variance of values within units, each unit in a set of its like (the arms of a
// side): sets may differ, and their difference is no noise. A correlation below 0 counts as 0. ok is false without
// a unit of two values or a set of two units, and where nothing varies. Valid at any look: it describes.
func Within(sets [][][]float64) (n Nested, ok bool) {
	var within, between, squares, shrink float64
	filled := 0
	for _, set := range sets {
		var sum, count, own float64
		for _, unit := range set {
			if len(unit) == 0 {
				continue
			}
			n.Units++
			m := float64(len(unit))
			own += m * m
			count += m
			for _, y := range unit {
				sum += y
			}
		}
		if count == 0 {
			continue
		}
		filled++
		squares += own
		shrink += own / count
		n.Values += int(count)
		for _, unit := range set {
			if len(unit) == 0 {
				continue
			}
			mean := 0.
			for _, y := range unit {
				mean += y / float64(len(unit))
			}
			between += float64(len(unit)) * (mean - sum/count) * (mean - sum/count)
			for _, y := range unit {
				within += (y - mean) * (y - mean)
			}
		}
	}
	dfWithin, dfBetween := float64(n.Values-n.Units), float64(n.Units-filled)
	if dfWithin < 1 || dfBetween < 1 {
		return n, false
	}
	within, between = within/dfWithin, between/dfBetween
	unit := math.Max(0, (between-within)/((float64(n.Values)-shrink)/dfBetween))
	if !(unit+within > 0) || math.IsInf(unit+within, 0) {
		return n, false
	}
	n.M = squares / float64(n.Values)
	n.SDUnit, n.SDValue = math.Sqrt(unit), math.Sqrt(within)
	n.Rho = unit / (unit + within)
	n.Effect = 1 + (n.M-1)*n.Rho
	n.Effective = float64(n.Values) / n.Effect
	return n, true
}
