package db

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// writerEnv makes the test binary a writer: it records arms into the named file until it is killed, and
// says on stdout which ones have returned.
const writerEnv = "FLOW_DB_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		if err := writeUntilKilled(path, os.Getenv(writerEnv+"_ID")); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func writeUntilKilled(path, id string) error {
	ctx := context.Background()
	d, err := Open(ctx, path)
	if err != nil {
		return err
	}
	if err := d.BeginSession(ctx, session(id, 0)); err != nil {
		return err
	}
	g := group(id, id+"-g", 0, nil, []record.Lever{lever("fa")})
	if err := d.BeginGroup(ctx, g); err != nil {
		return err
	}
	fmt.Println("begun")
	for i := range 100_000 {
		a := armOf(g, "A", i, 100)
		a.Process.Log = strings.Repeat(fmt.Sprintf("line %d\n", i), 500)
		for k := range 500 {
			a.Samples = append(a.Samples, record.Sample{Sensor: "power_w", MonoNS: int64(10 + k), Value: float64(k)})
		}
		if err := d.BeginEffect(ctx, id, record.Effect{Index: i, Op: "run"}); err != nil {
			return err
		}
		if err := d.EndArm(ctx, a); err != nil {
			return err
		}
		if err := d.EndEffect(ctx, id, i, []byte("{}")); err != nil {
			return err
		}
		fmt.Println("arm", a.ID)
	}
	return nil
}

// startWriter runs a writer; its lines come over the channel, which closes when it ends.
func startWriter(t *testing.T, path, id string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+path, writerEnv+"_ID="+id)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := make(chan string, 100_000)
	go func() {
		defer close(lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, lines
}

// Killed anywhere, everything that EndArm and EndEffect returned for is there, whole, and the file is sound.
func TestKill(t *testing.T) {
	n := 20
	if testing.Short() {
		n = 4
	}
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "flow.db")
	arms := 0
	for i := range n {
		id := fmt.Sprintf("s%02d", i)
		cmd, lines := startWriter(t, path, id)
		if first := <-lines; first != "begun" {
			t.Fatalf("writer: got %q", first)
		}
		// At a random instant of the first arms; counted in arms, so that a busy machine changes nothing.
		var told []string
		for range rand.IntN(4) {
			told = append(told, strings.TrimPrefix(<-lines, "arm "))
		}
		time.Sleep(time.Duration(rand.IntN(10_000)) * time.Microsecond)
		must(t, cmd.Process.Signal(syscall.SIGKILL))
		for l := range lines {
			told = append(told, strings.TrimPrefix(l, "arm "))
		}
		_ = cmd.Wait()
		d, err := Open(ctx, path) // the mark of the killed writer makes this check the file
		must(t, err)
		must(t, d.check(ctx))
		g, err := d.Group(ctx, id+"-g")
		must(t, err)
		if len(g.Arms) != len(told) && len(g.Arms) != len(told)+1 {
			t.Errorf("kill %d: got %d arms, want the %d told or one more", i, len(g.Arms), len(told))
		}
		for k, a := range g.Arms {
			if k < len(told) && a.ID != told[k] {
				t.Errorf("kill %d: arm %d: got %s, want %s", i, k, a.ID, told[k])
			}
			ss, err := d.Samples(ctx, a.ID, "")
			must(t, err)
			log, err := d.Log(ctx, a.ID)
			must(t, err)
			if len(ss) != 504 || len(a.Requests) != 2 || len(a.Metrics) != 3 || !strings.HasPrefix(log, fmt.Sprintf("line %d\n", k)) {
				t.Errorf("kill %d: arm %d is not whole: %d samples, %d requests, %d metrics", i, k, len(ss), len(a.Requests), len(a.Metrics))
			}
		}
		for k := range told {
			if e, err := d.Effect(ctx, id, k); err != nil || e == nil || !e.Done || string(e.Result) != "{}" {
				t.Errorf("kill %d: effect %d: got %+v, %v, want it done", i, k, e, err)
			}
		}
		arms += len(told)
		must(t, d.Close())
	}
	if arms == 0 {
		t.Errorf("no writer got as far as an arm in %d runs", n)
	}
}

func TestUncleanEndIsChecked(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "flow.db")
	d, err := Open(ctx, path)
	must(t, err)
	fill(t, d, "s", 0, record.Better)
	must(t, d.Close())
	// A writer that is gone: our pid with another start time, as after a reboot.
	d, err = Open(ctx, path)
	must(t, err)
	_, err = d.writer.Exec(`update t_writer set started = 'earlier'`)
	must(t, err)
	d.marker = 0
	must(t, d.Close())
	// Damage an index: a row of it points nowhere.
	d, err = Open(ctx, path)
	must(t, err)
	if n, err := list(d.writer, `select started from t_writer`); err != nil || len(n) != 1 || n[0] == "earlier" {
		t.Errorf("marks after a sound check: got %v, %v, want one of this process", n, err)
	}
	_, err = d.writer.Exec(`update t_writer set started = 'earlier'`)
	must(t, err)
	var page, size int64
	must(t, d.writer.QueryRow(`select rootpage from sqlite_schema where name = 't_arm_group'`).Scan(&page))
	must(t, d.writer.QueryRow(`pragma page_size`).Scan(&size))
	d.marker = 0
	must(t, d.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("\xff", int(size))), (page-1)*size)
	must(t, err)
	must(t, f.Close())
	for range 2 { // the mark stays until a check has passed
		_, err = Open(ctx, path)
		var e *diag.Error
		if !errors.As(err, &e) || e.Kind != diag.Machine || !strings.Contains(err.Error(), "damaged") || !strings.Contains(e.Fix, ".recover") {
			t.Errorf("damaged file: got %v", err)
		}
	}
}

func TestSeveralWritersOnOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.db")
	const writers, arms = 3, 5
	var all []<-chan string
	for i := range writers { // all of them make the same new file at once
		_, lines := startWriter(t, path, fmt.Sprintf("w%d", i))
		all = append(all, lines)
	}
	var wg sync.WaitGroup
	for _, lines := range all {
		wg.Go(func() {
			for n := 0; n < arms; {
				l, ok := <-lines
				if !ok || strings.HasPrefix(l, "error") {
					t.Errorf("a writer ended: %q", l)
					return
				}
				if strings.HasPrefix(l, "arm ") {
					n++
				}
			}
		})
	}
	wg.Wait()
	ro, err := OpenReadOnly(context.Background(), path)
	must(t, err)
	defer func() { _ = ro.Close() }()
	got, err := ro.Query(context.Background(), `select session_id from arms group by session_id having count(*) >= :n`, map[string]any{"n": arms}, 0)
	must(t, err)
	if len(got.Rows) != writers {
		t.Errorf("got %d sessions with %d arms, want %d", len(got.Rows), arms, writers)
	}
}

func TestReadersWhileWriting(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, []record.Lever{lever("fa")})
	must(t, d.BeginGroup(ctx, g))
	ro, err := OpenReadOnly(ctx, d.Path())
	must(t, err)
	defer func() { _ = ro.Close() }()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, r := range []*DB{ro, d, ro} {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				// An arm is there with all its samples or not at all.
				got, err := r.Query(ctx, `select (select count(*) from arms) * 4 - (select count(*) from samples)`, nil, 0)
				if err != nil || got.Rows[0][0] != int64(0) {
					t.Errorf("reader: got %v, %v, want 0", got, err)
					return
				}
			}
		})
	}
	for i := range 40 {
		must(t, d.EndArm(ctx, armOf(g, "A", i, 100)))
	}
	close(done)
	wg.Wait()
}

// A cancelled session still records: an interrupted arm is what an interrupt must not lose.
func TestCancelledContextRecords(t *testing.T) {
	d := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fill(t, d, "s", 0, record.Better)
	_, err := d.Group(ctx, "s-g")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a reader: got %v, want cancelled", err)
	}
	must(t, d.BeginSession(ctx, session("s2", 1)))
}

func TestLockedDatabase(t *testing.T) {
	d, ctx := open(t), context.Background()
	fill(t, d, "s", 0, record.Better)
	must(t, d.BeginSession(ctx, session("s2", 1)))
	other, err := Open(ctx, d.Path())
	must(t, err)
	defer func() { _ = other.Close() }()
	tx, err := other.writer.Begin()
	must(t, err)
	_, err = d.writer.Exec(`pragma busy_timeout = 50`)
	must(t, err)
	err = d.BeginSession(ctx, session("s3", 2))
	var e *diag.Error
	if !errors.As(err, &e) || e.Kind != diag.Machine || !strings.Contains(err.Error(), d.Path()+" is locked") || e.Fix == "" {
		t.Errorf("got %v, want the file named as locked", err)
	}
	var wait int
	must(t, d.writer.QueryRow(`pragma busy_timeout`).Scan(&wait))
	if wait != 1000 {
		t.Errorf("the next write waits %d ms, want 1000: the lock was waited for once", wait)
	}
	// Reading goes on, and so does writing once the lock is gone: within the wait, without an error.
	rows(t, d, `select count(*) from arms`, [][]any{{4}})
	_, err = d.writer.Exec(`pragma busy_timeout = 10000`)
	must(t, err)
	time.AfterFunc(50*time.Millisecond, func() { _ = tx.Rollback() })
	must(t, d.BeginSession(ctx, session("s3", 2)))
	must(t, d.writer.QueryRow(`pragma busy_timeout`).Scan(&wait))
	if wait != int(busyWait.Milliseconds()) {
		t.Errorf("with the lock gone a write waits %d ms, want %s", wait, busyWait)
	}
}

func TestFullDisk(t *testing.T) {
	ctx := context.Background()
	t.Run("page limit", func(t *testing.T) {
		d := open(t)
		_, err := d.writer.Exec(`pragma max_page_count = 150`)
		must(t, err)
		untilFull(t, d)
	})
	t.Run("small file system", func(t *testing.T) {
		dir := t.TempDir()
		if err := mountTmpfs(dir, 2<<20); err != nil {
			t.Skip("cannot mount a small file system:", err)
		}
		t.Cleanup(func() { _ = unmount(dir) })
		d, err := Open(ctx, filepath.Join(dir, "flow.db"))
		must(t, err)
		untilFull(t, d)
		must(t, d.Close())
	})
}

// untilFull records arms until there is no room, and looks at what is left.
func untilFull(t *testing.T, d *DB) {
	t.Helper()
	ctx := context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, []record.Lever{lever("fa")})
	must(t, d.BeginGroup(ctx, g))
	kept := 0
	var err error
	for ; kept < 10_000; kept++ {
		a := armOf(g, "A", kept, 100)
		for k := range 2000 {
			a.Samples = append(a.Samples, record.Sample{Sensor: "power_w", MonoNS: int64(10 + k), Value: float64(k)})
		}
		if err = d.EndArm(ctx, a); err != nil {
			break
		}
	}
	var e *diag.Error
	if !errors.As(err, &e) || e.Kind != diag.Machine || !strings.Contains(err.Error(), "no room to write "+d.Path()) || !strings.Contains(e.Fix, "flow resume") {
		t.Fatalf("got %v after %d arms, want the full file named", err, kept)
	}
	if kept == 0 {
		t.Fatal("not one arm fitted")
	}
	back, err := d.Group(ctx, "g")
	must(t, err)
	if len(back.Arms) != kept {
		t.Errorf("got %d arms, want the %d that were recorded", len(back.Arms), kept)
	}
	if ss, err := d.Samples(ctx, back.Arms[kept-1].ID, "power_w"); err != nil || len(ss) != 2002 {
		t.Errorf("last arm: got %d samples, %v, want 2002", len(ss), err)
	}
	must(t, d.check(ctx))
}

// A file that is deleted or replaced under an open database takes what is written later with it: that is
// said by the first write after it.
func TestReplacedFile(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(path string) error
	}{
		{"deleted", os.Remove},
		{"moved", func(p string) error { return os.Rename(p, p+".old") }},
		{"replaced", func(p string) error {
			if err := os.WriteFile(p+".new", []byte("another"), 0o644); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "flow.db")
			d, err := Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			s := &record.Session{ID: "s1", Workflow: "w.star", Status: "running", Measurer: record.MeasurerSimulated}
			if err := d.BeginSession(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if err := c.do(path); err != nil {
				t.Fatal(err)
			}
			err = d.EndSession(t.Context(), s)
			var gone *Replaced
			if kind, _ := diag.KindOf(err); !errors.As(err, &gone) || kind != diag.Machine {
				t.Errorf("got %v, want that the file was replaced", err)
			}
		})
	}
}
