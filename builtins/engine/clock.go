package engine

import "golang.org/x/sys/unix"

// monotonicNS is the machine's monotonic clock, the same for flow and its supervisors.
func monotonicNS() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // no Unix is without it
	}
	return ts.Nano()
}
