package builtins_test

import (
	"strings"
	"testing"

	"flow/builtins"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// A stop that did not say sequential = True cannot see results, by whatever way: it would make 23 % of false
// findings out of 5 %.
func TestBlindStops(t *testing.T) {
	g := func() *record.Group {
		one, two := 1.0, 2.0
		g := &record.Group{Name: "g", Control: "A", Primary: "decode_tok_s", Comparisons: []record.Comparison{{Side: "B", Estimate: &record.Estimate{Effect: 1, Low: &one}}}}
		g.Arms = []*record.Arm{{Label: "A", Purpose: "measured", Disposition: record.OK, Group: g, Requests: []record.Request{{}}, MonoEndNS: 5e9,
			Metrics: []record.Metric{{Name: "decode_tok_s", Value: &one}, {Name: "gpu.energy_j", Value: &two}}}}
		return g
	}
	for expr, hidden := range map[string]bool{
		"group.low": true, "group.high": true, "group.effect": true, "group.comparisons": true, "group.verdict": true, "group.reason": true,
		"group.arms[0].metric('decode_tok_s')": true, "group.arms[0].metric_why('decode_tok_s')": true, "group.arms[0].metrics[0].value": true,
		"group.arms[0].requests": true, "group.arms[0].log": true, "group.arms[0].group.low": true, "stats.decided(group)": true, "stats.futile(group)": true,
		"'value' in str(group.arms[0].metrics[0])":  false, // what is printed holds no number
		"group.arms[0].metric('gpu.energy_j') != 2": false, "group.arms[0].metrics[1].value != 2": false,
		"group.blocks": false, "len(group.arms) != 1": false, "group.arms[0].disposition != 'ok'": false, "group.arms[0].metrics[0].name != 'decode_tok_s'": false,
		"group.arms[0].mono_end_ns != 5000000000": false,
	} {
		_, v := load(t, "def _c(group):\n    x = "+expr+"\n    return 'seen' if x else None\nblind = stop('peek', check = _c)\nlooks = stop('peek', check = _c, sequential = True)\n")
		why, err := v["blind"].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), g())
		if hidden && (err == nil || !strings.Contains(diag.Format(err), "sequential = True") || !strings.Contains(diag.Format(err), "x.star:2:")) {
			t.Errorf("%s: got %q, %v; want a refusal at its line", expr, why, err)
		}
		if !hidden && (err != nil || why != "") {
			t.Errorf("%s: got %q, %v", expr, why, err)
		}
		if _, err := v["looks"].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), g()); err != nil && !strings.Contains(err.Error(), "was wired") {
			t.Errorf("%s, sequential: %v", expr, err)
		}
	}
	of := g()
	of.Primary = "gpu.energy_j"
	_, v := load(t, "blind = stop('peek', check = lambda group: 'x' if group.arms[0].metrics[1].value else None)\n")
	if _, err := v["blind"].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), of); err == nil {
		t.Error("energy that is the primary metric was seen")
	}
}
