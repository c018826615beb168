package plan

// How an engine is launched beside plainly: as a transient unit of systemd.

import (
	"maps"
	"slices"
	"strings"
)

// Systemd runs an engine in a transient scope of systemd. A scope rather than a service, because its process
// stays flow's own: the side's command and environment, its log from byte 0 and its exit code are as without
// systemd, every lever works, and no unit of somebody else is ever started or stopped. What it adds is the
// cgroup that systemd made: its limits, and its pressure apart from the rest of the machine.
type Systemd struct {
	User       bool              `json:"user"`                 // the user's own manager; false is the system's, which needs rights
	Slice      string            `json:"slice,omitempty"`      // "" is the manager's default
	Properties map[string]string `json:"properties,omitempty"` // of the scope: MemoryMax, CPUWeight, AllowedCPUs
}

// Words are the arguments in front of the engine's own; unit is the scope's name, "" leaves it out.
func (s Systemd) Words(unit string) []string {
	var out []string
	if s.User {
		out = append(out, "--user")
	}
	out = append(out, "--scope", "--quiet", "--collect")
	if unit != "" {
		out = append(out, "--unit="+unit)
	}
	if s.Slice != "" {
		out = append(out, "--slice="+s.Slice)
	}
	out = append(out, "--property=Delegate=yes")
	for _, k := range slices.Sorted(maps.Keys(s.Properties)) {
		out = append(out, "--property="+k+"="+s.Properties[k])
	}
	return append(out, "--")
}

// String is the launch in a line, for records.
func (s Systemd) String() string {
	return "systemd-run " + strings.TrimSuffix(strings.Join(s.Words(""), " "), " --")
}
