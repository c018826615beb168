package hardware

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// residence is a mapped file.
type residence struct {
	b   []byte
	vec []byte
}

// residenceChunk is how many pages are asked at once.
const residenceChunk = 1 << 16

func openResidence(path string) (*residence, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, errors.New("not a file with content")
	}
	owner := false
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(st.Uid) == os.Geteuid() || os.Geteuid() == 0
	}
	if !owner && unix.Access(path, unix.W_OK) != nil {
		return nil, errors.New("the kernel tells which pages are resident only to those who own the file or may write it")
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	return &residence{b: b, vec: make([]byte, residenceChunk)}, nil
}

// resident is the share of the file's pages that are in memory.
func (r *residence) resident() (float64, error) {
	page := os.Getpagesize()
	pages, there := (len(r.b)+page-1)/page, 0
	for at := 0; at < pages; at += residenceChunk {
		n := min(residenceChunk, pages-at)
		size := min(n*page, len(r.b)-at*page)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&r.b[at*page])), uintptr(size), uintptr(unsafe.Pointer(&r.vec[0]))); errno != 0 {
			return 0, fmt.Errorf("mincore: %w", errno)
		}
		for _, v := range r.vec[:n] {
			there += int(v & 1)
		}
	}
	return float64(there) / float64(pages), nil
}

func (r *residence) close() error {
	if r == nil || r.b == nil {
		return nil
	}
	b := r.b
	r.b = nil
	return unix.Munmap(b)
}

func deviceOf(path string) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), nil
}
