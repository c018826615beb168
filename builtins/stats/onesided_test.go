package stats

import (
	"math"
	"testing"
)

// Effects of their own are counted by the sign test, and drawn they give the same; effects of one control do not
// witness for each other.
func TestOneSidedShared(t *testing.T) {
	up := []float64{1, 2, 1, 1, 3, 1, 1, 2, 1, 1}
	own := make([]Share, 10)
	if e, alarm := OneSidedShared(up, own); !alarm || e.P != 2./1024 {
		t.Errorf("ten of their own: got %v, %v", e.P, alarm)
	}
	for i := range own {
		own[i] = Share{Set: i, Weights: []float64{1}}
	}
	if e, alarm := OneSidedShared(up, own); !alarm || math.Abs(e.P-2./1024) > .001 {
		t.Errorf("ten drawn: got %v, %v, want about %v", e.P, alarm, 2./1024)
	}
	same := make([]Share, 10)
	for i := range same {
		same[i] = Share{Set: 3, Weights: []float64{1}}
	}
	if e, alarm := OneSidedShared(up, same); alarm || e.P != 1 {
		t.Errorf("one effect said ten times: got %v, %v", e.P, alarm)
	}
	// U S1 S2 S3 U: S1 weighs its controls 3/4 and 1/4.
	w := RungWeights([]string{"U", "S1", "S2", "S3", "U"}, "U", "S1")
	if len(w) != 5 || w[0] != -.75 || w[1] != 1 || w[4] != -.25 || w[2] != 0 {
		t.Errorf("weights %v", w)
	}
	if RungWeights([]string{"S1", "U"}, "U", "S1") != nil {
		t.Error("a rung outside controls has weights")
	}
	// Two that disagree are no alarm, drawn or not; zeros have no sign.
	mixed := []float64{1, -1, 1, -1, 1, -1, 0, 0}
	if _, alarm := OneSidedShared(mixed, make([]Share, 8)); alarm {
		t.Error("mixed signs alarm")
	}
}
