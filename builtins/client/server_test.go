package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"flow/builtins/engine/simengine"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// begin is the origin of the tests' clock: the client needs only that it is monotonic.
func clock() func() int64 {
	begin := time.Now()
	return func() int64 { return int64(time.Since(begin)) + 1e12 }
}

// sim is the embedded engine behind a real socket of this process.
func sim(t testing.TB, args ...string) *httptest.Server {
	t.Helper()
	h, err := simengine.Handler(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func client(t testing.TB, url, kind string) *Client {
	t.Helper()
	c := New(Options{API: plan.API{Kind: kind, Tokenize: "/tokenize", Metrics: "/metrics"}, BaseURL: url, Now: clock(), Timeout: 20 * time.Second})
	t.Cleanup(c.Close)
	return c
}

// piece is bytes that one write sends, and the pause before it.
type piece struct {
	after time.Duration
	bytes string
}

// scripted is a server that answers every request with the same pieces and then closes, unless it keeps
// the connection. It notes when each write began.
type scripted struct {
	net.Listener
	mu     sync.Mutex
	writes []int64
	heads  []string
}

func script(t testing.TB, now func() int64, keep bool, pieces ...piece) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(conn, now, keep, pieces)
		}
	}()
	return s
}

func (s *scripted) answer(conn net.Conn, now func() int64, keep bool, pieces []piece) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.heads = append(s.heads, fmt.Sprintf("%s %s %v\n%s", req.Method, req.RequestURI, req.Header, body))
		s.mu.Unlock()
		for _, p := range pieces {
			if p.after > 0 {
				time.Sleep(p.after)
			}
			s.mu.Lock()
			s.writes = append(s.writes, now())
			s.mu.Unlock()
			if _, err := io.WriteString(conn, p.bytes); err != nil {
				return
			}
		}
		if !keep {
			return
		}
	}
}

// head is the i-th request as it came.
func (s *scripted) head(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heads[i]
}

func (s *scripted) url() string { return "http://" + s.Addr().String() }

func chunked(payload string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(payload), payload) }

const (
	sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	lastOne = "0\r\n\r\n"
)

func chatFrame(text string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", text)
}

const (
	finishFrame = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	doneFrame   = "data: [DONE]\n\n"
)

// recorded is an answer of a real server, with a head of our own when only the body was kept.
func recorded(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "llama", name))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasPrefix(data, []byte("HTTP/")) {
		return string(data)
	}
	kind := "text/event-stream"
	if data[0] == '{' {
		kind = "application/json"
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(data), data)
}

func ask(t testing.TB, c *Client, p Prompt) record.Request {
	t.Helper()
	return c.Do(context.Background(), p)
}

func num(n *int) any {
	if n == nil {
		return "none"
	}
	return *n
}

// withoutKernel makes c what it is on other systems.
func withoutKernel(c *Client) {
	c.poller.close()
	c.poller, c.kernel = nil, nil
}
