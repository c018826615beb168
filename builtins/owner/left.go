package owner

// What flows that are gone have left.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	Processes []string `json:"processes"`         // in words: "pid 47 (llama-server --port 18080)"
	Remain    []string `json:"remain,omitempty"`  // what could not be ended, when that was tried
	Suspect   bool     `json:"suspect,omitempty"` // nothing but the mark says that it is flow's, so nothing ends it
}

// suspect is a process that carries the mark, and why it is not taken for flow's.
type suspect struct {
	Process
	why string
}

// String says what was left, and by whom.
func (l Left) String() string {
	by := "a flow that is gone (pid " + strconv.Itoa(l.Record.Flow.PID)
	if l.Record.Session != "" {
		by += ", session " + l.Record.Session
	}
	by += ")"
	if l.Suspect {
		return Env + " of " + by + " is in the environment of " + strings.Join(l.Processes, ", ") + ", and nothing else says that it was started there"
	}
	s := l.Record.What
	if s == "flow" {
		s = "a command"
	}
	s += " was left by " + by
	if len(l.Processes) > 0 {
		s += ": " + strings.Join(l.Processes, ", ")
	}
	return s
}

// Look gives what is left and runs, of flows that are gone. It ends nothing; records of which nothing is left
// are removed.
func Look(dir string) ([]Left, error) {
	k, err := records(dir)
	if err != nil {
		return nil, err
	}
	return k.look(dir), nil
}

// Odd gives the files in a folder of records that are none, in words. Nobody reads them.
func Odd(dir string) ([]string, error) {
	k, err := records(dir)
	return k.odd, err
}

// kept is what a folder of records holds.
type kept struct {
	gone []Record  // of flows that are gone, the most precise first: an engine's before its run's
	live []Process // flows that run
	odd  []string
}

// look is Look of some records. What carries the mark of an engine is not named again with its run.
func (k kept) look(dir string) []Left {
	var out []Left
	named := map[int]bool{}
	for _, r := range k.gone {
		ours, suspects := r.processes(k.live)
		var l []string
		for _, p := range ours {
			if !named[p.PID] {
				named[p.PID] = true
				l = append(l, Describe(p.PID))
			}
		}
		if len(l) > 0 {
			out = append(out, Left{Record: r, Processes: l})
		}
		l = nil
		for _, p := range suspects {
			if !named[p.PID] {
				named[p.PID] = true
				l = append(l, Describe(p.PID)+" ("+p.why+")")
			}
		}
		if len(l) > 0 {
			out = append(out, Left{Record: r, Processes: l, Suspect: true})
		}
		// Its supervisor may be about to start the engine; and what is of another pid namespace, we may not see.
		if len(ours)+len(suspects) == 0 && r.here() && !r.Supervisor.Alive() {
			forget(dir, r)
		}
	}
	return out
}

// EndLeft ends what flows that are gone have left, and gives it, with what could not be ended, and what is
// only suspect. A supervisor that still is at it gets its time.
func EndLeft(ctx context.Context, dir string) ([]Left, error) {
	k, err := records(dir)
	if err != nil || len(k.gone) == 0 {
		return nil, err
	}
	end := time.Now().Add(superviseLimit)
	for slices.ContainsFunc(k.gone, func(r Record) bool { return r.here() && r.Supervisor.Alive() }) && time.Now().Before(end) {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
	left := k.look(dir)
	for i, l := range left {
		if l.Suspect {
			continue
		}
		if l.Record.Supervisor.Alive() { // it hangs
			l.Record.Supervisor.kill()
		}
		ours := func() []Process { ps, _ := l.Record.processes(k.live); return ps }
		_, left[i].Remain = endAll(ctx, ours, func() {
			if l.Record.ownCgroup() { // at once, whatever forks meanwhile
				killGroup(l.Record.Cgroup)
			}
		})
	}
	k.look(dir) // forgets all of which nothing is left
	return left, ctx.Err()
}

// killGroup ends all that is in a cgroup.
func killGroup(dir string) {
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString("1")
	_ = f.Close()
}

// records reads a folder of them, and removes what was never finished.
func records(dir string) (kept, error) {
	var k kept
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return k, err
	}
	lives := map[string]bool{} // runs
	var all []Record
	var unfinished []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(path, ".json.new"):
			unfinished = append(unfinished, path)
			continue
		case strings.HasPrefix(e.Name(), "."): // of the file system, or a desktop
			continue
		}
		r, err := parse(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it ended meanwhile
		}
		if err != nil {
			k.odd = append(k.odd, path+" is no record of what flow started: "+err.Error())
			continue
		}
		// The lock is known to whoever sees the file; without its record, a flow is known by its number.
		if r.ID == r.run() && locked(path) || r.here() && r.Flow.Alive() {
			lives[r.run()] = true
			if r.here() {
				k.live = append(k.live, r.Flow)
			}
		}
		all = append(all, r)
	}
	for _, path := range unfinished {
		run, _, _ := strings.Cut(filepath.Base(path), ".")
		if r, err := parse(path); err == nil && (!r.here() || r.Flow.Alive()) || lives[run] {
			continue // about to get its name, or another machine's
		}
		discard(path)
	}
	for _, r := range all {
		switch {
		case lives[r.run()]:
		case r.here(), r.Boot != "" && r.Boot == boot():
			k.gone = append(k.gone, r)
		case r.Host == host():
			forget(dir, r) // nothing outlives a restart
		} // a folder on several machines: the others see to theirs
	}
	slices.SortStableFunc(k.gone, func(a, b Record) int { return len(b.ID) - len(a.ID) })
	return k, nil
}

// parse reads a record, which its file is named after.
func parse(path string) (Record, error) {
	var r Record
	b, err := read(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	if name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".new"), ".json"); r.ID == "" || r.ID != name {
		return r, fmt.Errorf("got id %q, want that of the file's name", r.ID)
	}
	return r, nil
}

// forget removes a record, and the cgroup that it names.
func forget(dir string, r Record) {
	if r.ownCgroup() && r.here() {
		_ = unix.Rmdir(r.Cgroup) // the kernel refuses where a process is in it
	}
	_ = os.Remove(filepath.Join(dir, r.ID+".json"))
}

// ownCgroup: the record names a cgroup that was made for the engine, and no other.
func (r Record) ownCgroup() bool { return strings.HasPrefix(filepath.Base(r.Cgroup), "flow-") }

// here: the numbers of the record mean the same to us. A machine can get another name while it runs.
func (r Record) here() bool {
	return r.Boot == boot() && r.Namespace == namespace() && (r.Boot != "" || r.Host == host())
}

// End ends everything of this flow's that carries the mark or one below it, after a time in which it may end
// by itself. It names what it ended, and what it could not.
func End(id string, wait time.Duration) (ended, remain []string) {
	find := func() []Process { return find(id) }
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
