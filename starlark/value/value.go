// Package value unpacks arguments and holds the small values of the language.
package value

import (
	"errors"
	"time"

	"go.starlark.net/starlark"
)

var errStub = errors.New("not built yet")

// Unpacker turns one Starlark value into the Go variable it was made with.
type Unpacker interface {
	Unpack(v starlark.Value) error // error says "got string, want int"
	Want() string                  // "int", "list of strings", "duration such as \"300ms\""
}

type Param struct {
	Name     string
	Required bool
	Default  string   // as written in docs
	Into     Unpacker // nil accepts anything and drops it
	Kind     string   // shown in messages and reference; empty: Into.Want()
	Example  string   // for messages: want dict such as {"-ub": 1024}
	Doc      string
}

type Signature struct {
	Name       string
	Positional int
	Params     []Param
	Args       *starlark.Tuple   // receives extra positional arguments (*args); nil refuses them
	Kwargs     *[]starlark.Tuple // receives unknown keywords (**kwargs); nil refuses them
}

func (s Signature) Unpack(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) error {
	return errStub
}

// String is how it is called: lever(name, env={}, args={}, …).
func (s Signature) String() string { return "" }

type stub string

func (stub) Unpack(starlark.Value) error { return errStub }
func (s stub) Want() string              { return string(s) }

func String(into *string) Unpacker                   { return stub("string") }
func Strings(into *[]string) Unpacker                { return stub("list of strings") }
func Int(into *int) Unpacker                         { return stub("int") }
func Int64(into *int64) Unpacker                     { return stub("int") }
func Float(into *float64) Unpacker                   { return stub("number") }
func Bool(into *bool) Unpacker                       { return stub("bool") }
func Duration(into *time.Duration) Unpacker          { return stub("duration") }
func Percent(into *float64) Unpacker                 { return stub("percent") } // ratio: "1%" is 0.01
func Size(into *int64) Unpacker                      { return stub("size") }    // bytes
func OneOf(into *string, choices ...string) Unpacker { return stub("one of") }
func Dict(into *map[string]string) Unpacker          { return stub("dict") }  // numbers rendered
func JSON(into *string) Unpacker                     { return stub("value") } // canonical JSON text
func Callable(into *starlark.Callable) Unpacker      { return stub("function") }
func Any(into *starlark.Value) Unpacker              { return stub("value") }

// Optional also accepts None, which leaves the target as it is.
func Optional(u Unpacker) Unpacker { return u }

// Maybe sets *into to nil for None and to a new value otherwise: Maybe(&limit, Float).
func Maybe[T any](into **T, of func(*T) Unpacker) Unpacker { return stub("") }

// List calls each for every element; want names an element: "lever".
func List(want string, each func(i int, v starlark.Value) error) Unpacker { return stub(want) }

// Func is an unpacker from a function.
func Func(want string, f func(v starlark.Value) error) Unpacker { return stub(want) }

func ParseDuration(s string) (time.Duration, error) { return 0, errStub }
func ParsePercent(s string) (float64, error)        { return 0, errStub }
func ParseSize(s string) (int64, error)             { return 0, errStub }
func Fixed(x float64, digits int) string            { return "" }

func FromGo(x any) (starlark.Value, error)    { return nil, errStub }
func ToGo(v starlark.Value) (any, error)      { return nil, errStub }
func ToJSON(v starlark.Value) (string, error) { return "", errStub }
