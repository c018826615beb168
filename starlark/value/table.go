package value

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// Table is the rows of a query: a sequence of records, with columns (a tuple of names) and column(name) (the
// values of one, top to bottom). It is immutable.
type Table struct {
	columns []string
	rows    []*Struct
}

var (
	_ starlark.Sequence  = (*Table)(nil)
	_ starlark.Indexable = (*Table)(nil)
	_ starlark.HasAttrs  = (*Table)(nil)
)

// NewTable makes a table of rows that have a cell for every column; typ names the type of a row. Two columns
// of one name are an error.
func NewTable(typ string, columns []string, rows [][]starlark.Value) (*Table, error) {
	for i, c := range columns {
		if slices.Contains(columns[:i], c) {
			return nil, fmt.Errorf("column %q is there twice: name one with AS", c)
		}
	}
	t := &Table{columns: slices.Clone(columns)}
	for i, row := range rows {
		if len(row) != len(columns) {
			return nil, fmt.Errorf("row %d: got %d cells, want %d", i, len(row), len(columns))
		}
		fields := make([]Field, len(row))
		for j, v := range row {
			fields[j] = Field{columns[j], v}
		}
		t.rows = append(t.rows, NewStruct(typ, fields...))
	}
	t.Freeze()
	return t, nil
}

// TableFromGo is NewTable for cells of Go, as FromGo takes them.
func TableFromGo(typ string, columns []string, rows [][]any) (*Table, error) {
	cells := make([][]starlark.Value, len(rows))
	for i, row := range rows {
		for j, x := range row {
			v, err := FromGo(x)
			if err != nil {
				name := fmt.Sprint(j)
				if j < len(columns) {
					name = columns[j]
				}
				return nil, fmt.Errorf("row %d, column %s: %w", i, name, err)
			}
			cells[i] = append(cells[i], v)
		}
	}
	return NewTable(typ, columns, cells)
}

func (t *Table) Len() int                   { return len(t.rows) }
func (t *Table) Index(i int) starlark.Value { return t.rows[i] }
func (t *Table) Iterate() starlark.Iterator { return &rowIterator{rows: t.rows} }
func (t *Table) Type() string               { return "table" }
func (t *Table) Truth() starlark.Bool       { return len(t.rows) > 0 }
func (t *Table) Hash() (uint32, error)      { return 0, fmt.Errorf("unhashable type: table") }
func (t *Table) AttrNames() []string        { return []string{"column", "columns"} }
func (t *Table) Freeze() {
	for _, r := range t.rows {
		r.Freeze()
	}
}

// String says how large it is, not what is in it.
func (t *Table) String() string {
	return fmt.Sprintf("table(%d rows of %s)", len(t.rows), strings.Join(t.columns, ", "))
}

// Digest identifies the content, for script.Fingerprint.
func (t *Table) Digest() (string, error) { return ToJSON(t) }

func (t *Table) Attr(name string) (starlark.Value, error) {
	switch name {
	case "columns":
		var names starlark.Tuple
		for _, c := range t.columns {
			names = append(names, starlark.String(c))
		}
		return names, nil
	case "column":
		return starlark.NewBuiltin("column", t.column).BindReceiver(t), nil
	}
	return nil, nil
}

func (t *Table) column(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name string
	s := Signature{Name: "table.column", Positional: 1, Params: []Param{
		{Name: "name", Required: true, Into: OneOf(&name, t.columns...), Doc: "name of the column"}}}
	if err := s.Unpack(thread, args, kwargs); err != nil {
		return nil, err
	}
	values := make([]starlark.Value, len(t.rows))
	for i, r := range t.rows {
		values[i] = r.find(name)
	}
	return starlark.NewList(values), nil
}

type rowIterator struct{ rows []*Struct }

func (it *rowIterator) Next(p *starlark.Value) bool {
	if len(it.rows) == 0 {
		return false
	}
	*p, it.rows = it.rows[0], it.rows[1:]
	return true
}

func (it *rowIterator) Done() {}
