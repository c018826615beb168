package hardware

// NVIDIA GPUs, behind an interface of our own: the library needs cgo and a driver, and both are absent on
// most machines that flow is built on. NVML calls take from microseconds to tens of milliseconds and hang
// when a GPU falls off its bus, so this source has a lane of its own.

import (
	"errors"
	"fmt"
	"strconv"

	"flow/workflows/record"
)

// gpuLibrary is what flow asks of NVML. After an error of Open, and after Close, nothing else may be
// called: with the real library that ends the process ("undefined symbol").
type gpuLibrary interface {
	Open() error
	Driver() (string, error)
	GPUs() ([]gpu, error)
	Close() error
}

// gpu is one device. Read may be asked for anything; what the device has not got is errNotSupported.
type gpu interface {
	UUID() string
	Name() string
	Read(q quantity) (float64, error)
	Source(q quantity) string // where the value comes from, in words
}

// quantity is what can be read of a GPU.
type quantity int

const (
	gpuPower quantity = iota
	gpuEnergy
	gpuSMClock
	gpuMemClock
	gpuTemp
	gpuMemUsed
	gpuUtil
	gpuThrottle
	gpuPowerLimit
)

var (
	errNotSupported = errors.New("not supported by this GPU or its driver")
	errNoLibrary    = errors.New("libnvidia-ml.so.1 is not there")
	errNoDriver     = errors.New("the NVIDIA driver is not loaded")
	errNoCgo        = errors.New("this flow was built without NVML: it needs Linux and cgo")
	errNotAsked     = errors.New("NVML was not asked for")
)

// quantities are the sensors of one GPU. Reasons for throttling are a bit mask: 1 idle, 2 application
// clocks, 4 software power cap, 8 hardware slowdown, 16 sync boost, 32 software thermal, 64 hardware
// thermal, 128 power brake.
var quantities = [...]struct {
	q            quantity
	suffix, unit string
	counter      bool
	period       int
}{
	{gpuPower, "power_w", "W", false, 100},
	{gpuEnergy, "energy_j", "J", true, 100},
	{gpuSMClock, "sm_clock_mhz", "MHz", false, 0},
	{gpuMemClock, "mem_clock_mhz", "MHz", false, 0},
	{gpuTemp, "temp_c", "°C", false, 0},
	{gpuMemUsed, "mem_used_mib", "MiB", false, 0},
	{gpuUtil, "util_pct", "%", false, 167},
	{gpuThrottle, "throttle_reasons", "bits", false, 0},
	{gpuPowerLimit, "power_limit_w", "W", false, 0},
}

// GPU is what a device is, for the identity of the machine.
type GPU struct {
	UUID, Name, Driver string
}

// GPUs are the NVIDIA devices behind an NVML source of srcs, none where it is not available.
func GPUs(srcs []Source) []GPU {
	for _, s := range srcs {
		if g, ok := s.(*guarded); ok {
			s = g.Source
		}
		if n, ok := s.(*nvmlSource); ok {
			return n.known
		}
	}
	return nil
}

type nvmlSource struct {
	lib     gpuLibrary // nil: not available
	readers []gpuReader
	sensors []record.Sensor
	known   []GPU
}

type gpuReader struct {
	g      gpu
	q      quantity
	sensor string
}

func openNVML(o Options) Source {
	s := &nvmlSource{}
	if !o.NVML {
		s.unavailable(errNotAsked)
		return s
	}
	lib := o.gpus
	if lib == nil {
		lib = newGPULibrary()
	}
	if err := lib.Open(); err != nil {
		s.unavailable(err)
		return s
	}
	gpus, err := lib.GPUs()
	if err == nil && len(gpus) == 0 {
		err = errors.New("NVML sees no GPU")
	}
	if err != nil {
		s.unavailable(err)
		_ = lib.Close()
		return s
	}
	s.lib = lib
	driver, _ := lib.Driver() // a fact, not a condition
	for i, g := range gpus {
		s.known = append(s.known, GPU{UUID: g.UUID(), Name: g.Name(), Driver: driver})
		for _, q := range quantities {
			x := record.Sensor{Name: "nvml." + strconv.Itoa(i) + "." + q.suffix, Unit: q.unit, Counter: q.counter, PeriodMS: q.period, Source: g.Source(q.q)}
			if _, err := g.Read(q.q); err != nil {
				x.Why, x.Fix = err.Error(), "use a GPU or a driver that has it"
			} else {
				x.Available = true
				s.readers = append(s.readers, gpuReader{g, q.q, x.Name})
			}
			s.sensors = append(s.sensors, x)
		}
	}
	return s
}

// unavailable lists the sensors of a first GPU, so that asking for one says why there is none.
func (s *nvmlSource) unavailable(err error) {
	fix := "see nvidia-smi on this machine"
	switch {
	case errors.Is(err, errNoLibrary):
		fix = "install the NVIDIA driver (its library libnvidia-ml.so.1), or start the container with the GPUs"
	case errors.Is(err, errNoDriver):
		fix = "load the driver: sudo modprobe nvidia"
	case errors.Is(err, errNoCgo):
		fix = "build flow on Linux with CGO_ENABLED=1"
	case errors.Is(err, errNotAsked):
		fix = ""
	}
	for _, q := range quantities {
		s.sensors = append(s.sensors, record.Sensor{Name: "nvml.0." + q.suffix, Unit: q.unit, Counter: q.counter, PeriodMS: q.period,
			Source: "NVML", Why: err.Error(), Fix: fix})
	}
}

func (s *nvmlSource) Name() string             { return "nvml" }
func (s *nvmlSource) Sensors() []record.Sensor { return s.sensors }
func (s *nvmlSource) slow() bool               { return s.lib != nil }

func (s *nvmlSource) Close() error {
	if s.lib == nil {
		return nil
	}
	lib := s.lib
	s.lib, s.readers = nil, nil
	return lib.Close()
}

// Sample reads every quantity that could be read when the source was opened. One that fails leaves the
// others in place.
func (s *nvmlSource) Sample(_ int64, emit func(string, float64)) error {
	var failed error
	for i := range s.readers {
		r := &s.readers[i]
		v, err := r.g.Read(r.q)
		if err != nil {
			if failed == nil {
				failed = fmt.Errorf("%s: %w", r.sensor, err)
			}
			continue
		}
		emit(r.sensor, v)
	}
	return failed
}
