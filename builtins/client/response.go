package client

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

var errEOF = io.EOF

// response takes an HTTP/1.x response apart as its bytes come in and hands the payload on with the stamp
// of the read that brought it. Payload is never copied.
type response struct {
	onHeaders func(*http.Response, stamp) error
	onPayload func([]byte, stamp) error

	state    respState
	head     []byte // of the status line and headers, or of a chunk's size line
	left     int64  // payload bytes of the chunk, or of the body
	complete bool
	endAt    stamp
	keep     bool // the connection may be used again
	started  bool // a byte came
	extra    int  // bytes that belong to no answer
	interim  bool // an interim answer came
}

type respState uint8

const (
	inHead      respState = iota
	inLength              // a body of known length
	inClose               // a body that ends with the connection
	inSize                // chunked: the size line
	inChunk               // chunked: the payload
	inChunkEnd            // chunked: the line end after it
	inTrailer             // chunked: trailers up to an empty line
	inDone                // nothing more is expected
	maxHead     = 1 << 20 // bytes of headers
	maxSizeLine = 4 << 10
)

// feed takes the bytes of one read.
func (r *response) feed(b []byte, at stamp) error {
	r.started = r.started || len(b) > 0
	for len(b) > 0 {
		switch r.state {
		case inHead:
			if c := b[0]; len(r.head) == 0 && (c == '\r' || c == '\n') { // some servers end an answer with an empty line
				r.extra++
				b = b[1:]
				continue
			}
			rest, err := r.headers(b, at)
			if err != nil {
				return err
			}
			b = rest
		case inLength, inChunk:
			n := min(int64(len(b)), r.left)
			if err := r.onPayload(b[:n], at); err != nil {
				return err
			}
			b = b[n:]
			r.left -= n
			if r.left == 0 {
				if r.state == inLength {
					r.finish(at)
				} else {
					r.state = inChunkEnd
				}
			}
		case inClose:
			return r.onPayload(b, at)
		case inChunkEnd:
			line, rest, ok := r.line(b)
			b = rest
			if !ok {
				break
			}
			if len(line) != 0 {
				return fmt.Errorf("chunk is longer than its size says")
			}
			r.head, r.state = r.head[:0], inSize
		case inSize:
			line, rest, ok := r.line(b)
			b = rest
			if !ok {
				break
			}
			n, err := chunkSize(line)
			if err != nil {
				return err
			}
			r.head = r.head[:0]
			if r.left, r.state = n, inChunk; n == 0 {
				r.state = inTrailer
			}
		case inTrailer:
			line, rest, ok := r.line(b)
			b = rest
			if !ok {
				break
			}
			empty := len(line) == 0
			r.head = r.head[:0]
			if empty {
				r.finish(at)
			}
		case inDone: // the answer is whole, but who knows what the next bytes are
			r.extra += len(b)
			r.keep = false
			return nil
		}
		if len(r.head) > maxHead || r.state != inHead && len(r.head) > maxSizeLine {
			return fmt.Errorf("line of %d bytes and more in the answer's frame", len(r.head))
		}
	}
	return nil
}

func (r *response) finish(at stamp) { r.state, r.complete, r.endAt = inDone, true, at }

// line collects a line across reads; ok says that it is whole. The line has no line end.
func (r *response) line(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		r.head = append(r.head, b...)
		return nil, nil, false
	}
	line = b[:i]
	if len(r.head) > 0 {
		r.head = append(r.head, line...)
		line = r.head
	}
	return bytes.TrimSuffix(line, []byte{'\r'}), b[i+1:], true
}

// headers collects the head of the answer; what is behind it is given back.
func (r *response) headers(b []byte, at stamp) ([]byte, error) {
	from := max(0, len(r.head)-3)
	r.head = append(r.head, b...)
	end, size := headEnd(r.head, from)
	if end < 0 {
		return nil, nil
	}
	rest := b[len(b)-(len(r.head)-end-size):]
	resp, err := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(r.head[:end+size]), end+size), nil)
	if err != nil {
		return nil, fmt.Errorf("malformed headers: %w", err)
	}
	r.head = r.head[:0]
	if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		r.interim = true
		return rest, nil // an interim answer; the real one follows
	}
	r.keep = !resp.Close && resp.ProtoAtLeast(1, 1)
	switch {
	case len(resp.TransferEncoding) > 0:
		r.state = inSize
	case resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified || resp.ContentLength == 0:
		r.finish(at)
	case resp.ContentLength > 0:
		r.state, r.left = inLength, resp.ContentLength
	default:
		r.state, r.keep = inClose, false
	}
	return rest, r.onHeaders(resp, at)
}

// headEnd is where the empty line after the headers begins, and its length with the line end before it.
func headEnd(b []byte, from int) (at, size int) {
	if i := bytes.Index(b[from:], []byte("\r\n\r\n")); i >= 0 {
		if j := bytes.Index(b[from:from+i+1], []byte("\n\n")); j < 0 {
			return from + i, 4
		}
	}
	if i := bytes.Index(b[from:], []byte("\n\n")); i >= 0 {
		return from + i, 2
	}
	return -1, 0
}

// chunkSize reads "1a3" or "1a3;name=value".
func chunkSize(line []byte) (int64, error) {
	text, _, _ := strings.Cut(string(line), ";")
	text = strings.Trim(text, " \t")
	if text == "" || len(text) > 15 {
		return 0, fmt.Errorf("got chunk size %.40q, want a hexadecimal number", line)
	}
	var n int64
	for _, c := range []byte(text) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, fmt.Errorf("got chunk size %.40q, want a hexadecimal number", line)
		}
		n = n<<4 | int64(c)
	}
	return n, nil
}

// end is told that the connection ended at a time. It says whether the answer was whole.
func (r *response) end(at stamp) bool {
	if r.state == inClose {
		r.finish(at)
	}
	r.keep = false
	return r.complete
}
