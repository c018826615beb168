package hardware

import (
	"os/exec"
	"runtime"
	"syscall"
)

// ownGroup puts a command into a process group of its own, which ends with flow even when flow is killed.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startOwned starts a command from a thread that lives as long as the command: the kernel sends a
// parent-death signal when the thread ends that started the child, not the process.
func startOwned(cmd *exec.Cmd) (release func(), err error) {
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return runtime.UnlockOSThread, nil
}
