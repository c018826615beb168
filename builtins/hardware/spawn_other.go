//go:build !linux

package hardware

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a command into a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func startOwned(cmd *exec.Cmd) (release func(), err error) {
	return func() {}, cmd.Start()
}
