package hardware

// Who else is on a GPU. The driver lists the processes that compute or draw on it, by pid and with the memory
// they hold; flow's own tree is taken out by walking up the parents. In a container the list may be of
// another pid namespace: then it names processes that are not in /proc, nobody can be told apart, and there
// is no number rather than a wrong one. That a list is empty there proves nothing either: load and memory
// are looked at as well (no_foreign_load).

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"flow/workflows/record"
)

// gpuProcess is one process on a device, as the driver tells it.
type gpuProcess struct {
	pid int
	mib float64 // memory of the device that it holds; NaN where the driver does not say
}

// GPUProcess is one that is not flow's.
type GPUProcess struct {
	GPU    string   `json:"gpu"` // "nvml.0"
	PID    int      `json:"pid"`
	Name   string   `json:"name"`
	MemMiB *float64 `json:"mem_mib"` // nil where the driver does not say
}

func (p GPUProcess) String() string {
	s := fmt.Sprintf("%s %s (%d)", p.GPU, p.Name, p.PID)
	if p.MemMiB != nil {
		s += fmt.Sprintf(", %.0f MiB", *p.MemMiB)
	}
	return s
}

// gpuProcs is the source of counts, read once a second: asking is two calls that list. It is closed with
// the library.
type gpuProcs struct {
	o       Options
	mu      sync.Mutex // held while asking: the library must not be closed meanwhile
	gpus    []gpu      // by number; nil where the sensors are not available
	sensors []record.Sensor
}

var gpuProcQuantities = [...]struct{ suffix, unit string }{{"foreign_processes", "processes"}, {"foreign_mem_mib", "MiB"}}

func (p *gpuProcs) add(i int, g gpu) {
	_, err := p.foreign(i, g)
	for _, q := range gpuProcQuantities {
		x := record.Sensor{Name: fmt.Sprintf("nvml.%d.%s", i, q.suffix), Unit: q.unit, PeriodMS: 1000, Source: "NVML and " + p.o.Proc}
		if err != nil {
			x.Why, x.Fix = err.Error(), "look at util_pct and mem_used_mib of the device"
			if errors.Is(err, errUnseenPID) {
				x.Fix = "start the container with the host's pids (docker run --pid=host), or " + x.Fix
			}
		} else {
			x.Available = true
		}
		p.sensors = append(p.sensors, x)
	}
	if err != nil {
		g = nil
	}
	p.gpus = append(p.gpus, g)
}

// none lists the sensors of a first GPU that is not there.
func (p *gpuProcs) none(why, fix string) {
	for _, q := range gpuProcQuantities {
		p.sensors = append(p.sensors, record.Sensor{Name: "nvml.0." + q.suffix, Unit: q.unit, PeriodMS: 1000, Source: "NVML", Why: why, Fix: fix})
	}
}

func (p *gpuProcs) Name() string             { return "nvml.processes" }
func (p *gpuProcs) Sensors() []record.Sensor { return p.sensors }
func (p *gpuProcs) slow() bool               { return len(p.gpus) > 0 }
func (p *gpuProcs) every() time.Duration     { return paceSlow }
func (p *gpuProcs) Close() error {
	if err := lockSoon(&p.mu, p.Name()); err != nil {
		return err
	}
	defer p.mu.Unlock()
	p.gpus = nil
	return nil
}

func (p *gpuProcs) Sample(_ int64, emit func(string, float64)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed error
	for i, g := range p.gpus {
		if g == nil {
			continue
		}
		found, err := p.foreign(i, g)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		mib := 0.
		for _, x := range found {
			if x.MemMiB == nil {
				mib = math.NaN() // which the sampler does not keep
				break
			}
			mib += *x.MemMiB
		}
		emit(p.sensors[2*i].Name, float64(len(found)))
		emit(p.sensors[2*i+1].Name, mib)
	}
	return failed
}

var errUnseenPID = errors.New("a process of another pid namespace, or of another user where /proc hides those, is on the device: its pid is not in /proc")

// foreign is the processes of a device that flow did not start. One that has ended between the list and the
// look is asked for once more.
func (p *gpuProcs) foreign(i int, g gpu) ([]GPUProcess, error) {
	var unseen int
	for range 2 {
		listed, err := g.Processes()
		if err != nil {
			return nil, err
		}
		var out []GPUProcess
		before := unseen
		unseen = 0
		for _, x := range listed {
			if !exists(filepath.Join(p.o.Proc, strconv.Itoa(x.pid))) {
				if unseen = x.pid; unseen == before {
					return nil, fmt.Errorf("%w (%d)", errUnseenPID, x.pid)
				}
				continue
			}
			if p.o.Proc == "/proc" && p.ours(x.pid) {
				continue
			}
			f := GPUProcess{GPU: "nvml." + itoa(i), PID: x.pid, Name: nameOf(p.o, x.pid)}
			if finite(x.mib) {
				f.MemMiB = &x.mib
			}
			out = append(out, f)
		}
		if unseen == 0 {
			slices.SortFunc(out, func(a, b GPUProcess) int { return a.PID - b.PID })
			return out, nil
		}
	}
	return nil, fmt.Errorf("%w (%d)", errUnseenPID, unseen)
}

// ours says whether flow is the process or one of its ancestors.
func (p *gpuProcs) ours(pid int) bool {
	for range 64 { // a tree that is deeper is not flow's
		if pid == os.Getpid() {
			return true
		}
		text, err := readText(p.o, filepath.Join(p.o.Proc, strconv.Itoa(pid), "stat"))
		var s procStat
		if err != nil || parseProcStat([]byte(text), &s) != nil || s.ppid <= 1 {
			return false
		}
		pid = int(s.ppid)
	}
	return false
}

// GPUProcesses are the processes on the GPUs behind srcs that flow did not start. Where they cannot be told
// the error says why.
func GPUProcesses(srcs []Source) ([]GPUProcess, error) {
	for _, s := range srcs {
		if g, ok := s.(*guarded); ok {
			s = g.Source
		}
		p, ok := s.(*gpuProcs)
		if !ok {
			continue
		}
		if err := lockSoon(&p.mu, p.Name()); err != nil {
			return nil, err
		}
		defer p.mu.Unlock()
		var out []GPUProcess
		for i, g := range p.gpus {
			if g == nil {
				return nil, errors.New(p.sensors[2*i].Why)
			}
			found, err := p.foreign(i, g)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
		if len(p.gpus) == 0 {
			return nil, errors.New(p.sensors[0].Why)
		}
		return out, nil
	}
	return nil, errNotAsked
}

// lockSoon takes a lock that a hanging driver may hold.
func lockSoon(mu *sync.Mutex, name string) error {
	for end := time.Now().Add(patience); !mu.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s: a reading did not return", name)
		}
	}
	return nil
}
