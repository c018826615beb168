package run

// Session answers what a workflow asks: every method is one journaled effect. An effect that the journal
// already holds returns its recorded result; the first undone one goes on for real.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Config is what a session runs with. Recorder, Journal and Measurer are required.
type Config struct {
	Session  *record.Session
	Clock    Clock
	Measurer Measurer
	Recorder Recorder
	Journal  Journal
	Watcher  Watcher                                          // nil: nobody watches
	Sleep    func(ctx context.Context, d time.Duration) error // nil: real time
	NewID    func() string                                    // nil: UUIDv7
	Force    string                                           // a verdict that every group is given; only for check
	ForceCut bool                                             // resume --force: cut the journal at the first difference
}

// Session is a running session. It is used by one goroutine: a workflow is sequential.
type Session struct {
	Config
	next      int             // index of the next effect
	groups    int             // groups so far, replayed ones included
	armsRun   int             // arms so far in logical time: superseded ones do not count
	again     map[string]bool // groups whose gates were mended: what is on record is judged again
	spent     *record.Spent   // of the session's budget; nil without one
	started   map[string]bool // engines (by hash) that were ready once in this session
	launchFix string          // what the last failed launch said would help

	incident *incident // of an earlier group, and not over yet
}

// QueryLimit is the most rows that a workflow may get from one query: results are journaled.
const QueryLimit = 10_000

// NewSession prepares a session; nothing is touched yet.
func NewSession(c Config) *Session {
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.NewID == nil {
		c.NewID = func() string { return uuid.Must(uuid.NewV7()).String() }
	}
	c.Recorder = brief{c.Recorder}
	return &Session{Config: c, started: map[string]bool{}, again: map[string]bool{}}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Effects is how many effects the workflow asked for so far.
func (s *Session) Effects() int { return s.next }

// Replaying reports whether the next effect is answered from the journal.
func (s *Session) Replaying() bool {
	e, err := s.Journal.Effect(context.Background(), s.Session.ID, s.next)
	return err == nil && e != nil && e.Done
}

// effect runs do once in the life of the session, and fills out with its journaled result. hash is of
// what is asked; parts names its parts for the refusal when a resumed workflow asks something else. do
// gets the references that an interrupted attempt left, and a function that records new ones.
func (s *Session) effect(ctx context.Context, op, hash, parts string, out any, do func(refs []string, keep func([]string) error) (any, error)) error {
	index := s.next
	s.next++
	e, err := s.Journal.Effect(ctx, s.Session.ID, index)
	if err != nil {
		return err
	}
	mended, err := s.mended(ctx, e, op, hash, parts)
	if err != nil {
		return err
	}
	if mended {
		e.Hash, e.What = hash, parts
		if err := s.Journal.BeginEffect(ctx, s.Session.ID, *e); err != nil {
			return err
		}
	}
	if e != nil && (e.Op != op || e.Hash != hash) {
		if !s.ForceCut {
			return changed(s.Session.ID, e, op, parts)
		}
		why := fmt.Sprintf("effect %d (%s) asks something else than the recorded %s", index+1, op, e.Op)
		if err := s.Journal.Cut(ctx, s.Session.ID, index, why); err != nil {
			return err
		}
		s.event(record.Event{Kind: "warning", Text: "journal cut: " + why})
		e = nil
	}
	if e != nil && e.Done {
		return json.Unmarshal(e.Result, out)
	}
	var refs []string
	now := record.Effect{Index: index, Op: op, Hash: hash, What: parts}
	if e != nil {
		refs = e.Refs
	} else if err := s.Journal.BeginEffect(ctx, s.Session.ID, now); err != nil {
		return err
	}
	keep := func(r []string) error {
		now.Refs = r
		return s.Journal.BeginEffect(ctx, s.Session.ID, now)
	}
	res, err := do(refs, keep)
	if err != nil {
		return err
	}
	b, err := json.Marshal(res)
	if err != nil {
		return &diag.Error{Kind: diag.Bug, Op: op, Msg: "result has no JSON", Err: err}
	}
	if err := s.Journal.EndEffect(context.WithoutCancel(ctx), s.Session.ID, index, b); err != nil {
		return err
	}
	// The workflow sees what a resumed one will see: the journaled form.
	return json.Unmarshal(b, out)
}

// mended reports whether an unfinished run differs from the recorded one in nothing but gates and stops whose
// functions failed: that is the mistake which ended the session, put right. What is on record is judged
// again by the new functions, so the change is no reason to refuse.
func (s *Session) mended(ctx context.Context, e *record.Effect, op, hash, parts string) (bool, error) {
	if e == nil || e.Done || e.Op != op || e.Hash == hash || len(e.Refs) == 0 {
		return false, nil
	}
	failed := map[string]bool{}
	for _, id := range e.Refs {
		g, err := s.Recorder.Group(ctx, id)
		if err != nil {
			return false, err
		}
		if g == nil || g.Verdict != "" {
			continue
		}
		for _, a := range g.Arms {
			for _, f := range a.Findings {
				switch {
				case f.Error == "":
				case f.Phase == phaseStop:
					failed["stop "+f.Gate+" changed"] = true
				default:
					failed["gate "+f.Gate+" changed"] = true
				}
			}
		}
	}
	diff := plan.Changed(e.What, parts)
	for _, d := range diff {
		if !failed[d] {
			return false, nil
		}
	}
	if len(diff) == 0 {
		return false, nil
	}
	for _, id := range e.Refs {
		s.again[id] = true
	}
	s.event(record.Event{Kind: "warning", Text: strings.Join(diff, "; ") + ", and its function had failed: the arms on record are judged again"})
	return true, nil
}

// changed is the refusal to resume: it names what differs.
func changed(session string, e *record.Effect, op, parts string) error {
	msg := fmt.Sprintf("effect %d was %s, and now is %s", e.Index+1, e.Op, op)
	if e.Op == op {
		diff := plan.Changed(e.What, parts)
		if len(diff) == 0 {
			diff = []string{"what it asks"}
		}
		msg = fmt.Sprintf("effect %d, %s, is not what was recorded: %s", e.Index+1, op, strings.Join(diff, "; "))
	}
	return &diag.Error{Kind: diag.Workflow, Op: "resume", Msg: msg,
		Fix: fmt.Sprintf("put it back as it was, or run `flow resume %s --force`: it keeps the effects before this one and runs everything after it anew", session)}
}

// Run executes groups one after the other and gives what the workflow may see of them.
func (s *Session) Run(ctx context.Context, groups []*plan.Group) ([]*record.Group, error) {
	first := s.groups
	s.groups += len(groups)
	res := make([]*plan.Resolution, len(groups))
	hashes := make([]string, len(groups))
	var parts []json.RawMessage
	groups = slices.Clone(groups)
	for i, g := range groups {
		g = g.Fixed()
		groups[i] = g
		r, err := g.Resolve(ctx, s.Measurer.Digests())
		if err != nil {
			return nil, err
		}
		res[i], hashes[i] = r, r.Hash
		parts = append(parts, json.RawMessage(r.Parts))
	}
	what := flatten(parts)
	replayed := true
	var out []*record.Group
	err := s.effect(ctx, "run", plan.Sum(hashes), what, &out, func(refs []string, keep func([]string) error) (any, error) {
		if len(refs) != len(groups) {
			refs = make([]string, len(groups))
			for i := range refs {
				refs[i] = s.NewID()
			}
			if err := keep(refs); err != nil {
				return nil, err
			}
		}
		replayed = false
		done := make([]*record.Group, len(groups))
		for i, g := range groups {
			r, err := s.runGroup(ctx, g, res[i], refs[i], first+i, logicalArms(s.armsRun, done[:i]))
			if err != nil {
				return nil, inGroup(g, err)
			}
			done[i] = seen(r)
			s.incidentIn(g, done[i])
		}
		return done, nil
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		for i, g := range out {
			s.incidentIn(groups[i], g)
		}
	}
	s.armsRun = logicalArms(s.armsRun, out)
	return out, nil
}

// logicalArms adds the arms of finished groups to a count, superseded ones left out, so that a resumed
// session is at the same place in time as an uninterrupted one.
func logicalArms(n int, groups []*record.Group) int {
	for _, g := range groups {
		for _, a := range g.Arms {
			if a.Disposition != record.Superseded && a.Disposition != record.Interrupted {
				n++
			}
		}
	}
	return n
}

// flatten joins the part lists of several groups.
func flatten(lists []json.RawMessage) string {
	var all []json.RawMessage
	for _, l := range lists {
		var ps []json.RawMessage
		if json.Unmarshal(l, &ps) == nil {
			all = append(all, ps...)
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return "[]"
	}
	return string(b)
}

// inGroup names the group of an error that comes out of it, keeping its kind and place.
func inGroup(g *plan.Group, err error) error {
	var d *diag.Error
	if errors.As(err, &d) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("group %q: %w", g.Name, err)
}

// seen is a group as a workflow sees it: verdict, comparisons, and arms with their metrics, evidence and
// findings. Deeper facts are asked for by query, so that every result fits into the journal.
func seen(g *record.Group) *record.Group {
	c := *g
	c.Arms = make([]*record.Arm, len(g.Arms))
	for i, a := range g.Arms {
		b := *a
		b.Requests, b.Samples, b.Steps, b.Group = nil, nil, nil, nil
		if a.Process != nil {
			p := *a.Process
			p.Log, p.Env = "", nil
			b.Process = &p
		}
		c.Arms[i] = &b
	}
	return &c
}

// seed derives the seed of the group of that index from the session's.
func seed(session uint64, index int) uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], session)
	binary.BigEndian.PutUint64(b[8:], uint64(index))
	h := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(h[:8])
}

// Query answers SQL over the public views.
func (s *Session) Query(ctx context.Context, sql string, params map[string]any) (*record.Table, error) {
	var out *record.Table
	err := s.effect(ctx, "query", plan.Sum([]any{sql, params}), "", &out, func([]string, func([]string) error) (any, error) {
		return s.Recorder.Query(ctx, sql, params, QueryLimit)
	})
	return numbers(out), err
}

// numbers puts whole float64 values of a decoded table back to int64: JSON has one kind of number.
func numbers(t *record.Table) *record.Table {
	if t == nil {
		return nil
	}
	for _, r := range t.Rows {
		for i, v := range r {
			if f, ok := v.(float64); ok && f == float64(int64(f)) && f < 1<<53 && f > -(1<<53) {
				r[i] = int64(f)
			}
		}
	}
	return t
}

// Read takes one sample of each named sensor now.
func (s *Session) Read(ctx context.Context, sensors []string) ([]record.Sample, error) {
	var out []record.Sample
	err := s.effect(ctx, "read", plan.Sum(sensors), "", &out, func([]string, func([]string) error) (any, error) {
		return s.Measurer.Read(ctx, sensors)
	})
	return out, err
}

// waitEvery is how often WaitUntil looks.
const waitEvery = 500 * time.Millisecond

// WaitUntil looks at sensors until check finds pass; false when the timeout came first.
func (s *Session) WaitUntil(ctx context.Context, check plan.Check, code plan.Code, sensors []string, timeout time.Duration) (bool, error) {
	fp := ""
	if code.Fingerprint != nil {
		var err error
		if fp, err = code.Fingerprint(); err != nil {
			return false, err
		}
	}
	var out bool
	err := s.effect(ctx, "wait_until", plan.Sum([]any{fp, sensors, timeout}), "", &out, func([]string, func([]string) error) (any, error) {
		began := s.Clock.Mono()
		a := &record.Arm{MonoStartNS: began, Group: &record.Group{}}
		for waited := time.Duration(0); ; waited += waitEvery {
			now, err := s.readNow(ctx, a, sensors)
			if err != nil {
				return nil, err
			}
			a.Samples = append(a.Samples, now...)
			a.MonoEndNS = s.Clock.Mono()
			f, err := check(ctx, a)
			if err != nil {
				return nil, err
			}
			if f.Outcome == record.Pass {
				return true, nil
			}
			if waited >= timeout || time.Duration(a.MonoEndNS-began) >= timeout {
				return false, nil
			}
			if err := s.Sleep(ctx, waitEvery); err != nil {
				return nil, err
			}
		}
	})
	return out, err
}

// Note keeps a sentence with the session.
func (s *Session) Note(ctx context.Context, text string) error {
	var out bool
	return s.effect(ctx, "note", plan.Sum(text), "", &out, func([]string, func([]string) error) (any, error) {
		s.event(record.Event{Kind: "note", Text: text})
		return true, nil
	})
}

// event tells whoever watches, and keeps the event; keeping is best effort, because an event is no fact.
func (s *Session) event(e record.Event) {
	if s.Clock.Wall != nil {
		e.WallNS = s.Clock.Wall()
	}
	if s.Watcher != nil {
		s.Watcher.Event(e)
	}
	if e.Kind == "warning" || e.Kind == "note" || strings.HasPrefix(e.Kind, "group.") {
		_ = s.Recorder.Event(context.Background(), s.Session.ID, e)
	}
}
