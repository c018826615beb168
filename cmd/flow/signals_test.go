package main

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// One Ctrl-C that arrives twice is one; a later one is another.
func TestSignalsTogetherAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		firsts, agains := 0, 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			watchSignals(signals, together, func(os.Signal) { firsts++ }, func() { agains++ })
		}()
		for _, wait := range []time.Duration{0, time.Millisecond, together / 2} {
			time.Sleep(wait)
			signals <- syscall.SIGINT
			synctest.Wait()
			if firsts != 1 || agains != 0 {
				t.Fatalf("after one more at %s: got %d first and %d again, want 1 and 0", wait, firsts, agains)
			}
		}
		time.Sleep(together)
		signals <- syscall.SIGINT
		<-done
		if firsts != 1 || agains != 1 {
			t.Fatalf("got %d first and %d again, want 1 of each", firsts, agains)
		}
	})
}
