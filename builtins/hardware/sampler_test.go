package hardware

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// scripted is a source that does what a test says.
type scripted struct {
	name    string
	sensors []record.Sensor
	isSlow  bool
	calls   atomic.Int64
	sample  func(call int, emit func(string, float64)) error
}

func (s *scripted) Name() string             { return s.name }
func (s *scripted) Sensors() []record.Sensor { return s.sensors }
func (s *scripted) Close() error             { return nil }
func (s *scripted) slow() bool               { return s.isSlow }
func (s *scripted) Sample(_ int64, emit func(string, float64)) error {
	return s.sample(int(s.calls.Add(1)), emit)
}

func script(name string, sample func(call int, emit func(string, float64)) error) *scripted {
	return &scripted{name: name, sample: sample, sensors: []record.Sensor{
		{Name: name + ".value", Unit: "1", Source: "a script", Available: true},
		{Name: name + ".missing", Unit: "1", Source: "a script", Why: "nobody wrote it", Fix: "write it"},
	}}
}

func steady(name string) *scripted {
	return script(name, func(call int, emit func(string, float64)) error { emit(name+".value", float64(call)); return nil })
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 10 s", what)
		}
	}
}

// TestBarrier: the sampler is started when everything needed has a first value, not before.
func TestBarrier(t *testing.T) {
	late := script("late", func(call int, emit func(string, float64)) error {
		if call < 4 {
			return errors.New("not yet")
		}
		emit("late.value", float64(call))
		return nil
	})
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: []Source{steady("a"), late}, Interval: time.Millisecond, Need: []string{"late.*", "a.value"}})
	if err != nil {
		t.Fatal(err)
	}
	first := s.Samples()
	if !slices.ContainsFunc(first, func(x record.Sample) bool { return x.Sensor == "late.value" }) {
		t.Errorf("started without late.value: %v", first)
	}
	st := s.Stop()
	if i := slices.IndexFunc(st.Sources, func(x SourceStats) bool { return x.Name == "late" }); st.Sources[i].Errors != 3 || st.Sources[i].LastError != "not yet" {
		t.Errorf("got %+v, want three errors noted", st.Sources[i])
	}
}

func TestBarrierRefuses(t *testing.T) {
	never := script("never", func(int, func(string, float64)) error { return errors.New("the cable is out") })
	silent := script("silent", func(int, func(string, float64)) error { return nil })
	for _, c := range []struct {
		need, want, fix string
	}{
		{"never.value", `sensor "never.value": no value after 30ms from a script: the cable is out`, "flow doctor"},
		{"silent.*", `sensor "silent.value": no value after 30ms from a script`, "flow doctor"},
		{"a.missing", `sensor "a.missing": not available: nobody wrote it`, "write it"},
		{"a.other", `sensor "a.other": no such sensor on this machine`, "such as a.value"},
		{"b.*", `sensor "b.*": no such sensor on this machine`, "flow doctor"},
	} {
		s, err := StartSampler(context.Background(), SamplerOptions{Sources: []Source{steady("a"), never, silent}, Interval: time.Millisecond,
			Barrier: 30 * time.Millisecond, Need: []string{"a.value", c.need}})
		var d *diag.Error
		if s != nil || !errors.As(err, &d) {
			t.Errorf("%s: got %v, %v, want a diag.Error", c.need, s, err)
			continue
		}
		if d.Kind != diag.Machine || !strings.Contains(err.Error(), c.want) || !strings.Contains(d.Fix, c.fix) {
			t.Errorf("%s: got %v (kind %v, fix %q), want %q (fix with %q)", c.need, err, d.Kind, d.Fix, c.want, c.fix)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(5*time.Millisecond, cancel)
	if _, err := StartSampler(ctx, SamplerOptions{Sources: []Source{silent}, Interval: time.Millisecond, Need: []string{"silent.value"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// TestEngineSensorsAreNotWaitedFor: they have values only with an engine, and the engine starts after the
// barrier.
func TestEngineSensorsAreNotWaitedFor(t *testing.T) {
	e := steady("engine")
	e.sample = func(int, func(string, float64)) error { return nil }
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: []Source{e}, Interval: time.Millisecond, Need: []string{"engine.*"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
}

// TestDeadlines: time is a script. A tick that takes too long makes the next one late and drops those
// whose deadlines have passed; it does not move the grid.
func TestDeadlines(t *testing.T) {
	const ms = int64(time.Millisecond)
	var now atomic.Int64
	// What each tick takes, in ms; the interval is 10. Tick 1 begins at 0 and ends at 37: the deadlines
	// 10 and 20 are dropped, that of 30 is served at once, 7 ms behind: late. It ends at 40, so tick 3
	// begins at 40.
	takes := []int64{37, 3}
	src := script("a", func(call int, emit func(string, float64)) error {
		emit("a.value", float64(call))
		if call <= len(takes) {
			now.Add(takes[call-1] * ms)
		}
		return nil
	})
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: []Source{src}, Interval: 10 * time.Millisecond, Now: now.Load})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a third tick", func() bool { return src.calls.Load() >= 3 })
	st := s.Stop()
	got := s.Samples()
	if len(got) < 3 || got[0].MonoNS != 0 || got[1].MonoNS != 37*ms || got[2].MonoNS != 40*ms {
		t.Errorf("got %v, want ticks at 0, 37 and 40 ms", got)
	}
	if st.Dropped != 2 || st.Late != 1 {
		t.Errorf("got %d dropped and %d late, want 2 and 1", st.Dropped, st.Late)
	}
}

// TestHungSource: a driver that does not return takes neither the other values nor the end with it.
func TestHungSource(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hung := script("gpu", func(call int, emit func(string, float64)) error {
		if call == 2 {
			<-release
		}
		emit("gpu.value", 1)
		return nil
	})
	hung.isSlow = true
	a := steady("a")
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: []Source{hung, a}, Interval: time.Millisecond, Need: []string{"gpu.value"}, patience: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the source hangs", func() bool { return hung.calls.Load() == 2 })
	before := a.calls.Load()
	until(t, "the others go on", func() bool { return a.calls.Load() > before+3 })
	if len(s.Samples()) == 0 {
		t.Error("no samples")
	}
	st := s.Stop()
	i := slices.IndexFunc(st.Sources, func(x SourceStats) bool { return x.Name == "gpu" })
	if st.Sources[i].Errors != 1 || st.Sources[i].LastError != "a reading did not return" {
		t.Errorf("got %+v, want the hang noted", st.Sources[i])
	}
}

// TestValues: in time, also across lanes; not a number is not a value; OnSample sees each one, one call at
// a time.
func TestValues(t *testing.T) {
	odd := script("odd", func(call int, emit func(string, float64)) error {
		emit("odd.value", []float64{1, math.NaN(), math.Inf(1)}[call%3])
		return nil
	})
	gpu := steady("gpu")
	gpu.isSlow = true
	var inside atomic.Int32
	var seen []record.Sample
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: []Source{gpu, steady("a"), odd}, Interval: 200 * time.Microsecond,
		OnSample: func(x record.Sample) {
			if inside.Add(1) != 1 {
				t.Error("OnSample is called twice at a time")
			}
			seen = append(seen, x)
			inside.Add(-1)
		}})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "more than a chunk", func() bool { return len(s.Samples()) > chunkLen+100 })
	st := s.Stop()
	got := s.Samples()
	if !slices.IsSortedFunc(got, func(a, b record.Sample) int { return int(a.MonoNS - b.MonoNS) }) {
		t.Error("samples are not in time")
	}
	if len(got) != len(seen) {
		t.Errorf("%d samples kept, %d seen", len(got), len(seen))
	}
	n := map[string]int{}
	for _, x := range got {
		n[x.Sensor]++
		if x.Sensor == "odd.value" && x.Value != 1 {
			t.Fatalf("kept %v", x)
		}
	}
	for _, src := range st.Sources {
		want := src.Reads
		if src.Name == "odd" {
			want = src.Reads / 3
		}
		if n[src.Name+".value"] != want {
			t.Errorf("%s: %d values of %d reads, want %d", src.Name, n[src.Name+".value"], src.Reads, want)
		}
	}
	if again := s.Stop(); again.Ticks != st.Ticks {
		t.Error("a second Stop says something else")
	}
}

// TestManyHands: everything at once, for the race detector.
func TestManyHands(t *testing.T) {
	srcs := Open(tree(t, "cpu-server"))
	defer closeAll(t, srcs)
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: srcs, Interval: time.Millisecond, Need: []string{"meminfo.*", "psi.*"}, OnSample: func(record.Sample) {}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				s.Samples()
				s.Engine(func() []int { return []int{i} })
				if _, err := ReadOnce(srcs, nil, []string{"loadavg.1m"}); err != nil {
					t.Error(err)
				}
				s.Engine(nil)
			}
		})
	}
	wg.Wait()
	s.Stop()
	s.Samples()
}

// TestEngineIsFollowed: from Engine on its processes are sampled, and no longer after Engine(nil).
func TestEngineIsFollowed(t *testing.T) {
	f := fakeProcs{t, t.TempDir()}
	write(t, f.proc+"/self/status", "Name:\tflow\n")
	f.set(10, 1, "S", 100, 0, 2048)
	srcs := []Source{&guarded{Source: openEngine(Options{Proc: f.proc}.withDefaults())}}
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: srcs, Interval: time.Millisecond, Need: []string{"engine.rss_mib"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	s.Engine(func() []int { return []int{10} })
	until(t, "the engine is seen", func() bool { return len(s.Samples()) > 8 })
	s.Engine(nil)
	ticks := func() int { l := s.lanes[0]; l.mu.Lock(); defer l.mu.Unlock(); return l.ticks }
	n := ticks()
	until(t, "a whole tick without it", func() bool { return ticks() > n+2 })
	before := len(s.Samples())
	n = ticks()
	until(t, "and more", func() bool { return ticks() > n+5 })
	if after := len(s.Samples()); after != before {
		t.Errorf("%d values after the engine was let go", after-before)
	}
	for _, x := range s.Samples() {
		if x.Sensor == "engine.cpu_s" && x.Value != 1 {
			t.Errorf("got %v, want 1 s", x)
		}
	}
}

// TestNoGarbage: a sample in steady state allocates nothing. Looking for processes by pattern does, every
// two seconds, in a lane of its own.
func TestNoGarbage(t *testing.T) {
	srcs := Open(tree(t, "cpu-server"))
	defer closeAll(t, srcs)
	emit := func(string, float64) {}
	now := int64(0)
	if n := testing.AllocsPerRun(50, func() {
		now += int64(time.Second)
		for _, s := range srcs {
			if s.Name() == "procs" {
				continue
			}
			if err := s.Sample(now, emit); err != nil {
				t.Fatal(err)
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations a sample, want none", n)
	}
}
