package main

// flow against a real llama-server, as its users run it: what a server does in the field, and what stands
// on record of it. It is opt-in, because the server is neither fetched nor built here:
//
//	FLOW_LLAMA_BIN=…/build/bin FLOW_LLAMA_MODEL=…/model.gguf go test ./cmd/flow -run TestLlamaServer -v

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"flow/db"
	"flow/workflows/record"
)

// llamaHead is the top of each workflow: a folder, a model, a text of some hundred tokens.
const llamaHead = `
load("@flow//engines/llama_cpp.star", "llama_server")
load("@flow//screens.star", "noise_floor")
load("@flow//stops.star", "after")

binary = param("binary", type = "string")
model = param("model", type = "string")
text = """A river gauge stands below the old bridge. Every morning at six the keeper reads the level, writes
it into a book with the hour, the wind and the colour of the water, and once a week carries the page to town. """

def server(**kwargs):
    return llama_server(model = model, binary = binary, args = {"-t": 1}, **kwargs)

def once(session, engine, work, order = "AB"):
    return session.run(noise_floor(engine, workload = work, name = "live", order = order, retry = 0, stops = [after(blocks = 1)], gates = []))
`

// liveLlama is a campaign with a real server.
type liveLlama struct {
	*campaign
	bin, model string
}

func newLiveLlama(t *testing.T, main string) *liveLlama {
	bin, model := os.Getenv("FLOW_LLAMA_BIN"), os.Getenv("FLOW_LLAMA_MODEL")
	if bin == "" || model == "" {
		t.Skip("opt-in: set FLOW_LLAMA_BIN to a folder with llama-server and llama-bench, and FLOW_LLAMA_MODEL to a GGUF file")
	}
	for _, f := range []string{filepath.Join(bin, "llama-server"), filepath.Join(bin, "llama-bench"), model} {
		if _, err := os.Stat(f); err != nil {
			t.Skip(err)
		}
	}
	return &liveLlama{campaign: newCampaign(t, llamaHead+main), bin: bin, model: model}
}

// begin starts the workflow. Its words are the second value once the first, its end, has come.
func (c *liveLlama) begin() (*exec.Cmd, *bytes.Buffer) {
	c.t.Helper()
	cmd := c.flow(c.in("live.db"), "", "run", "w.star", "--seed", "7", "--set", "binary="+filepath.Join(c.bin, "llama-server"), "--set", "model="+c.model)
	var words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &words, &words
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &words
}

// end waits for flow and wants its exit code.
func (c *liveLlama) end(cmd *exec.Cmd, words *bytes.Buffer, want string) {
	c.t.Helper()
	limit := time.AfterFunc(3*patience, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if got := exitOf(cmd.Wait()); got != want {
		c.t.Fatalf("flow ended with %s, want %s\n%s", got, want, words)
	}
	if pid, _ := c.server(); pid != 0 {
		c.t.Errorf("llama-server %d was left behind", pid)
	}
	c.t.Logf("flow says:\n%s", words)
}

func (c *liveLlama) run() {
	c.t.Helper()
	cmd, words := c.begin()
	c.end(cmd, words, "0")
}

// arms are the arms of the one group, with their requests and logs.
func (c *liveLlama) arms() []*record.Arm {
	c.t.Helper()
	ctx := context.Background()
	d, err := db.OpenReadOnly(ctx, c.in("live.db"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	t, err := d.Query(ctx, "SELECT id FROM arms ORDER BY seq", nil, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	var out []*record.Arm
	for i := range t.Rows {
		a, err := d.Arm(ctx, cellText(rowOf(t, i)["id"]))
		if err != nil {
			c.t.Fatal(err)
		}
		if a.Process != nil && a.Process.Log == "" {
			if a.Process.Log, err = d.Log(ctx, a.ID); err != nil {
				c.t.Logf("no log of arm %s: %v", a.ID, err)
			}
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		c.t.Fatal("no arm is on record")
	}
	return out
}

// server is the running engine of this campaign and its port; 0 where none runs.
func (c *liveLlama) server() (pid, port int) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		b, err := os.ReadFile(filepath.Join(p, "cmdline"))
		argv := strings.Split(string(b), "\x00")
		if err != nil || argv[0] != filepath.Join(c.bin, "llama-server") {
			continue
		}
		if env, _ := os.ReadFile(filepath.Join(p, "environ")); !bytes.Contains(env, []byte(c.dir)) {
			continue
		}
		for i, a := range argv[:len(argv)-1] {
			if a == "--port" {
				port, _ = strconv.Atoi(argv[i+1])
			}
		}
		pid, _ = strconv.Atoi(filepath.Base(p))
		return pid, port
	}
	return 0, 0
}

// get asks the server; the status is 0 where it does not answer.
func get(port int, path string) (status int, body string) {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(b)
}

// slot is a row of the server's /slots.
type slot struct {
	Busy bool `json:"is_processing"`
	Next []struct {
		Decoded int `json:"n_decoded"`
	} `json:"next_token"`
}

// decoding waits until the server is in the middle of an answer.
func (c *liveLlama) decoding() (pid, port int) {
	c.t.Helper()
	if !poll(patience, func() bool {
		if pid, port = c.server(); port == 0 {
			return false
		}
		_, body := get(port, "/slots")
		var slots []slot
		return json.Unmarshal([]byte(body), &slots) == nil && slices.ContainsFunc(slots, func(s slot) bool { return s.Busy && len(s.Next) > 0 && s.Next[0].Decoded > 20 })
	}) {
		c.t.Fatal("the server never was in the middle of an answer")
	}
	return pid, port
}

func measuredOf(a *record.Arm, name string) (float64, bool) {
	for _, m := range a.Metrics {
		if m.Name == name && m.Value != nil {
			return *m.Value, true
		}
	}
	return 0, false
}

// noRates wants that nothing was computed of a request that did not end.
func noRates(t *testing.T, a *record.Arm) {
	t.Helper()
	for _, name := range []string{"decode_tok_s", "generation_tok_s", "prefill_tok_s"} {
		if v, ok := measuredOf(a, name); ok {
			t.Errorf("%s = %g of an arm without an answer", name, v)
		}
	}
}

func reasons(a *record.Arm) string {
	return strings.Join(append([]string{a.Disposition, a.Reason}, a.Warnings...), "; ")
}

func TestLlamaServer(t *testing.T) {
	// The rates of both clocks over the same tokens: first to last token, as many tokens as steps.
	t.Run("rate", func(t *testing.T) {
		c := newLiveLlama(t, `
def main(session):
    once(session, server(ctx = 2048), workload(prompt = text, max_tokens = 400, ignore_eos = True, nonce = True, repeat = 3))
`)
		c.run()
		for _, a := range c.arms() {
			var gaps []float64
			for _, q := range a.Requests {
				var timings struct {
					N  float64 `json:"predicted_n"`
					MS float64 `json:"predicted_ms"`
				}
				if err := json.Unmarshal([]byte(q.Timings), &timings); err != nil || timings.N < 2 {
					t.Fatalf("request %d has timings %q", q.Index, q.Timings)
				}
				server := (timings.N - 1) / timings.MS * 1e3
				client := math.NaN()
				for _, m := range q.Values {
					if m.Name == "decode_tok_s" && m.Value != nil {
						client = *m.Value
					}
				}
				gaps = append(gaps, math.Abs(client/server-1))
				t.Logf("arm %s request %d (%s): client %.2f, server %.2f tok/s: %.3f %% apart; %d frames, %s stamps", a.Label, q.Index, q.Mark, client, server, 100*(client/server-1), q.ContentFrames, q.StampSource)
			}
			// The median: on a busy machine the server's own writing of a last frame can wait.
			slices.Sort(gaps)
			if gap := gaps[len(gaps)/2]; !(gap < .01) {
				t.Errorf("arm %s: decode_tok_s is %.2f %% from the rate by timings in the median request, want less than 1 %%", a.Label, 100*gap)
			}
			client, _ := measuredOf(a, "decode_tok_s")
			server, ok := measuredOf(a, "server_decode_tok_s")
			if !ok || math.Abs(client/server-1) > .01 {
				t.Errorf("arm %s: decode_tok_s %g, server_decode_tok_s %g (%t), want less than 1 %% between them", a.Label, client, server, ok)
			}
		}
	})

	t.Run("prompt cache", func(t *testing.T) {
		c := newLiveLlama(t, `
def main(session):
    once(session, server(ctx = 2048), workload(prompt = text * 4, max_tokens = 16, ignore_eos = True, repeat = 2, warmup = 0))
`)
		c.run()
		for _, a := range c.arms() {
			first, second := a.Requests[0], a.Requests[1]
			if first.CachedTokens == nil || *first.CachedTokens != 0 {
				t.Errorf("the first request had %v cached tokens, want 0", first.CachedTokens)
			}
			if second.CachedTokens == nil || second.PromptTokens == nil || *second.CachedTokens < *second.PromptTokens-8 {
				t.Fatalf("the identical second request had %v cached tokens of %v", second.CachedTokens, second.PromptTokens)
			}
			if !strings.Contains(strings.Join(a.Warnings, "; "), "cache") {
				t.Errorf("no warning of the cache: %s", reasons(a))
			}
			t.Logf("cached %d of %d; %s", *second.CachedTokens, *second.PromptTokens, reasons(a))
		}
	})

	// A request beyond its time is cut by closing its connection: the server frees the slot and serves the next.
	t.Run("cancelled", func(t *testing.T) {
		c := newLiveLlama(t, `
def main(session):
    once(session, server(ctx = 4000, timeouts = {"request": "3s"}), workload(prompt = text, max_tokens = 3500, ignore_eos = True, nonce = True, repeat = 2, warmup = 0))
`)
		c.run()
		for _, a := range c.arms() {
			for _, q := range a.Requests {
				t.Logf("request %d: %s %s: %s; %d content frames", q.Index, q.Status, q.ErrorKind, q.Error, q.ContentFrames)
				if q.Status == "ok" || q.ErrorKind != "timeout" || q.ContentFrames == 0 || q.FinishReason != "" {
					t.Errorf("request %d: got status %s, kind %q, finish %q, %d content frames; want a row cut by its time", q.Index, q.Status, q.ErrorKind, q.FinishReason, q.ContentFrames)
				}
			}
			noRates(t, a)
			if n := strings.Count(a.Process.Log, "cancel task"); n < 2 {
				t.Errorf("the server's log has %d cancelled tasks, want 2", n)
			}
			if a.Disposition == record.OK {
				t.Errorf("the arm counts: %s", reasons(a))
			}
			t.Log(reasons(a))
		}
	})

	t.Run("killed", func(t *testing.T) {
		c := newLiveLlama(t, `
def main(session):
    once(session, server(ctx = 4000), workload(prompt = text, max_tokens = 3500, ignore_eos = True, nonce = True, warmup = 0))
`)
		cmd, words := c.begin()
		pid, _ := c.decoding()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.endKilled(cmd, words, "SIGKILL")
	})

	// llama-server on SIGTERM: tokens stop at once, and it waits thirty seconds for its open connection, in most
	// runs. In some it ends at once; both are recorded as they were.
	t.Run("sigterm", func(t *testing.T) {
		c := newLiveLlama(t, `
def main(session):
    once(session, server(ctx = 4000), workload(prompt = text, max_tokens = 3500, ignore_eos = True, nonce = True, warmup = 0))
`)
		cmd, words := c.begin()
		pid, _ := c.decoding()
		began := time.Now()
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if !poll(patience, func() bool { p, _ := c.server(); return p != pid }) {
			t.Fatal("the server outlived SIGTERM")
		}
		took := time.Since(began)
		t.Logf("the server was gone %.1f s after SIGTERM", took.Seconds())
		c.endKilled(cmd, words, "exit")
		if a := c.arms()[0]; took > 3*time.Second && !strings.Contains(a.Reason, "s after the last of them") {
			t.Errorf("got reason %q, want it to say how long the stream was mute", a.Reason)
		}
	})

	// flow stops an engine to which somebody else holds a stream open: the grace runs out, then the kill.
	t.Run("stop with a busy slot", func(t *testing.T) {
		c := newLiveLlama(t, `
def main(session):
    once(session, server(ctx = 4000, slots = 2, timeouts = {"stop": "2s"}), workload(prompt = text, max_tokens = 600, ignore_eos = True, nonce = True, warmup = 0))
`)
		cmd, words := c.begin()
		_, port := c.decoding()
		body := `{"prompt": "Another reader", "n_predict": 3900, "ignore_eos": true, "stream": true}`
		resp, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/completion", port), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("the other reader got status %d", resp.StatusCode)
		}
		other := make(chan string, 1)
		go func() {
			n, err := io.Copy(io.Discard, resp.Body)
			other <- fmt.Sprintf("the other reader got %d bytes, then %v", n, err)
		}()
		c.end(cmd, words, "0")
		t.Log(<-other)
		a := c.arms()[0]
		t.Logf("stopped by %s, exit code %v, signal %q; %s", a.Process.StoppedBy, deref(a.Process.ExitCode), a.Process.Signal, reasons(a))
		for _, s := range a.Steps {
			t.Logf("step %s: %.2f s", s.Name, float64(s.EndNS-s.StartNS)/1e9)
		}
		if !strings.Contains(strings.Join(a.Warnings, "; "), "other requests: the server runs 1") {
			t.Errorf("no warning of the other reader: %s", reasons(a))
		}
		stop := a.Steps[len(a.Steps)-1]
		took := time.Duration(stop.EndNS - stop.StartNS)
		switch by := a.Process.StoppedBy; {
		case took > 2*time.Second && (by != "kill" || a.Process.Signal != "SIGKILL"):
			t.Errorf("the engine was stopped by %q (%s) after %s, want the kill after a grace of 2 s", by, a.Process.Signal, took)
		case took <= 2*time.Second && (by != "signal" || a.Process.ExitCode == nil):
			t.Errorf("the engine was stopped by %q after %s, want its own end on the signal", by, took)
		}
	})

	t.Run("context overflow", func(t *testing.T) {
		c := newLiveLlama(t, `
def main(session):
    once(session, server(ctx = 256), workload(prompt = text * 8, max_tokens = 16, warmup = 0))
`)
		c.run()
		for _, a := range c.arms() {
			q := a.Requests[0]
			t.Logf("%s %s %d: %s", q.Status, q.ErrorKind, q.HTTPStatus, q.Error)
			if q.Status == "ok" || q.ErrorKind != "http" || q.HTTPStatus != 400 || !strings.Contains(q.Error, "context size") || q.ContentFrames != 0 {
				t.Errorf("got status %s, kind %q, HTTP %d, error %q; want a failed row with the server's words", q.Status, q.ErrorKind, q.HTTPStatus, q.Error)
			}
			noRates(t, a)
			if a.Disposition == record.OK {
				t.Errorf("the arm counts: %s", reasons(a))
			}
			t.Log(reasons(a))
		}
	})

	// While it loads, llama-server answers 503: a wait, and no failure.
	t.Run("loading", func(t *testing.T) {
		c := newLiveLlama(t, `
def main(session):
    once(session, server(ctx = 2048), workload(prompt = text, max_tokens = 16, ignore_eos = True, warmup = 0))
`)
		cmd, words := c.begin()
		loading := 0
		for over := time.Now().Add(patience); time.Now().Before(over); {
			_, port := c.server()
			if port == 0 {
				continue
			}
			status, body := get(port, "/health")
			if status == http.StatusServiceUnavailable {
				loading++
				if loading == 1 {
					t.Logf("/health while loading: %s", strings.TrimSpace(body))
				}
			}
			if status == http.StatusOK {
				break
			}
		}
		c.end(cmd, words, "0")
		for _, a := range c.arms() {
			if a.Disposition != record.OK || a.Requests[0].Status != "ok" {
				t.Errorf("arm %s: %s", a.Label, reasons(a))
			}
			ms, _ := measuredOf(a, "ready_ms")
			t.Logf("arm %s was ready after %.0f ms", a.Label, ms)
		}
		t.Logf("%d answers of 503 were seen beside flow's own", loading)
		if loading == 0 {
			t.Error("no 503 was seen while the server loaded: the test shows nothing, take a larger model")
		}
	})

	// A workflow that asks too early gets 503 as its answer: a failed row, with the server's words.
	t.Run("asked while loading", func(t *testing.T) {
		c := newLiveLlama(t, `
early = engine("early", command = [binary, "-m", model, "--host", "127.0.0.1", "--port", "{port}", "-c", 2048], ready = ready.port(), api = api.openai_completions())

def main(session):
    once(session, early, workload(prompt = text, max_tokens = 16, warmup = 0))
`)
		c.run()
		for _, a := range c.arms() {
			q := a.Requests[0]
			t.Logf("%s %s %d: %s; %s", q.Status, q.ErrorKind, q.HTTPStatus, q.Error, reasons(a))
			if q.Status == "ok" || q.ErrorKind != "http" || q.HTTPStatus != 503 || !strings.Contains(q.Error, "Loading model") {
				t.Errorf("got status %s, kind %q, HTTP %d, error %q; want 503 and the server's words", q.Status, q.ErrorKind, q.HTTPStatus, q.Error)
			}
			noRates(t, a)
		}
	})
}

// endKilled waits for the end of a session whose first engine was ended from outside in the middle of its
// answer, how says by what: the arm is on record with what had come, and counts for nothing.
func (c *liveLlama) endKilled(cmd *exec.Cmd, words *bytes.Buffer, how string) {
	c.t.Helper()
	c.end(cmd, words, "0")
	a := c.arms()[0]
	q := a.Requests[0]
	c.t.Logf("request: %s %s: %s; %d content frames, finish %q", q.Status, q.ErrorKind, q.Error, q.ContentFrames, q.FinishReason)
	c.t.Logf("arm: %s; ended by %s, exit code %v, signal %q", reasons(a), a.Process.StoppedBy, deref(a.Process.ExitCode), a.Process.Signal)
	if q.Status == "ok" || q.ErrorKind != "closed" || q.ContentFrames == 0 || q.FinishReason != "" {
		c.t.Errorf("got status %s, kind %q, finish %q, %d content frames; want a stream that was cut", q.Status, q.ErrorKind, q.FinishReason, q.ContentFrames)
	}
	noRates(c.t, a)
	if a.Disposition != record.Failed || a.Process.StoppedBy != "itself" {
		c.t.Errorf("got disposition %s, stopped by %s; want a failed arm whose engine ended by itself", a.Disposition, a.Process.StoppedBy)
	}
	switch how {
	case "SIGKILL":
		if a.Process.Signal != how || !strings.Contains(a.Reason, how) {
			c.t.Errorf("got signal %q and reason %q, want %s in both", a.Process.Signal, a.Reason, how)
		}
	case "exit":
		if a.Process.ExitCode == nil || *a.Process.ExitCode != 0 || !strings.Contains(a.Reason, "by itself with code 0") {
			c.t.Errorf("got exit code %v and reason %q, want 0 in both", deref(a.Process.ExitCode), a.Reason)
		}
	}
}

func deref(p *int) any {
	if p == nil {
		return nil
	}
	return *p
}
