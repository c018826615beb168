package metric

// The summaries of every sensor in every phase, made once when an arm ends, so that a question of later does not
// have to go through its samples. What a gate or a comparison needs by name is a metric as well (sensors.go).

import (
	"fmt"
	"slices"
	"strings"

	"flow/workflows/record"
)

// Summaries is what each sensor did in the measured steps of an arm and in the phases of their requests. Of a phase
// that the arm has not there are none; a sensor that was silent in one has one that says so.
func Summaries(a *record.Arm, known []record.Sensor) []record.Summary {
	s := newSensors(a, Inputs{Sensors: known})
	var out []record.Summary
	for _, sensor := range sortedKeys(s.by) {
		for _, phase := range append([]string{""}, phases...) {
			if len(s.phase[phase]) == 0 {
				continue
			}
			out = append(out, s.summarise(sensor, phase))
		}
	}
	return out
}

func (s *sensors) summarise(sensor, phase string) record.Summary {
	out := record.Summary{Sensor: sensor, Phase: "measure"}
	if phase != "" {
		out.Phase = phase[1:]
	}
	all, windows := s.by[sensor], s.phase[phase]
	counter := s.known[sensor].Counter
	var xs []float64
	length, covered, diff := 0., 0., 0.
	whole := counter
	for _, w := range windows {
		for _, x := range inside(all, w) {
			xs = append(xs, x.Value)
		}
		long := float64(w.to - w.from)
		c := 0.
		if counter {
			var d float64
			var why string
			if d, _, c, why = counterGrowth(all, w); why != "" {
				whole = false
				out.Why = why
			}
			diff += d
		} else {
			c = share(clipped(all, w), w)
		}
		length, covered = length+long, covered+c*long
	}
	out.N, out.Coverage = len(xs), covered/length
	if whole {
		out.Diff = &diff
	}
	if len(xs) == 0 {
		out.Why = joined(out.Why, "no sample in the phase")
		return out
	}
	first := xs[0]
	slices.Sort(xs)
	total := 0.
	for _, x := range xs {
		total += x
	}
	mean, low, high := total/float64(len(xs)), xs[0], xs[len(xs)-1]
	growth := high - first
	out.Mean, out.Min, out.Max, out.Growth = &mean, &low, &high, &growth
	if before, ok := s.before(sensor); ok {
		rise := high - before
		out.Rise = &rise
	}
	few := ""
	for _, q := range []struct {
		p     float64
		least int
		to    **float64
	}{{.5, 3, &out.P50}, {.05, 20, &out.P05}, {.95, 20, &out.P95}, {.99, 100, &out.P99}} {
		if len(xs) >= q.least {
			v := percentile(xs, q.p)
			*q.to = &v
		} else if few == "" {
			few = fmt.Sprintf("%d samples: p%02.0f wants %d", len(xs), 100*q.p, q.least)
		}
	}
	out.Why = joined(out.Why, few)
	return out
}

func joined(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), "; ")
}
