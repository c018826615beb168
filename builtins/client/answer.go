package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strings"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// errorHead is how much of a strange answer an error shows.
const errorHead = 300

// answer collects the facts of one answer as its frames come in. The cost of a frame does not grow with
// their number: what is kept of each is its arrival and its text.
type answer struct {
	row    record.Request
	native bool // llama.cpp's own API
	ollama bool // one object a line

	onMark func() // Options.OnMark, for a measured request

	began  int64 // when the last piece of the request began to be written
	early  bool  // its answer began before that
	unsent bool  // the request was not written whole

	events   sse
	scanner  scanner
	usage    scanner // a second one: the first is inside a frame
	frame    frame
	text     []byte
	most     int       // frames that are kept; mostUnasked when zero
	thought  hash.Hash // of the reasoning; nil when there was none
	arrivals []int64   // per frame, ns
	kernel   int       // reads that the kernel stamped
	lastRead int       // number of the read that brought the last content frame

	tokens     []int // per content frame
	unknown    bool  // a content frame did not say how many
	lastTokens int   // tokens up to the last content frame

	lastChoice, lastContent int64 // 0 is none; in the row at the end, so that a frame allocates nothing

	ended     bool // a finish reason, a stop frame or [DONE] came
	after     int  // frames after [DONE]
	garbage   int  // frames that are no JSON object
	firstBad  string
	errFrame  string
	rawUsage  []byte
	rawTimes  []byte
	predicted int // native: as the last frame says; -1 unknown
	evaluated int

	whole  bool // the body is no stream
	body   []byte
	bodyAt stamp
	head   []byte // of a body in which no frame was found
}

func newAnswer(kind string, row record.Request) *answer {
	a := &answer{row: row, native: kind == plan.APILlama, ollama: kind == plan.APIOllama, predicted: -1, evaluated: -1}
	a.events.onFrame, a.events.lines = a.onFrame, a.ollama
	return a
}

func (a *answer) warn(format string, args ...any) {
	a.row.Warnings = append(a.row.Warnings, fmt.Sprintf(format, args...))
}

// read counts a read of the socket.
func (a *answer) read(at stamp) {
	a.row.Reads++
	if at.kernel {
		a.kernel++
	}
}

// closed takes what an ended connection leaves over.
func (a *answer) closed(now int64) error {
	if a.whole {
		return nil
	}
	at := now
	if n := len(a.arrivals); n > 0 {
		at = a.arrivals[n-1]
	}
	return a.events.end(stamp{ns: at})
}

// An answer may have more frames than tokens, and an engine may not know our word for the most tokens; but one
// that never ends must not fill the memory until its time is over.
const (
	framesPerToken = 4
	framesAtLeast  = 64 << 10
	mostUnasked    = 2 << 20 // where nobody knows how many tokens were asked for
	mostText       = 64 << 20
)

// framesOf is how many frames an answer of so many tokens may have; 0 is unknown.
func framesOf(tokens int) int {
	if tokens <= 0 {
		return mostUnasked
	}
	return min(framesPerToken*min(tokens, mostUnasked)+framesAtLeast, mostUnasked)
}

// endless says that enough was kept of this answer.
func (a *answer) endless() error {
	most := a.most
	if most == 0 {
		most = mostUnasked
	}
	switch {
	case a.row.Frames >= most && a.row.MaxTokens > 0:
		return fail(kindEndless, fmt.Errorf("the answer goes on after %d frames, with %d tokens asked for: no more is read", a.row.Frames, a.row.MaxTokens))
	case a.row.Frames >= most:
		return fail(kindEndless, fmt.Errorf("the answer goes on after %d frames: no more is read", a.row.Frames))
	case len(a.text) > mostText:
		return fail(kindEndless, fmt.Errorf("the answer goes on after %d bytes of text: no more is read", len(a.text)))
	}
	return nil
}

// onFrame takes one message of the stream.
func (a *answer) onFrame(data []byte, at stamp) error {
	if len(data) == 0 {
		return nil
	}
	if data[0] != '{' && string(bytes.TrimSpace(data)) == "[DONE]" {
		if a.row.DoneNS == nil {
			a.row.DoneNS = place(at.ns)
		}
		a.ended = true
		return nil
	}
	if a.row.DoneNS != nil && !a.native && !a.ollama {
		a.after++
		return nil
	}
	if err := a.endless(); err != nil {
		return err
	}
	a.row.Frames++
	a.arrivals = append(a.arrivals, at.ns)
	before := a.row.ContentFrames
	defer func() {
		if a.row.ContentFrames == before {
			a.row.BlankFrames = append(a.row.BlankFrames, a.row.Frames-1)
		}
	}()
	if !a.frame.parse(&a.scanner, data) {
		a.garbage++
		if a.garbage == 1 {
			a.firstBad = fmt.Sprintf("frame %d is no JSON object: %.80q", a.row.Frames, data)
		}
		return nil
	}
	a.facts(&a.frame, at.ns)
	return nil
}

// facts takes what a frame says.
func (a *answer) facts(f *frame, at int64) {
	if f.failure != nil {
		if a.errFrame == "" {
			a.errFrame = message(f.failure)
		}
		return
	}
	if f.choice || a.native || a.ollama {
		if a.row.FirstChoiceNS == nil {
			a.row.FirstChoiceNS = place(at)
		}
		a.lastChoice = at
	} else {
		a.row.OtherFrames = append(a.row.OtherFrames, a.row.Frames-1)
	}
	if f.predicted >= 0 {
		a.predicted = f.predicted
	}
	if f.evaluated >= 0 {
		a.evaluated = f.evaluated
	}
	if f.usage != nil {
		a.rawUsage = append(a.rawUsage[:0], f.usage...)
		a.row.UsageNS = place(at)
	}
	if f.timings != nil {
		a.rawTimes = append(a.rawTimes[:0], f.timings...)
	}
	if len(f.reasoning) > 0 {
		if a.thought == nil {
			a.thought = sha256.New()
			a.row.FirstReasoningNS = place(at)
		}
		a.thought.Write(f.reasoning)
	}
	if len(f.text) > 0 || f.tool {
		if a.row.FirstContentNS == nil {
			a.row.FirstContentNS = place(at)
		}
		a.text = append(a.text, f.text...)
	}
	if len(f.text) > 0 || f.tool || len(f.reasoning) > 0 {
		if a.row.ContentFrames++; a.row.ContentFrames > 1 && a.lastRead == a.row.Reads {
			a.row.Coalesced++
		}
		a.lastRead = a.row.Reads
		a.lastContent = at
		a.count(f)
	}
	if f.finish != "" {
		a.row.FinishReason, a.ended = f.finish, true
	}
	if (a.native || a.ollama) && f.stop {
		a.ended = true
		a.row.DoneNS, a.row.UsageNS = place(at), place(at) // its last frame is both
		a.row.FinishReason = finishOf(f.stopType)
	}
	if a.ollama && f.stop {
		a.rawTimes = append(a.rawTimes[:0], f.durations()...)
	}
}

// place keeps a time. A function of its own, so that the frames that keep none allocate none.
func place(at int64) *int64 { return &at }

// finishOf puts llama.cpp's stop types into the words of the other APIs.
func finishOf(stopType string) string {
	switch stopType {
	case "limit":
		return "length"
	case "eos", "word":
		return "stop"
	}
	return stopType
}

// count keeps the tokens of a content frame, where the engine says how many there are so far. A frame
// without text adds its tokens to the next one that has some.
func (a *answer) count(f *frame) {
	so := -1
	switch {
	case a.ollama: // a line is a token or more, and none says how many
	case a.native && f.predicted >= 0:
		so = f.predicted
	case a.native && f.ids >= 0:
		so = a.lastTokens + f.ids
	case f.usage != nil:
		so = a.within(f.usage, "completion_tokens")
	case f.timings != nil:
		so = a.within(f.timings, "predicted_n")
	}
	if so < a.lastTokens {
		a.unknown = true
		return
	}
	a.tokens = append(a.tokens, so-a.lastTokens)
	a.lastTokens = so
}

// within reads one whole number of a frame's object; -1 is none.
func (a *answer) within(object []byte, name string) int {
	n := -1
	a.usage.b, a.usage.i = object, 0
	a.usage.object(func(key []byte) bool {
		if string(key) == name {
			return integer(&a.usage, &n)
		}
		return a.usage.skip(0)
	})
	return n
}

// finish judges the answer and gives the row.
func (a *answer) finish(err error) record.Request {
	if a.whole && a.row.HTTPStatus == http.StatusOK && err == nil {
		a.oneBody()
	}
	row := &a.row
	if a.lastChoice != 0 {
		row.LastChoiceNS = place(a.lastChoice)
	}
	if a.lastContent != 0 {
		row.LastContentNS = place(a.lastContent)
	}
	a.judge(err)
	a.numbers()
	row.StampSource = "read"
	if 2*a.kernel > row.Reads {
		row.StampSource = "kernel"
		if missing := row.Reads - a.kernel; missing > 0 {
			a.warn("%d of %d reads had no stamp of the kernel and got the later one", missing, row.Reads)
		}
	}
	if row.SentNS != nil && len(a.arrivals) > 0 {
		row.ArrivalsUS = make([]int64, len(a.arrivals))
		last := *row.SentNS / 1000 // of absolute microseconds, so that rounding never adds up
		for i, ns := range a.arrivals {
			row.ArrivalsUS[i] = ns/1000 - last
			last = ns / 1000
		}
	}
	row.Text = string(a.text)
	if row.ContentFrames > 0 || row.Status == statusOK {
		row.TextSHA = sha(a.text)
	}
	if a.thought != nil {
		row.ReasoningSHA = hex.EncodeToString(a.thought.Sum(nil))
	}
	return *row
}

// oneBody reads an answer that came whole instead of as a stream.
func (a *answer) oneBody() {
	a.warn("the answer was not a stream: there is no time per token")
	if len(bytes.TrimSpace(a.body)) > 0 {
		_ = a.onFrame(a.body, a.bodyAt)
	}
	a.ended = a.ended || a.row.ContentFrames > 0
}

// judge sets status, kind and error. What the engine said counts more than how the connection ended.
func (a *answer) judge(err error) {
	row := &a.row
	set := func(status, kind, format string, args ...any) {
		row.Status, row.ErrorKind, row.Error = status, kind, fmt.Sprintf(format, args...)
	}
	began := statusError
	if row.ContentFrames > 0 || row.HTTPStatus == http.StatusOK {
		began = statusCut
	}
	var f *failure
	switch {
	case row.HTTPStatus != 0 && row.HTTPStatus != http.StatusOK:
		set(statusError, kindHTTP, "HTTP %d: %s", row.HTTPStatus, message(a.body))
	case a.errFrame != "":
		set(statusError, kindStream, "%s", a.errFrame)
	case a.garbage > 0:
		set(statusError, kindGarbage, "%s", a.firstBad)
		if a.garbage > 1 {
			row.Error += fmt.Sprintf(" (and %d more)", a.garbage-1)
		}
	case a.ended:
		row.Status = statusOK
		switch {
		case err != nil:
			a.warn("after the end of the answer: %v", err)
		case row.DoneNS == nil && !a.whole && !a.native && !a.ollama:
			a.warn("there was no [DONE]")
		}
		if a.after > 0 {
			a.warn("%d frames after [DONE] were not read", a.after)
		}
	case errors.As(err, &f):
		if f.kind == kindGarbage || f.kind == kindConnect || f.kind == kindRequest {
			began = statusError
		}
		set(began, f.kind, "%v", err)
	case err != nil:
		set(began, kindGarbage, "%v", err)
	case row.Frames == 0:
		set(statusError, kindGarbage, "the answer has no frames: %.80q", append(a.head, a.body[:min(len(a.body), errorHead)]...))
	default:
		set(statusCut, kindClosed, "the stream ended without a finish reason or [DONE]")
	}
}

// message is what an error body says: its message when it has one, else its head.
func message(body []byte) string {
	fields, _ := members(body)
	for _, m := range fields {
		switch m.key {
		case "error":
			return message(m.value)
		case "message", "detail":
			var text string
			if json.Unmarshal(m.value, &text) == nil && text != "" {
				return text
			}
		}
	}
	var text string
	if json.Unmarshal(body, &text) == nil {
		return text
	}
	text = strings.ToValidUTF8(strings.TrimSpace(string(body[:min(len(body), errorHead)])), "\uFFFD")
	if text == "" {
		return "no message"
	}
	return text
}
