package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"flow/builtins/stats"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// drawn makes a group of one kind: the logarithm of an arm is that of its place in time and side, and the effects of
// the levers in it.
type drawn struct {
	name string
	make func(log func(seq int, label string) float64, effect func(label string) float64) *record.Group
}

// orderOf is a design of an order with controls U, run blocks times.
func orderOf(name, role, order string, blocks int) drawn {
	labels := plan.Labels(order)
	return drawn{name, func(log func(int, string) float64, effect func(string) float64) *record.Group {
		g := ab(order)
		g.Role, g.Control, g.Cap, g.Sides = role, "U", blocks, []record.Side{{Label: "U", Control: true}}
		for _, l := range labels {
			if l != "U" && !slices.ContainsFunc(g.Sides, func(s record.Side) bool { return s.Label == l }) {
				g.Sides = append(g.Sides, record.Side{Label: l, Stack: []record.Lever{{Name: l, Hash: l, Unconfirmed: "a test"}}})
			}
		}
		for b := range blocks {
			var y []float64
			for i, l := range labels {
				y = append(y, math.Exp(log(b*len(labels)+i, l)+effect(l)))
			}
			block(g, b, order, y...)
		}
		return g
	}}
}

// rowsOf is a factorial design.
func rowsOf(name string, rows [][]bool) drawn {
	return drawn{name, func(log func(int, string) float64, effect func(string) float64) *record.Group {
		return designGroup(rows, name, func(slot int, on []bool) float64 {
			x := log(slot, "U")
			for j, on := range on {
				if on {
					x += effect(string(rune('a' + j)))
				}
			}
			return math.Exp(x)
		})
	}}
}

func everyDesign() []drawn {
	pb := stats.PlackettBurman12()
	for i := range pb {
		pb[i] = pb[i][:6]
	}
	quads := drawn{"quads", func(log func(int, string) float64, effect func(string) float64) *record.Group {
		g := ab("")
		for b, labels := range []string{"ABBA", "BAAB", "ABBA"} {
			var y []float64
			for i, l := range labels {
				y = append(y, math.Exp(log(4*b+i, string(l))+effect(string(l))))
			}
			block(g, b, labels, y...)
		}
		return g
	}}
	return []drawn{
		quads,
		orderOf("pairs", record.RoleScreen, "U S1", 4),
		orderOf("ladder", record.RoleLadder, "U S1 U S2 U S3 U", 1),
		orderOf("mirrored ladder, twice", record.RoleLadder, "U S1 U S2 S2 U S1 U", 2),
		orderOf("shared controls", record.RoleScreen, "U S1 S2 S3 U S4 S5 U", 1),
		orderOf("sweep", record.RoleSweep, "U L1 U L2 U L3 U L3 U L2 U L1 U", 1),
		rowsOf("plackett-burman-12", pb),
		rowsOf("fraction-8", stats.Fraction8(4)),
	}
}

// effectOf is the logarithm of what a label has over its control: an arbitrary number of its own.
func effectOf(label string) float64 {
	if label == "U" || label == "A" {
		return 0
	}
	return .01 * float64(int(label[len(label)-1])%7-2)
}

// copied is the group before it was judged, with arms of its own.
func copied(g *record.Group, change func(*record.Arm)) *record.Group {
	x := &record.Group{ID: g.ID, Name: g.Name, SessionID: g.SessionID, Role: g.Role, Design: g.Design, Order: g.Order, Control: g.Control,
		Primary: g.Primary, Better: g.Better, MinEffect: g.MinEffect, Cap: g.Cap, Sides: slices.Clone(g.Sides), Noise: g.Noise}
	for _, a := range g.Arms {
		b := *a
		b.Group, b.Metrics = x, slices.Clone(a.Metrics)
		change(&b)
		x.Arms = append(x.Arms, &b)
	}
	return x
}

func values(f func(a *record.Arm, v float64) float64) func(*record.Arm) {
	return func(a *record.Arm) {
		v := f(a, *a.Metrics[0].Value)
		a.Metrics[0].Value = &v
	}
}

// What must happen to every estimate when units, labels, time or the list of arms change: nothing, its sign, or its
// name. A straight drift over the whole group moves no estimate of a design that cancels it.
func TestEveryDesignsProperties(t *testing.T) {
	for _, d := range everyDesign() {
		for seed := range uint64(25) {
			r := rand.New(rand.NewPCG(41, seed))
			g := d.make(func(int, string) float64 { return 4.6 + .004*r.NormFloat64() }, effectOf)
			plainly := copied(g, func(*record.Arm) {})
			Judge(plainly, nil)
			want := byLever(plainly)
			if len(want) == 0 {
				t.Fatalf("%s: no comparison: %s: %s", d.name, plainly.Verdict, plainly.Reason)
			}
			same := func(what string, x *record.Group, named func(string) string, sign float64, noise bool) {
				t.Helper()
				Judge(x, nil)
				got := byLever(x)
				for side, c := range want {
					a, b := got[named(side)].Estimate, c.Estimate
					if (a == nil) != (b == nil) {
						t.Fatalf("%s, %s, %s: estimates %v and %v", d.name, what, side, a, b)
					}
					if a == nil {
						continue
					}
					ok := math.Abs(a.Log-sign*b.Log) < 1e-9
					if noise {
						ok = ok && (a.Low == nil) == (b.Low == nil)
						if ok && a.Low != nil {
							low, high := math.Log1p(*b.Low), math.Log1p(*b.High)
							if sign < 0 {
								low, high = -high, -low
							}
							ok = math.Abs(math.Log1p(*a.Low)-low) < 1e-8 && math.Abs(math.Log1p(*a.High)-high) < 1e-8
						}
						ok = ok && (sign < 0 || got[named(side)].Verdict == c.Verdict)
					}
					if !ok {
						t.Fatalf("%s, %s, %s: got %+v (%s), want %+v (%s)", d.name, what, side, *a, got[named(side)].Verdict, *b, c.Verdict)
					}
				}
				if sign > 0 && noise && x.Verdict != plainly.Verdict {
					t.Fatalf("%s, %s: %s, want %s", d.name, what, x.Verdict, plainly.Verdict)
				}
			}
			itself := func(s string) string { return s }

			same("another unit", copied(g, values(func(_ *record.Arm, v float64) float64 { return 1e-3 * v })), itself, 1, true)
			same("turned over", copied(g, values(func(_ *record.Arm, v float64) float64 { return 1 / v })), itself, -1, true)

			shuffled := copied(g, func(*record.Arm) {})
			r.Shuffle(len(shuffled.Arms), func(i, j int) {
				shuffled.Arms[i], shuffled.Arms[j] = shuffled.Arms[j], shuffled.Arms[i]
			})
			same("listed in another order", shuffled, itself, 1, true)
			if !reflect.DeepEqual(shuffled.Comparisons, plainly.Comparisons) || shuffled.Reason != plainly.Reason {
				t.Fatalf("%s: the order of the list shows: %q, %q", d.name, shuffled.Reason, plainly.Reason)
			}

			if d.name != "pairs" { // which a drift moves, and which has no time backwards
				slope := .01 * r.NormFloat64()
				same("a drift", copied(g, values(func(a *record.Arm, v float64) float64 { return v * math.Exp(slope*float64(a.Seq)) })), itself, 1, false)
			}

			if d.name != "pairs" && d.name != "quads" { // those of quads are in TestDesignProperties
				labels := plan.Labels(g.Order)
				slices.Reverse(labels)
				blocks := len(g.Arms) / len(labels)
				back := copied(g, func(a *record.Arm) {
					a.Slot, a.Block, a.Seq = len(labels)-1-a.Slot, blocks-1-a.Block, len(g.Arms)-1-a.Seq
				})
				back.Order = strings.Join(labels, " ")
				same("backwards", back, itself, 1, true)
			}

			if d.name != "quads" && g.Design == "" {
				other := func(s string) string {
					if s == "U" {
						return s
					}
					return "X" + s
				}
				labels := plan.Labels(g.Order)
				for i := range labels {
					labels[i] = other(labels[i])
				}
				renamed := copied(g, func(a *record.Arm) { a.Label = other(a.Label) })
				renamed.Order = strings.Join(labels, " ")
				for i := range renamed.Sides {
					renamed.Sides[i].Label = other(renamed.Sides[i].Label)
				}
				slices.Reverse(renamed.Sides[1:]) // and the sides stand in another order
				same("other labels", renamed, other, 1, true)
			}
		}
	}
}

// The edges of every design: few arms, one missing or withheld in each place, nothing that varies, contrary values.
// An incomplete block says nothing, and no number that is not one is anywhere.
func TestEveryDesignsEdges(t *testing.T) {
	flat := func(int, string) float64 { return 4.6 }
	none := func(string) float64 { return 0 }
	noisy := func(seq int, _ string) float64 { return 4.6 + .003*math.Sin(float64(7*seq)) }
	for _, d := range everyDesign() {
		judged := func(what string, g *record.Group) *record.Group {
			t.Helper()
			Decided(g)
			Judge(g, nil)
			checkFinite(t, g)
			for _, c := range g.Comparisons {
				if c.Verdict == "" || c.Estimate == nil && c.Reason == "" && g.Reason == "" {
					t.Errorf("%s, %s: %s without words", d.name, what, c.Side)
				}
			}
			return g
		}
		whole := d.make(noisy, effectOf)
		perBlock := len(plan.Labels(whole.Order))
		if perBlock == 0 {
			perBlock = 4
		}

		for n := range 4 {
			g := d.make(noisy, effectOf)
			g.Arms = g.Arms[:n]
			if judged(fmt.Sprintf("%d arms", n), g); n < perBlock && g.Verdict != record.Invalid {
				t.Errorf("%s of %d arms: %s: %s", d.name, n, g.Verdict, g.Reason)
			}
		}
		for i := range whole.Arms {
			missing, withheld := d.make(noisy, effectOf), d.make(noisy, effectOf)
			missing.Arms = slices.Delete(missing.Arms, i, i+1)
			m := &withheld.Arms[i].Metrics[0]
			m.Withheld, m.Value, m.Why = m.Value, nil, "counts disagree"
			label := whole.Arms[i].Label
			for what, g := range map[string]*record.Group{"missing": missing, "withheld": withheld} {
				judged(what, g)
				for _, c := range g.Comparisons {
					// A value withheld from a rung is missed by that rung alone.
					misses := what == "missing" || g.Design != "" || label == g.Control || label == c.Side
					blocks := len(whole.Arms) / perBlock
					if misses {
						blocks--
					}
					switch {
					case blocks == 0 && (c.Estimate != nil || c.Verdict != record.Invalid):
						t.Errorf("%s, arm %d %s: %s is %s by %+v", d.name, i, what, c.Side, c.Verdict, c.Estimate)
					case blocks > 0 && (c.Estimate == nil || c.Estimate.Blocks != blocks):
						t.Errorf("%s, arm %d %s: %s has %+v, want %d blocks", d.name, i, what, c.Side, c.Estimate, blocks)
					}
				}
			}
		}

		same := judged("nothing varies", d.make(flat, none))
		for _, c := range same.Comparisons {
			if e := c.Estimate; e != nil && (e.Effect != 0 || c.Verdict == record.Better || c.Verdict == record.Worse) {
				t.Errorf("%s, nothing varies: %s %s %+v", d.name, c.Side, c.Verdict, *e)
			}
		}

		// Effects that turn their sign from arm to arm decide nothing.
		contrary := judged("contrary", d.make(func(seq int, label string) float64 {
			if label == "U" || label == "A" {
				return 4.6 + .05*float64(seq%4/2)
			}
			return 4.6 + .05*float64(1-seq%4/2)
		}, none))
		if contrary.Design == "" && len(contrary.Sides) == 2 && (contrary.Verdict == record.Better || contrary.Verdict == record.Worse) {
			t.Errorf("%s, contrary: %s: %s", d.name, contrary.Verdict, contrary.Reason)
		}
		for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), math.MaxFloat64, math.SmallestNonzeroFloat64} {
			for i := range whole.Arms {
				g := d.make(noisy, effectOf)
				v := bad
				g.Arms[i].Metrics[0].Value = &v
				judged(fmt.Sprintf("%v", bad), g)
			}
		}
	}
}
