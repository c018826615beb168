package main

// What flow plan says of a session's budget: whether the groups fit into it.

import (
	"fmt"

	"flow/workflows/record"
)

// plannedBudget is a session's budget beside what its groups take.
type plannedBudget struct {
	record.Budget
	Enough *bool    `json:"enough"` // for all groups at their most; nil where a time or an energy is not known
	Words  []string `json:"words"`
}

// budgeted is one of the things that a budget limits.
type budgeted struct {
	limit   float64
	each    func(g *plannedGroup) *float64 // what an arm takes; nil where it is not known
	show    func(x float64) string
	unknown string
}

// budgetOf holds a plan against its budget; nil without one. Arms that are redone are in neither.
func budgetOf(b *record.Budget, p *planned) *plannedBudget {
	if b == nil {
		return nil
	}
	one := 1.
	out := &plannedBudget{Budget: *b}
	enough, known := true, true
	for _, x := range []budgeted{
		{float64(b.Arms), func(*plannedGroup) *float64 { return &one }, func(x float64) string { return countOf(int(x), "arm") }, ""},
		{b.Seconds, func(g *plannedGroup) *float64 { return g.ArmS }, secondsText, "how long an arm takes is not known"},
		{b.Joules, func(g *plannedGroup) *float64 { return g.ArmJ }, func(x float64) string { return fmt.Sprintf("%.3g kJ", x/1000) }, "what an arm takes is not known"},
	} {
		if x.limit <= 0 {
			continue
		}
		words, fits, ok := x.against(p)
		out.Words = append(out.Words, words)
		enough, known = enough && fits, known && ok
	}
	if known || !enough {
		out.Enough = &enough
	}
	return out
}

// against says whether the groups fit, and which may be left unfinished.
func (x budgeted) against(p *planned) (words string, fits, known bool) {
	least, most := 0., 0.
	var sure, perhaps string // the first group that is not finished: at its least, at its most
	for i, g := range p.Groups {
		each := x.each(g)
		if each == nil {
			return x.show(x.limit) + ", and " + x.unknown, true, false
		}
		least, most = least+*each*float64(g.ArmsMin), most+*each*float64(g.ArmsMax)
		name := fmt.Sprintf("group %d (%s)", i+1, g.Name)
		if sure == "" && least > x.limit {
			sure = name
		}
		if perhaps == "" && most > x.limit {
			perhaps = name
		}
	}
	switch {
	case sure != "":
		return fmt.Sprintf("%s, less than the %s that the groups take at least: %s is left unfinished", x.show(x.limit), x.show(least), sure), false, true
	case perhaps != "":
		return fmt.Sprintf("%s, where the groups take %s to %s: %s may be left unfinished", x.show(x.limit), x.show(least), x.show(most), perhaps), false, true
	}
	return fmt.Sprintf("%s, enough for the %s that the groups take at most", x.show(x.limit), x.show(most)), true, true
}
