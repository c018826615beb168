// Package value is how builtins take and give values: signatures that unpack arguments and explain
// themselves, and the small values of the language (duration, record, table).
//
// Its opinion: a wrong call is the commonest error of all, so it must say what came, what was wanted, and how
// the call is written. starlark.UnpackArgs refuses an int for a float64, loses typed causes and suggests
// from half of the parameters; this package replaces it. Not measured is None, never 0; a number that is not
// finite is an error at the border. Neighbours: starlark/script places and shows the errors.
package value

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"flow/starlark/diag"

	"go.starlark.net/starlark"
)

// Param is one parameter. The order of a signature's Params is the order of the reference page.
type Param struct {
	Name     string
	Required bool
	Default  string   // as written in the reference: {}, "5s", None. With None, None may be passed
	Into     Unpacker // nil accepts anything and drops it
	Kind     string   // in messages and the reference; "" is Into.Want()
	Example  string   // in messages: want dict such as {"-ub": 1024}
	Doc      string
}

// Signature is what a builtin takes, for one call: Into points to that call's variables.
type Signature struct {
	Name       string
	Positional int // how many of Params may be given by position
	Params     []Param
	Args       *starlark.Tuple   // takes further positional arguments; nil refuses them
	Kwargs     *[]starlark.Tuple // takes unknown keywords, in order; nil refuses them
}

// Unpack fills the variables. Parameters that were not given leave theirs alone, so set defaults before.
// The error is a *diag.Error at the line of the call, with the call's form as its fix.
func (s Signature) Unpack(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) error {
	given := make([]bool, len(s.Params))
	n := min(len(args), s.Positional)
	if len(args) > n {
		if s.Args == nil {
			return s.wrong(t, -1, s.tooMany(len(args)), nil)
		}
		*s.Args = slices.Clone(args[n:])
	}
	for i, v := range args[:n] {
		given[i] = true
		if err := s.set(t, i, v); err != nil {
			return err
		}
	}
	for _, kv := range kwargs {
		name := string(kv[0].(starlark.String))
		i := slices.IndexFunc(s.Params, func(p Param) bool { return p.Name == name })
		switch {
		case i < 0 && s.Kwargs != nil:
			*s.Kwargs = append(*s.Kwargs, kv)
			continue
		case i < 0:
			return s.unknown(t, name, kv[1])
		case given[i]:
			return s.wrong(t, i, fmt.Sprintf("parameter %q is given twice", name), nil)
		}
		given[i] = true
		if err := s.set(t, i, kv[1]); err != nil {
			return err
		}
	}
	var missing []string
	first := -1
	for i, p := range s.Params {
		if p.Required && !given[i] {
			missing = append(missing, fmt.Sprintf("%q", p.Name))
			if first < 0 {
				first = i
			}
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return s.wrong(t, first, "parameter "+missing[0]+" is missing", nil)
	}
	return s.wrong(t, first, "parameters "+strings.Join(missing, ", ")+" are missing", nil)
}

func (s Signature) set(t *starlark.Thread, i int, v starlark.Value) error {
	p := s.Params[i]
	if p.Into == nil || v == starlark.None && !p.Required && p.Default == "None" {
		return nil
	}
	err := p.Into.Unpack(v)
	if err == nil {
		return nil
	}
	if m, ok := err.(*Mismatch); ok {
		c := *m
		if p.Kind != "" && m.Kind {
			c.Want = p.Kind
		}
		if p.Example != "" {
			c.Want, _, _ = strings.Cut(c.Want, " such as ")
			c.Want += " such as " + p.Example
		}
		err = &c
	}
	if at := blame(t, p.Name, v); at != nil {
		theirs := at.signature()
		if k := slices.IndexFunc(theirs.Params, func(p Param) bool { return p.Name == at.param }); k >= 0 {
			return theirs.wrong(t, k, fmt.Sprintf("for parameter %q", at.param), err)
		}
		theirs.Params = append(theirs.Params, p) // it is passed on as it is
		return theirs.wrong(t, len(theirs.Params)-1, fmt.Sprintf("for parameter %q", p.Name), err)
	}
	return s.wrong(t, i, fmt.Sprintf("for parameter %q", p.Name), err)
}

func (s Signature) tooMany(got int) string {
	switch s.Positional {
	case 0:
		return fmt.Sprintf("got %d arguments without a name, want none", got)
	case 1:
		return fmt.Sprintf("got %d arguments without a name, want only %s", got, s.Params[0].Name)
	}
	return fmt.Sprintf("got %d arguments without a name, want at most %d", got, s.Positional)
}

func (s Signature) unknown(t *starlark.Thread, name string, v starlark.Value) error {
	all, shown := s.Params, s
	if at := blame(t, name, v); at != nil {
		shown = at.signature()
		all = append(slices.Clone(shown.Params), s.Params...)
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	msg := fmt.Sprintf("there is no parameter %q", name)
	near := diag.Nearest(name, names)
	if near == "" {
		return shown.wrong(t, -1, msg, nil)
	}
	i := slices.Index(names, near)
	if i >= len(shown.Params) { // it is passed on to this builtin
		shown.Params, i = append(shown.Params, all[i]), len(shown.Params)
	}
	return shown.wrong(t, i, msg+fmt.Sprintf(" (did you mean %q?)", near), nil)
}

// wrong is the error of a call; i is the parameter to show in the form, -1 for none.
func (s Signature) wrong(t *starlark.Thread, i int, msg string, cause error) error {
	pos, via := caller(t)
	e := &diag.Error{Pos: pos, Via: via, Kind: diag.Workflow, Op: s.Name, Msg: msg, Err: cause, Fix: "call it as " + s.form(i)}
	var inner *diag.Error
	if errors.As(cause, &inner) {
		if inner.Fix != "" {
			e.Fix = inner.Fix
		}
		if kind, ok := diag.KindOf(inner); ok {
			e.Kind = kind
		}
	}
	return e
}

// String is the whole form of a call: lever(name, env={}, args={}).
func (s Signature) String() string { return s.render(func(int) bool { return true }) }

// form is the form of a call in one line, with parameter i in it and the less important left out.
func (s Signature) form(i int) string {
	const width = 72
	if all := s.String(); utf8.RuneCountInString(all) <= width {
		return all
	}
	show := make([]bool, len(s.Params))
	keep := func(k int) bool { return show[k] }
	for k, p := range s.Params {
		show[k] = k == i || k < s.Positional && p.Required || p.Required
	}
	for k := range s.Params {
		if !show[k] {
			show[k] = true
			if utf8.RuneCountInString(s.render(keep)) > width {
				show[k] = false
				break
			}
		}
	}
	return s.render(keep)
}

func (s Signature) render(show func(i int) bool) string {
	var parts []string
	left := false
	for i, p := range s.Params {
		switch {
		case !show(i):
			left = true
		case i < s.Positional && p.Required:
			parts = append(parts, p.Name)
		case p.Required:
			parts = append(parts, p.Name+"=…")
		case p.Default == "":
			parts = append(parts, p.Name+"=None")
		default:
			parts = append(parts, p.Name+"="+p.Default)
		}
	}
	if s.Args != nil {
		parts = append(parts, "*args")
	}
	if s.Kwargs != nil {
		parts = append(parts, "**kwargs")
	}
	if left {
		parts = append(parts, "…")
	}
	return s.Name + "(" + strings.Join(parts, ", ") + ")"
}

// caller is the innermost place outside the library, as script.Caller: written again because the arrow
// between the packages points neither way.
func caller(t *starlark.Thread) (user diag.Pos, via []diag.Frame) {
	if t == nil {
		return diag.Pos{}, nil
	}
	var frames []diag.Frame
	at := -1
	for _, f := range slices.Backward(t.CallStack()) {
		if !f.Pos.IsValid() || f.Pos.Filename() == "<builtin>" {
			continue
		}
		if at < 0 && !strings.HasPrefix(f.Pos.Filename(), "@flow//") {
			at = len(frames)
		}
		frames = append(frames, diag.Frame{Pos: diag.Pos{File: f.Pos.Filename(), Line: int(f.Pos.Line), Col: int(f.Pos.Col)}, Name: f.Name})
	}
	if len(frames) == 0 {
		return diag.Pos{}, nil
	}
	at = max(at, 0)
	user = frames[at].Pos // before Delete moves the others
	return user, slices.Delete(frames, at, at+1)
}
