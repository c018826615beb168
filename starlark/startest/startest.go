// Package startest runs tests written in Starlark, and tables of errors with what a user sees of them.
//
// Its opinion: a language is tested in itself, and an error message is tested whole, at the line that raises
// it, because place and fix are half of it.
//
// Run takes a file of functions named test_*; each is a subtest. A line that must raise says so:
//
//	def test_index():
//	    x = [1][3]  ### "out of range"
//
// Golden takes a file of chunks, each a workflow file followed by the text of its error:
//
//	# habit: while
//	def main():
//	    while True:
//	        pass
//	#> x.star:3:5: while is not part of Starlark: every loop ends
//	#> 	fix: write for _ in range(1000): … with break or return when done
//	---
//
// Running the tests with STARTEST_UPDATE=1 writes the texts anew.
package startest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"flow/starlark/diag"
	"flow/starlark/script"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// expectation is a line that must raise.
type expectation struct {
	line    int
	pattern *regexp.Regexp
}

var marker = regexp.MustCompile("###\\s*(\".*\"|`.*`)\\s*$")

func expectations(text string) (list []expectation, err error) {
	for i, line := range strings.Split(text, "\n") {
		m := marker.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		pattern, err := strconv.Unquote(m[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", i+1, m[1], err)
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		list = append(list, expectation{i + 1, re})
	}
	return list, nil
}

// Run loads the file with that label, with an assert module beside what the loader has predeclared, and
// runs every function test_* as a subtest, in the order of the file. Mistakes of the file itself, names and
// syntax, are checked against the expectations outside of functions.
func Run(t *testing.T, l *script.Loader, label string) {
	t.Helper()
	l.Predeclared = with(l.Predeclared, "assert", Assert())
	globals, err := l.Load(t.Context(), label)
	text := ""
	for _, s := range l.Sources() {
		if s.Label == label {
			text = s.Text
		}
	}
	want, bad := expectations(text)
	if bad != nil {
		t.Fatalf("%s: %v", label, bad)
	}
	if err != nil {
		for _, problem := range mismatch(label, want, script.All(err)) {
			t.Error(problem)
		}
		if len(want) == 0 {
			t.Fatal(diag.Format(err))
		}
		return
	}
	tests := functions(label, text)
	if len(tests) == 0 {
		t.Fatalf("%s: no functions named test_*", label)
	}
	for _, e := range want {
		if !slices.ContainsFunc(tests, func(f test) bool { return f.from <= e.line && e.line <= f.to }) {
			t.Errorf("%s:%d: nothing raised at top level, want %q", label, e.line, e.pattern)
		}
	}
	for _, f := range tests {
		t.Run(f.name, func(t *testing.T) {
			fn, ok := globals[f.name].(starlark.Callable)
			if !ok {
				t.Fatalf("%s is no function", f.name)
			}
			_, err := l.Call(t.Context(), "", fn, nil, nil)
			mine := slices.DeleteFunc(slices.Clone(want), func(e expectation) bool { return e.line < f.from || f.to < e.line })
			for _, problem := range mismatch(label, mine, script.All(err)) {
				t.Error(problem)
			}
		})
	}
}

// mismatch compares the lines that must raise with what was raised. One expectation is met by one error; of
// several expectations in a function, only the first that raises can be reached.
func mismatch(label string, want []expectation, got []*diag.Error) (problems []string) {
	want = slices.Clone(want)
	for _, e := range got {
		text := diag.Format(e)
		i := slices.IndexFunc(want, func(w expectation) bool {
			return e.Pos.File == label && w.line == e.Pos.Line && w.pattern.MatchString(text)
		})
		if i < 0 {
			problems = append(problems, "unexpected error: "+text)
			continue
		}
		want = slices.Delete(want, i, i+1)
	}
	for _, w := range want {
		problems = append(problems, fmt.Sprintf("%s:%d: no error matches %q", label, w.line, w.pattern))
	}
	return problems
}

type test struct {
	name     string
	from, to int // lines
}

func functions(label, text string) (tests []test) {
	tree, err := (&syntax.FileOptions{Set: true}).Parse(label, text, 0)
	if err != nil {
		return nil
	}
	for _, s := range tree.Stmts {
		if def, ok := s.(*syntax.DefStmt); ok && strings.HasPrefix(def.Name.Name, "test_") {
			start, end := def.Span()
			tests = append(tests, test{def.Name.Name, int(start.Line), int(end.Line)})
		}
	}
	return tests
}

func with(d starlark.StringDict, name string, v starlark.Value) starlark.StringDict {
	c := maps.Clone(d)
	if c == nil {
		c = make(starlark.StringDict)
	}
	c[name] = v
	return c
}

// Main is what Golden does with a chunk that has loaded. Its error is the chunk's.
type Main func(ctx context.Context, l *script.Loader, globals starlark.StringDict) error

// CallMain calls main() where the chunk has one.
func CallMain(ctx context.Context, l *script.Loader, globals starlark.StringDict) error {
	main, ok := globals["main"].(starlark.Callable)
	if !ok {
		return nil
	}
	_, err := l.Call(ctx, "", main, nil, nil)
	return err
}

// Golden runs every chunk of the file at path as the file x.star, on a loader of its own, and compares
// diag.Format of its error with the chunk's lines "#> "; a chunk without error has none. Files of the
// loader's Root can be loaded by chunks. A chunk's name is its first line when that is a comment.
func Golden(t *testing.T, newLoader func() *script.Loader, path string, main ...Main) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(main) == 0 {
		main = []Main{CallMain}
	}
	chunks := strings.Split(string(data), "\n---\n")
	changed := false
	for i, chunk := range chunks {
		source, want := splitChunk(chunk)
		name := strconv.Itoa(i + 1)
		if first, _, _ := strings.Cut(source, "\n"); strings.HasPrefix(first, "# ") {
			name = strings.TrimPrefix(first, "# ")
		}
		t.Run(name, func(t *testing.T) {
			got := run(t.Context(), newLoader(), source, main)
			if got == want {
				return
			}
			if os.Getenv("STARTEST_UPDATE") != "" {
				chunks[i], changed = joinChunk(source, got), true
				return
			}
			t.Errorf("%s, chunk %q\ngot:\n%s\nwant:\n%s", path, name, got, want)
		})
	}
	if changed {
		if err := os.WriteFile(path, []byte(strings.Join(chunks, "\n---\n")), 0o644); err != nil {
			t.Error(err)
		}
	}
}

func run(ctx context.Context, l *script.Loader, source string, main []Main) string {
	l.Root = overlay{fstest.MapFS{"x.star": &fstest.MapFile{Data: []byte(source)}}, l.Root}
	globals, err := l.Load(ctx, "x.star")
	for _, m := range main {
		if err == nil {
			err = m(ctx, l, globals)
		}
	}
	if err == nil {
		return ""
	}
	return diag.Format(err)
}

func splitChunk(chunk string) (source, want string) {
	var src, texts []string
	for _, line := range strings.Split(strings.TrimSuffix(chunk, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "#> "); ok {
			texts = append(texts, rest)
			continue
		}
		src = append(src, line)
	}
	return strings.Join(src, "\n") + "\n", strings.Join(texts, "\n")
}

func joinChunk(source, text string) string {
	if text == "" {
		return strings.TrimSuffix(source, "\n")
	}
	return source + "#> " + strings.ReplaceAll(text, "\n", "\n#> ")
}

// overlay is a file before other files.
type overlay struct{ over, under fs.FS }

func (o overlay) Open(name string) (fs.File, error) {
	f, err := o.over.Open(name)
	if err == nil && name != "." || o.under == nil {
		return f, err
	}
	return o.under.Open(name)
}
