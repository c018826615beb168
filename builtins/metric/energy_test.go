package metric

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"flow/workflows/record"
)

// seedRow is what a published row says of the energy of one request.
type seedRow struct {
	Row           int
	Seconds       float64
	Samples       int
	BoardJ        float64 `json:"board_j"`
	MeanW         float64 `json:"mean_w"`
	BoardCoverage float64 `json:"board_coverage"`
	RaplSpanS     float64 `json:"rapl_span_s"`
	RaplCoverage  float64 `json:"rapl_coverage"`
}

func seedRows(t *testing.T) []seedRow {
	t.Helper()
	b, err := os.ReadFile("testdata/seed_energy.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []seedRow
	if err := json.Unmarshal(b, &rows); err != nil || len(rows) != 4 {
		t.Fatal(err, len(rows))
	}
	return rows
}

func windowed(seconds float64) *record.Arm {
	const from = int64(100e9)
	return &record.Arm{Steps: []record.Step{{Name: "measure", StartNS: from, EndNS: from + int64(seconds*1e9)}}}
}

// TestSeedCoverage: what the published rows integrated, as a share of the window they speak of. Their
// joules are those of (samples - 1) seconds; the energy of the rest of the window is in no figure.
func TestSeedCoverage(t *testing.T) {
	for _, r := range seedRows(t) {
		span := r.BoardJ / r.MeanW // the seconds that the joules are of
		if got := span / r.Seconds; math.Abs(got-r.BoardCoverage) > 5e-5 {
			t.Errorf("row %d: board joules cover %.4f of the window, want %.4f", r.Row, got, r.BoardCoverage)
		}
		if got := r.RaplSpanS / r.Seconds; math.Abs(got-r.RaplCoverage) > 1e-4 {
			t.Errorf("row %d: RAPL covers %.4f of the window, want %.4f", r.Row, got, r.RaplCoverage)
		}
		// The same rule on a trace of the row's own mean power and sampling gives the same figure and says
		// what it covers.
		a := windowed(r.Seconds)
		step := int64(span / float64(r.Samples-1) * 1e9)
		first := a.Steps[0].StartNS + (int64(r.Seconds*1e9)-step*int64(r.Samples-1))/2
		for i := -1; i <= r.Samples; i++ { // the loop goes on before and after the window
			a.Samples = append(a.Samples, record.Sample{Sensor: "nvml.0.power_w", MonoNS: first + int64(i)*step, Value: r.MeanW})
		}
		m := of(t, Arm(a, nil, Inputs{}), "nvml.0.energy_1hz_j", "")
		want(t, m, r.BoardJ)
		if m.Coverage == nil || math.Abs(*m.Coverage-r.BoardCoverage) > 5e-5 {
			t.Errorf("row %d: coverage %v, want %.4f", r.Row, m.Coverage, r.BoardCoverage)
		}
		if !strings.Contains(m.Rule, "comparison") || m.Better != "" {
			t.Errorf("row %d: the figure looks like one to judge by: %+v", r.Row, m)
		}
		// flow itself gives no figure from five samples.
		wantNil(t, of(t, Arm(a, nil, Inputs{}), "nvml.0.energy_j", ""), "too")
	}
}

// board is the power of a request: a ramp while the prompt is read, a plateau with a ripple, a fall.
// joules is its integral from 0.
func board(t float64) float64 {
	switch {
	case t < 0 || t > 14:
		return 30
	case t < 2:
		return 30 + 60*t
	default:
		return 140 + 6*math.Sin(2*math.Pi*t/1.7)
	}
}

func joules(to float64) float64 {
	const n = 2_000_000
	sum := 0.0
	for i := range n {
		sum += board((float64(i) + .5) * to / n)
	}
	return sum * to / n
}

// TestEnergyWithinAPercent: at 10 Hz with jitter, windows that begin and end anywhere: flow's rule is
// within 1 %, from power and from a counter that steps every 100 ms; the seeds' rule misses 7 to 36 %.
func TestEnergyWithinAPercent(t *testing.T) {
	worst := 0.0
	for _, r := range seedRows(t) {
		a := windowed(r.Seconds)
		from := a.Steps[0].StartNS
		seed := uint64(r.Row)
		counter, at := 0.0, -1.0
		for i := -20; float64(i)/10 < r.Seconds+2; i++ {
			seed = seed*6364136223846793005 + 1442695040888963407
			jitter := (float64(seed>>40)/(1<<24) - .5) * .02 // ± 10 ms
			s := float64(i)/10 + jitter
			for ; at+.1 <= s; at += .1 { // the counter's own steps
				counter += (joulesBetween(at, at+.1))
			}
			ns := from + int64(s*1e9)
			a.Samples = append(a.Samples,
				record.Sample{Sensor: "nvml.0.power_w", MonoNS: ns, Value: board(s)},
				record.Sample{Sensor: "rapl.package-0.energy_j", MonoNS: ns, Value: 1000 + joulesTo(s)},
				record.Sample{Sensor: "nvml.1.energy_j", MonoNS: ns, Value: 500 + counter})
		}
		truth := joules(r.Seconds)
		// At 100 ms, rows 2 and 3 hold 47 and 46 updates, and flow would rightly give no figure: here the
		// rules are compared on the same windows, so the sources say that they are a little quicker.
		in := Inputs{Sensors: []record.Sensor{{Name: "rapl.package-0.energy_j", PeriodMS: 1}, {Name: "nvml.1.energy_j", PeriodMS: 90}, {Name: "nvml.0.power_w", PeriodMS: 90}}}
		ms := Arm(a, nil, in)
		for _, name := range []string{"nvml.0.energy_j", "rapl.package-0.energy_j"} {
			m := of(t, ms, name, "")
			if m.Value == nil {
				t.Fatalf("row %d: %s: %s", r.Row, name, m.Why)
			}
			if off := math.Abs(*m.Value/truth - 1); off > .01 {
				t.Errorf("row %d: %s is %.1f J, want %.1f within 1 %%", r.Row, name, *m.Value, truth)
			}
			if m.Coverage == nil || *m.Coverage < .999 || m.N < 40 {
				t.Errorf("row %d: %s: coverage %v, %d samples", r.Row, name, m.Coverage, m.N)
			}
		}
		// A counter that steps every 100 ms is read late by up to one step at both ends.
		if m := of(t, ms, "nvml.1.energy_j", ""); m.Value == nil || math.Abs(*m.Value/truth-1) > .03 {
			t.Errorf("row %d: the stepping counter gives %v (%s), want %.1f within 3 %%", r.Row, m.Value, m.Why, truth)
		}
		m := of(t, ms, "nvml.0.energy_1hz_j", "")
		worst = max(worst, 1-*m.Value/truth)
		if m.Coverage == nil || *m.Coverage > .99 {
			t.Errorf("row %d: the rule without edges covers %v", r.Row, m.Coverage)
		}
	}
	if worst < .05 {
		t.Errorf("the rule without edges is off by %.3f at most: the trace does not show what it is for", worst)
	}
}

func joulesBetween(a, b float64) float64 { return joulesTo(b) - joulesTo(a) }

// joulesTo is the integral of board from 0, in closed form; negative times are idle.
func joulesTo(t float64) float64 {
	if t <= 0 {
		return 30 * t
	}
	ramp := func(t float64) float64 { return 30*t + 30*t*t }
	if t <= 2 {
		return ramp(t)
	}
	w := 2 * math.Pi / 1.7
	plateau := func(t float64) float64 { return 140*t - 6/w*math.Cos(w*t) }
	if t <= 14 {
		return ramp(2) + plateau(t) - plateau(2)
	}
	return ramp(2) + plateau(14) - plateau(2) + 30*(t-14)
}

// TestEnergyByWhat: by token and by request, and where neither can be said.
func TestEnergyByWhat(t *testing.T) {
	arm := func() *record.Arm {
		a := windowed(20)
		for i := range 220 {
			a.Samples = append(a.Samples, record.Sample{Sensor: "rapl.package-0.energy_j", MonoNS: int64(99e9) + int64(i)*1e8, Value: 7 + 10*float64(i)/10})
		}
		for i := range 4 {
			n := 50
			a.Requests = append(a.Requests, record.Request{Index: i, Mark: record.MarkMeasured, Status: "ok", CompletionTokens: &n,
				Values: []record.Metric{{Name: "generation_tok_s"}}})
		}
		return a
	}
	in := Inputs{Sensors: []record.Sensor{{Name: "rapl.package-0.energy_j", PeriodMS: 1}}}
	get := func(a *record.Arm, name string) record.Metric {
		return of(t, Arm(a, nil, in), "rapl.package-0."+name, "")
	}
	a := arm()
	want(t, get(a, "energy_j"), 200)
	want(t, get(a, "energy_per_token_j"), 1)
	want(t, get(a, "energy_per_request_j"), 50)
	if m := get(a, "energy_per_token_j"); m.N != 200 || m.Unit != "J/token" {
		t.Errorf("got %+v", m)
	}
	a.Requests[2].CompletionTokens = nil
	wantNil(t, get(a, "energy_per_token_j"), "not known")
	want(t, get(a, "energy_per_request_j"), 50)
	a = arm()
	a.Requests[1].Status = "error"
	wantNil(t, get(a, "energy_per_token_j"), "did not end ok")
	wantNil(t, get(a, "energy_per_request_j"), "did not end ok")
	a = arm()
	x := 3.
	a.Requests[0].Values = []record.Metric{{Name: "generation_tok_s", Withheld: &x, Why: "the counts differ"}}
	if m := get(a, "energy_per_token_j"); m.Value != nil || m.Withheld == nil || m.Why != "the counts differ" {
		t.Errorf("got %+v, want it withheld", m)
	}
	a = arm()
	a.Neighbours = []string{"another session"}
	wantNil(t, get(a, "energy_j"), "shared")
	wantNil(t, get(a, "energy_per_token_j"), "shared")
	a = arm()
	a.Requests = nil
	wantNil(t, get(a, "energy_per_token_j"), "no completion tokens")
}

// TestPhases: a sensor while requests prefill and decode; requests at once make one phase.
func TestPhases(t *testing.T) {
	a := windowed(10)
	from := a.Steps[0].StartNS
	at := func(s float64) *int64 { ns := from + int64(s*1e9); return &ns }
	for _, r := range [][3]float64{{0, 2, 5}, {1, 3, 6}, {8, 8.5, 9}} {
		a.Requests = append(a.Requests, record.Request{Mark: record.MarkMeasured, Status: "ok", SentNS: at(r[0]), FirstContentNS: at(r[1]), LastContentNS: at(r[2])})
	}
	a.Process = &record.Process{LaunchNS: from - 1e9}
	for i := range 130 {
		s := float64(i)/10 - 2
		a.Samples = append(a.Samples, record.Sample{Sensor: "nvml.0.sm_clock_mhz", MonoNS: from + int64(s*1e9), Value: 1000 + 10*s})
	}
	names := []string{"nvml.0.sm_clock_mhz_decode_min", "nvml.0.sm_clock_mhz_prefill_max", "nvml.0.sm_clock_mhz_decode_p95", "nvml.0.sm_clock_mhz_p99",
		"nvml.0.sm_clock_mhz_p05", "nvml.0.sm_clock_mhz_rise", "nvml.0.sm_clock_mhz_per_s", "nvml.0.sm_clock_mhz_prefill_p99"}
	ms := Arm(a, nil, Inputs{Needed: names})
	want(t, of(t, ms, "nvml.0.sm_clock_mhz_decode_min", ""), 1020)
	want(t, of(t, ms, "nvml.0.sm_clock_mhz_prefill_max", ""), 1085)
	want(t, of(t, ms, "nvml.0.sm_clock_mhz_rise", ""), 1100-990)
	want(t, of(t, ms, "nvml.0.sm_clock_mhz_per_s", ""), 10)
	want(t, of(t, ms, "nvml.0.sm_clock_mhz_p99", ""), 1099)
	if m := of(t, ms, "nvml.0.sm_clock_mhz_decode_min", ""); m.N != 47 || m.Coverage == nil || !strings.Contains(m.Rule, "decode") {
		t.Errorf("got %+v", m)
	}
	wantNil(t, of(t, ms, "nvml.0.sm_clock_mhz_prefill_p99", ""), "too few: 37 samples of nvml.0.sm_clock_mhz, want 100")
	a.Requests = nil
	wantNil(t, of(t, Arm(a, nil, Inputs{Needed: names}), "nvml.0.sm_clock_mhz_decode_min", ""), "no measured request was in its decode")
	a.Process = nil
	wantNil(t, of(t, Arm(a, nil, Inputs{Needed: names}), "nvml.0.sm_clock_mhz_rise", ""), "before the engine was launched")
}

// TestEnergyAtMarks: with the counter read at the edges of the step and of the phases, energy is that of the
// phase, to what the board did between the edge and the reading, and the rule says how far that was. Without, the values at the
// edges are between two ticks, which is off by what the board did meanwhile, and the rule says so.
func TestEnergyAtMarks(t *testing.T) {
	const late = .0004 // s from a mark to its reading
	build := func(marked bool) *record.Arm {
		a := windowed(8)
		from := a.Steps[0].StartNS
		at := func(s float64) *int64 { ns := from + int64(s*1e9); return &ns }
		// The prompt is read at 300 W for 1.03 s, then 100 W while it decodes, and 20 W when nothing runs.
		watts := [][3]float64{{-2, .07, 20}, {.07, 1.1, 300}, {1.1, 7.93, 100}, {7.93, 12, 20}}
		joules := func(s float64) (j float64) {
			for _, w := range watts {
				j += max(min(s, w[1])-w[0], 0) * w[2]
			}
			return j
		}
		read := func(s float64) {
			a.Samples = append(a.Samples, record.Sample{Sensor: "rapl.package-0.energy_j", MonoNS: *at(s), Value: joules(s)})
		}
		for i := -10; i <= 90; i++ {
			read(float64(i)/10 + .02)
		}
		if marked {
			for _, s := range []float64{0, .07, 1.1, 7.93, 8} {
				read(s + late)
			}
		}
		n := 100
		a.Requests = []record.Request{{Mark: record.MarkMeasured, Status: "ok", SentNS: at(.07), FirstContentNS: at(1.1), LastContentNS: at(7.93), CompletionTokens: &n, Values: []record.Metric{{Name: "x"}}}}
		return a
	}
	in := Inputs{Sensors: []record.Sensor{{Name: "rapl.package-0.energy_j", PeriodMS: 1}}}
	truth := map[string]float64{"energy_j": 309 + 683 + 2.8, "energy_prefill_j": 309, "energy_decode_j": 683}
	marked, ticks := Arm(build(true), nil, in), Arm(build(false), nil, in)
	for name, j := range truth {
		m, between := of(t, marked, "rapl.package-0."+name, ""), of(t, ticks, "rapl.package-0."+name, "")
		if m.Value == nil || between.Value == nil {
			t.Fatalf("%s: %s %s", name, m.Why, between.Why)
		}
		if off := math.Abs(*m.Value - j); off > 2*late*300 {
			t.Errorf("%s at marks is %.2f J, want %.2f", name, *m.Value, j)
		}
		if !strings.Contains(m.Rule, "read within 0.4 ms of the edges of ") {
			t.Errorf("%s: rule %q", name, m.Rule)
		}
		if !strings.Contains(between.Rule, "interpolated at the edges of ") || !strings.Contains(between.Rule, " ms from one, because this source is not read at marks, or was busy then") {
			t.Errorf("%s between ticks: rule %q", name, between.Rule)
		}
		if m.Coverage == nil || *m.Coverage < .9999 {
			t.Errorf("%s: coverage %v", name, m.Coverage)
		}
	}
	if off := math.Abs(*of(t, ticks, "rapl.package-0.energy_prefill_j", "").Value - 309); off < 3 {
		t.Errorf("between ticks the prefill is off by %.2f J: the trace does not show what marks are for", off)
	}
	// Readings that crowd around marks leave no hole between the ticks.
	a := build(true)
	for i := range 200 {
		a.Samples = append(a.Samples, record.Sample{Sensor: "rapl.package-0.energy_j", MonoNS: a.Steps[0].StartNS + int64(2e9) + int64(i)*2e6, Value: 20*2.07 + 309 + 100*(.9+float64(i)*.002)})
	}
	if m := of(t, Arm(a, nil, in), "rapl.package-0.energy_j", ""); m.Value == nil || math.Abs(*m.Value-truth["energy_j"]) > 2*late*300 {
		t.Errorf("with crowded readings: got %v %s", m.Value, m.Why)
	}
	// Nobody vouches for an edge in a long silence.
	a = build(false)
	kept := a.Samples[:0]
	for _, x := range a.Samples {
		if s := float64(x.MonoNS-a.Steps[0].StartNS) / 1e9; s < -.5 || s > 2 {
			kept = append(kept, x)
		}
	}
	a.Samples = kept
	wantNil(t, of(t, Arm(a, nil, in), "rapl.package-0.energy_j", ""), "samples cover")
}

// TestSummaries: every sensor in every phase that the arm has; a counter has its difference, what there are too
// few samples for is nil and says so, and each figure is the one that the metric of its name has.
func TestSummaries(t *testing.T) {
	a := windowed(10)
	from := a.Steps[0].StartNS
	at := func(s float64) *int64 { ns := from + int64(s*1e9); return &ns }
	a.Process = &record.Process{LaunchNS: from - 1e9}
	a.Requests = []record.Request{{Mark: record.MarkMeasured, Status: "ok", SentNS: at(1), FirstContentNS: at(2), LastContentNS: at(9)}}
	for i := range 140 {
		s := float64(i)/10 - 2
		a.Samples = append(a.Samples, record.Sample{Sensor: "clock", MonoNS: *at(s), Value: 1000 + 10*s}, record.Sample{Sensor: "pkg.energy_j", MonoNS: *at(s), Value: 5 + 20*s})
	}
	a.Samples = append(a.Samples, record.Sample{Sensor: "early", MonoNS: *at(-1.5), Value: 3})
	known := []record.Sensor{{Name: "pkg.energy_j", Counter: true, PeriodMS: 1}}
	got := map[string]record.Summary{}
	for _, x := range Summaries(a, known) {
		got[x.Sensor+" "+x.Phase] = x
	}
	if len(got) != 9 {
		t.Errorf("got %d summaries, want three sensors in three phases", len(got))
	}
	needed := []string{"clock_mean", "clock_p95", "clock_rise", "clock_decode_min", "clock_decode_p05", "clock_prefill_max", "pkg.energy_j_diff", "pkg.energy_j_decode_diff"}
	ms := Arm(a, nil, Inputs{Needed: needed, Sensors: known})
	for name, v := range map[string]*float64{"clock_mean": got["clock measure"].Mean, "clock_p95": got["clock measure"].P95, "clock_rise": got["clock measure"].Rise,
		"clock_decode_min": got["clock decode"].Min, "clock_decode_p05": got["clock decode"].P05, "clock_prefill_max": got["clock prefill"].Max,
		"pkg.energy_j_diff": got["pkg.energy_j measure"].Diff, "pkg.energy_j_decode_diff": got["pkg.energy_j decode"].Diff} {
		if m := of(t, ms, name, ""); v == nil || m.Value == nil || math.Abs(*v-*m.Value) > 1e-9 {
			t.Errorf("%s: the summary has %v, the metric %v", name, v, m.Value)
		}
	}
	if x := got["pkg.energy_j decode"]; x.Diff == nil || math.Abs(*x.Diff-140) > 1e-9 || x.Coverage < .999 {
		t.Errorf("energy while decoding: %+v, want 140 J", x)
	}
	if x := got["clock prefill"]; x.N != 11 || x.P05 != nil || x.P50 == nil || x.Why != "11 samples: p05 wants 20" || x.Diff != nil {
		t.Errorf("a short phase: %+v", x)
	}
	if x := got["early measure"]; x.N != 0 || x.Mean != nil || x.Why != "no sample in the phase" || x.Coverage != 0 {
		t.Errorf("a sensor that fell silent: %+v", x)
	}
}

// BenchmarkSummaries is an arm of a minute at 10 Hz with 100 sensors.
func BenchmarkSummaries(b *testing.B) {
	a := windowed(60)
	from := a.Steps[0].StartNS
	at := func(s float64) *int64 { ns := from + int64(s*1e9); return &ns }
	a.Requests = []record.Request{{Mark: record.MarkMeasured, Status: "ok", SentNS: at(1), FirstContentNS: at(2), LastContentNS: at(59)}}
	for i := range 700 {
		for n := range 100 {
			a.Samples = append(a.Samples, record.Sample{Sensor: "s" + string(rune('a'+n)), MonoNS: *at(float64(i)/10 - 5), Value: float64((i * 7919 * (n + 1)) % 1000)})
		}
	}
	for b.Loop() {
		Summaries(a, nil)
	}
}
