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
		g := &record.Group{Name: "g", Control: "A", Primary: "decode_tok_s", Verdict: record.Better, Warnings: []string{"side B is at +20 %"},
			Comparisons: []record.Comparison{{Side: "B", Estimate: &record.Estimate{Effect: 1, Low: &one}}}}
		for i := range 2 {
			g.Arms = append(g.Arms, &record.Arm{Label: "A", Seq: i, Purpose: "measured", Disposition: record.OK, Group: g, Requests: []record.Request{{}}, MonoEndNS: 5e9,
				Metrics:  []record.Metric{{Name: "decode_tok_s", Value: &one}, {Name: "gpu.energy_j", Value: &two}},
				Findings: []record.Finding{{Gate: "range", Outcome: record.Pass, Observed: "105 tok/s"}},
				Samples:  []record.Sample{{Sensor: "board.temp_c", MonoNS: 1e9, Value: 60}, {Sensor: "board.temp_c", MonoNS: 2e9, Value: 70}},
				Steps:    []record.Step{{Name: "measure", EndNS: 5e9}}})
		}
		return g
	}
	for expr, hidden := range map[string]bool{
		"group.low": true, "group.high": true, "group.effect": true, "group.comparisons": true, "group.verdict": true, "group.reason": true, "group.warnings": true,
		"'better' in str(group)":               false, // what is printed holds no result
		"group.arms[0].metric('decode_tok_s')": true, "group.arms[0].metric_why('decode_tok_s')": true, "group.arms[0].metrics": true, "group.arms[0].metric('gpu.energy_j')": true,
		"group.arms[0].requests": true, "group.arms[0].log": true, "group.arms[0].group.low": true, "stats.decided(group)": true, "stats.futile(group)": true,
		"group.arms[0].mono_end_ns": true, "group.arms[0].mono_start_ns": true, "group.arms[0].wall_start_ns": true, "group.arms[0].overhead_ns": true, "group.arms[0].steps": true,
		"group.arms[0].process": true, "group.arms[0].evidence": true, "group.arms[0].execs": true, "getattr(group.arms[0], 'load')": true, "group.arms[0].warnings": true,
		"group.arms[0].findings[0].observed": true, "group.arms[0].findings[0].reason": true, "group.arms[0].group.arms[0].metrics": true,
		"group.arms[1].growth('board.temp_c')": true, "group.arms[1].sensor('board.temp_c')": true, "group.arms[1].last('board.temp_c', step = 'measure')": true,
		"group.arms[0].last('board.temp_c')":           true, // to hold one arm against another is to look
		"json.encode([a.metrics for a in group.arms])": true,

		"group.arms[1].last('board.temp_c') != 70": false, "group.arms[1].mean('board.temp_c') != 65": false, "group.arms[0].findings[0].outcome != 'pass'": false,
		"'105' in str(group.arms[0].findings[0])": false, "'1.0' in str(group.arms)": false, "group.seconds != 10": false, "group.energy_j != 4": false,
		"group.blocks": false, "len(group.arms) != 2": false, "group.arms[0].disposition != 'ok'": false, "group.arms[0].label != 'A'": false, "group.arms[0].index": false,
		"group.arms[0].levers": false, "group.arms[0].reason": false, "group.arms[0].purpose != 'measured'": false,
	} {
		_, v := load(t, "def _c(group):\n    x = "+expr+"\n    return 'seen' if x else None\nblind = stop('peek', check = _c)\nlooks = stop('peek', check = _c, sequential = True)\n")
		why, err := v["blind"].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), g())
		if hidden && (err == nil || !strings.Contains(diag.Format(err), "sequential = True") && !strings.HasPrefix(expr, "getattr") || !strings.Contains(diag.Format(err), "x.star:2:")) {
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
	_, v := load(t, "blind = stop('peek', check = lambda group: 'x' if group.energy_j else None)\nslip = stop('peek', check = lambda group: group.arms[0].dispositon)\n")
	if _, err := v["blind"].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), of); err == nil || !strings.Contains(err.Error(), "looks at results") {
		t.Errorf("energy that is the primary metric was seen: %v", err)
	}
	if _, err := v["slip"].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), of); err == nil || strings.Contains(err.Error(), "looks at results") {
		t.Errorf("a slip: got %v, want the name it might be", err)
	}
	// An arm without a meter leaves the sum unknown; one that does not count needs none.
	unmetered := g()
	unmetered.Arms[0].Metrics = nil
	for disposition, want := range map[string]string{record.OK: "not known", record.Failed: ""} {
		unmetered.Arms[0].Disposition = disposition
		_, v := load(t, "s = stop('budget', check = lambda group: 'not known' if group.energy_j == None else None)\n")
		if why, err := v["s"].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), unmetered); err != nil || why != want {
			t.Errorf("%s without a meter: got %q, %v, want %q", disposition, why, err, want)
		}
	}
}
