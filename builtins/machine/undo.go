package machine

// The undo journal: host settings to put back. It is a file of the machine, not of the database, because
// `flow doctor --restore` must work without one. A line is written and synced, with the folder, before the
// setting is changed; the file goes when all it names was put back and read to be so. Whoever writes keeps it
// locked, so that a journal which can be locked was left by a process that is gone, however it went.
//
// A journal whose changes cannot have outlived a restart of the machine (files of the kernel's, limits of a
// driver) is only removed after one: writing an old value over what the new start has set would be a guess.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flow/builtins/command"
	"flow/starlark/diag"
	"flow/workflows/plan"
)

// UndoDir is the folder of undo journals in a state folder.
func UndoDir(state string) string { return filepath.Join(state, "undo") }

// entry is a line of a journal.
//
//	{"op":"begin","pid":4711,"session":"0193…","host":"box","boot":"5f0c…","wall_ns":1764529556000000000}
//	{"op":"change","id":0,"what":"governor","point":{"path":"/sys/…/scaling_governor","to":"performance"},"before":"powersave"}
//	{"op":"undone","id":0}
type entry struct {
	Op      string `json:"op"`
	ID      int    `json:"id"`
	PID     int    `json:"pid,omitempty"`
	Session string `json:"session,omitempty"`
	Host    string `json:"host,omitempty"`
	Boot    string `json:"boot,omitempty"`
	WallNS  int64  `json:"wall_ns,omitempty"`
	What    string `json:"what,omitempty"` // the key of the setting
	Point   point  `json:"point,omitzero"`
	Before  string `json:"before,omitempty"`
}

// change is a changed point that is not undone.
type change struct {
	id     int
	what   string
	point  point
	before string
}

// Applied is host settings in force, until Restore.
type Applied struct {
	s       Settings
	file    *os.File
	path    string
	changes []change
}

// Change says what a setting was and what it was made.
type Change struct {
	Setting plan.HostSetting
	Before  string // "" where it cannot be read
}

// Apply puts settings in force, in order. Where one fails, those before it are put back and the error says
// which and why. Settings of the engine's own (CPUs) are not for the host and left out. The result is never
// nil without an error.
func (s Settings) Apply(ctx context.Context, hs []plan.HostSetting) (*Applied, []Change, error) {
	s = s.withDefaults()
	a := &Applied{s: s}
	var out []Change
	for _, h := range hs {
		if h.Name == plan.HostCPUs {
			continue
		}
		c, err := a.apply(ctx, h)
		if err != nil {
			_, undo := a.Restore(context.WithoutCancel(ctx))
			return nil, nil, errors.Join(err, undo)
		}
		out = append(out, c)
	}
	return a, out, nil
}

func (a *Applied) apply(ctx context.Context, h plan.HostSetting) (Change, error) {
	out := Change{Setting: h}
	if h.Name == plan.HostDropCaches {
		unix.Sync() // dirty pages cannot be dropped
		p := point{Path: sysctlPath(a.s.Proc, "vm.drop_caches")}
		if err := a.s.write(ctx, p, h.Value); err != nil {
			return out, unwritable(h, p, err)
		}
		return out, nil
	}
	ps, err := a.s.points(h)
	if err != nil {
		return out, err
	}
	if h.Name == plan.HostGPUClocks && h.Before != "" {
		if err := a.s.disproved(ctx, h); err != nil {
			return out, err
		}
	}
	fresh := len(a.changes)
	var was []string
	for _, p := range ps {
		c := change{id: len(a.changes), what: h.Key(), point: p}
		if p.Put == nil {
			if c.before, err = a.s.read(ctx, p); err != nil {
				return out, missingSetting(h, "what it is now cannot be read, so that it could not be put back: "+err.Error(), "leave it out, or make it readable")
			}
			if p.To != "" && !slices.Contains(was, c.before) {
				was = append(was, c.before)
			}
		}
		a.changes = append(a.changes, c)
	}
	out.Before = strings.Join(was, " and ")
	if err := a.journal(a.changes[fresh:]); err != nil {
		a.changes = a.changes[:fresh] // nothing was changed
		return out, &diag.Error{Kind: diag.Machine, Op: "undo journal", Err: err, Fix: "free some disk space, or set XDG_STATE_HOME to a folder that can be written: without a journal nothing is changed"}
	}
	a.s.hook()
	for _, c := range a.changes[fresh:] {
		if c.point.To == "" || c.point.Put == nil && equal(c.before, c.point.To) {
			continue
		}
		if err := a.s.write(ctx, c.point, c.point.To); err != nil {
			return out, unwritable(h, c.point, err)
		}
		a.s.hook()
		if c.point.Put != nil {
			continue
		}
		now, err := a.s.read(ctx, c.point)
		if err != nil || !equal(now, c.point.To) {
			return out, missingSetting(h, fmt.Sprintf("%s was set to %s and reads %q", c.point.where(), c.point.To, now), "see the kernel's log for why it did not take the value")
		}
	}
	return out, nil
}

// journal appends changes and returns when they are on disk.
func (a *Applied) journal(cs []change) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	if a.file == nil {
		if a.s.Undo == "" {
			return errors.New("no folder is set for it")
		}
		if err := a.open(); err != nil {
			return err
		}
		host, _ := os.Hostname() // for people only
		if err := enc.Encode(entry{Op: "begin", PID: os.Getpid(), Session: a.s.Session, Host: host, Boot: bootID(a.s.Proc), WallNS: Wall()}); err != nil {
			return err
		}
	}
	for _, c := range cs {
		if err := enc.Encode(entry{Op: "change", ID: c.id, What: c.what, Point: c.point, Before: c.before}); err != nil {
			return err
		}
	}
	if _, err := a.file.Write(b.Bytes()); err != nil {
		return err
	}
	return errors.Join(a.file.Sync(), syncDir(a.s.Undo))
}

const undoSuffix = ".jsonl"

// open makes a journal that is locked before it has its name, so that nobody takes it for left over. The
// host is in the name, because a state folder may be on a share.
func (a *Applied) open() error {
	if err := os.MkdirAll(a.s.Undo, 0o700); err != nil {
		return err
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	name := hostName() + "-" + hex.EncodeToString(id[:]) + undoSuffix
	tmp := filepath.Join(a.s.Undo, ".new-"+name)
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	path := filepath.Join(a.s.Undo, name)
	if err := errors.Join(flock(f, unix.LOCK_EX|unix.LOCK_NB), os.Rename(tmp, path)); err != nil {
		_ = f.Close()
		_ = os.Remove(tmp)
		return err
	}
	a.file, a.path = f, path
	return nil
}

// hostName is this host's name as a part of a file's.
func hostName() string {
	h, err := os.Hostname()
	if err != nil || h == "" {
		return "host"
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}, h)
}

func bootID(proc string) string { return line(proc, "sys/kernel/random/boot_id") }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Restore puts everything back, the last change first, and gives what was put back in words. A second call
// does nothing. What could not be put back stays in the journal, and the error names it.
func (a *Applied) Restore(ctx context.Context) ([]string, error) {
	if a == nil || a.file == nil {
		return nil, nil
	}
	words, _, err := restore(ctx, a.s, a.file, a.path, a.changes)
	if err == nil {
		a.changes = nil
	}
	a.file = nil
	return words, err
}

// restore undoes changes in reverse and removes the journal when all are undone or given up. It closes the
// file. stuck is what could not be put back.
func restore(ctx context.Context, s Settings, f *os.File, path string, cs []change) (words, stuck []string, failed error) {
	defer f.Close()
	for _, c := range slices.Backward(cs) {
		w, err := s.undo(ctx, c)
		if err != nil {
			stuck = append(stuck, c.was())
			if !s.GiveUp || ctx.Err() != nil {
				failed = errors.Join(failed, &diag.Error{Kind: diag.Machine, Op: "put back " + c.what, Msg: c.was(), Err: err,
					Fix: "flow doctor --restore, with the right to change it; or put it back by hand, then flow doctor --restore --give-up"})
				continue
			}
		}
		if w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
		b, err := json.Marshal(entry{Op: "undone", ID: c.id})
		if err == nil {
			_, err = f.Write(append(b, '\n')) // not synced: undoing twice does no harm
		}
		failed = errors.Join(failed, err)
		s.hook()
	}
	if failed != nil {
		return words, stuck, failed
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return words, stuck, err
	}
	s.hook()
	return words, stuck, syncDir(filepath.Dir(path))
}

// was says what a change is put back to. A command that puts back knows that itself.
func (c change) was() string {
	switch {
	case c.point.Put != nil:
		return "the command that puts it back is " + strings.Join(c.point.Put, " ")
	case c.before == "":
		return c.point.where() + " was empty before"
	}
	return c.point.where() + " was " + c.before + " before"
}

// undo puts one point back and reads that it is so.
func (s Settings) undo(ctx context.Context, c change) (words string, err error) {
	if c.point.Put != nil {
		var left *command.LeftError // it did what it should
		if _, err := s.Run(ctx, c.point.Put); err != nil && !errors.As(err, &left) {
			return "", err
		}
		return strings.Join(c.point.Put, " "), nil
	}
	now, err := s.read(ctx, c.point)
	if err != nil {
		return "", err
	}
	if equal(now, c.before) {
		return "", nil // it was not changed, or is back already
	}
	if err := s.write(ctx, c.point, c.before); err != nil {
		return "", err
	}
	s.hook()
	again, err := s.read(ctx, c.point)
	if err != nil {
		return "", err
	}
	if !equal(again, c.before) {
		return "", fmt.Errorf("it was set to %s and reads %s", c.before, again)
	}
	return fmt.Sprintf("%s from %s to %s", c.what, now, c.before), nil
}

// Left is a journal that a process which is gone has left behind.
type Left struct {
	PID     int      `json:"pid"`
	Session string   `json:"session,omitempty"`
	WallNS  int64    `json:"wall_ns"`
	What    []string `json:"settings"`           // by key
	Done    []string `json:"done,omitempty"`     // what was put back, in words
	Stuck   []string `json:"stuck,omitempty"`    // what could not be put back
	GivenUp bool     `json:"given_up,omitempty"` // and is off the record
	Gone    bool     `json:"gone,omitempty"`     // the machine was restarted since, which undid what the kernel forgets
}

// String says whose it was, and what became of it.
func (l Left) String() string {
	s := strings.Join(l.What, ", ") + ", left changed by process " + fmt.Sprint(l.PID)
	if l.Session != "" {
		s += " (session " + l.Session + ")"
	}
	if l.WallNS != 0 {
		s += " at " + time.Unix(0, l.WallNS).UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	switch {
	case len(l.Stuck) > 0:
		s += ": could not be put back"
		if l.GivenUp {
			s += ", and is given up"
		}
		s += ": " + strings.Join(l.Stuck, "; ")
		if len(l.Done) > 0 {
			s += "; put back " + strings.Join(l.Done, "; ")
		}
	case len(l.Done) > 0:
		s += ": put back " + strings.Join(l.Done, "; ")
	case l.Gone:
		s += ": the machine was restarted since, nothing is left to put back"
	default:
		s += ": all of it is as it was"
	}
	return s
}

// RestoreLeft puts back what processes that are gone have left changed on this host, and names it. Journals
// of processes that live are not touched.
func (s Settings) RestoreLeft(ctx context.Context) ([]Left, error) {
	s = s.withDefaults()
	entries, err := os.ReadDir(s.Undo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &diag.Error{Kind: diag.Machine, Op: "undo journal", Err: err, Fix: "make " + s.Undo + " readable for you"}
	}
	var out []Left
	var failed error
	for _, e := range entries {
		name := strings.TrimPrefix(e.Name(), ".new-") // one that died before its journal had its name had changed nothing
		id, mine := strings.CutPrefix(strings.TrimSuffix(name, undoSuffix), hostName()+"-")
		if !mine || !strings.HasSuffix(name, undoSuffix) || strings.Contains(id, "-") { // of "box-2" on a share, where this is "box"
			continue
		}
		l, err := s.restoreFile(ctx, filepath.Join(s.Undo, e.Name()))
		failed = errors.Join(failed, err)
		if l != nil {
			out = append(out, *l)
		}
	}
	return out, failed
}

// restoreFile puts back what one journal names; nil when it is somebody's who lives, or names nothing.
func (s Settings) restoreFile(ctx context.Context, path string) (*Left, error) {
	f, err := openState(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, errNotRegular) || errors.Is(err, unix.ELOOP) {
		return nil, &diag.Error{Kind: diag.Machine, Op: "undo journal", Err: err, Fix: "remove it: a journal of flow's is a regular file"}
	}
	if err != nil {
		return nil, &diag.Error{Kind: diag.Machine, Op: "undo journal", Err: err, Fix: "run flow doctor --restore as the user whose it is"}
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, err
	}
	if _, err := os.Stat(path); err != nil { // another has put it back while we waited for our turn
		_ = f.Close()
		return nil, nil
	}
	b, err := io.ReadAll(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	begin, cs := parseUndo(b)
	l := &Left{PID: begin.PID, Session: begin.Session, WallNS: begin.WallNS}
	for _, c := range cs {
		if !slices.Contains(l.What, c.what) {
			l.What = append(l.What, c.what)
		}
	}
	if boot := bootID(s.Proc); begin.Boot != "" && boot != "" && boot != begin.Boot {
		n := len(cs)
		// What the kernel or a driver holds is gone with the restart; what a command did may not be.
		cs = slices.DeleteFunc(cs, func(c change) bool { return c.point.Put == nil || slices.Contains(c.point.Put, "nvidia-smi") })
		l.Gone = len(cs) < n
	}
	if l.Done, l.Stuck, err = restore(ctx, s, f, path, cs); err != nil {
		return l, err
	}
	l.GivenUp = len(l.Stuck) > 0
	if len(l.What) == 0 {
		return nil, nil
	}
	return l, nil
}

// parseUndo gives the changes of a journal that are not undone. A line that is cut off, or is not
// understood, was not synced: its change never came.
func parseUndo(b []byte) (begin entry, cs []change) {
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var e entry
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			continue
		}
		switch e.Op {
		case "begin":
			begin = e
		case "change":
			if e.Point.Path != "" || len(e.Point.Read) > 0 || len(e.Point.Put) > 0 {
				cs = append(cs, change{e.ID, e.What, e.Point, e.Before})
			}
		case "undone":
			cs = slices.DeleteFunc(cs, func(c change) bool { return c.id == e.ID })
		}
	}
	return begin, cs
}
