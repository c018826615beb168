package main

// What flow check says of words that mean something else than they seem to: they are right on every machine, and
// wrong on every machine too.

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"flow/builtins/engine"
	"flow/db"
	"flow/starlark/diag"
	"flow/workflows/measure"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// placeholders refuses a side whose command has a placeholder that no launch fills in. A stand-in of a parameter
// has braces too, and a body may launch something else.
func (h *here) placeholders(t run.Task) error {
	if t.Group.Body != nil || t.Side.Engine.URL != "" {
		return nil
	}
	c, err := plan.Effective(t.Side.Engine, t.Side.Stack)
	if err != nil {
		return nil // refused where it was declared
	}
	texts := append(slices.Clone(c.Argv), c.Dir)
	for _, m := range []map[string]string{c.Env, c.Config} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			texts = append(texts, m[k])
		}
	}
	for _, text := range texts {
		name := engine.Unknown(text)
		if name == "" || slices.Contains(h.params, name) {
			continue
		}
		fix := fmt.Sprintf("for the text itself write {{%s}}; flow fills in {%s}", name, strings.Join(engine.Placeholders(), "}, {"))
		if near := diag.Nearest(name, engine.Placeholders()); near != "" {
			fix = fmt.Sprintf("did you mean {%s}? For the text itself write {{%s}}", near, name)
		}
		return &diag.Error{Pos: t.Side.Engine.Pos, Kind: diag.Workflow, Op: "engine " + t.Side.Engine.Name,
			Msg: fmt.Sprintf("got the placeholder {%s} on side %s, which nothing fills in", name, t.Side.Label), Fix: fix}
	}
	return nil
}

// simLevers are levers of the embedded engine that it was not told of: nothing would show that they took effect.
func simLevers(t run.Task) (out []string) {
	argv := t.Side.Engine.Command
	if len(argv) < 2 || argv[1] != "sim-engine" {
		return nil
	}
	var known []string
	for i, w := range argv[:len(argv)-1] {
		if w == "--lever" || w == "--text-lever" {
			name, _, _ := strings.Cut(argv[i+1], "=")
			known = append(known, name)
		}
	}
	variable := strings.NewReplacer("-", "_", ".", "_")
	for _, l := range t.Side.Stack {
		for _, k := range slices.Sorted(maps.Keys(l.Env)) {
			named := func(n string) bool { return k == "SIM_"+variable.Replace(strings.ToUpper(n)) }
			if !strings.HasPrefix(k, "SIM_") || slices.ContainsFunc(known, named) {
				continue
			}
			w := fmt.Sprintf("lever %s sets %s, and engine %s was told of no such lever", l.Name, k, t.Side.Engine.Name)
			if near := diag.Nearest(l.Name, known); near != "" {
				w += fmt.Sprintf(" (did you mean %s?)", near)
			}
			out = append(out, w)
		}
	}
	return out
}

// fileName is one word that ends as a file of text does.
var fileName = regexp.MustCompile(`^[^\s{}]+\.(txt|md|json|jsonl|prompt)$`)

// literalPrompts are prompts that look like the name of a file.
func literalPrompts(w plan.Workload) (out []string) {
	for _, c := range w.Cases {
		for _, p := range c.Prompts {
			if fileName.MatchString(p.Text) {
				out = append(out, fmt.Sprintf("%s: the prompt is the text %q itself: a file is prompt = prompt_file(%q)", w.Pos, p.Text, p.Text))
			}
		}
	}
	return out
}

// uncalled are functions of a file without main that look as if they were meant to be it.
func uncalled(globals starlark.StringDict) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(globals)) {
		f, ok := globals[name].(*starlark.Function)
		if !ok || f.NumParams() != 1 || strings.HasPrefix(name, "_") {
			continue
		}
		if arg, _ := f.Param(0); arg == "session" {
			out = append(out, fmt.Sprintf("%s: nothing calls %s(session): what flow run calls is main, def main(session):", f.Position(), name))
		}
	}
	return out
}

// Query asks an empty database, so that a mistake in the SQL is found; there are no rows.
func (c *counting) Query(ctx context.Context, sql string, params map[string]any, limit int) (*record.Table, error) {
	if c.asked == nil {
		d, err := db.Open(ctx, db.Memory)
		if err != nil {
			return nil, err
		}
		c.asked = d
	}
	if _, err := c.asked.Query(ctx, sql, params, limit); err != nil {
		return nil, err
	}
	return c.Memory.Query(ctx, sql, params, limit)
}

// looking is the simulated measurer, which shows what is asked of it before it is invented.
type looking struct {
	*measure.Simulated
	see  func(run.Task) error
	read func(sensors []string)
}

// Open looks, then opens.
func (l looking) Open(ctx context.Context, t run.Task) (run.Rig, error) {
	if err := l.see(t); err != nil {
		return nil, err
	}
	return l.Simulated.Open(ctx, t)
}

// Read looks, then reads.
func (l looking) Read(ctx context.Context, sensors []string) ([]record.Sample, error) {
	l.read(sensors)
	return l.Simulated.Read(ctx, sensors)
}
