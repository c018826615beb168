package builtins

// Numbers and their spelling. Starlark formats floats poorly: "%.2f" is an error there.

import (
	"math"
	"time"

	"go.starlark.net/starlark"

	"flow/starlark/value"
)

func numberFamily() Family {
	return Family{"Numbers", "Spelling and reading numbers.", []Builtin{
		{
			Name:    "fixed",
			Doc:     "A number as text with so many digits after the point; None is \"not measured\".",
			Example: `fixed(3.14159, 2)`,
			Func: func(c *Call) (starlark.Value, error) {
				var x *float64
				digits := 2
				missing := "not measured"
				if err := c.Unpack(2,
					value.Param{Name: "x", Required: true, Into: value.Maybe(&x, value.Float), Doc: "a number, or None"},
					value.Param{Name: "digits", Default: "2", Into: value.Int(&digits), Doc: "digits after the point, 0 to 15"},
					value.Param{Name: "missing", Default: `"not measured"`, Into: value.String(&missing), Doc: "what None is written as"},
				); err != nil {
					return nil, err
				}
				if digits < 0 || digits > 15 {
					return nil, c.Errorf("fixed(x, 2)", "got %d digits, want 0 to 15", digits)
				}
				if x == nil {
					return text(missing), nil
				}
				return text(value.Fixed(*x, digits)), nil
			},
		}, {
			Name:    "round",
			Doc:     "A number rounded, halves to the even neighbour: an int without digits, else a float. None stays None.",
			Example: `round(2.345, 2)`,
			Func: func(c *Call) (starlark.Value, error) {
				var x *float64
				digits := 0
				if err := c.Unpack(2,
					value.Param{Name: "x", Required: true, Into: value.Maybe(&x, value.Float), Doc: "a number, or None"},
					value.Param{Name: "digits", Default: "0", Into: value.Int(&digits), Doc: "digits after the point, -15 to 15"},
				); err != nil {
					return nil, err
				}
				if digits < -15 || digits > 15 {
					return nil, c.Errorf("round(x, 2)", "got %d digits, want -15 to 15", digits)
				}
				switch {
				case x == nil:
					return starlark.None, nil
				case digits == 0:
					return starlark.NumberToInt(starlark.Float(math.RoundToEven(*x)))
				}
				scale := math.Pow(10, float64(digits))
				r := math.RoundToEven(*x*scale) / scale
				if math.IsInf(r, 0) || math.IsNaN(r) {
					r = *x // beyond what scaling can hold: it has no such digits
				}
				return starlark.Float(r), nil
			},
		}, {
			Name:    "percent",
			Doc:     "A percentage as a ratio: percent(\"3%\") is 0.03. A number is a ratio already.",
			Example: `percent("3%")`,
			Func: func(c *Call) (starlark.Value, error) {
				var x float64
				if err := c.Unpack(1, value.Param{Name: "x", Required: true, Into: value.Percent(&x), Doc: "text such as \"3%\", or a ratio"}); err != nil {
					return nil, err
				}
				return starlark.Float(x), nil
			},
		}, {
			Name:    "duration",
			Doc:     "A duration from its text, with fields seconds and ms. Wherever a duration is wanted the text is enough.",
			Example: `duration("1m30s")`,
			Func: func(c *Call) (starlark.Value, error) {
				var d time.Duration
				if err := c.Unpack(1, value.Param{Name: "x", Required: true, Into: value.Duration(&d), Doc: "text such as \"300ms\", \"5s\", \"10m\""}); err != nil {
					return nil, err
				}
				return value.DurationValue(d), nil
			},
		},
	}}
}
