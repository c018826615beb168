package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Section 3.1: neighbouring rungs correlate by 1/6, and their difference has the variance that follows.
func TestSection31RungContrast(t *testing.T) {
	labels := []string{"U", "S1", "U", "S2", "U", "S3", "U"}
	l := Ladder{Y: []float64{100.0, 105.2, 100.4, 103.7, 100.8, 99.2, 101.2}, Labels: labels}
	e, corr, ok := RungContrast([]Ladder{l}, "U", "S1", "S2", nil)
	if !ok {
		t.Fatal("no contrast")
	}
	near(t, "S2 over S1", e.Diff, 3.1-5.0, 1e-9)
	near(t, "correlation", corr, 1./6, 1e-12)
	near(t, "variance", e.K, 1.5+1.5-2*1.5/6, 1e-12)
	_, corr, _ = RungContrast([]Ladder{l}, "U", "S1", "S3", nil)
	near(t, "no shared control", corr, 0, 1e-12)
	// By simulation.
	r := rand.New(rand.NewPCG(31, 32))
	v, runs := 0.0, 20000
	for range runs {
		y := make([]float64, len(labels))
		for i := range y {
			y[i] = r.NormFloat64() + .3*float64(i)
		}
		e, _, _ := RungContrast([]Ladder{{Y: y, Labels: labels}}, "U", "S1", "S2", nil)
		v += e.Diff * e.Diff / float64(runs)
	}
	near(t, "simulated variance", v, 2.5, .09)
	if _, _, ok := RungContrast([]Ladder{{Y: []float64{1, 2, 1}, Labels: []string{"U", "S1", "U"}}}, "U", "S1", "S2", nil); ok {
		t.Error("a rung that never ran has a contrast")
	}
	if math.IsNaN(e.SE) {
		t.Error("SE is not a number")
	}
}
