package main

// Tables for people that stay inside the terminal and lose nothing: what has no room in its row stands below
// it, and what is still too wide is folded in its column.

import (
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"flow/cmd/flow/ui"
)

// columns is a table without lines.
type columns struct {
	head  []string
	rows  [][]string
	right []int // of numbers
	below []int // columns that go below their row where there is no room, the first of them first
}

// minFold is how narrow a column may become by folding.
const minFold = 12

func (c *columns) add(cells ...string) { c.rows = append(c.rows, cells) }

// widthOf is how many columns a stream shows; 80 where it does not say.
func widthOf(w io.Writer) int { return max(60, ui.LookOf(w).Width) }

func cellWidth(s string) int { return text.StringWidthWithoutEscSequences(s) }

// lines lays the table out. A column that says nothing is left out.
func (c *columns) lines(width int) []string {
	var in []int
	for i := range c.head {
		if slices.ContainsFunc(c.rows, func(r []string) bool { return r[i] != "" }) {
			in = append(in, i)
		}
	}
	w := make([]int, len(c.head))
	for i := range c.head {
		w[i] = cellWidth(c.head[i])
		for _, r := range c.rows {
			w[i] = max(w[i], cellWidth(r[i]))
		}
	}
	total := func() int {
		t := 2 * (len(in) - 1)
		for _, i := range in {
			t += w[i]
		}
		return t
	}
	var under []int
	for _, i := range c.below {
		if at := slices.Index(in, i); at >= 0 && len(in) > 1 && total() > width {
			in = slices.Delete(in, at, at+1)
			under = append(under, i)
		}
	}
	slices.Sort(under)
	for over := total() - width; over > 0; over = total() - width {
		widest := -1
		for _, i := range in {
			if !slices.Contains(c.right, i) && w[i] > minFold && (widest < 0 || w[i] > w[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		next := minFold // not narrower than the next widest: they share what is missing
		for _, i := range in {
			if i != widest && !slices.Contains(c.right, i) {
				next = max(next, min(w[i], w[widest]-1))
			}
		}
		w[widest] = max(next, w[widest]-over)
	}
	out := c.row(c.head, in, w)
	for _, r := range c.rows {
		out = append(out, c.row(r, in, w)...)
		line := "" // short cells share one
		for _, i := range under {
			cell := c.head[i] + ": " + r[i]
			if r[i] == "" {
				continue
			}
			if line != "" && cellWidth(line)+2+cellWidth(cell) <= width-6 {
				line += "; " + cell
				continue
			}
			out = append(out, hanging("    ", line, width)...)
			line = cell
		}
		out = append(out, hanging("    ", line, width)...)
	}
	return out
}

// hanging is text in lines of a width, the first indented, the others two columns further; nothing for "".
func hanging(indent, text string, width int) []string {
	if text == "" {
		return nil
	}
	var out []string
	for _, l := range foldCell(text, max(minFold, width-len(indent)-2)) {
		out = append(out, indent+l)
		if len(out) == 1 {
			indent += "  "
		}
	}
	return out
}

// row is one row, of several lines where cells are folded.
func (c *columns) row(r []string, in, w []int) []string {
	cells := make([][]string, len(in))
	height := 1
	for n, i := range in {
		cells[n] = foldCell(r[i], w[i])
		height = max(height, len(cells[n]))
	}
	out := make([]string, height)
	for y := range out {
		var b strings.Builder
		for n, i := range in {
			s := ""
			if y < len(cells[n]) {
				s = cells[n][y]
			}
			pad := strings.Repeat(" ", max(0, w[i]-cellWidth(s)))
			if slices.Contains(c.right, i) {
				s, pad = pad+s, ""
			}
			b.WriteString(s + pad + "  ")
		}
		out[y] = strings.TrimRight(b.String(), " ")
	}
	return out
}

// foldCell breaks text at spaces into lines of a width; a word that is longer is broken where the line ends.
func foldCell(s string, width int) []string {
	if cellWidth(s) <= width || width < 1 {
		return []string{s}
	}
	var out []string
	now := ""
	for _, word := range strings.Fields(s) {
		if now != "" && cellWidth(now)+1+cellWidth(word) <= width {
			now += " " + word
			continue
		}
		if now != "" {
			out = append(out, now)
		}
		for now = word; cellWidth(now) > width; {
			head := text.Snip(now, width, "")
			if head == "" {
				break
			}
			out = append(out, head)
			now = now[len(head):]
		}
	}
	return append(out, now)
}
