package machine

// What the machine says of itself in words: settings, the power source, its kernel log. Sensors are numbers;
// this is the rest of what a gate may ask for.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"flow/workflows/plan"
)

// Words are the names that Word knows.
func Words() []string {
	return []string{"governor", "epp", "boost", "thp", "swappiness", "power_source", "smt", "kernel_log"}
}

// Word answers one of Words, or the name of a sysctl. An answer that cannot be had is an error with the
// reason. kernel_log is not answered here: see KernelLog.
func (s Settings) Word(ctx context.Context, name string) (string, error) {
	s = s.withDefaults()
	switch name {
	case "governor", "epp", "boost", "thp":
		return s.Read(ctx, plan.HostSetting{Name: name})
	case "swappiness":
		return s.Read(ctx, plan.HostSetting{Name: plan.HostSysctl, Target: "vm.swappiness"})
	case "power_source":
		return powerSource(s.Sys)
	case "smt":
		if v := line(s.Sys, "devices/system/cpu/smt/control"); v != "" {
			return v, nil
		}
		return "", errors.New("the kernel does not say (devices/system/cpu/smt/control is not there)")
	}
	if strings.Contains(name, ".") {
		return s.Read(ctx, plan.HostSetting{Name: plan.HostSysctl, Target: name})
	}
	return "", fmt.Errorf("got %q, want one of %s or a sysctl such as vm.overcommit_memory", name, strings.Join(Words(), ", "))
}

// powerSource is "ac" or "battery". A machine without either kind of supply is on the mains.
func powerSource(sys string) (string, error) {
	dir := filepath.Join(sys, "class/power_supply")
	supplies, err := namesIn(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("%s is not there", dir)
	}
	battery := false
	for _, name := range supplies {
		d := filepath.Join(dir, name)
		switch line(d, "type") {
		case "Mains", "USB":
			if line(d, "online") == "1" {
				return "ac", nil
			}
		case "Battery":
			if line(d, "scope") == "Device" {
				continue // of a mouse
			}
			battery = true
			if line(d, "status") == "Discharging" {
				return "battery", nil
			}
		}
	}
	if battery && slices.ContainsFunc(supplies, func(name string) bool { return line(dir, name, "type") == "Mains" }) {
		return "battery", nil // the mains is there and off
	}
	return "ac", nil
}

// KernelLog follows the kernel's log from now on.
type KernelLog struct {
	f   *os.File
	err error
}

// OpenKernelLog opens path ("/dev/kmsg" when empty) at its end. A log that may not be read is no error here:
// New says why.
func OpenKernelLog(path string) *KernelLog {
	if path == "" {
		path = "/dev/kmsg"
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("the kernel's log may not be read (%w): run flow as root, or sudo sysctl kernel.dmesg_restrict=0", err)
	}
	return &KernelLog{f: f, err: err}
}

// mostKernelLog bounds what is kept of one arm.
const mostKernelLog = 64 << 10

// New is the lines that came since it was opened, without their prefixes.
func (k *KernelLog) New() (string, error) {
	if k.err != nil {
		return "", k.err
	}
	var out strings.Builder
	buf := make([]byte, 8<<10) // a record of /dev/kmsg is at most 8 KiB, and one read is one record
	for out.Len() < mostKernelLog {
		// The descriptor itself: the poller would wait for more.
		n, err := unix.Read(int(k.f.Fd()), buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE): // EPIPE: records were overwritten, go on with the next
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return out.String(), nil
		case err != nil:
			return out.String(), err
		}
		out.WriteString(kernelLines(string(buf[:n])))
	}
	return out.String(), nil
}

// Close gives the descriptor back.
func (k *KernelLog) Close() {
	if k.f != nil {
		_ = k.f.Close()
	}
}

// kernelLines takes the text out of records of /dev/kmsg:
//
//	6,1234,5678901,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.
//	 SUBSYSTEM=pci
func kernelLines(s string) string {
	var out strings.Builder
	for _, l := range strings.Split(s, "\n") {
		if l == "" || l[0] == ' ' { // a record's own fields
			continue
		}
		if head, text, ok := strings.Cut(l, ";"); ok && strings.Count(head, ",") >= 2 {
			l = text
		}
		out.WriteString(strings.ToValidUTF8(l, "?") + "\n")
	}
	return out.String()
}
