package script_test

import (
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/starlark/script"

	"go.starlark.net/starlark"
)

// handle is a capability, as session and arm are.
type handle struct{ starlark.Value }

func (handle) String() string        { return "session" }
func (handle) Type() string          { return "session" }
func (handle) Freeze()               {}
func (handle) Truth() starlark.Bool  { return true }
func (handle) Hash() (uint32, error) { return 0, nil }
func (handle) Capability() string    { return "session" }
func (h handle) AttrNames() []string { return []string{"query"} }
func (h handle) Attr(name string) (starlark.Value, error) {
	return starlark.NewBuiltin(name, nil).BindReceiver(h), nil
}

// declared is a value with an identity of its own.
type declared struct {
	starlark.Value
	id string
}

func (d declared) Digest() (string, error) { return "sha256:" + d.id, nil }

// fingerprint loads files (main is x.star) and gives the fingerprint of f() or f, whichever is asked.
func fingerprint(t *testing.T, fsys map[string]string, expr string) string {
	t.Helper()
	l := newLoader()
	l.Root, l.Library = tree(fsys), tree(fsys)
	l.Predeclared["session"] = handle{}
	l.Predeclared["lever"] = declared{starlark.None, "x"}
	main := "x.star"
	if fsys[main] == "" {
		main = "moved/renamed.star"
	}
	g, err := l.Load(t.Context(), main)
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	v, ok := g[strings.TrimSuffix(expr, "()")]
	if !ok {
		t.Fatalf("no global %s", expr)
	}
	if strings.HasSuffix(expr, "()") {
		if v, err = l.Call(t.Context(), "", v.(starlark.Callable), nil, nil); err != nil {
			t.Fatal(diag.Format(err))
		}
	}
	first, err := l.Fingerprint(v)
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	if again, err := l.Fingerprint(v); err != nil || again != first {
		t.Errorf("the second fingerprint is %s, %v", again, err)
	}
	if len(first) != 64 {
		t.Errorf("fingerprint %q", first)
	}
	return first
}

const checked = `
load("lib/limits.star", "limit")
unrelated = 1
base = 3
def check(arm, below = 2 * base):
    return arm.x < below and helper(arm) and limit(arm)
def helper(arm):
    return arm.swap < 7
def make(bound):
    def inner(arm):
        return arm.x < bound
    return inner
def three(): return make(3)
def four(): return make(4)
def mutual_a(n): return mutual_b(n - 1) if n else 0
def mutual_b(n): return mutual_a(n - 2) if n else 1
small = lambda arm: arm.x < 5
both = [lambda a: a + 1, lambda a: a + 2]
def nested():
    fs = [lambda a: a + 1, lambda a: a + 2]
    return fs[1]
`

const limits = "_deep = 10\ndef limit(arm):\n    return arm.y < _deep\n"

func TestFingerprint(t *testing.T) {
	old := map[string]string{"x.star": checked, "lib/limits.star": limits}
	names := []string{"check", "three()", "four()", "mutual_a", "mutual_b", "small", "both", "nested()"}
	for _, c := range []struct {
		name     string
		old, new string // replaced in both files
		changed  string // names that change
	}{
		{"nothing", "", "", ""},
		{"comment", "return arm.swap < 7", "# high enough\n    return arm.swap < 7  # really", ""},
		{"docstring", "def helper(arm):\n", "def helper(arm):\n    \"\"\"Says whether.\"\"\"\n", ""},
		{"pass", "def helper(arm):\n", "def helper(arm):\n    pass\n", ""},
		{"parentheses and spaces", "arm.swap < 7", "((arm.swap)   < (7))", ""},
		{"how a number is written", "< 7", "< 0x7", ""},
		{"how text is written", "unrelated = 1", "unrelated = 'x'", ""},
		{"unrelated global", "unrelated = 1", "unrelated = 2", ""},
		{"unrelated function above", "unrelated = 1", "unrelated = 1\ndef new(): return 1", ""},
		{"threshold in a helper below", "swap < 7", "swap < 8", "check"},
		{"number of another kind", "swap < 7", "swap < 7.0", "check"},
		{"threshold in a loaded file", "_deep = 10", "_deep = 11", "check"},
		{"loaded function", "arm.y <", "arm.z <", "check"},
		{"default, through a global", "base = 3", "base = 4", "check"},
		{"default", "2 * base", "3 * base", "check"},
		{"default that comes to the same", "2 * base", "base + base", ""},
		{"name of a parameter", "check(arm, below = 2 * base):\n    return arm.x < below", "check(arm, under = 2 * base):\n    return arm.x < under", "check"},
		{"captured value", "make(3)", "make(30)", "three()"},
		{"code of a closure", "arm.x < bound", "arm.x <= bound", "three() four()"},
		{"mutual recursion", "n - 2", "n - 3", "mutual_a mutual_b"},
		{"lambda", "arm.x < 5", "arm.x < 6", "small"},
		{"lambda in a list", "both = [lambda a: a + 1, lambda a: a + 2]", "both = [lambda a: a + 1, lambda a: a + 3]", "both"},
		{"lambda on the same line as another", "fs = [lambda a: a + 1, lambda a: a + 2]", "fs = [lambda a: a + 1, lambda a: a + 3]", "nested()"},
		{"the other lambda on the line", "fs = [lambda a: a + 1,", "fs = [lambda a: a + 9,", ""},
		{"operator", "arm.swap < 7", "arm.swap > 7", "check"},
		{"and for or", "helper(arm) and limit(arm)", "helper(arm) or limit(arm)", "check"},
		{"its own name", "def helper(", "def helper(", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := make(map[string]string)
			for name, text := range old {
				changed[name] = strings.ReplaceAll(text, c.old, c.new)
				if c.old == "" {
					changed[name] = text
				}
			}
			var got []string
			for _, name := range names {
				if fingerprint(t, old, name) != fingerprint(t, changed, name) {
					got = append(got, name)
				}
			}
			if s := strings.Join(got, " "); s != c.changed {
				t.Errorf("changed: %q, want %q", s, c.changed)
			}
		})
	}
	moved := map[string]string{"moved/renamed.star": strings.ReplaceAll(checked, "lib/limits.star", "@flow//elsewhere.star"), "elsewhere.star": "\n\n" + limits}
	for _, name := range names {
		if fingerprint(t, old, name) != fingerprint(t, moved, name) {
			t.Errorf("%s changed by moving and renaming", name)
		}
	}
	if fingerprint(t, old, "three()") == fingerprint(t, old, "four()") {
		t.Error("two closures over different values are the same")
	}
	if fingerprint(t, old, "mutual_a") == fingerprint(t, old, "mutual_b") {
		t.Error("two functions that call each other are the same")
	}
	renamed := map[string]string{"x.star": strings.ReplaceAll(checked, "mutual_a(n): ", "mutual_a(n):  "), "lib/limits.star": limits}
	if fingerprint(t, old, "mutual_a") != fingerprint(t, renamed, "mutual_a") {
		t.Error("a space counts")
	}
}

func TestFingerprintOfValues(t *testing.T) {
	print := func(value string) string {
		return fingerprint(t, map[string]string{"x.star": "v = " + value + "\ndef f():\n    return v\n"}, "f")
	}
	values := []string{"None", "True", "1", "1.0", `"1"`, `b"1"`, "[1]", "(1,)", "[1, 2]", "[2, 1]", "[[1], 2]", "[1, [2]]",
		`{"a": 1}`, `{1: "a"}`, "set([1])", "range(3)", "range(0, 6, 2)", "len", "print", `"x".upper`, `"y".upper`, `"x".lower`, "json", "math",
		"struct(a = 1)", "struct(a = 2)", "struct(b = 1)", "lever", "gate", "lambda: 1", "lambda: 2", "lambda x: 1", "lambda x = 1: 1", "lambda *x: 1", "lambda **x: 1",
		"[]", "{}", "[{}]", "{\"a\": []}", "10000000000000000000000", "range(1000000000)"}
	seen := make(map[string]string)
	for _, v := range values {
		d := print(v)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have the same fingerprint", v, other)
		}
		seen[d] = v
	}
	for _, same := range [][2]string{{"[1] + [2]", "[1, 2]"}, {"dict(a = 1)", `{"a": 1}`}, {"5 * 2", "10"}, {"struct(b = 2, a = 1)", "struct(a = 1, b = 2)"}, {`'x'`, `"x"`}} {
		if print(same[0]) != print(same[1]) {
			t.Errorf("%s and %s differ", same[0], same[1])
		}
	}
	// A list that contains itself ends.
	fingerprint(t, map[string]string{"x.star": "def make():\n    x = [1]\n    x.append(x)\n    x.append(make)\n    return x\nv = make()\ndef f(): return v\n"}, "f")
}

func TestFingerprintErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"def f():\n    return session\n", "x.star:1:1: f: captures session"},
		{"def f(s = [session]):\n    return s\n", "x.star:1:1: f: captures session"},
		{"f = session.query\n", "query: captures session"},
		{"def make():\n    x = [1]\n    for _ in range(40):\n        x = [x, x]\n    return x\nv = make()\ndef f(): return v\n", "x.star:7:1: f: it reaches too much data to have an identity"},
	} {
		l := one(c.text)
		l.Predeclared["session"] = handle{}
		_, err := l.Fingerprint(load(t, l, "x.star")["f"])
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
	other := one("def f(): return 1\n")
	if _, err := newLoader().Fingerprint(load(t, other, "x.star")["f"]); err == nil {
		t.Error("a function of another loader has an identity")
	}
}

func TestCapture(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"lambda arm: arm", ""},
		{"lambda arm: n", ""},
		{"lambda arm: session", "lambda (x.star:3:12) captures session"},
		{"lambda arm, s = session: s", "lambda (x.star:3:12) captures session"},
		{"lambda arm: held", "lambda (x.star:3:12) captures session"},
		{"lambda arm: inner()", "lambda (x.star:3:12) captures session"},
		{"session.query", "query captures session"},
		{"inner", "inner (x.star:7:5) captures session"},
	} {
		text := "def main(session):\n    n = 1\n    return " + c.body + "\n"
		if strings.Contains(c.body, "held") {
			text = "def main(session):\n    held = {\"a\": [(1, struct(x = session))]}\n    return " + c.body + "\n"
		}
		if strings.Contains(c.body, "inner") {
			text = "def main(session):\n    def inner(): return session\n    return " + c.body + "\n"
			c.want = strings.Replace(c.want, "7:5", "2:5", 1)
		}
		l := one(text)
		fn, err := l.Call(t.Context(), "", function(t, l, "main"), starlark.Tuple{handle{}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = script.CheckCapture(fn)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.body, err)
			}
			continue
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.body, err, c.want)
			continue
		}
		if asDiag(t, err).Fix == "" {
			t.Errorf("%s: no fix", c.body)
		}
	}
	// Where it is declared, the error has the line of the declaration.
	l := one("def main(session):\n    gate(\"quiet\", lambda arm: session)\n")
	_, err := l.Call(t.Context(), "", function(t, l, "main"), starlark.Tuple{handle{}}, nil)
	if err == nil || err.Error() != "x.star:2:9: lambda (x.star:2:19) captures session" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	l := newLoader()
	l.Root = tree(map[string]string{"x.star": checked, "lib/limits.star": limits})
	g, err := l.Load(b.Context(), "x.star")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := l.Fingerprint(g["check"]); err != nil {
			b.Fatal(err)
		}
	}
}
