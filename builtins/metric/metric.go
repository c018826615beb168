// Package metric turns recorded facts into named numbers: what a request and an arm amount to, with a
// unit, a source and the rule by which each was made.
//
// Its opinion: a wrong number is worse than none. What was not measured is nil with the reason, never 0;
// a rate whose token counts disagree is withheld, with the computed value kept aside; frames are not
// tokens. The package is pure: it reads records and texts, never a clock, a socket or a file of its own.
// Its neighbours are the client, which stamps frames, and gate, which judges what comes out here.
package metric

import (
	"math"
	"sort"

	"flow/workflows/record"
)

// Def is one built-in metric, as the reference prints it.
type Def struct {
	Name   string
	Unit   string // "" is a plain number
	Better string // higher, lower, "" when neither is
	Doc    string // its definition in one line
	Source string // where its numbers come from
}

// Inputs is what the metrics of an arm are made of beside its record. Every field may be missing; what
// needs it is then not measured, with the reason.
type Inputs struct {
	File    func(path string) ([]byte, error) // a file of the arm's {out} folder
	Log     string                            // stdout and stderr together; the process's log when empty
	Stdout  string                            // stdout alone
	Before  map[string]float64                // Prometheus series when the measured step began
	After   map[string]float64                // and when it ended
	Elapsed *float64                          // seconds of the measured step; from the arm's steps when nil
	Sensors []record.Sensor                   // what is known of the sensors: counters and update periods
	Needed  []string                          // further names asked for, such as "nvml.0.power_w_mean"
}

// Units and directions, so that the tables below read the same.
const (
	higher = "higher"
	lower  = "lower"

	tokS   = "tok/s"
	ms     = "ms"
	tokens = "tokens"
)

// A value under way: nil with the reason, or a number, perhaps withheld.
type value struct {
	v        *float64
	why      string
	rule     string
	withheld bool // v is known but its sources do not support it; why says so
	n        int
}

// number wraps a computed float. A result that is not finite was not measured.
func number(f float64, rule string) value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return missing("the result is not a finite number")
	}
	return value{v: &f, rule: rule}
}

func missing(why string) value { return value{why: why} }

// metric gives v the clothes of its definition.
func (v value) metric(d Def) record.Metric {
	m := record.Metric{Name: d.Name, Unit: d.Unit, Better: d.Better, Source: d.Source, Rule: v.rule, N: v.n, Why: v.why}
	switch {
	case v.v == nil:
	case v.withheld:
		m.Withheld = v.v
	default:
		m.Value = v.v
	}
	return m
}

// percentile is the value at p of sorted xs by linear interpolation between order statistics, as numpy
// does it and so as the tools of the field print it.
func percentile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// median of xs, which stays as it is. xs must not be empty.
func median(xs []float64) float64 {
	s := append([]float64(nil), xs...)
	sort.Float64s(s)
	return percentile(s, .5)
}
