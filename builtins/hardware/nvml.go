package hardware

// NVIDIA GPUs, behind an interface of our own: the library needs cgo and a driver, and both are absent on
// most machines that flow is built on. NVML calls take from microseconds to tens of milliseconds and hang
// when a GPU falls off its bus, so this source has a lane of its own.

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

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
	Processes() ([]gpuProcess, error)
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
	gpuPowerAverage
	gpuMemTemp
	gpuMemTotal
	gpuMemUtil
	gpuProcesses
	gpuEccCorrected
	gpuEccUncorrected
	gpuXid
	gpuPcieRx // the two take 20 ms each: the library measures for as long
	gpuPcieTx
	gpuPcieGen
	gpuPcieWidth
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
	{gpuPowerAverage, "power_average_w", "W", false, 1000},
	{gpuMemTemp, "mem_temp_c", "°C", false, 0},
	{gpuMemTotal, "mem_total_mib", "MiB", false, 0},
	{gpuMemUtil, "mem_util_pct", "%", false, 167},
	{gpuProcesses, "processes", "processes", false, 1000}, // of no period, but asking is two calls that list
	{gpuEccCorrected, "ecc_corrected", "errors", true, 0},
	{gpuEccUncorrected, "ecc_uncorrected", "errors", true, 0},
	{gpuXid, "xid", "events", true, 0},
}

// gpuReasons are the causes behind a clock, each a sensor of its own: 1 while it holds. The software power
// cap is what a part with a power limit lives by; the thermal ones and the power brake are faults.
var gpuReasons = [...]struct {
	bit    uint64
	suffix string
}{
	{1, "reason_idle"}, {2, "reason_app_clocks"}, {4, "reason_sw_power_cap"}, {8, "reason_hw_slowdown"},
	{16, "reason_sync_boost"}, {32, "reason_sw_thermal"}, {64, "reason_hw_thermal"}, {128, "reason_power_brake"},
}

// pcieQuantities have a source of their own, read once a second: each throughput is measured over 20 ms.
var pcieQuantities = [...]struct {
	q            quantity
	suffix, unit string
}{
	{gpuPcieRx, "pcie_rx_mib_s", "MiB/s"},
	{gpuPcieTx, "pcie_tx_mib_s", "MiB/s"},
	{gpuPcieGen, "pcie_gen", "generation"},
	{gpuPcieWidth, "pcie_width", "lanes"},
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
	slower  *pcieSource
	procs   *gpuProcs
	readers []gpuReader
	sensors []record.Sensor
	known   []GPU
}

type gpuReader struct {
	g       gpu
	q       quantity
	sensor  string
	reasons []string // of gpuThrottle: the sensors of its bits
	apart   int64    // ns between readings at least: half of what the device takes to say something new
	last    int64    // of the latest reading, 0 for none
}

func openNVML(o Options) *nvmlSource {
	s := &nvmlSource{slower: &pcieSource{}, procs: &gpuProcs{o: o}}
	lib := o.gpus
	switch {
	case o.NVMLFile != "":
		lib = &recordedGPUs{o: o, path: o.NVMLFile}
	case !o.NVML:
		s.unavailable(errNotAsked)
		return s
	case lib == nil:
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
				s.readers = append(s.readers, gpuReader{g: g, q: q.q, sensor: x.Name, apart: int64(q.period) * int64(time.Millisecond) / 2})
			}
			s.sensors = append(s.sensors, x)
			if q.q == gpuThrottle {
				s.causes(x)
			}
		}
		s.slower.add(i, g)
		s.procs.add(i, g)
	}
	return s
}

// causes lists a sensor for each reason that the mask of x can hold.
func (s *nvmlSource) causes(x record.Sensor) {
	at := strings.TrimSuffix(x.Name, "throttle_reasons")
	var names []string
	for _, r := range gpuReasons {
		y := x
		y.Name, y.Unit = at+r.suffix, "0 or 1"
		names = append(names, y.Name)
		s.sensors = append(s.sensors, y)
	}
	if x.Available {
		s.readers[len(s.readers)-1].reasons = names
	}
}

// pcie is the source of what only a slow loop may read, processes that of who else is on the devices. Both
// are closed with the library.
func (s *nvmlSource) pcie() Source      { return s.slower }
func (s *nvmlSource) processes() Source { return s.procs }

type pcieSource struct {
	mu      sync.Mutex // held while reading: the library must not be closed meanwhile
	readers []gpuReader
	sensors []record.Sensor
}

func (p *pcieSource) add(i int, g gpu) {
	for _, q := range pcieQuantities {
		x := record.Sensor{Name: "nvml." + strconv.Itoa(i) + "." + q.suffix, Unit: q.unit, PeriodMS: 1000, Source: "NVML"}
		if _, err := g.Read(q.q); err != nil {
			x.Why, x.Fix = err.Error(), "use a GPU or a driver that has it"
		} else {
			x.Available = true
			p.readers = append(p.readers, gpuReader{g: g, q: q.q, sensor: x.Name})
		}
		p.sensors = append(p.sensors, x)
	}
}

func (p *pcieSource) Name() string             { return "nvml.pcie" }
func (p *pcieSource) Sensors() []record.Sensor { return p.sensors }
func (p *pcieSource) slow() bool               { return len(p.readers) > 0 }
func (p *pcieSource) every() time.Duration     { return paceSlow }
func (p *pcieSource) Close() error {
	if err := lockSoon(&p.mu, p.Name()); err != nil {
		return err
	}
	defer p.mu.Unlock()
	p.readers = nil
	return nil
}

func (p *pcieSource) Sample(_ int64, emit func(string, float64)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return readAll(p.readers, emit)
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
		if q.q == gpuThrottle {
			s.causes(s.sensors[len(s.sensors)-1])
		}
	}
	for _, q := range pcieQuantities {
		s.slower.sensors = append(s.slower.sensors, record.Sensor{Name: "nvml.0." + q.suffix, Unit: q.unit, PeriodMS: 1000, Source: "NVML", Why: err.Error(), Fix: fix})
	}
	s.procs.none(err.Error(), fix)
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
	if err := errors.Join(s.slower.Close(), s.procs.Close()); err != nil {
		return err // the library must not go away under a call
	}
	return lib.Close()
}

func (s *nvmlSource) every() time.Duration { return paceFast }

// reset makes the next reading one of everything: values of before are no part of a new arm.
func (s *nvmlSource) reset() {
	for i := range s.readers {
		s.readers[i].last = 0
	}
}

// Sample reads every quantity that could be read when the source was opened and may have changed since. One
// that fails leaves the others in place.
func (s *nvmlSource) Sample(now int64, emit func(string, float64)) error {
	var failed error
	for i := range s.readers {
		r := &s.readers[i]
		if r.last != 0 && now > r.last && now-r.last < r.apart {
			continue
		}
		if err := readAll(s.readers[i:i+1], emit); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		r.last = now
	}
	return failed
}

// mark reads the counters of energy alone: everything else takes the library milliseconds.
func (s *nvmlSource) mark(emit func(string, float64)) error {
	var failed error
	for i := range s.readers {
		if r := &s.readers[i]; r.q == gpuEnergy {
			failed = errors.Join(failed, readAll(s.readers[i:i+1], emit))
		}
	}
	return failed
}

func readAll(readers []gpuReader, emit func(string, float64)) error {
	var failed error
	for i := range readers {
		r := &readers[i]
		v, err := r.g.Read(r.q)
		if err != nil {
			if failed == nil {
				failed = fmt.Errorf("%s: %w", r.sensor, err)
			}
			continue
		}
		emit(r.sensor, v)
		for j, name := range r.reasons {
			held := 0.
			if uint64(v)&gpuReasons[j].bit != 0 {
				held = 1
			}
			emit(name, held)
		}
	}
	return failed
}
