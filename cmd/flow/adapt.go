package main

// Where interfaces of different packages meet: db as the runner's recorder and journal, and the runner as
// what `session` asks of.

import (
	"context"

	"flow/builtins"
	"flow/db"
	"flow/workflows/record"
	"flow/workflows/run"
)

// recorder is db as run wants it: the scope is the same list of fields under another name.
type recorder struct{ *db.DB }

var (
	_ run.Recorder = recorder{}
	_ run.Journal  = recorder{}
)

func (r recorder) Past(ctx context.Context, s run.Scope) ([]*record.Group, error) {
	return r.DB.Past(ctx, db.Scope(s))
}

// session is the runner as builtins wants it.
type session struct{ *run.Session }

var _ builtins.Session = session{}

func (s session) History(ctx context.Context, h builtins.HistoryScope) (*record.Table, error) {
	return s.Session.History(ctx, h.Lever, h.Engine, h.Workload)
}
