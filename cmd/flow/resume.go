package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"flow/cmd/flow/ui"
	"flow/db"
	"flow/starlark/diag"
	"flow/workflows/record"
)

func newResumeCommand(a *app) *cobra.Command {
	var file string
	var force bool
	var f runFlags
	cmd := &cobra.Command{
		Use:   "resume [SESSION]",
		Short: "Go on with a session that did not end",
		Long: `Run the workflow of a session again from the top: what it did already returns its recorded results, and
the first effect that is not done goes on for real. Finished blocks are kept; an unfinished block is redone
whole. Without SESSION the newest session that did not end goes on.

A changed workflow, engine, model or machine is named and refused. --force keeps the effects before the
first difference and runs everything after it anew; the cut is on record.`,
		Example:           "  flow resume\n  flow resume 0193 --workflow moved/stack-screen.star",
		Args:              workflowArgs(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeIDs(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) > 0 {
				id = args[0]
			}
			return resume(cmd.Context(), a, id, file, force, f)
		},
	}
	cmd.Flags().StringVar(&file, "workflow", "", "the workflow's file, when it was moved or renamed")
	cmd.Flags().BoolVar(&force, "force", false, "cut the journal at the first difference and run the rest anew")
	f.add(cmd)
	return cmd
}

func resume(ctx context.Context, a *app, id, file string, force bool, f runFlags) error {
	if _, err := os.Stat(a.dbPath); err != nil {
		return usage("resume", "no database "+a.dbPath, "name it with --db or FLOW_DB")
	}
	d, err := db.Open(ctx, a.dbPath)
	if err != nil {
		return err
	}
	defer d.Close()
	rs, err := sessionToResume(ctx, d, id)
	if err != nil {
		return err
	}
	if file == "" {
		file = filepath.Join(rs.Root, rs.Workflow)
		if _, err := os.Stat(file); err != nil {
			return usage("resume", fmt.Sprintf("the workflow of session %s is no longer at %s", rs.ID, file), "flow resume "+rs.ID+" --workflow FILE")
		}
	}
	live := ui.New(a.stdout, a.stderr, ui.Options{Quiet: f.quiet, JSON: f.json})
	defer live.Close()
	w, err := loadWorkflow(ctx, file, loadOptions{params: typed(rs.Params), print: printer(live)})
	if err != nil {
		return err
	}
	was := rs.Machine
	rs.Root, rs.Workflow = w.root, w.label
	r, err := open(ctx, a, w, rs, d, live, f)
	if err != nil {
		return err
	}
	defer r.close()
	r.force = force
	if was.ID != rs.Machine.ID && !force {
		return &diag.Error{Kind: diag.Workflow, Op: "resume", Msg: fmt.Sprintf("session %s ran on another machine (%s, this is %s)", rs.ID, was.Host, rs.Machine.Host),
			Fix: "resume it there, or run the workflow anew here"}
	}
	rs.Status, rs.Exit, rs.WallEndNS, rs.Error = "running", nil, nil, ""
	rs.Budget = nil // main says it anew, or none
	rs.Resumed++
	if err := d.ClaimSession(ctx, rs); err != nil {
		return err
	}
	return r.finish(ctx, r.act(ctx))
}

// sessionToResume is the named session, or the newest that did not end, does not run now and did something
// before: one that was refused at its first arm has nothing to go on with.
func sessionToResume(ctx context.Context, d *db.DB, id string) (*record.Session, error) {
	if id != "" {
		s, err := d.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		if s.Status == "done" {
			return nil, usage("resume", "session "+s.ID+" is done: there is nothing to go on with", "flow show "+s.ID)
		}
		if s.Imported {
			return nil, usage("resume", "session "+s.ID+" was imported: its workflow never ran here", "flow show "+s.ID)
		}
		return s, nil
	}
	ids, err := d.Resumable(ctx)
	if err != nil {
		return nil, err
	}
	live := runningHere()
	for _, id := range ids {
		if !live[id] {
			return d.Session(ctx, id)
		}
	}
	all, err := d.Sessions(ctx, 0)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(s *record.Session) bool { return s.Status != "done" && !s.Imported }) {
		return nil, usage("resume", "every session in "+d.Path()+" is done", "flow sessions")
	}
	return nil, usage("resume", "no session in "+d.Path()+" was stopped with something done", "flow sessions lists all; flow resume ID goes on with one of them")
}
