package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary flow itself when it is run by that name, so that scripts start real
// processes: flow, its supervisors and its engines.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"flow": func() { main() }})
}

// TestScripts runs the command line as a person types it: one file a case in testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               isolate,
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"engines-gone": enginesGone, "exits": exits},
	})
}

// isolate gives a script its own database, locks and caches: scripts run at the same time.
func isolate(e *testscript.Env) error {
	for _, v := range []struct{ name, dir string }{{"TMPDIR", "tmp"}, {"XDG_STATE_HOME", "state"}, {"HOME", "home"}, {"FLOW_LOCK_DIR", "locks"}} {
		dir := filepath.Join(e.WorkDir, v.dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		e.Setenv(v.name, dir)
	}
	e.Setenv("FLOW_DB", filepath.Join(e.WorkDir, "flow.db"))
	e.Setenv("NO_COLOR", "1")
	return nil
}

// enginesGone fails while a process started below the script's folder still runs an engine: every fault
// must leave nothing behind.
func enginesGone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: engines-gone")
	}
	if left := engines(ts.Getenv("WORK")); len(left) > 0 {
		ts.Fatalf("still running:\n%s", strings.Join(left, "\n"))
	}
}

// engines lists the processes whose environment names dir as their arm's folder or temporary folder.
func engines(dir string) []string {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range procs {
		cmd, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil || !strings.Contains(string(cmd), "sim-engine") && !strings.Contains(string(cmd), "supervise") {
			continue
		}
		env, err := os.ReadFile(filepath.Join(p, "environ"))
		if err == nil && strings.Contains(string(env), dir) {
			out = append(out, filepath.Base(p)+": "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return out
}

// exits runs flow and wants an exact exit code: exits 3 flow run x.star.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("got exit %s, want %s", got, args[0])
	}
}
