package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"flow/builtins/gate"
	"flow/db"
	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/workflows/measure"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// forced are the verdicts with which check walks main: each branch that a result can open is taken once.
var forced = []string{record.Better, record.Worse, record.Inconclusive, record.Invalid}

func newCheckCommand(a *app) *cobra.Command {
	var sets []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Find mistakes in workflows without touching the machine",
		Long: `Run the top level of each file, then its main on the simulated measurer with an empty database in
memory, once for each verdict (better, worse, inconclusive, invalid). Wrong calls, unbalanced orders and
comparisons of a thing with itself are found before a night is spent, and so are prompt files that are missing,
placeholders that nothing fills in and mistakes in the SQL of session.query.
Programs and sensors that this machine lacks are warnings: the workflow may be for another. Nothing is launched
or written, and no file that a workflow names is read, so it is safe on a stranger's file. A file without main is checked as a library.`,
		Example:           "  flow check stack-screen.star\n  flow check screens/*.star --set model=m.gguf",
		Args:              workflowArgs(cobra.MinimumNArgs(1)),
		ValidArgsFunction: starFiles,
		RunE: func(cmd *cobra.Command, files []string) error {
			params, err := parseSets(sets, files[0])
			if err != nil {
				return err
			}
			// A short life with much to allocate: collecting less often takes a fifth off it.
			debug.SetGCPercent(400)
			var first error
			for _, f := range files {
				r, err := check(cmd.Context(), f, params)
				if asJSON {
					if err := json.NewEncoder(a.stdout).Encode(r); err != nil {
						return err
					}
				}
				if errors.As(err, new(*script.MemoryError)) {
					return err // what took the memory may hold it until this process ends
				}
				switch {
				case err == nil && !asJSON:
					fmt.Fprintf(a.stdout, "%s: ok%s\n", f, r.words())
					for _, w := range r.Warnings {
						fmt.Fprintf(a.stderr, "%s: warning: %s\n", f, w)
					}
				case err != nil && first == nil:
					first = err
				case err != nil:
					fmt.Fprintln(a.stderr, formatError(err))
				}
			}
			return first
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "set a parameter, name=value; repeatable")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a file")
	return cmd
}

// checked is what check found out about a file.
type checked struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Error    string   `json:"error,omitempty"`
	In       string   `json:"in,omitempty"` // the file of the mistake, which file may load
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Fix      string   `json:"fix,omitempty"`       // what to write instead
	Library  bool     `json:"library,omitempty"`   // no main
	StandIns []string `json:"stand_ins,omitempty"` // parameters without a value
	Warnings []string `json:"warnings,omitempty"`  // what is no mistake and cannot be meant
	Groups   int      `json:"groups"`              // most groups that one walk through main ran
}

func (c *checked) words() string {
	s := ""
	if c.Library {
		s += ", a library: no main"
	} else {
		s += ", up to " + countOf(c.Groups, "group")
	}
	for i, p := range c.StandIns {
		if i == 0 {
			s += "; stand-ins for"
		}
		s += " " + p
	}
	return s
}

func check(ctx context.Context, file string, params map[string]string) (c *checked, err error) {
	// What a check holds is little and what it drops is much: collecting less often is a quarter of its time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	c = &checked{File: file}
	defer func() {
		if err != nil {
			c.Error, c.Fix = err.Error(), diag.FixOf(err)
			var e *diag.Error
			if errors.As(err, &e) {
				c.In, c.Line, c.Column = e.Pos.File, e.Pos.Line, e.Pos.Col
			}
		}
	}()
	w, err := loadWorkflow(ctx, file, loadOptions{params: params, typedHere: true, standIns: true})
	if err != nil {
		return c, err
	}
	for _, p := range w.env.Declared() {
		if p.StandIn {
			c.StandIns = append(c.StandIns, p.Name)
		}
	}
	c.Warnings = append(c.Warnings, w.missingPaths()...)
	if _, ok := w.globals["main"]; !ok {
		c.Library, c.OK = true, true
		c.Warnings = append(c.Warnings, uncalled(w.globals)...)
		return c, nil
	}
	// The walks are independent and touch nothing: globals are frozen. The first verdict's error is told.
	walks, err := tried(ctx, "check", file, func(ctx context.Context) ([]*counting, error) {
		walks, errs := make([]*counting, len(forced)), make([]error, len(forced))
		var done sync.WaitGroup
		for i, verdict := range forced {
			done.Go(func() { walks[i], errs[i] = rehearse(ctx, w, verdict) })
		}
		done.Wait()
		for i, err := range errs {
			if err != nil {
				return walks[:i], err
			}
		}
		return walks, nil
	})
	for _, n := range walks {
		c.Groups = max(c.Groups, n.groups)
		for _, w := range n.warnings {
			if !slices.Contains(c.Warnings, w) {
				c.Warnings = append(c.Warnings, w)
			}
		}
	}
	if err != nil {
		return c, err
	}
	c.OK = true
	return c, nil
}

// rehearse walks main once with every group ending in verdict ("" is as it comes), and counts.
func rehearse(ctx context.Context, w *workflow, verdict string) (*counting, error) {
	m := measure.NewSimulated(measure.Model{SD: .001}, record.Machine{ID: "check"}, func() int64 { return 0 })
	mem := run.NewMemory()
	counted := &counting{Memory: mem, here: &here{root: w.root}}
	defer counted.close()
	for _, p := range w.env.Declared() {
		counted.here.params = append(counted.here.params, p.Name)
	}
	s := run.NewSession(run.Config{
		Session: &record.Session{ID: "check", Measurer: record.MeasurerSimulated, Machine: m.On, Seed: 1},
		Clock:   m.Clock(), Sleep: m.Sleep, Measurer: looking{m, counted.see, counted.read}, Recorder: counted, Journal: mem, Force: verdict,
	})
	err := w.act(ctx, checkSession{session{s}, counted})
	return counted, err
}

// checkSession tells the records what the session may take: groups whose verdicts are forced take nothing.
type checkSession struct {
	session
	counted *counting
}

func (s checkSession) Budget(_ context.Context, b record.Budget) error {
	s.counted.budget = b
	return nil
}

type counting struct {
	*run.Memory
	here         *here
	groups, arms int
	budget       record.Budget
	warnings     []string // of the groups as they are declared, and of their gates
	asked        *db.DB   // an empty one; nil until a query is made
	seen         map[seenSide]bool
}

func (c *counting) close() {
	if c.asked != nil {
		_ = c.asked.Close()
	}
}

func (c *counting) warn(words ...string) {
	for _, w := range words {
		if !slices.Contains(c.warnings, w) {
			c.warnings = append(c.warnings, w)
		}
	}
}

type seenSide struct {
	group *plan.Group
	side  string
}

// see looks at an arm before it is invented.
func (c *counting) see(t run.Task) error {
	side := seenSide{t.Group, t.Side.Label}
	if c.seen[side] {
		return nil // its arms are all alike
	}
	if c.seen == nil {
		c.seen = map[seenSide]bool{}
	}
	c.seen[side] = true
	c.warn(c.here.needs(t)...)
	c.warn(c.here.metrics(t.Group)...)
	c.warn(limits(t.Group)...)
	c.warn(tooSmall(c.budget, t.Group)...)
	c.warn(simLevers(t)...)
	c.warn(plan.Absent(t.Side.Engine, t.Side.Stack)...)
	if err := c.here.placeholders(t); err != nil {
		return err
	}
	w := t.Group.WorkloadOf(t.Side)
	c.warn(literalPrompts(w)...)
	return c.here.prompts(w)
}

// read looks at what session.read and session.wait_until ask for.
func (c *counting) read(sensors []string) {
	c.warn(c.here.lacks("the session reads", sensors, false)...)
}

func (c *counting) BeginGroup(ctx context.Context, g *record.Group) error {
	c.warn(deadKnobs(g)...)
	c.warn(c.here.programs(g)...)
	c.warn(gate.TakenBack(g)...)
	c.groups++
	return c.Memory.BeginGroup(ctx, g)
}

// JudgeArm keeps what a gate warns of. Other warnings are of invented figures.
func (c *counting) JudgeArm(ctx context.Context, a *record.Arm) error {
	for _, w := range a.Warnings {
		if strings.HasPrefix(w, "gate ") {
			c.warn(fmt.Sprintf("group %q: %s", a.Group.Name, w))
		}
	}
	return c.Memory.JudgeArm(ctx, a)
}

// tooSmall: a budget of arms that does not hold one block of a group.
func tooSmall(b record.Budget, g *plan.Group) []string {
	block := len(g.BlockAt(0, false).Labels)
	n, words := block, ""
	if g.WarmArm {
		n, words = n+1, ", beside its warm arm"
	}
	if b.Arms == 0 || b.Arms >= n {
		return nil
	}
	return []string{fmt.Sprintf("group %q: session.budget(arms = %d) does not hold one of its blocks of %s%s: it cannot be finished", g.Name, b.Arms, countOf(block, "arm"), words)}
}

func (c *counting) EndArm(ctx context.Context, a *record.Arm) error {
	c.arms++
	return c.Memory.EndArm(ctx, a)
}
