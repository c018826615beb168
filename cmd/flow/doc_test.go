package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An example of the manual that is a whole workflow passes flow check as it is pasted.
func TestDocumentExamples(t *testing.T) {
	whole := 0
	for _, page := range pages() {
		text, err := docFS.ReadFile("doc/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "\n```python\n")[1:] {
			block, _, _ = strings.Cut(block, "\n```")
			if !strings.Contains(block, "def main(") || !strings.Contains(block, "load(") {
				continue
			}
			whole++
			file := filepath.Join(t.TempDir(), fmt.Sprintf("%s%d.star", page, i))
			if err := os.WriteFile(file, []byte(block+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if code, _, errs := flowCommand(t, "none.db", "", "check", file); code != 0 {
				t.Errorf("flow doc %s, example %d:\n%s\n%s", page, i+1, errs, block)
			}
		}
	}
	if whole == 0 {
		t.Error("the manual has no whole example")
	}
}

func TestDocSections(t *testing.T) {
	for _, c := range []struct {
		args      []string
		begins    string
		has, not  string
		code      int
		errs, fix string
	}{
		{[]string{"builtins", "levers"}, "## Levers\n", "### factor\n", "\n## Evidence", 0, "", ""},
		{[]string{"builtins", "session.run"}, "### session.run\n", "Runs a group", "### session.query", 0, "", ""},
		{[]string{"builtins", "Gates", "and", "guards"}, "## Gates and guards\n", "### gate\n", "\n## F", 0, "", ""},
		{[]string{"library", "screens"}, "## @flow//screens.star\n", "### ladder\n", "\n## @flow//select", 0, "", ""},
		{[]string{"builtins", "levrs"}, "", "", "", 2, `no section "levrs"`, "fix: flow doc builtins lever"},
		{[]string{"nothing"}, "", "", "", 2, `no page "nothing"`, "fix: flow doc"},
	} {
		code, out, errs := flowCommand(t, "none.db", "", append([]string{"doc"}, c.args...)...)
		if code != c.code || !strings.HasPrefix(out, c.begins) || !strings.Contains(out, c.has) || c.not != "" && strings.Contains(out, c.not) || !strings.Contains(errs, c.errs) || !strings.Contains(errs, c.fix) {
			t.Errorf("doc %q: got %d\n%s\n%s", c.args, code, out, errs)
		}
	}
}

// Whatever a workflow can write is explained under its name.
func TestBuiltinsExplain(t *testing.T) {
	for name, want := range map[string][]string{
		"lever":      {"lever(", "example:"},
		"screen":     {`load("@flow//screens.star", "screen")`, "**kwargs are passed on to group()", "gates ", "costs ", "primary ", "\n  order "},
		"sim_server": {`load("@flow//engines/sim.star", "sim_server")`, "decode_tok_s: true decode rate"},
		"session":    {"session.run", "journaled"},
		"arm":        {"arm.launch", "arm record", "disposition"},
		"result":     {"verdict", "comparisons", "warnings"},
		"comparison": {"cost_broken", "pair_deltas", "gain_of_medians_pct"},
	} {
		code, out, errs := flowCommand(t, "none.db", "", "builtins", name)
		if code != 0 {
			t.Errorf("%s: got %d, %s", name, code, errs)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: %q is not in\n%s", name, w, out)
			}
		}
	}
	if _, out, _ := flowCommand(t, "none.db", "", "builtins", "screen"); strings.Contains(out, "\n  sides ") || strings.Contains(out, "\n  role ") {
		t.Errorf("screen says of group what it gives itself:\n%s", out)
	}
	for _, f := range libraryFunctions() {
		if f.doc == "" || !strings.HasPrefix(f.form, f.name+"(") || !strings.HasSuffix(f.form, ")") {
			t.Errorf("%s of %s: got form %q, doc %q", f.name, f.file, f.form, f.doc)
		}
	}
	if code, _, errs := flowCommand(t, "none.db", "", "builtins", "sreen"); code != 2 || !strings.Contains(errs, "fix: flow builtins screen") {
		t.Errorf("a near name: got %d, %s", code, errs)
	}
}

// A verb that does not exist has no help either.
func TestUnknownVerbs(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"lint", "--help"}, 2, `unknown command "lint"`},
		{[]string{"help", "lint"}, 2, `unknown command "lint"`},
		{[]string{"chek", "--help"}, 2, "fix: flow check"},
		{[]string{"version"}, 2, "fix: flow --version"},
		{[]string{"--help"}, 0, "Exit codes"},
		{[]string{"--db", "x.db", "--help"}, 0, "Exit codes"},
		{[]string{"check", "--help"}, 0, "flow check"},
		{[]string{"help", "check"}, 0, "flow check"},
		{[]string{"help"}, 0, "Exit codes"},
	} {
		code, out, errs := flowCommand(t, "none.db", "", c.args...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("flow %q: got %d, want %d with %q\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
}

// Tables stay inside the width and lose nothing; no column of two rows becomes alike by being cut.
func TestColumns(t *testing.T) {
	c := columns{head: []string{"id", "name", "n", "why"}, right: []int{2}, below: []int{3}}
	c.add("0192f0c4", "a name that goes on and on, and ends with one", "1", strings.Repeat("word ", 30)+"/a/path/"+strings.Repeat("x", 90))
	c.add("0192f0c5", "a name that goes on and on, and ends with two", "22", "")
	for _, width := range []int{60, 80, 400} {
		lines := c.lines(width)
		page := strings.Join(lines, "\n")
		for _, l := range lines {
			if cellWidth(l) > width {
				t.Errorf("at %d: %d columns: %q", width, cellWidth(l), l)
			}
		}
		flat := strings.ReplaceAll(strings.Join(strings.Fields(page), ""), " ", "")
		for _, want := range []string{"one", "two", "/a/path/" + strings.Repeat("x", 90)} {
			if !strings.Contains(flat, want) {
				t.Errorf("at %d: %q is lost in\n%s", width, want, page)
			}
		}
		if width == 400 && len(lines) != 3 {
			t.Errorf("with room: got %d lines, want 3\n%s", len(lines), page)
		}
	}
	empty := columns{head: []string{"a", "b"}}
	empty.add("x", "")
	if got := strings.Join(empty.lines(80), "|"); got != "a|x" {
		t.Errorf("a column that says nothing: got %q", got)
	}
}
