package run

// The budget of a session. What counts is on record: every arm that ran, also those that were redone, excluded or
// cut off the journal. So a resumed session goes on counting where it was.
//
// It ends the session and no group. A group that it interrupts has no verdict: an end that depends on how long
// arms took would let a slow lever choose when it is judged. Its finished blocks are kept, and resume goes on with
// it once the budget is raised.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// Budget limits what the session's arms take together, from now on; a later call replaces it. It is no effect: a
// resumed workflow may say another one. A session whose verdicts are forced takes none.
func (s *Session) Budget(ctx context.Context, b record.Budget) error {
	if s.Force != "" {
		return nil
	}
	spent, err := s.Recorder.Spent(ctx, s.Session.ID)
	if err != nil {
		return err
	}
	s.spent = &spent
	s.Session.Budget = &b
	if s.simulated() {
		if b.Seconds > 0 {
			s.event(record.Event{Kind: "warning", Text: "how long simulated arms take is invented: the time budget is not held here"})
		}
		if b.Joules > 0 {
			s.event(record.Event{Kind: "warning", Text: "simulated arms take no energy: the energy budget is not held here"})
		}
	}
	return nil
}

func (s *Session) simulated() bool { return s.Session.Measurer == record.MeasurerSimulated }

// spend counts an arm that ended.
func (s *Session) spend(a *record.Arm) {
	if s.spent != nil {
		Spend(s.spent, a)
	}
}

// Spend adds an arm to what was spent.
func Spend(sp *record.Spent, a *record.Arm) {
	sp.Arms++
	sp.Seconds += seconds(a)
	joules, any := joulesOf(a)
	sp.Joules += joules
	if !any && a.Purpose == "measured" && a.Disposition == record.OK {
		sp.Unmetered++
	}
}

func seconds(a *record.Arm) float64 { return float64(a.MonoEndNS-a.MonoStartNS) / 1e9 }

func joulesOf(a *record.Arm) (sum float64, any bool) {
	for _, m := range a.Metrics {
		if strings.HasSuffix(m.Name, ".energy_j") && m.Value != nil {
			sum, any = sum+*m.Value, true
		}
	}
	return sum, any
}

// budgetLeft refuses to begin a block of n arms that the budget does not hold, if they take as long and as much as
// the group's arms so far did; of a group without an arm yet nothing is known, and it begins while anything is left.
// One arm may begin while anything is left.
func (s *Session) budgetLeft(r *groupRun, n int) error {
	b := s.Session.Budget
	if b == nil || s.spent == nil {
		return nil
	}
	var took, used, ran float64
	for _, a := range r.g.Arms {
		if a.Purpose == "measured" && a.Disposition == record.OK {
			j, _ := joulesOf(a)
			took, used, ran = took+seconds(a), used+j, ran+1
		}
	}
	if n == 1 {
		took, used = 0, 0 // inside a block: what was begun is finished while anything is left
	} else if ran > 0 {
		took, used = took/ran*float64(n), used/ran*float64(n)
	}
	next := "the next arm"
	if n > 1 {
		next = fmt.Sprintf("the next block of %d arms", n)
	}
	switch sp := s.spent; {
	case b.Arms > 0 && sp.Arms+n > b.Arms:
		return spentError(fmt.Sprintf("%d of %d arms, and %s does not fit", sp.Arms, b.Arms, next))
	case b.Seconds > 0 && !s.simulated() && (sp.Seconds >= b.Seconds || sp.Seconds+took > b.Seconds):
		return spentError(fmt.Sprintf("%s of %s%s", timeWords(sp.Seconds), timeWords(b.Seconds), nextWords(took, next, timeWords(took))))
	case b.Joules > 0 && s.simulated():
		return nil
	case b.Joules > 0 && sp.Unmetered > 0:
		return &diag.Error{Kind: diag.Machine, Op: "session.budget", Msg: "a measured arm has no metric *.energy_j, so that the energy budget cannot be held",
			Fix: "flow doctor   (it says which energy counters there are), or session.budget(time = \"8h\")"}
	case b.Joules > 0 && (sp.Joules >= b.Joules || sp.Joules+used > b.Joules):
		return spentError(fmt.Sprintf("%.0f J of %.0f J%s", sp.Joules, b.Joules, nextWords(used, next, fmt.Sprintf("%.0f J", used))))
	}
	return nil
}

func nextWords(takes float64, next, words string) string {
	if takes <= 0 {
		return ""
	}
	return fmt.Sprintf(", and %s takes about %s", next, words)
}

func spentError(what string) error {
	return &diag.Error{Kind: diag.Stopped, Op: "session.budget", Msg: "the session's budget is spent: " + what,
		Fix: "raise it in session.budget(…) of the workflow, and go on with flow resume"}
}

func timeWords(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
