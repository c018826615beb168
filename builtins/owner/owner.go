// Package owner knows which processes and folders are flow's, also after flow is gone. Its opinion: nothing
// is ever found or ended by its name or by a number alone. What flow starts carries a mark in its environment,
// which children inherit however they are forked, and before the first of them starts, a record in flow's
// state folder says whose mark it is. So the next flow can tell what was left by one that was killed together
// with its supervisors, name it, and end it without ever hitting a process that only got a number again.
//
// A run's mark is a random word, "5f3a9c0d12e4"; each engine and each command has one below it,
// "5f3a9c0d12e4.77aa01". A process can escape by leaving its session, its parents, its cgroup and its
// environment behind, all four: only that is not found. Where the system does not show environments, records
// are kept all the same, and nothing is ended by them.
//
// An environment can be copied: by a shell that looks into an engine, say. So a mark alone ends nothing.
// Something else must say the same: a recorded number with its start time, a parent that is flow's, or that
// the process lost its parents, has no terminal of its own and is no flow that runs. Where nothing does, the
// process is named and left alone.
//
// Its neighbours: builtins/engine and builtins/command mark what they start and end what still carries the
// mark afterwards; cmd/flow asks at its start for what others left.
package owner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Env is the variable that carries the mark. It is not part of an engine's environment as that is recorded,
// compared or confirmed: it differs between any two launches and means nothing to an engine.
const Env = "FLOW_OWNER"

// Dir is the folder of records in a state folder.
func Dir(state string) string { return filepath.Join(state, "owned") }

// Process is a process and its identity: Start is when it was started, in clock ticks since boot.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start_ticks,omitempty"` // 0: not known
}

// Record says what is flow's. It is a file of its own per run, and per engine while that runs.
//
//	{"id":"5f3a9c0d12e4.77aa01","what":"engine llama","session":"0193…","flow":{"pid":47,"start_ticks":81234},
//	 "supervisor":{"pid":51,"start_ticks":81301},"engine":{"pid":53,"start_ticks":81304},"group":53,"sid":53,
//	 "port":18080,"boot":"5f0c…","host":"box","since_ns":1764529556000000000}
type Record struct {
	ID         string  `json:"id"`   // the mark
	What       string  `json:"what"` // "flow", "engine llama"
	Session    string  `json:"session,omitempty"`
	Flow       Process `json:"flow"`
	Supervisor Process `json:"supervisor,omitzero"`
	Engine     Process `json:"engine,omitzero"` // once it was started
	Group      int     `json:"group,omitempty"` // its process group
	SID        int     `json:"sid,omitempty"`   // its session, in the sense of the kernel
	Cgroup     string  `json:"cgroup,omitempty"`
	Port       int     `json:"port,omitempty"`
	Boot       string  `json:"boot,omitempty"`
	Host       string  `json:"host,omitempty"`
	Namespace  string  `json:"namespace,omitempty"` // of the pids: containers that share the folder count apart
	SinceNS    int64   `json:"since_ns"`            // wall clock

	FlowSID  int       `json:"flow_sid,omitempty"` // the session that flow was in, and its commands
	Adopters []Process `json:"adopters,omitempty"` // who may get what loses its parents: those above flow, outside its session
}

// run is the mark of the flow that a record is of.
func (r Record) run() string {
	id, _, _ := strings.Cut(r.ID, ".")
	return id
}

// Owner is one run of flow that starts processes. A nil Owner keeps no records; what is marked by it can
// still be found while flow lives.
type Owner struct {
	dir  string
	self Record
	now  func() int64
	file *os.File // the run's record, locked as long as flow lives
}

// Begin writes the record of this process and holds it until End or the process's end.
func Begin(dir, session string, now func() int64) (*Owner, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for range 50 {
		o, err := beginOnce(dir, session, now)
		// Another flow looked at the file in the instant between its making and its lock.
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, fs.ErrNotExist) {
			return o, err
		}
		time.Sleep(time.Millisecond)
	}
	return beginOnce(dir, session, now)
}

func beginOnce(dir, session string, now func() int64) (*Owner, error) {
	o := &Owner{dir: dir, now: now, self: Record{ID: word(6), What: "flow", Session: session, Flow: Self(), Boot: boot(), Host: host(), Namespace: namespace(), SinceNS: now()}}
	o.self.FlowSID, o.self.Adopters = origin()
	// Under another name until it is locked: a record that is not locked was left.
	path := o.path(o.self.ID)
	f, err := writeFile(path+".new", o.self)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close(), remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return nil, errors.Join(err, f.Close(), remove(path+".new"))
	}
	o.file = f
	return o, nil
}

// ID is the run's mark; "" of a nil Owner.
func (o *Owner) ID() string {
	if o == nil {
		return ""
	}
	return o.self.ID
}

// End takes the run's record away.
func (o *Owner) End() error {
	if o == nil || o.file == nil {
		return nil
	}
	err := remove(o.path(o.self.ID)) // before its lock goes, so that nobody takes it for left
	err = errors.Join(err, o.file.Close())
	o.file = nil
	return err
}

func (o *Owner) path(id string) string { return filepath.Join(o.dir, id+".json") }

// Held is something that runs and is flow's. Its methods may be called from several goroutines.
type Held struct {
	o  *Owner
	mu sync.Mutex
	r  Record
}

// Hold gives a mark for something that is about to be started.
func (o *Owner) Hold(what string) *Held {
	if o == nil {
		return &Held{r: Record{ID: word(6), What: what}}
	}
	r := o.self
	r.ID, r.What, r.SinceNS = o.self.ID+"."+word(3), what, o.now()
	return &Held{o: o, r: r}
}

// ID is the mark.
func (h *Held) ID() string { return h.r.ID }

// Keep writes the record as change makes it; the first time comes before anything is started. It does not wait
// for the disk: the death of flow loses nothing that was written, and that of the machine leaves nothing to find.
func (h *Held) Keep(change func(*Record)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.r)
	if h.o == nil {
		return nil
	}
	path := h.o.path(h.r.ID)
	f, err := writeFile(path+".new", h.r)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Rename(path+".new", path))
}

// Release takes the record away: it is proved that nothing is left.
func (h *Held) Release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.o == nil {
		return nil
	}
	return remove(h.o.path(h.r.ID))
}

// remove removes a file that may be gone already.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

type ownerKey struct{}

// With makes commands that are run with the context carry a mark below the owner's.
func With(ctx context.Context, o *Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// Of is the owner in a context; nil is a valid one.
func Of(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}

// Mark is an environment ("NAME=value") that carries a mark.
func Mark(env []string, id string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, Env+"=") })
	return append(env, Env+"="+id)
}

// carries reports whether a mark is that of id or below it.
func carries(mark, id string) bool {
	rest, ok := strings.CutPrefix(mark, id)
	return ok && id != "" && (rest == "" || rest[0] == '.')
}

func host() string {
	h, _ := os.Hostname()
	return h
}

// word is n random bytes in hexadecimal.
func word(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
