package hardware

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"flow/workflows/record"
)

// counting is a source with a counter of energy and a sensor that only ticks may read.
type counting struct {
	scripted
	marked atomic.Int64
	err    error
}

func (c *counting) mark(emit func(string, float64)) error {
	emit("c.energy_j", float64(c.marked.Add(1)))
	return c.err
}

func newCounting() *counting {
	c := &counting{}
	c.name = "c"
	c.sensors = []record.Sensor{{Name: "c.energy_j", Unit: "J", Counter: true, Available: true}, {Name: "c.temp_c", Unit: "°C", Available: true}}
	c.sample = func(_ int, emit func(string, float64)) error { emit("c.temp_c", 1); return nil }
	return c
}

// TestMarks: a mark has the counters of energy read within moments, whatever the interval, and nothing else;
// many marks at once are few readings.
func TestMarks(t *testing.T) {
	c, other := newCounting(), steady("a")
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: []Source{&guarded{Source: other}, &guarded{Source: c}}, Interval: time.Hour, Need: []string{"c.temp_c"}})
	if err != nil {
		t.Fatal(err)
	}
	before := monotonic()
	s.Mark()
	until(t, "a reading for the mark", func() bool { return c.marked.Load() == 1 })
	i := -1
	until(t, "its value", func() bool {
		xs := s.Samples()
		i = slices.IndexFunc(xs, func(x record.Sample) bool { return x.Sensor == "c.energy_j" })
		return i >= 0
	})
	if x := s.Samples()[i]; x.MonoNS < before || x.MonoNS > monotonic() {
		t.Errorf("the reading has the time %d, want one after %d", x.MonoNS, before)
	}
	for range 1000 {
		s.Mark()
	}
	st := s.Stop()
	if n := c.marked.Load(); n > 100 {
		t.Errorf("%d readings for a thousand marks at once", n)
	}
	if c.calls.Load() != 2 || other.calls.Load() != 2 { // the first tick and the last
		t.Errorf("the marks made %d and %d other readings, want the first and the last", c.calls.Load(), other.calls.Load())
	}
	i = slices.IndexFunc(st.Sources, func(x SourceStats) bool { return x.Name == "c" })
	if x := st.Sources[i]; int64(x.Marks) != c.marked.Load() || x.Reads != x.Marks+2 {
		t.Errorf("got %+v for %d readings at marks", x, c.marked.Load())
	}
	if st.Late+st.Dropped != 0 {
		t.Errorf("marks made ticks late: %+v", st)
	}
	s.Mark() // after the end it asks nobody, and waits for nobody
	s.Mark()
}

// TestMarkFails: a counter that cannot be read at a mark is noted, and ends nothing.
func TestMarkFails(t *testing.T) {
	c := newCounting()
	c.err = errors.New("the counter is gone")
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: []Source{&guarded{Source: c}}, Interval: time.Hour, Need: []string{"c.temp_c"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Mark()
	until(t, "a reading for the mark", func() bool { return c.marked.Load() == 1 })
	if st := s.Stop(); st.Sources[0].Errors != 1 || st.Sources[0].LastError != "the counter is gone" {
		t.Errorf("got %+v", st.Sources[0])
	}
}

// TestWhatMarksRead: of a GPU its energy alone, of powercap every domain; a GPU without a counter is not asked.
func TestWhatMarksRead(t *testing.T) {
	var asked []quantity
	with := &scriptedGPU{uuid: "GPU-a", read: func(q quantity) (float64, error) { asked = append(asked, q); return 7, nil }}
	without := &scriptedGPU{uuid: "GPU-b", read: func(q quantity) (float64, error) {
		if q == gpuEnergy {
			return 0, errNotSupported
		}
		return 7, nil
	}}
	o := tree(t, "nvidia-laptop")
	o.OpenFile = openRegular // the laptop refuses its counters; here they are open
	o.NVMLFile, o.NVML, o.gpus = "", true, &scriptedGPUs{gpus: []gpu{with, without}}
	srcs := Open(o)
	defer closeAll(t, srcs)
	asked = nil
	var got []string
	for _, s := range srcs {
		if g := s.(*guarded); g.marks() {
			if err := g.mark(func(name string, _ float64) { got = append(got, name) }); err != nil {
				t.Error(err)
			}
		}
	}
	if want := []string{"rapl.package-0.energy_j", "nvml.0.energy_j"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := []quantity{gpuEnergy}; !slices.Equal(asked, want) {
		t.Errorf("asked the GPU for %v, want its energy alone", asked)
	}
}

// TestChipsAtMarks: of a chip its counters of joules are read at a mark, and not its temperatures.
func TestChipsAtMarks(t *testing.T) {
	sys := t.TempDir()
	for name, text := range map[string]string{"name": "amd_energy", "energy1_input": "5000000", "energy1_label": "Esocket0", "temp1_input": "40000", "power1_input": "9000000"} {
		path := filepath.Join(sys, "class/hwmon/hwmon0", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g := &guarded{Source: openHwmon(Options{Sys: sys}.withDefaults())}
	defer closeAll(t, []Source{g})
	got := map[string]float64{}
	if err := g.mark(func(name string, v float64) { got[name] = v }); err != nil || !g.marks() {
		t.Fatal(g.marks(), err)
	}
	if len(got) != 1 || got["hwmon.amd_energy.esocket0_energy_j"] != 5 {
		t.Errorf("got %v, want the energy alone", got)
	}
}
