package main

// flow calibrate: how often a workflow's rules are wrong, on a simulated machine.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"flow/starlark/diag"
	"flow/workflows/measure"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

func newCalibrateCommand(a *app) *cobra.Command {
	var sets []string
	var simulate string
	var n int
	var seed uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "calibrate FILE --simulate S -n N",
		Short: "How often a workflow's rules are wrong, on a simulated machine",
		Long: `Run a workflow many times on a simulated machine, in memory, on all cores. What the levers really do is
known there, so that verdicts can be counted as right or wrong:

  false_positive_rate  groups whose levers do nothing that ended better or worse
  power                groups whose levers do something that ended in the right direction
  mean_arms            arms of a session

Every rate has its 95 % Monte Carlo interval (Wilson). The same --seed gives the same figures. Ctrl-C prints
what the sessions so far gave, marked as partial, and ends with exit code 4. --simulate
takes what flow run takes:

` + measure.SimulateHelp,
		Example:           "  flow calibrate stack-screen.star --simulate 'effect.fast=2%,sd=.5%,drift=.1%/arm' -n 2000\n  flow calibrate stack-screen.star --simulate 'sd=.5%,tails=t3' -n 20000 --json",
		Args:              workflowArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: starFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := parseSets(sets, args[0])
			if err != nil {
				return err
			}
			model, err := measure.ParseModel(simulate)
			if err != nil {
				return err
			}
			if n < 1 || n > 10_000_000 {
				return usage("flow calibrate", fmt.Sprintf("got -n %d, want 1 to 10000000", n), "-n 2000")
			}
			c, err := calibrateFile(cmd.Context(), args[0], params, model, n, seed, func(done int) { fmt.Fprintf(a.stderr, "%d of %d sessions\n", done, n) })
			if err != nil {
				return err
			}
			c.Simulate = simulate
			if c.Cut > 0 {
				fmt.Fprintf(a.stderr, "warning: %d of %s ended by session.budget: the groups that it left out of them are in no rate\n", c.Cut, countOf(c.Sessions, "session"))
			}
			for _, words := range c.Unknown {
				fmt.Fprintf(a.stderr, "warning: %s\n", words)
			}
			switch {
			case c.Sessions == 0: // stopped before there was anything to say
			case asJSON:
				err = json.NewEncoder(a.stdout).Encode(c)
			default:
				_, err = fmt.Fprint(a.stdout, c.text())
			}
			if err != nil || !c.Partial {
				return err
			}
			return &exitError{diag.Stopped.ExitCode(), fmt.Sprintf("stopped (%v) after %d of %d sessions", context.Cause(cmd.Context()), c.Sessions, n)}
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "set a parameter, name=value; repeatable")
	cmd.Flags().StringVar(&simulate, "simulate", "", "the machine and what the levers do on it")
	cmd.Flags().IntVarP(&n, "sessions", "n", 1000, "how many sessions")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the whole calibration")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// calibration is what many sessions gave. Rates are nil where nothing of the kind was run.
type calibration struct {
	File              string        `json:"file"`
	Simulate          string        `json:"simulate"`
	Sessions          int           `json:"sessions"`          // that ended
	Asked             int           `json:"asked"`             // how many it was to be
	Partial           bool          `json:"partial,omitempty"` // stopped before all were run
	Seed              uint64        `json:"seed"`
	FalsePositiveRate *share        `json:"false_positive_rate"`
	AnyFalsePositive  *share        `json:"sessions_with_a_false_positive"`
	Power             *share        `json:"power"`
	WrongDirection    *share        `json:"wrong_direction_rate"`
	MeanArms          float64       `json:"mean_arms"`
	Groups            []*calibrated `json:"groups"`
	Cut               int           `json:"cut_by_budget,omitempty"` // sessions that their budget of arms ended: later groups are missing of them
	Unknown           []string      `json:"unknown,omitempty"`       // levers of --simulate that no group had, in words
}

// calibrated is one group of a workflow, or one rung of a ladder, over the sessions that ran it.
type calibrated struct {
	Name              string         `json:"name"`
	TrueEffect        float64        `json:"true_effect"` // ratio minus one, in the good direction
	Runs              int            `json:"runs"`
	Verdicts          map[string]int `json:"verdicts"`
	FalsePositiveRate *share         `json:"false_positive_rate"`
	Power             *share         `json:"power"`
	MeanArms          float64        `json:"mean_arms"`

	arms, hits, wrong int
	log               float64
}

// share is a rate with its Monte Carlo interval.
type share struct {
	Rate float64 `json:"rate"`
	Low  float64 `json:"low"` // 95 %, Wilson
	High float64 `json:"high"`
	K    int     `json:"k"`
	N    int     `json:"n"`
}

func shareOf(k, n int) *share {
	if n == 0 {
		return nil
	}
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	s := &share{p, math.Max(0, mid-half), math.Min(1, mid+half), k, n}
	if k == 0 {
		s.Low = 0 // exactly, and not what rounding leaves
	}
	if k == n {
		s.High = 1
	}
	return s
}

func (s *share) String() string {
	if s == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f %% [%.2f, %.2f]", 100*s.Rate, 100*s.Low, 100*s.High)
}

// calibrateFile runs n sessions, on every core. Each worker has a load of the file of its own. Where ctx ends
// before, it gives what the sessions so far say.
func calibrateFile(ctx context.Context, file string, params map[string]string, model measure.Model, n int, seed uint64, progress func(done int)) (*calibration, error) {
	workers := min(runtime.GOMAXPROCS(0), n)
	parts := make([]tally, workers)
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for k := range workers {
		w, err := loadWorkflow(ctx, file, loadOptions{params: params, typedHere: true, standIns: true})
		if err == nil {
			_, err = w.main()
		}
		if err == nil && k == 0 { // one alone first: all at once would fill memory faster than it can be seen
			_, err = tried(ctx, "calibrate", file, func(ctx context.Context) ([]*record.Group, error) {
				groups, _, err := simulateOnce(ctx, w, model, sessionSeed(seed, 0))
				return groups, err
			})
		}
		if err != nil {
			cancel(err) // of a worker's mistake or a signal before it, the first counts
			break
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				groups, cut, err := simulateOnce(ctx, w, model, sessionSeed(seed, i))
				if err != nil {
					cancel(err)
					return
				}
				if cut {
					parts[k].cut++
				}
				parts[k].add(groups, model)
				if d := int(done.Add(1)); d%max(100, n/10) == 0 && d < n {
					progress(d)
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && outer.Err() == nil {
		return nil, err
	}
	c := merged(file, parts, int(done.Load()), seed)
	c.Asked, c.Partial = n, c.Sessions < n
	had := map[string]bool{}
	for _, p := range parts {
		maps.Copy(had, p.levers)
	}
	if c.Sessions > 0 {
		c.Unknown = model.Unknown(had)
	}
	return c, nil
}

// simulateOnce is one session in memory; it gives its groups in order. cut says that its budget ended it.
func simulateOnce(ctx context.Context, w *workflow, model measure.Model, seed uint64) (groups []*record.Group, cut bool, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, time.Minute, usage("calibrate", "one session of main took longer than a minute", "look for a loop that does not end"))
	defer stop()
	m := measure.NewSimulated(model, record.Machine{ID: "calibrate"}, func() int64 { return 0 })
	mem := run.NewMemory()
	kept := &keeping{Memory: mem}
	s := run.NewSession(run.Config{
		Session: &record.Session{ID: "calibrate", Measurer: record.MeasurerSimulated, Machine: m.On, Seed: seed},
		Clock:   m.Clock(), Sleep: m.Sleep, Measurer: m, Recorder: kept, Journal: mem, NewID: numbered(),
	})
	err = w.act(ctx, session{s})
	if kind, ok := diag.KindOf(err); ok && kind == diag.Stopped && ctx.Err() == nil {
		cut, err = true, nil // its budget is spent: what it decided until then counts
	}
	return kept.groups, cut, err
}

// numbered gives ids that cost nothing.
func numbered() func() string {
	n := 0
	return func() string { n++; return fmt.Sprint(n) }
}

// keeping keeps the groups of a session as they ended.
type keeping struct {
	*run.Memory
	groups []*record.Group
}

func (k *keeping) EndGroup(ctx context.Context, g *record.Group) error {
	k.groups = append(k.groups, g)
	return k.Memory.EndGroup(ctx, g)
}

func sessionSeed(seed uint64, i int) uint64 {
	h := sha256.Sum256(fmt.Appendf(nil, "%d/%d", seed, i))
	return binary.BigEndian.Uint64(h[:8]) >> 1
}

// tally is what one worker counted.
type tally struct {
	groups       map[string]*calibrated
	order        []string
	arms, anyBad int
	cut          int // sessions that their budget ended
	levers       map[string]bool
	nothing      int // sessions with a group whose levers do nothing
}

// add counts one session.
func (t *tally) add(groups []*record.Group, model measure.Model) {
	if t.groups == nil {
		t.groups, t.levers = map[string]*calibrated{}, map[string]bool{}
	}
	measure.LeversOf(groups, t.levers)
	bad, null := false, false
	for _, g := range groups {
		arms := len(g.Arms)
		t.arms += arms
		control := 0.0
		several := 0
		for _, s := range g.Sides {
			if s.Label == g.Control {
				control = effectOf(s, model)
			} else {
				several++
			}
		}
		for _, s := range g.Sides {
			if s.Label == g.Control || g.Design != "" && !s.Estimated {
				continue
			}
			name, verdict, log := g.Name, g.Verdict, effectOf(s, model)-control
			if several > 1 {
				name, verdict = g.Name+", "+s.Label, verdictOf(g, s.Label)
			}
			c := t.group(name)
			c.log = log
			c.Runs++
			c.arms += arms
			c.Verdicts[verdict]++
			decided := verdict == record.Better || verdict == record.Worse
			switch right := (verdict == record.Better) == (log > 0); {
			case math.Abs(log) < 1e-12:
				null = true
				if decided {
					c.wrong++
					bad = true
				}
			case decided && right:
				c.hits++
			case decided:
				c.wrong++
			}
		}
	}
	if bad {
		t.anyBad++
	}
	if null {
		t.nothing++
	}
}

func (t *tally) group(name string) *calibrated {
	c := t.groups[name]
	if c == nil {
		c = &calibrated{Name: name, Verdicts: map[string]int{}}
		t.groups[name] = c
		t.order = append(t.order, name)
	}
	return c
}

// verdictOf is the verdict of one rung: of its comparisons in the primary metric, where they agree.
func verdictOf(g *record.Group, side string) string {
	verdict := ""
	for _, c := range g.Comparisons {
		if c.Side != side || c.Cost {
			continue
		}
		if verdict != "" && verdict != c.Verdict {
			return record.Inconclusive
		}
		verdict = c.Verdict
	}
	if verdict == "" {
		return g.Verdict
	}
	return verdict
}

// effectOf is what a side's stack truly does, on the logarithm.
func effectOf(s record.Side, model measure.Model) float64 {
	stack := make(plan.Stack, len(s.Stack))
	for i, l := range s.Stack {
		stack[i].Name = l.Name
	}
	return model.EffectOf(stack)
}

// merged joins the workers.
func merged(file string, parts []tally, n int, seed uint64) *calibration {
	c := &calibration{File: file, Sessions: n, Seed: seed}
	all := tally{groups: map[string]*calibrated{}}
	for _, p := range parts {
		c.Cut += p.cut
		all.arms, all.anyBad, all.nothing = all.arms+p.arms, all.anyBad+p.anyBad, all.nothing+p.nothing
		for _, name := range p.order {
			x, y := all.group(name), p.groups[name]
			x.log, x.Runs, x.arms, x.hits, x.wrong = y.log, x.Runs+y.Runs, x.arms+y.arms, x.hits+y.hits, x.wrong+y.wrong
			for v, k := range y.Verdicts {
				x.Verdicts[v] += k
			}
		}
	}
	slices.Sort(all.order) // the order of first sight depends on the workers
	var fp, nulls, hits, reals, wrong int
	for _, name := range all.order {
		g := all.groups[name]
		g.MeanArms = float64(g.arms) / float64(g.Runs)
		if math.Abs(g.log) < 1e-12 {
			g.FalsePositiveRate = shareOf(g.wrong, g.Runs)
			fp, nulls = fp+g.wrong, nulls+g.Runs
		} else {
			g.TrueEffect = math.Expm1(g.log)
			g.Power = shareOf(g.hits, g.Runs)
			hits, reals, wrong = hits+g.hits, reals+g.Runs, wrong+g.wrong
		}
		c.Groups = append(c.Groups, g)
	}
	c.FalsePositiveRate, c.Power, c.WrongDirection = shareOf(fp, nulls), shareOf(hits, reals), shareOf(wrong, reals)
	c.AnyFalsePositive = shareOf(all.anyBad, all.nothing)
	if n > 0 {
		c.MeanArms = float64(all.arms) / float64(n)
	}
	return c
}

func (c *calibration) text() string {
	var b strings.Builder
	sessions := countOf(c.Sessions, "simulated session")
	if c.Partial {
		sessions = fmt.Sprintf("partial, stopped after %d of %s", c.Sessions, countOf(c.Asked, "simulated session"))
	}
	fmt.Fprintf(&b, "%s: %s, %.1f arms each; rates with their 95 %% Monte Carlo interval\n", c.File, sessions, c.MeanArms)
	line := func(name string, s *share) {
		if s != nil {
			fmt.Fprintf(&b, "  %-34s %s\n", name, s)
		}
	}
	line("false positives, of a group", c.FalsePositiveRate)
	line("sessions with a false positive", c.AnyFalsePositive)
	line("power, of a group", c.Power)
	line("wrong direction", c.WrongDirection)
	b.WriteString("\n")
	for _, g := range c.Groups {
		var vs []string
		for _, v := range slices.Sorted(maps.Keys(g.Verdicts)) {
			vs = append(vs, fmt.Sprintf("%d %s", g.Verdicts[v], v))
		}
		what := "does nothing; false positives " + g.FalsePositiveRate.String()
		if g.Power != nil {
			what = fmt.Sprintf("true effect %+.2f %%; power %s", 100*g.TrueEffect, g.Power)
		}
		fmt.Fprintf(&b, "  %s: %s; %.1f arms; %s\n", g.Name, what, g.MeanArms, strings.Join(vs, ", "))
	}
	return b.String()
}
