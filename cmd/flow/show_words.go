package main

// Words and numbers of records, as flow show and others print them.

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"flow/workflows/record"
)

// headline is the comparison that the verdict is about: the first on the primary metric.
func headline(g *record.Group) *record.Comparison {
	for i := range g.Comparisons {
		if c := &g.Comparisons[i]; !c.Cost {
			return c
		}
	}
	return nil
}

func verdictText(g *record.Group) string {
	if g.Verdict == "" {
		return "unfinished"
	}
	return g.Verdict
}

// effectText is "+10.2 % [+9.1, +11.3]".
func effectText(c *record.Comparison) string {
	if c == nil || c.Estimate == nil {
		return ""
	}
	e := c.Estimate
	t := fmt.Sprintf("%+.2f %%", 100*e.Effect)
	if e.Low != nil && e.High != nil {
		t += fmt.Sprintf(" [%+.2f, %+.2f]", 100**e.Low, 100**e.High)
	}
	return t
}

// beyondFigures is a reason without the effect and interval that stand beside it already: "at 97.79 %, 2 quads".
func beyondFigures(reason string) string {
	m := figures.FindStringIndex(reason)
	if m == nil {
		return reason
	}
	return reason[m[1]:]
}

// figures begin the reason of a verdict: "-2.91 % [-4.52 %, -1.28 %] at …".
var figures = regexp.MustCompile(`^[+-][0-9.]+ % \[[^\]]*\] `)

// endedText is what ended a group, without the figures of its verdict, which stand beside it: "decided; look 1 of at
// most 3".
func endedText(g *record.Group) string {
	if g.Reason == "" {
		return g.Stopped
	}
	return strings.Replace(g.Stopped, ": "+g.Verdict+": "+g.Reason, "", 1)
}

func pctText(ratio float64) string {
	return strconv.FormatFloat(100*ratio, 'g', 4, 64) + " %"
}

func percent(p *float64) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%+.2f %%", *p)
}

func medians(c *record.Comparison) string {
	if c == nil || c.MedianControl == nil || c.MedianSide == nil {
		return ""
	}
	return cellText(*c.MedianControl) + " → " + cellText(*c.MedianSide)
}

// armCounts is "8 ok, 1 invalid".
func armCounts(g *record.Group) string {
	count := map[string]int{}
	for _, a := range g.Arms {
		count[a.Disposition]++
	}
	var parts []string
	for _, d := range []string{record.OK, record.Invalid, record.Failed, record.Infeasible, record.Interrupted, record.Superseded} {
		if count[d] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[d], d))
		}
	}
	return strings.Join(parts, ", ")
}

func armValue(a *record.Arm, metric string) string { return value(a.Metrics, metric) }

// value is a metric's values, one a case.
func value(ms []record.Metric, name string) string {
	var parts []string
	for _, m := range ms {
		switch {
		case m.Name != name:
		case m.Value != nil:
			parts = append(parts, cellText(*m.Value))
		case m.Withheld != nil:
			parts = append(parts, "withheld")
		}
	}
	return strings.Join(parts, " / ")
}

func number(p *int) string {
	if p == nil {
		return ""
	}
	return strconv.Itoa(*p)
}

func when(wallNS int64) string {
	return time.Unix(0, wallNS).UTC().Format("2006-01-02 15:04:05 UTC")
}

func lasted(from int64, to *int64) string {
	if to == nil {
		return ""
	}
	return ", took " + seconds(*to-from)
}

// seconds is a duration with three digits.
func seconds(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.String()
}

// at is ", X" where there is an X.
func at(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

func machineText(m record.Machine) string {
	parts := []string{m.Host}
	for _, k := range []string{"cpu_model", "gpu0"} {
		if m.Facts[k] != "" {
			parts = append(parts, m.Facts[k])
		}
	}
	return strings.Join(parts, ", ")
}

func sortedNames(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// budget shows what a session may take, and what it took.
func (s *shower) budget(ses *record.Session) error {
	b := ses.Budget
	if b == nil {
		return nil
	}
	sp, err := s.d.Spent(s.ctx, ses.ID)
	if err != nil {
		return err
	}
	var words []string
	if b.Seconds > 0 {
		words = append(words, fmt.Sprintf("%s of %s", secondsText(sp.Seconds), secondsText(b.Seconds)))
	}
	if b.Joules > 0 {
		words = append(words, fmt.Sprintf("%.0f of %.0f J", sp.Joules, b.Joules))
	}
	if b.Arms > 0 {
		words = append(words, fmt.Sprintf("%d of %s", sp.Arms, countOf(b.Arms, "arm")))
	}
	s.para("budget: %s spent", strings.Join(words, ", "))
	return nil
}
