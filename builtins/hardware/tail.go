package hardware

// A collector that is a file: somebody else writes it, flow looks for what is new. It may grow, be written
// anew as a whole, or be replaced.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// pollFile is how often a file is looked at.
const pollFile = 200 * time.Millisecond

// follow reads a file that grows, or that is written anew as a whole.
func (x *collected) follow(ctx context.Context) error {
	p := x.c.File
	if x.c.Dir != "" && !strings.HasPrefix(p, "/") {
		p = x.c.Dir + "/" + p
	}
	t := &tail{path: p, x: x, f: newFormat(x.c.Format), places: map[string]int{}}
	tick := time.NewTicker(pollFile)
	defer tick.Stop()
	for {
		if err := t.look(); err != nil && x.nothingYet() {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// tail is a file under the eyes of flow.
type tail struct {
	path   string
	x      *collected
	f      format
	was    os.FileInfo
	offset int64
	rest   []byte // of a line that has no end yet
	begun  bool
	places map[string]int // of names among the values that were there at first
}

// tailFirst is how much of what is already there is read: enough for one line of each format.
const tailFirst = 256 << 10

func (t *tail) look() error {
	info, err := os.Stat(t.path)
	if err != nil {
		why, fix := reason(t.path, err)
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%s (%s)", why, fix)
		}
		return errors.New(why)
	}
	age := time.Duration(t.x.o.Wall() - info.ModTime().UnixNano())
	if age > t.x.c.Stale && !t.begun {
		return fmt.Errorf("stale: %s was last written %v ago, want within %v", t.path, age.Round(time.Second), t.x.c.Stale)
	}
	if t.was != nil && info.ModTime().Equal(t.was.ModTime()) && info.Size() == t.was.Size() && os.SameFile(info, t.was) {
		return nil
	}
	anew := t.was == nil || !os.SameFile(info, t.was) || info.Size() < t.offset || info.Size() == t.was.Size()
	t.was = info
	f, err := openRegular(t.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if anew {
		t.f.reset()
		t.offset, t.rest = 0, t.rest[:0]
	}
	at := t.x.o.Now()
	if !t.begun && info.Size() > tailFirst { // a long history: its heading and its end
		head := make([]byte, 4096)
		n, _ := f.ReadAt(head, 0)
		if i := bytes.IndexByte(head[:n], '\n'); i >= 0 {
			t.f.line(bytes.TrimRight(head[:i], "\r\n"), func(string, string, float64) {})
		}
		t.offset = info.Size() - tailFirst
		t.skipPart(f)
	}
	first := !t.begun
	t.begun = true
	b, err := io.ReadAll(io.NewSectionReader(f, t.offset, 8<<20))
	if err != nil {
		return err
	}
	t.offset += int64(len(b))
	t.rest = append(t.rest, b...)
	var last []func()
	for {
		i := bytes.IndexByte(t.rest, '\n')
		if i < 0 {
			break
		}
		line := bytes.TrimRight(t.rest[:i], "\r\n")
		if len(line) > 0 {
			t.f.line(line, t.newest(&last, first, at))
		}
		t.rest = t.rest[i+1:]
	}
	// A file that is written anew may end without a line end.
	if anew && len(t.rest) > 0 {
		t.f.line(t.rest, t.newest(&last, first, at))
		t.rest = nil
	}
	for _, give := range last {
		give()
	}
	t.x.tell()
	return nil
}

// newest holds values back where they are history: of what was in the file before, only the newest of each
// name is a measurement of now.
func (t *tail) newest(last *[]func(), first bool, at int64) found {
	take := t.x.take(at)
	if !first {
		return take
	}
	return func(name, unit string, v float64) {
		give := func() { take(name, unit, v) }
		if i, ok := t.places[name]; ok && i < len(*last) {
			(*last)[i] = give
			return
		}
		t.places[name] = len(*last)
		*last = append(*last, give)
	}
}

// skipPart moves to the beginning of the next line.
func (t *tail) skipPart(f *os.File) {
	b := make([]byte, 64<<10)
	n, _ := f.ReadAt(b, t.offset)
	if i := bytes.IndexByte(b[:n], '\n'); i >= 0 {
		t.offset += int64(i) + 1
	}
}
