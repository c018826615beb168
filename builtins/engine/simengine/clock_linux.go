package simengine

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is CLOCK_MONOTONIC itself, so that --truth is on the scale of every other process.
type monotonic struct{}

func newMonotonic() monotonic { return monotonic{} }

func (monotonic) now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot fail for this clock
	}
	return ts.Nano()
}

// sleepUntil uses the kernel's absolute sleep: the runtime's timers are rounded to a millisecond when
// nothing else runs.
func (m monotonic) sleepUntil(t int64) {
	ts := unix.NsecToTimespec(t)
	if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil); err != nil && err != unix.EINTR {
		time.Sleep(time.Duration(t - m.now()))
	}
}
