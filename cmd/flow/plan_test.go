package main

import (
	"strings"
	"testing"
)

// TestPlanText: the footer speaks of the groups whose noise is not known, and numbers agree with their words.
func TestPlanText(t *testing.T) {
	x, sds := .01, 1.9
	known := &plannedGroup{Name: "one", BlocksMax: 1, ArmsMax: 4, ArmsMin: 4, NoiseSD: &x, CanShow: &x, CanShowSD: &sds, ArmS: &x}
	unknown := &plannedGroup{Name: "two", BlocksMax: 4, ArmsMin: 8, ArmsMax: 16, CanShowSD: &sds}
	for _, c := range []struct {
		groups    []*plannedGroup
		want, not string
	}{
		{[]*plannedGroup{known}, "f.star: 1 group, 7 arms, ", "No noise is known"},
		{[]*plannedGroup{known}, "arms    4, 1 block at most", "1 blocks"},
		{[]*plannedGroup{known}, "time    10ms an arm, at most 40ms", "0s"},
		{[]*plannedGroup{known, unknown}, "\nNo noise is known for two. Either", "known for one"},
		{[]*plannedGroup{unknown}, "\nNo noise is known. Either", "known for"},
	} {
		p := &planned{File: "f.star", ArmsMin: 7, ArmsMax: 7, Groups: c.groups}
		if got := p.text(80); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%q is not in, or %q is in\n%s", c.want, c.not, got)
		}
	}
	// Groups alike are explained once, and no line is wider than the terminal.
	x = .02
	long := strings.Repeat("a rather long word ", 9)
	of := func(name string) *plannedGroup {
		return &plannedGroup{Name: name, Order: "ABBA", Design: "a steady drift cancels", Sides: []string{"A: no lever", "B: " + long}, BlocksMax: 4, ArmsMax: 16, Estimator: long, NoiseFrom: long,
			Warnings: []string{long}, NoiseSD: &x, CanShow: &x, ArmS: &x, ArmJ: &x, Arms: []plannedArm{{"A", "control"}, {"B", "what is compared"}}}
	}
	mirrored := of("three")
	mirrored.Order = "BAAB"
	text := (&planned{File: "f.star", Past: []string{long}, Groups: []*plannedGroup{of("one"), of("two"), mirrored, unknown}}).text(80)
	if strings.Count(text, "what is compared") != 2 || strings.Count(text, "a steady drift cancels") != 2 || !strings.Contains(text, "ABBA: as in 1\n") {
		t.Errorf("want the block of one and two once, got\n%s", text)
	}
	for _, l := range strings.Split(text, "\n") {
		if cellWidth(l) > 80 {
			t.Errorf("%d columns: %s", cellWidth(l), l)
		}
	}
	if got := spanOf(8, 16, "arm") + ", " + spanOf(1, 1, "arm") + ", " + countOf(0, "group"); got != "8 to 16 arms, 1 arm, 0 groups" {
		t.Errorf("got %s", got)
	}
}

// A rate of nothing or of all has a bound that is exactly so: rounding leaves no 6.9e-18 for a script to trip on.
func TestShareOf(t *testing.T) {
	for n := 1; n < 300; n++ {
		if s := shareOf(0, n); s.Low != 0 || s.High <= 0 || s.High >= 1 {
			t.Fatalf("0 of %d: got %+v", n, s)
		}
		if s := shareOf(n, n); s.High != 1 || s.Low <= 0 || s.Low >= 1 {
			t.Fatalf("%d of %d: got %+v", n, n, s)
		}
	}
}
