package run

// Settling: what is waited for before an arm. Both sides wait for the same, and how long each waited is a fact
// of the arm: a cool-down that one side needs more of is itself a finding.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// settlePoll is how often the bands are looked at: as often as samples come.
const settlePoll = 100 * time.Millisecond

// settle pauses, heats, brings the page cache into its state, and waits for the bands.
func (s *Session) settle(ctx context.Context, h *arm, watch *settleWatch) error {
	g := h.r.plan
	if g.Settling == nil || s.Session.Measurer == record.MeasurerRecorded { // recorded arms have settled when they were
		return s.Sleep(ctx, g.Settle)
	}
	p := *g.Settling
	rig, real := h.rig.(HostRig)
	if real && p.Preheat > 0 {
		if err := rig.Preheat(ctx, p.Preheat, p.Heater); err != nil {
			return err
		}
	}
	if real && p.PageCache != "" && p.PageCache != plan.CacheUntouched {
		if err := rig.PageCache(ctx, p.PageCache); err != nil {
			return err
		}
	}
	began := s.Clock.Mono()
	if err := s.Sleep(ctx, max(g.Settle, p.Pause)); err != nil {
		return err
	}
	var out []string
	if real || s.Session.Measurer == "" { // a simulated machine is always settled
		timeout := p.Timeout
		if timeout == 0 {
			timeout = plan.DefaultSettleTimeout
		}
		for _, x := range h.rig.Samples() {
			watch.seed(x)
		}
		for {
			if out = watch.outside(s.Clock.Mono()); len(out) == 0 || time.Duration(s.Clock.Mono()-began) >= timeout {
				break
			}
			if err := s.Sleep(ctx, settlePoll); err != nil {
				return err
			}
		}
	}
	waited := float64(s.Clock.Mono()-began) / 1e9
	return s.settled(h, p, waited, out, watch.words())
}

// settled puts down how long the arm waited, and for what.
func (s *Session) settled(h *arm, p plan.Settling, waited float64, out []string, said string) error {
	h.rec.Metrics = append(h.rec.Metrics, record.Metric{Name: "settle_s", Unit: "s", Source: "settle", Rule: settleWords(p), Value: &waited, N: 1})
	f := record.Finding{Gate: "settle", Phase: plan.PhaseBefore, Outcome: record.Pass, Required: p.Invalid, Limit: settleWords(p),
		Observed: strings.TrimSpace(fmt.Sprintf("after %.1f s: %s", waited, said))}
	if len(out) > 0 {
		f.Outcome, f.Reason = record.Fail, "the time was up: "+strings.Join(out, ", ")
		if slices.ContainsFunc(out, func(w string) bool { return strings.HasSuffix(w, noSamples) }) {
			f.Outcome = record.Unmeasured
		}
		s.event(record.Event{Kind: "warning", Group: h.r.g.Name, GroupID: h.r.g.ID, Arm: h.rec.Label, Text: "did not settle: " + strings.Join(out, ", ")})
	}
	h.rec.Findings = append(h.rec.Findings, f)
	if f.Outcome != record.Pass && p.Invalid {
		return errSkip
	}
	return nil
}

// settleWords is what is waited for, in a line.
func settleWords(p plan.Settling) string {
	var w []string
	if p.Preheat > 0 {
		w = append(w, "preheat "+p.Preheat.String())
	}
	if p.PageCache != "" {
		w = append(w, "page cache "+p.PageCache)
	}
	if p.Pause > 0 {
		w = append(w, "pause "+p.Pause.String())
	}
	for _, b := range p.Until {
		w = append(w, bandWords(b))
	}
	return strings.Join(w, ", ")
}

func bandWords(b plan.Band) string {
	var w []string
	if b.Above != nil {
		w = append(w, fmt.Sprintf("at least %.6g", *b.Above))
	}
	if b.Below != nil {
		w = append(w, fmt.Sprintf("at most %.6g", *b.Below))
	}
	if b.Slope != nil {
		w = append(w, fmt.Sprintf("changing at most %.3g%% a minute", 100**b.Slope))
	}
	s := b.Sensor + " " + strings.Join(w, " and ")
	if b.Hold > 0 {
		s += " for " + b.Hold.String()
	}
	return s
}

const noSamples = "has no samples"

// settleWatch knows of each band whether its sensors are inside, and since when. Samples come from the
// sampler's goroutine.
type settleWatch struct {
	mu    sync.Mutex
	bands []bandWatch
}

type bandWatch struct {
	plan.Band
	each map[string]*bandSensor
}

// bandSensor is one sensor of a band.
type bandSensor struct {
	last  record.Sample
	since *int64          // inside since; nil is outside
	win   []record.Sample // for a slope: the last window
}

func newSettleWatch(p *plan.Settling) *settleWatch {
	w := &settleWatch{}
	if p == nil {
		return w
	}
	for _, b := range p.Until {
		if b.Slope != nil && b.Hold == 0 {
			b.Hold = 30 * time.Second
		}
		w.bands = append(w.bands, bandWatch{b, map[string]*bandSensor{}})
	}
	return w
}

// seed takes a sample that may have been seen already.
func (w *settleWatch) seed(x record.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.bands {
		b := &w.bands[i]
		if s := b.each[x.Sensor]; b.names(x.Sensor) && (s == nil || s.last.MonoNS < x.MonoNS) {
			b.take(x)
		}
	}
}

// sample takes a sample as it comes.
func (w *settleWatch) sample(x record.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.bands {
		if w.bands[i].names(x.Sensor) {
			w.bands[i].take(x)
		}
	}
}

func (b *bandWatch) names(sensor string) bool {
	if head, ok := strings.CutSuffix(b.Sensor, "*"); ok {
		return strings.HasPrefix(sensor, head)
	}
	return b.Sensor == sensor
}

func (b *bandWatch) take(x record.Sample) {
	s := b.each[x.Sensor]
	if s == nil {
		s = &bandSensor{}
		b.each[x.Sensor] = s
	}
	s.last = x
	if b.Slope != nil {
		s.win = append(s.win, x)
		for len(s.win) > 1 && x.MonoNS-s.win[1].MonoNS >= int64(b.Hold) {
			s.win = s.win[1:]
		}
	}
	inside := (b.Above == nil || x.Value >= *b.Above) && (b.Below == nil || x.Value <= *b.Below)
	switch {
	case !inside:
		s.since = nil
	case s.since == nil:
		at := x.MonoNS
		s.since = &at
	}
}

// outside says what is not inside its band, or not for long enough; nil when all is.
func (w *settleWatch) outside(now int64) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, b := range w.bands {
		if len(b.each) == 0 {
			out = append(out, b.Sensor+" "+noSamples)
		}
		for name, s := range b.each {
			if why := b.outside(s, now); why != "" {
				out = append(out, name+" "+why)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (b bandWatch) outside(s *bandSensor, now int64) string {
	if s.since == nil {
		return fmt.Sprintf("is %.6g", s.last.Value)
	}
	if b.Slope == nil {
		if b.Hold > 0 && now-*s.since < int64(b.Hold) {
			return fmt.Sprintf("is %.6g, inside for less than %s", s.last.Value, b.Hold)
		}
		return ""
	}
	slope, ok := slopeOf(s.win, b.Hold)
	switch {
	case !ok:
		return fmt.Sprintf("was not seen for %s", b.Hold)
	case math.Abs(slope) > *b.Slope:
		return fmt.Sprintf("changes by %.3g%% a minute", 100*slope)
	}
	return ""
}

// slopeOf is the least-squares slope of a window a minute, as a share of its mean. It wants nine tenths of
// the window and three samples.
func slopeOf(win []record.Sample, span time.Duration) (share float64, ok bool) {
	n := len(win)
	if n < 3 || float64(win[n-1].MonoNS-win[0].MonoNS) < .9*float64(span) {
		return 0, false
	}
	var mt, mv float64
	for _, x := range win {
		mt += float64(x.MonoNS-win[0].MonoNS) / 6e10
		mv += x.Value
	}
	mt, mv = mt/float64(n), mv/float64(n)
	var num, den float64
	for _, x := range win {
		dt := float64(x.MonoNS-win[0].MonoNS)/6e10 - mt
		num += dt * (x.Value - mv)
		den += dt * dt
	}
	if den == 0 || mv == 0 {
		return 0, den != 0 && num == 0
	}
	return num / den / math.Abs(mv), true
}

// words is the last value of every watched sensor.
func (w *settleWatch) words() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, b := range w.bands {
		for name, s := range b.each {
			word := fmt.Sprintf("%s %.6g", name, s.last.Value)
			if !slices.Contains(out, word) {
				out = append(out, word)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// hostSettings puts the side's host settings in force, and what they were before on record.
func (s *Session) hostSettings(ctx context.Context, h *arm) error {
	hs := h.r.plan.HostOf(h.side)
	if len(hs) == 0 {
		return nil
	}
	rig, real := h.rig.(HostRig)
	if !real {
		if s.Session.Measurer == "" || s.Session.Measurer == record.MeasurerReal {
			return &diag.Error{Kind: diag.Bug, Op: "host settings", Msg: "this measurer cannot change the host"}
		}
		return nil
	}
	h.step("host")
	fs, err := rig.Apply(ctx, hs)
	h.rec.Findings = append(h.rec.Findings, fs...)
	return err
}

// readNow reads sensors outside an arm, and puts the words of the host that are among them into a.
func (s *Session) readNow(ctx context.Context, a *record.Arm, needs []string) ([]record.Sample, error) {
	var sensors, words []string
	for _, n := range needs {
		if w, ok := strings.CutPrefix(n, hostPrefix); ok {
			words = append(words, w)
		} else {
			sensors = append(sensors, n)
		}
	}
	if m, ok := s.Measurer.(WordsRig); ok && len(words) > 0 {
		a.Host, a.HostWhy = m.Words(ctx, words)
	}
	if len(sensors) == 0 {
		return nil, nil
	}
	return s.Measurer.Read(ctx, sensors)
}

// hostWords asks the machine for what gates need to know of it in words.
func (s *Session) hostWords(ctx context.Context, h *arm) {
	names := hostNeeds(h.r.plan)
	if len(names) == 0 {
		return
	}
	if rig, ok := h.rig.(WordsRig); ok {
		h.rec.Host, h.rec.HostWhy = rig.Words(ctx, names)
		return
	}
	// A rehearsal walks the path on which the conditions hold.
	h.rec.Host = map[string]string{}
	for _, n := range names {
		h.rec.Host[n] = ""
	}
	for _, g := range h.r.plan.Gates {
		for n, v := range wordsOf(g) {
			h.rec.Host[n] = v
		}
	}
}
