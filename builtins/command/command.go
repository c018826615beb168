// Package command runs commands that come to an end. Its opinion: a command's end is the end of everything
// that it started. A child in the background that keeps the output open must not hang a session, and one
// that lives on would be measured along with what comes next; so a command is a process group of its own and
// carries a mark that its children inherit, one that calls setsid as well; what is left of it is ended after a
// short grace, and named.
package command

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"flow/builtins/owner"
)

// grace is how long children have after the command itself: to end, and to close its output. A cancelled
// command has as long between the request to end and the kill.
const grace = 500 * time.Millisecond

// killed is how long the kernel may take to end what was killed.
const killed = 2 * time.Second

// LeftError is a command that did what it should and left processes behind, which were ended.
type LeftError struct {
	Argv []string
	Left []string // what was left, such as "pid 47 (sleep 100)"
}

func (e *LeftError) Error() string {
	return strings.Join(e.Argv, " ") + " left " + strings.Join(e.Left, ", ") + " running behind it, which was ended"
}

// Run runs cmd, which must not have been made with a context, in a process group of its own. left names
// what outlived it and was ended. Of a ctx that ended the cause is the error, whatever cmd made of it.
func Run(ctx context.Context, cmd *exec.Cmd) (left []string, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	mark := owner.Of(ctx).Hold("command").ID()
	cmd.Env = owner.Mark(cmd.Environ(), mark)
	cmd.WaitDelay = grace // from the command's end on; then the pipes are closed
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pgid := cmd.Process.Pid
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		_ = syscall.Kill(-pgid, syscall.SIGTERM)
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-ended:
		case <-t.C:
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-watched
	wait := grace
	if errors.Is(err, exec.ErrWaitDelay) { // the command succeeded, and its children had their time
		err, wait = nil, 0
	}
	if ctx.Err() != nil {
		wait = 0
	}
	left = end(pgid, wait)
	strays, _ := owner.End(mark, wait)
	left = append(left, strays...)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return left, err
}

// end waits for a process group whose leader has ended to be empty, kills what is left after wait, and names
// what it killed.
func end(pgid int, wait time.Duration) (left []string) {
	if !vanishes(pgid, wait) {
		left = names(pgid)
		_ = syscall.Kill(-pgid, syscall.SIGKILL)
		vanishes(pgid, killed)
	}
	return left
}

// vanishes waits for a group to be empty.
func vanishes(pgid int, wait time.Duration) bool {
	end := time.Now().Add(wait)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if syscall.Kill(-pgid, 0) == syscall.ESRCH || len(names(pgid)) == 0 {
			return true
		}
		if !time.Now().Before(end) {
			return false
		}
		time.Sleep(pause)
	}
}
