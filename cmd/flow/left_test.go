package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// An engine with a child in a session of its own, whose parent is gone: nothing of the system leads to it.
const leftWorkflow = `
load("@flow//screens.star", "screen")

toy = engine("toy", command = ["sh", "-c", "(setsid sleep 601 &); sleep 602"])
x = lever("x", env = {"X": "1"}, confirm = confirm.none("a shell says nothing"))

def main(session):
    session.run(screen(x, engine = toy, gates = [], primary = "wall_s", min_effect = "5%"))
`

// processes are those of this campaign with that command line.
func (c *campaign) processes(words string) (pids []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		cmd, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		line := strings.TrimRight(strings.ReplaceAll(string(cmd), "\x00", " "), " ")
		if (line == words || strings.HasSuffix(line, "/flow "+words)) && strings.Contains(string(env), c.dir) {
			pid, _ := strconv.Atoi(filepath.Base(p))
			pids = append(pids, pid)
		}
	}
	return pids
}

// flow and its supervisor are killed at the same instant: whoever asks is told what is left, and the next run
// ends it and removes the folder that flow had made.
func TestKilledWithSupervisor(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, leftWorkflow)
	if err := os.WriteFile(c.in("next.star"), []byte("e = engine(\"e\", command = [\"true\"])\n\ndef main(session):\n    pass\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := c.flow(c.in("a.db"), "", "run", "w.star", "--quiet")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range slices.Concat(c.processes("sleep 601"), c.processes("sleep 602"), []int{cmd.Process.Pid}) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	var grandchild, supervisors []int
	if !poll(patience, func() bool {
		grandchild, supervisors = c.processes("sleep 601"), c.processes("supervise")
		return len(grandchild) == 1 && len(supervisors) == 1 && len(c.processes("sleep 602")) == 1
	}) {
		t.Fatalf("the engine did not start: %v, %v", grandchild, supervisors)
	}
	_ = syscall.Kill(cmd.Process.Pid, syscall.SIGSTOP) // so that neither outlives the other by an instant
	_ = syscall.Kill(supervisors[0], syscall.SIGSTOP)
	_ = syscall.Kill(supervisors[0], syscall.SIGKILL)
	_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
	folders, _ := filepath.Glob(filepath.Join(c.in("tmp"), "flow-*"))
	if len(c.processes("sleep 601")) == 0 || len(folders) != 1 {
		t.Fatalf("nothing was left: the grandchild %v, folders %v", c.processes("sleep 601"), folders)
	}
	named := fmt.Sprintf("pid %d (sleep 601)", grandchild[0])
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"doctor"}, {"doctor", "--json"}} {
		out, err := c.flow(c.in("a.db"), "", args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "engine toy was left by a flow that is gone") || !strings.Contains(string(out), named) {
			t.Errorf("flow %v: got %v and\n%s\nwant it to name %s", args, err, out, named)
		}
	}
	out, err := c.flow(c.in("b.db"), "", "run", "next.star").CombinedOutput()
	if err != nil || !strings.Contains(string(out), named) || !strings.Contains(string(out), "it was ended") {
		t.Errorf("the next run: got %v and\n%s\nwant it to name %s", err, out, named)
	}
	if left := c.processes("sleep 601"); len(left) > 0 {
		t.Errorf("the next run left %v", left)
	}
	for _, glob := range []string{"tmp/flow-*", "state/flow/owned/*"} {
		if files, _ := filepath.Glob(c.in(glob)); len(files) > 0 {
			t.Errorf("the next run left %v", files)
		}
	}
	if out, err := c.flow(c.in("a.db"), "", "status").CombinedOutput(); err != nil || strings.Contains(string(out), "was left") {
		t.Errorf("flow status afterwards: got %v and\n%s", err, out)
	}
}

// What is no record is named and waited for by nobody.
func TestOddRecords(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, leftWorkflow)
	owned := c.in("state/flow/owned")
	if err := os.MkdirAll(owned, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(owned, "00aa.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"doctor"}, {"doctor", "--json"}} {
		out, err := c.flow(c.in("a.db"), "", args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "00aa.json is no record of what flow started: it is not a regular file") {
			t.Errorf("flow %v: got %v and\n%s\nwant it to name the pipe", args, err, out)
		}
	}
}
