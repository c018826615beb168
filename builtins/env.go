package builtins

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/script"
	"flow/workflows/record"
)

// Env is what the builtins of one load share: the parameters, and what they may not import themselves.
type Env struct {
	Params   map[string]string // --set name=value, as typed
	StandIns bool              // check, help, lint, plan: a parameter without a value gets a typed stand-in

	// Located gives a path that was typed after --set as the workflow sees it; nil leaves it.
	Located func(path string) string

	// Decided and Hopeless read a group's record; "" is go on. nil makes stats.decided and stats.hopeless raise.
	Decided, Hopeless func(*record.Group) string
	// Rules are the other rules over a group's record, by the name that stats gives them.
	Rules map[string]func(*record.Group) string

	params  []*ParamInfo
	shapes  shapes
	methods map[string]map[string]Builtin // of each capability: made once, arms and records are many
}

// NewEnv is an environment without parameters.
func NewEnv() *Env { return &Env{Params: map[string]string{}, methods: methodsOf(Catalog())} }

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
		out[ns] = &namespace{ns, spaces[ns]}
	}
	return out
}

// namespace is the builtins behind a dot: confirm.log. Its type is its name, so that errors name it.
type namespace struct {
	name    string
	members starlark.StringDict
}

var _ starlark.HasAttrs = (*namespace)(nil)

func (n *namespace) String() string        { return n.name }
func (n *namespace) Type() string          { return n.name }
func (n *namespace) Freeze()               {} // builtins do not change
func (n *namespace) Truth() starlark.Bool  { return true }
func (n *namespace) Hash() (uint32, error) { return starlark.String(n.name).Hash() }
func (n *namespace) AttrNames() []string   { return n.members.Keys() }

// Attr is a builtin.
func (n *namespace) Attr(name string) (starlark.Value, error) { return n.members[name], nil }

// Digest is the name: what builtins do belongs to the version of flow.
func (n *namespace) Digest() (string, error) { return "namespace " + n.name, nil }

// envOf is the Env attached to a loader.
func envOf(l *script.Loader) *Env {
	if l != nil {
		if e, ok := l.Locals[envKey].(*Env); ok {
			return e
		}
	}
	return NewEnv()
}
