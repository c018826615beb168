package builtins

// Collectors: what samples beside flow's own sensors. The refusals are plan.Collector's.

import (
	"fmt"

	"go.starlark.net/starlark"

	"flow/starlark/value"
	"flow/workflows/plan"
)

var collectorKind = &kind[plan.Collector]{
	name:  "collector",
	key:   func(c plan.Collector) string { return plan.Sum(c) },
	label: func(c plan.Collector) string { return fmt.Sprintf("%q", c.Name) },
	attrs: map[string]func(plan.Collector) starlark.Value{
		"name":    func(c plan.Collector) starlark.Value { return text(c.Name) },
		"command": func(c plan.Collector) starlark.Value { return texts(c.Command) },
		"file":    func(c plan.Collector) starlark.Value { return textOrNone(c.File) },
		"format":  func(c plan.Collector) starlark.Value { return text(c.Format) },
	},
}

func collectorFamily() Family {
	return Family{"Collectors", "Samples from outside: a wall meter, a BMC, powermetrics, whatever prints numbers.", []Builtin{{
		Name: "collector",
		Doc: "A source of samples of your own, for group(…, collectors = […]): a command whose lines become samples while an arm runs, or a file that something else keeps writing. " +
			"Its sensors are NAME.what, and gates, guards and metrics use them as any other: a collector \"wall\" that prints power_w gives wall.power_w, and the arm the metric wall.energy_j. " +
			"An arm does not start before every collector had a first line; one that falls silent for longer than stale is not measured from then on.",
		Example: `collector("wall", command = ["curl", "-s", "http://meter.local/status"], format = "jsonl", every = "1s")`,
		Func:    collectorCall,
	}}}
}

func collectorCall(c *Call) (starlark.Value, error) {
	var x plan.Collector
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&x.Name), Doc: "the first word of its sensors: small letters, digits and _"},
		value.Param{Name: "command", Default: "[]", Into: command(&x.Command), Example: `["meter", "--csv"]`, Doc: "program and arguments; it is started with the arm and ended with it"},
		value.Param{Name: "file", Default: "None", Into: nonEmpty(&x.File), Doc: "instead of a command: a file that grows by lines or is written anew, as by a collector that root runs"},
		value.Param{Name: "processes", Default: "None", Into: pattern(&x.Processes), Example: `r"^ffmpeg$"`, Doc: "instead of both: count processes whose name, program or script matches, as procs.NAME.count; flow counts engines, builds and agents by itself"},
		value.Param{Name: "format", Default: "None", Into: value.OneOf(&x.Format, plan.CollectorFormats()...), Doc: "how its lines are read, of a command or a file; csv has a line of names first, jsonl one object a line, key=value words such as power_w=12.3"},
		value.Param{Name: "every", Default: `"0s"`, Into: value.Duration(&x.Every), Doc: "run the command anew this often; 0 for one that goes on printing by itself"},
		value.Param{Name: "stale", Default: `"0s"`, Into: value.Duration(&x.Stale), Doc: "silence after which nothing counts as measured; 0 is 10 s, or three times every"},
		value.Param{Name: "wait", Default: `"0s"`, Into: value.Duration(&x.Wait), Doc: "how long the first line may take; 0 is 5 s, or twice every"},
	)
	if err != nil {
		return nil, err
	}
	x.Pos = c.Pos()
	if err := x.Check(); err != nil {
		return nil, c.wrap(err)
	}
	return collectorKind.of(x), nil
}
