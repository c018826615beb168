package main

// A workflow file, loaded: what run, resume and check share.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"flow/builtins"
	"flow/builtins/gate"
	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/workflows/library"
	"flow/workflows/record"
)

// workflow is a loaded file.
type workflow struct {
	path, root, label string
	loader            *script.Loader
	env               *builtins.Env
	globals           starlark.StringDict
}

// loadOptions say how a file is loaded.
type loadOptions struct {
	params    map[string]string // name to value as typed
	typedHere bool              // params were typed now, in the current folder; else they are those of a record
	standIns  bool
	print     func(pos diag.Pos, msg string)
}

// loadWorkflow runs the top level of a file, which only declares.
func loadWorkflow(ctx context.Context, path string, o loadOptions) (*workflow, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, noFile(path, err)
	}
	if st.IsDir() {
		return nil, usage("workflow", path+" is a folder, want a .star file", "")
	}
	if !st.Mode().IsRegular() {
		return nil, usage("workflow", path+" is not a regular file", "name a .star file")
	}
	w := &workflow{path: path}
	if w.root, w.label, err = labelOf(path); err != nil {
		return nil, err
	}
	w.loader = &script.Loader{Root: os.DirFS(w.root), Library: library.FS, Print: o.print}
	w.env = builtins.NewEnv()
	w.env.StandIns = o.standIns
	w.env.Decided, w.env.Hopeless, w.env.Rules = gate.Decided, gate.Hopeless, gate.Rules()
	for k, v := range o.params {
		w.env.Params[k] = v
	}
	if o.typedHere {
		w.env.Located = w.located
	}
	w.env.Attach(w.loader)
	if w.globals, err = w.loader.Load(ctx, w.label); err != nil {
		if len(o.params) > 0 && !o.standIns {
			// A mistyped name is why another parameter has no value: say that first.
			o.standIns, o.print = true, nil
			var unknown *unknownParamError
			if _, again := loadWorkflow(ctx, path, o); errors.As(again, &unknown) {
				return nil, again
			}
		}
		return nil, err
	}
	if err := w.env.UnknownParams(); err != nil {
		return nil, &unknownParamError{err}
	}
	return w, nil
}

// located is a path that was typed: of the current folder where it is there, else of the workflow's. It is
// kept as seen from the workflow's folder, so that a resume from another folder means the same file.
func (w *workflow) located(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	abs, err := filepath.Abs(path)
	if err != nil || abs == filepath.Join(w.root, path) {
		return path
	}
	if _, err := os.Stat(abs); err != nil {
		return path
	}
	if rel, err := filepath.Rel(w.root, abs); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return abs
}

// missingPaths are the parameters that are paths and name nothing: neither a file nor a program.
func (w *workflow) missingPaths() (out []string) {
	for _, p := range w.env.Declared() {
		var path string
		if p.Type != "path" || p.StandIn || json.Unmarshal([]byte(p.Value), &path) != nil || path == "" {
			continue
		}
		if _, err := exec.LookPath(path); err == nil && !strings.ContainsRune(path, filepath.Separator) {
			continue
		}
		abs := path
		if !filepath.IsAbs(path) {
			abs = filepath.Join(w.root, path)
		}
		if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) {
			out = append(out, fmt.Sprintf("parameter %s: there is no %s", p.Name, abs))
		}
	}
	return out
}

// unknownParamError is a --set of a name that no param declares.
type unknownParamError struct{ error }

func (e *unknownParamError) Unwrap() error { return e.error }

func noFile(path string, err error) error {
	if !filepath.IsAbs(path) {
		if _, gone := os.Getwd(); gone != nil {
			return gone // every relative name is missing there
		}
	}
	cause := err
	var pe *fs.PathError
	if errors.As(err, &pe) {
		cause = pe.Err
	}
	return &diag.Error{Kind: diag.Workflow, Op: "workflow " + path, Err: cause, Fix: fileFix(path)}
}

// main is the workflow's main function.
func (w *workflow) main() (starlark.Callable, error) {
	v, ok := w.globals["main"]
	if !ok {
		return nil, &diag.Error{Pos: diag.Pos{File: w.label}, Kind: diag.Workflow, Op: "run", Msg: "the workflow has no main",
			Fix: "def main(session):\n    session.run(…)\n(a file without main can be loaded by another, and checked)"}
	}
	fn, ok := v.(starlark.Callable)
	if !ok {
		return nil, &diag.Error{Pos: diag.Pos{File: w.label}, Kind: diag.Workflow, Op: "run", Msg: "main is a " + v.Type() + ", want a function",
			Fix: "def main(session):"}
	}
	return fn, nil
}

// act calls main with a session.
func (w *workflow) act(ctx context.Context, s builtins.Session) error {
	fn, err := w.main()
	if err != nil {
		return err
	}
	_, err = w.loader.Call(ctx, "main", fn, starlark.Tuple{builtins.SessionValue(w.loader, s)}, nil)
	return err
}

// checkLimit is how long one walk through main may take before it is called endless.
const checkLimit = 10 * time.Second

// tried runs what touches nothing, and gives it up when it takes too much time or memory. What was given up may
// go on: its result is not read.
func tried[T any](ctx context.Context, verb, file string, fn func(context.Context) (T, error)) (result T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, usage(verb, "main took longer than "+checkLimit.String(), "look for a loop that does not end"))
	defer cancel()
	got := make(chan T, 1)
	err = script.BoundMemory(ctx, diag.Pos{File: file}, 0, func(ctx context.Context) error {
		r, err := fn(ctx)
		got <- r
		return err
	})
	select {
	case result = <-got:
	default:
	}
	return result, err
}

// sources is everything the workflow was made of, for the record.
func (w *workflow) sources() []record.Source {
	var out []record.Source
	for _, s := range w.loader.Sources() {
		out = append(out, record.Source{Label: s.Label, SHA256: s.SHA256, Text: s.Text})
	}
	return out
}

// parseSets reads --set name=value.
func parseSets(sets []string, file string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range sets {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			fix := "--set tokens=200"
			if k != "" {
				fix = setFix(file, k)
			}
			return nil, usage("--set", fmt.Sprintf("got %q, want name=value", s), fix)
		}
		out[k] = v
	}
	return out, nil
}

// typed turns recorded JSON values of parameters back into what one types after --set.
func typed(params map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range params {
		var s string
		if json.Unmarshal([]byte(v), &s) == nil {
			v = s
		}
		out[k] = v
	}
	return out
}

// paramsHelp lists a workflow's parameters.
func (w *workflow) paramsHelp() string {
	ps := w.env.Declared()
	if len(ps) == 0 {
		return "This workflow has no parameters.\n"
	}
	var b strings.Builder
	b.WriteString("Parameters of " + w.label + " (set with --set name=value):\n")
	for _, p := range ps {
		fmt.Fprintf(&b, "  %-16s %-9s", p.Name, p.Type)
		switch {
		case p.Default == "":
			b.WriteString(" required")
		default:
			b.WriteString(" default " + p.Default)
		}
		if len(p.Choices) > 0 {
			b.WriteString("; one of " + strings.Join(p.Choices, ", "))
		}
		b.WriteString("\n")
		if p.Help != "" {
			b.WriteString("      " + p.Help + "\n")
		}
	}
	return b.String()
}

// prompt is the text of a prompt file.
func (w *workflow) prompt(label string) (string, error) {
	if !filepath.IsAbs(label) {
		label = filepath.Join(w.root, label)
	}
	b, err := os.ReadFile(label)
	return string(b), err
}
