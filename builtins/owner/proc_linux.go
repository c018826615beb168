package owner

// Processes as /proc shows them.

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CanFind: the system shows environments and start times.
const CanFind = true

func boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

func namespace() string {
	s, _ := os.Readlink("/proc/self/ns/pid")
	return s
}

// Self is this process.
func Self() Process { return Find(os.Getpid()) }

// Find is a process by its number, as it is now; the zero Process when there is none.
func Find(pid int) Process {
	s, ok := ReadStat(pid)
	if !ok || s.Dead() {
		return Process{}
	}
	return Process{PID: pid, Start: s.Start}
}

// Alive reports whether the very process runs.
func (p Process) Alive() bool {
	return p.PID > 0 && p.Start != 0 && Find(p.PID) == p
}

// kill ends the very process: its number may be another's by now, so the identity is looked at once the
// process is held by a descriptor.
func (p Process) kill() {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if !p.Alive() {
		return
	}
	if err != nil { // a kernel before 5.3
		_ = unix.Kill(p.PID, unix.SIGKILL)
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// ReadStat reads a process; ok is false when there is none.
func ReadStat(pid int) (s Stat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, false
	}
	return parseStat(string(b))
}

// PIDs are all processes that can be seen; none where /proc cannot be read.
func PIDs() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// marked are the live processes that carry the mark or one below it, but for those above this one.
func marked(id string) []Process {
	var out []Process
	spared := above()
	for _, pid := range PIDs() {
		if spared[pid] || !carries(markOf(pid), id) {
			continue
		}
		// Again between two looks at who it is: should the number change hands meanwhile, kill sees it.
		if p := Find(pid); p.PID != 0 && carries(markOf(pid), id) {
			out = append(out, p)
		}
	}
	return out
}

// markOf is the mark in a process's environment; "" without one, and where we may not look.
func markOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(Env+"=")); ok {
			return string(v)
		}
	}
	return ""
}

func compact(ps []Process) []Process {
	slices.SortFunc(ps, func(a, b Process) int { return a.PID - b.PID })
	return slices.Compact(ps)
}

// members are the processes of an engine's own cgroup.
func (r Record) members() []int {
	if !r.ownCgroup() {
		return nil
	}
	b, err := read(filepath.Join(r.Cgroup, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var out []int
	for _, f := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
			out = append(out, pid)
		}
	}
	return out
}

// Describe names a process in words: pid 4711 (python3 serve/server.py --port 8000).
func Describe(pid int) string {
	id := strconv.Itoa(pid)
	what := ""
	if b, err := os.ReadFile("/proc/" + id + "/cmdline"); err == nil {
		what = strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	}
	if s, ok := ReadStat(pid); ok && what == "" {
		what = s.Comm
	}
	if what == "" {
		return "pid " + id
	}
	if r := []rune(strings.ToValidUTF8(what, "?")); len(r) > 120 {
		what = string(r[:120]) + "…"
	}
	return "pid " + id + " (" + what + ")"
}
