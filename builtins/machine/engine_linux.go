package machine

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnCPUs runs f on a thread that is bound to the CPUs (all when nil): a process that f starts inherits them
// before its first instruction.
func OnCPUs(cpus []int, f func() error) error {
	if len(cpus) == 0 {
		return f()
	}
	runtime.LockOSThread()
	var old, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("bind to CPUs %v: %w", cpus, err)
	}
	err := f()
	if back := unix.SchedSetaffinity(0, &old); back == nil {
		runtime.UnlockOSThread() // otherwise the thread ends with its goroutine
	}
	return err
}

// dropFile asks the kernel to forget a file's pages. Dirty ones stay.
func dropFile(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// dropRange is dropFile for a part.
func dropRange(f *os.File, at, n int64) {
	_ = unix.Fadvise(int(f.Fd()), at, n, unix.FADV_DONTNEED) // advice: reading goes on without
}

// openUncached opens a file past the page cache where the file system can; direct says whether it does.
func openUncached(path string) (f *os.File, direct bool, err error) {
	if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0); err == nil {
		return f, true, nil
	}
	f, err = os.Open(path)
	return f, false, err
}
