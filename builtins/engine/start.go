package engine

// Start: from a launch as it is planned to a process that runs.

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"flow/builtins/owner"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Names of the files in Launch.Out. The log is standard output and standard error in one file, in the order
// in which they were written. Where a metric is extracted from standard output, that stream goes to a file
// of its own, as the engine writes it and not through a pipe of ours, which would cost the engine time; the
// log then holds standard error, and Log shows both.
const (
	LogFile    = "engine.log"
	StdoutFile = "stdout.txt"
)

// launchLimit bounds the time from starting the supervisor to its first word. It is no measure of an engine:
// the word comes as soon as execve has succeeded.
const launchLimit = 30 * time.Second

// Start launches the engine, or takes note of an attached one. It returns when the engine's program runs;
// a failure is a *StartError. A cancelled ctx ends the launch and leaves nothing; once Start returned, the
// process lives until Stop.
func Start(ctx context.Context, o Options, l Launch) (*Process, error) {
	if o.Now == nil {
		o.Now = monotonicNS
	}
	p := &Process{
		o: o, engine: l.Engine, timeouts: l.Engine.Timeouts.WithDefaults(), out: l.Out,
		held: o.Owner.Hold("engine " + l.Engine.Name),
		done: make(chan struct{}), supGone: make(chan struct{}), root: l.Root, offset: o.Now() - monotonicNS(), literals: map[string]literalHit{},
	}
	if err := ctx.Err(); err != nil {
		return nil, &StartError{Reason: "launch cancelled", Err: err}
	}
	if _, err := stopSignal(l.Engine.StopSignal); err != nil {
		return nil, permanent(l, err)
	}
	if url := firstOf(l.Command.URL, l.Engine.URL); url != "" {
		p.attached, p.engine.URL = true, url
		p.info = record.Process{LaunchNS: o.Now()}
		return p, nil
	}
	if len(o.Supervisor) == 0 {
		return nil, &StartError{Reason: "launch engine " + l.Engine.Name,
			Err: &diag.Error{Kind: diag.Bug, Op: "launch", Msg: "no supervisor command is set"}}
	}
	if !filepath.IsAbs(l.Out) {
		return nil, &StartError{Reason: "launch engine " + l.Engine.Name,
			Err: &diag.Error{Kind: diag.Bug, Op: "launch", Msg: fmt.Sprintf("no folder for the arm: got %q, want an absolute path", l.Out)}}
	}
	if len(l.Command.Argv) == 0 {
		return nil, permanent(l, &diag.Error{Pos: l.Engine.Pos, Kind: diag.Workflow, Op: "engine " + l.Engine.Name, Msg: "it has neither a command nor a url"})
	}
	sup, err := startSupervisor(o.Supervisor, l.Out, wantsStdout(l.Engine))
	if err != nil {
		return nil, &StartError{Reason: "launch engine " + l.Engine.Name,
			Err: &diag.Error{Kind: diag.Machine, Op: "supervisor", Msg: strings.Join(o.Supervisor, " "), Err: err}}
	}
	p.sup, p.stdout = sup, wantsStdout(l.Engine)
	sp, err := p.prepare(l) // while the supervisor comes up
	if err != nil {
		sup.abandon()
		return nil, permanent(l, err)
	}
	// On record before it is started: should flow and the supervisor be killed, the next flow finds it.
	if err := p.held.Keep(func(r *owner.Record) {
		r.Supervisor, r.Cgroup, r.Port = owner.Find(sup.cmd.Process.Pid), string(sp.Cgroup), p.info.Port
	}); err != nil {
		sup.abandon()
		return nil, &StartError{Reason: "launch engine " + l.Engine.Name, Err: &diag.Error{Kind: diag.Machine, Op: "record of what is started", Err: err,
			Fix: "free some disk space, or set XDG_STATE_HOME to a folder that can be written: without a record nothing is started"}}
	}
	abandon := func() {
		sup.abandon()
		p.endMarked()
	}
	_ = sup.send(order{Op: opLaunch, Spec: sp}) // a supervisor that does not read is one that says nothing
	limit := time.NewTimer(launchLimit)
	defer limit.Stop()
	select {
	case r, ok := <-sup.reports:
		if !ok {
			abandon()
			return nil, &StartError{Reason: "launch engine " + l.Engine.Name, LogTail: p.logTail(),
				Err: &diag.Error{Kind: diag.Machine, Op: "supervisor", Msg: "it ended without a word", Fix: "see whether `" + strings.Join(o.Supervisor, " ") + " </dev/null` runs"}}
		}
		if r.Event == evFailed {
			abandon()
			return nil, launchFailure(l, string(sp.Path), string(sp.Dir), r)
		}
		sup.tid = r.Tid
		p.info.Pid, p.info.StartTicks, p.info.Cgroup = r.Pid, r.StartTicks, r.Cgroup
		p.info.LaunchNS = r.NS + p.offset
		// Only for the case that the engine overwrites its environment; the mark finds it otherwise.
		_ = p.held.Keep(func(o *owner.Record) {
			o.Engine, o.Group, o.SID, o.Cgroup = owner.Process{PID: r.Pid, Start: r.StartTicks}, r.Pid, r.Pid, r.Cgroup
		})
	case <-limit.C:
		abandon()
		return nil, &StartError{Reason: "launch engine " + l.Engine.Name, LogTail: p.logTail(),
			Err: &diag.Error{Kind: diag.Machine, Op: "supervisor", Msg: "no word from it within " + words(launchLimit), Fix: "see what `" + strings.Join(o.Supervisor, " ") + "` does"}}
	case <-ctx.Done():
		abandon() // the end of orders kills whatever was started
		return nil, &StartError{Reason: "launch cancelled", Err: ctx.Err()}
	}
	go p.watch()
	return p, nil
}

// prepare fills in everything and writes the config files.
func (p *Process) prepare(l Launch) (*spec, error) {
	vars := maps.Clone(l.Vars)
	if vars == nil {
		vars = map[string]string{}
	}
	if vars["out"] == "" {
		vars["out"] = l.Out
	}
	texts := slices.Concat(l.Command.Argv, []string{l.Command.Dir}, slices.Collect(maps.Values(l.Command.Env)), slices.Collect(maps.Values(l.Command.Config)))
	if names("port", texts...) {
		port, err := choosePort(vars["port"])
		if err != nil {
			return nil, &diag.Error{Pos: l.Engine.Pos, Kind: diag.Machine, Op: "engine " + l.Engine.Name, Msg: "choose a port", Err: err}
		}
		p.info.Port, vars["port"] = port, strconv.Itoa(port)
	} else if l.Engine.API != nil || l.Engine.Ready.Kind == plan.ReadyHTTP || l.Engine.Ready.Kind == plan.ReadyPort {
		return nil, &diag.Error{Pos: l.Engine.Pos, Kind: diag.Workflow, Op: "engine " + l.Engine.Name,
			Msg: "it is a server, but neither command, env nor config names {port}", Fix: `write command = [..., "--port", "{port}"]: flow chooses a free one for every launch`}
	}
	p.vars = vars
	c, err := fillCommand(l, vars)
	if err != nil {
		return nil, err
	}
	dir := l.Out
	if c.Dir != "" {
		dir = absolute(l.Root, c.Dir)
	}
	if err := writeConfig(l, c.Config); err != nil {
		return nil, err
	}
	env := environment(os.Environ(), p.o.Allow, c)
	bin, err := LookBinary(c.Argv[0], l.Root, env["PATH"])
	if err != nil {
		return nil, err
	}
	// The path rather than the word: programs that look for their files beside themselves would otherwise
	// look from another directory.
	c.Argv[0] = bin
	p.info.Argv, p.info.Env, p.info.Dir, p.info.Files, p.info.Binary = c.Argv, env, dir, c.Config, bin
	sp := &spec{Path: []byte(bin), Argv: toBytes(c.Argv), Env: toBytes(owner.Mark(pairs(env), p.held.ID())), Dir: []byte(dir), Stdout: p.stdout}
	if s := l.Engine.Launch; s != nil {
		path, words, unit, err := intoScope(l, *s, bin, c.Argv, env)
		if err != nil {
			return nil, err
		}
		sp.Path, sp.Argv, p.info.Unit = []byte(path), toBytes(words), unit
	} else if parent := cgroupParent(p.o, "/proc"); parent != "" {
		sp.Cgroup = []byte(filepath.Join(parent, "flow-"+newID()))
	}
	return sp, nil
}

// fillCommand fills in the placeholders. Arguments and values that name one of the engine's files, or a path
// that a parameter gave, relative to the workflow's root become absolute, because the engine runs in a directory
// of its own. The program itself is looked up elsewhere, in PATH too.
func fillCommand(l Launch, vars map[string]string) (record.Command, error) {
	c := l.Command
	var err error
	relative := slices.DeleteFunc(slices.Clone(l.Engine.Files), filepath.IsAbs)
	for _, f := range l.Paths {
		if f == "" || filepath.IsAbs(f) {
			continue
		}
		if _, gone := os.Stat(filepath.Join(l.Root, f)); gone == nil {
			relative = append(relative, f)
		}
	}
	do := func(s string) string {
		if err != nil {
			return ""
		}
		for _, f := range relative {
			if s == f {
				return filepath.Join(l.Root, f)
			}
			if flag, ok := strings.CutSuffix(s, "="+f); ok {
				return flag + "=" + filepath.Join(l.Root, f)
			}
		}
		var filled string
		filled, err = fill(s, vars)
		return filled
	}
	c.Argv = slices.Clone(c.Argv)
	for i, a := range c.Argv {
		if i == 0 && slices.Contains(l.Paths, a) && !slices.Contains(l.Engine.Files, a) {
			continue
		}
		c.Argv[i] = do(a)
	}
	c.Dir = do(c.Dir)
	env, config := map[string]string{}, map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		env[k] = do(c.Env[k])
	}
	for _, k := range slices.Sorted(maps.Keys(c.Config)) {
		config[k] = do(c.Config[k])
	}
	c.Env, c.Config = env, config
	var where *diag.Error
	if errors.As(err, &where) && where.Pos.IsZero() {
		where.Pos = l.Engine.Pos
	}
	return c, err
}

// writeConfig writes the config files into the arm's folder, and nowhere else.
func writeConfig(l Launch, files map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !filepath.IsLocal(name) || name == LogFile || name == StdoutFile {
			return &diag.Error{Pos: l.Engine.Pos, Kind: diag.Workflow, Op: "engine " + l.Engine.Name,
				Msg: fmt.Sprintf("got config file %q, want a name inside the arm's folder", name), Fix: `write config = {"engine.json": …} and name it as {out}/engine.json`}
		}
		path := filepath.Join(l.Out, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(files[name]), 0o644)
		}
		if err != nil {
			return &diag.Error{Pos: l.Engine.Pos, Kind: diag.Machine, Op: "engine " + l.Engine.Name, Msg: "write config", Err: err}
		}
	}
	return nil
}

// choosePort finds a port on which nothing listens, outside the range from which the kernel serves
// outgoing connections. want, when set, is taken as it is.
func choosePort(want string) (int, error) {
	if want != "" {
		n, err := strconv.Atoi(want)
		if err != nil || n < 1 || n > 65535 {
			return 0, fmt.Errorf("got port %q, want 1 to 65535", want)
		}
		return n, nil
	}
	low, high := reservedPorts()
	for range 200 {
		port := 10240 + mathrand.IntN(65536-10240)
		if port >= low && port <= high {
			continue
		}
		if portFree(port) {
			return port, nil
		}
	}
	// The machine reserves everything, or is full: take what the kernel gives.
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// portFree binds for a moment: the one answer that knows every kind of holder.
func portFree(port int) bool {
	if free, _, who := portOwner(port, nil); !free && who != "" {
		return false
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// permanent wraps a mistake that every launch of this side would meet again, unless it is the machine's.
func permanent(l Launch, err error) *StartError {
	kind, known := diag.KindOf(err)
	return &StartError{Reason: "launch engine " + l.Engine.Name, Permanent: known && kind == diag.Workflow, Err: err}
}

// launchFailure is what execve said.
func launchFailure(l Launch, path, dir string, r report) *StartError {
	no := syscall.Errno(r.Errno)
	e := &diag.Error{Pos: l.Engine.Pos, Kind: diag.Workflow, Op: "run " + path, Msg: r.Error}
	se := &StartError{Reason: "launch engine " + l.Engine.Name, Err: e}
	switch no {
	case syscall.ENOENT, syscall.ENOTDIR:
		se.Permanent = true
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			e.Op, e.Msg = "directory "+dir, "no such directory"
		} else if _, err := os.Stat(path); err == nil {
			e.Fix = "the file is there, but its interpreter or loader is not: see its #! line, or `file " + path + "`"
		}
	case syscall.EACCES, syscall.ENOEXEC:
		se.Permanent = true
		e.Fix = "make it executable for this machine: `file " + path + "`"
	case syscall.E2BIG:
		se.Permanent = true
		e.Msg += ": command and environment are too long"
	default:
		e.Kind = diag.Machine
	}
	return se
}

// wantsStdout: a metric is extracted from standard output.
func wantsStdout(e plan.Engine) bool {
	return slices.ContainsFunc(e.Metrics, func(m plan.Metric) bool { return m.Extract != nil && m.Extract.Kind == "stdout" })
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// absolute is path seen from root.
func absolute(root, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if a, err := filepath.Abs(filepath.Join(root, path)); err == nil {
		return a
	}
	return filepath.Join(root, path)
}

func newID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// supervisor is flow's end of one.
type supervisor struct {
	cmd     *exec.Cmd
	tid     int // its thread that forked the engine
	orders  *os.File
	enc     *json.Encoder
	reports chan report // closed when the supervisor is gone
}

// startSupervisor starts one in a session of its own. Its standard error is the log that the engine
// inherits.
func startSupervisor(argv []string, out string, stdout bool) (*supervisor, error) {
	log, err := os.OpenFile(filepath.Join(out, LogFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "GOTRACEBACK=single") // it sleeps; few threads start faster
	if stdout {
		f, err := os.OpenFile(filepath.Join(out, StdoutFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		cmd.ExtraFiles = []*os.File{f}
	}
	ordersR, ordersW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersR.Close()
	reportsR, reportsW, err := os.Pipe()
	if err != nil {
		ordersW.Close()
		return nil, err
	}
	defer reportsW.Close()
	cmd.Stdin, cmd.Stdout = ordersR, reportsW
	if err := cmd.Start(); err != nil {
		ordersW.Close()
		reportsR.Close()
		return nil, err
	}
	s := &supervisor{cmd: cmd, orders: ordersW, enc: json.NewEncoder(ordersW), reports: make(chan report, 4)}
	go func() {
		defer close(s.reports)
		defer reportsR.Close()
		dec := json.NewDecoder(reportsR)
		for {
			var r report
			if dec.Decode(&r) != nil {
				return
			}
			s.reports <- r
		}
	}()
	return s, nil
}

func (s *supervisor) send(o order) error { return s.enc.Encode(o) }

// abandon ends the orders, which makes the supervisor kill what there is, and waits for its end. One that
// does not end is killed, and its engine with it.
func (s *supervisor) abandon() {
	_ = s.orders.Close()
	limit := time.AfterFunc(sweepLimit+5*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer limit.Stop()
	for range s.reports {
	}
	_ = s.cmd.Wait()
}
