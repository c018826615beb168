package gate

// Guards: conditions on a sensor, judged while the arm runs.

import (
	"fmt"
	"math"
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
}

type watched struct {
	base  float64 // first value, for growth
	since *int64  // start of the breach that goes on
}

// NewWatch starts watching.
func NewWatch(g plan.Guard) *Watch { return &Watch{guard: g, each: map[string]*watched{}} }

// Sample takes one sample, in time, and says what breach stands; "" when none. The words name the sensor,
// what was observed, the limit and how long it lasted. Once a breach stands it keeps standing: the arm is
// over. Samples of other sensors and values that are not numbers are passed over.
func (w *Watch) Sample(s record.Sample) (breach string) {
	if w.breach != "" || !matches(w.guard.Sensor, s.Sensor) || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		return w.breach
	}
	x, ok := w.each[s.Sensor]
	if !ok {
		x = &watched{base: s.Value}
		w.each[s.Sensor] = x
	}
	w.seen++
	v, what := s.Value, s.Sensor
	if w.guard.Growth {
		v -= x.base
		what = "growth of " + what
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
