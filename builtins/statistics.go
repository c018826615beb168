package builtins

// Statistics: the pure functions of builtins/stats. What is not valid at every look raises inside a stop.

import (
	"fmt"
	"math"

	"go.starlark.net/starlark"

	"flow/builtins/stats"
	"flow/starlark/value"
	"flow/workflows/record"
)

func statsFamily() Family {
	list := func(name string, into *[]float64, doc string) value.Param {
		return value.Param{Name: name, Required: true, Into: numbersInto(into), Doc: doc}
	}
	return Family{"Statistics", "Estimates work on logarithms and give ratios: effect = 0.02 is +2 %. The order of the arms is part of the design, so ask the estimator of the order that was run.", append([]Builtin{
		statsBuiltin("median", "Median of numbers, None of none.", `stats.median([3, 1, 2])`, func(c *Call) (starlark.Value, error) {
			var x []float64
			if err := c.Unpack(1, list("values", &x, "numbers")); err != nil || len(x) == 0 {
				return starlark.None, err
			}
			return starlark.Float(stats.Median(x)), nil
		}),
		statsBuiltin("mean", "Mean of numbers, None of none.", `stats.mean([3, 1, 2])`, func(c *Call) (starlark.Value, error) {
			var x []float64
			if err := c.Unpack(1, list("values", &x, "numbers")); err != nil || len(x) == 0 {
				return starlark.None, err
			}
			m, _ := meanSD(x)
			return starlark.Float(m), nil
		}),
		statsBuiltin("sd", "Standard deviation of a sample (n - 1), None of fewer than two numbers.", `stats.sd([3, 1, 2])`, func(c *Call) (starlark.Value, error) {
			var x []float64
			if err := c.Unpack(1, list("values", &x, "numbers")); err != nil || len(x) < 2 {
				return starlark.None, err
			}
			_, sd := meanSD(x)
			return starlark.Float(sd), nil
		}),
		statsBuiltin("range", "Smallest and largest of numbers as a pair, None of none.", `stats.range([3, 1, 2])`, func(c *Call) (starlark.Value, error) {
			var x []float64
			if err := c.Unpack(1, list("values", &x, "numbers")); err != nil {
				return nil, err
			}
			low, high, ok := stats.Range(x)
			if !ok {
				return starlark.None, nil
			}
			return starlark.Tuple{starlark.Float(low), starlark.Float(high)}, nil
		}),
		statsBuiltin("gain_of_medians", "What the field publishes, in percent: 100 * (median(side) / median(control) - 1).", `stats.gain_of_medians([100, 101], [102, 104])`, func(c *Call) (starlark.Value, error) {
			var a, b []float64
			if err := c.Unpack(2, list("control", &a, "its values"), list("side", &b, "its values")); err != nil {
				return nil, err
			}
			pct, ok := stats.GainOfMediansPct(a, b)
			if !ok {
				return starlark.None, nil
			}
			return starlark.Float(pct), nil
		}),
		statsBuiltin("pair_deltas", "The i-th value of the side less the i-th of the control.", `stats.pair_deltas([100, 101], [102, 104])`, func(c *Call) (starlark.Value, error) {
			var a, b []float64
			if err := c.Unpack(2, list("control", &a, "its values in time"), list("side", &b, "its values in time")); err != nil {
				return nil, err
			}
			return floats(stats.PairDeltas(a, b)), nil
		}),
		statsBuiltin("quads", "Estimate from ABBA and BAAB quads, the recommended one: a drift that is linear within a quad cancels.", `stats.quads([("ABBA", [100.0, 102.3, 102.9, 101.1]), ("BAAB", [103.0, 101.2, 101.5, 103.9])])`, statsQuads),
		statsBuiltin("pairs", "Estimate from pairs: the i-th of the side against the i-th of the control.", `stats.pairs([100, 101, 99.5], [102, 103, 101])`, func(c *Call) (starlark.Value, error) {
			var a, b []float64
			if err := c.Unpack(2, list("control", &a, "its values in time"), list("side", &b, "as many, in time")); err != nil {
				return nil, err
			}
			la, lb, err := c.logs(a, b)
			if err != nil {
				return nil, err
			}
			e, ok := stats.Pairs(la, lb, nil)
			return estimateValue(e, ok), nil
		}),
		statsBuiltin("unpaired", "Estimate from two samples without an order: the last resort.", `stats.unpaired([100, 101, 99.5], [102, 103])`, func(c *Call) (starlark.Value, error) {
			var a, b []float64
			if err := c.Unpack(2, list("control", &a, "its values"), list("side", &b, "its values")); err != nil {
				return nil, err
			}
			la, lb, err := c.logs(a, b)
			if err != nil {
				return nil, err
			}
			e, ok := stats.Unpaired(la, lb, nil)
			return estimateValue(e, ok), nil
		}),
		statsBuiltin("rung", "Estimate of one rung of a ladder, against the control interpolated between its neighbours.", `stats.rung("U S1 U S2 U".split(" "), [100, 105.2, 100.4, 103.7, 100.8], rung = "S1")`, statsRung),
		statsBuiltin("mde", "The smallest true effect that n quads find with a power, in units of the noise of one arm.", `stats.mde(quads = 2)`, func(c *Call) (starlark.Value, error) {
			quads, power, p := 0, .8, .05
			borrowed := 0.0
			if err := c.Unpack(1,
				value.Param{Name: "quads", Required: true, Into: value.Int(&quads), Doc: "how many"},
				value.Param{Name: "power", Default: "0.8", Into: value.Float(&power), Doc: "how often it must be found"},
				value.Param{Name: "p", Default: "0.05", Into: value.Float(&p), Doc: "two-sided level"},
				value.Param{Name: "borrowed_df", Default: "0", Into: value.Float(&borrowed), Doc: "degrees of freedom of noise known before"},
			); err != nil {
				return nil, err
			}
			if quads < 1 || borrowed < 0 {
				return nil, c.Errorf("stats.mde(quads = 2)", "got %d quads and borrowed_df %v, want at least 1 and 0", quads, borrowed)
			}
			sds, ok := stats.MDE(1/float64(quads), float64(2*quads-1)+borrowed, p, power)
			if !ok {
				return starlark.None, nil
			}
			return starlark.Float(sds), nil
		}),
		statsBuiltin("pocock_p", "The two-sided p that each of so many looks may use so that all together keep 5 %.", `stats.pocock_p(4)`, func(c *Call) (starlark.Value, error) {
			var looks int
			if err := c.Unpack(1, value.Param{Name: "looks", Required: true, Into: value.Int(&looks), Doc: "how many looks there are at most"}); err != nil {
				return nil, err
			}
			if looks < 1 {
				return nil, c.Errorf("stats.pocock_p(4)", "got %d looks, want at least 1", looks)
			}
			return starlark.Float(stats.PocockP(looks)), nil
		}),
		statsBuiltin("quad_e", "The e-value of a t statistic on quads: 20 or more is evidence at 5 %, however often one looks.", `stats.quad_e(quads = 3, t = 7.0)`, func(c *Call) (starlark.Value, error) {
			var quads int
			var t float64
			g := 10.0
			if err := c.Unpack(2,
				value.Param{Name: "quads", Required: true, Into: value.Int(&quads), Doc: "how many"},
				value.Param{Name: "t", Required: true, Into: value.Float(&t), Doc: "log effect / its standard error"},
				value.Param{Name: "g", Default: "10", Into: value.Float(&g), Doc: "variance of the effects expected, in units of the noise"},
			); err != nil {
				return nil, err
			}
			if quads < 1 || g <= 0 {
				return nil, c.Errorf("stats.quad_e(quads = 3, t = 7.0)", "got %d quads and g %v, want at least 1 and more than 0", quads, g)
			}
			return finiteOrNone(stats.QuadE(quads, t, g)), nil
		}),
		statsBuiltin("decided", "The reason why the group's primary metric is decided at this look, or None: group-sequential over the group's cap.", `stop("decided", check = lambda group: stats.decided(group), sequential = True)`, func(c *Call) (starlark.Value, error) {
			return c.groupRule(c.env.decided())
		}),
		statsBuiltin("hopeless", "The reason why the group can no longer show a gain of min_effect, or None.", `stop("hopeless", check = lambda group: stats.hopeless(group), sequential = True, each_arm = True)`, func(c *Call) (starlark.Value, error) {
			return c.groupRule(c.env.hopeless())
		}),
	}, append(lookingBuiltins(), manyBuiltins()...)...)}
}

// statsBuiltin names a function of stats and keeps it out of stops where it is not valid at every look.
func statsBuiltin(name, doc, example string, f func(*Call) (starlark.Value, error)) Builtin {
	anytime := stats.ValidAtAnyLook(name) || name == "decided" || name == "hopeless" || isGroupRule(name)
	if !anytime {
		doc += " Not valid between blocks: it raises inside a stop."
	}
	return Builtin{Name: "stats." + name, Doc: doc, Example: example, Func: func(c *Call) (starlark.Value, error) {
		if c.describe == nil && !anytime {
			if stop, ok := c.context().Value(inStop{}).(asking); ok {
				return nil, c.Errorf("use stats.decided(group), or stats.quad_e(quads, t) for open-ended runs", "is not valid at every look, and stop %q looks after every block", stop.name)
			}
		}
		return f(c)
	}}
}

func (e *Env) decided() func(*record.Group) string {
	if e == nil {
		return nil
	}
	return e.Decided
}

func (e *Env) hopeless() func(*record.Group) string {
	if e == nil {
		return nil
	}
	return e.Hopeless
}

func (c *Call) groupRule(rule func(*record.Group) string) (starlark.Value, error) {
	var g *groupRecord
	if err := c.Unpack(1, value.Param{Name: "group", Required: true, Doc: "the group's record, as a stop's check gets it", Into: value.Func("group record", func(v starlark.Value) error {
		r, ok := v.(*groupRecord)
		if !ok {
			return value.Wrong(v, "the record of a group, as a stop's check gets it")
		}
		g = r
		return nil
	})}); err != nil {
		return nil, err
	}
	if stop, ok := c.context().Value(inStop{}).(asking); ok && stop.blind != "" {
		return nil, peeked(stop.blind, c.Name)
	}
	if rule == nil {
		return nil, fmt.Errorf("%s: nothing was wired to judge with", c.Name)
	}
	if why := rule(g.g); why != "" {
		return text(why), nil
	}
	return starlark.None, nil
}

func statsQuads(c *Call) (starlark.Value, error) {
	var quads []stats.Quad
	if err := c.Unpack(1, value.Param{Name: "quads", Required: true, Doc: "a list of (\"ABBA\" or \"BAAB\", four values in time)", Into: value.Func("list of (order, values)", func(v starlark.Value) error {
		items, err := elements(v)
		if err != nil {
			return value.Wrong(v, "list of (order, values)")
		}
		for i, x := range items {
			pair, err := elements(x)
			if err != nil || len(pair) != 2 {
				return fmt.Errorf("element %d: got %s, want (order, four values)", i, x.Type())
			}
			order, _ := starlark.AsString(pair[0])
			if order != "ABBA" && order != "BAAB" {
				return fmt.Errorf("element %d: got order %s, want \"ABBA\" or \"BAAB\"", i, pair[0])
			}
			var y []float64
			if err := numbersInto(&y).Unpack(pair[1]); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
			logs, ok := stats.Logs(y)
			if !ok || len(logs) != 4 {
				return fmt.Errorf("element %d: got %s, want four values above 0", i, pair[1])
			}
			quads = append(quads, stats.Quad{Y: [4]float64(logs), BFirst: order == "BAAB"})
		}
		return nil
	})}); err != nil {
		return nil, err
	}
	e, ok := stats.Quads(quads, nil)
	return estimateValue(e, ok), nil
}

func statsRung(c *Call) (starlark.Value, error) {
	var labels []string
	var y []float64
	var rung, control string
	if err := c.Unpack(2,
		value.Param{Name: "labels", Required: true, Into: value.Strings(&labels), Doc: "labels in time"},
		value.Param{Name: "values", Required: true, Into: numbersInto(&y), Doc: "values in time"},
		value.Param{Name: "rung", Required: true, Into: value.String(&rung), Doc: "the label asked for"},
		value.Param{Name: "control", Default: "None", Into: value.String(&control), Doc: "the label it is measured against; by default the first"},
	); err != nil {
		return nil, err
	}
	if len(labels) != len(y) || len(y) == 0 {
		return nil, c.Errorf(`stats.rung(["U", "S1", "U"], [100, 105, 101], rung = "S1")`, "got %d labels and %d values, want as many", len(labels), len(y))
	}
	if control == "" {
		control = labels[0]
	}
	logs, _, err := c.logs(y, nil)
	if err != nil {
		return nil, err
	}
	e, ok := stats.Rung([]stats.Ladder{{Y: logs, Labels: labels}}, control, rung, nil)
	return estimateValue(e, ok), nil
}

func (c *Call) logs(a, b []float64) (la, lb []float64, err error) {
	la, ok := stats.Logs(a)
	lb, ok2 := stats.Logs(b)
	if !ok || !ok2 {
		return nil, nil, c.Errorf("leave out what was not measured", "got a value that is not above 0, and effects are ratios")
	}
	return la, lb, nil
}

// estimateValue is an estimate as a struct, None when there is nothing to estimate from.
func estimateValue(e stats.Estimate, ok bool) starlark.Value {
	effect, fits := stats.Ratio(e.Diff)
	if !ok || !fits {
		return starlark.None
	}
	field := func(x float64, ok bool) starlark.Value {
		if !ok {
			return starlark.None
		}
		return finiteOrNone(x)
	}
	var low, high starlark.Value = starlark.None, starlark.None
	if l, h, ok := e.Interval(.95); ok {
		if r, ok := stats.Ratio(l); ok {
			low = starlark.Float(r)
		}
		if r, ok := stats.Ratio(h); ok {
			high = starlark.Float(r)
		}
	}
	p, hasP := e.P()
	t, hasT := e.T(0)
	return value.NewStruct("estimate",
		value.Field{Name: "effect", Value: starlark.Float(effect)},
		value.Field{Name: "low", Value: low},
		value.Field{Name: "high", Value: high},
		value.Field{Name: "se", Value: field(e.SE, e.Known())},
		value.Field{Name: "df", Value: starlark.Float(e.DF)},
		value.Field{Name: "t", Value: field(t, hasT)},
		value.Field{Name: "p", Value: field(p, hasP)},
		value.Field{Name: "method", Value: text(e.Method)},
		value.Field{Name: "n", Value: starlark.MakeInt(e.N)},
	)
}

func finiteOrNone(x float64) starlark.Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return starlark.None
	}
	return starlark.Float(x)
}

func meanSD(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		sd += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sd / math.Max(1, float64(len(x)-1)))
}

// numbersInto unpacks a list of finite numbers.
func numbersInto(to *[]float64) value.Unpacker {
	return value.Func("list of numbers", func(v starlark.Value) error {
		items, err := elements(v)
		if err != nil {
			return value.Wrong(v, "list of numbers")
		}
		out := make([]float64, len(items))
		for i, x := range items {
			if err := value.Float(&out[i]).Unpack(x); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		*to = out
		return nil
	})
}
