package simengine

import (
	"context"
	"time"
)

// clock is the engine's time, in nanoseconds on a monotonic scale.
type clock interface {
	now() int64
	// until waits for t and reports whether it came; false is a cancelled context. An exact wait spins
	// through its last stretch: the first and the last token of a generation fix its rate.
	until(ctx context.Context, t int64, exact bool) bool
}

const (
	slice = 20 * time.Millisecond  // longest uninterruptible sleep
	spin  = 400 * time.Microsecond // what an exact wait does not sleep
)

// realClock is the machine's.
type realClock struct{ monotonic }

func (c realClock) until(ctx context.Context, t int64, exact bool) bool {
	wake := t
	if exact {
		wake -= int64(spin)
	}
	for {
		now := c.now()
		if ctx.Err() != nil {
			return false
		}
		if now >= wake {
			break
		}
		c.sleepUntil(min(wake, now+int64(slice)))
	}
	for c.now() < t {
	}
	return ctx.Err() == nil
}

// virtualClock jumps: a bench with --fast takes no time and its rates have no error.
type virtualClock struct{ t int64 }

func (c *virtualClock) now() int64 { return c.t }

func (c *virtualClock) until(ctx context.Context, t int64, _ bool) bool {
	c.t = max(c.t, t)
	return ctx.Err() == nil
}
