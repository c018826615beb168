package engine

// The end of an engine, and the proof of it.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flow/builtins/owner"
	"flow/starlark/diag"
)

// watch follows the supervisor's reports until it is gone.
func (p *Process) watch() {
	defer close(p.supGone)
	told := false
	for r := range p.sup.reports {
		p.mu.Lock()
		switch r.Event {
		case evExit:
			p.info.ExitNS = r.NS + p.offset
			p.info.ExitCode = r.Code
			if r.Signal != 0 {
				p.info.Signal = signalName(syscall.Signal(r.Signal))
			}
			p.info.OOMKilled = r.OOM
			if !p.stopping {
				p.info.StoppedBy = byItself
			}
			if !p.exited {
				p.exited = true
				close(p.done)
			}
		case evStopped:
			told = true
			p.info.StoppedBy, p.info.Leftovers = r.By, r.Left
			p.info.OOMKilled = p.info.OOMKilled || r.OOM
			p.remain = r.Remain
		}
		p.mu.Unlock()
	}
	if !told {
		_ = p.sup.cmd.Process.Kill() // it may live and only be mute
	}
	_ = p.sup.cmd.Wait()
	if !told {
		p.lost()
	}
}

// lost: the supervisor is gone without its last word, killed from outside. The engine died with it (a
// parent-death signal); what else is left is found by session, cgroup and mark.
func (p *Process) lost() {
	left := killRest(p.info.Pid, p.info.Cgroup)
	more, remain := owner.End(p.held.ID(), 0)
	left = append(left, more...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info.Leftovers = append(p.info.Leftovers, left...)
	p.remain = append(p.remain, remain...)
	p.supLost = true
	if !p.exited {
		p.info.ExitNS = p.now()
		p.info.StoppedBy = byKill
		p.exited = true
		close(p.done)
	}
}

// killRest kills the process group, the session and the cgroup of an engine without supervisor, and names
// what it killed.
func killRest(pid int, cgroup string) []string {
	var left []string
	seen := map[int]bool{}
	end := time.Now().Add(sweepLimit)
	for {
		rest := orphans(pid)
		if cgroup != "" {
			_ = os.WriteFile(filepath.Join(cgroup, "cgroup.kill"), []byte("1"), 0)
		}
		for _, s := range rest {
			if !seen[s.PID] {
				seen[s.PID] = true
				left = append(left, owner.Describe(s.PID))
			}
			_ = syscall.Kill(s.PID, syscall.SIGKILL)
		}
		if len(rest) == 0 && !populated(cgroup) || time.Now().After(end) {
			if cgroup != "" {
				_ = os.Remove(cgroup)
			}
			return left
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// populated reports whether a cgroup still holds a process.
func populated(cgroup string) bool {
	if cgroup == "" {
		return false
	}
	b, err := os.ReadFile(filepath.Join(cgroup, "cgroup.events"))
	return err == nil && strings.Contains(string(b), "populated 1")
}

// Stop ends the engine: the stop signal to its process group, a grace period, then the kill; whatever is
// left of its tree and cgroup is killed as well and named in Info().Leftovers. Then it proves that nothing
// is left. It may be called again and gives the same answer. A ctx that is cancelled, before or meanwhile,
// shortens the grace to a second, and nothing else. An error says what could not be ended.
func (p *Process) Stop(ctx context.Context) error {
	if p.attached {
		return nil
	}
	p.stopMu.Lock()
	defer p.stopMu.Unlock()
	if p.stopped {
		return p.stopErr
	}
	grace := p.timeouts.Stop
	if ctx.Err() != nil {
		grace = min(grace, hurriedGrace)
	}
	p.findScope() // a command engine was ready before it was there
	before := p.treeStats()
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	sig, _ := stopSignal(p.engine.StopSignal)                                          // checked at the launch
	_ = p.sup.send(order{Op: opStop, Signal: int(sig), GraceMS: grace.Milliseconds()}) // a lost supervisor shows below
	limit := time.NewTimer(grace + 2*sweepLimit)
	defer limit.Stop()
	hurry := ctx.Done()
	for waiting := true; waiting; {
		select {
		case <-p.supGone:
			waiting = false
		case <-hurry:
			hurry = nil
			_ = p.sup.send(order{Op: opHurry})
		case <-limit.C: // it hangs: without it the engine dies, and lost sees to the rest
			_ = p.sup.cmd.Process.Kill()
		}
	}
	_ = p.sup.orders.Close()
	p.stopped, p.stopErr = true, p.prove(before)
	text, size := p.readLog()
	tail := p.logTail()
	p.mu.Lock()
	p.finalLog, p.info.LogBytes, p.info.LogTail = text, size, tail
	p.mu.Unlock()
	return p.stopErr
}

// prove looks for anything that is left, with other eyes than the supervisor's.
func (p *Process) prove(before []owner.Stat) error {
	p.mu.Lock()
	rest, cgroup, port, foreign, lost := p.remain, p.info.Cgroup, p.info.Port, p.foreign, p.supLost
	p.mu.Unlock()
	var found []string
	for _, r := range rest {
		found = append(found, r+" cannot be killed")
	}
	if len(rest) == 0 {
		for _, s := range before {
			if alive(s.PID, s.Start) {
				found = append(found, owner.Describe(s.PID)+" still runs")
			}
		}
	}
	if populated(cgroup) {
		found = append(found, "cgroup "+cgroup+" still holds processes")
	} else if cgroup != "" {
		_ = os.Remove(cgroup) // the supervisor did; this is for a lost one
	}
	if port != 0 && foreign == "" {
		free, who := portHeld(port)
		// Whoever waits for a killed process sees its last thread go. Here nobody does: the first may be gone, and
		// the process with it by all appearances, while the others still hold what they had open.
		for end := time.Now().Add(lostLimit); lost && !free && time.Now().Before(end); free, who = portHeld(port) {
			time.Sleep(5 * time.Millisecond)
		}
		switch {
		case free:
		case who != "":
			found = append(found, fmt.Sprintf("port %d is still held by %s, which is not in the engine's tree", port, who))
		default:
			found = append(found, fmt.Sprintf("port %d is still held", port))
		}
	}
	if lost && cgroup == "" && !owner.CanFind {
		found = append(found, "its supervisor was killed from outside, and on this system a process that left the engine's session cannot be found")
	}
	if len(found) == 0 {
		if err := p.held.Release(); err != nil {
			return &diag.Error{Kind: diag.Machine, Op: "record of what was started", Err: err}
		}
		return nil
	}
	return &diag.Error{Pos: p.engine.Pos, Kind: diag.Machine, Op: "stop engine " + p.engine.Name,
		Msg: strings.Join(found, "; "), Fix: "end it by hand before measuring again"}
}

// endMarked sees to a launch that came to nothing: the supervisor is gone, and nothing must be left.
func (p *Process) endMarked() {
	if _, remain := owner.End(p.held.ID(), 0); len(remain) == 0 {
		_ = p.held.Release() // a record of nothing is removed by the next flow, too
	}
}

// lostLimit is how long the kernel may take to close what a process without a parent of ours had open.
const lostLimit = 5 * time.Second

// portHeld says whether a port is free, and else by whom it is held as far as that can be seen.
func portHeld(port int) (free bool, who string) {
	free, _, who = portOwner(port, nil)
	if !free && who == "" {
		free = portFree(port)
	}
	return free, who
}

// Tree is the live pids of the engine: itself and everything it started, however it was forked.
func (p *Process) Tree() []int {
	var pids []int
	for _, s := range p.treeStats() {
		pids = append(pids, s.PID)
	}
	return pids
}

func (p *Process) treeStats() []owner.Stat {
	if p.attached {
		return nil
	}
	select {
	case <-p.supGone:
		return nil
	default:
	}
	var live []owner.Stat
	for _, s := range descendants(p.sup.cmd.Process.Pid, p.sup.tid) {
		if !s.Dead() {
			live = append(live, s)
		}
	}
	if len(live) == 0 && !p.ended() && alive(p.info.Pid, p.info.StartTicks) {
		live = append(live, owner.Stat{PID: p.info.Pid, Start: p.info.StartTicks})
	}
	return live
}

// stopSignal reads "SIGINT", "INT" or "" (SIGTERM).
func stopSignal(name string) (syscall.Signal, error) {
	if name == "" {
		return syscall.SIGTERM, nil
	}
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if sig := unix.SignalNum(full); sig != 0 {
		return sig, nil
	}
	return 0, &diag.Error{Kind: diag.Workflow, Op: "stop signal", Msg: fmt.Sprintf("got %q, want a name such as SIGTERM or SIGINT", name)}
}

func signalName(sig syscall.Signal) string {
	if n := unix.SignalName(sig); n != "" {
		return n
	}
	return fmt.Sprintf("signal %d", int(sig))
}
