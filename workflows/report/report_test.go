package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"flow/workflows/record"
)

var update = flag.Bool("update", false, "write the goldens anew")

func ptr[T any](v T) *T { return &v }

func est(method string, effect, low, high, df float64, blocks int) *record.Estimate {
	return &record.Estimate{Method: method, Effect: effect, Level: .95, Low: &low, High: &high, DF: df, Blocks: blocks}
}

func side(label, change string, control bool, levers ...string) record.Side {
	s := record.Side{Label: label, Engine: "llama", Control: control}
	for _, l := range levers {
		s.Stack = append(s.Stack, record.Lever{Name: l})
	}
	if change != "" {
		k, v, _ := strings.Cut(change, "=")
		s.Command.Delta = map[string]string{k: v}
	}
	return s
}

func arms(g *record.Group, labels string, disposition string) {
	for i, l := range strings.Split(labels, "") {
		g.Arms = append(g.Arms, &record.Arm{Label: l, Block: len(g.Arms) / 4, Slot: i % 4, Seq: len(g.Arms), Purpose: "measured", Disposition: disposition, MonoStartNS: int64(i) * 20e9, MonoEndNS: int64(i)*20e9 + 14e9,
			Metrics: []record.Metric{{Name: g.Primary, Unit: "tok/s"}}})
	}
}

// The quad of STATISTICS 3.2 as a group: two quads, the effect 2.08 % with its t interval.
func better() *record.Group {
	g := &record.Group{
		ID: "g1", Name: "ubatch-1024", Role: "screen", Primary: "decode_tok_s", Better: "higher", MinEffect: .01, Cap: 4, Control: "A",
		Sides:   []record.Side{side("A", "", true), side("B", "arg -ub=1024", false, "ubatch-1024")},
		Verdict: "better", Reason: "+2.08% [+1.88%, +2.28%]", Stopped: "decided()", WallStartNS: 1e9, WallEndNS: ptr(int64(3713e9)),
		Comparisons: []record.Comparison{
			{
				Side: "B", Control: "A", Metric: "decode_tok_s", Verdict: "better", Reason: "+2.08% [+1.88%, +2.28%]", Estimate: est("quad", .0207679, .0187511, .0227926, 3, 2),
				MedianControl: ptr(100.25), MedianSide: ptr(102.31), RangeControl: []float64{99.81, 100.62}, RangeSide: []float64{101.94, 102.75},
				GainOfMediansPct: ptr(2.0548628428927702), PairDeltas: []float64{2.1, 1.9, 2.25, 2.0}, NControl: 4, NSide: 4,
			},
			{Side: "B", Control: "A", Metric: "prefill_tok_s", Cost: true, Estimate: est("quad", -.0052, -.011, .0006, 3, 2)},
			{Side: "B", Control: "A", Metric: "ttft_ms", Cost: true, CostBroken: true, Estimate: est("quad", .08, .06, .1, 3, 2)},
			{Side: "B", Control: "A", Metric: "nvml.0.energy_j", Cost: true, Reason: "no block has nvml.0.energy_j on both sides: too short: 12 updates of the source in 1.2 s, want 50"},
		},
		Costs: map[string]float64{"prefill_tok_s": -.03, "ttft_ms": .05}, CostsShown: []string{"nvml.0.energy_j"},
	}
	g.Warnings = []string{
		"requests are no replicates: 40 in 8 arms, which correlate by 0.37 within an arm, are worth 16.1 (design effect 1 + (m-1) rho = 2.48); the interval counts arms",
		"bimodal: the 4 arms of side B fall into two clusters, 2 at 101.94 to 101.95 (median 101.945) and 2 at 102.74 to 102.75 (median 102.745) (the 2: B3, B6); with 0.77 % between them no median describes both",
	}
	arms(g, "ABBABAAB", "ok")
	return g
}

func inconclusive() *record.Group {
	g := &record.Group{
		Name: "threads-2", Role: "screen", Primary: "wall_s", Better: "lower", MinEffect: .01, Cap: 4, Control: "A", Order: "BAAB",
		Sides:   []record.Side{side("A", "", true, "ubatch-1024"), side("B", "arg -t=2", false, "ubatch-1024", "threads-2")},
		Verdict: "inconclusive", Reason: "-0.41% [-1.60%, +0.80%]; the interval holds 0; about 3 more blocks should decide it",
		Warnings: []string{"the control drifts by −0.4 % an arm (t 3.1): the order cancels a line, not a curve"},
		Comparisons: []record.Comparison{{
			Side: "B", Control: "A", Metric: "wall_s", Verdict: "inconclusive",
			Estimate:      &record.Estimate{Method: "quad", Effect: -.0041, Level: .9706, Low: ptr(-.016), High: ptr(.008), DF: 11, Blocks: 1, Looks: 4, Borrowed: "noise of 0.27% an arm (8 of 22 df) from 6 earlier groups on this machine", BorrowedDF: 8},
			MedianControl: ptr(12.5), MedianSide: ptr(12.45), RangeControl: []float64{12.4, 12.6}, RangeSide: []float64{12.41, 12.49}, NControl: 2, NSide: 2,
			GainOfMediansPct: ptr(-.4), BlocksNeeded: ptr(3),
		}},
	}
	arms(g, "BAAB", "ok")
	arms(g, "BA", "invalid")
	g.Arms[5].Reason = "gate no-swap-growth: observed 12 MiB, limit 0 MiB: the host swapped while the arm ran, so its time is not the engine's"
	g.Arms[4].Disposition = "superseded"
	g.Arms[5].Attempt = 1
	g.Arms = append(g.Arms, &record.Arm{Label: "A", Block: -1, Seq: 6, Purpose: "probe", Disposition: "interrupted"})
	return g
}

func invalid() *record.Group {
	return &record.Group{
		Name: "mlock", Role: "screen", Primary: "decode_tok_s", Better: "higher", Cap: 2, Control: "A", Verdict: "infeasible",
		Sides:  []record.Side{side("A", "", true), side("B", "arg --mlock=", false, "mlock")},
		Reason: "side B cannot run: engine llama exited with 1 before it was ready: error: invalid argument: --mlock",
		Arms: []*record.Arm{{Label: "B", Purpose: "measured", Disposition: "infeasible", Reason: "exited with 1 before it was ready",
			Process: &record.Process{Argv: []string{"llama", "--mlock", "-p", "it's a test"}, LogTail: "loading\n\x1b[31merror:\xff invalid argument: --mlock\n"}}},
	}
}

func ladder() *record.Group {
	g := &record.Group{
		Name: "cache", Role: "ladder", Primary: "steady_tok_s", Better: "higher", Cap: 1, Control: "U", Order: "U S1 U S2 U S3 S3 U S2 U S1 U", Verdict: "better",
		Reason: "S1 better, S2 better, S3 inconclusive",
		Sides:  []record.Side{side("U", "", true), side("S1", "env CACHE=4200", false, "cache=4200"), side("S2", "env CACHE=4600", false, "cache=4600"), side("S3", "env CACHE=4750", false, "cache=4750")},
	}
	for i, s := range []string{"S1", "S2", "S3"} {
		c := record.Comparison{Side: s, Control: "U", Metric: "steady_tok_s", Verdict: "better", MedianControl: ptr(100.0), MedianSide: ptr(105.0 - float64(i)), RangeControl: []float64{99.9, 100.1}, NControl: 6, NSide: 2, RangeSide: []float64{104.9 - float64(i), 105.1 - float64(i)}, GainOfMediansPct: ptr(5.0 - float64(i))}
		e := est("ladder", .05-float64(i)/100, .04-float64(i)/100, .06-float64(i)/100, 5, 1)
		if i == 2 {
			e.Low, e.High, e.SE = nil, nil, nil
			c.Verdict = "inconclusive"
		}
		c.Estimate = e
		g.Comparisons = append(g.Comparisons, c)
	}
	return g
}

func cases() *record.Group {
	g := better()
	g.Name, g.Role, g.Costs = "stack", "qualification", nil
	c := g.Comparisons[0]
	a, b := c, c
	a.Case, b.Case = "4K", "32K"
	b.Estimate, b.Verdict, b.Reason = nil, "invalid", "no block has decode_tok_s on both sides for case 32K: withheld: completion tokens disagree by more than 3 %: usage 256, timings 128"
	b.MedianSide, b.RangeSide, b.NSide, b.GainOfMediansPct, b.PairDeltas = nil, nil, 0, nil, nil
	g.Comparisons = []record.Comparison{a, b}
	g.Verdict, g.Reason = "invalid", "4K better (+2.08% [+1.88%, +2.28%]); 32K invalid (no block has decode_tok_s on both sides)"
	return g
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func render(t *testing.T, g *record.Group, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Group(&b, g, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var groups = map[string]func() *record.Group{"better": better, "inconclusive": inconclusive, "infeasible": invalid, "ladder": ladder, "cases": cases, "design": factorial, "left_out": leaveOneOut}

// A Plackett-Burman group of three levers on a base of one: what ran are combinations.
func factorial() *record.Group {
	g := &record.Group{
		Name: "plackett-burman flash-attn, ubatch-1024, threads-2", Role: "screen", Design: "plackett-burman-12", Primary: "decode_tok_s", Better: "higher", MinEffect: .01, Cap: 1, Control: "U",
		Order: "U R1 R2 U R3 R4 U", Verdict: "inconclusive", Reason: "levers differ: flash-attn better (…); ubatch-1024 better (…); threads-2 worse (…)",
		Sides: []record.Side{side("U", "", true, "base"), side("R1", "", false, "base", "flash-attn", "threads-2"), side("R2", "", false, "base", "ubatch-1024")},
	}
	for _, c := range []struct {
		lever, change, verdict string
		effect                 float64
	}{{"flash-attn", "arg -fa=on", "better", .05}, {"ubatch-1024", "arg -ub=1024", "better", .021}, {"threads-2", "arg -t=2", "worse", -.03}} {
		s := side(c.lever, c.change, false, "base", c.lever)
		s.Estimated = true
		g.Sides = append(g.Sides, s)
		g.Comparisons = append(g.Comparisons, record.Comparison{Side: c.lever, Control: "U", Metric: g.Primary, Verdict: c.verdict, NControl: 8, NSide: 6,
			Estimate: est("factorial", c.effect, c.effect-.004, c.effect+.004, 9, 1)})
	}
	return g
}

func leaveOneOut() *record.Group {
	g := ladder()
	g.Name, g.Sides = "leave one out of a+b", []record.Side{side("U", "", true, "a", "b"), side("S1", "", false, "b"), side("S2", "", false, "a"), side("S3", "", false)}
	return g
}

func TestFamily(t *testing.T) {
	var b bytes.Buffer
	lines := []string{
		"14 screened effects as one family: of those that stand at most 5 % are false (Benjamini-Hochberg); of 14 levers that do nothing one passes by itself in 51 % of sessions",
		"flash-attn +5.00 % (+4.80 % shrunk): stands (q 0.0012)",
		"claim flash-attn + ubatch-1024: +6.80 % from fresh arms, where the screens showed +7.21 % (+6.90 % shrunk)",
	}
	if err := Family(&b, lines, Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "family", b.Bytes())
	b.Reset()
	if err := Family(&b, nil, Options{}); err != nil || b.Len() != 0 {
		t.Errorf("a family of nothing: %q", b.String())
	}
}

func TestGroup(t *testing.T) {
	for name, g := range groups {
		golden(t, "group_"+name, render(t, g(), Options{}))
	}
	golden(t, "group_better_unicode", render(t, better(), Options{Unicode: true, Width: 120, Color: true}))
}

func TestSession(t *testing.T) {
	s := &record.Session{ID: "019380f0-aaaa-7bbb-8ccc-000000000001", Workflow: "stack-screen.star", Status: "done", WallStartNS: 1796000000e9, WallEndNS: ptr(int64(1796000723e9)), Machine: record.Machine{Host: "bench"}, Notes: []string{"night run"}}
	var gs []*record.Group
	for _, n := range []string{"better", "inconclusive", "infeasible", "ladder", "cases", "design", "left_out"} {
		gs = append(gs, groups[n]())
	}
	var b bytes.Buffer
	if err := Session(&b, s, gs, Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "session", b.Bytes())
	b.Reset()
	s.Measurer, s.Status, s.Error = "simulated", "stopped", "interrupted"
	if err := Session(&b, s, nil, Options{Unicode: true}); err != nil {
		t.Fatal(err)
	}
	golden(t, "session_empty", b.Bytes())
}

// Rules that hold for every report: ASCII where it is asked for, no line beyond the width but for words
// that cannot be broken, ± never without what it is, no number with a tail of digits, no NaN.
func TestRules(t *testing.T) {
	tail := regexp.MustCompile(`\d\.\d{5,}|NaN|Inf|%!`)
	for name, f := range groups {
		for _, w := range []int{80, 100, 140} {
			text := string(render(t, f(), Options{Width: w}))
			for _, l := range strings.Split(text, "\n") {
				if n := textWidth(l); n > w && len(strings.Fields(l)) > 1 {
					t.Errorf("%s at %d: line of %d: %q", name, w, n, l)
				}
				if strings.HasSuffix(l, " ") {
					t.Errorf("%s: trailing space: %q", name, l)
				}
			}
			for _, r := range text {
				if r > 126 {
					t.Errorf("%s: %q in ASCII", name, r)
				}
			}
			if m := tail.FindString(text); m != "" {
				t.Errorf("%s: %q in\n%s", name, m, text)
			}
			if strings.Contains(text, "+/-") && !strings.Contains(text, "+/- and range:") {
				t.Errorf("%s: an unlabelled interval in\n%s", name, text)
			}
			if strings.Contains(text, "\x1b") {
				t.Errorf("%s: colour without being asked", name)
			}
		}
	}
}

// What is NULL in the record is a dash with its reason.
func TestNotMeasured(t *testing.T) {
	text := string(render(t, cases(), Options{Unicode: true}))
	for _, want := range []string{"–", "not measured", "withheld: completion tokens disagree"} {
		if !strings.Contains(oneLine(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if regexp.MustCompile(`32K +0 +0`).MatchString(text) {
		t.Errorf("a zero for what was not measured:\n%s", text)
	}
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		v, spread float64
		want      string
	}{
		{100.2549999, .2, "100.25"}, {100.2549999, 3, "100.3"}, {12345.678, 40, "12346"}, {1.23456789, 0, "1.235"}, {100, 0, "100"}, {0, 0, "0"}, {0.000123456, 0, "0.0001235"}, {52484460, 0, "52484460"}, {3e12, 0, "3e+12"}, {.5, 1e-9, "0.500000"},
	} {
		if got := num(tt.v, tt.spread); got != tt.want {
			t.Errorf("num(%v, %v) = %s, want %s", tt.v, tt.spread, got, tt.want)
		}
	}
	for _, tt := range []struct {
		x    float64
		d    int
		want string
	}{{.020555, 2, "+2.06 %"}, {-.15, 1, "-15.0 %"}, {-.00001, 2, "+0.00 %"}, {0, 2, "+0.00 %"}} {
		if got := pct(tt.x, tt.d); got != tt.want {
			t.Errorf("pct(%v) = %s, want %s", tt.x, got, tt.want)
		}
	}
}

// Rows of a session are told apart at 80 columns, whatever their names begin with, and nothing is too wide.
func TestSessionNamesAtEighty(t *testing.T) {
	var gs []*record.Group
	for _, n := range []string{"screen with a rather long name of the neutral", "screen with a rather long name of the fast", "screen with a rather long name of the slow"} {
		g := better()
		g.Name, g.Warnings = n, []string{"2 quads cannot reach 95 % without normality; n >= 6 needed", "a warning of " + n}
		gs = append(gs, g)
	}
	l := ladder()
	l.Name = "cache + batch + prefetch + something with a name that goes on"
	gs = append(gs, l)
	var b bytes.Buffer
	if err := Session(&b, &record.Session{ID: "s"}, gs, Options{}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	golden(t, "session_names", b.Bytes())
	for _, line := range strings.Split(page, "\n") {
		if textWidth(line) > 80 {
			t.Errorf("%d columns: %q", textWidth(line), line)
		}
	}
	if strings.Contains(page, "~") {
		t.Errorf("a name is cut in\n%s", page)
	}
	for _, g := range gs[:3] {
		for _, word := range strings.Fields(g.Name) {
			if !strings.Contains(page, word) {
				t.Errorf("%q of %q is missing in\n%s", word, g.Name, page)
			}
		}
	}
	// What holds for all groups stands once; what a group's block has said does not stand again.
	if n := strings.Count(oneLine(page), "without normality"); n != 1 {
		t.Errorf("got the words on normality %d times, want once:\n%s", n, page)
	}
	if strings.Contains(page, "a warning of") || strings.Contains(page, "95 % interval") {
		t.Errorf("what stands above is said again:\n%s", page)
	}
	if text := string(render(t, gs[0], Options{})); strings.Contains(text, "without normality") || !strings.Contains(text, "a warning of") {
		t.Errorf("a group's own block:\n%s", text)
	}
	// A group without a verdict has no block above, so its warnings are footnotes here.
	open := inconclusive()
	open.Verdict = ""
	b.Reset()
	if err := Session(&b, &record.Session{ID: "s"}, []*record.Group{open}, Options{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(oneLine(b.String()), "the control drifts by") {
		t.Errorf("the warning of an unfinished group is lost:\n%s", b.String())
	}
}

// A sentence stands once on a page, however many arms ended with it.
func TestReasonsStandOnce(t *testing.T) {
	g := inconclusive()
	const why = "lever threads-2 shows on side B but its evidence was not found: log has no n_threads = 2"
	g.Verdict, g.Reason, g.Stopped = "invalid", "block 1 cannot count: "+why, "block 1 was discarded 3 times: "+why
	g.Comparisons[0].Estimate, g.Comparisons[0].Reason = nil, why
	g.Arms = nil
	arms(g, "BBB", "invalid")
	for _, a := range g.Arms {
		a.Reason = why
	}
	text := oneLine(string(render(t, g, Options{})))
	if n := strings.Count(text, "its evidence was not found"); n != 1 {
		t.Errorf("got the reason %d times, want once:\n%s", n, text)
	}
	for _, want := range []string{"ended: block 1 was discarded 3 times", "B1, block 1 slot 1; B2, block 1 slot 2; B3, block 1 slot 3 invalid: as said above"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// Words that contradicted what stood beside them.
func TestWordsAgree(t *testing.T) {
	g := inconclusive()
	c := &g.Comparisons[0]
	c.NSide, c.RangeSide = 1, []float64{12.45, 12.45}
	g.Warnings = append(g.Warnings, "one run of side B: an observed range, not an interval")
	c.Estimate.Effect, c.Estimate.Low, c.Estimate.High = -.0015, ptr(-.15), ptr(.14)
	text := string(render(t, g, Options{}))
	for _, want := range []string{"one run", "change of medians", "-0.1 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, not := range []string{"not an interval", "gain of medians", "+0 %"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in\n%s", not, text)
		}
	}
	if got := Warning("one run of side B: an observed range, not an interval"); strings.Contains(got, "not an interval") {
		t.Errorf("got %q", got)
	}
	for stopped, want := range map[string]string{"decided()": "ended by decided()", "hopeless: at -15 %": "ended by hopeless: at -15 %", "infeasible": "ended by infeasible", "block 1 was discarded once: x": "ended: block 1 was discarded once: x"} {
		if got := EndedBy(stopped); got != want {
			t.Errorf("EndedBy(%q) = %q, want %q", stopped, got, want)
		}
	}
}

// What a rung adds over the one before it is a result: it stands with the effects.
func TestRungsStandWithTheEffects(t *testing.T) {
	g := ladder()
	g.Warnings = []string{"rungs share controls, so that each has over the one before it, at 95 %: S2 over S1 -0.95 % [-1.5 %, -0.4 %] (correlation 0.17)"}
	text := oneLine(string(render(t, g, Options{})))
	each, published := strings.Index(text, "each rung has over the one before it, at 95 %: S2 over S1 -0.95 %"), strings.Index(text, "as the field publishes it")
	if each < 0 || each > published || strings.Contains(text, "rungs share controls") {
		t.Errorf("got\n%s", text)
	}
}

// Text of engines moves no cursor.
func TestControlCharacters(t *testing.T) {
	g := invalid()
	g.Reason = "exited: \x1b[2J\x9b31m\x07done"
	text := string(render(t, g, Options{Unicode: true}))
	if strings.ContainsAny(text, "\x1b\x07") || strings.ContainsRune(text, 0x9b) {
		t.Errorf("got %q", text)
	}
}

// A cost that is beyond its limit by its estimate alone is not called broken.
func TestCostBeyondIsNotShown(t *testing.T) {
	for _, tc := range []struct {
		low, high, limit float64
		want             bool
	}{{.06, .1, .05, true}, {.02, .14, .05, false}, {-.1, -.06, -.05, true}, {-.14, -.02, -.05, false}} {
		e := &record.Estimate{Effect: (tc.low + tc.high) / 2, Low: &tc.low, High: &tc.high}
		if got := shownBeyond(e, tc.limit); got != tc.want {
			t.Errorf("%v to %v against %v: got %v", tc.low, tc.high, tc.limit, got)
		}
	}
	if shownBeyond(nil, .05) || shownBeyond(&record.Estimate{Effect: .1}, .05) {
		t.Error("shown without an interval")
	}
}

// A row of a session whose verdict comes from a cost says so: "worse +6.2 %" would be a riddle.
func TestSessionRowSaysCost(t *testing.T) {
	low, high := .05, .075
	c := record.Comparison{Side: "B", Control: "A", Metric: "m", Verdict: record.Worse, Reason: "cost ttft_ms is +9.00 %, beyond its limit +5.00 %; m alone is better: +6.20 %",
		Estimate: &record.Estimate{Method: "quad", Effect: .062, Low: &low, High: &high, Level: .95, Blocks: 2}}
	g := &record.Group{Name: "screen gamma", Role: record.RoleScreen, Control: "A", Primary: "m", Better: "higher", Verdict: record.Worse, Reason: c.Reason,
		Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}, Comparisons: []record.Comparison{c}}
	for alone, want := range map[string]bool{"better": true, "worse": false} {
		g.Comparisons[0].Reason = strings.Replace(c.Reason, "alone is better", "alone is "+alone, 1)
		var b strings.Builder
		if err := Session(&b, &record.Session{ID: "s"}, []*record.Group{g}, Options{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "worse (cost)") && strings.Contains(b.String(), "screen gamma: cost ttft_ms is +9.00 %, beyond its limit"); got != want {
			t.Errorf("alone %s: got %v, want %v in\n%s", alone, got, want, b.String())
		}
	}
}

// TestShell: what is shown can be pasted.
func TestShell(t *testing.T) {
	for _, tc := range []struct {
		argv []string
		want string
	}{
		{[]string{"llama-server", "-m", "/models/a.gguf", "--port", "8080"}, "llama-server -m /models/a.gguf --port 8080"},
		{[]string{"sh", "-c", "cat need.txt && echo $HOME"}, "sh -c 'cat need.txt && echo $HOME'"},
		{[]string{"echo", "it's", "", "a*", "über"}, `echo 'it'\''s' '' 'a*' 'über'`},
		{[]string{"A=1", "B=2"}, "'A=1' B=2"},
	} {
		if got := Shell(tc.argv); got != tc.want {
			t.Errorf("%q: got %s, want %s", tc.argv, got, tc.want)
		}
	}
}
