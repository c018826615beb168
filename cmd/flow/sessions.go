package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flow/db"
	"flow/workflows/record"
)

func newSessionsCommand(a *app) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the recorded sessions, newest first",
		Args:  workflowArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage("flow sessions", fmt.Sprintf("got a limit of %d, want 0 (all) or more", limit), "flow sessions --limit 0")
			}
			ctx := cmd.Context()
			d, err := db.OpenReadOnly(ctx, a.dbPath)
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			t, err := d.Query(ctx, `SELECT * FROM sessions ORDER BY wall_start_ns DESC`, nil, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSONRows(a.stdout, t)
			}
			if len(t.Rows) == 0 {
				fmt.Fprintf(a.stderr, "flow: %s has no sessions yet\n", a.dbPath)
				return nil
			}
			w := columns{head: []string{"id", "workflow", "started (UTC)", "status", "groups", "arms", "verdicts"}, right: []int{4, 5}, below: []int{6, 1}}
			live := runningHere()
			for i := range t.Rows {
				r := rowOf(t, i)
				id, _ := r["id"].(string)
				w.add(d.Short(ctx, id), cellText(r["workflow"]), minute(r["started"]), sessionState(r, live), cellText(r["groups"]), cellText(r["arms"]), verdictCounts(r))
			}
			_, err = fmt.Fprintln(a.stdout, strings.Join(w.lines(widthOf(a.stdout)), "\n"))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many; 0 is all")
	return cmd
}

// rowOf is a row by its columns' names.
func rowOf(t *record.Table, i int) map[string]any {
	m := make(map[string]any, len(t.Columns))
	for j, c := range t.Columns {
		m[c] = t.Rows[i][j]
	}
	return m
}

// minute is "2026-11-30 18:04" of "2026-11-30T18:04:05.123Z".
func minute(v any) string {
	s, _ := v.(string)
	if len(s) < 16 {
		return s
	}
	return s[:10] + " " + s[11:16]
}

// sessionState is the status now with what changes how to read it.
func sessionState(r map[string]any, live map[string]bool) string {
	s := statusNow(cellText(r["status"]), cellText(r["id"]), live)
	if r["measurer"] != record.MeasurerReal {
		s += ", " + cellText(r["measurer"])
	}
	if r["imported"] == int64(1) {
		s += ", imported"
	}
	if n, ok := r["resumed"].(int64); ok && n > 0 {
		s += ", resumed"
	}
	return s
}

// verdictCounts is "2 better, 1 worse" of the columns that are not 0.
func verdictCounts(r map[string]any) string {
	var parts []string
	for _, v := range []string{record.Better, record.Worse, record.Equivalent, record.Inconclusive, record.Invalid, record.Infeasible} {
		if n, ok := r[v].(int64); ok && n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(parts, ", ")
}

// completeIDs completes the ids of sessions, groups and arms. A shell asks often: any trouble is silence.
func completeIDs(a *app) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		d, err := db.OpenReadOnly(cmd.Context(), a.dbPath)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = d.Close() }()
		ids, kinds, err := d.IDs(cmd.Context(), prefix, 50)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		if strings.HasPrefix("last", prefix) {
			out = append(out, cobra.CompletionWithDesc("last", "the newest session that did something"))
		}
		for i, id := range ids {
			out = append(out, cobra.CompletionWithDesc(id, kinds[i]))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
