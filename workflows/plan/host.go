package plan

// The machine as a part of what is asked: settings that an arm runs under, and what is waited for before it.

import (
	"slices"
	"strings"
	"time"

	"flow/workflows/record"
)

// Names of host settings. The value of each is text, as the machine reads it.
const (
	HostGovernor   = "governor"        // of every cpufreq policy
	HostEPP        = "epp"             // energy performance preference of every policy
	HostBoost      = "boost"           // on or off: Intel's no_turbo and the others' boost
	HostTHP        = "thp"             // transparent huge pages: always, madvise, never
	HostSysctl     = "sysctl"          // Target is its name, vm.swappiness
	HostFile       = "file"            // Target is a file below /sys or /proc/sys
	HostDropCaches = "drop_caches"     // an action: nothing to put back and nothing to read
	HostGPUPower   = "gpu_power_limit" // watts; Target is a GPU
	HostGPUClocks  = "gpu_clocks"      // "MIN,MAX" in MHz; Target is a GPU; Before is what the driver cannot tell
	HostCPUs       = "cpus"            // the CPUs that the engine may run on, 0-3,8
	HostCommand    = "command"         // Setup, and Restore to undo it
)

// HostSetting is one setting of the machine as it should be while an arm runs. What was there before is read,
// written down, and put back when the arm ends.
type HostSetting struct {
	Name    string   `json:"name"`
	Target  string   `json:"target,omitempty"`
	Value   string   `json:"value,omitempty"`
	Before  string   `json:"before,omitempty"`  // gpu_clocks: what was locked before, "" is nothing
	Setup   []string `json:"setup,omitempty"`   // command: an argument vector, never through a shell
	Restore []string `json:"restore,omitempty"` // command
}

// Key says what is set: two settings of one key are the same thing twice, and the later one counts.
func (h HostSetting) Key() string {
	switch {
	case h.Name == HostSysctl, h.Name == HostFile:
		return h.Target
	case h.Name == HostCommand:
		return "command " + strings.Join(h.Setup, " ")
	case h.Target != "":
		return h.Name + " " + h.Target
	}
	return h.Name
}

// Readable says that the machine can be asked whether the setting is in force.
func (h HostSetting) Readable() bool {
	return h.Name != HostCommand && h.Name != HostDropCaches && h.Name != HostGPUClocks
}

// String is the setting in words: "governor = performance".
func (h HostSetting) String() string {
	if h.Value == "" {
		return h.Key()
	}
	return h.Key() + " = " + h.Value
}

// HostOf is what is in force on a side: the group's settings, and over them those of the levers.
func HostOf(group []HostSetting, s Stack) []HostSetting {
	var out []HostSetting
	add := func(h HostSetting) {
		out = slices.DeleteFunc(out, func(o HostSetting) bool { return o.Key() == h.Key() })
		out = append(out, h)
	}
	for _, h := range group {
		add(h)
	}
	for _, l := range s {
		for _, h := range l.Host {
			add(h)
		}
	}
	return out
}

// HostOf is what is in force on a side of the group.
func (g *Group) HostOf(s Side) []HostSetting { return HostOf(g.Host, s.Stack) }

// Effective is the command of a side as Effective has it, with the group's host settings among its own.
func (g *Group) Effective(s Side) (record.Command, error) {
	c, err := Effective(s.Engine, s.Stack)
	if err != nil {
		return c, err
	}
	for _, h := range g.HostOf(s) {
		if c.Host == nil {
			c.Host = map[string]string{}
		}
		c.Host[h.Key()] = h.Value
	}
	return c, nil
}

// Settling is what is waited for before each arm, on every side alike.
type Settling struct {
	Pause     time.Duration `json:"pause,omitempty"`   // at least this
	Until     []Band        `json:"until,omitempty"`   // all of them together
	Timeout   time.Duration `json:"timeout,omitempty"` // 5 min when zero
	Invalid   bool          `json:"invalid,omitempty"` // when the time is up the arm is invalid; else it goes on with a warning
	Preheat   time.Duration `json:"preheat,omitempty"` // heat the machine first, that long
	Heater    []string      `json:"heater,omitempty"`  // with this command; nil is every CPU of the engine, busy
	PageCache string        `json:"page_cache,omitempty"`
}

// Page-cache policies for the engines' files; "" is untouched.
const (
	CacheUntouched = "untouched"
	CacheWarm      = "warm"
	CacheCold      = "cold"
)

// DefaultSettleTimeout is how long an arm waits for its bands when nothing is said.
const DefaultSettleTimeout = 5 * time.Minute

// Band is where a sensor must be, for Hold, before an arm begins. With Slope it is how fast it may change.
type Band struct {
	Sensor string        `json:"sensor"` // a trailing * is every sensor that begins so
	Above  *float64      `json:"above,omitempty"`
	Below  *float64      `json:"below,omitempty"`
	Slope  *float64      `json:"slope,omitempty"` // at most this much a minute, either way, as a share of the mean
	Hold   time.Duration `json:"hold,omitempty"`  // for Slope the window, 30 s when zero
}

// Sensors is what the bands need.
func (s *Settling) Sensors() []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, b := range s.Until {
		out = append(out, b.Sensor)
	}
	return out
}
