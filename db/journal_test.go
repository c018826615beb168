package db

import (
	"context"
	"slices"
	"testing"

	"flow/workflows/record"
)

func TestJournal(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	must(t, d.BeginSession(ctx, session("other", 1)))
	must(t, d.BeginEffect(ctx, "s", record.Effect{Index: 0, Op: "run", Hash: "h0", What: "parts"}))
	must(t, d.BeginEffect(ctx, "s", record.Effect{Index: 0, Op: "run", Hash: "h0", What: "parts", Refs: []string{"g1"}})) // more is known now
	e, err := d.Effect(ctx, "s", 0)
	must(t, err)
	same(t, "under way", e, record.Effect{Index: 0, Op: "run", Hash: "h0", What: "parts", Refs: []string{"g1"}})
	result := []byte(`{"verdict": "better",   "odd": "spaces stay"}`)
	must(t, d.EndEffect(ctx, "s", 0, result))
	if e, err = d.Effect(ctx, "s", 0); err != nil || !e.Done || string(e.Result) != string(result) {
		t.Errorf("done: got %+v, %v, want the bytes as given", e, err)
	}
	if err := d.BeginEffect(ctx, "s", record.Effect{Index: 0, Op: "note"}); err == nil {
		t.Error("a done effect began again")
	}
	if err := d.EndEffect(ctx, "s", 0, nil); err == nil {
		t.Error("a done effect ended again")
	}
	if err := d.EndEffect(ctx, "s", 5, nil); err == nil {
		t.Error("an effect ended that never began")
	}
	if err := d.BeginEffect(ctx, "nobody", record.Effect{}); err == nil {
		t.Error("an effect of no session")
	}
	if e, err := d.Effect(ctx, "other", 0); e != nil || err != nil {
		t.Errorf("another session: got %v, %v", e, err)
	}
}

// A cut forgets nothing, and its effects run anew.
func TestCut(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	for i := range 4 {
		must(t, d.BeginEffect(ctx, "s", record.Effect{Index: i, Op: "run", Hash: "old"}))
		must(t, d.EndEffect(ctx, "s", i, []byte(`"old"`)))
	}
	must(t, d.Cut(ctx, "s", 2, "the gate changed"))
	for i := range 4 {
		e, err := d.Effect(ctx, "s", i)
		if err != nil || (e != nil) != (i < 2) {
			t.Errorf("effect %d: got %v, %v", i, e, err)
		}
	}
	must(t, d.BeginEffect(ctx, "s", record.Effect{Index: 2, Op: "run", Hash: "new"}))
	must(t, d.EndEffect(ctx, "s", 2, []byte(`"new"`)))
	must(t, d.Cut(ctx, "s", 2, "again"))
	must(t, d.BeginEffect(ctx, "s", record.Effect{Index: 2, Op: "run", Hash: "newest"}))
	es, err := d.Effects(ctx, "s")
	must(t, err)
	if len(es) != 3 || es[2].Hash != "newest" || es[2].Done || es[1].Hash != "old" {
		t.Errorf("in force: got %+v", es)
	}
	rows(t, d, `select kind, text, detail, id from amendments`, [][]any{{"cut", "the gate changed", `{"effect":2}`, "s"}, {"cut", "again", `{"effect":2}`, "s"}})
	if n, err := list(d.writer, `select hash from t_effect where cut is not null order by key`); err != nil || len(n) != 3 {
		t.Errorf("cut effects: got %v, %v, want the 3 kept", n, err)
	}
}

// TestResumable: what was refused before anything was recorded is nothing to go on with.
func TestResumable(t *testing.T) {
	d, ctx := open(t), context.Background()
	begin := func(id string, start int64, status string) *record.Session {
		s := &record.Session{ID: id, Workflow: "w.star", Status: "running", Measurer: record.MeasurerReal, Machine: record.Machine{ID: "m", Host: "h"}, WallStartNS: start}
		must(t, d.BeginSession(ctx, s))
		if status != "running" {
			s.Status = status
			must(t, d.EndSession(ctx, s))
		}
		return s
	}
	effect := func(id string, done bool) {
		must(t, d.BeginEffect(ctx, id, record.Effect{Op: "session.note", Hash: "h", What: "w"}))
		if done {
			must(t, d.EndEffect(ctx, id, 0, []byte("null")))
		}
	}
	begin("killed", 1, "running")
	s := begin("noted", 2, "running")
	effect("noted", true)
	s.Status = "stopped"
	must(t, d.EndSession(ctx, s))
	s = begin("refused", 3, "running")
	effect("refused", false)
	s.Status = "failed"
	must(t, d.EndSession(ctx, s))
	begin("typo", 4, "failed")
	begin("over", 5, "done")
	got, err := d.Resumable(ctx)
	if err != nil || !slices.Equal(got, []string{"noted", "killed"}) {
		t.Errorf("got %q, %v, want noted and killed", got, err)
	}
	for id, want := range map[string]bool{"noted": true, "refused": false, "typo": false, "killed": false} {
		if got, err := d.Recorded(ctx, id); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", id, got, err, want)
		}
	}
}
