package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/plan"
)

// fakeHost is a machine's settings below a folder: an Intel box with two policies.
func fakeHost(t *testing.T) (root string, s Settings) {
	t.Helper()
	root = t.TempDir()
	for path, text := range map[string]string{
		"sys/devices/system/cpu/cpufreq/policy0/scaling_governor":              "powersave\n",
		"sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors":   "performance powersave\n",
		"sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference": "balance_power\n",
		"sys/devices/system/cpu/cpufreq/policy1/scaling_governor":              "performance\n",
		"sys/devices/system/cpu/cpufreq/policy1/energy_performance_preference": "performance\n",
		"sys/devices/system/cpu/intel_pstate/no_turbo":                         "0\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                           "always [madvise] never\n",
		"proc/sys/vm/swappiness":                                               "37\n",
		"proc/sys/vm/drop_caches":                                              "0\n",
		"proc/sys/net/ipv4/tcp_rmem":                                           "4096\t131072\t6291456\n",
		"proc/sys/kernel/random/boot_id":                                       "boot-1\n",
	} {
		put(t, text, filepath.Join(root, filepath.FromSlash(path)))
	}
	return root, Settings{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys"), Undo: filepath.Join(root, "undo"), Session: "session-1"}
}

// snapshot is every setting of a fake host, as it reads.
func snapshot(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	for _, dir := range []string{"proc", "sys"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(p string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(p)
			fmt.Fprintf(&out, "%s: %s\n", strings.TrimPrefix(p, root), strings.Join(strings.Fields(valueOf(string(b))), " "))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func everything() []plan.HostSetting {
	return []plan.HostSetting{
		{Name: plan.HostGovernor, Value: "performance"},
		{Name: plan.HostEPP, Value: "performance"},
		{Name: plan.HostBoost, Value: "off"},
		{Name: plan.HostTHP, Value: "never"},
		{Name: plan.HostSysctl, Target: "vm.swappiness", Value: "0"},
		{Name: plan.HostSysctl, Target: "net.ipv4.tcp_rmem", Value: "4096 131072 33554432"},
		{Name: plan.HostCPUs, Value: "0-1"},
	}
}

func TestSettings(t *testing.T) {
	root, s := fakeHost(t)
	before := snapshot(t, root)
	a, did, err := s.Apply(t.Context(), everything())
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	var said []string
	for _, c := range did {
		said = append(said, c.Setting.Key()+": "+c.Before)
	}
	want := []string{"governor: powersave and performance", "epp: balance_power and performance", "boost: 0", "thp: madvise", "vm.swappiness: 37", "net.ipv4.tcp_rmem: 4096\t131072\t6291456"}
	if !slices.Equal(said, want) {
		t.Errorf("before: got %q, want %q", said, want)
	}
	for _, h := range everything()[:6] {
		if ok, v, err := s.Holds(t.Context(), h); !ok {
			t.Errorf("%s: reads %q, %v", h, v, err)
		}
	}
	if left, err := s.RestoreLeft(t.Context()); err != nil || left != nil {
		t.Errorf("a journal of a process that lives was taken: %v, %v", left, err)
	}
	if _, err := a.Restore(t.Context()); err != nil {
		t.Fatal(diag.Format(err))
	}
	if after := snapshot(t, root); after != before {
		t.Errorf("after the restore:\n%s\nwant\n%s", after, before)
	}
	if left, _ := os.ReadDir(s.Undo); len(left) != 0 {
		t.Errorf("the journal is still there: %v", left)
	}
	if words, err := a.Restore(t.Context()); words != nil || err != nil {
		t.Errorf("a second restore: %v, %v", words, err)
	}
}

func TestReadSettings(t *testing.T) {
	root, s := fakeHost(t)
	for _, c := range []struct{ word, want string }{
		{"governor", "powersave and performance"}, {"boost", "on"}, {"thp", "madvise"}, {"swappiness", "37"}, {"vm.swappiness", "37"},
		{"epp", "balance_power and performance"},
	} {
		if got, err := s.Word(t.Context(), c.word); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", c.word, got, err, c.want)
		}
	}
	// AMD has the other switch, and both are read where both are there.
	put(t, "0\n", filepath.Join(root, "sys/devices/system/cpu/cpufreq/boost"))
	if got, _ := s.Word(t.Context(), "boost"); got != "on and off" {
		t.Errorf("two switches that disagree: got %q", got)
	}
	for _, bad := range []string{"nonsense", "power_source", "smt", "vm.no_such"} {
		if v, err := s.Word(t.Context(), bad); err == nil {
			t.Errorf("%s: got %q, want an error", bad, v)
		}
	}
}

func TestPowerSource(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a desktop", map[string]string{"keep": ""}, "ac"},
		{"on the mains", map[string]string{"AC/type": "Mains", "AC/online": "1", "BAT0/type": "Battery", "BAT0/status": "Charging"}, "ac"},
		{"unplugged", map[string]string{"AC/type": "Mains", "AC/online": "0", "BAT0/type": "Battery", "BAT0/status": "Discharging"}, "battery"},
		{"unplugged and full", map[string]string{"AC/type": "Mains", "AC/online": "0", "BAT0/type": "Battery", "BAT0/status": "Full"}, "battery"},
		{"a mouse's battery", map[string]string{"hid/type": "Battery", "hid/scope": "Device", "hid/status": "Discharging"}, "ac"},
	} {
		sys := t.TempDir()
		for f, text := range c.files {
			put(t, text+"\n", filepath.Join(sys, "class/power_supply", f))
		}
		if got, err := powerSource(sys); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

// What cannot be set is refused before anything is changed, or undone when something was.
func TestApplyRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		with    plan.HostSetting
		prepare func(root string, s *Settings)
		want    string
	}{
		{"unknown governor", plan.HostSetting{Name: plan.HostGovernor, Value: "fast"}, nil, "use one of performance, powersave"},
		{"no switch", plan.HostSetting{Name: plan.HostBoost, Value: "off"}, func(root string, _ *Settings) {
			_ = os.RemoveAll(filepath.Join(root, "sys/devices/system/cpu/intel_pstate"))
		}, "no_turbo nor"},
		{"no such sysctl", plan.HostSetting{Name: plan.HostSysctl, Target: "vm.nothing", Value: "1"}, nil, "is not there"},
		{"outside", plan.HostSetting{Name: plan.HostFile, Target: "/sys/../etc/passwd", Value: "1"}, nil, "neither below /sys nor below /proc/sys"},
		{"no journal", plan.HostSetting{Name: plan.HostTHP, Value: "never"}, func(_ string, s *Settings) { s.Undo = "" }, "without a journal nothing is changed"},
		{"a command that fails", plan.HostSetting{Name: plan.HostCommand, Setup: []string{"set"}, Restore: []string{"unset"}}, func(_ string, s *Settings) {
			s.Run = func(_ context.Context, argv []string) (string, error) {
				if argv[0] == "set" {
					return "", errors.New("exit status 3")
				}
				return "", nil
			}
		}, "exit status 3"},
		{"a GPU that does not say", plan.HostSetting{Name: plan.HostGPUPower, Value: "300"}, func(_ string, s *Settings) {
			s.Run = func(context.Context, []string) (string, error) { return "", errors.New("no devices were found") }
		}, "could not be put back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, s := fakeHost(t)
			if c.prepare != nil {
				c.prepare(root, &s)
			}
			before := snapshot(t, root)
			first := []plan.HostSetting{{Name: plan.HostSysctl, Target: "vm.swappiness", Value: "1"}}
			if s.Undo == "" {
				first = nil
			}
			_, _, err := s.Apply(t.Context(), append(first, c.with))
			if err == nil || !strings.Contains(diag.Format(err), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if k, ok := diag.KindOf(err); !ok || k != diag.Machine {
				t.Errorf("got kind %v, want machine", k)
			}
			if after := snapshot(t, root); after != before {
				t.Errorf("changed:\n%s", after)
			}
		})
	}
}

// A GPU is asked and set by its tool; the values that it prints differ in form and are the same.
func TestGPUPower(t *testing.T) {
	_, s := fakeHost(t)
	limit, ran := "450.00 ", []string{}
	s.Run = func(_ context.Context, argv []string) (string, error) {
		ran = append(ran, strings.Join(argv, " "))
		if argv[3] == "-pl" {
			limit = argv[4] + ".00"
			if strings.Contains(argv[4], ".") {
				limit = argv[4]
			}
		}
		return limit + "\n", nil
	}
	a, did, err := s.Apply(t.Context(), []plan.HostSetting{{Name: plan.HostGPUPower, Target: "GPU-1", Value: "300"}, {Name: plan.HostGPUClocks, Target: "GPU-1", Value: "1600,1600"}})
	if err != nil || did[0].Before != "450.00" || limit != "300.00" {
		t.Fatalf("limit %s, %+v, %v", limit, did, err)
	}
	if _, err := a.Restore(t.Context()); err != nil || limit != "450.00" {
		t.Errorf("limit %s, %v", limit, err)
	}
	if last := ran[len(ran)-4:]; last[0] != "nvidia-smi -i GPU-1 -rgc" {
		t.Errorf("ran %q", ran)
	}
}

// dropCaches has nothing to put back.
func TestDropCaches(t *testing.T) {
	root, s := fakeHost(t)
	if _, _, err := s.Apply(t.Context(), []plan.HostSetting{{Name: plan.HostDropCaches, Value: "3"}}); err != nil {
		t.Fatal(err)
	}
	if got := line(root, "proc/sys/vm/drop_caches"); got != "3" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(s.Undo); err == nil {
		t.Error("an action has a journal")
	}
}

// asChanger runs this binary as a process that changes settings and is killed at the n-th point.
const asChanger = "FLOW_TEST_CHANGE"

type changing struct {
	Proc, Sys, Undo, Session string
	KillAt                   int
}

func changeAndDie(text string) int {
	var c changing
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Println(err)
		return 2
	}
	n := 0
	host := Settings{Proc: c.Proc, Sys: c.Sys, Undo: c.Undo, Session: c.Session}
	host.hook = func() {
		if n++; n == c.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	for range 2 { // two arms
		a, _, err := host.Apply(context.Background(), everything())
		if err != nil {
			fmt.Println(err)
			return 2
		}
		if _, err := a.Restore(context.Background()); err != nil {
			fmt.Println(err)
			return 2
		}
	}
	fmt.Print(n)
	return 0
}

func change1(t *testing.T, s Settings, at int) (string, error) {
	t.Helper()
	b, err := json.Marshal(changing{s.Proc, s.Sys, s.Undo, s.Session, at})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asChanger+"="+string(b))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// SIGKILL at ten random points: what is found afterwards is put back exactly.
func TestKilled(t *testing.T) {
	root, s := fakeHost(t)
	out, err := change1(t, s, 0)
	var points int
	if _, scan := fmt.Sscan(out, &points); err != nil || scan != nil || points < 40 {
		t.Fatalf("got %q, %v, want the number of points", out, err)
	}
	before := snapshot(t, root)
	changed := 0
	rng := rand.New(rand.NewPCG(3, 7))
	for range 10 {
		at := 1 + rng.IntN(points)
		if out, err := change1(t, s, at); err == nil || out != "" {
			t.Fatalf("point %d: was not killed: %q, %v", at, out, err)
		}
		if snapshot(t, root) != before {
			changed++
		}
		left, err := s.RestoreLeft(t.Context())
		if err != nil {
			t.Fatalf("point %d: %v", at, diag.Format(err))
		}
		if after := snapshot(t, root); after != before {
			t.Errorf("point %d: after the restore (%v):\n%s\nwant\n%s", at, left, after, before)
		}
		if files, _ := os.ReadDir(s.Undo); len(files) != 0 {
			t.Errorf("point %d: still there: %v", at, files)
		}
	}
	if changed < 5 {
		t.Errorf("%d of 10 deaths left anything changed: the points are not where they hurt", changed)
	}
}

// Left names whose journal it was, and a restart of the machine is not undone.
func TestRestoreLeft(t *testing.T) {
	root, s := fakeHost(t)
	if _, err := change1(t, s, 3); err == nil {
		t.Fatal("was not killed")
	}
	put(t, "boot-2\n", filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	before := snapshot(t, root)
	left, err := s.RestoreLeft(t.Context())
	if err != nil || len(left) != 1 || !left[0].Gone || !strings.Contains(left[0].String(), "restarted since") || !strings.Contains(left[0].String(), "session session-1") {
		t.Errorf("got %v, %v", left, err)
	}
	if snapshot(t, root) != before {
		t.Error("settings of the new start were changed")
	}
	// What cannot be put back stays on record and is named.
	put(t, "boot-1\n", filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	gov := filepath.Join(root, "sys/devices/system/cpu/cpufreq/policy0/scaling_governor")
	put(t, "powersave\n", gov)
	if _, err := change1(t, s, 3); err == nil {
		t.Fatal("was not killed")
	}
	if err := os.Rename(gov, gov+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.RestoreLeft(t.Context()); err == nil || !strings.Contains(diag.Format(err), "put back governor") || !strings.Contains(diag.Format(err), "powersave") {
			t.Errorf("got %v, want the setting and what it was", err)
		}
	}
	if err := os.Rename(gov+".away", gov); err != nil {
		t.Fatal(err)
	}
	if left, err := s.RestoreLeft(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("got %v, %v", left, err)
	}
	if got := line(gov); got != "powersave" {
		t.Errorf("governor %q", got)
	}
}

// A command that fails to put back is named as itself, nothing is called as it was, and it can be given up.
func TestGiveUp(t *testing.T) {
	_, s := fakeHost(t)
	if err := os.MkdirAll(s.Undo, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, `{"op":"begin","pid":1,"session":"session-1"}
{"op":"change","id":0,"what":"command fan","point":{"put":["fan","--auto"]}}
{"op":"change","id":1,"what":"command light","point":{"put":["light","--on"]}}
`, filepath.Join(s.Undo, hostName()+"-0123456789abcdef"+undoSuffix))
	var ran []string
	s.Run = func(_ context.Context, args []string) (string, error) {
		ran = append(ran, args[0])
		if args[0] == "fan" {
			return "", errors.New("no fan")
		}
		return "", nil
	}
	for i := range 2 {
		left, err := s.RestoreLeft(t.Context())
		if err == nil || len(left) != 1 {
			t.Fatalf("got %v, %v, want one journal and why it is left", left, err)
		}
		text, words := diag.Format(err), left[0].String()
		if !strings.Contains(text, "the command that puts it back is fan --auto: no fan") || !strings.Contains(text, "--give-up") || strings.Contains(text, "readable") {
			t.Errorf("got %s", text)
		}
		if !strings.Contains(words, "could not be put back: the command that puts it back is fan --auto") || strings.Contains(words, "as it was") || strings.Contains(words, "light --on") != (i == 0) {
			t.Errorf("got %q", words)
		}
	}
	s.GiveUp = true
	left, err := s.RestoreLeft(t.Context())
	if err != nil || len(left) != 1 || !left[0].GivenUp || !strings.Contains(left[0].String(), "is given up") {
		t.Fatalf("got %v, %v, want that it is given up", left, err)
	}
	if left, err := s.RestoreLeft(t.Context()); err != nil || left != nil {
		t.Errorf("got %v, %v, want that nothing is left", left, err)
	}
	if got := strings.Join(ran, " "); got != "light fan fan fan" {
		t.Errorf("ran %s", got)
	}
}

func TestKernelLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	put(t, "6,1,1,-;old line\n", path)
	k := OpenKernelLog(path)
	defer k.Close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("3,2,2,-;NVRM: Xid (PCI:0000:01:00): 79\n SUBSYSTEM=pci\n6,3,3,-;usb 1-1: new device\n")
	_ = f.Close()
	if got, err := k.New(); got != "NVRM: Xid (PCI:0000:01:00): 79\nusb 1-1: new device\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := k.New(); got != "" || err != nil {
		t.Errorf("again: got %q, %v", got, err)
	}
	if _, err := OpenKernelLog(path + ".none").New(); err == nil {
		t.Error("want a reason")
	}
}

func TestPageCache(t *testing.T) {
	f := filepath.Join(t.TempDir(), "model")
	put(t, strings.Repeat("x", 1<<20), f)
	for _, policy := range []string{plan.CacheWarm, plan.CacheCold, plan.CacheUntouched, ""} {
		if err := PageCache(t.Context(), policy, []string{f}); err != nil {
			t.Errorf("%s: %v", policy, err)
		}
	}
	if err := PageCache(t.Context(), plan.CacheWarm, []string{f + ".none"}); err == nil {
		t.Error("want an error for a file that is not there")
	}
}

func FuzzParseUndo(f *testing.F) {
	f.Add([]byte(`{"op":"begin","pid":1,"boot":"b"}` + "\n" + `{"op":"change","id":0,"what":"thp","point":{"path":"/sys/x","to":"never"},"before":"madvise"}` + "\n" + `{"op":"undone","id":0}`))
	f.Add([]byte(`{"op":"change","id":0,"point":{"put":["a"]}}` + "\n{\"op\":\"ch"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, cs := parseUndo(b)
		for _, c := range cs { // what is to be put back can be found
			if c.point.where() == "" && len(c.point.Put) == 0 && len(c.point.Read) == 0 {
				t.Errorf("%q gives a change of nothing", b)
			}
		}
	})
}

func FuzzKernelLines(f *testing.F) {
	f.Add("6,1234,5678901,-;NVRM: Xid\n SUBSYSTEM=pci\n")
	f.Fuzz(func(t *testing.T, s string) {
		if got := kernelLines(s); got != "" && !strings.HasSuffix(got, "\n") {
			t.Errorf("%q: got %q", s, got)
		}
	})
}

// A process that is started on CPUs has no others.
func TestOnCPUs(t *testing.T) {
	mine, err := AllowedCPUs(os.Getpid())
	if err != nil {
		t.Skip(err) // no /proc
	}
	cpus, err := ParseCPUs(mine)
	if err != nil {
		t.Fatal(err)
	}
	last := cpus[len(cpus)-1]
	cmd := exec.Command("sleep", "60")
	if err := OnCPUs([]int{last}, cmd.Start); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if got, err := AllowedCPUs(cmd.Process.Pid); got != fmt.Sprint(last) || err != nil {
		t.Errorf("the child may run on %s, %v, want %d", got, err, last)
	}
	if got, _ := AllowedCPUs(os.Getpid()); got != mine {
		t.Errorf("this process may run on %s, want %s", got, mine)
	}
	if err := OnCPUs([]int{1 << 9}, func() error { t.Error("was run"); return nil }); err == nil {
		t.Error("want an error for a CPU that is not there")
	}
	if _, err := AllowedCPUs(1 << 30); err == nil {
		t.Error("want an error for a process that is not there")
	}
}

// On a share the journals of other hosts are theirs to put back.
func TestOtherHosts(t *testing.T) {
	_, s := fakeHost(t)
	other := filepath.Join(s.Undo, hostName()+"-2-0123456789abcdef.jsonl")
	put(t, `{"op":"change","id":0,"what":"thp","point":{"path":"/nowhere","to":"never"},"before":"madvise"}`+"\n", other)
	if left, err := s.RestoreLeft(t.Context()); err != nil || left != nil {
		t.Errorf("got %v, %v", left, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
