package startest

import (
	"fmt"
	"regexp"
	"strings"

	"flow/starlark/diag"
	"flow/starlark/script"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// Assert is the module assert: eq, ne, lt, true, contains, fails. A check that does not hold ends the test
// at its line.
func Assert() *starlarkstruct.Module {
	m := &starlarkstruct.Module{Name: "assert", Members: starlark.StringDict{}}
	for name, f := range map[string]func(c check) (starlark.Value, error){
		"eq":       func(c check) (starlark.Value, error) { return c.compare(syntax.EQL, "want") },
		"ne":       func(c check) (starlark.Value, error) { return c.compare(syntax.NEQ, "want other than") },
		"lt":       func(c check) (starlark.Value, error) { return c.compare(syntax.LT, "want less than") },
		"true":     check.isTrue,
		"contains": check.contains,
		"fails":    check.fails,
	} {
		op := "assert." + name
		m.Members[name] = script.Builtin(op, func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			if len(kwargs) > 0 {
				return nil, script.Error(t, op, "takes no keywords", "")
			}
			return f(check{t, op, args})
		})
	}
	return m
}

// check is one call of an assertion.
type check struct {
	thread *starlark.Thread
	op     string
	args   starlark.Tuple
}

func (c check) failed(format string, args ...any) (starlark.Value, error) {
	return nil, script.Errorf(c.thread, c.op, format, args...)
}

func (c check) compare(op syntax.Token, want string) (starlark.Value, error) {
	if len(c.args) != 2 {
		return c.failed("got %d arguments, want 2", len(c.args))
	}
	ok, err := starlark.Compare(op, c.args[0], c.args[1])
	if err != nil {
		return c.failed("%v", err)
	}
	if !ok {
		return c.failed("got %v, %s %v", c.args[0], want, c.args[1])
	}
	return starlark.None, nil
}

func (c check) isTrue() (starlark.Value, error) {
	if len(c.args) == 0 || len(c.args) > 2 {
		return c.failed("got %d arguments, want a condition and perhaps a message", len(c.args))
	}
	if c.args[0].Truth() {
		return starlark.None, nil
	}
	if len(c.args) == 2 {
		if s, ok := starlark.AsString(c.args[1]); ok {
			return c.failed("%s", s)
		}
		return c.failed("%v", c.args[1])
	}
	return c.failed("got %v, want something true", c.args[0])
}

func (c check) contains() (starlark.Value, error) {
	if len(c.args) != 2 {
		return c.failed("got %d arguments, want 2", len(c.args))
	}
	v, err := starlark.Binary(syntax.IN, c.args[1], c.args[0])
	if err != nil {
		return c.failed("%v", err)
	}
	if !v.Truth() {
		return c.failed("%v is not in %v", c.args[1], c.args[0])
	}
	return starlark.None, nil
}

// fails calls a function without arguments, wants an error whose full text, frames and fix included, matches
// the pattern, and gives that text.
func (c check) fails() (starlark.Value, error) {
	if len(c.args) != 2 {
		return c.failed("got %d arguments, want a function and a pattern", len(c.args))
	}
	fn, ok := c.args[0].(starlark.Callable)
	if !ok {
		return c.failed("got %s, want a function", c.args[0].Type())
	}
	pattern, ok := starlark.AsString(c.args[1])
	if !ok {
		return c.failed("got %s, want a pattern", c.args[1].Type())
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return c.failed("%v", err)
	}
	l := script.LoaderOf(c.thread)
	if l == nil {
		l = &script.Loader{}
	}
	_, err = l.Call(script.Context(c.thread), "", fn, nil, nil)
	if err == nil {
		return c.failed("%s raised nothing, want %q", fn.Name(), pattern)
	}
	text := diag.Format(err)
	if !re.MatchString(text) {
		return c.failed("%s raised %q, want %q", fn.Name(), strings.TrimSpace(text), pattern)
	}
	return starlark.String(fmt.Sprint(text)), nil
}
