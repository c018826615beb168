package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"flow/workflows/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

func of(root string, gpus ...GPU) (id string, facts map[string]string) {
	m := Identity(context.Background(), filepath.Join(root, "proc"), filepath.Join(root, "sys"), gpus...)
	return m.ID, m.Facts
}

// TestMachines is what three machines are: an x86 server, a container on a hybrid-cgroup host that shows
// little, an ARM board with an old kernel.
func TestMachines(t *testing.T) {
	for _, name := range []string{"cpu-server", "hybrid-container", "old-kernel"} {
		m := Identity(context.Background(), filepath.Join("testdata", name, "proc"), filepath.Join("testdata", name, "sys"))
		if name == "hybrid-container" { // its kernel does not say: the answer is this program's own
			if m.Facts["arch"] != runtime.GOARCH {
				t.Errorf("arch: got %q", m.Facts["arch"])
			}
			delete(m.Facts, "arch")
			m.ID, m.Facts["os"] = "", ""
		}
		if name == "old-kernel" {
			m.Facts["os"] = ""
		}
		got, err := json.MarshalIndent(m, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", name+".identity")
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
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func put(t *testing.T, text string, parts ...string) {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestID: what a reboot, an update or a setting changes leaves the ID alone; another machine has another.
func TestID(t *testing.T) {
	base, _ := of("testdata/cpu-server")
	for _, c := range []struct {
		what   string
		change func(root string)
		same   bool
	}{
		{"a reboot", func(r string) {
			put(t, "ffffffff-7a60-4c53-9d5c-2f7a4f1f0a11\n", r, "proc/sys/kernel/random/boot_id")
			b, _ := os.ReadFile(filepath.Join(r, "proc/cpuinfo"))
			put(t, strings.NewReplacer("6500.1", "6499.9", "3412.", "1500.").Replace(string(b)), r, "proc/cpuinfo")
		}, true},
		{"a kernel that keeps more memory", func(r string) {
			put(t, "6.11.0\n", r, "proc/sys/kernel/osrelease")
			put(t, "MemTotal:       263840012 kB\n", r, "proc/meminfo")
		}, true},
		{"new microcode", func(r string) {
			b, _ := os.ReadFile(filepath.Join(r, "proc/cpuinfo"))
			put(t, strings.ReplaceAll(string(b), "0xa101148", "0xa101999"), r, "proc/cpuinfo")
		}, true},
		{"another name and governor", func(r string) {
			put(t, "other\n", r, "proc/sys/kernel/hostname")
			put(t, "powersave\n", r, "sys/devices/system/cpu/cpufreq/policy0/scaling_governor")
		}, true},
		{"a CPU offline", func(r string) {
			b, _ := os.ReadFile(filepath.Join(r, "proc/cpuinfo"))
			put(t, string(b[:strings.Index(string(b), "processor\t: 3")]), r, "proc/cpuinfo")
		}, true},
		{"another machine-id", func(r string) { put(t, "1123456789abcdef0123456789abcdef\n", r, "etc/machine-id") }, false},
		{"another CPU", func(r string) {
			b, _ := os.ReadFile(filepath.Join(r, "proc/cpuinfo"))
			put(t, strings.ReplaceAll(string(b), "9354", "9654"), r, "proc/cpuinfo")
		}, false},
		{"twice the memory", func(r string) { put(t, "MemTotal:       527712864 kB\n", r, "proc/meminfo") }, false},
		{"a GPU", func(r string) {
			put(t, "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-0a1b2c3d-1111-2222-3333-444455556666\n", r, "proc/driver/nvidia/gpus/0000-01-00.0/information")
		}, false},
	} {
		root := copyTree(t, "testdata/cpu-server")
		c.change(root)
		if id, _ := of(root); (id == base) != c.same {
			t.Errorf("%s: ID %s, was %s, want the same: %v", c.what, id, base, c.same)
		}
	}
	if len(base) != 16 {
		t.Errorf("got %q, want 16 digits", base)
	}
}

// TestGPUs: the driver's files and the library give the same ID; the order of devices does not matter.
func TestGPUs(t *testing.T) {
	root := copyTree(t, "testdata/cpu-server")
	put(t, "Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nGPU UUID: \t GPU-aa\nVideo BIOS: \t ??.??\n", root, "proc/driver/nvidia/gpus/0000-01-00.0/information")
	put(t, "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-bb\n", root, "proc/driver/nvidia/gpus/0000-02-00.0/information")
	put(t, "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-????????\n", root, "proc/driver/nvidia/gpus/0000-03-00.0/information")
	put(t, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 13.2.0\n", root, "proc/driver/nvidia/version")
	id, f := of(root)
	for k, v := range map[string]string{"gpu0": "NVIDIA H200 GPU-aa", "gpu1": "NVIDIA H200 GPU-bb", "gpu2": "", "driver": "550.54.15"} {
		if f[k] != v {
			t.Errorf("%s: got %q, want %q", k, f[k], v)
		}
	}
	if again, _ := of(root, GPU{"GPU-bb", "H200", "560"}, GPU{"GPU-aa", "H200", "560"}); again != id {
		t.Errorf("the library's GPUs give %s, the driver's files %s", again, id)
	}
}

func TestUsualMiB(t *testing.T) {
	for mib, want := range map[string]int64{"24105": 24576, "257672": 262144, "15886": 16384, "16384": 16384, "16385": 24576, "1": 1, "3": 3, "5": 6,
		"": 0, "-4": 0, "x": 0, "9223372036854775807": 9223372036854775807} {
		if got := usualMiB(mib); got != want {
			t.Errorf("usualMiB(%q) = %d, want %d", mib, got, want)
		}
	}
}

// TestNothingToSee: a machine without /proc has an ID all the same, and no invented facts.
func TestNothingToSee(t *testing.T) {
	m := Identity(context.Background(), "testdata/nowhere/proc", "testdata/nowhere/sys")
	if m.ID == "" {
		t.Error("no ID")
	}
	for k, v := range m.Facts {
		if v == "" || k != "arch" && k != "os" {
			t.Errorf("fact %s: %q", k, v)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for s, want := range map[string]string{"0-3,8,10-11\n": "[0 1 2 3 8 10 11]", "": "[]", "5": "[5]", "3,1,2-3": "[1 2 3]",
		"3-1": "error", "a": "error", "1,,2": "error", "1-": "error", "-1": "error", "99999": "error", "0-65535": "many"} {
		got, err := ParseCPUs(s)
		text := strings.ReplaceAll(strings.Trim(strings.Join(strings.Fields(jsonOf(t, got)), ""), "\n"), ",", " ")
		switch {
		case err != nil:
			text = "error"
		case got == nil:
			text = "[]"
		case len(got) > 100:
			text = "many"
		}
		if text != want {
			t.Errorf("%q: got %s, want %s", s, text, want)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPipesAreNotWaitedFor: below another root a pipe may stand where a file should.
func TestPipesAreNotWaitedFor(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"proc/meminfo", "proc/cpuinfo", "proc/self/mountinfo", "proc/sys/kernel/hostname", "proc/sys/vm/drop_caches", "sys/class/power_supply", "sys/devices/system/cpu/smt/control"} {
		p := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(p, 0o600); err != nil {
			t.Skip(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		of(root)
		s := Settings{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys")}
		for _, w := range Words() {
			_, _ = s.Word(t.Context(), w)
		}
		if _, _, err := s.Apply(t.Context(), []plan.HostSetting{{Name: plan.HostDropCaches, Value: "3"}}); err == nil {
			t.Error("a pipe took a setting")
		}
		if err := PageCache(t.Context(), plan.CacheWarm, []string{filepath.Join(root, "proc/meminfo")}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("got %v, want a refusal", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("still waiting for a pipe")
	}
}
