//go:build unix

package simengine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is the engine when it is called so, as flow's own binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == command {
		os.Exit(Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// process is a running engine and its log.
type process struct {
	*exec.Cmd
	url string
	mu  sync.Mutex
	log bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// launch starts an engine on a port of its own.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(exe, append([]string{command, "serve", "--port", strconv.Itoa(port)}, args...)...), url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	p.Stderr = p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// eventually polls until ok or ten seconds are over.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func (p *process) health() (int, string) {
	resp, err := http.Get(p.url + "/health")
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func (p *process) ready(t *testing.T) {
	t.Helper()
	eventually(t, "ready", func() bool { code, _ := p.health(); return code == 200 })
}

// exit waits for the end and gives the exit code, or the signal as a negative number.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	select {
	case err := <-done:
		var status *exec.ExitError
		if err != nil && !errors.As(err, &status) {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the engine does not end")
	}
	ws := p.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return -int(ws.Signal())
	}
	return ws.ExitStatus()
}

const chatBody = `{"messages":[{"role":"user","content":"a b"}],"max_tokens":60,"stream":true}`

func TestServeLife(t *testing.T) {
	p := launch(t, "--slow-start", "300ms", "--lever", "fast=+20%", "--ignore", "dead", "--on", "fast,dead", "--decode-tok-s", "1000")
	loading := ""
	eventually(t, "loading", func() bool {
		code, body := p.health()
		loading = body
		return code == 503
	})
	if !strings.Contains(loading, "Loading model") {
		t.Errorf("got %q while loading", loading)
	}
	p.ready(t)
	resp, err := http.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if n := strings.Count(string(body), `"content":" `); n != 60 || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Errorf("got %d content frames: %s", n, body)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("SIGTERM: exit %d: %s", code, p.text())
	}
	for _, want := range []string{"sim: start pid=", "sim: lever fast active effect=+20.0%\n", "sim: listening on " + p.url, "sim: request 0 prompt_tokens=2 cached_tokens=0 completion_tokens=60 ", "sim: stopping"} {
		if !strings.Contains(p.text(), want) {
			t.Errorf("the log lacks %q:\n%s", want, p.text())
		}
	}
	if strings.Contains(p.text(), "dead") {
		t.Errorf("the dead lever is in the log:\n%s", p.text())
	}
}

func TestSigtermInAStream(t *testing.T) {
	p := launch(t, "--decode-tok-s", "20")
	p.ready(t)
	resp, err := http.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d: %s", code, p.text())
	}
}

func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		ask  bool
		code int
		log  string
	}{
		{name: "killed at a token", args: []string{"--die-at-token", "5", "--decode-tok-s", "1000"}, ask: true, code: -int(syscall.SIGKILL), log: "dying at token 5"},
		{name: "dies with a code", args: []string{"--die-at-token", "5", "--die-code", "9", "--decode-tok-s", "1000"}, ask: true, code: 9},
		{name: "before ready", args: []string{"--exit-before-ready", "7"}, code: 7, log: "failed to load model"},
		{name: "unknown lever", args: []string{"--on", "x"}, code: 2, log: `unknown lever "x"`},
		{name: "unknown flag", args: []string{"--x"}, code: 2, log: "flag provided but not defined"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := launch(t, tt.args...)
			if tt.ask {
				p.ready(t)
				if resp, err := http.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(chatBody)); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
			if code := p.exit(t); code != tt.code || !strings.Contains(p.text(), tt.log) {
				t.Errorf("got %d, want %d with %q:\n%s", code, tt.code, tt.log, p.text())
			}
		})
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var log bytes.Buffer
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if code := Main([]string{"serve", "--port", port}, io.Discard, &log); code != exitRun || !strings.Contains(log.String(), "address already in use") {
		t.Errorf("got %d: %s", code, &log)
	}
}

func TestIgnoresSigterm(t *testing.T) {
	p := launch(t, "--ignore-sigterm")
	p.ready(t)
	_ = p.Process.Signal(syscall.SIGTERM)
	_ = p.Process.Signal(syscall.SIGINT)
	for range 5 { // it goes on answering
		time.Sleep(20 * time.Millisecond)
		if code, _ := p.health(); code != 200 {
			t.Fatalf("got %d after SIGTERM:\n%s", code, p.text())
		}
	}
	_ = p.Process.Kill()
	if code := p.exit(t); code != -int(syscall.SIGKILL) {
		t.Errorf("got %d", code)
	}
}

func TestNeverReady(t *testing.T) {
	p := launch(t, "--never-ready")
	eventually(t, "loading", func() bool { code, _ := p.health(); return code == 503 })
	_ = p.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 || strings.Contains(p.text(), "listening on") {
		t.Errorf("exit %d: %s", code, p.text())
	}
}

func TestLeavesAChild(t *testing.T) {
	p := launch(t, "--leave-child")
	p.ready(t)
	_, after, ok := strings.Cut(p.text(), "left child pid ")
	if !ok {
		t.Fatalf("no child in the log:\n%s", p.text())
	}
	pid, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	_ = p.Process.Signal(syscall.SIGTERM)
	p.exit(t)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the child is gone: %v", err)
	}
	if group, err := syscall.Getpgid(pid); err != nil || group == p.Process.Pid || group == syscall.Getpgrp() {
		t.Errorf("the child is in process group %d, %v: want one of its own", group, err)
	}
}

func TestTakesMemoryAndFloods(t *testing.T) {
	p := launch(t, "--take-memory", "48", "--flood-log", "--decode-tok-s", "2000")
	p.ready(t)
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Process.Pid)); err == nil {
		pages, _ := strconv.Atoi(strings.Fields(string(data))[1])
		if mib := pages * os.Getpagesize() >> 20; mib < 48 {
			t.Errorf("resident: got %d MiB, want 48 and more", mib)
		}
	}
	resp, err := http.Post(p.url+"/completion", "application/json", strings.NewReader(`{"prompt":"x","n_predict":20}`))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if n := len(p.text()); n < 1<<20 {
		t.Errorf("got %d bytes of log, want 20 times 64 KiB", n)
	}
}

func TestBenchProcess(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		env  []string
		code int
		log  string
	}{
		{name: "whole", env: []string{"SIM_FAST=1"}, log: "sim: lever fast active effect=+20.0%"},
		{name: "dies", args: []string{"--die-at-token", "3", "--die-code", "5"}, code: 5, log: "dying at token 3"},
		{name: "exits before", args: []string{"--exit-before-ready", "4"}, code: 4},
		{name: "cpu work", args: []string{"--work", "cpu"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.csv")
			args := append([]string{command, "bench", "--csv", file, "--prompt-tokens", "20", "--gen-tokens", "10", "--decode-tok-s", "1000", "--lever", "fast=+20%"}, tt.args...)
			cmd := exec.Command(exe, args...)
			cmd.Env = append(os.Environ(), tt.env...)
			var log bytes.Buffer
			cmd.Stderr = &log
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(log.String(), tt.log) {
				t.Fatalf("exit %d (%v), want %d with %q: %s", code, err, tt.code, tt.log, &log)
			}
			if _, err := os.Stat(file); (err == nil) != (tt.code == 0) {
				t.Errorf("exit %d and the CSV: %v", tt.code, err)
			}
		})
	}
}
