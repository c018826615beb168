package script

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"

	"flow/starlark/diag"
)

// MemoryError is the cause of a load that was given up because the heap grew too much. Part of the language
// cannot be interrupted ([0] * 1000000000 is one step), so the process may hold the memory, and go on
// filling it, until it ends: whoever gets this error should end soon.
type MemoryError struct{ Limit uint64 }

func (m *MemoryError) Error() string {
	return fmt.Sprintf("this took more than %.3g GiB of memory", float64(m.Limit)/(1<<30))
}

const memoryFix = "hold less: no list of a range of millions, no text doubled in a loop"

// The watch on the heap looks this often. A large allocation counts before it is filled, so what is really
// used is little more than the limit.
const memoryPace = 5 * time.Millisecond

// heap is what objects hold, garbage included.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// BoundMemory runs fn and gives it up when the heap has grown by more than limit bytes (0 is DefaultMemory), or
// when ctx ends: fn's context then ends, and after a moment it is left to itself, and the error names at. It is
// for what has no effects. A single copy of gigabytes holds the scheduler too and is seen late; bounded refuses
// most of that before it is begun.
func BoundMemory(ctx context.Context, at diag.Pos, limit uint64, fn func(context.Context) error) error {
	if limit == 0 {
		limit = DefaultMemory
	}
	outer := ctx
	ctx, stop := WatchMemory(ctx, limit, memoryPace)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		if err != nil || outer.Err() != nil {
			return err // with the place
		}
	case <-time.After(grace + grace/5): // Load ends in a grace, and knows the file
	}
	return stopped(ctx, at, nil, nil)
}

// WatchMemory gives a context that ends when the heap has grown by more than limit bytes, with a MemoryError
// as its cause; Load and Call make a mistake in the workflow of that, at the line where it ended. It looks as
// often as pace says.
func WatchMemory(ctx context.Context, limit uint64, pace time.Duration) (_ context.Context, stop func()) {
	if heap() > limit/4 {
		runtime.GC() // what is garbage already would be room to grow unseen
	}
	start := heap()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				now := heap()
				if start = min(start, now); now > start+limit {
					cancel(&MemoryError{limit})
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}
