package gate

// What is known of the noise from arms that are not part of the group: this session's earlier blocks first,
// then those of earlier sessions.

import (
	"fmt"
	"math"
	"slices"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// enoughDF is how much history is pooled: more than is lent, because a better s₀ is worth having, but not
// years of it, because machines change.
const enoughDF = 30

// earlierFactor is by how much the noise of earlier sessions is taken larger than it was. With history taken
// as it is, a day 1.5 times noisier gives 12 % false verdicts to decided(), and 6.6 % so (TestCalibration).
const earlierFactor = 1.25

// coldWords says why nothing is borrowed for the first arm of a session.
const coldWords = "nothing borrowed from earlier sessions: nothing ran before the first arm of this session, and a cold first arm passes for an effect where the noise is known; warm_arm = True allows it"

// KnownNoise is the noise of the group's primary metric (of its first case) known from earlier groups,
// newest first; nil when none is. See KnownNoiseOf.
func KnownNoise(g *record.Group, past []*record.Group) *stats.Noise {
	cs := ""
	if c := casesOf(g.Arms, g.Primary); len(c) > 0 {
		cs = c[0]
	}
	return KnownNoiseOf(g, past, g.Primary, cs)
}

// KnownNoiseOf is the noise of one arm in one metric and case, on logarithms, from earlier valid groups of
// the same engine, workload and model (where both say them; the machine is the caller's to narrow). If this
// session's own groups lend enough, the others are not asked. Only what the orders leave as residual is
// taken: an effect is not noise. What the robust rule leaves out is named in From.
//
// Arms that had neighbours on the machine are noisier in another way: noise of shared arms is lent to groups
// with shared arms only, and that of exclusive ones to exclusive ones only.
func KnownNoiseOf(g *record.Group, past []*record.Group, metric, cs string) *stats.Noise {
	return knownNoise(g, past, metric, cs, isShared(g))
}

// isShared: an arm that counts had neighbours.
func isShared(g *record.Group) bool {
	return slices.ContainsFunc(g.Arms, func(a *record.Arm) bool { return measured(a) && a.Disposition == record.OK && len(a.Neighbours) > 0 })
}

func knownNoise(g *record.Group, past []*record.Group, metric, cs string, shared bool) *stats.Noise {
	var own, earlier []stats.Unit
	var ownDF, earlierDF float64
	for _, p := range past {
		if p.ID != "" && p.ID == g.ID || !sameThing(g, p) {
			continue
		}
		mine := p.SessionID != "" && p.SessionID == g.SessionID
		if mine && ownDF >= enoughDF || !mine && (earlierDF >= enoughDF || ownDF >= stats.MaxBorrowedDF) {
			continue
		}
		us := unitsOf(p, metric, cs, shared)
		for _, u := range us {
			if mine {
				own, ownDF = append(own, u), ownDF+u.DF
			} else {
				earlier, earlierDF = append(earlier, u), earlierDF+u.DF
			}
		}
	}
	from := "this session"
	us := own
	if ownDF < stats.MaxBorrowedDF {
		us = append(slices.Clone(own), earlier...)
		switch {
		case len(own) == 0:
			from = "earlier sessions"
		case len(earlier) > 0:
			from = "this session and earlier ones"
		}
	}
	n, _ := stats.Pool(us)
	if n != nil {
		n.From = fmt.Sprintf("%s: %s", from, n.From)
		if len(earlier) > 0 && ownDF < stats.MaxBorrowedDF {
			n.SD *= earlierFactor
			n.From += fmt.Sprintf("; taken %g times, because another day may be noisier", earlierFactor)
		}
	}
	return n
}

// sameThing: noise is only lent between groups of the same engine, workload and model.
func sameThing(g, p *record.Group) bool {
	same := func(x, y string) bool { return x == "" || y == "" || x == y }
	return p.Verdict != record.Invalid && p.Verdict != record.Infeasible &&
		same(g.Engine, p.Engine) && same(g.Workload, p.Workload) && same(g.Model, p.Model)
}

// unitsOf is the noise that the valid blocks of a finished group hold.
// Of shared blocks, or of exclusive ones.
func unitsOf(p *record.Group, metric, cs string, shared bool) []stats.Unit {
	if p.Design != "" {
		return nil // the residual of a factorial design holds interactions: it is no noise of an arm
	}
	blocks := slices.DeleteFunc(Blocks(p), func(b BlockState) bool {
		return b.Valid && shared != slices.ContainsFunc(b.Arms, func(a *record.Arm) bool { return a != nil && len(a.Neighbours) > 0 })
	})
	var us []stats.Unit
	for _, side := range p.Sides {
		if side.Label == p.Control {
			continue
		}
		c := collect(p, blocks, side.Label, metric, cs)
		if len(c.blocks) == 0 {
			continue
		}
		switch c.kind {
		case "quad":
			var names []string
			for _, b := range c.blocks {
				names = append(names, fmt.Sprintf("block %d of %s (%s)", b.Index+1, nameOf(p), spread(b, metric, cs)))
			}
			us = append(us, stats.QuadUnits(c.quads(), names, "the spread of the blocks of "+nameOf(p))...)
		case "ladder": // the controls are the same for every rung
			for i, l := range c.ladders() {
				if sd, df, ok := stats.VonNeumann(l.Controls(p.Control)); ok {
					us = append(us, stats.Unit{Name: fmt.Sprintf("the controls of block %d of %s", c.blocks[i].Index+1, nameOf(p)), SS: sd * sd * df, DF: df})
				}
			}
			return us
		default:
			// With a drift fitted, so that a drift does not pass for noise: one unit per whole order.
			for _, b := range c.blocks {
				y, order, ok := series(b, p.Control, metric, cs)
				if !ok {
					continue
				}
				if e, _, ok := stats.Trend(y, order, nil); ok && e.DF > 0 {
					us = append(us, stats.Unit{Name: fmt.Sprintf("block %d of %s (%s)", b.Index+1, nameOf(p), spread(b, metric, cs)), SS: e.ArmSD * e.ArmSD * e.DF, DF: e.DF})
				}
			}
		}
	}
	return us
}

func nameOf(g *record.Group) string {
	if g.Name != "" {
		return fmt.Sprintf("%q", g.Name)
	}
	return "group " + g.ID
}

// spread is the side of a block whose values differ most, "A 21.42 and 22.49": where to look when the block
// was left out.
func spread(b BlockState, metric, cs string) string {
	var words string
	worst := -1.0
	for _, label := range slices.Compact(slices.Sorted(slices.Values(b.Labels))) {
		var y []float64
		for _, a := range b.Arms {
			if a.Label == label {
				if v, _ := valueOf(a, metric, cs); v != nil {
					y = append(y, *v)
				}
			}
		}
		low, high, ok := stats.Range(y)
		if d := math.Log(high) - math.Log(low); ok && len(y) > 1 && d > worst {
			worst = d
			words = fmt.Sprintf("%s %s to %s", label, number(low), number(high))
		}
	}
	return words
}

// Borrow fills g.Noise from earlier groups when it is nil, for the primary metric and the costs in each of
// the cases that earlier arms know. Call it before the first arm: a look must not change what it borrows.
func Borrow(g *record.Group, past []*record.Group) {
	if g.Noise != nil {
		return
	}
	g.Noise = []record.Noise{} // asked, and nothing was known
	if g.Cold {
		if len(past) > 0 {
			g.Noise = append(g.Noise, record.Noise{Metric: g.Primary, From: coldWords}) // no degrees of freedom: nothing is lent
		}
		return
	}
	for _, metric := range append([]string{g.Primary}, costsOf(g)...) {
		var cases []string
		for _, p := range past {
			for _, c := range casesOf(p.Arms, metric) {
				if !slices.Contains(cases, c) {
					cases = append(cases, c)
				}
			}
		}
		for _, c := range cases {
			for _, shared := range []bool{false, true} { // which of the two is lent is known when arms are there
				n := knownNoise(g, past, metric, c, shared)
				if !n.Usable() {
					continue
				}
				from := n.From
				if shared {
					from += ", of arms with neighbours on the machine"
				}
				g.Noise = append(g.Noise, record.Noise{Metric: metric, Case: c, SD: n.SD, DF: n.DF, From: from, Shared: shared})
			}
		}
	}
}

// lent is what the group knew of a metric's noise before it began; nil when nothing.
func lent(g *record.Group, metric, cs string) *stats.Noise {
	shared := isShared(g)
	for _, n := range g.Noise {
		if n.Metric == metric && n.Case == cs && n.Shared == shared {
			return &stats.Noise{SD: n.SD, DF: n.DF, From: n.From}
		}
	}
	return nil
}

// costsOf is the secondary metrics, sorted.
func costsOf(g *record.Group) []string {
	costs := slices.Clone(g.CostsShown)
	for m := range g.Costs {
		costs = append(costs, m)
	}
	slices.Sort(costs)
	costs = slices.Compact(costs)
	return slices.DeleteFunc(costs, func(m string) bool { return m == g.Primary })
}
