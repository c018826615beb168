package machine

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// hostFacts fills in what Linux has in /proc.
func hostFacts(f facts) {
	for name, key := range map[string]string{"cpu_model": "machdep.cpu.brand_string", "hostname": "kern.hostname", "kernel": "kern.osrelease", "model": "hw.model"} {
		if v, err := unix.Sysctl(key); err == nil {
			f.set(name, v)
		}
	}
	if v, err := unix.Sysctl("kern.osproductversion"); err == nil {
		f.set("os", "macOS "+v)
	}
	if n, err := unix.SysctlUint64("hw.memsize"); err == nil {
		f.set("memory_mib", strconv.FormatUint(n>>20, 10))
	}
	if n, err := unix.SysctlUint32("hw.ncpu"); err == nil {
		f.set("cpus", strconv.FormatUint(uint64(n), 10))
	}
}
