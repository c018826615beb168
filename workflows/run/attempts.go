package run

// The arms of a block, and what they come to.

import (
	"context"
	"slices"
	"strings"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// shape is a reason without its numbers, so that "died at token 40" and "died at token 41" are one way.
func shape(reason string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, reason)
}

// tail is the end of an arm's engine log as an indented block.
func tail(a *record.Arm) string {
	if a.Process == nil || a.Process.LogTail == "" {
		return ""
	}
	return "\n\tlast lines of its log:\n\t  " + strings.ReplaceAll(strings.TrimRight(a.Process.LogTail, "\n"), "\n", "\n\t  ")
}

func armsOf(g *record.Group, block int) []*record.Arm {
	var out []*record.Arm
	for _, a := range g.Arms {
		if a.Block == block {
			out = append(out, a)
		}
	}
	return out
}

// attempts splits the arms of a block by attempt, in time.
func attempts(arms []*record.Arm) [][]*record.Arm {
	var out [][]*record.Arm
	for _, a := range arms {
		if n := len(out); n > 0 && out[n-1][0].Attempt == a.Attempt {
			out[n-1] = append(out[n-1], a)
			continue
		}
		out = append(out, []*record.Arm{a})
	}
	return out
}

// stateOf an attempt: whole, broken (an arm did not count), or open (interrupted, to be superseded).
func stateOf(arms []*record.Arm, want int) string {
	n := 0
	for _, a := range arms {
		switch a.Disposition {
		case record.OK:
			n++
		case record.Invalid, record.Failed, record.Infeasible:
			return "broken"
		}
	}
	if n == want {
		return "whole"
	}
	return "open"
}

// setAside makes the failures that a resumed group begins with count for nothing: that which ended the session, and
// each one after the last arm of the control that ran. They may be the machine's, which was mended since, and nothing
// on record says that they are a lever's. Their attempts are done again, and the block has all its retries.
func (s *Session) setAside(ctx context.Context, pg *plan.Group, g *record.Group) error {
	latest := true
	for _, a := range slices.Backward(g.Arms) {
		if a.Disposition == record.Superseded || a.Disposition == record.Interrupted {
			continue
		}
		ran := controlRan(pg, a)
		if (a.Disposition == record.Failed || a.Disposition == record.Infeasible) && (latest || !ran) {
			a.Disposition, a.Reason = record.Superseded, "done again after a resume, it may have been the machine: "+a.Reason
			if err := s.Recorder.JudgeArm(ctx, a); err != nil {
				return err
			}
		}
		if ran {
			return nil
		}
		latest = false
	}
	return nil
}

// controlRan reports whether an arm shows that the control can run: a server that was ready, a command that ended well.
func controlRan(pg *plan.Group, a *record.Arm) bool {
	side := pg.ControlSide()
	if a.Label != side.Label {
		return false
	}
	ready := a.Process != nil && a.Process.ReadyNS != 0
	return a.Disposition == record.OK || ready && (side.Engine.API != nil || a.Disposition == record.Invalid)
}

// force gives a group a verdict, so that flow check walks every branch of main.
func force(g *record.Group, verdict string) {
	g.Verdict, g.Reason = verdict, "forced by flow check"
	for i := range g.Comparisons {
		if !g.Comparisons[i].Cost {
			g.Comparisons[i].Verdict = verdict
		}
	}
	for i := range g.Steps {
		g.Steps[i].Verdict = verdict
	}
}
