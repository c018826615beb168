package builtins

// Parameters: what a workflow leaves to the command line. `flow run x.star --set name=value`.

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/diag"
	"flow/starlark/value"
)

// ParamInfo is one declared parameter.
type ParamInfo struct {
	Name    string
	Type    string   // string, int, float, bool, path, duration, percent, list
	Default string   // JSON; "" when there is none
	Choices []string // JSON values; nil is any
	Help    string
	Value   string // JSON; "" when there is none
	StandIn bool   // Value was made up: nobody gave one
	Pos     diag.Pos
}

// paramTypes are the types a parameter may have.
var paramTypes = []string{"string", "int", "float", "bool", "path", "duration", "percent", "list"}

func paramFamily() Family {
	return Family{"Parameters", "What a workflow leaves to the command line.", []Builtin{{
		Name: "param",
		Doc: "Declares a parameter and gives its value: the one set with `--set name=value`, else the default. " +
			"Without either the workflow does not run; check, help, lint and plan use a typed stand-in.",
		Example: `tokens = param("tokens", default = 200, help = "tokens per request")`,
		Func:    paramCall,
	}}}
}

func paramCall(c *Call) (starlark.Value, error) {
	var name, help, typ string
	var def starlark.Value
	var choices []starlark.Value
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: value.String(&name), Doc: "how `--set` names it"},
		value.Param{Name: "default", Default: "None", Into: value.Any(&def), Doc: "the value when none is set; None makes it required"},
		value.Param{Name: "type", Default: "None", Into: value.OneOf(&typ, paramTypes...), Doc: "by default the type of `default`, else string. A path is a string: of the workflow's folder, or as typed after --set of the current one, and absolute where it is a word of a command. Durations (\"5s\") and percents (\"3%\") are strings too; a list is of strings, set as a,b,c"},
		value.Param{Name: "choices", Default: "[]", Into: valuesInto(&choices), Doc: "the only values allowed"},
		value.Param{Name: "help", Default: `""`, Into: value.String(&help), Doc: "one line for `flow run FILE --help`"},
	)
	if err != nil {
		return nil, err
	}
	if !isParamName(name) {
		return nil, c.Errorf(`use letters, digits, "_" and "-", such as param("cache_mib", default = 512)`, "got name %q, want a name that --set can carry", name)
	}
	if typ == "" {
		typ = typeOf(def)
		if typ == "" {
			return nil, c.Errorf("say type = with one of "+strings.Join(paramTypes, ", "), "got default of type %s, which no parameter can have", def.Type())
		}
	}
	p := &ParamInfo{Name: name, Type: typ, Help: help, Pos: c.Pos()}
	var given starlark.Value
	if def != nil && def != starlark.None {
		if given, err = checkParam(typ, def); err != nil {
			return nil, c.Errorf(fmt.Sprintf("give a default of type %s, or say another type", typ), "default of %q: %v", name, err)
		}
		p.Default = jsonText(given)
	}
	var allowed []starlark.Value
	for _, x := range choices {
		v, err := checkParam(typ, x)
		if err != nil {
			return nil, c.Errorf("give choices of one type", "choices of %q: %v", name, err)
		}
		allowed = append(allowed, v)
		p.Choices = append(p.Choices, jsonText(v))
	}
	if set, ok := c.env.Params[name]; ok {
		if given, err = parseParam(typ, set); err != nil {
			return nil, &diag.Error{Pos: p.Pos, Kind: diag.Workflow, Op: "param " + name, Msg: err.Error(), Fix: fmt.Sprintf("--set %s=%s", name, exampleOf(typ, allowed, def))}
		}
		if typ == "path" && c.env.Located != nil && !contains(allowed, given) {
			given = starlark.String(c.env.Located(set))
		}
	}
	if given == nil {
		if !c.env.StandIns {
			fix := fmt.Sprintf("--set %s=%s", name, exampleOf(typ, allowed, nil))
			if help != "" {
				fix += "   # " + help
			}
			return nil, &diag.Error{Pos: p.Pos, Kind: diag.Workflow, Op: "param " + name, Msg: "has no value", Fix: fix}
		}
		p.StandIn = true
		given = standIn(name, typ, allowed)
	}
	if len(allowed) > 0 && !contains(allowed, given) {
		return nil, &diag.Error{Pos: p.Pos, Kind: diag.Workflow, Op: "param " + name, Msg: fmt.Sprintf("got %s, want one of %s", given, strings.Join(p.Choices, ", ")), Fix: fmt.Sprintf("--set %s=%s", name, exampleOf(typ, allowed, def))}
	}
	p.Value = jsonText(given)
	if err := c.env.declare(p); err != nil {
		return nil, err
	}
	return given, nil
}

// declare keeps a parameter. Two files may declare the same one, in the same words.
func (e *Env) declare(p *ParamInfo) error {
	for _, old := range e.params {
		if old.Name != p.Name {
			continue
		}
		if old.Type == p.Type && old.Default == p.Default && slices.Equal(old.Choices, p.Choices) {
			return nil
		}
		return &diag.Error{Pos: p.Pos, Kind: diag.Workflow, Op: "param " + p.Name, Msg: fmt.Sprintf("was declared otherwise at %s", old.Pos), Fix: "give one of them another name"}
	}
	e.params = append(e.params, p)
	return nil
}

// Declared is every parameter in the order of its declaration.
func (e *Env) Declared() []ParamInfo {
	out := make([]ParamInfo, len(e.params))
	for i, p := range e.params {
		out[i] = *p
	}
	return out
}

// ParamValues is the JSON value in force of each declared parameter.
func (e *Env) ParamValues() map[string]string {
	out := make(map[string]string, len(e.params))
	for _, p := range e.params {
		out[p.Name] = p.Value
	}
	return out
}

// Paths is the value of each parameter that is a path. A command whose word is one of them means a file of the
// workflow's folder, whatever folder it runs in.
func (e *Env) Paths() (out []string) {
	for _, p := range e.params {
		var path string
		if p.Type == "path" && !p.StandIn && json.Unmarshal([]byte(p.Value), &path) == nil {
			out = append(out, path)
		}
	}
	return out
}

// UnknownParams refuses a --set name that no file declared. Ask after loading.
func (e *Env) UnknownParams() error {
	known := make([]string, 0, len(e.params))
	for _, p := range e.params {
		known = append(known, p.Name)
	}
	names := make([]string, 0, len(e.Params))
	for n := range e.Params {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if slices.Contains(known, n) {
			continue
		}
		fix := "the workflow declares no parameters"
		if near := diag.Nearest(n, known); near != "" {
			fix = fmt.Sprintf("did you mean --set %s=%s", near, e.Params[n])
		} else if len(known) > 0 {
			fix = "it declares " + strings.Join(known, ", ")
		}
		return &diag.Error{Kind: diag.Workflow, Op: "--set " + n, Msg: fmt.Sprintf("the workflow has no parameter %q", n), Fix: fix}
	}
	return nil
}

func isParamName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

func typeOf(v starlark.Value) string {
	switch v.(type) {
	case nil, starlark.NoneType, starlark.String:
		return "string"
	case starlark.Bool:
		return "bool"
	case starlark.Int:
		return "int"
	case starlark.Float:
		return "float"
	case *starlark.List, starlark.Tuple:
		return "list"
	}
	return ""
}

// checkParam refuses a value of another type; an int is a float too.
func checkParam(typ string, v starlark.Value) (starlark.Value, error) {
	refuse := fmt.Errorf("got %s, want %s", v.Type(), typ)
	switch typ {
	case "string", "path", "duration", "percent":
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, refuse
		}
		return parseParam(typ, s)
	case "int":
		if i, ok := v.(starlark.Int); ok {
			return i, nil
		}
	case "float":
		switch v.(type) {
		case starlark.Int, starlark.Float:
			f, ok := starlark.AsFloat(v)
			if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, fmt.Errorf("got %s, want a finite number", v)
			}
			return starlark.Float(f), nil
		}
	case "bool":
		if b, ok := v.(starlark.Bool); ok {
			return b, nil
		}
	case "list":
		items, err := elements(v)
		if err != nil {
			return nil, refuse
		}
		for i, x := range items {
			if _, ok := starlark.AsString(x); !ok {
				return nil, fmt.Errorf("element %d: got %s, want string", i, x.Type())
			}
		}
		return frozen(items), nil
	}
	return nil, refuse
}

// parseParam reads what was typed after --set.
func parseParam(typ, s string) (starlark.Value, error) {
	switch typ {
	case "int":
		i, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("got %q, want int", s)
		}
		return starlark.MakeInt64(i), nil
	case "float":
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("got %q, want a number", s)
		}
		return starlark.Float(f), nil
	case "bool":
		switch strings.ToLower(s) {
		case "true", "yes", "on", "1":
			return starlark.True, nil
		case "false", "no", "off", "0":
			return starlark.False, nil
		}
		return nil, fmt.Errorf("got %q, want true or false", s)
	case "duration":
		if _, err := value.ParseDuration(s); err != nil {
			return nil, err
		}
	case "percent":
		if _, err := value.ParsePercent(s); err != nil {
			return nil, err
		}
	case "list":
		var items []starlark.Value
		for _, x := range strings.Split(s, ",") {
			if x = strings.TrimSpace(x); x != "" {
				items = append(items, starlark.String(x))
			}
		}
		return frozen(items), nil
	}
	return starlark.String(s), nil
}

// standIn is a value for a parameter that has none, where nothing will run.
func standIn(name, typ string, choices []starlark.Value) starlark.Value {
	if len(choices) > 0 {
		return choices[0]
	}
	switch typ {
	case "int":
		return starlark.MakeInt(1)
	case "float":
		return starlark.Float(1)
	case "bool":
		return starlark.False
	case "duration":
		return starlark.String("1s")
	case "percent":
		return starlark.String("1%")
	case "list":
		return frozen([]starlark.Value{starlark.String("{" + name + "}")})
	}
	return starlark.String("{" + name + "}")
}

// exampleOf is something to paste after --set name=: the default where there is one that may be said.
func exampleOf(typ string, choices []starlark.Value, def starlark.Value) string {
	if def != nil && def != starlark.None && typ != "list" && (len(choices) == 0 || contains(choices, def)) {
		if s, ok := starlark.AsString(def); ok && s != "" {
			return s
		}
		if def.Type() != "string" {
			return strings.ToLower(def.String()) // true and false
		}
	}
	if len(choices) > 0 {
		if s, ok := starlark.AsString(choices[0]); ok {
			return s
		}
		return choices[0].String()
	}
	switch typ {
	case "int":
		return "4"
	case "float":
		return "0.5"
	case "bool":
		return "true"
	case "path":
		return "path/to/file"
	case "duration":
		return "5s"
	case "percent":
		return "3%"
	case "list":
		return "a,b"
	}
	return "value"
}

func contains(in []starlark.Value, v starlark.Value) bool {
	return slices.ContainsFunc(in, func(x starlark.Value) bool {
		eq, err := starlark.Equal(x, v)
		return err == nil && eq
	})
}

func jsonText(v starlark.Value) string {
	s, err := value.ToJSON(v)
	if err != nil { // a parameter holds JSON types only
		b, _ := json.Marshal(v.String())
		return string(b)
	}
	return s
}

// valuesInto unpacks a list of anything.
func valuesInto(to *[]starlark.Value) value.Unpacker {
	return value.Func("list", func(v starlark.Value) error {
		items, err := elements(v)
		if err != nil {
			return err
		}
		*to = items
		return nil
	})
}
