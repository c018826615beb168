package stats

import (
	"math/rand/v2"
	"slices"
)

// Share is what an effect is made of: which set of arms, and its weight on each of them. Effects of one set that
// weigh the same arm go up and down together when levers do nothing. A nil Weights is an effect of its own.
type Share struct {
	Set     int
	Weights []float64
}

// RungWeights is the weight of every arm of a ladder in the effect of a rung; nil when no arm of the rung stands
// between two controls.
func RungWeights(labels []string, control, rung string) []float64 {
	w, n := Ladder{Y: make([]float64, len(labels)), Labels: labels}.weights(control, rung)
	if n == 0 {
		return nil
	}
	return w
}

// oneSidedDraws is how many nulls the shared alarm draws: at p = .01 its standard error is .0007.
const oneSidedDraws = 20_000

// OneSidedShared is OneSided for effects that share arms. One low control lifts every lever beside it, and the sign
// test takes them for as many witnesses: of nulls that share controls by three, it alarms in 3 to 5 % where 1 % is
// asked for. So where it would, the same count of signs is drawn from effects that share as these do, of normal arms,
// from a fixed seed. Valid for levers that do nothing, whatever they share.
func OneSidedShared(effects []float64, shares []Share) (e Exact, alarm bool) {
	e, alarm = OneSided(effects)
	if !alarm || !slices.ContainsFunc(shares, func(s Share) bool { return s.Weights != nil }) {
		return e, alarm
	}
	most := max(e.K, e.N-e.K)
	r := rand.New(rand.NewPCG(20, 9))
	arms := map[int][]float64{}
	var order []int
	for _, s := range shares {
		if s.Weights != nil && arms[s.Set] == nil {
			order = append(order, s.Set)
		}
		if s.Weights != nil && len(arms[s.Set]) < len(s.Weights) {
			arms[s.Set] = make([]float64, len(s.Weights))
		}
	}
	own := make([][]float64, len(shares)) // the arms of each effect's set
	for i, s := range shares {
		own[i] = arms[s.Set]
	}
	hits := 0
	for range oneSidedDraws {
		for _, set := range order {
			for i := range arms[set] {
				arms[set][i] = r.NormFloat64()
			}
		}
		up := 0
		for i, s := range shares {
			if effects[i] == 0 {
				continue // it has no sign to count
			}
			x := 0.
			if s.Weights == nil {
				x = r.NormFloat64()
			}
			for j, w := range s.Weights {
				x += w * own[i][j]
			}
			if x > 0 {
				up++
			}
		}
		if max(up, e.N-up) >= most {
			hits++
		}
	}
	e.P = float64(hits+1) / (oneSidedDraws + 1)
	return e, e.P < .01
}
