package builtins

// The catalog: every builtin, in the order of its family, named once. A builtin is declared by the
// signature that its function unpacks; binding, defaults, the reference page and the fix line of its
// errors all come from it.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/starlark/value"
)

// Builtin is one function of the language. A dotted name is a member of a namespace ("confirm.log") or a
// method of a capability ("session.run", "arm.launch", "process.stop").
type Builtin struct {
	Name    string
	Doc     string // one sentence, then more if needed
	Example string // runs as it stands: at a file's top level, or in main or a body for methods
	Func    func(*Call) (starlark.Value, error)
}

// Family is the builtins of one file.
type Family struct {
	Name     string
	Doc      string
	Builtins []Builtin
}

// Families is the catalog by family, in the order of the reference.
func Families() []Family {
	return []Family{
		paramFamily(), engineFamily(), leverFamily(), confirmFamily(), workloadFamily(), arrivalFamily(), metricFamily(),
		gateFamily(), findingFamily(), stopFamily(), collectorFamily(), groupFamily(), settleFamily(), hostFamily(), resourceFamily(),
		sessionFamily(), armFamily(), processFamily(), recordFamily(),
		statsFamily(), numberFamily(), regexpFamily(),
	}
}

// Catalog is every builtin.
func Catalog() []Builtin {
	var out []Builtin
	for _, f := range Families() {
		out = append(out, f.Builtins...)
	}
	return out
}

// Lookup finds a builtin by its name.
func Lookup(name string) (Builtin, bool) {
	for _, b := range Catalog() {
		if b.Name == name {
			return b, true
		}
	}
	return Builtin{}, false
}

// Call is one call of a builtin.
type Call struct {
	Thread *starlark.Thread
	Name   string
	Recv   starlark.Value // of a method; nil for a function and while described
	Args   starlark.Tuple
	Kwargs []starlark.Tuple

	env      *Env
	describe *value.Signature
}

// errDescribed ends a call that was only made to learn its signature.
var errDescribed = errors.New("described")

// Unpack binds the arguments. It must be the first thing that a builtin does. The first positional
// parameters may be given by place, the others by keyword only.
func (c *Call) Unpack(positional int, params ...value.Param) error {
	return c.unpack(value.Signature{Name: c.Name, Positional: positional, Params: params})
}

func (c *Call) unpack(s value.Signature) error {
	for i, p := range s.Params {
		if !p.Required && p.Into != nil {
			s.Params[i].Into = value.Optional(p.Into)
		}
	}
	if c.describe != nil {
		*c.describe = s
		return errDescribed
	}
	return s.Unpack(c.Thread, c.Args, c.Kwargs)
}

// Pos is the user's line.
func (c *Call) Pos() diag.Pos {
	p, _ := script.Caller(c.Thread)
	return p
}

// Errorf is a mistake at the user's line, with what to write instead.
func (c *Call) Errorf(fix, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	return script.Error(c.Thread, opOf(c.Name, msg), msg, fix)
}

// opOf is the operation to name before a message: none when the message begins with it.
func opOf(op, msg string) string {
	if strings.HasPrefix(msg, op+" ") {
		return ""
	}
	return op
}

// wrap puts the user's line on an error that has none.
func (c *Call) wrap(err error) error {
	if err == nil {
		return nil
	}
	var d *diag.Error
	if errors.As(err, &d) && !d.Pos.IsZero() {
		return err
	}
	if errors.As(err, &d) {
		located := *d
		located.Pos = c.Pos()
		if located.Op == "" {
			located.Op = c.Name
		}
		return &located
	}
	e := script.Error(c.Thread, c.Name, "", "")
	e.Err = err
	return e
}

func (c *Call) loader() *script.Loader   { return script.LoaderOf(c.Thread) }
func (c *Call) context() context.Context { return script.Context(c.Thread) }

// Signature is how the builtin is called, learnt from its own Unpack.
func (b Builtin) Signature() value.Signature {
	var s value.Signature
	_, err := b.Func(&Call{Name: b.Name, describe: &s})
	if !errors.Is(err, errDescribed) {
		panic(fmt.Sprintf("builtin %s: Unpack is not the first thing it does", b.Name)) // a bug
	}
	return s
}

// bind makes the Starlark function of a builtin.
func (b Builtin) bind(env *Env, recv starlark.Value) *starlark.Builtin {
	return script.Builtin(b.Name, func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return b.Func(&Call{Thread: t, Name: b.Name, Recv: recv, Args: args, Kwargs: kwargs, env: env})
	})
}

// methodsOf is the builtins of each capability, by name without its prefix.
func methodsOf(catalog []Builtin) map[string]map[string]Builtin {
	out := map[string]map[string]Builtin{}
	for _, b := range catalog {
		if c, m, ok := strings.Cut(b.Name, "."); ok && isCapability(c) {
			if out[c] == nil {
				out[c] = map[string]Builtin{}
			}
			out[c][m] = b
		}
	}
	return out
}

// isCapability says whether a namespace is handed to functions, and so is no predeclared name.
func isCapability(ns string) bool {
	return slices.Contains([]string{"session", "arm", "process", "record"}, ns)
}
