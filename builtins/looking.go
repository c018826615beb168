package builtins

// Functions of stats that stops ask between blocks, about the group as it stands, and what a group asks to
// be shown: superior().

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"flow/builtins/stats"
	"flow/starlark/value"
	"flow/workflows/record"
)

// isGroupRule: rules of a group that are wired by name (Env.Rules); all are valid at any look.
func isGroupRule(name string) bool {
	return name == "always_valid" || name == "futile" || name == "equivalent"
}

func lookingBuiltins() []Builtin {
	rule := func(name, doc, example string) Builtin {
		return statsBuiltin(name, doc, example, func(c *Call) (starlark.Value, error) { return c.groupRule(c.env.rule(name)) })
	}
	return []Builtin{
		rule("always_valid", "The reason why the group's primary metric is decided by its e-value, or None: valid however often one looks. The group needs the stop always_valid of @flow//stops.star, so that its intervals are those of the rule.",
			`stop("always_valid", check = lambda group: stats.always_valid(group), params = {"kind": "t", "g": 10})`),
		rule("futile", "The reason to give up because the chance that the group still ends better is below 10 %, or None.",
			`stop("futile", check = lambda group: stats.futile(group), sequential = True)`),
		rule("equivalent", "The reason to stop because every comparison of the primary metric has shown to lie within min_effect, or None.",
			`stop("equivalent", check = lambda group: stats.equivalent(group), sequential = True)`),
		statsBuiltin("floor", "What the mean of n later differences must exceed, from a noise floor of standard deviation sd on n0 differences.", `stats.floor(sd = 0.008, n0 = 10, n = 4)`, func(c *Call) (starlark.Value, error) {
			var sd float64
			var n0, n int
			mean := false
			if err := c.Unpack(0,
				value.Param{Name: "sd", Required: true, Into: value.Float(&sd), Doc: "standard deviation of the floor's differences"},
				value.Param{Name: "n0", Required: true, Into: value.Int(&n0), Doc: "how many they were"},
				value.Param{Name: "n", Required: true, Into: value.Int(&n), Doc: "how many differences the later mean has"},
				value.Param{Name: "less_mean", Default: "False", Into: value.Bool(&mean), Doc: "the floor's own mean is taken off as well"},
			); err != nil {
				return nil, err
			}
			f, ok := stats.Floor(sd, n0, n, mean)
			if !ok {
				return starlark.None, nil
			}
			return finiteOrNone(f), nil
		}),
		statsBuiltin("bootstrap", "The percentile interval of a mean, as a pair. Refused below ten values: of five its 95 % interval covers 84 %, of two 50 %.", `stats.bootstrap([10.1, 9.9, 10.2, 10.0, 9.8, 10.1, 10.3, 9.9, 10.0, 10.1])`, func(c *Call) (starlark.Value, error) {
			var x []float64
			level := .95
			resamples, seed := 10_000, 1
			if err := c.Unpack(1,
				value.Param{Name: "values", Required: true, Into: numbersInto(&x), Doc: "independent values, one an arm: requests of one arm are not"},
				value.Param{Name: "level", Default: "0.95", Into: value.Float(&level), Doc: "of the interval"},
				value.Param{Name: "resamples", Default: "10000", Into: value.Int(&resamples), Doc: "how many"},
				value.Param{Name: "seed", Default: "1", Into: value.Int(&seed), Doc: "of the resampling"},
			); err != nil {
				return nil, err
			}
			if resamples > 1_000_000 {
				return nil, c.Errorf("resamples = 10000", "got %d resamples, want at most 1000000", resamples)
			}
			low, high, err := stats.Bootstrap(x, level, resamples, uint64(seed))
			if err != nil {
				return nil, c.Errorf("stats.quads([…]) for arms in their order, which has an interval from one quad on", "%s", strings.TrimPrefix(err.Error(), "bootstrap: "))
			}
			return starlark.Tuple{starlark.Float(low), starlark.Float(high)}, nil
		}),
	}
}

func (e *Env) rule(name string) func(*record.Group) string {
	if e == nil {
		return nil
	}
	return e.Rules[name]
}

// superior is a minimum effect that the whole interval must lie beyond.
type superior struct{ by float64 }

var superiorKind = &kind[superior]{
	name:  "superior",
	key:   func(s superior) string { return fmt.Sprint(s.by) },
	label: func(s superior) string { return fmt.Sprintf("by %v", s.by) },
	attrs: map[string]func(superior) starlark.Value{"by": func(s superior) starlark.Value { return starlark.Float(s.by) }},
}

func superiorBuiltin() Builtin {
	return Builtin{
		Name: "superior",
		Doc: "A stricter minimum effect for group(min_effect = …): better and worse ask that the whole interval lies beyond it, not the estimate alone. " +
			"It costs blocks: the effect must exceed the minimum by the width of the interval.",
		Example: `superior(by = "1%")`,
		Func: func(c *Call) (starlark.Value, error) {
			var s superior
			if err := c.Unpack(1, value.Param{Name: "by", Required: true, Into: value.Percent(&s.by), Example: `"1%"`, Doc: "the effect that must be exceeded"}); err != nil {
				return nil, err
			}
			if s.by < 0 {
				return nil, c.Errorf(`superior(by = "1%")`, "got by %v, want at least 0", s.by)
			}
			return superiorKind.of(s), nil
		},
	}
}

// minEffectInto takes a percentage, or superior(…).
func minEffectInto(min *float64, strict *bool) value.Unpacker {
	percent := value.Percent(min)
	return value.Func(`percent such as "1%", or superior(by = "1%")`, func(v starlark.Value) error {
		if d, ok := v.(*Decl[superior]); ok {
			*min, *strict = d.V.by, true
			return nil
		}
		return percent.Unpack(v)
	})
}

// said notes that an argument was given: None is as if it was not.
func said(flag *bool, inner value.Unpacker) value.Unpacker {
	return value.Func(inner.Want(), func(v starlark.Value) error {
		if v == starlark.None {
			return nil
		}
		*flag = true
		return inner.Unpack(v)
	})
}
