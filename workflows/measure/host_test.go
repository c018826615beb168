package measure

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flow/builtins/machine"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

func groupOf(resources ...[]string) *plan.Group {
	g := &plan.Group{Name: "g"}
	for i, r := range resources {
		g.Sides = append(g.Sides, plan.Side{Label: string(rune('A' + i)), Engine: plan.Engine{Name: "e", Command: []string{"e"}, Resources: r}})
	}
	return g
}

func TestAskedOf(t *testing.T) {
	cpus, both := groupOf([]string{"cpus:0"}), groupOf([]string{"gpus:1", "cpus:0"}, []string{"cpus:1"})
	for _, c := range []struct {
		name string
		g    *plan.Group
		more func(*plan.Group)
		want string
	}{
		{"nothing said", groupOf(nil, nil), nil, "host"},
		{"one side does not say", groupOf([]string{"cpus:0"}, nil), nil, "host"},
		{"all of what both use", both, nil, "cpus:0 cpus:1 gpus:1"},
		{"host settings are the whole host's", cpus, func(g *plan.Group) { g.Host = []plan.HostSetting{{Name: plan.HostTHP, Value: "never"}} }, "host"},
		{"a lever's, too", cpus, func(g *plan.Group) {
			g.Sides[0].Stack = plan.Stack{{Name: "x", Host: []plan.HostSetting{{Name: plan.HostBoost, Value: "off"}}}}
		}, "host"},
		{"its own CPUs are its own", cpus, func(g *plan.Group) {
			g.Sides[0].Stack = plan.Stack{{Name: "x", Host: []plan.HostSetting{{Name: plan.HostCPUs, Value: "0"}}}}
		}, "cpus:0"},
		{"the page cache is everybody's", cpus, func(g *plan.Group) { g.Settling = &plan.Settling{PageCache: plan.CacheCold} }, "host"},
		{"an attached engine uses what it uses", &plan.Group{Sides: []plan.Side{{Engine: plan.Engine{URL: "http://x"}}}}, nil, "host"},
	} {
		g := *c.g
		g.Sides = slices.Clone(g.Sides)
		if c.more != nil {
			c.more(&g)
		}
		if got := strings.Join(askedOf(&g), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// real is a measurer of a machine made of files.
func realOf(t *testing.T, files map[string]string) *Real {
	t.Helper()
	dir := t.TempDir()
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := NewReal(RealOptions{Root: dir, Exe: "flow", Work: filepath.Join(dir, "work"), StateDir: filepath.Join(dir, "state"), LockDir: filepath.Join(dir, "locks"),
		Proc: filepath.Join(dir, "proc"), Sys: filepath.Join(dir, "sys"), SessionID: "s", KernelLog: filepath.Join(dir, "kmsg")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestHold(t *testing.T) {
	m := realOf(t, map[string]string{"sys/devices/system/node/node1/cpulist": "4-5\n"})
	u, err := m.hold(t.Context(), groupOf([]string{"cpus:0", "numa:1"}))
	if err != nil || !slices.Equal(u.cpus, []int{0, 4, 5}) || !u.shared() {
		t.Fatalf("got %+v, %v", u, err)
	}
	first := m.lock
	if again, err := m.hold(t.Context(), groupOf([]string{"numa:1", "cpus:0"})); err != nil || again != u || m.lock != first {
		t.Errorf("the same resources were taken anew: %v, %v", again, err)
	}
	if u, err = m.hold(t.Context(), groupOf(nil)); err != nil || u.shared() || u.cpus != nil {
		t.Errorf("the host: %+v, %v", u, err)
	}
	for want, g := range map[string]*plan.Group{
		"flow sees 0":  groupOf([]string{"gpus:2"}),
		"NUMA node 7":  groupOf([]string{"numa:7"}),
		"want gpus(1)": groupOf([]string{"gpus:none"}),
		"numbers and":  groupOf([]string{"cpus:x"}),
		"no such":      groupOf([]string{"disk:/no/such/folder"}),
	} {
		if _, err := m.hold(t.Context(), g); err == nil || !strings.Contains(diag.Format(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Any GPU will do: the one that nobody has, and the same one in the next group.
func TestGPUs(t *testing.T) {
	m := realOf(t, nil)
	m.gpus = []string{"GPU-aaaa-1", "GPU-bbbb-2", "GPU-cccc-3"}
	other, err := machine.Acquire(t.Context(), m.o.LockDir, []string{"gpu:GPU-aaaa-1"}, machine.Holder{Session: "other"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	u, err := m.hold(t.Context(), groupOf([]string{"gpus:1"}))
	if err != nil || !slices.Equal(u.gpus, []string{"GPU-bbbb-2"}) {
		t.Fatalf("got %+v, %v", u, err)
	}
	if v := u.visible(); v["CUDA_VISIBLE_DEVICES"] != "GPU-bbbb-2" || len(v) != 2 {
		t.Errorf("visible %v", v)
	}
	if v := (&usage{gpus: []string{"GPU-0123456789abcdef"}}).visible(); v["ROCR_VISIBLE_DEVICES"] == "" || len(v) != 1 {
		t.Errorf("visible on AMD %v", v)
	}
	if v := (&usage{}).visible(); v != nil {
		t.Errorf("visible without GPUs %v", v)
	}
	if u, err = m.hold(t.Context(), groupOf([]string{"gpus:2", "gpu:GPU-cccc-3"})); err != nil || !slices.Equal(u.gpus, []string{"GPU-cccc-3", "GPU-bbbb-2"}) {
		t.Errorf("one by name and any other: %+v, %v", u, err)
	}
	if _, err := m.hold(t.Context(), groupOf([]string{"gpus:3"})); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("got %v, want the holder", err)
	}
	if err := other.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.hold(t.Context(), groupOf([]string{"gpus:3"})); err != nil {
		t.Error(err)
	}
}

// An arm's settings are put back by Close, whatever became of the arm, and what the kernel said is kept.
func TestRigHost(t *testing.T) {
	m := realOf(t, map[string]string{
		"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n", "proc/sys/vm/swappiness": "60\n", "kmsg": "6,1,1,-;before\n",
		"model/a.gguf": "weights", "model/b.gguf": "more",
	})
	g := groupOf(nil, nil)
	g.Sides[1].Engine.Files = []string{"model"}
	open := func(id string) *rig {
		r, err := m.Open(t.Context(), run.Task{ArmID: id, Group: g, Side: g.Sides[0]})
		if err != nil {
			t.Fatal(err)
		}
		return r.(*rig)
	}
	thp := filepath.Join(m.o.Sys, "kernel/mm/transparent_hugepage/enabled")
	r := open("one")
	said, why := r.Words(t.Context(), []string{"thp", "governor", "kernel_log"})
	if said["thp"] != "madvise" || !strings.Contains(why["governor"], "no CPU frequency driver") {
		t.Errorf("words %v, %v", said, why)
	}
	fs, err := r.Apply(t.Context(), []plan.HostSetting{{Name: plan.HostTHP, Value: "never"}, {Name: plan.HostSysctl, Target: "vm.swappiness", Value: "1"}})
	if err != nil || len(fs) != 2 || fs[0].Gate != "host thp" || fs[0].Observed != "never, was madvise" || fs[0].Outcome != record.Pass {
		t.Fatalf("got %+v, %v", fs, err)
	}
	if b, _ := os.ReadFile(thp); string(b) != "never\n" {
		t.Errorf("set to %q", b)
	}
	for _, policy := range []string{plan.CacheWarm, plan.CacheCold} {
		if err := r.PageCache(t.Context(), policy); err != nil {
			t.Errorf("%s: %v", policy, err)
		}
	}
	if err := r.Preheat(t.Context(), 1, nil); err != nil {
		t.Error(err)
	}
	f, err := os.OpenFile(m.o.KernelLog, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("3,2,2,-;NVRM: Xid 79\n")
	_ = f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := &record.Arm{Host: said, HostWhy: why}
	if err := r.Close(context.WithoutCancel(ctx), a); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(thp); string(b) != "madvise\n" {
		t.Errorf("after the arm: %q", b)
	}
	if a.Host["kernel_log"] != "NVRM: Xid 79\n" || len(a.Neighbours) != 0 {
		t.Errorf("host %v, neighbours %v", a.Host, a.Neighbours)
	}
	if left, err := os.ReadDir(machine.UndoDir(m.o.StateDir)); err != nil || len(left) != 0 {
		t.Errorf("journals left: %v, %v", left, err)
	}

	r = open("two")
	if _, err := r.Apply(t.Context(), []plan.HostSetting{{Name: plan.HostTHP, Value: "never"}, {Name: plan.HostEPP, Value: "x"}}); err == nil {
		t.Error("a machine without energy preferences took one")
	}
	if b, _ := os.ReadFile(thp); string(b) != "madvise\n" {
		t.Errorf("after a refusal: %q", b)
	}
	g.Sides[1].Engine.Files = nil
	if err := r.PageCache(t.Context(), plan.CacheCold); err == nil || !strings.Contains(diag.Format(err), "files =") {
		t.Errorf("got %v, want what to write", err)
	}
	if err := r.Close(t.Context(), &record.Arm{}); err != nil {
		t.Fatal(err)
	}
}

// The CPUs of a lever must be among those that are locked.
func TestCPUs(t *testing.T) {
	g := groupOf([]string{"cpus:0-1"})
	g.Sides[0].Stack = plan.Stack{{Name: "x", Host: []plan.HostSetting{{Name: plan.HostCPUs, Value: "1"}}}}
	r := &rig{t: run.Task{Group: g, Side: g.Sides[0]}, used: &usage{cpus: []int{0, 1}}}
	if got, err := r.cpus(); err != nil || !slices.Equal(got, []int{1}) {
		t.Errorf("got %v, %v", got, err)
	}
	r.used.cpus = []int{0}
	if _, err := r.cpus(); err == nil || !strings.Contains(err.Error(), "CPU 1 is not among") {
		t.Errorf("got %v", err)
	}
	r.used.cpus = nil
	if got, err := r.cpus(); err != nil || !slices.Equal(got, []int{1}) {
		t.Errorf("on the whole host: %v, %v", got, err)
	}
}

func TestVRAM(t *testing.T) {
	if newVRAM(run.Task{Sensors: []string{"meminfo.swap_used_mib"}}) != nil {
		t.Error("followed without need")
	}
	v := newVRAM(run.Task{Sensors: []string{"nvml.0.mem_used_mib"}})
	for _, x := range []record.Sample{{Sensor: "nvml.0.mem_used_mib", MonoNS: 1, Value: 500}, {Sensor: "nvml.0.temp_c", MonoNS: 1, Value: 50}, {Sensor: "nvml.0.mem_used_mib", MonoNS: 2, Value: 9000}} {
		v.sample(x)
	}
	if v.back(2) {
		t.Error("9000 MiB are not back at 500")
	}
	v.sample(record.Sample{Sensor: "nvml.0.mem_used_mib", MonoNS: 3, Value: 510})
	if !v.back(3) || v.back(4) {
		t.Error("back at 3, and nothing is known of 4")
	}
}
