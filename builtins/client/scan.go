package client

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// scanner walks JSON once, without allocating, in the cases that streams are made of. Where it is not sure
// (bad UTF-8, deep nesting, anything malformed) it gives up and the slow reader decides. What it accepts
// is JSON, and it reads the same from it: a fuzz target holds it to that.
type scanner struct {
	b     []byte
	i     int
	text  []byte // scratch of unescaped strings
	plain bool   // the last string had no escapes
}

const maxDepth = 64

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek is the next byte that is no space; 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i >= len(s.b) {
		return 0
	}
	return s.b[s.i]
}

// str reads a string. The result is valid until the next call.
func (s *scanner) str() ([]byte, bool) {
	if s.peek() != '"' {
		return nil, false
	}
	start := s.i + 1
	plain, ascii := true, true
	for i := start; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			lit := s.b[start:i]
			s.i, s.plain = i+1, plain
			if !ascii && !utf8.Valid(lit) {
				return nil, false
			}
			if plain {
				return lit, true
			}
			return s.unescape(s.b[start-1 : i+1])
		case c == '\\':
			plain = false
			i++
		case c < 0x20:
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// unescape reads a string literal with escapes. The simple ones are done here; \u goes to the library.
func (s *scanner) unescape(lit []byte) ([]byte, bool) {
	out := s.text[:0]
	for i := 1; i < len(lit)-1; i++ {
		c := lit[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		i++
		switch lit[i] {
		case '"', '\\', '/':
			out = append(out, lit[i])
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		default:
			var whole string
			if json.Unmarshal(lit, &whole) != nil {
				return nil, false
			}
			out = append(s.text[:0], whole...)
			s.text = out
			return out, true
		}
	}
	s.text = out
	return out, true
}

// object calls field for every member; field must read the value.
func (s *scanner) object(field func(key []byte) bool) bool {
	if s.peek() != '{' {
		return false
	}
	s.i++
	if s.peek() == '}' {
		s.i++
		return true
	}
	for {
		key, ok := s.str()
		if !ok || s.peek() != ':' {
			return false
		}
		s.i++
		if !field(key) {
			return false
		}
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			return true
		default:
			return false
		}
	}
}

// array calls item for every element; item must read the value.
func (s *scanner) array(item func() bool) bool {
	if s.peek() != '[' {
		return false
	}
	s.i++
	if s.peek() == ']' {
		s.i++
		return true
	}
	for {
		if !item() {
			return false
		}
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return true
		default:
			return false
		}
	}
}

// raw skips a value and gives its bytes.
func (s *scanner) raw() ([]byte, bool) {
	s.space()
	start := s.i
	if !s.skip(0) {
		return nil, false
	}
	return s.b[start:s.i], true
}

func (s *scanner) skip(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch c := s.peek(); {
	case c == '"':
		_, ok := s.str()
		return ok
	case c == '{':
		return s.object(func([]byte) bool { return s.skip(depth + 1) })
	case c == '[':
		return s.array(func() bool { return s.skip(depth + 1) })
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return false
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

// number skips a number by JSON's grammar: no leading zeros, no bare dot.
func (s *scanner) number() bool {
	at := func(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }
	if at('-') {
		s.i++
	}
	if at('0') {
		s.i++
	} else if !s.digits() {
		return false
	}
	if at('.') {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if at('e') || at('E') {
		s.i++
		if at('+') || at('-') {
			s.i++
		}
		if !s.digits() {
			return false
		}
	}
	return true
}

// integer reads a whole number that fits; ok is false for anything else, and known for null and for
// numbers with a fraction, which are skipped.
func (s *scanner) integer() (n int, known, ok bool) {
	raw, ok := s.raw()
	if !ok {
		return 0, false, false
	}
	n, err := strconv.Atoi(string(raw))
	return n, err == nil, true
}
