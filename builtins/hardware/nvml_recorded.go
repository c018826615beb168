package hardware

// GPUs from a text: what a machine's library said once, one line for each value. With it a machine can be
// looked at on another one, as a recorded /proc and /sys are.
//
//	gpu GPU-8d1f NVIDIA GeForce RTX 4090 Laptop GPU
//	driver 570.86
//	power_w 55.2
//	throttle_reasons 4
//	process 1187 342
//
// A process is a pid and the MiB that it holds; "process none" is an empty list.

import (
	"fmt"
	"strconv"
	"strings"
)

type recordedGPUs struct {
	o      Options
	path   string
	driver string
	gpus   []gpu
}

type recordedGPU struct {
	uuid, name string
	values     map[quantity]float64
	listed     bool
	procs      []gpuProcess
}

func (r *recordedGPUs) Open() error {
	text, err := readText(r.o, r.path)
	if err != nil {
		return errNoLibrary
	}
	r.driver, r.gpus, err = parseGPUs(text)
	return err
}

func (r *recordedGPUs) Driver() (string, error) { return r.driver, nil }
func (r *recordedGPUs) GPUs() ([]gpu, error)    { return r.gpus, nil }
func (r *recordedGPUs) Close() error            { return nil }

func (g *recordedGPU) UUID() string           { return g.uuid }
func (g *recordedGPU) Name() string           { return g.name }
func (g *recordedGPU) Source(quantity) string { return "NVML" }
func (g *recordedGPU) Read(q quantity) (float64, error) {
	v, ok := g.values[q]
	if !ok {
		return 0, errNotSupported
	}
	return v, nil
}

func (g *recordedGPU) Processes() ([]gpuProcess, error) {
	if !g.listed {
		return nil, errNotSupported
	}
	return g.procs, nil
}

func parseGPUs(text string) (driver string, gpus []gpu, err error) {
	of := map[string]quantity{}
	for _, q := range quantities {
		of[q.suffix] = q.q
	}
	for _, q := range pcieQuantities {
		of[q.suffix] = q.q
	}
	var last *recordedGPU
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case key == "":
		case key == "gpu":
			last = &recordedGPU{values: map[quantity]float64{}}
			last.uuid, last.name, _ = strings.Cut(rest, " ")
			gpus = append(gpus, last)
		case key == "driver":
			driver = rest
		case last == nil:
			return "", nil, fmt.Errorf("recorded GPUs: %q stands before the first gpu line", line)
		case key == "process":
			var p gpuProcess
			if _, err := fmt.Sscanf(rest, "%d %g", &p.pid, &p.mib); err == nil && finite(p.mib) {
				last.procs = append(last.procs, p)
			} else if rest != "none" {
				return "", nil, fmt.Errorf("recorded GPUs: got %q, want process PID MIB", strings.TrimSpace(line))
			}
			last.listed = true
		default:
			q, ok := of[key]
			v, bad := strconv.ParseFloat(rest, 64)
			if !ok || bad != nil || !finite(v) {
				return "", nil, fmt.Errorf("recorded GPUs: got %q, want the name of a quantity and its value", strings.TrimSpace(line))
			}
			last.values[q] = v
		}
	}
	return driver, gpus, nil
}
