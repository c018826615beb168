package run_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// hosted is a scripted machine that can be read and changed, and whose sampler ticks at 10 Hz on its own
// clock: while an arm measures, and while it settles.
type hosted struct {
	*scripted
	mu     sync.Mutex
	ns     int64
	values func(step string, tick int) map[string]float64 // what the sensors say
	words  map[string]string
	beside func(arm int) []string
	refuse error
	rig    *hostedRig
	ticks  int // of the arm that runs
	arms   int
	did    []string
}

func newHosted(t *testing.T) *hosted { return &hosted{scripted: newScripted(t)} }

const period = 100 * time.Millisecond

func (m *hosted) now() int64 { m.mu.Lock(); defer m.mu.Unlock(); return m.ns }

// sleep lets time go by, sampling.
func (m *hosted) sleep(ctx context.Context, d time.Duration) error {
	for end := m.now() + int64(d); m.now() < end && ctx.Err() == nil; {
		m.mu.Lock()
		m.ns += int64(period)
		r := m.rig
		m.mu.Unlock()
		if r != nil {
			r.sample()
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (m *hosted) Open(ctx context.Context, t run.Task) (run.Rig, error) {
	r, err := m.scripted.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	h := &hostedRig{scriptedRig: r.(*scriptedRig), m: m}
	m.rig, m.ticks = h, 0
	m.arms++
	h.sample()
	return h, nil
}

type hostedRig struct {
	*scriptedRig
	m       *hosted
	step    string
	samples []record.Sample
}

func (r *hostedRig) sample() {
	if r.m.values == nil {
		return
	}
	at := r.m.now()
	v := r.m.values(r.step, r.m.ticks)
	r.m.ticks++
	for _, k := range slices.Sorted(func(yield func(string) bool) {
		for k := range v {
			if !yield(k) {
				return
			}
		}
	}) {
		x := record.Sample{Sensor: k, MonoNS: at, Value: v[k]}
		r.samples = append(r.samples, x)
		r.t.OnSample(x)
	}
}

func (r *hostedRig) Samples() []record.Sample { return slices.Clone(r.samples) }
func (r *hostedRig) Mark(step string)         { r.step = step; r.scriptedRig.Mark(step) }
func (r *hostedRig) Close(ctx context.Context, a *record.Arm) error {
	a.Samples = r.samples
	err := r.scriptedRig.Close(ctx, a)
	if r.m.beside != nil {
		a.Neighbours = r.m.beside(r.m.arms)
	}
	r.m.did = append(r.m.did, "close")
	return err
}

func (r *hostedRig) Apply(_ context.Context, hs []plan.HostSetting) ([]record.Finding, error) {
	if r.m.refuse != nil {
		return nil, r.m.refuse
	}
	var out []record.Finding
	for _, h := range hs {
		r.m.did = append(r.m.did, h.String())
		out = append(out, record.Finding{Gate: "host " + h.Key(), Phase: plan.PhaseBefore, Outcome: record.Pass, Required: true})
	}
	return out, nil
}

func (r *hostedRig) Words(_ context.Context, names []string) (said, why map[string]string) {
	said, why = map[string]string{}, map[string]string{}
	for _, n := range names {
		if v, ok := r.m.words[n]; ok {
			said[n] = v
		} else {
			why[n] = "nobody says"
		}
	}
	return said, why
}

func (m *hosted) Words(ctx context.Context, names []string) (said, why map[string]string) {
	return (&hostedRig{m: m}).Words(ctx, names)
}

func (r *hostedRig) PageCache(_ context.Context, policy string) error {
	r.m.did = append(r.m.did, "page cache "+policy)
	return nil
}

func (r *hostedRig) Preheat(_ context.Context, d time.Duration, heater []string) error {
	r.m.did = append(r.m.did, fmt.Sprint("preheat ", d, heater))
	return nil
}

func (m *hosted) run(t *testing.T, g *plan.Group) (*record.Group, error) {
	t.Helper()
	mem, ids := run.NewMemory(), 0
	s := run.NewSession(run.Config{Session: &record.Session{ID: "s", Seed: 7, Machine: record.Machine{ID: "m"}}, Clock: run.Clock{Mono: m.now, Wall: m.now},
		Measurer: m, Recorder: mem, Journal: mem, Sleep: m.sleep, NewID: func() string { ids++; return fmt.Sprint("id", ids) }})
	res, err := s.Run(t.Context(), []*plan.Group{g})
	if err != nil {
		return nil, err
	}
	return res[0], nil
}

func one(x float64) *float64 { return &x }

// measures lets an arm measure for a second of the machine's clock.
func (m *hosted) measures() {
	m.during = func(ctx context.Context, _ run.Task) error { return m.sleep(ctx, time.Second) }
}

// Traces of what goes wrong while an arm runs: each guard ends the arm within two sampling periods of the
// breach having lasted, with the right words, and the arm is invalid.
func TestGuardsEndAnArm(t *testing.T) {
	inMeasure := func(name string, good, bad float64) func(step string, tick int) map[string]float64 {
		from := -1
		return func(step string, tick int) map[string]float64 {
			v := map[string]float64{name: good, "nvml.0.util_pct": 95, "psi.memory.full_avg10_pct": 0}
			if step != "measure" {
				from = -1
				return v
			}
			if from < 0 {
				from = tick
			}
			if tick-from >= 3 {
				v[name] = bad
			}
			return v
		}
	}
	for _, c := range []struct {
		name   string
		guard  plan.Guard
		values func(step string, tick int) map[string]float64
		want   string
		side   string // whose arm it is
	}{
		{"low clock", plan.Guard{Name: "clock floor", Sensor: "nvml.0.sm_clock_mhz", Below: one(1600), Hold: 200 * time.Millisecond, Sides: []string{"B"}, Step: "measure",
			While: &plan.While{Sensor: "nvml.0.util_pct", Above: 50}}, inMeasure("nvml.0.sm_clock_mhz", 1620, 907), "gate clock floor: observed nvml.0.sm_clock_mhz was 907, below 1600 for 200ms", "B"},
		{"swap", plan.Guard{Name: "swap growth", Sensor: "meminfo.swap_used_mib", Growth: true, Above: one(64)}, inMeasure("meminfo.swap_used_mib", 100, 356),
			"gate swap growth: observed growth of meminfo.swap_used_mib was 256, above 64", "A"},
		{"thermal throttle", plan.Guard{Name: "thermal", Sensor: "nvml.0.reason_hw_thermal", Above: one(0), Hold: 100 * time.Millisecond}, inMeasure("nvml.0.reason_hw_thermal", 0, 1),
			"gate thermal: observed nvml.0.reason_hw_thermal was 1, above 0", "A"},
		{"foreign load", plan.Guard{Name: "foreign", Sensor: "procs.engines.count", Above: one(1)}, inMeasure("procs.engines.count", 1, 2), "gate foreign: observed procs.engines.count was 2, above 1", "A"},
		{"foreign process on the GPU", plan.Guard{Name: "foreign GPU", Sensor: "nvml.0.foreign_processes", Above: one(0), Hold: 200 * time.Millisecond}, inMeasure("nvml.0.foreign_processes", 0, 1),
			"gate foreign GPU: observed nvml.0.foreign_processes was 1, above 0 for 200ms", "A"},
		{"pressure of the user", plan.Guard{Name: "pressure", Sensor: "psi.memory.full_avg10_pct", Also: []string{"psi.user.memory.full_avg10_pct"}, Above: one(10)},
			inMeasure("psi.user.memory.full_avg10_pct", 1, 31), "gate pressure: observed psi.user.memory.full_avg10_pct was 31, above 10", "A"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newHosted(t)
			m.values = c.values
			began := int64(0)
			m.during = func(ctx context.Context, _ run.Task) error {
				began = m.now()
				return m.sleep(ctx, 10*time.Second)
			}
			g, err := m.run(t, testGroup(t, func(g *plan.Group) { g.Cap, g.Retry, g.Guards = 1, 0, []plan.Guard{c.guard} }))
			if err != nil {
				t.Fatal(err)
			}
			last := g.Arms[len(g.Arms)-1]
			if last.Label != c.side || last.Disposition != record.Invalid || !strings.Contains(last.Reason, c.want) {
				t.Fatalf("arm %s is %s: %s, want %q", last.Label, last.Disposition, last.Reason, c.want)
			}
			// The fourth sample is the first bad one; then the hold, and at most two periods more.
			if late := time.Duration(last.MonoEndNS-began) - 4*period - c.guard.Hold; late > 2*period {
				t.Errorf("ended %s after the breach, want at most %s", late, 2*period)
			}
			if f := last.Findings[len(last.Findings)-1]; f.Gate != c.guard.Name || f.Outcome != record.Fail || f.Observed == "" || f.Limit == "" {
				t.Errorf("evidence %+v", f)
			}
			if g.Verdict != record.Invalid {
				t.Errorf("verdict %s (%s)", g.Verdict, g.Reason)
			}
		})
	}
}

// cooling is a device that loses a degree a second from 60, again before each arm.
func cooling(_ string, tick int) map[string]float64 {
	return map[string]float64{"temp": 60 - float64(tick)/10, "other": 1}
}

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name     string
		settling plan.Settling
		values   func(string, int) map[string]float64
		labels   string
		settled  float64 // seconds
		words    string
	}{
		{"until it is cool", plan.Settling{Until: []plan.Band{{Sensor: "temp", Below: one(55)}}}, cooling, "A:ok B:ok B:ok A:ok", 5, "temp 55"},
		{"and has been for a while", plan.Settling{Until: []plan.Band{{Sensor: "temp", Below: one(55), Hold: 2 * time.Second}}}, cooling, "A:ok B:ok B:ok A:ok", 7, "temp 53"},
		{"the pause counts", plan.Settling{Pause: 6 * time.Second, Until: []plan.Band{{Sensor: "te*", Below: one(55)}}}, cooling, "A:ok B:ok B:ok A:ok", 6, "temp 54"},
		{"too hot for too long, go on", plan.Settling{Timeout: 3 * time.Second, Until: []plan.Band{{Sensor: "temp", Below: one(40)}}}, cooling, "A:ok B:ok B:ok A:ok", 3, "the time was up: temp is 57"},
		{"too hot for too long, void", plan.Settling{Timeout: 3 * time.Second, Invalid: true, Until: []plan.Band{{Sensor: "temp", Below: one(40)}}}, cooling, "A:invalid", 3, "the time was up: temp is 57"},
		{"too cold", plan.Settling{Timeout: time.Second, Invalid: true, Until: []plan.Band{{Sensor: "temp", Above: one(70), Below: one(80)}}}, cooling, "A:invalid", 1, "temp is 59"},
		{"no such sensor", plan.Settling{Timeout: time.Second, Until: []plan.Band{{Sensor: "clock", Above: one(1)}}}, cooling, "A:ok B:ok B:ok A:ok", 1, "clock has no samples"},
		{"until it is steady", plan.Settling{Until: []plan.Band{{Sensor: "temp", Slope: one(.01), Hold: time.Second}}}, func(_ string, tick int) map[string]float64 {
			return map[string]float64{"temp": 50 - float64(min(tick, 20))/10}
		}, "A:ok B:ok B:ok A:ok", 3, "temp 48"},
		{"never steady", plan.Settling{Timeout: 4 * time.Second, Invalid: true, Until: []plan.Band{{Sensor: "temp", Slope: one(.01), Hold: time.Second}}}, cooling, "A:invalid", 4, "temp changes by"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newHosted(t)
			m.values = c.values
			m.measures()
			g, err := m.run(t, testGroup(t, func(g *plan.Group) { g.Cap, g.Retry, g.Settling = 1, 0, &c.settling }))
			if err != nil {
				t.Fatal(err)
			}
			if got := labels(g); got != c.labels {
				t.Errorf("arms %s, want %s", got, c.labels)
			}
			for _, a := range g.Arms {
				var took *float64
				for _, x := range a.Metrics {
					if x.Name == "settle_s" {
						took = x.Value
					}
				}
				if took == nil || *took < c.settled-.05 || *took > c.settled+.15 {
					t.Errorf("arm %d settled in %v s, want %v", a.Seq, took, c.settled)
				}
				f := a.Findings[0]
				if f.Gate != "settle" || !strings.Contains(f.Observed+" "+f.Reason, c.words) {
					t.Errorf("arm %d: %+v, want %q", a.Seq, f, c.words)
				}
			}
		})
	}
}

// Heat first, then the page cache, then settings, then the launch: on both sides alike but for what differs.
func TestHostInOrder(t *testing.T) {
	m := newHosted(t)
	m.words = map[string]string{"governor": "powersave"}
	seen := map[string]string{}
	g, err := m.run(t, testGroup(t, func(g *plan.Group) {
		g.Cap = 1
		g.Settling = &plan.Settling{Preheat: time.Second, Heater: []string{"burn"}, PageCache: plan.CacheCold}
		g.Host = []plan.HostSetting{{Name: plan.HostTHP, Value: "never"}, {Name: plan.HostGovernor, Value: "powersave"}}
		g.Sides[1].Stack[0].Host = []plan.HostSetting{{Name: plan.HostGovernor, Value: "performance"}}
		g.Gates = []plan.Gate{{Name: "words", Phase: plan.PhaseBefore, Scope: "arm", Required: true, Needs: []string{"host.governor", "host.power_source"},
			Check: func(_ context.Context, a *record.Arm) (record.Finding, error) {
				seen["governor"], seen["why"] = a.Host["governor"], a.HostWhy["power_source"]
				return record.Finding{Outcome: record.Pass}, nil
			}}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := "preheat 1s [burn]|page cache cold|thp = never|governor = powersave|close|preheat 1s [burn]|page cache cold|thp = never|governor = performance|close"
	if got := strings.Join(m.did[:10], "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := strings.Join(m.trace[:6], "|"); got != "open A|settle A|gates A|host A|launch A|confirm A" {
		t.Errorf("steps %s", got)
	}
	if seen["governor"] != "powersave" || seen["why"] != "nobody says" {
		t.Errorf("words %v", seen)
	}
	if c := g.Sides[1].Command; c.Host["governor"] != "performance" || c.Host["thp"] != "never" || c.Delta["host governor"] != "performance" || c.Delta["host thp"] != "" {
		t.Errorf("side B: %+v", c)
	}
}

// A setting that the machine refuses ends the session: measuring without it would be another experiment.
func TestHostRefused(t *testing.T) {
	m := newHosted(t)
	m.refuse = &diag.Error{Kind: diag.Machine, Op: "host setting thp", Msg: "cannot set it to never", Fix: "run flow as root"}
	_, err := m.run(t, testGroup(t, func(g *plan.Group) { g.Host = []plan.HostSetting{{Name: plan.HostTHP, Value: "never"}} }))
	if k, ok := diag.KindOf(err); !ok || k != diag.Machine || !strings.Contains(err.Error(), "thp") {
		t.Errorf("got %v, want the machine's refusal", err)
	}
	if !slices.Equal(m.did, []string{"close"}) {
		t.Errorf("did %v: the rig is closed on every path", m.did)
	}
}

// A neighbour that comes inside a block voids it, with words; one that is there all the time does not.
func TestNeighbours(t *testing.T) {
	m := newHosted(t)
	m.beside = func(arm int) []string {
		if arm >= 3 {
			return []string{"pid 7 (workflow other.star) has gpu:1"}
		}
		return nil
	}
	g, err := m.run(t, testGroup(t, func(g *plan.Group) { g.Cap = 1 }))
	if err != nil {
		t.Fatal(err)
	}
	if got := labels(g); got != "A:ok B:ok B:invalid A:ok B:ok B:ok A:ok" {
		t.Errorf("arms %s", got)
	}
	if w := g.Arms[2].Reason; !strings.Contains(w, "a neighbour started or ended inside the block") || !strings.Contains(w, "other.star") {
		t.Errorf("reason %q", w)
	}
}

// Outside an arm the host is asked in words, too.
func TestWaitUntilWords(t *testing.T) {
	m := newHosted(t)
	m.words = map[string]string{"power_source": "battery"}
	mem := run.NewMemory()
	s := run.NewSession(run.Config{Session: &record.Session{ID: "s"}, Clock: run.Clock{Mono: m.now, Wall: m.now}, Measurer: m, Recorder: mem, Journal: mem,
		Sleep: func(ctx context.Context, d time.Duration) error {
			m.words["power_source"] = "ac"
			return m.sleep(ctx, d)
		}})
	ok, err := s.WaitUntil(t.Context(), func(_ context.Context, a *record.Arm) (record.Finding, error) {
		if a.Host["power_source"] == "ac" {
			return record.Finding{Outcome: record.Pass}, nil
		}
		return record.Finding{Outcome: record.Fail}, nil
	}, plan.Code{}, []string{"host.power_source"}, time.Minute)
	if err != nil || !ok {
		t.Errorf("got %v, %v", ok, err)
	}
}
