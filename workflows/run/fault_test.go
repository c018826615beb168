package run_test

import (
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/run"
)

// A mistake of flow itself in a launch says nothing about a side: it is no verdict.
func TestBugEndsTheSession(t *testing.T) {
	for _, side := range []string{"A", "B"} {
		for _, permanent := range []bool{false, true} {
			m := newScripted(t)
			m.launch = func(task run.Task) error {
				if task.Side.Label != side {
					return nil
				}
				return &run.LaunchError{Reason: "launch engine e", Permanent: permanent, Err: &diag.Error{Kind: diag.Bug, Op: "launch", Msg: "no folder for the arm"}}
			}
			_, err := newSession(m, run.NewMemory()).Run(t.Context(), []*plan.Group{testGroup(t, nil)})
			if kind, ok := diag.KindOf(err); !ok || kind != diag.Bug || !strings.Contains(err.Error(), "no folder for the arm") {
				t.Errorf("side %s: got %v, want the mistake of flow", side, err)
			}
		}
	}
}
