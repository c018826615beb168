package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"flow/workflows/record"
)

// Statuses of a request.
const (
	statusOK    = "ok"
	statusError = "error" // there is no answer, or it says that it is wrong
	statusCut   = "cut"   // an answer began and did not end: what came is kept
)

// Kinds of error. The record's documentation lists them.
const (
	kindRequest   = "request" // it could not even be written: a mistake in the workflow
	kindConnect   = "connect"
	kindHTTP      = "http"
	kindStream    = "stream" // the engine said so in the middle of a stream
	kindTimeout   = "timeout"
	kindClosed    = "closed"
	kindGarbage   = "garbage"
	kindEndless   = "endless" // more than is kept of an answer
	kindCancelled = "cancelled"
)

// lingerAfterDone bounds the wait for the end of a message whose last frame has come.
const lingerAfterDone = 2 * time.Second

// refusalWait is how long an answer is waited for when the request could not be written whole.
const refusalWait = 500 * time.Millisecond

// closedIdle is how soon after the request a kept connection must break to count as closed before it. Later
// the server may have read the request and died of it, and asking again would hide that.
const closedIdle = 20 * time.Millisecond

// maxBody bounds what is kept of an answer that is no stream.
const maxBody = 64 << 20

// Do makes one request. A failure is a row with a status, never an error.
func (c *Client) Do(ctx context.Context, p Prompt) record.Request {
	a := newAnswer(c.o.API.Kind, record.Request{
		Index: p.Index, Case: p.Case, Repeat: p.Repeat, Mark: p.Mark,
		PromptSHA: sha([]byte(p.Text)), Nonce: p.Nonce, ScheduledNS: p.ScheduledNS,
	})
	a.row.MaxTokens = c.o.asked(p)
	a.most = framesOf(a.row.MaxTokens)
	if p.Mark == record.MarkMeasured {
		a.onMark = c.o.OnMark
	}
	err := c.exchange(ctx, p, a)
	return a.finish(err)
}

// failure is why an exchange ended badly.
type failure struct {
	kind string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(kind string, err error) error { return &failure{kind, err} }

// exchange sends a request and reads its answer into a.
func (c *Client) exchange(ctx context.Context, p Prompt, a *answer) error {
	base, err := c.o.base()
	if err != nil {
		return fail(kindRequest, err)
	}
	path, err := c.o.path()
	if err != nil {
		return fail(kindRequest, err)
	}
	body, err := c.o.body(p)
	if err != nil {
		return fail(kindRequest, err)
	}
	a.row.BodySHA = sha(body)
	message, err := c.o.request(base, path, body)
	if err != nil {
		return fail(kindRequest, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, fmt.Errorf("no end after %s", c.o.Timeout))
	defer cancel()
	if err := ended(ctx); err != nil {
		return err
	}
	start := c.o.Now()
	a.row.StartNS = &start
	for w := c.pool.take(); ; w = nil {
		if w == nil {
			if w, err = c.dial(ctx, base); err != nil {
				if over := ended(ctx); over != nil {
					return over
				}
				return fail(kindConnect, err)
			}
		}
		again, err := c.converse(ctx, w, message, a)
		if !again {
			return err
		}
		// The server had closed the connection that we kept; nothing of the request was answered.
	}
}

// ended is why a context is over, nil when it is not.
func ended(ctx context.Context) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fail(kindTimeout, context.Cause(ctx))
	}
	return fail(kindCancelled, context.Cause(ctx))
}

// lateStamp is the warning of a request whose end of sending was stamped after its answer had arrived.
const lateStamp = "the answer came before the end of sending could be stamped: the start of its last write stands for it"

// converse writes the request to w and reads until the answer ends. again says that w was stale.
func (c *Client) converse(ctx context.Context, w *wire, message []byte, a *answer) (again bool, err error) {
	stop := context.AfterFunc(ctx, w.cut)
	var r *response
	defer func() {
		if stop() && r != nil && r.complete && r.keep && !again && err == nil {
			c.pool.put(w)
		} else {
			_ = w.Close()
		}
	}()
	offset := c.kernel.fresh()
	began, early, unsent := w.send(message, c.o.Now)
	sent := c.o.Now()
	a.began, a.early, a.unsent = began, early, unsent != nil
	switch over := ended(ctx); {
	case unsent == nil:
		a.row.SentNS = &sent
		a.mark()
	case over != nil:
		return false, over
	case w.reused && !errors.Is(unsent, errUnread):
		return true, nil
	default: // a server may refuse a long request before it has read it: its words are worth a look
		w.cutIn(refusalWait)
	}
	r = &response{onPayload: a.payload}
	r.onHeaders = func(resp *http.Response, at stamp) error {
		a.early = a.early && !r.interim && r.extra == 0
		return a.headers(resp, at)
	}
	lingering, decoding := false, false
	defer a.mark()
	w.deliver(func(b []byte, at stamp, broke error) taken {
		before := a.row.ContentFrames
		if len(b) > 0 {
			at = a.notBefore(at)
			a.read(at)
			if bad := r.feed(b, at); bad != nil {
				if err = bad; !errors.As(bad, new(*failure)) {
					err = fail(kindGarbage, bad)
				}
				return taken{over: true}
			}
			if !decoding && a.row.ContentFrames > 0 {
				decoding = true
				a.mark()
			}
		}
		switch {
		case broke != nil && w.reused && !r.started && ended(ctx) == nil && c.o.Now()-sent < int64(closedIdle):
			again = true
		case broke != nil && r.complete: // the answer was whole, whatever became of the connection
			r.keep = false
		case broke != nil && unsent != nil && !r.started:
			err = fail(kindClosed, fmt.Errorf("the request could not be written: %w", unsent))
		case broke != nil:
			err = c.broken(ctx, a, r, broke)
		}
		if broke == nil && a.row.DoneNS != nil && !r.complete && !lingering {
			lingering = true
			w.cutIn(lingerAfterDone)
			if ctx.Err() != nil { // its own deadline was just overwritten
				w.cut()
			}
		}
		return taken{over: r.complete || broke != nil, frames: a.row.ContentFrames - before}
	})
	if again || err != nil || !r.complete {
		return again, err
	}
	a.row.CloseNS = &r.endAt.ns
	if r.extra > 0 {
		a.warn("%d bytes came that belong to no answer: the connection is not used again", r.extra)
		r.keep = false
	}
	if moved := c.kernel.fresh() - offset; moved > int64(time.Millisecond) || moved < -int64(time.Millisecond) {
		a.warn("the wall clock was stepped by %s during the request: kernel stamps near the step may be off", time.Duration(moved))
	}
	return false, nil
}

// notBefore is a stamp held against the start of the last write: two clocks that agree to some microseconds may put
// an answer before its question, where the socket still was empty when the write began.
func (a *answer) notBefore(at stamp) stamp {
	if !a.early && at.ns < a.began && at.ns >= a.began-unsure {
		at.ns = a.began
	}
	return at
}

// asked holds the beginning of an answer against the end of sending, so that no time counted from there is
// negative. The machine may take the thread away between the last write and its stamp, while the kernel stamps
// the answer: then the start of that write stands for its end. What came before that start was not asked for: a
// stream is none of ours, and a refusal came before the request was sent. Bytes that were there by then say so
// even where their stamp is later: the kernel gives them that of the connection's end when that came before the read.
func (a *answer) asked(status int, at stamp) error {
	sent := a.row.SentNS
	before := a.unsent || a.early || at.ns < a.began
	switch {
	case before && status == http.StatusOK:
		return errors.New("answered before it was asked")
	case before:
		a.row.SentNS = nil
	case sent != nil && at.ns < *sent:
		if *sent-at.ns > int64(time.Millisecond) {
			a.warn(lateStamp)
		}
		a.row.SentNS = &a.began
	}
	return nil
}

// mark says that a phase of the request began or ended just now.
func (a *answer) mark() {
	if a.onMark != nil {
		a.onMark()
	}
}

// broken judges an error of the connection.
func (c *Client) broken(ctx context.Context, a *answer, r *response, err error) error {
	now := c.o.Now()
	if errors.Is(err, io.EOF) {
		a.row.CloseNS = &now
		if r.end(stamp{ns: now}) {
			return a.closed(now)
		}
		_ = a.closed(now)
		if !r.started {
			return fail(kindClosed, fmt.Errorf("the connection was closed before any answer"))
		}
		return fail(kindClosed, fmt.Errorf("the connection was closed in the middle of the answer"))
	}
	if over := ended(ctx); over != nil {
		return over
	}
	if a.row.DoneNS != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			a.warn("the answer was still open %s after its last frame", lingerAfterDone)
		} else {
			a.warn("the connection broke after the last frame of the answer: %v", err)
		}
		return nil
	}
	return fail(kindClosed, err)
}

// headers takes the status line.
func (a *answer) headers(resp *http.Response, at stamp) error {
	a.row.HTTPStatus = resp.StatusCode
	if err := a.asked(resp.StatusCode, at); err != nil {
		return err
	}
	a.row.HeadersNS = place(at.ns)
	kind := resp.Header.Get("Content-Type")
	a.whole = resp.StatusCode != http.StatusOK || !a.ollama && strings.Contains(kind, "json") && !strings.Contains(kind, "event-stream")
	return nil
}

// payload takes bytes of the body.
func (a *answer) payload(b []byte, at stamp) error {
	if a.row.FirstByteNS == nil {
		a.row.FirstByteNS = place(at.ns)
	}
	if !a.whole {
		if a.row.Frames == 0 && len(a.head) < errorHead {
			a.head = append(a.head, b[:min(len(b), errorHead-len(a.head))]...)
		}
		return a.events.feed(b, at)
	}
	if len(a.body)+len(b) > maxBody {
		return fmt.Errorf("answer of more than %d bytes that is no stream", maxBody)
	}
	a.body, a.bodyAt = append(a.body, b...), at
	return nil
}
