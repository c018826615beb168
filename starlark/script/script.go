// Package script loads and runs workflow files.
package script

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"flow/starlark/diag"

	"go.starlark.net/starlark"
)

var errStub = errors.New("not built yet")

type Source struct{ Label, SHA256, Text string }

type Limits struct {
	Steps uint64
	Load  time.Duration
}

type Loader struct {
	Root, Library fs.FS
	Predeclared   starlark.StringDict
	Limits        Limits
	Print         func(pos diag.Pos, msg string)
	Locals        map[string]any
}

type Capability interface {
	starlark.Value
	Capability() string
}

// Digester is a value that knows its own identity: what Fingerprint puts in for it.
type Digester interface {
	starlark.Value
	Digest() (string, error)
}

func (l *Loader) Load(ctx context.Context, label string) (starlark.StringDict, error) {
	return nil, errStub
}
func (l *Loader) Call(ctx context.Context, what string, fn starlark.Callable, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return nil, errStub
}
func (l *Loader) Fingerprint(fn starlark.Value) (string, error) { return "", errStub }
func (l *Loader) Sources() []Source                             { return nil }

// Capture checks that fn captures no capability, freezes it, and remembers what froze it for messages.
func (l *Loader) Capture(what string, fn starlark.Value) error    { return errStub }
func Caller(t *starlark.Thread) (user diag.Pos, via []diag.Frame) { return }
func Context(t *starlark.Thread) context.Context                  { return context.Background() }
func LoaderOf(t *starlark.Thread) *Loader                         { return nil }
func CheckCapture(fn starlark.Value) error                        { return errStub }
func Error(t *starlark.Thread, op, msg, fix string) *diag.Error   { return nil }
func Dialect() string                                             { return "" }

// Standard is the names every workflow sees beside Starlark's own: json, math, struct.
func Standard() starlark.StringDict { return nil }

// Builtin makes a builtin whose Go panics become an error of kind Bug at the caller's line.
func Builtin(name string, fn func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)) *starlark.Builtin {
	return starlark.NewBuiltin(name, fn)
}
