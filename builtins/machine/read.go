package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
)

// kernelMost is how much of a file of the kernel's is read: /proc/cpuinfo of a thousand CPUs is about 2 MiB.
const kernelMost = 16 << 20

// readKernel reads a file below /proc or /sys, or below another root in their place.
func readKernel(path string) ([]byte, error) { return readRegular(path, kernelMost) }

// readRegular reads at most so much of a regular file.
func readRegular(path string, most int64) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

var errNotRegular = errors.New("not a regular file")

// OpenRegular opens a file for reading and refuses what is none: a device has no end, and a pipe that nobody
// writes to would be waited for.
func OpenRegular(path string) (*os.File, error) { return openRegular(path, os.O_RDONLY, 0) }

func openRegular(path string, flags int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, errNotRegular)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// stateMost is how much of a file in one of flow's own folders is read: they are a few hundred bytes, and what
// others put there may be anything.
const stateMost = 64 << 20

// readState reads a file of a folder of flow's own. One that is no regular file is an error, and not waited for.
func readState(path string) ([]byte, error) { return readRegular(path, stateMost) }

// openState opens a file of a folder that others may write to, as flags say. A pipe that somebody put there
// would be waited for, and a link leads elsewhere: both are refused.
func openState(path string, flags int, mode os.FileMode) (*os.File, error) {
	return openRegular(path, flags|syscall.O_NOFOLLOW, mode)
}

// namesIn lists what is in a folder, sorted; like OpenRegular it waits for nothing.
func namesIn(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}
