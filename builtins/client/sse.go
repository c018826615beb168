package client

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// sse cuts a stream of server-sent events into frames:
//
//	: keep-alive
//
//	data: {"choices":[{"delta":{"content":" river"}}]}
//
//	data: [DONE]
//
// Lines end with LF, CR LF or CR; a frame ends with an empty line and its stamp is that of the read that
// brought that line's end. Bytes may be cut anywhere. A frame that lies in one read is handed on without a
// copy, and the cost of a byte does not depend on how many came before it.
type sse struct {
	onFrame func(data []byte, at stamp) error

	part   []byte // a line whose end has not come
	data   []byte // the frame's data, when it cannot point into the read
	frame  []byte // the frame's only data line so far: a part of this read, or of data
	has    bool   // the frame has data
	cr     bool   // the last line ended with CR: an LF that follows belongs to it
	begun  bool
	lines  bool // not events but one frame a line (NDJSON)
	maxLen int  // of a frame in bytes; 64 MiB when zero
}

// feed takes the payload of one read.
func (s *sse) feed(b []byte, at stamp) error {
	for len(b) > 0 {
		if s.cr {
			s.cr = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		i := bytes.IndexByte(b, '\n')
		line := b
		if i >= 0 {
			line = b[:i]
		}
		if j := bytes.IndexByte(line, '\r'); j >= 0 {
			i, line, s.cr = j, b[:j], true
		}
		if i < 0 {
			s.part = append(s.part, b...)
			break
		}
		b = b[i+1:]
		kept := len(s.part) > 0
		if kept {
			s.part = append(s.part, line...)
			line = s.part
		}
		if err := s.line(line, at, kept); err != nil {
			return err
		}
		if kept {
			s.part = s.part[:0]
		}
	}
	// What a frame has so far points into the read; the next read overwrites it.
	if s.has && s.frame != nil {
		s.data = append(s.data[:0], s.frame...)
		s.frame = nil
	}
	return s.limit()
}

func (s *sse) limit() error {
	most := s.maxLen
	if most == 0 {
		most = 64 << 20
	}
	if n := len(s.part) + len(s.data); n > most {
		return fmt.Errorf("frame of %d bytes and more", n)
	}
	return nil
}

// line takes one line. kept says that it lies in s.part, which the next line may overwrite.
func (s *sse) line(line []byte, at stamp, kept bool) error {
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if s.lines {
		if len(line) == 0 {
			return nil
		}
		return s.onFrame(line, at)
	}
	if len(line) == 0 {
		return s.dispatch(at)
	}
	const field = "data"
	if line[0] != 'd' || !bytes.HasPrefix(line, []byte(field)) {
		return nil // a comment, event, id, retry: nothing that carries tokens
	}
	value := line[len(field):]
	if len(value) > 0 {
		if value[0] != ':' {
			return nil // another field
		}
		value = value[1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch {
	case !s.has && !kept:
		s.frame = value
	case !s.has:
		s.data = append(s.data[:0], value...)
	default:
		if s.frame != nil {
			s.data = append(s.data[:0], s.frame...)
			s.frame = nil
		}
		s.data = append(append(s.data, '\n'), value...)
	}
	s.has = true
	return nil
}

func (s *sse) dispatch(at stamp) error {
	if !s.has {
		return nil
	}
	data := s.frame
	if data == nil {
		data = s.data
	}
	s.has, s.frame = false, nil
	return s.onFrame(data, at)
}

// end is told that no more comes. A frame whose lines are whole counts though its empty line is missing;
// a line that was cut does not, unless it says that all is done.
func (s *sse) end(at stamp) error {
	if s.lines && len(s.part) > 0 {
		line := s.part
		s.part = nil
		if json.Valid(line) { // a last line needs no end, half a line is none
			return s.onFrame(line, at)
		}
		return nil
	}
	if string(s.part) == "data: [DONE]" || string(s.part) == "data:[DONE]" {
		line := s.part
		s.part = nil
		if err := s.line(line, at, true); err != nil {
			return err
		}
	}
	return s.dispatch(at)
}
