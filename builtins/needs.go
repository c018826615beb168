// Package builtins is how a workflow says it: one family of builtins per file, one explicit catalog.
// How it is done lives in the packages below it, which know nothing of Starlark.
package builtins

import (
	"context"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Session is what `session` asks of the rest: every method is one effect. Groups that end invalid or
// infeasible are results; an error is a mistake in the workflow, in the machine, or a stop.
type Session interface {
	Run(ctx context.Context, groups []*plan.Group) ([]*record.Group, error)
	Query(ctx context.Context, sql string, params map[string]any) (*record.Table, error)
	// History is the finished comparisons of a lever, or of all levers when it is nil, on this machine,
	// newest first: columns lever, lever_hash, session, group_id, role, verdict, reason, effect, low, high,
	// stack (names of the base, "+"-joined), base (JSON list of the base's lever hashes), engine, workload, this_session (bool).
	History(ctx context.Context, scope HistoryScope) (*record.Table, error)
	Champion(ctx context.Context, e plan.Engine, w plan.Workload) (plan.Stack, error)
	Read(ctx context.Context, sensors []string) ([]record.Sample, error)
	WaitUntil(ctx context.Context, check plan.Check, code plan.Code, sensors []string, timeout time.Duration) (bool, error)
	Note(ctx context.Context, text string) error
	// Budget limits what the session's arms take together. It is no effect.
	Budget(ctx context.Context, b record.Budget) error
	// Replaying reports whether the next effect is answered from the journal: print stays silent then.
	Replaying() bool
}

// HistoryScope narrows History; nil fields match everything.
type HistoryScope struct {
	Lever    *plan.Lever
	Engine   *plan.Engine
	Workload *plan.Workload
}
