package machine

import "golang.org/x/sys/unix"

// Monotonic is CLOCK_MONOTONIC in nanoseconds: the clock of every Mono*NS and *NS in a record.
func Monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("machine: clock_gettime: " + err.Error()) // it exists on every Linux that Go runs on
	}
	return t.Nano()
}
