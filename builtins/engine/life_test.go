package engine

// The life of scripted engines: launch, ready, stop, and what may go wrong at each.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
)

func TestServer(t *testing.T) {
	p := start(t, serverOf("serve"))
	ready(t, p)
	info := p.Info()
	if info.Pid == 0 || info.Port == 0 || info.ReadyNS <= info.LaunchNS || info.Argv[0] != os.Args[0] {
		t.Fatalf("info of a ready server: %+v", info)
	}
	if want := fmt.Sprintf("http://127.0.0.1:%d", info.Port); p.BaseURL() != want {
		t.Errorf("base url: got %s, want %s", p.BaseURL(), want)
	}
	if info.ReadyNS-info.LaunchNS < (50 * time.Millisecond).Nanoseconds() {
		t.Errorf("ready after %d ns, but it answered 503 for 50 ms", info.ReadyNS-info.LaunchNS)
	}
	if !slices.Contains(p.Tree(), info.Pid) {
		t.Errorf("tree %v lacks the engine %d", p.Tree(), info.Pid)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatalf("second stop: %v", err)
	}
	info = p.Info()
	if info.StoppedBy != bySignal || info.Signal != "SIGTERM" || info.ExitCode != nil || len(info.Leftovers) != 0 || info.OOMKilled {
		t.Errorf("stopped by %s, signal %s, code %v, leftovers %v, oom %v; want signal SIGTERM and nothing else", info.StoppedBy, info.Signal, info.ExitCode, info.Leftovers, info.OOMKilled)
	}
	if !strings.Contains(info.Log, "listening on") || info.LogBytes != int64(len(info.Log)) || !strings.Contains(info.LogTail, "listening on") {
		t.Errorf("log %q of %d bytes, tail %q", info.Log, info.LogBytes, info.LogTail)
	}
	if !portFree(info.Port) || len(p.Tree()) != 0 || alive(info.Pid, info.StartTicks) {
		t.Error("something is left of it")
	}
	if info.ExitNS < info.ReadyNS {
		t.Errorf("exit at %d before ready at %d", info.ExitNS, info.ReadyNS)
	}
}

func TestCommandEngine(t *testing.T) {
	l := launchOf("echo", "{out}", "{max_tokens}", "{{max_tokens}}")
	l.Vars = map[string]string{"max_tokens": "7"}
	l.Out = t.TempDir()
	p := start(t, l)
	ready(t, p)
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	info := p.Info()
	if info.StoppedBy != byItself || info.ExitCode == nil || *info.ExitCode != 0 {
		t.Errorf("stopped by %s with %v, want itself with 0", info.StoppedBy, info.ExitCode)
	}
	if want := "out 1\nerr 2\nout 3 " + l.Out + " 7 {max_tokens}\n"; info.Log != want {
		t.Errorf("log in the order of writing: got %q, want %q", info.Log, want)
	}
	if _, ok := p.Stdout(); ok {
		t.Error("standard output has a file of its own, but no metric asks for it")
	}
}

func TestStdoutApart(t *testing.T) {
	l := launchOf("echo", "x")
	l.Engine.Metrics = []plan.Metric{{Name: "m", Extract: &plan.Extract{Kind: "stdout", Pattern: "out (.)"}}}
	p := start(t, l)
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, ok := p.Stdout(); !ok || out != "out 1\nout 3 x\n" {
		t.Errorf("stdout: got %q, %v", out, ok)
	}
	if want := "err 2\n--- standard output ---\nout 1\nout 3 x\n"; p.Log() != want {
		t.Errorf("log: got %q, want %q", p.Log(), want)
	}
}

func TestCommandEngineFails(t *testing.T) {
	p := start(t, launchOf("exit", "3"))
	err := p.Wait(t.Context())
	var ee *ExitError
	if !errors.As(err, &ee) || ee.Code == nil || *ee.Code != 3 || !strings.Contains(ee.LogTail, "--frobnicate") {
		t.Fatalf("got %v (%+v), want exit code 3 with the log's tail", err, ee)
	}
	p = start(t, launchOf("abort"))
	if err := p.Wait(t.Context()); !errors.As(err, &ee) || ee.Signal != "SIGKILL" || ee.OOMKilled {
		t.Fatalf("got %v, want SIGKILL, not for memory", err)
	}
	l := launchOf("sleep")
	l.Engine.Timeouts.Request = 50 * time.Millisecond
	p = start(t, l)
	if err := p.Wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "still runs after 50ms") {
		t.Fatalf("got %v, want the time that was allowed", err)
	}
}

func TestNotReady(t *testing.T) {
	withTimeout := func(l Launch, d time.Duration) Launch { l.Engine.Timeouts.Ready = d; return l }
	exits := serverOf("exit")
	exits.Command.Argv = []string{os.Args[0], "engine", "exit", "2"}
	exits.Command.Env["PORT"] = "{port}"
	clean := exits
	clean.Command.Argv = []string{os.Args[0], "engine", "exit", "0"}
	logs := launchOf("never")
	logs.Engine.Ready = plan.Ready{Kind: plan.ReadyLog, Pattern: "model loaded"}
	for _, c := range []struct {
		name      string
		launch    Launch
		permanent bool
		want      string
	}{
		{"exit before ready", exits, true, "engine exit ended before it was ready: engine exited with 2"},
		{"exit 0 before ready", clean, true, "engine exited with 0"},
		{"signal before ready", serverOf("abort"), false, "was ended by SIGKILL"},
		{"nothing listens", withTimeout(serverOf("never"), 400*time.Millisecond), false, "not ready within 400ms (GET /health: nothing listens on port"},
		{"no line", withTimeout(logs, 60*time.Millisecond), false, `not ready within 60ms (no log line matches "model loaded")`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, c.launch)
			err := p.WaitReady(t.Context())
			var se *StartError
			if !errors.As(err, &se) {
				t.Fatalf("got %v, want a StartError", err)
			}
			if !strings.Contains(err.Error(), c.want) || se.Permanent != c.permanent {
				t.Errorf("got %q, permanent %v; want %q, %v", err, se.Permanent, c.want, c.permanent)
			}
			if strings.HasPrefix(c.name, "exit") && !strings.Contains(se.LogTail, "unknown argument") {
				t.Errorf("tail %q lacks the engine's own words", se.LogTail)
			}
		})
	}
}

// A command that ended well before the first look was ready all the same: it is measured by what it left.
func TestCommandThatIsQuickerThanTheFirstLook(t *testing.T) {
	l := launchOf("true")
	l.Command.Argv, l.Engine.API, l.Engine.Ready = []string{"true"}, nil, plan.Ready{}
	p := start(t, l)
	<-p.Done()
	if err := p.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Info().ReadyNS == 0 {
		t.Error("no time of readiness")
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReadyKinds(t *testing.T) {
	line := serverOf("serve")
	line.Engine.Ready = plan.Ready{Kind: plan.ReadyLog, Pattern: `listening on http://\S+:\d+`}
	port := serverOf("serve")
	port.Engine.Ready = plan.Ready{Kind: plan.ReadyPort}
	late := launchOf("late")
	late.Engine.Ready = plan.Ready{Kind: plan.ReadyLog, Pattern: `^listening on`}
	status := serverOf("loading")
	status.Engine.Ready = plan.Ready{Kind: plan.ReadyHTTP, Path: "/health", Status: 503}
	for name, l := range map[string]Launch{"log": line, "port": port, "log line without end": late, "status": status} {
		t.Run(name, func(t *testing.T) { ready(t, start(t, l)) })
	}
}

// Whoever listens already answers every probe well. Only ownership tells.
func TestPortTaken(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	for _, mode := range []string{"never", "serve"} {
		l := serverOf(mode)
		l.Engine.Ready = plan.Ready{Kind: plan.ReadyPort}
		l.Vars = map[string]string{"port": strconv.Itoa(port)}
		p := start(t, l)
		err := p.WaitReady(t.Context())
		if err == nil || isPermanent(err) {
			t.Fatalf("%s: got %v, want a passing failure", mode, err)
		}
		if want := fmt.Sprintf("port %d is taken by pid %d", port, os.Getpid()); runtime.GOOS == "linux" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, want %q", mode, err, want)
		}
		if kind, _ := diag.KindOf(err); mode == "never" && kind != diag.Machine {
			t.Errorf("got kind %v, want the machine's fault", kind)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v; the port is not ours to prove free", err)
		}
	}
}

func TestStubborn(t *testing.T) {
	l := serverOf("stubborn")
	l.Engine.Timeouts.Stop = 50 * time.Millisecond
	p := start(t, l)
	ready(t, p)
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info := p.Info(); info.StoppedBy != byKill || info.Signal != "SIGKILL" || info.OOMKilled || len(info.Leftovers) != 0 {
		t.Errorf("stopped by %s with %s, oom %v, leftovers %v; want our kill", info.StoppedBy, info.Signal, info.OOMKilled, info.Leftovers)
	}
}

// A cancelled context shortens the grace, so that Ctrl-C does not wait for it.
func TestStopCancelled(t *testing.T) {
	l := serverOf("stubborn")
	l.Engine.Timeouts.Stop = time.Hour
	before, during := start(t, l), start(t, l)
	ready(t, before)
	ready(t, during)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := during.Stop(ctx); err != nil { // cancelled meanwhile
		t.Fatal(err)
	}
	if err := before.Stop(ctx); err != nil { // cancelled before
		t.Fatal(err)
	}
	for _, p := range []*Process{before, during} {
		if info := p.Info(); info.StoppedBy != byKill || alive(info.Pid, info.StartTicks) {
			t.Errorf("stopped by %s, want kill", info.StoppedBy)
		}
	}
}

func TestLeftovers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has subreapers")
	}
	for _, c := range []struct{ mode, left string }{
		{"orphan", "engine sleep"},      // another session, parent gone
		{"groupchild", "engine ignore"}, // same group, ignores the stop signal
	} {
		for _, cgroups := range []string{"", "off"} {
			t.Run(c.mode+" cgroups="+cgroups, func(t *testing.T) {
				l := serverOf(c.mode)
				if c.mode == "groupchild" { // the whole grace passes; long enough for the engine itself to end of the signal on a busy machine
					l.Engine.Timeouts.Stop = time.Second
				}
				o := testOptions()
				o.Cgroups = cgroups
				l.Out = t.TempDir()
				p, err := Start(t.Context(), o, l)
				if err != nil {
					t.Fatal(err)
				}
				ready(t, p)
				tree := p.Tree()
				if len(tree) != 2 {
					t.Errorf("tree %v, want the engine and its child", tree)
				}
				if err := p.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				info := p.Info()
				if len(info.Leftovers) != 1 || !strings.Contains(info.Leftovers[0], c.left) {
					t.Errorf("leftovers %v, want one that ran %q", info.Leftovers, c.left)
				}
				if !gone(tree) {
					t.Errorf("some of %v still live", tree)
				}
				if info.StoppedBy != bySignal {
					t.Errorf("stopped by %s, want signal", info.StoppedBy)
				}
				if info.Cgroup != "" {
					if _, err := os.Stat(info.Cgroup); !os.IsNotExist(err) {
						t.Errorf("cgroup %s is left: %v", info.Cgroup, err)
					}
				}
			})
		}
	}
}

// The engine exits at once; its child in another session holds the port.
func TestHeldPort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has subreapers")
	}
	l := serverOf("holdport")
	l.Engine.Ready = plan.Ready{Kind: plan.ReadyLog, Pattern: "never printed"}
	p := start(t, l)
	err := p.WaitReady(t.Context())
	if err == nil || !strings.Contains(err.Error(), "left 1 processes behind: it must stay in the foreground") {
		t.Errorf("got %v, want that it detached", err)
	}
	port := p.Info().Port
	if portFree(port) {
		t.Fatal("the script failed: nobody holds the port")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !portFree(port) || len(p.Info().Leftovers) != 1 {
		t.Errorf("port %d free %v, leftovers %v; want it freed and its holder named", port, portFree(port), p.Info().Leftovers)
	}
}

func TestFlood(t *testing.T) {
	p := start(t, launchOf("flood"))
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	info := p.Info()
	const size = int64(len("first line\n") + 400_000*100 + len("last line\n"))
	if info.LogBytes != size {
		t.Errorf("got %d bytes, want %d", info.LogBytes, size)
	}
	if !strings.HasPrefix(info.Log, "first line\n") || !strings.HasSuffix(info.Log, "last line\n") || len(info.Log) > 2*logEnds+100 {
		t.Errorf("log of %d bytes begins %q, ends %q", len(info.Log), info.Log[:20], info.Log[len(info.Log)-20:])
	}
	if want := fmt.Sprintf("\n--- flow left out %d bytes here ---\n", size-2*logEnds); !strings.Contains(info.Log, want) {
		t.Errorf("log does not say %q", want)
	}
	if !strings.HasSuffix(info.LogTail, "last line") || len(info.LogTail) > tailBytes {
		t.Errorf("tail of %d bytes", len(info.LogTail))
	}
}

func TestTwoAtOnce(t *testing.T) {
	a, b := start(t, serverOf("orphan")), start(t, serverOf("orphan"))
	ready(t, a)
	ready(t, b)
	ta, tb := a.Tree(), b.Tree()
	for _, pid := range ta {
		if slices.Contains(tb, pid) {
			t.Errorf("pid %d is in both trees", pid)
		}
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Tree(), tb) {
		t.Errorf("stopping one changed the other: %v, want %v", b.Tree(), tb)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAttached(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	url := "http://" + ln.Addr().String()
	l := Launch{Engine: plan.Engine{Name: "there", URL: url + "/", Ready: plan.Ready{Kind: plan.ReadyPort}}}
	p, err := Start(t.Context(), Options{}, l)
	if err != nil {
		t.Fatal(err)
	}
	ready(t, p)
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.BaseURL() != url || p.Info().Pid != 0 || p.Log() != "" || len(p.Tree()) != 0 {
		t.Errorf("url %s, info %+v", p.BaseURL(), p.Info())
	}
	if c, err := net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Errorf("stop ended what is not ours: %v", err)
	} else {
		c.Close()
	}
	for _, e := range p.Confirm(t.Context(), []plan.Lever{{Name: "l", Env: map[string]string{"A": "1"}, Confirm: []plan.Confirm{{Kind: plan.ConfirmEnviron}, {Kind: plan.ConfirmLog, Pattern: "x"}, {Kind: plan.ConfirmLiteral, Text: "x"}}}}, "ready") {
		if e.Found || e.Error == "" {
			t.Errorf("%s of an attached engine: %+v", e.Kind, e)
		}
	}
}

// Cancelled at every step: no start outlives its context.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := serverOf("serve")
	l.Out = t.TempDir()
	if _, err := Start(ctx, testOptions(), l); !errors.Is(err, context.Canceled) {
		t.Errorf("before the launch: got %v", err)
	}
	for _, after := range []time.Duration{0, 500 * time.Microsecond, 2 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(after, cancel)
		p, err := Start(ctx, testOptions(), l)
		if err != nil {
			if !errors.Is(err, context.Canceled) || isPermanent(err) {
				t.Errorf("after %s: got %v", after, err)
			}
			continue
		}
		<-ctx.Done()
		if err := p.WaitReady(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("waiting for ready: got %v", err)
		}
		if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting for the end: got %v", err)
		}
		for _, e := range p.Confirm(ctx, []plan.Lever{{Name: "l", Confirm: []plan.Confirm{{Kind: plan.ConfirmHTTP, Path: "/props"}}}}, "ready") {
			if e.Error == "" {
				t.Errorf("evidence with a cancelled context: %+v", e)
			}
		}
		if err := p.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	p := start(t, serverOf("never"))
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := p.WaitReady(ctx); !errors.Is(err, context.Canceled) || isPermanent(err) {
		t.Errorf("while waiting for ready: got %v", err)
	}
}

func TestDiesWhileServing(t *testing.T) {
	p := start(t, serverOf("serve"))
	ready(t, p)
	if resp, err := http.Get(p.BaseURL() + "/die"); err == nil {
		resp.Body.Close()
	}
	<-p.Done()
	if info := p.Info(); info.StoppedBy != byItself || info.Signal != "SIGKILL" || info.OOMKilled {
		t.Errorf("got %s by %s, oom %v", info.Signal, info.StoppedBy, info.OOMKilled)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info := p.Info(); info.StoppedBy != byItself {
		t.Errorf("stopped by %s, want itself", info.StoppedBy)
	}
}
