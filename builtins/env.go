package builtins

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"flow/starlark/script"
	"flow/workflows/record"
)

// Env is what the builtins of one load share: the parameters, and what they may not import themselves.
type Env struct {
	Params   map[string]string // --set name=value, as typed
	StandIns bool              // check, help, lint, plan: a parameter without a value gets a typed stand-in

	// Decided and Hopeless read a group's record; "" is go on. nil makes stats.decided and stats.hopeless raise.
	Decided, Hopeless func(*record.Group) string

	params []*ParamInfo
}

// NewEnv is an environment without parameters.
func NewEnv() *Env { return &Env{Params: map[string]string{}} }

// envKey is the place of the Env among a loader's locals.
const envKey = "builtins"

// Attach gives a loader the language.
func (e *Env) Attach(l *script.Loader) {
	if l.Predeclared == nil {
		l.Predeclared = starlark.StringDict{}
	}
	maps.Copy(l.Predeclared, script.Standard())
	maps.Copy(l.Predeclared, e.predeclared(Catalog()))
	if l.Locals == nil {
		l.Locals = map[string]any{}
	}
	l.Locals[envKey] = e
}

// predeclared builds the names of a catalog. A name that stands twice is a bug.
func (e *Env) predeclared(catalog []Builtin) starlark.StringDict {
	out := starlark.StringDict{}
	spaces := map[string]starlark.StringDict{}
	for _, b := range catalog {
		ns, member, dotted := strings.Cut(b.Name, ".")
		if dotted && isCapability(ns) {
			continue
		}
		into, name := out, b.Name
		if dotted {
			if spaces[ns] == nil {
				spaces[ns] = starlark.StringDict{}
			}
			into, name = spaces[ns], member
		}
		if _, twice := into[name]; twice {
			panic(fmt.Sprintf("builtin %s stands twice in the catalog", b.Name))
		}
		into[name] = b.bind(e, nil)
	}
	for _, ns := range slices.Sorted(maps.Keys(spaces)) {
		if _, twice := out[ns]; twice {
			panic(fmt.Sprintf("builtin %s is a function and a namespace", ns))
		}
		m := &starlarkstruct.Module{Name: ns, Members: spaces[ns]}
		m.Freeze()
		out[ns] = m
	}
	return out
}

// envOf is the Env attached to a loader.
func envOf(l *script.Loader) *Env {
	if l != nil {
		if e, ok := l.Locals[envKey].(*Env); ok {
			return e
		}
	}
	return NewEnv()
}
