package gate

// Likely causes: what else jumped where the primary metric did. A clock, a cache's hit rate or swapping has
// passed for a gain before; none of it changes a verdict, it says where to look.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

const (
	sideJump  = .03 // a difference of sides that asks for a cause, on the logarithm
	armJump   = .02 // and of an arm to the others of its side
	causeJump = .1  // a covariate that moves less explains neither
	maxCauses = 2   // said at once
)

// Causes are the likely causes of large differences between sides, and of arms that stand apart from their
// side. They look at every measured arm, whether it counts or not.
func Causes(g *record.Group) (out []string) {
	var arms []*record.Arm
	for _, a := range g.Arms {
		if v, _ := valueOf(a, g.Primary, firstCase(g)); measured(a) && a.Disposition != record.Superseded && v != nil && *v > 0 {
			arms = append(arms, a)
		}
	}
	for _, s := range g.Sides {
		if s.Label == g.Control {
			continue
		}
		if w := sideCause(g, arms, s.Label); w != "" {
			out = append(out, w)
		}
	}
	for _, s := range g.Sides {
		out = append(out, armCauses(g, arms, s.Label)...)
	}
	return out
}

func firstCase(g *record.Group) string {
	if c := casesOf(g.Arms, g.Primary); len(c) > 0 {
		return c[0]
	}
	return ""
}

// goodSign is +1 for covariates that go with speed, −1 for those that go against it, 0 for all others.
func goodSign(name string) float64 {
	for _, bad := range []string{"swap", "throttl", "pgmajfault", "pswp", "misses", "psi.", "pressure", "temp", "thermal"} {
		if strings.Contains(name, bad) {
			return -1
		}
	}
	for _, good := range []string{"mhz", "clock", "freq", "hit"} {
		if strings.Contains(name, good) {
			return 1
		}
	}
	return 0
}

// covariates are the names that may explain something: of a sensor its mean, or its growth.
func covariates(arms []*record.Arm) []string {
	var out []string
	for _, a := range arms {
		for i := range a.Metrics {
			n := a.Metrics[i].Name
			if goodSign(n) == 0 || slices.Contains(out, n) || a.Metrics[i].Case != "" {
				continue
			}
			part := false
			for _, suffix := range []string{"_max", "_min", "_p05", "_p50", "_p95", "_p99", "_rise", "_diff", "_per_s", "_prefill"} {
				part = part || strings.HasSuffix(n, suffix)
			}
			if !part {
				out = append(out, n)
			}
		}
	}
	return out
}

// jump is one covariate that moved.
type jump struct {
	name     string
	from, to float64
	size     float64
}

func (j jump) String() string {
	w := fmt.Sprintf("%s %s against %s", j.name, number(j.to), number(j.from))
	if j.from != 0 && j.to != 0 {
		w += fmt.Sprintf(" (%s)", signed(j.to/j.from-1))
	}
	return w
}

// moved compares a covariate's values in the direction that would explain a primary that went by sign. Growth
// and counts may be 0 on one side: then any growth beyond 1 counts.
func moved(name string, from, to []float64, sign float64) (j jump, ok bool) {
	if len(from) == 0 || len(to) == 0 {
		return j, false
	}
	flow, fhigh, _ := stats.Range(from)
	tlow, thigh, _ := stats.Range(to)
	up := tlow > fhigh
	if !up && thigh >= flow {
		return j, false // they overlap
	}
	j = jump{name: name, from: stats.Median(from), to: stats.Median(to)}
	if (up && sign*goodSign(name) < 0) || (!up && sign*goodSign(name) > 0) {
		return j, false // it speaks against
	}
	if j.from > 0 && j.to > 0 {
		j.size = math.Abs(math.Log(j.to / j.from))
		return j, j.size >= causeJump
	}
	j.size = math.Abs(j.to - j.from)
	return j, j.size > 1
}

func covariate(arms []*record.Arm, name string) (x []float64) {
	for _, a := range arms {
		if v, _ := valueOf(a, name, ""); v != nil {
			x = append(x, *v)
		}
	}
	return x
}

func sideCause(g *record.Group, arms []*record.Arm, side string) string {
	pick := func(label string) (out []*record.Arm) {
		for _, a := range arms {
			if a.Label == label {
				out = append(out, a)
			}
		}
		return out
	}
	as, bs := pick(g.Control), pick(side)
	if len(as) == 0 || len(bs) == 0 {
		return ""
	}
	a, b := stats.Median(primaries(g, as)), stats.Median(primaries(g, bs))
	d := math.Log(b / a)
	if math.Abs(d) < math.Max(sideJump, 2*g.MinEffect) {
		return ""
	}
	js := explain(as, bs, speed(g, d))
	if len(js) == 0 {
		return ""
	}
	return fmt.Sprintf("side %s is at %s of %s, and differs in more than its levers: %s; a likely cause, unless the lever is meant to do that", side, signed(b/a-1), g.Control, joined(js))
}

// speed turns a difference into the direction of speed.
func speed(g *record.Group, d float64) float64 {
	if g.Better == "lower" {
		d = -d
	}
	return math.Copysign(1, d)
}

func primaries(g *record.Group, arms []*record.Arm) (x []float64) {
	cs := firstCase(g)
	for _, a := range arms {
		if v, _ := valueOf(a, g.Primary, cs); v != nil {
			x = append(x, *v)
		}
	}
	return x
}

func explain(from, to []*record.Arm, sign float64) (js []jump) {
	for _, name := range covariates(append(slices.Clone(from), to...)) {
		if j, ok := moved(name, covariate(from, name), covariate(to, name), sign); ok {
			js = append(js, j)
		}
	}
	slices.SortStableFunc(js, func(a, b jump) int { return cmp.Compare(b.size, a.size) })
	return js[:min(len(js), maxCauses)]
}

func joined(js []jump) string {
	var w []string
	for _, j := range js {
		w = append(w, j.String())
	}
	return strings.Join(w, ", ")
}

// armCauses are arms that stand apart from the others of their side, with what else is different about them.
func armCauses(g *record.Group, arms []*record.Arm, label string) (out []string) {
	var own []*record.Arm
	for _, a := range arms {
		if a.Label == label {
			own = append(own, a)
		}
	}
	if len(own) < 2 {
		return nil
	}
	limit := armJump
	if n := lent(g, g.Primary, firstCase(g)); n.Usable() {
		limit = math.Max(armJump/2, 5*n.SD)
	}
	for i, a := range own {
		rest := slices.Delete(slices.Clone(own), i, i+1)
		y, others := primaries(g, []*record.Arm{a})[0], stats.Median(primaries(g, rest))
		d := math.Log(y / others)
		if math.Abs(d) < limit || len(own) == 2 && speed(g, d) > 0 {
			continue // of two arms the slower one is told
		}
		if js := explain(rest, []*record.Arm{a}, speed(g, d)); len(js) > 0 {
			out = append(out, fmt.Sprintf("arm %s is at %s of the others of its side; likely cause: %s", armName(a), signed(y/others-1), joined(js)))
		}
	}
	return out
}
