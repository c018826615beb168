//go:build unix

package client

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTimeNow is what this process has used so far, the kernel's part included.
func processorTimeNow() (time.Duration, bool) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
