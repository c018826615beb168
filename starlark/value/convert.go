package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// maxDepth and maxValues bound conversions: a list can contain itself, and lists that share elements stand
// for exponentially many values.
const (
	maxDepth  = 200
	maxValues = 1_000_000
)

func tooDeep() error { return fmt.Errorf("nested deeper than %d levels", maxDepth) }

// FromGo makes a Starlark value: nil and nil pointers are None, maps become dicts with sorted keys, time.
// Duration a duration; starlark values stay as they are. A number that is not finite is an error: not
// measured is nil.
func FromGo(x any) (starlark.Value, error) { return fromGo(reflect.ValueOf(x), 0) }

func fromGo(v reflect.Value, depth int) (starlark.Value, error) {
	if depth > maxDepth {
		return nil, tooDeep()
	}
	if !v.IsValid() {
		return starlark.None, nil
	}
	switch x := v.Interface().(type) {
	case starlark.Value:
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return starlark.None, nil
		}
		return x, nil
	case time.Duration:
		return DurationValue(x), nil
	case json.Number:
		return fromNumber(x)
	case []byte:
		return starlark.String(x), nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return starlark.None, nil
		}
		return fromGo(v.Elem(), depth+1)
	case reflect.Bool:
		return starlark.Bool(v.Bool()), nil
	case reflect.String:
		return starlark.String(v.String()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return starlark.MakeInt64(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return starlark.MakeUint64(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return finite(v.Float())
	case reflect.Slice, reflect.Array:
		list := make([]starlark.Value, v.Len())
		for i := range list {
			x, err := fromGo(v.Index(i), depth+1)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			list[i] = x
		}
		return starlark.NewList(list), nil
	case reflect.Map:
		return fromMap(v, depth)
	}
	return nil, fmt.Errorf("got a %s of Go, want plain data", v.Type())
}

// fromMap sorts the keys: the order of a Go map is random, and a workflow can see the order of a dict.
func fromMap(v reflect.Value, depth int) (starlark.Value, error) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("got a %s of Go, want text as keys", v.Type())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return compare(a.String(), b.String()) })
	d := starlark.NewDict(len(keys))
	for _, k := range keys {
		x, err := fromGo(v.MapIndex(k), depth+1)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", k.String(), err)
		}
		if err := d.SetKey(starlark.String(k.String()), x); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func fromNumber(n json.Number) (starlark.Value, error) {
	if i, ok := new(big.Int).SetString(n.String(), 10); ok {
		return starlark.MakeBigInt(i), nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("got %q, want number", n)
	}
	return finite(f)
}

func finite(f float64) (starlark.Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("got %v, want finite number", f)
	}
	return starlark.Float(f), nil
}

// ToGo gives plain data: nil, bool, int64 (*big.Int beyond), float64, string, []any, map[string]any. Tuples,
// sets and tables become lists, records become maps, a duration its text.
func ToGo(v starlark.Value) (any, error) {
	left := maxValues
	return toGo(v, 0, &left)
}

func toGo(v starlark.Value, depth int, left *int) (any, error) {
	if depth > maxDepth {
		return nil, tooDeep()
	}
	if *left--; *left < 0 {
		return nil, fmt.Errorf("got more than %d values", maxValues)
	}
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.Int:
		if n, ok := v.Int64(); ok {
			return n, nil
		}
		return v.BigInt(), nil
	case starlark.Float:
		if _, err := finite(float64(v)); err != nil {
			return nil, err
		}
		return float64(v), nil
	case starlark.String:
		return string(v), nil
	case DurationValue:
		return v.String(), nil
	case *Struct:
		return attrsToGo(v, depth, left)
	case *starlarkstruct.Struct:
		return attrsToGo(v, depth, left)
	case starlark.IterableMapping:
		m := make(map[string]any)
		for _, kv := range v.Items() {
			key, ok := starlark.AsString(kv[0])
			if !ok {
				return nil, within("key "+kv[0].String(), wrongType(kv[0], "string"))
			}
			x, err := toGo(kv[1], depth+1, left)
			if err != nil {
				return nil, within(fmt.Sprintf("value of %q", key), err)
			}
			m[key] = x
		}
		return m, nil
	case starlark.Bytes: // no JSON says bytes
		return nil, wrongType(v, "plain value")
	case starlark.Sequence:
		list := make([]any, 0, min(v.Len(), 1024))
		for x := range starlark.Elements(v) {
			y, err := toGo(x, depth+1, left)
			if err != nil {
				return nil, within(fmt.Sprintf("element %d", len(list)), err)
			}
			list = append(list, y)
		}
		return list, nil
	}
	return nil, wrongType(v, "plain value")
}

func attrsToGo(v starlark.HasAttrs, depth int, left *int) (any, error) {
	m := make(map[string]any)
	for _, name := range v.AttrNames() {
		x, err := v.Attr(name)
		if err != nil {
			return nil, err
		}
		y, err := toGo(x, depth+1, left)
		if err != nil {
			return nil, within("."+name, err)
		}
		m[name] = y
	}
	return m, nil
}

// ToJSON is the canonical JSON text of a value: sorted keys, no spaces, the shortest digits that give the
// same number. 1.0 stays "1.0": to the program that reads it, 1 may be something else.
func ToJSON(v starlark.Value) (string, error) {
	x, err := ToGo(v)
	if err != nil {
		return "", err
	}
	return CanonicalJSON(x)
}

// CanonicalJSON is ToJSON for what ToGo gives.
func CanonicalJSON(x any) (string, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, x); err != nil {
		return "", err
	}
	return b.String(), nil
}

func writeJSON(b *bytes.Buffer, x any) error {
	switch x := x.(type) {
	case map[string]any:
		b.WriteByte('{')
		for i, k := range slices.Sorted(maps.Keys(x)) {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeText(b, k); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeJSON(b, x[k]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, e); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("got %v, want finite number", x)
		}
		s := strconv.FormatFloat(x, 'g', -1, 64)
		if !bytes.ContainsAny([]byte(s), ".e") {
			s += ".0"
		}
		b.WriteString(s)
	case *big.Int:
		b.WriteString(x.String())
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case bool:
		b.WriteString(strconv.FormatBool(x))
	case nil:
		b.WriteString("null")
	case string:
		return writeText(b, x)
	default:
		return errors.New("got a " + reflect.TypeOf(x).String() + " of Go, want plain data")
	}
	return nil
}

func writeText(b *bytes.Buffer, s string) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // its newline
	return nil
}
