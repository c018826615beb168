package startest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"flow/starlark/diag"
	"flow/starlark/script"
)

func newLoader() *script.Loader {
	return &script.Loader{Root: os.DirFS("testdata"), Predeclared: script.Standard()}
}

func TestRun(t *testing.T) { Run(t, newLoader(), "good.star") }

func TestGolden(t *testing.T) { Golden(t, newLoader, "testdata/errors.golden") }

func TestExpectations(t *testing.T) {
	list, err := expectations("a  ### \"x.*y\"\nb # not\n\tc ### `z\"`  \n")
	if err != nil || len(list) != 2 || list[0].line != 1 || list[1].line != 3 || !list[1].pattern.MatchString(`z"`) {
		t.Errorf("got %+v, %v", list, err)
	}
	for _, bad := range []string{`x ### "("`, `x ### "\q"`} {
		if _, err := expectations(bad); err == nil || !strings.HasPrefix(err.Error(), "line 1") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestMismatch is what makes Run able to fail: an error nobody expects, and an expectation nobody meets.
func TestMismatch(t *testing.T) {
	want, _ := expectations("x ### \"one\"\ny\nz ### \"three\"")
	at := func(file string, line int, msg string) *diag.Error {
		return &diag.Error{Pos: diag.Pos{File: file, Line: line}, Msg: msg}
	}
	for _, c := range []struct {
		name string
		got  []*diag.Error
		want []string
	}{
		{"all met", []*diag.Error{at("t.star", 1, "one"), at("t.star", 3, "three")}, nil},
		{"none raised", nil, []string{"t.star:1: no error", "t.star:3: no error"}},
		{"wrong line", []*diag.Error{at("t.star", 2, "one"), at("t.star", 3, "three")}, []string{"unexpected error: t.star:2: one", "t.star:1: no error"}},
		{"wrong text", []*diag.Error{at("t.star", 1, "two"), at("t.star", 3, "three")}, []string{"unexpected error: t.star:1: two", "t.star:1: no error"}},
		{"wrong file", []*diag.Error{at("u.star", 1, "one"), at("t.star", 3, "three")}, []string{"unexpected error: u.star:1", "t.star:1: no error"}},
		{"twice", []*diag.Error{at("t.star", 1, "one"), at("t.star", 1, "one"), at("t.star", 3, "three")}, []string{"unexpected error: t.star:1: one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mismatch("t.star", want, c.got)
			if len(got) != len(c.want) {
				t.Fatalf("got %q", got)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("got %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}

// TestAssertionsFail runs every assertion in a way that it must not hold.
func TestAssertionsFail(t *testing.T) {
	for call, want := range map[string]string{
		`assert.eq(1, 2)`:                                  "assert.eq: got 1, want 2",
		`assert.eq(1)`:                                     "assert.eq: got 1 arguments, want 2",
		`assert.ne("a", "a")`:                              `assert.ne: got "a", want other than "a"`,
		`assert.lt(2, 1)`:                                  "assert.lt: got 2, want less than 1",
		`assert.lt(2, "a")`:                                "assert.lt: int < string not implemented",
		`assert.true([])`:                                  "assert.true: got [], want something true",
		`assert.true(0, "no arms")`:                        "assert.true: no arms",
		`assert.true()`:                                    "assert.true: got 0 arguments",
		`assert.contains([1], 2)`:                          "assert.contains: 2 is not in [1]",
		`assert.contains(1, 2)`:                            "assert.contains: unknown binary op",
		`assert.fails(lambda: 1, "x")`:                     `assert.fails: lambda raised nothing, want "x"`,
		`assert.fails(lambda: fail("other"), "zzz")`:       `assert.fails: lambda raised "x.star:2:30: fail: other", want "zzz"`,
		`assert.fails(lambda: fail("other"), "(")`:         "assert.fails: error parsing regexp",
		`assert.fails(3, "x")`:                             "assert.fails: got int, want a function",
		`assert.fails(lambda: 1, 3)`:                       "assert.fails: got int, want a pattern",
		`assert.eq(got = 1, want = 2)`:                     "assert.eq: takes no keywords",
		`assert.equal(1, 1)`:                               "module has no .equal field or method",
		`assert.fails(lambda: assert.eq(1, 2), "got 1, ")`: "",
	} {
		l := newLoader()
		l.Predeclared = with(l.Predeclared, "assert", Assert())
		got := run(t.Context(), l, "def main():\n    "+call+"\n", []Main{CallMain})
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", call, got, want)
		}
	}
}

func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.golden")
	old := "# a\nx = 1 + None\n---\n# b\ny = 2\n#> outdated\n---\nz = 3\n"
	if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STARTEST_UPDATE", "1")
	Golden(t, newLoader, path)
	got, err := os.ReadFile(path)
	want := "# a\nx = 1 + None\n#> x.star:2:7: unknown binary op: int + NoneType\n---\n# b\ny = 2\n---\nz = 3\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("STARTEST_UPDATE", "")
	Golden(t, newLoader, path)
}

func TestFunctions(t *testing.T) {
	got := functions("x.star", "def test_a():\n    pass\n\ndef other(): pass\ndef test_b():\n    if True:\n        pass\n")
	if len(got) != 2 || got[0] != (test{"test_a", 1, 2}) || got[1] != (test{"test_b", 5, 7}) {
		t.Errorf("got %+v", got)
	}
}

func TestOverlay(t *testing.T) {
	o := overlay{fstest.MapFS{"x.star": {Data: []byte("over")}}, fstest.MapFS{"x.star": {Data: []byte("under")}, "y.star": {Data: []byte("y")}}}
	l := &script.Loader{Root: o}
	_, _ = l.Load(t.Context(), "x.star")
	_, _ = l.Load(t.Context(), "y.star")
	if s := l.Sources(); len(s) != 2 || s[0].Text != "over" || s[1].Text != "y" {
		t.Errorf("got %+v", s)
	}
}
