package plan

// Factorial designs: groups whose sides are combinations of levers, so that every arm says something about
// every lever. The matrix is not declared twice: a lever is on where a side's stack has it. What is checked
// here is that each lever can be told from the others and from the level at all.

import (
	"slices"
	"strings"

	"flow/workflows/record"
)

// Designs of a group. A fold-over runs every combination and its mirror image.
const (
	DesignPB12       = "plackett-burman-12"
	DesignPB12Fold   = "plackett-burman-12+fold"
	DesignFraction   = "fraction-8"
	DesignFracFold   = "fraction-8+fold"
	DesignFactorial  = "factorial" // any other set of combinations
	maxDesignLevers  = 11
	maxFractionLever = 7
)

// Designs is every design a group may name.
func Designs() []string {
	return []string{DesignPB12, DesignPB12Fold, DesignFraction, DesignFracFold, DesignFactorial}
}

// DesignLevers is the levers that the sides of a design add to the control's stack, in the order in which
// stacks hold them: every stack is a part of one list. nil without a design.
func (g *Group) DesignLevers() []Lever {
	if g.Design == "" {
		return nil
	}
	var out []Lever
	before := map[string]map[string]bool{} // of each lever, the levers that ever stand before it
	base := g.ControlSide().Stack.keys()
	for _, s := range g.Sides[1:] {
		var passed []string
		for _, l := range s.Stack {
			k := l.Key()
			if slices.Contains(base, k) {
				continue
			}
			if before[k] == nil {
				before[k] = map[string]bool{}
				out = append(out, l)
			}
			for _, p := range passed {
				before[k][p] = true
			}
			passed = append(passed, k)
		}
	}
	slices.SortStableFunc(out, func(a, b Lever) int { return len(before[a.Key()]) - len(before[b.Key()]) })
	return out
}

// Estimated is the sides that a design estimates and does not run: the control's stack with one lever each.
func (g *Group) Estimated() ([]record.Side, error) {
	var out []record.Side
	base := g.Sides[0]
	for _, l := range g.DesignLevers() {
		stack := append(slices.Clone(base.Stack), l)
		c, err := Effective(base.Engine, stack)
		if err != nil {
			return nil, err
		}
		out = append(out, record.Side{Label: l.Name, Engine: base.Engine.Name, Stack: stack.Record(), Command: c, Estimated: true})
	}
	return out, nil
}

func (g *Group) checkDesign() error {
	if g.Design == "" {
		return nil
	}
	if !slices.Contains(Designs(), g.Design) {
		return refuse(g, "use plackett_burman() or fraction() of @flow//screens.star", "got design %q, want one of %s", g.Design, strings.Join(Designs(), ", "))
	}
	levers := g.DesignLevers()
	most := maxDesignLevers
	if strings.HasPrefix(g.Design, "fraction") {
		most = maxFractionLever
	}
	if len(levers) > most || len(levers) < 2 {
		return refuse(g, "split the levers over several groups, or screen a single one in quads", "design %s: got %d levers that the control has not, want 2 to %d", g.Design, len(levers), most)
	}
	control := g.ControlSide()
	for _, s := range g.Sides[1:] {
		if !slices.Equal(Stack(s.Stack[:min(len(s.Stack), len(control.Stack))]).keys(), control.Stack.keys()) {
			return refuse(g, "build every side as base + some of the levers", "side %q of a design does not stand on the control's stack", s.Label)
		}
	}
	if _, err := g.Estimated(); err != nil { // a lever that cannot stand alone cannot be told from the others
		return err
	}
	labels := Labels(g.Order)
	columns := map[string]string{}
	for _, l := range levers {
		if slices.ContainsFunc(g.Sides, func(s Side) bool { return s.Label == l.Name }) {
			return refuse(g, "give the side another label", "label %q is also the name of a lever", l.Name)
		}
		var col strings.Builder
		on := 0
		for _, label := range labels {
			i := slices.IndexFunc(g.Sides, func(s Side) bool { return s.Label == label })
			bit := '0'
			if slices.Contains(g.Sides[i].Stack.keys(), l.Key()) {
				bit, on = '1', on+1
			}
			col.WriteRune(bit)
		}
		if other, twin := columns[col.String()]; twin {
			return refuse(g, "vary them apart", "levers %q and %q are on and off together: their effects cannot be told apart", other, l.Name)
		}
		columns[col.String()] = l.Name
		if 3*on < len(labels) {
			return refuse(g, "run as many arms with it as without", "lever %q is on in %d of %d arms only", l.Name, on, len(labels))
		}
	}
	if len(labels) < len(levers)+2 {
		return refuse(g, "add arms, or take fewer levers", "%d arms cannot tell %d effects, a level and a drift apart", len(labels), len(levers))
	}
	return nil
}

func (s Stack) keys() []string {
	out := make([]string, len(s))
	for i, l := range s {
		out[i] = l.Key()
	}
	return out
}
