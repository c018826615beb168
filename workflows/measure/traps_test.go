package measure

// The traps of measuring a streaming server, each committed by a server and named by flow: in a warning, a
// withheld value or a gate. The table in cmd/flow/doc/traps.md names these tests.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flow/builtins/engine"
	"flow/builtins/engine/simengine"
	"flow/builtins/gate"
	"flow/builtins/metric"
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
	m, err := NewReal(RealOptions{Exe: exe, Root: t.TempDir(), Work: t.TempDir(), StateDir: t.TempDir(), LockDir: t.TempDir(), SessionID: "s", KernelLog: "/dev/null", Sys: o.sys, Interval: o.every})
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

func TestT01FramesAreNotTokens(t *testing.T) {
	a := armOn(t, simURL(t, "--tokens-per-frame", "4"), setup{tokens: 400})
	warns(t, a, "frames are not tokens", "0.25 frames a token")
	for _, name := range []string{"itl_p50_ms", "itl_p95_ms"} {
		if m := value(t, a, name); m.Value != nil || m.Why == "" {
			t.Errorf("%s stands: %+v", name, m)
		}
	}
	if v := number(t, a, "icl_p50_ms"); v < 1.5 {
		t.Errorf("icl_p50_ms is %v, frames come every 2 ms", v)
	}
}

func TestT02EmptyFirstFrame(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, `{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`, 40*time.Millisecond, says("a"), 2*time.Millisecond, says("b"), finish, usageOf(5, 2, ""), end)
	}), setup{})
	warns(t, a, "empty first frame", "came")
	if gap := number(t, a, "ttft_ms") - number(t, a, "vllm_ttft_ms"); gap < 30 {
		t.Errorf("ttft_ms is %v ms after vLLM's, want 40", gap)
	}
}

func TestT03ReasoningCounts(t *testing.T) {
	for name, field := range map[string]string{"reasoning_content": "reasoning_content", "reasoning": "reasoning"} {
		t.Run(name, func(t *testing.T) {
			a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
				sseOf(w, `{"choices":[{"index":0,"delta":{"`+field+`":"hm"}}]}`, 30*time.Millisecond, says("a"), time.Millisecond, says("b"), finish, usageOf(5, 3, ""), end)
			}), setup{})
			warns(t, a, "reasoning", "ttft_content_ms does not")
			if d := number(t, a, "ttft_content_ms") - number(t, a, "ttft_ms"); d < 20 {
				t.Errorf("content came %v ms after the first token, want 30", d)
			}
		})
	}
}

func TestT04FirstFrameOfSeveralTokens(t *testing.T) {
	frame := func(text string, n int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, text, n)
	}
	known := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, frame("abcd", 4), 10*time.Millisecond, frame("e", 5), 10*time.Millisecond, frame("f", 6), finish, usageOf(5, 6, ""), end)
	}), setup{})
	warns(t, known, "first frame", "carried 4 tokens")
	q := known.Requests[0]
	if left := number(t, known, "decode_tok_s") * float64(*q.LastContentNS-*q.FirstContentNS) / 1e9; left < 1.99 || left > 2.01 {
		t.Errorf("decode_tok_s counts %v tokens after the first frame, want 2 and not 5", left)
	}
	unknown := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("abcd"), 10*time.Millisecond, says("e"), 10*time.Millisecond, says("f"), finish, usageOf(5, 6, ""), end)
	}), setup{})
	warns(t, unknown, "first frame", "is not known")
	if m := value(t, unknown, "decode_tok_s"); !strings.Contains(m.Rule, "unknown") {
		t.Errorf("the rule does not say what was assumed: %q", m.Rule)
	}
}

func TestT05FramesThatShareARead(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("a"), says("b"), says("c"), 10*time.Millisecond, says("d"), says("e"), says("f"), 10*time.Millisecond, says("g"), says("h"), says("i"), finish, usageOf(5, 9, ""), end)
	}), setup{})
	warns(t, a, "frames share reads", "%")
	if m := value(t, a, "itl_p50_ms"); m.Value != nil {
		t.Errorf("itl_p50_ms stands: %+v", m)
	}
	if r := a.Requests[0]; r.Coalesced < 6 {
		t.Errorf("got %d coalesced frames, want 6", r.Coalesced)
	}
}

func TestT06TheEndIsNotTheLastToken(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("a"), 5*time.Millisecond, says("b"), finish, usageOf(5, 2, ""), 90*time.Millisecond, end)
	}), setup{})
	warns(t, a, "long tail", "after its last token")
	if e2e, whole := number(t, a, "e2e_ms"), number(t, a, "guidellm_latency_ms"); whole-e2e < 80 {
		t.Errorf("e2e_ms %v, to the end of the stream %v", e2e, whole)
	}
}

// The step itself needs a clock that can be set; what an arm does with one is judged here, and what the
// client does with a stepped wall clock by TestWallClockStep of builtins/client.
func TestT07WallClockStep(t *testing.T) {
	a := armOn(t, simURL(t), setup{})
	silent(t, a, "clock step")
	a.Load.ClockStepNS = -3e9
	found := false
	for _, w := range warnings(a, nil) {
		found = found || strings.HasPrefix(w, "clock step: ") && strings.Contains(w, "-3000.0 ms")
	}
	if !found {
		t.Error("a step of 3 s is not named")
	}
}

func TestT08LateClient(t *testing.T) {
	a := armOn(t, simURL(t), setup{tokens: 300})
	if a.Load.LagP99US == nil {
		t.Fatal("flow did not watch its own timers")
	}
	_ = number(t, a, "client_lag_p99_ms")
	late := 45_000.
	a.Load.LagP99US = &late
	a.Metrics = metric.Arm(a, nil, metric.Inputs{})
	a.Warnings = warnings(a, nil)
	warns(t, a, "late client", "45 ms late")
}

// A server that does not read: the time to write the request shows apart, and is in no time to first token.
func TestT09ServerThatDoesNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				time.Sleep(150 * time.Millisecond)
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				body := "data: " + says("a") + "\n\ndata: " + says("b") + "\n\ndata: " + finish + "\n\ndata: " + usageOf(5, 2, "") + "\n\ndata: [DONE]\n\n"
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}()
		}
	}()
	a := armOn(t, "http://"+l.Addr().String(), setup{prompt: strings.Repeat("The river turns at the old stone. ", 200_000)})
	warns(t, a, "slow sending", "to connect and write")
	if v := number(t, a, "send_ms"); v < 50 {
		t.Errorf("send_ms: got %v, the server read after 150", v)
	}
	// And one that explains 1 ms of a long wait itself.
	b := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(120 * time.Millisecond)
		sseOf(w, says("a"), time.Millisecond, says("b"), finish, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2},"timings":{"prompt_n":5,"prompt_ms":1.0,"predicted_n":2,"predicted_ms":1.0}}`, end)
	}), setup{})
	warns(t, b, "waiting", "than the server's own time for the prompt")
}

func TestT10ConcurrencyNotHeld(t *testing.T) {
	a := armOn(t, simURL(t, "--slots", "2", "--decode-tok-s", "50"), setup{
		api:    &plan.API{Kind: plan.APIChat, Metrics: "/metrics", Counts: []plan.CountFrom{{Running: "sim_requests_running"}}},
		work:   plan.Workload{Repeat: 4, Concurrency: 4, Nonce: true},
		tokens: 40,
	})
	warns(t, a, "concurrency not held", "sim_requests_running at most 2")
	if v := number(t, a, "in_flight_pct"); v != 50 {
		t.Errorf("in_flight_pct: got %v, want 50", v)
	}
}

func TestT11CoordinatedOmission(t *testing.T) {
	a := armOn(t, simURL(t, "--slots", "1", "--decode-tok-s", "200"), setup{
		work:   plan.Workload{Repeat: 6, Nonce: true, Arrival: &plan.Arrival{Kind: plan.ArrivalConstant, Rate: 50}},
		tokens: 10,
	})
	for _, r := range a.Requests {
		if r.Mark == record.MarkMeasured && (r.ScheduledNS == nil || *r.StartNS < *r.ScheduledNS) {
			t.Fatalf("request %d has no schedule", r.Index)
		}
	}
	service, response := number(t, a, "e2e_ms"), number(t, a, "response_ms")
	if response < service || number(t, a, "mlperf_latency_ms") < response {
		t.Errorf("response %v ms is shorter than service %v ms", response, service)
	}
	// A late sender shows against the schedule, in the response time and in a warning.
	for i := range a.Requests {
		if s := a.Requests[i].ScheduledNS; s != nil {
			late := *s - 40e6
			a.Requests[i].ScheduledNS, a.Requests[i].Values = &late, nil
		}
	}
	a.Metrics = metric.Arm(a, nil, metric.Inputs{})
	a.Warnings = warnings(a, nil)
	warns(t, a, "late sending", "after they were due")
	if v := number(t, a, "response_ms"); v < response+39 {
		t.Errorf("response_ms: got %v, want 40 more than %v", v, response)
	}
}

func TestT12PromptCache(t *testing.T) {
	long := strings.Repeat("south of the harbour the light is grey and ", 20)
	url := simURL(t)
	a := armOn(t, url, setup{prompt: long, work: plan.Workload{Repeat: 2, Warmup: 1}})
	warns(t, a, "prompt cache", "came from a cache")
	b := armOn(t, simURL(t), setup{prompt: long, work: plan.Workload{Repeat: 2, Warmup: 1, Nonce: true}})
	silent(t, b, "prompt cache")
}

func TestT13CachedUnknownIsNotNone(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("a"), time.Millisecond, says("b"), finish, usageOf(50, 2, ""), end)
	}), setup{})
	warns(t, a, "prompt cache", "unknown, not none")
	for _, name := range []string{"cached_tokens", "cached_pct"} {
		if m := value(t, a, name); m.Value != nil || m.Why == "" {
			t.Errorf("%s: got %+v, want none with its reason", name, m)
		}
	}
}

// grouped judges arms of two sides.
func grouped(sides map[string]*record.Arm) *record.Group {
	g := &record.Group{ID: "g", Control: "A", Primary: "decode_tok_s", Better: "higher", Cap: 1, Order: "AB", Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}}
	for i, label := range []string{"A", "B"} {
		a := sides[label]
		a.Label, a.Slot, a.Seq, a.GroupID = label, i, i, "g"
		g.Arms = append(g.Arms, a)
	}
	gate.Judge(g, nil)
	return g
}

func groupWarns(t *testing.T, g *record.Group, words string) {
	t.Helper()
	for _, w := range g.Warnings {
		if strings.Contains(w, words) {
			return
		}
	}
	t.Errorf("no warning with %q in %q", words, g.Warnings)
}

func TestT14AnswersOfDifferentLength(t *testing.T) {
	g := grouped(map[string]*record.Arm{"A": armOn(t, simURL(t), setup{}), "B": armOn(t, simURL(t, "--eos-at", "9"), setup{})})
	groupWarns(t, g, "answers end differently: side A length 100 %, side B stop 100 %")
	g = grouped(map[string]*record.Arm{"A": armOn(t, simURL(t), setup{}), "B": armOn(t, simURL(t), setup{tokens: 12})})
	groupWarns(t, g, "answers differ in length: side A 20 tokens, side B 12")
}

// A server that reports more tokens than its text holds is found by the recount; one whose text can be cut
// into fewer tokens than it made is not accused when its own timings agree with its usage.
func TestT15RecountOfText(t *testing.T) {
	api := &plan.API{Kind: plan.APIChat, Tokenize: "/tokenize"}
	lying := armOn(t, simURL(t, "--wrong-usage", "30", "--no-timings", "--decode-tok-s", "400"), setup{api: api, tokens: 60})
	m := value(t, lying, "decode_tok_s")
	if m.Value != nil || m.Withheld == nil || !strings.Contains(m.Why, "tokenize 60") {
		t.Errorf("decode_tok_s: got %+v, want it withheld by the recount", m)
	}
	merging := armOn(t, handled(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tokenize" {
			_, _ = io.WriteString(w, `{"tokens":[1,2]}`) // the text cut again: "ab" and "cd"
			return
		}
		sseOf(w, says("a"), time.Millisecond, says("b"), time.Millisecond, says("c"), time.Millisecond, says("d"), finish,
			`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":4},"timings":{"prompt_n":5,"prompt_ms":1.0,"predicted_n":4,"predicted_ms":3.0}}`, end)
	}), setup{api: api})
	if m := value(t, merging, "decode_tok_s"); m.Value == nil {
		t.Errorf("decode_tok_s is not measured: %s", m.Why)
	}
	warns(t, merging, "recount", "does not lead back to its tokens")
}

func TestT16SurvivorsOnly(t *testing.T) {
	n := 0
	url := handled(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n%2 == 0 {
			sseOf(w, says("a"), `{"error":{"code":500,"message":"no room"}}`)
			return
		}
		sseOf(w, says("a"), 2*time.Millisecond, says("b"), 2*time.Millisecond, says("c"), finish, usageOf(5, 3, ""), end)
	})
	a := armOn(t, url, setup{work: plan.Workload{Repeat: 4}})
	warns(t, a, "failed requests", "2 of 4 measured requests did not end ok")
	if m := value(t, a, "decode_tok_s"); !strings.Contains(m.Rule, "survivors only") {
		t.Errorf("the median is not labelled: %q", m.Rule)
	}
	if v := number(t, a, "error_rate_pct"); v != 50 {
		t.Errorf("error_rate_pct: got %v", v)
	}
	failed := 0
	for _, r := range a.Requests {
		if r.Status != "ok" && r.Error == "no room" && r.ContentFrames == 1 {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d failed rows kept, want 2 with what had arrived", failed)
	}
}

// Text that differs between the arms of one side is no evidence against the lever of the other.
func TestT17TextNotRepeatable(t *testing.T) {
	n := 0
	url := handled(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		sseOf(w, says("The same "), time.Millisecond, says([]string{"river", "rivet"}[n%2]), finish, usageOf(5, 2, ""), end)
	})
	g := &record.Group{ID: "g", Control: "A", Primary: "decode_tok_s", Better: "higher", Cap: 1, Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}}
	for i, label := range []string{"A", "B", "B", "A"} {
		a := armOn(t, url, setup{})
		a.Label, a.Slot, a.Seq, a.GroupID = label, i, i, "g"
		if i == 3 { // the fourth is what the first was not
			a.Requests[0].Text, a.Requests[0].TextSHA = "The same rivet", "other"
		}
		g.Arms = append(g.Arms, a)
	}
	gate.Judge(g, nil)
	groupWarns(t, g, "text not repeatable: request 0 of side A differs between its own arms")
}

func TestT22ClientTakesTheEnginesTime(t *testing.T) {
	a := armOn(t, simURL(t), setup{tokens: 200})
	if a.Load.CPUSeconds == nil {
		t.Fatal("flow does not know what it cost")
	}
	for _, name := range []string{"client_cpu_pct", "client_cpu_s_per_ktok"} {
		if v := number(t, a, name); v < 0 {
			t.Errorf("%s: got %v", name, v)
		}
	}
	much := float64(a.Load.WindowNS) / 1e9 * .6
	a.Load.CPUSeconds = &much
	a.Metrics = metric.Arm(a, nil, metric.Inputs{})
	a.Warnings = warnings(a, nil)
	warns(t, a, "busy client", "60 % of a core")
}

func TestT24RandomAndRepeatedPrompts(t *testing.T) {
	for name, tt := range map[string]struct {
		prompt plan.Prompt
		words  string
	}{
		"random words": {plan.Prompt{Random: 300, Seed: 3}, "looks random"},
		"one word":     {plan.Prompt{Text: strings.Repeat("again ", 300)}, "repeats itself"},
	} {
		t.Run(name, func(t *testing.T) {
			a := armOn(t, simURL(t), setup{work: plan.Workload{Cases: []plan.Case{{Prompts: []plan.Prompt{tt.prompt}, MaxTokens: 5}}}})
			warns(t, a, "prompt", tt.words)
		})
	}
	const real = `The engine is the program under test, and a lever is one named change to it. A group runs sides in an order that cancels drift, and an arm is one
fresh launch of one side. What was not measured is not zero: it is nothing, with the reason why. Two arms are a range, four are an estimate, and a verdict needs
evidence that the lever took effect. When the swap grew, when the clock was throttled, when the prompt was in a cache, the arm is kept on record and does not count.`
	if why := promptTrouble(real); why != "" {
		t.Errorf("real text: %s", why)
	}
}

func TestT25RampsInTheWindow(t *testing.T) {
	var served atomic.Int64
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		frames := []any{}
		k := 5
		if served.Add(1) == 4 {
			k = 60 // one straggler: the rest of the window is a drain
		}
		for range k {
			frames = append(frames, says("a"), 2*time.Millisecond)
		}
		sseOf(w, append(frames, finish, usageOf(5, k, ""), end)...)
	}), setup{tokens: 60, work: plan.Workload{Repeat: 4, Concurrency: 2}})
	warns(t, a, "ramps", "of the window")
	if whole, steady := number(t, a, "throughput_tok_s"), number(t, a, "steady_throughput_tok_s"); steady < whole {
		t.Errorf("steady throughput %v is below the whole %v", steady, whole)
	}
}

// A slow answer to small requests is shown beside the time to first token, and no figure is corrected for it.
func TestT29ProbeIsNotSubtracted(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			time.Sleep(30 * time.Millisecond)
			return
		}
		time.Sleep(10 * time.Millisecond)
		sseOf(w, says("a"), time.Millisecond, says("b"), finish, usageOf(5, 2, ""), end)
	}), setup{ready: plan.Ready{Kind: plan.ReadyHTTP, Path: "/health"}})
	warns(t, a, "round trip", "no figure is corrected for it")
	if rtt, ttft := number(t, a, "net_rtt_ms"), number(t, a, "ttft_ms"); rtt < 30 || ttft < 10 || ttft > rtt {
		t.Errorf("round trip %v ms, time to first token %v ms, want 30 and 10", rtt, ttft)
	}
	_ = number(t, a, "net_rtt_spread_ms")
}

// simEngine is the embedded engine as a process.
func simEngine(args ...string) *plan.Engine {
	return &plan.Engine{Name: "sim", Command: append([]string{"{flow}", "sim-engine", "serve", "--port", "{port}", "--decode-tok-s", "2000", "--prefill-tok-s", "200000"}, args...),
		Ready: plan.Ready{Kind: plan.ReadyHTTP, Path: "/health"}, API: &plan.API{Kind: plan.APIChat, Metrics: "/metrics"}}
}

// A lever that the engine takes and ignores has no evidence, and a variable that is nowhere in the program is
// a dead knob: neither can be neutral.
func TestT32LeverThatDidNothing(t *testing.T) {
	yes := "true"
	ignored := plan.Lever{Name: "fast", Args: []plan.Arg{{Flag: "--on", Values: []string{"fast"}}}, Confirm: []plan.Confirm{{Kind: plan.ConfirmHTTP, Path: "/props", Pointer: "/levers/fast", Equals: &yes}}}
	e := simEngine("--lever", "fast=+20%", "--ignore", "fast")
	b := armOn(t, "", setup{engine: e, stack: plan.Stack{ignored}})
	for _, ev := range b.Evidence {
		if ev.Lever == "fast" && ev.Found {
			t.Errorf("evidence was found: %+v", ev)
		}
	}
	a := armOn(t, "", setup{engine: e})
	g := &record.Group{ID: "g", Control: "A", Primary: "decode_tok_s", Better: "higher", Cap: 1,
		Sides: []record.Side{{Label: "A", Control: true}, {Label: "B", Stack: plan.Stack{ignored}.Record()}}}
	for i, x := range []*record.Arm{a, b} {
		x.Label, x.Slot, x.Seq, x.GroupID, x.Group = g.Sides[i].Label, i, i, "g", g
		x.Disposition, x.Reason = gate.JudgeArm(x)
		g.Arms = append(g.Arms, x)
	}
	gate.Judge(g, nil)
	if g.Verdict == record.Equivalent || g.Verdict == record.Better || b.Disposition == record.OK {
		t.Errorf("got verdict %q, arm %s (%s): a lever without evidence counted", g.Verdict, b.Disposition, b.Reason)
	}

	knob := strings.Join([]string{"ENGINE", "FASTER", "ATTENTION"}, "_") // made at run time: the test binary is the engine
	dead := plan.Lever{Name: "dead", Env: map[string]string{knob: "1"}, Confirm: []plan.Confirm{{Kind: plan.ConfirmEnviron}}}
	d := armOn(t, "", setup{engine: e, stack: plan.Stack{dead}})
	warns(t, d, "dead knob", "lever dead sets "+knob)
	unconfirmed := false
	for _, ev := range d.Evidence {
		unconfirmed = unconfirmed || ev.Kind == plan.ConfirmLiteral && !ev.Found
	}
	if !unconfirmed {
		t.Errorf("the evidence does not say so: %+v", d.Evidence)
	}
}

// strataAPI is as @flow//engines/strata.star has it.
func strataAPI() *plan.API {
	return &plan.API{Kind: plan.APIChat, Metrics: "/metrics?requests=all", Counts: []plan.CountFrom{
		{What: "completion", Log: `^strata serve: prompt \d+ tokens = .*, (\d+) generated in`},
		{What: "cached", Log: `^strata serve: prompt \d+ tokens = (\d+) reused`},
		{What: "accepted", Log: `^strata serve: prompt .* drafts accepted (\d+) of \d+`},
		{What: "completion", Series: "requests.*.output_tokens"},
	}}
}

// Counts of every source of a Strata-like server: usage, timings, log lines, and a metrics endpoint that
// lags the stream. A usage that lies is found by the others, and the rates are withheld.
func TestCountsOfEverySource(t *testing.T) {
	e := simEngine("--as", "strata")
	e.API = strataAPI()
	a := armOn(t, "", setup{engine: e, tokens: 60, work: plan.Workload{Repeat: 2, Warmup: 1, Nonce: true}})
	for _, r := range a.Requests {
		sources := map[string]int{}
		for _, c := range r.Counts {
			if c.What == "completion" && c.Source != "frames" {
				sources[c.Source] = c.N
			}
		}
		for _, s := range []string{"usage", "timings", "log", "metrics"} {
			if sources[s] != 60 {
				t.Errorf("request %d: %s counts %d tokens, want 60: %v", r.Index, s, sources[s], sources)
			}
		}
		if r.DraftTokens == nil || *r.DraftTokens != 30 || r.DraftAccepted == nil || *r.DraftAccepted != 20 {
			t.Errorf("request %d: drafts %v, accepted %v", r.Index, r.DraftTokens, r.DraftAccepted)
		}
	}
	if v := number(t, a, "draft_accept_pct"); v < 66 || v > 67 {
		t.Errorf("draft_accept_pct: got %v", v)
	}
	if v := number(t, a, "decode_tok_s"); v <= 0 {
		t.Errorf("decode_tok_s: got %v", v)
	}
	lies := simEngine("--as", "strata", "--wrong-usage", "20")
	lies.API = strataAPI()
	b := armOn(t, "", setup{engine: lies, tokens: 60})
	m := value(t, b, "decode_tok_s")
	if m.Value != nil || m.Withheld == nil || !strings.Contains(m.Why, "log 60") || !strings.Contains(m.Why, "metrics 60") {
		t.Errorf("decode_tok_s: got %+v, want it withheld by log and metrics", m)
	}
}

// Ollama's own API, end to end.
func TestOllamaEndToEnd(t *testing.T) {
	e := simEngine()
	e.API = &plan.API{Kind: plan.APIOllama, Model: "sim"}
	a := armOn(t, "", setup{engine: e, tokens: 100, work: plan.Workload{Repeat: 2, Nonce: true}})
	if v := number(t, a, "decode_tok_s"); v < 200 || v > 2200 {
		t.Errorf("decode_tok_s: got %v, the engine's is 2000", v)
	}
	client, printed := number(t, a, "server_decode_tok_s"), number(t, a, "ollama_eval_tok_s")
	if r := printed / client; r < .995 || r > 1.02 { // 100 tokens over an interval of 99 steps
		t.Errorf("Ollama prints %v, on the client's convention it is %v", printed, client)
	}
	for _, r := range a.Requests {
		if r.Status != "ok" || r.CompletionTokens == nil || *r.CompletionTokens != 100 {
			t.Errorf("request %d: %s %s, tokens %v", r.Index, r.Status, r.Error, r.CompletionTokens)
		}
	}
}

func TestSeriesWithLabels(t *testing.T) {
	m := map[string]float64{"a": 1, `b{engine="0"}`: 2, `b{engine="1"}`: 3, "bc": 9}
	for name, want := range map[string]float64{"a": 1, "b": 5} {
		if got, ok := ofSeries(m, name); !ok || got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if _, ok := ofSeries(m, "d"); ok {
		t.Error("a series that is not there was found")
	}
}

// Due times, by hand.
func TestSchedule(t *testing.T) {
	ms := func(ds []time.Duration) (out []int64) {
		for _, d := range ds {
			out = append(out, d.Milliseconds())
		}
		return out
	}
	for name, tt := range map[string]struct {
		a    plan.Arrival
		want []int64
	}{
		"constant": {plan.Arrival{Kind: plan.ArrivalConstant, Rate: 4}, []int64{0, 250, 500, 750, 1000}},
		"burst":    {plan.Arrival{Kind: plan.ArrivalBurst, Size: 2, Every: time.Second}, []int64{0, 0, 1000, 1000, 2000}},
		"trace":    {plan.Arrival{Kind: plan.ArrivalTrace, Times: []float64{0, 1, 4}}, []int64{0, 1000, 4000, 6000, 7000}}, // 4 s in 3 places: 6 s a round
	} {
		if got := ms(schedule(tt.a, 5, 1)); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	a, b := schedule(plan.Arrival{Kind: plan.ArrivalPoisson, Rate: 10}, 2000, 7), schedule(plan.Arrival{Kind: plan.ArrivalPoisson, Rate: 10}, 2000, 7)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("equal seeds give other times")
	}
	if mean := a[1999].Seconds() / 1999; mean < .09 || mean > .11 {
		t.Errorf("mean gap %v s, want .1", mean)
	}
}

func TestWarmUntilStable(t *testing.T) {
	if !isStable([]float64{9, 1, 1.02, 1.01}, plan.Stable{Within: .03, Window: 3}) || isStable([]float64{1, 1.1, 1}, plan.Stable{Within: .03, Window: 3}) || isStable([]float64{1, 1}, plan.Stable{Within: .03, Window: 3}) {
		t.Error("stability is judged wrongly")
	}
	s := &plan.Stable{Within: 10, Window: 2, AtMost: 5}
	a := armOn(t, simURL(t, "--warm-penalty", "50%"), setup{work: plan.Workload{Stable: s, Repeat: 1, Nonce: true}})
	if a.Load.StableWarm == nil || !*a.Load.StableWarm || a.Load.WarmRequests != 2 {
		t.Errorf("got %+v", a.Load)
	}
	// Measured requests have the same index, and so the same nonce, however long the warm-up was.
	if r := a.Requests[len(a.Requests)-2]; r.Mark != record.MarkMeasured || r.Index != 5 || r.WarmState == "" {
		t.Errorf("got request %d, %s, %q", r.Index, r.Mark, r.WarmState)
	}
	s.Within = 1e-9
	b := armOn(t, simURL(t), setup{work: plan.Workload{Stable: s, Repeat: 1}})
	warns(t, b, "warm-up", "did not become stable in 5")
}
