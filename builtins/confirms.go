package builtins

// Evidence: what proves that a lever took effect.

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/value"
	"flow/workflows/plan"
)

var confirmKind = &kind[plan.Confirm]{
	name:  "confirm",
	key:   func(c plan.Confirm) string { return plan.Sum(c) },
	label: confirmLabel,
	attrs: map[string]func(plan.Confirm) starlark.Value{
		"kind":    func(c plan.Confirm) starlark.Value { return text(c.Kind) },
		"what":    func(c plan.Confirm) starlark.Value { return text(confirmWhat(c)) },
		"reason":  func(c plan.Confirm) starlark.Value { return textOrNone(c.Reason) },
		"pattern": func(c plan.Confirm) starlark.Value { return textOrNone(c.Pattern) },
	},
}

func confirmLabel(c plan.Confirm) string { return c.Kind + " " + strconv.Quote(confirmWhat(c)) }

func confirmWhat(c plan.Confirm) string {
	switch c.Kind {
	case plan.ConfirmLog:
		return c.Pattern
	case plan.ConfirmHTTP:
		return c.Path + c.Pointer
	case plan.ConfirmMetric:
		return c.Name
	case plan.ConfirmLiteral:
		return c.Text
	case plan.ConfirmNone:
		return c.Reason
	}
	return c.Kind
}

func confirmFamily() Family {
	return Family{"Evidence", "What proves that a lever took effect: read when the engine is ready and again at its stop. " +
		"It must hold where the lever is and fail on the control, else the group shows no contrast.", []Builtin{
		{
			Name:    "confirm.log",
			Doc:     "A line of the engine's log matches.",
			Example: `confirm.log(r"n_ubatch\s*=\s*1024\b")`,
			Func: func(c *Call) (starlark.Value, error) {
				d := plan.Confirm{Kind: plan.ConfirmLog}
				if err := c.Unpack(1,
					value.Param{Name: "pattern", Required: true, Into: pattern(&d.Pattern), Doc: "RE2 pattern, looked for in the whole log from byte 0"},
				); err != nil {
					return nil, err
				}
				return confirmKind.of(d), nil
			},
		}, {
			Name:    "confirm.http",
			Doc:     "A GET of the server answers with a JSON document that holds a value.",
			Example: `confirm.http("/props", pointer = "/n_ctx", equals = 8192)`,
			Func: func(c *Call) (starlark.Value, error) {
				d := plan.Confirm{Kind: plan.ConfirmHTTP}
				if err := c.Unpack(1,
					value.Param{Name: "path", Required: true, Into: value.String(&d.Path), Doc: "path of the URL, such as \"/props\""},
					value.Param{Name: "pointer", Default: `""`, Into: value.String(&d.Pointer), Doc: "JSON pointer (RFC 6901); empty is the whole answer"},
					value.Param{Name: "equals", Default: "None", Into: scalarPointer(&d.Equals), Doc: "the value wanted there; None accepts any"},
				); err != nil {
					return nil, err
				}
				if len(d.Path) == 0 || d.Path[0] != '/' {
					return nil, c.Errorf(`confirm.http("/props", pointer = "/n_ctx", equals = 8192)`, "got path %q, want one that begins with /", d.Path)
				}
				if d.Pointer != "" && d.Pointer[0] != '/' {
					return nil, c.Errorf(`write pointer = "/`+d.Pointer+`"`, "got pointer %q, want a JSON pointer such as \"/n_ctx\"", d.Pointer)
				}
				return confirmKind.of(d), nil
			},
		}, {
			Name:    "confirm.metric",
			Doc:     "A metric of the engine is above, below or equal to something.",
			Example: `confirm.metric("spec_accepted", above = 0)`,
			Func: func(c *Call) (starlark.Value, error) {
				d := plan.Confirm{Kind: plan.ConfirmMetric}
				if err := c.Unpack(1,
					value.Param{Name: "name", Required: true, Into: value.String(&d.Name), Doc: "a series of the engine's metrics endpoint, or a metric the engine declares"},
					value.Param{Name: "above", Default: "None", Into: value.Maybe(&d.Above, value.Float), Doc: "holds above this"},
					value.Param{Name: "below", Default: "None", Into: value.Maybe(&d.Below, value.Float), Doc: "holds below this"},
					value.Param{Name: "equals", Default: "None", Into: scalarPointer(&d.Equals), Doc: "holds at exactly this"},
				); err != nil {
					return nil, err
				}
				if d.Above == nil && d.Below == nil && d.Equals == nil {
					return nil, c.Errorf(fmt.Sprintf("confirm.metric(%q, above = 0)", d.Name), "says no condition")
				}
				return confirmKind.of(d), nil
			},
		}, {
			Name:    "confirm.literal",
			Doc:     "The engine's binary holds these bytes: a variable that it reads stands in it. Weaker than a log line, because it holds on both sides.",
			Example: `confirm.literal("DS4_METAL_READAHEAD")`,
			Func: func(c *Call) (starlark.Value, error) {
				d := plan.Confirm{Kind: plan.ConfirmLiteral}
				if err := c.Unpack(1,
					value.Param{Name: "text", Required: true, Into: nonEmpty(&d.Text), Doc: "the bytes looked for"},
				); err != nil {
					return nil, err
				}
				return confirmKind.of(d), nil
			},
		}, {
			Name:    "confirm.environ",
			Doc:     "The running process's environment holds what the lever sets: the variable arrived, which does not say that the engine reads it.",
			Example: `confirm.environ()`,
			Func: func(c *Call) (starlark.Value, error) {
				if err := c.Unpack(0); err != nil {
					return nil, err
				}
				return confirmKind.of(plan.Confirm{Kind: plan.ConfirmEnviron}), nil
			},
		}, {
			Name:    "confirm.host",
			Doc:     "Every host setting of the lever reads back as it was set, and reads otherwise on sides without the lever. A lever of host settings alone has it by itself.",
			Example: `lever("boost-off", host = host.boost(False), confirm = confirm.host())`,
			Func: func(c *Call) (starlark.Value, error) {
				if err := c.Unpack(0); err != nil {
					return nil, err
				}
				return confirmKind.of(plan.Confirm{Kind: plan.ConfirmHost}), nil
			},
		}, {
			Name:    "confirm.none",
			Doc:     "Nothing shows that the lever took effect. The reason is printed with every verdict of it.",
			Example: `confirm.none("the engine prints nothing about it")`,
			Func: func(c *Call) (starlark.Value, error) {
				d := plan.Confirm{Kind: plan.ConfirmNone}
				if err := c.Unpack(1,
					value.Param{Name: "reason", Required: true, Into: nonEmpty(&d.Reason), Doc: "why there is no evidence"},
				); err != nil {
					return nil, err
				}
				return confirmKind.of(d), nil
			},
		},
	}}
}

// pattern unpacks an RE2 pattern that compiles.
func pattern(to *string) value.Unpacker {
	return value.Func("RE2 pattern", func(v starlark.Value) error {
		s, ok := starlark.AsString(v)
		if !ok {
			return value.Wrong(v, `RE2 pattern such as r"n_ubatch = 1024"`)
		}
		if _, err := regexp.Compile(s); err != nil {
			fix := "escape what is meant literally, as in r\"\\(n = 1\\)\""
			if strings.Contains(s, "(?=") || strings.Contains(s, "(?!") || strings.Contains(s, "(?<") {
				fix = "RE2 has no look-around: match what stands there, and put a group around the part you want"
			}
			return say(fix, "got %q, want an RE2 pattern: %v", s, err)
		}
		if s == "" {
			return say("say what the engine prints, as in r\"n_ubatch = 1024\"", "got an empty pattern, which matches everything")
		}
		*to = s
		return nil
	})
}

// nonEmpty unpacks a string that says something.
func nonEmpty(to *string) value.Unpacker {
	return value.Func("string", func(v starlark.Value) error {
		s, ok := starlark.AsString(v)
		if !ok {
			return value.Wrong(v, "string")
		}
		if s == "" {
			return fmt.Errorf("got an empty string")
		}
		*to = s
		return nil
	})
}

// scalar is a string, int, float or bool as text; floats as short as they can be.
func scalar(v starlark.Value) (string, error) {
	switch x := v.(type) {
	case starlark.String:
		return string(x), nil
	case starlark.Bool:
		return strconv.FormatBool(bool(x)), nil
	case starlark.Int:
		return x.String(), nil
	case starlark.Float:
		return strconv.FormatFloat(float64(x), 'g', -1, 64), nil
	}
	return "", fmt.Errorf("got %s, want string or number", v.Type())
}

func scalarPointer(to **string) value.Unpacker {
	return value.Func("string, number or bool", func(v starlark.Value) error {
		s, err := scalar(v)
		if err != nil {
			return err
		}
		*to = &s
		return nil
	})
}
