package ui

// What is known of a session while it runs, and how it reads in a line.

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	"flow/workflows/record"
)

// groupFacts is what is shown of a group.
type groupFacts struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	Primary string   `json:"primary"`
	Cap     int      `json:"cap"`        // blocks
	Arms    int      `json:"arms"`       // so far, all attempts
	OK      int      `json:"arms_ok"`    // so far
	PerBlk  int      `json:"block_arms"` // arms of a block
	Verdict string   `json:"verdict,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Stopped string   `json:"stopped,omitempty"`
	Effects []effect `json:"effects,omitempty"`
	seconds float64  // from start to end, 0 while it runs
}

// effect is one rung of a group in one case, on the primary metric.
type effect struct {
	Side    string   `json:"side"`
	Case    string   `json:"case,omitempty"`
	Metric  string   `json:"metric"`
	Verdict string   `json:"verdict,omitempty"`
	Effect  *float64 `json:"effect,omitempty"` // ratio minus one
	Low     *float64 `json:"low,omitempty"`
	High    *float64 `json:"high,omitempty"`
	Level   float64  `json:"level,omitempty"`
}

// armFacts is what is shown of an arm.
type armFacts struct {
	ID          string             `json:"id"`
	Label       string             `json:"label"`
	Block       int                `json:"block"`
	Slot        int                `json:"slot"`
	Attempt     int                `json:"attempt"`
	Purpose     string             `json:"purpose"`
	Disposition string             `json:"disposition,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	Seconds     *float64           `json:"seconds,omitempty"`
	Metrics     map[string]float64 `json:"metrics,omitempty"` // measured ones of the arm as a whole or of its only case
	primary     *float64
	unit        string
}

func groupOf(e record.Event) *groupFacts {
	g := e.GroupOf
	if g == nil {
		return nil
	}
	f := &groupFacts{Name: g.Name, Role: g.Role, Primary: g.Primary, Cap: g.Cap, Arms: len(g.Arms), PerBlk: blockArms(g.Order)}
	for _, a := range g.Arms {
		if a.Disposition == record.OK {
			f.OK++
		}
	}
	if e.Kind != "group.end" {
		return f
	}
	f.Verdict, f.Reason, f.Stopped = g.Verdict, g.Reason, g.Stopped
	if took := record.TookNS(g.Arms); took != nil {
		f.seconds = float64(*took) / 1e9
	}
	for _, c := range g.Comparisons {
		if c.Cost {
			continue
		}
		x := effect{Side: c.Side, Case: c.Case, Metric: c.Metric, Verdict: c.Verdict}
		if est := c.Estimate; est != nil {
			v := est.Effect
			x.Effect, x.Low, x.High, x.Level = &v, est.Low, est.High, est.Level
		}
		f.Effects = append(f.Effects, x)
	}
	return f
}

func armOf(e record.Event) *armFacts {
	a := e.ArmOf
	if a == nil {
		return nil
	}
	f := &armFacts{ID: a.ID, Label: a.Label, Block: a.Block, Slot: a.Slot, Attempt: a.Attempt, Purpose: a.Purpose}
	if e.Kind != "arm.end" {
		return f
	}
	f.Disposition, f.Reason = a.Disposition, a.Reason
	if d := a.MonoEndNS - a.MonoStartNS; d > 0 {
		s := float64(d) / 1e9
		f.Seconds = &s
	}
	primary := ""
	if e.GroupOf != nil {
		primary = e.GroupOf.Primary
	}
	f.Metrics = map[string]float64{}
	several := map[string]bool{}
	for _, m := range a.Metrics {
		if _, twice := f.Metrics[m.Name]; twice {
			several[m.Name] = true
		}
		if m.Value != nil {
			f.Metrics[m.Name] = *m.Value
			if m.Name == primary {
				v := *m.Value
				f.primary, f.unit = &v, m.Unit
			}
		}
	}
	for name := range several {
		delete(f.Metrics, name) // of which case it is cannot be said in one number
		if name == primary {
			f.primary = nil
		}
	}
	return f
}

// blockArms is how many arms a block of an order has: 4 for quads, else the whole order.
func blockArms(order string) int {
	labels := strings.Fields(order)
	if len(labels) == 1 {
		labels = strings.Split(labels[0], "")
	}
	if len(labels)%4 == 0 {
		quads := true
		for i := 0; i < len(labels); i += 4 {
			q := labels[i : i+4]
			quads = quads && q[0] == q[3] && q[1] == q[2] && q[0] != q[1]
		}
		if quads {
			return 4
		}
	}
	return len(labels)
}

// state is where the session stands.
type state struct {
	began    time.Time
	group    *groupFacts
	arm      *armFacts
	armAt    time.Time
	step     string
	stepAt   time.Time
	counted  int // arms of the group that are done and ok, this attempt of their block
	block    int
	secs     []float64 // of the last arms
	last     string    // the last verdict in words
	verdicts map[string]int
}

// take brings the state up to date.
func (s *state) take(n note) {
	if n.g != nil {
		s.group = n.g
	}
	switch n.e.Kind {
	case "group.start":
		s.arm, s.step, s.counted, s.block = nil, "", 0, 0
	case "arm.start":
		s.arm, s.armAt, s.step, s.stepAt = n.a, n.at, "", n.at
		if n.a != nil && n.a.Purpose == "measured" && n.g != nil {
			s.counted, s.block = n.a.Block*n.g.PerBlk+n.a.Slot, n.a.Block
		}
	case "arm.step":
		s.step, s.stepAt = n.e.Text, n.at
	case "arm.end":
		if n.a != nil && n.a.Seconds != nil && n.a.Purpose == "measured" {
			if s.secs = append(s.secs, *n.a.Seconds); len(s.secs) > 16 {
				s.secs = s.secs[1:]
			}
		}
		if n.a != nil && n.a.Purpose == "measured" && n.a.Disposition == record.OK {
			s.counted++
		}
		s.arm, s.step = nil, ""
	case "group.end":
		if n.g != nil {
			if s.verdicts == nil {
				s.verdicts = map[string]int{}
			}
			s.verdicts[n.g.Verdict]++
			s.last = verdictLine(n.g)
		}
		s.group, s.arm = nil, nil
	}
}

// lines are what stays of an event. all says that nothing is redrawn, so that ok arms are told too.
func (s *state) lines(n note, all bool) []line {
	switch n.e.Kind {
	case "arm.end":
		if n.a == nil || (n.a.Disposition == record.OK && !all) {
			return nil
		}
		mark := "bad"
		if n.a.Disposition == record.OK {
			mark = ""
		}
		return []line{{mark, n.e.Group + ": " + armLine(n.e.Arm, n.a, n.g)}}
	case "group.start":
		if n.g != nil && all {
			return []line{{"", fmt.Sprintf("%s: begins, %s, at most %s", n.e.Group, n.g.Role, plural(n.g.Cap, "block"))}}
		}
	case "group.end":
		if n.g != nil {
			return []line{{markOf(n.g.Verdict), verdictLine(n.g)}}
		}
	case "session.start":
		return []line{{"", "session " + n.e.Text}}
	case "warning":
		return []line{{"warn", "warning: " + where(n.e) + n.e.Text}}
	case "note":
		return []line{{"", "note: " + where(n.e) + n.e.Text}}
	case "print":
		at := n.e.Arm // the place in the workflow
		if at != "" {
			at += ": "
		}
		return []line{{"", at + n.e.Text}}
	}
	return nil
}

func where(e record.Event) string {
	w := strings.TrimSpace(e.Group + " " + e.Arm)
	if w != "" {
		w += ": "
	}
	return w
}

func markOf(verdict string) string {
	switch verdict {
	case record.Better, record.Worse:
		return verdict
	case record.Invalid, record.Infeasible:
		return "warn"
	}
	return ""
}

// armLine is "arm B2, block 1: ok in 12.3s, decode_tok_s 104.2 tok/s".
func armLine(name string, a *armFacts, g *groupFacts) string {
	if name == "" {
		name = a.Label
	}
	var b strings.Builder
	fmt.Fprintf(&b, "arm %s", name)
	if a.Purpose == "measured" {
		fmt.Fprintf(&b, ", block %d", a.Block+1)
	} else {
		fmt.Fprintf(&b, " (%s)", a.Purpose)
	}
	if a.Attempt > 0 {
		fmt.Fprintf(&b, ", attempt %d", a.Attempt+1)
	}
	fmt.Fprintf(&b, ": %s", a.Disposition)
	if a.Seconds != nil {
		fmt.Fprintf(&b, " in %s", dur(time.Duration(*a.Seconds*1e9)))
	}
	if a.primary != nil && g != nil {
		fmt.Fprintf(&b, ", %s %s", g.Primary, strings.TrimSpace(fmt.Sprintf("%.4g %s", *a.primary, a.unit)))
	}
	if a.Reason != "" {
		fmt.Fprintf(&b, ": %s", oneLine(a.Reason))
	}
	return b.String()
}

// verdictLine is "flash-attn: better, +2.06 % [+1.86, +2.25] decode_tok_s, 8 of 8 arms ok, 1m52s".
func verdictLine(g *groupFacts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", g.Name, g.Verdict)
	if g.Verdict == "" {
		b.WriteString("no verdict")
	}
	for i, e := range g.Effects {
		if i == 4 {
			fmt.Fprintf(&b, ", … %d more", len(g.Effects)-i)
			break
		}
		if e.Effect == nil {
			continue
		}
		b.WriteString(", ")
		if len(g.Effects) > 1 {
			b.WriteString(strings.TrimSpace(e.Side+" "+e.Case) + " ")
		}
		b.WriteString(pct(*e.Effect) + " %")
		if e.Low != nil && e.High != nil {
			fmt.Fprintf(&b, " [%s, %s]", pct(*e.Low), pct(*e.High))
		}
		if i == 0 && len(g.Effects) == 1 {
			b.WriteString(" " + e.Metric)
		}
	}
	fmt.Fprintf(&b, ", %d of %s ok", g.OK, plural(g.Arms, "arm"))
	if g.seconds > 0 {
		fmt.Fprintf(&b, ", %s", dur(time.Duration(g.seconds*1e9)))
	}
	if (g.Verdict == record.Invalid || g.Verdict == record.Infeasible) && g.Reason != "" {
		fmt.Fprintf(&b, ": %s", oneLine(g.Reason))
	}
	return b.String()
}

// view is the lines that are redrawn. Where the first is wider than cols, whole parts are left out, the least
// told first, and then the group's name is cut: half a word says nothing.
func (s *state) view(now time.Time, unicode bool, cols int) []string {
	sep := " | "
	if unicode {
		sep = " · "
	}
	var first []string
	if g := s.group; g != nil {
		first = append(first, g.Name, fmt.Sprintf("block %d/%d", s.block+1, g.Cap)) // short: the line is to fit 80 columns
		if a := s.arm; a != nil {
			doing := "arm " + a.Label
			if a.Purpose != "measured" {
				doing += " (" + a.Purpose + ")"
			}
			if a.Attempt > 0 {
				doing += fmt.Sprintf(" attempt %d", a.Attempt+1)
			}
			if s.step != "" {
				doing += " " + s.step
			}
			first = append(first, doing+" "+dur(now.Sub(s.stepAt)))
		}
		if eta, ok := s.left(now); ok {
			first = append(first, "at most "+dur(eta)+" left")
		}
	}
	first = append(first, dur(now.Sub(s.began))+" elapsed")
	wide := func() int { return text.StringWidthWithoutEscSequences(strings.Join(first, sep)) - cols }
	if wide() > 0 && len(first) > 1 {
		first = first[:len(first)-1] // elapsed
	}
	if n := len(first) - 1; wide() > 0 && n > 1 && strings.HasSuffix(first[n], " left") {
		first[n] = strings.TrimPrefix(first[n], "at most ")
	}
	if over := wide(); over > 0 && len(first) > 1 {
		room := max(8, text.StringWidthWithoutEscSequences(first[0])-over)
		first[0] = cut(first[0], room)
		if n := len(first) - 1; wide() > 0 && strings.HasSuffix(first[n], " left") {
			first = first[:n]
		}
	}
	out := []string{strings.Join(first, sep)}
	if s.last != "" {
		out = append(out, "last: "+s.last)
	}
	return out
}

// left is the time that the arms of the group still need when every block is run, by the mean of the last
// arms. Before one has ended nothing is known.
func (s *state) left(now time.Time) (time.Duration, bool) {
	if len(s.secs) == 0 || s.group == nil || s.group.PerBlk == 0 {
		return 0, false
	}
	mean := 0.0
	for _, x := range s.secs {
		mean += x / float64(len(s.secs))
	}
	arms := s.group.Cap*s.group.PerBlk - s.counted
	if arms <= 0 {
		return 0, false
	}
	left := time.Duration(mean * float64(arms) * 1e9)
	if s.arm != nil {
		left -= min(now.Sub(s.armAt), time.Duration(mean*1e9))
	}
	return left, true
}

// dur rounds a duration to what a person reads: 850ms, 12.3s, 1m52s, 3h04m.
func dur(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// pct is a ratio minus one in percent, signed: +2.06, -15.1.
func pct(x float64) string {
	x *= 100
	if x >= 9.995 || x <= -9.995 {
		return fmt.Sprintf("%+.1f", x)
	}
	return fmt.Sprintf("%+.2f", x)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// cut keeps a line within cols columns, and free of what would move the cursor.
func cut(s string, cols int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if cols < 1 {
		return ""
	}
	if cols <= 3 {
		return text.Snip(s, cols, "")
	}
	return text.Snip(s, cols, "...")
}
