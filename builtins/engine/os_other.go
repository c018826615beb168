//go:build unix && !linux

package engine

// Elsewhere there is neither a subreaper nor /proc: the process group is what is owned.

import (
	"errors"
	"sync"
	"syscall"

	"flow/builtins/owner"
)

func becomeSubreaper() error { return nil }

func closeOnExec() {
	for fd := 3; fd < 256; fd++ {
		syscall.CloseOnExec(fd)
	}
}

func threadID() int { return 0 }

func engineAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func openCgroup(string) int { return -1 }

func intoCgroup(*syscall.SysProcAttr, int) {}

func outOfCgroup(*syscall.SysProcAttr) {}

func reapAll(lock sync.Locker, each func(pid int, ws syscall.WaitStatus)) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return
		}
		lock.Lock()
		each(pid, ws)
		lock.Unlock()
	}
}

func vmstatOOMKills() (uint64, bool) { return 0, false }

func startTicks(int) uint64 { return 0 }

func descendants(int, int) []owner.Stat { return nil }

func groupHasDescendant(pgid, _ int) bool { return syscall.Kill(-pgid, 0) == nil }

// portOwner cannot be told here; who answers is taken for ours.
func portOwner(int, []int) (free, ours bool, who string) { return false, true, "" }

func reservedPorts() (low, high int) { return 49152, 65535 }

func mapped(int) []string { return nil }

func readEnviron(int) (map[string]string, error) {
	return nil, errors.New("this system does not show the environment of a process")
}

func orphans(int) []owner.Stat { return nil }

func alive(pid int, _ uint64) bool { return pid > 0 && syscall.Kill(pid, 0) == nil }
