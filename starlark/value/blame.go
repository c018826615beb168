package value

import (
	"strings"

	"go.starlark.net/starlark"
)

// Who wrote the wrong argument. A function of the library hands on what it was given: screen(min_efect = …) fails
// in group(), which the user never called. So the error is told of the library's function that the user did call,
// and of its own parameter, where the value can be followed back to one.

// called is a function of the library as the user called it.
type called struct {
	fn    *starlark.Function
	param string // of fn; "" where the value is among what fn passes on as it is
}

// blame follows an argument from the builtin that runs on t out to the library's function that the user called:
// a value, and the name of the parameter that got it. It is nil where the user called the builtin, and where the
// library made the value up.
func blame(t *starlark.Thread, name string, v starlark.Value) *called {
	if t == nil {
		return nil
	}
	var at *called
	for depth := 1; depth < t.CallStackDepth(); depth++ {
		frame := t.DebugFrame(depth)
		fn, ok := frame.Callable().(*starlark.Function)
		if !ok || !strings.HasPrefix(fn.Position().Filename(), "@flow//") {
			break
		}
		param, found, passed := handedOn(frame, fn, name, v)
		if !found {
			return nil
		}
		at = &called{fn: fn, param: param}
		if passed {
			at.param = ""
			continue
		}
		name = param
	}
	return at
}

// handedOn finds the parameter of a library's function that holds v: the one of that name, else another, else an
// entry of its **kwargs.
func handedOn(frame starlark.DebugFrame, fn *starlark.Function, name string, v starlark.Value) (param string, found, passed bool) {
	n := fn.NumParams()
	if fn.HasKwargs() {
		n--
		if _, x := frame.Local(n); x != nil {
			if d, ok := x.(*starlark.Dict); ok {
				if got, ok, _ := d.Get(starlark.String(name)); ok && same(got, v) {
					return name, true, true
				}
			}
		}
	}
	if fn.HasVarargs() {
		n--
	}
	for i := range n {
		p, _ := fn.Param(i)
		_, x := frame.Local(i)
		if !same(x, v) {
			continue
		}
		if p == name {
			return p, true, false
		}
		if !found {
			param, found = p, true
		}
	}
	return param, found, false
}

// same says whether two values are one: of one type, and equal.
func same(a, b starlark.Value) bool {
	if a == nil || b == nil || a == starlark.None || a.Type() != b.Type() {
		return false
	}
	eq, err := starlark.Equal(a, b)
	return err == nil && eq
}

// signature is the form of a library's function, with what it passes on to a builtin under more.
func (c *called) signature() Signature {
	s := Signature{Name: c.fn.Name()}
	n := c.fn.NumParams()
	if c.fn.HasKwargs() {
		n--
		s.Kwargs = new([]starlark.Tuple)
	}
	if c.fn.HasVarargs() {
		n--
		s.Args = new(starlark.Tuple)
	}
	for i := range n {
		name, _ := c.fn.Param(i)
		p := Param{Name: name, Required: true}
		if def := c.fn.ParamDefault(i); def != nil {
			p.Required, p.Default = false, def.String()
		}
		s.Params = append(s.Params, p)
	}
	s.Positional = n
	return s
}
