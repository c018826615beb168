package command

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func sh(script string, out *bytes.Buffer) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// gone waits for the process that a script printed the number of.
func gone(t *testing.T, printed string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(printed))
	if err != nil {
		t.Fatalf("got %q, want a pid", printed)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(pid, 0) != nil || !alive(pid) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("pid %d still runs", pid)
		}
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, script, out string
		code, left        int
	}{
		{"ends", "echo hello", "hello\n", 0, 0},
		{"fails", "echo no >&2; exit 3", "no\n", 3, 0},
		{"a child ends within the grace", "sleep 0.05 & echo x", "x\n", 0, 0},
		{"a child keeps the output", "sleep 600 & echo $!", "", 0, 1},
		{"a child closed the output", "sleep 600 >/dev/null 2>&1 & echo $!", "", 0, 1},
		{"a child leaves the session", "setsid sleep 600 >/dev/null 2>&1 & echo $!", "", 0, 1},
		{"a child ignores the signals", "(trap '' TERM HUP INT; sleep 600) & echo $!; exit 4", "", 4, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			cmd := sh(c.script, &out)
			left, err := Run(t.Context(), cmd)
			if c.code == 0 && err != nil || cmd.ProcessState.ExitCode() != c.code {
				t.Errorf("got %v and code %d, want code %d", err, cmd.ProcessState.ExitCode(), c.code)
			}
			if c.out != "" && out.String() != c.out {
				t.Errorf("got output %q, want %q", out.String(), c.out)
			}
			if len(left) < c.left || c.left == 0 && len(left) > 0 {
				t.Errorf("got left %q, want %d", left, c.left)
			}
			if c.left > 0 {
				gone(t, out.String())
			}
		})
	}
}

// A cancelled command ends at once, whatever its children do, and the cause is told.
func TestRunCancelled(t *testing.T) {
	why := errors.New("stopped by hand")
	for _, script := range []string{"echo $$; sleep 600", "trap '' TERM; echo $$; sleep 600; sleep 600", "sleep 600 & echo $!; wait"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		r := &ready{first: make(chan struct{})}
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout = r
		done := make(chan error, 1)
		go func() {
			_, err := Run(ctx, cmd)
			done <- err
		}()
		select {
		case <-r.first:
		case <-time.After(20 * time.Second):
			t.Error("no output")
		}
		cancel(why)
		select {
		case err := <-done:
			if !errors.Is(err, why) {
				t.Errorf("%s: got %v, want %v", script, err, why)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: hangs", script)
		}
		gone(t, r.kept.String())
	}
}

// ready tells of the first output. It embeds no buffer, whose ReadFrom would take the output past Write.
type ready struct {
	kept  bytes.Buffer
	first chan struct{}
	told  bool
}

func (r *ready) Write(b []byte) (int, error) {
	n, err := r.kept.Write(b)
	if !r.told {
		r.told = true
		close(r.first)
	}
	return n, err
}

func TestRunNoProgram(t *testing.T) {
	if _, err := Run(t.Context(), exec.Command("/no/such/program")); err == nil {
		t.Error("got no error for a program that is not there")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, exec.Command("true")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
}
