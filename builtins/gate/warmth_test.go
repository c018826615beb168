package gate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"flow/workflows/record"
)

// warmed gives each arm a measured request that knows what warmed its engine.
func warmed(g *record.Group, of func(a *record.Arm) (n int, stable bool)) *record.Group {
	for _, a := range g.Arms {
		n, stable := of(a)
		state := fmt.Sprintf("after %d warm requests", n)
		if !stable {
			state += ", not stable"
		}
		a.Load = &record.Load{Asked: 1, WarmRequests: n, StableWarm: &stable}
		a.Requests = append(a.Requests, record.Request{Mark: record.MarkWarm, Status: "ok"}, record.Request{Mark: record.MarkMeasured, Status: "ok", WarmState: state})
	}
	return g
}

// Arms that were measured before their engine was warm are told by what it cost them; a side that was warmed by
// more requests than the control is told as well; equal warm-up is not.
func TestWarmState(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	cold := warmed(quadsOf(r, 2, .05, .002, 0), func(a *record.Arm) (int, bool) { return 8, a.Seq != 2 && a.Seq != 5 })
	for _, a := range cold.Arms {
		if a.Seq == 2 || a.Seq == 5 {
			*a.Metrics[0].Value *= .96
		}
	}
	want := armName(cold.Arms[5]) + ", " + armName(cold.Arms[2]) // A6 of the control, then B3
	Judge(cold, nil)
	if !warned(cold, "warm state: arms whose warm-up was not stable ("+want+") are at -") || !warned(cold, "of the others of their side (p ") {
		t.Errorf("cold arms %s: %q", want, cold.Warnings)
	}
	even := warmed(quadsOf(r, 2, .05, .002, 0), func(a *record.Arm) (int, bool) { return 3 + a.Seq%2, true })
	if Judge(even, nil); warned(even, "warm state") {
		t.Errorf("equal warm-up: %q", even.Warnings)
	}
	noisy := warmed(quadsOf(r, 2, .05, .002, 0), func(a *record.Arm) (int, bool) { return 8, a.Seq != 2 && a.Seq != 5 })
	if Judge(noisy, nil); warned(noisy, "warm state") {
		t.Errorf("not stable, and no different: %q", noisy.Warnings)
	}
	sides := warmed(quadsOf(r, 2, .05, .002, 0), func(a *record.Arm) (int, bool) {
		if a.Label == "A" {
			return 2 + a.Seq%2, true
		}
		return 7, true
	})
	if Judge(sides, nil); !warned(sides, "warm state: side A was warmed by 2 to 3 requests, side B by 7: part of their difference may be warmth") {
		t.Errorf("sides: %q", sides.Warnings)
	}
	bare := quadsOf(r, 2, .05, .002, 0)
	if Judge(bare, nil); warned(bare, "warm state") {
		t.Errorf("nothing known: %q", bare.Warnings)
	}
}
