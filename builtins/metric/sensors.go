package metric

// What sensors did during the measured step: summaries on demand and energy. Samples come at their own
// times, so a value at an edge of the step lies between two of them.

import (
	"fmt"
	"sort"
	"strings"

	"flow/workflows/record"
)

// minUpdates is how many updates of its source a window of energy must hold. Counters step (NVML's every
// 100 ms), so each edge is off by up to one update: at 50 that is 2 % and less.
const minUpdates = 50

// minCoverage is the share of a window that samples must cover.
const minCoverage = .95

// summaries of a sensor over the measured step, by the suffix of the metric's name.
var summaries = []struct{ suffix, rule string }{
	{"_mean", "mean of samples"},
	{"_max", "largest sample"},
	{"_min", "smallest sample"},
	{"_growth", "largest sample less the first"},
	{"_diff", "difference of the counter between the edges of the measured step"},
}

// window is one measured step.
type window struct{ from, to int64 }

// sensors is the samples of an arm, by sensor and in time, and where its measured steps are.
type sensors struct {
	by      map[string][]record.Sample
	windows []window
	known   map[string]record.Sensor
	shared  []string // neighbours of the arm
}

func newSensors(a *record.Arm, in Inputs) *sensors {
	s := &sensors{by: map[string][]record.Sample{}, known: map[string]record.Sensor{}, shared: a.Neighbours}
	for _, x := range a.Samples {
		s.by[x.Sensor] = append(s.by[x.Sensor], x)
	}
	for _, xs := range s.by {
		sort.SliceStable(xs, func(i, j int) bool { return xs[i].MonoNS < xs[j].MonoNS })
	}
	for _, k := range in.Sensors {
		s.known[k.Name] = k
	}
	for _, st := range a.Steps {
		if st.Name == "measure" && st.EndNS > st.StartNS {
			s.windows = append(s.windows, window{st.StartNS, st.EndNS})
		}
	}
	return s
}

// summary answers a name such as "nvml.0.power_w_mean"; ok is false where it is not of a sensor.
func (s *sensors) summary(name string) (m record.Metric, ok bool) {
	for _, k := range summaries {
		sensor, has := strings.CutSuffix(name, k.suffix)
		if !has || (s.by[sensor] == nil && s.known[sensor].Name == "") {
			continue
		}
		v := s.of(sensor, k.suffix)
		if v.v != nil {
			v.rule = k.rule
		}
		return v.metric(Def{Name: name, Unit: s.known[sensor].Unit, Source: sensor}), true
	}
	return record.Metric{}, false
}

func (s *sensors) of(sensor, suffix string) value {
	if len(s.windows) == 0 {
		return missing("the arm has no measured step")
	}
	if suffix == "_diff" {
		total, n := 0.0, 0
		for _, w := range s.windows {
			d, in, _, why := counterGrowth(s.by[sensor], w)
			if why != "" {
				return missing(why)
			}
			total, n = total+d, n+in
		}
		v := number(total, "")
		v.n = n
		return v
	}
	var xs []float64
	for _, w := range s.windows {
		for _, x := range inside(s.by[sensor], w) {
			xs = append(xs, x.Value)
		}
	}
	if len(xs) == 0 {
		return missing("no sample of " + sensor + " in the measured step")
	}
	least, most, total := xs[0], xs[0], 0.0
	for _, x := range xs {
		least, most, total = min(least, x), max(most, x), total+x
	}
	r := map[string]float64{"_mean": total / float64(len(xs)), "_max": most, "_min": least, "_growth": most - xs[0]}[suffix]
	v := number(r, "")
	v.n = len(xs)
	return v
}

// inside is the samples of a window, edges included.
func inside(xs []record.Sample, w window) []record.Sample {
	i := sort.Search(len(xs), func(i int) bool { return xs[i].MonoNS >= w.from })
	j := sort.Search(len(xs), func(i int) bool { return xs[i].MonoNS > w.to })
	return xs[i:j]
}

// clipped is the samples of a window with a value at each edge, interpolated where samples lie on both
// sides of it.
func clipped(xs []record.Sample, w window) []record.Sample {
	in := inside(xs, w)
	i := sort.Search(len(xs), func(i int) bool { return xs[i].MonoNS >= w.from })
	j := i + len(in)
	out := make([]record.Sample, 0, len(in)+2)
	if i > 0 && i < len(xs) && xs[i].MonoNS > w.from {
		out = append(out, between(xs[i-1], xs[i], w.from))
	}
	out = append(out, in...)
	if j > 0 && j < len(xs) && xs[j-1].MonoNS < w.to {
		out = append(out, between(xs[j-1], xs[j], w.to))
	}
	return out
}

func between(a, b record.Sample, at int64) record.Sample {
	part := float64(at-a.MonoNS) / float64(b.MonoNS-a.MonoNS)
	return record.Sample{Sensor: a.Sensor, MonoNS: at, Value: a.Value + part*(b.Value-a.Value)}
}

// counterGrowth is the growth of a counter over a window, the samples inside it, and the share of the window
// between the two readings.
func counterGrowth(xs []record.Sample, w window) (d float64, n int, coverage float64, why string) {
	at := clipped(xs, w)
	if len(at) < 2 {
		return 0, 0, 0, "fewer than two readings of the counter around the measured step"
	}
	for i := 1; i < len(at); i++ {
		if at[i].Value < at[i-1].Value {
			return 0, 0, 0, "the counter went backwards"
		}
	}
	first, last := at[0], at[len(at)-1]
	return last.Value - first.Value, len(inside(xs, w)), share(at, w), ""
}

// share of a window that its samples cover: up to its outer ones, less the holes. A hole is a pause of
// more than five times the usual distance.
func share(at []record.Sample, w window) float64 {
	if len(at) < 2 {
		return 0
	}
	usual := usualStep(at, false)
	covered := int64(0)
	for i := 1; i < len(at); i++ {
		if d := at[i].MonoNS - at[i-1].MonoNS; usual == 0 || d <= 5*usual {
			covered += d
		}
	}
	return float64(covered) / float64(w.to-w.from)
}

// usualStep is the median time between samples, or between changes of value.
func usualStep(at []record.Sample, changes bool) int64 {
	var ds []float64
	last := 0
	for i := 1; i < len(at); i++ {
		if changes && at[i].Value == at[last].Value {
			continue
		}
		ds = append(ds, float64(at[i].MonoNS-at[last].MonoNS))
		last = i
	}
	if len(ds) == 0 {
		return 0
	}
	return int64(median(ds))
}

// energySource is a sensor from which joules come.
type energySource struct {
	sensor  string
	prefix  string  // of the metric: "nvml.0."
	counter bool    // cumulative energy; otherwise power in watts
	scale   float64 // to joules
}

// energySources finds what measures energy, one per prefix: a hardware counter where there is one,
// because it misses nothing between samples.
func (s *sensors) energySources() []energySource {
	kinds := []struct {
		suffix  string
		counter bool
		scale   float64
	}{{"energy_j", true, 1}, {"energy_mj", true, 1e-3}, {"energy_uj", true, 1e-6}, {"power_w", false, 1}}
	var out []energySource
	seen := map[string]bool{}
	for _, k := range kinds {
		for _, name := range sortedKeys(s.by) {
			prefix, ok := strings.CutSuffix(name, k.suffix)
			if !ok || seen[prefix] || (prefix != "" && !strings.HasSuffix(prefix, ".") && !strings.HasSuffix(prefix, "_")) {
				continue
			}
			seen[prefix] = true
			out = append(out, energySource{name, prefix, k.counter, k.scale})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].prefix < out[j].prefix })
	return out
}

// energies is every PREFIX.energy_j of the measured steps.
func (s *sensors) energies() []record.Metric {
	var out []record.Metric
	for _, src := range s.energySources() {
		d := Def{Name: src.prefix + "energy_j", Unit: "J", Better: lower, Source: src.sensor}
		v, coverage := s.energy(src)
		m := v.metric(d)
		m.Coverage = coverage
		out = append(out, m)
	}
	return out
}

func (s *sensors) energy(src energySource) (v value, coverage *float64) {
	if len(s.windows) == 0 {
		return missing("the arm has no measured step"), nil
	}
	if len(s.shared) > 0 && !strings.HasPrefix(src.sensor, "nvml.") {
		return missing("shared: another engine ran on the host meanwhile"), nil
	}
	xs := s.by[src.sensor]
	total, n, length, covered := 0.0, 0, 0.0, 0.0
	for _, w := range s.windows {
		if why := s.tooShort(src, w); why != "" {
			return missing(why), nil
		}
		var j, c float64
		var in int
		if src.counter {
			var why string
			if j, in, c, why = counterGrowth(xs, w); why != "" {
				return missing(why), nil
			}
		} else {
			at := clipped(xs, w)
			j, in, c = trapezoid(at), len(inside(xs, w)), share(at, w)
		}
		long := float64(w.to - w.from)
		total, n, length, covered = total+j*src.scale, n+in, length+long, covered+c*long
	}
	c := covered / length
	if c < minCoverage {
		v = missing(fmt.Sprintf("samples cover %.0f %% of the measured step, want %.0f %%", c*100, minCoverage*100))
	} else if src.counter {
		v = number(total, "difference of the hardware counter between the edges of the measured step")
	} else {
		v = number(total, "trapezoid over samples, edges of the measured step interpolated")
	}
	v.n = n
	return v, &c
}

// tooShort says why a window is too short for a figure of energy.
func (s *sensors) tooShort(src energySource, w window) string {
	at := clipped(s.by[src.sensor], w)
	if len(at) < 2 {
		return "no samples around the measured step"
	}
	period := int64(s.known[src.sensor].PeriodMS) * 1e6
	if period == 0 {
		period = usualStep(at, src.counter)
	}
	if period == 0 {
		return "the counter did not move"
	}
	if n := float64(w.to-w.from) / float64(period); n < minUpdates {
		return fmt.Sprintf("too short: %.0f updates of the source in %.1f s, want %d", n, float64(w.to-w.from)/1e9, minUpdates)
	}
	return ""
}

// trapezoid is the integral of watts over time.
func trapezoid(at []record.Sample) float64 {
	j := 0.0
	for i := 1; i < len(at); i++ {
		j += (at[i].Value + at[i-1].Value) / 2 * float64(at[i].MonoNS-at[i-1].MonoNS) / 1e9
	}
	return j
}
