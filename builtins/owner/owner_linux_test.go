package owner

// The test binary plays a flow that is about to be killed: it starts processes in every way they can be
// started, tells their numbers and waits.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "flow" {
		os.Exit(playFlow(os.Args[2], os.Args[3]))
	}
	_ = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	os.Exit(m.Run())
}

// told is what the played flow says.
type told struct {
	ID, Folder string
	Started    map[string]int // by how
}

func playFlow(dir, tmp string) int {
	o, err := Begin(dir, "0193-test", func() int64 { return 1 })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	folder, err := o.Folder(tmp)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	t := told{ID: o.ID(), Folder: folder.Path, Started: map[string]int{}}
	engine := o.Hold("engine toy")
	if err := engine.Keep(func(r *Record) { r.Port = 1 }); err != nil {
		return 1
	}
	start := func(how string, env []string, argv ...string) int {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		t.Started[how] = cmd.Process.Pid
		return cmd.Process.Pid
	}
	env := os.Environ()
	pid := start("engine whose environment is gone", env, "sleep", "600")
	if err := engine.Keep(func(r *Record) { r.Engine, r.Group, r.SID = Find(pid), pid, pid }); err != nil {
		return 1
	}
	start("grandchild with the mark", Mark(env, engine.ID()), "sleep", "600")
	start("command", Mark(env, o.Hold("command").ID()), "sleep", "600")
	start("stranger", env, "sleep", "600")
	start("stranger with a longer mark", Mark(env, o.ID()+"0"), "sleep", "600")
	if err := json.NewEncoder(os.Stdout).Encode(t); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// begin starts a played flow.
func begin(t *testing.T, dir, tmp string) (told, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "flow", dir, tmp)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var x told
	if err := json.Unmarshal([]byte(line), &x); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, pid := range x.Started {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return x, cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func lives(pid int) bool { return Find(pid).PID != 0 }

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestLeft(t *testing.T) {
	dir, tmp := filepath.Join(t.TempDir(), "owned"), t.TempDir()
	x, cmd := begin(t, dir, tmp)
	if left, err := Look(dir); err != nil || len(left) > 0 {
		t.Fatalf("while flow runs: got %v and %v, want nothing left", left, err)
	}
	if left, err := EndLeft(t.Context(), dir); err != nil || len(left) > 0 {
		t.Fatalf("while flow runs: got %v and %v, want nothing ended", left, err)
	}
	if removed, err := RemoveFolders(dir, tmp); err != nil || len(removed) > 0 {
		t.Fatalf("while flow runs: got %v and %v, want no folder removed", removed, err)
	}
	kill(cmd)

	left, err := Look(dir)
	if err != nil || len(left) != 2 {
		t.Fatalf("got %v and %v, want the engine's and the command's", left, err)
	}
	if !strings.HasPrefix(left[0].String(), fmt.Sprintf("engine toy was left by a flow that is gone (pid %d, session 0193-test): pid ", cmd.Process.Pid)) || len(left[0].Processes) != 2 {
		t.Errorf("got %s", left[0])
	}
	if !strings.HasPrefix(left[1].String(), "a command was left") || len(left[1].Processes) != 1 {
		t.Errorf("got %s", left[1])
	}
	for how, pid := range x.Started {
		if !lives(pid) {
			t.Errorf("looking ended the %s", how)
		}
	}
	if removed, err := RemoveFolders(dir, tmp); err != nil || len(removed) > 0 {
		t.Errorf("while a process of it runs: got %v and %v, want no folder removed", removed, err)
	}

	left, err = EndLeft(t.Context(), dir)
	if err != nil || len(left) != 2 || len(left[0].Remain)+len(left[1].Remain) > 0 {
		t.Fatalf("got %v and %v, want both ended", left, err)
	}
	for how, pid := range x.Started {
		if stranger := strings.HasPrefix(how, "stranger"); lives(pid) != stranger {
			t.Errorf("%s: alive is %t, want %t", how, lives(pid), stranger)
		}
	}
	if files, _ := filepath.Glob(dir + "/*"); len(files) > 0 {
		t.Errorf("records are left: %v", files)
	}
	if removed, err := RemoveFolders(dir, tmp); err != nil || len(removed) != 1 || removed[0] != x.Folder {
		t.Errorf("got %v and %v, want %s removed", removed, err, x.Folder)
	}
}

// A number that is another process's by now leads nowhere, and neither does a record of another boot; one of
// another machine is not ours to judge.
func TestReused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Record)
		stays  bool
	}{
		"another start":         {func(r *Record) { r.Engine.Start++; r.SID = r.Engine.PID }, false},
		"another boot":          {func(r *Record) { r.Boot = "before" }, false},
		"another machine":       {func(r *Record) { r.Host, r.Boot = "elsewhere", "its own" }, true},
		"another pid namespace": {func(r *Record) { r.Namespace = "pid:[1]" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			stranger := exec.Command("sleep", "600")
			stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := stranger.Start(); err != nil {
				t.Fatal(err)
			}
			defer kill(stranger)
			dir := t.TempDir()
			r := Record{ID: "00aa.11", What: "engine toy", Engine: Find(stranger.Process.Pid), Supervisor: Find(stranger.Process.Pid),
				Boot: boot(), Host: host(), Namespace: namespace()}
			r.Supervisor.Start++
			c.change(&r)
			path := filepath.Join(dir, r.ID+".json")
			f, err := writeFile(path, r)
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			if left, err := EndLeft(t.Context(), dir); err != nil || len(left) > 0 {
				t.Errorf("got %v and %v, want nothing", left, err)
			}
			if !lives(stranger.Process.Pid) {
				t.Error("a stranger was ended")
			}
			if _, err := os.Stat(path); (err == nil) != c.stays {
				t.Errorf("the record: %v, want it kept: %t", err, c.stays)
			}
		})
	}
}

// The very process is ended although its supervisor was never more than a number.
func TestRecordedEngine(t *testing.T) {
	engine := exec.Command("sh", "-c", "sleep 600; :")
	engine.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	defer kill(engine)
	pid := engine.Process.Pid
	var child int
	until(t, "the shell has a child", func() bool {
		for _, p := range PIDs() {
			if s, ok := ReadStat(p); ok && s.Parent == pid {
				child = p
			}
		}
		return child != 0
	})
	dir := t.TempDir()
	f, err := writeFile(filepath.Join(dir, "00aa.11.json"), Record{ID: "00aa.11", What: "engine toy", Engine: Find(pid), SID: pid,
		Boot: boot(), Host: host(), Namespace: namespace()})
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	left, err := EndLeft(t.Context(), dir)
	if err != nil || len(left) != 1 || len(left[0].Processes) != 2 {
		t.Errorf("got %v and %v, want the engine with its child", left, err)
	}
	if lives(pid) || lives(child) {
		t.Error("they live")
	}
}

func TestFolders(t *testing.T) {
	tmp := t.TempDir()
	dir := filepath.Join(t.TempDir(), "owned")
	o, err := Begin(dir, "s", func() int64 { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	mine, err := o.Folder(tmp)
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(tmp, "flow-notes")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for _, name := range []string{folderFile, "precious"} {
		if err := os.WriteFile(filepath.Join(elsewhere, name), []byte(`{"id":"00aa","host":"`+host()+`"}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(tmp, "flow-link")); err != nil {
		t.Fatal(err)
	}
	if removed, err := RemoveFolders(dir, tmp); err != nil || len(removed) > 0 {
		t.Errorf("got %v and %v, want nothing removed", removed, err)
	}
	for _, path := range []string{mine.Path, foreign, filepath.Join(elsewhere, "precious")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if err := mine.Remove(); err != nil {
		t.Error(err)
	}
	if err := o.End(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mine.Path); !os.IsNotExist(err) {
		t.Errorf("got %v, want the folder removed", err)
	}
	if files, _ := filepath.Glob(dir + "/*"); len(files) > 0 {
		t.Errorf("records are left: %v", files)
	}
}
