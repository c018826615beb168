package measure

// The simulated measurer: arms from declared effects and noise. A lever's effect multiplies the primary
// metric in its good direction; the noise of an arm is a function of the group's seed and of the arm's
// place in it, so that the same seed gives the same session, and a resumed one goes on as it would have.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"encoding/json"

	"flow/builtins/metric"
	"flow/builtins/stats"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// Simulated is the measurer. It is safe for one session at a time.
type Simulated struct {
	Model   Model
	On      record.Machine                     // the machine it stands for
	Prompts func(label string) (string, error) // text of a prompt file; nil: files are not read

	mu   sync.Mutex
	mono int64 // virtual clock
	wall func() int64
}

var (
	_ run.Measurer  = (*Simulated)(nil)
	_ run.Historian = (*Simulated)(nil)
)

// NewSimulated makes a measurer whose clock begins at the given wall time and goes on as its arms do.
func NewSimulated(m Model, on record.Machine, wall func() int64) *Simulated {
	return &Simulated{Model: m, On: on, mono: int64(time.Second), wall: wall}
}

// Clock is the session's clock: virtual, so that an arm of two minutes takes microseconds.
func (m *Simulated) Clock() run.Clock {
	start, began := m.wall(), m.now()
	return run.Clock{Mono: m.now, Wall: func() int64 { return start + m.now() - began }}
}

// Past is the history that the model declares, in the cases of the group.
func (m *Simulated) Past(g *plan.Group, seed uint64) []*record.Group {
	var cases []string
	for _, c := range g.Workload.Cases {
		cases = append(cases, c.Name)
	}
	if p := m.Model.Past(seed, g.Primary, g.Better, cases); p != nil {
		return []*record.Group{p}
	}
	return nil
}

// Sleep lets virtual time go by.
func (m *Simulated) Sleep(ctx context.Context, d time.Duration) error {
	m.advance(int64(d))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (m *Simulated) now() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mono
}

func (m *Simulated) advance(ns int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mono += ns
	return m.mono
}

// Digests takes names for what they name: nothing is read.
func (m *Simulated) Digests() plan.Digests { return named{} }

type named struct{}

func (named) File(_ context.Context, path string) (plan.Hash, error) {
	return shaText("file", path), nil
}

func (named) Binary(_ context.Context, name string) (plan.Hash, error) {
	return shaText("binary", name), nil
}

// Machine is the machine the session stands for.
func (m *Simulated) Machine(context.Context) (record.Machine, error) { return m.On, nil }

// Sensors is empty: any name that a gate needs is answered with a plausible value.
func (m *Simulated) Sensors(context.Context) ([]record.Sensor, error) { return nil, nil }

// Read answers every name with a quiet machine's value.
func (m *Simulated) Read(_ context.Context, sensors []string) ([]record.Sample, error) {
	var out []record.Sample
	for _, s := range sensors {
		out = append(out, record.Sample{Sensor: s, MonoNS: m.now(), Value: quiet(s)})
	}
	return out, nil
}

// Close has nothing to release.
func (m *Simulated) Close() error { return nil }

// Open begins an arm.
func (m *Simulated) Open(_ context.Context, t run.Task) (run.Rig, error) {
	r := &simRig{m: m, t: t, values: sensorValues(t)}
	r.sample()
	return r, nil
}

// quiet is what a machine at rest says.
func quiet(sensor string) float64 {
	if strings.Contains(sensor, "available") || strings.Contains(sensor, "free") {
		return 16384
	}
	return 0
}

// sensorValues gives every needed sensor a value inside the limits of the gates and guards that name it,
// so that a rehearsal walks the path on which the conditions hold.
func sensorValues(t run.Task) map[string]float64 {
	v := map[string]float64{}
	for _, s := range t.Sensors {
		name := strings.TrimSuffix(s, "*")
		v[name] = quiet(name)
	}
	inside := func(sensor string, low, high *float64) {
		name := strings.TrimSuffix(sensor, "*")
		switch {
		case low != nil && high != nil:
			v[name] = (*low + *high) / 2
		case low != nil:
			v[name] = max(quiet(name), *low+math.Abs(*low)*.05)
		case high != nil:
			v[name] = min(quiet(name), *high-math.Abs(*high)*.05)
		}
	}
	for _, g := range t.Group.Guards {
		if !g.Growth {
			inside(g.Sensor, g.Below, g.Above)
		}
	}
	for _, g := range t.Group.Gates {
		var p struct {
			Sensor  string   `json:"sensor"`
			AtLeast *float64 `json:"at_least"`
			AtMost  *float64 `json:"at_most"`
		}
		if json.Unmarshal([]byte(g.Params), &p) != nil {
			continue
		}
		if p.Sensor == "" && len(g.Needs) == 1 {
			p.Sensor = g.Needs[0]
		}
		if p.Sensor != "" {
			inside(p.Sensor, p.AtLeast, p.AtMost)
		}
	}
	return v
}

type simRig struct {
	m        *Simulated
	t        run.Task
	values   map[string]float64
	samples  []record.Sample
	steps    []record.Step
	proc     *simProcess
	requests []record.Request
}

func (r *simRig) sample() {
	at := r.m.now()
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		s := record.Sample{Sensor: name, MonoNS: at, Value: r.values[name]}
		r.samples = append(r.samples, s)
		if r.t.OnSample != nil {
			r.t.OnSample(s)
		}
	}
}

func (r *simRig) Samples() []record.Sample { return slices.Clone(r.samples) }

func (r *simRig) Mark(step string) {
	at := r.m.now()
	if n := len(r.steps); n > 0 && r.steps[n-1].EndNS == 0 {
		r.steps[n-1].EndNS = at
	}
	r.steps = append(r.steps, record.Step{Name: step, StartNS: at})
	r.sample()
}

func (r *simRig) Launch(ctx context.Context, e plan.Engine) (plan.Process, error) {
	c, err := plan.Effective(e, r.t.Side.Stack)
	if err != nil {
		return nil, err
	}
	launch := r.m.now()
	ready := r.m.advance(int64(time.Second))
	r.proc = &simProcess{r: r, engine: e, info: record.Process{Argv: c.Argv, Env: c.Env, Files: c.Config, Version: "simulated",
		LaunchNS: launch, ReadyNS: ready}}
	if len(c.Argv) > 0 {
		r.proc.info.Binary = c.Argv[0]
	}
	return r.proc, ctx.Err()
}

func (r *simRig) Close(_ context.Context, a *record.Arm) error {
	if r.proc != nil {
		if err := r.proc.Stop(context.Background()); err != nil {
			return err
		}
		a.Process = r.proc.Info()
		a.Evidence = r.proc.evidence
	}
	r.sample()
	if n := len(r.steps); n > 0 && r.steps[n-1].EndNS == 0 {
		r.steps[n-1].EndNS = r.m.now()
	}
	a.Steps, a.Samples = r.steps, r.samples
	a.Requests = r.requests
	for i := range a.Requests {
		a.Requests[i].Values = metric.Request(&a.Requests[i])
	}
	a.MonoEndNS = r.m.now()
	if r.proc != nil {
		a.Metrics = append(a.Metrics, r.metrics(a)...)
	}
	return nil
}

// metrics are those of the requests, and every metric that no request can give (a command engine's, a
// formula's) straight from the model.
func (r *simRig) metrics(a *record.Arm) []record.Metric {
	var out []record.Metric
	if r.proc.engine.API != nil {
		out = metric.Arm(a, nil, metric.Inputs{})
	}
	have := map[string]bool{}
	for _, m := range append(slices.Clone(a.Metrics), out...) {
		have[m.Name] = true
	}
	direct := func(name, unit, better string) {
		if have[name] {
			return
		}
		have[name] = true
		v := 100 * r.factor("")
		if name != r.t.Group.Primary {
			v = 100
		} else if better == "lower" {
			v = 100 / r.factor("")
		}
		out = append(out, record.Metric{Name: name, Unit: unit, Better: better, Source: "simulated", Value: &v, N: 1})
	}
	for _, d := range r.proc.engine.Metrics {
		direct(d.Name, d.Unit, d.Better)
	}
	direct(r.t.Group.Primary, "", r.t.Group.Better)
	for _, c := range slices.Sorted(maps.Keys(r.t.Group.Costs)) {
		direct(c, "", "")
	}
	for i := range out {
		if _, cost := r.t.Group.Costs[out[i].Name]; cost && out[i].Name != r.t.Group.Primary && out[i].Value != nil {
			v := *out[i].Value * r.cost(out[i].Name, out[i].Case)
			out[i].Value = &v
		}
	}
	return out
}

// cost is what multiplies a cost on this arm: what the levers do to it, and noise of its own, as large as the primary
// metric's. It is put on the arm's metric alone: requests stay as they are.
func (r *simRig) cost(name, cs string) float64 {
	w := r.m.Model.World()
	if sd, ok := r.m.Model.CaseSD[cs]; ok && cs != "" {
		w.SD = sd
	}
	p, h := r.place(), sha256.Sum256([]byte(name+"\x00"+cs))
	p.Stream = binary.BigEndian.Uint64(h[:8])
	return math.Exp(r.m.Model.CostOf(r.t.Side.Stack, name) + w.Log(p))
}

// factor is what multiplies the primary metric on this arm, in a case of the workload: effects, and what
// the place does to it.
func (r *simRig) factor(cs string) float64 {
	w, stream := r.m.Model.World(), uint64(0)
	if sd, ok := r.m.Model.CaseSD[cs]; ok && cs != "" {
		h := sha256.Sum256([]byte(cs))
		w.SD, stream = sd, binary.BigEndian.Uint64(h[:8])
	}
	p := r.place()
	p.Stream = stream
	return math.Exp(r.m.Model.EffectOf(r.t.Side.Stack) + w.Log(p))
}

// place is where the arm stands.
func (r *simRig) place() stats.Place {
	g, coin := r.t.Group, r.t.GroupSeed&1 == 1
	p := stats.Place{Seed: r.t.GroupSeed, Session: r.t.Seq, Block: r.t.Block, Slot: r.t.Slot, Attempt: r.t.Attempt}
	if r.t.Block < 0 {
		return p
	}
	labels := g.BlockAt(r.t.Block, coin).Labels
	p.BlockLen = len(labels)
	before := ""
	switch {
	case r.t.Slot > 0:
		before = labels[r.t.Slot-1]
	case r.t.Block > 0:
		last := g.BlockAt(r.t.Block-1, coin).Labels
		before = last[len(last)-1]
	case g.WarmArm:
		before = labels[0]
	}
	p.After = before != "" && before != g.ControlSide().Label
	return p
}

type simProcess struct {
	r        *simRig
	engine   plan.Engine
	info     record.Process
	evidence []record.Evidence
	stopped  bool
}

func (p *simProcess) Confirm(ctx context.Context) ([]record.Evidence, error) {
	var out []record.Evidence
	for _, l := range p.r.t.Levers {
		on := has(p.r.t.Side.Stack, l)
		for _, c := range l.Confirm {
			e := record.Evidence{Lever: l.Name, Kind: c.Kind, What: confirmWhat(c), When: "ready", Found: on}
			if on {
				e.Observed = "simulated"
			}
			out = append(out, e)
		}
	}
	p.evidence = append(p.evidence, out...)
	return out, ctx.Err()
}

// confirmWhat is what a confirm asks for, in words.
func confirmWhat(c plan.Confirm) string {
	for _, s := range []string{c.Pattern, c.Text, c.Name, c.Reason} {
		if s != "" {
			return s
		}
	}
	return c.Path + c.Pointer
}

func (p *simProcess) Generate(ctx context.Context, w plan.Workload, mark string) ([]record.Request, error) {
	if p.engine.API == nil {
		if mark == record.MarkMeasured {
			p.r.m.advance(int64(10 * time.Second))
		}
		return nil, ctx.Err()
	}
	var out []record.Request
	for _, c := range w.Cases {
		decode, prefill := 100.0, 2000.0
		switch p.r.t.Group.Primary {
		case "prefill_tok_s", "ttft_ms", "ttft_content_ms", "ttfr_ms":
			prefill *= p.r.factor(c.Name)
		default:
			decode *= p.r.factor(c.Name)
		}
		for _, prompt := range c.Prompts {
			n := w.Repeat
			if mark == record.MarkWarm {
				n = w.Warmup
			}
			for i := range n {
				out = append(out, p.request(len(p.r.requests)+len(out), c, prompt, w, mark, i, decode, prefill))
			}
			if mark == record.MarkWarm {
				p.r.requests = append(p.r.requests, out...)
				return out, ctx.Err()
			}
		}
	}
	p.r.requests = append(p.r.requests, out...)
	return out, ctx.Err()
}

func (p *simProcess) request(index int, c plan.Case, prompt plan.Prompt, w plan.Workload, mark string, repeat int, decode, prefill float64) record.Request {
	text := prompt.Text
	if prompt.File != "" && p.r.m.Prompts != nil {
		if t, err := p.r.m.Prompts(prompt.File); err == nil {
			text = t
		}
	}
	q := record.Request{Index: index, Case: c.Name, Repeat: repeat, Mark: mark, Status: "ok", HTTPStatus: 200, StampSource: "simulated"}
	if w.Nonce {
		q.Nonce = nonce(p.r.t.GroupSeed, q.Index)
		text = q.Nonce + "\n" + text
	}
	changing := []string{shaText(prompt.File, text), strconv.Itoa(c.MaxTokens)}
	for _, l := range p.r.t.Side.Stack {
		if l.ChangesOutput {
			changing = append(changing, l.Name)
		}
	}
	sort.Strings(changing[2:])
	q.PromptSHA, q.TextSHA = changing[0], shaText(changing...)
	prompts, tokens, cached := max(len(text)/4, 64), max(c.MaxTokens, 1), 0
	at := p.r.m.now()
	stamp := func(ns float64) *int64 { t := at + int64(ns); return &t }
	first := float64(prompts) / prefill * 1e9
	last := first + float64(tokens-1)/decode*1e9
	q.SentNS, q.HeadersNS, q.FirstByteNS, q.FirstChoiceNS, q.FirstContentNS = stamp(0), stamp(1e6), stamp(first), stamp(first), stamp(first)
	q.LastContentNS, q.UsageNS, q.DoneNS, q.CloseNS = stamp(last), stamp(last), stamp(last), stamp(last)
	q.Frames, q.ContentFrames, q.Reads = tokens+1, tokens, tokens+1
	q.PromptTokens, q.CompletionTokens, q.CachedTokens = &prompts, &tokens, &cached
	q.Counts = []record.Count{{Source: "usage", What: "prompt", N: prompts}, {Source: "usage", What: "completion", N: tokens}, {Source: "timings", What: "completion", N: tokens}}
	q.FinishReason = "length"
	p.r.m.advance(int64(last))
	return q
}

func (p *simProcess) Stop(context.Context) error {
	if p.stopped {
		return nil
	}
	p.stopped = true
	code := 0
	p.info.ExitCode, p.info.ExitNS, p.info.StoppedBy = &code, p.r.m.advance(int64(100*time.Millisecond)), "signal"
	if p.engine.API == nil {
		p.info.StoppedBy = "itself"
	}
	return nil
}

func (p *simProcess) Info() *record.Process {
	c := p.info
	return &c
}
