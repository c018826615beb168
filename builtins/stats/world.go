package stats

// A simulated machine: what disturbs arms, as functions of their place, for rehearsals and for finding out
// how often a rule is wrong. Effects are the caller's; everything here is on the logarithm of a speed, so
// that a loss is negative.

import (
	"math"
	"math/rand/v2"
)

// World is what disturbs the arms of a session. The zero value is a machine without noise.
type World struct {
	SD        float64 // of one arm
	Drift     float64 // per arm of the session
	Curve     float64 // per arm squared
	Warm      float64 // what the first arm of the session loses; it comes back exponentially
	WarmArms  float64 // arms until a share e of the loss is left; 2 when 0
	Cold      float64 // what the first arm of the session loses, and no other
	ColdBlock float64 // what the first arm of each block loses
	AR        float64 // correlation of the noise of neighbouring arms of a group, −1 to 1
	T3        bool    // heavy tails: Student's t on 3 degrees of freedom, scaled to SD
	Depressed float64 // share of arms that are depressed
	Depth     float64 // and what they lose
	Carry     float64 // what an arm loses that follows an arm with a lever
}

// Place is where an arm stands.
type Place struct {
	Seed     uint64 // of the group
	Session  int    // arms of the session before it
	Block    int    // −1 for an arm outside blocks
	Slot     int
	BlockLen int // arms of a block
	Attempt  int
	After    bool   // the arm before it had a lever that the control has not
	Stream   uint64 // 0; another number gives independent noise in the same place, as for one case of a workload
}

// Log is what the place does to the logarithm of a speed: the same for the same place, whatever was asked
// before, so that a resumed session goes on as it would have.
func (w World) Log(p Place) float64 {
	t := float64(p.Session)
	log := w.Drift*t + w.Curve*t*t
	if w.Warm != 0 {
		tau := w.WarmArms
		if tau <= 0 {
			tau = 2
		}
		log -= w.Warm * math.Exp(-t/tau)
	}
	if p.Session == 0 {
		log -= w.Cold
	}
	if p.Block >= 0 && p.Slot == 0 {
		log -= w.ColdBlock
	}
	if p.After {
		log -= w.Carry
	}
	noise, depressed := w.draw(p)
	if w.AR != 0 && p.Block >= 0 && p.BlockLen > 0 {
		fresh := math.Sqrt(1 - w.AR*w.AR)
		x := 0.0
		for i := range p.Block*p.BlockLen + p.Slot {
			q := p
			q.Block, q.Slot, q.Attempt = i/p.BlockLen, i%p.BlockLen, 0
			e, _ := w.draw(q)
			if x = w.AR*x + fresh*e; i == 0 {
				x = e
			}
		}
		if p.Block*p.BlockLen+p.Slot > 0 {
			noise = w.AR*x + fresh*noise
		}
	}
	if depressed {
		log += math.Log1p(-w.Depth)
	}
	return log + w.SD*noise
}

// draw is the fresh noise of a place, in units of SD, and whether its arm is depressed.
func (w World) draw(p Place) (noise float64, depressed bool) {
	r := rand.New(rand.NewPCG(p.Seed^p.Stream, uint64(p.Block+1)<<32|uint64(p.Slot)<<16|uint64(p.Attempt)))
	noise = r.NormFloat64()
	if w.T3 {
		chi := 0.0
		for range 3 {
			x := r.NormFloat64()
			chi += x * x
		}
		noise /= math.Sqrt(chi) // t on 3 df is z/√(χ²/3), and its variance is 3
	}
	return noise, w.Depressed > 0 && r.Float64() < w.Depressed
}
