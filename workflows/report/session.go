package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"flow/workflows/record"
)

// Session writes the summary of a session, which follows the blocks of its groups: one row per group and
// rung, then what those blocks have not said. A group without a verdict has no block: its warnings stand here.
func Session(w io.Writer, s *record.Session, groups []*record.Group, o Options) error {
	p := &page{o: o}
	head := "session " + s.ID
	if s.Workflow != "" {
		head += ", " + s.Workflow
	}
	if s.Machine.Host != "" {
		head += ", on " + s.Machine.Host
	}
	if s.WallStartNS != 0 {
		head += ", " + time.Unix(0, s.WallStartNS).UTC().Format("2006-01-02 15:04 UTC")
	}
	if s.WallEndNS != nil && *s.WallEndNS > s.WallStartNS {
		head += ", " + dur(time.Duration(*s.WallEndNS-s.WallStartNS))
		if s.Resumed > 0 {
			head += fmt.Sprintf(" (resumed %d×, with the time between)", s.Resumed)
		}
	}
	if s.Status != "" {
		head += ", " + s.Status
	}
	p.wrapped(0, "", head)
	switch s.Measurer {
	case record.MeasurerSimulated:
		p.wrapped(0, "", "SIMULATED: no engine ran; these figures say nothing about a machine")
	case record.MeasurerRecorded:
		p.wrapped(0, "", "from recorded arms: no engine ran")
	}
	if s.Imported {
		p.wrapped(0, "", "imported from another tool's record")
	}
	p.line(0, "")
	if len(groups) == 0 {
		p.line(2, "no groups")
	} else {
		p.table(groups)
		if slices.ContainsFunc(groups, hasInterval) {
			p.line(0, "")
			p.wrapped(2, "", "the level and the model of each interval: above, under its group's name")
		}
	}
	p.normality(groups)
	if s.Error != "" {
		p.note("ended early: " + s.Error)
	}
	for _, n := range s.Notes {
		p.note("note: " + n)
	}
	if len(p.notes) > 0 {
		p.line(0, "")
		p.footnotes(2)
	}
	return p.flush(w)
}

// hasInterval says whether a group's block, which stands above, shows an interval.
func hasInterval(g *record.Group) bool {
	return g.Verdict != "" && slices.ContainsFunc(primaryOf(g), func(c *record.Comparison) bool {
		return c.Estimate != nil && c.Estimate.Low != nil && c.Estimate.High != nil
	})
}

// normality says once which groups have so few blocks that their intervals lean on the normal distribution.
func (p *page) normality(groups []*record.Group) {
	var tails []string
	by := map[string][]string{}
	for _, g := range groups {
		for _, m := range g.Warnings {
			if blocks, ok := normality(m); ok {
				tail := strings.TrimPrefix(m, blocks+" ")
				if by[tail] == nil {
					tails = append(tails, tail)
				}
				if n := len(by[tail]); n == 0 || by[tail][n-1] != g.Name {
					by[tail] = append(by[tail], g.Name)
				}
			}
		}
	}
	for _, t := range tails {
		names := by[t]
		if n := len(names); n > 4 {
			names = append(names[:3:3], fmt.Sprintf("%d more", n-3))
		}
		p.note("the blocks of " + strings.Join(names, ", ") + " " + t)
	}
}

// table is the groups of a session. What a side changes has a column where there is room for it, else lines
// of its own below.
func (p *page) table(groups []*record.Group) {
	wide := &grid{right: map[int]bool{3: true, 4: true, 5: true, 6: true}, drop: []int{6, 5}, fold: []int{7, 0}}
	slim := &grid{right: wide.right, drop: wide.drop, fold: wide.fold}
	head := []string{"group", "change", "verdict", "effect", "interval", "arms", "time", ""}
	var below [][2]string
	add := func(name, change string, cells ...string) {
		if strings.Contains(name, change) {
			change = ""
		}
		if change != "" {
			below = append(below, [2]string{name + ": ", change})
		}
		wide.add(append([]string{name, change}, cells...)...)
		slim.add(append([]string{name, ""}, cells...)...)
	}
	wide.add(head...)
	slim.add(append([]string{head[0], ""}, head[2:]...)...)
	for _, g := range groups {
		p.rows(g, add)
	}
	room := p.o.width() - 2
	for _, l := range wide.lines(1 << 20) {
		if len(below) == 0 || textWidth(l) > room { // nothing to say there, or no room for it
			p.grid(2, slim)
			if len(below) > 0 {
				p.line(0, "")
			}
			for _, b := range below {
				p.wrapped(2, b[0], b[1])
			}
			return
		}
	}
	p.grid(2, wide)
}

// rows adds the rows of a group: one, or one per rung and case.
func (p *page) rows(g *record.Group, add func(name, change string, cells ...string)) {
	ok, all := armCount(g)
	arms, time, marks := fmt.Sprintf("%d/%d", ok, all), p.sign(orDash(groupTime(g))), ""
	cs := primaryOf(g)
	if g.Verdict == "" { // no block above has said it
		for _, m := range g.Warnings {
			if _, once := normality(m); !once && !ofNoise(cs, m) {
				marks += p.note(Warning(m))
			}
		}
	}
	if len(cs) == 0 {
		add(g.Name, changeOf(g, ""), p.sign(orDash(g.Verdict)), p.sign("–"), p.sign("–"), arms, time, marks)
		return
	}
	for i, c := range cs {
		e := effectOf(c)
		if i > 0 {
			arms, time, marks = "", "", ""
		}
		name, verdict := g.Name, g.Verdict
		if len(cs) > 1 {
			rung := c.Case
			if len(g.Sides) > 2 {
				rung = strings.TrimSpace(c.Side + " " + c.Case)
			}
			name, verdict = strings.TrimSpace(g.Name+" "+rung), c.Verdict
			if change := changeOf(g, c.Side); len(g.Sides) > 2 && textWidth(g.Name+rung) > 12 {
				name = strings.TrimSpace(change + " " + c.Case) // which lever says more than the beginning of a list
			}
		}
		if cost := against(g, c); cost != "" { // a gain that is worse would be a riddle
			verdict += " (cost)"
			marks += p.note(name + ": " + cost)
		}
		add(name, changeOf(g, c.Side), p.sign(orDash(verdict)), p.sign(e.value), p.sign(e.interval), arms, time, marks)
	}
	for i := range g.Steps {
		c := &g.Steps[i]
		e, name := effectOf(c), stepName(g, c)
		add(strings.TrimSpace(name+" over "+c.Control+" "+c.Case), name, p.sign(orDash(c.Verdict)), p.sign(e.value), p.sign(e.interval), "", "", "")
	}
}

// against is the costs that made a verdict another than that of the effect alone, in the words of its reason.
func against(g *record.Group, c *record.Comparison) string {
	words, alone, ok := strings.Cut(c.Reason, "; "+g.Primary+" alone is ")
	if verdict, _, _ := strings.Cut(alone, ":"); !ok || verdict == c.Verdict {
		return ""
	}
	return words
}

// ofNoise says whether a warning only tells whose noise was borrowed: that stands in the group's own block.
func ofNoise(cs []*record.Comparison, warning string) bool {
	for _, c := range cs {
		if c.Estimate != nil && c.Estimate.Borrowed != "" && strings.HasSuffix(warning, c.Estimate.Borrowed) {
			return true
		}
	}
	return false
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// changeOf is the levers that a side has beyond the control; all sides but the control when label is "".
func changeOf(g *record.Group, label string) string {
	base := map[string]bool{}
	for _, s := range g.Sides {
		if s.Label == g.Control {
			for _, l := range s.Stack {
				base[l.Name] = true
			}
		}
	}
	var out []string
	for _, s := range g.Sides {
		if s.Label == g.Control || (label != "" && s.Label != label) || g.Design != "" && !s.Estimated {
			continue
		}
		var names []string
		for _, l := range s.Stack {
			if !base[l.Name] {
				names = append(names, l.Name)
			}
		}
		if len(names) == 0 {
			names = removed(g, s)
		}
		if len(names) == 0 && label != "" {
			names = []string{"side " + s.Label}
		}
		if len(names) > 0 {
			out = append(out, strings.Join(names, " + "))
		}
	}
	return strings.Join(out, ", ")
}
