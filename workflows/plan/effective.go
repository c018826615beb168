package plan

// What is effective on a side: the engine's command, environment and config after its levers.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"

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
	c.Delta = delta(flagsOf(e, s), base, c)
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
	if e.Launch != nil {
		c.Launch = e.Launch.String()
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
	flags := flagsOf(e, s)
	var err error
	for _, l := range s {
		if l.Binary != "" && len(c.Argv) > 0 {
			c.Argv[0] = l.Binary
		}
		if c.Argv, err = flags.change(c.Argv, l); err != nil {
			return c, err
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

// delta lists what differs from the base: "arg -ub" to the new value, "env X", "unset Y", "config f", "binary", "request".
func delta(flags flags, base, c record.Command) map[string]string {
	d := map[string]string{}
	bf, cf := flags.words(base.Argv), flags.words(c.Argv)
	for k, v := range cf {
		if bv, ok := bf[k]; !ok || bv != v {
			d["arg "+k] = v
		}
	}
	for k, v := range bf {
		if _, ok := cf[k]; !ok {
			d["without "+k] = v
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
	if c.Launch != base.Launch {
		d["launch"] = c.Launch
	}
	if c.Request != base.Request {
		d["request"] = c.Request
	}
	return d
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
