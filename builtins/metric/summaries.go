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

// energyForms are the endings of a metric of energy, which one of several sensors of its prefix gives.
var energyForms = []string{"energy_j", "energy_prefill_j", "energy_decode_j", "energy_per_token_j", "energy_per_request_j", "energy_1hz_j"}

// SensorsOf are the sensors of which one gives the metric of that name: of a summary the sensor itself, which may
// end in a word for a phase; of energy the counters and the power of its prefix. None for any other name, that of
// a sensor without a summary too: a sensor has many values in an arm, and a metric one.
func SensorsOf(name string) (out []string) {
	for _, k := range summaries {
		sensor, has := strings.CutSuffix(name, k.suffix)
		if !has || sensor == "" {
			continue
		}
		out = append(out, sensor)
		for _, p := range phases {
			if rest, has := strings.CutSuffix(sensor, p); has {
				out = append(out, rest)
			}
		}
	}
	for _, form := range energyForms {
		prefix, has := strings.CutSuffix(name, form)
		if has && (strings.HasSuffix(prefix, ".") || strings.HasSuffix(prefix, "_")) {
			for _, k := range energyKinds {
				out = append(out, prefix+k.suffix)
			}
		}
	}
	return out
}
