package engine

// Prometheus text: what servers print at /metrics. A small parser of our own, because the library for it
// brings a dependency tree for ten lines of grammar.
//
//	# HELP llamacpp:n_busy_slots_per_decode Average number of busy slots per llama_decode() call
//	# TYPE llamacpp:n_busy_slots_per_decode counter
//	llamacpp:n_busy_slots_per_decode 1
//	vllm:request_success_total{finished_reason="stop",model_name="m"} 4.0 1712000000000

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// label is one label of a series.
type label struct{ name, value string }

// series is one line of a metrics page.
type series struct {
	name   string
	labels []label
	value  float64 // may be NaN or infinite, as printed
}

// String is the line again, without its time.
func (s series) String() string {
	return s.id() + " " + strconv.FormatFloat(s.value, 'g', -1, 64)
}

// id is the name with its labels.
func (s series) id() string {
	if len(s.labels) == 0 {
		return s.name
	}
	var b strings.Builder
	b.WriteString(s.name + "{")
	for i, l := range s.labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.name + `="` + strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`).Replace(l.value) + `"`)
	}
	b.WriteByte('}')
	return b.String()
}

// parseSeries reads a metrics page. Comments, empty lines and lines it does not understand are skipped.
func parseSeries(text string) []series {
	var out []series
	for line := range strings.Lines(text) {
		if s, ok := parseSeriesLine(strings.TrimRight(line, "\r\n")); ok {
			out = append(out, s)
		}
	}
	return out
}

func parseSeriesLine(line string) (series, bool) {
	rest := strings.TrimLeft(line, " \t")
	if rest == "" || rest[0] == '#' {
		return series{}, false
	}
	s, rest, ok := parseSeriesID(rest)
	if !ok {
		return series{}, false
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return series{}, false
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return series{}, false
	}
	s.value = v
	return s, true
}

// parseSeriesID reads `name` or `name{label="value",…}`; rest is what follows.
func parseSeriesID(text string) (s series, rest string, ok bool) {
	i := 0
	for i < len(text) && isNameByte(text[i], i == 0, true) {
		i++
	}
	if i == 0 {
		return s, text, false
	}
	s.name, rest = text[:i], text[i:]
	after := strings.TrimLeft(rest, " \t")
	if !strings.HasPrefix(after, "{") {
		return s, rest, true
	}
	rest = strings.TrimLeft(after[1:], " \t")
	for !strings.HasPrefix(rest, "}") {
		i = 0
		for i < len(rest) && isNameByte(rest[i], i == 0, false) {
			i++
		}
		if i == 0 {
			return s, rest, false
		}
		l := label{name: rest[:i]}
		rest = strings.TrimLeft(rest[i:], " \t")
		if !strings.HasPrefix(rest, "=") {
			return s, rest, false
		}
		rest = strings.TrimLeft(rest[1:], " \t")
		l.value, rest, ok = quoted(rest)
		if !ok {
			return s, rest, false
		}
		s.labels = append(s.labels, l)
		rest = strings.TrimLeft(rest, " \t")
		if strings.HasPrefix(rest, ",") {
			rest = strings.TrimLeft(rest[1:], " \t")
		} else if !strings.HasPrefix(rest, "}") {
			return s, rest, false
		}
	}
	return s, rest[1:], true
}

// quoted reads a label's value. An unknown escape stands for itself.
func quoted(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", text, false
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			if i+1 == len(text) {
				return "", text, false
			}
			i++
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(text[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", text, false
}

func isNameByte(c byte, first, colon bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || colon && c == ':' || !first && c >= '0' && c <= '9'
}

// pick is the one series that want names: a name, or a name with some of its labels. Two are an error,
// because which of them is meant decides what the evidence says.
func pick(all []series, want string) (series, error) {
	w, rest, ok := parseSeriesID(strings.TrimSpace(want))
	if !ok || strings.TrimSpace(rest) != "" {
		return series{}, fmt.Errorf("got metric %q, want a name such as vllm:num_requests_running, or name{label=\"value\"}", want)
	}
	var found []series
	for _, s := range all {
		if s.name != w.name {
			continue
		}
		match := true
		for _, l := range w.labels {
			match = match && slices.Contains(s.labels, l)
		}
		if match {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return series{}, fmt.Errorf("the page has %d series, none named %s", len(all), want)
	case 1:
		return found[0], nil
	}
	return series{}, fmt.Errorf("%d series match %s: name one by its labels, such as %s", len(found), want, found[0].id())
}
