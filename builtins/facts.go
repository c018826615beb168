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

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"flow/workflows/plan"
)

// fact is a record struct with, perhaps, computed fields and methods.
type fact struct {
	kind  string
	v     reflect.Value // a struct
	more  map[string]func() starlark.Value
	shown string // what is printed inside the parentheses
}

var (
	_ starlark.HasAttrs   = (*fact)(nil)
	_ starlark.Comparable = (*fact)(nil)
)

// newFact wraps a pointer to a record struct, or the struct itself.
func newFact(kind string, x any) *fact {
	v := reflect.ValueOf(x)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return &fact{kind: kind, v: v}
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
func (f *fact) Type() string         { return f.kind }
func (f *fact) Freeze()              {} // nothing in it can change
func (f *fact) Truth() starlark.Bool { return true }
func (f *fact) Hash() (uint32, error) {
	return 0, fmt.Errorf("unhashable: %s", f.kind)
}

// CompareSameType compares content.
func (f *fact) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	other, ok := y.(*fact)
	same := ok && f.kind == other.kind && reflect.DeepEqual(f.v.Interface(), other.v.Interface())
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
	if get, ok := f.more[name]; ok {
		return get(), nil
	}
	t := f.v.Type()
	for i := range t.NumField() {
		if n, omit, ok := jsonName(t.Field(i)); ok && n == name {
			return fieldValue(n, f.v.Field(i), omit), nil
		}
	}
	return nil, nil
}

// AttrNames is sorted.
func (f *fact) AttrNames() []string {
	var out []string
	for n := range f.more {
		out = append(out, n)
	}
	t := f.v.Type()
	for i := range t.NumField() {
		if n, _, ok := jsonName(t.Field(i)); ok && f.more[n] == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func jsonName(f reflect.StructField) (name string, omitempty, ok bool) {
	name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, strings.Contains(opts, "omitempty"), f.IsExported() && name != "" && name != "-"
}

// fieldValue is one field. An optional text that is empty is None; only a case may be "", the only one.
func fieldValue(name string, v reflect.Value, omitempty bool) starlark.Value {
	if v.Kind() == reflect.String && v.Len() == 0 && omitempty && name != "case" {
		return starlark.None
	}
	return goValue(name, v)
}

func goValue(name string, v reflect.Value) starlark.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return starlark.None
		}
		return goValue(name, v.Elem())
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
			out[i] = goValue(name, v.Index(i))
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
			_ = d.SetKey(starlark.String(k), goValue(name, v.MapIndex(reflect.ValueOf(k))))
		}
		d.Freeze()
		return d
	case reflect.Struct:
		return newFact(strings.ToLower(v.Type().Name()), v.Interface())
	}
	return starlark.None
}
