// Package client asks an engine for text and writes down when every piece of the answer arrived.
//
// Its opinion: a time belongs to the bytes, not to the program that reads them. The package reads the
// socket itself and speaks HTTP/1.1 by hand, so that every byte of an answer carries the stamp of the
// read that brought it, through chunks, line ends and characters cut anywhere; nothing is stamped after
// parsing. Stamping below net/http and matching the stamps to its reader afterwards was tried and
// dropped: net/http reads ahead, and it costs three times the processor time per frame. A failure is a row
// like any other: what had arrived is kept, and no rate is made up. The package computes no rates; that is
// builtins/metric's, from the facts written here.
package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Options is how a server is reached.
type Options struct {
	API     plan.API      // kind, path, model, headers, body
	BaseURL string        // "http://127.0.0.1:8080"
	Now     func() int64  // the monotonic clock of the session, nanoseconds
	Wall    func() int64  // the clock that the kernel stamps with, nanoseconds; nil is the machine's
	Timeout time.Duration // of one request from its start; 600 s when zero
	OnMark  func()        // a measured request was sent, had its first token, has ended: it must not wait; nil tells nobody
}

// Prompt is one request to be made.
type Prompt struct {
	Case        string
	Index       int    // in the arm
	Repeat      int    // of this prompt
	Mark        string // record.MarkWarm or record.MarkMeasured
	Text        string
	Nonce       string // first line of what is sent; "" is none
	MaxTokens   int
	Temperature float64
	Seed        int64
	IgnoreEOS   bool
	Body        string // JSON object merged last; "" is none
	ScheduledNS *int64 // when an open-loop workload wanted it sent; nil in a closed loop
}

// Client holds the connections to one server. It is safe for concurrent use.
type Client struct {
	o       Options
	pool    pool
	kernel  *kernelClock // nil where the kernel gives no stamps
	poller  *poller      // nil where there is none: connections are read one by one
	aside   *http.Client // for small requests that nobody times
	unstamp func()
}

// New makes a client. Close it when the engine is gone.
func New(o Options) *Client {
	if o.Timeout == 0 {
		o.Timeout = 600 * time.Second
	}
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	c := &Client{o: o}
	c.kernel, c.unstamp = newKernelClock(o.Now, o.Wall)
	c.poller = newPoller(c.kernel)
	c.aside = &http.Client{Timeout: min(30*time.Second, c.o.Timeout), Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	return c
}

// Close drops the idle connections.
func (c *Client) Close() {
	c.pool.close()
	c.poller.close()
	c.unstamp()
}

// Run makes the requests in the order of ps, at most concurrency at once: a closed loop. The rows are in
// the same order. After a cancelled ctx the rest are rows that say so, and nothing of them is sent.
func (c *Client) Run(ctx context.Context, ps []Prompt, concurrency int) []record.Request {
	rows := make([]record.Request, len(ps))
	closedLoop(ctx, len(ps), min(max(concurrency, 1), len(ps)), 0, func(i int) { rows[i] = c.Do(ctx, ps[i]) })
	return rows
}

// path is where the API's requests go.
func (o Options) path() (string, error) {
	if o.API.Path != "" {
		return o.API.Path, nil
	}
	switch o.API.Kind {
	case plan.APIChat:
		return "/v1/chat/completions", nil
	case plan.APICompletions:
		return "/v1/completions", nil
	case plan.APILlama:
		return "/completion", nil
	case plan.APIOllama:
		return "/api/generate", nil
	}
	return "", &diag.Error{
		Kind: diag.Workflow, Op: "request",
		Msg: `got API kind "` + o.API.Kind + `", want ` + plan.APIChat + ", " + plan.APICompletions + ", " + plan.APILlama + " or " + plan.APIOllama,
		Fix: "api = api.openai_chat()",
	}
}

func sha(s []byte) string {
	sum := sha256.Sum256(s)
	return hex.EncodeToString(sum[:])
}
