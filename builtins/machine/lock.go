package machine

// Locks on what an engine measures with, so that two engines never measure on the same resources at once.
//
// A lock is an flock on a file in a directory that every user of the machine can write. It ends with the
// process that holds it, however that ends, so nothing needs to be cleaned up after a crash. Go opens files
// with O_CLOEXEC, so an engine does not inherit it. "host" excludes everything: who takes anything else
// takes a shared lock on host as well. A set of CPUs is taken CPU by CPU, and a NUMA node with its CPUs, so
// that sets which overlap exclude each other whatever they are called.
//
// Who holds what stands in a file of its own, which its holder keeps locked: a file that can be locked is
// left over from a process that is gone. A session that runs holds "session:ID", which has nothing to do with
// the host: it says whom to ask to stop, and two processes never go on with the same session. Who waits for the host can be passed by those who need less of it,
// for as long as they come.

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flow/starlark/diag"
)

// Host is the resource that is everything.
const Host = "host"

// SessionPrefix begins the resource of a session that runs: "session:ID".
const SessionPrefix = "session:"

// Holder is who holds a lock, as others are told.
type Holder struct {
	PID       int      `json:"pid"`       // this process when 0
	User      string   `json:"user"`      // the user of this process when ""
	Session   string   `json:"session"`   // "" when there is none
	Workflow  string   `json:"workflow"`  // a label, not a path
	SinceNS   int64    `json:"since_ns"`  // wall clock; when it was taken, when 0
	Resources []string `json:"resources"` // filled in

	Namespace string `json:"namespace,omitempty"` // of PID: containers that share the directory count apart
}

// String is the holder in words.
func (h Holder) String() string {
	s := "pid " + strconv.Itoa(h.PID)
	var more []string
	for _, p := range [][2]string{{"user ", h.User}, {"session ", h.Session}, {"workflow ", h.Workflow}} {
		if p[1] != "" {
			more = append(more, p[0]+p[1])
		}
	}
	if h.SinceNS != 0 {
		more = append(more, "since "+time.Unix(0, h.SinceNS).UTC().Format("2006-01-02 15:04:05")+" UTC")
	}
	if len(more) > 0 {
		s += " (" + strings.Join(more, ", ") + ")"
	}
	return s
}

// Lock is held until Release or the end of the process.
type Lock struct {
	Resources []string
	files     []*os.File
	holder    *os.File
	path      string // of the holder's file
}

// Locker says where locks are. The zero value is not usable: give it a Dir.
type Locker struct {
	Dir string
	Sys string // "/sys" when empty: where the CPUs of a NUMA node are looked up
}

// LockDirEnv names another directory for locks than DefaultLockDir's own.
const LockDirEnv = "FLOW_LOCK_DIR"

// DefaultLockDir is $FLOW_LOCK_DIR, or /tmp/flow-locks. It does not follow TMPDIR: users and jobs have one
// of their own, and would not see each other.
func DefaultLockDir() string {
	if d := os.Getenv(LockDirEnv); d != "" {
		return d
	}
	return "/tmp/flow-locks"
}

// Acquire takes resources in dir ("" is DefaultLockDir) for who. Resources are "host", "gpu:UUID",
// "cpus:0-3,8", "numa:N", "disk:ID" and "session:ID"; none is the host. It waits as long as wait; 0 tries once. Where
// another has them, the error is a diag.Error of kind Machine that names the holder.
func Acquire(ctx context.Context, dir string, resources []string, who Holder, wait time.Duration) (*Lock, error) {
	return Locker{Dir: dir}.Acquire(ctx, resources, who, wait)
}

// Acquire is the function Acquire with the locker's roots.
func (l Locker) Acquire(ctx context.Context, resources []string, who Holder, wait time.Duration) (*Lock, error) {
	if l.Dir == "" {
		l.Dir = DefaultLockDir()
	}
	if len(resources) == 0 {
		resources = []string{Host}
	}
	wants, err := l.expand(resources)
	if err != nil {
		return nil, err
	}
	if err := makeLockDir(l.Dir); err != nil {
		return nil, err
	}
	end := Monotonic() + int64(wait)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		lock, busy, err := l.try(wants, resources, who)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			return lock, nil
		}
		left := time.Duration(end - Monotonic())
		if left <= 0 {
			return nil, l.held(busy, wait)
		}
		// Polled, because a blocking flock can neither be cancelled nor take several at once.
		if err := Settle(ctx, min(pause, left), nil); err != nil {
			return nil, err
		}
	}
}

// Release gives the resources back. A second call does nothing.
func (l *Lock) Release() error {
	if l == nil || l.holder == nil {
		return nil
	}
	err := os.Remove(l.path) // before its lock goes, so that nobody sees it as left over
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, l.holder.Close())
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	l.holder, l.files = nil, nil
	return err
}

// want is a file to lock, and how.
type want struct {
	name   string
	shared bool
}

func (l Locker) expand(resources []string) ([]want, error) {
	refuse := func(r, why string) error {
		return &diag.Error{Kind: diag.Workflow, Op: "resources", Msg: fmt.Sprintf("%q: %s", r, why),
			Fix: `write "host", "gpu:UUID", "cpus:0-3", "numa:0" or "disk:ID"`}
	}
	host, shared := false, false
	wants := map[string]bool{}
	for _, r := range resources {
		if r == Host {
			host = true
			continue
		}
		if id, ok := strings.CutPrefix(r, SessionPrefix); ok && id != "" {
			wants["session-"+url.PathEscape(id)] = true
			continue
		}
		shared = true
		kind, id, ok := strings.Cut(r, ":")
		if !ok || id == "" {
			return nil, refuse(r, "no such resource")
		}
		var cpus []int
		var err error
		switch kind {
		case "gpu":
			if _, err := strconv.Atoi(id); err == nil {
				return nil, refuse(r, "a GPU is named by its UUID, because numbers change with the visible devices")
			}
			wants["gpu-"+url.PathEscape(id)] = true
		case "disk":
			wants["disk-"+url.PathEscape(id)] = true
		case "cpus":
			if cpus, err = ParseCPUs(id); err != nil {
				return nil, refuse(r, err.Error())
			}
		case "numa":
			if _, err := strconv.ParseUint(id, 10, 16); err != nil {
				return nil, refuse(r, "want the number of a node")
			}
			wants["numa-"+id] = true
			sys := cmp.Or(l.Sys, "/sys")
			// A machine that does not say which CPUs the node has: the node's own lock is what there is.
			cpus, _ = ParseCPUs(line(sys, "devices/system/node/node"+id+"/cpulist"))
		default:
			return nil, refuse(r, "no such resource")
		}
		for _, c := range cpus {
			wants["cpu-"+strconv.Itoa(c)] = true
		}
	}
	out := make([]want, 0, len(wants)+1)
	for name := range wants {
		if !host || strings.HasPrefix(name, "session-") {
			out = append(out, want{name: name})
		}
	}
	slices.SortFunc(out, func(a, b want) int { return cmp.Compare(a.name, b.name) })
	if host || shared {
		out = append([]want{{name: Host, shared: !host}}, out...)
	}
	return out, nil
}

// try takes everything or nothing. busy is what another has.
func (l Locker) try(wants []want, resources []string, who Holder) (lock *Lock, busy want, err error) {
	lock = &Lock{Resources: slices.Clone(resources)}
	drop := func() {
		for _, f := range lock.files {
			_ = f.Close()
		}
	}
	for _, w := range wants {
		f, err := openLockFile(filepath.Join(l.Dir, w.name+".lock"))
		if err != nil {
			drop()
			return nil, w, lockError(l.Dir, err)
		}
		lock.files = append(lock.files, f)
		how := unix.LOCK_EX
		if w.shared {
			how = unix.LOCK_SH
		}
		if err := flock(f, how|unix.LOCK_NB); err != nil {
			drop()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, w, nil
			}
			return nil, w, lockError(l.Dir, err)
		}
	}
	if err := lock.sign(l.Dir, who); err != nil {
		drop()
		return nil, want{}, lockError(l.Dir, err)
	}
	return lock, want{}, nil
}

// flock tries again where a signal came in between.
func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openLockFile opens a lock file that any user may have made. It is opened for reading: that is enough for
// flock, and the kernel refuses to open another user's file with O_CREAT in a sticky directory
// (fs.protected_regular).
func openLockFile(path string) (*os.File, error) {
	const again = 20
	var err error
	for range again {
		var f *os.File
		if f, err = openState(path, os.O_RDONLY, 0); err == nil {
			return f, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			if f, err = openState(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o644); err == nil {
				return f, f.Chmod(0o644) // whatever the umask
			}
		}
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		time.Sleep(time.Millisecond) // another process made it and has not set its mode yet
	}
	return nil, err
}

func makeLockDir(dir string) error {
	err := os.Mkdir(dir, 0o777)
	if err == nil {
		err = os.Chmod(dir, 0o777|os.ModeSticky) // whatever the umask
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return lockError(dir, err)
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return lockError(dir, err)
	}
	return nil
}

func lockError(dir string, err error) error {
	return &diag.Error{Kind: diag.Machine, Op: "lock in " + dir, Err: err,
		Fix: "set " + LockDirEnv + " to a directory on a local disk that all who measure on this machine can write (mode 1777)"}
}

const (
	holderPrefix = "holder-"
	unsigned     = ".new-"
)

// sign says who holds the lock. The file gets its name when it is locked and written.
func (l *Lock) sign(dir string, who Holder) error {
	who.fill()
	who.Resources = l.Resources
	b, err := json.Marshal(who)
	if err != nil {
		return err
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	name := hex.EncodeToString(id[:])
	tmp := filepath.Join(dir, unsigned+name)
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	l.path = filepath.Join(dir, holderPrefix+name+".json")
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), flock(f, unix.LOCK_EX|unix.LOCK_NB)); err == nil {
		err = os.Rename(tmp, l.path)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(tmp)
		return err
	}
	l.holder = f
	return nil
}

func (h *Holder) fill() {
	if h.PID == 0 {
		h.PID = os.Getpid()
	}
	if h.User == "" {
		h.User = "uid " + strconv.Itoa(os.Getuid())
		if u, err := user.Current(); err == nil {
			h.User = u.Username
		}
	}
	if h.SinceNS == 0 {
		h.SinceNS = Wall()
	}
	h.Namespace = namespace()
}

// namespace tells the process ids of one container from those of another; "" where there are none.
func namespace() string {
	s, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return s
}

// holders are the holders in dir that live. Files of those that are gone are removed.
func holders(dir string) []Holder {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []Holder
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), holderPrefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := openState(path, os.O_RDONLY, 0)
		if err != nil {
			continue // released in this moment, or nothing of flow's
		}
		err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case err == nil:
			_ = os.Remove(path) // in a sticky directory only its owner can; it does no harm there
		case errors.Is(err, unix.EWOULDBLOCK):
			var h Holder
			if json.NewDecoder(io.LimitReader(f, 1<<20)).Decode(&h) == nil {
				out = append(out, h)
			}
		}
		_ = f.Close()
	}
	slices.SortFunc(out, func(a, b Holder) int { return cmp.Or(cmp.Compare(a.SinceNS, b.SinceNS), cmp.Compare(a.PID, b.PID)) })
	return out
}

// held is the error of a resource that another has.
func (l Locker) held(busy want, waited time.Duration) error {
	resource := strings.Replace(busy.name, "-", ":", 1)
	var names []string
	session := ""
	pid := 0
	for _, h := range holders(l.Dir) {
		theirs, err := l.expand(h.Resources)
		if err != nil || !slices.ContainsFunc(theirs, func(w want) bool { return w.name == busy.name && !(w.shared && busy.shared) }) {
			continue
		}
		name := h.String()
		if r := strings.Join(h.Resources, ", "); r != resource {
			name += ", which has " + r
		}
		names = append(names, name)
		session, pid = cmp.Or(session, h.Session), cmp.Or(pid, h.PID)
	}
	e := &diag.Error{Kind: diag.Machine, Op: "lock " + resource}
	if names == nil {
		names = []string{"a process that has not said who it is"}
	}
	e.Msg = "held by " + strings.Join(names, "; ")
	if waited > 0 {
		e.Msg += ", waited " + waited.String()
	}
	switch {
	case session != "":
		e.Fix = "end it: flow stop " + session
	case pid != 0:
		e.Fix = "end process " + strconv.Itoa(pid)
	default:
		e.Fix = "try again"
	}
	how := "wait for it with --wait 2h, or "
	if strings.HasPrefix(resource, SessionPrefix) {
		how = "wait until it ends, or " // two never go on with one session: there is nothing to wait in line for
	}
	e.Fix = how + e.Fix
	return e
}

// Neighbours are the other holders of locks on this host now, in words. dir is as for Acquire.
func Neighbours(dir string) []string {
	var out []string
	ns := namespace()
	for _, h := range holders(cmp.Or(dir, DefaultLockDir())) {
		if (h.PID != os.Getpid() || h.Namespace != ns) && !h.onlySessions() {
			out = append(out, h.String()+" has "+strings.Join(h.Resources, ", "))
		}
	}
	return out
}

// onlySessions reports whether the holder uses nothing of the machine: a simulated session, or one between
// its start and its first arm.
func (h Holder) onlySessions() bool {
	return !slices.ContainsFunc(h.Resources, func(r string) bool { return !strings.HasPrefix(r, SessionPrefix) })
}

// Here reports whether the holder's PID is one of this process's own namespace, so that it can be signalled.
func (h Holder) Here() bool { return h.Namespace == namespace() }

// Sessions are the sessions that run on this host now, oldest first. dir is as for Acquire.
func Sessions(dir string) []Holder {
	var out []Holder
	for _, h := range holders(cmp.Or(dir, DefaultLockDir())) {
		if h.Session != "" && slices.Contains(h.Resources, SessionPrefix+h.Session) {
			out = append(out, h)
		}
	}
	return out
}
