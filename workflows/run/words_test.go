package run_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

func TestCut(t *testing.T) {
	for _, c := range []struct{ s, want string }{
		{"", ""}, {"short", "short"}, {strings.Repeat("a", 100), strings.Repeat("a", 100)},
		{strings.Repeat("a", 101), strings.Repeat("a", 66) + "… (35 more characters)"},
		{strings.Repeat("ü", 100), strings.Repeat("ü", 100)}, // characters, not bytes
		{strings.Repeat("ü", 1064), strings.Repeat("ü", 66) + "… (998 more characters)"},
	} {
		got := run.Cut(c.s, 100)
		if got != c.want {
			t.Errorf("%d characters: got %q, want %q", utf8.RuneCountInString(c.s), got, c.want)
		}
		if again := run.Cut(got, 100); again != got || utf8.RuneCountInString(got) > 100 || !utf8.ValidString(got) {
			t.Errorf("cut again: %q", again)
		}
	}
	if got := run.Cut(strings.Repeat("\xff", 300), 100); utf8.RuneCountInString(got) > 100 || !strings.HasSuffix(got, "(234 more characters)") {
		t.Errorf("what is no text: %q", got)
	}
}

// Whatever an engine, a server or a stop says, what is recorded of it is short and says so; the log is whole.
func TestRecordedWordsAreShort(t *testing.T) {
	long := strings.Repeat("out of luck ", 50_000)
	m, mem := newScripted(t), run.NewMemory()
	m.during = func(_ context.Context, task run.Task) error {
		if task.Side.Label == "B" {
			return &run.EngineError{Reason: long}
		}
		return nil
	}
	m.fill = func(_ run.Task, a *record.Arm) {
		a.Process.Log, a.Process.LogTail = long, "tail"
		a.Warnings = append(a.Warnings, long)
		a.Requests = []record.Request{{Status: "error", Error: long}}
	}
	group := testGroup(t, func(g *plan.Group) {
		g.Cap, g.Retry = 1, 1
		g.Gates = []plan.Gate{{Name: "wordy", Phase: plan.PhaseAfter, Scope: "arm", Check: func(context.Context, *record.Arm) (record.Finding, error) {
			return record.Finding{Outcome: record.Fail, Observed: long, Limit: "0", Reason: long}, nil
		}}}
		g.Stops = []plan.Stop{{Name: "wordy", Rule: func(context.Context, *record.Group) (string, error) { return long, nil }}}
	})
	for _, breaks := range []bool{true, false} {
		if !breaks {
			m.during = nil
			mem = run.NewMemory()
		}
		res, err := newSession(m, mem).Run(t.Context(), []*plan.Group{group})
		if err != nil {
			t.Fatal(err)
		}
		g := res[0]
		texts := map[string]string{"reason": g.Reason, "stopped": g.Stopped, "warnings": strings.Join(g.Warnings, "")}
		cut := 0
		for _, a := range g.Arms {
			texts["reason of "+a.ID], texts["warning of "+a.ID] = a.Reason, a.Warnings[0]
			for _, f := range a.Findings {
				texts["observed of "+a.ID], texts["why of "+a.ID] = f.Observed, f.Reason
			}
			whole, err := mem.Group(t.Context(), a.GroupID)
			if err != nil || len(whole.Arms[0].Process.Log) != len(long) || utf8.RuneCountInString(whole.Arms[0].Requests[0].Error) > 1000 {
				t.Errorf("the log was cut, or a request's words were not: %v", err)
			}
		}
		for what, s := range texts {
			if strings.Contains(s, " more characters)") {
				cut++
			}
			if n := utf8.RuneCountInString(s); n > 4000 || what != "reason" && what != "warnings" && n > 1000 {
				t.Errorf("%s has %d characters: %.60q…", what, n, s)
			}
		}
		if cut < 3 {
			t.Errorf("only %d texts say that they were cut", cut)
		}
	}
}
