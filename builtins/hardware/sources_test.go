package hardware

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"flow/workflows/record"
)

// oneSample reads a source once.
func oneSample(t *testing.T, s Source, now int64) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	if err := s.Sample(now, func(n string, v float64) { got[n] = v }); err != nil {
		t.Errorf("%s: %v", s.Name(), err)
	}
	return got
}

func wantValues(t *testing.T, what string, got, want map[string]float64) {
	t.Helper()
	for n, w := range want {
		if g, ok := got[n]; !ok || g != w {
			t.Errorf("%s: %s is %v (measured %v), want %v", what, n, g, ok, w)
		}
	}
}

func sensorOf(t *testing.T, s Source, name string) record.Sensor {
	t.Helper()
	for _, x := range s.Sensors() {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("%s has no sensor %s", s.Name(), name)
	return record.Sensor{}
}

// TestRAPLWrap: a counter that wraps goes on, also over a wrap in every sample; one whose range is not
// known and that goes back gives nothing more, because any figure would be a guess.
func TestRAPLWrap(t *testing.T) {
	sys := t.TempDir()
	zone := filepath.Join(sys, "class/powercap/intel-rapl:0")
	set := func(uj string) { write(t, filepath.Join(zone, "energy_uj"), uj+"\n") }
	write(t, filepath.Join(zone, "name"), "package-0\n")
	write(t, filepath.Join(zone, "max_energy_range_uj"), "10000000\n")
	set("9000000")
	r := openRAPL(Options{Sys: sys}.withDefaults())
	defer r.Close()
	for _, c := range []struct {
		uj   string
		want float64
	}{{"9000000", 0}, {"9500000", .5}, {"500000", 1.5}, {"500000", 1.5}, {"400000", 11.4}, {"10000000", 21}, {"0", 21}} {
		set(c.uj)
		wantValues(t, c.uj, oneSample(t, r, 0), map[string]float64{"rapl.package-0.energy_j": c.want})
	}
	r.(resetter).reset()
	wantValues(t, "a new arm", oneSample(t, r, 0), map[string]float64{"rapl.package-0.energy_j": 21})
	r.Close()

	write(t, filepath.Join(zone, "max_energy_range_uj"), "\n")
	r = openRAPL(Options{Sys: sys}.withDefaults())
	oneSample(t, r, 0)
	set("2000000")
	wantValues(t, "no range", oneSample(t, r, 0), map[string]float64{"rapl.package-0.energy_j": 2})
	for range 2 {
		set("1000000")
		if err := r.Sample(0, func(n string, v float64) { t.Errorf("%s = %v after an unexplained step back", n, v) }); err == nil {
			t.Error("a step back without a range is no error")
		}
		set("3000000")
	}
	r.(resetter).reset()
	wantValues(t, "a new arm after the break", oneSample(t, r, 0), map[string]float64{"rapl.package-0.energy_j": 0})
}

// TestRAPLDomains: packages by default, another one by name, never two that contain each other.
func TestRAPLDomains(t *testing.T) {
	names := func(wanted, machine string) string {
		o := tree(t, machine)
		o.RAPL = wanted
		o.OpenFile = os.Open
		var out []string
		for _, s := range openRAPL(o.withDefaults()).Sensors() {
			x := s.Name
			if !s.Available {
				x += ": " + s.Why
			}
			out = append(out, x)
		}
		return strings.Join(out, ", ")
	}
	for _, c := range []struct{ wanted, machine, want string }{
		{"", "nvidia-laptop", "rapl.package-0.energy_j"}, // not psys, which holds it, nor its twin by mmio
		{"psys", "nvidia-laptop", "rapl.psys.energy_j"},
		{"", "cpu-server", "rapl.package-0.energy_j, rapl.package-1.energy_j"},
		{"core", "cpu-server", "rapl.core.energy_j"},
		{"dram", "cpu-server", `rapl.package-0.energy_j: no powercap domain "dram"; there is package-0, core, package-1`},
	} {
		if got := names(c.wanted, c.machine); got != c.want {
			t.Errorf("%q on %s: got %s, want %s", c.wanted, c.machine, got, c.want)
		}
	}
}

// TestCPUPolicyMoves: what was opened is read anew each time, and mixed policies are a share.
func TestCPUPolicyMoves(t *testing.T) {
	o := tree(t, "nvidia-laptop")
	c := openCPUPolicy(o.withDefaults())
	defer c.Close()
	cpu := filepath.Join(o.Sys, "devices/system/cpu")
	write(t, filepath.Join(cpu, "cpufreq/policy1/scaling_governor"), "performance\n")
	write(t, filepath.Join(cpu, "cpufreq/policy2/scaling_max_freq"), "3000000\n")
	write(t, filepath.Join(cpu, "intel_pstate/no_turbo"), "1\n")
	write(t, filepath.Join(cpu, "cpu0/thermal_throttle/core_throttle_count"), "13\n")
	wantValues(t, "changed", oneSample(t, c, 0), map[string]float64{"cpufreq.governor_performance": .25, "cpufreq.epp_performance": 0,
		"cpufreq.cap_mhz": 3000, "cpufreq.boost": 0, "cpu.core_throttles": 16, "cpu.package_throttles": 40})
}

// TestCgroup: the engine's cgroup on a host with v2, and on one with both hierarchies.
func TestCgroup(t *testing.T) {
	o := tree(t, "amd-desktop")
	write(t, filepath.Join(o.Proc, "500/cgroup"), "0::/user.slice/flow-engine.scope\n")
	write(t, filepath.Join(o.Proc, "501/cgroup"), "0::/user.slice/user-1000.slice/session-2.scope\n") // flow's own
	dir := filepath.Join(o.Sys, "fs/cgroup/user.slice/flow-engine.scope")
	write(t, filepath.Join(dir, "memory.current"), "1073741824\n")
	write(t, filepath.Join(dir, "memory.events"), "low 0\nhigh 3\nmax 12\noom 1\noom_kill 2\noom_group_kill 0\n")
	write(t, filepath.Join(dir, "cpu.stat"), "usage_usec 2500000\nuser_usec 1\nnr_periods 9\nnr_throttled 4\nthrottled_usec 1500000\n")
	write(t, filepath.Join(dir, "memory.pressure"), "some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.25 avg60=0.00 avg300=0.00 total=1\n")
	base := openCgroup(o.withDefaults()).(*cgroup)
	var pids []int
	c := base.bind(func() []int { return pids })
	if got := oneSample(t, c, 0); len(got) > 0 {
		t.Errorf("without a process: got %v", got)
	}
	pids = []int{501, 500}
	if got := oneSample(t, c, 1); len(got) > 0 {
		t.Errorf("asked again too soon: got %v", got)
	}
	got := oneSample(t, c, int64(time.Second))
	wantValues(t, "v2", got, map[string]float64{"engine.cgroup.memory_mib": 1024, "engine.cgroup.memory_high": 3, "engine.cgroup.memory_max": 12,
		"engine.cgroup.oom": 1, "engine.cgroup.oom_kill": 2, "engine.cgroup.cpu_s": 2.5, "engine.cgroup.throttled": 4, "engine.cgroup.throttled_s": 1.5,
		"engine.psi.memory.some_avg10_pct": 1.5, "engine.psi.memory.full_avg10_pct": 1.25})
	if v, ok := got["engine.cgroup.memory_peak_mib"]; ok {
		t.Errorf("a kernel without memory.peak has no peak, got %v", v)
	}
	c.Close()
	own := base.bind(func() []int { return []int{501} })
	defer own.Close()
	if got := oneSample(t, own, 0); len(got) > 0 {
		t.Errorf("an engine in flow's own cgroup has none of its own, got %v", got)
	}

	h := openCgroup(tree(t, "hybrid-container").withDefaults()).(*cgroup).bind(func() []int { return []int{77} })
	defer h.Close()
	wantValues(t, "hybrid", oneSample(t, h, 0), map[string]float64{"engine.cgroup.memory_mib": 1024, "engine.cgroup.memory_peak_mib": 2048,
		"engine.cgroup.oom_kill": 1, "engine.psi.memory.full_avg10_pct": .4})
	if x := sensorOf(t, h, "engine.cgroup.oom"); x.Available || !strings.Contains(x.Why, "hybrid") {
		t.Errorf("got %+v", x)
	}
}

// TestProcs: found by any of their names, the engine's own left out, an exec and a taken pid seen.
func TestProcs(t *testing.T) {
	o := tree(t, "cpu-server")
	base := openProcs(o.withDefaults()).(*procs)
	var own []int
	p := base.bind(func() []int { return own })
	count := func(what string, engines, builds float64) {
		t.Helper()
		wantValues(t, what, oneSample(t, p, 0), map[string]float64{"procs.engines.count": engines, "procs.builds.count": builds, "procs.agents.count": 0})
	}
	count("at first", 2, 1)
	own = []int{4100}
	count("one is the engine's", 1, 1)
	f := fakeProcs{t, o.Proc}
	f.set(6000, 1, "S", 0, 0, 1)
	count("a shell", 1, 1)
	write(t, filepath.Join(o.Proc, "6000/stat"), "6000 (ninja) S 1 1 1 0 -1 0 9 0 2 1 0 0 0 0 20 0 3 0 77 1024 256\n")
	count("became a build", 1, 2)
	if err := os.RemoveAll(filepath.Join(o.Proc, "5100")); err != nil {
		t.Fatal(err)
	}
	count("one ended", 1, 1)

	ps := Processes(o)
	var text []string
	for _, x := range ps {
		text = append(text, fmt.Sprintf("%d %s %s", x.PID, x.Pattern, x.Name))
	}
	if got, want := strings.Join(text, "; "), "4100 engines llama-server; 5101 engines python3 -m vllm.entrypoints.openai.api_server; 6000 builds process 6000"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	o.Processes = []Pattern{{"ssh", regexp.MustCompile(`^sshd`)}}
	wantValues(t, "own pattern", oneSample(t, openProcs(o.withDefaults()), 0), map[string]float64{"procs.ssh.count": 1})
}

// TestDefaultPatterns: what they find, and what only looks like it.
func TestDefaultPatterns(t *testing.T) {
	for _, c := range []struct{ comm, args, want string }{
		{"python3", "/venv/bin/python3 /venv/bin/vllm serve x", "engines"},
		{"VLLM::EngineCor", "python3 -m vllm.v1", "engines"},
		{"ollama", "ollama serve", "engines"},
		{"ds4", "./ds4 -m x", "engines"},
		{"strata", "strata generate", "engines"},
		{"clang-17", "clang-17 -c x.c", "builds"},
		{"claude", "claude", "agents"},
		{"node", "node /usr/lib/node_modules/.bin/codex", "agents"},
		{"bash", "bash -c make", ""}, // the make it starts counts, the shell does not
		{"vim", "vim vllm.py", ""},
		{"llama-server", "llama-server -m /models/make", "engines"},
		{"python3", "python3 -u -X dev -m sglang.launch_server", ""}, // behind the value of a flag it cannot be told
		{"systemd", "/sbin/init", ""},
	} {
		got := ""
		for _, p := range DefaultPatterns() {
			for _, w := range candidates(c.comm, []byte(strings.ReplaceAll(c.args, " ", "\x00"))) {
				if p.Match.MatchString(w) {
					got = p.Name
				}
			}
		}
		if got != c.want {
			t.Errorf("%s (%s): got %q, want %q", c.comm, c.args, got, c.want)
		}
	}
}

// TestSwitches: the sum over threads does not go back when one ends or its number is taken again.
func TestSwitches(t *testing.T) {
	o := tree(t, "amd-desktop")
	set := func(tid, a, b int) {
		write(t, filepath.Join(o.Proc, fmt.Sprintf("500/task/%d/status", tid)), fmt.Sprintf("Name:\tx\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n", a, b))
	}
	s := openSwitches(o.withDefaults()).(binder).bind(func() []int { return []int{500} })
	if got := oneSample(t, s, 0); len(got) > 0 {
		t.Errorf("no thread yet: got %v", got)
	}
	check := func(what string, a, b float64) {
		t.Helper()
		wantValues(t, what, oneSample(t, s, 0), map[string]float64{"engine.voluntary_switches": a, "engine.involuntary_switches": b})
	}
	set(500, 10, 1)
	set(501, 20, 2)
	check("two threads", 30, 3)
	set(501, 25, 4)
	check("one worked", 35, 5)
	if err := os.RemoveAll(filepath.Join(o.Proc, "500/task/501")); err != nil {
		t.Fatal(err)
	}
	check("one ended", 35, 5)
	set(500, 3, 0)
	check("its number is another's now", 38, 5)
}

// TestDevices: a file's disk, through partitions and device-mapper; what lies on several is on none.
func TestDevices(t *testing.T) {
	o := tree(t, "cpu-server")
	write(t, filepath.Join(o.Proc, "self/mountinfo"), "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n60 1 0:44 / / rw - overlay overlay rw\n61 1 0:45 /@ /home rw - btrfs /dev/nvme0n1p1 rw\n62 1 0:46 / /mnt rw - nfs4 server:/export rw\n")
	for _, c := range []struct{ number, want, why string }{
		{"259:0", "nvme0n1", ""}, {"259:1", "nvme0n1", ""}, {"252:0", "nvme0n1", ""}, {"0:45", "nvme0n1", ""},
		{"9:0", "", "made of 2 devices"}, {"0:44", "", "overlay, which is no disk"}, {"0:46", "", "server:/export, which is no disk"}, {"8:1", "", "no block device 8:1"},
	} {
		got, err := o.withDefaults().wholeDevice(c.number, "/models/m.gguf")
		if got != c.want || (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: got %q, %v, want %q, %q", c.number, got, err, c.want, c.why)
		}
	}
	if mib, busy, ok := parseBlockStat([]byte(" 91820411 0 23505958912 41293811 0 0 0 0 0 30981234 41293811\n")); !ok || mib != 11477519 || busy != 30981234 {
		t.Errorf("got %v, %v, %v", mib, busy, ok)
	}
}

// TestPageCache: a file that was written is resident, one that was dropped is not; looking does not read.
func TestPageCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "Model v1.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 8<<20+5000)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	src := OpenFiles(Options{}, []string{path, filepath.Join(t.TempDir(), "gone.gguf")})
	defer src.Close()
	const name = "pagecache.model_v1_gguf.resident_pct"
	if x := sensorOf(t, src, name); !x.Available {
		t.Skip(x.Why)
	}
	if x := sensorOf(t, src, "pagecache.gone_gguf.resident_pct"); x.Available || !strings.Contains(x.Why, "is not there") {
		t.Errorf("got %+v", x)
	}
	if got := oneSample(t, src, 0); got[name] != 100 {
		t.Errorf("just written: got %v", got)
	}
	if got := oneSample(t, src, 1); len(got) > 2 || got[name] != 0 {
		t.Errorf("asked again at once: got %v, want only the disk", got)
	}
	if err := dropPages(f); err != nil {
		t.Skip(err)
	}
	got := oneSample(t, src, int64(time.Hour))
	if v, ok := got[name]; !ok || v > 5 {
		t.Skipf("this file system keeps its pages: %v", got) // as memory file systems do
	}
	if again := oneSample(t, src, 2*int64(time.Hour)); again[name] > got[name] {
		t.Errorf("looking reads the file: %v then %v", got, again)
	}
	f.Close()
}

// TestRecordedGPUs: the text and its refusals.
func TestRecordedGPUs(t *testing.T) {
	d, gpus, err := parseGPUs("driver 570\n\ngpu GPU-1 RTX A\npower_w 12.5\npcie_gen 4\ngpu GPU-2 RTX B\n")
	if err != nil || d != "570" || len(gpus) != 2 || gpus[1].Name() != "RTX B" {
		t.Fatal(d, gpus, err)
	}
	if v, err := gpus[0].Read(gpuPower); v != 12.5 || err != nil {
		t.Error(v, err)
	}
	if _, err := gpus[1].Read(gpuPower); err != errNotSupported {
		t.Error(err)
	}
	for _, bad := range []string{"power_w 1", "gpu a b\nwatt 3", "gpu a b\npower_w x", "gpu a b\npower_w NaN"} {
		if _, _, err := parseGPUs(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// TestSettings: words, mixed values, what is not there.
func TestSettings(t *testing.T) {
	o := tree(t, "nvidia-laptop")
	write(t, filepath.Join(o.Sys, "devices/system/cpu/cpufreq/policy3/scaling_governor"), "performance\n")
	got := map[string]string{}
	for _, s := range Settings(o) {
		got[s.Name] = s.Value
		if (s.Value == "") == (s.Why == "") {
			t.Errorf("%+v: want a value or a reason", s)
		}
	}
	for n, want := range map[string]string{"governor": "powersave, performance", "epp": "balance_power", "boost": "on", "smt": "on", "thp": "always", "swappiness": "60", "numa_balancing": "off", "aslr": "2"} {
		if got[n] != want {
			t.Errorf("%s: got %q, want %q", n, got[n], want)
		}
	}
}

// TestCellReason: what the kernel says when a device does not answer.
func TestCellReason(t *testing.T) {
	for _, errno := range []error{syscall.ENODATA, syscall.EIO, syscall.EINVAL} {
		if why, fix := cellReason("x", &os.PathError{Op: "read", Path: "x", Err: errno}); !strings.Contains(why, "does not answer") || fix == "" {
			t.Errorf("%v: %s; %s", errno, why, fix)
		}
	}
}
