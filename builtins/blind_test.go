package builtins_test

import (
	"fmt"
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
				Samples:  []record.Sample{{Sensor: "hwmon.board.temp_c", MonoNS: 1e9, Value: 60}, {Sensor: "hwmon.board.temp_c", MonoNS: 2e9, Value: 70}},
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
		"group.arms[1].growth('hwmon.board.temp_c')": true, "group.arms[1].sensor('hwmon.board.temp_c')": true, "group.arms[1].last('hwmon.board.temp_c', step = 'measure')": true,
		"group.arms[0].last('hwmon.board.temp_c')":     true, // to hold one arm against another is to look
		"json.encode([a.metrics for a in group.arms])": true,

		"group.arms[1].last('hwmon.board.temp_c') != 70": false, "group.arms[1].mean('hwmon.board.temp_c') != 65": false, "group.arms[0].findings[0].gate != 'range'": false,
		// A gate may judge any figure, so that its outcome is one bit of it; the arm's reason quotes it.
		"group.arms[0].findings[0].outcome": true, "[f for f in group.arms[0].findings if f.outcome != 'pass']": true, "group.arms[0].reason": true,
		"'pass' in str(group.arms[0].findings[0])": false, "'pass' in str(group.arms)": false,

		"group.arms[1].last('engine.toks')": true, "group.arms[1].mean('wall.tok_s')": true, "group.arms[1].max('nvml.0.power_w')": true,
		"group.arms[1].first('uptime.s')": true, "group.arms[1].last('rapl.package-0.energy_j')": true, "group.arms[1].last('net.lo.tx_mib')": true,
		"group.arms[1].last('psi.memory.full_avg10_pct')": false, "group.arms[1].last('meminfo.available_mib')": false, "group.arms[1].max('nvml.0.temp_c')": false,
		"group.arms[1].last('procs.renders.count')": true, "group.arms[1].last('procs.builds.count')": false, "group.arms[1].last('engine.psi.cpu.some_avg10_pct')": true,

		"'105' in str(group.arms[0].findings[0])": false, "'1.0' in str(group.arms)": false, "group.seconds != 10": false, "group.energy_j != 4": false,
		"group.blocks": false, "len(group.arms) != 2": false, "group.arms[0].disposition != 'ok'": false, "group.arms[0].label != 'A'": false, "group.arms[0].index": false,
		"group.arms[0].levers": false, "group.arms[0].purpose != 'measured'": false,
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

// A blind stop that is asked after every arm gets totals of whole blocks: those of one arm are its result.
func TestBlindTotalsInsideABlock(t *testing.T) {
	joules := 2.0
	arm := func(label string, block, attempt int, disposition string) *record.Arm {
		return &record.Arm{Label: label, Block: block, Attempt: attempt, Purpose: "measured", Disposition: disposition, MonoEndNS: 5e9,
			Metrics: []record.Metric{{Name: "gpu.energy_j", Value: &joules}}}
	}
	_, v := load(t, `def _c(group):
    return "%s s, %s J" % (fixed(group.seconds, 0), fixed(group.energy_j, 0))
inside = stop("t", check = _c, each_arm = True)
looks = stop("t", check = _c, each_arm = True, sequential = True)
after = stop("t", check = _c)
`)
	whole := []*record.Arm{arm("A", 0, 0, record.OK), arm("B", 0, 0, record.OK), arm("B", 0, 0, record.OK), arm("A", 0, 0, record.OK)}
	more := func(arms ...*record.Arm) []*record.Arm { return append(whole[:4:4], arms...) }
	warm := arm("A", -1, 0, record.OK)
	warm.Purpose = "warm"
	for _, tc := range []struct {
		name   string
		arms   []*record.Arm
		inside string
	}{
		{"no arm", nil, "0 s, 0 J"},
		{"one arm", whole[:1], "0 s, 0 J"},
		{"a warm arm and another", []*record.Arm{warm, whole[0]}, "0 s, 0 J"},
		{"all but one", whole[:3], "0 s, 0 J"},
		{"a block", whole, "20 s, 8 J"},
		{"a block and an arm", more(arm("B", 1, 0, record.OK)), "20 s, 8 J"},
		{"a block that is redone", more(arm("B", 1, 0, record.Failed), arm("B", 1, 1, record.OK)), "20 s, 8 J"},
	} {
		g := &record.Group{Name: "g", Control: "A", Primary: "decode_tok_s", Sides: []record.Side{{Label: "B"}, {Label: "A"}}, Arms: tc.arms}
		all := fmt.Sprintf("%d s, %d J", 5*len(tc.arms), 2*len(tc.arms))
		for name, want := range map[string]string{"inside": tc.inside, "looks": all, "after": all} {
			if got, err := v[name].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), g); err != nil || got != want {
				t.Errorf("%s, %s: got %q, %v, want %q", tc.name, name, got, err, want)
			}
		}
	}
}

// A required gate that asks for the primary metric chooses among results, which it says; one that only records does not.
func TestGatesThatAskForThePrimary(t *testing.T) {
	x := 100.0
	g := &record.Group{Name: "g", Primary: "decode_tok_s"}
	a := &record.Arm{Label: "A", Group: g, Metrics: []record.Metric{{Name: "decode_tok_s", Value: &x}, {Name: "ttft_ms", Value: &x}}}
	g.Arms = []*record.Arm{a}
	for expr, want := range map[string]bool{
		`gate("spy", check = lambda arm: ok() if arm.metric("decode_tok_s") > 5 else bad())`:                                    true,
		`gate("spy", check = lambda arm: ok() if arm.group.arms[0].metric("decode_tok_s") > 5 else bad())`:                      true,
		`gate("spy", check = lambda arm: ok() if arm.metric("ttft_ms") > 5 else bad())`:                                         false,
		`gate("spy", required = False, check = lambda arm: ok() if arm.metric("decode_tok_s") > 5 else bad())`:                  false,
		`gate("spy", scope = "group", check = lambda arm: ok() if arm.metric("decode_tok_s") > 5 else bad())`:                   false,
		`gate("spy", check = lambda arm: ok(observed = len(arm.requests)))`:                                                     false,
		`gate("spy", check = lambda arm: bad() if arm.disposition == "failed" or arm.metric("decode_tok_s") == None else ok())`: true,
	} {
		_, v := load(t, "g = "+expr+"\n")
		f, err := v["g"].(*builtins.Decl[plan.Gate]).V.Check(t.Context(), a)
		if err != nil || (f.Warning != "") != want || want && !strings.Contains(f.Warning, `gate "spy" asks for decode_tok_s: `) {
			t.Errorf("%s: got warning %q, %v, want one: %v", expr, f.Warning, err, want)
		}
	}
}
