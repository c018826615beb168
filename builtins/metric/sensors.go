package metric

// What sensors did during the measured step: summaries on demand. Samples come at their own times, so a
// value at an edge of the step lies between two of them. Energy has a file of its own.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"flow/workflows/record"
)

// summaries of a sensor, by the suffix of the metric's name. Before it may stand a phase: NAME_decode_mean
// is over the time in which a measured request decoded, NAME_prefill_mean over that until the first token.
var summaries = []struct {
	suffix, rule string
	least        int // samples without which there is none
}{
	{"_mean", "mean of samples", 1},
	{"_max", "largest sample", 1},
	{"_min", "smallest sample", 1},
	{"_p05", "5th percentile of samples", 20},
	{"_p50", "median of samples", 3},
	{"_p95", "95th percentile of samples", 20},
	{"_p99", "99th percentile of samples", 100},
	{"_growth", "largest sample less the first", 1},
	{"_rise", "largest sample less the last one before the engine was launched", 1},
	{"_diff", "difference of the counter between the edges of the measured step", 1},
	{"_per_s", "difference of the counter between the edges of the measured step, by its seconds", 1},
}

// phases are the parts of the measured step that a summary may be about.
var phases = []string{"_prefill", "_decode"}

// window is one measured step.
type window struct{ from, to int64 }

// sensors is the samples of an arm, by sensor and in time, and where its measured steps are.
type sensors struct {
	by      map[string][]record.Sample
	windows []window
	phase   map[string][]window // by the name of the phase
	launch  int64               // when the engine was launched, 0 when unknown
	known   map[string]record.Sensor
	shared  []string // neighbours of the arm
}

func newSensors(a *record.Arm, in Inputs) *sensors {
	s := &sensors{by: map[string][]record.Sample{}, known: map[string]record.Sensor{}, shared: a.Neighbours}
	for _, x := range a.Samples {
		s.by[x.Sensor] = append(s.by[x.Sensor], x)
	}
	for _, xs := range s.by {
		if !slices.IsSortedFunc(xs, byTime) { // they come in time, but for those of a collector
			slices.SortStableFunc(xs, byTime)
		}
	}
	for _, k := range in.Sensors {
		s.known[k.Name] = k
	}
	for _, st := range a.Steps {
		if st.Name == "measure" && st.EndNS > st.StartNS {
			s.windows = append(s.windows, window{st.StartNS, st.EndNS})
		}
	}
	s.phase = map[string][]window{"": s.windows, "_prefill": phaseOf(a, true), "_decode": phaseOf(a, false)}
	if a.Process != nil {
		s.launch = a.Process.LaunchNS
	}
	return s
}

func byTime(a, b record.Sample) int { return cmp.Compare(a.MonoNS, b.MonoNS) }

// phaseOf is when at least one measured request was in its prefill, or in its decode. With several at once
// a moment may be of both: what the machine did then was for both.
func phaseOf(a *record.Arm, prefill bool) []window {
	var ws []window
	for i := range a.Requests {
		r := &a.Requests[i]
		if r.Mark != record.MarkMeasured {
			continue
		}
		first := r.FirstContentNS
		if r.FirstReasoningNS != nil && (first == nil || *r.FirstReasoningNS < *first) {
			first = r.FirstReasoningNS
		}
		if first == nil {
			continue
		}
		w := window{from: *first}
		switch {
		case prefill && r.SentNS != nil:
			w = window{*r.SentNS, *first}
		case !prefill && r.LastContentNS != nil:
			w.to = *r.LastContentNS
		}
		if w.to > w.from {
			ws = append(ws, w)
		}
	}
	sort.Slice(ws, func(i, j int) bool { return ws[i].from < ws[j].from })
	var out []window
	for _, w := range ws {
		if n := len(out); n > 0 && w.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, w.to)
			continue
		}
		out = append(out, w)
	}
	return out
}

// summary answers a name such as "nvml.0.power_w_mean"; ok is false where it is not of a sensor.
func (s *sensors) summary(name string) (m record.Metric, ok bool) {
	for _, k := range summaries {
		sensor, has := strings.CutSuffix(name, k.suffix)
		if !has {
			continue
		}
		phase := ""
		if s.by[sensor] == nil && s.known[sensor].Name == "" {
			for _, p := range phases {
				if rest, has := strings.CutSuffix(sensor, p); has {
					sensor, phase = rest, p
				}
			}
			if s.by[sensor] == nil && s.known[sensor].Name == "" {
				continue
			}
		}
		unit := s.known[sensor].Unit
		if k.suffix == "_per_s" && unit != "" {
			unit += "/s"
		}
		windows := s.phase[phase]
		v := missing("the arm has no measured step")
		if len(s.windows) > 0 && len(windows) == 0 {
			v = missing("no measured request was in its " + phase[1:])
		}
		var coverage *float64
		if len(windows) > 0 {
			v, coverage = s.of(sensor, k.suffix, k.least, windows)
		}
		if v.v != nil {
			v.rule = k.rule
			if phase != "" {
				v.rule = strings.Replace(k.rule+", while a request was in its "+phase[1:], "between the edges of the measured step", "between the edges of the phase", 1)
			}
		}
		m = v.metric(Def{Name: name, Unit: unit, Source: sensor})
		m.Coverage = coverage
		return m, true
	}
	return record.Metric{}, false
}

func (s *sensors) of(sensor, suffix string, least int, windows []window) (value, *float64) {
	if suffix == "_diff" || suffix == "_per_s" {
		total, n, seconds, covered := 0.0, 0, 0.0, 0.0
		for _, w := range windows {
			d, in, c, why := counterGrowth(s.by[sensor], w)
			if why != "" {
				return missing(why), nil
			}
			long := float64(w.to-w.from) / 1e9
			total, n, seconds, covered = total+d, n+in, seconds+long, covered+c*long
		}
		if suffix == "_per_s" {
			total /= seconds
		}
		v := number(total, "")
		v.n = n
		c := covered / seconds
		return v, &c
	}
	var xs []float64
	length, covered := 0.0, 0.0
	for _, w := range windows {
		for _, x := range inside(s.by[sensor], w) {
			xs = append(xs, x.Value)
		}
		long := float64(w.to - w.from)
		length, covered = length+long, covered+share(clipped(s.by[sensor], w), w)*long
	}
	c := covered / length
	if len(xs) == 0 {
		return missing("no sample of " + sensor + " in the measured step"), &c
	}
	if len(xs) < least {
		v := missing(fmt.Sprintf("too few: %d samples of %s, want %d", len(xs), sensor, least))
		v.n = len(xs)
		return v, &c
	}
	total := 0.0
	for _, x := range xs {
		total += x
	}
	sorted := append([]float64(nil), xs...)
	sort.Float64s(sorted)
	most := sorted[len(sorted)-1]
	var v value
	switch suffix {
	case "_mean":
		v = number(total/float64(len(xs)), "")
	case "_max":
		v = number(most, "")
	case "_min":
		v = number(sorted[0], "")
	case "_growth":
		v = number(most-xs[0], "")
	case "_rise":
		before, ok := s.before(sensor)
		if !ok {
			return missing("no sample of " + sensor + " before the engine was launched"), &c
		}
		v = number(most-before, "")
	case "_p05":
		v = number(percentile(sorted, .05), "")
	case "_p50":
		v = number(percentile(sorted, .50), "")
	case "_p95":
		v = number(percentile(sorted, .95), "")
	case "_p99":
		v = number(percentile(sorted, .99), "")
	}
	v.n = len(xs)
	return v, &c
}

// before is the last sample before the engine was launched.
func (s *sensors) before(sensor string) (float64, bool) {
	xs := s.by[sensor]
	i := sort.Search(len(xs), func(i int) bool { return xs[i].MonoNS > s.launch })
	if s.launch == 0 || i == 0 {
		return 0, false
	}
	return xs[i-1].Value, true
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
// that its readings vouch for.
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
	covered := float64(last.MonoNS-first.MonoNS) - guessed(xs, w, at)
	return last.Value - first.Value, len(inside(xs, w)), max(covered, 0) / float64(w.to-w.from), ""
}

// guessed is the time of a window, in ns, that lies between an edge and the next reading of a counter where
// the readings on both sides of the edge are far apart: then the value at the edge is a guess. Between its
// edges a counter misses nothing, however rarely it was read.
func guessed(xs []record.Sample, w window, at []record.Sample) float64 {
	far := max(5*usualStep(at, false), 1e9)
	i := sort.Search(len(xs), func(i int) bool { return xs[i].MonoNS >= w.from })
	j := sort.Search(len(xs), func(i int) bool { return xs[i].MonoNS > w.to })
	out := int64(0)
	if i > 0 && i < len(xs) && xs[i].MonoNS > w.from && xs[i].MonoNS-xs[i-1].MonoNS > far {
		out += min(xs[i].MonoNS, w.to) - w.from
	}
	if j > 0 && j < len(xs) && j != i && xs[j-1].MonoNS < w.to && xs[j].MonoNS-xs[j-1].MonoNS > far {
		out += w.to - xs[j-1].MonoNS
	}
	return float64(out)
}

// edgeGap is how far the reading nearest to an edge of the window is from it, for the worse of the two.
func edgeGap(xs []record.Sample, w window) int64 {
	worst := int64(0)
	for _, edge := range []int64{w.from, w.to} {
		i := sort.Search(len(xs), func(i int) bool { return xs[i].MonoNS >= edge })
		gap := int64(math.MaxInt64)
		if i < len(xs) {
			gap = xs[i].MonoNS - edge
		}
		if i > 0 {
			gap = min(gap, edge-xs[i-1].MonoNS)
		}
		worst = max(worst, gap)
	}
	return worst
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
