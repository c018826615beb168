package gate

// The many levers of a session as one family. A group's verdict asks about itself alone; of twenty levers
// that do nothing, one is better at 5 % in two sessions of three. So what a session's screens found is held
// to a false discovery rate, what its qualifications claim to the chance of any false claim, and a claim
// stands beside what the screens promised.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// FamilyRate is the false discovery rate of a session's screens, and the level of its claims.
const FamilyRate = .05

// FamilyReport is a session's screens and claims together.
type FamilyReport struct {
	Rate     float64  `json:"rate"`
	Rule     string   `json:"rule,omitempty"` // of the screens: BH, or e-BH where a group could stop at any look; "" without screens
	Screens  []Member `json:"screens,omitempty"`
	Claims   []Member `json:"claims,omitempty"`
	OneSided string   `json:"one_sided,omitempty"` // the one-sidedness alarm in words, "" when there is none
}

// Member is one finding: a lever in a screen, a stack in a qualification.
type Member struct {
	Group    string   `json:"group"`          // its name
	What     string   `json:"what"`           // the levers that the side adds
	Case     string   `json:"case,omitempty"` // "" when the cases are one finding
	Verdict  string   `json:"verdict"`        // of the comparison, its costs included
	Cost     string   `json:"cost,omitempty"` // the costs that made its verdict another than that of the effect, in words
	Effect   float64  `json:"effect"`         // ratio minus one, as measured
	P        float64  `json:"p"`              // two-sided, with the price of the group's looks
	E        float64  `json:"e"`              // e-value: of the group's always-valid rule, else what P is worth
	Adjusted float64  `json:"adjusted"`       // BH's or Holm's p; of e-BH the reciprocal of E
	Passes   bool     `json:"passes"`         // in the family, and no cost speaks against it
	Shrunk   *float64 `json:"shrunk,omitempty"`
	Promised *float64 `json:"promised,omitempty"` // of a claim: the product of what the screens measured of its levers
	Expected *float64 `json:"expected,omitempty"` // the same after shrinkage
	Missing  []string `json:"missing,omitempty"`  // levers of a claim that no screen of the session measured
	// Interaction is what a claim's levers have together beyond the product of their screens, with the 95 %
	// interval of that contrast: negative when they get in each other's way.
	Interaction *float64  `json:"interaction,omitempty"`
	Range       []float64 `json:"interaction_range,omitempty"` // low, high
	log, se, df float64
	hashes      []string
	set         int       // its group among the session's: members of one set may share arms
	weights     []float64 // of its group's arms in it, where it shares them with other members; else nil
}

// Family judges a session's groups as one family. It is pure over the groups, and changes none of them.
//
// A screen's levers are members where there is a p: in screens, ladders, sweeps and factorial designs. Under
// the rules all and worst a side's cases are one finding with the largest p of them; under each, every case is
// one. The p of a group that looked is that of all its looks. Groups that are invalid are no members: no one
// saw them.
func Family(groups []*record.Group) FamilyReport {
	r := FamilyReport{Rate: FamilyRate}
	anytime := false
	for i, g := range groups {
		switch {
		case g.Verdict == record.Invalid || g.Verdict == record.Infeasible || g.Verdict == "":
		case g.Role == record.RoleNoiseFloor:
		case g.Role == record.RoleQualification:
			r.Claims = append(r.Claims, members(g)...)
		default:
			for _, m := range members(g) {
				m.set = i
				r.Screens = append(r.Screens, m)
			}
			anytime = anytime || anytimeOf(g) != nil
		}
	}
	r.screens(anytime)
	r.claims()
	return r
}

// members are the findings of a group in its primary metric.
func members(g *record.Group) []Member {
	var out []Member
	for _, s := range g.Sides {
		if s.Label == g.Control || g.Design != "" && !s.Estimated {
			continue
		}
		names, hashes := added(g, s)
		if len(names) == 0 { // a lever taken away: of the stack, not of the family
			continue
		}
		compared, before := g.Comparisons, ""
		if i := slices.IndexFunc(g.Steps, func(c record.Comparison) bool { return c.Side == s.Label }); i >= 0 {
			// In a ladder that adds up a lever is what its rung has over the one before it.
			compared, before = g.Steps, g.Steps[i].Control
			names, hashes = nil, nil
			for _, l := range beyond(s, *sideOf(g, before)) {
				names, hashes = append(names, l.Name), append(hashes, l.Hash)
			}
		}
		var side []Member
		for i := range compared {
			c := &compared[i]
			if c.Side != s.Label || c.Cost || c.Metric != g.Primary {
				continue
			}
			p, ok := pOf(c.Estimate)
			e := stats.PToE(p)
			if a := anytimeOf(g); a != nil && before == "" {
				e, ok = eOf(g, c, *a)
				p = math.Min(1, 1/e)
			}
			if !ok {
				continue
			}
			m := Member{Group: g.Name, What: strings.Join(names, " + "), Case: c.Case, Verdict: c.Verdict, Cost: against(g, c),
				Effect: c.Estimate.Effect, P: math.Max(p, math.SmallestNonzeroFloat64), E: e, log: c.Estimate.Log, hashes: hashes}
			if c.Estimate.SE != nil {
				m.se, m.df = *c.Estimate.SE, c.Estimate.DF
			}
			side = append(side, m)
		}
		if len(g.Sides) > 2 || len(side) > 1 {
			w := weightsOf(g, s.Label)
			if below := weightsOf(g, before); before != "" && len(below) == len(w) {
				for i := range w {
					w[i] -= below[i]
				}
			}
			for i := range side {
				side[i].weights = w
			}
		}
		if len(side) > 1 && g.CaseRule != "each" {
			worst := slices.MaxFunc(side, func(a, b Member) int { return compare(a.P, b.P) })
			worst.Case = ""
			if len(g.Sides) == 2 {
				worst.Verdict = g.Verdict
			} else {
				worst.Verdict, _ = joinCases(g.CaseRule, comparisonsOf(compared, s.Label))
			}
			for _, m := range side { // the cost of any case is the finding's
				if worst.Cost == "" && m.Cost != "" {
					worst.Cost = m.Cost + caseWords(m.Case)
				}
			}
			side = []Member{worst}
		}
		out = append(out, side...)
	}
	return out
}

// weightsOf is the weight of each arm of a group in the effect of a side: of a ladder by its order, else one of the
// side's own, which only its cases share. nil for a factorial design, whose effects share no noise.
func weightsOf(g *record.Group, side string) []float64 {
	if g.Design != "" {
		return nil
	}
	for _, b := range validBlocks(g) {
		if b.Kind == "ladder" {
			return stats.RungWeights(b.Labels, g.Control, side)
		}
	}
	w := make([]float64, len(g.Sides))
	for i, s := range g.Sides {
		if s.Label == side {
			w[i] = 1
		}
	}
	return w
}

func comparisonsOf(of []record.Comparison, side string) []record.Comparison {
	var cs []record.Comparison
	for _, c := range of {
		if c.Side == side && !c.Cost {
			cs = append(cs, c)
		}
	}
	return cs
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// added is what a side has and the control has not.
func added(g *record.Group, s record.Side) (names, hashes []string) {
	var base []record.Lever
	if c := sideOf(g, g.Control); c != nil {
		base = c.Stack
	}
	for _, l := range s.Stack {
		if !slices.ContainsFunc(base, func(b record.Lever) bool { return b.Hash == l.Hash }) {
			names, hashes = append(names, l.Name), append(hashes, l.Hash)
		}
	}
	if len(s.Stack) == 0 && len(base) == 0 { // a record that names no levers
		name := g.Name
		if len(g.Sides) > 2 {
			name += " " + s.Label
		}
		return []string{name}, []string{name}
	}
	return names, hashes
}

// pOf is the p of an estimate; of one at the last of several looks, the chance that any of them shows as much
// by nothing. ok is false where no noise is known or none was left.
func pOf(e *record.Estimate) (p float64, ok bool) {
	if e == nil || e.SE == nil || !(*e.SE > 0) || !(e.DF > 0) {
		return 0, false
	}
	p = 2 * stats.TTail(math.Abs(e.Log / *e.SE), e.DF)
	if e.Looks > 1 {
		p = math.Min(1, float64(e.Looks)*p) // Bonferroni; at p = .05 the exact price is lower by a third
		if p > 1e-3 {
			p = math.Min(p, stats.PocockCrossing(e.Looks, math.Sqrt2*math.Erfcinv(p/float64(e.Looks))))
		}
	}
	return p, true
}

// eOf is the e-value of an always-valid group, from its arms.
func eOf(g *record.Group, c *record.Comparison, rule stats.Anytime) (e float64, ok bool) {
	if c.Estimate == nil {
		return 1, false
	}
	got := collect(g, Blocks(g), c.Side, c.Metric, c.Case)
	est, ok := got.estimate(nil)
	if !ok {
		return 1, false
	}
	if est, ok = got.anytime(est, rule); !ok {
		return 1, false
	}
	return math.Min(math.Max(est.E(), math.SmallestNonzeroFloat64), math.MaxFloat64), true
}

func (r *FamilyReport) screens(anytime bool) {
	ms := r.Screens
	if len(ms) == 0 {
		return
	}
	p, x, v := make([]float64, len(ms)), make([]float64, len(ms)), make([]float64, len(ms))
	shares := make([]stats.Share, len(ms))
	for i, m := range ms {
		p[i], x[i], v[i] = m.P, m.log, m.se*m.se
		shares[i] = stats.Share{Set: m.set, Weights: m.weights}
	}
	r.Rule = "BH"
	if anytime {
		r.Rule = "e-BH"
		e := make([]float64, len(ms))
		for i := range e {
			e[i] = ms[i].E
		}
		for i, pass := range stats.EBH(e, r.Rate) {
			ms[i].Adjusted, ms[i].Passes = math.Min(1, 1/e[i]), pass
		}
	} else {
		for i, q := range stats.BH(p) {
			ms[i].Adjusted, ms[i].Passes = q, q <= r.Rate
		}
	}
	for i := range ms {
		ms[i].Passes = ms[i].Passes && ms[i].Cost == ""
	}
	if s, ok := stats.Shrink(x, v); ok && slices.Min(v) > 0 {
		for i := range ms {
			if e, ok := stats.Ratio(s.Mean[i]); ok {
				ms[i].Shrunk = &e
			}
		}
	}
	if e, alarm := stats.OneSidedShared(x, shares); alarm {
		way := "up"
		if e.K < e.N-e.K {
			way = "down"
		}
		r.OneSided = fmt.Sprintf("%d of %d screened effects point %s (p %.2g if levers did nothing): look for one cause behind all of them, "+
			"such as a cold first arm or a clock that moved, with a noise-floor group", max(e.K, e.N-e.K), e.N, way, e.P)
	}
}

func (r *FamilyReport) claims() {
	p := make([]float64, len(r.Claims))
	for i, m := range r.Claims {
		p[i] = m.P
	}
	for i, q := range stats.Holm(p) {
		m := &r.Claims[i]
		m.Adjusted, m.Passes = q, q <= r.Rate && m.Cost == ""
		promised, shrunk, have, all := 0.0, 0.0, 0, true
		var parts []stats.Estimate
		for _, h := range m.hashes {
			s := r.screened(h)
			if s == nil {
				continue
			}
			have++
			promised += s.log
			parts = append(parts, s.estimate())
			if s.Shrunk == nil {
				all = false
			} else {
				shrunk += math.Log1p(*s.Shrunk)
			}
		}
		if have == 0 {
			continue
		}
		for j, name := range strings.Split(m.What, " + ") {
			if j < len(m.hashes) && r.screened(m.hashes[j]) == nil {
				m.Missing = append(m.Missing, name)
			}
		}
		if e, ok := stats.Ratio(promised); ok {
			m.Promised = &e
		}
		if have == len(m.hashes) && have > 1 {
			m.interaction(parts)
		}
		if e, ok := stats.Ratio(shrunk); ok && all {
			m.Expected = &e
		}
	}
}

func (m *Member) estimate() stats.Estimate {
	return stats.Estimate{Diff: m.log, SE: m.se, DF: m.df}
}

func (m *Member) interaction(parts []stats.Estimate) {
	e, ok := stats.InteractionOf(m.estimate(), parts)
	if !ok {
		return
	}
	low, high, ok := e.Interval(.95)
	i, fits := stats.Ratio(e.Diff)
	l, fitsLow := stats.Ratio(low)
	h, fitsHigh := stats.Ratio(high)
	if ok && fits && fitsLow && fitsHigh {
		m.Interaction, m.Range = &i, []float64{l, h}
	}
}

// screened is the latest screen of a lever alone, nil when there is none.
func (r *FamilyReport) screened(hash string) *Member {
	for i := len(r.Screens) - 1; i >= 0; i-- {
		if m := &r.Screens[i]; len(m.hashes) == 1 && m.hashes[0] == hash {
			return m
		}
	}
	return nil
}

// Lines is the family in words, one finding a line; nil when there is nothing that a group does not say by
// itself: fewer than two screens and no claim beside a screen.
func (r FamilyReport) Lines() []string {
	var out []string
	if n := len(r.Screens); n > 1 {
		rule := map[string]string{"BH": "Benjamini-Hochberg", "e-BH": "e-values, because a group could stop at any look"}[r.Rule]
		out = append(out, fmt.Sprintf("%d screened effects as one family: of those that stand at most %.3g %% are false (%s); of %d levers that do nothing one passes by itself in %.0f %% of sessions",
			n, 100*r.Rate, rule, n, 100*stats.FamilyError(n, .05)))
		often := map[string]int{}
		for _, m := range r.Screens {
			often[m.What+m.Case]++
		}
		sorted := slices.Clone(r.Screens)
		slices.SortStableFunc(sorted, func(a, b Member) int { return compare(a.Adjusted, b.Adjusted) })
		for _, m := range sorted {
			state := ""
			switch {
			case m.Passes:
				state = "stands"
			case m.Cost != "" && (m.Adjusted <= r.Rate || m.Verdict == record.Worse):
				state = m.Verdict + " for its costs (" + m.Cost + "), whatever the effect alone shows"
			case m.Verdict == record.Better || m.Verdict == record.Worse:
				state = "does not stand among " + fmt.Sprint(n) + ", although " + m.Verdict + " by itself"
			default:
				continue
			}
			where := ""
			if often[m.What+m.Case] > 1 {
				where = " in " + m.Group
			}
			out = append(out, fmt.Sprintf("%s%s %s%s%s: %s (%s %.2g)", m.What, caseWords(m.Case), signed(m.Effect), shrunkWords(m.Shrunk), where, state, adjustedName(r.Rule), m.Adjusted))
		}
	}
	for _, m := range r.Claims {
		if len(r.Claims) < 2 && m.Promised == nil {
			continue
		}
		w := fmt.Sprintf("claim %s%s: %s from fresh arms", m.What, caseWords(m.Case), signed(m.Effect))
		if m.Promised != nil {
			w += ", where the screens showed " + signed(*m.Promised)
			if m.Expected != nil {
				w += fmt.Sprintf(" (%s shrunk)", signed(*m.Expected))
			}
			if len(m.Missing) > 0 {
				w += ", " + strings.Join(m.Missing, " and ") + " not among them"
			}
			if m.Interaction != nil {
				w += fmt.Sprintf("; together beyond the product of each alone %s [%s, %s] at 95 %%", signed(*m.Interaction), signed(m.Range[0]), signed(m.Range[1]))
			}
		}
		if len(r.Claims) > 1 {
			state := "stands"
			if !m.Passes && m.Cost == "" || m.Adjusted > r.Rate {
				state = "does not stand"
			}
			w += fmt.Sprintf("; %s among %d claims (Holm p %.2g)", state, len(r.Claims), m.Adjusted)
		}
		if m.Cost != "" {
			w += fmt.Sprintf("; %s all the same, for its costs (%s)", m.Verdict, m.Cost)
		}
		out = append(out, w)
	}
	if r.OneSided != "" {
		out = append(out, r.OneSided)
	}
	return out
}

func adjustedName(rule string) string {
	if rule == "e-BH" {
		return "1/e"
	}
	return "q"
}

func shrunkWords(x *float64) string {
	if x == nil {
		return ""
	}
	return " (" + signed(*x) + " shrunk)"
}
