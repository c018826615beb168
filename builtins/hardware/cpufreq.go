package hardware

// The CPUs' clock as cpufreq knows it. A reading can interrupt the CPU it is about, so it is taken once a
// second, from at most sixteen policies spread over the machine.

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"flow/workflows/record"
)

const (
	cpufreqPeriod = int64(1e9)
	cpufreqMost   = 16
)

type cpufreq struct {
	files   []*file
	sensors []record.Sensor
	last    int64
	begun   bool
}

func openCpufreq(o Options) Source {
	c := &cpufreq{}
	glob := filepath.Join(o.Sys, "devices/system/cpu/cpufreq/policy*/scaling_cur_freq")
	paths, err := filepath.Glob(glob)
	slices.SortFunc(paths, func(a, b string) int { return policy(a) - policy(b) })
	if err == nil && len(paths) == 0 {
		err = fs.ErrNotExist
	}
	step := max((len(paths)+cpufreqMost-1)/cpufreqMost, 1)
	for i := 0; i < len(paths); i += step {
		f, bad := openFile(o, paths[i])
		if bad == nil {
			if _, bad = readKHz(f); bad != nil {
				_ = f.close()
			}
		}
		if bad != nil {
			err = bad
			continue
		}
		c.files = append(c.files, f)
	}
	if len(c.files) > 0 { // a CPU that is offline, or that the driver cannot ask: the others still count
		err = nil
	}
	var why, fix string
	if err != nil {
		why, fix = reason(glob, err)
		if runtime.GOOS == "linux" && errors.Is(err, fs.ErrNotExist) {
			why, fix = "no CPU frequency driver ("+glob+" is not there), as on most virtual machines", "run on the hardware itself"
		}
	}
	for _, n := range []string{"cpufreq.mean_mhz", "cpufreq.min_mhz", "cpufreq.max_mhz"} {
		c.sensors = append(c.sensors, record.Sensor{Name: n, Unit: "MHz", Source: glob, PeriodMS: 1000, Available: err == nil, Why: why, Fix: fix})
	}
	return c
}

// policy is the number in ".../policy12/scaling_cur_freq".
func policy(path string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "policy"))
	if err != nil {
		return -1
	}
	return n
}

func (c *cpufreq) Name() string             { return "cpufreq" }
func (c *cpufreq) Sensors() []record.Sensor { return c.sensors }
func (c *cpufreq) reset()                   { c.begun = false }
func (c *cpufreq) Close() error {
	var err error
	for _, f := range c.files {
		err = errors.Join(err, f.close())
	}
	c.files = nil
	return err
}

func (c *cpufreq) Sample(now int64, emit func(string, float64)) error {
	if len(c.files) == 0 || c.begun && now-c.last < cpufreqPeriod {
		return nil
	}
	c.begun, c.last = true, now
	var sum, low, high float64
	n := 0
	var failed error
	for _, f := range c.files {
		khz, err := readKHz(f)
		if err != nil {
			failed = err
			continue
		}
		mhz := float64(khz) / 1000
		if n == 0 || mhz < low {
			low = mhz
		}
		high = max(high, mhz)
		sum += mhz
		n++
	}
	if n == 0 {
		return failed
	}
	emit("cpufreq.mean_mhz", sum/float64(n))
	emit("cpufreq.min_mhz", low)
	emit("cpufreq.max_mhz", high)
	return failed
}

func readKHz(f *file) (uint64, error) {
	b, err := f.read()
	if err != nil {
		return 0, err
	}
	khz, ok := parseKHz(b)
	if !ok {
		return 0, fmt.Errorf("%s: want a number of kHz", f.path)
	}
	return khz, nil
}

// parseKHz reads "3400000\n". "<unknown>" stands there for a CPU that the driver cannot ask.
func parseKHz(b []byte) (uint64, bool) {
	line, _ := cutLine(b)
	f, _ := cutField(line)
	v, ok := uintOf(f)
	return v, ok && v > 0
}
