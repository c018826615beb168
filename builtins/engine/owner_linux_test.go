package engine

// Who owns what, when somebody is killed from outside.

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"flow/builtins/owner"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// flow is killed: the end of the pipe tells the supervisor, and nothing survives.
func TestFlowKilled(t *testing.T) {
	for _, mode := range []string{"orphan", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "flow", mode, t.TempDir(), "{port}")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var told struct {
				Info *record.Process
				Sup  int
				Tree []int
			}
			if err := json.Unmarshal([]byte(line), &told); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if mode == "orphan" && len(told.Tree) < 1 {
				t.Fatalf("tree %v", told.Tree)
			}
			// Ctrl-C in the terminal is not for the supervisor, which does not even share flow's session.
			if s, ok := owner.ReadStat(told.Sup); !ok || s.SID != told.Sup {
				t.Errorf("the supervisor is not in a session of its own: %+v", s)
			}
			_ = syscall.Kill(told.Sup, syscall.SIGTERM)
			_ = syscall.Kill(told.Sup, syscall.SIGINT)
			if !alive(told.Info.Pid, told.Info.StartTicks) {
				t.Fatal("the engine died of a signal to its supervisor")
			}
			all := append([]int{told.Sup, told.Info.Pid}, told.Tree...)
			_ = cmd.Process.Kill()
			until(t, "flow's descendants are gone", func() bool { return gone(all) })
			if told.Info.Cgroup != "" {
				until(t, "its cgroup is removed", func() bool {
					_, err := os.Stat(told.Info.Cgroup)
					return os.IsNotExist(err)
				})
			}
			if !portFree(told.Info.Port) {
				t.Errorf("port %d is still held", told.Info.Port)
			}
		})
	}
}

// flow is killed at any instant of a launch: whatever had started by then is gone soon after.
func TestFlowKilledWhileLaunching(t *testing.T) {
	dir := t.TempDir() // in every command line, so that only ours are looked for
	running := func() (found []string) {
		for _, pid := range owner.PIDs() {
			if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil && strings.Contains(string(b), dir) && alive(pid, 0) {
				found = append(found, owner.Describe(pid))
			}
		}
		return found
	}
	for i := range 12 {
		cmd := exec.Command(os.Args[0], "flow", "orphan", dir, "{port}", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*i) * 500 * time.Microsecond) // 0 to 60 ms: an instant, not a condition
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		until(t, "everything is gone", func() bool { return len(running()) == 0 })
	}
}

// The supervisor is killed: the engine dies with it, and the rest is found by cgroup, session or mark, a
// child in a session of its own as well.
func TestSupervisorKilled(t *testing.T) {
	for _, mode := range []string{"groupchild", "orphan"} {
		for _, cgroups := range []string{"", "off"} {
			l := serverOf(mode)
			l.Out = t.TempDir()
			o := testOptions()
			o.Cgroups = cgroups
			p, err := Start(t.Context(), o, l)
			if err != nil {
				t.Fatal(err)
			}
			ready(t, p)
			var tree []int
			until(t, "the engine has its child", func() bool { tree = p.Tree(); return len(tree) == 2 })
			_ = p.sup.cmd.Process.Kill()
			<-p.Done()
			if err = p.Stop(t.Context()); err != nil {
				t.Errorf("%s, cgroups=%q: %v", mode, cgroups, err)
			}
			if !gone(tree) {
				t.Errorf("%s, cgroups=%q: some of %v still live", mode, cgroups, tree)
			}
			if p.Info().StoppedBy != byKill {
				t.Errorf("stopped by %q", p.Info().StoppedBy)
			}
		}
	}
}

// What flow keeps for itself is not in the environment that is recorded or confirmed, and its record is there
// exactly while the engine runs.
func TestMarkAndRecord(t *testing.T) {
	dir := t.TempDir()
	own, err := owner.Begin(dir, "s", func() int64 { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.End() }()
	records := func() int {
		files, _ := filepath.Glob(filepath.Join(dir, own.ID()+".*.json"))
		return len(files)
	}
	o := testOptions()
	o.Owner = own
	l := serverOf("serve")
	l.Out = t.TempDir()
	p, err := Start(t.Context(), o, l)
	if err != nil {
		t.Fatal(err)
	}
	ready(t, p)
	if n := records(); n != 1 {
		t.Errorf("got %d records while the engine runs, want one", n)
	}
	raw := readFile(t, "/proc", strconv.Itoa(p.Info().Pid), "environ")
	if !strings.Contains(raw, owner.Env+"="+own.ID()+".") {
		t.Errorf("the engine carries no mark: %q", raw)
	}
	env, err := readEnviron(p.Info().Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []map[string]string{env, p.Info().Env} {
		if v, ok := e[owner.Env]; ok {
			t.Errorf("the mark %s is taken for a variable of the engine's", v)
		}
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = Launch{Out: t.TempDir()}
	l.Engine.Name, l.Command.Argv = "none", []string{"/no/such/program"}
	if _, err := Start(t.Context(), o, l); err == nil {
		t.Fatal("started what is not there")
	}
	l.Command.Argv = []string{t.TempDir()} // refused by the supervisor's execve or before
	if _, err := Start(t.Context(), o, l); err == nil {
		t.Fatal("started a folder")
	}
	if n := records(); n != 0 {
		t.Errorf("got %d records after all has ended, want none", n)
	}
}

// A cgroup that cannot be made, or cannot take a process, is a fact and not an error.
func TestCgroupRefused(t *testing.T) {
	for name, dir := range map[string]string{"no folder": "/no/such/folder", "no cgroup": t.TempDir()} {
		o := testOptions()
		o.Cgroups = dir
		l := launchOf("echo")
		l.Out = t.TempDir()
		p, err := Start(t.Context(), o, l)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p.Info().Cgroup != "" {
			t.Errorf("%s: got cgroup %q, want none", name, p.Info().Cgroup)
		}
		if left, _ := filepath.Glob(dir + "/flow-*"); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

func TestCgroup(t *testing.T) {
	parent := cgroupParent(Options{}, "/proc")
	probe := filepath.Join(parent, "flow-test-"+newID())
	if parent == "" || os.Mkdir(probe, 0o755) != nil {
		t.Skip("no cgroup v2 may be made here")
	}
	_ = os.Remove(probe)
	p := start(t, serverOf("orphan"))
	ready(t, p)
	cg := p.Info().Cgroup
	if cg == "" {
		t.Fatal("a cgroup may be made, but none was")
	}
	procs := strings.Fields(readFile(t, cg, "cgroup.procs"))
	if len(procs) != 2 {
		t.Errorf("cgroup holds %v, want the engine and its child", procs)
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cg); !os.IsNotExist(err) {
		t.Errorf("cgroup is left: %v", err)
	}
}

func TestMemoryKill(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := (&overseer{cgroup: dir}); !s.oomKilled(0) {
		t.Error("the cgroup's oom_kill is not seen")
	}
	now, ok := vmstatOOMKills()
	if !ok {
		t.Skip("vmstat has no oom_kill")
	}
	if s := (&overseer{vmOK: true, vmKill: now}); s.oomKilled(int(syscall.SIGKILL)) {
		t.Error("a kill without a new oom_kill was taken for one")
	}
	if now > 0 {
		before := now - 1
		if s := (&overseer{vmOK: true, vmKill: before}); !s.oomKilled(int(syscall.SIGKILL)) || s.oomKilled(int(syscall.SIGTERM)) {
			t.Error("a new oom_kill with SIGKILL is an oom kill, with SIGTERM it is not")
		}
		if s := (&overseer{vmOK: true, vmKill: before, killed: true}); s.oomKilled(int(syscall.SIGKILL)) {
			t.Error("our own kill was taken for one")
		}
	}
}

func TestChildrenAndScanAgree(t *testing.T) {
	p := start(t, serverOf("orphan"))
	ready(t, p)
	sup := p.sup.cmd.Process.Pid
	until(t, "both ways see the same tree", func() bool {
		a, b := map[int]bool{}, map[int]bool{}
		for _, s := range descendants(sup, p.sup.tid) {
			a[s.PID] = true
		}
		for _, s := range scanDescendants(sup) {
			b[s.PID] = true
		}
		if len(a) != 2 || len(b) != 2 {
			return false
		}
		for pid := range a {
			if !b[pid] {
				return false
			}
		}
		return true
	})
}

// Shells start background jobs with SIGINT and SIGQUIT ignored, and nohup ignores SIGHUP. An engine that
// inherited that could not be stopped by them.
func TestSignalsNotIgnored(t *testing.T) {
	cmd := exec.Command("sh", "-c", `trap "" INT QUIT HUP TERM PIPE; exec "$0" flow serve "$1" "{port}"`, os.Args[0], t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var told struct{ Tree []int }
	if err := json.Unmarshal([]byte(line), &told); err != nil || len(told.Tree) != 1 {
		t.Fatalf("%v: %s", err, line)
	}
	for l := range strings.Lines(readFile(t, "/proc", strconv.Itoa(told.Tree[0]), "status")) {
		if v, ok := strings.CutPrefix(l, "SigIgn:"); ok && strings.Trim(v, "0 \t\n") != "" {
			t.Errorf("the engine ignores signals: %s", l)
		}
	}
	_ = cmd.Process.Kill()
	until(t, "the engine is gone", func() bool { return gone(told.Tree) })
}

// The engine has no descriptor but its three.
func TestDescriptors(t *testing.T) {
	l := Launch{}
	l.Engine.Name = "ls"
	l.Engine.Metrics = []plan.Metric{{Extract: &plan.Extract{Kind: "stdout"}}}
	l.Command.Argv = []string{"ls", "/proc/self/fd"}
	p := start(t, l)
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, _ := p.Stdout()
	if got := strings.Fields(out); len(got) != 4 { // 0, 1, 2, and the folder that ls reads
		t.Errorf("descriptors %v, want 0 to 3", got)
	}
}
