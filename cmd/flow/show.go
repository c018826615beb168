package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"flow/builtins/gate"
	"flow/builtins/metric"
	"flow/cmd/flow/ui"
	"flow/db"
	"flow/starlark/diag"
	"flow/workflows/record"
	"flow/workflows/report"
)

func newShowCommand(a *app) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a session, a group or an arm",
		Long: `show prints what is on record of a session (its groups and verdicts), a group (its arms, what failed and
the comparisons) or an arm (requests, metrics, findings, evidence, steps and the end of the engine's log).
ID is an id, the beginning of one, or "last" for the newest session, those left out that failed before
they did anything.`,
		Example:           "  flow show last\n  flow show 0192f0c4-77",
		Args:              workflowArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: completeIDs(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			d, err := db.OpenReadOnly(ctx, a.dbPath)
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			kind, id, err := d.Find(ctx, args[0])
			if err != nil {
				return err
			}
			s := shower{ctx: ctx, d: d, w: a.stdout, asJSON: asJSON, all: all, width: widthOf(a.stdout)}
			switch kind {
			case "session":
				err = s.session(id)
			case "group":
				err = s.group(id)
			default:
				err = s.arm(id)
			}
			if err == nil && s.err != nil {
				err = &diag.Error{Kind: diag.Machine, Op: "flow show", Msg: "standard output", Err: s.err}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the records as they are")
	cmd.Flags().BoolVar(&all, "all", false, "of an arm, show metrics by the definitions of other tools as well, and the rules of all")
	return cmd
}

// shower prints records for people.
type shower struct {
	ctx    context.Context
	d      *db.DB
	w      io.Writer
	asJSON bool
	all    bool // metrics by the definitions of other tools, too, and rules
	width  int
	err    error // the first error of w
}

func (s *shower) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = io.WriteString(s.w, ui.Clean(fmt.Sprintf(format, args...), 0)+"\n")
	}
}

// para is a line that may be long.
func (s *shower) para(format string, args ...any) {
	for _, l := range hanging("  ", cellText(fmt.Sprintf(format, args...)), s.width) {
		s.line("%s", l)
	}
}

// rows prints a titled table, or nothing when it is empty. Numbers are given as text already.
func (s *shower) rows(title string, t columns) {
	if len(t.rows) == 0 {
		return
	}
	for _, r := range t.rows {
		for i := range r {
			r[i] = shorten(cellText(r[i]), maxCell)
		}
	}
	s.line("\n%s", title)
	for _, l := range t.lines(s.width - 2) {
		s.line("  %s", l)
	}
}

// maxCell is how much of a text a table shows; --json has all of it.
const maxCell = 400

// session shows a session and its groups.
func (s *shower) session(id string) error {
	ses, err := s.d.Session(s.ctx, id)
	if err != nil {
		return err
	}
	groups, err := s.d.Groups(s.ctx, id)
	if err != nil {
		return err
	}
	if s.asJSON {
		return indentedJSON(s.w, struct {
			Session sessionJSON       `json:"session"`
			Groups  []*record.Group   `json:"groups"`
			Family  gate.FamilyReport `json:"family"`
		}{forJSON(ses), groups, gate.Family(groups)})
	}
	state := statusNow(ses.Status, ses.ID, runningHere())
	killed := state == "killed"
	if ses.Exit != nil {
		state += fmt.Sprintf(", exit %d", *ses.Exit)
	}
	if ses.Resumed > 0 {
		state += fmt.Sprintf(", resumed %d×", ses.Resumed)
	}
	took := lasted(ses.WallStartNS, ses.WallEndNS)
	if took != "" && ses.Resumed > 0 {
		took += " with the time between"
	}
	s.line("session %s  %s  %s", ses.ID, ses.Workflow, state)
	s.para("started %s%s on %s", when(ses.WallStartNS), took, machineText(ses.Machine))
	if ses.Measurer != record.MeasurerReal {
		s.para("%s: nothing here was measured on a real engine %s", ses.Measurer, ses.Simulate)
	}
	for _, k := range sortedNames(ses.Params) {
		s.para("%s = %s", k, ses.Params[k])
	}
	if ses.Error != "" {
		s.para("error: %s", ses.Error)
	}
	if err := s.budget(ses); err != nil {
		return err
	}
	for _, n := range ses.Notes {
		s.para("note: %s", n)
	}
	var rows [][]string
	for _, g := range groups {
		c := headline(g)
		rows = append(rows, []string{s.d.Short(s.ctx, g.ID), g.Name, g.Role, verdictText(g), effectText(c), medians(c), armCounts(g), endedText(g), beyondFigures(g.Reason)})
	}
	s.rows("groups", columns{head: []string{"id", "name", "role", "verdict", "effect", "control → side", "arms", "ended", "why"}, rows: rows, below: []int{8, 7, 5, 6, 2}})
	if s.err == nil {
		s.err = report.Family(s.w, gate.Family(groups).Lines(), report.Options{Unicode: true})
	}
	some, err := s.d.Recorded(s.ctx, ses.ID)
	if err != nil {
		return err
	}
	if killed || some && (ses.Status == "stopped" || ses.Status == "failed") {
		s.line("\nflow resume %s goes on with it", s.d.Short(s.ctx, ses.ID))
	}
	return nil
}

// sessionJSON is a session as JSON prints it: its parameters are values, not texts of JSON.
type sessionJSON struct {
	*record.Session
	Params map[string]json.RawMessage `json:"params,omitempty"`
}

func forJSON(s *record.Session) sessionJSON {
	out := sessionJSON{s, map[string]json.RawMessage{}}
	for name, v := range s.Params {
		b := []byte(v)
		if !json.Valid(b) {
			b, _ = json.Marshal(v) // a text always can be
		}
		out.Params[name] = b
	}
	return out
}

// group shows a group, its arms and what they came to.
func (s *shower) group(id string) error {
	g, err := s.d.Group(s.ctx, id)
	if err != nil {
		return err
	}
	if s.asJSON {
		return indentedJSON(s.w, g)
	}
	s.line("group %s  %s  %s", g.ID, g.Name, verdictText(g))
	order := g.Order
	if order == "" {
		order = "alternating quads"
	}
	s.para("%s of session %s, %s, at most %d blocks", g.Role, s.d.Short(s.ctx, g.SessionID), order, g.Cap)
	s.para("judged by %s (%s is better), smallest effect that counts %s", g.Primary, g.Better, pctText(g.MinEffect))
	took := ""
	if ns := record.TookNS(g.Arms); ns != nil && g.WallEndNS != nil {
		took = ", its arms took " + seconds(*ns)
	}
	s.para("started %s%s%s", when(g.WallStartNS), took, at(g.Pos))
	if g.Reason != "" {
		s.para("why: %s", g.Reason)
	}
	for _, l := range report.Died(g) {
		s.para("  %s", l)
	}
	if g.Stopped != "" {
		s.para("%s", report.EndedBy(endedText(g)))
	}
	for _, w := range g.Warnings {
		s.para("warning: %s", report.Warning(w))
	}
	var sides [][]string
	for _, side := range g.Sides {
		label := side.Label
		if side.Label == g.Control {
			label += " (control)"
		}
		if side.Estimated {
			label += " (estimated)"
		}
		var names, delta []string
		for _, l := range side.Stack {
			names = append(names, l.Name)
		}
		for _, k := range sortedNames(side.Command.Delta) {
			delta = append(delta, strings.TrimSpace(k+" "+side.Command.Delta[k]))
		}
		sides = append(sides, []string{label, side.Engine, strings.Join(names, " + "), strings.Join(delta, ", ")})
	}
	s.rows("sides", columns{head: []string{"side", "engine", "stack", "changes"}, rows: sides})
	s.groupArms(g)
	s.failed(g)
	var rows [][]string
	compared := append(slices.Clone(g.Comparisons), g.Steps...)
	for i := range compared {
		c := &compared[i]
		what := c.Metric
		if c.Case != "" {
			what += " (" + c.Case + ")"
		}
		if c.Cost {
			what += ", cost"
		}
		borrowed, why := "", beyondFigures(c.Reason)
		if why != "" && c.Reason == g.Reason {
			why = "as above"
		}
		if c.Estimate != nil {
			borrowed = c.Estimate.Borrowed
		}
		rows = append(rows, []string{c.Side + " / " + c.Control, what, c.Verdict, effectText(c), medians(c), percent(c.GainOfMediansPct), fmt.Sprintf("%d / %d", c.NSide, c.NControl), borrowed, why})
	}
	s.rows("comparisons", columns{head: []string{"sides", "metric", "verdict", "effect", "medians", "of medians", "arms", "noise borrowed from", "why"}, rows: rows, below: []int{8, 7, 6, 5, 4}})
	return nil
}

func (s *shower) groupArms(g *record.Group) {
	var rows [][]string
	last := ""
	for _, a := range g.Arms {
		why := a.Reason
		if why != "" && why == last {
			why = "as above"
		}
		last = a.Reason
		block := "–"
		if a.Block >= 0 {
			block = strconv.Itoa(a.Block + 1)
		}
		attempt := ""
		if a.Attempt > 0 {
			attempt = strconv.Itoa(a.Attempt + 1)
		}
		purpose := a.Purpose
		if purpose == "measured" {
			purpose = ""
		}
		rows = append(rows, []string{record.ArmName(a.Label, a.Seq), s.d.Short(s.ctx, a.ID), a.Label, block, attempt, purpose, a.Disposition, armValue(a, g.Primary), armValue(a, "ttft_ms"), why})
	}
	s.rows("arms", columns{head: []string{"arm", "id", "side", "block", "attempt", "purpose", "disposition", g.Primary, "ttft_ms", "why"}, rows: rows, right: []int{3, 4, 7, 8}, below: []int{9, 8}})
}

// failed shows the findings that were no pass.
func (s *shower) failed(g *record.Group) {
	var rows [][]string
	for _, a := range g.Arms {
		for _, f := range a.Findings {
			if f.Outcome != record.Pass {
				rows = append(rows, append([]string{record.ArmName(a.Label, a.Seq), s.d.Short(s.ctx, a.ID)}, findingRow(f)...))
			}
		}
	}
	s.rows("gates that did not pass", columns{head: append([]string{"arm", "id"}, findingHeader()...), rows: rows, below: []int{8}})
}

func findingHeader() []string {
	return []string{"gate", "phase", "outcome", "observed", "wanted", "required", "why"}
}

func findingRow(f record.Finding) []string {
	required := ""
	if f.Required {
		required = "required"
	}
	why := f.Reason
	if f.Error != "" {
		why = strings.TrimPrefix(why+"; mistake in the gate: "+f.Error, "; ")
	}
	return []string{f.Gate, f.Phase, f.Outcome, f.Observed, f.Limit, required, why}
}

// arm shows everything of one arm but its samples.
func (s *shower) arm(id string) error {
	a, err := s.d.Arm(s.ctx, id)
	if err != nil {
		return err
	}
	log, err := s.d.Log(s.ctx, id)
	if err != nil {
		return err
	}
	if s.asJSON {
		return indentedJSON(s.w, struct {
			*record.Arm
			LogText string `json:"log,omitempty"`
		}{a, log})
	}
	s.line("arm %s  %s, side %s  %s", a.ID, record.ArmName(a.Label, a.Seq), a.Label, a.Disposition)
	if a.Reason != "" {
		s.para("why: %s", a.Reason)
	}
	where := ""
	if a.Block >= 0 { // counted from 1 in words, as everywhere; columns of SQL and CSV count from 0
		where = fmt.Sprintf("block %d slot %d attempt %d, ", a.Block+1, a.Slot+1, a.Attempt+1)
	}
	s.para("of group %s, %s%s", s.d.Short(s.ctx, a.GroupID), where, a.Purpose)
	s.para("started %s, took %s, of it flow's own %s", when(a.WallStartNS), seconds(a.MonoEndNS-a.MonoStartNS), seconds(a.OverheadNS))
	for _, n := range a.Neighbours {
		s.para("neighbour: %s", n)
	}
	if a.Process != nil {
		s.process(a)
	}
	var rows [][]string
	for _, r := range a.Requests {
		rows = append(rows, []string{strconv.Itoa(r.Index), r.Case, r.Mark, strings.TrimSpace(r.Status + " " + r.ErrorKind), value(r.Values, "ttft_ms"), value(r.Values, "decode_tok_s"),
			number(r.PromptTokens), number(r.CompletionTokens), number(r.CachedTokens), strconv.Itoa(r.Frames), r.FinishReason, shorten(r.TextSHA, 9), r.Error})
	}
	title := "requests"
	if len(rows) > 1 {
		title = "requests: parts of one arm, which counts once; what they are worth is with the group"
	}
	s.rows(title, columns{head: []string{"#", "case", "mark", "status", "ttft_ms", "decode_tok_s", "prompt", "completion", "cached", "frames", "finish", "text", "error"}, rows: rows, right: []int{0, 4, 5, 6, 7, 8, 9}, below: []int{12, 11, 9, 10}})
	rows = nil
	for _, f := range a.Findings {
		rows = append(rows, findingRow(f))
	}
	s.rows("findings", columns{head: findingHeader(), rows: rows, below: []int{6}})
	rows = nil
	for _, e := range a.Evidence {
		found := "not found"
		if e.Found {
			found = "found"
		}
		rows = append(rows, []string{e.Lever, found, e.Kind, e.What, e.When, e.Observed, e.Error})
	}
	s.rows("evidence", columns{head: []string{"lever", "found", "kind", "asked for", "at", "seen", "error"}, rows: rows, below: []int{6}})
	rows = nil
	foreign, hidden := foreignMetrics(), 0
	for _, m := range a.Metrics {
		if !s.all && slices.Contains(foreign, m.Name) {
			hidden++
			continue
		}
		v := "not measured"
		if m.Value != nil {
			v = cellText(*m.Value)
		} else if m.Withheld != nil {
			v = "withheld (" + cellText(*m.Withheld) + ")"
		}
		rule := m.Rule
		if !s.all {
			rule = ""
		}
		rows = append(rows, []string{m.Name, m.Case, v, m.Unit, m.Source, rule, m.Why})
	}
	s.rows("metrics", columns{head: []string{"metric", "case", "value", "unit", "source", "rule", "why"}, rows: rows, right: []int{2}, below: []int{6, 5}})
	if hidden > 0 {
		s.line("  and %d by the definitions of other tools, and the rule of each: flow show %s --all", hidden, s.d.Short(s.ctx, a.ID))
	}
	rows = nil
	for _, p := range a.Steps {
		rows = append(rows, []string{p.Name, seconds(p.EndNS - p.StartNS)})
	}
	s.rows("steps", columns{head: []string{"step", "took"}, rows: rows, right: []int{1}})
	s.tail(log)
	return nil
}

func (s *shower) process(a *record.Arm) {
	p := a.Process
	s.line("  %s", cellText(report.Shell(p.Argv)))
	ended := ""
	if p.ExitCode != nil {
		ended = fmt.Sprintf(", exit code %d", *p.ExitCode)
	}
	if p.Signal != "" {
		ended += ", signal " + p.Signal
	}
	if p.StoppedBy != "" {
		ended += ", stopped by " + p.StoppedBy
	}
	if p.OOMKilled {
		ended += ", out of memory"
	}
	ready := ""
	if p.ReadyNS > 0 {
		ready = ", ready after " + seconds(p.ReadyNS-p.LaunchNS)
	}
	s.para("pid %d%s%s%s", p.Pid, ready, ended, at(p.Version))
}

// tail is the end of the engine's log.
func (s *shower) tail(log string) {
	if log == "" {
		return
	}
	if n := binaryBytes(log); 20*n > len(log) {
		s.line("\nlog: %d bytes, of them %d that are no text: not shown; flow show --json ID has them", len(log), n)
		return
	}
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	title := "log"
	if len(lines) > 20 {
		title = fmt.Sprintf("log, the last 20 of %d lines", len(lines))
		lines = lines[len(lines)-20:]
	}
	s.line("\n%s", title)
	for _, l := range lines {
		s.line("  %s", shorten(cellText(strings.TrimRight(l, "\r")), 2000))
	}
}

// binaryBytes counts what no text holds: control characters but white space and colours, and what is no UTF-8.
func binaryBytes(s string) (n int) {
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			n++
		case unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\b\f\x1b", r):
			n++
		}
	}
	return n
}

// foreignMetrics are the names of metrics by the definitions of other tools.
func foreignMetrics() []string {
	var out []string
	for _, m := range metric.Compatible(&record.Request{}) {
		out = append(out, m.Name)
	}
	return append(out, "vllm_pooled_itl_p50_ms", "vllm_pooled_itl_p99_ms")
}
