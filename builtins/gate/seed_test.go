package gate

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// The published record of the argodrive campaigns: raw arms, and the figures that were printed of them.
type seedFile struct {
	Groups []seedGroup
	Ladder struct {
		Sequence []string
		Rungs    []struct {
			Label  string
			Runs   int
			Median float64
			Range  []float64
			Vs     float64 `json:"vs_upstream"`
		}
		Arms []seedArm
	}
}

type seedGroup struct {
	ID, Role, Order string
	Tokens          int
	MedianA         *float64  `json:"median_a"`
	MedianB         *float64  `json:"median_b"`
	Gain            *float64  `json:"gain_pct"`
	IncMedianA      *float64  `json:"inclusive_median_a"`
	IncMedianB      *float64  `json:"inclusive_median_b"`
	IncGain         *float64  `json:"inclusive_gain_pct"`
	PairDeltas      []float64 `json:"pair_deltas"`
	Arms            []seedArm
}

type seedArm struct {
	Label      string
	Steady     float64 `json:"steady_tok_s"`
	Generation float64 `json:"generation_tok_s"`
	OK         bool
	MHz        float64
}

func seeds(t testing.TB) seedFile {
	t.Helper()
	b, err := os.ReadFile("testdata/argodrive-steady.json")
	if err != nil {
		t.Fatal(err)
	}
	var f seedFile
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func value(name string, v float64) record.Metric {
	return record.Metric{Name: name, Unit: "tok/s", Better: "higher", Source: "csv", Value: &v}
}

// asGroup is a published group as flow records it.
func asGroup(s seedGroup) *record.Group {
	g := &record.Group{ID: s.ID, Name: s.ID, SessionID: "seed", Role: record.RoleScreen, Order: s.Order, Control: "A", Primary: "steady_tok_s",
		Better: "higher", Cap: 1, Costs: map[string]float64{"generation_tok_s": -.01}, Workload: fmt.Sprint(s.Tokens),
		Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}}
	for i, a := range s.Arms {
		arm := &record.Arm{Label: a.Label, Slot: i, Seq: i, Purpose: "measured", Disposition: record.OK,
			Metrics: []record.Metric{value("steady_tok_s", a.Steady), value("generation_tok_s", a.Generation)}}
		if !a.OK && a.MHz < 1600 { // others were excluded with their group, and their gate passed
			arm.Disposition = record.Invalid
			arm.Reason = fmt.Sprintf("gate gpu-clock: observed %s MHz, limit at least 1600 MHz", number(a.MHz))
		}
		g.Arms = append(g.Arms, arm)
	}
	return g
}

// Every published median, gain and pair delta, bit for bit, from the raw arms.
func TestSeedPublishedFigures(t *testing.T) {
	n := 0
	for _, s := range seeds(t).Groups {
		var a, b, ga, gb []float64
		for _, x := range s.Arms {
			if x.Label == "A" {
				a, ga = append(a, x.Steady), append(ga, x.Generation)
			} else {
				b, gb = append(b, x.Steady), append(gb, x.Generation)
			}
		}
		same := func(what string, want *float64, got float64) {
			t.Helper()
			if want != nil && *want != got {
				t.Errorf("%s: %s: got %v, want %v", s.ID, what, got, *want)
			}
			if want != nil {
				n++
			}
		}
		same("median A", s.MedianA, stats.Median(a))
		same("median B", s.MedianB, stats.Median(b))
		same("inclusive median A", s.IncMedianA, stats.Median(ga))
		same("inclusive median B", s.IncMedianB, stats.Median(gb))
		if s.Gain != nil {
			gain, _ := stats.GainOfMediansPct(a, b)
			same("gain", s.Gain, gain)
			gain, _ = stats.GainOfMediansPct(ga, gb)
			same("inclusive gain", s.IncGain, gain)
		}
		for i, d := range stats.PairDeltas(a, b) {
			if math.Round(d*100)/100 != s.PairDeltas[i] {
				t.Errorf("%s: pair delta %d: got %v, want %v", s.ID, i, d, s.PairDeltas[i])
			}
			n++
		}
	}
	if n < 130 {
		t.Errorf("only %d published figures were compared", n)
	}
}

// judgeSeeds judges the published groups in their order, each knowing the ones before it.
func judgeSeeds(t testing.TB, stopped map[string]string) map[string]*record.Group {
	out := map[string]*record.Group{}
	var past []*record.Group
	for _, s := range seeds(t).Groups {
		g := asGroup(s)
		g.Workload = "" // the campaign's noise was one for both lengths
		g.Stopped = stopped[s.ID]
		Judge(g, past)
		out[s.ID] = g
		past = slices.Insert(past, 0, g)
	}
	return out
}

// flow's own verdict of every published group, in the order of the campaign, each borrowing from those before.
// The published rule (both pair deltas positive) called every one of the complete groups but the rejected a win.
func TestSeedVerdicts(t *testing.T) {
	got := judgeSeeds(t, map[string]string{"lookahead-missing-only-k3": "hopeless: after one pair"})
	want := map[string]string{
		"stack512": "better", "stack200": "better", "flag-readback": "better", "cache4600-512": "better", "cache4600-200": "better",
		"bf16-epilogues": "better", "pipeline-cache": "better", "env-cache": "better", "stack512-excluded": "invalid", "stack200-excluded": "invalid",
		"final512": "better", "final200": "better", "flush512": "inconclusive", "flush200": "better", "post-moe-flush-miss-layers": "better",
		"post-moe-flush-all-layers": "inconclusive", "victim-prescan": "inconclusive", "lookahead-mailbox-k2": "worse",
		"lookahead-missing-only-k3": "worse", "lookahead-missing-only-k2": "invalid",
	}
	for _, s := range seeds(t).Groups {
		g := got[s.ID]
		if g.Verdict != want[s.ID] {
			t.Errorf("%s: got %s (%s), want %s", s.ID, g.Verdict, g.Reason, want[s.ID])
		}
		for _, c := range g.Comparisons {
			w, gain := s.Gain, c.GainOfMediansPct
			if c.Cost {
				w = s.IncGain
			}
			if w != nil && (gain == nil || *gain != *w) {
				t.Errorf("%s %s: gain %v, want %v", s.ID, c.Metric, gain, *w)
			}
		}
		text := strings.Join(g.Warnings, "\n")
		if len(s.Arms) == 4 && strings.Contains(text, "drift-confounded order "+s.Order) != (s.Order == "ABAB") {
			t.Errorf("%s: order %s, warnings:\n%s", s.ID, s.Order, text)
		}
		if len(s.Arms) == 4 && !strings.Contains(text, "two runs of side B: an observed range") {
			t.Errorf("%s: no word on two runs:\n%s", s.ID, text)
		}
	}
	// What was excluded says why, by the arm that was at fault, or by what is missing.
	for id, reason := range map[string]string{
		"stack512-excluded":         "no valid block: block 1: arm A2 is invalid: gate gpu-clock: observed 762 MHz, limit at least 1600 MHz",
		"stack200-excluded":         "no valid block: block 1: arm A1 is invalid: gate gpu-clock: observed 907 MHz, limit at least 1600 MHz",
		"lookahead-missing-only-k2": "no valid block: block 1: 1 of 4 arms",
		"lookahead-missing-only-k3": "-8.16 % [-9.59 %, -6.72 %] at 99.9 %, 1 block",
	} {
		if g := got[id]; g.Reason != reason || strings.Contains(strings.Join(g.Warnings, "\n"), "left out: ") {
			t.Errorf("%s: got %q, %q; want %q, said once", id, g.Reason, g.Warnings, reason)
		}
	}
	// A 62.6 % gain that was a clock has no figure among the results.
	if c := got["stack512-excluded"].Comparisons; len(c) != 0 {
		t.Errorf("the excluded group shows %+v", c)
	}
	// The depressed arm is named where its noise is left out.
	if w := strings.Join(got["victim-prescan"].Warnings, " "); !strings.Contains(w, `without block 1 of "post-moe-flush-all-layers" (A 21.42 to 22.49)`) {
		t.Errorf("the depressed arm is not named: %s", w)
	}
	if w := strings.Join(got["post-moe-flush-all-layers"].Warnings, " "); !strings.Contains(w, "nothing borrowed") {
		t.Errorf("its own group borrowed: %s", w)
	}
	// bf16-epilogues: a win in steady and a loss in inclusive stand side by side.
	for _, c := range got["bf16-epilogues"].Comparisons {
		if c.Cost && (c.Verdict == record.Better || *c.GainOfMediansPct > 0) {
			t.Errorf("inclusive: %+v", c)
		}
	}
}

// One pair of the rejected lever is enough to give up, once the noise is known, and not before.
func TestSeedHopelessAfterOnePair(t *testing.T) {
	all := judgeSeeds(t, nil)
	g := all["lookahead-missing-only-k3"]
	if g.Verdict != record.Invalid || !strings.Contains(g.Reason, "2 of 4 arms") {
		t.Errorf("unfinished and not given up: got %s: %s", g.Verdict, g.Reason)
	}
	if c := g.Comparisons[0]; c.Verdict != record.Invalid || c.GainOfMediansPct == nil {
		t.Errorf("figures of the unfinished block: %+v", c)
	}
	why := Hopeless(g)
	if !strings.Contains(why, "far outside the noise") || !strings.Contains(why, "-8.16 %") {
		t.Errorf("got %q", why)
	}
	g.Noise = nil
	if why := Hopeless(g); why != "" {
		t.Errorf("without known noise: %q", why)
	}
	for id, g := range all {
		if id != "lookahead-missing-only-k3" && id != "lookahead-mailbox-k2" && Hopeless(g) != "" {
			t.Errorf("%s is hopeless: %s", id, Hopeless(g))
		}
	}
}

// The ladder of 27 September: interpolated controls, and what was published of it.
func TestSeedLadder(t *testing.T) {
	l := seeds(t).Ladder
	g := &record.Group{ID: "ladder", Role: record.RoleLadder, Order: strings.Join(l.Sequence, " "), Control: "U", Primary: "steady_tok_s",
		Better: "higher", Cap: 1, MinEffect: .01, Sides: []record.Side{{Label: "U", Control: true}, {Label: "S1"}, {Label: "S2"}, {Label: "S3"}}}
	for i, a := range l.Arms {
		g.Arms = append(g.Arms, &record.Arm{Label: a.Label, Slot: i, Seq: i, Purpose: "measured", Disposition: record.OK,
			Metrics: []record.Metric{value("steady_tok_s", a.Steady)}})
	}
	Judge(g, nil)
	if g.Verdict != record.Better || !strings.HasPrefix(g.Reason, "every rung: S1 better (+83.67 %") {
		t.Errorf("got %s: %s", g.Verdict, g.Reason)
	}
	want := map[string]float64{"S1": 1.836680, "S2": 2.077488, "S3": 2.188893}
	for i, c := range g.Comparisons {
		r := l.Rungs[i+1]
		if math.Abs(1+c.Estimate.Effect-want[c.Side]) > 5e-7 || c.Estimate.Method != stats.MethodLadder {
			t.Errorf("%s: got %.6f, want %.6f", c.Side, 1+c.Estimate.Effect, want[c.Side])
		}
		if *c.MedianSide != r.Median || *c.MedianControl != l.Rungs[0].Median || c.NSide != r.Runs || c.NControl != 6 ||
			!slices.Equal(c.RangeSide, r.Range) || *c.MedianSide / *c.MedianControl != r.Vs {
			t.Errorf("%s: got %+v, want %+v", c.Side, c, r)
		}
	}
	// The controls vary by .807 % with the drift removed, on 2·25/14 df.
	e := g.Comparisons[0].Estimate
	if math.Abs(e.DF-50./14) > 1e-9 {
		t.Errorf("df %v", e.DF)
	}
	us := unitsOf(g, "steady_tok_s", "", false)
	if len(us) != 1 || math.Abs(math.Sqrt(us[0].SS/us[0].DF)-.00807) > 5e-6 {
		t.Errorf("noise of the controls: %+v", us)
	}
}

// What one campaign knows of its noise: .27 % an arm without the depressed arm.
func TestSeedNoise(t *testing.T) {
	var past []*record.Group
	for _, s := range seeds(t).Groups {
		g := asGroup(s)
		g.Workload, g.SessionID = "", ""
		Judge(g, nil)
		past = append(past, g)
	}
	n := KnownNoise(&record.Group{Primary: "steady_tok_s"}, past)
	if n == nil || n.SD < .0018 || n.SD > .003 || n.DF < 14 {
		t.Errorf("got %+v", n)
	}
	if !strings.HasPrefix(n.From, "earlier sessions: ") {
		t.Errorf("from %q", n.From)
	}
}
