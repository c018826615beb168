package builtins

// Facts: records as Starlark sees them. A fact reads its fields by their JSON names and holds nothing
// that JSON does not, so that a result replayed from the journal is the same as the first time. What was
// not measured is None.

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"flow/workflows/plan"
)

// fact is a record struct with, perhaps, computed fields and methods.
type fact struct {
	kind  string
	v     reflect.Value // a struct
	env   *Env
	more  map[string]func() starlark.Value
	shown string                  // what is printed inside the parentheses
	hide  func(name string) error // why a field may not be read here; nil: all may
}

var (
	_ starlark.HasAttrs   = (*fact)(nil)
	_ starlark.Comparable = (*fact)(nil)
)

// newFact wraps a pointer to a record struct, or the struct itself.
func newFact(env *Env, kind string, x any) *fact {
	v := reflect.ValueOf(x)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return &fact{kind: kind, v: v, env: env}
}

// field is one field of a record type.
type field struct {
	index     int
	omitempty bool
}

// shapes remembers the fields of record types: gates read thousands of them.
type shapes struct{ of sync.Map }

func (s *shapes) fields(t reflect.Type) map[string]field {
	if m, ok := s.of.Load(t); ok {
		return m.(map[string]field)
	}
	m := map[string]field{}
	for i := range t.NumField() {
		name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if t.Field(i).IsExported() && name != "" && name != "-" {
			m[name] = field{i, strings.Contains(opts, "omitempty")}
		}
	}
	s.of.Store(t, m)
	return m
}

func (f *fact) String() string {
	if f.shown != "" {
		return f.kind + "(" + f.shown + ")"
	}
	b, err := json.Marshal(f.v.Interface())
	if err != nil {
		return f.kind + "(…)"
	}
	return f.kind + "(" + string(b) + ")"
}
func (f *fact) content() *fact       { return f }
func (f *fact) Type() string         { return f.kind }
func (f *fact) Freeze()              {} // nothing in it can change
func (f *fact) Truth() starlark.Bool { return true }
func (f *fact) Hash() (uint32, error) {
	return 0, fmt.Errorf("unhashable: %s", f.kind)
}

// CompareSameType compares content.
func (f *fact) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	same := false
	if o, ok := y.(interface{ content() *fact }); ok { // records embed theirs
		other := o.content()
		same = f.kind == other.kind && reflect.DeepEqual(f.v.Interface(), other.v.Interface())
	}
	switch op {
	case syntax.EQL:
		return same, nil
	case syntax.NEQ:
		return !same, nil
	}
	return false, fmt.Errorf("%s records have no order: compare a field of theirs", f.kind)
}

// Digest is the fact's content, for functions that captured one.
func (f *fact) Digest() (string, error) { return plan.Sum([]any{f.kind, f.v.Interface()}), nil }

// Attr reads a field.
func (f *fact) Attr(name string) (starlark.Value, error) {
	if f.hide != nil {
		if err := f.hide(name); err != nil {
			return nil, err
		}
	}
	if get, ok := f.more[name]; ok {
		return get(), nil
	}
	if x, ok := f.env.shapes.fields(f.v.Type())[name]; ok {
		return f.field(name, f.v.Field(x.index), x.omitempty), nil
	}
	return nil, nil
}

// AttrNames is sorted.
func (f *fact) AttrNames() []string {
	var out []string
	for n := range f.more {
		out = append(out, n)
	}
	for n := range f.env.shapes.fields(f.v.Type()) {
		if f.more[n] == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// field is the value of one. An optional text that is empty is None; only a case may be "", the only one.
func (f *fact) field(name string, v reflect.Value, omitempty bool) starlark.Value {
	if v.Kind() == reflect.String && v.Len() == 0 && omitempty && name != "case" {
		return starlark.None
	}
	return f.value(v)
}

// value is a field's content; structs become facts.
func (f *fact) value(v reflect.Value) starlark.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return starlark.None
		}
		return f.value(v.Elem())
	case reflect.String:
		return starlark.String(v.String())
	case reflect.Bool:
		return starlark.Bool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return starlark.MakeInt64(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return starlark.MakeUint64(v.Uint())
	case reflect.Float32, reflect.Float64:
		return starlark.Float(v.Float())
	case reflect.Slice:
		out := make([]starlark.Value, v.Len())
		for i := range out {
			out[i] = f.value(v.Index(i))
		}
		return frozen(out)
	case reflect.Map:
		keys := make([]string, 0, v.Len())
		for _, k := range v.MapKeys() {
			keys = append(keys, k.String())
		}
		slices.Sort(keys)
		d := starlark.NewDict(len(keys))
		for _, k := range keys {
			_ = d.SetKey(starlark.String(k), f.value(v.MapIndex(reflect.ValueOf(k))))
		}
		d.Freeze()
		return d
	case reflect.Struct:
		return &fact{kind: strings.ToLower(v.Type().Name()), v: v, env: f.env}
	}
	return starlark.None
}
