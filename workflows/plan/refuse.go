package plan

// Refusals about stops: rules that would make a verdict wrong together.

import (
	"fmt"
	"slices"
)

// checkStops refuses two prices for looking at once, and a rule that the order has no estimate for.
func (g *Group) checkStops() error {
	named := func(name string) bool {
		return slices.ContainsFunc(g.Stops, func(s Stop) bool { return s.Name == name })
	}
	if !named("always_valid") {
		return nil
	}
	if named("decided") {
		return refuse(g, "keep always_valid() for a run without a planned number of looks, or decided() for one with a small cap",
			"decided() and always_valid() pay for looking in two ways: the intervals of a group can be of one kind only")
	}
	kind := "quad"
	if bs := g.Blocks(); len(bs) > 0 {
		kind = bs[0].Kind
	}
	if len(g.Sides) != 2 || kind != "quad" && kind != "pair" {
		return refuse(g, "leave the order out (quads), or use decided()", "always_valid() judges quads and pairs of two sides, and order %q is neither", g.Order)
	}
	return nil
}

// Ungated says why a group that claims something must have a gate; "" when it has one, or claims nothing.
func (g *Group) Ungated() string {
	if len(g.Gates)+len(g.Guards) > 0 || g.Role != "screen" && g.Role != "qualification" {
		return ""
	}
	return fmt.Sprintf("a %s without a gate: nothing would notice swapping, a throttled clock, a cached prompt or another text, and each of them has passed for a gain", g.Role)
}
