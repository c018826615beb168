package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"flow/db"
	"flow/starlark/diag"
	"flow/workflows/exchange"
	"flow/workflows/record"
)

func newExportCommand(a *app) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Write records in a format of the field",
		Long: `export writes what is on record of a session, a group or an arm to standard output:

  rows-jsonl    one JSON object a measured request, in the shape of strata-bench's rows; what was not measured
                is null, with the reason under null_reasons. Arms that do not count have rows too: those that
                count have disposition "ok" and purpose "measured"
  results-json  groups with their arms, medians, gains and pair deltas, in the shape of the argodrive campaigns'
                results; what was not measured is null, with the reason under null_reasons
  csv           one line a metric of an arm, with its case, unit, source and rule
  json          the records as they are
  gobench       Go benchmark text, which benchstat reads: benchstat -col /side FILE`,
		Example:           "  flow export last --format rows-jsonl > rows.jsonl\n  flow export last --format gobench | benchstat -col /side -",
		Args:              workflowArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: completeIDs(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := db.OpenReadOnly(cmd.Context(), a.dbPath)
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			s, groups, err := exported(cmd.Context(), d, args[0])
			if err != nil {
				return err
			}
			w := bufio.NewWriter(a.stdout)
			switch format {
			case "rows-jsonl":
				err = exportRows(cmd.Context(), d, w, a.stderr, s, groups)
			case "csv":
				err = exportCSV(w, groups)
			case "json":
				err = json.NewEncoder(w).Encode(map[string]any{"session": forJSON(s), "groups": groups})
			case "results-json":
				err = exchange.WriteResultsJSON(w, s, groups)
			case "gobench":
				err = exchange.WriteGoBench(w, s, groups)
			default:
				return usage("export", fmt.Sprintf("got format %q, want results-json, rows-jsonl, csv, json or gobench", format), "flow export "+args[0]+" --format rows-jsonl")
			}
			if err == nil {
				err = w.Flush()
			}
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "json", "results-json, rows-jsonl, csv, json or gobench")
	return cmd
}

// exported is the session of an id, with the groups and arms that the id names.
func exported(ctx context.Context, d *db.DB, ref string) (*record.Session, []*record.Group, error) {
	kind, id, err := d.Find(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	var groups []*record.Group
	switch kind {
	case "session":
		all, err := d.Groups(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		for _, g := range all { // with their requests
			whole, err := d.Group(ctx, g.ID)
			if err != nil {
				return nil, nil, err
			}
			groups = append(groups, whole)
		}
		s, err := d.Session(ctx, id)
		return s, groups, err
	case "group":
		g, err := d.Group(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		groups = append(groups, g)
	default:
		arm, err := d.Arm(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		g, err := d.Group(ctx, arm.GroupID)
		if err != nil {
			return nil, nil, err
		}
		g.Arms = []*record.Arm{arm}
		groups = append(groups, g)
	}
	s, err := d.Session(ctx, groups[0].SessionID)
	return s, groups, err
}

// exportRows writes the rows, and says to told what they do not show by themselves: that there are none, or that
// some are of arms that do not count.
func exportRows(ctx context.Context, d *db.DB, w, told io.Writer, s *record.Session, groups []*record.Group) error {
	rows, idle := 0, 0
	for _, g := range groups {
		files := map[string]string{}
		if g.Model != "" {
			files["model"] = g.Model
		}
		for _, a := range g.Arms {
			whole, err := d.Arm(ctx, a.ID)
			if err != nil {
				return err
			}
			if whole.Samples, err = d.Samples(ctx, a.ID, ""); err != nil {
				return err
			}
			for i := range whole.Requests {
				if t, err := d.Text(ctx, a.ID, whole.Requests[i].Index); err == nil {
					whole.Requests[i].Text = t
				}
			}
			engine := ""
			for _, side := range g.Sides {
				if side.Label == a.Label {
					engine = side.Engine
				}
			}
			if err := exchange.WriteRows(w, exchange.RowsInput{Session: s, Group: g, Arm: whole, Engine: engine, Files: files}); err != nil {
				return &diag.Error{Kind: diag.Machine, Op: "export", Err: err}
			}
			for _, r := range whole.Requests {
				if r.Mark == record.MarkMeasured {
					rows++
					if whole.Disposition != record.OK || whole.Purpose != "measured" {
						idle++
					}
				}
			}
		}
	}
	switch {
	case rows == 0:
		fmt.Fprintln(told, "flow: no rows: no arm of these has a measured request; --format csv has the metrics of arms")
	case idle > 0:
		fmt.Fprintf(told, "flow: %d of %s of arms that do not count: see disposition and purpose\n", idle, map[bool]string{true: "1 row is", false: fmt.Sprint(rows) + " rows are"}[rows == 1])
	}
	return nil
}

func exportCSV(w io.Writer, groups []*record.Group) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"group", "arm", "side", "block", "slot", "attempt", "disposition", "case", "metric", "value", "unit", "withheld", "why", "source", "rule"})
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	for _, g := range groups {
		for _, a := range g.Arms {
			for _, m := range a.Metrics {
				_ = out.Write([]string{g.Name, a.ID, a.Label, strconv.Itoa(a.Block), strconv.Itoa(a.Slot), strconv.Itoa(a.Attempt), a.Disposition, m.Case, m.Name,
					number(m.Value), m.Unit, number(m.Withheld), m.Why, m.Source, m.Rule})
			}
		}
	}
	out.Flush()
	return out.Error()
}
