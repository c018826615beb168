package gate

// Steps: what each rung of a ladder that adds up has over the one before it. Its comparison with the control is
// that of all levers so far, in which one that does harm hides behind what stands below it.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// addsUp: a ladder with at least two rungs, each of which is the one before it and more.
func addsUp(g *record.Group) bool {
	if g.Role != record.RoleLadder || g.Design != "" {
		return false
	}
	var before *record.Side
	rungs := 0
	for i := range g.Sides {
		s := &g.Sides[i]
		if s.Label == g.Control {
			continue
		}
		rungs++
		if before != nil && (len(s.Stack) <= len(before.Stack) || len(beyond(*before, *s)) > 0) {
			return false
		}
		before = s
	}
	return rungs > 1
}

// beyond is the levers of a side that another has not.
func beyond(s, other record.Side) (out []record.Lever) {
	for _, l := range s.Stack {
		if !slices.ContainsFunc(other.Stack, func(o record.Lever) bool { return o.Hash == l.Hash }) {
			out = append(out, l)
		}
	}
	return out
}

// stepsOf compares each rung with the one before it, in every case of the primary metric; nil for a ladder that
// does not add up, or where the two rungs do not stand in the same blocks.
func (v *verdict) stepsOf(g *record.Group, blocks []BlockState, rule stats.Rule) []record.Comparison {
	if !addsUp(g) {
		return nil
	}
	var out []record.Comparison
	for _, cs := range casesOf(g.Arms, g.Primary) {
		before := ""
		for _, s := range g.Sides {
			if s.Label == g.Control {
				continue
			}
			if before != "" {
				if cmp, ok := v.step(g, blocks, before, s.Label, cs, rule); ok {
					out = append(out, cmp)
				}
			}
			before = s.Label
		}
	}
	return out
}

func (v *verdict) step(g *record.Group, blocks []BlockState, before, label, cs string, rule stats.Rule) (cmp record.Comparison, ok bool) {
	e, _, c, ok := v.overBefore(g, blocks, before, label, cs)
	effect, fits := stats.Ratio(e.Diff)
	if !ok || !fits {
		return cmp, false
	}
	cmp = record.Comparison{Side: label, Control: before, Case: cs, Metric: g.Primary, Estimate: recorded(e, effect, rule, v.looks)}
	c.control = before
	published(&cmp, c, c.raw)
	cmp.Verdict, cmp.Reason = rule.Verdict(e)
	if cmp.Verdict == record.Equivalent {
		cmp.Reason = equivalentWords(e, cmp.Estimate, rule, v.looks == 0 && v.any == nil)
	}
	cmp.Reason = strings.TrimSuffix(effectWords(cmp.Estimate)+"; "+cmp.Reason, "; ")
	v.weighStep(g, &cmp)
	return cmp, true
}

// weighStep lets the costs of a rung speak on its step, unless they speak against the rung before it already.
func (v *verdict) weighStep(g *record.Group, cmp *record.Comparison) {
	alone, words := cmp.Verdict, []string{}
	for _, h := range v.held {
		if h.side != cmp.Side || h.cs != cmp.Case && v.hasCase(cmp.Side, h.cs) ||
			slices.ContainsFunc(v.held, func(b heldCost) bool { return b.side == cmp.Control && b.metric == h.metric && b.cs == h.cs }) {
			continue
		}
		switch {
		case h.shown:
			cmp.Verdict = record.Worse
		case alone != record.Better:
			continue
		case cmp.Verdict == record.Better:
			cmp.Verdict = record.Inconclusive
		}
		words = append(words, h.words)
	}
	if len(words) > 0 {
		cmp.Reason = fmt.Sprintf("%s; %s alone is %s: %s", strings.Join(words, "; "), g.Primary, alone, cmp.Reason)
	}
}

// overBefore estimates what a rung has over the one before it, with the correlation of the two effects.
func (v *verdict) overBefore(g *record.Group, blocks []BlockState, before, label, cs string) (e stats.Estimate, corr float64, c collected, ok bool) {
	c = collect(g, blocks, label, g.Primary, cs)
	p := collect(g, blocks, before, g.Primary, cs)
	if c.kind != "ladder" || len(c.blocks) == 0 || len(c.blocks) != len(p.blocks) {
		return e, 0, c, false
	}
	ls := c.ladders()
	for i, l := range p.ladders() { // both rungs' arms in one
		for j, at := range l.Labels {
			if at == before {
				ls[i].Y[j] = l.Y[j]
			}
		}
	}
	noise := lent(g, g.Primary, cs)
	if v.any != nil {
		noise = nil
	}
	e, corr, ok = stats.RungContrast(ls, g.Control, before, label, noise)
	return e, corr, c, ok
}

// harm names the steps that are worse, "" when none is: then a ladder is not better as a whole, whatever its rungs
// have over the control.
func harm(g *record.Group, steps []record.Comparison) string {
	var words []string
	for _, c := range steps {
		if c.Verdict == record.Worse {
			words = append(words, fmt.Sprintf("%s (%s over %s)%s is worse (%s)", stepName(g, c), c.Side, c.Control, caseWords(c.Case), c.Reason))
		}
	}
	return strings.Join(words, ", ")
}

// stepName is the levers that a step adds.
func stepName(g *record.Group, c record.Comparison) string {
	s, b := sideOf(g, c.Side), sideOf(g, c.Control)
	if s == nil || b == nil {
		return c.Side
	}
	var names []string
	for _, l := range beyond(*s, *b) {
		names = append(names, l.Name)
	}
	return strings.Join(names, " + ")
}

// TakenBack says where a rung sets again what the rung before it had set: then it does not stand on it, but takes its
// place. Levels of one flag are no levers that add up.
func TakenBack(g *record.Group) (out []string) {
	if !addsUp(g) {
		return nil
	}
	var base, before map[string]string
	if c := sideOf(g, g.Control); c != nil {
		base = c.Command.Delta
	}
	last := ""
	for _, s := range g.Sides {
		if s.Label == g.Control {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(before)) {
			was, now := before[k], s.Command.Delta[k]
			if base[k] == was || now == was {
				continue
			}
			out = append(out, fmt.Sprintf("ladder %q: rung %s sets %s to %s, which %s had set to %s: it takes the place of that lever and does not stand on it; "+
				"write cumulative = False, or a sweep of a factor with these levels", g.Name, s.Label, k, orWord(now, "nothing"), last, was))
		}
		before, last = s.Command.Delta, s.Label
	}
	return out
}
