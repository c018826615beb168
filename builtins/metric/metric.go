// Package metric turns recorded facts into named numbers: what a request and an arm amount to, with a
// unit, a source and the rule by which each was made.
//
// Its opinion: a wrong number is worse than none. What was not measured is nil with the reason, never 0;
// a rate whose token counts disagree is withheld, with the computed value kept aside; frames are not
// tokens. The package is pure: it reads records and texts, never a clock, a socket or a file of its own.
// Its neighbours are the client, which stamps frames, and gate, which judges what comes out here.
package metric

import (
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Def is one built-in metric, as the reference prints it.
type Def struct {
	Name   string
	Unit   string
	Better string // higher, lower, "" when neither is
	Doc    string // its definition in one line
	Source string // where its numbers come from
}

// Inputs is what the metrics of an arm are made of beside its record. Every field may be missing; what
// needs it is then not measured, with the reason.
type Inputs struct {
	File    func(path string) ([]byte, error) // a file of the arm's {out} folder
	Log     string                            // stdout and stderr together; the arm's own log when empty
	Stdout  string                            // stdout alone; the log when empty
	Before  map[string]float64                // Prometheus series when the measured step began
	After   map[string]float64                // and when it ended
	Elapsed *float64                          // seconds of the measured step; from the arm's steps when nil
	Sensors []record.Sensor                   // what is known of the sensors: counters and update periods
	Needed  []string                          // further names asked for, such as "nvml.0.power_w_mean"
}

// Request is every metric of one request.
func Request(r *record.Request) []record.Metric { return nil }

// Names is every built-in metric.
func Names() []Def { return nil }

// Arm is every metric of one arm: per case the built-in ones, then the declared ones.
func Arm(a *record.Arm, defs []plan.Metric, in Inputs) []record.Metric { return nil }

// CheckFormula parses a formula and gives the names it uses, sorted.
func CheckFormula(of string) (names []string, err error) { return nil, nil }

// CheckDefs refuses declared metrics that cannot be computed: duplicates, bad patterns, cycles.
func CheckDefs(defs []plan.Metric) error { return nil }
