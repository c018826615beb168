package builtins

// Levers, factors and profiles.

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/value"
	"flow/workflows/plan"
)

var leverKind = &kind[plan.Lever]{
	name:   "lever",
	key:    plan.Lever.Key, // so that a rebuilt lever is found in a stack: its evidence and note do not matter
	digest: func(l plan.Lever) (string, error) { return l.Declared(), nil },
	label:  func(l plan.Lever) string { return fmt.Sprintf("%q", l.Name) },
	attrs: map[string]func(plan.Lever) starlark.Value{
		"name":           func(l plan.Lever) starlark.Value { return text(l.Name) },
		"hash":           func(l plan.Lever) starlark.Value { return text(l.Key()) },
		"factor":         func(l plan.Lever) starlark.Value { return text(l.Factor) },
		"level":          func(l plan.Lever) starlark.Value { return starlark.MakeInt(l.Level) },
		"env":            func(l plan.Lever) starlark.Value { return textDict(l.Env) },
		"unset":          func(l plan.Lever) starlark.Value { return texts(l.Unset) },
		"args":           leverArgs,
		"without":        func(l plan.Lever) starlark.Value { return texts(l.Without) },
		"binary":         func(l plan.Lever) starlark.Value { return textOrNone(l.Binary) },
		"config":         func(l plan.Lever) starlark.Value { return textDict(l.Config) },
		"request":        func(l plan.Lever) starlark.Value { return fromJSON(l.Request) },
		"host":           func(l plan.Lever) starlark.Value { return hostKind.list(l.Host) },
		"confirm":        leverConfirms,
		"changes_output": func(l plan.Lever) starlark.Value { return starlark.Bool(l.ChangesOutput) },
		"requires":       func(l plan.Lever) starlark.Value { return texts(l.Requires) },
		"conflicts":      func(l plan.Lever) starlark.Value { return texts(l.Conflicts) },
		"note":           func(l plan.Lever) starlark.Value { return text(l.Note) },
		"change":         func(l plan.Lever) starlark.Value { return fromJSON(l.Change()) },
	},
}

func leverArgs(l plan.Lever) starlark.Value {
	d := starlark.NewDict(len(l.Args))
	for _, a := range l.Args {
		var v starlark.Value = texts(a.Values)
		switch {
		case a.Remove:
			v = starlark.None
		case a.Bare:
			v = starlark.True
		case len(a.Values) == 1:
			v = text(a.Values[0])
		}
		_ = d.SetKey(text(a.Flag), v)
	}
	d.Freeze()
	return d
}

func leverConfirms(l plan.Lever) starlark.Value {
	return confirmKind.list(l.Confirm)
}

// leverValue is a lever as Starlark sees it.
func leverValue(l plan.Lever) starlark.Value { return leverKind.of(l) }

// stackValue is a stack as a plain list of its own, so that stack + [choice] works and truth is emptiness.
func stackValue(s plan.Stack) starlark.Value {
	out := make([]starlark.Value, len(s))
	for i, l := range s {
		out[i] = leverValue(l)
	}
	return starlark.NewList(out)
}

var factorKind = &kind[plan.Factor]{
	name:  "factor",
	key:   func(f plan.Factor) string { return plan.Sum(f) },
	label: func(f plan.Factor) string { return fmt.Sprintf("%q, %d levels", f.Name, len(f.Levels)) },
	attrs: map[string]func(plan.Factor) starlark.Value{
		"name":   func(f plan.Factor) starlark.Value { return text(f.Name) },
		"levels": func(f plan.Factor) starlark.Value { return stackValue(f.Levels) },
	},
}

var profileKind = &kind[plan.Profile]{
	name:  "profile",
	key:   func(p plan.Profile) string { return plan.Sum(p) },
	label: func(p plan.Profile) string { return fmt.Sprintf("%q, %s", p.Name, p.Stack.Names()) },
	attrs: map[string]func(plan.Profile) starlark.Value{
		"name":   func(p plan.Profile) starlark.Value { return text(p.Name) },
		"engine": func(p plan.Profile) starlark.Value { return engineKind.of(p.Engine) },
		"stack":  func(p plan.Profile) starlark.Value { return stackValue(p.Stack) },
	},
}

func leverFamily() Family {
	return Family{"Levers", "What is changed, one named thing at a time.", []Builtin{
		{
			Name: "lever",
			Doc: "One named change to the engine or its requests. In history a lever is its name and its effective change: " +
				"levers that agree in both are equal, whatever their evidence or note.",
			Example: `lever("ubatch-1024", args = {"-ub": 1024}, confirm = confirm.log(r"n_ubatch\s*=\s*1024\b"))`,
			Func:    leverCall,
		}, {
			Name: "factor",
			Doc:  "Levers that are levels of one thing, in their order. They exclude each other in a stack.",
			Example: `cache = factor("cache", levels = [
    lever("cache-%d" % n, args = {"--cache-experts": n}, confirm = confirm.log(r"cache budget=%d" % n))
    for n in [4200, 4600, 4750]
])`,
			Func: factorCall,
		}, {
			Name: "profile",
			Doc:  "A named base: an engine with a stack that others are measured against.",
			Example: `base = profile("champion", engine = engine("gzip", command = ["gzip", "-9"]),
    stack = [lever("fast", args = {"-9": None}, confirm = confirm.none("the level is not printed"))])`,
			Func: profileCall,
		},
	}}
}

func leverCall(c *Call) (starlark.Value, error) {
	var l plan.Lever
	var setup, restore []string
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&l.Name), Doc: "unique in a stack; its identity in history, with the change"},
		value.Param{Name: "env", Default: "{}", Into: environment(&l.Env), Example: `{"GGML_SCHED": 1}`, Doc: "environment variables; values are strings or ints"},
		value.Param{Name: "unset", Default: "[]", Into: value.Strings(&l.Unset), Doc: "variables removed: some count as set whatever their value"},
		value.Param{Name: "args", Default: "{}", Into: arguments(&l.Args), Example: `{"-ub": 1024}`, Doc: "flags set or replaced where they stand: a number or string is the value, a list repeats the flag, True is a bare flag, None removes it"},
		value.Param{Name: "without", Default: "[]", Into: value.Strings(&l.Without), Example: `["-v", "-ot exps=CPU"]`, Doc: "flags removed: alone, or with the value they must have; where flow cannot tell whether a flag takes the word after it, it asks"},
		value.Param{Name: "binary", Default: `""`, Into: value.String(&l.Binary), Doc: "another executable in place of the command's first word"},
		value.Param{Name: "config", Default: "{}", Into: configFiles(&l.Config), Example: `{"engine.json": {"cache": 4600}}`, Doc: "config files replaced whole: text, or a dict written as JSON, TOML or YAML by the file's extension"},
		value.Param{Name: "request", Default: "{}", Into: jsonObject(&l.Request), Example: `{"cache_prompt": False}`, Doc: "members of the request body set or replaced; None removes one"},
		value.Param{Name: "host", Default: "[]", Into: listOf(hostKind, &l.Host, true), Example: `[host.governor("performance")]`, Doc: "host.…() settings in force while the arm runs, and put back after it; what can be read back is its own evidence"},
		value.Param{Name: "setup", Default: "[]", Into: command(&setup), Example: `["swapoff", "-a"]`, Doc: "host command run before the engine starts, as a list; it never goes through a shell"},
		value.Param{Name: "restore", Default: "[]", Into: command(&restore), Example: `["swapon", "-a"]`, Doc: "host command that undoes setup: when the arm ends, or at flow's next start when flow was killed"},
		value.Param{Name: "confirm", Default: "None", Into: listOf(confirmKind, &l.Confirm, true), Doc: "what proves that it took effect: one or a list that holds together. It must be said, if only as confirm.none(\"why\")"},
		value.Param{Name: "changes_output", Default: "False", Into: value.Bool(&l.ChangesOutput), Doc: "whether it may change the text: output gates then compare within the side only"},
		value.Param{Name: "requires", Default: "[]", Into: namesOf(&l.Requires), Doc: "names of levers that must stand in the stack too"},
		value.Param{Name: "conflicts", Default: "[]", Into: namesOf(&l.Conflicts), Doc: "names of levers that must not"},
		value.Param{Name: "note", Default: `""`, Into: value.String(&l.Note), Doc: "for readers"},
	)
	if err != nil {
		return nil, err
	}
	l.Pos = c.Pos()
	if err := leverHost(c, &l, setup, restore); err != nil {
		return nil, err
	}
	if len(l.Confirm) == 0 {
		return nil, c.Errorf(fmt.Sprintf("lever(%q, …, confirm = confirm.log(r\"what the engine prints\"))\nor confirm = confirm.none(\"why nothing shows it\")", l.Name),
			"lever %q has no confirm: nothing would show that it took effect", l.Name)
	}
	if len(l.Env)+len(l.Unset)+len(l.Args)+len(l.Without)+len(l.Config)+len(l.Host) == 0 && l.Binary == "" && l.Request == "" {
		return nil, errorAt(l.Pos, "lever", fmt.Sprintf("lever %q changes nothing", l.Name), fmt.Sprintf("lever(%q, args = {\"-ub\": 1024}, …), or env =, unset =, without =, binary =, config =, request =, host =", l.Name))
	}
	for _, k := range l.Unset {
		if _, both := l.Env[k]; both {
			return nil, errorAt(l.Pos, "lever", fmt.Sprintf("lever %q both sets and unsets %s", l.Name, k), "keep one of env = and unset =")
		}
	}
	for _, a := range l.Args {
		if slices.Contains(l.Without, a.Flag) {
			return nil, errorAt(l.Pos, "lever", fmt.Sprintf("lever %q both sets and removes %s", l.Name, a.Flag), "keep one of args = and without =")
		}
	}
	for _, x := range l.Confirm {
		if x.Kind == plan.ConfirmNone && len(l.Confirm) > 1 {
			return nil, errorAt(l.Pos, "lever", fmt.Sprintf("lever %q has confirm.none beside other evidence", l.Name), "take confirm.none out of the list")
		}
		if x.Kind == plan.ConfirmEnviron && len(l.Env)+len(l.Unset) == 0 {
			return nil, errorAt(l.Pos, "lever", fmt.Sprintf("lever %q confirms by the environment and changes none", l.Name), "confirm by the log, as in confirm.log(r\"n_ubatch = 1024\"), or set env =")
		}
	}
	return leverValue(l), nil
}

// leverHost joins the lever's host settings, and gives them their evidence where there is no other.
func leverHost(c *Call, l *plan.Lever, setup, restore []string) error {
	switch {
	case len(setup) > 0 && len(restore) == 0:
		return c.Errorf(`restore = ["swapon", "-a"], or restore = ["true"] when nothing is left behind`, "lever %q has setup without restore: nothing would undo it", l.Name)
	case len(restore) > 0 && len(setup) == 0:
		return c.Errorf(`setup = ["swapoff", "-a"], restore = ["swapon", "-a"]`, "lever %q has restore without setup", l.Name)
	case len(setup) > 0:
		l.Host = append(l.Host, plan.HostSetting{Name: plan.HostCommand, Setup: setup, Restore: restore})
	}
	readable := len(l.Host) > 0
	seen := map[string]bool{}
	for _, h := range l.Host {
		if seen[h.Key()] {
			return c.Errorf("keep one of them", "lever %q sets %s twice", l.Name, h.Key())
		}
		seen[h.Key()] = true
		readable = readable && h.Readable()
	}
	other := len(l.Env)+len(l.Unset)+len(l.Args)+len(l.Without)+len(l.Config) > 0 || l.Binary != "" || l.Request != ""
	if readable && !other && len(l.Confirm) == 0 {
		l.Confirm = []plan.Confirm{{Kind: plan.ConfirmHost}}
	}
	for _, x := range l.Confirm {
		if x.Kind == plan.ConfirmHost && !slices.ContainsFunc(l.Host, plan.HostSetting.Readable) {
			return c.Errorf(`confirm = confirm.none("why nothing shows it"), or confirm.log(…)`, "lever %q confirms by the host and has no host setting that reads back", l.Name)
		}
	}
	return nil
}

func factorCall(c *Call) (starlark.Value, error) {
	var f plan.Factor
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&f.Name), Doc: "what the levels are levels of"},
		value.Param{Name: "levels", Required: true, Into: listOf(leverKind, &f.Levels, false), Doc: "levers in their order"},
	)
	if err != nil {
		return nil, err
	}
	f.Pos = c.Pos()
	if len(f.Levels) == 0 {
		return nil, c.Errorf("give at least one lever", "factor %q has no levels", f.Name)
	}
	seen := map[string]bool{}
	for i := range f.Levels {
		l := &f.Levels[i]
		if seen[l.Name] {
			return nil, c.Errorf("give each level its own name", "level %q stands twice", l.Name)
		}
		seen[l.Name] = true
		l.Factor, l.Level = f.Name, i
	}
	return factorKind.of(f), nil
}

func profileCall(c *Call) (starlark.Value, error) {
	var p plan.Profile
	var stack []plan.Lever
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&p.Name), Doc: "how reports name the base"},
		value.Param{Name: "engine", Required: true, Into: into(engineKind, &p.Engine), Doc: "the engine"},
		value.Param{Name: "stack", Default: "[]", Into: listOf(leverKind, &stack, true), Doc: "its levers"},
	)
	if err != nil {
		return nil, err
	}
	p.Pos, p.Stack = c.Pos(), stack
	if _, err := plan.Effective(p.Engine, p.Stack); err != nil {
		return nil, c.wrap(err)
	}
	return profileKind.of(p), nil
}

// environment unpacks variables: strings and ints; a bool has no one spelling.
func environment(to *map[string]string) value.Unpacker {
	const want = "dict"
	return value.Func(want, func(v starlark.Value) error {
		items, err := pairs(v, want)
		if err != nil {
			return err
		}
		out := map[string]string{}
		for _, kv := range items {
			k, ok := starlark.AsString(kv[0])
			if !ok || k == "" || strings.ContainsAny(k, "=\x00") {
				return fmt.Errorf("got %s, want the name of a variable", kv[0])
			}
			switch x := kv[1].(type) {
			case starlark.String:
				out[k] = string(x)
			case starlark.Int:
				out[k] = x.String()
			case starlark.Bool:
				number := map[bool]string{true: "1", false: "0"}[bool(x)]
				return say(fmt.Sprintf("env = {%q: %s}, or the text that the engine reads", k, number), "%s: got bool, want string or int", k)
			default:
				return fmt.Errorf("%s: got %s, want string or int", k, x.Type())
			}
			if strings.Contains(out[k], "\x00") {
				return fmt.Errorf("%s: got a NUL byte, which no variable can hold", k)
			}
		}
		*to = out
		return nil
	})
}

// arguments unpacks flags in the order of the dict.
func arguments(to *[]plan.Arg) value.Unpacker {
	const want = "dict"
	return value.Func(want, func(v starlark.Value) error {
		items, err := pairs(v, want)
		if err != nil {
			return err
		}
		out := make([]plan.Arg, 0, len(items))
		for _, kv := range items {
			flag, ok := starlark.AsString(kv[0])
			if !ok || !strings.HasPrefix(flag, "-") {
				return say("args = {\"-ub\": 1024}", "got %s, want a flag such as \"-ub\"", kv[0])
			}
			a := plan.Arg{Flag: flag}
			switch x := kv[1].(type) {
			case starlark.NoneType:
				a.Remove = true
			case starlark.Bool:
				if !x {
					return say(fmt.Sprintf("args = {%q: None}", flag), "%s: got False, want True for a bare flag or None to remove it", flag)
				}
				a.Bare = true
			case *starlark.List, starlark.Tuple:
				each, err := elements(x)
				if err != nil {
					return err
				}
				if len(each) == 0 {
					return fmt.Errorf("%s: got an empty list, want values to repeat the flag with, or None to remove it", flag)
				}
				for i, e := range each {
					s, err := word(e)
					if err != nil {
						return fmt.Errorf("%s, element %d: %w", flag, i, err)
					}
					a.Values = append(a.Values, s)
				}
			default:
				s, err := word(x)
				if err != nil {
					return fmt.Errorf("%s: %w", flag, err)
				}
				a.Values = []string{s}
			}
			out = append(out, a)
		}
		*to = out
		return nil
	})
}

// word is one word of a command line.
func word(v starlark.Value) (string, error) {
	if _, ok := v.(starlark.Bool); ok {
		return "", fmt.Errorf("got bool, want string or number")
	}
	return scalar(v)
}

// namesOf unpacks names of levers, given as strings or as the levers themselves.
func namesOf(to *[]string) value.Unpacker {
	const want = "list of levers or their names"
	return value.Func(want, func(v starlark.Value) error {
		items, err := elements(v)
		if err != nil {
			return value.Wrong(v, want)
		}
		var out []string
		for i, x := range items {
			switch x := x.(type) {
			case starlark.String:
				out = append(out, string(x))
			case *Decl[plan.Lever]:
				out = append(out, x.V.Name)
			default:
				return fmt.Errorf("element %d: got %s, want lever or its name", i, x.Type())
			}
		}
		*to = out
		return nil
	})
}
