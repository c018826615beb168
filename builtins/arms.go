package builtins

// arm and process: what a group's body acts with. The runner ends processes, not the body.

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.starlark.net/starlark"

	"flow/builtins/metric"
	"flow/starlark/value"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

func newArm(env *Env, a plan.Arm) starlark.Value {
	return &handle{
		name: "arm", shown: "side " + a.Label(), impl: a, env: env,
		fields: map[string]func() starlark.Value{
			"label":    func() starlark.Value { return text(a.Label()) },
			"side":     func() starlark.Value { return sideKind.of(a.Side()) },
			"engine":   func() starlark.Value { return engineKind.of(a.Side().Engine) },
			"stack":    func() starlark.Value { return stackValue(a.Side().Stack) },
			"workload": func() starlark.Value { return workloadKind.of(a.Workload()) },
		},
	}
}

func newProcess(env *Env, p plan.Process) starlark.Value {
	return &handle{
		name: "process", impl: p, env: env,
		fields: map[string]func() starlark.Value{
			"info": func() starlark.Value {
				if i := p.Info(); i != nil {
					return newFact(env, "process", *i)
				}
				return starlark.None
			},
		},
	}
}

func (c *Call) arm() plan.Arm         { return c.Recv.(*handle).impl.(plan.Arm) }
func (c *Call) process() plan.Process { return c.Recv.(*handle).impl.(plan.Process) }

// processInto unpacks a launched process.
func processInto(to *plan.Process) value.Unpacker {
	return value.Func("process", func(v starlark.Value) error {
		if h, ok := v.(*handle); ok {
			if p, ok := h.impl.(plan.Process); ok {
				*to = p
				return nil
			}
		}
		return fmt.Errorf("got %s, want process: the result of arm.launch()", v.Type())
	})
}

func armFamily() Family {
	generation := func(verb string, act func(c *Call, p plan.Process, w plan.Workload) error) func(*Call) (starlark.Value, error) {
		return func(c *Call) (starlark.Value, error) {
			var p plan.Process
			var w *plan.Workload
			err := c.Unpack(2,
				value.Param{Name: "process", Required: true, Into: processInto(&p), Doc: "the engine: the result of arm.launch()"},
				value.Param{Name: "workload", Default: "None", Into: pointTo(workloadKind, &w), Doc: "what to " + verb + " with; by default the workload of the side"},
			)
			if err != nil {
				return nil, err
			}
			if w == nil {
				x := c.arm().Workload()
				w = &x
			}
			return starlark.None, c.effect(act(c, p, *w))
		}
	}
	return Family{"Arm", "What a group's body can do with its arm, beside reading label, side, engine, stack and workload. The runner settles and judges before it, ends processes and judges after it.", []Builtin{
		{
			Name: "arm.launch", Doc: "Starts the side's engine with its levers and waits until it is ready.", Example: `process = arm.launch()`,
			Func: func(c *Call) (starlark.Value, error) {
				var e *plan.Engine
				if err := c.Unpack(1, value.Param{Name: "engine", Default: "None", Into: pointTo(engineKind, &e), Doc: "another engine to launch; by default that of the side"}); err != nil {
					return nil, err
				}
				if e == nil {
					x := c.arm().Side().Engine
					e = &x
				}
				p, err := c.arm().Launch(c.context(), *e)
				if err != nil {
					return nil, c.effect(err)
				}
				return newProcess(c.env, p), nil
			},
		}, {
			Name: "arm.warm", Doc: "Sends the workload's warm-up requests, which are not measured. Nothing happens for a command engine.", Example: `arm.warm(process)`,
			Func: generation("warm up", func(c *Call, p plan.Process, w plan.Workload) error { return c.arm().Warm(c.context(), p, w) }),
		}, {
			Name: "arm.measure", Doc: "Sends the workload's measured requests; a command engine runs to its end.", Example: `arm.measure(process)`,
			Func: generation("measure", func(c *Call, p plan.Process, w plan.Workload) error { return c.arm().Measure(c.context(), p, w) }),
		}, {
			Name: "arm.sample", Doc: "Waits and gives the samples that came meanwhile: records with sensor, mono_ns and value.", Example: `idle = arm.sample("1s")`,
			Func: func(c *Call) (starlark.Value, error) {
				var d time.Duration
				if err := c.Unpack(1, value.Param{Name: "duration", Required: true, Into: value.Duration(&d), Doc: "how long"}); err != nil {
					return nil, err
				}
				s, err := c.arm().Sample(c.context(), d)
				if err != nil {
					return nil, c.effect(err)
				}
				out := make([]starlark.Value, len(s))
				for i := range s {
					out[i] = newFact(c.env, "sample", s[i])
				}
				return frozen(out), nil
			},
		}, {
			Name: "arm.exec", Doc: "Runs a command to its end, kept with the arm: a record with argv, exit_code, stdout, stderr and seconds. It never goes through a shell.", Example: `arm.exec(["sync"])`,
			Func: func(c *Call) (starlark.Value, error) {
				var argv []string
				if err := c.Unpack(1, value.Param{Name: "command", Required: true, Into: command(&argv), Doc: "the program and its arguments"}); err != nil {
					return nil, err
				}
				if len(argv) == 0 {
					return nil, c.Errorf(`arm.exec(["sync"])`, "got an empty command")
				}
				x, err := c.arm().Exec(c.context(), argv)
				if err != nil {
					return nil, c.effect(err)
				}
				return newFact(c.env, "exec", x), nil
			},
		}, {
			Name: "arm.check", Doc: "Judges a gate now, on the arm as it is so far, and keeps the finding.", Example: `arm.check(gate("always", check = lambda arm: ok()))`,
			Func: func(c *Call) (starlark.Value, error) {
				var g plan.Gate
				if err := c.Unpack(1, value.Param{Name: "gate", Required: true, Into: into(gateKind, &g), Doc: "the gate"}); err != nil {
					return nil, err
				}
				f, err := c.arm().Check(c.context(), g)
				if err != nil {
					return nil, c.effect(err)
				}
				return findingKind.of(f), nil
			},
		}, {
			Name: "arm.record", Doc: "Keeps a metric of the body's own making, under a name that neither flow nor the engine gives to one.", Example: `arm.record("exec_s", 1.5, unit = "s", better = "lower")`,
			Func: func(c *Call) (starlark.Value, error) {
				m := record.Metric{Source: "body"}
				err := c.Unpack(2,
					value.Param{Name: "metric", Required: true, Into: value.String(&m.Name), Doc: "its name"},
					value.Param{Name: "value", Required: true, Into: value.Maybe(&m.Value, value.Float), Doc: "a number, or None for not measured"},
					value.Param{Name: "unit", Default: `""`, Into: value.String(&m.Unit), Doc: "as reports print it"},
					value.Param{Name: "better", Default: `""`, Into: value.OneOf(&m.Better, "", "higher", "lower"), Doc: "the direction, \"\" when neither is better"},
					value.Param{Name: "case", Default: `""`, Into: value.String(&m.Case), Doc: "the case it belongs to"},
					value.Param{Name: "why", Default: `""`, Into: value.String(&m.Why), Doc: "why it was not measured"},
				)
				if err != nil {
					return nil, err
				}
				if !metricName.MatchString(m.Name) {
					return nil, c.Errorf("use small letters, digits and _, such as \"first_step_ms\"", "got name %q, want a name that SQL and formulas can carry", m.Name)
				}
				if d, ok := metric.Lookup(m.Name); ok {
					return nil, c.Errorf(fmt.Sprintf("give it a name of its own, such as \"body_%s\"", m.Name), "got name %q, which flow measures itself: %s", m.Name, d.Doc)
				}
				e := c.arm().Side().Engine
				if slices.ContainsFunc(e.Metrics, func(x plan.Metric) bool { return x.Name == m.Name }) {
					return nil, c.Errorf(fmt.Sprintf("give it a name of its own, such as \"body_%s\"", m.Name), "got name %q, which engine %q declares", m.Name, e.Name)
				}
				if m.Value != nil && (math.IsNaN(*m.Value) || math.IsInf(*m.Value, 0)) {
					return nil, c.Errorf("record None with why = when there is no number", "metric %q: got %v, want a finite number", m.Name, *m.Value)
				}
				return starlark.None, c.effect(c.arm().Record(m))
			},
		},
	}}
}

func processFamily() Family {
	return Family{"Process", "What a body can do with a launched engine, beside reading info (argv, env, pid, port, version, …).", []Builtin{
		{
			Name: "process.generate", Doc: "Sends a workload's requests and gives their records. A failed request is a record with status and error, not an error.", Example: `requests = process.generate(arm.workload)`,
			Func: func(c *Call) (starlark.Value, error) {
				var w plan.Workload
				mark := record.MarkMeasured
				err := c.Unpack(1,
					value.Param{Name: "workload", Required: true, Into: into(workloadKind, &w), Doc: "what to ask"},
					value.Param{Name: "mark", Default: `"measured"`, Into: value.OneOf(&mark, record.MarkMeasured, record.MarkWarm), Doc: "whether the requests count"},
				)
				if err != nil {
					return nil, err
				}
				rs, err := c.process().Generate(c.context(), w, mark)
				if err != nil {
					return nil, c.effect(err)
				}
				out := make([]starlark.Value, len(rs))
				for i := range rs {
					out[i] = newFact(c.env, "request", rs[i])
				}
				return frozen(out), nil
			},
		}, {
			Name: "process.confirm", Doc: "Reads the evidence of every lever of the group, on whichever side this is: records with lever, kind, what, found and observed.", Example: `process.confirm()`,
			Func: func(c *Call) (starlark.Value, error) {
				if err := c.Unpack(0); err != nil {
					return nil, err
				}
				es, err := c.process().Confirm(c.context())
				if err != nil {
					return nil, c.effect(err)
				}
				out := make([]starlark.Value, len(es))
				for i := range es {
					out[i] = newFact(c.env, "evidence", es[i])
				}
				return frozen(out), nil
			},
		}, {
			Name: "process.stop", Doc: "Ends the engine and proves that nothing is left. The runner does it in any case.", Example: `process.stop()`,
			Func: func(c *Call) (starlark.Value, error) {
				if err := c.Unpack(0); err != nil {
					return nil, err
				}
				return starlark.None, c.effect(c.process().Stop(c.context()))
			},
		},
	}}
}
