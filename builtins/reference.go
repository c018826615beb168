package builtins

// The reference: generated from the catalog, so that it cannot drift.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"flow/builtins/metric"
	"flow/starlark/script"
)

// Reference is every builtin as Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("# Builtins\n\n")
	b.WriteString("Everything a workflow can say, beside Starlark itself. The top level of a file declares; what acts hangs off `session`, which `main(session)` gets, and off `arm`, which a group's body gets.\n")
	b.WriteString("Arguments after the first ones shown without a name are given by keyword. This page is generated: `flow builtins NAME` prints one entry, `flow doc builtins SECTION` one section, and functions of the library are in `flow doc library`.\n\n")
	for _, f := range Families() {
		fmt.Fprintf(&b, "- [%s](#%s): ", f.Name, strings.ReplaceAll(strings.ToLower(f.Name), " ", "-"))
		names := make([]string, len(f.Builtins))
		for i, x := range f.Builtins {
			names[i] = "`" + x.Name + "`"
		}
		b.WriteString(strings.Join(names, ", ") + "\n")
	}
	b.WriteString("- [Fields of records](#fields-of-records), [Starlark's own](#starlarks-own), [Metrics that flow measures](#metrics-that-flow-measures)\n")
	for _, f := range Families() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", f.Name, f.Doc)
		for _, x := range f.Builtins {
			s := x.Signature()
			fmt.Fprintf(&b, "\n### %s\n\n```python\n%s\n```\n\n%s\n", x.Name, layout(s.String()), x.Doc)
			if len(s.Params) > 0 {
				b.WriteString("\n| argument | is | default | |\n| --- | --- | --- | --- |\n")
			}
			for _, p := range s.Params {
				kind := p.Kind
				if kind == "" && p.Into != nil {
					kind = p.Into.Want()
				}
				def := "required"
				if !p.Required {
					def = "`" + p.Default + "`"
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, cell(kind), cell(def), cell(p.Doc))
			}
			fmt.Fprintf(&b, "\n```python\n%s\n```\n", x.Example)
		}
	}
	b.WriteString(recordTables())
	b.WriteString("\n## Starlark's own\n\nStarlark's builtins (`len`, `sorted`, `any`, `zip`, `fail`, `print`, …) and these modules:\n\n")
	standard := script.Standard()
	for _, name := range slices.Sorted(maps.Keys(standard)) {
		fmt.Fprintf(&b, "- `%s`", name)
		if m, ok := standard[name].(starlark.HasAttrs); ok && len(m.AttrNames()) > 0 {
			b.WriteString(": " + strings.Join(m.AttrNames(), ", "))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Metrics that flow measures\n\n| metric | unit | better | is | from |\n| --- | --- | --- | --- | --- |\n")
	for _, d := range metric.Names() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, cell(d.Unit), d.Better, cell(d.Doc), cell(d.Source))
	}
	return b.String()
}

// cell escapes what would end a table cell.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "|", "\\|"), "\n", " ")
}

// layout breaks a long form into one argument a line.
func layout(form string) string {
	if len(form) <= 100 {
		return form
	}
	open := strings.Index(form, "(")
	var b strings.Builder
	b.WriteString(form[:open+1])
	depth, start := 0, open+1
	quoted := false
	for i := open + 1; i < len(form)-1; i++ {
		switch ch := form[i]; {
		case ch == '"':
			quoted = !quoted
		case quoted:
		case ch == '(' || ch == '[' || ch == '{':
			depth++
		case ch == ')' || ch == ']' || ch == '}':
			depth--
		case ch == ',' && depth == 0:
			b.WriteString("\n    " + strings.TrimSpace(form[start:i]) + ",")
			start = i + 1
		}
	}
	b.WriteString("\n    " + strings.TrimSpace(form[start:len(form)-1]) + ",\n)")
	return b.String()
}

// Describe is a builtin as text for a terminal.
func Describe(b Builtin) string {
	s := b.Signature()
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n%s\n", layout(s.String()), wrapText(b.Doc, 100, ""))
	width := 0
	for _, p := range s.Params {
		width = max(width, len(p.Name))
	}
	if len(s.Params) > 0 {
		out.WriteString("\n")
	}
	for _, p := range s.Params {
		kind := p.Kind
		if kind == "" && p.Into != nil {
			kind = p.Into.Want()
		}
		def := "required"
		if !p.Required {
			def = "default " + p.Default
		}
		fmt.Fprintf(&out, "  %-*s  %s\n", width, p.Name, strings.TrimLeft(wrapText(fmt.Sprintf("%s (%s; %s)", p.Doc, kind, def), 100-width-4, strings.Repeat(" ", width+4)), " "))
	}
	fmt.Fprintf(&out, "\nexample:\n  %s\n", strings.ReplaceAll(b.Example, "\n", "\n  "))
	return out.String()
}

// wrapText breaks a paragraph into lines with an indent.
func wrapText(s string, width int, indent string) string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		if line != "" && len(line)+1+len(w) > width {
			lines = append(lines, indent+line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return strings.Join(append(lines, indent+line), "\n")
}
