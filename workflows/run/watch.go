package run

// Guards, watched while an arm runs.

import (
	"context"
	"sync"

	"flow/builtins/gate"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// breach is the cause with which a guard ends an arm.
type breach struct {
	guard plan.Guard
	words string
}

func (b *breach) Error() string { return "guard " + b.guard.Name + ": " + b.words }

// watches judges guards on samples as they come.
type watches struct {
	mu     sync.Mutex
	guards []plan.Guard
	each   []*gate.Watch
	side   string
	cancel context.CancelCauseFunc
	done   bool
}

func newWatches(guards []plan.Guard, side string, cancel context.CancelCauseFunc) *watches {
	w := &watches{guards: guards, side: side, cancel: cancel}
	for _, g := range guards {
		w.each = append(w.each, gate.NewWatch(g))
	}
	w.on("")
	return w
}

// on says which step runs now.
func (w *watches) on(step string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.each {
		g.On(w.side, step)
	}
}

func (w *watches) sample(x record.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return
	}
	for i, g := range w.each {
		if words := g.Sample(x); words != "" {
			w.done = true
			w.cancel(&breach{w.guards[i], words})
			return
		}
	}
}

// stop ends the watch and gives the findings of the guards that held, with what they saw at worst. One that
// saw nothing (its device was never busy, its step too short) says so and excludes nothing: it had no cause
// to end the arm.
func (w *watches) stop() []record.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	var out []record.Finding
	for i, g := range w.each {
		if !gate.Applies(w.guards[i], w.side) {
			continue
		}
		f := g.Finding()
		if f.Outcome == record.Fail {
			continue // dispose puts it down
		}
		f.Required = f.Outcome == record.Pass
		out = append(out, f)
	}
	return out
}
