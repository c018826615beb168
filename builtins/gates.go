package builtins

// Gates, guards and their findings.

import (
	"context"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/starlark/value"
	"flow/workflows/plan"
	"flow/workflows/record"
)

var gateKind = &kind[plan.Gate]{
	name:   "gate",
	key:    func(g plan.Gate) string { return plan.Sum([]any{g, codeKey(g.Code)}) },
	digest: func(g plan.Gate) (string, error) { return codeDigest(g, g.Code) },
	label:  func(g plan.Gate) string { return fmt.Sprintf("%q", g.Name) },
	attrs: map[string]func(plan.Gate) starlark.Value{
		"name":     func(g plan.Gate) starlark.Value { return text(g.Name) },
		"phase":    func(g plan.Gate) starlark.Value { return text(g.Phase) },
		"scope":    func(g plan.Gate) starlark.Value { return text(g.Scope) },
		"needs":    func(g plan.Gate) starlark.Value { return texts(g.Needs) },
		"required": func(g plan.Gate) starlark.Value { return starlark.Bool(g.Required) },
		"params":   func(g plan.Gate) starlark.Value { return fromJSON(g.Params) },
	},
}

var guardKind = &kind[plan.Guard]{
	name:  "guard",
	key:   func(g plan.Guard) string { return plan.Sum(g) },
	label: func(g plan.Guard) string { return fmt.Sprintf("%q", g.Name) },
	attrs: map[string]func(plan.Guard) starlark.Value{
		"name":   func(g plan.Guard) starlark.Value { return text(g.Name) },
		"sensor": func(g plan.Guard) starlark.Value { return text(g.Sensor) },
		"above":  func(g plan.Guard) starlark.Value { return floatOrNone(g.Above) },
		"below":  func(g plan.Guard) starlark.Value { return floatOrNone(g.Below) },
	},
}

var findingKind = &kind[record.Finding]{
	name: "finding",
	key:  func(f record.Finding) string { return plan.Sum(f) },
	label: func(f record.Finding) string {
		return fmt.Sprintf("%s, observed %q, limit %q, %q", f.Outcome, f.Observed, f.Limit, f.Reason)
	},
	attrs: map[string]func(record.Finding) starlark.Value{
		"gate":     func(f record.Finding) starlark.Value { return textOrNone(f.Gate) },
		"phase":    func(f record.Finding) starlark.Value { return textOrNone(f.Phase) },
		"outcome":  func(f record.Finding) starlark.Value { return text(f.Outcome) },
		"observed": func(f record.Finding) starlark.Value { return textOrNone(f.Observed) },
		"limit":    func(f record.Finding) starlark.Value { return textOrNone(f.Limit) },
		"reason":   func(f record.Finding) starlark.Value { return textOrNone(f.Reason) },
		"required": func(f record.Finding) starlark.Value { return starlark.Bool(f.Required) },
		"error":    func(f record.Finding) starlark.Value { return textOrNone(f.Error) },
	},
}

// codeKey identifies a function for equality: by what it does where that is known already (a helper may
// be defined further down), else by its place.
func codeKey(c plan.Code) string {
	if c.Fingerprint != nil {
		if fp, err := c.Fingerprint(); err == nil {
			return fp
		}
	}
	return c.Name + "@" + c.Pos.String()
}

// codeDigest identifies a value with a function across processes.
func codeDigest(v any, c plan.Code) (string, error) {
	fp := ""
	if c.Fingerprint != nil {
		var err error
		if fp, err = c.Fingerprint(); err != nil {
			return "", err
		}
	}
	return plan.Sum([]any{v, fp}), nil
}

func gateFamily() Family {
	return Family{"Gates and guards", "Conditions that an arm must meet to count.", []Builtin{
		{
			Name: "gate",
			Doc: "A condition on an arm. Its check gets the record of the arm and returns ok(), bad() or unmeasured(); an arm whose required gate is not ok is invalid, stays on record, and its block is done again. " +
				"Before-gates see an arm that has samples only. A gate is for conditions: one that refuses arms for the primary metric chooses among results, which the group warns of.",
			Example: `def _prompt(arm):
    tokens = arm.metric("prompt_tokens")
    if tokens == None:
        return unmeasured(arm.metric_why("prompt_tokens"))
    return ok(observed = tokens, limit = 1000) if tokens >= 1000 else bad(observed = tokens, limit = 1000)

long_prompt = gate("long prompt", check = _prompt)`,
			Func: gateCall,
		}, {
			Name:    "guard",
			Doc:     "A condition on a sensor, judged while the arm runs: a breach ends the arm at once.",
			Example: `guard("no swap storm", sensor = "meminfo.swap_used_mib", growth = True, above = 256)`,
			Func:    guardCall,
		},
	}}
}

func findingFamily() Family {
	shown := func(observed, limit *string) []value.Param {
		return []value.Param{
			{Name: "observed", Default: "None", Into: shownInto(observed), Doc: "what was seen: text or a number"},
			{Name: "limit", Default: "None", Into: shownInto(limit), Doc: "what it was held to"},
		}
	}
	return Family{"Findings", "What a gate's check answers.", []Builtin{
		{
			Name: "ok", Doc: "The gate's condition is met.", Example: `ok(observed = 0, limit = 0)`,
			Func: func(c *Call) (starlark.Value, error) {
				f := record.Finding{Outcome: record.Pass}
				if err := c.Unpack(0, shown(&f.Observed, &f.Limit)...); err != nil {
					return nil, err
				}
				return findingKind.of(f), nil
			},
		}, {
			Name: "bad", Doc: "The gate's condition is not met: the arm does not count.", Example: `bad(observed = 64, limit = 0, reason = "swap grew")`,
			Func: func(c *Call) (starlark.Value, error) {
				f := record.Finding{Outcome: record.Fail}
				params := append(shown(&f.Observed, &f.Limit), value.Param{Name: "reason", Default: `""`, Into: value.String(&f.Reason), Doc: "in words"})
				if err := c.Unpack(0, params...); err != nil {
					return nil, err
				}
				return findingKind.of(f), nil
			},
		}, {
			Name: "unmeasured", Doc: "The gate cannot say: what it needs was not measured. The arm does not count unless the gate says required = False.", Example: `unmeasured("the sensor has no samples")`,
			Func: func(c *Call) (starlark.Value, error) {
				f := record.Finding{Outcome: record.Unmeasured}
				if err := c.Unpack(1, value.Param{Name: "reason", Required: true, Into: nonEmpty(&f.Reason), Doc: "what is missing"}); err != nil {
					return nil, err
				}
				return findingKind.of(f), nil
			},
		},
	}}
}

func gateCall(c *Call) (starlark.Value, error) {
	g := plan.Gate{Phase: plan.PhaseAfter, Scope: "arm", Required: true}
	var check starlark.Callable
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&g.Name), Doc: "unique in a group"},
		value.Param{Name: "check", Required: true, Into: value.Callable(&check), Doc: "function of an arm's record that returns ok(), bad() or unmeasured()"},
		value.Param{Name: "phase", Default: `"after"`, Into: value.OneOf(&g.Phase, plan.PhaseBefore, plan.PhaseAfter), Doc: "when it is judged: before the engine starts, or when the arm is recorded"},
		value.Param{Name: "needs", Default: "[]", Into: value.Strings(&g.Needs), Example: `["nvml.0.*"]`, Doc: "sensors that must be sampled; a trailing * matches"},
		value.Param{Name: "scope", Default: `"arm"`, Into: value.OneOf(&g.Scope, "arm", "group"), Doc: "what it judges: each arm, or the whole group at its end (it gets the last arm, with all its group)"},
		value.Param{Name: "required", Default: "True", Into: value.Bool(&g.Required), Doc: "whether an arm that is not ok is invalid; False only records the finding"},
		value.Param{Name: "params", Default: "{}", Into: jsonObject(&g.Params), Example: `{"limit": 0}`, Doc: "thresholds, stored with the group as they stood"},
	)
	if err != nil {
		return nil, err
	}
	g.Pos = c.Pos()
	code, err := c.code("gate "+g.Name, check)
	if err != nil {
		return nil, err
	}
	g.Code = code
	g.Check = checkOf(c.loader(), g, check)
	return gateKind.of(g), nil
}

// code makes a function of the workflow into something that can be run elsewhere and known again. It is
// frozen, and refused when it captures a capability.
func (c *Call) code(what string, fn starlark.Callable) (plan.Code, error) {
	l := c.loader()
	if err := l.Capture(what, fn); err != nil {
		return plan.Code{}, c.wrap(err)
	}
	pos := c.Pos()
	if f, ok := fn.(*starlark.Function); ok {
		p := f.Position()
		pos = diag.Pos{File: p.Filename(), Line: int(p.Line), Col: int(p.Col)}
	}
	return plan.Code{
		Name:        fn.Name(),
		Pos:         pos,
		Fingerprint: func() (string, error) { return l.Fingerprint(fn) },
	}, nil
}

// checkOf runs a gate's function on a record, on a thread of its own.
func checkOf(l *script.Loader, g plan.Gate, fn starlark.Callable) plan.Check {
	return func(ctx context.Context, a *record.Arm) (record.Finding, error) {
		f := record.Finding{Gate: g.Name, Phase: g.Phase, Required: g.Required}
		if g.Scope != "arm" {
			f.Scope = g.Scope
		}
		asked := false
		v, err := l.Call(ctx, armWhat("gate", g.Name, a), fn, starlark.Tuple{newArmRecord(envOf(l), a, &asked)}, nil)
		if err != nil {
			return f, err
		}
		d, ok := v.(*Decl[record.Finding])
		if !ok {
			return f, errorAt(g.Code.Pos, armWhat("gate", g.Name, a), fmt.Sprintf("its check returned %s, want ok(), bad() or unmeasured()", value.TypeName(v)), `return ok() or bad(reason = "…") on every path`)
		}
		f.Outcome, f.Observed, f.Limit, f.Reason = d.V.Outcome, d.V.Observed, d.V.Limit, d.V.Reason
		if asked && g.Required && g.Scope == "arm" {
			f.Warning = fmt.Sprintf("gate %q asks for %s: an arm that it refuses is left out for its result, and no interval knows of it; judge a condition, or say required = False", g.Name, a.Group.Primary)
		}
		return f, nil
	}
}

// armWhat names what is judged: gate "x" on arm B4 of group "g".
func armWhat(kind, name string, a *record.Arm) string {
	s := fmt.Sprintf("%s %q", kind, name)
	if a == nil {
		return s
	}
	s += " on arm " + record.ArmName(a.Label, a.Seq)
	if a.Group != nil && a.Group.Name != "" {
		s += fmt.Sprintf(" of group %q", a.Group.Name)
	}
	return s
}

func guardCall(c *Call) (starlark.Value, error) {
	var g plan.Guard
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&g.Name), Doc: "unique in a group"},
		value.Param{Name: "sensor", Required: true, Into: nonEmpty(&g.Sensor), Doc: "what is watched"},
		value.Param{Name: "above", Default: "None", Into: value.Maybe(&g.Above, value.Float), Doc: "a breach when it reads more"},
		value.Param{Name: "below", Default: "None", Into: value.Maybe(&g.Below, value.Float), Doc: "a breach when it reads less"},
		value.Param{Name: "growth", Default: "False", Into: value.Bool(&g.Growth), Doc: "watch the growth since the arm began, not the reading"},
		value.Param{Name: "hold", Default: `"0s"`, Into: value.Duration(&g.Hold), Doc: "how long a breach must last; 0 is one sample"},
		value.Param{Name: "also", Default: "[]", Into: value.Strings(&g.Also), Example: `["psi.user.memory.full_avg10_pct"]`, Doc: "sensors that may be missing on a machine: the worst of them and sensor is judged"},
		value.Param{Name: "sides", Default: "[]", Into: value.Strings(&g.Sides), Example: `["B"]`, Doc: "only on these sides; [] is all"},
		value.Param{Name: "step", Default: `""`, Into: value.OneOf(&g.Step, "", "settle", "launch", "confirm", "warm", "measure", "stop"), Example: `"measure"`, Doc: "only while this step of an arm runs; empty is the whole arm"},
		value.Param{Name: "while_above", Default: "None", Into: whileInto(&g.While), Example: `("nvml.0.util_pct", 50)`, Doc: "only while another sensor reads more: a clock is judged while the device is busy"},
	)
	if err != nil {
		return nil, err
	}
	g.Pos = c.Pos()
	if g.Above == nil && g.Below == nil {
		return nil, c.Errorf(fmt.Sprintf("guard(%q, sensor = %q, above = 256)", g.Name, g.Sensor), "guard %q has no limit: give above or below", g.Name)
	}
	if g.Hold < 0 {
		return nil, c.Errorf(`hold = "2s"`, "got hold %s, want at least 0", g.Hold)
	}
	return guardKind.of(g), nil
}

// shownInto unpacks what a finding shows, as text.
func shownInto(to *string) value.Unpacker {
	return value.Func("text or number", func(v starlark.Value) error {
		if v == starlark.None {
			return nil
		}
		s, err := scalar(v)
		if err != nil {
			s = v.String()
		}
		*to = s
		return nil
	})
}

// gatesInto unpacks gates, and says where guards and stops go.
func gatesInto(to *[]plan.Gate) value.Unpacker {
	inner := listOf(gateKind, to, true)
	return value.Func(inner.Want(), func(v starlark.Value) error {
		if items, err := elements(v); err == nil {
			if i := slices.IndexFunc(items, func(x starlark.Value) bool { return x.Type() == "guard" || x.Type() == "stop" }); i >= 0 {
				kind := items[i].Type()
				return say(fmt.Sprintf("%ss = [%s(…)]", kind, kind), "element %d: got %s, want gate", i, kind)
			}
			if i := slices.IndexFunc(items, func(x starlark.Value) bool { _, fn := x.(starlark.Callable); return fn }); i >= 0 {
				name := items[i].(starlark.Callable).Name()
				return say(fmt.Sprintf("gates = [%s()]", name), "element %d: got the function %s, want the gate that it returns", i, name)
			}
		}
		return inner.Unpack(v)
	})
}
