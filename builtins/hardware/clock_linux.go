package hardware

import "golang.org/x/sys/unix"

// monotonic is CLOCK_MONOTONIC in nanoseconds, the clock of every *NS in a record.
func monotonic() int64 { return clock(unix.CLOCK_MONOTONIC) }

// threadCPU is the CPU time of the calling thread in nanoseconds; ok is false where the system has none.
func threadCPU() (ns int64, ok bool) { return clock(unix.CLOCK_THREAD_CPUTIME_ID), true }

func clock(id int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic("hardware: clock_gettime: " + err.Error()) // both clocks exist on every Linux that Go runs on
	}
	return t.Nano()
}

// asleep is how long the machine was suspended since it booted.
func asleep() (seconds float64, ok bool) {
	return float64(clock(unix.CLOCK_BOOTTIME)-clock(unix.CLOCK_MONOTONIC)) / 1e9, true
}
