package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flow/builtins/machine"
	"flow/db"
	"flow/starlark/diag"
)

func newStopCommand(a *app) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "stop SESSION",
		Short: "End a session that runs, as Ctrl-C does",
		Long: `Interrupt the flow that runs a session: the running arm is ended and recorded as interrupted, its engine is
gone, and the session can go on with flow resume. SESSION is an id or its beginning, as flow status shows it, or
"last" for the session that began to run last.`,
		Example:           "  flow status\n  flow stop 0193a1\n  flow stop last",
		Args:              workflowArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: runningSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := findRunning(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			if err := interrupt(cmd.Context(), h, timeout); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(map[string]any{"session": h.Session, "pid": h.PID, "stopped": true})
			}
			fmt.Fprintf(a.stdout, "session %s is stopped; go on with: flow resume %s\n", h.Session, h.Session)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait until it has ended")
	return cmd
}

// runningSessions completes the ids of sessions that run.
func runningSessions(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if len(args) == 0 {
		for _, h := range machine.Sessions("") {
			out = append(out, cobra.CompletionWithDesc(h.Session, h.Workflow))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// findRunning is the holder of the session that ref names.
func findRunning(ctx context.Context, a *app, ref string) (machine.Holder, error) {
	var found []machine.Holder
	all := machine.Sessions("")
	if n := len(all); ref == "last" && n > 0 {
		return all[n-1], nil
	}
	for _, h := range all {
		if ref != "" && strings.HasPrefix(h.Session, ref) {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return machine.Holder{}, notRunning(ctx, a, ref)
	}
	var ids []string
	for _, h := range found {
		ids = append(ids, h.Session+" ("+h.Workflow+")")
	}
	return machine.Holder{}, usage("stop", fmt.Sprintf("got %q, which begins several sessions that run", ref), "use one of\n"+strings.Join(ids, "\n"))
}

// notRunning says what a session that does not run is instead.
func notRunning(ctx context.Context, a *app, ref string) error {
	none := usage("stop", fmt.Sprintf("no session %q runs on this machine", ref), "flow status")
	if _, err := os.Stat(a.dbPath); err != nil {
		return none
	}
	d, err := db.OpenReadOnly(ctx, a.dbPath)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	s, err := d.Session(ctx, ref)
	switch {
	case err != nil:
		return none
	case s.Status == "done":
		return usage("stop", fmt.Sprintf("session %s does not run: it is done", s.ID), "flow show "+s.ID)
	}
	how := s.Status
	if how == "running" {
		how = "killed, or is on another machine"
	}
	return usage("stop", fmt.Sprintf("session %s does not run: it was %s", s.ID, how), "flow resume "+s.ID)
}

// interrupt asks the holder to end and waits until it has.
func interrupt(ctx context.Context, h machine.Holder, timeout time.Duration) error {
	if !h.Here() {
		return &diag.Error{Kind: diag.Machine, Op: "stop", Msg: fmt.Sprintf("session %s runs in another container (%s)", h.Session, h),
			Fix: "run flow stop there"}
	}
	if err := syscall.Kill(h.PID, syscall.SIGINT); err != nil {
		return &diag.Error{Kind: diag.Machine, Op: "stop", Msg: fmt.Sprintf("cannot signal %s", h), Err: err,
			Fix: "ask user " + h.User + " to stop it"}
	}
	const look = 50 * time.Millisecond
	for end := machine.Monotonic() + int64(timeout); machine.Monotonic() < end; {
		if err := machine.Settle(ctx, look, nil); err != nil {
			return err
		}
		runs := false
		for _, x := range machine.Sessions("") {
			runs = runs || x.Session == h.Session
		}
		if !runs {
			return nil
		}
	}
	return &diag.Error{Kind: diag.Machine, Op: "stop", Msg: fmt.Sprintf("session %s was interrupted and is still ending after %s", h.Session, timeout),
		Fix: fmt.Sprintf("wait with a longer --timeout, or end it at once: kill -INT %d", h.PID)}
}
