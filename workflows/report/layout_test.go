package report

import (
	"strings"
	"testing"

	"flow/workflows/record"
)

// A ± claims that both sides of an interval are alike: where they are not, the range stands alone.
func TestHalfOfAnUnevenInterval(t *testing.T) {
	g := better()
	g.Comparisons[0].Estimate = est("quad", -.57, -.77, -.20, 3, 2)
	got := string(render(t, g, Options{}))
	if strings.Contains(got, "+/-") || !strings.Contains(got, "-57 %  -77 to -20 %") || !strings.Contains(got, "    range: 95 % interval of the quad model") {
		t.Errorf("got\n%s", got)
	}
	if got = string(render(t, better(), Options{})); !strings.Contains(got, "+/- 0.20 %") || !strings.Contains(got, "+/- and range: 95 %") {
		t.Errorf("got\n%s", got)
	}
}

// At eighty columns the names of costs stay whole: other words make room.
func TestCostNamesAtEighty(t *testing.T) {
	g := better()
	for i := range g.Comparisons {
		if c := &g.Comparisons[i]; c.Cost {
			g.Costs[c.Metric] = .05
		}
	}
	g.Comparisons[3].Metric = "meminfo.available_mib_mean"
	got := string(render(t, g, Options{}))
	_, costs, _ := strings.Cut(got, "\n  costs\n")
	for _, name := range []string{"prefill_tok_s ", "ttft_ms ", "meminfo.available_mib_mean "} {
		if !strings.Contains(costs, name) {
			t.Errorf("%q is broken in\n%s", name, got)
		}
	}
	for _, l := range strings.Split(got, "\n") {
		if textWidth(l) > 80 {
			t.Errorf("%d columns: %s", textWidth(l), l)
		}
	}
}

// Where no group has an interval, none is spoken of.
func TestNoIntervalNoWords(t *testing.T) {
	for words, g := range map[string]*record.Group{"": invalid(), "the level and the model of each interval: above": better()} {
		var b strings.Builder
		if err := Session(&b, &record.Session{ID: "s"}, []*record.Group{g}, Options{}); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); strings.Contains(got, "interval: above") != (words != "") || !strings.Contains(got, words) {
			t.Errorf("got\n%s", got)
		}
	}
}
