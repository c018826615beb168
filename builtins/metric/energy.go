package metric

// Energy. A hardware counter misses nothing between readings, so its difference between the edges of the
// window comes first; it is read at the marks of the arm (the step, a request sent, its first token, its
// end), and where it was not, its value at the edge is interpolated, and the rule says so. Where there is no
// counter, power is integrated over samples with a value interpolated at each edge. A rule that begins and
// ends at the samples inside the window loses up to a period at both ends, which is how whole campaigns came
// to report 64 % of what was used.

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

// minSamples is how many readings a window must hold: with fewer, what is interpolated at its edges is more
// than a percent of it.
const minSamples = 5

// edgeSlack is how far from an edge a reading may be to count as taken there.
const edgeSlack = int64(5e6)

// energySource is a sensor from which joules come.
type energySource struct {
	sensor  string
	prefix  string  // of the metric: "nvml.0."
	counter bool    // cumulative energy; otherwise power in watts
	scale   float64 // to joules
}

// energyKinds are the names of what energy is computed from, the best first.
var energyKinds = []struct {
	suffix  string
	counter bool
	scale   float64
}{{"energy_j", true, 1}, {"energy_mj", true, 1e-3}, {"energy_uj", true, 1e-6}, {"power_w", false, 1}}

// energySources finds what measures energy, one per prefix: a hardware counter where there is one,
// because it misses nothing between samples.
func (s *sensors) energySources() []energySource {
	var out []energySource
	seen := map[string]bool{}
	for _, k := range energyKinds {
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

// energies is every PREFIX.energy_j of the measured steps, what it comes to by token and by request, and
// beside it the figure of a rule that the field uses, for comparison.
func (s *sensors) energies(a *record.Arm) []record.Metric {
	var out []record.Metric
	for _, src := range s.energySources() {
		v, coverage := s.energy(src, "")
		put := func(name, unit, better string, v value, coverage *float64) {
			m := v.metric(Def{Name: src.prefix + name, Unit: unit, Better: better, Source: src.sensor})
			m.Coverage = coverage
			out = append(out, m)
		}
		put("energy_j", "J", lower, v, coverage)
		n, why, doubt := tokensOf(a)
		put("energy_per_token_j", "J/token", lower, per(v, n, why, doubt, "completion tokens of measured requests"), coverage)
		requests, why := requestsOf(a)
		put("energy_per_request_j", "J/request", lower, per(v, requests, why, "", "measured requests"), coverage)
		for _, phase := range phases {
			if len(s.phase[phase]) > 0 {
				v, coverage := s.energy(src, phase)
				put("energy"+phase+"_j", "J", lower, v, coverage)
			}
		}
		if power := src.prefix + "power_w"; s.by[power] != nil {
			v, coverage := s.energy1Hz(power)
			m := v.metric(Def{Name: src.prefix + "energy_1hz_j", Unit: "J", Source: power})
			m.Coverage = coverage
			out = append(out, m)
		}
	}
	return out
}

// ofOneGPU is a sensor that a neighbour on other devices does not move.
func ofOneGPU(sensor string) bool {
	return strings.HasPrefix(sensor, "nvml.") || strings.HasPrefix(sensor, "amdgpu.")
}

// per is energy divided by a count that may be unknown, or in doubt.
func per(v value, n int, why, doubt, of string) value {
	switch {
	case v.v == nil:
		return v
	case why != "":
		return missing(why)
	case n == 0:
		return missing("no " + of)
	}
	out := number(*v.v/float64(n), v.rule+", by the "+of)
	out.n = n
	if doubt != "" {
		out.withheld, out.why = true, doubt
	}
	return out
}

// tokensOf is what the energy of the measured steps was spent on. A request that failed cost energy too,
// so with one there is no figure that means anything.
func tokensOf(a *record.Arm) (n int, why, doubt string) {
	for i := range a.Requests {
		r := &a.Requests[i]
		if r.Mark != record.MarkMeasured {
			continue
		}
		if r.Status != "ok" {
			return 0, "a measured request did not end ok", ""
		}
		if r.CompletionTokens == nil {
			return 0, "the completion tokens of a measured request are not known", ""
		}
		n += *r.CompletionTokens
		vals := r.Values
		if len(vals) == 0 {
			vals = Request(r)
		}
		for _, m := range vals {
			if m.Name == "generation_tok_s" && m.Withheld != nil {
				doubt = m.Why
			}
		}
	}
	return n, "", doubt
}

func requestsOf(a *record.Arm) (n int, why string) {
	for i := range a.Requests {
		if r := &a.Requests[i]; r.Mark == record.MarkMeasured {
			if r.Status != "ok" {
				return 0, "a measured request did not end ok"
			}
			n++
		}
	}
	return n, ""
}

// energy1Hz is the rule of harnesses that ask nvidia-smi once a second: the trapezoid from the first
// reading inside the window to the last. It misses what lies outside, 7 to 36 % of windows of 5 to 14 s;
// its coverage says how much. Nothing is judged by it.
func (s *sensors) energy1Hz(sensor string) (value, *float64) {
	if len(s.windows) == 0 {
		return missing("the arm has no measured step"), nil
	}
	if len(s.shared) > 0 && !ofOneGPU(sensor) {
		return missing("shared: another engine ran on the host meanwhile"), nil
	}
	total, n, covered, length := 0.0, 0, 0.0, 0.0
	for _, w := range s.windows {
		at := everySecond(inside(s.by[sensor], w))
		total += trapezoid(at)
		n += len(at)
		length += float64(w.to - w.from)
		if len(at) > 1 {
			covered += float64(at[len(at)-1].MonoNS - at[0].MonoNS)
		}
	}
	c := covered / length
	if n < 2 {
		return missing("fewer than two readings a second apart in the measured step"), &c
	}
	v := number(total, "trapezoid over samples a second apart, without the window's edges: for comparison only")
	v.n = n
	return v, &c
}

// everySecond is the samples of a loop that asks once a second. It allows for the loop's own jitter.
func everySecond(xs []record.Sample) []record.Sample {
	var out []record.Sample
	for _, x := range xs {
		if n := len(out); n == 0 || x.MonoNS-out[n-1].MonoNS >= 990e6 {
			out = append(out, x)
		}
	}
	return out
}

// energy is that of the measured steps, or of a phase of their requests.
func (s *sensors) energy(src energySource, phase string) (v value, coverage *float64) {
	windows, of := s.phase[phase], "the measured step"
	if phase != "" {
		of = "the time in which a request was in its " + phase[1:]
	}
	if len(windows) == 0 {
		return missing("the arm has no measured step"), nil
	}
	if len(s.shared) > 0 && !ofOneGPU(src.sensor) {
		return missing("shared: another engine ran on the host meanwhile"), nil
	}
	xs := s.by[src.sensor]
	total, n, length, covered, gap := 0.0, 0, 0.0, 0.0, int64(0)
	for _, w := range windows {
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
			gap = max(gap, edgeGap(xs, w))
		} else {
			at := clipped(xs, w)
			j, in, c = trapezoid(at), len(inside(xs, w)), share(at, w)
		}
		long := float64(w.to - w.from)
		total, n, length, covered = total+j*src.scale, n+in, length+long, covered+c*long
	}
	c := covered / length
	switch {
	case c < minCoverage:
		v = missing(fmt.Sprintf("samples cover %.0f %% of %s, want %.0f %%", c*100, of, minCoverage*100))
	case !src.counter:
		v = number(total, "trapezoid over samples, edges of "+of+" interpolated")
	case gap <= edgeSlack:
		v = number(total, fmt.Sprintf("difference of the hardware counter, read within %.1f ms of the edges of %s", float64(gap)/1e6, of))
	default:
		v = number(total, fmt.Sprintf("difference of the hardware counter, interpolated at the edges of %s: the nearest reading is %.0f ms from one, because this source is not read at marks, or was busy then", of, float64(gap)/1e6))
	}
	v.n = n
	return v, &c
}

// tooShort says why a window is too short for a figure of energy.
func (s *sensors) tooShort(src energySource, w window) string {
	xs := s.by[src.sensor]
	at := clipped(xs, w)
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
	read := src.counter && edgeGap(xs, w) <= edgeSlack // both edges are readings: those between add nothing
	if n := len(inside(xs, w)); n < minSamples && !read {
		return fmt.Sprintf("too few: %d samples in %.1f s, want %d", n, float64(w.to-w.from)/1e9, minSamples)
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
