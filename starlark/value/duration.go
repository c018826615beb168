package value

import (
	"fmt"
	"math"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// DurationValue is a length of time in the language. There is no value for a point in time: a workflow that
// knew the clock could not be replayed.
//
// d + d, d - d, d * number, d / number are durations; d / d is a number; durations compare. Attributes:
// seconds, ms.
type DurationValue time.Duration

var (
	_ starlark.Comparable = DurationValue(0)
	_ starlark.HasBinary  = DurationValue(0)
	_ starlark.HasUnary   = DurationValue(0)
	_ starlark.HasAttrs   = DurationValue(0)
)

// String is as workflows write it: "1m30s".
func (d DurationValue) String() string        { return FormatDuration(time.Duration(d)) }
func (d DurationValue) Type() string          { return "duration" }
func (d DurationValue) Freeze()               {}
func (d DurationValue) Truth() starlark.Bool  { return d != 0 }
func (d DurationValue) Hash() (uint32, error) { return uint32(d) ^ uint32(int64(d)>>32), nil }

// Digest identifies the value, for script.Fingerprint.
func (d DurationValue) Digest() (string, error) { return d.String(), nil }

func (d DurationValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "seconds":
		return starlark.Float(time.Duration(d).Seconds()), nil
	case "ms":
		return starlark.Float(float64(d) / 1e6), nil
	}
	return nil, nil
}

func (d DurationValue) AttrNames() []string { return []string{"ms", "seconds"} }

func (d DurationValue) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	e, ok := y.(DurationValue)
	if !ok { // another Go type with the same type name
		return op == syntax.NEQ, nil
	}
	switch op {
	case syntax.EQL:
		return d == e, nil
	case syntax.NEQ:
		return d != e, nil
	case syntax.LT:
		return d < e, nil
	case syntax.LE:
		return d <= e, nil
	case syntax.GT:
		return d > e, nil
	}
	return d >= e, nil
}

func (d DurationValue) Unary(op syntax.Token) (starlark.Value, error) {
	switch op {
	case syntax.MINUS:
		return scale(d, -1)
	case syntax.PLUS:
		return d, nil
	}
	return nil, nil
}

func (d DurationValue) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if e, ok := y.(DurationValue); ok {
		switch op {
		case syntax.PLUS:
			return add(d, e)
		case syntax.MINUS:
			return add(d, -e)
		case syntax.SLASH:
			if e == 0 {
				return nil, fmt.Errorf("division by zero duration")
			}
			return starlark.Float(float64(d) / float64(e)), nil
		}
		return nil, nil
	}
	f, ok := starlark.AsFloat(y)
	if !ok {
		return nil, nil
	}
	switch {
	case op == syntax.STAR:
		if i, ok := y.(starlark.Int); ok { // exact, where a float would round nanoseconds
			if n, ok := i.Int64(); ok {
				return multiply(d, n)
			}
		}
		return scale(d, f)
	case op == syntax.SLASH && side == starlark.Left:
		if f == 0 {
			return nil, fmt.Errorf("division of a duration by zero")
		}
		return scale(d, 1/f)
	}
	return nil, nil
}

func tooLong() (starlark.Value, error) {
	return nil, fmt.Errorf("the duration is longer than 292 years")
}

func add(d, e DurationValue) (starlark.Value, error) {
	sum := d + e
	if (d > 0) == (e > 0) && (sum > 0) != (d > 0) && d != 0 && e != 0 {
		return tooLong()
	}
	return sum, nil
}

func multiply(d DurationValue, n int64) (starlark.Value, error) {
	p := d * DurationValue(n)
	if n != 0 && (p/DurationValue(n) != d || n == -1 && d == math.MinInt64) {
		return tooLong()
	}
	return p, nil
}

func scale(d DurationValue, f float64) (starlark.Value, error) {
	x := math.Round(float64(d) * f)
	if !(math.Abs(x) < math.MaxInt64) { // NaN too
		return tooLong()
	}
	return DurationValue(x), nil
}
