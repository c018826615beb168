package run

// Memory keeps a session's records in memory: what flow check runs on, and tests.

import (
	"context"
	"slices"
	"sync"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// Memory is a Recorder and a Journal that forgets when the process ends. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	groups  []*record.Group
	arms    map[string][]*record.Arm
	effects map[int]*record.Effect
}

var (
	_ Recorder = (*Memory)(nil)
	_ Journal  = (*Memory)(nil)
)

// NewMemory is an empty one.
func NewMemory() *Memory {
	return &Memory{arms: map[string][]*record.Arm{}, effects: map[int]*record.Effect{}}
}

// BeginGroup keeps a group.
func (m *Memory) BeginGroup(_ context.Context, g *record.Group) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *g
	m.groups = append(m.groups, &c)
	return nil
}

// EndArm keeps an arm.
func (m *Memory) EndArm(_ context.Context, a *record.Arm) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arms[a.GroupID] = append(m.arms[a.GroupID], stored(a))
	return nil
}

func stored(a *record.Arm) *record.Arm {
	c := *a
	c.Group = nil
	return &c
}

// JudgeArm replaces what was found about an arm.
func (m *Memory) JudgeArm(_ context.Context, a *record.Arm) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	arms := m.arms[a.GroupID]
	for i, old := range arms {
		if old.ID == a.ID {
			arms[i] = stored(a)
		}
	}
	return nil
}

// EndGroup keeps a group's verdict.
func (m *Memory) EndGroup(_ context.Context, g *record.Group) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, old := range m.groups {
		if old.ID == g.ID {
			c := *g
			m.groups[i] = &c
		}
	}
	return nil
}

// Group gives a group with its arms.
func (m *Memory) Group(_ context.Context, id string) (*record.Group, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		if g.ID == id {
			c := *g
			c.Arms = slices.Clone(m.arms[id])
			return &c, nil
		}
	}
	return nil, nil
}

// Samples gives the samples of an arm.
func (m *Memory) Samples(_ context.Context, arm, sensor string) ([]record.Sample, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []record.Sample
	for _, arms := range m.arms {
		for _, a := range arms {
			for _, x := range a.Samples {
				if a.ID == arm && (sensor == "" || x.Sensor == sensor) {
					out = append(out, x)
				}
			}
		}
	}
	return out, nil
}

// Past gives finished groups, newest first.
func (m *Memory) Past(_ context.Context, sc Scope) ([]*record.Group, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*record.Group
	for _, g := range slices.Backward(m.groups) {
		if g.Verdict == "" || !matches(sc, g) {
			continue
		}
		c := *g
		c.Arms = slices.Clone(m.arms[g.ID])
		out = append(out, &c)
		if sc.Limit > 0 && len(out) == sc.Limit {
			break
		}
	}
	return out, nil
}

// matches leaves the machine and the measurer out: a Memory holds one session.
func matches(sc Scope, g *record.Group) bool {
	eq := func(want, got string) bool { return want == "" || want == got }
	if !eq(sc.Engine, g.Engine) || !eq(sc.Workload, g.Workload) || !eq(sc.Model, g.Model) || !eq(sc.Role, g.Role) || !eq(sc.Session, g.SessionID) {
		return false
	}
	if sc.Lever == "" {
		return true
	}
	return slices.ContainsFunc(g.Sides, func(s record.Side) bool {
		return !s.Control && slices.ContainsFunc(s.Stack, func(l record.Lever) bool { return l.Hash == sc.Lever })
	})
}

// Query has no SQL to answer with: it gives an empty table, so that a workflow that only looks at rows
// can be checked.
func (m *Memory) Query(context.Context, string, map[string]any, int) (*record.Table, error) {
	return &record.Table{Columns: []string{}, Rows: [][]any{}}, nil
}

// Spent adds up all arms: one session is kept.
func (m *Memory) Spent(context.Context, string) (record.Spent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sp record.Spent
	for _, arms := range m.arms {
		for _, a := range arms {
			Spend(&sp, a)
		}
	}
	return sp, nil
}

// Event is dropped.
func (m *Memory) Event(context.Context, string, record.Event) error { return nil }

// Effect gives a journaled effect, nil when there is none.
func (m *Memory) Effect(_ context.Context, _ string, i int) (*record.Effect, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.effects[i]; e != nil {
		c := *e
		return &c, nil
	}
	return nil, nil
}

// BeginEffect journals that an effect is under way.
func (m *Memory) BeginEffect(_ context.Context, _ string, e record.Effect) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.effects[e.Index] = &e
	return nil
}

// EndEffect journals an effect's result.
func (m *Memory) EndEffect(_ context.Context, _ string, i int, result []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.effects[i]
	if e == nil {
		return &diag.Error{Kind: diag.Bug, Op: "journal", Msg: "an effect ended that never began"}
	}
	e.Done, e.Result = true, result
	return nil
}

// Cut drops the effects from index on.
func (m *Memory) Cut(_ context.Context, _ string, index int, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.effects {
		if i >= index {
			delete(m.effects, i)
		}
	}
	return nil
}
