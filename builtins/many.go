package builtins

// Functions of stats for many levers at once, for few blocks without a distribution, and for the choice of
// what to screen next.

import (
	"math"

	"go.starlark.net/starlark"

	"flow/builtins/stats"
	"flow/starlark/value"
)

func numbers(name string, into *[]float64, doc string) value.Param {
	return value.Param{Name: name, Required: true, Into: numbersInto(into), Doc: doc}
}

func manyBuiltins() []Builtin {
	adjust := func(name, doc string, f func([]float64) []float64) Builtin {
		return statsBuiltin(name, doc, `stats.`+name+`([0.001, 0.008, 0.039, 0.041, 0.9])`, func(c *Call) (starlark.Value, error) {
			var p []float64
			if err := c.Unpack(1, numbers("p", &p, "p-values, each between 0 and 1")); err != nil {
				return nil, err
			}
			for _, x := range p {
				if x < 0 || x > 1 {
					return nil, c.Errorf(`stats.`+name+`([0.01, 0.2])`, "got p %v, want 0 to 1", x)
				}
			}
			return floats(f(p)), nil
		})
	}
	exact := func(name, doc string, f func([]float64) stats.Exact) Builtin {
		return statsBuiltin(name, doc, `stats.`+name+`([2.1, 1.9, 1.5, 2.4, 1.5, 0.8]).p`, func(c *Call) (starlark.Value, error) {
			var d []float64
			if err := c.Unpack(1, numbers("differences", &d, "one for each quad, or for each pair whose order a coin drew")); err != nil {
				return nil, err
			}
			return exactValue(f(d)), nil
		})
	}
	return []Builtin{
		adjust("holm", "Adjusted p-values for claims: of those at 0.05 or below the chance that any is false is at most 5 %.", stats.Holm),
		adjust("bh", "Adjusted p-values for screens (Benjamini-Hochberg): of those at 0.05 or below at most 5 % are false.", stats.BH),
		statsBuiltin("ebh", "Which e-values are discoveries at a false discovery rate, whatever their dependence, as with shared controls: a list of booleans.", `stats.ebh([80, 1, 3, 1], rate = 0.05)`, func(c *Call) (starlark.Value, error) {
			var e []float64
			rate := .05
			if err := c.Unpack(1, numbers("e", &e, "e-values, 0 or more"), value.Param{Name: "rate", Default: "0.05", Into: value.Float(&rate), Doc: "share of the discoveries that may be false"}); err != nil {
				return nil, err
			}
			if !(rate > 0 && rate < 1) {
				return nil, c.Errorf("stats.ebh([80, 1], rate = 0.05)", "got rate %v, want between 0 and 1", rate)
			}
			out := make([]starlark.Value, len(e))
			for i, x := range stats.EBH(e, rate) {
				out[i] = starlark.Bool(x)
			}
			return frozen(out), nil
		}),
		exact("sign_test", "Sign test: assumes nothing but that no effect leaves both signs equally likely. Zeros are dropped. Fields p, n (how many are not 0: the effective number), positive, zeros, why (None, or why there is no p).", stats.SignTest),
		exact("sign_flip", "Sign-flip test: exact when a coin drew each block's orientation. All assignments of signs are enumerated, up to 20 differences that are not 0. A zero is the same under both signs and counts as half a flip, so that p is that of the others. Fields as of sign_test.", stats.SignFlip),
		exact("signed_rank", "Wilcoxon's signed-rank test, exact for any ties; zeros are dropped. Fields as of sign_test.", stats.SignedRank),
		statsBuiltin("hodges_lehmann", "Where differences lie, without a distribution: fields estimate, low, high, coverage (exact), why. Fewer than six differences have no interval at 95 %, and why says so.", `stats.hodges_lehmann([2.1, 1.9, 1.5, 2.4, 1.5, 0.8]).low`, hodgesLehmann),
		statsBuiltin("median_interval", "The interval of a median from order statistics, which assumes no distribution: fields median, low, high, coverage (exact), why. An end is None where no value seen can be it: fewer than six values have no two ends at 95 %, and why says so.", `stats.median_interval([100.0, 101.0, 99.5, 100.2, 100.8, 100.4]).high`, medianInterval),
		statsBuiltin("shrink", "Effects moved towards their mean, the more the noisier they are: what the best of many can be expected to keep. A list of structs with mean and sd, None for fewer than three effects.", `stats.shrink([0.05, 0.021, 0.018, 0.009], se = [0.01, 0.01, 0.01, 0.01])`, shrinkCall),
		statsBuiltin("expected_gain", "E[(δ − above)⁺] of an effect known as mean ± sd: what it can be expected to bring beyond `above`.", `stats.expected_gain(mean = 0.01, sd = 0.02, above = 0.005)`, func(c *Call) (starlark.Value, error) {
			var mean, sd, above float64
			if err := c.Unpack(2,
				value.Param{Name: "mean", Required: true, Into: value.Float(&mean), Doc: "of the effect"},
				value.Param{Name: "sd", Required: true, Into: value.Float(&sd), Doc: "how well it is known; 0 is exactly"},
				value.Param{Name: "above", Default: "0", Into: value.Percent(&above), Example: `"1%"`, Doc: "what it must bring to count"},
			); err != nil {
				return nil, err
			}
			if sd < 0 {
				return nil, c.Errorf("stats.expected_gain(mean = 0.01, sd = 0.02)", "got sd %v, want at least 0", sd)
			}
			return finiteOrNone(stats.ExpectedGain(mean, sd, above)), nil
		}),
		statsBuiltin("best_of_nulls", "What the best of k levers that do nothing shows, in standard errors.", `stats.best_of_nulls(20)`, func(c *Call) (starlark.Value, error) {
			var k int
			if err := c.Unpack(1, value.Param{Name: "k", Required: true, Into: value.Int(&k), Doc: "how many levers"}); err != nil {
				return nil, err
			}
			if k < 1 {
				return nil, c.Errorf("stats.best_of_nulls(20)", "got %d levers, want at least 1", k)
			}
			return finiteOrNone(stats.BestOfNulls(k)), nil
		}),
		statsBuiltin("min_pairs", "How many blocks a test without a distribution needs before it can reach p: 6 for 0.05.", `stats.min_pairs(0.05)`, func(c *Call) (starlark.Value, error) {
			var p float64
			if err := c.Unpack(1, value.Param{Name: "p", Required: true, Into: value.Float(&p), Doc: "the p to reach"}); err != nil {
				return nil, err
			}
			if !(p > 0 && p <= 1) {
				return nil, c.Errorf("stats.min_pairs(0.05)", "got p %v, want more than 0 and at most 1", p)
			}
			return starlark.MakeInt(stats.MinPairs(p)), nil
		}),
		statsBuiltin("sign_e", "The e-value of so many positive differences of n, without a distribution: 20 or more is evidence at 5 %, however often one looks.", `stats.sign_e(positive = 7, n = 7)`, func(c *Call) (starlark.Value, error) {
			var k, n int
			if err := c.Unpack(2,
				value.Param{Name: "positive", Required: true, Into: value.Int(&k), Doc: "how many are above 0"},
				value.Param{Name: "n", Required: true, Into: value.Int(&n), Doc: "how many are not 0"},
			); err != nil {
				return nil, err
			}
			if k < 0 || k > n {
				return nil, c.Errorf("stats.sign_e(positive = 7, n = 7)", "got %d positive of %d, want 0 to n", k, n)
			}
			return finiteOrNone(stats.SignE(k, n)), nil
		}),
		statsBuiltin("multiply_e", "The evidence of independent sessions together: their e-values multiplied. A session left out because it said nothing makes it worthless.", `stats.multiply_e([7.9, 7.9])`, func(c *Call) (starlark.Value, error) {
			var e []float64
			if err := c.Unpack(1, numbers("e", &e, "e-values, one of each session")); err != nil {
				return nil, err
			}
			for _, x := range e {
				if x < 0 {
					return nil, c.Errorf("stats.multiply_e([7.9, 7.9])", "got e-value %v, want 0 or more", x)
				}
			}
			return finiteOrNone(stats.MultiplyE(e)), nil
		}),
		statsBuiltin("interaction", "What a stack of two levers has beyond the product of both alone, as a ratio minus one: negative when they get in each other's way. Values of the control, of each lever, and of both.", `stats.interaction(100, 105, 104, 107)`, func(c *Call) (starlark.Value, error) {
			var u, a, b, ab float64
			if err := c.Unpack(4,
				value.Param{Name: "control", Required: true, Into: value.Float(&u), Doc: "without both"},
				value.Param{Name: "first", Required: true, Into: value.Float(&a), Doc: "with the first"},
				value.Param{Name: "second", Required: true, Into: value.Float(&b), Doc: "with the second"},
				value.Param{Name: "both", Required: true, Into: value.Float(&ab), Doc: "with both"},
			); err != nil {
				return nil, err
			}
			i, ok := stats.Interaction(u, a, b, ab)
			if !ok {
				return nil, c.Errorf("leave out what was not measured", "got a value that is not above 0, and effects are ratios")
			}
			return finiteOrNone(math.Expm1(i)), nil
		}),
	}
}

func exactValue(e stats.Exact) starlark.Value {
	var p starlark.Value = starlark.None
	if e.Why == "" {
		p = starlark.Float(e.P)
	}
	return value.NewStruct("exact",
		value.Field{Name: "p", Value: p},
		value.Field{Name: "n", Value: starlark.MakeInt(e.N)},
		value.Field{Name: "positive", Value: starlark.MakeInt(e.K)},
		value.Field{Name: "zeros", Value: starlark.MakeInt(e.Zero)},
		value.Field{Name: "why", Value: textOrNone(e.Why)},
	)
}

func hodgesLehmann(c *Call) (starlark.Value, error) {
	var d []float64
	level := .95
	if err := c.Unpack(1, numbers("differences", &d, "one for each quad or pair"), value.Param{Name: "level", Default: "0.95", Into: value.Float(&level), Doc: "coverage asked for"}); err != nil {
		return nil, err
	}
	if !(level > 0 && level < 1) {
		return nil, c.Errorf("stats.hodges_lehmann(d, level = 0.95)", "got level %v, want between 0 and 1", level)
	}
	s, ok := stats.HodgesLehmann(d, level)
	if !ok {
		return starlark.None, nil
	}
	bound := func(x float64) starlark.Value {
		if !s.Known {
			return starlark.None
		}
		return finiteOrNone(x)
	}
	return value.NewStruct("shift",
		value.Field{Name: "estimate", Value: finiteOrNone(s.Estimate)},
		value.Field{Name: "low", Value: bound(s.Low)},
		value.Field{Name: "high", Value: bound(s.High)},
		value.Field{Name: "coverage", Value: bound(s.Coverage)},
		value.Field{Name: "why", Value: textOrNone(s.Why)},
	), nil
}

func medianInterval(c *Call) (starlark.Value, error) {
	var x []float64
	level := .95
	if err := c.Unpack(1, numbers("values", &x, "as measured, one for each arm"), value.Param{Name: "level", Default: "0.95", Into: value.Float(&level), Doc: "coverage asked for"}); err != nil {
		return nil, err
	}
	if !(level > 0 && level < 1) {
		return nil, c.Errorf("stats.median_interval(values, level = 0.95)", "got level %v, want between 0 and 1", level)
	}
	r, ok := stats.MedianInterval(x, level)
	if !ok {
		return starlark.None, nil
	}
	end := func(x *float64) starlark.Value {
		if x == nil {
			return starlark.None
		}
		return finiteOrNone(*x)
	}
	return value.NewStruct("median_interval",
		value.Field{Name: "median", Value: finiteOrNone(r.Median)},
		value.Field{Name: "low", Value: end(r.Low)},
		value.Field{Name: "high", Value: end(r.High)},
		value.Field{Name: "coverage", Value: finiteOrNone(r.Coverage)},
		value.Field{Name: "why", Value: textOrNone(r.Why)},
	), nil
}

func shrinkCall(c *Call) (starlark.Value, error) {
	var x, se []float64
	if err := c.Unpack(1, numbers("effects", &x, "as measured"), numbers("se", &se, "the standard error of each")); err != nil {
		return nil, err
	}
	if len(x) != len(se) {
		return nil, c.Errorf("stats.shrink([0.05, 0.02, 0.01], se = [0.01, 0.01, 0.01])", "got %d effects and %d standard errors, want as many", len(x), len(se))
	}
	v := make([]float64, len(se))
	for i, s := range se {
		if s < 0 {
			return nil, c.Errorf("stats.shrink([0.05, 0.02, 0.01], se = [0.01, 0.01, 0.01])", "got standard error %v, want 0 or more", s)
		}
		v[i] = s * s
	}
	s, ok := stats.Shrink(x, v)
	if !ok {
		return starlark.None, nil
	}
	out := make([]starlark.Value, len(x))
	for i := range out {
		out[i] = value.NewStruct("shrunk", value.Field{Name: "mean", Value: finiteOrNone(s.Mean[i])}, value.Field{Name: "sd", Value: finiteOrNone(s.SD[i])})
	}
	return frozen(out), nil
}
