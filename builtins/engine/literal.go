package engine

// The dead-knob test. A knob that a program reads with getenv is a literal in its bytes; 12 of 21 knobs of
// one campaign were in no byte of the binary, and four of them were reported as neutral.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files beyond these sizes are not searched: a library of CUDA kernels is no place for knobs.
const (
	maxLibraryBytes = 256 << 20
	maxScriptBytes  = 16 << 20
)

// literalHit is what a search found.
type literalHit struct {
	found    bool
	observed string
	err      error
}

// literal searches the engine's binary, the scripts its command names, and the libraries and programs that
// its tree has mapped: knobs of llama.cpp, for one, are in libggml and not in llama-server.
func (p *Process) literal(text string) (bool, string, error) {
	if text == "" {
		return false, "", errors.New("got an empty literal")
	}
	if p.attached {
		return false, "", errAttachedEvidence
	}
	p.mu.Lock()
	hit, ok := p.literals[text]
	p.mu.Unlock()
	if ok && (hit.found || p.ended()) {
		return hit.found, hit.observed, hit.err
	}
	hit = searchFiles(p.codeFiles(), text)
	p.mu.Lock()
	if old := p.literals[text]; old.found {
		hit = old
	}
	p.literals[text] = hit
	p.mu.Unlock()
	return hit.found, hit.observed, hit.err
}

// codeFiles is the binary first.
func (p *Process) codeFiles() []string {
	files := []string{p.info.Binary}
	add := func(path string, max int64) {
		if slices.Contains(files, path) {
			return
		}
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Size() <= max {
			files = append(files, path)
		}
	}
	for _, arg := range p.info.Argv[1:] {
		if strings.Contains(arg, ".") && !slices.Contains(p.engine.Files, arg) {
			add(absolute(p.info.Dir, arg), maxScriptBytes)
		}
	}
	for _, pid := range p.Tree() {
		for _, m := range mapped(pid) {
			add(m, maxLibraryBytes)
		}
	}
	return files
}

func searchFiles(files []string, text string) literalHit {
	var partial, failed string
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			failed = err.Error()
			continue
		}
		whole, part, err := searchLiteral(f, text)
		_ = f.Close()
		if err != nil {
			failed = err.Error()
			continue
		}
		if whole >= 0 {
			return literalHit{found: true, observed: fmt.Sprintf("%s, byte %d", filepath.Base(path), whole)}
		}
		if part >= 0 && partial == "" {
			partial = fmt.Sprintf("only within longer names (%s, byte %d)", filepath.Base(path), part)
		}
	}
	if partial == "" && failed != "" {
		return literalHit{err: errors.New(failed)}
	}
	return literalHit{observed: partial}
}

// searchLiteral gives the offsets of the first whole literal and of the first that only begins a longer
// name, -1 for none. C ends a literal with a NUL, and any byte that cannot continue a name will do. Go and
// Rust pack theirs without one, so in their files every place counts.
func searchLiteral(r io.Reader, text string) (whole, part int64, err error) {
	const chunk = 1 << 20
	goMark, rustMark := []byte("\xff Go buildinf:"), []byte("/rustc/")
	want := []byte(text)
	overlap := max(len(want)+1, 32)
	buf := make([]byte, 0, chunk+overlap)
	whole, part = -1, -1
	packed := false
	base := int64(0) // offset of buf[0]
	for {
		n, rerr := io.ReadFull(r, buf[len(buf):len(buf)+chunk])
		buf = buf[:len(buf)+n]
		end := rerr != nil
		packed = packed || bytes.Contains(buf, goMark) || bytes.Contains(buf, rustMark)
		for at := 0; ; {
			i := bytes.Index(buf[at:], want)
			if i < 0 {
				break
			}
			i += at
			after := i + len(want)
			if after == len(buf) && !end {
				break // whether the name goes on is in the next chunk
			}
			if after == len(buf) || !isNameByte(buf[after], false, false) {
				return base + int64(i), part, nil
			}
			if part < 0 {
				part = base + int64(i)
			}
			at = i + 1
		}
		if end {
			if rerr != io.EOF && rerr != io.ErrUnexpectedEOF {
				return -1, -1, rerr
			}
			if packed && part >= 0 {
				return part, -1, nil
			}
			return -1, part, nil
		}
		keep := min(overlap, len(buf))
		base += int64(len(buf) - keep)
		copy(buf, buf[len(buf)-keep:])
		buf = buf[:keep]
	}
}
