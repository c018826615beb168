package engine

// The Linux part: subreaper, process tree, cgroup placement, socket owners.

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"flow/builtins/owner"
)

const procRoot = "/proc"

func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	return nil
}

// closeOnExec marks every descriptor but the first three.
func closeOnExec() {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	for fd := 3; fd < 1024; fd++ { // before Linux 5.11
		syscall.CloseOnExec(fd)
	}
}

func threadID() int { return unix.Gettid() }

// engineAttr: own session and process group; and should the supervisor itself be killed, the engine dies
// with it.
func engineAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

func openCgroup(dir string) int {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_PATH, 0)
	if err != nil {
		return -1
	}
	return fd
}

// intoCgroup places the child at its birth. Writing its pid to cgroup.procs later would miss what it forked
// meanwhile, and takes a lock of the whole machine.
func intoCgroup(a *syscall.SysProcAttr, fd int) { a.UseCgroupFD, a.CgroupFD = true, fd }

func outOfCgroup(a *syscall.SysProcAttr) { a.UseCgroupFD, a.CgroupFD = false, 0 }

// reapAll reaps children until there is none. It waits without taking a child away and reaps under the
// lock, so that whoever holds the lock signals no pid that has been reused.
func reapAll(lock sync.Locker, each func(pid int, ws syscall.WaitStatus)) {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		lock.Lock()
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WALL, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			each(pid, ws)
		}
		lock.Unlock()
	}
}

func vmstatOOMKills() (uint64, bool) {
	b, err := os.ReadFile(procRoot + "/vmstat")
	if err != nil {
		return 0, false
	}
	return oomKills(string(b))
}

func startTicks(pid int) uint64 {
	s, _ := owner.ReadStat(pid)
	return s.Start
}

// descendants lists the processes below a supervisor, without it, dead ones included. forker is the thread
// of the supervisor that started the engine. The kernel's children
// files may skip one while others exit, so whoever must be sure asks again until wait4 finds no child.
func descendants(root, forker int) []owner.Stat {
	var out []owner.Stat
	queue := []int{root}
	seen := map[int]bool{root: true}
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		var only []int
		if pid == root {
			only = []int{root, forker}
		}
		kids, ok := children(pid, only)
		if !ok {
			return scanDescendants(root)
		}
		for _, k := range kids {
			if seen[k] {
				continue
			}
			seen[k] = true
			if s, ok := owner.ReadStat(k); ok {
				out = append(out, s)
				queue = append(queue, k)
			}
		}
	}
	return out
}

// children reads /proc/PID/task/*/children; ok is false where the kernel has no such file. Of a supervisor
// only two threads are asked: the one that forks and the main one, to which the kernel gives the orphans.
// That is not for thrift: with entries of all its threads in /proc the end of a process costs the kernel
// 10 ms.
func children(pid int, only []int) (kids []int, ok bool) {
	dir := procRoot + "/" + strconv.Itoa(pid) + "/task/"
	var tasks []string
	for _, tid := range only {
		if t := strconv.Itoa(tid); tid != 0 && !slices.Contains(tasks, t) {
			tasks = append(tasks, t)
		}
	}
	if only == nil {
		d, err := os.Open(dir)
		if err != nil {
			return nil, true // gone
		}
		tasks, _ = d.Readdirnames(-1)
		_ = d.Close()
	}
	for _, t := range tasks {
		b, err := os.ReadFile(dir + t + "/children")
		if err != nil {
			if _, there := os.Stat(dir + t); there == nil && os.IsNotExist(err) {
				return nil, false
			}
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			if k, err := strconv.Atoi(f); err == nil {
				kids = append(kids, k)
			}
		}
	}
	return kids, true
}

// scanDescendants is the slow way: every process of the machine.
func scanDescendants(root int) []owner.Stat {
	byParent := map[int][]owner.Stat{}
	for _, s := range allStats() {
		byParent[s.Parent] = append(byParent[s.Parent], s)
	}
	var out []owner.Stat
	queue := []int{root}
	for len(queue) > 0 {
		kids := byParent[queue[0]]
		delete(byParent, queue[0])
		queue = queue[1:]
		for _, k := range kids {
			out = append(out, k)
			queue = append(queue, k.PID)
		}
	}
	return out
}

func allStats() []owner.Stat {
	var out []owner.Stat
	for _, pid := range owner.PIDs() {
		if s, ok := owner.ReadStat(pid); ok {
			out = append(out, s)
		}
	}
	return out
}

// groupHasDescendant reports whether a live descendant of this process is in the process group. The
// kernel's quick answer "no such group" is final; otherwise the tree is looked at twice, because one look
// may miss a member.
func groupHasDescendant(pgid, forker int) bool {
	for range 2 {
		if syscall.Kill(-pgid, 0) == syscall.ESRCH {
			return false
		}
		for _, s := range descendants(os.Getpid(), forker) {
			if s.Group == pgid && !s.Dead() {
				return true
			}
		}
	}
	return false
}

// listeners are the sockets that a client of 127.0.0.1:port would reach.
func listeners(port int) []listener {
	var out []listener
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(procRoot + "/net/" + table)
		if err != nil {
			continue
		}
		for _, l := range parseListeners(string(b)) {
			if l.port == port && l.local() {
				out = append(out, l)
			}
		}
	}
	return out
}

// holds reports whether the process has one of the sockets open; readable is false where the kernel does
// not let us see, as for a program with capabilities of its own.
func holds(pid int, inodes map[uint64]bool) (held, readable bool) {
	dir := procRoot + "/" + strconv.Itoa(pid) + "/fd"
	d, err := os.Open(dir)
	if err != nil {
		return false, os.IsNotExist(err)
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		link, err := os.Readlink(dir + "/" + n)
		if err != nil {
			continue
		}
		id, ok := strings.CutPrefix(link, "socket:[")
		if !ok {
			continue
		}
		inode, err := strconv.ParseUint(strings.TrimSuffix(id, "]"), 10, 64)
		if err == nil && inodes[inode] {
			return true, true
		}
	}
	return false, true
}

// portOwner tells who listens on the port. free: nobody. ours: a process of tree holds every socket, or
// hides what it holds, which is the benefit of the doubt. Otherwise who names the holder as well as
// permissions allow.
func portOwner(port int, tree []int) (free, ours bool, who string) {
	ls := listeners(port)
	if len(ls) == 0 {
		return true, false, ""
	}
	foreign := map[uint64]bool{}
	uid := -1
	for _, l := range ls {
		one := map[uint64]bool{l.inode: true}
		if !slices.ContainsFunc(tree, func(pid int) bool { held, readable := holds(pid, one); return held || !readable }) {
			foreign[l.inode] = true
			uid = l.uid
		}
	}
	if len(foreign) == 0 {
		return false, true, ""
	}
	for _, pid := range owner.PIDs() {
		if held, _ := holds(pid, foreign); held {
			return false, false, owner.Describe(pid)
		}
	}
	return false, false, fmt.Sprintf("a process of user id %d", uid)
}

// reservedPorts is the range from which the kernel takes ports of outgoing connections: a port of ours
// from it could be gone before a slow engine binds it.
func reservedPorts() (low, high int) {
	b, err := os.ReadFile(procRoot + "/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		if _, err := fmt.Sscan(string(b), &low, &high); err == nil {
			return low, high
		}
	}
	return 32768, 60999
}

// mapped are the files with code that a process has mapped: its binary and shared libraries.
func mapped(pid int) []string {
	b, err := os.ReadFile(procRoot + "/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.Contains(f[1], "x") || !strings.HasPrefix(f[5], "/") {
			continue
		}
		at := strings.Index(line, f[5])
		path := strings.TrimRight(line[at:], "\n")
		if !seen[path] {
			seen[path] = true
			out = append(out, path)
		}
	}
	return out
}

func readEnviron(pid int) (map[string]string, error) {
	b, err := os.ReadFile(procRoot + "/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil, err
	}
	env := parseEnviron(b)
	delete(env, owner.Env) // flow's own, and another one in every launch
	return env, nil
}

// orphans are live processes of a session: what is left of an engine whose supervisor died.
func orphans(sid int) []owner.Stat {
	var out []owner.Stat
	for _, s := range allStats() {
		if s.SID == sid && !s.Dead() {
			out = append(out, s)
		}
	}
	return out
}

// alive reports whether the very process still runs.
func alive(pid int, start uint64) bool {
	s, ok := owner.ReadStat(pid)
	return ok && !s.Dead() && (start == 0 || s.Start == start)
}
