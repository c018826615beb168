package hardware

import (
	"os"

	"golang.org/x/sys/unix"
)

func dropPages(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
