package hardware

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"flow/starlark/diag"
	"flow/workflows/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

// tree is a machine under testdata/machines, unpacked. Files that its comment names may not be opened:
// modes do not bind the user that containers run tests as.
func tree(t testing.TB, name string) Options {
	t.Helper()
	a := archive(t, name)
	root := t.TempDir()
	for i, f := range a.Files {
		if strings.HasSuffix(f.Name, "/cmdline") { // arguments end in a zero byte, which no text file should hold
			a.Files[i].Data = bytes.ReplaceAll(bytes.TrimSpace(f.Data), []byte("|"), []byte{0})
		}
	}
	if err := txtar.Write(a, root); err != nil {
		t.Fatal(err)
	}
	o := Options{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys"), Now: func() int64 { return 0 }}
	if _, err := os.Stat(filepath.Join(root, "nvml")); err == nil {
		o.NVMLFile = filepath.Join(root, "nvml")
	}
	var refuse []string
	for line := range strings.Lines(string(a.Comment)) {
		if rest, ok := strings.CutPrefix(line, "refuse: "); ok {
			refuse = strings.Fields(rest)
		}
	}
	o.OpenFile = func(path string) (*os.File, error) {
		for _, r := range refuse {
			if strings.HasSuffix(filepath.ToSlash(path), r) {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
			}
		}
		return os.Open(path)
	}
	return o
}

func archive(t testing.TB, name string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "machines", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var machines = []string{"nvidia-laptop", "amd-desktop", "cpu-server", "hybrid-container", "old-kernel"}

// sampleAll reads every source once.
func sampleAll(t *testing.T, srcs []Source, now int64) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	for _, s := range srcs {
		if err := s.Sample(now, func(name string, v float64) {
			if _, ok := got[name]; ok {
				t.Errorf("%s emitted %s twice", s.Name(), name)
			}
			got[name] = v
		}); err != nil {
			t.Errorf("%s: %v", s.Name(), err)
		}
	}
	return got
}

// TestMachines is what flow sees of three machines: what each sensor says, or why it says nothing.
func TestMachines(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the reasons are worded for Linux")
	}
	for _, name := range machines {
		t.Run(name, func(t *testing.T) {
			o := tree(t, name)
			srcs := Open(o)
			defer closeAll(t, srcs)
			got := sampleAll(t, srcs, 0)
			var b bytes.Buffer
			for _, s := range Sensors(srcs) {
				kind := "value"
				if s.Counter {
					kind = "counter"
				}
				fmt.Fprintf(&b, "%s [%s, %s] ", s.Name, s.Unit, kind)
				v, measured := got[s.Name]
				switch {
				case measured && s.Available:
					fmt.Fprintf(&b, "= %v\n", v)
				case measured:
					t.Errorf("%s is not available and has the value %v", s.Name, v)
				case s.Available:
					fmt.Fprintf(&b, "has no value yet\n")
				default:
					fmt.Fprintf(&b, "not available: %s; fix: %s\n", s.Why, s.Fix)
				}
				delete(got, s.Name)
			}
			for n := range got {
				t.Errorf("%s is emitted and not listed", n)
			}
			text := bytes.ReplaceAll(b.Bytes(), []byte(filepath.Dir(o.Proc)), nil)
			golden(t, filepath.Join("testdata", "machines", name+".sensors"), text)
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", path, firstDifference(string(got), string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d:\n got %s\nwant %s", i+1, a, b)
		}
	}
	return ""
}

// TestEverySensorIsComplete: a name that is unique, a unit, a source; and a reason where there is no value.
func TestEverySensorIsComplete(t *testing.T) {
	for _, o := range []Options{{}, {NVML: true}, tree(t, "cpu-server"), tree(t, "old-kernel"), {Proc: "testdata/nowhere", Sys: "testdata/nowhere"}} {
		srcs := Open(o)
		seen := map[string]bool{}
		for _, s := range Sensors(srcs) {
			if seen[s.Name] {
				t.Errorf("sensor %s is listed twice", s.Name)
			}
			seen[s.Name] = true
			if s.Unit == "" || s.Source == "" {
				t.Errorf("sensor %s: unit %q, source %q", s.Name, s.Unit, s.Source)
			}
			if s.Available == (s.Why != "") {
				t.Errorf("sensor %s: available %v, why %q", s.Name, s.Available, s.Why)
			}
		}
		if len(seen) < 40 {
			t.Errorf("%d sensors, want all families also where nothing is available", len(seen))
		}
		closeAll(t, srcs)
	}
}

// TestNothingThere: on a machine without /proc every sensor says so, and nothing is emitted.
func TestNothingThere(t *testing.T) {
	srcs := Open(Options{Proc: "testdata/nowhere", Sys: "testdata/nowhere"})
	defer closeAll(t, srcs)
	for _, s := range Sensors(srcs) {
		if s.Available {
			t.Errorf("%s is available", s.Name)
		}
	}
	if got := sampleAll(t, srcs, 0); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		sensor   string
		want     bool
	}{
		{[]string{"loadavg.1m"}, "loadavg.1m", true},
		{[]string{"loadavg.1"}, "loadavg.1m", false},
		{[]string{"psi.*"}, "psi.io.some_avg10_pct", true},
		{[]string{"psi.*"}, "psi", false},
		{[]string{"*"}, "anything", true},
		{[]string{"a.b", "vmstat.*"}, "vmstat.pswpin_pages", true},
		{[]string{"*.power_w"}, "nvml.0.power_w", false}, // only a trailing star is one
		{nil, "loadavg.1m", false},
	} {
		if got := Match(c.patterns, c.sensor); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.patterns, c.sensor, got, c.want)
		}
	}
}

func TestReadOnce(t *testing.T) {
	srcs := Open(tree(t, "cpu-server"))
	defer closeAll(t, srcs)
	clock := int64(7)
	got, err := ReadOnce(srcs, func() int64 { clock++; return clock }, []string{"vmstat.pswp*", "loadavg.1m"})
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Sample{{Sensor: "vmstat.pswpin_pages", MonoNS: 8, Value: 15321}, {Sensor: "vmstat.pswpout_pages", MonoNS: 8, Value: 65536}, {Sensor: "loadavg.1m", MonoNS: 9, Value: 3.52}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, c := range []struct{ ask, want, fix string }{
		{"loadavg.2m", `sensor "loadavg.2m": no such sensor on this machine`, "loadavg.1m"},
		{"nvml.7.power_w", `sensor "nvml.7.power_w": not available: NVML was not asked for`, ""},
		{"stat.cpu_busy_pct", `sensor "stat.cpu_busy_pct": no value`, "flow doctor"}, // the fake tree stands still
	} {
		_, err := ReadOnce(srcs, nil, []string{c.ask})
		var d *diag.Error
		if !errors.As(err, &d) || d.Kind != diag.Machine || !strings.Contains(err.Error(), c.want) || !strings.Contains(d.Fix, c.fix) {
			t.Errorf("%s: got %v (fix %q), want %q (fix with %q)", c.ask, err, d.Fix, c.want, c.fix)
		}
	}
}

// TestReadOnceOfADifference: the second reading comes 100 ms after the first.
func TestReadOnceOfADifference(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("no /proc/stat")
	}
	srcs := Open(Options{})
	defer closeAll(t, srcs)
	got, err := ReadOnce(srcs, nil, []string{"stat.cpu_busy_pct"})
	if err != nil || len(got) != 1 || got[0].Value < 0 || got[0].Value > 100 {
		t.Errorf("got %v, %v, want one share of 0 to 100 %%", got, err)
	}
}

// TestPipesAreNotWaitedFor: below an injected root, and in the place of what a collector attaches, a pipe
// that nobody writes to is refused.
func TestPipesAreNotWaitedFor(t *testing.T) {
	root := t.TempDir()
	pipe := func(path ...string) {
		p := filepath.Join(append([]string{root}, path...)...)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(p, 0o600); err != nil {
			t.Skip(err)
		}
	}
	for _, f := range []string{"meminfo", "vmstat", "stat", "loadavg", "diskstats", "pressure/memory", "self/status", "12/stat", "net/dev", "uptime"} {
		pipe("proc", f)
	}
	for _, f := range []string{"class/hwmon", "class/powercap/intel-rapl:0/energy_uj", "devices/system/cpu/cpufreq/policy0/scaling_governor", "block"} {
		pipe("sys", f)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		o := Options{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys"), OS: "linux"}
		srcs := Open(o)
		defer closeAll(t, srcs)
		Settings(o)
		Processes(o)
		for _, s := range srcs {
			_ = s.Sample(1, func(string, float64) {})
		}
		i := slices.IndexFunc(Sensors(srcs), func(s record.Sensor) bool { return s.Name == "meminfo.available_mib" })
		if s := Sensors(srcs)[i]; s.Available || !strings.Contains(s.Why, "not a regular file") {
			t.Errorf("got %+v, want the reason", s)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("still waiting for a pipe")
	}
}
