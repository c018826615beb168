package machine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"0-3,8", "", "1-1", "5,3-4", "0-65535,0-65535"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseCPUs(s)
		if err != nil {
			return
		}
		var w []string
		for i, n := range got {
			if n < 0 || i > 0 && n <= got[i-1] {
				t.Fatalf("%q: got %v, want a sorted set", s, got)
			}
			w = append(w, fmt.Sprint(n))
		}
		if again, err := ParseCPUs(strings.Join(w, ",")); err != nil || !slices.Equal(again, got) {
			t.Errorf("%q: %v became %v, %v", s, got, again, err)
		}
	})
}

// FuzzTexts: the parsers of the identity return, whatever stands in their files, and keep to one line.
func FuzzTexts(f *testing.F) {
	for _, p := range []string{"cpu-server/proc/cpuinfo", "old-kernel/proc/cpuinfo", "cpu-server/proc/meminfo", "hybrid-container/proc/self/mountinfo", "cpu-server/etc/os-release"} {
		b, err := os.ReadFile("testdata/" + p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n"))
	f.Add([]byte("Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-0a1b\n"))
	f.Add([]byte("always [madvise] never"))
	f.Add([]byte(`{"version":1,"sha256":{"1:2:3:4":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		one := func(what, s string) {
			if strings.Contains(s, "\n") {
				t.Errorf("%s: %q", what, s)
			}
		}
		c := parseCPUInfo(b)
		one("model", c.model)
		one("microcode", c.microcode)
		if c.cpus < 0 || c.cpus > len(b) {
			t.Errorf("%d CPUs in %d bytes", c.cpus, len(b))
		}
		if mib, ok := parseMemTotal(b); ok && mib < 0 {
			t.Errorf("%d MiB", mib)
		}
		if v1, v2 := parseCgroupMounts(b); v1 < 0 || v1 > len(b) || len(v2) > len(b) {
			t.Errorf("%d, %q", v1, v2)
		}
		if s := unescape(string(b)); len(s) > len(b) || !strings.Contains(string(b), `\`) && s != string(b) {
			t.Errorf("%q became %q", b, s)
		}
		g := parseNvidiaGPU(b)
		one("GPU", g.Name)
		one("UUID", g.UUID)
		one("driver", parseNvidiaVersion(b))
		one("os", parseOSRelease(b))
		_ = chosen(string(b))
		for k, v := range parseCache(b) {
			if len(v) != 64 {
				t.Errorf("%q: digest %q", k, v)
			}
		}
	})
}
