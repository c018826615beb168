package builtins

// Stops: what ends a group early.

import (
	"context"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/script"
	"flow/starlark/value"
	"flow/workflows/plan"
	"flow/workflows/record"
)

var stopKind = &kind[plan.Stop]{
	name:   "stop",
	key:    func(s plan.Stop) string { return plan.Sum([]any{s, codeKey(s.Code)}) },
	digest: func(s plan.Stop) (string, error) { return codeDigest(s, s.Code) },
	label:  func(s plan.Stop) string { return fmt.Sprintf("%q", s.Name) },
	attrs: map[string]func(plan.Stop) starlark.Value{
		"name":       func(s plan.Stop) starlark.Value { return text(s.Name) },
		"cap":        func(s plan.Stop) starlark.Value { return starlark.MakeInt(s.Cap) },
		"sequential": func(s plan.Stop) starlark.Value { return starlark.Bool(s.Sequential) },
		"each_arm":   func(s plan.Stop) starlark.Value { return starlark.Bool(s.EachArm) },
		"params":     func(s plan.Stop) starlark.Value { return fromJSON(s.Params) },
	},
}

func stopFamily() Family {
	return Family{"Stops", "What ends a group early.", []Builtin{{
		Name: "stop",
		Doc: "A condition that ends a group early. Its check gets the record of the group after each block and returns a reason to end it, or None. " +
			"A check that looks at results must say sequential = True, so that intervals pay for the looks; what is not valid at every look raises. " +
			"Without it the check is blind to results and to what tells them: effect, low, high, comparisons, steps, verdict, reason and warnings of the group raise, and so does everything of an arm but " +
			"what ran and how it was disposed of: " + strings.Join(blindArm, ", ") + ". How long each arm took, its metrics, log, requests and steps are results too, and so is what its gates found. " +
			"group.seconds and group.energy_j are what all arms took together, of a stop with each_arm = True those of whole blocks (the latter raises where energy is the primary metric). " +
			"Of sensors, first, last, min, max and mean of the latest arm may be read where they are levels of the machine's condition: " + strings.Join(hostLevels, ", ") + ".",
		Example: `def _enough(group):
    return "four arms are enough" if len(group.arms) >= 4 else None

enough = stop("enough", check = _enough)`,
		Func: stopCall,
	}}}
}

func stopCall(c *Call) (starlark.Value, error) {
	var s plan.Stop
	var check starlark.Callable
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&s.Name), Doc: "what reports say ended the group"},
		value.Param{Name: "check", Default: "None", Into: value.Callable(&check), Doc: "function of the group's record: a reason to end it, or None to go on; needed unless cap is given"},
		value.Param{Name: "cap", Default: "None", Into: value.Int(&s.Cap), Doc: "the most blocks the group may take"},
		value.Param{Name: "sequential", Default: "False", Into: value.Bool(&s.Sequential), Doc: "the check looks at results, which it may not read otherwise: intervals are printed at the level of its looks"},
		value.Param{Name: "each_arm", Default: "False", Into: value.Bool(&s.EachArm), Doc: "ask after every arm too, not only after a block: for a rule that may end a block in its middle"},
		value.Param{Name: "params", Default: "{}", Into: jsonObject(&s.Params), Example: `{"blocks": 4}`, Doc: "thresholds, stored with the group as they stood"},
	)
	if err != nil {
		return nil, err
	}
	s.Pos = c.Pos()
	if s.Cap < 0 {
		return nil, c.Errorf("cap = 4", "got cap %d, want at least 1", s.Cap)
	}
	if check == nil && s.Cap == 0 {
		return nil, c.Errorf(fmt.Sprintf("stop(%q, check = my_rule) or stop(%q, cap = 4)", s.Name, s.Name), "stop %q has neither check nor cap", s.Name)
	}
	if check != nil {
		if s.Code, err = c.code("stop "+s.Name, check); err != nil {
			return nil, err
		}
		s.Rule = ruleOf(c.loader(), s, check)
	}
	return stopKind.of(s), nil
}

// inStop marks the context of a stop's check, for functions that are not valid there.
type inStop struct{}

// asking is the stop that the mark holds.
type asking struct{ name, blind string }

func ruleOf(l *script.Loader, s plan.Stop, fn starlark.Callable) plan.Rule {
	return func(ctx context.Context, g *record.Group) (string, error) {
		what := fmt.Sprintf("stop %q of group %q", s.Name, g.Name)
		v, err := l.Call(context.WithValue(ctx, inStop{}, asking{s.Name, blindName(s)}), what, fn, starlark.Tuple{newGroupRecord(envOf(l), g, view{samples: true, blind: blindName(s), inside: s.EachArm})}, nil)
		if err != nil {
			return "", err
		}
		switch x := v.(type) {
		case starlark.NoneType:
			return "", nil
		case starlark.String:
			return string(x), nil
		case starlark.Bool:
			if !x {
				return "", nil
			}
		}
		return "", errorAt(s.Code.Pos, what, fmt.Sprintf("its check returned %s, want a reason as a string, or None to go on", value.TypeName(v)), `return "why the group should end" if group.blocks >= 2 else None`)
	}
}
