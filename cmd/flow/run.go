package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"flow/builtins/gate"
	"flow/builtins/machine"
	"flow/builtins/owner"
	"flow/cmd/flow/ui"
	"flow/db"
	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/workflows/measure"
	"flow/workflows/record"
	"flow/workflows/report"
	"flow/workflows/run"
)

// runFlags are what run and resume share.
type runFlags struct {
	json, quiet, strict bool
	wait                time.Duration
	keep                string
	recorded            string // session whose arms are used; only run has the flag
	roots
}

// roots are where sensors are read. The processes of engines are always this machine's own.
type roots struct{ proc, sys, rapl string }

func (r *roots) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.proc, "procfs", "/proc", "read sensors below another root, as where a container sees the host's")
	cmd.Flags().StringVar(&r.sys, "sysfs", "/sys", "the same for /sys")
	cmd.Flags().StringVar(&r.rapl, "rapl", "", "read energy of this powercap domain (psys, dram, a path) instead of the packages")
}

func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "events as JSON lines on standard output")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "only the results")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit 1 when a group ended invalid")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "how long to wait for another flow on this machine (default: refuse at once)")
	cmd.Flags().StringVar(&f.keep, "keep", "", "keep each arm's files (engine log, config, CSV) below this folder")
	f.roots.add(cmd)
}

func newRunCommand(a *app) *cobra.Command {
	var sets []string
	var simulate string
	var seed uint64
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a workflow",
		Long: `Run a workflow: its top level declares, its main acts. Arms are recorded as they end; Ctrl-C ends the
running arm, records it as interrupted, and names the command that goes on. A second Ctrl-C ends at once.

  flow run FILE --help   lists the parameters of the workflow

--recorded SESSION runs the workflow on the arms of a recorded session: with other gates, stops or rules. A
group takes the arms of the recorded group of its name, role and sides, each in its place; unchanged, the
workflow says what it said. A block that a stricter gate rejects is left out.

--simulate runs without a process, at full speed, on a machine that is declared, such as
'effect=2%,sd=.5%,drift=.1%/arm,effect.NAME=20%':

` + measure.SimulateHelp,
		Example:           "  flow run stack-screen.star\n  flow run stack-screen.star --set tokens=400\n  flow run stack-screen.star --simulate 'effect.fast=20%,sd=.5%'",
		Args:              workflowArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: starFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := parseSets(sets, args[0])
			if err != nil {
				return err
			}
			isSim := cmd.Flags().Changed("simulate")
			if isSim && f.recorded != "" {
				return usage("flow run", "got --simulate and --recorded, want one of them", "flow run "+args[0]+" --recorded "+f.recorded)
			}
			if _, err := measure.ParseModel(simulate); err != nil {
				return err
			}
			if !cmd.Flags().Changed("seed") && f.recorded == "" {
				if seed, err = randomSeed(); err != nil {
					return err
				}
			}
			return runNew(cmd.Context(), a, args[0], params, isSim, simulate, seed, f)
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "set a parameter, name=value; repeatable")
	cmd.Flags().StringVar(&simulate, "simulate", "", "no processes: invent arms from declared effects and noise")
	cmd.Flags().StringVar(&f.recorded, "recorded", "", "no processes: take the arms of a recorded session, in order")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "seed of orders, nonces and simulated noise (default: by chance, recorded)")
	f.add(cmd)
	withParamsHelp(a, cmd)
	return cmd
}

// withParamsHelp makes `flow run FILE --help` list the file's parameters before the flags.
func withParamsHelp(a *app, cmd *cobra.Command) {
	plain := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, arg := range c.Flags().Args() {
			if w, err := loadWorkflow(context.Background(), arg, loadOptions{standIns: true}); err == nil {
				fmt.Fprintln(a.stdout, w.paramsHelp())
			} else {
				fmt.Fprintln(a.stderr, formatError(err))
			}
		}
		plain(c, args)
	})
}

func randomSeed() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b[:]) >> 1, nil // SQLite's integers are signed
}

// runNew begins a session and runs it.
func runNew(ctx context.Context, a *app, path string, params map[string]string, simulated bool, model string, seed uint64, f runFlags) error {
	live := ui.New(a.stdout, a.stderr, ui.Options{Quiet: f.quiet, JSON: f.json})
	defer live.Close()
	w, err := loadWorkflow(ctx, path, loadOptions{params: params, typedHere: true, print: printer(live)})
	if err != nil {
		return err
	}
	if _, err := w.main(); err != nil {
		return err
	}
	rs := &record.Session{
		ID: uuid.Must(uuid.NewV7()).String(), Workflow: w.label, Root: w.root, Status: "running", Seed: seed, Params: w.env.ParamValues(),
		Measurer: record.MeasurerReal, Sources: w.sources(), FlowVersion: version(), Dialect: script.Dialect(),
	}
	if simulated {
		rs.Measurer, rs.Simulate = record.MeasurerSimulated, model
	}
	d, err := db.Open(ctx, a.dbPath)
	if err != nil {
		return err
	}
	defer d.Close()
	if f.recorded != "" {
		if err := useRecorded(ctx, d, rs, f.recorded); err != nil {
			return err
		}
	}
	r, err := open(ctx, a, w, rs, d, live, f)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.keeper.BeginSession(ctx, rs); err != nil {
		return err
	}
	if err := r.keepSensors(ctx); err != nil {
		return err
	}
	return r.finish(ctx, r.act(ctx))
}

// printer shows print() of a workflow with its place. builtins keeps it silent while a resumed session replays.
func printer(live *ui.Live) func(diag.Pos, string) {
	return func(pos diag.Pos, msg string) {
		live.Event(record.Event{Kind: "print", Text: msg, Arm: pos.String()})
	}
}

// running is a session under way.
type running struct {
	a        *app
	w        *workflow
	rs       *record.Session
	db       *db.DB
	keeper   keeper
	live     *ui.Live
	flags    runFlags
	clock    run.Clock
	measurer run.Measurer
	session  *run.Session
	force    bool
	owner    *owner.Owner  // of the processes it starts; nil where it starts none
	work     *owner.Folder // of the arms' files, unless they are kept
	lock     *machine.Lock
}

// open joins measurer, records and runner. Nothing is recorded yet.
func open(ctx context.Context, a *app, w *workflow, rs *record.Session, d *db.DB, live *ui.Live, f runFlags) (_ *running, err error) {
	r := &running{a: a, w: w, rs: rs, db: d, live: live, flags: f}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	r.keeper = withKillPoint(recorder{d})
	// Who runs a session holds it until the process ends: two never go on with the same one, and flow stop
	// finds whom to ask.
	who := machine.Holder{Session: rs.ID, Workflow: w.label}
	if r.lock, err = machine.Acquire(ctx, "", []string{machine.SessionPrefix + rs.ID}, who, 0); err != nil {
		return nil, err
	}
	var sleep func(context.Context, time.Duration) error // nil is real time
	if rs.Measurer == record.MeasurerSimulated {
		model, err := measure.ParseModel(rs.Simulate)
		if err != nil {
			return nil, err
		}
		m := measure.NewSimulated(model, machine.Identity(ctx, f.proc, f.sys), machine.Wall)
		m.Prompts = w.prompt
		r.measurer, r.clock, sleep = m, m.Clock(), m.Sleep
	} else if rs.Measurer == record.MeasurerRecorded {
		m, err := recordedMeasurer(ctx, d, rs)
		if err != nil {
			return nil, err
		}
		r.measurer, sleep = m, m.Sleep
		r.clock = run.Clock{Mono: m.Clock().Mono, Wall: machine.Wall} // the session is now, its arms were then
	} else {
		if err := r.putBack(ctx); err != nil {
			return nil, err
		}
		if err := r.own(ctx); err != nil {
			return nil, err
		}
		m, err := r.real(f)
		if err != nil {
			return nil, err
		}
		r.measurer = m
		r.clock = run.Clock{Mono: machine.Monotonic, Wall: machine.Wall}
	}
	if rs.Machine, err = r.measurer.Machine(ctx); err != nil {
		return nil, err
	}
	if rs.WallStartNS == 0 {
		rs.WallStartNS, rs.MonoStartNS = r.clock.Wall(), r.clock.Mono()
		rs.OffsetStartNS = rs.WallStartNS - rs.MonoStartNS
	}
	r.session = run.NewSession(run.Config{Session: rs, Clock: r.clock, Measurer: r.measurer, Recorder: r.keeper, Journal: r.keeper,
		Watcher: live, Sleep: sleep})
	return r, nil
}

// real is the measurer of this machine.
func (r *running) real(f runFlags) (run.Measurer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	state, err := machine.StateDir()
	if err != nil {
		return nil, err
	}
	work := f.keep
	if work == "" {
		if r.work, err = r.owner.Folder(""); err != nil {
			return nil, &diag.Error{Kind: diag.Machine, Op: "arm files", Err: err, Fix: "set TMPDIR to a folder with room"}
		}
		work = r.work.Path
	}
	return measure.NewReal(measure.RealOptions{
		Root: r.w.root, Paths: r.w.env.Paths(), Exe: exe, Work: work, Keep: f.keep != "", Proc: f.proc, Sys: f.sys, RAPL: f.rapl, StateDir: state, SessionID: r.rs.ID, Owner: r.owner, Workflow: r.w.label, Wait: f.wait,
		OnWait: func(words string) { r.live.Event(record.Event{Kind: "warning", Text: words}) },
	})
}

// keepSensors records what can be sampled here, with units, and why the rest cannot.
func (r *running) keepSensors(ctx context.Context) error {
	sensors, err := r.measurer.Sensors(ctx)
	if err != nil || len(sensors) == 0 {
		return err
	}
	return r.db.KeepSensors(ctx, r.rs.ID, sensors)
}

func (r *running) close() {
	if r.measurer != nil {
		if err := r.measurer.Close(); err != nil {
			r.live.Event(record.Event{Kind: "warning", Text: err.Error()})
		}
	}
	_ = r.work.Remove() // what cannot be removed, the next flow tries again
	if err := r.owner.End(); err != nil {
		r.live.Event(record.Event{Kind: "warning", Text: err.Error()})
	}
	if err := r.lock.Release(); err != nil {
		r.live.Event(record.Event{Kind: "warning", Text: err.Error()})
	}
}

// act runs main until it ends or a signal stops it.
func (r *running) act(ctx context.Context) error {
	r.session.ForceCut = r.force
	r.live.Event(record.Event{Kind: "session.start", Text: r.rs.ID, WallNS: r.clock.Wall()})
	ctx, stop := script.WatchMemory(ctx, mostMemory(r.rs.Machine), memoryPace)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if signal := (errSignal{}); errors.As(context.Cause(ctx), &signal) {
			r.live.Event(record.Event{Kind: "note", Text: signal.Error() + ": ending the running arm; a second one ends flow at once"})
		}
	})()
	return r.w.act(owner.With(ctx, r.owner), session{r.session})
}

// memoryPace is how often a session's memory is looked at: seldom, because it measures.
const memoryPace = 250 * time.Millisecond

// mostMemory is what flow may take while a session runs: half the machine's, 8 GiB at most. No workflow that
// means well comes near it; one that does not is a mistake at its line, and not the kernel's choice of whom
// to kill.
func mostMemory(m record.Machine) uint64 {
	const most = 8 << 30
	if mib, err := strconv.ParseUint(m.Facts["memory_mib"], 10, 64); err == nil && mib > 0 {
		return min(most, mib<<20/2)
	}
	return most
}

// finish records how the session ended, tells the result, and turns it into the command's error.
func (r *running) finish(ctx context.Context, err error) error {
	kind, known := diag.KindOf(err)
	stopped := err != nil && (ctx.Err() != nil || known && kind == diag.Stopped)
	code := 0
	switch {
	case err == nil:
		r.rs.Status, r.rs.Error = "done", ""
	case stopped:
		r.rs.Status, code = "stopped", diag.Stopped.ExitCode()
		r.rs.Error = stopWords(ctx, err)
	default:
		r.rs.Status, code, r.rs.Error = "failed", kind.ExitCode(), run.Cut(err.Error(), maxError)
	}
	durable := context.WithoutCancel(ctx)
	wall := r.clock.Wall()
	offset := wall - r.clock.Mono()
	r.rs.Exit, r.rs.WallEndNS, r.rs.OffsetEndNS = &code, &wall, &offset
	r.rs.Sources = r.w.sources() // files loaded by main's calls, too
	endErr := r.keeper.EndSession(durable, r.rs)
	if err := r.keepSensors(durable); err != nil { // those of collectors, too, which only arms have
		r.live.Event(record.Event{Kind: "warning", Text: err.Error()})
	}
	r.live.Event(record.Event{Kind: "session.end", Text: r.rs.Status, WallNS: wall})
	r.live.Close()
	groups, groupsErr := r.db.Groups(durable, r.rs.ID)
	if groupsErr == nil {
		r.tell(groups)
		if r.rs.Measurer == record.MeasurerSimulated && err == nil {
			if model, err := measure.ParseModel(r.rs.Simulate); err == nil {
				had := map[string]bool{}
				measure.LeversOf(groups, had)
				for _, words := range model.Unknown(had) {
					fmt.Fprintf(r.a.stderr, "warning: %s\n", words)
				}
			}
		}
	}
	some, someErr := r.db.Recorded(durable, r.rs.ID)
	some = some || someErr != nil // what cannot be read may be there
	if gone := new(db.Replaced); errors.As(endErr, &gone) {
		return endErr // there is nothing to go on with, whatever else happened
	}
	again := "run it again"
	goOn := "flow resume " + r.db.Short(durable, r.rs.ID) + r.dbFlag()
	if stopped && ctx.Err() == nil {
		goOn = "a larger session.budget in the workflow, and " + goOn
		again = "it needs a larger session.budget in the workflow"
	}
	switch {
	case stopped && !some:
		return &exitError{code, fmt.Sprintf("stopped (%s) before anything was measured: %s", r.rs.Error, again)}
	case stopped:
		return &exitError{code, fmt.Sprintf("stopped (%s); what was measured is in %s; go on with: %s", r.rs.Error, r.a.dbPath, goOn)}
	case err != nil && some:
		fmt.Fprintf(r.a.stderr, "what was measured is in %s; once mended, go on with: %s\n", r.a.dbPath, goOn)
		return err
	case err != nil:
		return err
	case endErr != nil:
		return endErr
	}
	if r.flags.strict {
		for _, g := range groups {
			if g.Verdict == record.Invalid {
				return &exitError{1, fmt.Sprintf("group %q ended invalid: %s", g.Name, g.Reason)}
			}
		}
	}
	return groupsErr
}

// stopWords is why a session stopped before its end: a signal, or its budget.
func stopWords(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}
	var d *diag.Error
	if errors.As(err, &d) {
		return d.Msg
	}
	return err.Error()
}

// dbFlag is how to name the database again where it is not the default.
func (r *running) dbFlag() string {
	if r.a.dbPath == "flow.db" || os.Getenv("FLOW_DB") == r.a.dbPath {
		return ""
	}
	return " --db " + r.a.dbPath
}

// maxError is how many characters of an error are kept with a session.
const maxError = 4000

// errSignal is the cause of a context that a signal cancelled.
type errSignal struct{ os.Signal }

func (e errSignal) Error() string { return "signal: " + e.String() }

func formatError(err error) string { return diag.Format(err) }

// tell prints the result of a session.
func (r *running) tell(groups []*record.Group) {
	if r.flags.json {
		return
	}
	o := report.Options(r.live.ReportOptions())
	for _, g := range groups {
		if g.Verdict != "" {
			_ = report.Group(r.a.stdout, g, o)
		}
	}
	_ = report.Session(r.a.stdout, r.rs, groups, o)
	_ = report.Family(r.a.stdout, gate.Family(groups).Lines(), o)
}
