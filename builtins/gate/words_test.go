package gate

import (
	"math/rand/v2"
	"strings"
	"testing"

	"flow/workflows/record"
)

// Section 3.4: an interval that so few quads have only by the normal distribution says so.
func TestSection34Normality(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	const one, two = "1 quad cannot reach 95 % without normality; n >= 6 needed", "2 quads cannot reach 95 % without normality; n >= 6 needed"
	for _, c := range []struct {
		quads int
		stops []string
		want  string
	}{{1, nil, one}, {2, nil, two}, {6, nil, ""}, {2, []string{`always_valid {"kind":"t"}`}, two}, {5, []string{`always_valid {"kind":"sign"}`}, ""}} {
		g := quadsOf(r, c.quads, .02, .003, 0)
		g.Stops, g.Cap = c.stops, c.quads
		Judge(g, nil)
		if c.want != "" && !warned(g, c.want) {
			t.Errorf("%d quads: %q is not among %v", c.quads, c.want, g.Warnings)
		}
		if c.want == "" && (warned(g, "without normality")) {
			t.Errorf("%d quads, %v: %v", c.quads, c.stops, g.Warnings)
		}
	}
	// A ladder has no differences that could be exchanged.
	g := &record.Group{Role: record.RoleLadder, Order: "U S1 U S2 U", Control: "U", Primary: "decode_tok_s", Better: "higher", Cap: 1,
		Sides: []record.Side{{Label: "U"}, {Label: "S1"}, {Label: "S2"}}}
	block(g, 0, g.Order, 100, 110, 100.1, 90, 100)
	Judge(g, nil)
	if warned(g, "without normality") {
		t.Errorf("a ladder: %v", g.Warnings)
	}
}

// TestFewRunsWithBorrowedNoise: the range of one run is what was seen, and an interval beside it comes from
// elsewhere, which is said.
func TestFewRunsWithBorrowedNoise(t *testing.T) {
	known := []record.Noise{{Metric: "decode_tok_s", SD: .003, DF: 8, From: "this session"}}
	g := block(ab("AB"), 0, "AB", 100, 110)
	g.Noise = known
	Judge(g, nil)
	if !warned(g, "one run of side B: an observed range; the interval is that of noise known from earlier arms") || warned(g, "not an interval") {
		t.Errorf("borrowed: %v", g.Warnings)
	}
	g = block(ab("AB"), 0, "AB", 100, 110)
	Judge(g, nil)
	if !warned(g, "one run of side B: an observed range, not an interval") {
		t.Errorf("not borrowed: %v", g.Warnings)
	}
}

// TestBlocksNeeded: an effect far beyond min_effect asks for the blocks that exclude no change, and a group that
// was given up for none.
func TestBlocksNeeded(t *testing.T) {
	far := func() *record.Group {
		g := block(ab(""), 0, "ABBA", 100, 40, 15, 110)
		g.MinEffect = .05
		return g
	}
	g := far()
	Judge(g, nil)
	c := g.Comparisons[0]
	if c.Verdict != record.Inconclusive || c.BlocksNeeded == nil || *c.BlocksNeeded > 3 || !strings.Contains(c.Reason, "should decide it") || strings.Contains(c.Reason, "beyond the cap") {
		t.Errorf("%v, %s", c.BlocksNeeded, c.Reason)
	}
	g = far()
	g.Stopped = "hopeless(): it loses"
	Judge(g, nil)
	if c := g.Comparisons[0]; c.BlocksNeeded != nil || strings.Contains(c.Reason, "should decide") {
		t.Errorf("given up: %s", c.Reason)
	}
	g = block(ab(""), 0, "ABBA", 100, 104, 101, 99)
	g.Cap = 2
	Judge(g, nil)
	if c := g.Comparisons[0]; c.BlocksNeeded == nil || !strings.Contains(c.Reason, "beyond the cap of 2 (after(blocks = ") {
		t.Errorf("beyond the cap: %v, %s", c.BlocksNeeded, c.Reason)
	}
}
