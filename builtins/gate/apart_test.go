package gate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"flow/workflows/record"
)

// A side whose arms fall into two states is told of, with both medians and the arms of the smaller one; a side that
// drifts or is only noisy is not, and neither is one depressed arm.
func TestBimodal(t *testing.T) {
	two := func() *record.Group {
		g := ab("")
		block(g, 0, "ABBA", 100, 106, 118, 100.2)
		block(g, 1, "BAAB", 106.1, 100.1, 100, 118.1)
		return block(g, 2, "ABBA", 100.1, 106.2, 106.1, 100)
	}
	g := two()
	Judge(g, nil)
	want := "bimodal: the 6 arms of side B fall into two clusters, 4 at 106 to 106.2 (median 106.1) and 2 at 118 to 118.1 (median 118.05) (the 2: B3, B8); with 11.11 % between them"
	if !warned(g, want) || warned(g, "side A fall") {
		t.Errorf("got\n%s\nwant %s", strings.Join(g.Warnings, "\n"), want)
	}
	verdict := g.Verdict
	// Cases have their own clusters.
	named := two()
	for _, a := range named.Arms {
		flat := 50 + .01*float64(a.Slot)
		a.Metrics[0].Case = "4K"
		a.Metrics = append(a.Metrics, record.Metric{Name: named.Primary, Case: "32K", Value: &flat})
	}
	Judge(named, nil)
	if !warned(named, "the 6 arms of side B (4K) fall") || warned(named, "(32K) fall") {
		t.Errorf("cases: %q", named.Warnings)
	}
	// Everything from some arm on is another state: it says so, on both sides.
	step := block(block(ab(""), 0, "ABBA", 100, 106, 106.2, 100.2), 1, "BAAB", 118, 112, 112.1, 118.2)
	Judge(step, nil)
	if !warned(step, "two clusters, 2 at 100 to 100.2 (median 100.1) and 2 at 112 to 112.1 (median 112.05) (the 2: A6, A7), all after the others: something changed before A6;") || !warned(step, "before B5") {
		t.Errorf("a step: %q", step.Warnings)
	}
	// Invalid arms are in no cluster: they are known to be apart.
	out := two()
	for _, a := range out.Arms[:8] {
		a.Disposition = record.Invalid
	}
	Judge(out, nil)
	if warned(out, "bimodal") {
		t.Errorf("invalid arms: %q", out.Warnings)
	}
	r := rand.New(rand.NewPCG(26, 1))
	for name, g := range map[string]*record.Group{
		"a drift of 1 % an arm": quadsOf(r, 4, .05, .002, .01),
		"one depressed arm":     block(block(ab(""), 0, "ABBA", 100, 106, 90, 100.2), 1, "BAAB", 106.1, 100.1, 100, 106),
		"the last digit":        block(block(ab(""), 0, "ABBA", 100, 106, 106, 100), 1, "BAAB", 106.1, 100.1, 100.1, 106.1),
	} {
		if Judge(g, nil); warned(g, "bimodal") {
			t.Errorf("%s: %q", name, g.Warnings)
		}
	}
	// It is a word beside the verdict, and no part of it.
	flagged := 0
	const sessions = 2000
	for range sessions {
		g := quadsOf(r, 4, 0, .003, 0)
		if Judge(g, nil); warned(g, "bimodal") {
			flagged++
		}
	}
	if rate := float64(flagged) / sessions; rate > .02+3*math.Sqrt(.02*.98/sessions) {
		t.Errorf("normal groups: %.1f %% flagged, want at most 1 %% a side", 100*rate)
	}
	if _, err := json.Marshal(g); err != nil || verdict == "" {
		t.Error(err)
	}
}

// Requests of an arm are told what they are worth, and change nothing.
func TestReplicates(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 5))
	arms := quadsOf(r, 4, .05, .01, 0)
	Judge(arms, nil)
	want := arms.Comparisons[0].Estimate
	noisy := requests(quadsOf(rand.New(rand.NewPCG(8, 5)), 4, .05, .01, 0), r, 1, 1, 1, 1, 1)
	for _, a := range noisy.Arms { // a request a second, a launch nine
		a.MonoStartNS, a.MonoEndNS = 0, 14e9
		for i := range a.Requests {
			sent, last := int64(9e9+float64(i)*1e9), int64(10e9+float64(i)*1e9)
			a.Requests[i].SentNS, a.Requests[i].LastContentNS = &sent, &last
		}
	}
	Judge(noisy, nil)
	if !warned(noisy, "requests are no replicates: 80 in 16 arms, which correlate by 0.99 within an arm, are worth 16.") ||
		!warned(noisy, "(design effect 1 + (m-1) rho = 4.9") || !warned(noisy, "at 9 s a launch and 1 s a request, 1 an arm would tell most") {
		t.Errorf("got %q", noisy.Warnings)
	}
	if got := noisy.Comparisons[0].Estimate; got.Effect != want.Effect || *got.SE != *want.SE || got.DF != want.DF {
		t.Errorf("requests changed the estimate: got %+v, want %+v", got, want)
	}
	alone := requests(quadsOf(r, 2, .05, .01, 0), r, 1)
	if Judge(alone, nil); warned(alone, "replicates") {
		t.Errorf("one request an arm: %q", alone.Warnings)
	}
	// As good as independent: arms that do not differ beyond their requests.
	same := quadsOf(r, 2, 0, 1e-9, 0)
	if Judge(requests(same, r, 1, 1, 1), nil); warned(same, "replicates") {
		t.Errorf("independent requests: %q", same.Warnings)
	}
}
