// Package run is the state machine over groups, blocks and arms. It asks for everything it cannot do
// itself through the interfaces of this file, so that it runs the same on the real measurer, on the
// simulated one and on recorded arms, and so that every step can be tested with a scripted machine.
package run

import (
	"context"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Clock is the time of a session. Both count nanoseconds: Mono on the monotonic clock of the machine,
// Wall since the Unix epoch.
type Clock struct {
	Mono func() int64
	Wall func() int64
}

// Task is one arm to be measured.
type Task struct {
	SessionID string
	GroupID   string
	ArmID     string
	Group     *plan.Group
	GroupSeed uint64
	Side      plan.Side
	Levers    []plan.Lever // whose evidence is read: every lever of the group
	Block     int          // -1 for a warm or probe arm
	Slot      int
	Attempt   int
	Seq       int // arms of the session before this one
	Purpose   string
	Sensors   []string            // that gates, guards and metrics need; a trailing * matches
	OnSample  func(record.Sample) // called from the sampler's goroutine; must not block
}

// Measurer is what arms are measured with: the real machine, the simulated one, or recorded arms.
type Measurer interface {
	// Digests says what files and binaries are, for resolved hashes.
	Digests() plan.Digests
	// Machine is the identity of what is measured on.
	Machine(ctx context.Context) (record.Machine, error)
	// Sensors lists what can be sampled, and why the rest cannot.
	Sensors(ctx context.Context) ([]record.Sensor, error)
	// Read takes one sample of each named sensor now, outside an arm.
	Read(ctx context.Context, sensors []string) ([]record.Sample, error)
	// Open takes the resources of an arm (locks, sampler with a first value from every needed sensor).
	// An error is a diag.Error of kind Machine, naming the sensor or the holder of a lock.
	Open(ctx context.Context, t Task) (Rig, error)
	// Close releases what the session held.
	Close() error
}

// Historian is a measurer that stands for a machine with a past: groups that count as measured before the
// session, for a group that is about to begin. Only the simulated one does.
type Historian interface {
	Past(g *plan.Group, seed uint64) []*record.Group
}

// Knower is a measurer that knows the group whose arms a group is given: what was known of the noise then, and
// the seed of its order. nil is none. Only the recorded one does.
type Knower interface {
	Known(g *plan.Group, id string) *record.Group
}

// NotRecorded is what Open of a recorded measurer answers where a group's arms are there and none stands at the
// place that is asked for.
type NotRecorded struct{ Err error }

func (e *NotRecorded) Error() string { return e.Err.Error() }

// Unwrap gives what a user is told.
func (e *NotRecorded) Unwrap() error { return e.Err }

// Rig is the machine made ready for one arm.
type Rig interface {
	// Samples are those since Open, in time, up to now.
	Samples() []record.Sample
	// Mark opens a step on the timeline (settle, launch, warm, measure, stop); the one before ends.
	Mark(step string)
	// Launch starts (or attaches to) the side's engine and waits until it is ready. A failure is a
	// *LaunchError.
	Launch(ctx context.Context, e plan.Engine) (plan.Process, error)
	// Close ends what Launch started, stops the sampler, releases the locks and fills the facts into a:
	// Process, Requests (with their values), Samples, Steps, Metrics, Evidence, Neighbours. It works after
	// any failure and with a cancelled ctx, and is called exactly once. Metrics that the body recorded
	// are already in a and stay.
	Close(ctx context.Context, a *record.Arm) error
}

// LaunchError is an engine that did not become ready. Permanent says that it would die the same way every
// time: no such file, unknown flag, exit before ready with the same words.
type LaunchError struct {
	Reason    string
	Permanent bool
	LogTail   string
	Err       error
}

func (e *LaunchError) Error() string {
	if e.Err != nil {
		return e.Reason + ": " + e.Err.Error()
	}
	return e.Reason
}

// Unwrap gives the cause.
func (e *LaunchError) Unwrap() error { return e.Err }

// Recorder keeps facts. Every method returns only when what it was given is durable.
type Recorder interface {
	BeginGroup(ctx context.Context, g *record.Group) error
	// EndArm keeps an arm before its after-gates are judged.
	EndArm(ctx context.Context, a *record.Arm) error
	// JudgeArm keeps what was found about a kept arm: Disposition, Reason, Findings.
	JudgeArm(ctx context.Context, a *record.Arm) error
	EndGroup(ctx context.Context, g *record.Group) error
	// Group gives a group with all its arms (no samples, no completion texts), or nil when there is none.
	Group(ctx context.Context, id string) (*record.Group, error)
	// Samples gives the samples of an arm in time; "" is every sensor.
	Samples(ctx context.Context, arm, sensor string) ([]record.Sample, error)
	// Past gives finished groups of earlier and of this session that used the same machine, without arms'
	// requests; newest first. Empty fields of the scope match everything.
	Past(ctx context.Context, scope Scope) ([]*record.Group, error)
	// Spent is what the arms of a session took so far: every attempt, also of groups that the journal was cut of.
	Spent(ctx context.Context, session string) (record.Spent, error)
	// Query answers SQL over the public views, read-only, at most limit rows.
	Query(ctx context.Context, sql string, params map[string]any, limit int) (*record.Table, error)
	Event(ctx context.Context, session string, e record.Event) error
}

// Scope narrows Past. Hashes as in record.Group.
type Scope struct {
	Machine  string // record.Machine.ID
	Engine   string
	Workload string
	Model    string
	Role     string
	Lever    string // record.Lever.Hash, on any side but the control
	Session  string // only this session
	Measurer string // real, simulated or recorded: they never mix
	Limit    int    // 0 is no limit
}

// Journal keeps the effects of a workflow, so that a resumed session sees the same results.
type Journal interface {
	// Effect is the recorded effect of that index, nil when there is none.
	Effect(ctx context.Context, session string, index int) (*record.Effect, error)
	BeginEffect(ctx context.Context, session string, e record.Effect) error
	EndEffect(ctx context.Context, session string, index int, result []byte) error
	// Cut forgets nothing: it marks the effects from index on as cut, with the reason, so that they run anew.
	Cut(ctx context.Context, session string, index int, why string) error
}

// Watcher is told what goes on. It must not block an arm.
type Watcher interface {
	Event(record.Event)
}
