package measure

// The traps of measuring a streaming server, each committed by a server and named by flow: in a warning, a
// withheld value or a gate. The table in cmd/flow/doc/traps.md names these tests.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"flow/builtins/engine"
	"flow/builtins/engine/simengine"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// simURL is the embedded engine on a socket of this process.
func simURL(t *testing.T, args ...string) string {
	t.Helper()
	h, err := simengine.Handler(append([]string{"--decode-tok-s", "2000", "--prefill-tok-s", "200000"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// handled is a server of our own.
func handled(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// sseOf writes frames, each after its pause.
func sseOf(w http.ResponseWriter, frames ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, f := range frames {
		switch f := f.(type) {
		case time.Duration:
			w.(http.Flusher).Flush()
			time.Sleep(f)
		case string:
			_, _ = io.WriteString(w, "data: "+f+"\n\n")
		}
	}
	w.(http.Flusher).Flush()
}

const (
	finish = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	end    = "[DONE]"
)

func says(text string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text)
}

func usageOf(prompt, completion int, more string) string {
	return fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d%s}}`, prompt, completion, more)
}

// api is how the engines here are asked.
func chatAPI() *plan.API { return &plan.API{Kind: plan.APIChat} }

type setup struct {
	wall   func() int64 // RealOptions.Wall
	engine *plan.Engine // launched; nil attaches to the URL
	stack  plan.Stack
	api    *plan.API
	work   plan.Workload
	ready  plan.Ready
	prompt string
	tokens int
	sys    string        // root of /sys; "" is this machine's
	every  time.Duration // between ticks of the sampler
}

// The test binary is flow's supervisor and the embedded engine when it is called so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			os.Exit(engine.Supervise(os.Args[2:], os.Stdin, os.Stdout))
		case "sim-engine":
			os.Exit(simengine.Main(os.Args[2:], os.Stdout, os.Stderr))
		case "freeze":
			os.Exit(freezeMain())
		}
	}
	os.Exit(m.Run())
}

// armOn measures one arm of an attached server, through everything that a session's arm goes through.
func armOn(t *testing.T, url string, o setup) *record.Arm {
	t.Helper()
	if o.api == nil {
		o.api = chatAPI()
	}
	if o.prompt == "" {
		o.prompt = "Tell me of the river, and of the stone in it."
	}
	if o.tokens == 0 {
		o.tokens = 20
	}
	w := o.work
	if w.Cases == nil {
		w.Cases = []plan.Case{{Prompts: []plan.Prompt{{Text: o.prompt}}, MaxTokens: o.tokens}}
	}
	w.Repeat, w.Concurrency = max(w.Repeat, 1), max(w.Concurrency, 1)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewReal(RealOptions{Exe: exe, Root: t.TempDir(), Work: t.TempDir(), StateDir: t.TempDir(), LockDir: t.TempDir(), SessionID: "s", KernelLog: "/dev/null", Wall: o.wall, Sys: o.sys, Interval: o.every})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	side := plan.Side{Label: "A", Engine: plan.Engine{Name: "e", URL: url, API: o.api, Ready: o.ready}, Workload: &w, Stack: o.stack}
	if o.engine != nil {
		side.Engine = *o.engine
	}
	g := &plan.Group{Name: "g", Sides: []plan.Side{side}, Workload: w, Primary: "decode_tok_s", Better: "higher"}
	ctx := context.Background()
	rig, err := m.Open(ctx, run.Task{SessionID: "s", GroupID: "g", ArmID: "arm", Group: g, GroupSeed: 7, Side: side, Levers: g.Levers(), Purpose: "measured"})
	if err != nil {
		t.Fatal(err)
	}
	a := &record.Arm{ID: "arm", Label: "A", Purpose: "measured", Attached: o.engine == nil}
	rig.Mark("launch")
	p, err := rig.Launch(ctx, side.Engine)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Confirm(ctx); err != nil {
		t.Fatal(err)
	}
	if w.Warmup > 0 || w.Stable != nil {
		rig.Mark("warm")
		if _, err := p.Generate(ctx, w, record.MarkWarm); err != nil {
			t.Fatal(err)
		}
	}
	rig.Mark("measure")
	if _, err := p.Generate(ctx, w, record.MarkMeasured); err != nil {
		t.Fatal(err)
	}
	rig.Mark("stop")
	if err := rig.Close(ctx, a); err != nil {
		t.Fatal(err)
	}
	a.Disposition = record.OK
	return a
}

// warns asserts a warning of the arm that begins with a topic and holds words.
func warns(t *testing.T, a *record.Arm, topic, words string) {
	t.Helper()
	for _, w := range a.Warnings {
		if strings.HasPrefix(w, topic+": ") && strings.Contains(w, words) {
			return
		}
	}
	t.Errorf("no warning %q with %q in %q", topic, words, a.Warnings)
}

func silent(t *testing.T, a *record.Arm, topic string) {
	t.Helper()
	for _, w := range a.Warnings {
		if strings.HasPrefix(w, topic+": ") {
			t.Errorf("a warning too many: %q", w)
		}
	}
}

func value(t *testing.T, a *record.Arm, name string) record.Metric {
	t.Helper()
	for _, m := range a.Metrics {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("the arm has no metric %s", name)
	return record.Metric{}
}

func number(t *testing.T, a *record.Arm, name string) float64 {
	t.Helper()
	m := value(t, a, name)
	if m.Value == nil {
		t.Fatalf("%s is not measured: %s", name, m.Why)
	}
	return *m.Value
}

// A server without faults is not warned of.
func TestNoTrapNoWarning(t *testing.T) {
	a := armOn(t, simURL(t, "--role-only-first=false"), setup{api: &plan.API{Kind: plan.APIChat, Tokenize: "/tokenize"}, work: plan.Workload{Repeat: 3, Nonce: true, Warmup: 1}})
	for _, topic := range []string{"frames are not tokens", "first frame", "empty first frame", "reasoning", "prompt cache", "failed requests", "concurrency not held", "prompt", "recount", "counts", "dead knob", "clock step"} {
		silent(t, a, topic)
	}
	if m := value(t, a, "decode_tok_s"); m.Value == nil || *m.Value < 1000 || *m.Value > 2100 {
		t.Errorf("decode_tok_s: got %+v", m)
	}
}
