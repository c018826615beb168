package engine

// The test binary plays every part: run by go test it tests; re-executed it is a supervisor, a scripted
// engine, or a flow that is about to be killed.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			os.Exit(Supervise(os.Args[2:], os.Stdin, os.Stdout))
		case "engine":
			os.Exit(scripted(os.Args[2], os.Args[3:]))
		case "flow":
			os.Exit(playFlow(os.Args[2], os.Args[3], os.Args[4:]))
		}
	}
	// A program under the race detector sleeps for a second before it exits, and here every supervisor and
	// every engine is one.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	// And one built with coverage warns where it has no folder for it.
	cover, err := os.MkdirTemp("", "cover")
	if err == nil {
		err = os.Setenv("GOCOVERDIR", cover)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(cover)
	os.Exit(code)
}

// scripted is an engine with one habit.
func scripted(mode string, args []string) int {
	log := func(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }
	port := "0"
	if len(args) > 0 {
		port = args[0]
	}
	switch mode {
	case "exit":
		log("error: unknown argument: --frobnicate")
		code, _ := strconv.Atoi(args[0])
		return code
	case "echo":
		fmt.Fprintf(os.Stdout, "out 1\n")
		fmt.Fprintf(os.Stderr, "err 2\n")
		fmt.Fprintf(os.Stdout, "out 3 %s\n", strings.Join(args, " "))
	case "never":
		log("loading forever")
		select {}
	case "sleep":
		time.Sleep(10 * time.Minute)
	case "abort":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "late":
		time.Sleep(100 * time.Millisecond)
		fmt.Fprint(os.Stderr, "listening on nothing") // and no end of the line
		select {}
	case "flood":
		line := []byte(strings.Repeat("x", 99) + "\n")
		w := bufio.NewWriterSize(os.Stderr, 1<<20)
		fmt.Fprintln(w, "first line")
		for range 400_000 {
			_, _ = w.Write(line)
		}
		fmt.Fprintln(w, "last line")
		_ = w.Flush()
	case "serve":
		return serve(port, 50*time.Millisecond)
	case "loading": // answers 503 for as long as anybody looks
		return serve(port, time.Hour)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		return serve(port, 0)
	case "orphan": // a grandchild in a session of its own, whose parent is gone
		spawn(false, append([]string{"middle", "sleep"}, args[1:]...)...)
		return serve(port, 0)
	case "middle":
		spawn(true, args...)
	case "groupchild": // a child in our process group that ignores the stop signal
		cmd := exec.Command(os.Args[0], "engine", "ignore")
		out, _ := cmd.StdoutPipe()
		_ = cmd.Start()
		_, _ = bufio.NewReader(out).ReadString('\n') // it ignores from here on
		return serve(port, 0)
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignoring")
		time.Sleep(10 * time.Minute)
	case "holdport": // exits and leaves its listening socket with a child in another session
		ln, err := net.Listen("tcp4", "127.0.0.1:"+port)
		if err != nil {
			log("%v", err)
			return 1
		}
		f, _ := ln.(*net.TCPListener).File()
		cmd := exec.Command(os.Args[0], "engine", "sleep")
		cmd.ExtraFiles = []*os.File{f}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
	}
	return 0
}

// spawn starts a scripted engine and, when detach is set, in a session of its own.
func spawn(detach bool, args ...string) {
	cmd := exec.Command(os.Args[0], append([]string{"engine"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: detach}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	if !detach {
		_ = cmd.Wait()
	}
}

func serve(port string, load time.Duration) int {
	ln, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(began) < load {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, `{"status":"ok"}`)
	})
	mux.HandleFunc("/props", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"slots":[{"n_ctx":4096,"kv":"q8_0"}],"flash":true,"a/b":{"~":1.50}}`)
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "# TYPE hits counter\nhits 12\nreq{code=\"200\"} 3\nreq{code=\"500\"} 0\nbad NaN")
	})
	mux.HandleFunc("/die", func(http.ResponseWriter, *http.Request) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	})
	fmt.Fprintf(os.Stderr, "llama_context: n_ubatch      = 1024\nserver: listening on http://127.0.0.1:%s\n", port)
	_ = http.Serve(ln, mux)
	return 0
}

// playFlow starts an engine as flow does, says so, and waits to be killed.
func playFlow(mode, out string, args []string) int {
	l := launchOf(mode, args...)
	l.Out, l.Root = out, out
	if mode == "orphan" {
		l.Engine.Ready = plan.Ready{Kind: plan.ReadyPort}
	}
	p, err := Start(context.Background(), testOptions(), l)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := p.WaitReady(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	b, _ := json.Marshal(struct {
		Info *record.Process
		Sup  int
		Tree []int
	}{p.Info(), p.sup.cmd.Process.Pid, p.Tree()})
	fmt.Println(string(b))
	select {}
}

func testOptions() Options {
	return Options{Supervisor: []string{os.Args[0], "supervise"}, Allow: []string{"GORACE", "GOCOVERDIR"}}
}

// launchOf is a launch of a scripted engine without folder: "{port}" among args makes it a server.
func launchOf(mode string, args ...string) Launch {
	argv := append([]string{os.Args[0], "engine", mode}, args...)
	e := plan.Engine{Name: mode, Command: argv, Timeouts: plan.Timeouts{Ready: 20 * time.Second, Stop: 5 * time.Second, Request: 20 * time.Second}}
	return Launch{Engine: e, Command: record.Command{Argv: argv, Env: map[string]string{}}}
}

// serverOf is a launch of a scripted server.
func serverOf(mode string) Launch {
	l := launchOf(mode, "{port}")
	l.Engine.Ready = plan.Ready{Kind: plan.ReadyHTTP, Path: "/health"}
	return l
}

// start launches with a folder of its own, and sees that whatever the test leaves is ended.
func start(t testing.TB, l Launch) *Process {
	t.Helper()
	p, err := tryStart(t, l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tryStart(t testing.TB, l Launch) (*Process, error) {
	t.Helper()
	if l.Out == "" {
		l.Out = t.TempDir()
	}
	if l.Root == "" {
		l.Root = l.Out
	}
	p, err := Start(t.Context(), testOptions(), l)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Logf("stop: %v", err)
		}
	})
	return p, nil
}

func ready(t testing.TB, p *Process) {
	t.Helper()
	if err := p.WaitReady(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, p.Log())
	}
}

// until polls a condition; never sleeps for it.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func gone(pids []int) bool {
	return !slices.ContainsFunc(pids, func(pid int) bool { return alive(pid, 0) })
}

func isPermanent(err error) bool {
	var se *StartError
	return errors.As(err, &se) && se.Permanent
}

func readFile(t testing.TB, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
