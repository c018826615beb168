package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/workflows/record"
)

var updatePages = flag.Bool("update-doctor", false, "write the doctor's pages anew")

// fakeMachine unpacks one of the recorded machines.
func fakeMachine(t *testing.T, name string) (o hardware.Options, root string) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("..", "..", "builtins", "hardware", "testdata", "machines", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range a.Files {
		if strings.HasSuffix(f.Name, "/cmdline") {
			a.Files[i].Data = bytes.ReplaceAll(bytes.TrimSpace(f.Data), []byte("|"), []byte{0})
		}
	}
	root = t.TempDir()
	if err := txtar.Write(a, root); err != nil {
		t.Fatal(err)
	}
	var refuse []string
	for line := range strings.Lines(string(a.Comment)) {
		if rest, ok := strings.CutPrefix(line, "refuse: "); ok {
			refuse = strings.Fields(rest)
		}
	}
	o = hardware.Options{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys"), Now: func() int64 { return 0 },
		OpenFile: func(path string) (*os.File, error) {
			for _, r := range refuse {
				if strings.HasSuffix(filepath.ToSlash(path), r) {
					return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
				}
			}
			return os.Open(path)
		}}
	if _, err := os.Stat(filepath.Join(root, "nvml")); err == nil {
		o.NVMLFile = filepath.Join(root, "nvml")
	}
	return o, root
}

// TestDoctorPages: the page of five machines.
func TestDoctorPages(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the reasons are worded for Linux")
	}
	for _, name := range []string{"nvidia-laptop", "amd-desktop", "cpu-server", "hybrid-container", "old-kernel"} {
		t.Run(name, func(t *testing.T) {
			o, root := fakeMachine(t, name)
			m := machine.Identity(t.Context(), o.Proc, o.Sys, machine.GPU{})
			c := examine(t.Context(), o, m, func(context.Context) {})
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			var same checkup // by way of JSON, which must lose nothing, and without the folder of this run
			if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(root), nil), &same); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			same.page(&b)
			got := b.String()
			path := filepath.Join("testdata", "doctor", name+".txt")
			if *updatePages {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the page differs from %s (go test ./cmd/flow -run DoctorPages -update-doctor writes it); got\n%s", path, got)
			}
		})
	}
}

// TestConditions: the limits, each from both sides.
func TestConditions(t *testing.T) {
	quiet := func() scene {
		return scene{cpus: 8, rates: map[string]float64{}, values: map[string]float64{
			"loadavg.1m": .1, "stat.cpu_busy_pct": 1, "meminfo.total_mib": 1000, "meminfo.available_mib": 900, "meminfo.swap_used_mib": 0, "meminfo.swap_total_mib": 10,
			"psi.cpu.some_avg10_pct": 0, "psi.io.full_avg10_pct": 0, "psi.memory.full_avg10_pct": 0, "power.ac": 1, "cpu.core_throttles": 0,
			"nvml.0.util_pct": 0, "nvml.0.mem_used_mib": 10, "nvml.0.mem_total_mib": 1000, "nvml.0.processes": 0,
			"procs.engines.count": 0, "procs.builds.count": 0, "procs.agents.count": 0,
		}, settings: map[string]hardware.Setting{"governor": {Value: "performance"}, "epp": {Value: "performance"}, "thp": {Value: "madvise"}, "boost": {Value: "off"}}}
	}
	for _, c := range quiet().conditions() {
		if c.State == condDisturbs {
			t.Errorf("a quiet machine: %+v", c)
		}
	}
	for _, x := range []struct {
		name, sensor string
		v            float64
		want         string
		settle       float64
	}{
		{"load", "loadavg.1m", 8 * .1 * 2.718281828, condDisturbs, 60}, // one time constant above the limit
		{"load", "loadavg.1m", .79, condOK, 0},
		{"cpu", "stat.cpu_busy_pct", 11, condDisturbs, 0},
		{"cpu", "stat.cpu_steal_pct", 2, condDisturbs, 0},
		{"memory", "meminfo.available_mib", 99, condDisturbs, 0},
		{"swap", "meminfo.swap_used_mib", 1, condDisturbs, 0},
		{"memory pressure", "psi.user.memory.full_avg10_pct", .5 * 7.389056, condDisturbs, 20},
		{"memory pressure", "psi.memory.full_avg10_pct", .4, condOK, 0},
		{"cpu pressure", "psi.cpu.some_avg10_pct", 6, condDisturbs, 2},
		{"power", "power.ac", 0, condDisturbs, 0},
		{"power", "power.low_power_mode", 1, condDisturbs, 0},
		{"gpu nvml.0", "nvml.0.util_pct", 6, condDisturbs, 0},
		{"gpu nvml.0", "nvml.0.mem_used_mib", 51, condDisturbs, 0},
		{"gpu nvml.0", "nvml.0.processes", 1, condNote, 0},
		{"gpu nvml.0", "nvml.0.reason_hw_thermal", 1, condDisturbs, 0},
		{"gpu nvml.0", "nvml.0.reason_sw_power_cap", 1, condOK, 0}, // a fact, not a fault
		{"engines", "procs.engines.count", 1, condDisturbs, 0},
		{"agents", "procs.agents.count", 1, condNote, 0},
		{"throttling", "cpu.core_throttles", 3, condNote, 0},
	} {
		s := quiet()
		s.values[x.sensor] = x.v
		found := false
		for _, c := range s.conditions() {
			if c.Name != x.name {
				continue
			}
			found = true
			if c.State != x.want || (c.State == condDisturbs) != (c.Fix != "") && c.State != condNote {
				t.Errorf("%s = %v: got %+v, want %s", x.sensor, x.v, c, x.want)
			}
			if x.settle > 0 && (c.SettleS == nil || *c.SettleS != x.settle) {
				t.Errorf("%s = %v: settle %v, want %v", x.sensor, x.v, c.SettleS, x.settle)
			}
		}
		if !found {
			t.Errorf("no condition %q", x.name)
		}
	}
	// Nothing measured is unknown, and never fine.
	for _, c := range (scene{cpus: 1, settings: map[string]hardware.Setting{}}).conditions() {
		if c.State == condOK {
			t.Errorf("without any value: %+v", c)
		}
	}
}

// The list of sensors has no box and stays inside 80 columns, however long a reason is.
func TestSensorTableFits(t *testing.T) {
	var b bytes.Buffer
	sensorTable(&b, []record.Sensor{
		{Name: "meminfo.swap_used_mib", Unit: "MiB", Source: "/proc/meminfo", Available: true},
		{Name: "rapl.package_0_with_a_long_name.energy_j", Unit: "J", Source: "/sys/class/powercap/intel-rapl:0/energy_uj", Why: strings.Repeat("no permission ", 12), Fix: "sudo chmod a+r /sys/class/powercap/intel-rapl:0/energy_uj"},
	})
	for _, l := range strings.Split(b.String(), "\n") {
		if cellWidth(l) > 80 || strings.ContainsAny(l, "│┌") {
			t.Errorf("%d columns: %q", cellWidth(l), l)
		}
	}
	for _, want := range []string{"yes", "no", "why not: no permission", "sudo chmod a+r"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}
