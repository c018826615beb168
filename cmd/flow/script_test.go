package main

// What scripts can say besides testscript's own commands. Everything that waits has a deadline, and nothing
// sleeps for a condition.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for what should come at once, on a machine that does much else.
const patience = 90 * time.Second

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"begin":        begin,
	"ends":         ends,
	"engine-runs":  engineRuns,
	"engines-gone": enginesGone,
	"exits":        exits,
	"json-lines":   jsonLines,
	"port-free":    portFree,
	"session-id":   sessionID,
	"signal":       sendSignal,
	"insist":       insist,
	"tmpfs":        tmpfs,
	"until":        until,
}

// condition knows [tmpfs], whether a file system can be mounted here, and [race].
func condition(cond string) (bool, error) {
	switch cond {
	case "race":
		return raceEnabled, nil
	case "tmpfs":
		dir, err := os.MkdirTemp("", "flow-tmpfs-")
		if err != nil {
			return false, nil
		}
		defer func() { _ = os.Remove(dir) }()
		if exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).Run() != nil {
			return false, nil
		}
		return exec.Command("umount", dir).Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// background is the key of the commands that a script began.
type background struct{}

type begun struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// begin starts a command and goes on: begin NAME COMMAND…. Its output goes to NAME.out and NAME.err.
func begin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: begin NAME COMMAND…")
	}
	path := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, args[1]); path == "" {
			if st, err := os.Stat(p); err == nil && !st.IsDir() {
				path = p
			}
		}
	}
	cmd := exec.Command(path, args[2:]...)
	cmd.Args[0] = args[1]
	cmd.Dir = ts.MkAbs(".")
	for _, k := range []string{"PATH", "HOME", "TMPDIR", "XDG_STATE_HOME", "FLOW_LOCK_DIR", "FLOW_DB", "NO_COLOR", "GORACE", "WORK"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	var err error
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(args[0] + ".err"))
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = out, errs
	ts.Check(cmd.Start())
	_, _ = out.Close(), errs.Close()
	b := &begun{cmd: cmd, done: make(chan struct{})}
	go func() {
		b.err = cmd.Wait()
		close(b.done)
	}()
	ts.Value(background{}).(map[string]*begun)[args[0]] = b
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		<-b.done
	})
}

func theBegun(ts *testscript.TestScript, name string) *begun {
	b := ts.Value(background{}).(map[string]*begun)[name]
	if b == nil {
		ts.Fatalf("nothing was begun as %q", name)
	}
	return b
}

// ends waits for what was begun and wants an exact exit code, or the signal that ended it: ends NAME 4.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ends NAME CODE")
	}
	b := theBegun(ts, args[0])
	select {
	case <-b.done:
	case <-time.After(patience):
		ts.Fatalf("%s did not end within %s\n%s", args[0], patience, ts.ReadFile(args[0]+".err"))
	}
	if got := exitOf(b.err); got != args[1] {
		ts.Fatalf("%s ended with %s, want %s\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".err"))
	}
}

func exitOf(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return strings.TrimPrefix(err.Error(), "exit status ")
		}
		return "0"
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal().String()
	}
	return fmt.Sprint(exit.ExitCode())
}

// sendSignal sends a signal to what was begun: signal INT NAME.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	known := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill, "HUP": syscall.SIGHUP}
	if neg || len(args) != 2 || known[args[0]] == nil {
		ts.Fatalf("usage: signal INT|TERM|KILL|HUP NAME")
	}
	ts.Check(theBegun(ts, args[1]).cmd.Process.Signal(known[args[0]]))
}

// insist sends a signal again and again until what was begun ends: insist INT NAME.
func insist(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || args[0] != "INT" {
		ts.Fatalf("usage: insist INT NAME")
	}
	b := theBegun(ts, args[1])
	if !poll(patience, func() bool {
		select {
		case <-b.done:
			return true
		default:
			_ = b.cmd.Process.Signal(os.Interrupt) // it may have ended just now
			return false
		}
	}) {
		ts.Fatalf("%s did not end within %s", args[1], patience)
	}
}

// until waits until a file holds a pattern: until one.err 'arm A2'.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE PATTERN")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	var text []byte
	if !poll(patience, func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[0]))
		return re.Match(text)
	}) {
		ts.Fatalf("%s has no %q within %s:\n%s", args[0], args[1], patience, text)
	}
}

// poll asks until it is true or the time is over.
func poll(limit time.Duration, ok func() bool) bool {
	end := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// enginesGone fails while a process started below the script's folder still runs an engine: every fault
// must leave nothing behind when flow ends. After a SIGKILL of flow the supervisors need a moment:
// engines-gone soon.
func enginesGone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: engines-gone [soon]")
	}
	left := engines(ts.Getenv("WORK"))
	if len(args) > 0 {
		poll(patience, func() bool { left = engines(ts.Getenv("WORK")); return len(left) == 0 })
	}
	if len(left) > 0 {
		ts.Fatalf("still running:\n%s", strings.Join(left, "\n"))
	}
}

// engineRuns waits for an engine: what is signalled then ends an arm, not the moment between two.
func engineRuns(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: engine-runs")
	}
	if !poll(patience, func() bool { return len(engines(ts.Getenv("WORK"))) > 0 }) {
		ts.Fatalf("no engine runs within %s", patience)
	}
}

// engines lists the engines and supervisors whose command line or environment names dir.
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
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		if strings.Contains(string(cmd), dir) || strings.Contains(string(env), dir) {
			out = append(out, filepath.Base(p)+": "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return out
}

// exits runs a command and wants an exact exit code: exits 3 flow run x.star.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	if got := exitOf(ts.Exec(args[1], args[2:]...)); got != args[0] {
		ts.Fatalf("got exit %s, want %s", got, args[0])
	}
}

// tmpfs mounts a file system of a size below the script's folder, or gives it another size: tmpfs DIR 700k.
func tmpfs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tmpfs DIR SIZE")
	}
	dir, how := ts.MkAbs(args[0]), "size="+args[1]
	if _, err := os.Stat(dir); err == nil {
		ts.Check(exec.Command("mount", "-o", "remount,"+how, dir).Run())
		return
	}
	ts.Check(os.Mkdir(dir, 0o755))
	ts.Check(exec.Command("mount", "-t", "tmpfs", "-o", how, "tmpfs", dir).Run())
	ts.Defer(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

// jsonLines wants every line of a file to be a JSON object: json-lines stdout.
func jsonLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: json-lines FILE")
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
	for i, l := range lines {
		var v map[string]any
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			ts.Fatalf("line %d is no JSON object: %v\n%s", i+1, err, l)
		}
	}
}

// portFree wants nobody to listen on a port.
func portFree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: port-free PORT")
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", args[0]))
	ts.Check(err)
	ts.Check(l.Close())
}

// sessionID sets a variable to the id of the newest session: session-id ID.
func sessionID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: session-id NAME")
	}
	ts.Check(ts.Exec("flow", "sql", "select id from sessions order by wall_start_ns desc limit 1", "--format", "csv"))
	lines := strings.Fields(ts.ReadFile("stdout"))
	if len(lines) != 2 {
		ts.Fatalf("got %q, want one session", lines)
	}
	ts.Setenv(args[0], lines[1])
}

// TestExitOf shows what scripts compare with.
func TestExitOf(t *testing.T) {
	for want, cmd := range map[string]string{"0": "exit 0", "3": "exit 3", "killed": "kill -9 $$"} {
		if got := exitOf(exec.Command("sh", "-c", cmd).Run()); got != want {
			t.Errorf("%s: got %s, want %s", cmd, got, want)
		}
	}
}
