package owner

// The files that records are kept in. They lie in folders that others may write to as well, so nothing is
// opened there that could be waited for, lead elsewhere or have no end.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// recordMost is the most that a record takes; they are a few hundred bytes.
const recordMost = 1 << 20

// open opens a regular file for reading. A pipe that nobody writes to would be waited for.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			err = errors.New("it is a link")
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// read reads a small regular file.
func read(path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, recordMost+1))
	if err == nil && len(b) > recordMost {
		err = fmt.Errorf("it is larger than %d bytes", recordMost)
	}
	return b, err
}

// writeFile leaves the file open.
func writeFile(path string, r any) (*os.File, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(append(b, '\n'))
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return f, nil
}

// locked reports whether somebody holds the file.
func locked(path string) bool {
	f, err := open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// discard removes a file that nobody holds, and reports whether it did.
func discard(path string) bool {
	f, err := open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && os.Remove(path) == nil
}
