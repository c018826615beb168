package hardware

// Kernel text: a file that stays open, and the few things one needs to read numbers out of its bytes
// without making garbage. fmt.Sscan and strings.Fields allocate; at 10 Hz over a night that is the
// garbage collector's work on the engine's cores.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
)

// file is a text file of the kernel, read from its beginning each time into the same buffer.
type file struct {
	path string
	f    *os.File
	buf  []byte
}

// maxText bounds what a file may be: /proc/stat of a machine with a thousand CPUs is about 200 KiB.
const maxText = 16 << 20

func openFile(o Options, path string) (*file, error) {
	f, err := o.OpenFile(path)
	if err != nil {
		return nil, err
	}
	return &file{path: path, f: f, buf: make([]byte, 4096)}, nil
}

// openRegular opens a file for reading and refuses what is none: a pipe below another root, or in the place
// of a collector's file, would be waited for until somebody writes into it.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// namesIn lists a folder, sorted; like openRegular it does not wait for a pipe in its place.
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

// read gives the whole text, valid until the next read.
func (f *file) read() ([]byte, error) {
	n := 0
	for {
		if n == len(f.buf) {
			if n >= maxText {
				return nil, errors.New(f.path + ": longer than 16 MiB")
			}
			f.buf = append(f.buf, make([]byte, n)...)
		}
		m, err := f.f.ReadAt(f.buf[n:], int64(n)) // pread: no seek, and no shared offset
		n += m
		if err == io.EOF {
			return f.buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (f *file) close() error {
	if f == nil {
		return nil
	}
	return f.f.Close()
}

// number is a value that may not be there.
type number struct {
	v  uint64
	ok bool
}

// cutLine is the first line of b, without its end, and the rest.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// cutField is the first word of a line and what comes after it; nil when there is none.
func cutField(b []byte) (field, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	j := i
	for j < len(b) && b[j] != ' ' && b[j] != '\t' {
		j++
	}
	if i == j {
		return nil, nil
	}
	return b[i:j], b[j:]
}

// skipFields drops n words.
func skipFields(b []byte, n int) []byte {
	for ; n > 0; n-- {
		_, b = cutField(b)
	}
	return b
}

// uintOf reads decimal digits and nothing else. It refuses what does not fit.
func uintOf(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := uint64(c - '0')
		if v > (1<<64-1-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	return v, true
}

// numberOf is uintOf as a number.
func numberOf(b []byte) number {
	v, ok := uintOf(b)
	return number{v, ok}
}

// decimalOf reads "12", "0.05": digits with at most one point between them.
func decimalOf(b []byte) (float64, bool) {
	whole, frac := b, []byte(nil)
	if i := bytes.IndexByte(b, '.'); i >= 0 {
		whole, frac = b[:i], b[i+1:]
		if len(frac) == 0 || len(frac) > 15 {
			return 0, false
		}
	}
	v, ok := uintOf(whole)
	if !ok {
		return 0, false
	}
	if frac == nil {
		return float64(v), true
	}
	f, ok := uintOf(frac)
	if !ok {
		return 0, false
	}
	scale := 1.0
	for range frac {
		scale *= 10
	}
	return (float64(v)*scale + float64(f)) / scale, true // one rounding, as strconv does, while it fits in 53 bits
}
