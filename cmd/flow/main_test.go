package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary flow itself when it is run by that name, so that scripts start real
// processes: flow, its supervisors and its engines.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"flow": func() {
		// Engines and supervisors end without the second that the race detector takes at an exit.
		if hidden, ok := hiddenVerb(os.Args[1:]); ok {
			syscall.Exit(hidden(os.Args[2:], os.Stdout, os.Stderr))
		}
		main()
	}})
}

// TestScripts runs the command line as a person types it: one file a case in testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               isolate,
		Condition:           condition,
		Cmds:                scriptCommands,
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
	e.Setenv("GORACE", "atexit_sleep_ms=0")
	if err := os.CopyFS(filepath.Join(e.WorkDir, "examples"), os.DirFS(filepath.Join("..", "..", "examples"))); err != nil {
		return err
	}
	e.Values[background{}] = map[string]*begun{}
	return nil
}
