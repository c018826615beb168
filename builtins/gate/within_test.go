package gate

import (
	"math/rand/v2"
	"strings"
	"testing"

	"flow/workflows/record"
)

// requests gives each arm of g requests whose metric is the arm's value times each of these.
func requests(g *record.Group, r *rand.Rand, factors ...float64) *record.Group {
	for _, a := range g.Arms {
		for i, f := range factors {
			v := *a.Metrics[0].Value * f * (1 + .001*r.NormFloat64())
			a.Requests = append(a.Requests, record.Request{Repeat: i, Mark: record.MarkMeasured, Status: "ok", Values: []record.Metric{{Name: g.Primary, Value: &v}}})
		}
	}
	return g
}

// A cache that warms over the requests of an arm is told, with medians by place and a slope; a steady engine is not.
func TestRequestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 41))
	warm := requests(quadsOf(r, 2, .02, .003, 0), r, .85, .956, 1)
	Judge(warm, nil)
	if !warned(warm, "rises with the request's place in its arm: medians ") || !warned(warm, "over 8 arms") {
		t.Errorf("a warming cache: %q", warm.Warnings)
	}
	steady := requests(quadsOf(r, 2, .02, .003, 0), r, 1, 1, 1)
	Judge(steady, nil)
	if warned(steady, "place in its arm") {
		t.Errorf("a steady engine: %q", steady.Warnings)
	}
	if warm.Verdict != steady.Verdict || warm.Comparisons[0].Estimate.Method != "quad" {
		t.Error("requests changed what arms say")
	}
	one := requests(quadsOf(r, 2, .02, .003, 0), r, 1)
	Judge(one, nil)
	if warned(one, "place in its arm") {
		t.Errorf("one request an arm: %q", one.Warnings)
	}
}

// An A/A group that shows a difference says that the instrument is at fault.
func TestInstrument(t *testing.T) {
	g := block(block(ab(""), 0, "ABBA", 100, 115, 115.2, 100.1), 1, "BAAB", 115.1, 100, 100.2, 115)
	g.Role = record.RoleNoiseFloor
	Judge(g, nil)
	if g.Verdict != record.Better || !warned(g, "the same thing differs from itself") {
		t.Errorf("got %s: %q", g.Verdict, g.Warnings)
	}
}

// Rungs are compared with each other as well, with what they share.
func TestRungContrasts(t *testing.T) {
	g := ab("U S1 U S2 U S3 U")
	g.Role = record.RoleLadder
	g.Control, g.Sides = "U", []record.Side{{Label: "U", Control: true}, {Label: "S1"}, {Label: "S2"}, {Label: "S3"}}
	block(g, 0, "U S1 U S2 U S3 U", 100.0, 105.2, 100.4, 103.7, 100.8, 99.2, 101.2)
	Judge(g, nil)
	if !warned(g, "S2 over S1 -1.82 % [") || !warned(g, "(correlation 0.17)") || !warned(g, "S3 over S2 ") {
		t.Errorf("got %q", g.Warnings)
	}
}

// Equivalence says its own tests.
func TestEquivalentWords(t *testing.T) {
	g := block(block(ab(""), 0, "ABBA", 100, 100.1, 100, 100.1), 1, "BAAB", 100, 100.1, 100, 100)
	Judge(g, nil)
	if g.Verdict != record.Equivalent || !strings.Contains(g.Reason, "two one-sided tests: [") || !strings.Contains(g.Reason, "at 90 % lies within ±1.00 %, p ") {
		t.Errorf("got %s: %s", g.Verdict, g.Reason)
	}
}
