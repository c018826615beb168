package machine

// What the machine is. The ID holds only what survives a reboot, a kernel update, a new address and a new
// name: the CPU, how many there are, the memory rounded to the next usual size, the architecture, the
// machine-id and the GPUs. Everything else is a fact beside it. (A harness that put bogomips into the key
// found its history split in two.)

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"flow/workflows/record"
)

// GPU is a device for the identity, as its library names it.
type GPU struct {
	UUID, Name, Driver string
}

// Identity reads what the machine is below the roots proc and sys ("/proc" and "/sys" when empty; the
// machine-id is in etc beside proc). Without gpus those that the NVIDIA driver shows in /proc are taken.
// What cannot be read is not in Facts.
func Identity(ctx context.Context, proc, sys string, gpus ...GPU) record.Machine {
	if proc == "" {
		proc = "/proc"
	}
	if sys == "" {
		sys = "/sys"
	}
	r := roots{proc: proc, sys: sys, etc: filepath.Join(filepath.Dir(proc), "etc")}
	f := facts{}
	r.system(f)
	r.cpu(f)
	r.memory(f)
	r.cgroup(f)
	if proc == "/proc" {
		hostFacts(f)
	}
	if len(gpus) == 0 && ctx.Err() == nil {
		gpus = r.nvidia()
	}
	for i, g := range gpus {
		f.set("gpu"+strconv.Itoa(i), strings.TrimSpace(g.Name+" "+g.UUID))
		f.set("driver", g.Driver)
	}
	return record.Machine{ID: r.id(f, gpus), Host: f["hostname"], Facts: f}
}

// facts holds what is known: an unknown fact is absent, not "".
type facts map[string]string

func (f facts) set(name, value string) {
	if value != "" {
		f[name] = value
	}
}

type roots struct{ proc, sys, etc string }

// line is the first line of a file, "" where there is none.
func line(parts ...string) string {
	b, err := readKernel(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first)
}

// id is a hash of what is stable.
func (r roots) id(f facts, gpus []GPU) string {
	var uuids []string
	for _, g := range gpus {
		uuids = append(uuids, g.UUID)
	}
	slices.Sort(uuids)
	cpus := f["cpus_present"] // with those taken offline: switching SMT off is a setting, not another machine
	if cpus == "" {
		cpus = f["cpus"]
	}
	h := sha256.New()
	fmt.Fprintf(h, "machine 1\ncpu %s\ncpus %s\nmemory %d\narch %s\nid %s\ngpus %s\n",
		f["cpu_model"], cpus, usualMiB(f["memory_mib"]), f["arch"], r.machineID(), strings.Join(uuids, " "))
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// machineID is the machine-id, hashed as its manual asks for, "" where there is none.
func (r roots) machineID() string {
	id := line(r.etc, "machine-id")
	if b, err := hex.DecodeString(id); err != nil || len(b) != 16 {
		return "" // not there, or "uninitialized"
	}
	sum := sha256.Sum256([]byte("flow machine " + id))
	return hex.EncodeToString(sum[:])
}

// usualMiB rounds memory up to 2^n or 1.5 x 2^n MiB. The kernel keeps a part of what is built in, and
// another part after each update: the exact figure is not stable, and rounding to a GiB would be at odds
// with itself close to a half.
func usualMiB(mib string) int64 {
	n, err := strconv.ParseInt(mib, 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	for size := int64(1); size < 1<<50; size *= 2 {
		if n <= size {
			return size
		}
		if n <= size*3/2 {
			return size * 3 / 2
		}
	}
	return n
}

func (r roots) system(f facts) {
	f.set("hostname", line(r.proc, "sys/kernel/hostname"))
	f.set("kernel", line(r.proc, "sys/kernel/osrelease"))
	f.set("boot_id", line(r.proc, "sys/kernel/random/boot_id"))
	f.set("arch", goArch(line(r.proc, "sys/kernel/arch")))
	f.set("thp", chosen(line(r.sys, "kernel/mm/transparent_hugepage/enabled")))
	f.set("aslr", line(r.proc, "sys/kernel/randomize_va_space"))
	if b, err := readKernel(filepath.Join(r.etc, "os-release")); err == nil {
		f.set("os", parseOSRelease(b))
	}
	if f["os"] == "" {
		f["os"] = runtime.GOOS
	}
}

// goArch is the kernel's name of the architecture in Go's words, so that a kernel that has no such file
// (before 6.1) gives the same ID.
func goArch(kernel string) string {
	switch kernel {
	case "":
		return runtime.GOARCH
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return kernel
}

// chosen is the word in brackets of "always [madvise] never".
func chosen(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, ok := strings.Cut(s, "]")
	if !ok {
		return ""
	}
	return s
}

// parseOSRelease reads the PRETTY_NAME of os-release:
//
//	PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
func parseOSRelease(b []byte) string {
	for l := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(l), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

func (r roots) cpu(f facts) {
	if b, err := readKernel(filepath.Join(r.proc, "cpuinfo")); err == nil {
		c := parseCPUInfo(b)
		f.set("cpu_model", c.model)
		f.set("microcode", c.microcode)
		if c.cpus > 0 {
			f.set("cpus", strconv.Itoa(c.cpus))
		}
	}
	if n, err := ParseCPUs(line(r.sys, "devices/system/cpu/present")); err == nil && len(n) > 0 {
		f.set("cpus_present", strconv.Itoa(len(n)))
	}
	f.set("smt", line(r.sys, "devices/system/cpu/smt/control"))
	f.set("governor", r.distinct("devices/system/cpu/cpufreq/policy*/scaling_governor"))
	f.set("energy_preference", r.distinct("devices/system/cpu/cpufreq/policy*/energy_performance_preference"))
	switch {
	case line(r.sys, "devices/system/cpu/intel_pstate/no_turbo") != "":
		f.set("boost", map[string]string{"0": "on", "1": "off"}[line(r.sys, "devices/system/cpu/intel_pstate/no_turbo")])
	default:
		f.set("boost", map[string]string{"1": "on", "0": "off"}[line(r.sys, "devices/system/cpu/cpufreq/boost")])
	}
}

// distinct are the different values of files, sorted: "performance", or "performance,powersave".
func (r roots) distinct(glob string) string {
	paths, err := filepath.Glob(filepath.Join(r.sys, glob))
	if err != nil {
		return ""
	}
	var values []string
	for _, p := range paths {
		if v := line(p); v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return strings.Join(values, ",")
}

type cpuInfo struct {
	model, microcode string
	cpus             int
}

// parseCPUInfo reads /proc/cpuinfo. x86 names a model; ARM gives numbers, one block for each CPU:
//
//	processor	: 0
//	model name	: AMD EPYC 9354
//	microcode	: 0xa101148
//
//	processor	: 0
//	CPU implementer	: 0x41
//	CPU part	: 0xd40
func parseCPUInfo(b []byte) cpuInfo {
	var c cpuInfo
	var implementer, hardware string
	var parts []string
	for len(b) > 0 {
		var l []byte
		l, b, _ = bytes.Cut(b, []byte("\n"))
		name, value, ok := strings.Cut(string(l), ":")
		if !ok {
			continue
		}
		value = strings.Join(strings.Fields(value), " ")
		switch strings.TrimSpace(name) {
		case "processor":
			if _, err := strconv.ParseUint(value, 10, 32); err == nil {
				c.cpus++
			}
		case "model name":
			if c.model == "" {
				c.model = value
			}
		case "microcode":
			if c.microcode == "" {
				c.microcode = value
			}
		case "CPU implementer":
			implementer = value
		case "CPU part":
			if value != "" && !slices.Contains(parts, value) { // big and little cores
				parts = append(parts, value)
			}
		case "Hardware":
			hardware = value
		}
	}
	if c.model == "" && implementer != "" {
		slices.Sort(parts)
		c.model = strings.TrimSpace(hardware + " implementer " + implementer + " part " + strings.Join(parts, "+"))
	}
	return c
}

func (r roots) memory(f facts) {
	b, err := readKernel(filepath.Join(r.proc, "meminfo"))
	if err != nil {
		return
	}
	if mib, ok := parseMemTotal(b); ok {
		f.set("memory_mib", strconv.FormatInt(mib, 10))
	}
}

// parseMemTotal reads "MemTotal:       24683652 kB" in MiB.
func parseMemTotal(b []byte) (int64, bool) {
	for len(b) > 0 {
		var l []byte
		l, b, _ = bytes.Cut(b, []byte("\n"))
		w := strings.Fields(string(l))
		if len(w) == 3 && w[0] == "MemTotal:" && w[2] == "kB" {
			n, err := strconv.ParseInt(w[1], 10, 64)
			return n / 1024, err == nil && n > 0
		}
	}
	return 0, false
}

// cgroup says which cgroups there are, by the mount table: files at a guessed place mislead on hybrid
// hosts, where cgroup.controllers is not at the top.
func (r roots) cgroup(f facts) {
	b, err := readKernel(filepath.Join(r.proc, "self/mountinfo"))
	if err != nil {
		return
	}
	v1, v2 := parseCgroupMounts(b)
	switch {
	case v2 != "" && v1 > 0:
		f.set("cgroup", "hybrid")
	case v2 != "":
		f.set("cgroup", "v2")
	case v1 > 0:
		f.set("cgroup", "v1")
	}
	f.set("cgroup2_mount", v2)
}

// parseCgroupMounts counts mounts of version 1 and gives the place of version 2, from lines such as:
//
//	41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
//
// Optional fields stand before the dash, and blanks in names are \040.
func parseCgroupMounts(b []byte) (v1 int, v2 string) {
	for len(b) > 0 {
		var l []byte
		l, b, _ = bytes.Cut(b, []byte("\n"))
		mount, rest, ok := strings.Cut(string(l), " - ")
		w := strings.Fields(mount)
		kind := strings.Fields(rest)
		if !ok || len(w) < 6 || len(kind) == 0 {
			continue
		}
		switch kind[0] {
		case "cgroup":
			v1++
		case "cgroup2":
			if v2 == "" {
				v2 = unescape(w[4])
			}
		}
	}
	return v1, v2
}

// unescape undoes the mount table's \040 (blank), \011, \012 and \134 (backslash).
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// nvidia are the GPUs that the driver shows in /proc, in the order of their bus addresses.
func (r roots) nvidia() []GPU {
	files, err := filepath.Glob(filepath.Join(r.proc, "driver/nvidia/gpus/*/information"))
	if err != nil {
		return nil
	}
	driver := ""
	if b, err := readKernel(filepath.Join(r.proc, "driver/nvidia/version")); err == nil {
		driver = parseNvidiaVersion(b)
	}
	var out []GPU
	for _, p := range files {
		b, err := readKernel(p)
		if err != nil {
			continue
		}
		if g := parseNvidiaGPU(b); g.UUID != "" {
			g.Driver = driver
			out = append(out, g)
		}
	}
	return out
}

// parseNvidiaGPU reads (the UUID is question marks until the GPU is first used):
//
//	Model: 		 NVIDIA H200
//	GPU UUID: 	 GPU-0a1b2c3d-1111-2222-3333-444455556666
func parseNvidiaGPU(b []byte) (g GPU) {
	for l := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(l, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "Model":
			g.Name = value
		case "GPU UUID":
			if !strings.Contains(value, "?") {
				g.UUID = value
			}
		}
	}
	return g
}

// parseNvidiaVersion reads the version out of:
//
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
func parseNvidiaVersion(b []byte) string {
	first, _, _ := strings.Cut(string(b), "\n")
	for _, w := range strings.Fields(first) {
		digits := strings.Trim(w, "0123456789.") == ""
		if digits && strings.Contains(w, ".") {
			return w
		}
	}
	return ""
}
