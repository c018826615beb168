package client

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pin keeps every thread of this process on some CPUs until undo. New threads take after the one that
// makes them. Processes that are started meanwhile do so too: launch the engine before.
func Pin(cpus []int) (undo func(), err error) {
	var want, before unix.CPUSet
	for _, n := range cpus {
		want.Set(n)
	}
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("pinning the client: %w", err)
	}
	if err := pinAll(&want); err != nil {
		_ = pinAll(&before)
		return nil, fmt.Errorf("pinning the client to %v: %w", cpus, err)
	}
	return func() { _ = pinAll(&before) }, nil
}

// pinAll sets the threads there are, twice: one may have been made while the first round ran.
func pinAll(set *unix.CPUSet) error {
	for range 2 {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			if err := unix.SchedSetaffinity(tid, set); err != nil && err != unix.ESRCH {
				return err
			}
		}
	}
	return nil
}
