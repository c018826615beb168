//go:build !linux

package simengine

import "time"

// monotonic counts from the engine's start: other systems give no portable absolute scale.
type monotonic struct{ base time.Time }

func newMonotonic() monotonic { return monotonic{time.Now()} }

func (m monotonic) now() int64 { return int64(time.Since(m.base)) }

func (m monotonic) sleepUntil(t int64) { time.Sleep(time.Duration(t - m.now())) }
