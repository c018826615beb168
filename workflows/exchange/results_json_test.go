package exchange_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"flow/builtins/gate"
	"flow/workflows/exchange"
	"flow/workflows/record"
)

func read(t testing.TB) *exchange.Results {
	t.Helper()
	f, err := os.Open("testdata/ds4-argodrive-results.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := exchange.ReadResultsJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every published figure that the arms support is theirs bit for bit; what is not is listed.
func TestResultsFigures(t *testing.T) {
	r := read(t)
	arms := 0
	for _, g := range r.Groups {
		arms += len(g.Arms)
		for _, a := range g.Arms {
			for _, m := range a.Metrics {
				if m.Name == "swap_growth_mib" && *m.Value != 0 {
					t.Errorf("%s: swap grew by %v", a.ID, *m.Value)
				}
			}
		}
	}
	if len(r.Groups) != 21 || arms != 82 {
		t.Errorf("got %d groups and %d arms, want 21 with the ladder and 82", len(r.Groups), arms)
	}
	count := map[string]int{}
	rounded := 0
	for _, d := range r.Disagreements {
		count[d.Kind]++
		if d.Kind == "median" {
			if !strings.Contains(d.Where, "first_decode_step_ms") || strings.HasPrefix(d.Where, "followup") || !strings.Contains(d.Note, "within half a unit of the last digit") {
				t.Errorf("a median of another kind: %s", d)
			}
			rounded++
		}
	}
	// No gain, pair delta, ratio, range, count, label or text differs: kinds that are not in this table.
	want := map[string]int{"median": 19, "complete": 1, "missing-arm": 1, "gate": 8, "fields": 3, "disposition": 1, "costs": 1, "base": 3, "contrast": 2,
		"unsupported": 9, "cache": 1, "sign": 1, "outlier": 1, "additivity": 4, "names": 6, "time": 19}
	if !maps.Equal(count, want) {
		t.Errorf("got %v,\nwant %v", count, want)
	}
	if rounded != 19 {
		t.Errorf("%d medians from unrounded values, want 19", rounded)
	}
}

// The disagreements of the record, D1 to D17 of the recomputation, each found by the program.
func TestResultsDisagreements(t *testing.T) {
	r := read(t)
	for name, want := range map[string][]string{
		"D1":  {"complete: groups[stack512-excluded].complete: published true, recomputed false (2 of 4 arms)"},
		"D2":  {"groups[bf16-epilogues].medians_A.first_decode_step_ms: published 370.1375, recomputed 370.1 ", "groups[stack200-excluded].medians_A.first_decode_step_ms: published 364.404, recomputed 364.4 "},
		"D3":  {"groups[lookahead-missing-only-k2].B: published names arm 2B, recomputed the file has 1 of 4 arms"},
		"D4":  {"stack512-excluded-2A: 762.00 MHz (gate failed)", "ladder-0927-3U: 1491.34 MHz (no gate field, and used in the medians)", "ladder-0927-12U: 1529.88"},
		"D5":  {"arms[].gate: published on 35 arms", "arms[].disposition: published on 35 arms", "absent on 35 arms of followup_2026_09_28, 12 arms of ladder_vs_upstream"},
		"D6":  {`arms[stack512-excluded-1B]: published gate passed, recomputed disposition "excluded with its group: clock gate"`},
		"D7":  {"costs.gpu_power_w_512_512: published 32.4 for A, recomputed 32.5 (median of the printed arms 32.45)"},
		"D8":  {"published {} on controls", "arms[env-cache-1A].environment_delta: published DS4_ARGODRIVE_ENV_CACHE=0"},
		"D9":  {"groups[cache4600-512]: published A and B have the same binary", "4200 and 4600 (binary published)", "groups[cache4600-200]: published A and B have the same binary"},
		"D10": {"did_not_work.cache_4750_4900", "did_not_work.cpu_keepalive_off_on_stack", "did_not_work.screened_and_rejected: published 7 names"},
		"D11": {"prefill_20260930.qualification.pp512_tg512.steady_gain_pct: published -0.711743772242", "prefill_20261004.qualification.pp512_tg200.steady_gain_pct: published -2.0652", "prefill_20261004.ladder"},
		"D12": {"prefill_20260930: published qualification_cache_experts 4200, recomputed ladder_cache_experts 3600"},
		"D13": {"sign: groups[bf16-epilogues]: published steady +0.4492 %, recomputed inclusive -0.1031 %"},
		"D14": {"side A differs by 4.875 % within itself", "post-moe-flush-all-layers-1A 21.42 post-moe-flush-all-layers-3A 22.49", "+1.0227 %"},
		"D15": {"groups[stack200]: published +12.6471 %, recomputed product of single levers +11.5845 % (above it by 1.06 points", "+11.1745 % (above it by 0.85 points", "final200]: published +1.7069 %, recomputed product of single levers +1.8741 % (below"},
		"D16": {"published arm, recomputed id", "published order, recomputed sequence", "published binary, recomputed binary_tree", "published medians_A, recomputed medians"},
		"D17": {"32 ms of decode time", "arms[final512-3A].generation_tok_s", "arms[ladder-0927-8U].generation_tok_s", "arms[victim-prescan-4B]"},
	} {
		var all []string
		for _, d := range r.Disagreements {
			all = append(all, d.String())
		}
		text := strings.Join(all, "\n")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not found", name, w)
			}
		}
	}
}

// flow's own verdict of every published group, with its reason; what is excluded or incomplete is invalid.
func TestResultsVerdicts(t *testing.T) {
	r := read(t)
	var past []*record.Group
	got := map[string]string{}
	for _, g := range r.Groups {
		if g.Role == record.RoleLadder {
			continue
		}
		g.Workload = "" // the campaign's noise was one for both lengths
		gate.Judge(g, past)
		past = slices.Insert(past, 0, g)
		got[g.ID] = g.Verdict
		if g.Reason == "" {
			t.Errorf("%s: no reason", g.ID)
		}
		if g.ID == "stack512-excluded" && !slices.ContainsFunc(g.Warnings, func(w string) bool {
			return strings.Contains(w, "likely cause") && strings.Contains(w, "gpu_active_mhz")
		}) {
			t.Errorf("the clock is not named as a likely cause: %q", g.Warnings)
		}
		if _, err := json.Marshal(g.Comparisons); err != nil {
			t.Errorf("%s: %v", g.ID, err)
		}
	}
	want := map[string]string{
		"stack512": "better", "stack200": "better", "flag-readback": "better", "cache4600-512": "better", "cache4600-200": "better",
		"bf16-epilogues": "better", "pipeline-cache": "better", "env-cache": "better", "stack512-excluded": "invalid", "stack200-excluded": "invalid",
		"final512": "better", "final200": "better", "flush512": "inconclusive", "flush200": "better", "post-moe-flush-miss-layers": "better",
		"post-moe-flush-all-layers": "inconclusive", "victim-prescan": "inconclusive", "lookahead-mailbox-k2": "worse",
		"lookahead-missing-only-k3": "invalid", "lookahead-missing-only-k2": "invalid",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v,\nwant %v", got, want)
	}
}

// The ladder against interpolated controls, in logarithms.
func TestResultsLadder(t *testing.T) {
	for _, g := range read(t).Groups {
		if g.Role != record.RoleLadder {
			continue
		}
		gate.Judge(g, nil)
		want := map[string]float64{"S1": 1.836680, "S2": 2.077488, "S3": 2.188893}
		n := 0
		for _, c := range g.Comparisons {
			if w, ok := want[c.Side]; ok && !c.Cost {
				n++
				if math.Abs(1+c.Estimate.Effect-w) > 5e-7 {
					t.Errorf("%s: got %.6f, want %.6f", c.Side, 1+c.Estimate.Effect, w)
				}
			}
		}
		if n != 3 {
			t.Errorf("%d rungs", n)
		}
	}
}

// What is not such a record is said, and nothing that is read crashes.
func FuzzReadResultsJSON(f *testing.F) {
	b, err := os.ReadFile("testdata/ds4-argodrive-results.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b[:2000]))
	f.Add(`{"groups":[{"id":"g","order":"ABBA","complete":true,"generated_tokens":4,"A":"arm 1A","medians_A":{"steady_tok_s":1}}],"arms":[{"arm":"g-1A","group":"g","label":"A","steady_tok_s":1.5,"generation_tok_s":0,"first_decode_step_ms":1e999}]}`)
	f.Add(`{"x":{"sequence":["U",1,"S1"],"rungs":[{"id":"u"}],"arms":[{"id":"a","rung":"u","steady_tok_s":0}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := exchange.ReadResultsJSON(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, g := range r.Groups {
			gate.Judge(g, nil)
			if _, err := json.Marshal(g); err != nil {
				t.Fatalf("%v of %q", err, text)
			}
		}
	})
}
