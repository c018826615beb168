package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// example is one block of Starlark of the manual or of README.md.
type example struct {
	page  string
	n     int
	text  string
	whole bool // a file that can be pasted
}

// docExamples are those of the pages that people wrote: what builtins and the library say of themselves is run elsewhere
// (TestEveryExampleRuns, and the signatures of the library are its functions).
func docExamples(t *testing.T) []example {
	t.Helper()
	texts := map[string]string{}
	for _, page := range pages() {
		b, err := docFS.ReadFile("doc/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = string(b)
	}
	delete(texts, "builtins")
	delete(texts, "library")
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	texts["README"] = string(b)
	var out []example
	for _, page := range slices.Sorted(maps.Keys(texts)) {
		for i, block := range strings.Split("\n"+texts[page], "\n```python\n")[1:] {
			block, _, _ = strings.Cut(block, "\n```")
			out = append(out, example{page, i + 1, block, strings.Contains(block, "def main(") && strings.Contains(block, "load(")})
		}
	}
	return out
}

// around makes a file of a fragment: with the names that the pages use, a main where the fragment has none, and
// something in place of what it leaves out.
func (e example) around() string {
	text := e.text
	for _, c := range [][2]string{ // what stands for …, longest first
		{`group("g", …,`, `group("g", sides = both, workload = work, gates = gates,`},
		{`sides = {…}`, `sides = both, workload = work, gates = gates`}, {`sides = …`, `sides = both, workload = work, gates = gates`},
		{`command = […]`, `command = ["/bin/true"]`},
	} {
		text = strings.ReplaceAll(text, c[0], c[1])
	}
	const before = `load("@flow//engines/sim.star", "sim_lever", "sim_server")
load("@flow//gates.star", "counts_agree")
load("@flow//screens.star", "screen")
`
	const names = `
sim = sim_server(levers = {"fast": "+20%"})
fast = sim_lever("fast")
work = workload(prompt = "Tell me about rivers.", max_tokens = 48)
gates = [counts_agree()]
both = {"A": side(sim), "B": side(sim, stack = [fast])}
`
	loads, body := "", ""
	for line := range strings.Lines(text + "\n") {
		if strings.HasPrefix(line, "load(") {
			loads += line
		} else {
			body += line
		}
	}
	switch {
	case strings.Contains(body, "def main("):
	case strings.Contains(body, "session."):
		body = "def main(session):\n    " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n    ") + "\n"
	default:
		body += "\ndef main(session):\n    pass\n"
	}
	return before + loads + names + body
}

// Every example of the manual and of README.md passes flow check: whole ones as they are pasted.
func TestDocumentExamples(t *testing.T) {
	whole, parts := 0, 0
	for _, e := range docExamples(t) {
		text := e.text + "\n"
		if e.whole {
			whole++
		} else {
			parts++
			text = e.around()
		}
		dir := t.TempDir()
		file := filepath.Join(dir, fmt.Sprintf("%s%d.star", e.page, e.n))
		if err := os.MkdirAll(filepath.Join(dir, "prompts"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{file: text, filepath.Join(dir, "prompts", "main.txt"): "Where does the river go?\n"} {
			if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(text, "…") {
			t.Errorf("flow doc %s, example %d leaves something out that the test does not fill in:\n%s", e.page, e.n, e.text)
		}
		if code, _, errs := flowCommand(t, "none.db", "", "check", file); code != 0 {
			t.Errorf("flow doc %s, example %d:\n%s\n%s", e.page, e.n, errs, text)
		}
	}
	if whole < 3 || parts < 5 {
		t.Errorf("the manual has %d whole examples and %d parts: the test does not find them", whole, parts)
	}
}

// The worked example of flow doc search does what the page says: the sieve with shared controls finds the sure winner
// and drops the loser, the design decides the rest, leave-one-out looks at each lever of the stack, and the claim
// is of fresh arms, beside what the screens showed.
func TestSearchExample(t *testing.T) {
	t.Parallel()
	var text string
	for _, e := range docExamples(t) {
		if e.page == "search" && e.whole {
			text = e.text
		}
	}
	dir := t.TempDir()
	file, model, database := filepath.Join(dir, "search.star"), filepath.Join(dir, "model.gguf"), filepath.Join(dir, "flow.db")
	for name, content := range map[string]string{file: text + "\n", model: "weights"} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("two of three", func(t *testing.T) {
		code, out, errs := flowCommand(t, database, "", "run", file, "--set", "model="+model, "-q", "--seed", "1", "--simulate", "effect.ubatch-1024=5%,effect.mlock=1.5%,sd=.1%")
		if code != 0 {
			t.Fatalf("got %d\n%s", code, errs)
		}
		code, rows, errs := flowCommand(t, database, "", "sql", "--format", "csv", "select name, role, verdict from groups order by position")
		if code != 0 {
			t.Fatal(errs)
		}
		for _, want := range []string{"\"screen ubatch-1024, threads-8, mlock\",screen,", "\"plackett-burman threads-8, mlock\",screen", "leave one out of ubatch-1024+mlock,ladder", "qualification ubatch-1024+mlock,qualification,better"} {
			if !strings.Contains(rows, want) {
				t.Errorf("no %q in\n%s", want, rows)
			}
		}
		flat := strings.Join(strings.Fields(out), " ")
		for _, want := range []string{"S1 vs U better", "mlock vs U better", "(Benjamini-Hochberg)", "without ubatch-1024 worse", "without mlock worse",
			"- claim ubatch-1024 + mlock: +6.", "from fresh arms, where the screens showed +6.", "together beyond the product of each alone"} {
			if !strings.Contains(flat, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		// Each lever has its own verdicts, although the sieve and the design are inconclusive as a whole.
		code, rows, errs = flowCommand(t, database, "", "sql", "--format", "csv", "select lever as name, sum(verdict = 'better') as better, sum(verdict = 'worse') as worse from gains where lever_hash is not null and not is_cost group by lever order by lever")
		if want := "name,better,worse\nmlock,2,0\nthreads-8,0,0\nubatch-1024,1,0\n"; code != 0 || rows != want {
			t.Errorf("levers: got\n%s%s\nwant\n%s", rows, errs, want)
		}
		// Nothing was measured, so the history of levers does not count it.
		code, rows, errs = flowCommand(t, database, "", "sql", "--format", "csv", "select sum(sessions), sum(better), sum(worse) from levers")
		if code != 0 || !strings.HasSuffix(rows, "\n0,0,0\n") {
			t.Errorf("levers of a simulation: got\n%s%s", rows, errs)
		}
	})
	t.Run("none", func(t *testing.T) {
		code, out, errs := flowCommand(t, filepath.Join(dir, "none.db"), "", "run", file, "--set", "model="+model, "-q", "--seed", "2", "--simulate", "effect.mlock=-4%,sd=.1%")
		if code != 0 || strings.Contains(out, "qualification") || strings.Contains(out, "leave one out") {
			t.Errorf("got %d\n%s%s", code, out, errs)
		}
	})
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
