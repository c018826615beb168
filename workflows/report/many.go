package report

// Many levers: what a factorial group ran, and a session's levers as one family.

import (
	"fmt"
	"io"
	"strings"

	"flow/workflows/record"
)

// Family writes the block that stands under a session's table: its levers judged as one family, one finding
// a line, as gate says them. Nothing for no lines.
func Family(w io.Writer, lines []string, o Options) error {
	if len(lines) == 0 {
		return nil
	}
	p := &page{o: o}
	p.line(0, "")
	p.line(0, "many levers")
	for i, l := range lines {
		head := "- "
		if i == 0 {
			head = ""
		}
		p.wrapped(2, head, p.sign(oneLine(l)))
	}
	return p.flush(w)
}

// design lists what a factorial group estimates: the control, and each lever with what it changes. The sides
// that ran are combinations of them and stand in the order only.
func (p *page) design(g *record.Group) {
	label, ran := textWidth(g.Control), 0
	for _, s := range g.Sides {
		if s.Estimated {
			label = max(label, textWidth(s.Label))
		} else {
			ran++
		}
	}
	var base map[string]string
	for _, s := range g.Sides {
		if s.Label == g.Control {
			base = s.Command.Delta
			p.wrapped(2, fmt.Sprintf("%-*s  ", label, s.Label), p.sign("control "+strings.TrimSuffix(s.Engine+" + "+stackNames(s.Stack), " + ")))
		}
	}
	for _, s := range g.Sides {
		if s.Estimated {
			p.wrapped(2, fmt.Sprintf("%-*s  ", label, s.Label), p.sign("lever "+deltaWords(s.Command.Delta, base)))
		}
	}
	p.wrapped(2, "", fmt.Sprintf("design %s: %s of these levers ran; an effect is the mean over all of them of what the lever adds", g.Design, plural(ran-1, "combination")))
}

// levers says which levers came out how, where a factorial group has no verdict as a whole.
func levers(g *record.Group) string {
	by := map[string][]string{}
	var order []string
	for _, c := range primaryOf(g) {
		if by[c.Verdict] == nil {
			order = append(order, c.Verdict)
		}
		name := strings.TrimSpace(c.Side + " " + c.Case)
		by[c.Verdict] = append(by[c.Verdict], name)
	}
	for i, v := range order {
		order[i] = orDash(v) + ": " + strings.Join(by[v], ", ")
	}
	return strings.Join(order, "; ")
}

// removed is the levers that a side lacks of the control's.
func removed(g *record.Group, s record.Side) []string {
	has := map[string]bool{}
	for _, l := range s.Stack {
		has[l.Name] = true
	}
	var out []string
	for _, c := range g.Sides {
		if c.Label != g.Control {
			continue
		}
		for _, l := range c.Stack {
			if !has[l.Name] {
				out = append(out, "without "+l.Name)
			}
		}
	}
	return out
}
