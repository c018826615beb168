// Package report tells what a group and a session found, in text that a person reads in a terminal or
// pastes into an issue.
//
// Its opinion: the verdict comes first, every ± says what it is, and what the field publishes (medians,
// gain of medians, pair deltas) stands beside it. A number is rounded to what its noise supports; what
// was not measured is a dash with its reason, never a zero. Warnings are footnotes, never lost. The
// package judges nothing: what it prints was found by gate and stored.
package report

import (
	"fmt"
	"io"
	"strings"

	"flow/workflows/record"
)

// Options say how text is laid out. The zero value is 80 columns of plain ASCII without colour.
type Options struct {
	Width   int  // columns; 80 when zero, never less
	Unicode bool // ±, → and – in place of +/-, -> and -
	Color   bool // decided by the caller, who knows the terminal
}

func (o Options) width() int {
	return max(80, o.Width)
}

// page is text under way.
type page struct {
	b     strings.Builder
	o     Options
	notes []string // footnotes in order of their marks
}

func (p *page) line(indent int, format string, args ...any) {
	p.b.WriteString(strings.Repeat(" ", indent))
	p.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " "))
	p.b.WriteByte('\n')
}

// wrapped writes text after a head, folded at the width: below where it began when the head is short, else
// by two columns.
func (p *page) wrapped(indent int, head, text string) {
	if textWidth(head) <= 24 {
		for i, l := range fold(text, p.o.width()-indent-textWidth(head)) {
			if i > 0 {
				head = strings.Repeat(" ", textWidth(head))
			}
			p.line(indent, "%s%s", head, l)
		}
		return
	}
	for i, l := range fold(head+text, p.o.width()-indent-2) {
		p.line(indent+2*min(i, 1), "%s", l)
	}
}

// note keeps a footnote and gives its mark. The same words get the same mark.
func (p *page) note(text string) string {
	text = oneLine(text)
	for i, n := range p.notes {
		if n == text {
			return fmt.Sprintf("[%d]", i+1)
		}
	}
	p.notes = append(p.notes, text)
	return fmt.Sprintf("[%d]", len(p.notes))
}

// told says whether a warning is already a footnote, with or without the metric before it.
func (p *page) told(warning string) bool {
	for _, n := range p.notes {
		if strings.HasSuffix(oneLine(warning), n) {
			return true
		}
	}
	return false
}

// said reports whether the page has these words already, however its lines were broken.
func (p *page) said(words string) bool {
	words = strings.ReplaceAll(p.sign(oneLine(words)), " ", "")
	return words != "" && strings.Contains(strings.ReplaceAll(oneLine(p.b.String()), " ", ""), words)
}

// Warnings that are not printed where they stand.

// observed: how few runs of a side there are. The table of what the field publishes shows it.
func observed(warning string) bool { return strings.HasSuffix(warning, observedRange) }

const observedRange = ": an observed range, not an interval"

// rungs: what each rung of a ladder adds. It is a result and stands with the effects.
func rungs(warning string) bool {
	return strings.HasPrefix(warning, "rungs share controls, so that each ")
}

// replicates: what requests within arms are worth. It stands with the descriptions, where a reader might count them.
func replicates(warning string) bool { return strings.HasPrefix(warning, "requests are no replicates") }

// normality: so few blocks that an interval leans on the normal distribution. It gives how many, and the rest.
func normality(warning string) (blocks string, ok bool) {
	if blocks, _, ok = strings.Cut(warning, " cannot reach "); ok {
		ok = strings.Contains(warning, "without normality")
	}
	return blocks, ok
}

// Warning is a group's warning in the words of a report.
func Warning(w string) string {
	if head, ok := strings.CutSuffix(w, observedRange); ok {
		return head + ": its range is what was seen, and no interval"
	}
	return w
}

func (p *page) footnotes(indent int) {
	for i, n := range p.notes {
		p.wrapped(indent, fmt.Sprintf("[%d] ", i+1), p.sign(n))
	}
}

// sign takes ± and its kind back to ASCII where the terminal asks for it.
func (p *page) sign(s string) string {
	if p.o.Unicode {
		return s
	}
	return asciiSigns.Replace(s)
}

var asciiSigns = strings.NewReplacer("±", "+/-", "→", "->", "–", "-", "−", "-", "…", "...", "×", "x", "≥", ">=", "≤", "<=", "µ", "u", "·", "*")

func (p *page) flush(w io.Writer) error {
	_, err := io.WriteString(w, p.b.String())
	return err
}

// verdict paints the word of a verdict.
func (p *page) verdict(v string) string {
	if v == "" {
		v = "no verdict yet"
	}
	c := map[string]string{record.Better: "1;32", record.Worse: "1;31", record.Invalid: "1;33", record.Infeasible: "1;33"}[v]
	if c == "" || !p.o.Color {
		return v
	}
	return "\x1b[" + c + "m" + v + "\x1b[0m"
}
