package engine

// Placeholders: {name} in a command, an environment value, a directory or a config file.
//
// Only a brace, a name and a brace is a placeholder, so that JSON config needs no escapes: {"port": {port}}
// is fine. {{name}} gives {name} literally. Values are not looked at again.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"flow/starlark/diag"
)

// Placeholders are the names that flow may fill in. A launch may know fewer, and more.
func Placeholders() []string {
	return []string{"ctx", "flow", "max_tokens", "out", "port", "prompt_file", "repeat", "seed"}
}

// fill replaces the placeholders of text.
func fill(text string, vars map[string]string) (string, error) {
	return replace(text, func(name string) (string, error) {
		v, known := vars[name]
		if !known {
			return "", unknownPlaceholder(name, text, vars)
		}
		return v, nil
	})
}

// replace puts a value in the place of each placeholder.
func replace(text string, value func(name string) (string, error)) (string, error) {
	if !strings.Contains(text, "{") {
		return text, nil
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '{' {
			next := strings.IndexByte(text[i:], '{')
			if next < 0 {
				next = len(text) - i
			}
			b.WriteString(text[i : i+next])
			i += next
			continue
		}
		if i+1 < len(text) && text[i+1] == '{' {
			if name, ok := placeholder(text[i+1:]); ok && strings.HasPrefix(text[i+1+len(name)+2:], "}") {
				b.WriteString("{" + name + "}")
				i += len(name) + 4
				continue
			}
		}
		name, ok := placeholder(text[i:])
		if !ok {
			b.WriteByte('{')
			i++
			continue
		}
		v, err := value(name)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		i += len(name) + 2
	}
	return b.String(), nil
}

// Unknown is the first placeholder of text that no launch has a value for, "" when there is none.
func Unknown(text string) (unknown string) {
	_, _ = replace(text, func(name string) (string, error) {
		if unknown == "" && !slices.Contains(Placeholders(), name) {
			unknown = name
		}
		return "", nil
	})
	return unknown
}

// placeholder is the name when text begins with {name}.
func placeholder(text string) (string, bool) {
	if len(text) < 3 || text[0] != '{' {
		return "", false
	}
	for i := 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c == '_', i > 1 && c >= '0' && c <= '9':
		case c == '}' && i > 1:
			return text[1:i], true
		default:
			return "", false
		}
	}
	return "", false
}

// names reports whether any of the texts holds the placeholder.
func names(name string, texts ...string) bool {
	for _, text := range texts {
		for rest := text; ; {
			i := strings.Index(rest, "{"+name+"}")
			if i < 0 {
				break
			}
			escaped := i > 0 && rest[i-1] == '{' && strings.HasPrefix(rest[i+len(name)+2:], "}")
			if !escaped {
				return true
			}
			rest = rest[i+len(name)+2:]
		}
	}
	return false
}

func unknownPlaceholder(name, text string, vars map[string]string) error {
	if slices.Contains(Placeholders(), name) {
		return &diag.Error{Kind: diag.Workflow, Op: "placeholder {" + name + "}",
			Msg: fmt.Sprintf("got %q, but this arm has no value for it", clip(text, 120)),
			Fix: "say it in the workload, or take {" + name + "} out"}
	}
	known := slices.Sorted(maps.Keys(vars))
	for i, k := range known {
		known[i] = "{" + k + "}"
	}
	return &diag.Error{Kind: diag.Workflow, Op: "placeholder {" + name + "}",
		Msg: fmt.Sprintf("got %q, want one of %s", clip(text, 120), strings.Join(known, ", ")),
		Fix: "for the text itself write {{" + name + "}}"}
}

// clip shortens a text for a message or a record, at a rune's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
