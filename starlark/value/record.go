package value

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Field is one attribute of a Struct.
type Field struct {
	Name  string
	Value starlark.Value
}

// Struct is an immutable record with a type name: an arm, a result, a row. Its fields are attributes, and
// r["name"] where a name is no identifier. Records are equal when their type and fields are; they hash when
// their fields do. Freezing it freezes what is in it.
type Struct struct {
	typ    string
	fields []Field // in the order given
	sorted []int   // of fields, by name
}

var (
	_ starlark.Comparable = (*Struct)(nil)
	_ starlark.HasAttrs   = (*Struct)(nil)
	_ starlark.Mapping    = (*Struct)(nil)
)

// NewStruct makes a record. A nil value becomes None; of two fields with one name the first counts. The type
// name "struct" becomes "record": starlarkstruct panics when it meets another Go type of its own name.
func NewStruct(typ string, fields ...Field) *Struct {
	if typ == "" || typ == "struct" {
		typ = "record"
	}
	s := &Struct{typ: typ, fields: slices.Clone(fields)}
	for i, f := range s.fields {
		if f.Value == nil {
			s.fields[i].Value = starlark.None
		}
		s.sorted = append(s.sorted, i)
	}
	slices.SortStableFunc(s.sorted, func(a, b int) int { return strings.Compare(s.fields[a].Name, s.fields[b].Name) })
	return s
}

// Fields are the fields in the order given.
func (s *Struct) Fields() []Field { return slices.Clone(s.fields) }

func (s *Struct) find(name string) starlark.Value {
	at, ok := slices.BinarySearchFunc(s.sorted, name, func(i int, name string) int {
		return strings.Compare(s.fields[i].Name, name)
	})
	if !ok {
		return nil
	}
	return s.fields[s.sorted[at]].Value
}

// Attr gives nil, which the interpreter turns into an error with a suggestion, for a name that is not there.
func (s *Struct) Attr(name string) (starlark.Value, error) { return s.find(name), nil }

func (s *Struct) AttrNames() []string {
	names := make([]string, 0, len(s.sorted))
	for _, i := range s.sorted {
		names = append(names, s.fields[i].Name)
	}
	return slices.Compact(names)
}

// Get is r["name"].
func (s *Struct) Get(k starlark.Value) (v starlark.Value, found bool, err error) {
	name, ok := starlark.AsString(k)
	if !ok {
		return nil, false, fmt.Errorf("got %s as the name of a field, want string", TypeName(k))
	}
	v = s.find(name)
	return v, v != nil, nil
}

func (s *Struct) Type() string         { return s.typ }
func (s *Struct) Truth() starlark.Bool { return true }
func (s *Struct) Freeze() {
	for _, f := range s.fields {
		f.Value.Freeze()
	}
}

func (s *Struct) String() string {
	var b strings.Builder
	b.WriteString(s.typ + "(")
	sep := ""
	for _, f := range s.fields {
		if _, ok := f.Value.(*starlark.Builtin); ok { // a method
			continue
		}
		b.WriteString(sep + f.Name + "=" + f.Value.String())
		sep = ", "
	}
	b.WriteString(")")
	return b.String()
}

func (s *Struct) Hash() (uint32, error) {
	h, err := starlark.String(s.typ).Hash()
	for _, i := range s.sorted {
		if err != nil {
			return 0, err
		}
		var k, v uint32
		k, _ = starlark.String(s.fields[i].Name).Hash()
		v, err = s.fields[i].Value.Hash()
		h = h*31 + k*17 + v
	}
	return h, err
}

func (s *Struct) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	o, ok := y.(*Struct)
	if !ok { // another Go type with the same type name
		return op == syntax.NEQ, nil
	}
	if op != syntax.EQL && op != syntax.NEQ {
		return false, fmt.Errorf("%s %s %s not implemented", s.typ, op, o.typ)
	}
	same, err := s.equal(o, depth)
	return same == (op == syntax.EQL), err
}

func (s *Struct) equal(o *Struct, depth int) (bool, error) {
	if s.typ != o.typ || !slices.Equal(s.AttrNames(), o.AttrNames()) {
		return false, nil
	}
	for _, name := range s.AttrNames() {
		if same, err := starlark.EqualDepth(s.find(name), o.find(name), depth-1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}
