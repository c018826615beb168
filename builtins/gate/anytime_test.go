package gate

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"flow/workflows/record"
)

// Always-valid groups: intervals that hold at any look, nothing borrowed, and the e-value's own moment to stop.
func TestAlwaysValid(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	g := quadsOf(r, 4, .03, .003, 0)
	g.Stops = []string{`always_valid {"g":10,"kind":"t"}`}
	g.Noise = []record.Noise{{Metric: g.Primary, SD: .001, DF: 20, From: "x"}}
	why := AlwaysValid(g)
	if !strings.HasPrefix(why, "better: ") {
		t.Errorf("got %q", why)
	}
	Judge(g, nil)
	e := g.Comparisons[0].Estimate
	if !e.ValidAnytime || e.Looks != 0 || e.BorrowedDF != 0 || e.Level != .95 {
		t.Errorf("got %+v", e)
	}
	fixed := *g
	fixed.Stops, fixed.Noise = nil, []record.Noise{}
	Judge(&fixed, nil)
	if f := fixed.Comparisons[0].Estimate; *f.High-*f.Low >= *e.High-*e.Low {
		t.Errorf("looking costs nothing: [%v %v] and [%v %v]", *e.Low, *e.High, *f.Low, *f.High)
	}

	// One quad cannot decide at any noise; the rule waits.
	one := quadsOf(r, 1, .5, .001, 0)
	one.Stops = g.Stops
	if why := AlwaysValid(one); why != "" {
		t.Errorf("one quad: %q", why)
	}
	// Signs: seven unanimous quads, not six.
	for n, want := range map[int]bool{6: false, 7: true} {
		s := quadsOf(r, n, .05, .003, 0)
		s.Cap, s.Stops = 20, []string{`always_valid {"kind":"sign"}`}
		if why := AlwaysValid(s); (why != "") != want {
			t.Errorf("%d unanimous quads: %q", n, why)
		}
	}
	// A group without the stop has no such rule.
	if why := AlwaysValid(&fixed); why != "" {
		t.Errorf("no stop: %q", why)
	}
	// Blocks needed are those of the rule.
	weak := quadsOf(r, 2, .004, .006, 0)
	weak.Stops = g.Stops
	Judge(weak, nil)
	if c := weak.Comparisons[0]; c.Verdict == record.Inconclusive && (c.BlocksNeeded == nil || *c.BlocksNeeded < 1) {
		t.Errorf("got %+v", c)
	}
}

func TestFutileAndEquivalent(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 22))
	null := quadsOf(r, 3, -.002, .003, 0)
	if why := Futile(null); !strings.Contains(why, "the chance of ending better is") {
		t.Errorf("a small loss: %q", why)
	}
	if why := Futile(quadsOf(r, 2, .03, .003, 0)); why != "" {
		t.Errorf("a gain: %q", why)
	}
	if why := Futile(quadsOf(r, 4, -.002, .003, 0)); why != "" {
		t.Errorf("at the cap there is nothing to give up: %q", why)
	}
	calm := quadsOf(r, 3, 0, .0005, 0)
	if why := Equivalent(calm); !strings.HasPrefix(why, "equivalent: ") {
		t.Errorf("calm: %q", why)
	}
	if why := Equivalent(quadsOf(r, 3, .03, .0005, 0)); why != "" {
		t.Errorf("a gain: %q", why)
	}
	for _, f := range []func(*record.Group) string{Futile, Equivalent, AlwaysValid} {
		for _, g := range []*record.Group{ab(""), block(ab(""), 0, "ABBA", 1), block(ab(""), 0, "ABBA", 1, 1, 1, 1)} {
			g.Stops = []string{"always_valid"}
			f(g)
		}
	}
}

// superior(): the whole interval, not the estimate alone.
func TestSuperior(t *testing.T) {
	g := block(block(ab(""), 0, "ABBA", 100, 101.1, 101.3, 100.2), 1, "BAAB", 101.4, 100.1, 100, 101.2)
	Judge(g, nil)
	strict := *g
	strict.Superior = true
	Judge(&strict, nil)
	if g.Verdict != record.Better || strict.Verdict != record.Inconclusive {
		t.Errorf("got %s and %s", g.Verdict, strict.Verdict)
	}
}

// Time may run backwards within a quad and blocks may change places: the estimate is the same. Under every
// rule, other units change no ratio, and other labels turn every ratio over.
func TestDesignProperties(t *testing.T) {
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(23, seed))
		g := quadsOf(r, 1+r.IntN(5), .02*r.NormFloat64(), .005, .002*r.NormFloat64())
		g.Stops = [][]string{nil, {"decided"}, {"always_valid"}, {`always_valid {"kind":"sign"}`}}[r.IntN(4)]
		g.Cap = 6
		Judge(g, nil)
		back, shuffled, scaled := ab(""), ab(""), ab("")
		places := r.Perm(len(g.Arms) / 4)
		for _, a := range g.Arms {
			x, y, z := *a, *a, *a
			x.Slot = 3 - a.Slot
			v := *a.Metrics[0].Value * 1e-6
			z.Metrics = []record.Metric{value("decode_tok_s", v)}
			y.Block = places[a.Block]
			back.Arms, shuffled.Arms, scaled.Arms = append(back.Arms, &x), append(shuffled.Arms, &y), append(scaled.Arms, &z)
		}
		e := g.Comparisons[0].Estimate
		for name, x := range map[string]*record.Group{"backwards": back, "blocks": shuffled, "scaled": scaled} {
			if name == "blocks" { // the orientation of each block is its own: say it
				order := make([]string, len(places))
				for _, a := range x.Arms {
					order[a.Block] += a.Label
				}
				sorted := slices.Clone(x.Arms)
				slices.SortFunc(sorted, func(a, b *record.Arm) int { return 10*(a.Block-b.Block) + a.Slot - b.Slot })
				text := ""
				for _, a := range sorted {
					text += a.Label
				}
				x.Order = text
			}
			x.Stops, x.Cap = g.Stops, g.Cap
			Judge(x, nil)
			got := x.Comparisons[0].Estimate
			same := math.Abs(got.Log-e.Log) < 1e-9 && (got.Low == nil) == (e.Low == nil)
			if same && e.Low != nil {
				same = math.Abs(*got.Low-*e.Low) < 1e-6 && math.Abs(*got.High-*e.High) < 1e-6
			}
			if !same || x.Verdict != g.Verdict {
				t.Fatalf("%s, %v: %+v (%s), want %+v (%s)", name, g.Stops, got, x.Verdict, e, g.Verdict)
			}
		}
	}
}

// The edges of a quad: a missing arm, a withheld metric, one arm, a contrary pair, nothing that varies.
func TestEdges(t *testing.T) {
	withheld := block(ab(""), 0, "ABBA", 100, 102, 102, 100)
	v := 102.0
	withheld.Arms[1].Metrics[0].Value, withheld.Arms[1].Metrics[0].Withheld, withheld.Arms[1].Metrics[0].Why = nil, &v, "counts disagree"
	missing := block(ab(""), 0, "ABBA", 100, 102, 102, 100)
	missing.Arms = append(missing.Arms[:2], missing.Arms[3])
	for _, c := range []struct {
		name    string
		g       *record.Group
		verdict string
		words   string
	}{
		{"one arm", block(ab(""), 0, "ABBA", 100), record.Invalid, "1 of 4 arms"},
		{"two arms", block(ab(""), 0, "ABBA", 100, 102), record.Invalid, "2 of 4 arms"},
		{"three arms", block(ab(""), 0, "ABBA", 100, 102, 102), record.Invalid, "3 of 4 arms"},
		{"a missing arm in the middle", missing, record.Invalid, "3 of 4 arms"},
		{"a withheld metric", withheld, record.Invalid, "withheld: counts disagree"},
		{"a contrary pair", block(block(ab(""), 0, "ABBA", 100, 102, 102, 100.2), 1, "BAAB", 99, 100, 100.1, 99.2), record.Inconclusive, "the interval holds 0"},
		{"nothing varies", block(block(ab(""), 0, "ABBA", 100, 100, 100, 100), 1, "BAAB", 100, 100, 100, 100), record.Equivalent, "+0.00 %"},
	} {
		for _, stops := range [][]string{nil, {"decided"}, {"always_valid"}, {`always_valid {"kind":"sign"}`}} {
			c.g.Stops = stops
			Judge(c.g, nil)
			checkFinite(t, c.g)
			if len(stops) == 0 && (c.g.Verdict != c.verdict || !strings.Contains(c.g.Reason, c.words)) {
				t.Errorf("%s: got %s: %s", c.name, c.g.Verdict, c.g.Reason)
			}
		}
	}
}
