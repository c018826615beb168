//go:build unix

package simengine

import (
	"os"
	"os/exec"
	"syscall"
)

// detached is this binary again, in a session of its own and with no streams.
func detached(args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// killSelf ends the process as a crash does: nothing is flushed, nothing is said.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
