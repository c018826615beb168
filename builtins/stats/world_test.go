package stats

import (
	"math"
	"testing"
)

// Each trouble does what it says, and the noise has the moments that it names.
func TestWorld(t *testing.T) {
	at := func(session, block, slot int) Place {
		return Place{Seed: 7, Session: session, Block: block, Slot: slot, BlockLen: 4}
	}
	for _, c := range []struct {
		name string
		w    World
		p    Place
		want float64
	}{
		{"nothing", World{}, at(3, 0, 3), 0},
		{"drift", World{Drift: .01}, at(3, 0, 3), .03},
		{"curve", World{Curve: .001}, at(3, 0, 3), .009},
		{"warm-up, first", World{Warm: .1, WarmArms: 2}, at(0, 0, 0), -.1},
		{"warm-up, later", World{Warm: .1, WarmArms: 2}, at(4, 1, 0), -.1 * math.Exp(-2)},
		{"cold session", World{Cold: .02}, at(0, 0, 0), -.02},
		{"cold session, later", World{Cold: .02}, at(4, 1, 0), 0},
		{"cold block", World{ColdBlock: .02}, at(4, 1, 0), -.02},
		{"cold block, later", World{ColdBlock: .02}, at(5, 1, 1), 0},
		{"depressed", World{Depressed: 1, Depth: .05}, at(5, 1, 1), math.Log(.95)},
		{"carry-over", World{Carry: .01}, Place{After: true}, -.01},
	} {
		if got := c.w.Log(c.p); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	moments := func(w World) (mean, sd, lag float64) {
		const n = 20000
		var x, y, xy, xx float64
		for seed := range uint64(n) {
			a, b := w.Log(Place{Seed: seed, Block: 1, Slot: 1, BlockLen: 4}), w.Log(Place{Seed: seed, Block: 1, Slot: 2, BlockLen: 4})
			x, y, xy, xx = x+a/n, y+b/n, xy+a*b/n, xx+a*a/n
		}
		return x, math.Sqrt(xx), xy / xx
	}
	for _, c := range []struct {
		w       World
		sd, lag float64
		tol     float64
	}{{World{SD: .01}, .01, 0, .0002}, {World{SD: .01, AR: .5}, .01, .5, .0002}, {World{SD: .01, T3: true}, .01, 0, .002}} {
		mean, sd, lag := moments(c.w)
		if math.Abs(mean) > 3e-4 || math.Abs(sd-c.sd) > c.tol || math.Abs(lag-c.lag) > .03 {
			t.Errorf("%+v: mean %v, sd %v, correlation of neighbours %v", c.w, mean, sd, lag)
		}
	}
	share := 0
	w := World{Depressed: .03, Depth: .05}
	for seed := range uint64(20000) {
		if w.Log(Place{Seed: seed}) < 0 {
			share++
		}
	}
	if share < 500 || share > 700 {
		t.Errorf("3 %% depressed arms: %d of 20000", share)
	}
}
