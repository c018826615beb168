package measure

// The real measurer: engine, client and sampler joined on one monotonic clock.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"flow/builtins/client"
	"flow/builtins/engine"
	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/builtins/owner"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// RealOptions is what the measurer of this machine needs.
type RealOptions struct {
	Root      string        // the workflow's folder: relative files are below it
	Paths     []string      // values of parameters that are paths: relative to Root, where there is such a file
	Exe       string        // flow itself: the supervisor, and {flow}
	Work      string        // folder in which every arm gets one of its own
	Keep      bool          // leave the arms' folders when they are recorded
	StateDir  string        // caches
	LockDir   string        // "" is the machine's
	Proc, Sys string        // "" is /proc and /sys
	RAPL      string        // the one powercap domain for energy; "" is every package
	Interval  time.Duration // of the sampler where a group does not say; 100 ms when zero
	SessionID string
	Owner     *owner.Owner  // of the engines' processes
	Workflow  string        // for whoever waits for our locks
	Wait      time.Duration // for another flow on this machine; 0 is not at all
	OnWait    func(words string)
	KernelLog string         // "" is /dev/kmsg
	Run       machine.Runner // of host commands; nil starts processes
	Wall      func() int64   // the wall clock, ns; nil is the machine's
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
	if o.Wall == nil {
		o.Wall = func() int64 { return time.Now().UnixNano() }
	}
	// An engine runs in a folder of its own, from which a relative path would lead elsewhere.
	for _, dir := range []*string{&o.Work, &o.StateDir, &o.LockDir} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return nil, &diag.Error{Kind: diag.Machine, Op: "folder " + *dir, Err: err, Fix: "start flow from a folder that exists"}
		}
		*dir = abs
	}
	if err := os.MkdirAll(o.StateDir, 0o755); err != nil {
		return nil, &diag.Error{Kind: diag.Machine, Op: "state folder", Err: err, Fix: "set XDG_STATE_HOME to a folder that can be written"}
	}
	return &Real{
		o: o, versions: map[string]string{},
		sources: hardware.Open(hardware.Options{Proc: o.Proc, Sys: o.Sys, Now: machine.Monotonic, NVML: true, RAPL: o.RAPL}),
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
	every := cmp.Or(t.Group.SampleEvery, m.o.Interval, plan.SampleUsual)
	s, err := hardware.StartSampler(ctx, hardware.SamplerOptions{Sources: sources, Interval: every, Now: machine.Monotonic,
		Need: t.Sensors, OnSample: onSample})
	if err != nil {
		err = errors.Join(err, closeSources(own))
		_ = os.RemoveAll(out)
		return nil, err
	}
	return &rig{m: m, t: t, out: out, sampler: s, every: every, sampling: machine.Monotonic(), sources: sources, own: own, used: used, vram: v, beside: machine.Neighbours(m.o.LockDir)}, nil
}

// rig is one arm on this machine.
type rig struct {
	m        *Real
	t        run.Task
	out      string
	sampler  *hardware.Sampler
	every    time.Duration     // between the sampler's ticks
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
	r.sampler.Mark()
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
	o := engine.Options{Supervisor: []string{r.m.o.Exe, "supervise"}, Now: machine.Monotonic, Allow: r.m.o.Allow, Owner: r.m.o.Owner}
	ep, err := r.bound(ctx, o, engine.Launch{Engine: e, Command: c, Vars: vars, Out: r.out, Root: r.m.o.Root, Paths: r.m.o.Paths})
	if err != nil {
		return nil, launchError(err)
	}
	r.proc = &process{r: r, e: e, ep: ep}
	r.sampler.Engine(ep.Tree)
	if err := ep.WaitReady(ctx); err != nil {
		return nil, launchError(err)
	}
	if e.API != nil {
		r.proc.client = client.New(client.Options{API: *e.API, BaseURL: ep.BaseURL(), Now: machine.Monotonic, Wall: r.m.o.Wall, Timeout: e.Timeouts.WithDefaults().Request, OnMark: r.sampler.Mark})
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
	a.Metrics = append(a.Metrics, samplerMetrics(sampled, r.every, machine.Monotonic()-r.sampling, len(a.Samples))...)
	a.MonoEndNS = machine.Monotonic()
	r.neighbours(a)
	r.kernelLog(a)
	if r.proc != nil {
		r.proc.facts(ctx, a)
	}
	r.m.saw(r.own)
	err = errors.Join(err, closeSources(r.own))
	if r.proc != nil && !r.proc.attached() {
		err = errors.Join(err, whole(r.out, freeBytes))
	}
	if !r.m.o.Keep {
		err = errors.Join(err, os.RemoveAll(r.out))
	}
	return err
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
