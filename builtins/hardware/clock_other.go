//go:build !linux

package hardware

import "time"

var started = time.Now() // never written again: the zero of monotonic

func monotonic() int64 { return int64(time.Since(started)) }

func threadCPU() (ns int64, ok bool) { return 0, false }

func asleep() (seconds float64, ok bool) { return 0, false }
