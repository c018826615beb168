package main

// What would disturb a measurement now, and for how long. The limits are those of a careful person, not of
// a gate: a workflow says its own. Averages that decay tell how long to wait: a load average loses a factor
// e a minute, a pressure average every ten seconds.

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"flow/builtins/hardware"
)

// States of a condition.
const (
	condOK       = "ok"
	condDisturbs = "disturbs"
	condNote     = "note" // may be meant
	condUnknown  = "unknown"
)

// cond is one line of what a measurement would meet.
type cond struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`
	Observed string   `json:"observed,omitempty"`
	Want     string   `json:"want,omitempty"`
	Fix      string   `json:"fix,omitempty"`
	SettleS  *float64 `json:"settle_s,omitempty"` // seconds until it passes by itself, where that can be said
}

// scene is what the machine says now.
type scene struct {
	values    map[string]float64 // of sensors
	rates     map[string]float64 // of counters, a second
	settings  map[string]hardware.Setting
	processes []hardware.Process
	onGPUs    []hardware.GPUProcess
	cpus      int
}

func (s scene) conditions() []cond {
	out := []cond{s.governor(), s.epp(), s.boost(), s.thp(), s.powerSource(), s.load(), s.busy(), s.memory(), s.swap()}
	out = append(out, s.pressure("cpu", "some", 5), s.pressure("io", "full", 1), s.pressure("memory", "full", .5))
	out = append(out, s.gpus()...)
	out = append(out, s.others()...)
	return append(out, s.throttled())
}

// settle is the longest of the waits that pass by themselves; nil when nothing has to pass.
func settleOf(cs []cond) (seconds *float64, by string) {
	for _, c := range cs {
		if c.State == condDisturbs && c.SettleS != nil && (seconds == nil || *c.SettleS > *seconds) {
			seconds, by = c.SettleS, c.Name
		}
	}
	return seconds, by
}

// decay is how long an average with that time constant takes to fall from v to limit.
func decay(v, limit, constant float64) *float64 {
	s := math.Ceil(constant * math.Log(v/limit))
	return &s
}

func (s scene) setting(name, want, fix string, bad string) cond {
	x := s.settings[name]
	c := cond{Name: name, State: condOK, Observed: x.Value, Want: want}
	switch {
	case x.Value == "":
		c.State, c.Observed, c.Want = condUnknown, x.Why, ""
	case x.Value != want && bad != "":
		c.State, c.Fix = bad, fix
	}
	return c
}

func (s scene) governor() cond {
	c := s.setting("governor", "performance", "sudo cpupower frequency-set -g performance", condDisturbs)
	// With a driver that chooses the clock itself, powersave is a wish, and the energy preference decides.
	if c.State == condDisturbs && s.settings["epp"].Value == "performance" {
		c.State, c.Fix = condOK, ""
	}
	return c
}

func (s scene) epp() cond {
	c := s.setting("epp", "performance", "echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference", condDisturbs)
	if c.State == condUnknown {
		c.State = condNote
	}
	return c
}

func (s scene) boost() cond {
	c := s.setting("boost", "", "", "")
	if c.Observed == "on" {
		c.State, c.Want = condNote, "off for the least noise, on for the most speed"
	}
	return c
}

func (s scene) thp() cond {
	c := s.setting("thp", "madvise", "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled", condNote)
	return c
}

func (s scene) powerSource() cond {
	c := cond{Name: "power", State: condOK, Observed: "mains", Want: "mains"}
	ac, ok := s.values["power.ac"]
	switch {
	case s.values["power.low_power_mode"] == 1:
		c.State, c.Observed, c.Fix = condDisturbs, "low-power mode", "switch low-power mode off in the system's settings"
	case !ok:
		c.State, c.Observed, c.Want = condUnknown, "no power supply says so, as on desktops and servers", ""
	case ac == 0:
		c.State, c.Observed, c.Fix = condDisturbs, "battery", "connect the power supply"
		if w, ok := s.values["power.battery_w"]; ok && w > 0 {
			c.Observed = fmt.Sprintf("battery, drawing %.0f W", w)
		}
	}
	return c
}

func (s scene) load() cond {
	limit := max(.1*float64(s.cpus), .5)
	c := cond{Name: "load", State: condOK, Want: fmt.Sprintf("at most %.1f", limit)}
	v, ok := s.values["loadavg.1m"]
	if !ok {
		return unknown(c)
	}
	c.Observed = fmt.Sprintf("%.2f over a minute on %d CPUs", v, s.cpus)
	if v > limit {
		c.State, c.Fix = condDisturbs, "end what runs, or wait"
		c.SettleS = decay(v, limit, 60)
	}
	return c
}

// busy is the moment, where load is the minute.
func (s scene) busy() cond {
	c := cond{Name: "cpu", State: condOK, Want: "at most 10 % busy, no steal"}
	v, ok := s.values["stat.cpu_busy_pct"]
	if !ok {
		return unknown(c)
	}
	steal := s.values["stat.cpu_steal_pct"]
	c.Observed = fmt.Sprintf("%.0f %% busy", v)
	switch {
	case steal > 1:
		c.State, c.Observed, c.Fix = condDisturbs, fmt.Sprintf("%.0f %% of the time is stolen by another virtual machine", steal), "measure on the hardware itself"
	case v > 10:
		c.State, c.Fix = condDisturbs, "end what runs: top names it"
	}
	return c
}

func (s scene) memory() cond {
	c := cond{Name: "memory", State: condOK, Want: "at least 10 % available"}
	total, ok := s.values["meminfo.total_mib"]
	available, ok2 := s.values["meminfo.available_mib"]
	if !ok || !ok2 || total == 0 {
		return unknown(c)
	}
	c.Observed = fmt.Sprintf("%.1f of %.1f GiB available", available/1024, total/1024)
	if available < total/10 {
		c.State, c.Fix = condDisturbs, "end what holds memory"
	}
	return c
}

func (s scene) swap() cond {
	c := cond{Name: "swap", State: condOK, Want: "none in use"}
	used, ok := s.values["meminfo.swap_used_mib"]
	if !ok {
		return unknown(c)
	}
	c.Observed = fmt.Sprintf("%.0f MiB in use", used)
	if s.values["meminfo.swap_total_mib"] == 0 {
		c.Observed = "there is none"
	}
	if used > 0 {
		c.State, c.Fix = condDisturbs, "sudo swapoff -a, with memory to spare, then sudo swapon -a"
	}
	if moved := s.rates["vmstat.pswpin_pages"] + s.rates["vmstat.pswpout_pages"]; moved > 0 {
		c.Observed += fmt.Sprintf(", %.0f pages a second going in and out", moved)
	}
	return c
}

// pressure is the larger of the system's and the users'.
func (s scene) pressure(what, kind string, limit float64) cond {
	c := cond{Name: what + " pressure", State: condOK, Want: fmt.Sprintf("%s at most %g %%", kind, limit)}
	system, ok := s.values["psi."+what+"."+kind+"_avg10_pct"]
	user, ok2 := s.values["psi.user."+what+"."+kind+"_avg10_pct"]
	if !ok && !ok2 {
		return unknown(c)
	}
	v, of := system, "system"
	if user > system {
		v, of = user, "user slice"
	}
	c.Observed = fmt.Sprintf("%.2f %% over ten seconds (%s)", v, of)
	if v > limit {
		c.State, c.Fix = condDisturbs, "wait"
		c.SettleS = decay(v, limit, 10)
	}
	return c
}

func (s scene) gpus() []cond {
	var out []cond
	for _, at := range s.prefixes("util_pct") {
		c := cond{Name: "gpu " + strings.TrimSuffix(at, "."), State: condOK, Want: "idle, nobody else on it"}
		util, used := s.values[at+"util_pct"], s.values[at+"mem_used_mib"]
		c.Observed = fmt.Sprintf("%.0f %% busy, %.0f MiB used", util, used)
		if t, ok := s.values[at+"temp_c"]; ok {
			c.Observed += fmt.Sprintf(", %.0f °C", t)
		}
		n, listed := s.values[at+"processes"]
		if listed {
			c.Observed += fmt.Sprintf(", %.0f processes", n)
		}
		c.Observed += s.on(at)
		total := s.values[at+"mem_total_mib"]
		switch {
		case s.values[at+"reason_hw_thermal"] == 1, s.values[at+"reason_sw_thermal"] == 1:
			c.State, c.Fix = condDisturbs, "let it cool: it holds its clock down for heat"
		case s.values[at+"reason_power_brake"] == 1, s.values[at+"reason_hw_slowdown"] == 1:
			c.State, c.Fix = condDisturbs, "look at its power supply: the hardware holds its clock down"
		case util > 5:
			c.State, c.Fix = condDisturbs, "end what uses it: nvidia-smi or rocm-smi names it"
		case total > 0 && used > total/20:
			c.State, c.Fix = condDisturbs, "end what holds its memory"
		case n > 0:
			c.State, c.Fix = condNote, "a desktop draws on it: measure without one for the least noise"
		}
		if c.Fix != "" {
			c.Observed += s.reasons(at)
		}
		out = append(out, c)
	}
	return out
}

// on names who else is on a GPU.
func (s scene) on(at string) string {
	var names []string
	for _, p := range s.onGPUs {
		if p.GPU+"." != at {
			continue
		}
		name := fmt.Sprintf("%s (%d)", p.Name, p.PID)
		if p.MemMiB != nil {
			name += fmt.Sprintf(" with %.0f MiB", *p.MemMiB)
		}
		names = append(names, name)
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > 4:
		names = append(names[:4:4], fmt.Sprintf("and %d more", len(names)-4))
	}
	return ": " + strings.Join(names, ", ")
}

func (s scene) reasons(at string) string {
	var held []string
	for _, r := range []string{"sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "power_brake"} {
		if s.values[at+"reason_"+r] == 1 {
			held = append(held, r)
		}
	}
	if len(held) == 0 {
		return ""
	}
	return ", clock held by " + strings.Join(held, ", ")
}

// prefixes are those of the GPUs that have a sensor, in order.
func (s scene) prefixes(suffix string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		if at, ok := strings.CutSuffix(name, suffix); ok && strings.HasSuffix(at, ".") && (strings.HasPrefix(at, "nvml.") || strings.HasPrefix(at, "amdgpu.")) && strings.Count(at, ".") == 2 {
			out = append(out, at)
		}
	}
	return out
}

// others are engines, builds and agents that run beside.
func (s scene) others() []cond {
	by := map[string][]string{}
	for _, p := range s.processes {
		by[p.Pattern] = append(by[p.Pattern], fmt.Sprintf("%s (%d)", p.Name, p.PID))
	}
	var out []cond
	for _, kind := range []string{"engines", "builds", "agents"} {
		c := cond{Name: kind, State: condOK, Want: "none"}
		n, ok := s.values["procs."+kind+".count"]
		switch {
		case !ok:
			c = unknown(c)
		case n == 0:
			c.Observed = "none"
		default:
			names := by[kind]
			if len(names) > 4 {
				names = append(names[:4:4], fmt.Sprintf("and %d more", len(names)-4))
			}
			c.State, c.Observed, c.Fix = condDisturbs, strings.Join(names, ", "), "end them"
			if kind == "agents" {
				c.State = condNote
				c.Fix = "let them rest while arms run"
			}
		}
		out = append(out, c)
	}
	return out
}

func (s scene) throttled() cond {
	c := cond{Name: "throttling", State: condOK}
	core, ok := s.values["cpu.core_throttles"]
	if !ok {
		return unknown(c)
	}
	c.Observed = fmt.Sprintf("%.0f times since boot", core)
	if core > 0 {
		c.State, c.Want = condNote, "none while an arm runs: a gate compares the counter"
	}
	if s.rates["cpu.core_throttles"] > 0 {
		c.State, c.Fix = condDisturbs, "let the CPU cool"
	}
	return c
}

func unknown(c cond) cond {
	c.State, c.Observed, c.Want = condUnknown, "not measured here", ""
	return c
}
