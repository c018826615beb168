package run

// The arms of a block, and what they come to.

import (
	"strings"

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

// force gives a group a verdict, so that flow check walks every branch of main.
func force(g *record.Group, verdict string) {
	g.Verdict, g.Reason = verdict, "forced by flow check"
	for i := range g.Comparisons {
		if !g.Comparisons[i].Cost {
			g.Comparisons[i].Verdict = verdict
		}
	}
}
