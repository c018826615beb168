package hardware

// hwmon: what the chips of the board measure. Temperatures, powers, fans; reading some of them is a slow
// bus transfer, so they have a lane of their own. GPUs and NVMe drives have sources of their own.

import (
	"path/filepath"
	"strings"

	"flow/workflows/record"
)

// hwmonKinds are the files of a chip: KIND<n>_input with KIND<n>_label beside it. The kernel's unit is a
// thousandth, for power and energy a millionth.
var hwmonKinds = [...]struct {
	kind, file, suffix, unit string
	by                       float64
	counter                  bool
}{
	{"temp", "_input", "_c", "°C", 1e-3, false},
	{"power", "_input", "_w", "W", 1e-6, false},
	{"power", "_average", "_avg_w", "W", 1e-6, false},
	{"energy", "_input", "_energy_j", "J", 1e-6, true},
	{"fan", "_input", "_rpm", "rpm", 1, false},
}

// hwmonMost bounds how many numbers are read: a server's board has hundreds.
const hwmonMost = 96

func openHwmon(o Options) Source {
	c := &cells{name: "hwmon", pace: paceSlow, alone: true}
	dir := filepath.Join(o.Sys, "class/hwmon")
	chips := unique{}
	for _, path := range numbered(dir, "hwmon") {
		chip := textOf(o, filepath.Join(path, "name"))
		switch chip {
		case "", "amdgpu", "nvme":
			continue
		}
		at := "hwmon." + chips.name(slug(chip)) + "."
		labels := unique{}
		for _, k := range hwmonKinds {
			for n := range 33 {
				if len(c.sensors) >= hwmonMost {
					break
				}
				key := k.kind + itoa(n)
				if k.kind == "temp" && n == 0 {
					continue
				}
				file := filepath.Join(path, key+k.file)
				if !exists(file) {
					continue
				}
				name := slug(textOf(o, filepath.Join(path, key+"_label")))
				if name == "" {
					name = key
				}
				c.add(o, file, record.Sensor{Name: at + labels.name(name+k.suffix), Unit: k.unit, Counter: k.counter, PeriodMS: 1000}, scaled(k.by))
			}
		}
	}
	if len(c.sensors) == 0 {
		c.none(nothingIn(o, dir, "no hardware monitor"), "run on the hardware itself, with the module of its board loaded (sensors-detect finds it)",
			record.Sensor{Name: "hwmon.chip.temp1_c", Unit: "°C", Source: dir, PeriodMS: 1000})
	}
	return c
}

// openThermal lists the kernel's thermal zones. A zone may be behind firmware that takes milliseconds.
func openThermal(o Options) Source {
	c := &cells{name: "thermal", pace: paceSlow, alone: true}
	dir := filepath.Join(o.Sys, "class/thermal")
	names := unique{}
	for _, path := range numbered(dir, "thermal_zone") {
		kind := slug(textOf(o, filepath.Join(path, "type")))
		if kind == "" {
			kind = filepath.Base(path)
		}
		c.add(o, filepath.Join(path, "temp"), record.Sensor{Name: "thermal." + names.name(kind) + "_c", Unit: "°C", PeriodMS: 1000}, scaled(1e-3))
	}
	if len(c.sensors) == 0 {
		c.none(nothingIn(o, dir, "no thermal zone"), "run on the hardware itself",
			record.Sensor{Name: "thermal.zone0_c", Unit: "°C", Source: dir, PeriodMS: 1000})
	}
	return c
}

// openNVMe lists the temperature of each NVMe drive. A reading is a command to the drive, which the engine
// may be reading from, so it is taken every five seconds.
func openNVMe(o Options) Source {
	c := &cells{name: "nvme", pace: paceRare, alone: true}
	dir := filepath.Join(o.Sys, "class/nvme")
	for _, path := range numbered(dir, "nvme") {
		drive := filepath.Base(path)
		file := filepath.Join(path, "hwmon0/temp1_input")
		for _, glob := range []string{"hwmon*/temp1_input", "hwmon/hwmon*/temp1_input", "device/hwmon/hwmon*/temp1_input"} {
			if m, err := filepath.Glob(filepath.Join(path, glob)); err == nil && len(m) > 0 {
				file = m[0]
				break
			}
		}
		c.add(o, file, record.Sensor{Name: "nvme." + drive + ".temp_c", Unit: "°C", PeriodMS: 5000}, scaled(1e-3))
	}
	if len(c.sensors) == 0 {
		c.none(nothingIn(o, dir, "no NVMe drive"), "measure on a machine with one, or do without",
			record.Sensor{Name: "nvme.nvme0.temp_c", Unit: "°C", Source: dir, PeriodMS: 5000})
	}
	return c
}

func nothingIn(o Options, dir, what string) string {
	if o.OS != "linux" {
		return "flow reads this on Linux only, not on " + o.OS
	}
	return what + " in " + dir
}

// openAMDGPU lists AMD GPUs as the amdgpu driver shows them in /sys; no library is needed.
func openAMDGPU(o Options) Source {
	c := &cells{name: "amdgpu", pace: paceUsual, alone: true}
	dir := filepath.Join(o.Sys, "class/drm")
	n := 0
	for _, card := range numbered(dir, "card") {
		dev := filepath.Join(card, "device")
		if textOf(o, filepath.Join(dev, "vendor")) != "0x1002" {
			continue
		}
		hw := filepath.Join(dev, "hwmon/hwmon0")
		if m, err := filepath.Glob(filepath.Join(dev, "hwmon/hwmon*")); err == nil && len(m) > 0 {
			hw = m[0]
		}
		amdGPU(o, c, "amdgpu."+itoa(n)+".", dev, hw)
		n++
	}
	if n == 0 {
		why, fix := nothingIn(o, dir, "no AMD GPU"), "measure on a machine with one, with the amdgpu driver loaded and /sys visible"
		for _, q := range amdQuantities {
			c.none(why, fix, record.Sensor{Name: "amdgpu.0." + q.suffix, Unit: q.unit, Source: dir, PeriodMS: q.period})
		}
	}
	return c
}

var amdQuantities = [...]struct {
	suffix, unit string
	files        string // below the device or, with "@", its hwmon; the first that is there
	by           float64
	period       int
}{
	{"power_w", "W", "@power1_average @power1_input", 1e-6, 100}, // average over about a tenth of a second, by the firmware
	{"power_limit_w", "W", "@power1_cap", 1e-6, 0},
	{"sclk_mhz", "MHz", "@freq1_input", 1e-6, 0},
	{"mclk_mhz", "MHz", "@freq2_input", 1e-6, 0},
	{"temp_c", "°C", "@temp1_input", 1e-3, 0},
	{"temp_junction_c", "°C", "@temp2_input", 1e-3, 0},
	{"temp_mem_c", "°C", "@temp3_input", 1e-3, 0},
	{"mem_used_mib", "MiB", "mem_info_vram_used", 1. / (1 << 20), 0},
	{"mem_total_mib", "MiB", "mem_info_vram_total", 1. / (1 << 20), 0},
	{"gtt_used_mib", "MiB", "mem_info_gtt_used", 1. / (1 << 20), 0},
	{"util_pct", "%", "gpu_busy_percent", 1, 0},
	{"mem_util_pct", "%", "mem_busy_percent", 1, 0},
}

func amdGPU(o Options, c *cells, at, dev, hw string) {
	for _, q := range amdQuantities {
		var path string
		for _, name := range strings.Fields(q.files) {
			full := filepath.Join(dev, name)
			if rest, ok := strings.CutPrefix(name, "@"); ok {
				full = filepath.Join(hw, rest)
			}
			if path == "" || exists(full) {
				path = full
			}
			if exists(full) {
				break
			}
		}
		c.add(o, path, record.Sensor{Name: at + q.suffix, Unit: q.unit, PeriodMS: q.period}, scaled(q.by))
	}
}
