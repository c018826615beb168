package builtins

// Arrivals: when the requests of an open loop are due. Without one a workload is a closed loop.

import (
	"fmt"
	"math"

	"go.starlark.net/starlark"

	"flow/starlark/value"
	"flow/workflows/plan"
)

var arrivalKind = &kind[plan.Arrival]{
	name:  "arrival",
	key:   func(a plan.Arrival) string { return plan.Sum(a) },
	label: func(a plan.Arrival) string { return a.Kind },
	attrs: map[string]func(plan.Arrival) starlark.Value{
		"kind": func(a plan.Arrival) starlark.Value { return text(a.Kind) },
		"rate": func(a plan.Arrival) starlark.Value { return starlark.Float(a.Rate) },
	},
}

var stableKind = &kind[plan.Stable]{
	name:  "until_stable",
	key:   func(s plan.Stable) string { return plan.Sum(s) },
	label: func(s plan.Stable) string { return fmt.Sprintf("last %d within %g %%", s.Window, 100*s.Within) },
	attrs: map[string]func(plan.Stable) starlark.Value{},
}

var countKind = &kind[plan.CountFrom]{
	name:  "count",
	key:   func(x plan.CountFrom) string { return plan.Sum(x) },
	label: func(x plan.CountFrom) string { return x.What + x.Running },
	attrs: map[string]func(plan.CountFrom) starlark.Value{
		"what": func(x plan.CountFrom) starlark.Value { return text(x.What) },
	},
}

func arrivalFamily() Family {
	open := func(name, doc, example string, f func(c *Call, a *plan.Arrival) error) Builtin {
		return Builtin{Name: name, Doc: doc, Example: example, Func: func(c *Call) (starlark.Value, error) {
			var a plan.Arrival
			if err := f(c, &a); err != nil {
				return nil, err
			}
			return arrivalKind.of(a), nil
		}}
	}
	rate := func(kind string) func(c *Call, a *plan.Arrival) error {
		return func(c *Call, a *plan.Arrival) error {
			a.Kind = kind
			if err := c.Unpack(1, value.Param{Name: "rate", Required: true, Into: value.Float(&a.Rate), Example: "2.5", Doc: "requests a second"}); err != nil {
				return err
			}
			if !(a.Rate > 0) || math.IsInf(a.Rate, 0) {
				return c.Errorf("rate = 2.5", "got rate %v, want more than 0 requests a second", a.Rate)
			}
			return nil
		}
	}
	return Family{"Load", "When requests are sent. By default a workload is a closed loop: the next request waits for an answer, so that a slow server is asked less. In an open loop requests are sent when they are " +
		"due, whatever the answers do, and response_ms counts from then.", []Builtin{
		open("arrival.constant", "An open loop with one request every 1/rate seconds.", `arrival.constant(rate = 2)`, rate(plan.ArrivalConstant)),
		open("arrival.poisson", "An open loop with random gaps of mean 1/rate seconds, the same in every arm of a group.", `arrival.poisson(rate = 2)`, rate(plan.ArrivalPoisson)),
		open("arrival.burst", "An open loop of bursts.", `arrival.burst(size = 8, every = "10s")`, func(c *Call, a *plan.Arrival) error {
			a.Kind = plan.ArrivalBurst
			err := c.Unpack(0,
				value.Param{Name: "size", Required: true, Into: value.Int(&a.Size), Doc: "requests at once"},
				value.Param{Name: "every", Required: true, Into: value.Duration(&a.Every), Example: `"10s"`, Doc: "from burst to burst"},
			)
			if err == nil && (a.Size < 1 || a.Every <= 0) {
				err = c.Errorf(`arrival.burst(size = 8, every = "10s")`, "got bursts of %d every %s, want at least 1 and more than 0", a.Size, a.Every)
			}
			return err
		}),
		open("arrival.trace", "An open loop that replays times, and begins anew when there are more requests than times.", `arrival.trace([0, 0.5, 0.7, 3])`, func(c *Call, a *plan.Arrival) error {
			a.Kind = plan.ArrivalTrace
			if err := c.Unpack(1, value.Param{Name: "times", Required: true, Into: floatsInto(&a.Times), Example: "[0, 0.5, 3]", Doc: "seconds since the beginning, rising"}); err != nil {
				return err
			}
			for i, t := range a.Times {
				if t < 0 || i > 0 && t < a.Times[i-1] {
					return c.Errorf("sort them: sorted(times)", "time %d is %v: want none below 0 and none before the one before it", i, t)
				}
			}
			if len(a.Times) == 0 {
				return c.Errorf("arrival.trace([0, 0.5, 3])", "got no times")
			}
			return nil
		}),
		{
			Name: "until_stable", Doc: "A warm-up that ends when the last requests of a case took the same time, one at a time; at most so many, and then the arm says that it was not stable.",
			Example: `until_stable(within = "3%", last = 3, at_most = 10)`,
			Func: func(c *Call) (starlark.Value, error) {
				s := plan.Stable{Within: .03, Window: 3, AtMost: 10}
				err := c.Unpack(0,
					value.Param{Name: "within", Default: `"3%"`, Into: value.Percent(&s.Within), Doc: "how far the slowest of them may be from the quickest"},
					value.Param{Name: "last", Default: "3", Into: value.Int(&s.Window), Doc: "how many requests are looked at"},
					value.Param{Name: "at_most", Default: "10", Into: value.Int(&s.AtMost), Doc: "warm requests of a case, at most"},
				)
				if err == nil && (s.Within <= 0 || s.Window < 2 || s.AtMost < s.Window) {
					err = c.Errorf(`until_stable(within = "3%", last = 3, at_most = 10)`, "got within %g, last %d, at_most %d: want within above 0, at least 2 requests, and at_most not below them", s.Within, s.Window, s.AtMost)
				}
				if err != nil {
					return nil, err
				}
				return stableKind.of(s), nil
			},
		},
		countBuiltin("count.log", "A token count in a log line of each request.", `count.log("completion", r"(\d+) generated in")`, func(c *Call, x *plan.CountFrom) error {
			return c.Unpack(2, countWhat(x), value.Param{Name: "pattern", Required: true, Into: numberPattern(&x.Log), Doc: "RE2 pattern whose first group is the number, one match a request"})
		}),
		countBuiltin("count.series", "A token count in the metrics endpoint: a counter's growth, or with * a row for each of the last requests.", `count.series("completion", "llamacpp:tokens_predicted_total")`, func(c *Call, x *plan.CountFrom) error {
			return c.Unpack(2, countWhat(x), value.Param{Name: "name", Required: true, Into: nonEmpty(&x.Series), Doc: "the series; in JSON its path, as in \"requests.*.output_tokens\""})
		}),
		countBuiltin("count.running", "The series of the metrics endpoint that says how many requests run now.", `count.running("llamacpp:requests_processing")`, func(c *Call, x *plan.CountFrom) error {
			return c.Unpack(1, value.Param{Name: "name", Required: true, Into: nonEmpty(&x.Running), Doc: "the series"})
		}),
	}}
}

func countWhat(x *plan.CountFrom) value.Param {
	return value.Param{Name: "what", Required: true, Into: value.OneOf(&x.What, "completion", "prompt", "cached", "draft", "accepted"), Doc: "what is counted: tokens of the answer, of the prompt, of it from a cache, offered by speculation, accepted of those"}
}

func countBuiltin(name, doc, example string, f func(*Call, *plan.CountFrom) error) Builtin {
	return Builtin{Name: name, Doc: doc, Example: example, Func: func(c *Call) (starlark.Value, error) {
		var x plan.CountFrom
		if err := f(c, &x); err != nil {
			return nil, err
		}
		return countKind.of(x), nil
	}}
}

// floatsInto unpacks a list of numbers.
func floatsInto(to *[]float64) value.Unpacker {
	const want = "list of numbers"
	return value.Func(want, func(v starlark.Value) error {
		items, err := elements(v)
		if err != nil {
			return value.Wrong(v, want)
		}
		out := make([]float64, 0, len(items))
		for i, x := range items {
			f, ok := starlark.AsFloat(x)
			if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("element %d: got %s, want a number", i, x.Type())
			}
			out = append(out, f)
		}
		*to = out
		return nil
	})
}

// warmupInto unpacks a number of warm requests, or until_stable(…).
func warmupInto(n *int, s **plan.Stable) value.Unpacker {
	return value.Func("int or until_stable(…)", func(v starlark.Value) error {
		if d, ok := v.(*Decl[plan.Stable]); ok {
			*s = &d.V
			return nil
		}
		return value.Int(n).Unpack(v)
	})
}
