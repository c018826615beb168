// Package machine says what the machine is and keeps two measurements from meeting on it: identity,
// digests and receipts of files, locks on resources, settling, host settings with their undo journal, and
// where flow keeps its own state.
//
// Its opinion: an identity is made of what stays the same when the machine is switched off and on; a lock
// dies with the process that holds it and its message says who that is; a file is hashed once; a setting is
// changed only when what it was is on disk, and is put back as it was, never as it is believed to be. Sensors
// are in builtins/hardware, engines in builtins/engine.
package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"flow/starlark/diag"
)

// Wall is nanoseconds since the Unix epoch. It may be set back; intervals are taken from Monotonic.
func Wall() int64 { return time.Now().UnixNano() }

// Settle waits until pause has passed on the clock now (Monotonic when nil), or until ctx ends, whose
// cause it returns.
func Settle(ctx context.Context, pause time.Duration, now func() int64) error {
	if now == nil {
		now = Monotonic
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	end := now() + int64(pause)
	for {
		left := end - now()
		if left <= 0 {
			return nil
		}
		t := time.NewTimer(time.Duration(left))
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C: // look again: the clock given may be slower than the timer's
		}
	}
}

// StateDir is where flow keeps what may be lost without harm (digests of files): $XDG_STATE_HOME/flow, or
// .local/state/flow in the home directory. It is made when it is not there.
func StateDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // relative values are to be ignored, says the XDG specification
		home, err := os.UserHomeDir()
		if err != nil {
			return "", &diag.Error{Kind: diag.Machine, Op: "state directory", Msg: "no home directory", Err: err,
				Fix: "set XDG_STATE_HOME to a directory that you can write"}
		}
		base = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(base, "flow")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", &diag.Error{Kind: diag.Machine, Op: "state directory", Err: fmt.Errorf("make %s: %w", dir, err),
			Fix: "set XDG_STATE_HOME to a directory that you can write"}
	}
	return dir, nil
}
