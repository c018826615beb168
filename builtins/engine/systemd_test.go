package engine

// Launches in a scope of systemd, with a fake of systemd-run: no manager runs where tests do.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/plan"
)

// fakeSystemd puts a systemd-run first on PATH that notes its arguments and becomes the command after "--",
// as the real one does, and a runtime folder of a manager. It gives the file of the arguments.
func fakeSystemd(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	noted := filepath.Join(dir, "arguments")
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + noted + "\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, scopeRunner), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "systemd"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return noted
}

func inScope(l Launch) Launch {
	l.Engine.Launch = &plan.Systemd{User: true, Slice: "engines.slice", Properties: map[string]string{"MemoryMax": "1G", "CPUWeight": "50"}}
	return l
}

func TestScope(t *testing.T) {
	noted := fakeSystemd(t)
	l := inScope(serverOf("serve"))
	l.Command.Env["LEVER"] = "1"
	p := start(t, l)
	ready(t, p)
	env, err := p.readEnv()
	if err != nil || env["LEVER"] != "1" {
		t.Errorf("the engine's environment has LEVER = %q (%v), want 1", env["LEVER"], err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	info := p.Info()
	b, err := os.ReadFile(noted)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(b))
	want := []string{"--user", "--scope", "--quiet", "--collect", "--unit=" + info.Unit, "--slice=engines.slice", "--property=Delegate=yes",
		"--property=CPUWeight=50", "--property=MemoryMax=1G", "--"}
	if len(got) < len(want) || strings.Join(got[:len(want)], " ") != strings.Join(want, " ") {
		t.Errorf("systemd-run got %q, want %q and the command", got, want)
	}
	if !strings.HasPrefix(info.Unit, "flow-") || !strings.HasSuffix(info.Unit, ".scope") {
		t.Errorf("got unit %q, want one of flow's own", info.Unit)
	}
	if info.Argv[0] != info.Binary || filepath.Base(info.Binary) == scopeRunner || info.Argv[1] != "engine" {
		t.Errorf("the record has %q, want the engine's own command", info.Argv)
	}
	if info.Cgroup != "" { // the fake made none, and flow's own is not the engine's
		t.Errorf("got cgroup %q, want none", info.Cgroup)
	}
	if info.StoppedBy != bySignal {
		t.Errorf("stopped by %q, want the signal", info.StoppedBy)
	}
}

func TestScopeKeepsExitAndLog(t *testing.T) {
	fakeSystemd(t)
	p := start(t, inScope(launchOf("exit", "3")))
	err := p.Wait(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exited with 3") || !strings.Contains(p.Log(), "--frobnicate") {
		t.Errorf("got %v and log %q, want the engine's own exit and words", err, p.Log())
	}
}

func TestNoSystemd(t *testing.T) {
	fakeSystemd(t)
	tries := map[string]struct {
		do   func(t *testing.T)
		want string
	}{
		"no program":     {func(t *testing.T) { t.Setenv("PATH", t.TempDir()) }, "systemd-run is not here"},
		"no runtime dir": {func(t *testing.T) { t.Setenv("XDG_RUNTIME_DIR", "") }, "XDG_RUNTIME_DIR is not set"},
		"no manager":     {func(t *testing.T) { t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) }, "systemd, which does not run here"},
	}
	for name, try := range tries {
		t.Run(name, func(t *testing.T) {
			try.do(t)
			_, err := tryStart(t, inScope(launchOf("exit", "0")))
			if kind, _ := diag.KindOf(err); err == nil || !strings.Contains(err.Error(), try.want) || kind != diag.Machine {
				t.Errorf("got %v, want the machine's fault: %s", err, try.want)
			}
		})
	}
}

// The folder is taken only when it is the scope's: the first moments of a launch are in flow's own.
func TestScopeFolder(t *testing.T) {
	const mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
	for _, c := range []struct{ name, cgroup, want string }{
		{"in the scope", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/flow-ab.scope", "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/flow-ab.scope"},
		{"in a child of it", "0::/app.slice/flow-ab.scope/inner", ""},
		{"not yet", "0::/user.slice/user-1000.slice/session-2.scope", ""},
		{"no v2", "4:memory:/a/flow-ab.scope", ""},
	} {
		if got := scopeFolder(mounts, c.cgroup, "flow-ab.scope"); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := scopeFolder(mounts, "0::/", ""); got != "" {
		t.Errorf("without a unit: got %q", got)
	}
}
