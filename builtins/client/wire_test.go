package client

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"flow/builtins/engine/simengine"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// What a server says that is not a proper stream: the row names it, and keeps what came.
func TestWire(t *testing.T) {
	type facts struct{ status, kind, words string }
	for name, tt := range map[string]struct {
		answer string
		want   facts
		text   string
	}{
		"no http":                {"hello\r\n\r\n", facts{"error", "garbage", "malformed headers"}, ""},
		"nothing":                {"", facts{"error", "closed", "before any answer"}, ""},
		"half a head":            {"HTTP/1.1 200 OK\r\nContent-Ty", facts{"error", "closed", "in the middle"}, ""},
		"head only":              {sseHead, facts{"cut", "closed", "in the middle"}, ""},
		"bad chunk size":         {sseHead + "zz\r\n", facts{"error", "garbage", "chunk size"}, ""},
		"chunk too long":         {sseHead + "3\r\nabcdef\r\n", facts{"error", "garbage", "longer than its size"}, ""},
		"interim answer":         {"HTTP/1.1 100 Continue\r\n\r\n" + sseHead + chunked(chatFrame("a")+finishFrame+doneFrame) + lastOne, facts{"ok", "", ""}, "a"},
		"chunk extension":        {sseHead + strings.Replace(chunked(chatFrame("a")+finishFrame+doneFrame), "\r\n", ";x=y\r\n", 1) + "0\r\nTrailer: t\r\n\r\n", facts{"ok", "", ""}, "a"},
		"no finish, no done":     {sseHead + chunked(chatFrame("a")) + lastOne, facts{"cut", "closed", "without a finish reason"}, "a"},
		"done without finish":    {sseHead + chunked(chatFrame("a")+doneFrame) + lastOne, facts{"ok", "", ""}, "a"},
		"finish without done":    {sseHead + chunked(chatFrame("a")+finishFrame) + lastOne, facts{"ok", "", ""}, "a"},
		"closed after done":      {sseHead + chunked(chatFrame("a")+finishFrame+doneFrame), facts{"ok", "", ""}, "a"},
		"closed in a frame":      {sseHead + chunked(chatFrame("a")) + "ff\r\ndata: {\"choi", facts{"cut", "closed", "in the middle"}, "a"},
		"page":                   {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html>hello\n\n", facts{"error", "garbage", `no frames: "<html>hello`}, ""},
		"redirect":               {"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", facts{"error", "http", "HTTP 302: no message"}, ""},
		"plain refusal":          {"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops", facts{"error", "http", "HTTP 500: oops"}, ""},
		"refusal with detail":    {"HTTP/1.1 404 No\r\nContent-Length: 22\r\n\r\n{\"detail\":\"Not Found\"}", facts{"error", "http", "HTTP 404: Not Found"}, ""},
		"refusal, error a text":  {"HTTP/1.1 400 No\r\nContent-Length: 15\r\n\r\n{\"error\":\"bad\"}", facts{"error", "http", "HTTP 400: bad"}, ""},
		"refusal that is cut":    {"HTTP/1.1 503 No\r\nContent-Length: 99\r\n\r\n{\"error\":", facts{"error", "http", `HTTP 503: {"error":`}, ""},
		"error as 200 and JSON":  {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n{\"error\":{\"message\":\"broken\"}}", facts{"error", "stream", "broken"}, ""},
		"empty JSON":             {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", facts{"cut", "closed", "without a finish"}, ""},
		"tool call":              {sseHead + chunked(`data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`+"\n\n"+finishFrame+doneFrame) + lastOne, facts{"ok", "", ""}, ""},
		"error null is no error": {sseHead + chunked(`data: {"error":null,"choices":[{"delta":{"content":"a"}}],"usage":null}`+"\n\n"+finishFrame+doneFrame) + lastOne, facts{"ok", "", ""}, "a"},
		"several data lines":     {sseHead + chunked("event: x\nid: 1\ndata: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\"}}]}\n\n"+finishFrame+doneFrame) + lastOne, facts{"ok", "", ""}, "a"},
		"frames after done":      {sseHead + chunked(chatFrame("a")+finishFrame+doneFrame+chatFrame("b")) + lastOne, facts{"ok", "", ""}, "a"},
		"an array":               {sseHead + chunked("data: [1]\n\n"+finishFrame+doneFrame) + lastOne, facts{"error", "garbage", `frame 1 is no JSON object: "[1]"`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, clock(), false, piece{0, tt.answer})
			r := ask(t, client(t, s.url(), plan.APIChat), Prompt{Text: "x"})
			if r.Status != tt.want.status || r.ErrorKind != tt.want.kind || !strings.Contains(r.Error, tt.want.words) {
				t.Errorf("got %s, %s, %q, want %+v", r.Status, r.ErrorKind, r.Error, tt.want)
			}
			if r.Text != tt.text {
				t.Errorf("got text %q, want %q", r.Text, tt.text)
			}
			if r.CompletionTokens != nil {
				t.Errorf("got %d tokens, want none: nobody said", *r.CompletionTokens)
			}
		})
	}
}

// A message whose last frame has come but whose end does not come is whole.
func TestLingering(t *testing.T) {
	s := script(t, clock(), false, piece{0, sseHead + chunked(chatFrame("a")+finishFrame+doneFrame)}, piece{4 * time.Second, lastOne})
	begin := time.Now()
	r := ask(t, client(t, s.url(), plan.APIChat), Prompt{Text: "x"})
	if took := time.Since(begin); r.Status != "ok" || took > 3500*time.Millisecond || r.CloseNS != nil {
		t.Errorf("got %s %q after %s, close %v", r.Status, r.Error, took, r.CloseNS)
	}
	warned("still open")(t, r)
}

// A request that the server refuses before it has read it whole still shows the refusal, or at least that
// it could not be written.
func TestRefusedWhileWriting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, 100))
		_, _ = io.WriteString(conn, "HTTP/1.1 413 No\r\nContent-Length: 8\r\n\r\ntoo long")
		_ = conn.(*net.TCPConn).CloseWrite()
		time.Sleep(100 * time.Millisecond)
	}()
	r := ask(t, client(t, "http://"+l.Addr().String(), plan.APIChat), Prompt{Text: strings.Repeat("x", 32<<20)})
	if r.Status != "error" || r.ErrorKind != "http" && r.ErrorKind != "closed" || r.SentNS != nil {
		t.Errorf("got %s, %s, %q, sent %v", r.Status, r.ErrorKind, r.Error, r.SentNS)
	}
}

func TestRequestBytes(t *testing.T) {
	s := script(t, clock(), false, piece{0, sseHead + chunked(finishFrame+doneFrame) + lastOne})
	for _, tt := range []struct {
		name    string
		o       Options
		p       Prompt
		line    string
		body    string
		headers []string
	}{
		{
			name: "chat", o: Options{API: plan.API{Kind: plan.APIChat, Model: "m", Headers: map[string]string{"authorization": "Bearer k"}}},
			p:    Prompt{Text: "hi <&>", Nonce: "n7", MaxTokens: 5, Temperature: 0, Seed: 9, IgnoreEOS: true},
			line: "POST /v1/chat/completions map[", headers: []string{"Authorization:[Bearer k]", "Content-Type:[application/json]"},
			body: `{"ignore_eos":true,"max_tokens":5,"messages":[{"content":"n7\nhi <&>","role":"user"}],"model":"m","seed":9,"stream":true,"stream_options":{"include_usage":true},"temperature":0}`,
		},
		{
			name: "completions", o: Options{API: plan.API{Kind: plan.APICompletions, Path: "/x/y?z=1", Body: `{"top_k":40,"a":{"b":1,"c":2}}`}},
			p:    Prompt{Text: "hi", MaxTokens: 5, Seed: 1 << 60, Body: `{"a":{"c":3,"b":null},"temperature":0.5,"seed":1234567890123456789}`},
			line: "POST /x/y?z=1 map[",
			body: `{"a":{"c":3},"max_tokens":5,"prompt":"hi","seed":1234567890123456789,"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_k":40}`,
		},
		{
			name: "llama", o: Options{API: plan.API{Kind: plan.APILlama}}, p: Prompt{Text: "hi", MaxTokens: 5, Body: `{"cache_prompt":false}`},
			line: "POST /completion map[", body: `{"cache_prompt":false,"n_predict":5,"prompt":"hi","return_tokens":true,"seed":0,"stream":true,"temperature":0}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.BaseURL, tt.o.Now = s.url()+"/", clock()
			c := New(tt.o)
			defer c.Close()
			if r := ask(t, c, tt.p); r.HTTPStatus != 200 {
				t.Fatalf("got %s, %s, %q", r.Status, r.ErrorKind, r.Error)
			}
			s.mu.Lock()
			head, body, _ := strings.Cut(s.heads[len(s.heads)-1], "\n")
			s.mu.Unlock()
			if !strings.HasPrefix(head, tt.line) || body != tt.body || !json.Valid([]byte(body)) {
				t.Errorf("got\n%s\n%s\nwant\n%s\n%s", head, body, tt.line, tt.body)
			}
			for _, h := range tt.headers {
				if !strings.Contains(head, h) {
					t.Errorf("headers lack %q: %s", h, head)
				}
			}
		})
	}
}

// Mistakes in a workflow are rows of kind request, and nothing is sent.
func TestMistakes(t *testing.T) {
	for name, tt := range map[string]struct {
		o     Options
		p     Prompt
		words string
	}{
		"kind":        {Options{BaseURL: "http://127.0.0.1:1", API: plan.API{Kind: "x"}}, Prompt{}, `got API kind "x"`},
		"url":         {Options{BaseURL: "127.0.0.1:1", API: plan.API{Kind: plan.APIChat}}, Prompt{}, "got URL"},
		"scheme":      {Options{BaseURL: "ftp://x", API: plan.API{Kind: plan.APIChat}}, Prompt{}, "want http://HOST:PORT"},
		"body":        {Options{BaseURL: "http://127.0.0.1:1", API: plan.API{Kind: plan.APIChat}}, Prompt{Body: "[1]"}, "want a JSON object"},
		"header":      {Options{BaseURL: "http://127.0.0.1:1", API: plan.API{Kind: plan.APIChat, Headers: map[string]string{"A": "b\r\nC: d"}}}, Prompt{}, "want one line each"},
		"header name": {Options{BaseURL: "http://127.0.0.1:1", API: plan.API{Kind: plan.APIChat, Headers: map[string]string{"A:": "b"}}}, Prompt{}, "want one line each"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.Now = clock()
			c := New(tt.o)
			defer c.Close()
			if r := ask(t, c, tt.p); r.Status != "error" || r.ErrorKind != "request" || !strings.Contains(r.Error, tt.words) || r.SentNS != nil {
				t.Errorf("got %s, %s, %q, want %q", r.Status, r.ErrorKind, r.Error, tt.words)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	h, err := simengine.Handler(quick, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	s.StartTLS()
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", file)
	r := ask(t, client(t, s.URL, plan.APIChat), Prompt{Text: "x", MaxTokens: 10})
	if r.Status != "ok" && strings.Contains(r.Error, "certificate") {
		t.Skipf("this system's roots cannot be replaced: %s", r.Error)
	}
	if r.Status != "ok" || num(r.CompletionTokens) != 10 {
		t.Errorf("got %s, %s, %q", r.Status, r.ErrorKind, r.Error)
	}
	order(t, r)
}

// 32,768 frames through a socket: every one has its arrival, and the last facts are right.
func TestLongStream(t *testing.T) {
	const n = 32768
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		frame := []byte(chatFrame(" word"))
		for range n {
			_, _ = w.Write(frame)
		}
		_, _ = io.WriteString(w, finishFrame+doneFrame)
	})
	s := httptest.NewServer(h)
	defer s.Close()
	r := ask(t, client(t, s.URL, plan.APIChat), Prompt{Text: "x"})
	if r.Status != "ok" || r.ContentFrames != n || r.Frames != n+1 || len(r.ArrivalsUS) != n+1 || len(r.Text) != n*len(" word") {
		t.Errorf("got %s %q, %d content frames, %d arrivals, %d bytes", r.Status, r.Error, r.ContentFrames, len(r.ArrivalsUS), len(r.Text))
	}
	sum := *r.SentNS / 1000
	for _, d := range r.ArrivalsUS {
		sum += d
	}
	if sum != *r.DoneNS/1000 && sum > *r.DoneNS/1000 {
		t.Errorf("arrivals end at %d, [DONE] at %d", sum, *r.DoneNS/1000)
	}
}

// A frame may not grow without end.
func TestFrameLimit(t *testing.T) {
	s := sse{maxLen: 100, onFrame: func([]byte, stamp) error { return nil }}
	err := error(nil)
	for i := 0; i < 100 && err == nil; i++ {
		err = s.feed([]byte("data: 0123456789"), stamp{})
	}
	if err == nil {
		t.Error("no limit")
	}
	a := newAnswer(plan.APIChat, record.Request{})
	r := &response{onHeaders: a.headers, onPayload: a.payload}
	for i := 0; i < 2<<20; i += 1 << 10 {
		if err := r.feed([]byte(strings.Repeat("x", 1<<10)), stamp{}); err != nil {
			return
		}
	}
	t.Error("headers have no limit")
}

// A client that copies its buffer for every frame costs more with every frame: the bytes it allocates for one
// must not grow with their number.
func TestT34CostOfAFrameIsFlat(t *testing.T) {
	per := func(n int) float64 {
		frame := []byte(chunked(chatFrame(" word")))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := newAnswer(plan.APIChat, record.Request{})
		r := &response{onHeaders: a.headers, onPayload: a.payload}
		_ = r.feed([]byte(sseHead), stamp{})
		for i := range n {
			if err := r.feed(frame, stamp{ns: int64(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.finish(nil); got.Frames != n {
			t.Fatalf("got %d frames", got.Frames)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	}
	short, long := per(1024), per(32768)
	t.Logf("%.0f bytes a frame of 1,024, %.0f of 32,768", short, long)
	if long > 2*short || long > 200 {
		t.Errorf("got %.0f bytes a frame of 1,024 and %.0f of 32,768", short, long)
	}
}

// What a body of its own says about the number of tokens is not known here.
func TestAsked(t *testing.T) {
	for _, tc := range []struct {
		api, body string
		want      int
	}{{"", "", 8}, {"", `{"top_k":1}`, 8}, {"", `{"max_tokens":900}`, 0}, {`{"max_completion_tokens":9}`, "", 0}, {"", `{"options":{"num_predict":9}}`, 0}, {"", `{"n":2}`, 0}} {
		if got := (Options{API: plan.API{Body: tc.api}}).asked(Prompt{MaxTokens: 8, Body: tc.body}); got != tc.want {
			t.Errorf("%+v: got %d", tc, got)
		}
	}
}
