package script

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"unicode/utf8"

	"flow/starlark/diag"

	"go.starlark.net/syntax"
)

// Mistakes that the interpreter finds far from where they were made: a bracket that is never closed is noticed
// some lines below, a name mistyped in a load where the right one is used.

// open is a bracket with its place.
type open struct {
	bracket   byte
	line, col int // from 1, in characters
}

// unclosed is the innermost bracket of a text that nothing closes. ok is false where all are closed, or where one
// is closed by a bracket of another kind: that is another mistake.
func unclosed(text string) (at open, ok bool) {
	var stack []open
	closer := map[byte]byte{'(': ')', '[': ']', '{': '}'}
	line, start := 1, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			line, start = line+1, i+1
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			end := string(c)
			if strings.HasPrefix(text[i:], strings.Repeat(end, 3)) {
				end = strings.Repeat(end, 3)
			}
			for i += len(end); i < len(text) && !strings.HasPrefix(text[i:], end); i++ {
				if text[i] == '\\' {
					i++
				}
				if i < len(text) && text[i] == '\n' {
					if len(end) == 1 {
						return open{}, false // a text without its end is another mistake
					}
					line, start = line+1, i+1
				}
			}
			i += len(end) - 1
		case '(', '[', '{':
			stack = append(stack, open{c, line, utf8.RuneCountInString(text[start:i]) + 1})
		case ')', ']', '}':
			if len(stack) == 0 || closer[stack[len(stack)-1].bracket] != c {
				return open{}, false
			}
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) == 0 {
		return open{}, false
	}
	return stack[len(stack)-1], true
}

// inBrackets are the words of the parser where it stumbles over what follows an open bracket.
var inBrackets = regexp.MustCompile(`^got .*, want ('[,)\]}]'|primary expression)|^got (indent|outdent|newline|end of file)\b|^not an identifier`)

// neverClosed tells of a bracket that is never closed instead of the first thing below it that does not fit.
func (l *Loader) neverClosed(d *diag.Error, msg string) bool {
	f := l.file(d.Pos.File)
	if f == nil || !inBrackets.MatchString(msg) {
		return false
	}
	at, ok := unclosed(f.Text)
	if !ok || at.line > d.Pos.Line || at.line == d.Pos.Line && at.col > d.Pos.Col {
		return false
	}
	d.Pos.Line, d.Pos.Col = at.line, at.col
	d.Msg = fmt.Sprintf("this %c is never closed", at.bracket)
	d.Fix = fmt.Sprintf("close it with %c", map[byte]byte{'(': ')', '[': ']', '{': '}'}[at.bracket])
	return true
}

// misloaded tells of a name mistyped in a load, where the right one is used below.
func (l *Loader) misloaded(d *diag.Error, msg string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(msg, "undefined: "), " ")
	f := l.file(d.Pos.File)
	if f == nil || name == msg {
		return false
	}
	tree, err := options().Parse(f.Label, f.Text, 0) // a file that does not resolve has no tree yet
	if err != nil {
		return false
	}
	for _, s := range tree.Stmts {
		load, ok := s.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		module := load.ModuleName()
		label, err := resolveLabel(d.Pos.File, module)
		if err != nil {
			continue
		}
		for i, from := range load.From {
			if from.Name == name || load.To[i].Name != from.Name || diag.Nearest(from.Name, []string{name}) == "" || l.defines(label, from.Name) || !l.defines(label, name) {
				continue
			}
			d.Pos = toPos(from.NamePos)
			d.Msg = fmt.Sprintf("load: there is no %s in %s", from.Name, module)
			d.Fix = fmt.Sprintf("load(%q, %q)", module, name)
			return true
		}
	}
	return false
}

// defines says whether a file has a global of that name, by its text: it need not have run.
func (l *Loader) defines(label, name string) bool {
	fsys, path := l.Root, label
	if rest, ok := strings.CutPrefix(label, LibraryPrefix); ok {
		fsys, path = l.Library, rest
	}
	if fsys == nil {
		return false
	}
	text, err := fs.ReadFile(fsys, path)
	return err == nil && regexp.MustCompile(`(?m)^(?:def\s+)?`+regexp.QuoteMeta(name)+`\s*[=(]`).Match(text)
}
