package main

// Host settings that a flow which is gone has left changed: put back before anything is measured, and by
// `flow doctor --restore`, which needs no database.

import (
	"context"
	"encoding/json"
	"fmt"

	"flow/builtins/machine"
	"flow/workflows/record"
)

// putBack restores what processes that are gone have left changed on this host, and tells it. Where something
// cannot be put back nothing may be measured: the machine is not as its owner left it.
func (r *running) putBack(ctx context.Context) error {
	state, err := machine.StateDir()
	if err != nil {
		return err
	}
	left, err := machine.Settings{Proc: r.flags.proc, Sys: r.flags.sys, Undo: machine.UndoDir(state)}.RestoreLeft(ctx)
	for _, l := range left {
		r.live.Event(record.Event{Kind: "warning", Text: l.String()})
	}
	return err
}

// doctorRestore is `flow doctor --restore`.
func doctorRestore(ctx context.Context, a *app, proc, sys string, asJSON, giveUp bool) error {
	state, err := machine.StateDir()
	if err != nil {
		return err
	}
	left, err := machine.Settings{Proc: proc, Sys: sys, Undo: machine.UndoDir(state), GiveUp: giveUp}.RestoreLeft(ctx)
	if asJSON {
		if left == nil {
			left = []machine.Left{}
		}
		if jsonErr := json.NewEncoder(a.stdout).Encode(left); jsonErr != nil {
			return jsonErr
		}
		return err
	}
	for _, l := range left {
		fmt.Fprintln(a.stdout, l)
	}
	if err == nil && len(left) == 0 {
		fmt.Fprintln(a.stdout, "no setting of this machine was left changed")
	}
	return err
}
