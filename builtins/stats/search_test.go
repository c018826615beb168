package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Section 4, Search: campaigns over 17 levers on an invented machine, by several procedures. FLOW_SEARCH is
// the number of campaigns a row, and prints their table (make search-bench).

// lever effects in percent, their names those of a published campaign.
var searchEffects = [...]float64{ // never written to
	6.6, 3.0, 3.5, .4, .8, 1.2, .3, -1.1, -8.2, -1.5, -.09, -2, -.8, -.3, 0, 0, -.5,
}

const (
	searchSD  = .27 // of an arm, in percent
	searchMin = .25 // what a lever must bring to be kept
	crash1    = 2   // levers that a guard ends at once: a larger cache that swaps, a deeper look-ahead
	crash2    = 9
)

// campaign is one machine with its levers, as one procedure meets it.
type campaign struct {
	r        *rand.Rand
	e        [17]float64
	inter    [17][17]float64
	drift, t float64
	arms     int
}

// newCampaign draws a machine: effects vary by .15, winners eat 0 to sub of the smaller of two, an arm drifts
// by .05, and 2 % of the arms are depressed.
func newCampaign(seed uint64, sub float64) *campaign {
	c := &campaign{r: rand.New(rand.NewPCG(seed, seed*0x9E3779B97F4A7C15+7))}
	for i, e := range searchEffects {
		c.e[i] = e + .15*c.r.NormFloat64()
	}
	for i := range c.e {
		for j := i + 1; j < len(c.e); j++ {
			if c.e[i] > 0 && c.e[j] > 0 {
				c.inter[i][j] = -sub * c.r.Float64() * math.Min(c.e[i], c.e[j])
			}
		}
	}
	c.drift = .05
	if c.r.IntN(2) == 0 {
		c.drift = -.05
	}
	return c
}

func (c *campaign) truth(s []int) float64 {
	v := 0.0
	for k, i := range s {
		v += c.e[i]
		for _, j := range s[k+1:] {
			v += c.inter[min(i, j)][max(i, j)]
		}
	}
	return v
}

// arm is one arm of a stack; ok is false where a guard ends it.
func (c *campaign) arm(s []int) (y float64, ok bool) {
	c.arms++
	if slices.Contains(s, crash1) || slices.Contains(s, crash2) {
		return 0, false
	}
	c.t += c.drift
	y = c.truth(s) + searchSD*c.r.NormFloat64() + c.t
	if c.r.Float64() < .02 {
		y -= 1.5 + 3.5*c.r.Float64()
	}
	return y, true
}

func (c *campaign) order() []int { return c.r.Perm(len(c.e)) }

// quad is the contrast of b to a.
func (c *campaign) quad(a, b []int, bFirst bool) float64 {
	q := Quad{BFirst: bFirst}
	for s := range q.Y {
		if (s == 1 || s == 2) != bFirst {
			q.Y[s], _ = c.arm(b)
		} else {
			q.Y[s], _ = c.arm(a)
		}
	}
	return q.Contrast()
}

// qualify spends the eight fresh arms of a final claim.
func (c *campaign) qualify(s []int) (effect float64) {
	if len(s) == 0 {
		return 0
	}
	return (c.quad(nil, s, true) + c.quad(nil, s, false)) / 2
}

// publishedRule is the campaign as it was run: each lever alone, ABAB, kept when both deltas are positive, given up
// at −8 after a pair; then the stack against the base, again up to three times until every delta is positive.
func publishedRule(c *campaign) []int {
	var acc []int
	for _, i := range c.order() {
		a1, _ := c.arm(nil)
		b1, ok := c.arm([]int{i})
		if !ok || b1-a1 <= -8 {
			continue
		}
		a2, _ := c.arm(nil)
		b2, _ := c.arm([]int{i})
		if b1 > a1 && b2 > a2 {
			acc = append(acc, i)
		}
	}
	for range 3 {
		good := len(acc) > 0
		for _, bFirst := range []bool{true, false} {
			var y [4]float64
			for s := range y {
				if (s == 1 || s == 2) != bFirst {
					y[s], _ = c.arm(acc)
				} else {
					y[s], _ = c.arm(nil)
				}
			}
			d1, d2 := y[1]-y[0], y[2]-y[3]
			if bFirst {
				d1, d2 = -d1, -d2
			}
			good = good && d1 > 0 && d2 > 0
		}
		if good {
			break
		}
	}
	return acc
}

// oneAtATime screens each lever on the stack so far: a pair, given up when it is hopeless, else one quad.
func oneAtATime(c *campaign) []int {
	var s []int
	for _, i := range c.order() {
		t := append(slices.Clone(s), i)
		a1, _ := c.arm(s)
		b1, ok := c.arm(t)
		if d, sd := b1-a1, searchSD*math.Sqrt2; !ok || d < -3*sd || d+sd < searchMin {
			continue
		}
		b2, _ := c.arm(t)
		a2, _ := c.arm(s)
		if d := (b1 + b2 - a1 - a2) / 2; d >= searchMin && d > searchSD {
			s = t
		}
	}
	c.qualify(s)
	return s
}

// sieve is each lever alone, per of them between two controls: effects against the interpolated control, and
// which of them ran.
func (c *campaign) sieve(per int) map[int]float64 {
	res := map[int]float64{}
	prev, _ := c.arm(nil)
	order := c.order()
	for at := 0; at < len(order); at += per {
		g := order[at:min(at+per, len(order))]
		y, ran := make([]float64, len(g)), make([]bool, len(g))
		for k, i := range g {
			y[k], ran[k] = c.arm([]int{i})
		}
		next, _ := c.arm(nil)
		for k, i := range g {
			if f := float64(k+1) / float64(len(g)+1); ran[k] {
				res[i] = y[k] - (1-f)*prev - f*next
			}
		}
		prev = next
	}
	return res
}

// factorial runs levers on a base in a design and gives their effects. An arm far from what the others say is
// run again, as a gate on the machine would ask.
func (c *campaign) factorial(base, levers []int, rows [][]bool) []float64 {
	runs := make([]Run, len(rows))
	stack := func(k int) []int {
		s := slices.Clone(base)
		for j, i := range levers {
			if rows[k][j] {
				s = append(s, i)
			}
		}
		return s
	}
	for _, k := range c.r.Perm(len(rows)) {
		y, _ := c.arm(stack(k))
		runs[k] = Run{On: rows[k][:len(levers)], Y: y}
	}
	es, _ := Factorial(runs, false, nil)
	if k, ok := outlier(runs); ok {
		runs[k].Y, _ = c.arm(stack(k))
		es, _ = Factorial(runs, false, nil)
	}
	return diffs(es)
}

// outlier is the run whose studentized residual is largest, where it is beyond 3.2 sd and three degrees of
// freedom are left. In a Plackett-Burman design of six or eight levers two runs can share a residual but for its
// sign and rounding: then it is the slower one, because what goes wrong on a machine makes it slower.
func outlier(runs []Run) (at int, ok bool) {
	x, inv, ok := model(runs, false)
	if !ok || len(x)-len(inv) < 3 {
		return 0, false
	}
	y := make([]float64, len(runs))
	for i, r := range runs {
		y[i] = r.Y
	}
	b := solve(x, inv, y)
	worst := 0.0
	for i := range x {
		r, lev := y[i], 0.0
		for j := range x[i] {
			r -= x[i][j] * b[j]
			for k := range x[i] {
				lev += x[i][j] * inv[j][k] * x[i][k]
			}
		}
		s := math.Abs(r) / math.Sqrt(math.Max(1e-9, 1-lev))
		if s > worst*(1+1e-9) || s > worst*(1-1e-9) && r < 0 {
			worst, at = s, i
		}
	}
	return at, worst > 3.2*searchSD
}

// sharedThenFactorial screens with shared controls, puts sure winners into the base, and runs the rest in one
// design; what both say is weighed by their variances.
func sharedThenFactorial(per int, rows [][]bool) func(*campaign) []int {
	return func(c *campaign) []int {
		s1 := searchSD * math.Sqrt(1.6)
		res := c.sieve(per)
		var base, rest []int
		for i := range c.e {
			v, ran := res[i]
			switch {
			case !ran:
			case v > searchMin+4*s1:
				base = append(base, i)
			case v+1.3*s1 > searchMin:
				rest = append(rest, i)
			}
		}
		slices.SortStableFunc(rest, func(a, b int) int { return byFloat(res[b], res[a]) })
		rest = rest[:min(len(rest), len(rows[0]))]
		s := slices.Clone(base)
		if len(rest) > 0 {
			s = append(s, weigh(c.factorial(base, rest, rows), rest, func(i int) (float64, float64) { return res[i], s1 }, len(rows), false)...)
		}
		c.qualify(s)
		return s
	}
}

func byFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// weigh keeps the levers whose effect in a design and whose prior together reach the minimum. Where a history
// and the design contradict each other, believe takes the design alone; a sieve of the same session is no less
// true than the design, and is always weighed.
func weigh(eff []float64, levers []int, prior func(i int) (mean, sd float64), runs int, believe bool) (keep []int) {
	se := 2 * searchSD / math.Sqrt(float64(runs))
	for j, i := range levers {
		h, ps := prior(i)
		p := (eff[j]/(se*se) + h/(ps*ps)) / (1/(se*se) + 1/(ps*ps))
		if believe && math.Abs(eff[j]-h) > 3*math.Hypot(se, ps) {
			p = eff[j]
		}
		if p >= searchMin {
			keep = append(keep, i)
		}
	}
	return keep
}

// byHistory takes what another machine measured (tau apart, .2 of error, and flips of its signs wrong), puts
// the levers that may reach the minimum and retests of those that may not into one Plackett-Burman design.
func byHistory(tau float64, flips, retests int) func(*campaign) []int {
	return func(c *campaign) []int {
		ps := math.Hypot(tau, .2)
		var h [17]float64
		for i := range h {
			h[i] = c.e[i] + tau*c.r.NormFloat64() + .2*c.r.NormFloat64()
		}
		for _, i := range c.r.Perm(len(h))[:flips] {
			h[i] = -h[i]
		}
		var cand, bad []int
		for i := range h {
			switch {
			case i == crash1 || i == crash2: // history knows what cannot run
			case h[i]+1.3*ps > searchMin:
				cand = append(cand, i)
			default:
				bad = append(bad, i)
			}
		}
		best := func(x []int) { slices.SortStableFunc(x, func(a, b int) int { return byFloat(h[b], h[a]) }) }
		best(cand)
		best(bad)
		slices.Reverse(bad) // a wrong sign costs most where the effect is largest
		bad = bad[:min(retests, len(bad))]
		cand = append(cand[:min(len(cand), 11-len(bad))], bad...)
		s := weigh(c.factorial(nil, cand, PlackettBurman12()), cand, func(i int) (float64, float64) { return h[i], ps }, 12, true)
		c.qualify(s)
		return s
	}
}

// outcome of a procedure over campaigns.
type outcome struct{ arms, regret, harmful float64 }

// judge says whether a campaign's stack is .5 under the best, or holds a lever that costs more than .1.
func (c *campaign) judge(s []int) (regret, harmful bool) {
	slices.Sort(s)
	have := c.truth(s)
	if slices.Contains(s, crash1) || slices.Contains(s, crash2) {
		return true, true
	}
	var useful []int
	for i, e := range c.e {
		if e > 0 && i != crash1 && i != crash2 {
			useful = append(useful, i)
		}
	}
	best := 0.0
	for set := range 1 << len(useful) {
		var t []int
		for k, i := range useful {
			if set>>k&1 == 1 {
				t = append(t, i)
			}
		}
		best = math.Max(best, c.truth(t))
	}
	for k := range s {
		if have-c.truth(slices.Delete(slices.Clone(s), k, k+1)) < -.1 {
			harmful = true
		}
	}
	return best-have > .5, harmful
}

func simulate(n int, sub float64, f func(*campaign) []int) (o outcome) {
	for k := range n {
		c := newCampaign(uint64(k), sub)
		regret, harmful := c.judge(f(c))
		o.arms += float64(c.arms) / float64(n)
		if regret {
			o.regret += 1 / float64(n)
		}
		if harmful {
			o.harmful += 1 / float64(n)
		}
	}
	return o
}

// searchRow is a procedure with what section 4 says of it, or where that has no such procedure (retests) what
// 20,000 campaigns gave.
type searchRow struct {
	name            string
	f               func(*campaign) []int
	arms            float64
	share           float64 // of the published procedure's arms
	regret, harmful float64
	campaigns       float64 // behind the figures
}

func searchRows() []searchRow {
	rows := []searchRow{
		{"the published procedure: each lever alone, ABAB, both deltas positive", publishedRule, 70.6, 1, .108, .158, 1000},
		{"one at a time on the stack, given up after a pair, one quad", oneAtATime, 57.7, .82, .228, .153, 1000},
		{"controls shared by 3, sure winners into the base, Plackett-Burman 12 on the rest", sharedThenFactorial(3, PlackettBurman12()), 44.2, .63, .096, .057, 1000},
		{"controls shared by 4, Plackett-Burman 12", sharedThenFactorial(4, PlackettBurman12()), 43.2, .61, .095, .064, 1000},
		{"controls shared by 4, 8-run fraction", sharedThenFactorial(4, Fraction8(7)), 39.0, .55, .148, .077, 1000},
	}
	for _, h := range []struct {
		flips, retests int
		name           string
		tau            [3]float64
		regret         [3]float64
		harmful        [3]float64
		campaigns      float64
	}{
		{0, 0, "one Plackett-Burman 12", [3]float64{.3, .5, .8}, [3]float64{.051, .088, .109}, [3]float64{.080, .114, .131}, 1000},
		{1, 0, "one of 17 signs flipped, 0 retests", [3]float64{.3, .5, .8}, [3]float64{.255, .262, .282}, [3]float64{.093, .117, .137}, 1000},
		{1, 2, "one of 17 signs flipped, 2 retests", [3]float64{.3, .5, .8}, [3]float64{.129, .152, .198}, [3]float64{.084, .105, .114}, 20000},
	} {
		for i, tau := range h.tau {
			rows = append(rows, searchRow{fmt.Sprintf("history ± %.1f %%, %s", tau, h.name), byHistory(tau, h.flips, h.retests),
				20.1, .28, h.regret[i], h.harmful[i], h.campaigns})
		}
	}
	return rows
}

// Section 4, Search: each row of its table. Arms within 1 %, the share of the published procedure's within .01, and
// both rates within four standard errors of the difference between our campaigns and the table's 1,000.
func TestSection4Search(t *testing.T) {
	n, full := 2000, false
	if testing.Short() {
		n = 400
	}
	if s := os.Getenv("FLOW_SEARCH"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("FLOW_SEARCH: got %q, want a number of campaigns", s)
		}
		full = true
	}
	var table strings.Builder
	table.WriteString("| procedure | arms | of published | regret > .5 % | harmful lever |\n| --- | ---: | ---: | ---: | ---: |\n")
	base := 0.0
	for _, r := range searchRows() {
		o := simulate(n, .3, r.f)
		if base == 0 {
			base = o.arms
		}
		fmt.Fprintf(&table, "| %s | %.1f | %.2f | %.3f | %.3f |\n", r.name, o.arms, o.arms/base, o.regret, o.harmful)
		near(t, r.name+": arms", o.arms, r.arms, .01*r.arms)
		near(t, r.name+": share of arms", o.arms/base, r.share, .01)
		nearRate(t, r.name+": regret", o.regret, n, r.regret, r.campaigns, .001)
		nearRate(t, r.name+": harmful", o.harmful, n, r.harmful, r.campaigns, .001)
	}
	if full {
		fmt.Fprintf(os.Stdout, "\n%d campaigns a row\n\n%s\n", n, table.String())
	}
}
