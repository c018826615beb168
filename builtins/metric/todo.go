package metric

import (
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Arm is every metric of one arm: per case the built-in ones, then the declared ones.
func Arm(a *record.Arm, defs []plan.Metric, in Inputs) []record.Metric { return nil }

// CheckFormula parses a formula and gives the names it uses, sorted.
func CheckFormula(of string) (names []string, err error) { return nil, nil }

// CheckDefs refuses declared metrics that cannot be computed: duplicates, bad patterns, cycles.
func CheckDefs(defs []plan.Metric) error { return nil }
