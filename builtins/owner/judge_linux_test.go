package owner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A mark alone says nothing: who else says the same decides.
func TestJudge(t *testing.T) {
	// Flow was 100 in the session 90 of the shell 90, which a terminal 80 below the user's manager 70 started.
	base := map[int]Stat{
		1:  {PID: 1, Start: 1},
		70: {PID: 70, Parent: 1, SID: 70, Start: 7},
		80: {PID: 80, Parent: 70, SID: 80, Start: 8},
		90: {PID: 90, Parent: 80, SID: 90, Start: 9, TTY: 5},
	}
	run := Record{ID: "aa", Flow: Process{100, 1000}, FlowSID: 90, Adopters: []Process{{1, 1}, {70, 7}, {80, 8}}}
	engine := run
	engine.ID, engine.Engine, engine.SID, engine.Supervisor = "aa.1", Process{200, 1010}, 200, Process{150, 1005}
	for name, c := range map[string]struct {
		r        Record
		procs    []Stat
		marked   []int
		live     []int
		sure     []int
		ours     []int
		suspects []string // how they begin
	}{
		"lost its parents":                 {run, []Stat{{PID: 300, Parent: 1, SID: 300, Start: 1020}}, []int{300}, nil, nil, []int{300}, nil},
		"taken in by the manager":          {run, []Stat{{PID: 300, Parent: 70, SID: 300, Start: 1020}}, []int{300}, nil, nil, []int{300}, nil},
		"a manager's number given again":   {run, []Stat{{PID: 70, Parent: 1, Start: 1019}, {PID: 300, Parent: 70, SID: 300, Start: 1020}}, []int{300}, nil, nil, nil, []string{"300 its parent, pid 70"}},
		"with what is below it":            {run, []Stat{{PID: 300, Parent: 1, SID: 300, Start: 1020}, {PID: 301, Parent: 300, SID: 301, Start: 1021}}, []int{300}, nil, nil, []int{300, 301}, nil},
		"a command in flow's own terminal": {run, []Stat{{PID: 300, Parent: 70, SID: 90, TTY: 5, Start: 1020}}, []int{300}, nil, nil, []int{300}, nil},
		"a shell with a copy, below flow's shell": {run, []Stat{{PID: 300, Parent: 90, SID: 90, TTY: 5, Start: 1020}}, []int{300}, nil, nil, nil,
			[]string{"300 its parent, pid 90"}},
		"a shell with a copy, in another terminal": {run, []Stat{{PID: 300, Parent: 80, SID: 300, TTY: 6, Start: 1020}}, []int{300}, nil, nil, nil, []string{"300 a terminal"}},
		"entered from outside":                     {run, []Stat{{PID: 300, Parent: 0, SID: 300, Start: 1020}}, []int{300}, nil, nil, nil, []string{"300 its parent, pid 0"}},
		"a terminal's server": {run, []Stat{{PID: 300, Parent: 1, SID: 300, Start: 1020}, {PID: 301, Parent: 300, SID: 301, TTY: 6, Start: 1021}}, []int{300, 301}, nil, nil, nil,
			[]string{"300 a terminal", "301 its parent, pid 300"}},
		"older than flow": {run, []Stat{{PID: 300, Parent: 1, SID: 300, Start: 999}}, []int{300}, nil, nil, nil, []string{"300 it is older"}},
		"a flow that runs": {run, []Stat{{PID: 300, Parent: 1, SID: 300, Start: 1020}, {PID: 301, Parent: 300, SID: 301, Start: 1021}}, []int{300, 301}, []int{300}, nil, nil,
			[]string{"300 it is a flow", "301 it is a flow"}},
		"a flow that runs below the engine": {engine, []Stat{{PID: 200, Parent: 1, SID: 200, Start: 1010}, {PID: 300, Parent: 200, SID: 200, Start: 1020}}, []int{200, 300}, []int{300}, []int{200}, []int{200},
			[]string{"300 it is a flow"}},
		"the engine's session": {engine, []Stat{{PID: 300, Parent: 90, SID: 200, Start: 1020}, {PID: 301, Parent: 90, SID: 200, Start: 1020}}, []int{300}, nil, nil, []int{300, 301}, nil},
		"the session's number given again": {engine, []Stat{{PID: 200, Parent: 90, SID: 200, Start: 1019}, {PID: 300, Parent: 200, SID: 200, Start: 1020}}, []int{300}, nil, nil, nil,
			[]string{"300 its parent, pid 200"}},
		"below a supervisor that hangs":   {engine, []Stat{{PID: 150, Parent: 1, SID: 150, Start: 1005}, {PID: 300, Parent: 150, SID: 300, TTY: 6, Start: 1020}}, []int{300}, nil, nil, []int{300}, nil},
		"below the engine, under no mark": {engine, []Stat{{PID: 200, Parent: 1, SID: 200, Start: 1010}, {PID: 300, Parent: 200, SID: 300, Start: 1020}, {PID: 301, Parent: 300, SID: 301, Start: 1021}}, []int{301}, nil, []int{200}, []int{200, 300, 301}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := evidence{table: map[int]Stat{}, spared: map[int]bool{1: true}}
			for pid, s := range base {
				e.table[pid] = s
			}
			for _, s := range c.procs {
				e.table[s.PID] = s
			}
			of := func(pids []int) (out []Process) {
				for _, pid := range pids {
					out = append(out, Process{pid, e.table[pid].Start})
				}
				return out
			}
			e.marked, e.live, e.sure = of(c.marked), of(c.live), of(c.sure)
			ours, suspects := c.r.judge(e)
			if !slices.Equal(ours, of(c.ours)) {
				t.Errorf("got %v, want %v", ours, c.ours)
			}
			if len(suspects) != len(c.suspects) {
				t.Fatalf("got suspects %v, want %q", suspects, c.suspects)
			}
			for i, s := range suspects {
				if got := fmt.Sprintf("%d %s", s.PID, s.why); !strings.HasPrefix(got, c.suspects[i]) {
					t.Errorf("got %q, want %q", got, c.suspects[i])
				}
			}
		})
	}
}

// What only has a copy of a dead flow's mark in its environment is named, each time, and runs on; the next
// measurement is not refused for it.
func TestCopiedMark(t *testing.T) {
	dir, tmp := filepath.Join(t.TempDir(), "owned"), t.TempDir()
	x, cmd := begin(t, dir, tmp)
	copied := exec.Command("sleep", "600") // its parent is this test
	copied.Env = Mark(os.Environ(), x.ID+".00")
	if err := copied.Start(); err != nil {
		t.Fatal(err)
	}
	defer kill(copied)
	kill(cmd)
	left, err := EndLeft(t.Context(), dir)
	if err != nil || len(left) != 3 || !left[2].Suspect && !left[1].Suspect {
		t.Fatalf("got %v and %v, want the engine's and the command's ended, and a suspect", left, err)
	}
	if !lives(copied.Process.Pid) {
		t.Error("it was ended by its mark alone")
	}
	for range 2 {
		left, err = Look(dir)
		want := fmt.Sprintf("%s of a flow that is gone (pid %d, session 0193-test) is in the environment of pid %d (sleep 600) (its parent, pid %d, was not started by that flow), and",
			Env, cmd.Process.Pid, copied.Process.Pid, os.Getpid())
		if err != nil || len(left) != 1 || !left[0].Suspect || !strings.HasPrefix(left[0].String(), want) {
			t.Fatalf("got %v and %v, want\n%s", left, err, want)
		}
	}
	if removed, err := RemoveFolders(dir, tmp); err != nil || len(removed) > 0 {
		t.Errorf("got %v and %v, want its folder kept", removed, err)
	}
	kill(copied)
	if left, err := Look(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v and %v, want nothing", left, err)
	}
	if files, _ := filepath.Glob(dir + "/*"); len(files) > 0 {
		t.Errorf("records are left: %v", files)
	}
}

// A flow that runs ends what it started, and nobody who looked into that.
func TestEndSparesCopies(t *testing.T) {
	id := word(6)
	start := func(env []string, argv ...string) *exec.Cmd {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill(cmd) })
		return cmd
	}
	// This test plays flow; what is below it is its, and what lost its parents.
	mine := start(Mark(os.Environ(), id), "sleep", "600")
	pidFile := filepath.Join(t.TempDir(), "pid")
	orphan := start(Mark(os.Environ(), id), "sh", "-c", `(setsid sleep 600 >/dev/null 2>&1 & echo $! >"$0.new"; mv "$0.new" "$0")`, pidFile)
	_ = orphan.Wait()
	var pid int
	until(t, "the orphan's number", func() bool {
		b, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(b), &pid)
		return err == nil
	})
	ended, remain := End(id, 0)
	_ = mine.Wait()
	if len(ended) != 2 || len(remain) > 0 || lives(pid) {
		t.Errorf("got %v and %v, the orphan lives: %t; want both ended", ended, remain, lives(pid))
	}
}

// A machine that gets another name is the same one.
func TestRenamed(t *testing.T) {
	engine := exec.Command("sleep", "600")
	engine.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	defer kill(engine)
	dir := t.TempDir()
	keep(t, filepath.Join(dir, "00aa.11.json"), Record{ID: "00aa.11", What: "engine toy", Engine: Find(engine.Process.Pid), Boot: boot(), Host: "its old name", Namespace: namespace()})
	left, err := EndLeft(t.Context(), dir)
	if err != nil || len(left) != 1 || lives(engine.Process.Pid) {
		t.Errorf("got %v and %v, want the engine ended", left, err)
	}
}

// A flow whose record somebody removed still runs, and what it started is its own.
func TestRecordRemoved(t *testing.T) {
	dir, tmp := filepath.Join(t.TempDir(), "owned"), t.TempDir()
	x, cmd := begin(t, dir, tmp)
	if err := os.Remove(filepath.Join(dir, x.ID+".json")); err != nil {
		t.Fatal(err)
	}
	if left, err := EndLeft(t.Context(), dir); err != nil || len(left) > 0 {
		t.Errorf("got %v and %v, want nothing", left, err)
	}
	// Neither does an editor that writes the folder's file anew make it left.
	name := filepath.Join(x.Folder, folderFile)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if removed, err := RemoveFolders(dir, tmp); err != nil || len(removed) > 0 {
		t.Errorf("got %v and %v, want nothing removed", removed, err)
	}
	for how, pid := range x.Started {
		if !lives(pid) {
			t.Errorf("the %s was ended", how)
		}
	}
	kill(cmd)
	if left, err := EndLeft(t.Context(), dir); err != nil || len(left) != 1 || len(left[0].Processes) != 2 {
		t.Errorf("got %v and %v, want the engine's ended", left, err)
	}
}

// Somebody's copy of a folder is theirs, whether flow runs or not.
func TestCopiedFolder(t *testing.T) {
	dir, tmp := filepath.Join(t.TempDir(), "owned"), t.TempDir()
	x, cmd := begin(t, dir, tmp)
	copied, renamed := filepath.Join(tmp, "flow-evidence"), filepath.Join(tmp, "flow-renamed")
	if out, err := exec.Command("cp", "-a", x.Folder, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	check := func(when string) {
		t.Helper()
		if removed, err := RemoveFolders(dir, tmp); err != nil || len(removed) > 0 {
			t.Errorf("%s: got %v and %v, want nothing removed", when, removed, err)
		}
	}
	check("while flow runs")
	kill(cmd)
	if _, err := EndLeft(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(x.Folder, renamed); err != nil {
		t.Fatal(err)
	}
	check("another name")
	if err := os.Rename(renamed, x.Folder); err != nil {
		t.Fatal(err)
	}
	keep(t, filepath.Join(dir, x.ID+".json"), Record{ID: x.ID, Boot: "its own", Host: "elsewhere"})
	check("a record is there")
	if err := os.Remove(filepath.Join(dir, x.ID+".json")); err != nil {
		t.Fatal(err)
	}
	if removed, err := RemoveFolders(dir, tmp); err != nil || !slices.Equal(removed, []string{x.Folder}) {
		t.Errorf("got %v and %v, want %s removed", removed, err, x.Folder)
	}
	if _, err := os.Stat(filepath.Join(copied, folderFile)); err != nil {
		t.Error(err)
	}
}

// What is no record is named and waited for by nobody; what was never finished goes.
func TestOdd(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	o, err := Begin(dir, "s", func() int64 { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.End() }()
	in := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{in("pipe.json"), filepath.Join(tmp, "flow-x", folderFile)} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("cut.json", `{"id":"cu`)
	put("empty.json", "")
	put("other.json", `{"id":"another"}`)
	put("notes", "mine")
	put("huge.json", `{"id":"huge","what":"`+strings.Repeat("x", recordMost)+`"}`)
	put(".DS_Store", "")
	if err := os.Symlink("/etc/passwd", in("link.json")); err != nil {
		t.Fatal(err)
	}
	put("00bb.json.new", `{"id":"00b`)
	put("00cc.11.json.new", "")
	put(o.ID()+".22.json.new", "") // a launch of a flow that runs, about to be written
	held, err := os.Create(in("00dd.json.new"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		odd     []string
		left    []Left
		removed []string
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.odd, a.err = Odd(dir)
		if a.err == nil {
			a.left, a.err = EndLeft(t.Context(), dir)
		}
		if a.err == nil {
			a.removed, a.err = RemoveFolders(dir, tmp)
		}
		done <- a
	}()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	select {
	case a := <-done:
		if a.err != nil || len(a.left)+len(a.removed) > 0 {
			t.Errorf("got %v, %v and %v, want nothing", a.left, a.removed, a.err)
		}
		var names []string
		for _, words := range a.odd {
			path, _, _ := strings.Cut(words, " is no record of what flow started: ")
			names = append(names, filepath.Base(path))
		}
		if want := []string{"cut.json", "empty.json", "huge.json", "link.json", "notes", "other.json", "pipe.json"}; !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", a.odd, want)
		}
	case <-limit.C:
		t.Fatal("it waits for a pipe")
	}
	unfinished, _ := filepath.Glob(in("*.new"))
	if want := []string{in("00dd.json.new"), in(o.ID() + ".22.json.new")}; len(unfinished) != 2 || !slices.Contains(unfinished, want[0]) || !slices.Contains(unfinished, want[1]) {
		t.Errorf("got %v unfinished, want %v", unfinished, want)
	}
}

// Whoever clears what was never finished does not disturb a flow that begins, or that launches.
func TestBeginWhileOthersLook(t *testing.T) {
	dir := t.TempDir()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				if left, err := EndLeft(t.Context(), dir); err != nil || len(left) > 0 {
					stopped <- fmt.Errorf("got %v and %v, want nothing", left, err)
					return
				}
			}
		}
	}()
	for range 100 {
		o, err := Begin(dir, "s", func() int64 { return 1 })
		if err != nil {
			t.Error(err)
			break
		}
		h := o.Hold("engine toy")
		for range 3 {
			if err := h.Keep(func(r *Record) { r.Port++ }); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(h.Release(), o.End()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if files, _ := filepath.Glob(dir + "/*"); len(files) > 0 {
		t.Errorf("left %v", files)
	}
}

func keep(t *testing.T, path string, r Record) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
