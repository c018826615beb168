package gate

import (
	"math/rand/v2"
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
