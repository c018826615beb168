package value

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"flow/starlark/diag"

	"go.starlark.net/starlark"
)

// Unpacker takes one Starlark value into the Go variable it was made with. On an error the variable keeps
// its value.
type Unpacker interface {
	Unpack(v starlark.Value) error
	// Want is what it takes, in the words of messages and the reference: "int", "list of strings".
	Want() string
}

// Mismatch is the error of a value that is not what was wanted.
type Mismatch struct {
	At   string // which part of the value: `element 2`, `value of "-ub"`; empty for the whole
	Got  string // a type, or the value itself when its type is right
	Want string
	Kind bool // the type is wrong, not only the value
}

func (m *Mismatch) Error() string {
	s := "got " + m.Got + ", want " + m.Want
	if m.At != "" {
		s = m.At + ": " + s
	}
	return s
}

// TypeName is what a value is called in messages.
func TypeName(v starlark.Value) string {
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return "None"
	case *starlark.Builtin:
		return "function"
	default:
		return v.Type()
	}
}

func wrongType(v starlark.Value, want string) error {
	return &Mismatch{Got: TypeName(v), Want: want, Kind: true}
}

func wrongValue(v starlark.Value, want string) error {
	got := v.String()
	if r := []rune(got); len(r) > 60 {
		got = string(r[:57]) + "..."
	}
	return &Mismatch{Got: got, Want: want}
}

// within says in which part of a value the mismatch was.
func within(at string, err error) error {
	if m, ok := err.(*Mismatch); ok {
		c := *m
		c.Kind = false // the Kind of a parameter names the whole
		if c.At == "" {
			c.At = at
		} else {
			c.At = at + ": " + c.At
		}
		return &c
	}
	return fmt.Errorf("%s: %w", at, err)
}

type unpacker struct {
	want string
	f    func(v starlark.Value) error
}

func (u unpacker) Unpack(v starlark.Value) error { return u.f(v) }
func (u unpacker) Want() string                  { return u.want }

// Func is an unpacker from a function. Wrong is its error for a value of another type.
func Func(want string, f func(v starlark.Value) error) Unpacker { return unpacker{want, f} }

// Wrong is the error of a value of the wrong type, for unpackers of other packages.
func Wrong(v starlark.Value, want string) error { return wrongType(v, want) }

// typed is an unpacker of one Starlark type.
func typed[S starlark.Value](want string, take func(S) error) Unpacker {
	return unpacker{want, func(v starlark.Value) error {
		s, ok := v.(S)
		if !ok {
			return wrongType(v, want)
		}
		return take(s)
	}}
}

// String takes text.
func String(into *string) Unpacker {
	return typed("string", func(s starlark.String) error { *into = string(s); return nil })
}

// Bool takes True or False.
func Bool(into *bool) Unpacker {
	return typed("bool", func(b starlark.Bool) error { *into = bool(b); return nil })
}

// Int64 takes whole numbers; True is none.
func Int64(into *int64) Unpacker {
	return typed("int", func(i starlark.Int) error {
		n, ok := i.Int64()
		if !ok {
			return wrongValue(i, "int of at most 64 bits")
		}
		*into = n
		return nil
	})
}

// Int takes whole numbers that fit an int.
func Int(into *int) Unpacker {
	return typed("int", func(i starlark.Int) error {
		n, ok := i.Int64()
		if !ok || int64(int(n)) != n {
			return wrongValue(i, "int of at most 64 bits")
		}
		*into = int(n)
		return nil
	})
}

// Float takes numbers, whole ones too, that are finite.
func Float(into *float64) Unpacker {
	const want = "number"
	return unpacker{want, func(v starlark.Value) error {
		f, ok := starlark.AsFloat(v)
		if !ok {
			return wrongType(v, want)
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return wrongValue(v, "finite number")
		}
		*into = f
		return nil
	}}
}

// Duration takes "300ms", "5s", "1m30s" or a duration, not negative.
func Duration(into *time.Duration) Unpacker {
	const want = `duration such as "300ms"`
	return unpacker{want, func(v starlark.Value) error {
		var d time.Duration
		switch v := v.(type) {
		case DurationValue:
			d = time.Duration(v)
		case starlark.String:
			var err error
			if d, err = ParseDuration(string(v)); err != nil {
				return wrongValue(v, want)
			}
		default:
			return wrongType(v, want)
		}
		if d < 0 {
			return wrongValue(v, "duration of at least 0")
		}
		*into = d
		return nil
	}}
}

// Percent takes "1%" or "-3%", or a ratio such as 0.01, and gives the ratio. A whole number other than 0 is
// refused: 1 could mean either.
func Percent(into *float64) Unpacker {
	const want = `percent such as "1%"`
	return unpacker{want, func(v starlark.Value) error {
		switch v := v.(type) {
		case starlark.String:
			r, err := ParsePercent(string(v))
			if err != nil {
				return wrongValue(v, want)
			}
			*into = r
		case starlark.Float:
			if f := float64(v); !(math.Abs(f) <= 1) { // NaN too
				return wrongValue(v, fmt.Sprintf(`percent such as "%v%%", or a ratio such as 0.01`, v))
			}
			*into = float64(v)
		case starlark.Int:
			if v.Sign() != 0 {
				return wrongValue(v, fmt.Sprintf(`percent such as "%v%%", or a ratio such as 0.01`, v))
			}
			*into = 0
		default:
			return wrongType(v, want)
		}
		return nil
	}}
}

// Size takes "512MiB", "4GB" or a number of bytes.
func Size(into *int64) Unpacker {
	const want = `size such as "512MiB"`
	return unpacker{want, func(v starlark.Value) error {
		switch v := v.(type) {
		case starlark.String:
			n, err := ParseSize(string(v))
			if err != nil {
				return wrongValue(v, want)
			}
			*into = n
		case starlark.Int:
			n, ok := v.Int64()
			if !ok || n < 0 {
				return wrongValue(v, "number of bytes")
			}
			*into = n
		default:
			return wrongType(v, want)
		}
		return nil
	}}
}

// OneOf takes one of the given texts.
func OneOf(into *string, choices ...string) Unpacker {
	var quoted []string
	for _, c := range choices {
		quoted = append(quoted, fmt.Sprintf("%q", c))
	}
	want := "one of " + strings.Join(quoted, ", ")
	return unpacker{want, func(v starlark.Value) error {
		s, ok := v.(starlark.String)
		if !ok {
			return wrongType(v, want)
		}
		if !slices.Contains(choices, string(s)) {
			if near := diag.Nearest(string(s), choices); near != "" {
				return wrongValue(v, fmt.Sprintf("%s (did you mean %q?)", want, near))
			}
			return wrongValue(v, want)
		}
		*into = string(s)
		return nil
	}}
}

// Strings takes a list or tuple of texts, into a new slice.
func Strings(into *[]string) Unpacker {
	return ListOf(into, "strings", func(v starlark.Value) (s string, err error) {
		err = String(&s).Unpack(v)
		return s, err
	})
}

// ListOf takes a list or tuple into a new slice, each element with one; plural names the elements.
func ListOf[T any](into *[]T, plural string, one func(v starlark.Value) (T, error)) Unpacker {
	var all []T
	elements := List(plural, func(_ int, v starlark.Value) error {
		x, err := one(v)
		all = append(all, x)
		return err
	})
	return unpacker{elements.Want(), func(v starlark.Value) error {
		all = []T{}
		if err := elements.Unpack(v); err != nil {
			return err
		}
		*into = all
		return nil
	}}
}

// List takes a list or tuple and calls each for every element; plural names the elements: "levers".
func List(plural string, each func(i int, v starlark.Value) error) Unpacker {
	want := "list of " + plural
	return unpacker{want, func(v starlark.Value) error {
		var list starlark.Indexable
		switch v := v.(type) { // no set: it has no order that anybody wrote down. No dict, no string.
		case *starlark.List:
			list = v
		case starlark.Tuple:
			list = v
		default:
			return wrongType(v, want)
		}
		for i := range list.Len() {
			if err := each(i, list.Index(i)); err != nil {
				return within(fmt.Sprintf("element %d", i), err)
			}
		}
		return nil
	}}
}

// Dict takes a dict from text to text into a new map. Numbers are rendered as Starlark writes them, so that
// 1.0 stays "1.0".
func Dict(into *map[string]string) Unpacker {
	return Entries("dict", func(m map[string]string) { *into = m }, func(v starlark.Value) (string, error) {
		switch v := v.(type) {
		case starlark.String:
			return string(v), nil
		case starlark.Int, starlark.Float:
			return v.String(), nil
		}
		return "", wrongType(v, "string or number")
	})
}

// Entries takes a dict with text keys, into a new map, each value with one.
func Entries[T any](want string, done func(map[string]T), one func(v starlark.Value) (T, error)) Unpacker {
	return typed(want, func(d *starlark.Dict) error {
		m := make(map[string]T, d.Len())
		for k, v := range d.Entries() {
			key, ok := starlark.AsString(k)
			if !ok {
				return within("key "+k.String(), wrongType(k, "string"))
			}
			x, err := one(v)
			if err != nil {
				return within(fmt.Sprintf("value of %q", key), err)
			}
			m[key] = x
		}
		done(m)
		return nil
	})
}

// JSON takes any plain value and gives its canonical JSON text.
func JSON(into *string) Unpacker {
	return unpacker{"value", func(v starlark.Value) error {
		s, err := ToJSON(v)
		if err == nil {
			*into = s
		}
		return err
	}}
}

// Callable takes functions.
func Callable(into *starlark.Callable) Unpacker {
	return typed("function", func(c starlark.Callable) error { *into = c; return nil })
}

// Any takes everything as it is.
func Any(into *starlark.Value) Unpacker {
	return unpacker{"value", func(v starlark.Value) error { *into = v; return nil }}
}

// Optional also takes None, which leaves the variable as it is.
func Optional(u Unpacker) Unpacker {
	return unpacker{u.Want(), func(v starlark.Value) error {
		if v == starlark.None {
			return nil
		}
		return u.Unpack(v)
	}}
}

// Maybe sets *into to nil for None, and otherwise to a new variable: Maybe(&limit, value.Float).
func Maybe[T any](into **T, of func(*T) Unpacker) Unpacker {
	return unpacker{of(new(T)).Want(), func(v starlark.Value) error {
		if v == starlark.None {
			*into = nil
			return nil
		}
		x := new(T)
		if err := of(x).Unpack(v); err != nil {
			return err
		}
		*into = x
		return nil
	}}
}
