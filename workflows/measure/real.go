package measure

// The real measurer: engine, client and sampler joined on one monotonic clock.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"time"

	"flow/builtins/client"
	"flow/builtins/engine"
	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/builtins/metric"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// RealOptions is what the measurer of this machine needs.
type RealOptions struct {
	Root      string        // the workflow's folder: relative files are below it
	Exe       string        // flow itself: the supervisor, and {flow}
	Work      string        // folder in which every arm gets one of its own
	Keep      bool          // leave the arms' folders when they are recorded
	StateDir  string        // caches
	LockDir   string        // "" is the machine's
	Proc, Sys string        // "" is /proc and /sys
	Interval  time.Duration // of the sampler; 100 ms when zero
	SessionID string
	Workflow  string        // for whoever waits for our locks
	Wait      time.Duration // for another flow on this machine; 0 is not at all
	OnWait    func(words string)
	KernelLog string         // "" is /dev/kmsg
	Run       machine.Runner // of host commands; nil starts processes
	Allow     []string       // environment variables engines may inherit besides the defaults
}

// Real measures on this machine. It is used by one session.
type Real struct {
	o       RealOptions
	sources []hardware.Source
	digests *machine.Digester

	mu       sync.Mutex
	extra    []record.Sensor // of arms that have ended: what their collectors had
	lock     *machine.Lock
	used     *usage            // what the lock is on
	gpus     []string          // chosen for "gpus:N", so that all groups of a session use the same
	versions map[string]string // by binary digest
}

var _ run.Measurer = (*Real)(nil)

// NewReal opens the sensors. Locks are taken with the first arm and held until Close, so that nobody
// measures between two arms of a session.
func NewReal(o RealOptions) (*Real, error) {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	if o.LockDir == "" {
		o.LockDir = machine.DefaultLockDir()
	}
	if err := os.MkdirAll(o.StateDir, 0o755); err != nil {
		return nil, &diag.Error{Kind: diag.Machine, Op: "state folder", Err: err, Fix: "set XDG_STATE_HOME to a folder that can be written"}
	}
	return &Real{
		o: o, versions: map[string]string{},
		sources: hardware.Open(hardware.Options{Proc: o.Proc, Sys: o.Sys, Now: machine.Monotonic, NVML: true}),
		digests: machine.NewDigester(o.Root, filepath.Join(o.StateDir, "digests.json")),
	}, nil
}

// Digests hashes files and binaries, each once.
func (m *Real) Digests() plan.Digests { return m.digests }

// Machine is this machine's identity.
func (m *Real) Machine(ctx context.Context) (record.Machine, error) {
	return machine.Identity(ctx, m.o.Proc, m.o.Sys), nil
}

// Sensors lists what can be sampled here.
func (m *Real) Sensors(context.Context) ([]record.Sensor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append(hardware.Sensors(m.sources), m.extra...), nil
}

// Read takes one value of each sensor now.
func (m *Real) Read(_ context.Context, sensors []string) ([]record.Sample, error) {
	return hardware.ReadOnce(m.sources, machine.Monotonic, sensors)
}

// Close releases the locks and the sensors.
func (m *Real) Close() error {
	m.mu.Lock()
	lock := m.lock
	m.lock = nil
	m.mu.Unlock()
	var err error
	if lock != nil {
		err = lock.Release()
	}
	for _, s := range m.sources {
		err = errors.Join(err, s.Close())
	}
	return err
}

// Open locks the machine and starts the sampler.
func (m *Real) Open(ctx context.Context, t run.Task) (run.Rig, error) {
	used, err := m.hold(ctx, t.Group)
	if err != nil {
		return nil, err
	}
	out := filepath.Join(m.o.Work, t.ArmID)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, &diag.Error{Kind: diag.Machine, Op: "arm folder", Err: err, Fix: "free some disk space, or set TMPDIR to a folder with room"}
	}
	sources, own, err := m.sourcesOf(ctx, t)
	if err != nil {
		_ = os.RemoveAll(out)
		return nil, err
	}
	onSample, v := t.OnSample, newVRAM(t)
	if v != nil {
		onSample = func(x record.Sample) {
			v.sample(x)
			if t.OnSample != nil {
				t.OnSample(x)
			}
		}
	}
	s, err := hardware.StartSampler(ctx, hardware.SamplerOptions{Sources: sources, Interval: m.o.Interval, Now: machine.Monotonic,
		Need: t.Sensors, OnSample: onSample})
	if err != nil {
		err = errors.Join(err, closeSources(own))
		_ = os.RemoveAll(out)
		return nil, err
	}
	return &rig{m: m, t: t, out: out, sampler: s, sampling: machine.Monotonic(), sources: sources, own: own, used: used, vram: v, beside: machine.Neighbours(m.o.LockDir)}, nil
}

// rig is one arm on this machine.
type rig struct {
	m        *Real
	t        run.Task
	out      string
	sampler  *hardware.Sampler
	sampling int64             // when the sampler began
	sources  []hardware.Source // the machine's, and the arm's own
	own      []hardware.Source // the arm's: its collectors and files
	proc     *process
	used     *usage
	beside   []string // other sessions on the machine when the arm began
	applied  *machine.Applied
	kernel   *machine.KernelLog
	vram     *vram // nil: no gate asks for it

	mu    sync.Mutex
	steps []record.Step
}

func (r *rig) Samples() []record.Sample { return r.sampler.Samples() }

func (r *rig) Mark(step string) {
	at := machine.Monotonic()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(at)
	r.steps = append(r.steps, record.Step{Name: step, StartNS: at})
}

func (r *rig) end(at int64) {
	if n := len(r.steps); n > 0 && r.steps[n-1].EndNS == 0 {
		r.steps[n-1].EndNS = at
	}
}

// Launch starts the engine with the side's levers and waits until it is ready.
func (r *rig) Launch(ctx context.Context, e plan.Engine) (plan.Process, error) {
	c, err := plan.Effective(e, r.t.Side.Stack)
	if err != nil {
		return nil, err
	}
	vars, err := r.vars(e)
	if err != nil {
		return nil, err
	}
	o := engine.Options{Supervisor: []string{r.m.o.Exe, "supervise"}, Now: machine.Monotonic, Allow: r.m.o.Allow}
	ep, err := r.bound(ctx, o, engine.Launch{Engine: e, Command: c, Vars: vars, Out: r.out, Root: r.m.o.Root})
	if err != nil {
		return nil, launchError(err)
	}
	r.proc = &process{r: r, e: e, ep: ep}
	r.sampler.Engine(ep.Tree)
	if err := ep.WaitReady(ctx); err != nil {
		return nil, launchError(err)
	}
	if e.API != nil {
		r.proc.client = client.New(client.Options{API: *e.API, BaseURL: ep.BaseURL(), Now: machine.Monotonic, Timeout: e.Timeouts.WithDefaults().Request})
	}
	return r.proc, nil
}

// launchError is an engine's start error as the runner knows it.
func launchError(err error) error {
	var se *engine.StartError
	if errors.As(err, &se) {
		return &run.LaunchError{Reason: se.Reason, Permanent: se.Permanent, LogTail: se.LogTail, Err: se.Err}
	}
	return &run.LaunchError{Reason: err.Error()}
}

// vars are the placeholders of the arm. A command engine finds the first prompt of its workload as a file.
func (r *rig) vars(e plan.Engine) (map[string]string, error) {
	w := r.t.Group.WorkloadOf(r.t.Side)
	v := map[string]string{"out": r.out, "flow": r.m.o.Exe, "seed": strconv.FormatInt(w.Seed, 10), "repeat": strconv.Itoa(w.Repeat)}
	if len(w.Cases) == 0 {
		return v, nil
	}
	c := w.Cases[0]
	v["max_tokens"], v["ctx"] = strconv.Itoa(c.MaxTokens), strconv.Itoa(c.Ctx)
	if len(c.Prompts) == 0 || e.API != nil {
		return v, nil
	}
	text, err := r.prompt(c.Prompts[0])
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.out, "prompt.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return nil, &diag.Error{Kind: diag.Machine, Op: "prompt file", Err: err}
	}
	v["prompt_file"] = path
	return v, nil
}

func (r *rig) prompt(p plan.Prompt) (string, error) {
	if p.Random > 0 {
		return randomWords(p.Random, p.Seed), nil
	}
	if p.File == "" {
		return p.Text, nil
	}
	path := p.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.m.o.Root, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", &diag.Error{Kind: diag.Workflow, Op: "prompt_file", Msg: p.File, Err: err}
	}
	return head(string(b), p.Bytes), nil
}

// Close ends the engine, reads what it left, and fills in the facts.
func (r *rig) Close(ctx context.Context, a *record.Arm) error {
	var err error
	if r.proc != nil {
		err = r.proc.Stop(ctx)
		if r.proc.client != nil {
			r.proc.client.Close()
		}
	}
	r.drain(ctx)
	err = errors.Join(err, r.restore(ctx))
	r.mu.Lock()
	r.end(machine.Monotonic())
	a.Steps = r.steps
	r.mu.Unlock()
	sampled := r.sampler.Stop()
	a.Samples = r.sampler.Samples()
	a.Metrics = append(a.Metrics, samplerMetrics(sampled, machine.Monotonic()-r.sampling, len(a.Samples))...)
	a.MonoEndNS = machine.Monotonic()
	r.neighbours(a)
	r.kernelLog(a)
	if r.proc != nil {
		r.proc.facts(ctx, a)
	}
	r.m.saw(r.own)
	err = errors.Join(err, closeSources(r.own))
	if !r.m.o.Keep {
		err = errors.Join(err, os.RemoveAll(r.out))
	}
	return err
}

// process is a launched engine with a client.
type process struct {
	r      *rig
	e      plan.Engine
	ep     *engine.Process
	client *client.Client

	mu            sync.Mutex
	requests      []record.Request
	evidence      []record.Evidence
	before, after map[string]float64
	stopped       bool
	ran           bool
	elapsed       *float64
	load          *record.Load
	stable        *bool    // whether a warm-up until stable became so
	texts         []string // prompts that were sent, without their nonces
	notes         []string // warnings of the arm
}

// Confirm reads the evidence now. What shows only later is read again at the stop.
func (p *process) Confirm(ctx context.Context) ([]record.Evidence, error) {
	ev := append(p.ep.Confirm(ctx, withoutHost(p.r.t.Levers), "ready"), p.confirmHost(ctx, "ready")...)
	p.mu.Lock()
	p.evidence = append(p.evidence, ev...)
	p.mu.Unlock()
	return ev, ctx.Err()
}

// Generate sends the workload, or lets a command engine run to its end.
func (p *process) Generate(ctx context.Context, w plan.Workload, mark string) ([]record.Request, error) {
	if p.client == nil {
		return nil, p.runCommand(ctx, mark)
	}
	prompts, err := p.prompts(w, mark)
	if err != nil {
		return nil, err
	}
	if mark == record.MarkMeasured && p.before == nil {
		p.before = p.counters(ctx)
	}
	// A dead engine answers no more: what is in flight ends by its closed socket, the rest is not sent.
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-p.ep.Done():
			t := time.NewTimer(time.Second)
			defer t.Stop()
			select {
			case <-t.C:
				cancel()
			case <-rctx.Done():
			}
		case <-rctx.Done():
		}
	}()
	rows, err := p.send(rctx, w, prompts, mark)
	if err == nil && mark == record.MarkMeasured && p.attached() && w.Nonce {
		rows = append(rows, p.client.Run(rctx, p.identity(prompts, len(rows)), 1)...)
	}
	cancel()
	<-ended
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.requests = append(p.requests, rows...)
	p.mu.Unlock()
	if ctx.Err() != nil {
		return rows, context.Cause(ctx)
	}
	if p.ended(ctx, rows) {
		return rows, &run.EngineError{Reason: p.died(mark, rows)}
	}
	if mark == record.MarkMeasured {
		p.after = p.counters(ctx)
	}
	return rows, nil
}

// deathNotice is how long the news that an engine ended may take after its sockets closed.
const deathNotice = time.Second

// ended reports whether the engine is gone. A socket closes before the supervisor can tell of the death
// behind it, so after a broken connection the news gets a moment: else an engine that dies while it warms
// up is found out only by the next request, which says nothing of where it died.
func (p *process) ended(ctx context.Context, rows []record.Request) bool {
	var notice <-chan time.Time
	for _, q := range rows {
		if q.Status != "ok" && (q.ErrorKind == "connect" || q.ErrorKind == "closed") {
			t := time.NewTimer(deathNotice)
			defer t.Stop()
			notice = t.C
			break
		}
	}
	if notice == nil {
		select {
		case <-p.ep.Done():
			return true
		default:
			return false
		}
	}
	select {
	case <-p.ep.Done():
		return true
	case <-notice:
	case <-ctx.Done():
	}
	return false
}

// died says how the engine ended, and where.
func (p *process) died(mark string, rows []record.Request) string {
	info := p.ep.Info()
	how := "ended by itself"
	switch {
	case info.OOMKilled:
		how = "was killed for want of memory"
	case info.Signal != "":
		how = "was ended by " + info.Signal
	case info.ExitCode != nil:
		how = fmt.Sprintf("exited by itself with code %d", *info.ExitCode)
	}
	for i, q := range rows {
		if q.Status != "ok" {
			return fmt.Sprintf("the engine %s during the %s requests, in request %d of %d after %d content frames", how, mark, i+1, len(rows), q.ContentFrames)
		}
	}
	return fmt.Sprintf("the engine %s after the %s requests", how, mark)
}

// runCommand waits for a command engine; to warm it means nothing.
func (p *process) runCommand(ctx context.Context, mark string) error {
	if mark != record.MarkMeasured || p.ran {
		return nil
	}
	p.ran = true
	err := p.ep.Wait(ctx)
	info := p.ep.Info()
	if info.ExitNS > info.LaunchNS {
		s := float64(info.ExitNS-info.LaunchNS) / 1e9
		p.elapsed = &s
	}
	var exit *engine.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		return &run.EngineError{Reason: exit.Error()}
	case err != nil:
		return &run.EngineError{Reason: err.Error()}
	}
	return nil
}

// prompts lays out the workload's requests: warm ones with the first prompt of each case, measured ones
// repeat by repeat, so that a prompt's repeats are spread over the arm.
func (p *process) prompts(w plan.Workload, mark string) ([]client.Prompt, error) {
	p.mu.Lock()
	index := len(p.requests)
	if w.Stable != nil && mark == record.MarkMeasured { // the same in every arm, however long it took to warm up
		index = max(index, w.Stable.AtMost*len(w.Cases))
	}
	p.mu.Unlock()
	info, err := plan.Effective(p.e, p.r.t.Side.Stack)
	if err != nil {
		return nil, err
	}
	body, err := plan.MergeJSON(info.Request, w.Body)
	if err != nil {
		return nil, err
	}
	var out []client.Prompt
	add := func(c plan.Case, text string, repeat int) {
		q := client.Prompt{Case: c.Name, Index: index + len(out), Repeat: repeat, Mark: mark, Text: text, MaxTokens: c.MaxTokens,
			Temperature: w.Temperature, Seed: w.Seed, IgnoreEOS: w.IgnoreEOS, Body: body}
		if w.Nonce {
			q.Nonce = nonce(p.nonceSeed(), q.Index)
		}
		out = append(out, q)
	}
	for _, c := range w.Cases {
		repeats, prompts := w.Repeat, c.Prompts
		if mark == record.MarkWarm {
			repeats, prompts = w.Warmup, c.Prompts[:1]
			if w.Stable != nil {
				repeats = w.Stable.AtMost
			}
		}
		texts := make([]string, len(prompts))
		for i, x := range prompts {
			if texts[i], err = p.r.prompt(x); err != nil {
				return nil, err
			}
		}
		for n := range repeats {
			for _, text := range texts {
				add(c, text, n)
			}
		}
		if mark == record.MarkMeasured {
			p.texts = append(p.texts, texts...)
		}
	}
	return out, nil
}

// counters reads the engine's metrics endpoint; nil where it has none.
func (p *process) counters(ctx context.Context) map[string]float64 {
	if p.e.API == nil || p.e.API.Metrics == "" {
		return nil
	}
	m, err := p.client.Metrics(ctx)
	if err != nil {
		return nil
	}
	return m
}

// Stop reads the evidence a last time and ends the engine.
func (p *process) Stop(ctx context.Context) error {
	p.mu.Lock()
	first := !p.stopped
	p.stopped = true
	p.mu.Unlock()
	if first {
		cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		ev := append(p.ep.Confirm(cctx, withoutHost(p.r.t.Levers), "stop"), p.confirmHost(cctx, "stop")...)
		p.mu.Lock()
		p.evidence = append(p.evidence, ev...)
		dead, notes := p.deadKnobs(cctx, p.evidence)
		p.evidence, p.notes = append(p.evidence, dead...), append(p.notes, notes...)
		p.recount(cctx)
		p.mu.Unlock()
		cancel()
	}
	return p.ep.Stop(ctx)
}

// Info is what is known of the process so far.
func (p *process) Info() *record.Process { return p.ep.Info() }

// facts fills an arm with what the process did.
func (p *process) facts(ctx context.Context, a *record.Arm) {
	info := p.ep.Info()
	if info.Binary != "" {
		if h, err := p.r.m.digests.Binary(ctx, info.Binary); err == nil {
			info.BinarySHA = h
		}
		info.Version = p.r.m.version(ctx, p.e, info.BinarySHA)
	}
	a.Process, a.Evidence, a.Requests, a.Load = info, p.evidence, p.requests, p.load
	for i := range a.Requests {
		a.Requests[i].Values = metric.Request(&a.Requests[i])
	}
	stdout, ok := p.ep.Stdout()
	if !ok {
		stdout = info.Log // without a file of its own, standard output is in the log
	}
	a.Metrics = append(a.Metrics, metric.Arm(a, p.e.Metrics, metric.Inputs{
		File:   func(path string) ([]byte, error) { return os.ReadFile(p.file(path)) },
		Log:    info.Log,
		Stdout: stdout, Before: p.before, After: p.after, Elapsed: p.elapsed,
		Sensors: hardware.Sensors(p.r.sources), Needed: needed(p.r.t.Group),
	})...)
	a.Warnings = append(append(a.Warnings, p.notes...), warnings(a, p.texts)...)
}

// needed are the metrics that the group will ask for beside the engine's own.
func needed(g *plan.Group) []string {
	out := []string{g.Primary}
	for name := range g.Costs {
		out = append(out, name)
	}
	if g.Probe != nil {
		out = append(out, g.Probe.Metric)
	}
	sort.Strings(out)
	return out
}

// file is a path that a metric names: absolute, or in the arm's folder.
func (p *process) file(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(p.r.out, path)
}

// version asks an engine for its version, once for each binary of a session.
func (m *Real) version(ctx context.Context, e plan.Engine, sha string) string {
	if len(e.Version) == 0 {
		return ""
	}
	key := sha + "\x00" + fmt.Sprint(e.Version)
	m.mu.Lock()
	v, ok := m.versions[key]
	m.mu.Unlock()
	if ok {
		return v
	}
	v, err := engine.Version(ctx, e, m.o.Root)
	if err != nil {
		v = "unknown: " + err.Error()
	}
	m.mu.Lock()
	m.versions[key] = v
	m.mu.Unlock()
	return v
}

// attached: flow did not launch the engine, so that it lives on between arms.
func (p *process) attached() bool { return p.e.URL != "" }

// nonceSeed is the group's, so that prompts are equal between arms; an engine that lives on between arms
// would find them in its cache, so there it carries the arm as well.
func (p *process) nonceSeed() uint64 {
	if !p.attached() {
		return p.r.t.GroupSeed
	}
	h := sha256.Sum256([]byte(p.r.t.ArmID))
	return p.r.t.GroupSeed ^ binary.LittleEndian.Uint64(h[:])
}

// identity is one request more, without a nonce and greedy: by its text the output of sides is compared
// whose other prompts differ.
func (p *process) identity(ps []client.Prompt, n int) []client.Prompt {
	if len(ps) == 0 {
		return nil
	}
	q := ps[0]
	q.Index, q.Mark, q.Nonce, q.Temperature, q.ScheduledNS = ps[0].Index+n, record.MarkIdentity, "", 0, nil
	return []client.Prompt{q}
}
