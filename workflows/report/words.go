package report

// Numbers and lines as people read them.

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	"flow/workflows/record"
)

func textWidth(s string) int { return text.StringWidthWithoutEscSequences(s) }

// oneLine makes one line of what others wrote: an engine's words do not move the cursor.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// fold breaks text at spaces into lines of at most width columns; a word that is longer gets a line of its
// own and is not broken, so that paths and hashes can be copied.
func fold(s string, width int) []string {
	var lines []string
	now := ""
	for _, w := range words(s) {
		switch {
		case now == "":
			now = w
		case textWidth(now)+1+textWidth(w) <= width:
			now += " " + w
		default:
			lines = append(lines, now)
			now = w
		}
	}
	return append(lines, now)
}

// words splits at spaces, but keeps a percent sign with its number.
func words(s string) []string {
	var out []string
	for _, w := range strings.Fields(oneLine(s)) {
		if strings.HasPrefix(w, "%") && len(out) > 0 {
			out[len(out)-1] += " " + w
		} else {
			out = append(out, w)
		}
	}
	return out
}

// digits is how many decimals show a spread with two significant ones, from 0 to 6.
func digits(spread float64) int {
	if spread <= 0 || math.IsNaN(spread) || math.IsInf(spread, 0) {
		return 2
	}
	return max(0, min(6, 1-int(math.Floor(math.Log10(spread)))))
}

// num writes a value with the decimals that its spread supports; with an unknown spread (0 or less) with
// four significant digits.
func num(v, spread float64) string {
	if a := math.Abs(v); a >= 1e9 || (a > 0 && a < 1e-6) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	d := digits(spread)
	if spread <= 0 && v != 0 {
		d = max(0, min(9, 3-int(math.Floor(math.Log10(math.Abs(v))))))
	}
	s := strconv.FormatFloat(v, 'f', d, 64)
	if spread <= 0 && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// pct writes a ratio minus one as a signed percentage with d decimals: "+2.06 %".
func pct(x float64, d int) string {
	s := strconv.FormatFloat(100*x, 'f', d, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	if !strings.HasPrefix(s, "-") {
		s = "+" + s
	}
	return s + " %"
}

// share writes a ratio as a percentage without a sign: ".01" is "1 %".
func share(x float64) string {
	return strconv.FormatFloat(100*x, 'g', 4, 64) + " %"
}

// dur rounds a duration to what a person reads.
func dur(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// effect is an estimate in words.
type effect struct {
	value    string // "+2.06 %"; "–" where nothing was estimated
	half     string // "± 0.20 %"; "" without an interval, and where its two sides are not alike
	interval string // "+1.86 % to +2.25 %"
	label    string // what the interval is: "95 % interval of the quad model, t(3)"
}

func effectOf(c *record.Comparison) effect {
	e := c.Estimate
	if e == nil {
		return effect{value: "–", interval: "not measured"}
	}
	d := 2
	if e.Low == nil || e.High == nil {
		return effect{value: pct(e.Effect, d), interval: "no interval", label: "no interval: the noise of these arms is not known"}
	}
	half := (*e.High - *e.Low) / 2
	d = min(3, digits(100*half))
	for d < 2 && e.Effect != 0 && math.Round(100*e.Effect*math.Pow10(d)) == 0 {
		d++ // an effect of -0.15 % beside a wide interval is not "+0 %"
	}
	words := "± " + strings.TrimPrefix(pct(half, d), "+")
	if up, down := *e.High-e.Effect, e.Effect-*e.Low; max(up, down) > 1.2*min(up, down) {
		words = "" // a ± would claim what is not: the interval of a ratio reaches further up than down
	}
	return effect{
		value:    pct(e.Effect, d),
		half:     words,
		interval: strings.TrimSuffix(pct(*e.Low, d), " %") + " to " + pct(*e.High, d),
		label:    intervalLabel(e),
	}
}

// intervalLabel says what an interval is: its level, its model, its degrees of freedom.
func intervalLabel(e *record.Estimate) string {
	model := map[string]string{
		"quad": "of the quad model", "pair": "of pairs", "ladder": "of ladder ratios to interpolated controls", "unpaired": "of unpaired arms",
		"factorial": "of the factorial model",
	}[e.Method]
	if model == "" {
		model = "by " + e.Method
	}
	s := fmt.Sprintf("%s interval %s, t(%s)", share(e.Level), model, strconv.FormatFloat(e.DF, 'g', 3, 64))
	switch {
	case e.Looks > 1:
		s += fmt.Sprintf(", at the level of %d planned looks", e.Looks)
	case e.ValidAnytime:
		s += ", valid at every look"
	}
	return s
}

// grid is a table without lines: cells padded to their column, two spaces between. Where it is too wide,
// columns are dropped, and then the text of others goes on in further lines: no two rows come to read alike.
type grid struct {
	rows  [][]string
	right map[int]bool // columns of numbers
	drop  []int        // columns that may go when the table is too wide, in that order
	fold  []int        // columns that may go on in a further line, in that order
}

// minFold is how narrow a column may become by folding.
const minFold = 10

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) lines(room int) []string {
	var w []int
	for _, r := range g.rows {
		for i, c := range r {
			if i == len(w) {
				w = append(w, 0)
			}
			w[i] = max(w[i], textWidth(c))
		}
	}
	total := -2
	for i := range w {
		if w[i] > 0 {
			total += w[i] + 2
		}
	}
	for _, i := range g.drop {
		if total > room && i < len(w) && w[i] > 0 {
			total -= w[i] + 2
			w[i] = 0
		}
	}
	for _, whole := range []bool{true, false} { // words stay whole where that is enough
		for _, i := range g.fold {
			if over := total - room; over > 0 && i < len(w) {
				least := minFold
				if whole {
					least = max(least, g.longestWord(i))
				}
				cut := min(over, max(0, w[i]-least))
				w[i], total = w[i]-cut, total-cut
			}
		}
	}
	out := make([]string, 0, len(g.rows))
	for _, r := range g.rows {
		cells := make([][]string, len(r))
		height := 1
		for i, c := range r {
			if w[i] > 0 {
				cells[i] = folded(c, w[i])
				height = max(height, len(cells[i]))
			}
		}
		for y := range height {
			var b strings.Builder
			for i := range r {
				if w[i] == 0 {
					continue // a column that is empty everywhere, or was dropped
				}
				c := ""
				if y < len(cells[i]) {
					c = cells[i][y]
				}
				pad := strings.Repeat(" ", max(0, w[i]-textWidth(c)))
				if g.right[i] {
					b.WriteString(pad + c + "  ")
				} else {
					b.WriteString(c + pad + "  ")
				}
			}
			out = append(out, strings.TrimRight(b.String(), " "))
		}
	}
	return out
}

// longestWord is the width of the longest word of a column; marks can be parted.
func (g *grid) longestWord(i int) (n int) {
	for _, r := range g.rows {
		if i < len(r) {
			for _, w := range words(strings.ReplaceAll(r[i], "][", "] [")) {
				n = max(n, textWidth(w))
			}
		}
	}
	return n
}

// folded is a cell in lines of at most width columns: at spaces, between marks, and in a word where it must.
func folded(s string, width int) []string {
	if textWidth(s) <= width {
		return []string{s}
	}
	var out []string
	for _, l := range fold(strings.ReplaceAll(s, "][", "] ["), width) {
		for textWidth(l) > width {
			head := text.Snip(l, width, "")
			if at := strings.LastIndexAny(head, "_./-"); at >= width/3 {
				head = head[:at+1] // a name is broken where its parts meet
			}
			out, l = append(out, head), l[len(head):]
		}
		out = append(out, l)
	}
	return out
}
