package hardware

// macOS has no /proc: sysctl, vm_stat, pmset and iostat say memory, swap, load, disks and where the current
// comes from. Each is a program, so they run in a lane of their own, once a second. The sensors have the
// names that Linux gives the same things, so that a gate means the same on both; what macOS has no number
// for is listed with the reason.

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"flow/workflows/record"
)

// darwinCommands are what is asked, each with the parser of its answer.
var darwinCommands = [...]struct {
	argv  []string
	parse func(string, found)
}{
	{[]string{"sysctl", "vm.swapusage", "vm.loadavg", "hw.memsize", "kern.boottime"}, parseSysctl},
	{[]string{"vm_stat"}, parseVMStat},
	{[]string{"pmset", "-g", "batt"}, parsePmset},
	{[]string{"pmset", "-g"}, parsePmset},
	{[]string{"iostat", "-Id"}, parseIostat},
}

// darwinSensors are those that every Mac has.
var darwinSensors = []record.Sensor{
	{Name: "meminfo.total_mib", Unit: "MiB", Source: "sysctl hw.memsize"},
	{Name: "meminfo.free_mib", Unit: "MiB", Source: "vm_stat"},
	{Name: "meminfo.available_mib", Unit: "MiB", Source: "vm_stat (free, inactive, speculative and purgeable pages)"},
	{Name: "meminfo.compressed_mib", Unit: "MiB", Source: "vm_stat"},
	{Name: "meminfo.wired_mib", Unit: "MiB", Source: "vm_stat"},
	{Name: "meminfo.swap_total_mib", Unit: "MiB", Source: "sysctl vm.swapusage"},
	{Name: "meminfo.swap_used_mib", Unit: "MiB", Source: "sysctl vm.swapusage"},
	{Name: "vmstat.pswpin_pages", Unit: "pages", Source: "vm_stat", Counter: true},
	{Name: "vmstat.pswpout_pages", Unit: "pages", Source: "vm_stat", Counter: true},
	{Name: "vmstat.pgmajfault", Unit: "faults", Source: "vm_stat (pageins)", Counter: true},
	{Name: "loadavg.1m", Unit: "tasks", Source: "sysctl vm.loadavg"},
	{Name: "loadavg.5m", Unit: "tasks", Source: "sysctl vm.loadavg"},
	{Name: "loadavg.15m", Unit: "tasks", Source: "sysctl vm.loadavg"},
	{Name: "power.ac", Unit: "0 or 1", Source: "pmset -g batt"},
	{Name: "power.battery_pct", Unit: "%", Source: "pmset -g batt"},
	{Name: "power.low_power_mode", Unit: "0 or 1", Source: "pmset -g"},
}

type darwin struct {
	run     func([]string) ([]byte, error)
	sensors []record.Sensor
}

func openDarwin(o Options) []Source {
	d := &darwin{run: o.Command}
	if d.run == nil {
		d.run = runCommand
	}
	got := map[string]string{} // units by name
	failed := map[string]error{}
	for _, c := range darwinCommands {
		out, err := d.run(c.argv)
		if err != nil {
			failed[c.argv[0]] = err
			continue
		}
		c.parse(string(out), func(name, unit string, _ float64) { got[name] = unit })
	}
	for _, s := range darwinSensors {
		s.PeriodMS = 1000
		if _, s.Available = got[s.Name]; !s.Available {
			program, _, _ := strings.Cut(s.Source, " ")
			s.Why, s.Fix = program+" does not print it", "nothing to do where the machine has none, as a desktop has no battery"
			if err := failed[program]; err != nil {
				s.Why, s.Fix = fmt.Sprintf("%s: %v", program, err), "look that "+program+" is on the PATH"
			}
		}
		delete(got, s.Name)
		d.sensors = append(d.sensors, s)
	}
	for _, name := range sortedNames(got) { // disks
		d.sensors = append(d.sensors, record.Sensor{Name: name, Unit: got[name], Source: "iostat -Id", Counter: true, Available: true, PeriodMS: 1000})
	}
	return []Source{d}
}

func runCommand(argv []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
}

func (d *darwin) Name() string             { return "darwin" }
func (d *darwin) Sensors() []record.Sensor { return d.sensors }
func (d *darwin) slow() bool               { return true }
func (d *darwin) every() time.Duration     { return paceSlow }
func (d *darwin) Close() error             { return nil }

func (d *darwin) Sample(_ int64, emit func(string, float64)) error {
	var failed error
	for _, c := range darwinCommands {
		out, err := d.run(c.argv)
		if err != nil {
			failed = fmt.Errorf("%s: %w", c.argv[0], err)
			continue
		}
		c.parse(string(out), func(name, _ string, v float64) {
			for i := range d.sensors {
				if d.sensors[i].Name == name && d.sensors[i].Available {
					emit(name, v)
					return
				}
			}
		})
	}
	return failed
}

// parseSysctl reads:
//
//	vm.swapusage: total = 2048.00M  used = 1024.50M  free = 1023.50M  (encrypted)
//	vm.loadavg: { 1.50 1.45 0.92 }
//	hw.memsize: 68719476736
//	kern.boottime: { sec = 1790000000, usec = 0 } Mon Sep 21 13:33:20 2026
func parseSysctl(text string, give found) {
	for line := range strings.Lines(text) {
		key, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		switch key {
		case "hw.memsize":
			if v, _, ok := quantityOf(rest); ok {
				give("meminfo.total_mib", "MiB", v/(1<<20))
			}
		case "vm.loadavg":
			for i, name := range []string{"loadavg.1m", "loadavg.5m", "loadavg.15m"} {
				if len(f) > i+1 {
					if v, _, ok := quantityOf(f[i+1]); ok {
						give(name, "tasks", v)
					}
				}
			}
		case "vm.swapusage":
			for i := 0; i+2 < len(f); i++ {
				name := map[string]string{"total": "meminfo.swap_total_mib", "used": "meminfo.swap_used_mib"}[f[i]]
				if name == "" || f[i+1] != "=" {
					continue
				}
				if v, unit, ok := quantityOf(f[i+2]); ok {
					give(name, "MiB", v*map[string]float64{"K": 1. / 1024, "M": 1, "G": 1024}[unit])
				}
			}
		}
	}
}

// parseVMStat reads:
//
//	Mach Virtual Memory Statistics: (page size of 16384 bytes)
//	Pages free:                              123456.
//	Pages occupied by compressor:             10000.
//	Swapins:                                      0.
func parseVMStat(text string, give found) {
	page := 0.0
	pages := map[string]float64{}
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, "page size of "); ok {
			page, _, _ = quantityOf(rest)
			continue
		}
		key, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), "."), 64)
		if ok && err == nil && finite(v) {
			pages[strings.Trim(key, `"`)] = v
		}
	}
	mib := func(name string, keys ...string) {
		sum := 0.0
		for _, k := range keys {
			v, ok := pages[k]
			if !ok || page == 0 {
				return
			}
			sum += v
		}
		give(name, "MiB", sum*page/(1<<20))
	}
	mib("meminfo.free_mib", "Pages free")
	mib("meminfo.available_mib", "Pages free", "Pages inactive", "Pages speculative", "Pages purgeable")
	mib("meminfo.compressed_mib", "Pages occupied by compressor")
	mib("meminfo.wired_mib", "Pages wired down")
	for _, c := range [...]struct{ key, name, unit string }{
		{"Swapins", "vmstat.pswpin_pages", "pages"}, {"Swapouts", "vmstat.pswpout_pages", "pages"}, {"Pageins", "vmstat.pgmajfault", "faults"},
	} {
		if v, ok := pages[c.key]; ok {
			give(c.name, c.unit, v)
		}
	}
}

// parsePmset reads both of:
//
//	Now drawing from 'AC Power'
//	 -InternalBattery-0 (id=1234567)	87%; charging; 0:45 remaining present: true
//
//	 lowpowermode         1
func parsePmset(text string, give found) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "Now drawing from "):
			ac := 0.
			if strings.Contains(line, "AC Power") {
				ac = 1
			}
			give("power.ac", "0 or 1", ac)
		case strings.HasPrefix(line, "-InternalBattery"):
			_, rest, _ := strings.Cut(line, "\t")
			if v, unit, ok := quantityOf(rest); ok && strings.HasPrefix(unit, "%") {
				give("power.battery_pct", "%", v)
			}
		default:
			f := strings.Fields(line)
			if len(f) == 2 && (f[0] == "lowpowermode" || f[0] == "powermode") {
				if v, _, ok := quantityOf(f[1]); ok && (v == 0 || v == 1) {
					give("power.low_power_mode", "0 or 1", v)
				}
			}
		}
	}
}

// parseIostat reads totals since boot, reads and writes together, which is all that iostat tells:
//
//	           disk0               disk4
//	 KB/t xfrs   MB      KB/t xfrs   MB
//	24.30 1234 29.30     8.00   10  0.08
func parseIostat(text string, give found) {
	lines := strings.Split(text, "\n")
	if len(lines) < 3 {
		return
	}
	disks, numbers := strings.Fields(lines[0]), strings.Fields(lines[2])
	for i, disk := range disks {
		if 3*i+2 >= len(numbers) || !strings.HasPrefix(disk, "disk") {
			return
		}
		n, _, ok := quantityOf(numbers[3*i+1])
		mb, _, ok2 := quantityOf(numbers[3*i+2])
		if ok && ok2 {
			give("disk."+disk+".transfers", "transfers", n)
			give("disk."+disk+".moved_mib", "MiB", mb)
		}
	}
}
