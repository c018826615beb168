package gate

// Guards: conditions on a sensor, judged while the arm runs.

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Watch judges one guard over the samples of one arm. It is not safe for concurrent use.
type Watch struct {
	guard  plan.Guard
	seen   int
	worst  *float64
	breach string
	each   map[string]*watched // by sensor: a name that ends in * watches several
	also   map[string]float64  // with guard.Also: the last value of each sensor, less its first where growth is judged
	base   map[string]float64  // and its first
	busy   bool                // guard.While holds
	off    bool                // not this side's guard, or not this step's
}

type watched struct {
	base  float64 // first value, for growth
	since *int64  // start of the breach that goes on
}

// NewWatch starts watching.
func NewWatch(g plan.Guard) *Watch {
	return &Watch{guard: g, each: map[string]*watched{}, also: map[string]float64{}, base: map[string]float64{}, busy: g.While == nil}
}

// On says which side is watched and which step runs: outside those of the guard samples are passed over, and
// a breach that has not lasted long enough is forgotten.
func (w *Watch) On(side, step string) {
	off := len(w.guard.Sides) > 0 && !slices.Contains(w.guard.Sides, side) || w.guard.Step != "" && w.guard.Step != step
	if off {
		w.forget()
	}
	w.off = off
}

func (w *Watch) forget() {
	for _, x := range w.each {
		x.since = nil
	}
}

// Applies says whether the guard watches a side at all.
func Applies(g plan.Guard, side string) bool {
	return len(g.Sides) == 0 || slices.Contains(g.Sides, side)
}

// Sample takes one sample, in time, and says what breach stands; "" when none. The words name the sensor,
// what was observed, the limit and how long it lasted. Once a breach stands it keeps standing: the arm is
// over. Samples of other sensors and values that are not numbers are passed over.
func (w *Watch) Sample(s record.Sample) (breach string) {
	if w.breach != "" || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		return w.breach
	}
	if u := w.guard.While; u != nil && matches(u.Sensor, s.Sensor) {
		if w.busy = s.Value > u.Above; !w.busy {
			w.forget()
		}
	}
	if !matches(w.guard.Sensor, s.Sensor) && !slices.ContainsFunc(w.guard.Also, func(p string) bool { return matches(p, s.Sensor) }) {
		return ""
	}
	key := s.Sensor
	if len(w.guard.Also) > 0 {
		key = w.guard.Sensor // they are judged as one
	}
	x, ok := w.each[key]
	if !ok {
		x = &watched{base: s.Value}
		w.each[key] = x
	}
	if _, ok := w.base[s.Sensor]; !ok && len(w.guard.Also) > 0 {
		w.base[s.Sensor] = s.Value
	}
	if w.off || !w.busy {
		return ""
	}
	w.seen++
	v, what := s.Value, s.Sensor
	if w.guard.Growth {
		v -= x.base
		what = "growth of " + what
	}
	if len(w.guard.Also) > 0 {
		v, what = w.worstOf(s)
	}
	over := w.guard.Above != nil && v > *w.guard.Above
	under := w.guard.Below != nil && v < *w.guard.Below
	w.keepWorst(v)
	if !over && !under {
		x.since = nil
		return ""
	}
	if x.since == nil {
		at := s.MonoNS
		x.since = &at
	}
	lasted := time.Duration(s.MonoNS - *x.since)
	if lasted < w.guard.Hold {
		return ""
	}
	limit := "below " + number(deref(w.guard.Below))
	if over {
		limit = "above " + number(deref(w.guard.Above))
	}
	w.breach = fmt.Sprintf("%s was %s, %s", what, number(v), limit)
	if w.guard.Hold > 0 {
		w.breach += fmt.Sprintf(" for %s (limit %s)", lasted.Round(time.Millisecond), w.guard.Hold)
	}
	return w.breach
}

// worstOf is the value that counts among the guard's sensors: the largest of their last ones, or the smallest
// where the guard only says how little is too little. Growth is each sensor's own.
func (w *Watch) worstOf(s record.Sample) (v float64, what string) {
	if _, ok := w.base[s.Sensor]; !ok {
		w.base[s.Sensor] = s.Value
	}
	w.also[s.Sensor] = s.Value
	if w.guard.Growth {
		w.also[s.Sensor] -= w.base[s.Sensor]
	}
	v, what = w.also[s.Sensor], s.Sensor
	low := w.guard.Below != nil && w.guard.Above == nil
	for _, k := range slices.Sorted(maps.Keys(w.also)) {
		if x := w.also[k]; low && x < v || !low && x > v {
			v, what = x, k
		}
	}
	if w.guard.Growth {
		what = "growth of " + what
	}
	return v, what
}

// keepWorst remembers the value nearest to or farthest beyond the limit, for the finding of an arm that
// passed.
func (w *Watch) keepWorst(v float64) {
	switch {
	case w.worst == nil:
	case w.guard.Below != nil && w.guard.Above == nil:
		if v >= *w.worst {
			return
		}
	default:
		if v <= *w.worst {
			return
		}
	}
	w.worst = &v
}

// Finding is the finding of the watch so far: unmeasured when the sensor gave no sample.
func (w *Watch) Finding() record.Finding {
	f := GuardFinding(w.guard, w.breach)
	if w.breach != "" {
		return f
	}
	if w.seen == 0 {
		f.Outcome, f.Reason = record.Unmeasured, "no sample of "+w.guard.Sensor
		return f
	}
	f.Observed = number(deref(w.worst)) + " at worst"
	return f
}

// GuardFinding is the finding of a guard: a pass when breach is "", else a failure with those words.
func GuardFinding(g plan.Guard, breach string) record.Finding {
	f := record.Finding{Gate: g.Name, Phase: plan.PhaseDuring, Outcome: record.Pass, Required: true, Limit: limitWords(g)}
	if breach != "" {
		f.Outcome, f.Observed = record.Fail, breach
	}
	return f
}

// limitWords is "vmstat.swap_mib growth at most 64 for 2s".
func limitWords(g plan.Guard) string {
	w := g.Sensor
	if len(g.Also) > 0 {
		w = "the worse of " + strings.Join(append([]string{w}, g.Also...), ", ")
	}
	if g.Growth {
		w += " growth"
	}
	var parts []string
	if g.Below != nil {
		parts = append(parts, "at least "+number(*g.Below))
	}
	if g.Above != nil {
		parts = append(parts, "at most "+number(*g.Above))
	}
	w += " " + strings.Join(parts, " and ")
	if g.While != nil {
		w += fmt.Sprintf(" while %s is above %s", g.While.Sensor, number(g.While.Above))
	}
	if g.Step != "" {
		w += ", in step " + g.Step
	}
	if g.Hold > 0 {
		w += fmt.Sprintf(", judged over %s", g.Hold)
	}
	return strings.TrimSpace(w)
}

func matches(pattern, name string) bool {
	if p, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, p)
	}
	return pattern == name
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

func deref(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}
