package hardware

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fakeProcs is a /proc whose processes are told what they used up. A process that ended has empty files:
// the sampler holds them open, and the real ones then read as "no such process".
type fakeProcs struct {
	t    *testing.T
	proc string
}

func (f fakeProcs) set(pid, ppid int, state string, own, kids, rssKiB int) {
	dir := filepath.Join(f.proc, strconv.Itoa(pid))
	write(f.t, filepath.Join(dir, "stat"), fmt.Sprintf("%d (engine) %s %d 1 1 0 -1 0 9 0 2 1 %d 0 %d 0 20 0 3 0 77 1024 256\n", pid, state, ppid, own, kids))
	status := "Name:\tengine\n"
	if state != "Z" {
		status += fmt.Sprintf("VmLck:\t 0 kB\nVmPin:\t 4 kB\nVmRSS:\t %d kB\nVmSwap:\t 0 kB\n", rssKiB)
	}
	write(f.t, filepath.Join(dir, "status"), status)
}

func (f fakeProcs) end(pid int) {
	dir := filepath.Join(f.proc, strconv.Itoa(pid))
	for _, n := range []string{"stat", "status"} {
		if err := os.Truncate(filepath.Join(dir, n), 0); err != nil {
			f.t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, n)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestEngineTree follows a server (10) with workers through their lives. In ticks of 10 ms; the server's
// parent (1) is not ours.
func TestEngineTree(t *testing.T) {
	f := fakeProcs{t, t.TempDir()}
	write(t, filepath.Join(f.proc, "self", "status"), "Name:\tflow\n")
	pids := []int{10}
	e := openEngine(Options{Proc: f.proc}.withDefaults()).(*engine).bind(func() []int { return pids })
	defer e.Close()
	now := int64(0)
	sample := func() map[string]float64 {
		t.Helper()
		got := map[string]float64{}
		now += int64(time.Second) // past the time after which the set is asked for again
		if err := e.Sample(now, func(n string, v float64) { got[n] = v }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	step := func(what string, want map[string]float64) {
		t.Helper()
		got := sample()
		for n, w := range want {
			if g, ok := got["engine."+n]; !ok || g != w {
				t.Errorf("%s: engine.%s is %v (measured %v), want %v", what, n, g, ok, w)
			}
		}
	}
	if got := sample(); len(got) > 0 {
		t.Errorf("before the first process: got %v, want nothing", got)
	}
	f.set(10, 1, "S", 100, 0, 2048)
	step("one process", map[string]float64{"processes": 1, "threads": 3, "cpu_s": 1, "rss_mib": 2, "vmpin_mib": 4. / 1024, "vmlck_mib": 0, "majflt": 3, "minflt": 9})

	f.set(11, 10, "R", 40, 0, 1024)
	f.set(12, 10, "R", 10, 0, 1024)
	f.set(13, 11, "R", 5, 0, 1024)
	pids = []int{10, 11, 12, 13}
	step("three workers", map[string]float64{"processes": 4, "cpu_s": 1.55, "rss_mib": 5})

	// 12 ends, the server waits for it: its 14 ticks (four more since it was last seen) are the server's.
	f.end(12)
	f.set(10, 1, "S", 110, 14, 2048)
	pids = []int{10, 11, 13}
	step("a worker was waited for", map[string]float64{"processes": 3, "cpu_s": 1.69})

	// 11 is a zombie: its time counts, its memory does not exist.
	f.set(11, 10, "Z", 45, 0, 0)
	step("a zombie", map[string]float64{"processes": 2, "cpu_s": 1.74, "rss_mib": 3})

	// 11 is gone and nobody has waited for it (SIGCHLD ignored): its time stays all the same.
	f.end(11)
	step("a worker was not waited for", map[string]float64{"processes": 2, "cpu_s": 1.74})
	f.set(10, 1, "S", 120, 14, 2048)
	step("and the server goes on", map[string]float64{"cpu_s": 1.84})

	// 13, whose parent is gone, ends below a subreaper that is not ours.
	f.set(13, 1, "S", 8, 0, 1024)
	step("an orphan", map[string]float64{"processes": 2, "cpu_s": 1.87})
	f.end(13)
	step("the orphan is gone", map[string]float64{"processes": 1, "cpu_s": 1.87})

	f.end(10)
	got := sample()
	if got["engine.processes"] != 0 || got["engine.cpu_s"] != 1.87 {
		t.Errorf("after the end: got %v", got)
	}
	if v, ok := got["engine.rss_mib"]; ok {
		t.Errorf("no process has no resident memory, got %v", v)
	}
}

// TestEngineOfRealProcesses: a shell whose children burn CPU and end, some between two samples.
func TestEngineOfRealProcesses(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	cmd := exec.Command("/bin/sh", "-c", `for i in 1 2 3; do sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'; done; echo idle; read x; exit 0`)
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
	pid := cmd.Process.Pid
	idle := make(chan struct{}) // all children have been waited for
	go func() {
		defer close(idle)
		_, _ = out.Read(make([]byte, 8))
	}()
	e := openEngine(Options{}.withDefaults()).(*engine).bind(func() []int { return append(childrenOf(t, pid), pid) })
	defer e.Close()
	last := -1.0
	var rss float64
	sample := func() {
		if err := e.Sample(monotonic(), func(n string, v float64) {
			switch n {
			case "engine.cpu_s":
				if v < last {
					t.Errorf("engine.cpu_s went back from %v to %v", last, v)
				}
				last = v
			case "engine.rss_mib":
				rss = v
			}
		}); err != nil {
			t.Error(err)
		}
	}
	for working := true; working; {
		sample()
		select {
		case <-idle:
			working = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	sample()
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	sample()
	used := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() // with its children
	if last < used-.05 || last > used+.05 {
		t.Errorf("engine.cpu_s is %v, want the %v that wait4 says", last, used)
	}
	if rss <= 0 {
		t.Error("no resident memory seen")
	}
}

func childrenOf(t *testing.T, pid int) []int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var out []int
	for _, f := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}
