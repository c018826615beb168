package client

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// frame is what one message of a stream says, whatever API it belongs to. The slices are valid until the
// next frame.
type frame struct {
	choice    bool   // chat, completions: `choices` is not empty
	text      []byte // the answer's
	reasoning []byte // the reasoning's, under either of its names
	tool      bool   // a piece of a tool call: tokens without text
	finish    string
	usage     []byte // raw object, nil when absent or null
	timings   []byte
	failure   []byte // raw value of `error`

	// llama.cpp's own API.
	stop      bool
	stopType  string
	ids       int // token ids of this frame, -1 when not said
	predicted int // tokens so far, -1 when not said
	evaluated int // prompt tokens, -1 when not said

	// Ollama's own API: raw numbers of its last line, nil when not said.
	evalCount, evalNS, promptCount, promptNS, loadNS, totalNS []byte

	textBuf, reasonBuf []byte

	known     pattern
	bare      bool // read by the pattern: nothing but the text and the choice is set
	takes     int  // texts that this frame had so far
	from, end int  // where the last of them lies in the frame, without its quotes; 0, 0 where it has escapes
}

// pattern is a frame that said one text and nothing else. An engine writes thousands of frames that differ in
// that text alone: a frame that is the same before and after it, with a plain string in between, means the
// same, and need not be read as JSON again.
type pattern struct {
	head, tail []byte // with the quotes around the text; no head is no pattern
	reasoning  bool
	choice     bool
}

// like reads data by the pattern; false is a frame of another kind.
func (f *frame) like(data []byte) bool {
	p := &f.known
	if len(p.head) == 0 || len(data) < len(p.head)+len(p.tail) || !bytes.HasPrefix(data, p.head) || !bytes.HasSuffix(data, p.tail) {
		return false
	}
	text := data[len(p.head) : len(data)-len(p.tail)]
	ascii := true
	for _, c := range text {
		if c < 0x20 || c == '"' || c == '\\' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if !ascii && !utf8.Valid(text) {
		return false
	}
	if !f.bare {
		f.reset()
		f.bare = true
	}
	f.choice, f.text, f.reasoning = p.choice, nil, nil
	switch {
	case len(text) == 0:
	case p.reasoning:
		f.reasoning = text
	default:
		f.text = text
	}
	return true
}

// learn keeps data as the pattern where it said one plain text and nothing else.
func (f *frame) learn(data []byte) {
	alone := f.takes == 1 && f.end > 0 && (len(f.text) > 0) != (len(f.reasoning) > 0) && !f.tool && f.finish == "" &&
		f.usage == nil && f.timings == nil && f.failure == nil && !f.stop && f.stopType == "" && f.ids < 0 && f.predicted < 0 && f.evaluated < 0 &&
		f.evalCount == nil && f.evalNS == nil && f.promptCount == nil && f.promptNS == nil && f.loadNS == nil && f.totalNS == nil
	if !alone {
		return
	}
	f.known.head, f.known.tail = append(f.known.head[:0], data[:f.from]...), append(f.known.tail[:0], data[f.end:]...)
	f.known.reasoning, f.known.choice = len(f.reasoning) > 0, f.choice
}

func (f *frame) reset() {
	*f = frame{ids: -1, predicted: -1, evaluated: -1, textBuf: f.textBuf[:0], reasonBuf: f.reasonBuf[:0], known: f.known}
}

// parse reads a frame; false is not a JSON object.
func (f *frame) parse(s *scanner, data []byte) bool {
	if f.like(data) {
		return true
	}
	f.reset()
	s.b, s.i = data, 0
	if f.fast(s) {
		f.learn(data)
		return true
	}
	f.reset()
	return f.slow(data)
}

func (f *frame) fast(s *scanner) bool {
	ok := s.object(func(key []byte) bool {
		switch string(key) {
		case "choices":
			return f.choices(s)
		case "content", "response":
			return f.take(s, &f.text, &f.textBuf)
		case "thinking":
			return f.take(s, &f.reasoning, &f.reasonBuf)
		case "message":
			return f.delta(s)
		case "usage":
			return object(s, &f.usage)
		case "timings":
			return object(s, &f.timings)
		case "error":
			return value(s, &f.failure)
		case "stop":
			f.stop = s.peek() == 't'
			return s.skip(0)
		case "done":
			f.stop = s.peek() == 't'
			return s.skip(0)
		case "stop_type", "done_reason":
			return word(s, &f.stopType)
		case "tokens":
			return f.tokens(s)
		case "tokens_predicted":
			return integer(s, &f.predicted)
		case "tokens_evaluated":
			return integer(s, &f.evaluated)
		}
		if to := f.duration(key); to != nil {
			return value(s, to)
		}
		return s.skip(0)
	})
	return ok && s.peek() == 0 && s.i == len(s.b)
}

func (f *frame) choices(s *scanner) bool {
	f.choice, f.finish, f.tool = false, "", false
	f.text, f.reasoning = nil, nil
	f.textBuf, f.reasonBuf = f.textBuf[:0], f.reasonBuf[:0]
	if s.peek() != '[' {
		return s.skip(0)
	}
	return s.array(func() bool {
		f.choice = true
		if s.peek() != '{' {
			return s.skip(0)
		}
		return s.object(func(key []byte) bool {
			switch string(key) {
			case "delta", "message":
				return f.delta(s)
			case "text":
				return f.take(s, &f.text, &f.textBuf)
			case "finish_reason":
				return word(s, &f.finish)
			}
			return s.skip(0)
		})
	})
}

func (f *frame) delta(s *scanner) bool {
	if s.peek() != '{' {
		return s.skip(0)
	}
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "content":
			return f.take(s, &f.text, &f.textBuf)
		case "reasoning_content", "reasoning", "thinking": // some servers send both names with the same text
			return f.take(s, &f.reasoning, &f.reasonBuf)
		case "tool_calls":
			f.tool = s.peek() == '['
			from := s.i
			ok := s.skip(0)
			f.tool = f.tool && s.i-from > len("[]")
			return ok
		}
		return s.skip(0)
	})
}

// take reads a text; what is no string says nothing. The text is copied: unescaping shares its scratch.
func (f *frame) take(s *scanner, to, buf *[]byte) bool {
	if s.peek() != '"' {
		return s.skip(0)
	}
	text, ok := s.str()
	if len(text) > 0 {
		*buf = append((*buf)[:0], text...)
		*to = *buf
		f.takes++
		if f.from, f.end = 0, 0; s.plain {
			f.from, f.end = s.i-1-len(text), s.i-1
		}
	}
	return ok
}

func (f *frame) tokens(s *scanner) bool {
	if s.peek() != '[' {
		return s.skip(0)
	}
	f.ids = 0
	return s.array(func() bool { f.ids++; return s.skip(0) })
}

func object(s *scanner, to *[]byte) bool {
	is := s.peek() == '{'
	raw, ok := s.raw()
	if is {
		*to = raw
	}
	return ok
}

func value(s *scanner, to *[]byte) bool {
	null := s.peek() == 'n'
	raw, ok := s.raw()
	if !null {
		*to = raw
	}
	return ok
}

// word reads one of few strings, without allocating for the usual ones.
func word(s *scanner, to *string) bool {
	if s.peek() != '"' {
		return s.skip(0)
	}
	text, ok := s.str()
	switch string(text) {
	case "":
	case "stop":
		*to = "stop"
	case "length":
		*to = "length"
	default:
		*to = string(text)
	}
	return ok
}

func integer(s *scanner, to *int) bool {
	n, known, ok := s.integer()
	if known {
		*to = n
	}
	return ok
}

// slow reads a frame with the library: the meaning of fast, for what fast gave up on.
func (f *frame) slow(data []byte) bool {
	top, ok := members(data)
	if !ok {
		return false
	}
	for _, m := range top {
		switch m.key {
		case "choices":
			f.choice, f.finish, f.tool = false, "", false
			f.text, f.reasoning = nil, nil
			var list []json.RawMessage
			_ = json.Unmarshal(m.value, &list)
			for _, c := range list {
				f.choice = true
				f.slowChoice(c)
			}
		case "content", "response":
			f.slowText(m.value, &f.text)
		case "thinking":
			f.slowText(m.value, &f.reasoning)
		case "message":
			f.slowDelta(m.value)
		case "usage":
			slowObject(m.value, &f.usage)
		case "timings":
			slowObject(m.value, &f.timings)
		case "error":
			if string(m.value) != "null" {
				f.failure = m.value
			}
		case "stop":
			f.stop = string(m.value) == "true"
		case "done":
			f.stop = string(m.value) == "true"
		case "stop_type", "done_reason":
			slowWord(m.value, &f.stopType)
		case "tokens":
			var list []json.RawMessage
			if json.Unmarshal(m.value, &list) == nil && list != nil {
				f.ids = len(list)
			}
		case "tokens_predicted":
			slowInt(m.value, &f.predicted)
		case "tokens_evaluated":
			slowInt(m.value, &f.evaluated)
		default:
			if to := f.duration([]byte(m.key)); to != nil && string(m.value) != "null" {
				*to = m.value
			}
		}
	}
	return true
}

// duration is where a number of Ollama's last line goes, nil for any other name.
func (f *frame) duration(name []byte) *[]byte {
	switch string(name) {
	case "eval_count":
		return &f.evalCount
	case "eval_duration":
		return &f.evalNS
	case "prompt_eval_count":
		return &f.promptCount
	case "prompt_eval_duration":
		return &f.promptNS
	case "load_duration":
		return &f.loadNS
	case "total_duration":
		return &f.totalNS
	}
	return nil
}

// durations are those numbers as one object.
func (f *frame) durations() []byte {
	out := []byte{'{'}
	for _, m := range []struct {
		name string
		raw  []byte
	}{{"prompt_eval_count", f.promptCount}, {"prompt_eval_duration", f.promptNS}, {"eval_count", f.evalCount}, {"eval_duration", f.evalNS}, {"load_duration", f.loadNS}, {"total_duration", f.totalNS}} {
		if m.raw == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), m.name...), `":`...)
		out = append(out, m.raw...)
	}
	return append(out, '}')
}

func (f *frame) slowChoice(data []byte) {
	choice, _ := members(data)
	for _, m := range choice {
		switch m.key {
		case "text":
			f.slowText(m.value, &f.text)
		case "finish_reason":
			slowWord(m.value, &f.finish)
		case "delta", "message":
			f.slowDelta(m.value)
		}
	}
}

func (f *frame) slowDelta(data []byte) {
	delta, _ := members(data)
	for _, d := range delta {
		switch d.key {
		case "content":
			f.slowText(d.value, &f.text)
		case "reasoning_content", "reasoning", "thinking":
			f.slowText(d.value, &f.reasoning)
		case "tool_calls":
			f.tool = len(d.value) > len("[]") && d.value[0] == '['
		}
	}
}

func (f *frame) slowText(raw []byte, to *[]byte) {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		*to = []byte(text)
	}
}

func slowWord(raw []byte, to *string) {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		*to = text
	}
}

func slowInt(raw []byte, to *int) {
	if n, err := strconv.Atoi(string(raw)); err == nil {
		*to = n
	}
}

func slowObject(raw []byte, to *[]byte) {
	if len(raw) > 0 && raw[0] == '{' {
		*to = raw
	}
}
