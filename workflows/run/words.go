package run

// Texts of a record are words for people and not a place for a log. What an engine, a server, a gate's function or a
// stop says may be of any length, and from here it goes into reasons, into the reasons of blocks and groups that
// quote them, into warnings and reports. So it is cut once, where a fact becomes durable, and says so. What was cut
// off stays where it came from: in the engine's log, which is kept whole (head and tail where it is huge).

import (
	"context"
	"fmt"
	"unicode/utf8"

	"flow/workflows/record"
)

const (
	maxArmWords   = 1000 // characters of one text of an arm
	maxGroupWords = 4000 // of one of a group: it may name every side in every case
)

// Cut is a text of at most most characters, the last of which say how many are missing. A text that was cut is not cut
// again.
func Cut(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	const mark = "… (%d more characters)"
	room := len(mark) + 10 // the number has at most as many digits as a length
	keep := max(0, most-room)
	at := 0
	for i := range s {
		if keep == 0 {
			at = i
			break
		}
		keep--
	}
	return s[:at] + fmt.Sprintf(mark, utf8.RuneCountInString(s[at:]))
}

// short cuts what an arm says in words.
func short(a *record.Arm) {
	cut := func(texts ...*string) {
		for _, t := range texts {
			*t = Cut(*t, maxArmWords)
		}
	}
	cut(&a.Reason)
	for i := range a.Findings {
		f := &a.Findings[i]
		cut(&f.Observed, &f.Limit, &f.Reason, &f.Error)
	}
	for i := range a.Evidence {
		cut(&a.Evidence[i].Observed, &a.Evidence[i].Error)
	}
	for i := range a.Requests {
		cut(&a.Requests[i].Error)
	}
	for i := range a.Metrics {
		cut(&a.Metrics[i].Why)
	}
	for i := range a.Warnings {
		cut(&a.Warnings[i])
	}
}

// shortGroup cuts what the judgement of a group says in words.
func shortGroup(g *record.Group) {
	g.Reason, g.Stopped = Cut(g.Reason, maxGroupWords), Cut(g.Stopped, maxArmWords)
	for i := range g.Comparisons {
		g.Comparisons[i].Reason = Cut(g.Comparisons[i].Reason, maxGroupWords)
	}
	for i := range g.Steps {
		g.Steps[i].Reason = Cut(g.Steps[i].Reason, maxGroupWords)
	}
	for i := range g.Warnings {
		g.Warnings[i] = Cut(g.Warnings[i], maxGroupWords)
	}
}

// brief is a recorder that gets texts which were cut.
type brief struct{ Recorder }

func (b brief) EndArm(ctx context.Context, a *record.Arm) error {
	short(a)
	return b.Recorder.EndArm(ctx, a)
}

func (b brief) JudgeArm(ctx context.Context, a *record.Arm) error {
	short(a)
	return b.Recorder.JudgeArm(ctx, a)
}

func (b brief) EndGroup(ctx context.Context, g *record.Group) error {
	shortGroup(g)
	return b.Recorder.EndGroup(ctx, g)
}
