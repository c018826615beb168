package owner

// What flows that are gone have left.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// superviseLimit is how long a supervisor may take to end its engine once flow is gone, and endLimit how long
// the kernel may take to end what was killed.
const (
	superviseLimit = 15 * time.Second
	endLimit       = 10 * time.Second
)

// Left is something of a flow that is gone, and that still runs.
type Left struct {
	Record    Record   `json:"record"`
	Processes []string `json:"processes"`        // in words: "pid 47 (llama-server --port 18080)"
	Remain    []string `json:"remain,omitempty"` // what could not be ended, when that was tried
}

// String says what was left, and by whom.
func (l Left) String() string {
	s := l.Record.What
	if s == "flow" {
		s = "a command"
	}
	s += " was left by a flow that is gone (pid " + strconv.Itoa(l.Record.Flow.PID)
	if l.Record.Session != "" {
		s += ", session " + l.Record.Session
	}
	s += ")"
	if len(l.Processes) > 0 {
		s += ": " + strings.Join(l.Processes, ", ")
	}
	return s
}

// Look gives what is left and runs, of flows that are gone. It ends nothing; records of which nothing is left
// are removed.
func Look(dir string) ([]Left, error) {
	rs, err := records(dir)
	if err != nil {
		return nil, err
	}
	return look(dir, rs), nil
}

// look is Look of some records. What carries the mark of an engine is not named again with its run.
func look(dir string, rs []Record) []Left {
	var out []Left
	named := map[int]bool{}
	for _, r := range rs {
		var l []string
		found := r.processes()
		for _, p := range found {
			if !named[p.PID] {
				named[p.PID] = true
				l = append(l, Describe(p.PID))
			}
		}
		if len(l) > 0 {
			out = append(out, Left{Record: r, Processes: l})
		}
		if len(found) == 0 && !(r.here() && r.Supervisor.Alive()) { // it may be about to start the engine
			forget(dir, r)
		}
	}
	return out
}

// EndLeft ends what flows that are gone have left, and gives it, with what could not be ended. A supervisor
// that still is at it gets its time.
func EndLeft(ctx context.Context, dir string) ([]Left, error) {
	rs, err := records(dir)
	if err != nil || len(rs) == 0 {
		return nil, err
	}
	end := time.Now().Add(superviseLimit)
	for slices.ContainsFunc(rs, func(r Record) bool { return r.here() && r.Supervisor.Alive() }) && time.Now().Before(end) {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
	left := look(dir, rs)
	for i, l := range left {
		if l.Record.here() && l.Record.Supervisor.Alive() { // it hangs
			l.Record.Supervisor.kill()
		}
		_, left[i].Remain = endAll(ctx, l.Record.processes, func() {
			if l.Record.ownCgroup() && l.Record.here() { // at once, whatever forks meanwhile
				_ = os.WriteFile(filepath.Join(l.Record.Cgroup, "cgroup.kill"), []byte("1"), 0)
			}
		})
	}
	look(dir, rs) // forgets all of which nothing is left
	return left, ctx.Err()
}

// records are those of flows that are gone, the most precise first: an engine's before its run's.
func records(dir string) ([]Record, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, err
	}
	var all []Record
	lives := map[string]bool{}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		var r Record
		if json.Unmarshal(b, &r) != nil || r.ID != strings.TrimSuffix(filepath.Base(path), ".json") {
			continue // not of ours
		}
		if r.ID == r.run() && locked(path) {
			lives[r.ID] = true
		}
		all = append(all, r)
	}
	all = slices.DeleteFunc(all, func(r Record) bool {
		switch {
		case lives[r.run()]:
			return true
		case r.Host != host():
			return true // a folder on several machines: the others see to theirs
		case r.Boot != boot():
			forget(dir, r) // nothing outlives a restart
			return true
		}
		return false
	})
	slices.SortFunc(all, func(a, b Record) int { return len(b.ID) - len(a.ID) })
	return all, nil
}

// locked reports whether somebody holds the file.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// forget removes a record, and the cgroup that it names.
func forget(dir string, r Record) {
	if r.ownCgroup() && r.here() {
		_ = os.Remove(r.Cgroup) // the kernel refuses where a process is in it
	}
	_ = os.Remove(filepath.Join(dir, r.ID+".json"))
}

// ownCgroup: the record names a cgroup that was made for the engine, and no other.
func (r Record) ownCgroup() bool { return strings.HasPrefix(filepath.Base(r.Cgroup), "flow-") }

// here: the numbers of the record mean the same to us.
func (r Record) here() bool { return r.Namespace == namespace() }

// End ends everything that carries the mark or is below it, after a time in which it may end by itself. It
// names what it ended, and what it could not.
func End(id string, wait time.Duration) (ended, remain []string) {
	find := func() []Process { return marked(id) }
	until := time.Now().Add(wait)
	for p := time.Millisecond; len(find()) > 0 && time.Now().Before(until); p = min(2*p, 50*time.Millisecond) {
		time.Sleep(p)
	}
	return endAll(context.Background(), find, func() {})
}

// endAll kills what find finds until that is nothing.
func endAll(ctx context.Context, find func() []Process, more func()) (ended, remain []string) {
	seen := map[int]bool{}
	limit := time.Now().Add(endLimit)
	for p := time.Millisecond; ; p = min(2*p, 50*time.Millisecond) {
		found := find()
		if len(found) == 0 {
			return ended, nil
		}
		for _, x := range found {
			if !seen[x.PID] {
				seen[x.PID] = true
				ended = append(ended, Describe(x.PID))
			}
			x.kill()
		}
		more()
		if time.Now().After(limit) || pause(ctx, p) != nil {
			for _, x := range find() {
				remain = append(remain, Describe(x.PID))
			}
			return ended, remain
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ending what was left: %w", context.Cause(ctx))
	}
}
