package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flow/starlark/diag"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Every error of the language becomes a *diag.Error here, once. The rules: the place is the innermost frame
// outside the library, the other frames follow as Via; of nested errors the innermost is shown; a message is
// never said twice; a cause keeps its type for errors.As.

func toPos(p syntax.Position) diag.Pos {
	if !p.IsValid() {
		return diag.Pos{}
	}
	return diag.Pos{File: p.Filename(), Line: int(p.Line), Col: int(p.Col)}
}

// position is where a function was written, zero for one of Go.
func position(fn starlark.Value) diag.Pos {
	if f, ok := fn.(*starlark.Function); ok {
		return toPos(f.Position())
	}
	return diag.Pos{}
}

// Caller is the place that called the builtin running on t: the innermost frame outside the library. Via is
// the other frames, innermost first.
func Caller(t *starlark.Thread) (user diag.Pos, via []diag.Frame) { return places(t.CallStack()) }

func places(stack starlark.CallStack) (user diag.Pos, via []diag.Frame) {
	var frames []diag.Frame
	for _, f := range slices.Backward(stack) {
		if f.Pos.Filename() != "<builtin>" && f.Pos.IsValid() {
			frames = append(frames, diag.Frame{Pos: toPos(f.Pos), Name: f.Name})
		}
	}
	at := slices.IndexFunc(frames, func(f diag.Frame) bool { return !strings.HasPrefix(f.Pos.File, LibraryPrefix) })
	if at < 0 { // a library function called by flow itself
		at = 0
	}
	if len(frames) == 0 {
		return diag.Pos{}, nil
	}
	user = frames[at].Pos // before Delete moves the others
	return user, slices.Delete(frames, at, at+1)
}

// Error is a mistake in the workflow, at the line that called the builtin running on t.
func Error(t *starlark.Thread, op, msg, fix string) *diag.Error {
	pos, via := Caller(t)
	return &diag.Error{Pos: pos, Via: via, Kind: diag.Workflow, Op: op, Msg: msg, Fix: fix}
}

// Errorf is Error with a formatted message and no fix.
func Errorf(t *starlark.Thread, op, format string, args ...any) *diag.Error {
	return Error(t, op, fmt.Sprintf(format, args...), "")
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

func withOp(e *diag.Error, what string) *diag.Error {
	c := *e
	c.Op = join(what, e.Op)
	return &c
}

// loadTimeout is the cause of a context that ended because loading took too long.
type loadTimeout time.Duration

func (d loadTimeout) Error() string {
	return fmt.Sprintf("loading took longer than %s", time.Duration(d))
}

// stopped is the error of a run whose context ended; also is what the run itself said, when that is more.
func stopped(ctx context.Context, pos diag.Pos, via []diag.Frame, also error) *diag.Error {
	e := &diag.Error{Pos: pos, Via: via, Kind: diag.Stopped, Msg: "stopped"}
	cause := context.Cause(ctx)
	var limit loadTimeout
	if errors.As(cause, &limit) {
		e.Kind, e.Msg = diag.Workflow, limit.Error()
		e.Fix = "the top level of a file only declares: move the work into main"
		return e
	}
	var memory *MemoryError
	if errors.As(cause, &memory) {
		e.Kind, e.Msg, e.Err, e.Fix = diag.Workflow, "", memory, memoryFix
		return e
	}
	e.Err = stop{errs: []error{cause, ctx.Err()}}
	if also != nil {
		e.Err = stop{errs: []error{cause, ctx.Err(), also}}
	}
	return e
}

// stop says each of its errors once and is all of them for errors.Is.
type stop struct{ errs []error }

func (s stop) Unwrap() []error { return s.errs }

func (s stop) Error() string {
	var parts []string
	for _, err := range s.errs {
		if text := err.Error(); !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, text) }) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// diagnose turns what a thread ended with into the error to show.
func (l *Loader) diagnose(r *running, what string, err error) *diag.Error {
	// The innermost evaluation error has the longest stack; under it may be an error that already has its place.
	var eval *starlark.EvalError
	var placed *diag.Error
	cause := err
	for e := err; e != nil && placed == nil; e = errors.Unwrap(e) {
		switch e := e.(type) {
		case *starlark.EvalError:
			eval, cause = e, errors.Unwrap(e)
		case *diag.Error:
			placed = e
		}
	}
	var stack starlark.CallStack
	text := err.Error()
	if eval != nil {
		stack, text = eval.CallStack, eval.Msg
	}
	callee, stack := dropCallee(stack, text)
	pos, via := places(stack)
	switch {
	case r.ctx.Err() != nil:
		var also error
		if !isCancel(cause, text, r.ctx) {
			also = cause
		}
		if placed != nil && placed.Kind == diag.Stopped && also == nil { // a builtin said more than "stopped"
			break
		}
		return withOp(stopped(r.ctx, pos, via, also), what)
	case r.spent.Load():
		return &diag.Error{Pos: pos, Via: via, Kind: diag.Workflow, Op: what,
			Msg: fmt.Sprintf("too many steps: more than %d", r.steps), Fix: "loop over less, or let a builtin do the work"}
	}
	if placed != nil {
		return withOp(l.nest(placed, cause, pos, via), what)
	}
	d := &diag.Error{Pos: pos, Via: via, Kind: diag.Workflow, Op: what}
	if len(stack) > 0 && stack.At(0).Pos.Filename() == "<builtin>" && cause != nil {
		d.Err = cause // from Go: it may have a type that somebody asks for
	} else {
		d.Msg = text
	}
	l.befriend(d, evaluating, text, callee)
	return d
}

func isCancel(cause error, text string, ctx context.Context) bool {
	return errors.Is(cause, ctx.Err()) || strings.HasPrefix(text, "Starlark computation cancelled")
}

// dropCallee takes away the frame of a Starlark function that was called wrongly: the mistake is in the
// call, but the interpreter has entered the function already.
func dropCallee(stack starlark.CallStack, text string) (*starlark.CallFrame, starlark.CallStack) {
	if len(stack) < 2 || !strings.HasPrefix(text, "function "+stack.At(0).Name+" ") {
		return nil, stack
	}
	callee := stack.At(0)
	return &callee, stack[:len(stack)-1]
}

// nest gives an error with a place to the frames that were above it: of the caller, or of load statements.
func (l *Loader) nest(inner *diag.Error, cause error, pos diag.Pos, via []diag.Frame) *diag.Error {
	d := *inner
	loading := false
	if cause != nil && cause != error(inner) {
		if prefix, ok := strings.CutSuffix(cause.Error(), inner.Error()); ok {
			if loading = strings.HasPrefix(prefix, "cannot load "); !loading {
				d.Op = join(strings.TrimSuffix(prefix, ": "), inner.Op)
			}
		}
	}
	if d.Pos.IsZero() {
		d.Pos, d.Via = pos, append(slices.Clone(d.Via), via...)
		return &d
	}
	d.Via = slices.Clone(d.Via)
	add := func(f diag.Frame) {
		if f.Pos != d.Pos && !slices.ContainsFunc(d.Via, func(g diag.Frame) bool { return g.Pos == f.Pos }) {
			d.Via = append(d.Via, f)
		}
	}
	if !pos.IsZero() {
		name := l.enclosing(pos)
		if loading {
			name = "load"
		}
		add(diag.Frame{Pos: pos, Name: name})
	}
	for _, f := range via {
		add(f)
	}
	return &d
}

// enclosing is the name of the function around a place.
func (l *Loader) enclosing(pos diag.Pos) string {
	if n := l.enclosingDef(pos); n != nil {
		return n.Name.Name
	}
	return "<toplevel>"
}

func (l *Loader) enclosingDef(pos diag.Pos) (found *syntax.DefStmt) {
	f := l.file(pos.File)
	if f == nil || f.tree == nil {
		return nil
	}
	syntax.Walk(f.tree, func(n syntax.Node) bool {
		if def, ok := n.(*syntax.DefStmt); ok {
			start, end := def.Span()
			if int(start.Line) <= pos.Line && pos.Line <= int(end.Line) {
				found = def
			}
		}
		return true
	})
	return found
}

// several is more than one mistake in a file: all are shown, the first one gives the place.
type several []*diag.Error

func (s several) Unwrap() []error {
	errs := make([]error, len(s))
	for i, e := range s {
		errs[i] = e
	}
	return errs
}

func (s several) Error() string {
	first := *s[0]
	first.Pos = diag.Pos{}
	lines := []string{first.Error()}
	for i, e := range s[1:] {
		if i == 20 {
			lines = append(lines, fmt.Sprintf("and %d more", len(s)-1-i))
			break
		}
		lines = append(lines, e.Error())
	}
	return strings.Join(lines, "\n\t")
}

// All is the single mistakes of an error: several for a file with several unknown names.
func All(err error) []*diag.Error {
	var s several
	if errors.As(err, &s) {
		return s
	}
	var d *diag.Error
	if errors.As(err, &d) {
		return []*diag.Error{d}
	}
	return nil
}

// diagnoseSource is the error of a file that does not parse or resolve.
func (l *Loader) diagnoseSource(f *file, err error) error {
	one := func(p phase, pos syntax.Position, msg string) *diag.Error {
		d := &diag.Error{Pos: f.visible(toPos(pos), msg), Kind: diag.Workflow, Msg: msg}
		l.befriend(d, p, msg, nil)
		return d
	}
	var syn syntax.Error
	var list resolve.ErrorList
	switch {
	case errors.As(err, &syn):
		return one(parsing, syn.Pos, syn.Msg)
	case errors.As(err, &list):
	default:
		return &diag.Error{Pos: diag.Pos{File: f.Label}, Kind: diag.Workflow, Err: err}
	}
	var all several
	var fixes []string
	seen := make(map[diag.Pos]bool)
	for _, e := range list {
		pos := toPos(e.Pos)
		if seen[pos] { // a while at top level is one mistake, though the resolver says two things
			continue
		}
		seen[pos] = true
		d := one(resolving, e.Pos, e.Msg)
		if slices.ContainsFunc(all, func(o *diag.Error) bool { return o.Pos == d.Pos && o.Msg == d.Msg }) {
			continue // one mistake in a load, found wherever the name is used
		}
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b *diag.Error) int {
		return a.Pos.Line*10000 + a.Pos.Col - b.Pos.Line*10000 - b.Pos.Col
	})
	if len(all) == 1 {
		return all[0]
	}
	for _, d := range all {
		if d.Fix != "" && len(fixes) < 20 {
			fixes = append(fixes, fmt.Sprintf("line %d: %s", d.Pos.Line, d.Fix))
		}
	}
	return &diag.Error{Pos: all[0].Pos, Kind: diag.Workflow, Fix: strings.Join(fixes, "\n"), Err: all}
}

// visible moves the place of "got newline" from the start of the next line to the end of the line that
// lacks something.
func (f *file) visible(pos diag.Pos, msg string) diag.Pos {
	if pos.Col == 1 && pos.Line > 1 && (strings.HasPrefix(msg, "got newline") || strings.HasPrefix(msg, "got end of file")) {
		for n := pos.Line - 1; n >= 1; n-- {
			if text := strings.TrimRight(f.line(n), " \t\r"); text != "" {
				pos.Line, pos.Col = n, len([]rune(text))+1
				break
			}
		}
	}
	return pos
}

// line is the text of line n, "" outside of the file.
func (f *file) line(n int) string {
	if f == nil || n < 1 || n > len(f.lines) {
		return ""
	}
	return f.lines[n-1]
}
