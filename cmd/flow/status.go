package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flow/builtins/machine"
	"flow/db"
)

// standing is a session as status shows it. Counts are nil where the session is in another database.
type standing struct {
	ID       string `json:"id"`
	Workflow string `json:"workflow"`
	Status   string `json:"status"` // running, stopped, failed, killed
	Since    string `json:"since"`  // RFC 3339, UTC: when this process began with it, or when the session did
	PID      *int   `json:"pid,omitempty"`
	User     string `json:"user,omitempty"`
	Group    string `json:"group,omitempty"` // the last that began
	Groups   *int   `json:"groups"`          // that ended
	Arms     *int   `json:"arms"`
	ArmsOK   *int   `json:"arms_ok"`
	Error    string `json:"error,omitempty"` // what ended it early

	short string // the beginning of the id that names it in the database
}

// runningHere are the sessions that run on this machine now.
func runningHere() map[string]bool {
	live := map[string]bool{}
	for _, h := range machine.Sessions("") {
		live[h.Session] = true
	}
	return live
}

// statusNow is a recorded status as it is now: what is on record as running and does not run was killed.
func statusNow(status, id string, live map[string]bool) string {
	if status == "running" && !live[id] {
		return "killed"
	}
	return status
}

func newStatusCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the sessions that run now, and those that can go on",
		Long: `Show the sessions that run on this machine, and those of the database that stopped early and can go on with
flow resume. Counts are of the database named by --db; a session that writes another one has none. What a flow
that was killed together with its supervisors has left running is named; the next flow run or resume ends it. A file among flow's records of what it started
that is none is named, too.`,
		Args: workflowArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			running, resumable, err := standings(cmd.Context(), a)
			if err != nil {
				return err
			}
			left, err := leftRunning()
			if err != nil {
				return err
			}
			if asJSON {
				runs, warnings := []string{}, []string{}
				for _, l := range left {
					if l.odd {
						warnings = append(warnings, l.words)
					} else {
						runs = append(runs, l.words)
					}
				}
				return json.NewEncoder(a.stdout).Encode(struct {
					Running   []standing `json:"running"`
					Resumable []standing `json:"resumable"`
					Left      []string   `json:"left_running"`
					Warnings  []string   `json:"warnings"`
				}{running, resumable, runs, warnings})
			}
			printStandings(a, "running", running, "nothing runs on this machine")
			printStandings(a, "can go on with flow resume", resumable, "")
			for _, l := range left {
				fmt.Fprintln(a.stdout, l.words+"; "+l.fix)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// standings are the sessions that run on this machine and those of the database that did not end.
func standings(ctx context.Context, a *app) (running, resumable []standing, err error) {
	running, resumable = []standing{}, []standing{}
	live := map[string]int{}
	for _, h := range machine.Sessions("") {
		live[h.Session] = len(running)
		running = append(running, standing{ID: h.Session, Workflow: h.Workflow, Status: "running", PID: &h.PID, User: h.User,
			Since: time.Unix(0, h.SinceNS).UTC().Format(time.RFC3339)})
	}
	if _, err := os.Stat(a.dbPath); err != nil {
		return running, resumable, nil
	}
	d, err := db.OpenReadOnly(ctx, a.dbPath)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = d.Close() }()
	ids, err := d.Resumable(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err := d.Query(ctx, `SELECT s.id, s.workflow, s.status, s.started, s.error, s.arms, s.arms_ok,
		(SELECT count(*) FROM groups g WHERE g.session_id = s.id AND g.verdict IS NOT NULL) AS ended,
		(SELECT g.name FROM groups g WHERE g.session_id = s.id ORDER BY g.position DESC LIMIT 1) AS last_group
		FROM sessions s WHERE s.status <> 'done' AND NOT s.imported ORDER BY s.wall_start_ns DESC`, nil, 0)
	if err != nil {
		return nil, nil, err
	}
	for i := range t.Rows {
		r := rowOf(t, i)
		s := standing{ID: cellText(r["id"]), Workflow: cellText(r["workflow"]), Status: cellText(r["status"]), Since: cellText(r["started"]),
			Groups: count(r["ended"]), Arms: count(r["arms"]), ArmsOK: count(r["arms_ok"])}
		s.Group, _ = r["last_group"].(string)
		s.Error, _ = r["error"].(string)
		s.short = d.Short(ctx, s.ID)
		if at, ok := live[s.ID]; ok {
			x := &running[at]
			x.short = s.short
			x.Group, x.Groups, x.Arms, x.ArmsOK = s.Group, s.Groups, s.Arms, s.ArmsOK
			continue
		}
		s.Status = statusNow(s.Status, s.ID, nil)
		if slices.Contains(ids, s.ID) {
			resumable = append(resumable, s)
		}
	}
	return running, resumable, nil
}

func count(v any) *int {
	n, ok := v.(int64)
	if !ok {
		return nil
	}
	i := int(n)
	return &i
}

func printStandings(a *app, title string, list []standing, none string) {
	if len(list) == 0 {
		if none != "" {
			fmt.Fprintln(a.stdout, none)
		}
		return
	}
	fmt.Fprintln(a.stdout, title+":")
	w := columns{head: []string{"session", "workflow", "status", "since (UTC)", "groups ended", "arms ok", "last group", "error"}, right: []int{4, 5}, below: []int{7, 6, 1}}
	for _, s := range list {
		groups, arms := "", ""
		if s.Groups != nil {
			groups, arms = fmt.Sprint(*s.Groups), fmt.Sprintf("%d/%d", *s.ArmsOK, *s.Arms)
		}
		how := s.Status
		if s.PID != nil {
			how += fmt.Sprintf(", pid %d", *s.PID)
		}
		w.add(cmp.Or(s.short, s.ID), s.Workflow, how, minute(s.Since), groups, arms, s.Group, s.Error)
	}
	fmt.Fprintln(a.stdout, strings.Join(w.lines(widthOf(a.stdout)), "\n"))
}
