package client

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// serve gives every connection to answer.
func serve(t *testing.T, l net.Listener, answer func(conn net.Conn, in *bufio.Reader)) {
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			under := conn
			if over, ok := conn.(*tls.Conn); ok {
				under = over.NetConn()
			}
			_ = under.(*net.TCPConn).SetReadBuffer(64 << 10)
			go func() {
				defer conn.Close()
				answer(conn, bufio.NewReader(conn))
			}()
		}
	}()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// readRequest reads a request whole.
func readRequest(in *bufio.Reader) error {
	req, err := http.ReadRequest(in)
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	return err
}

// noneNegative holds the times of a row against the end of sending.
func noneNegative(t *testing.T, r record.Request) {
	t.Helper()
	for name, at := range map[string]*int64{"headers": r.HeadersNS, "first byte": r.FirstByteNS, "first choice": r.FirstChoiceNS, "first content": r.FirstContentNS, "close": r.CloseNS} {
		if at != nil && r.SentNS != nil && *at < *r.SentNS {
			t.Errorf("%s: %s after the end of sending", name, time.Duration(*at-*r.SentNS))
		}
	}
	if r.SentNS != nil && *r.SentNS < *r.StartNS {
		t.Errorf("sent %s after the start", time.Duration(*r.SentNS-*r.StartNS))
	}
	if i := slices.IndexFunc(r.ArrivalsUS, func(us int64) bool { return us < 0 }); i >= 0 {
		t.Errorf("frame %d came %d µs after the one before it", i, r.ArrivalsUS[i])
	}
}

// eachLink runs a test with the poller's connections, with those that a goroutine reads, and over TLS.
func eachLink(t *testing.T, answer func(conn net.Conn, in *bufio.Reader), test func(t *testing.T, c *Client)) {
	for _, name := range []string{"polled", "alone", "tls"} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			url := "http://" + l.Addr().String()
			if name == "tls" {
				s := httptest.NewTLSServer(nil)
				defer s.Close()
				file := filepath.Join(t.TempDir(), "ca.pem")
				if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
					t.Fatal(err)
				}
				t.Setenv("SSL_CERT_FILE", file)
				l, url = tls.NewListener(l, &tls.Config{Certificates: s.TLS.Certificates}), "https://"+l.Addr().String()
			}
			serve(t, l, answer)
			c := client(t, url, plan.APIChat)
			if name == "alone" {
				withoutKernel(c)
			}
			test(t, c)
		})
	}
}

func skipRoots(t *testing.T, r record.Request) {
	if strings.Contains(r.Error, "certificate") {
		t.Skipf("this system's roots cannot be replaced: %s", r.Error)
	}
}

// long is a prompt that no socket takes before the server reads.
var long = Prompt{Text: strings.Repeat("x", 8<<20), MaxTokens: 4}

// An answer that was written before the request could have been is no answer to it.
func TestAnsweredBeforeAsked(t *testing.T) {
	eachLink(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = io.WriteString(conn, sseHead+chunked(chatFrame("a")+finishFrame+doneFrame)+lastOne)
		_ = readRequest(in)
	}, func(t *testing.T, c *Client) {
		r := ask(t, c, long)
		skipRoots(t, r)
		noneNegative(t, r)
		if r.Status != statusError || r.ErrorKind != kindGarbage || r.Error != "answered before it was asked" || r.Text != "" || r.HeadersNS != nil {
			t.Errorf("got %s, %s, %q, text %q, headers %v, warnings %q, stamps of %s", r.Status, r.ErrorKind, r.Error, r.Text, r.HeadersNS, r.Warnings, r.StampSource)
		}
	})
}

// By hand: what was there before the last write began, by the socket and by the stamps.
func TestBeforeAsked(t *testing.T) {
	const began, us = int64(1e12), int64(time.Microsecond)
	stream := sseHead + chunked(chatFrame("a")+finishFrame+doneFrame) + lastOne
	refusal := "HTTP/1.1 413 No\r\nContent-Length: 8\r\n\r\ntoo long"
	interim := "HTTP/1.1 100 Continue\r\n\r\n"
	for name, tt := range map[string]struct {
		text  string
		early bool
		at    int64
		kind  string
		sent  bool
	}{
		"after":                        {stream, false, began + us, "", true},
		"after, an interim one before": {interim + stream, true, began + us, "", true},
		"clocks that differ":           {stream, false, began - 38*us, "", true},
		"was there, and then the end":  {stream, true, began + us, kindGarbage, true},
		"was there":                    {stream, true, began - 38*us, kindGarbage, true},
		"long before":                  {stream, false, began - 2760*us, kindGarbage, true},
		"refused before":               {refusal, true, began - 2760*us, kindHTTP, false},
		"refused after":                {refusal, false, began + us, kindHTTP, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Client{o: Options{API: plan.API{Kind: plan.APIChat}, Now: func() int64 { return began + 10*us }}}
			a := newAnswer(plan.APIChat, record.Request{StartNS: place(began)})
			_, err := c.converse(t.Context(), &wire{link: &prepared{began, tt.early, tt.text, stamp{ns: tt.at, kernel: true}}}, nil, a)
			r := a.finish(err)
			noneNegative(t, r)
			if r.ErrorKind != tt.kind || (r.SentNS != nil) != tt.sent {
				t.Errorf("got %s %s %q, sent %v", r.Status, r.ErrorKind, r.Error, r.SentNS)
			}
		})
	}
}

// A server that refuses a long request, and neither reads it nor hangs up, is heard.
func TestRefusedUnread(t *testing.T) {
	eachLink(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 413 No\r\nContent-Length: 8\r\n\r\ntoo long")
		<-t.Context().Done()
	}, func(t *testing.T, c *Client) {
		r := ask(t, c, long)
		skipRoots(t, r)
		noneNegative(t, r)
		if r.Status != statusError || r.ErrorKind != kindHTTP || r.Error != "HTTP 413: too long" || r.SentNS != nil {
			t.Errorf("got %s, %s, %q, sent %v", r.Status, r.ErrorKind, r.Error, r.SentNS)
		}
	})
}

// A server that has said something and reads on gets the whole request.
func TestInterimWhileWriting(t *testing.T) {
	eachLink(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		if readRequest(in) == nil {
			_, _ = io.WriteString(conn, sseHead+chunked(chatFrame("a")+finishFrame+doneFrame)+lastOne)
		}
	}, func(t *testing.T, c *Client) {
		r := ask(t, c, long)
		skipRoots(t, r)
		noneNegative(t, r)
		if r.Status != statusOK || r.Text != "a" || r.SentNS == nil {
			t.Errorf("got %s, %s, %q, sent %v", r.Status, r.ErrorKind, r.Error, r.SentNS)
		}
	})
}

// An engine that never stops is left, with what came until then.
func TestEndless(t *testing.T) {
	l := listen(t)
	serve(t, l, func(conn net.Conn, in *bufio.Reader) {
		if readRequest(in) != nil {
			return
		}
		_, _ = io.WriteString(conn, sseHead)
		for x := chunked(strings.Repeat(chatFrame("a"), 400)); ; {
			if _, err := io.WriteString(conn, x); err != nil {
				return
			}
		}
	})
	r := ask(t, client(t, "http://"+l.Addr().String(), plan.APIChat), Prompt{Text: "x", MaxTokens: 4})
	if r.Status != statusCut || r.ErrorKind != kindEndless || r.Frames != framesOf(4) || len(r.Text) != r.Frames || !strings.Contains(r.Error, "goes on after 65552 frames, with 4 tokens asked for") {
		t.Errorf("got %s, %s, %q, %d frames, %d bytes", r.Status, r.ErrorKind, r.Error, r.Frames, len(r.Text))
	}
	for _, tt := range []struct{ asked, most int }{{0, mostUnasked}, {-1, mostUnasked}, {256, 66560}, {1 << 18, 1114112}, {1 << 62, mostUnasked}} {
		if got := framesOf(tt.asked); got != tt.most {
			t.Errorf("%d tokens: got %d frames, want %d", tt.asked, got, tt.most)
		}
	}
}

// Few frames with much text are bounded too.
func TestEndlessText(t *testing.T) {
	a := newAnswer(plan.APIChat, record.Request{HTTPStatus: http.StatusOK})
	a.text = make([]byte, mostText)
	for _, want := range []bool{false, true} {
		err := a.onFrame([]byte(`{"choices":[{"delta":{"content":"a"}}]}`), stamp{})
		if (err != nil) != want {
			t.Errorf("with %d bytes: got %v", len(a.text), err)
		}
		if want {
			if r := a.finish(err); r.Status != statusCut || r.ErrorKind != kindEndless {
				t.Errorf("got %s, %s, %q", r.Status, r.ErrorKind, r.Error)
			}
		}
	}
}

// Bytes after a whole answer cost the connection, not the answer; an empty line before one costs nothing.
func TestBytesBetweenAnswers(t *testing.T) {
	body := `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`
	whole := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	stream := sseHead + chunked(chatFrame("a")+finishFrame+doneFrame) + lastOne
	for name, tt := range map[string]struct {
		answer string
		extra  bool
	}{
		"length":                 {whole, false},
		"length and a line end":  {whole + "\r\n", true},
		"line end before":        {"\r\n" + whole, true},
		"chunked":                {stream, false},
		"chunked and a line end": {stream + "\r\n", true},
		"chunked and another":    {stream + stream, true},
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			l := listen(t)
			serve(t, l, func(conn net.Conn, in *bufio.Reader) {
				for conns.Add(1); readRequest(in) == nil; {
					_, _ = io.WriteString(conn, tt.answer)
				}
			})
			c := client(t, "http://"+l.Addr().String(), plan.APIChat)
			for range 2 {
				r := ask(t, c, Prompt{Text: "x"})
				if r.Status != statusOK || r.Text != "a" {
					t.Errorf("got %s, %s, %q, text %q", r.Status, r.ErrorKind, r.Error, r.Text)
				}
				if got := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "belong to no answer") }); got != tt.extra {
					t.Errorf("warnings %q", r.Warnings)
				}
			}
			want := int32(1)
			if tt.extra {
				want = 2
			}
			if got := conns.Load(); got != want {
				t.Errorf("got %d connections, want %d", got, want)
			}
		})
	}
}

// A connection that is reset after the last frame is not one that was still open a while after it.
func TestResetAfterDone(t *testing.T) {
	eachLink(t, func(conn net.Conn, in *bufio.Reader) {
		if readRequest(in) != nil {
			return
		}
		_, _ = io.WriteString(conn, sseHead+chunked(chatFrame("a")+finishFrame+doneFrame))
		if under, ok := conn.(*tls.Conn); ok {
			conn = under.NetConn()
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}, func(t *testing.T, c *Client) {
		r := ask(t, c, Prompt{Text: "x"})
		skipRoots(t, r)
		warned("the connection broke after the last frame of the answer: ")(t, r)
		if r.Status != statusOK || r.Text != "a" || len(r.Warnings) != 1 {
			t.Errorf("got %s, %s, %q, warnings %q", r.Status, r.ErrorKind, r.Error, r.Warnings)
		}
	})
}
