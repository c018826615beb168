package engine

// The log: what the engine wrote on standard output and standard error, from byte 0.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// logEnds is what is kept of either end of a huge log, tailBytes what a message shows.
const (
	logEnds   = 8 << 20
	tailBytes = 4 << 10
)

// Log is standard output and standard error together. Of a huge one it is head and tail with a line
// between them that says what is missing. Where standard output has a file of its own it follows after a
// line "--- standard output ---".
func (p *Process) Log() string {
	if p.attached {
		return ""
	}
	p.mu.Lock()
	final := p.finalLog
	p.mu.Unlock()
	if final != "" {
		return final
	}
	text, _ := p.readLog()
	return text
}

// Stdout is standard output alone; ok is false when it went into the log, because no metric of the engine
// is extracted from it.
func (p *Process) Stdout() (text string, ok bool) {
	if p.attached || !p.stdout {
		return "", false
	}
	text, _, err := readEnds(filepath.Join(p.out, StdoutFile), logEnds)
	return text, err == nil
}

func (p *Process) readLog() (text string, size int64) {
	text, size, err := readEnds(filepath.Join(p.out, LogFile), logEnds)
	if err != nil {
		text = fmt.Sprintf("--- flow could not read the log: %v ---\n", err)
	}
	if p.stdout {
		out, n, err := readEnds(filepath.Join(p.out, StdoutFile), logEnds)
		if err == nil && n > 0 {
			if text != "" && !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
			text += "--- standard output ---\n" + out
			size += n
		}
	}
	return text, size
}

// logTail is the end of the log for messages: whole lines where there are any.
func (p *Process) logTail() string {
	if p.attached {
		return ""
	}
	tail := tailOf(filepath.Join(p.out, LogFile))
	if p.stdout && strings.TrimSpace(tail) == "" {
		tail = tailOf(filepath.Join(p.out, StdoutFile))
	}
	return tail
}

func tailOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, st.Size()-tailBytes)
	b := make([]byte, st.Size()-from)
	n, _ := f.ReadAt(b, from)
	text := string(b[:n])
	if from > 0 {
		if i := strings.IndexByte(text, '\n'); i >= 0 && i+1 < len(text) {
			text = text[i+1:]
		}
	}
	return strings.TrimRight(strings.ToValidUTF8(text, "?"), "\n")
}

// readEnds reads a file whole, or its first and last keep bytes.
func readEnds(path string, keep int64) (text string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	size = st.Size()
	if size <= 2*keep {
		b, err := io.ReadAll(io.LimitReader(f, 2*keep)) // it may still grow
		return string(b), max(size, int64(len(b))), err
	}
	b := make([]byte, keep)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return "", size, err
	}
	head := string(b[:n])
	n, err = f.ReadAt(b, size-keep)
	if err != nil && err != io.EOF {
		return head, size, err
	}
	return head + fmt.Sprintf("\n--- flow left out %d bytes here ---\n", size-2*keep) + string(b[:n]), size, nil
}

// follower reads what is appended to a file.
type follower struct {
	path string
	f    *os.File
	part []byte // a line without its end
}

// lines gives the complete new lines, and the last incomplete one at every call until it is complete: a
// program that does not end its last line is heard as well. At most 16 MiB are read at a time.
func (l *follower) lines() []string {
	if l.f == nil {
		f, err := os.Open(l.path)
		if err != nil {
			return nil
		}
		l.f = f
	}
	b, err := io.ReadAll(io.LimitReader(l.f, 16<<20))
	if err != nil && len(b) == 0 {
		return nil
	}
	b = append(l.part, b...)
	var out []string
	for {
		i := strings.IndexByte(string(b), '\n')
		if i < 0 {
			break
		}
		out = append(out, string(b[:i]))
		b = b[i+1:]
	}
	if len(b) > 64<<10 {
		b = b[len(b)-64<<10:] // no line that says something is longer
	}
	l.part = append([]byte(nil), b...)
	if len(b) > 0 {
		out = append(out, string(b))
	}
	return out
}

func (l *follower) close() {
	if l.f != nil {
		_ = l.f.Close()
	}
}
