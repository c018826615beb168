package engine

// What stands before a launch: programs, placeholders, environment, config, ports.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func TestCannotLaunch(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain.txt", "no program", 0o644)
	write("noloader", "#!/no/such/interpreter\n", 0o755)
	write("garbage", "\x01\x02\x03", 0o755)
	argv := func(a ...string) Launch {
		l := Launch{Engine: plan.Engine{Name: "e", Pos: diag.Pos{File: "w.star", Line: 8}}, Command: record.Command{Argv: a}}
		l.Root = dir
		return l
	}
	badDir := argv("sh")
	badDir.Command.Dir = "missing"
	badConfig := argv("sh")
	badConfig.Command.Config = map[string]string{"../up.json": "{}"}
	badSignal := argv("sh")
	badSignal.Engine.StopSignal = "SIGFOO"
	server := argv("sh")
	server.Engine.API = &plan.API{Kind: plan.APIChat}
	for _, c := range []struct {
		name   string
		launch Launch
		want   string
	}{
		{"no such file", argv("./nothing"), "no such file or directory"},
		{"no such program", argv("no-such-program-at-all"), "no such program in PATH"},
		{"not executable", argv("./plain.txt"), "permission denied"},
		{"no interpreter", argv("./noloader"), "no such file or directory"},
		{"no format", argv("./garbage"), "exec format error"},
		{"no directory", badDir, "no such directory"},
		{"config outside", badConfig, `got config file "../up.json"`},
		{"placeholder", argv("sh", "{outt}"), `w.star:8: placeholder {outt}: got "{outt}", want one of {out}`},
		{"placeholder without value", argv("sh", "{ctx}"), "this arm has no value for it"},
		{"no command", argv(), "neither a command nor a url"},
		{"stop signal", badSignal, `got "SIGFOO"`},
		{"no port", server, "names {port}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := tryStart(t, c.launch)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if !isPermanent(err) {
				t.Errorf("%v would happen again every time", err)
			}
			if kind, ok := diag.KindOf(err); !ok || kind != diag.Workflow {
				t.Errorf("got kind %v, want the workflow's", kind)
			}
		})
	}
	inFolder := func(l Launch) Launch { l.Out = t.TempDir(); return l }
	if _, err := Start(t.Context(), Options{}, inFolder(argv("sh"))); err == nil || isPermanent(err) {
		t.Errorf("without a supervisor: got %v", err)
	}
	if _, err := Start(t.Context(), Options{Supervisor: []string{"/no/supervisor"}}, inFolder(argv("sh"))); err == nil || isPermanent(err) {
		t.Errorf("with a missing supervisor: got %v", err)
	}
	if _, err := Start(t.Context(), testOptions(), argv("sh")); err == nil || !strings.Contains(err.Error(), "no folder") {
		t.Errorf("without a folder for the arm: got %v", err)
	}
	if _, err := Start(t.Context(), Options{Supervisor: []string{"true"}}, inFolder(argv("sh"))); err == nil || !strings.Contains(err.Error(), "ended without a word") {
		t.Errorf("with a supervisor that is none: got %v", err)
	}
}

func TestCommandFilledIn(t *testing.T) {
	t.Setenv("FLOW_TEST_SECRET", "shell")
	t.Setenv("FLOW_TEST_ALLOWED", "yes")
	t.Setenv("LC_FLOW_TEST", "gone")
	out, root := t.TempDir(), t.TempDir()
	for _, dir := range []string{"work", "sh"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l := Launch{
		Engine: plan.Engine{Name: "sh", Files: []string{"models/m.gguf"}},
		Command: record.Command{
			Argv:   []string{"sh", "-c", `env; pwd; echo "$0 $1 $2"`, "models/m.gguf", "work", "gone.txt"},
			Env:    map[string]string{"KNOB": "{seed}", "MODEL": "--m=models/m.gguf", "BYTES": "a\xffb"},
			Unset:  []string{"LC_FLOW_TEST"},
			Dir:    "work",
			Config: map[string]string{"sub/engine.json": `{"a": {"port": 1}, "seed": {seed}}`},
		},
		Vars: map[string]string{"seed": "42"}, Out: out, Root: root,
		Paths: []string{"work", "gone.txt", "sh", ""}, // the program is looked up, and what is not there is only a word
	}
	o := testOptions()
	o.Allow = append(o.Allow, "FLOW_TEST_ALLOW*")
	p, err := Start(t.Context(), o, l)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := p.Log()
	for _, want := range []string{"KNOB=42\n", "FLOW_TEST_ALLOWED=yes\n", "BYTES=a\xffb\n", "MODEL=--m=" + root + "/models/m.gguf\n", root + "/work\n", root + "/models/m.gguf " + root + "/work gone.txt\n", "PATH="} {
		if !strings.Contains(log, want) {
			t.Errorf("log lacks %q:\n%s", want, log)
		}
	}
	for _, not := range []string{"FLOW_TEST_SECRET", "LC_FLOW_TEST", "GOMAXPROCS"} {
		if strings.Contains(log, not) {
			t.Errorf("log holds %q:\n%s", not, log)
		}
	}
	if got := readFile(t, out, "sub/engine.json"); got != `{"a": {"port": 1}, "seed": 42}` {
		t.Errorf("config: %s", got)
	}
	info := p.Info()
	if info.Files["sub/engine.json"] != `{"a": {"port": 1}, "seed": 42}` || info.Dir != filepath.Join(root, "work") || info.Env["KNOB"] != "42" {
		t.Errorf("info: %+v", info)
	}
	if !strings.HasPrefix(info.Binary, "/") || info.Argv[0] != info.Binary {
		t.Errorf("binary %q, argv %q", info.Binary, info.Argv)
	}
}

func TestVersion(t *testing.T) {
	e := plan.Engine{Name: "e", Version: []string{"sh", "-c", "echo version 7; echo build 1 >&2"}}
	if v, err := Version(t.Context(), e, t.TempDir()); err != nil || v != "version 7\nbuild 1" {
		t.Errorf("got %q, %v", v, err)
	}
	e.Version = []string{"sh", "-c", "echo usage; exit 2"}
	if v, err := Version(t.Context(), e, ""); err == nil || v != "usage" {
		t.Errorf("got %q, %v; want what it printed, and the failure", v, err)
	}
	if v, err := Version(t.Context(), plan.Engine{}, ""); err != nil || v != "" {
		t.Errorf("without a command: got %q, %v", v, err)
	}
	e.Version = []string{"sh", "-c", "while echo 0123456789; do :; done | head -c 1000000"}
	if v, err := Version(t.Context(), e, ""); err != nil || len(v) > versionBytes || len(v) < versionBytes-10 {
		t.Errorf("of a million bytes: got %d, %v; want %d", len(v), err, versionBytes)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	e.Version = []string{"sh", "-c", "sleep 600 & sleep 600"}
	if _, err := Version(ctx, e, ""); err == nil {
		t.Error("a hanging version command gave no error")
	}
}

func TestLookBinary(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(dir, "tool")
	for _, c := range []struct{ name, root, path string }{
		{"./tool", dir, ""}, {tool, "/elsewhere", ""}, {"tool", "/elsewhere", "relative:/no/such:" + dir},
	} {
		if got, err := LookBinary(c.name, c.root, c.path); err != nil || got != tool {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
	for _, name := range []string{"", "./", "./none", "none"} {
		_, err := LookBinary(name, dir, dir)
		var de *diag.Error
		if !errors.As(err, &de) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestPortChoice(t *testing.T) {
	low, high := reservedPorts()
	for range 20 {
		port, err := choosePort("")
		if err != nil || port >= low && port <= high || port < 1024 {
			t.Fatalf("got %d, %v; want a port outside %d-%d", port, err, low, high)
		}
	}
	for _, bad := range []string{"x", "0", "70000"} {
		if _, err := choosePort(bad); err == nil {
			t.Errorf("port %q is taken", bad)
		}
	}
}
