//go:build !linux

package machine

import (
	"errors"
	"os"
)

// OnCPUs refuses where the system has no affinity.
func OnCPUs(cpus []int, f func() error) error {
	if len(cpus) > 0 {
		return errors.New("this system cannot bind a process to CPUs")
	}
	return f()
}

func dropFile(*os.File) error {
	return errors.New("this system cannot drop a file from its page cache")
}

func dropRange(*os.File, int64, int64) {}

func openUncached(path string) (f *os.File, direct bool, err error) {
	f, err = os.Open(path)
	return f, false, err
}
