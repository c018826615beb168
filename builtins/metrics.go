package builtins

// Metrics that an engine declares: where a number comes from, or which formula of others it is.

import (
	"fmt"
	"regexp"

	"go.starlark.net/starlark"

	"flow/builtins/metric"
	"flow/starlark/value"
	"flow/workflows/plan"
)

var metricKind = &kind[plan.Metric]{
	name:  "metric",
	key:   func(m plan.Metric) string { return plan.Sum(m) },
	label: func(m plan.Metric) string { return fmt.Sprintf("%q", m.Name) },
	attrs: map[string]func(plan.Metric) starlark.Value{
		"name":   func(m plan.Metric) starlark.Value { return text(m.Name) },
		"unit":   func(m plan.Metric) starlark.Value { return text(m.Unit) },
		"better": func(m plan.Metric) starlark.Value { return text(m.Better) },
		"of":     func(m plan.Metric) starlark.Value { return textOrNone(m.Of) },
	},
}

var extractKind = &kind[plan.Extract]{
	name:  "extract",
	key:   func(x plan.Extract) string { return plan.Sum(x) },
	label: func(x plan.Extract) string { return x.Kind + " " + x.Path + x.Column + x.Pointer + x.Pattern + x.Name },
	attrs: map[string]func(plan.Extract) starlark.Value{
		"kind": func(x plan.Extract) starlark.Value { return text(x.Kind) },
	},
}

var metricName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func metricFamily() Family {
	return Family{"Metrics", "Numbers that an engine reports by itself, beside the ones flow measures.", []Builtin{
		{
			Name: "metric",
			Doc: "A named number with a unit and a direction: extracted from what the engine writes, or a formula of other metrics. " +
				"Where a formula's input is not measured, neither is its result.",
			Example: `metric("steady_tok_s", unit = "tok/s", better = "higher", source = extract.csv("{out}/bench.csv", column = "gen_steady_tps"))`,
			Func:    metricCall,
		},
		extractBuiltin("extract.csv", "A column of a CSV file that the engine wrote.", `extract.csv("{out}/bench.csv", column = "gen_tps")`, func(c *Call, x *plan.Extract) error {
			x.Kind, x.Row = "csv", "only"
			return c.Unpack(1,
				value.Param{Name: "path", Required: true, Into: nonEmpty(&x.Path), Doc: "the file, in {out}"},
				value.Param{Name: "column", Required: true, Into: nonEmpty(&x.Column), Doc: "name in the header line"},
				value.Param{Name: "row", Default: `"only"`, Into: value.OneOf(&x.Row, "only", "first", "last", "sum", "mean"), Doc: "which row: \"only\" refuses a file with several"},
			)
		}),
		extractBuiltin("extract.json", "A value of a JSON file that the engine wrote.", `extract.json("{out}/result.json", pointer = "/0/avg_ts")`, func(c *Call, x *plan.Extract) error {
			x.Kind = "json"
			return c.Unpack(1,
				value.Param{Name: "path", Required: true, Into: nonEmpty(&x.Path), Doc: "the file, in {out}"},
				value.Param{Name: "pointer", Required: true, Into: value.String(&x.Pointer), Doc: "JSON pointer (RFC 6901)"},
			)
		}),
		extractBuiltin("extract.log", "A number in the engine's log, standard output and error together.", `extract.log(r"speed=([0-9.]+) token/s")`, func(c *Call, x *plan.Extract) error {
			x.Kind = "log"
			return c.Unpack(1, value.Param{Name: "pattern", Required: true, Into: numberPattern(&x.Pattern), Doc: "RE2 pattern whose first group is the number; the last match counts"})
		}),
		extractBuiltin("extract.stdout", "A number in the engine's standard output.", `extract.stdout(r"([0-9.]+) MB/s")`, func(c *Call, x *plan.Extract) error {
			x.Kind = "stdout"
			return c.Unpack(1, value.Param{Name: "pattern", Required: true, Into: numberPattern(&x.Pattern), Doc: "RE2 pattern whose first group is the number; the last match counts"})
		}),
		extractBuiltin("extract.prometheus", "A series of the engine's metrics endpoint: its value after the measured step, or for a counter its growth over it. Series named *_total are counters.", `extract.prometheus("llamacpp:tokens_predicted_total", path = "/metrics")`, func(c *Call, x *plan.Extract) error {
			x.Kind, x.Path = "prometheus", "/metrics"
			return c.Unpack(1,
				value.Param{Name: "name", Required: true, Into: nonEmpty(&x.Name), Doc: "the series, with its labels if it has any"},
				value.Param{Name: "path", Default: `"/metrics"`, Into: value.String(&x.Path), Doc: "path of the endpoint"},
				value.Param{Name: "counter", Default: "False", Into: value.Bool(&x.Counter), Doc: "it is a counter although its name does not say so"},
			)
		}),
	}}
}

func metricCall(c *Call) (starlark.Value, error) {
	var m plan.Metric
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: value.String(&m.Name), Doc: "ends in its unit where it has one: _tok_s, _ms, _j, _w, _mib"},
		value.Param{Name: "unit", Required: true, Into: value.String(&m.Unit), Doc: "as reports print it; \"\" for a plain number"},
		value.Param{Name: "better", Default: `""`, Into: value.OneOf(&m.Better, "", "higher", "lower"), Doc: "the direction, \"\" when neither is better"},
		value.Param{Name: "source", Default: "None", Into: pointTo(extractKind, &m.Extract), Doc: "an extract.…(…)"},
		value.Param{Name: "of", Default: `""`, Into: value.String(&m.Of), Example: `"misses / (tokens - 1)"`, Doc: "a formula of other metrics: + - * / ( ) min max ln"},
	)
	if err != nil {
		return nil, err
	}
	m.Pos = c.Pos()
	if !metricName.MatchString(m.Name) {
		return nil, c.Errorf("use small letters, digits and _, such as \"first_step_ms\"", "got name %q, want a name that SQL and formulas can carry", m.Name)
	}
	if (m.Extract == nil) == (m.Of == "") {
		return nil, c.Errorf(fmt.Sprintf("metric(%q, unit = %q, source = extract.log(r\"speed=([0-9.]+)\")), or of = \"misses / tokens\"", m.Name, m.Unit), "metric %q: give exactly one of source and of", m.Name)
	}
	if m.Of != "" {
		if _, err := metric.CheckFormula(m.Of); err != nil {
			return nil, c.Errorf(`of = "misses / (tokens - 1)"`, "metric %q: formula: %v", m.Name, err)
		}
	}
	return metricKind.of(m), nil
}

func extractBuiltin(name, doc, example string, f func(*Call, *plan.Extract) error) Builtin {
	return Builtin{Name: name, Doc: doc, Example: example, Func: func(c *Call) (starlark.Value, error) {
		var x plan.Extract
		if err := f(c, &x); err != nil {
			return nil, err
		}
		return extractKind.of(x), nil
	}}
}

// numberPattern unpacks a pattern with a group.
func numberPattern(to *string) value.Unpacker {
	inner := pattern(to)
	return value.Func(inner.Want(), func(v starlark.Value) error {
		if err := inner.Unpack(v); err != nil {
			return err
		}
		if re := regexp.MustCompile(*to); re.NumSubexp() == 0 {
			return fmt.Errorf("got %q, want a pattern with a group around the number, such as r\"speed=([0-9.]+)\"", *to)
		}
		return nil
	})
}

// direction is what is better of a metric: declared by the engine, else built in; "" when unknown.
func direction(e plan.Engine, name string) string {
	for _, m := range e.Metrics {
		if m.Name == name {
			return m.Better
		}
	}
	if d, ok := metric.Lookup(name); ok {
		return d.Better
	}
	return ""
}
