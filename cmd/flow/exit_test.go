package main

// The class of every end: what the exit code says must be so.

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"flow/db"
)

// A signal stops every verb with 4, or the verb had done what it should: it is never a bug and never the
// workflow's mistake.
func TestStoppedVerbs(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"XDG_STATE_HOME", "FLOW_LOCK_DIR", "TMPDIR", "HOME"} {
		t.Setenv(v, dir)
	}
	t.Setenv("FLOW_DB", filepath.Join(dir, "flow.db"))
	w := filepath.Join(dir, "w.star")
	if err := os.WriteFile(w, []byte(realWorkflow), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	flow := func(ctx context.Context, args ...string) int {
		stderr.Reset()
		return main1(ctx, newApp(strings.NewReader(""), new(bytes.Buffer), &stderr), args)
	}
	if code := flow(t.Context(), "run", w, "--quiet", "--seed", "1", "--simulate", "sd=1%"); code != 0 {
		t.Fatalf("a session to look at: got exit %d\n%s", code, stderr.String())
	}
	d, err := db.OpenReadOnly(t.Context(), filepath.Join(dir, "flow.db"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Sessions(t.Context(), 1)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %d sessions and %v, want one", len(all), err)
	}
	id := all[0].ID
	_ = d.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errSignal{syscall.SIGINT})
	tried := map[string]bool{}
	for _, args := range [][]string{
		{"check", w}, {"plan", w}, {"run", w}, {"run", w, "--simulate", "sd=1%"}, {"calibrate", w, "--simulate", "sd=1%", "-n", "2"},
		{"sql", "select 1"}, {"sessions"}, {"show"}, {"status"}, {"doctor"}, {"export", "--format", "json"}, {"levers", os.Args[0]}, {"receipt", w}, {"doc"}, {"builtins"},
	} {
		tried[args[0]] = true
		if args[0] == "show" || args[0] == "export" {
			args = append(args, id)
		}
		if code := flow(ctx, args...); code != 0 && code != 4 {
			t.Errorf("flow %v: got exit %d, want 0 or 4\n%s", args, code, stderr.String())
		}
	}
	for _, c := range newRootCommand(newApp(nil, new(bytes.Buffer), new(bytes.Buffer))).Commands() {
		if name := c.Name(); !tried[name] && name != "resume" && name != "stop" && name != "completion" && name != "help" { // the first two need a session that did not end
			t.Errorf("verb %s is not tried", name)
		}
	}
}

// A panic is a bug in flow, and says where.
func TestPanicIsABug(t *testing.T) {
	var stderr bytes.Buffer
	a := newApp(panics{}, new(bytes.Buffer), &stderr)
	if code := main1(t.Context(), a, []string{"sql", "-"}); code != 70 || !strings.Contains(stderr.String(), "a bug in flow: as it happens") || !strings.Contains(stderr.String(), "exit_test.go") {
		t.Errorf("got exit %d and\n%s\nwant 70 and where", code, stderr.String())
	}
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("as it happens") }

// What the Go runtime ends by itself (no memory, a panic in the background, SIGQUIT) ends with a signal and not
// with the runtime's own 2, which would say that the workflow is wrong.
func TestRuntimeEnd(t *testing.T) {
	c := newCampaign(t, "")
	cmd := exec.Command("sh", "-c", `ulimit -c 0; exec "$0" sql -`, c.path)
	cmd.Dir, cmd.Env = c.dir, c.flow(c.in("a.db"), "").Env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tooLong := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer tooLong.Stop()
	if _, err := in.Write(make([]byte, 1<<20)); err != nil { // more than a pipe holds: it is being read
		t.Fatal(err)
	}
	_ = cmd.Process.Signal(syscall.SIGQUIT)
	if got := exitOf(cmd.Wait()); got != syscall.SIGABRT.String() {
		t.Errorf("got %s, want it aborted", got)
	}
}
