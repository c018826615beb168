package measure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Traps of load: clocks, a client that is late or busy, requests that wait, and how they are laid out in time.

// The wall clock is set, by an hour and either way, while an answer comes in.
func TestT07WallClockStep(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		var moved atomic.Int64
		a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
			sseOf(w, says("a"), 20*time.Millisecond)
			moved.Store(int64(step))
			sseOf(w, says("b"), 20*time.Millisecond, says("c"), finish, usageOf(5, 3, ""), end)
		}), setup{wall: func() int64 { return time.Now().UnixNano() + moved.Load() }})
		warns(t, a, "clock step", fmt.Sprintf("stepped by %.1f ms", float64(step.Milliseconds())))
		q := a.Requests[len(a.Requests)-1]
		if d := time.Duration(*q.LastContentNS - *q.FirstContentNS); d < 35*time.Millisecond || d > 30*time.Minute {
			t.Errorf("a step of %s: frames are %s apart, want 40 ms and more", step, d)
		}
		if !strings.Contains(strings.Join(q.Warnings, " "), "the wall clock was stepped") {
			t.Errorf("the request does not say so: %q", q.Warnings)
		}
	}
}

// freezes is how often freezeMain stops its parent, and for how long.
const (
	freezes = 5
	frozen  = 60 * time.Millisecond
)

// freezeMain takes the processor from the process that started it, as a machine without time for it would.
func freezeMain() int {
	parent := os.Getppid()
	for range freezes {
		if syscall.Kill(parent, syscall.SIGSTOP) != nil {
			return 1
		}
		time.Sleep(frozen)
		if syscall.Kill(parent, syscall.SIGCONT) != nil {
			return 1
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}

// freeze stops this process again and again, and returns when that is over.
func freeze(t *testing.T) {
	exe, err := os.Executable()
	if err == nil {
		err = exec.Command(exe, "freeze").Run()
	}
	if err != nil {
		t.Error(err)
	}
}

// The process is stopped while it reads an answer: nothing of it ran, its timers were late.
func TestT08LateClient(t *testing.T) {
	a := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		sseOf(w, says("a"), time.Millisecond)
		freeze(t)
		sseOf(w, says("b"), finish, usageOf(5, 2, ""), end)
	}), setup{})
	if v := number(t, a, "client_lag_p99_ms"); v < lateTimerMS {
		t.Errorf("client_lag_p99_ms: got %v, the process was stopped for %s at a time", v, frozen)
	}
	warns(t, a, "late client", "ms late (p99)")
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

// Somebody else asks the same server: what it did for them it did not do for us.
func TestOtherRequestsAreNamed(t *testing.T) {
	url := simURL(t, "--slots", "2", "--decode-tok-s", "200")
	o := setup{api: &plan.API{Kind: plan.APIChat, Metrics: "/metrics", Counts: []plan.CountFrom{{Running: "sim_requests_running"}}}, work: plan.Workload{Nonce: true}}
	silent(t, armOn(t, url, o), "other requests")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"messages": [{"role": "user", "content": "and I?"}], "max_tokens": 20000, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the other request got %s", resp.Status)
	}
	warns(t, armOn(t, url, o), "other requests", "runs 1 that are not flow's (sim_requests_running)")
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
	// A sender that is stopped sends late, and does not forget when the requests were due.
	var served atomic.Int64
	b := armOn(t, handled(t, func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1) == 1 {
			freeze(t)
		}
		sseOf(w, says("a"), time.Millisecond, says("b"), finish, usageOf(5, 2, ""), end)
	}), setup{work: plan.Workload{Repeat: 40, Nonce: true, Arrival: &plan.Arrival{Kind: plan.ArrivalConstant, Rate: 100}}})
	warns(t, b, "late sending", "after they were due")
	if lag := number(t, b, "schedule_lag_p99_ms"); lag < 20 {
		t.Errorf("schedule_lag_p99_ms: got %v, the sender was stopped for %s at a time", lag, frozen)
	}
}

// A flood of frames keeps flow as busy as an engine that wants every core for itself would notice. How much of
// a core it gets is the machine's decision, so a machine that is taken by others may need more than one try.
func TestT22ClientTakesTheEnginesTime(t *testing.T) {
	const tries, frames = 5, 200_000
	url := handled(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range frames {
			_, _ = io.WriteString(w, "data: "+says("a")+"\n\n")
		}
		sseOf(w, finish, usageOf(5, frames, ""), end)
	})
	for try := 1; ; try++ {
		a := armOn(t, url, setup{work: plan.Workload{Repeat: 8, Concurrency: 4}, tokens: frames})
		if number(t, a, "client_cpu_s_per_ktok") <= 0 {
			t.Error("client_cpu_s_per_ktok is nothing")
		}
		if v := number(t, a, "client_cpu_pct"); v > busyClient || try == tries {
			warns(t, a, "busy client", fmt.Sprintf("%.0f %% of a core", v))
			return
		}
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
	if rtt, ttft := number(t, a, "net_rtt_ms"), number(t, a, "ttft_ms"); rtt < 30 || ttft < 10 {
		t.Errorf("round trip %v ms, time to first token %v ms, want 30 and 10 at least", rtt, ttft)
	}
	_ = number(t, a, "net_rtt_spread_ms")
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
