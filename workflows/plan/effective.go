package plan

// What is effective on a side: the engine's command, environment and config after its levers.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// Effective computes the command of a side, absolute and as a delta to the engine without levers.
// Placeholders stay as they are. It refuses a stack whose levers contradict each other.
func Effective(e Engine, s Stack) (record.Command, error) {
	if err := s.Validate(); err != nil {
		return record.Command{}, err
	}
	base, err := apply(e, nil)
	if err != nil {
		return record.Command{}, err
	}
	c, err := apply(e, s)
	if err != nil {
		return record.Command{}, err
	}
	c.Delta = delta(e, base, c)
	return c, nil
}

func apply(e Engine, s Stack) (record.Command, error) {
	c := record.Command{
		Argv: append(slices.Clone(e.Command), e.Evidence...),
		Env:  maps.Clone(e.Env), Unset: slices.Clone(e.Unset),
		Dir: e.Dir, Config: maps.Clone(e.Config), URL: e.URL,
	}
	if e.API != nil {
		c.Request = e.API.Body
	}
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	if c.Config == nil {
		c.Config = map[string]string{}
	}
	for _, h := range HostOf(nil, s) {
		if c.Host == nil {
			c.Host = map[string]string{}
		}
		c.Host[h.Key()] = h.Value
	}
	for _, l := range s {
		if l.Binary != "" && len(c.Argv) > 0 {
			c.Argv[0] = l.Binary
		}
		for _, f := range l.Without {
			c.Argv = removeFlag(c.Argv, e.aliases(f))
		}
		for _, a := range l.Args {
			c.Argv = setFlag(c.Argv, a, e.aliases(a.Flag))
		}
		for _, k := range l.Unset {
			delete(c.Env, k)
			c.Unset = append(c.Unset, k)
		}
		for k, v := range l.Env {
			c.Env[k] = v
			c.Unset = slices.DeleteFunc(c.Unset, func(u string) bool { return u == k })
		}
		for k, v := range l.Config {
			c.Config[k] = v
		}
		if l.Request != "" {
			merged, err := MergeJSON(c.Request, l.Request)
			if err != nil {
				return c, &diag.Error{Pos: l.Pos, Kind: diag.Workflow, Op: "lever " + l.Name, Msg: "request", Err: err}
			}
			c.Request = merged
		}
	}
	sort.Strings(c.Unset)
	c.Unset = slices.Compact(c.Unset)
	return c, nil
}

// aliases is the flag and its other names.
func (e Engine) aliases(flag string) []string {
	out := []string{flag}
	for name, others := range e.Flags {
		if name == flag || slices.Contains(others, flag) {
			out = append(out, name)
			out = append(out, others...)
		}
	}
	sort.Strings(out[1:])
	return slices.Compact(out)
}

// isValue tells a flag's value from the next flag: "-1" and "-.5" are values, "-ub" is not.
func isValue(tok string) bool {
	if !strings.HasPrefix(tok, "-") || tok == "-" {
		return true
	}
	_, err := strconv.ParseFloat(tok, 64)
	return err == nil
}

// removeFlag drops every occurrence of a flag, "-ub 512" and "--ubatch-size=512" alike.
func removeFlag(argv []string, names []string) []string {
	if len(argv) == 0 {
		return argv
	}
	out := []string{argv[0]}
	for i := 1; i < len(argv); i++ {
		name, _, joined := strings.Cut(argv[i], "=")
		if !strings.HasPrefix(argv[i], "-") || !slices.Contains(names, name) {
			out = append(out, argv[i])
			continue
		}
		if !joined && i+1 < len(argv) && isValue(argv[i+1]) {
			i++
		}
	}
	return out
}

// setFlag replaces a flag where it stands, so that positional arguments keep their places, or appends it.
func setFlag(argv []string, a Arg, names []string) []string {
	if a.Remove {
		return removeFlag(argv, names)
	}
	var add []string
	if a.Bare {
		add = []string{a.Flag}
	}
	for _, v := range a.Values {
		add = append(add, a.Flag, v)
	}
	at := -1
	for i := 1; i < len(argv); i++ {
		name, _, _ := strings.Cut(argv[i], "=")
		if strings.HasPrefix(argv[i], "-") && slices.Contains(names, name) {
			at = i
			break
		}
	}
	rest := removeFlag(argv, names)
	if at < 0 || at > len(rest) {
		return append(rest, add...)
	}
	return slices.Insert(rest, at, add...)
}

// delta lists what differs from the base: "arg -ub" to the new value, "env X", "unset Y", "config f", "binary", "request".
func delta(e Engine, base, c record.Command) map[string]string {
	d := map[string]string{}
	bf, cf := flagMap(base.Argv), flagMap(c.Argv)
	for k, v := range cf {
		if bv, ok := bf[k]; !ok || bv != v {
			d["arg "+k] = v
		}
	}
	for k := range bf {
		if _, ok := cf[k]; !ok {
			d["without "+k] = ""
		}
	}
	if len(c.Argv) > 0 && len(base.Argv) > 0 && c.Argv[0] != base.Argv[0] {
		d["binary"] = c.Argv[0]
	}
	for k, v := range c.Env {
		if bv, ok := base.Env[k]; !ok || bv != v {
			d["env "+k] = v
		}
	}
	for k := range base.Env {
		if _, ok := c.Env[k]; !ok {
			d["unset "+k] = ""
		}
	}
	for _, k := range c.Unset {
		if !slices.Contains(base.Unset, k) {
			d["unset "+k] = ""
		}
	}
	for k, v := range c.Config {
		if bv, ok := base.Config[k]; !ok || bv != v {
			d["config "+k] = v
		}
	}
	for k, v := range c.Host { // an engine has none of its own
		d["host "+k] = v
	}
	if c.Request != base.Request {
		d["request"] = c.Request
	}
	return d
}

// flagMap reads argv as flags with values; positional arguments go under their place.
func flagMap(argv []string) map[string]string {
	m := map[string]string{}
	for i := 1; i < len(argv); i++ {
		if !strings.HasPrefix(argv[i], "-") {
			m[fmt.Sprintf("#%d", i)] = argv[i]
			continue
		}
		name, v, joined := strings.Cut(argv[i], "=")
		if !joined && i+1 < len(argv) && isValue(argv[i+1]) {
			i++
			v = argv[i]
		}
		if old, ok := m[name]; ok {
			v = old + " " + v
		}
		m[name] = v
	}
	return m
}

// MergeJSON merges object over into object base, member by member at the top level and inside objects;
// a null member removes. Both are JSON texts or "". The result has sorted keys.
func MergeJSON(base, over string) (string, error) {
	var b, o map[string]any
	for _, p := range []struct {
		text string
		into *map[string]any
	}{{base, &b}, {over, &o}} {
		if p.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(p.text), p.into); err != nil {
			return "", fmt.Errorf("got %q, want a JSON object: %w", p.text, err)
		}
	}
	if b == nil {
		b = map[string]any{}
	}
	merge(b, o)
	if len(b) == 0 {
		return "", nil
	}
	out, err := json.Marshal(b)
	return string(out), err
}

func merge(b, o map[string]any) {
	for k, v := range o {
		if v == nil {
			delete(b, k)
			continue
		}
		if om, ok := v.(map[string]any); ok {
			if bm, ok := b[k].(map[string]any); ok {
				merge(bm, om)
				continue
			}
		}
		b[k] = v
	}
}

// Validate refuses a lever twice, two levels of one factor, conflicts and unmet requirements.
func (s Stack) Validate() error {
	names := map[string]Lever{}
	factors := map[string]string{}
	for _, l := range s {
		if _, ok := names[l.Name]; ok {
			return stackError(l, fmt.Sprintf("lever %q stands twice in the stack", l.Name), "take one of them out")
		}
		if l.Factor != "" {
			if other, ok := factors[l.Factor]; ok {
				return stackError(l, fmt.Sprintf("levers %q and %q are levels of one factor, %q", other, l.Name, l.Factor), "keep one level")
			}
			factors[l.Factor] = l.Name
		}
		names[l.Name] = l
	}
	for _, l := range s {
		for _, c := range l.Conflicts {
			if _, ok := names[c]; ok {
				return stackError(l, fmt.Sprintf("lever %q conflicts with %q", l.Name, c), "take one of them out")
			}
		}
		for _, r := range l.Requires {
			if _, ok := names[r]; !ok {
				return stackError(l, fmt.Sprintf("lever %q requires %q, which is not in the stack", l.Name, r), fmt.Sprintf("put %q before it", r))
			}
		}
	}
	return nil
}

func stackError(l Lever, msg, fix string) error {
	return &diag.Error{Pos: l.Pos, Kind: diag.Workflow, Op: "stack", Msg: msg, Fix: fix}
}
