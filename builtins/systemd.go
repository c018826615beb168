package builtins

// An engine launched as a unit of systemd.

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/value"
	"flow/workflows/plan"
)

var systemdKind = &kind[plan.Systemd]{
	name:  "systemd",
	key:   func(s plan.Systemd) string { return plan.Sum(s) },
	label: func(s plan.Systemd) string { return strings.TrimPrefix(s.String(), "systemd-run ") },
	attrs: map[string]func(plan.Systemd) starlark.Value{
		"user":       func(s plan.Systemd) starlark.Value { return starlark.Bool(s.User) },
		"slice":      func(s plan.Systemd) starlark.Value { return textOrNone(s.Slice) },
		"properties": func(s plan.Systemd) starlark.Value { return textDict(s.Properties) },
	},
}

// unitProperty is the name of a property as systemd writes them.
var unitProperty = regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)

func systemdBuiltin() Builtin {
	return Builtin{
		Name: "systemd",
		Doc: "A launch as a transient unit of systemd: a scope with a delegated cgroup, so that the engine has systemd's limits and a pressure of its own. " +
			"The process stays flow's: command, environment, log and exit code are the side's own, every lever works, and no other unit is touched. " +
			"A service that runs already is attached to by engine(url = …), where only levers on requests work.",
		Example: `worker = engine("worker", command = ["worker", "--once"], launch = systemd(properties = {"MemoryMax": "64G"}))`,
		Func:    systemdCall,
	}
}

func systemdCall(c *Call) (starlark.Value, error) {
	s := plan.Systemd{User: true}
	err := c.Unpack(0,
		value.Param{Name: "user", Default: "True", Into: value.Bool(&s.User), Doc: "in the user's own manager; False is the system's, which needs rights"},
		value.Param{Name: "slice", Default: `""`, Into: value.String(&s.Slice), Example: `"engines.slice"`, Doc: "slice to run in; by default the manager's own"},
		value.Param{Name: "properties", Default: "{}", Into: environment(&s.Properties), Example: `{"MemoryMax": "64G"}`, Doc: "properties of the scope, as in systemd.resource-control(5)"},
	)
	if err != nil {
		return nil, err
	}
	for _, k := range slices.Sorted(maps.Keys(s.Properties)) {
		switch {
		case k == "Environment" || k == "WorkingDirectory" || strings.HasPrefix(k, "Exec"):
			return nil, c.Errorf("say it in engine(command = …, env = …, cwd = …), where levers change it", "systemd: a scope has no %s", k)
		case !unitProperty.MatchString(k):
			return nil, c.Errorf(`systemd(properties = {"MemoryMax": "64G"})`, "systemd: got property %q, want a name such as MemoryMax", k)
		}
	}
	return systemdKind.of(s), nil
}
