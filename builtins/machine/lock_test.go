package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flow/starlark/diag"
)

// The tests take locks in processes of their own: this binary, run again with FLOW_TEST_LOCK set.
const asHolder = "FLOW_TEST_LOCK"

func TestMain(m *testing.M) {
	if s := os.Getenv(asHolder); s != "" {
		os.Exit(hold(s))
	}
	if s := os.Getenv(asChanger); s != "" {
		os.Exit(changeAndDie(s))
	}
	if s := os.Getenv(asVerifier); s != "" {
		os.Exit(verifyAndDie(s))
	}
	os.Exit(m.Run())
}

type order struct {
	Dir, Sys  string
	Resources []string
	Child     bool // leave a child process behind
}

// hold takes a lock, says "held", and keeps it until its input ends.
func hold(s string) int {
	var o order
	if err := json.Unmarshal([]byte(s), &o); err != nil {
		fmt.Println(err)
		return 2
	}
	l, err := Locker{o.Dir, o.Sys}.Acquire(context.Background(), o.Resources, Holder{Session: "session-1", Workflow: "screen.star"}, 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	child := 0
	if o.Child {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			return 2
		}
		child = cmd.Process.Pid
	}
	fmt.Println("held", child)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Release(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

type holding struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	child int
}

func start(t *testing.T, o order, with ...func(*exec.Cmd)) (*holding, string) {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	// The race detector would keep each of them for a second after its end.
	cmd.Env = append(os.Environ(), asHolder+"="+string(b), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	for _, w := range with {
		w(cmd)
	}
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
	h := &holding{cmd: cmd, in: in}
	t.Cleanup(h.end)
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the holder said %q, %v", said, err)
	}
	if _, err := fmt.Sscanf(said, "held %d", &h.child); err != nil {
		return nil, strings.TrimSpace(said)
	}
	return h, ""
}

// end lets the holder release and waits for it.
func (h *holding) end() {
	if h.cmd.ProcessState == nil {
		_ = h.in.Close()
		_ = h.cmd.Wait()
	}
}

// kill ends it without a chance to release.
func (h *holding) kill(t *testing.T) {
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
}

func take(dir string, resources ...string) (*Lock, error) {
	return Locker{dir, "testdata/cpu-server/sys"}.Acquire(context.Background(), resources, Holder{}, 0)
}

// TestWhatExcludesWhat: one process holds a, another asks for b.
func TestWhatExcludesWhat(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		apart bool // they may run side by side
	}{
		{"host", "host", false},
		{"host", "gpu:GPU-aa", false},
		{"gpu:GPU-aa", "host", false},
		{"gpu:GPU-aa", "gpu:GPU-aa", false},
		{"gpu:GPU-aa", "gpu:GPU-bb", true},
		{"gpu:GPU-aa cpus:0-1", "gpu:GPU-bb cpus:2-3", true},
		{"gpu:GPU-aa cpus:0-1", "gpu:GPU-bb cpus:1-2", false},
		{"cpus:0-3", "cpus:3", false},
		{"numa:0", "numa:1", true},
		{"numa:0", "cpus:2", true},
		{"numa:0", "cpus:1", false}, // node 0 has the CPUs 0 and 1
		{"cpus:2", "numa:1", false},
		{"numa:7", "numa:7", false}, // a node that the machine does not know
		{"disk:nvme0n1", "disk:nvme1n1", true},
		{"disk:a/b", "disk:a/b", false},
		{"", "disk:nvme0n1", false}, // nothing said is the host
	} {
		dir := filepath.Join(t.TempDir(), "locks")
		h, said := start(t, order{Dir: dir, Sys: "testdata/cpu-server/sys", Resources: strings.Fields(c.a)})
		if h == nil {
			t.Fatalf("%s: %s", c.a, said)
		}
		l, err := take(dir, strings.Fields(c.b)...)
		if (err == nil) != c.apart {
			t.Errorf("%q held, %q asked for: got %v, want side by side: %v", c.a, c.b, err, c.apart)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
		h.end()
		if l, err = take(dir, strings.Fields(c.b)...); err != nil {
			t.Errorf("%q released: %v", c.a, err)
		}
		if err := errors.Join(l.Release(), l.Release()); err != nil {
			t.Error(err)
		}
	}
}

// TestTheHolderIsNamed, by everyone who is told no.
func TestTheHolderIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	a, _ := start(t, order{Dir: dir, Resources: []string{"gpu:GPU-aa"}})
	b, _ := start(t, order{Dir: dir, Resources: []string{"gpu:GPU-bb", "disk:sda"}})
	for _, c := range []struct {
		ask, op string
		pids    []int
	}{{"gpu:GPU-bb", "lock gpu:GPU-bb", []int{b.cmd.Process.Pid}}, {"host", "lock host", []int{a.cmd.Process.Pid, b.cmd.Process.Pid}}} {
		_, err := take(dir, c.ask)
		var d *diag.Error
		if !errors.As(err, &d) || d.Kind != diag.Machine || d.Op != c.op || d.Fix != "wait for it with --wait 2h, or end it: flow stop session-1" {
			t.Fatalf("%s: got %+v", c.ask, err)
		}
		if strings.Contains(d.Msg, "has host") {
			t.Errorf("%s: got %q, which says twice what is held", c.ask, d.Msg)
		}
		for _, pid := range c.pids {
			want := fmt.Sprintf(`pid %d \(user [^,]+, session session-1, workflow screen\.star, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\), which has gpu:GPU-..`, pid)
			if !regexp.MustCompile(want).MatchString(d.Msg) {
				t.Errorf("%s: got %q, want %s", c.ask, d.Msg, want)
			}
		}
		if n := strings.Count(d.Msg, "pid "); n != len(c.pids) {
			t.Errorf("%s: %d holders named in %q, want %d", c.ask, n, d.Msg, len(c.pids))
		}
	}
	if n := Neighbours(dir); len(n) != 2 || !strings.Contains(n[0]+n[1], "has gpu:GPU-bb, disk:sda") {
		t.Errorf("got neighbours %q", n)
	}
	mine, err := take(dir, "cpus:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Release()
	if n := Neighbours(dir); len(n) != 2 {
		t.Errorf("got neighbours %q, want none of our own", n)
	}
	a.end()
	b.kill(t)
	if n := Neighbours(dir); len(n) != 0 {
		t.Errorf("got neighbours %q, want none that is gone", n)
	}
	left, err := filepath.Glob(filepath.Join(dir, holderPrefix+"*"))
	if err != nil || len(left) != 1 {
		t.Errorf("files of holders: %v, %v, want ours only", left, err)
	}
}

// TestALockDiesWithItsProcess and is not inherited by the engine that it has started.
func TestALockDiesWithItsProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	h, _ := start(t, order{Dir: dir, Child: true})
	if _, err := take(dir, "gpu:GPU-aa"); err == nil {
		t.Fatal("the host is held")
	}
	h.kill(t)
	defer func() { _ = syscall.Kill(h.child, syscall.SIGKILL) }()
	if err := syscall.Kill(h.child, 0); err != nil {
		t.Fatalf("the child is gone: %v", err)
	}
	l, err := take(dir, "host")
	if err != nil {
		t.Fatalf("the child keeps the lock: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestWaiting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	h, _ := start(t, order{Dir: dir})
	_, err := Acquire(context.Background(), dir, nil, Holder{}, 30*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), ", waited 30ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := Acquire(ctx, dir, nil, Holder{}, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = h.in.Close() })
	l, err := Acquire(context.Background(), dir, nil, Holder{}, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// TestOneAtATime: many goroutines of one process, and no two inside.
func TestOneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	var inside, entered atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := []string{"host"}
			if i%2 == 0 {
				r = []string{"cpus:0-3", "gpu:GPU-aa"}
			}
			l, err := Acquire(context.Background(), dir, r, Holder{}, 30*time.Second)
			if err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two are inside")
			}
			entered.Add(1)
			inside.Add(-1)
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if entered.Load() != 8 {
		t.Errorf("%d entered", entered.Load())
	}
}

// TestTwoUsers: files that one user made serve another, whatever the umask.
func TestTwoUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to be two users")
	}
	root := t.TempDir()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(root, "holder")
	if err := os.WriteFile(binary, b, 0o755); err != nil {
		t.Fatal(err)
	}
	nobody := func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0] = binary, binary
		cmd.Dir = root
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	dir := filepath.Join(root, "locks")
	old := syscall.Umask(0o077)
	l, err := take(dir, "host") // root makes the files
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("the directory is %v, %v, want 1777", info.Mode(), err)
	}
	if h, said := start(t, order{Dir: dir}, nobody); h != nil || !strings.Contains(said, "held by pid "+fmt.Sprint(os.Getpid())) {
		t.Errorf("another user was told %q", said)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	h, said := start(t, order{Dir: dir, Resources: []string{"gpu:GPU-cc"}}, nobody)
	if h == nil {
		t.Fatalf("another user cannot lock: %s", said)
	}
	if _, err := take(dir, "host"); err == nil || !strings.Contains(err.Error(), "has gpu:GPU-cc") {
		t.Errorf("got %v, want the other user named", err)
	}
	h.end()
	if l, err = take(dir, "gpu:GPU-cc"); err != nil {
		t.Errorf("a file of the other user: %v", err)
	}
	l.Release()
}

func TestRefusals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	for _, r := range []string{"gpu", "gpu:", "gpu:0", "cpus:x", "cpus:3-1", "numa:x", "cpu:1", "memory", ""} {
		_, err := take(dir, r)
		var d *diag.Error
		if !errors.As(err, &d) || d.Kind != diag.Workflow || d.Fix == "" || !strings.Contains(d.Msg, fmt.Sprintf("%q", r)) {
			t.Errorf("%q: got %v", r, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, "", file)
	for _, dir := range []string{file, filepath.Join(file, "locks"), filepath.Join(t.TempDir(), "no", "locks")} {
		_, err := take(dir, "host")
		var d *diag.Error
		if !errors.As(err, &d) || d.Kind != diag.Machine || !strings.Contains(d.Fix, LockDirEnv) {
			t.Errorf("%s: got %v", dir, err)
		}
	}
	// A link that someone put in the way is not followed.
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	put(t, "mine", victim)
	if err := os.Symlink(victim, filepath.Join(dir, "host.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := take(dir, "host"); err == nil {
		t.Error("a link was followed")
	}
}

func TestDefaultLockDir(t *testing.T) {
	t.Setenv("TMPDIR", "/somewhere/else")
	t.Setenv(LockDirEnv, "")
	if got := DefaultLockDir(); got != "/tmp/flow-locks" {
		t.Errorf("got %q", got)
	}
	t.Setenv(LockDirEnv, "/x")
	if got := DefaultLockDir(); got != "/x" {
		t.Errorf("got %q", got)
	}
}

// TestHolderFilesOfStrangers: what is not ours or is damaged is passed over.
func TestHolderFilesOfStrangers(t *testing.T) {
	dir := t.TempDir()
	put(t, "not json", dir, holderPrefix+"x.json")
	put(t, "{}", dir, "README")
	f, err := os.Create(filepath.Join(dir, holderPrefix+"y.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := flock(f, syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if n := Neighbours(dir); len(n) != 0 {
		t.Errorf("got %q", n)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"README", holderPrefix + "y.json"}; !slices.Equal(names, want) {
		t.Errorf("left %v, want %v", names, want)
	}
	if n := Neighbours(filepath.Join(dir, "nowhere")); n != nil {
		t.Errorf("got %q", n)
	}
}

func TestSessionsAreHeldBesideTheHost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	ctx := context.Background()
	who := Holder{Session: "s1", Workflow: "a.star"}
	mine, err := Acquire(ctx, dir, []string{SessionPrefix + "s1"}, who, 0)
	if err != nil {
		t.Fatal(err)
	}
	host, err := Acquire(ctx, dir, nil, who, 0) // the session's own machine
	if err != nil {
		t.Fatalf("a session takes nothing of the host: %v", err)
	}
	if err := host.Release(); err != nil {
		t.Fatal(err)
	}
	h, said := start(t, order{Dir: dir, Resources: []string{Host, SessionPrefix + "s2"}})
	if h == nil {
		t.Fatal(said)
	}
	if _, said := start(t, order{Dir: dir, Resources: []string{SessionPrefix + "s1"}}); !strings.Contains(said, "held by pid") {
		t.Fatalf("a session that runs was taken again: %q", said)
	}
	got := Sessions(dir)
	if len(got) != 1 || got[0].Session != "s1" || got[0].PID != os.Getpid() || !got[0].Here() {
		t.Fatalf("sessions: %v", got)
	}
	if n := Neighbours(dir); len(n) != 1 || !strings.Contains(n[0], "host") {
		t.Fatalf("neighbours: %v", n)
	}
	if err := mine.Release(); err != nil {
		t.Fatal(err)
	}
	if got := Sessions(dir); len(got) != 0 {
		t.Fatalf("sessions after release: %v", got)
	}
}
