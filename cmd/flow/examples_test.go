package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"flow/workflows/record"
)

// TestExamples: every example is checked, and runs to its end on the simulated measurer.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*.star"))
	if err != nil || len(files) < 4 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, "")
			abs, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			c.run(c.in("check.db"), "", "check", abs)
			c.run(c.in("sim.db"), "", "run", abs, "--quiet", "--simulate", "effect=5%,sd=.3%", "--seed", "5")
			if o := c.outcomeOf(c.in("sim.db")); o.Status != "done" || len(o.Groups) == 0 {
				t.Errorf("simulated: %s", o)
			}
		})
	}
}

// TestStackScreenKeepsThePositiveLever: over ten seeds the example keeps `fast` and nothing else. With a true
// effect of forty standard deviations of an arm a wrong verdict is a mistake in flow, not chance; `neutral`
// is not better in at least 97.5 % of screens, so one of ten may be, and the test says how many were.
func TestStackScreenKeepsThePositiveLever(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, "")
	example, err := filepath.Abs(filepath.Join("..", "..", "examples", "stack-screen.star"))
	if err != nil {
		t.Fatal(err)
	}
	seeds := 10
	if testing.Short() || raceEnabled { // the race detector makes a simulated session ten times slower
		seeds = 2
	}
	wrong, missed := 0, 0
	for seed := range seeds {
		database := c.in(fmt.Sprintf("seed%d.db", seed))
		c.run(database, "", "run", example, "--quiet", "--seed", fmt.Sprint(seed), "--simulate", "effect.fast=20%,effect.slow=-15%,sd=.5%")
		verdicts := map[string]string{}
		for _, g := range c.outcomeOf(database).Groups {
			verdicts[g.Name] = g.Verdict
		}
		if verdicts["screen fast"] != record.Better || !strings.Contains(fmt.Sprint(verdicts), "qualification") {
			missed++
			t.Errorf("seed %d: %v; want fast better, and a qualification", seed, verdicts)
		}
		if verdicts["screen neutral"] == record.Better || verdicts["screen slow"] == record.Better {
			wrong++
			t.Logf("seed %d: %v", seed, verdicts)
		}
	}
	t.Logf("kept a lever that does not help in %d of %d seeds, missed the one that does in %d", wrong, seeds, missed)
	if wrong > 1 {
		t.Errorf("kept a lever that does not help in %d of %d seeds", wrong, seeds)
	}
}
