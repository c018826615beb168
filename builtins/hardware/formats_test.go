package hardware

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"flow/workflows/plan"
)

// formatCases are what each program prints, and what flow reads in it.
var formatCases = []struct {
	format, text, want string
}{
	{"csv", "time,power_w,volts [V],note\n1,231.5,229.8,ok\n2,230,229.9,\n", "power_w=231.5 W; volts_v=229.8 V; power_w=230 W; volts_v=229.9 V"},
	{"csv", "231.5\n230\n", "column1=231.5 1; column1=230 1"},
	{"csv", "\"Power, total [mW]\"\r\n1500\r\n\"Power, total [mW]\"\n", "power_total_w=1.5 W"},
	{"jsonl", `{"time": 17, "power_w": 231.5, "outlet": {"On": true, "deep-er": {"x": 1}}, "name": "a", "none": null}` + "\nnot json\n", "outlet.on=1 0 or 1; outlet.deep_er.x=1 1; power_w=231.5 W"},
	{"key=value", "power_w=231.5 volts=229.8V, on=1; t=17 name=x energy=12mJ\nhello\n", "power_w=231.5 W; volts_v=229.8 V; on=1 1; energy_j=0.012 J"},
	{"nvidia-smi", "timestamp, index, power.draw [W], clocks.current.sm [MHz], temperature.gpu, memory.used [MiB], utilization.gpu [%], fan.speed [%]\n" +
		"2026/10/01 10:00:00.123, 0, 58.12 W, 1605 MHz, 45, 23747 MiB, 97 %, [N/A]\n2026/10/01 10:00:00.125, 1, [Not Supported], 210 MHz, 38, 15 MiB, 0 %, 30 %\n",
		"0.power_w=58.12 W; 0.sm_clock_mhz=1605 MHz; 0.temp_c=45 °C; 0.mem_used_mib=23747 MiB; 0.util_pct=97 %; 1.sm_clock_mhz=210 MHz; 1.temp_c=38 °C; 1.mem_used_mib=15 MiB; 1.util_pct=0 %; 1.fan_speed_pct=30 %"},
	{"nvidia-smi", "power.draw, clocks.sm, enforced.power.limit\n58.12, 1605, 150.00\n", "power_w=58.12 W; sm_clock_mhz=1605 MHz; power_limit_w=150 W"},
	{"rocm-smi", `WARNING: AMD GPU device(s) is/are in a low-power state. {"card0": {"Average Graphics Package Power (W)": "35.0", "Max Graphics Package Power (W)": "303.0", "Temperature (Sensor edge) (C)": "44.0", "Temperature (Sensor junction) (C)": "49.0", "GPU use (%)": "7", "sclk clock speed:": "(500Mhz)", "sclk clock level:": "1", "VRAM Total Used Memory (B)": "1073741824"}, "card1": {"Current Socket Graphics Package Power (W)": "140.0", "GPU use (%)": "N/A"}, "system": {"Driver version": "6.7.0"}}`,
		"0.power_w=35 W; 0.util_pct=7 %; 0.power_limit_w=303 W; 0.temp_c=44 °C; 0.temp_junction_c=49 °C; 0.mem_used_mib=1024 MiB; 0.sclk_mhz=500 MHz; 1.power_w=140 W"},
	{"ipmitool", "PSU1 Power       | 220.000    | Watts      | ok    | na        | na\nFan1             | 5400.000   | RPM        | ok    | na\nPS Redundancy    | 0x0        | discrete   | 0x0180| na\nCPU1 Temp        | na         | degrees C  | na    | na\n12V              | 12.120     | Volts      | ok\n",
		"psu1_power_w=220 W; fan1_rpm=5400 rpm; 12v_v=12.12 V"},
	{"ipmitool", "CPU1 Temp        | 45 degrees C      | ok\nPower Meter      | 412 Watts         | ok\nStatus           | 0x01              | ok\n", "cpu1_temp_c=45 °C; power_meter_w=412 W"},
	{"ipmitool", "\n    Instantaneous power reading:                   220 Watts\n    Minimum during sampling period:                  3 Watts\n    IPMI timestamp:                           10/01/26\n", "power_w=220 W"},
	{"powermetrics", powermetricsSample, "elapsed_ms=1005.04 ms; e_cluster_mhz=1020 MHz; e_cluster_active_pct=12.34 %; cpu_0_mhz=1031 MHz; cpu_0_active_pct=9.5 %; p_cluster_mhz=3228 MHz; cpu_power_w=1.234 W; gpu_power_w=0.055 W; ane_power_w=0 W; package_power_w=1.289 W; gpu_mhz=444 MHz; gpu_active_pct=2.5 %; gpu_idle_pct=97.5 %; thermal_pressure=0 level; thermal_pressure=2 level"},
	{"powermetrics-plist", plistSample, "elapsed_ms=1005.04 ms; thermal_pressure=1 level; cpu_power_w=1.234 W; gpu_power_w=0.055 W; ane_power_w=0 W; package_power_w=1.289 W; e_cluster_mhz=1020 MHz; e_cluster_active_pct=25 %; p0_cluster_mhz=3228 MHz; gpu_mhz=444 MHz; gpu_active_pct=2.5 %; elapsed_ms=1 ms"},
}

const powermetricsSample = `Machine model: Mac15,9
OS version: 23B81

*** Sampled system activity (Thu Oct  1 10:00:00 2026 +0200) (1005.04ms elapsed) ***


**** Processor usage ****

E-Cluster Online: 100%
E-Cluster HW active frequency: 1020 MHz
E-Cluster HW active residency:  12.34% (600 MHz:   0% 972 MHz:  88%)
CPU 0 frequency: 1031 MHz
CPU 0 active residency:   9.50% (600 MHz:   0% 972 MHz: 8.5%)
P-Cluster HW active frequency: 3228 MHz

CPU Power: 1234 mW
GPU Power: 55 mW
ANE Power: 0 mW
Combined Power (CPU + GPU + ANE): 1289 mW

**** GPU usage ****

GPU HW active frequency: 444 MHz
GPU HW active residency:   2.50% (444 MHz: 2.5%)
GPU SW requested state: (P1 :   0% P2 : 100%)
GPU idle residency:  97.50%

**** Thermal pressure ****

Current pressure level: Nominal
Current pressure level: Heavy
`

const plistSample = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
<key>is_delta</key><true/>
<key>elapsed_ns</key><integer>1005040000</integer>
<key>hw_model</key><string>Mac15,9</string>
<key>timestamp</key><date>2026-10-01T08:00:00Z</date>
<key>thermal_pressure</key><string>Moderate</string>
<key>processor</key><dict>
	<key>clusters</key><array>
		<dict><key>name</key><string>E-Cluster</string><key>freq_hz</key><real>1020000000</real><key>idle_ratio</key><real>0.75</real>
			<key>cpus</key><array><dict><key>cpu</key><integer>0</integer></dict></array></dict>
		<dict><key>name</key><string>P0-Cluster</string><key>freq_hz</key><real>3.228e+09</real></dict>
	</array>
	<key>cpu_power</key><real>1234</real>
	<key>gpu_power</key><real>55</real>
	<key>ane_power</key><real>0</real>
	<key>combined_power</key><real>1289</real>
</dict>
<key>gpu</key><dict><key>freq_hz</key><real>444</real><key>idle_ratio</key><real>0.975</real></dict>
</dict>
</plist>
` + "\x00" + `<?xml version="1.0"?>
<plist version="1.0"><dict><key>elapsed_ns</key><integer>1000000</integer></dict></plist>
`

// readFormat is what a format finds in a text.
func readFormat(name, text string) []string {
	f := newFormat(name)
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimRight(line, "\r"); line == "" {
			continue
		}
		f.line([]byte(line), func(name, unit string, v float64) {
			if unit == "" {
				unit = unitOf(name)
			}
			out = append(out, fmt.Sprintf("%s=%v %s", name, v, unit))
		})
	}
	return out
}

func TestFormats(t *testing.T) {
	for _, c := range formatCases {
		if got := strings.Join(readFormat(c.format, c.text), "; "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.format, got, c.want)
		}
	}
	for _, name := range plan.CollectorFormats() {
		if newFormat(name) == nil {
			t.Errorf("format %s has no reader", name)
		}
		if !slices.ContainsFunc(formatCases, func(c struct{ format, text, want string }) bool { return c.format == name }) {
			t.Errorf("format %s has no case", name)
		}
	}
	if newFormat("xml") != nil {
		t.Error("xml is no format")
	}
}

func FuzzFormats(f *testing.F) {
	for _, c := range formatCases {
		f.Add(c.format, c.text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		x := newFormat(name)
		if x == nil {
			return
		}
		for range 2 {
			for line := range strings.SplitSeq(text, "\n") {
				x.line([]byte(line), func(name, unit string, v float64) {
					if !finite(v) || name == "" || strings.ContainsAny(name, " \t\n=") {
						t.Errorf("%s: got %q = %v %s", text, name, v, unit)
					}
				})
			}
			x.reset()
		}
	})
}

// FuzzKeyValue: what was found can be written and found again.
func FuzzKeyValue(f *testing.F) {
	f.Add("power_w=231.5 volts=229.8V, on=1; t=17 name=x energy=12mJ e=1.5e-05")
	f.Fuzz(func(t *testing.T, line string) {
		read := func(s string) (out []string) {
			keyFormat{}.line([]byte(s), func(name, _ string, v float64) { out = append(out, fmt.Sprintf("%s=%v", name, v)) })
			return out
		}
		once := read(line)
		if again := read(strings.Join(once, " ")); !slices.Equal(once, again) {
			t.Errorf("%q: got %q, then %q", line, once, again)
		}
	})
}

var darwinAnswers = map[string]string{
	"sysctl vm.swapusage vm.loadavg hw.memsize kern.boottime": "vm.swapusage: total = 2048.00M  used = 1024.50M  free = 1023.50M  (encrypted)\nvm.loadavg: { 1.50 1.45 0.92 }\nhw.memsize: 68719476736\nkern.boottime: { sec = 1790000000, usec = 0 } Mon Sep 21 13:33:20 2026\n",
	"vm_stat":       "Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free:                              65536.\nPages active:                           300000.\nPages inactive:                          32768.\nPages speculative:                       32768.\nPages wired down:                        65536.\nPages purgeable:                             0.\n\"Translation faults\":                123456789.\nPages occupied by compressor:            64000.\nPageins:                                  4321.\nPageouts:                                   12.\nSwapins:                                    10.\nSwapouts:                                   20.\n",
	"pmset -g batt": "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1234567)\t87%; discharging; 3:45 remaining present: true\n",
	"pmset -g":      "System-wide power settings:\nCurrently in use:\n standby              1\n lowpowermode         1\n sleep                1 (sleep prevented by caffeinate)\n",
	"iostat -Id":    "              disk0               disk4 \n    KB/t xfrs   MB      KB/t xfrs   MB \n   24.30 1234 29.30     8.00   10  0.08 \n",
}

// TestDarwin: the commands of macOS behind the names of Linux, on any system.
func TestDarwin(t *testing.T) {
	asked := 0
	o := Options{OS: "darwin", Proc: "testdata/nowhere", Sys: "testdata/nowhere", Command: func(argv []string) ([]byte, error) {
		asked++
		a, ok := darwinAnswers[strings.Join(argv, " ")]
		if !ok {
			return nil, fmt.Errorf("no such command %q", argv)
		}
		return []byte(a), nil
	}}
	srcs := Open(o)
	defer closeAll(t, srcs)
	got := sampleAll(t, srcs, 0)
	wantValues(t, "macOS", got, map[string]float64{
		"meminfo.total_mib": 65536, "meminfo.free_mib": 1024, "meminfo.available_mib": 2048, "meminfo.compressed_mib": 1000, "meminfo.wired_mib": 1024,
		"meminfo.swap_total_mib": 2048, "meminfo.swap_used_mib": 1024.5, "vmstat.pswpin_pages": 10, "vmstat.pswpout_pages": 20, "vmstat.pgmajfault": 4321,
		"loadavg.1m": 1.5, "loadavg.5m": 1.45, "loadavg.15m": .92, "power.ac": 0, "power.battery_pct": 87, "power.low_power_mode": 1,
		"disk.disk0.transfers": 1234, "disk.disk0.moved_mib": 29.3, "disk.disk4.transfers": 10, "disk.disk4.moved_mib": .08,
	})
	seen := map[string]bool{}
	for _, s := range Sensors(srcs) {
		if seen[s.Name] {
			t.Errorf("%s is listed twice", s.Name)
		}
		seen[s.Name] = true
		if _, measured := got[s.Name]; s.Available != measured {
			t.Errorf("%s: available %v, measured %v", s.Name, s.Available, measured)
		}
		if !s.Available && s.Why == "" {
			t.Errorf("%s is missing without a reason", s.Name)
		}
	}
	for _, name := range []string{"psi.memory.full_avg10_pct", "rapl.package-0.energy_j", "cpufreq.mean_mhz", "engine.rss_mib"} {
		if !seen[name] {
			t.Errorf("%s is not listed, so nobody learns that macOS has none", name)
		}
	}
	// A desktop has no battery, and a program that is not there is a reason.
	o.Command = func(argv []string) ([]byte, error) {
		switch argv[0] {
		case "pmset":
			return []byte("Now drawing from 'AC Power'\n"), nil
		case "sysctl":
			return nil, fmt.Errorf("executable file not found")
		}
		return []byte(darwinAnswers[strings.Join(argv, " ")]), nil
	}
	d := openDarwin(o.withDefaults())[0]
	if x := sensorOf(t, d, "power.battery_pct"); x.Available || !strings.Contains(x.Why, "does not print it") {
		t.Errorf("got %+v", x)
	}
	if x := sensorOf(t, d, "loadavg.1m"); x.Available || !strings.Contains(x.Why, "not found") {
		t.Errorf("got %+v", x)
	}
	if x := sensorOf(t, d, "power.ac"); !x.Available {
		t.Errorf("got %+v", x)
	}
}

func FuzzDarwin(f *testing.F) {
	for _, a := range darwinAnswers {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range darwinCommands {
			c.parse(text, func(name, unit string, v float64) {
				if !finite(v) || name == "" || unit == "" {
					t.Errorf("%q: got %q = %v %q", text, name, v, unit)
				}
			})
		}
	})
}

// FuzzKernelTexts: the other texts of the kernel that are read by hand.
func FuzzKernelTexts(f *testing.F) {
	for _, m := range machines {
		for _, x := range archive(f, m).Files {
			switch {
			case strings.HasSuffix(x.Name, "mountinfo"), strings.HasSuffix(x.Name, "net/dev"), strings.HasSuffix(x.Name, "cgroup"), strings.HasSuffix(x.Name, "cpu.stat"), x.Name == "nvml", strings.HasSuffix(x.Name, "/stat"):
				f.Add(x.Data)
			}
		}
	}
	f.Add([]byte("low 0\nhigh 3\nmax 12\noom 1\noom_kill 2\n"))
	f.Add([]byte("voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"))
	f.Add([]byte("-12345\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		emit := func(name string, v float64) {
			if !finite(v) || v < 0 {
				t.Errorf("%s = %v", name, v)
			}
		}
		for _, m := range cgroupMounts(string(b)) {
			if m.point == "" {
				t.Errorf("%q: a mount without a place", b)
			}
			belowRoot(string(b), m.root)
		}
		eachLink(b, func(name []byte, rx, tx uint64) {
			if len(name) == 0 {
				t.Errorf("%q: a link without a name", b)
			}
			line := fmt.Sprintf("%s: %d 1 2 3 4 5 6 7 %d 9", name, rx, tx)
			if n, r, x, ok := parseLink([]byte(line)); !ok || string(n) != string(name) || r != rx || x != tx {
				t.Errorf("%q: %q %d %d became %q %d %d %v", b, name, rx, tx, n, r, x, ok)
			}
		})
		parseMemoryEvents(b, emit)
		parseCPUStat(b, emit)
		if c, ok := parseSwitches(b); ok {
			text := fmt.Sprintf("voluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n", c.voluntary, c.involuntary)
			if c2, ok := parseSwitches([]byte(text)); !ok || c2 != c {
				t.Errorf("%+v became %+v", c, c2)
			}
		}
		if mib, busy, ok := parseBlockStat(b); ok {
			emit("read", mib)
			emit("busy", busy)
		}
		if v, ok := intOf(b); ok {
			if w, ok := intOf([]byte(fmt.Sprint(v))); !ok || w != v {
				t.Errorf("%q: %d became %d", b, v, w)
			}
		}
		identity(string(b))
		candidates("x", b)
		mountSource(string(b), "0:44")
		if _, gpus, err := parseGPUs(string(b)); err == nil {
			for _, g := range gpus {
				if v, err := g.Read(gpuPower); err == nil && !finite(v) {
					t.Errorf("power %v", v)
				}
			}
		}
		if s := slug(string(b)); strings.ContainsAny(s, " .=\n") {
			t.Errorf("slug of %q is %q", b, s)
		}
	})
}
