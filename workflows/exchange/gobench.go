package exchange

// Go benchmark text: the lines that benchstat reads. A benchmark is a group and a case, a line is an arm; the
// side is a key of the name, so that `benchstat -col /side` compares the sides.

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"flow/workflows/record"
)

// WriteGoBench writes the valid arms of groups.
func WriteGoBench(w io.Writer, s *record.Session, groups []*record.Group) error {
	for _, k := range []struct{ key, value string }{{"goos", s.Machine.Facts["os"]}, {"goarch", s.Machine.Facts["arch"]}, {"pkg", "flow/" + word(s.Workflow)}, {"cpu", s.Machine.Facts["cpu_model"]}} {
		if k.value != "" {
			if _, err := fmt.Fprintf(w, "%s: %s\n", k.key, oneLine(k.value)); err != nil {
				return err
			}
		}
	}
	for _, g := range groups {
		for _, a := range g.Arms {
			if a.Disposition != record.OK || a.Purpose != "" && a.Purpose != "measured" {
				continue
			}
			if err := benchLines(w, g, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func benchLines(w io.Writer, g *record.Group, a *record.Arm) error {
	var cases []string
	of := map[string][]string{}
	for _, m := range a.Metrics {
		if m.Value == nil {
			continue
		}
		if _, ok := of[m.Case]; !ok {
			cases = append(cases, m.Case)
		}
		value, unit := *m.Value, m.Name
		if strings.HasSuffix(m.Name, "_ms") { // a unit that benchstat knows how to print
			value, unit = value*1e6, strings.TrimSuffix(m.Name, "_ms")+"-ns/op"
		}
		of[m.Case] = append(of[m.Case], fmt.Sprintf("%.9g %s", value, unit))
	}
	for _, c := range cases {
		name := "Benchmark" + upper(word(g.Name))
		if c != "" {
			name += "/case=" + word(c)
		}
		if _, err := fmt.Fprintf(w, "%s/side=%s 1 %s\n", name, word(a.Label), strings.Join(of[c], " ")); err != nil {
			return err
		}
	}
	return nil
}

// word is a name without white space and slashes.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || !unicode.IsPrint(r):
			return '_'
		case r == '/':
			return ':'
		}
		return r
	}, s)
	if s == "" {
		return "_"
	}
	return s
}

func upper(s string) string {
	r := []rune(s)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
