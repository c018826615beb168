//go:build !linux

package machine

import "time"

var started = time.Now() // never written again: the zero of Monotonic

// Monotonic is nanoseconds since the process began, on a clock that is not set back.
func Monotonic() int64 { return int64(time.Since(started)) }
