package simengine

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is CLOCK_MONOTONIC, so that --truth is on the scale of every other process. The runtime reads the
// same clock without a system call but tells only differences: a reading of both gives the scale.
type monotonic struct {
	base time.Time
	at   int64 // CLOCK_MONOTONIC at base
}

// newMonotonic takes the tightest of a few readings.
func newMonotonic() (m monotonic) {
	width := int64(math.MaxInt64)
	for range 10 {
		before := absolute()
		now := time.Now()
		after := absolute()
		if after-before < width {
			width, m = after-before, monotonic{base: now, at: before + (after-before)/2}
		}
	}
	return m
}

// absolute is CLOCK_MONOTONIC by a system call.
func absolute() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot fail for this clock
	}
	return ts.Nano()
}

func (m monotonic) now() int64 { return m.at + int64(time.Since(m.base)) }

// sleepUntil uses the kernel's absolute sleep: the runtime's timers are rounded to a millisecond when
// nothing else runs.
func (m monotonic) sleepUntil(t int64) {
	ts := unix.NsecToTimespec(t)
	if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil); err != nil && err != unix.EINTR {
		time.Sleep(time.Duration(t - m.now()))
	}
}
