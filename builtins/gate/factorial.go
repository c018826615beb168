package gate

// Groups of a factorial design: which arms count and what they show of each lever. The matrix is read off the
// sides' stacks, so that the record needs nothing beside them. Every block has its own level and its own
// straight drift; controls around and inside the order are runs like any other.

import (
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// designLevers is the hash of each lever that the design estimates, by its side's label, in order.
func designLevers(g *record.Group) (labels, hashes []string) {
	for _, s := range g.Sides {
		if s.Estimated && len(s.Stack) > 0 {
			labels = append(labels, s.Label)
			hashes = append(hashes, s.Stack[len(s.Stack)-1].Hash)
		}
	}
	return labels, hashes
}

// design is what a factorial group has in one metric and case.
type design struct {
	runs   []stats.Run
	blocks int
	noLog  bool // values are there, but not all of them have a logarithm
}

// runsOf takes the runs of whole valid blocks in which every arm has a value.
func (v *verdict) runsOf(g *record.Group, blocks []BlockState, hashes []string, metric, cs string) design {
	on := map[string][]bool{}
	for _, s := range g.Sides {
		x := make([]bool, len(hashes))
		for i, h := range hashes {
			x[i] = slices.ContainsFunc(s.Stack, func(l record.Lever) bool { return l.Hash == h })
		}
		on[s.Label] = x
	}
	var d design
	for _, b := range blocks {
		if !b.Valid {
			continue
		}
		var runs []stats.Run
		whole := true
		for _, a := range b.Arms {
			y, why := valueOf(a, metric, cs)
			if y == nil {
				v.warn("block %d left out: arm %s: %s%s", b.Index+1, armName(a), why, caseWords(cs))
				whole = false
				break
			}
			if !(*y > 0) {
				d.noLog = true
				break
			}
			runs = append(runs, stats.Run{Block: b.Index, On: on[a.Label], Y: math.Log(*y)})
		}
		if whole {
			d.runs = append(d.runs, runs...)
			d.blocks++
		}
	}
	if d.noLog {
		d.runs = nil // a ratio of some arms only would be a selection by result
	}
	return d
}

// factorial fills in one comparison per lever, metric and case.
func (v *verdict) factorial(g *record.Group, blocks []BlockState, rule stats.Rule) {
	labels, hashes := designLevers(g)
	each := make([][]record.Comparison, len(labels))
	add := func(metric, cs string, cost bool) {
		r := rule
		if cost {
			r.MinEffect, r.Lower = 0, directionOf(g, metric) == "lower"
		}
		d := v.runsOf(g, blocks, hashes, metric, cs)
		es, ok := stats.Factorial(d.runs, true, lent(g, metric, cs))
		for i, label := range labels {
			cmp := record.Comparison{Side: label, Control: g.Control, Case: cs, Metric: metric}
			for _, run := range d.runs {
				if run.On[i] {
					cmp.NSide++
				} else {
					cmp.NControl++
				}
			}
			var need needs
			switch {
			case d.noLog:
				cmp.Verdict, cmp.Reason = record.Inconclusive, "no ratio can be taken: the values are not all positive"
			case !ok:
				cmp.Verdict, cmp.Reason = record.Invalid, "no block has "+metric+" on every side"+caseWords(cs)
			default:
				need = v.effect(g, &cmp, es[i], d, r, cost)
			}
			if cost {
				cmp = v.hold(g, cmp, directionOf(g, metric), need)
			}
			each[i] = append(each[i], cmp)
		}
		if !cost && len(d.runs) > 0 {
			v.aliases(g, labels, d.runs)
		}
	}
	cases := casesOf(g.Arms, g.Primary)
	if len(cases) == 0 {
		cases = []string{""}
	}
	for _, cs := range cases {
		add(g.Primary, cs, false)
	}
	for _, metric := range costsOf(g) {
		cases := casesOf(g.Arms, metric)
		for _, cs := range cases {
			add(metric, cs, true)
		}
		if len(cases) == 0 {
			v.unmeasured(g, metric, labels...)
		}
	}
	for _, cs := range each {
		v.comparisons = append(v.comparisons, cs...)
	}
}

// effect fills in what a design shows of one lever.
func (v *verdict) effect(g *record.Group, cmp *record.Comparison, e stats.Estimate, d design, rule stats.Rule, cost bool) needs {
	effect, finite := stats.Ratio(e.Diff)
	if !finite {
		cmp.Verdict, cmp.Reason = record.Inconclusive, "no ratio can be taken of these arms"
		return nil
	}
	cmp.Estimate = recorded(e, effect, rule, v.looks)
	if !cost {
		v.noiseWords(e, cmp.Metric, cmp.Case)
		if v.any != nil {
			v.warn("%s has no rule that holds at any look: its interval holds at one", cmp.Metric)
		}
	}
	cmp.Verdict, cmp.Reason = rule.Verdict(e)
	cmp.Reason = strings.TrimSuffix(effectWords(cmp.Estimate)+"; "+cmp.Reason, "; ")
	have := float64(d.blocks)
	k := func(n int) float64 { return e.K * have / float64(n) }
	df := func(n int) float64 { return float64(n)*e.OwnDF/have + e.BorrowedDF }
	need := func(gap float64) (int, bool) { return rule.BlocksForGap(e, e.N, gap, k, df) }
	if !cost {
		v.ask(g, cmp, rule.Gap(e), need)
	}
	return need
}

// aliases warns about interactions that pass for main effects.
func (v *verdict) aliases(g *record.Group, labels []string, runs []stats.Run) {
	all := stats.Aliases(runs, true)
	if len(all) == 0 {
		return
	}
	full := map[int][]string{}
	for _, a := range all {
		if math.Abs(a.Share) > .7 {
			sign := ""
			if a.Share < 0 {
				sign = "−"
			}
			full[a.Lever] = append(full[a.Lever], sign+labels[a.J]+"×"+labels[a.K])
		}
	}
	if len(full) > 0 {
		var words []string
		for i, l := range labels {
			if w := full[i]; len(w) > 0 {
				words = append(words, l+" = "+strings.Join(w, " = "))
			}
		}
		v.warn("design %s: these effects cannot be told from interactions: %s; fold over, or confirm in quads", g.Design, strings.Join(words, ", "))
		return
	}
	if most := math.Abs(all[0].Share); most >= .15 {
		v.warn("design %s: an effect holds up to %.2g of each interaction of two other levers: put sure winners into the base, fold over, or confirm in quads", g.Design, most)
	}
}
