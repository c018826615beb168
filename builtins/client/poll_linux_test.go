package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"flow/workflows/plan"
)

// Naps by hand: none for few streams, none before the frames' distance is known, an eighth of the shortest one
// after, and none again as soon as two frames came in one read.
func TestNap(t *testing.T) {
	const ms = int64(time.Millisecond)
	p := &poller{}
	c := &polled{}
	at := int64(1e12)
	frame := func(apart int64, frames int) {
		at += apart
		p.saw(c, stamp{ns: at, kernel: true}, taken{frames: frames})
	}
	if d := p.nap(32, 0); d != 0 {
		t.Errorf("before any frame: got %s", d)
	}
	for range 1000 {
		frame(8*ms, 1)
	}
	if d := p.nap(32, 0); d != time.Millisecond {
		t.Errorf("frames 8 ms apart: got a nap of %s, want an eighth", d)
	}
	if d := p.nap(napStreams-1, 0); d != 0 {
		t.Errorf("few streams: got %s", d)
	}
	if d := p.nap(32, 17*ms); d != 0 {
		t.Errorf("after a stall of two frames: got %s", d)
	}
	frame(2*ms, 1)
	if d := p.nap(32, 0); d != 250*time.Microsecond {
		t.Errorf("after a distance of 2 ms: got %s", d)
	}
	for range 1000 {
		frame(100*ms, 1)
	}
	if d := p.nap(32, 0); d != napMost {
		t.Errorf("slow streams: got %s, want the most", d)
	}
	frame(100*ms, 2)
	if d := p.nap(32, 0); d != 0 {
		t.Errorf("after two frames in a read: got %s", d)
	}
	for range 1000 {
		frame(100*ms, 1)
	}
	p.saw(c, stamp{ns: at + 100*ms}, taken{frames: 1})
	if d := p.nap(32, 0); d != 0 {
		t.Errorf("after a read that the kernel did not stamp: got %s", d)
	}
	for range 1000 {
		frame(100*ms, 1)
	}
	p.saw(&polled{}, stamp{ns: at}, taken{over: true})
	if d := p.nap(32, 0); d != 0 {
		t.Errorf("after an answer without frames: got %s", d)
	}
}

// Every way in which a link ends works alike for the poller's connections and for those that a goroutine
// each reads, which is what systems without kernel stamps have.
func TestLinks(t *testing.T) {
	for name, alone := range map[string]bool{"polled": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprint(w, chatFrame("a"))
				w.(http.Flusher).Flush()
				if r.Header.Get("X-Hold") != "" {
					select {
					case <-hold:
					case <-r.Context().Done():
					}
					return
				}
				_, _ = fmt.Fprint(w, finishFrame, doneFrame)
			}))
			defer srv.Close()
			defer close(hold)
			make := func(o Options) *Client {
				o.API.Kind, o.BaseURL, o.Now = plan.APIChat, srv.URL, clock()
				c := New(o)
				t.Cleanup(c.Close)
				if c.poller == nil && !alone {
					t.Skip("the kernel gives no stamps here")
				}
				if alone {
					withoutKernel(c)
				}
				return c
			}
			c := make(Options{})
			for i, want := range []string{"many at once", "again"} {
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						if r := c.Do(t.Context(), Prompt{Text: "x"}); r.Status != statusOK || r.Text != "a" || i == 0 && alone && r.StampSource == "kernel" {
							t.Errorf("%s: got %s %q, stamps of %q", want, r.Status, r.Error, r.StampSource)
						}
					})
				}
				all.Wait()
			}
			held := map[string]string{"X-Hold": "1"}
			if r := make(Options{API: plan.API{Headers: held}, Timeout: time.Second}).Do(t.Context(), Prompt{Text: "x"}); r.ErrorKind != kindTimeout || r.Text != "a" {
				t.Errorf("no end: got %s %s %q, text %q", r.Status, r.ErrorKind, r.Error, r.Text)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(30*time.Millisecond, cancel)
			if r := make(Options{API: plan.API{Headers: held}}).Do(ctx, Prompt{Text: "x"}); r.ErrorKind != kindCancelled {
				t.Errorf("cancelled: got %s %s %q", r.Status, r.ErrorKind, r.Error)
			}
		})
	}
}

// A server that never reads fills the sockets: the write waits, and the request's end ends it.
func TestWriteIsCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel connects, and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: "http://" + l.Addr().String(), Now: clock(), Timeout: 200 * time.Millisecond})
	defer c.Close()
	r := ask(t, c, Prompt{Text: strings.Repeat("the river turns at the stone ", 1<<20)})
	if r.ErrorKind != kindTimeout || r.SentNS != nil {
		t.Errorf("got %s %s %q, sent %v", r.Status, r.ErrorKind, r.Error, r.SentNS)
	}
}

// A client that is closed while a stream is open ends it properly: its goroutine stays until then.
func TestCloseWhileReading(t *testing.T) {
	var c *Client
	until := func(what string, is func() bool) {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			c.poller.mu.Lock()
			ok := is()
			c.poller.mu.Unlock()
			if ok {
				return
			}
			if time.Now().After(end) {
				t.Errorf("waited in vain: %s", what)
				return
			}
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, chatFrame("a"))
		w.(http.Flusher).Flush()
		until("the stream is read", func() bool { return len(c.poller.open) == 1 })
		c.Close()
		_, _ = fmt.Fprint(w, chatFrame("b"), finishFrame, doneFrame)
	}))
	defer srv.Close()
	c = New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: srv.URL, Now: clock()})
	if c.poller == nil {
		c.Close()
		t.Skip("the kernel gives no stamps here")
	}
	if r := ask(t, c, Prompt{Text: "x"}); r.Status != statusOK || r.Text != "ab" {
		t.Errorf("got %s %q, text %q", r.Status, r.Error, r.Text)
	}
	until("the goroutine ends", func() bool { return c.poller.gone })
}
