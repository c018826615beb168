package builtins

// Declarations: plan values as Starlark sees them. They are pure, printable, hashable and comparable by
// what was declared, and their fields can be read. They never freeze what they were made from.

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"flow/starlark/value"
	"flow/workflows/plan"
)

// kind is what all declarations of one type share.
type kind[T any] struct {
	name   string                  // Starlark type and constructor: "lever"
	key    func(T) string          // equality
	digest func(T) (string, error) // identity in fingerprints; nil: key
	label  func(T) string          // what is printed inside the parentheses
	attrs  map[string]func(T) starlark.Value
}

// of is a value of the kind.
func (k *kind[T]) of(v T) *Decl[T] { return &Decl[T]{k, v} }

// list is a frozen list of values.
func (k *kind[T]) list(vs []T) starlark.Value {
	out := make([]starlark.Value, len(vs))
	for i, v := range vs {
		out[i] = k.of(v)
	}
	return frozen(out)
}

// orNone is the value, None where there is none.
func (k *kind[T]) orNone(v *T) starlark.Value {
	if v == nil {
		return starlark.None
	}
	return k.of(*v)
}

// Decl is a declared plan value.
type Decl[T any] struct {
	kind *kind[T]
	V    T
}

var _ starlark.Comparable = (*Decl[plan.Lever])(nil)
var _ starlark.HasAttrs = (*Decl[plan.Lever])(nil)

func (d *Decl[T]) String() string       { return d.kind.name + "(" + d.kind.label(d.V) + ")" }
func (d *Decl[T]) Type() string         { return d.kind.name }
func (d *Decl[T]) Freeze()              {} // immutable already
func (d *Decl[T]) Truth() starlark.Bool { return true }

// Hash is of what was declared, so that rebuilt values are one dict key.
func (d *Decl[T]) Hash() (uint32, error) {
	h := fnv.New32a()
	h.Write([]byte(d.kind.key(d.V)))
	return h.Sum32(), nil
}

// CompareSameType gives == and != only: declarations have no order.
func (d *Decl[T]) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	other, ok := y.(*Decl[T])
	same := ok && d.kind.key(d.V) == other.kind.key(other.V)
	switch op {
	case syntax.EQL:
		return same, nil
	case syntax.NEQ:
		return !same, nil
	}
	return false, fmt.Errorf("%s values have no order: compare a field of theirs", d.kind.name)
}

// Attr reads a field.
func (d *Decl[T]) Attr(name string) (starlark.Value, error) {
	if f, ok := d.kind.attrs[name]; ok {
		return f(d.V), nil
	}
	return nil, nil
}

// AttrNames is sorted.
func (d *Decl[T]) AttrNames() []string { return slices.Sorted(maps.Keys(d.kind.attrs)) }

// Digest is the value's identity inside a function's fingerprint.
func (d *Decl[T]) Digest() (string, error) {
	if d.kind.digest != nil {
		return d.kind.digest(d.V)
	}
	return plan.Sum([]string{d.kind.name, d.kind.key(d.V)}), nil
}

// into unpacks a declaration.
func into[T any](k *kind[T], to *T) value.Unpacker {
	return value.Func(k.name, func(v starlark.Value) error {
		d, ok := v.(*Decl[T])
		if !ok {
			return wrong(v, k.name)
		}
		*to = d.V
		return nil
	})
}

// wrong is value.Wrong, and says when only the call is missing.
func wrong(v starlark.Value, want string) error {
	if f, ok := v.(starlark.Callable); ok && f.Name() != "lambda" {
		return say(f.Name()+"()", "got the function %s, want the %s that it returns", f.Name(), want)
	}
	return value.Wrong(v, want)
}

// pointTo unpacks a declaration into a pointer that stays nil when nothing is given.
func pointTo[T any](k *kind[T], to **T) value.Unpacker {
	return value.Func(k.name, func(v starlark.Value) error {
		d, ok := v.(*Decl[T])
		if !ok {
			return wrong(v, k.name)
		}
		c := d.V
		*to = &c
		return nil
	})
}

// listOf unpacks a list of declarations; with single, one alone stands for a list of it.
func listOf[T any](k *kind[T], to *[]T, single bool) value.Unpacker {
	want := "list of " + k.name + "s"
	if single {
		want = k.name + " or list of " + k.name + "s"
	}
	return value.Func(want, func(v starlark.Value) error {
		if d, ok := v.(*Decl[T]); ok && single {
			*to = []T{d.V}
			return nil
		}
		items, err := elements(v)
		if err != nil {
			return value.Wrong(v, want)
		}
		out := make([]T, 0, len(items))
		for i, x := range items {
			d, ok := x.(*Decl[T])
			if !ok {
				return fmt.Errorf("element %d: got %s, want %s", i, x.Type(), k.name)
			}
			out = append(out, d.V)
		}
		*to = out
		return nil
	})
}

// elements are those of a list, tuple or other sequence that is no dict; the sequence is copied, never frozen.
func elements(v starlark.Value) ([]starlark.Value, error) {
	seq, ok := v.(starlark.Sequence)
	if _, dict := v.(starlark.IterableMapping); !ok || dict {
		return nil, value.Wrong(v, "list")
	}
	out := make([]starlark.Value, 0, seq.Len())
	it := seq.Iterate()
	defer it.Done()
	var x starlark.Value
	for it.Next(&x) {
		out = append(out, x)
	}
	return out, nil
}

// pairs are the items of a dict in its own order; the dict is copied, never frozen.
func pairs(v starlark.Value, want string) ([]starlark.Tuple, error) {
	d, ok := v.(starlark.IterableMapping)
	if !ok {
		return nil, value.Wrong(v, want)
	}
	return d.Items(), nil
}

// Small makers of frozen Starlark values.

func text(s string) starlark.Value { return starlark.String(s) }

// textOrNone is None for the empty string: not said, not measured.
func textOrNone(s string) starlark.Value {
	if s == "" {
		return starlark.None
	}
	return starlark.String(s)
}

func texts(s []string) starlark.Value {
	out := make([]starlark.Value, len(s))
	for i, x := range s {
		out[i] = starlark.String(x)
	}
	return frozen(out)
}

func frozen(items []starlark.Value) starlark.Value {
	l := starlark.NewList(items)
	l.Freeze()
	return l
}

func textDict(m map[string]string) starlark.Value {
	d := starlark.NewDict(len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		_ = d.SetKey(starlark.String(k), starlark.String(m[k])) // strings are hashable and the dict is ours
	}
	d.Freeze()
	return d
}

func floatOrNone(x *float64) starlark.Value {
	if x == nil {
		return starlark.None
	}
	return starlark.Float(*x)
}

func floats(xs []float64) starlark.Value {
	out := make([]starlark.Value, len(xs))
	for i, x := range xs {
		out[i] = starlark.Float(x)
	}
	return frozen(out)
}

// fromJSON is a JSON text as a Starlark value, None for "".
func fromJSON(s string) starlark.Value {
	if s == "" {
		return starlark.None
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var x any
	if err := dec.Decode(&x); err != nil {
		return starlark.String(s)
	}
	return jsonValue(x)
}

func jsonValue(x any) starlark.Value {
	switch x := x.(type) {
	case nil:
		return starlark.None
	case bool:
		return starlark.Bool(x)
	case string:
		return starlark.String(x)
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return starlark.MakeInt64(i)
		}
		f, _ := x.Float64()
		return starlark.Float(f)
	case []any:
		out := make([]starlark.Value, len(x))
		for i, e := range x {
			out[i] = jsonValue(e)
		}
		return frozen(out)
	case map[string]any:
		d := starlark.NewDict(len(x))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			_ = d.SetKey(starlark.String(k), jsonValue(x[k]))
		}
		d.Freeze()
		return d
	}
	return starlark.String(fmt.Sprint(x))
}

// quoteList is `"a", "b"` for messages.
func quoteList(s []string) string {
	q := make([]string, len(s))
	for i, x := range s {
		q[i] = fmt.Sprintf("%q", x)
	}
	return strings.Join(q, ", ")
}
