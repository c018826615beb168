package script

import (
	"fmt"
	"slices"

	"flow/starlark/diag"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// Capability is a value that acts: session, arm, process. It has no identity, belongs to one call, and may
// not be captured by a function that outlives it.
type Capability interface {
	starlark.Value
	Capability() string // what it is called in messages: "session"
}

// CheckCapture refuses a function that holds a capability in its captured variables or defaults, also inside
// lists, dicts, structs and other functions. The error has no place: it gets the line of the builtin that
// declares the function. What a variable holds is looked at now; Fingerprint looks again when it is used.
func CheckCapture(fn starlark.Value) error {
	_, err := captured(fn)
	return err
}

// Capture is CheckCapture for a function that will run elsewhere: it also freezes fn with everything it
// captured, and remembers who did that ("gate no_swap_growth"), so that the error of a later append can say so.
func (l *Loader) Capture(what string, fn starlark.Value) error {
	vars, err := captured(fn)
	if err != nil {
		return err
	}
	fn.Freeze()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range vars {
		v := capturedVar{b.Name, toPos(b.Pos), what}
		if !slices.ContainsFunc(l.frozen, func(w capturedVar) bool { return w.pos == v.pos }) { // the first froze it
			l.frozen = append(l.frozen, v)
		}
	}
	return nil
}

// capturedVar is a variable, where it is bound, and what captured and so froze its value.
type capturedVar struct {
	name string
	pos  diag.Pos
	by   string
}

// freezer is what captured the variable of that name that is seen from a place; "" when nothing did.
func (l *Loader) freezer(name string, at diag.Pos) string {
	l.mu.Lock()
	vars := slices.Clone(l.frozen)
	l.mu.Unlock()
	def := l.enclosingDef(at)
	for _, v := range vars {
		if v.name == name && v.pos.File == at.File && l.enclosingDef(v.pos) == def {
			return v.by
		}
	}
	return ""
}

func captured(fn starlark.Value) (vars []starlark.Binding, err error) {
	w := captureWalk{seen: make(map[starlark.Value]bool)}
	if c := w.find(fn); c != "" {
		where := ""
		if f, ok := fn.(*starlark.Function); ok {
			where = " (" + position(f).String() + ")"
		}
		return nil, &diag.Error{Kind: diag.Workflow, Msg: fmt.Sprintf("%s%s captures %s", functionName(fn), where, c),
			Fix: fmt.Sprintf("read what the function needs from %s before, and let it capture that", c)}
	}
	return w.vars, nil
}

func functionName(v starlark.Value) string {
	if c, ok := v.(starlark.Callable); ok {
		return c.Name()
	}
	return v.Type()
}

type captureWalk struct {
	seen map[starlark.Value]bool
	vars []starlark.Binding // captured
}

// find is the name of the first capability in v.
func (w *captureWalk) find(v starlark.Value) string {
	if v == nil {
		return ""
	}
	if c, ok := v.(Capability); ok {
		return c.Capability()
	}
	switch v.(type) { // values of pointer type only: others may not be comparable
	case *starlark.Function, *starlark.List, *starlark.Dict, *starlark.Builtin, *starlarkstruct.Struct:
		if w.seen[v] {
			return ""
		}
		w.seen[v] = true
	}
	var inside []starlark.Value
	switch v := v.(type) {
	case *starlark.Function:
		for i := range v.NumFreeVars() {
			b, x := v.FreeVar(i)
			w.vars = append(w.vars, b)
			inside = append(inside, x)
		}
		for i := range v.NumParams() {
			inside = append(inside, v.ParamDefault(i))
		}
	case *starlark.Builtin:
		inside = append(inside, v.Receiver())
	case *starlark.List:
		for i := range v.Len() {
			inside = append(inside, v.Index(i))
		}
	case starlark.Tuple:
		inside = v
	case *starlark.Dict:
		for _, kv := range v.Items() {
			inside = append(inside, kv...)
		}
	case *starlarkstruct.Struct:
		for _, name := range v.AttrNames() {
			x, _ := v.Attr(name)
			inside = append(inside, x)
		}
	}
	for _, x := range inside {
		if c := w.find(x); c != "" {
			return c
		}
	}
	return ""
}
