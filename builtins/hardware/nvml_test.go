package hardware

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// scriptedGPUs is a library whose devices say what a test tells them.
type scriptedGPUs struct {
	openErr error
	gpus    []gpu
	opened  bool
	closed  bool
	calls   int
}

func (l *scriptedGPUs) Open() error { l.opened = true; return l.openErr }
func (l *scriptedGPUs) Close() error {
	l.closed = true
	return nil
}
func (l *scriptedGPUs) Driver() (string, error) { l.calls++; return "550.54.15", nil }
func (l *scriptedGPUs) GPUs() ([]gpu, error)    { l.calls++; return l.gpus, nil }

type scriptedGPU struct {
	uuid  string
	read  func(q quantity) (float64, error)
	procs []gpuProcess
}

func (g *scriptedGPU) Processes() ([]gpuProcess, error) { return g.procs, nil }

func (g *scriptedGPU) UUID() string                     { return g.uuid }
func (g *scriptedGPU) Name() string                     { return "H200" }
func (g *scriptedGPU) Source(quantity) string           { return "a script" }
func (g *scriptedGPU) Read(q quantity) (float64, error) { return g.read(q) }

// TestNoLibrary: an absent library is a reason, and after a failed Open nothing is called.
func TestNoLibrary(t *testing.T) {
	for _, c := range []struct {
		err error
		fix string
	}{{errNoLibrary, "install the NVIDIA driver (its library libnvidia-ml.so.1), or start the container with the GPUs"}, {errNoDriver, "load the driver: sudo modprobe nvidia"}} {
		lib := &scriptedGPUs{openErr: c.err}
		s := openNVML(Options{NVML: true, gpus: lib})
		for _, x := range s.Sensors() {
			if x.Available || x.Why != c.err.Error() || x.Fix != c.fix {
				t.Errorf("got %+v, want %v", x, c.err)
			}
		}
		if lib.calls > 0 {
			t.Error("the library was asked after it failed to open")
		}
		if err := s.Sample(0, func(n string, _ float64) { t.Errorf("emitted %s", n) }); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil || lib.closed {
			t.Errorf("close: %v, closed %v", err, lib.closed)
		}
	}
	lib := &scriptedGPUs{}
	s := openNVML(Options{gpus: lib})
	if lib.opened || s.Sensors()[0].Why != "NVML was not asked for" {
		t.Error("NVML is opened without being asked for")
	}
}

// TestRealLibrary: on whatever machine this runs, with a driver or without.
func TestRealLibrary(t *testing.T) {
	srcs := []Source{openNVML(Options{NVML: true})}
	defer closeAll(t, srcs)
	x := srcs[0].Sensors()[0]
	t.Logf("%s: available %v, %s; %v", x.Name, x.Available, x.Why, GPUs(srcs))
	if x.Available != (len(GPUs(srcs)) > 0) {
		t.Errorf("%d GPUs, %+v", len(GPUs(srcs)), x)
	}
}

// TestGPUSampling: what a GPU has not got is not available; what fails in mid-run is missing from then on,
// noted, and takes nothing else with it.
func TestGPUSampling(t *testing.T) {
	lost := false
	a := &scriptedGPU{uuid: "GPU-a", read: func(q quantity) (float64, error) {
		if q == gpuEnergy {
			return 0, errNotSupported
		}
		if q == gpuUtil && lost {
			return 0, errors.New("the GPU has fallen off the bus")
		}
		return float64(q) + 100, nil
	}}
	b := &scriptedGPU{uuid: "GPU-b", read: func(q quantity) (float64, error) { return float64(q) + 200, nil }}
	lib := &scriptedGPUs{gpus: []gpu{a, b}}
	srcs := Open(Options{Proc: "testdata/nowhere", Sys: "testdata/nowhere", NVML: true, gpus: lib})
	if got, want := GPUs(srcs), []GPU{{"GPU-a", "H200", "550.54.15"}, {"GPU-b", "H200", "550.54.15"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, x := range Sensors(srcs) {
		if x.Name == "nvml.0.energy_j" && (x.Available || x.Why != errNotSupported.Error()) {
			t.Errorf("got %+v, want not supported", x)
		}
		if x.Name == "nvml.1.energy_j" && !x.Available {
			t.Errorf("got %+v, want available", x)
		}
	}
	got := sampleAll(t, srcs, 0)
	if len(got) != 2*(len(quantities)+len(gpuReasons)+len(pcieQuantities)+len(gpuProcQuantities))-1 || got["nvml.0.power_w"] != 100+float64(gpuPower) || got["nvml.1.energy_j"] != 200+float64(gpuEnergy) {
		t.Errorf("got %v", got)
	}
	lost = true
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: srcs, Interval: time.Millisecond, Need: []string{"nvml.1.*", "nvml.0.power_w"}})
	if err != nil {
		t.Fatal(err)
	}
	st := s.Stop()
	for _, x := range s.Samples() {
		if x.Sensor == "nvml.0.util_pct" {
			t.Error("a failed reading has a value")
		}
	}
	i := slices.IndexFunc(st.Sources, func(x SourceStats) bool { return x.Name == "nvml" })
	if x := st.Sources[i]; x.Errors != x.Reads || x.LastError != "nvml.0.util_pct: the GPU has fallen off the bus" {
		t.Errorf("got %+v", x)
	}
	closeAll(t, srcs)
	if !lib.closed {
		t.Error("the library is left open")
	}
}

// TestPace: at 100 Hz what the driver renews every 100 ms is read every 50 ms, what has no period every time;
// a new arm begins with a reading of everything.
func TestPace(t *testing.T) {
	reads := map[quantity]int{}
	g := &scriptedGPU{uuid: "GPU-a", read: func(q quantity) (float64, error) { reads[q]++; return 1, nil }}
	s := openNVML(Options{NVML: true, gpus: &scriptedGPUs{gpus: []gpu{g}}})
	clear(reads)
	emit := func(string, float64) {}
	for i := range int64(100) { // a second
		if err := s.Sample(1e9+i*1e7, emit); err != nil {
			t.Fatal(err)
		}
	}
	for q, want := range map[quantity]int{gpuSMClock: 100, gpuTemp: 100, gpuPower: 20, gpuEnergy: 20, gpuUtil: 12, gpuPowerAverage: 2, gpuProcesses: 2} {
		if reads[q] != want {
			t.Errorf("quantity %d was read %d times in a second, want %d", q, reads[q], want)
		}
	}
	clear(reads)
	s.reset()
	if err := s.Sample(2e9+1, emit); err != nil || reads[gpuPowerAverage] != 1 || reads[gpuPower] != 1 {
		t.Errorf("after a reset: %v, %v", reads, err)
	}
}
