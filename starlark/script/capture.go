package script

import (
	"fmt"

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
	names, err := captured(fn)
	if err != nil {
		return err
	}
	fn.Freeze()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen == nil {
		l.frozen = make(map[string]string)
	}
	for _, n := range names {
		if l.frozen[n] == "" {
			l.frozen[n] = what
		}
	}
	return nil
}

func captured(fn starlark.Value) (names []string, err error) {
	w := captureWalk{seen: make(map[starlark.Value]bool)}
	if c := w.find(fn); c != "" {
		where := ""
		if f, ok := fn.(*starlark.Function); ok {
			where = " (" + position(f).String() + ")"
		}
		return nil, &diag.Error{Kind: diag.Workflow, Msg: fmt.Sprintf("%s%s captures %s", functionName(fn), where, c),
			Fix: fmt.Sprintf("read what the function needs from %s before, and let it capture that", c)}
	}
	return w.names, nil
}

func functionName(v starlark.Value) string {
	if c, ok := v.(starlark.Callable); ok {
		return c.Name()
	}
	return v.Type()
}

type captureWalk struct {
	seen  map[starlark.Value]bool
	names []string // of captured variables
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
			w.names = append(w.names, b.Name)
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
