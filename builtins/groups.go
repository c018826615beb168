package builtins

// Groups: the one experiment primitive, with its sides and its probe. The refusals are plan.NewGroup's.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"flow/starlark/value"
	"flow/workflows/plan"
	"flow/workflows/record"
)

var sideKind = &kind[plan.Side]{
	name:  "side",
	key:   func(s plan.Side) string { return plan.Sum(s) },
	label: func(s plan.Side) string { return fmt.Sprintf("%s, %s", s.Engine.Name, s.Stack.Names()) },
	attrs: map[string]func(plan.Side) starlark.Value{
		"label":    func(s plan.Side) starlark.Value { return textOrNone(s.Label) },
		"engine":   func(s plan.Side) starlark.Value { return engineKind.of(s.Engine) },
		"stack":    func(s plan.Side) starlark.Value { return stackValue(s.Stack) },
		"workload": func(s plan.Side) starlark.Value { return workloadKind.orNone(s.Workload) },
	},
}

var probeKind = &kind[plan.Probe]{
	name:  "probe",
	key:   func(p plan.Probe) string { return plan.Sum(p) },
	label: func(p plan.Probe) string { return fmt.Sprintf("%q", p.Metric) },
	attrs: map[string]func(plan.Probe) starlark.Value{
		"metric": func(p plan.Probe) starlark.Value { return text(p.Metric) },
		"above":  func(p plan.Probe) starlark.Value { return floatOrNone(p.Above) },
		"below":  func(p plan.Probe) starlark.Value { return floatOrNone(p.Below) },
	},
}

var groupKind = &kind[*plan.Group]{
	name:   "group",
	key:    func(g *plan.Group) string { return fmt.Sprintf("%p", g) }, // an experiment equals itself only
	digest: func(g *plan.Group) (string, error) { return g.Declared() },
	label:  func(g *plan.Group) string { return fmt.Sprintf("%q", g.Name) },
	attrs: map[string]func(*plan.Group) starlark.Value{
		"name":       func(g *plan.Group) starlark.Value { return text(g.Name) },
		"role":       func(g *plan.Group) starlark.Value { return text(g.Role) },
		"design":     func(g *plan.Group) starlark.Value { return textOrNone(g.Design) },
		"order":      func(g *plan.Group) starlark.Value { return text(g.Order) },
		"primary":    func(g *plan.Group) starlark.Value { return text(g.Primary) },
		"better":     func(g *plan.Group) starlark.Value { return text(g.Better) },
		"min_effect": func(g *plan.Group) starlark.Value { return starlark.Float(g.MinEffect) },
		"cap":        func(g *plan.Group) starlark.Value { return starlark.MakeInt(g.Cap) },
		"workload":   func(g *plan.Group) starlark.Value { return workloadKind.of(g.Workload) },
		"sides": func(g *plan.Group) starlark.Value {
			d := starlark.NewDict(len(g.Sides))
			for _, s := range g.Sides {
				_ = d.SetKey(text(s.Label), sideKind.of(s))
			}
			d.Freeze()
			return d
		},
		"gates": func(g *plan.Group) starlark.Value { return gateKind.list(g.Gates) },
	},
}

const twoSides = `{"A": side(engine), "B": side(engine, stack = [my_lever])}`

func groupFamily() Family {
	return Family{"Groups", "One experiment: sides in an order, measured, gated, judged.", []Builtin{
		superiorBuiltin(),
		{
			Name:    "side",
			Doc:     "What is compared: an engine with a stack, and perhaps its own workload. A profile brings its stack along, below the one given.",
			Example: `side(engine("gzip", command = ["gzip", "-k", "{prompt_file}"]))`,
			Func:    sideCall,
		}, {
			Name:    "probe",
			Doc:     "An arm of the control before the group, and again after a failed gate, whose metric must be inside the band before the group goes on.",
			Example: `probe("nvml.0.clock_mhz_mean", above = 1600, pause = "30s")`,
			Func:    probeCall,
		}, {
			Name: "group",
			Doc: "One experiment. The first side is the control that the others are measured against. Without an order it is quads, ABBA and BAAB in turn, the first by coin; " +
				"an order that splits into ABBA and BAAB is quads, any other is one block; it repeats until a stop, at most 4 times by default. " +
				"What can only mislead is refused here: an unbalanced order, sides that do the same thing.",
			Example: `gz = engine("gzip", command = ["gzip", "-kf", "-6", "{prompt_file}"], bare = ["-kf", "-6"])
fast = lever("fast", args = {"-6": None, "-1": True}, confirm = confirm.none("gzip prints no level"))
g = group("gzip -1", sides = {"A": side(gz), "B": side(gz, stack = [fast])}, workload = workload(prompt = "text"), primary = "wall_s")`,
			Func: groupCall,
		},
	}}
}

func sideCall(c *Call) (starlark.Value, error) {
	var s plan.Side
	var base plan.Stack
	var stack []plan.Lever
	err := c.Unpack(1,
		value.Param{Name: "engine", Required: true, Into: engineOrProfile(&s.Engine, &base), Doc: "an engine, or a profile"},
		value.Param{Name: "stack", Default: "[]", Into: listOf(leverKind, &stack, true), Doc: "levers on top, in order"},
		value.Param{Name: "workload", Default: "None", Into: pointTo(workloadKind, &s.Workload), Doc: "a workload of its own; by default that of the group"},
	)
	if err != nil {
		return nil, err
	}
	s.Stack = append(slices.Clone(base), stack...)
	if _, err := plan.Effective(s.Engine, s.Stack); err != nil {
		return nil, c.wrap(err)
	}
	if s.Engine.URL != "" {
		for _, l := range s.Stack {
			if len(l.Env)+len(l.Unset)+len(l.Args)+len(l.Without)+len(l.Config) > 0 || l.Binary != "" {
				return nil, c.Errorf("use levers with request = only, or launch the engine with command =", "lever %q changes how engine %q is launched, and it is attached by its url", l.Name, s.Engine.Name)
			}
		}
	}
	return sideKind.of(s), nil
}

func engineOrProfile(e *plan.Engine, stack *plan.Stack) value.Unpacker {
	return value.Func("engine or profile", func(v starlark.Value) error {
		switch x := v.(type) {
		case *Decl[plan.Engine]:
			*e = x.V
		case *Decl[plan.Profile]:
			*e, *stack = x.V.Engine, x.V.Stack
		default:
			return value.Wrong(v, "engine or profile")
		}
		return nil
	})
}

func probeCall(c *Call) (starlark.Value, error) {
	p := plan.Probe{Retries: 3}
	err := c.Unpack(1,
		value.Param{Name: "metric", Required: true, Into: nonEmpty(&p.Metric), Doc: "what must be inside the band"},
		value.Param{Name: "above", Default: "None", Into: value.Maybe(&p.Above, value.Float), Doc: "at least this"},
		value.Param{Name: "below", Default: "None", Into: value.Maybe(&p.Below, value.Float), Doc: "at most this"},
		value.Param{Name: "retries", Default: "3", Into: value.Int(&p.Retries), Doc: "how often it is tried again"},
		value.Param{Name: "pause", Default: `"0s"`, Into: value.Duration(&p.Pause), Doc: "between tries"},
	)
	if err != nil {
		return nil, err
	}
	if p.Above == nil && p.Below == nil {
		return nil, c.Errorf(fmt.Sprintf("probe(%q, above = 1600)", p.Metric), "probe has no band: give above or below")
	}
	if p.Retries < 1 {
		return nil, c.Errorf(fmt.Sprintf("probe(%q, above = 1600, retries = 3)", p.Metric), "got retries %d, want at least 1", p.Retries)
	}
	return probeKind.of(p), nil
}

func groupCall(c *Call) (starlark.Value, error) {
	g := plan.Group{MinEffect: .01, Retry: 2}
	var body starlark.Callable
	var work *plan.Workload
	gatesSaid, paced := false, false
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&g.Name), Doc: "how reports name it"},
		value.Param{Name: "sides", Required: true, Into: sidesInto(&g.Sides), Example: twoSides, Doc: "dict from label to side(…), the control first"},
		value.Param{Name: "order", Default: "None", Into: orderInto(&g.Order), Example: `"ABBA"`, Doc: "labels in time: \"BAAB\", or with spaces \"U S1 U S2 U\"; a list of labels does too. By default alternating quads"},
		value.Param{Name: "workload", Default: "None", Into: pointTo(workloadKind, &work), Doc: "what every side is asked; a server engine needs one"},
		value.Param{Name: "body", Default: "None", Into: value.Callable(&body), Doc: "function of an arm that acts it out; by default launch, confirm, warm, measure, stop"},
		value.Param{Name: "gates", Default: "None", Into: said(&gatesSaid, gatesInto(&g.Gates)), Doc: "gate(…) values; a group that says that it is a screen or a qualification must say them, [] where no condition has to hold"},
		value.Param{Name: "guards", Default: "[]", Into: listOf(guardKind, &g.Guards, true), Doc: "guard(…) values"},
		value.Param{Name: "stops", Default: "[]", Into: listOf(stopKind, &g.Stops, true), Doc: "stop(…) values"},
		value.Param{Name: "primary", Default: "None", Into: value.String(&g.Primary), Doc: "the metric that the verdict is about; by default decode_tok_s, or the first metric with a direction of a command engine"},
		value.Param{Name: "better", Default: "None", Into: value.OneOf(&g.Better, "higher", "lower"), Doc: "the direction of primary; by default what the metric says"},
		value.Param{Name: "costs", Default: "{}", Into: costsInto(&g.Costs), Example: `{"prefill_tok_s": "-3%"}`, Doc: "secondary metrics with the change that is still accepted; None only reports it"},
		value.Param{Name: "min_effect", Default: `"1%"`, Into: minEffectInto(&g.MinEffect, &g.Superior), Doc: "the smallest gain worth having; superior(by = …) asks the whole interval to lie beyond it"},
		value.Param{Name: "role", Default: `"screen"`, Into: value.OneOf(&g.Role, record.RoleScreen, record.RoleQualification, record.RoleLadder, record.RoleNoiseFloor, record.RoleSweep), Doc: "what the group is for; only a noise-floor may compare a thing with itself"},
		value.Param{Name: "design", Default: "None", Into: value.OneOf(&g.Design, plan.Designs()...), Doc: "a factorial design: sides are combinations of levers on the control's stack, and the verdicts are of levers; by default sides are compared with the control"},
		value.Param{Name: "retry", Default: "2", Into: value.Int(&g.Retry), Doc: "times a block may be done again"},
		value.Param{Name: "settle", Default: `"0s"`, Into: settleInto(&g.Settle, &g.Settling), Doc: "pause before each arm, or settle(…): what is waited for"},
		value.Param{Name: "host", Default: "[]", Into: listOf(hostKind, &g.Host, true), Example: `[host.governor("performance")]`, Doc: "host.…() settings that every arm runs under, put back after it"},
		value.Param{Name: "probe", Default: "None", Into: pointTo(probeKind, &g.Probe), Doc: "probe(…): an arm that must be inside a band first"},
		value.Param{Name: "collectors", Default: "[]", Into: listOf(collectorKind, &g.Collectors, true), Doc: "collector(…) values: sources of samples beside the machine's own, running while an arm does; those that engines name are added"},
		value.Param{Name: "sample_every", Default: `"100ms"`, Into: said(&paced, paceInto(&g.SampleEvery)), Doc: "between two ticks of the sampler, 10ms to 10s; a source is read no more often than its numbers change, or than its reading may cost: flow doc machine"},
		value.Param{Name: "warm_arm", Default: "False", Into: value.Bool(&g.WarmArm), Doc: "run one unmeasured arm of the control before the group"},
	)
	if err != nil {
		return nil, err
	}
	g.Pos = c.Pos()
	if paced && g.SampleEvery == 0 {
		return nil, c.Errorf(fmt.Sprintf(`write sample_every = "%s"`, plan.SampleFastest), "group %q: got sample_every 0s, want %s to %s", g.Name, plan.SampleFastest, plan.SampleSlowest)
	}
	if g.SampleEvery == plan.SampleUsual {
		g.SampleEvery = 0 // said or not, it is the same
	}
	if work != nil {
		g.Workload = *work
	}
	if g.Retry < 0 {
		return nil, c.Errorf("retry = 2", "group %q: got retry %d, want at least 0", g.Name, g.Retry)
	}
	if len(g.Sides) > 0 {
		control := g.Sides[0].Engine
		if g.Primary == "" && control.API == nil {
			for _, m := range control.Metrics {
				if m.Better != "" {
					g.Primary = m.Name
					break
				}
			}
			if g.Primary == "" {
				return nil, c.Errorf(`engine(…, metrics = [metric("took_s", unit = "s", better = "lower", source = extract.log(r"took ([0-9.]+)"))])`, "group %q: engine %q is a command engine and declares no metric with a direction", g.Name, control.Name)
			}
		}
		if g.Primary == "" {
			g.Primary = "decode_tok_s"
		}
		if body == nil { // a body records metrics of its own making
			if err := knownMetrics(c, g); err != nil {
				return nil, err
			}
		}
		if g.Better == "" {
			if g.Better = direction(control, g.Primary); g.Better == "" {
				return nil, c.Errorf(directionFix(control, g.Primary), "group %q: nothing says which direction of metric %q is better", g.Name, g.Primary)
			}
		}
	}
	if body != nil {
		if g.BodyCode, err = c.code("body of group "+g.Name, body); err != nil {
			return nil, err
		}
		l, name := c.loader(), g.Name
		g.Body = func(ctx context.Context, a plan.Arm) error {
			_, err := l.Call(ctx, fmt.Sprintf("body on side %s of group %q", a.Label(), name), body, starlark.Tuple{newArm(envOf(l), a)}, nil)
			return err
		}
	}
	made, err := plan.NewGroup(g)
	if err != nil {
		return nil, c.wrap(err)
	}
	// The role as it was said: what is only called a screen for want of a word is warned about, not refused.
	if why := g.Ungated(); why != "" && !gatesSaid {
		return nil, c.Errorf(`gates = [counts_agree(), output_identical(), no_swap_growth()] from @flow//gates.star, or gates = [] where no condition has to hold`, "group %q: %s", g.Name, why)
	}
	return groupKind.of(made), nil
}

// paceInto takes any duration, also a negative one: plan says which there may be.
func paceInto(to *time.Duration) value.Unpacker {
	inner := value.Duration(to)
	return value.Func(inner.Want(), func(v starlark.Value) error {
		switch x := v.(type) {
		case value.DurationValue:
			*to = time.Duration(x)
			return nil
		case starlark.String:
			if d, err := value.ParseDuration(string(x)); err == nil {
				*to = d
				return nil
			}
		}
		return inner.Unpack(v)
	})
}

func sidesInto(to *[]plan.Side) value.Unpacker {
	const want = "dict"
	return value.Func(want, func(v starlark.Value) error {
		items, err := pairs(v, want)
		if err != nil {
			return err
		}
		var out []plan.Side
		for _, kv := range items {
			label, ok := starlark.AsString(kv[0])
			if !ok {
				return fmt.Errorf("got label of type %s, want string", kv[0].Type())
			}
			d, ok := kv[1].(*Decl[plan.Side])
			if !ok {
				return say(fmt.Sprintf("sides = {%q: side(my_engine, stack = [my_lever])}", label), "%s: got %s, want side", label, kv[1].Type())
			}
			s := d.V
			s.Label = label
			out = append(out, s)
		}
		*to = out
		return nil
	})
}

func orderInto(to *string) value.Unpacker {
	return value.Func("string or list of labels", func(v starlark.Value) error {
		if s, ok := starlark.AsString(v); ok {
			*to = strings.TrimSpace(s)
			return nil
		}
		items, err := elements(v)
		if err != nil {
			return fmt.Errorf("got %s, want string such as \"ABBA\" or list of labels", v.Type())
		}
		var labels []string
		for i, x := range items {
			s, ok := starlark.AsString(x)
			if !ok || s == "" || strings.Contains(s, " ") {
				return fmt.Errorf("element %d: got %s, want the label of a side", i, x)
			}
			labels = append(labels, s)
		}
		*to = strings.Join(labels, " ")
		return nil
	})
}

func costsInto(to *map[string]*float64) value.Unpacker {
	const want = "dict"
	return value.Func(want, func(v starlark.Value) error {
		items, err := pairs(v, want)
		if err != nil {
			return err
		}
		out := map[string]*float64{}
		for _, kv := range items {
			name, ok := starlark.AsString(kv[0])
			if !ok {
				return fmt.Errorf("got key of type %s, want string", kv[0].Type())
			}
			if kv[1] == starlark.None {
				out[name] = nil
				continue
			}
			var limit float64
			if err := value.Percent(&limit).Unpack(kv[1]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			out[name] = &limit
		}
		*to = out
		return nil
	})
}
