package report

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"flow/builtins/metric"
	"flow/workflows/record"
)

// maxListed is how many excluded arms and pair deltas are listed; the rest is counted.
const maxListed = 12

// Group writes the verdict block of a group: what was compared, what came out, what the field would
// publish of it, what it costs, and what does not count.
func Group(w io.Writer, g *record.Group, o Options) error {
	p := &page{o: o}
	p.line(0, "%s (%s): %s", g.Name, g.Role, p.verdict(g.Verdict))
	if why := reasonOf(g); why != "" {
		p.wrapped(2, "", p.sign(why))
	}
	if g.Design != "" {
		p.design(g)
		p.primary(g)
	} else {
		p.sides(g)
		p.primary(g)
		p.published(g)
	}
	p.costs(g)
	p.arms(g)
	for _, m := range g.Warnings {
		_, once := normality(m) // once for a session, under its table
		if what, why, ok := strings.Cut(m, " left out: "); ok && what != "" && p.said(why) {
			continue
		}
		if !once && !p.told(m) && !(observed(m) && g.Design == "") && !rungs(m) && !(replicates(m) && g.Design == "") {
			p.note(Warning(m))
		}
	}
	if len(p.notes) > 0 {
		p.line(0, "")
		p.footnotes(2)
	}
	p.line(0, "")
	return p.flush(w)
}

// reasonOf is the verdict's reason, where it says more than the figures that follow: that of a cost does.
func reasonOf(g *record.Group) string {
	first := primaryOf(g)
	if len(first) == 1 && g.Reason == first[0].Reason && !strings.HasPrefix(g.Reason, "cost ") {
		switch g.Verdict {
		case record.Better, record.Worse, record.Equivalent:
			return ""
		}
	}
	if g.Design != "" && len(first) > 0 && g.Verdict != record.Invalid && g.Verdict != record.Infeasible {
		return levers(g)
	}
	return g.Reason
}

// primaryOf and costsOf split the comparisons.
func primaryOf(g *record.Group) (out []*record.Comparison) { return comparisons(g, false) }
func costsOf(g *record.Group) (out []*record.Comparison)   { return comparisons(g, true) }

func comparisons(g *record.Group, cost bool) (out []*record.Comparison) {
	for i := range g.Comparisons {
		if c := &g.Comparisons[i]; c.Cost == cost {
			out = append(out, c)
		}
	}
	return out
}

// sides lists what was compared: the control first, the others by what they change.
func (p *page) sides(g *record.Group) {
	label, control := 0, 0
	var base map[string]string
	for _, s := range g.Sides {
		label = max(label, textWidth(s.Label))
		if s.Label == g.Control {
			control, base = len("control  "), s.Command.Delta
		}
	}
	for _, s := range g.Sides {
		what := stackNames(s.Stack)
		if s.Engine != "" && what != "" {
			what = s.Engine + " + " + what
		} else if s.Engine != "" {
			what = s.Engine
		}
		role, beyond := "", base
		if s.Label == g.Control {
			role, beyond = "control", nil
		}
		if d := deltaWords(s.Command.Delta, beyond); d != "" {
			what += ": " + d
		}
		p.wrapped(2, fmt.Sprintf("%-*s  %-*s", label, s.Label, control, role), p.sign(what))
	}
}

func stackNames(s []record.Lever) string {
	names := make([]string, len(s))
	for i, l := range s {
		names[i] = l.Name
	}
	return strings.Join(names, " + ")
}

// deltaWords is the change of a side beyond another: "arg -ub → 1024, env X → 1, unset Y".
func deltaWords(d, beyond map[string]string) string {
	keys := make([]string, 0, len(d))
	for k, v := range d {
		if was, has := beyond[k]; !has || was != v {
			keys = append(keys, k)
		}
	}
	for k := range beyond {
		if _, has := d[k]; !has {
			keys = append(keys, k+" as without levers")
		}
	}
	sort.Strings(keys)
	for i, k := range keys {
		if v := oneLine(d[k]); v != "" {
			keys[i] = k + " → " + v
		}
	}
	return strings.Join(keys, ", ")
}

// primary is the table of effects on the primary metric.
func (p *page) primary(g *record.Group) {
	cs := primaryOf(g)
	if len(cs) == 0 {
		return
	}
	p.line(0, "")
	head := g.Primary
	if u := unitOf(g, g.Primary); u != "" && !strings.HasSuffix(g.Primary, u) {
		head += " in " + u
	}
	if g.Better != "" {
		head += ", " + g.Better + " is better"
	}
	if g.MinEffect > 0 {
		head += ", smallest effect of interest " + share(g.MinEffect)
	}
	p.wrapped(2, "", head)
	t := &grid{right: map[int]bool{3: true, 4: true, 5: true}, drop: []int{6}, fold: []int{0, 8}}
	labels, halves := map[string]bool{}, false
	rows := slices.Clone(cs)
	for i := range g.Steps {
		rows = append(rows, &g.Steps[i])
	}
	for _, c := range rows {
		e := effectOf(c)
		if e.label != "" {
			labels[e.label] = true
		}
		halves = halves || e.half != ""
	}
	for i, c := range rows {
		step := ""
		if i >= len(cs) {
			step = "step " + stepName(g, c)
		}
		p.effectRow(t, c, len(labels) > 1, step)
	}
	p.grid(4, t)
	if len(labels) == 1 {
		for l := range labels {
			words := halfWords(l)
			if !halves {
				words = rangeWords(l)
			}
			p.wrapped(4, "", p.sign(words))
		}
	}
	for _, m := range g.Warnings {
		if rungs(m) {
			_, each, _ := strings.Cut(m, "so that each ")
			p.wrapped(4, "", p.sign("each rung "+oneLine(each)))
		}
	}
	for _, c := range cs {
		if c.BlocksNeeded != nil && *c.BlocksNeeded > 0 && c.Verdict == record.Inconclusive {
			words := fmt.Sprintf("about %s should decide it", plural(*c.BlocksNeeded, "more block"))
			if !p.said(words) {
				p.wrapped(4, "", p.sign(whose(c, len(cs))+words))
			}
		}
	}
}

// stepName is the levers that a step of a ladder adds.
func stepName(g *record.Group, c *record.Comparison) string {
	before := map[string]bool{}
	var names []string
	for _, s := range g.Sides {
		for _, l := range s.Stack {
			switch {
			case s.Label == c.Control:
				before[l.Hash+l.Name] = true
			case s.Label == c.Side && !before[l.Hash+l.Name]:
				names = append(names, l.Name)
			}
		}
	}
	return strings.Join(names, " + ")
}

func whose(c *record.Comparison, of int) string {
	if of == 1 {
		return ""
	}
	return strings.TrimSpace(c.Side+" "+c.Case) + ": "
}

// halfWords says what stands behind ±.
func halfWords(label string) string {
	if strings.HasPrefix(label, "no interval") {
		return label
	}
	return "± and range: " + label
}

// rangeWords says what a range without ± is.
func rangeWords(label string) string {
	return strings.TrimPrefix(halfWords(label), "± and ")
}

// effectRow is one comparison: side against control, case, verdict, effect, interval, blocks.
func (p *page) effectRow(t *grid, c *record.Comparison, ownLabel bool, last string) {
	e := effectOf(c)
	mark := ""
	if ownLabel && e.label != "" {
		mark = p.note(halfWords(e.label))
		if e.half == "" {
			mark = p.note(rangeWords(e.label))
		}
	}
	if c.Estimate == nil && c.Reason != "" && !p.said(c.Reason) {
		mark = p.note(c.Reason)
	}
	if est := c.Estimate; est != nil && est.Borrowed != "" {
		mark += p.note(est.Borrowed)
	}
	blocks := ""
	if c.Estimate != nil {
		blocks = plural(c.Estimate.Blocks, "block")
	}
	t.add(c.Side+" vs "+c.Control, c.Case, c.Verdict, p.sign(e.value), p.sign(e.half), p.sign(e.interval), blocks, last, mark)
}

func (p *page) grid(indent int, t *grid) {
	for _, l := range t.lines(p.o.width() - indent) {
		p.line(indent, "%s", l)
	}
}

// published is what the field prints of such a group: it describes and claims nothing.
func (p *page) published(g *record.Group) {
	cs := primaryOf(g)
	if len(cs) == 0 {
		return
	}
	p.line(0, "")
	p.line(2, "as the field publishes it (descriptions, no test)")
	t := &grid{right: map[int]bool{2: true, 3: true, 5: true}}
	gains := "gain of medians"
	if g.Better == "lower" {
		gains = "change of medians" // a gain that is positive and worse would read as good news
	}
	t.add("side", "case", "n", "median", "range", gains)
	control := map[string]bool{}
	for _, c := range cs {
		spread := max(width(c.RangeControl), width(c.RangeSide))
		if k := c.Control + "\x00" + c.Case; !control[k] {
			control[k] = true
			p.publishedRow(t, c.Control, c, c.MedianControl, c.RangeControl, c.NControl, spread, "")
		}
		gain := "–"
		if c.GainOfMediansPct != nil {
			gain = pct(*c.GainOfMediansPct/100, 2)
		}
		p.publishedRow(t, c.Side, c, c.MedianSide, c.RangeSide, c.NSide, spread, gain)
	}
	p.grid(4, t)
	for _, c := range cs {
		if len(c.PairDeltas) == 0 {
			continue
		}
		spread := max(width(c.RangeControl), width(c.RangeSide))
		words := make([]string, 0, len(c.PairDeltas))
		for i, d := range c.PairDeltas {
			if i == maxListed {
				words = append(words, fmt.Sprintf("and %d more", len(c.PairDeltas)-i))
				break
			}
			s := num(d, spread)
			if d >= 0 {
				s = "+" + s
			}
			words = append(words, s)
		}
		unit := unitOf(g, c.Metric)
		if unit != "" {
			unit = " " + unit
		}
		p.wrapped(4, fmt.Sprintf("pair deltas %s: ", strings.TrimSpace(c.Side+" "+c.Case)), strings.Join(words, ", ")+unit)
	}
	for _, m := range g.Warnings {
		if replicates(m) {
			p.wrapped(4, "", p.sign(m))
		}
	}
}

func (p *page) publishedRow(t *grid, side string, c *record.Comparison, median *float64, r []float64, n int, spread float64, gain string) {
	m, rg := "–", "–"
	if median != nil {
		m = num(*median, spread)
	}
	switch {
	case n == 1:
		rg = "one run"
	case len(r) == 2:
		rg = num(r[0], spread) + " to " + num(r[1], spread)
	}
	t.add(side, c.Case, fmt.Sprint(n), p.sign(m), p.sign(rg), p.sign(gain))
}

func width(r []float64) float64 {
	if len(r) != 2 {
		return 0
	}
	return r[1] - r[0]
}

// costs are the secondary metrics with their limits.
func (p *page) costs(g *record.Group) {
	cs := costsOf(g)
	if len(cs) == 0 {
		return
	}
	p.line(0, "")
	p.line(2, "costs")
	t := &grid{right: map[int]bool{3: true, 4: true}, fold: []int{5, 6, 2, 0}}
	labels := map[string]bool{}
	for _, c := range cs {
		if l := effectOf(c).label; l != "" {
			labels[l] = true
		}
	}
	for _, c := range cs {
		limit, has := g.Costs[c.Metric]
		state := "reported only"
		switch {
		case c.CostBroken && !shownBeyond(c.Estimate, limit):
			state = "beyond the limit of " + pct(limit, 1) + ", not shown"
		case c.CostBroken:
			state = "BROKEN, limit " + pct(limit, 1)
		case has && c.Estimate == nil:
			state = "not held against " + pct(limit, 1)
		case has:
			state = "within " + pct(limit, 1)
		}
		e := effectOf(c)
		mark := ""
		if len(labels) > 1 && e.label != "" {
			mark = p.note(rangeWords(e.label))
		}
		if c.Estimate == nil && c.Reason != "" && !p.said(c.Reason) {
			mark += p.note(c.Metric + ": " + c.Reason)
		}
		t.add(c.Metric, c.Side, c.Case, p.sign(e.value), p.sign(e.interval), state, mark)
	}
	p.grid(4, t)
	if len(labels) == 1 {
		for l := range labels {
			p.wrapped(4, "", p.sign(rangeWords(l)))
		}
	}
}

// shownBeyond: the whole interval lies beyond the limit, on the side of the estimate.
func shownBeyond(e *record.Estimate, limit float64) bool {
	if e == nil || e.Low == nil || e.High == nil {
		return false
	}
	return e.Effect > limit && *e.Low > limit || e.Effect < limit && *e.High < limit
}

// arms says how many counted and lists those that do not, with the reason.
func (p *page) arms(g *record.Group) {
	p.line(0, "")
	ok, all := armCount(g)
	words := fmt.Sprintf("%d of %s ok", ok, plural(all, "arm"))
	if t := groupTime(g); t != "" {
		words += " in " + t
	}
	order := g.Order
	if order == "" {
		order = "alternating quads"
	}
	words += fmt.Sprintf("; order %s, at most %s", order, plural(g.Cap, "block"))
	if g.Stopped != "" {
		stopped := g.Stopped
		if what, why, ok := strings.Cut(stopped, ": "); ok && p.said(why) {
			stopped = what // why stands above
		}
		words += "; " + EndedBy(stopped)
	}
	p.wrapped(2, "", p.sign(words))
	type end struct{ disposition, reason string }
	var ends []end
	by := map[end][]string{}
	for _, a := range g.Arms {
		if a.Disposition == record.OK {
			continue
		}
		e := end{a.Disposition, oneLine(a.Reason)}
		if by[e] == nil {
			ends = append(ends, e)
		}
		by[e] = append(by[e], armName(a))
	}
	for i, e := range ends {
		if i == maxListed {
			p.line(4, "and %s that ended otherwise", plural(len(ends)-i, "arm"))
			break
		}
		why := orNone(e.reason)
		if p.said(e.reason) {
			why = "as said above"
		}
		names := by[e]
		if n := len(names); n > maxListed {
			names = append(names[:maxListed:maxListed], fmt.Sprintf("and %d more", n-maxListed))
		}
		p.wrapped(4, p.sign(fmt.Sprintf("%s %s: ", strings.Join(names, "; "), e.disposition)), p.sign(why))
	}
	for _, l := range Died(g) {
		p.wrapped(4, "", p.sign(l))
	}
}

// maxLog is how many lines of an engine's log say why a side cannot run.
const maxLog = 8

// Died is why a side cannot run, in the words of its engine: the command and the last lines of its log. nil when no
// side is infeasible, or when nothing was launched.
func Died(g *record.Group) []string {
	i := slices.IndexFunc(g.Arms, func(a *record.Arm) bool { return a.Disposition == record.Infeasible && a.Process != nil })
	if i < 0 {
		return nil
	}
	a := g.Arms[i]
	var out []string
	if len(a.Process.Argv) > 0 {
		out = append(out, record.ArmName(a.Label, a.Seq)+" ran: "+oneLine(Shell(a.Process.Argv)))
	}
	var log []string
	for _, l := range strings.Split(a.Process.LogTail, "\n") {
		if l = oneLine(strings.ToValidUTF8(l, "?")); l != "" {
			log = append(log, l)
		}
	}
	if len(log) == 0 {
		return out
	}
	return append(append(out, "last lines of its log:"), log[max(0, len(log)-maxLog):]...)
}

// Shell is a command as a shell takes it.
func Shell(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r))
		}) || i == 0 && strings.Contains(w, "=") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// EndedBy says what ended a group: a stop by its name, or what happened in words.
func EndedBy(stopped string) string {
	if open := strings.IndexAny(stopped, "(: "); open < 0 || open > 0 && stopped[open] != ' ' {
		return "ended by " + stopped
	}
	return "ended: " + stopped
}

func orNone(s string) string {
	if s == "" {
		return "no reason was recorded"
	}
	return s
}

// armName is "B2, block 1 slot 2", or with the purpose of an arm outside blocks.
func armName(a *record.Arm) string {
	name := record.ArmName(a.Label, a.Seq)
	if a.Block < 0 {
		return name + " (" + a.Purpose + ")"
	}
	s := fmt.Sprintf("%s, block %d slot %d", name, a.Block+1, a.Slot+1)
	if a.Attempt > 0 {
		s += fmt.Sprintf(" attempt %d", a.Attempt+1)
	}
	return s
}

func armCount(g *record.Group) (ok, all int) {
	for _, a := range g.Arms {
		all++
		if a.Disposition == record.OK {
			ok++
		}
	}
	return ok, all
}

func groupTime(g *record.Group) string {
	took := record.TookNS(g.Arms)
	if took == nil || g.WallEndNS == nil {
		return ""
	}
	return dur(time.Duration(*took))
}

// unitOf is the unit of a metric: what an arm recorded, else what the built-in of that name has.
func unitOf(g *record.Group, name string) string {
	for _, a := range g.Arms {
		for _, m := range a.Metrics {
			if m.Name == name && m.Unit != "" {
				return m.Unit
			}
		}
	}
	d, _ := metric.Lookup(name)
	return d.Unit
}
