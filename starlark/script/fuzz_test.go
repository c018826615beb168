package script_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/starlark/script"

	"go.starlark.net/starlark"
)

// FuzzLoad loads any text: it ends, does not panic, and every error is a *diag.Error of the workflow with a
// place in the file. Functions of what loads have a fingerprint, the same when asked again.
func FuzzLoad(f *testing.F) {
	data, err := os.ReadFile("testdata/fixes.golden")
	if err != nil {
		f.Fatal(err)
	}
	for _, chunk := range strings.Split(string(data), "\n---\n") {
		source, _, _ := strings.Cut(chunk, "\n#> ")
		f.Add(source)
	}
	f.Add(checked)
	f.Add("load(\"x.star\", \"x\")\nx = [[[[((((1))))]]]]\ndef f(*a, **k): return lambda x = a: k\nf()")
	f.Fuzz(func(t *testing.T, text string) {
		l := newLoader()
		l.Root = tree(map[string]string{"x.star": text, "lib.star": "limit = 3\ndef helper(x):\n    return x\n"})
		l.Limits = script.Limits{Steps: 20_000, Load: time.Second}
		g, err := l.Load(t.Context(), "x.star")
		if err != nil {
			wellFormed(t, err)
			return
		}
		for name, v := range g {
			fn, ok := v.(*starlark.Function)
			if !ok {
				continue
			}
			first, err := l.Fingerprint(fn)
			if err != nil {
				wellFormed(t, err)
				continue
			}
			if again, err := l.Fingerprint(fn); again != first || err != nil {
				t.Errorf("%s: %s, then %s, %v", name, first, again, err)
			}
			if fn.NumParams() == 0 {
				if _, err := l.Call(t.Context(), "", fn, nil, nil); err != nil {
					wellFormed(t, err)
				}
			}
		}
	})
}

func wellFormed(t *testing.T, err error) {
	t.Helper()
	d, ok := err.(*diag.Error)
	if !ok {
		t.Fatalf("got %T %v", err, err)
	}
	var p *script.Panic
	if errors.As(err, &p) {
		t.Fatalf("panic: %v\n%s", p.Value, p.Stack)
	}
	if d.Kind != diag.Workflow || d.Pos.File == "" {
		t.Fatalf("got %+v", d)
	}
	_ = diag.Format(err)
}

// FuzzLabel: a resolved label is a clean path in the folder of the file that names it or in the library, and
// resolves to itself.
func FuzzLabel(f *testing.F) {
	for _, from := range []string{"", "x.star", "a/b/x.star", "@flow//gates.star", "@flow//engines/sim.star"} {
		for _, label := range []string{"y.star", "./y.star", "../y.star", "../../../y.star", "//y.star", "/y", "@flow//y.star", "@flow//../y", "a//b", "..", "\x00"} {
			f.Add(from, label)
		}
	}
	f.Fuzz(func(t *testing.T, from, label string) {
		from, err := script.ResolveLabel("", from)
		if err != nil {
			return
		}
		got, err := script.ResolveLabel(from, label)
		if err != nil {
			var d *diag.Error
			if !errors.As(err, &d) || d.Kind != diag.Workflow || d.Fix == "" {
				t.Fatalf("got %#v", err)
			}
			return
		}
		path, inLibrary := strings.CutPrefix(got, script.LibraryPrefix)
		if !fs.ValidPath(path) || path == "." || strings.Contains(path, "\\") {
			t.Fatalf("%q from %q is %q", label, from, got)
		}
		if strings.HasPrefix(from, script.LibraryPrefix) && !inLibrary {
			t.Fatalf("%q from %q leaves the library: %q", label, from, got)
		}
		if again, err := script.ResolveLabel("", got); err != nil || again != got {
			t.Fatalf("%q resolves to %q, %v", got, again, err)
		}
	})
}
