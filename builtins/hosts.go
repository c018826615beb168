package builtins

// The host as a workflow says it: settings that hold while an arm runs, what an engine uses of the machine,
// and what is waited for before an arm.

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"flow/starlark/value"
	"flow/workflows/plan"
)

var hostKind = &kind[plan.HostSetting]{
	name:  "host setting",
	key:   func(h plan.HostSetting) string { return plan.Sum(h) },
	label: func(h plan.HostSetting) string { return strconv.Quote(h.String()) },
	attrs: map[string]func(plan.HostSetting) starlark.Value{
		"name":   func(h plan.HostSetting) starlark.Value { return text(h.Name) },
		"target": func(h plan.HostSetting) starlark.Value { return textOrNone(h.Target) },
		"value":  func(h plan.HostSetting) starlark.Value { return text(h.Value) },
	},
}

// resource is what an engine uses: "gpus:1", "gpu:UUID", "cpus:0-3", "numa:0", "disk:ID".
type resource string

var resourceKind = &kind[resource]{
	name:  "resource",
	key:   func(r resource) string { return string(r) },
	label: func(r resource) string { return strconv.Quote(string(r)) },
	attrs: map[string]func(resource) starlark.Value{"name": func(r resource) starlark.Value { return text(string(r)) }},
}

var settleKind = &kind[plan.Settling]{
	name:  "settle",
	key:   func(s plan.Settling) string { return plan.Sum(s) },
	label: func(s plan.Settling) string { return fmt.Sprintf("%d bands", len(s.Until)) },
	attrs: map[string]func(plan.Settling) starlark.Value{
		"timeout_s": func(s plan.Settling) starlark.Value { return starlark.Float(s.Timeout.Seconds()) },
		"until":     func(s plan.Settling) starlark.Value { return bandKind.list(s.Until) },
	},
}

var bandKind = &kind[plan.Band]{
	name:  "band",
	key:   func(b plan.Band) string { return plan.Sum(b) },
	label: func(b plan.Band) string { return strconv.Quote(b.Sensor) },
	attrs: map[string]func(plan.Band) starlark.Value{
		"sensor": func(b plan.Band) starlark.Value { return text(b.Sensor) },
		"above":  func(b plan.Band) starlark.Value { return floatOrNone(b.Above) },
		"below":  func(b plan.Band) starlark.Value { return floatOrNone(b.Below) },
		"slope":  func(b plan.Band) starlark.Value { return floatOrNone(b.Slope) },
	},
}

func hostFamily() Family {
	word := func(name, doc, example, arg, argDoc string, check func(*Call, string) error) Builtin {
		return Builtin{Name: "host." + name, Doc: doc, Example: example, Func: func(c *Call) (starlark.Value, error) {
			h := plan.HostSetting{Name: name}
			if err := c.Unpack(1, value.Param{Name: arg, Required: true, Into: nonEmpty(&h.Value), Doc: argDoc}); err != nil {
				return nil, err
			}
			if check != nil {
				if err := check(c, h.Value); err != nil {
					return nil, err
				}
			}
			return hostKind.of(h), nil
		}}
	}
	return Family{"The host", "Settings of the machine that hold while an arm runs: for `lever(host = …)`, where they are the change, and for `group(host = …)`, where every side has them. " +
		"What was there before is written to a journal and synced before the change, and put back when the arm ends, however it ends: after a SIGKILL by the next `flow run`, or by `flow doctor --restore`.", []Builtin{
		word(plan.HostGovernor, "The cpufreq governor of every CPU.", `host.governor("performance")`, "name", "as the driver names it", nil),
		word(plan.HostEPP, "The energy performance preference of every CPU, where the driver has one.", `host.epp("performance")`, "name", "as the driver names it: performance, balance_performance, …", nil),
		{
			Name: "host.boost", Doc: "Turbo clocks, by whichever switches there are: Intel's no_turbo, cpufreq's boost.", Example: `host.boost(False)`,
			Func: func(c *Call) (starlark.Value, error) {
				var on bool
				if err := c.Unpack(1, value.Param{Name: "on", Required: true, Into: value.Bool(&on), Doc: "whether clocks may rise above the sustained one"}); err != nil {
					return nil, err
				}
				return hostKind.of(plan.HostSetting{Name: plan.HostBoost, Value: map[bool]string{true: "on", false: "off"}[on]}), nil
			},
		},
		word(plan.HostTHP, "Transparent huge pages.", `host.thp("never")`, "when", "always, madvise or never", func(c *Call, v string) error {
			if v != "always" && v != "madvise" && v != "never" {
				return c.Errorf(`host.thp("madvise")`, "got %q, want always, madvise or never", v)
			}
			return nil
		}),
		{
			Name: "host.swappiness", Doc: "How readily the kernel swaps: the sysctl vm.swappiness.", Example: `host.swappiness(0)`,
			Func: func(c *Call) (starlark.Value, error) {
				var n int
				if err := c.Unpack(1, value.Param{Name: "value", Required: true, Into: value.Int(&n), Doc: "0 to 200"}); err != nil {
					return nil, err
				}
				if n < 0 || n > 200 {
					return nil, c.Errorf("host.swappiness(0)", "got %d, want 0 to 200", n)
				}
				return hostKind.of(plan.HostSetting{Name: plan.HostSysctl, Target: "vm.swappiness", Value: strconv.Itoa(n)}), nil
			},
		},
		targeted(plan.HostSysctl, "A sysctl.", `host.sysctl("vm.overcommit_memory", 1)`, "name", `its name, such as "vm.swappiness"; with slashes where a part of it holds dots`),
		targeted(plan.HostFile, "A file of the kernel's below /sys or /proc/sys that holds one value.", `host.file("/sys/kernel/mm/ksm/run", 0)`, "path", "the file"),
		{
			Name: "host.drop_caches", Doc: "Drop the page cache and, with 3, dentries and inodes, before the engine starts. An action: nothing is put back and nothing shows it. Files of one engine are dropped by settle(page_cache = \"cold\"), which needs no rights.",
			Example: `host.drop_caches()`,
			Func: func(c *Call) (starlark.Value, error) {
				n := 3
				if err := c.Unpack(1, value.Param{Name: "level", Default: "3", Into: value.Int(&n), Doc: "1 pages, 2 dentries and inodes, 3 both"}); err != nil {
					return nil, err
				}
				if n < 1 || n > 3 {
					return nil, c.Errorf("host.drop_caches(3)", "got %d, want 1, 2 or 3", n)
				}
				return hostKind.of(plan.HostSetting{Name: plan.HostDropCaches, Value: strconv.Itoa(n)}), nil
			},
		}, {
			Name: "host.gpu_power_limit", Doc: "The power limit of a GPU, by nvidia-smi.", Example: `host.gpu_power_limit(300, gpu = "0")`,
			Func: func(c *Call) (starlark.Value, error) {
				h := plan.HostSetting{Name: plan.HostGPUPower}
				var watts float64
				if err := c.Unpack(1,
					value.Param{Name: "watts", Required: true, Into: value.Float(&watts), Doc: "within what nvidia-smi -q -d POWER allows"},
					value.Param{Name: "gpu", Default: `"0"`, Into: nonEmpty(&h.Target), Doc: "index or UUID"},
				); err != nil {
					return nil, err
				}
				if h.Target == "" {
					h.Target = "0"
				}
				if !(watts > 0) {
					return nil, c.Errorf("host.gpu_power_limit(300)", "got %v watts, want more than 0", watts)
				}
				h.Value = strconv.FormatFloat(watts, 'f', -1, 64)
				return hostKind.of(h), nil
			},
		}, {
			Name: "host.gpu_clocks", Doc: "Lock the graphics clock of a GPU into a range, by nvidia-smi. The driver has calls that lock and that unlock, and none that tells what is locked, so it has to be said: flow puts back what it is told, never a guess, and refuses what the clock of now disproves.",
			Example: `host.gpu_clocks(1600, before = "unlocked")`, Func: gpuClocksCall,
		}, {
			Name: "host.cpus", Doc: "The CPUs that the engine may run on, with all that it starts. Nothing of the machine is changed.", Example: `host.cpus("0-3")`,
			Func: func(c *Call) (starlark.Value, error) {
				h := plan.HostSetting{Name: plan.HostCPUs}
				if err := c.Unpack(1, value.Param{Name: "set", Required: true, Into: cpuSet(&h.Value), Doc: "numbers and ranges, as taskset has them"}); err != nil {
					return nil, err
				}
				return hostKind.of(h), nil
			},
		},
	}}
}

// targeted is a setting with a name of its own.
func targeted(name, doc, example, arg, argDoc string) Builtin {
	return Builtin{Name: "host." + name, Doc: doc, Example: example, Func: func(c *Call) (starlark.Value, error) {
		h := plan.HostSetting{Name: name}
		if err := c.Unpack(2,
			value.Param{Name: arg, Required: true, Into: nonEmpty(&h.Target), Doc: argDoc},
			value.Param{Name: "value", Required: true, Into: settingValue(&h.Value), Doc: "as the kernel reads it"},
		); err != nil {
			return nil, err
		}
		switch {
		case name == plan.HostSysctl && (!sysctlName.MatchString(h.Target) || strings.Contains(h.Target, "..")):
			return nil, c.Errorf(`host.sysctl("vm.swappiness", 0)`, "got %q, want the name of a sysctl", h.Target)
		case name == plan.HostFile && (!strings.HasPrefix(h.Target, "/sys/") && !strings.HasPrefix(h.Target, "/proc/sys/") || strings.Contains(h.Target, "..")):
			return nil, c.Errorf(`host.file("/sys/kernel/mm/ksm/run", 0)`, "got path %q, want a file below /sys or /proc/sys", h.Target)
		}
		return hostKind.of(h), nil
	}}
}

var sysctlName = regexp.MustCompile(`^[a-z][A-Za-z0-9_./:-]*$`)

// settingValue unpacks what a kernel file holds.
func settingValue(to *string) value.Unpacker {
	return value.Func("string or int", func(v starlark.Value) error {
		s, err := word(v)
		if err != nil {
			return err
		}
		if strings.TrimSpace(s) == "" || strings.ContainsAny(s, "\x00\n") {
			return fmt.Errorf("got %q, want one line", s)
		}
		*to = s
		return nil
	})
}

func gpuClocksCall(c *Call) (starlark.Value, error) {
	h := plan.HostSetting{Name: plan.HostGPUClocks}
	var low, high int
	var before string
	if err := c.Unpack(2,
		value.Param{Name: "mhz", Required: true, Into: value.Int(&low), Doc: "the clock, or the lower end of the range"},
		value.Param{Name: "to", Default: "None", Into: value.Int(&high), Doc: "the upper end; None is the same clock"},
		value.Param{Name: "gpu", Default: `"0"`, Into: nonEmpty(&h.Target), Doc: "index or UUID"},
		value.Param{Name: "before", Default: "None", Into: nonEmpty(&before), Doc: "what holds now, and has to be said: \"unlocked\", or \"MIN,MAX\" as nvidia-smi -lgc was given it"},
	); err != nil {
		return nil, err
	}
	if h.Target == "" {
		h.Target = "0"
	}
	if high == 0 {
		high = low
	}
	if low < 1 || high < low {
		return nil, c.Errorf(`host.gpu_clocks(1200, 1600, before = "unlocked")`, "got %d to %d MHz, want a range", low, high)
	}
	h.Value = fmt.Sprintf("%d,%d", low, high)
	if before == "" {
		return nil, c.Errorf(fmt.Sprintf(`host.gpu_clocks(%d, %d, before = "unlocked") where nobody ran nvidia-smi -lgc since the driver was loaded, or its range as it was given, before = "1200,1600"`, low, high),
			"what is locked now has to be said with before: the driver does not tell, and it has to be put back")
	}
	if before != "unlocked" {
		if !clockRange.MatchString(before) {
			return nil, c.Errorf(`before = "unlocked", or before = "1200,1600"`, "got before %q", before)
		}
		h.Before = before
	}
	return hostKind.of(h), nil
}

var clockRange = regexp.MustCompile(`^[0-9]+,[0-9]+$`)

var cpuSetForm = regexp.MustCompile(`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`)

// cpuSet unpacks a set of CPUs.
func cpuSet(to *string) value.Unpacker {
	return value.Func("set of CPUs", func(v starlark.Value) error {
		s, err := word(v)
		if err != nil || !cpuSetForm.MatchString(s) {
			return say(`cpus("0-3,8")`, "got %s, want numbers and ranges such as \"0-3,8\"", v)
		}
		*to = s
		return nil
	})
}

func resourceFamily() Family {
	make1 := func(kind, doc, example, arg, argDoc string, into func(*string) value.Unpacker) Builtin {
		return Builtin{Name: kind, Doc: doc, Example: example, Func: func(c *Call) (starlark.Value, error) {
			var id string
			if err := c.Unpack(1, value.Param{Name: arg, Required: true, Into: into(&id), Doc: argDoc}); err != nil {
				return nil, err
			}
			if strings.ContainsAny(id, " \t\n") {
				return nil, c.Errorf(example, "got %q, want a name without blanks", id)
			}
			return resourceKind.of(resource(kind + ":" + id)), nil
		}}
	}
	return Family{"Resources", "What an engine uses of the machine, for `engine(resources = […])`: it is locked instead of the whole host, the engine sees and runs on it only, and another flow may measure on the rest. " +
		"Every arm records its neighbours; one that starts or ends inside a block voids the block.", []Builtin{
		{
			Name: "gpus", Doc: "Any so many NVIDIA GPUs, the same ones in every group of the session.", Example: `engine("srv", command = ["srv", "{port}"], api = api.openai_chat(), resources = [gpus(1), cpus("0-7")])`,
			Func: func(c *Call) (starlark.Value, error) {
				var n int
				if err := c.Unpack(1, value.Param{Name: "n", Required: true, Into: value.Int(&n), Doc: "how many"}); err != nil {
					return nil, err
				}
				if n < 1 || n > 1024 {
					return nil, c.Errorf("gpus(1)", "got %d, want at least 1", n)
				}
				return resourceKind.of(resource("gpus:" + strconv.Itoa(n))), nil
			},
		},
		make1("gpu", "One GPU by its UUID. Indexes change with what is visible.", `gpu("GPU-8f6d2b1a-0c3e-4d5f-9a7b-112233445566")`, "uuid", "as nvidia-smi -L prints it", func(to *string) value.Unpacker {
			return value.Func("string", func(v starlark.Value) error {
				s, ok := starlark.AsString(v)
				if _, err := strconv.Atoi(s); !ok || s == "" || err == nil {
					return say(`gpu("GPU-…"), or gpus(1) for any one`, "got %s, want the UUID of a GPU", v)
				}
				*to = s
				return nil
			})
		}),
		make1("cpus", "A set of CPUs; the engine is bound to it.", `cpus("0-3")`, "set", "numbers and ranges", cpuSet),
		make1("numa", "A NUMA node with its CPUs; the engine is bound to them.", `numa(0)`, "node", "its number", func(to *string) value.Unpacker {
			return value.Func("int", func(v starlark.Value) error {
				s, err := word(v)
				if _, bad := strconv.ParseUint(s, 10, 16); err != nil || bad != nil {
					return fmt.Errorf("got %s, want the number of a node", v)
				}
				*to = s
				return nil
			})
		}),
		make1("disk", "A disk, by the kernel's name or by a file or folder on it.", `disk("nvme0n1")`, "name", "\"nvme0n1\", or an absolute path", nonEmpty),
	}}
}

func settleFamily() Family {
	return Family{"Settling", "What is waited for before each arm, on both sides alike; how long it took is a metric of the arm, settle_s, and a finding.", []Builtin{
		{
			Name: "settle", Doc: "Wait until every band holds at once. With preheat the machine is first made busy that long, so that a cold start is no advantage; with page_cache the engines' files are read into memory or dropped from it.",
			Example: `cool = settle(until = [band("nvml.0.temp_c", below = 50), band("loadavg.load1", below = 1)], timeout = "5m", on_timeout = "invalid")`,
			Func:    settleCall,
		}, {
			Name: "band", Doc: "Where a sensor must be before an arm begins.", Example: `band("nvml.0.temp_c", above = 40, below = 50, hold = "5s")`,
			Func: func(c *Call) (starlark.Value, error) {
				var b plan.Band
				if err := c.Unpack(1,
					value.Param{Name: "sensor", Required: true, Into: nonEmpty(&b.Sensor), Doc: "a sensor; a trailing * is every one that begins so"},
					value.Param{Name: "above", Default: "None", Into: value.Maybe(&b.Above, value.Float), Doc: "at least this"},
					value.Param{Name: "below", Default: "None", Into: value.Maybe(&b.Below, value.Float), Doc: "at most this"},
					value.Param{Name: "hold", Default: `"0s"`, Into: value.Duration(&b.Hold), Doc: "for so long; 0 is one sample"},
				); err != nil {
					return nil, err
				}
				if b.Above == nil && b.Below == nil {
					return nil, c.Errorf(fmt.Sprintf("band(%q, below = 50)", b.Sensor), "band of %s has no limit: give above or below", b.Sensor)
				}
				if b.Above != nil && b.Below != nil && *b.Above > *b.Below {
					return nil, c.Errorf(fmt.Sprintf("band(%q, above = %v, below = %v)", b.Sensor, *b.Below, *b.Above), "nothing is above %v and below %v", *b.Above, *b.Below)
				}
				return bandKind.of(b), nil
			},
		}, {
			Name: "steady", Doc: "A sensor that changes slowly enough before an arm begins: the slope of a line through its last samples, as a share of their mean.", Example: `steady("nvml.0.temp_c", per_minute = "2%", over = "30s")`,
			Func: func(c *Call) (starlark.Value, error) {
				b := plan.Band{Hold: 30 * time.Second}
				var slope float64
				if err := c.Unpack(1,
					value.Param{Name: "sensor", Required: true, Into: nonEmpty(&b.Sensor), Doc: "a sensor"},
					value.Param{Name: "per_minute", Required: true, Into: value.Percent(&slope), Example: `"2%"`, Doc: "the change in a minute that is still steady, either way"},
					value.Param{Name: "over", Default: `"30s"`, Into: value.Duration(&b.Hold), Doc: "the window"},
				); err != nil {
					return nil, err
				}
				if slope <= 0 || b.Hold <= 0 {
					return nil, c.Errorf(fmt.Sprintf(`steady(%q, per_minute = "2%%")`, b.Sensor), "got %v a minute over %s, want both above 0", slope, b.Hold)
				}
				b.Slope = &slope
				return bandKind.of(b), nil
			},
		},
	}}
}

func settleCall(c *Call) (starlark.Value, error) {
	s := plan.Settling{Timeout: plan.DefaultSettleTimeout}
	onTimeout := "warn"
	if err := c.Unpack(0,
		value.Param{Name: "until", Default: "[]", Into: listOf(bandKind, &s.Until, true), Doc: "band(…) and steady(…) values that hold together"},
		value.Param{Name: "timeout", Default: `"5m"`, Into: value.Duration(&s.Timeout), Doc: "how long it may take"},
		value.Param{Name: "on_timeout", Default: `"warn"`, Into: value.OneOf(&onTimeout, "warn", "invalid"), Doc: "what happens then: the arm goes on with a warning, or is invalid and its block is done again"},
		value.Param{Name: "pause", Default: `"0s"`, Into: value.Duration(&s.Pause), Doc: "at least this long"},
		value.Param{Name: "preheat", Default: `"0s"`, Into: value.Duration(&s.Preheat), Doc: "be busy that long first"},
		value.Param{Name: "heater", Default: "[]", Into: command(&s.Heater), Example: `["gpu-burn", "60"]`, Doc: "command that heats, ended when preheat is over; by default every CPU of the engine"},
		value.Param{Name: "page_cache", Default: `"untouched"`, Into: value.OneOf(&s.PageCache, plan.CacheUntouched, plan.CacheWarm, plan.CacheCold), Doc: "what becomes of the files that engines name in files ="},
	); err != nil {
		return nil, err
	}
	s.Invalid = onTimeout == "invalid"
	if s.PageCache == plan.CacheUntouched {
		s.PageCache = ""
	}
	switch {
	case s.Timeout <= 0 || s.Pause < 0 || s.Preheat < 0:
		return nil, c.Errorf(`settle(timeout = "5m")`, "got timeout %s, pause %s, preheat %s, want none below 0", s.Timeout, s.Pause, s.Preheat)
	case len(s.Heater) > 0 && s.Preheat == 0:
		return nil, c.Errorf(`settle(preheat = "60s", heater = […])`, "settle has a heater and does not say how long")
	case len(s.Until) == 0 && s.Pause == 0 && s.Preheat == 0 && s.PageCache == "":
		return nil, c.Errorf(`settle(until = [band("nvml.0.temp_c", below = 50)])`, "settle waits for nothing")
	}
	return settleKind.of(s), nil
}

// settleInto unpacks a duration, or a settle(…).
func settleInto(pause *time.Duration, s **plan.Settling) value.Unpacker {
	plain := value.Duration(pause)
	return value.Func("duration or settle", func(v starlark.Value) error {
		if d, ok := v.(*Decl[plan.Settling]); ok {
			x := d.V
			*s = &x
			return nil
		}
		if d, ok := v.(*Decl[plan.Band]); ok {
			return say(fmt.Sprintf("settle = settle(until = [band(%q, …)])", d.V.Sensor), "got band, want duration or settle")
		}
		return plain.Unpack(v)
	})
}

// whileInto unpacks ("sensor", 50).
func whileInto(to **plan.While) value.Unpacker {
	const want = `(sensor, above)`
	return value.Func(want, func(v starlark.Value) error {
		items, err := elements(v)
		if err != nil || len(items) != 2 {
			return say(`while_above = ("nvml.0.util_pct", 50)`, "got %s, want a sensor and a number", v)
		}
		name, ok := starlark.AsString(items[0])
		x, number := starlark.AsFloat(items[1])
		if !ok || !number || name == "" {
			return say(`while_above = ("nvml.0.util_pct", 50)`, "got %s, want a sensor and a number", v)
		}
		*to = &plan.While{Sensor: name, Above: x}
		return nil
	})
}
