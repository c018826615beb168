package engine

// An engine in a transient scope of systemd. systemd-run asks the manager for the scope, moves itself into it
// and becomes the engine: the pid stays, so the process is ours as without it, from the log to the proof that
// nothing is left. The scope is of this launch alone and goes when its last process does.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"flow/builtins/owner"
	"flow/starlark/diag"
	"flow/workflows/plan"
)

const scopeRunner = "systemd-run"

// intoScope puts systemd-run in front of the command; path is what is executed.
func intoScope(l Launch, s plan.Systemd, bin string, argv []string, env map[string]string) (path string, words []string, unit string, err error) {
	trouble := func(msg, fix string) error {
		return &diag.Error{Pos: l.Engine.Pos, Kind: diag.Machine, Op: "engine " + l.Engine.Name, Msg: msg, Fix: fix}
	}
	const without = "take launch = systemd(…) away: flow gives an engine a cgroup of its own where it may"
	path, err = LookBinary(scopeRunner, "", env["PATH"])
	if err != nil {
		return "", nil, "", trouble("it is to be launched by systemd, and "+scopeRunner+" is not here", "install systemd, or "+without)
	}
	manager := "/run/systemd/system"
	if s.User {
		if env["XDG_RUNTIME_DIR"] == "" {
			return "", nil, "", trouble("it is to be launched by the user's systemd, and XDG_RUNTIME_DIR is not set", "log in as that user (loginctl enable-linger keeps its manager), or "+without)
		}
		manager = filepath.Join(env["XDG_RUNTIME_DIR"], "systemd")
	}
	if _, err := os.Stat(manager); err != nil {
		return "", nil, "", trouble(fmt.Sprintf("it is to be launched by systemd, which does not run here: no %s", manager), "run on a machine that systemd has booted, or "+without)
	}
	unit = "flow-" + newID() + ".scope"
	words = append(append([]string{path}, s.Words(unit)...), bin)
	return path, append(words, argv[1:]...), unit, nil
}

// scopeFolder is the cgroup folder of a process, "" unless it is the scope's: right after the launch the
// process still is in flow's own, which must never be taken for it.
func scopeFolder(mountinfo, cgroup, unit string) string {
	dir := ownCgroup(parseMounts(mountinfo), cgroup)
	if unit == "" || filepath.Base(dir) != unit {
		return ""
	}
	return dir
}

// findScope notes the scope's cgroup once the engine is in it.
func (p *Process) findScope() {
	p.mu.Lock()
	unit, pid, known := p.info.Unit, p.info.Pid, p.info.Cgroup
	p.mu.Unlock()
	if unit == "" || known != "" || pid == 0 {
		return
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return
	}
	if dir := scopeFolder(string(mounts), strings.TrimSpace(string(own)), unit); dir != "" {
		p.mu.Lock()
		p.info.Cgroup = dir
		p.mu.Unlock()
		_ = p.held.Keep(func(r *owner.Record) { r.Cgroup = dir }) // the mark finds what is in it, too
	}
}
