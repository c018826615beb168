package engine

// The supervisor: `flow supervise`, one per launched engine.
//
// It lives in a session of its own, so that a Ctrl-C meant for flow does not reach it. On Linux it is a
// child subreaper: whatever the engine starts, however often it forks or calls setsid, becomes the
// supervisor's child once its parent is gone. So "nothing is left" is not a search but an answer of the
// kernel: wait4 says ECHILD.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"flow/builtins/owner"
)

// hurriedGrace is what is left of a stop's grace when somebody is waiting.
const hurriedGrace = time.Second

// sweepLimit bounds the last kill. What outlives it sits in the kernel (state D) and cannot be killed.
const sweepLimit = 10 * time.Second

// overseer is the state of a supervisor.
type overseer struct {
	in     io.Reader
	out    *os.File
	outMu  sync.Mutex
	orders chan order    // closed at the end of in
	empty  chan struct{} // closed when no descendant is left
	gone   chan struct{} // closed when the engine itself is reaped

	mu     sync.Mutex // held while signalling and while reaping, so that a pid is ours when it is signalled
	pid    int        // of the engine
	tid    int        // of the thread that forked it
	killed bool       // we sent SIGKILL
	ended  bool       // the engine itself is reaped

	cgroup string
	vmKill uint64 // vmstat's oom_kill before the launch
	vmOK   bool
}

// Supervise is the main of the hidden `flow supervise` verb and gives its exit code. It must be called from
// the main goroutine, early: in is flow's end of orders, out takes the reports (standard input and output).
func Supervise(args []string, in, out *os.File) int {
	if len(args) != 0 {
		fmt.Fprintf(os.Stderr, "flow supervise: got %d arguments, want none: it is started by flow itself\n", len(args))
		return 2
	}
	// The parent-death signal of the engine binds to this thread.
	runtime.LockOSThread()
	// Notify rather than Ignore: an ignored signal would stay ignored in the engine.
	drop := make(chan os.Signal, 1)
	signal.Notify(drop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTSTP)
	closeOnExec() // the engine gets its three descriptors, whatever flow was started with
	s := &overseer{in: in, out: out, orders: make(chan order), empty: make(chan struct{}), gone: make(chan struct{})}
	if err := becomeSubreaper(); err != nil {
		s.report(report{Event: evFailed, Error: "supervisor: " + err.Error()})
		return 70
	}
	dec := json.NewDecoder(in)
	var first order
	if err := dec.Decode(&first); err != nil || first.Op != opLaunch || first.Spec == nil {
		return 0 // flow changed its mind
	}
	if !s.launch(first.Spec) {
		return 0
	}
	go s.reap()
	go s.listen(dec)
	return s.serve()
}

func (s *overseer) report(r report) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	b, err := json.Marshal(r)
	if err == nil {
		_, _ = s.out.Write(append(b, '\n')) // flow may be gone: the end of orders says so
	}
}

func (s *overseer) listen(dec *json.Decoder) {
	defer close(s.orders)
	for {
		var o order
		if dec.Decode(&o) != nil {
			return
		}
		s.orders <- o
	}
}

// launch starts the engine; it reports either way.
func (s *overseer) launch(sp *spec) bool {
	fail := func(err error) bool {
		s.removeCgroup()
		r := report{Event: evFailed, Error: err.Error()}
		var no syscall.Errno
		if errors.As(err, &no) {
			r.Errno = int(no)
		}
		s.report(r)
		return false
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fail(err)
	}
	defer null.Close()
	files := []uintptr{null.Fd(), 2, 2}
	if sp.Stdout {
		files[1] = 3
	}
	s.vmKill, s.vmOK = vmstatOOMKills()
	attr := &syscall.ProcAttr{Dir: string(sp.Dir), Env: toStrings(sp.Env), Files: files, Sys: engineAttr()}
	fd := -1
	if dir := string(sp.Cgroup); dir != "" {
		if os.Mkdir(dir, 0o755) == nil {
			s.cgroup = dir
			if fd = openCgroup(dir); fd >= 0 {
				intoCgroup(attr.Sys, fd)
			} else {
				s.removeCgroup()
			}
		}
	}
	path, argv := string(sp.Path), toStrings(sp.Argv)
	start := monotonicNS()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil && fd >= 0 { // perhaps only the cgroup is refused
		outOfCgroup(attr.Sys)
		s.removeCgroup()
		start = monotonicNS()
		pid, err = syscall.ForkExec(path, argv, attr)
	}
	if fd >= 0 {
		_ = syscall.Close(fd)
	}
	if err != nil {
		return fail(err)
	}
	s.pid, s.tid = pid, threadID()
	s.report(report{Event: evStarted, Pid: pid, Tid: s.tid, StartTicks: startTicks(pid), NS: start, Cgroup: s.cgroup})
	return true
}

// reap waits for every descendant until none is left.
func (s *overseer) reap() {
	defer close(s.empty)
	reapAll(&s.mu, func(pid int, ws syscall.WaitStatus) {
		if pid != s.pid || s.ended {
			return
		}
		s.ended = true
		r := report{Event: evExit, NS: monotonicNS()}
		if ws.Signaled() {
			r.Signal = int(ws.Signal())
		} else {
			code := ws.ExitStatus()
			r.Code = &code
		}
		r.OOM = s.oomKilled(r.Signal)
		s.report(r)
		close(s.gone)
	})
}

// oomKilled: the engine's cgroup says so, or the machine killed something while the engine died of a
// SIGKILL that is not ours.
func (s *overseer) oomKilled(sig int) bool {
	if s.cgroup != "" {
		if b, err := os.ReadFile(filepath.Join(s.cgroup, "memory.events")); err == nil {
			if n, ok := oomKills(string(b)); ok {
				return n > 0
			}
		}
	}
	if sig != int(syscall.SIGKILL) || s.killed || !s.vmOK {
		return false
	}
	n, ok := vmstatOOMKills()
	return ok && n > s.vmKill
}

func (s *overseer) serve() int {
	o, ok := <-s.orders
	for ok && o.Op != opStop {
		o, ok = <-s.orders
	}
	if !ok { // flow is gone
		s.kill()
		s.sweep()
		s.removeCgroup()
		return 0
	}
	by := s.stop(syscall.Signal(o.Signal), time.Duration(o.GraceMS)*time.Millisecond)
	left, remain := s.sweep()
	s.mu.Lock()
	oom := s.cgroup != "" && s.oomKilled(0)
	s.mu.Unlock()
	s.removeCgroup()
	s.report(report{Event: evStopped, By: by, Left: left, Remain: remain, OOM: oom})
	return 0
}

// stop ends the owned process group: signal, grace, kill. It says what ended the engine itself.
func (s *overseer) stop(sig syscall.Signal, grace time.Duration) string {
	by := bySignal
	s.mu.Lock()
	if s.ended {
		by = byItself
	}
	s.mu.Unlock()
	s.signalGroup(sig)
	end := time.Now().Add(grace)
	gone, orders := s.gone, s.orders
	pause := time.Millisecond
	for s.groupAlive() {
		left := time.Until(end)
		if left <= 0 {
			if s.kill() {
				by = byKill
			}
			return by
		}
		wait := min(left, time.Hour)
		if gone == nil { // only other members are left: the kernel does not tell, so look again
			wait = min(left, pause)
			pause = min(2*pause, 50*time.Millisecond)
		}
		timer := time.NewTimer(wait)
		select {
		case <-gone:
			gone = nil
		case <-s.empty:
			timer.Stop()
			return by
		case o, ok := <-orders:
			if !ok {
				orders = nil
				end = time.Now()
			} else if o.Op == opHurry && time.Until(end) > hurriedGrace {
				end = time.Now().Add(hurriedGrace)
			}
		case <-timer.C:
		}
		timer.Stop()
	}
	return by
}

// kill ends the process group at once; it says whether the engine itself still lived. It waits for the
// group's death, so that what dies of this kill is not among the leftovers.
func (s *overseer) kill() bool {
	s.mu.Lock()
	lived := !s.ended
	s.killed = true
	s.mu.Unlock()
	if !lived {
		return false
	}
	s.signalGroup(syscall.SIGKILL)
	end := time.Now().Add(2 * time.Second)
	for pause := 200 * time.Microsecond; time.Now().Before(end); pause = min(2*pause, 20*time.Millisecond) {
		select {
		case <-s.empty:
			return true
		case <-time.After(pause):
		}
		if !s.groupAlive() {
			break
		}
	}
	return true
}

// signalGroup signals the engine's process group: by its number while the engine itself is unreaped, and
// later only if a descendant of ours still is a member, because then the number cannot have been reused.
func (s *overseer) signalGroup(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && !groupHasDescendant(s.pid, s.tid) {
		return
	}
	_ = syscall.Kill(-s.pid, sig)
}

// groupAlive reports whether the engine or a member of its process group lives.
func (s *overseer) groupAlive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended || groupHasDescendant(s.pid, s.tid)
}

// sweep kills every descendant until the kernel says that there is none. left names what it found alive
// first, remain what outlived it.
func (s *overseer) sweep() (left, remain []string) {
	end := time.Now().Add(sweepLimit)
	seen := map[int]bool{}
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		select {
		case <-s.empty:
			return left, nil
		default:
		}
		s.mu.Lock()
		for _, st := range descendants(os.Getpid(), s.tid) {
			if st.Dead() {
				continue
			}
			if !seen[st.PID] {
				seen[st.PID] = true
				left = append(left, owner.Describe(st.PID))
			}
			_ = syscall.Kill(st.PID, syscall.SIGKILL)
		}
		if s.cgroup != "" { // at once, whatever forks meanwhile
			_ = os.WriteFile(filepath.Join(s.cgroup, "cgroup.kill"), []byte("1"), 0)
		}
		s.mu.Unlock()
		if time.Now().After(end) {
			for _, st := range descendants(os.Getpid(), s.tid) {
				remain = append(remain, fmt.Sprintf("%s in state %c", owner.Describe(st.PID), st.State))
			}
			return left, remain
		}
		select {
		case <-s.empty:
		case <-time.After(pause):
		}
	}
}

// removeCgroup takes the engine's cgroup away. The kernel answers EBUSY for a moment after its last death.
func (s *overseer) removeCgroup() {
	if s.cgroup == "" {
		return
	}
	for range 50 {
		if err := os.Remove(s.cgroup); err == nil || errors.Is(err, os.ErrNotExist) {
			s.cgroup = ""
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
