package main

// What flows that are gone have left running: named by status and doctor, ended before anything is measured.

import (
	"context"
	"fmt"
	"strings"

	"flow/builtins/machine"
	"flow/builtins/owner"
	"flow/starlark/diag"
	"flow/workflows/record"
)

// found is something in flow's records that wants a look, in words.
type found struct {
	words, fix string
	odd        bool // a file, and nothing that runs
}

// leftRunning is what still runs of flows that are gone, and what stands in the folder of records and is none;
// nothing is ended.
func leftRunning() ([]found, error) {
	state, err := machine.StateDir()
	if err != nil {
		return nil, nil // no flow of this user could keep a record
	}
	left, err := owner.Look(owner.Dir(state))
	if err != nil {
		return nil, ownerError(err)
	}
	var out []found
	for _, l := range left {
		f := found{words: l.String(), fix: "the next flow run or flow resume ends it"}
		if l.Suspect {
			f.fix = "flow leaves it alone; end it by hand if it is not yours"
		}
		out = append(out, f)
	}
	odd, err := owner.Odd(owner.Dir(state))
	if err != nil {
		return nil, ownerError(err)
	}
	for _, words := range odd {
		out = append(out, found{words: words, fix: "remove it: nothing is found by it", odd: true})
	}
	return out, nil
}

// own ends what flows that are gone have left, tells it, removes their temporary folders, and puts this
// session on record as the owner of what it is about to start. What cannot be ended would be measured along.
func (r *running) own(ctx context.Context) error {
	state, err := machine.StateDir()
	if err != nil {
		return err
	}
	left, err := owner.EndLeft(ctx, owner.Dir(state))
	var remain []string
	for _, l := range left {
		how := "; it was ended"
		switch {
		case l.Suspect:
			how = "; it was left alone"
		case len(l.Remain) > 0:
			how = "; it could not be ended"
			remain = append(remain, l.Remain...)
		}
		r.live.Event(record.Event{Kind: "warning", Text: l.String() + how})
	}
	if err != nil {
		return ownerError(err)
	}
	if len(remain) > 0 {
		return &diag.Error{Kind: diag.Machine, Op: "left running", Msg: strings.Join(remain, ", ") + " cannot be ended", Fix: "end it by hand before measuring, then run this again"}
	}
	if r.owner, err = owner.Begin(owner.Dir(state), r.rs.ID, machine.Wall); err != nil {
		return ownerError(err)
	}
	removed, err := owner.RemoveFolders(owner.Dir(state), "")
	if err != nil {
		r.live.Event(record.Event{Kind: "warning", Text: err.Error()})
	}
	if n := len(removed); n > 0 {
		r.live.Event(record.Event{Kind: "note", Text: fmt.Sprintf("removed %d temporary folders of flows that are gone: %s", n, strings.Join(removed, ", "))})
	}
	return nil
}

// ownerError is a state folder in which nothing can be kept.
func ownerError(err error) error {
	return &diag.Error{Kind: diag.Machine, Op: "record of what is started", Err: err,
		Fix: "free some disk space, or set XDG_STATE_HOME to a folder that can be written: without a record nothing is started"}
}
