package run_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
)

// A child in the background that keeps the output open neither hangs an arm nor outlives its command.
func TestExecLeavesNothing(t *testing.T) {
	m := newScripted(t)
	g := testGroup(t, func(g *plan.Group) {
		g.Cap = 1
		g.Body = func(ctx context.Context, a plan.Arm) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			if _, err := a.Exec(ctx, []string{"sh", "-c", "sleep 600 & echo started"}); err != nil {
				return err
			}
			p, err := a.Launch(ctx, a.Side().Engine)
			if err != nil {
				return err
			}
			if _, err := p.Confirm(ctx); err != nil {
				return err
			}
			return a.Measure(ctx, p, a.Workload())
		}
	})
	for _, a := range runOne(t, m, g).Arms {
		if len(a.Execs) != 1 || a.Execs[0].Stdout != "started\n" {
			t.Errorf("got %+v, want the output of the command", a.Execs)
		}
		if !strings.Contains(strings.Join(a.Warnings, "\n"), "(sleep 600)") {
			t.Errorf("got warnings %q, want what was left named", a.Warnings)
		}
	}
}
