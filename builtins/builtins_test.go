package builtins_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.starlark.net/starlark"

	"flow/builtins"
	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/starlark/startest"
	"flow/workflows/library"
	"flow/workflows/record"
)

var update = flag.Bool("update", false, "write the reference page anew")

func newEnv() *builtins.Env {
	e := builtins.NewEnv()
	e.Decided = func(g *record.Group) string { return g.Stopped }
	e.Hopeless = func(g *record.Group) string { return g.Reason }
	e.Rules = map[string]func(*record.Group) string{}
	for _, name := range []string{"always_valid", "futile", "equivalent"} {
		e.Rules[name] = func(g *record.Group) string { return g.Reason }
	}
	return e
}

func newLoader(e *builtins.Env, files map[string]string) *script.Loader {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	l := &script.Loader{Root: root, Library: library.FS}
	e.Attach(l)
	return l
}

// load runs a file's top level.
func load(t *testing.T, text string) (*script.Loader, starlark.StringDict) {
	t.Helper()
	l := newLoader(newEnv(), map[string]string{"x.star": text})
	g, err := l.Load(t.Context(), "x.star")
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	return l, g
}

func TestEveryBuiltinIsDescribed(t *testing.T) {
	sentence := regexp.MustCompile(`^["A-Z].*[.]$`)
	seen := map[string]bool{}
	for _, b := range builtins.Catalog() {
		if seen[b.Name] {
			t.Errorf("%s stands twice", b.Name)
		}
		seen[b.Name] = true
		if !sentence.MatchString(b.Doc) {
			t.Errorf("%s: doc %q is no sentence", b.Name, b.Doc)
		}
		if b.Example == "" {
			t.Errorf("%s has no example", b.Name)
		}
		s := b.Signature()
		if s.Name != b.Name {
			t.Errorf("%s: its signature says %s", b.Name, s.Name)
		}
		if s.Positional > len(s.Params) {
			t.Errorf("%s: %d positional of %d parameters", b.Name, s.Positional, len(s.Params))
		}
		for _, p := range s.Params {
			switch {
			case p.Doc == "":
				t.Errorf("%s: argument %s is not described", b.Name, p.Name)
			case p.Into == nil:
				t.Errorf("%s: argument %s goes nowhere", b.Name, p.Name)
			case !p.Required && p.Default == "":
				t.Errorf("%s: argument %s shows no default", b.Name, p.Name)
			case p.Into.Want() == "":
				t.Errorf("%s: argument %s says no kind", b.Name, p.Name)
			}
		}
		if got, ok := builtins.Lookup(b.Name); !ok || got.Name != b.Name {
			t.Errorf("Lookup(%q) finds %v, %v", b.Name, got.Name, ok)
		}
		if d := builtins.Describe(b); !strings.Contains(d, b.Example[:min(10, len(b.Example))]) || !strings.Contains(d, b.Name) {
			t.Errorf("Describe(%s) lacks its name or example:\n%s", b.Name, d)
		}
	}
	if _, ok := builtins.Lookup("no.such"); ok {
		t.Error("Lookup finds what is not there")
	}
}

const prelude = `
my_engine = engine("srv", command = ["srv", "--port", "{port}"], api = api.openai_chat())
my_work = workload(prompt = "Count.", max_tokens = 8)
my_lever = lever("fast", env = {"X": 1}, confirm = confirm.none("a test"))
`

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }

// Every example runs as its place says: at the top level, in main, in a body, in a gate.
func TestEveryExampleRuns(t *testing.T) {
	for _, b := range builtins.Catalog() {
		t.Run(b.Name, func(t *testing.T) {
			capability, _, _ := strings.Cut(b.Name, ".")
			text := b.Example
			switch capability {
			case "session":
				if !strings.Contains(text, "def main(") {
					text = prelude + "my_group = group(\"g\", sides = {\"A\": side(my_engine), \"B\": side(my_engine, stack = my_lever)}, workload = my_work)\ndef main(session):\n" + indent(text)
				}
			case "arm", "process":
				text = prelude + "def _body(arm):\n    process = arm.launch()\n" + indent(text) + groupWith("body = _body")
			case "record":
				text = prelude + "def _check(arm):\n" + indent(text) + "\n    return ok()" + groupWith(`gates = [gate("x", check = _check)]`)
			}
			l, globals := load(t, text+"\n")
			if main, ok := globals["main"].(starlark.Callable); ok {
				s := &fakeSession{}
				if _, err := l.Call(t.Context(), "", main, starlark.Tuple{builtins.SessionValue(l, s)}, nil); err != nil {
					t.Fatalf("%s\n%s", diag.Format(err), text)
				}
				if len(s.calls) == 0 {
					t.Error("main had no effect")
				}
			}
		})
	}
}

func groupWith(arg string) string {
	return "\ndef main(session):\n    session.run(group(\"g\", sides = {\"A\": side(my_engine), \"B\": side(my_engine, stack = my_lever)}, workload = my_work, " + arg + "))\n"
}

func TestReferenceIsFresh(t *testing.T) {
	const page = "../cmd/flow/doc/builtins.md"
	got := builtins.Reference()
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil || string(want) != got {
		t.Errorf("%s is not what the catalog says (%v): go test ./builtins -run Reference -update", page, err)
	}
	for _, b := range builtins.Catalog() {
		if !strings.Contains(got, "\n### "+b.Name+"\n") {
			t.Errorf("the reference lacks %s", b.Name)
		}
	}
}

// Every error with its fix. STARTEST_UPDATE=1 writes the texts anew.
func TestErrors(t *testing.T) {
	files, err := os.ReadDir("testdata/errors")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) {
			startest.Golden(t, func() *script.Loader { return newLoader(newEnv(), nil) }, "testdata/errors/"+f.Name(), callMain)
		})
	}
}

func TestLanguage(t *testing.T) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.star") {
			continue
		}
		t.Run(f.Name(), func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			l := newLoader(newEnv(), map[string]string{f.Name(): string(text)})
			startest.Run(t, l, f.Name())
		})
	}
}

// Nothing of the language is stubbed, and nothing stands outside the catalog.
func TestPredeclared(t *testing.T) {
	l := newLoader(newEnv(), nil)
	names := l.Predeclared.Keys()
	for name := range script.Standard() {
		if !slices.Contains(names, name) {
			t.Errorf("%s of Standard is missing", name)
		}
	}
	for _, b := range builtins.Catalog() {
		ns, member, dotted := strings.Cut(b.Name, ".")
		if slices.Contains([]string{"session", "arm", "process", "record"}, ns) {
			if slices.Contains(names, ns) {
				t.Errorf("%s can be reached from the top level", ns)
			}
			continue
		}
		v := l.Predeclared[ns]
		if dotted {
			m, ok := v.(starlark.HasAttrs)
			if !ok {
				t.Fatalf("%s is no namespace", ns)
			}
			v, _ = m.Attr(member)
		}
		if _, ok := v.(starlark.Callable); !ok {
			t.Errorf("%s cannot be called", b.Name)
		}
	}
}
