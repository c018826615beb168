package exchange

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"flow/workflows/record"
)

// benchArm is an arm of a command engine with what ds4-bench's CSV says.
func benchArm(label, disposition string, slot int, steady, generation, prefill, first float64) *record.Arm {
	metric := func(name, unit string, v float64) record.Metric {
		return record.Metric{Name: name, Unit: unit, Value: &v, Source: "csv bench.csv"}
	}
	return &record.Arm{ID: label + disposition, Label: label, Slot: slot, Seq: slot, Purpose: "measured", Disposition: disposition, Reason: map[bool]string{true: "clock below the floor"}[disposition != record.OK],
		Metrics: []record.Metric{metric("steady_tok_s", "tok/s", steady), metric("generation_tok_s", "tok/s", generation), metric("prefill_tok_s", "tok/s", prefill),
			metric("first_decode_step_ms", "ms", first), metric("gen_tokens", "tokens", 64)}}
}

// What is written is read back with the same arms and figures, and the reader, who computes every figure again,
// disagrees with none.
func TestResultsJSONRoundTrip(t *testing.T) {
	sides := []record.Side{{Label: "A", Engine: "ds4", Control: true}, {Label: "B", Engine: "ds4", Stack: []record.Lever{{Name: "flush"}},
		Command: record.Command{Delta: map[string]string{"env DS4_FLUSH": "1", "arg --step": "2", "unset DS4_OLD": ""}}}}
	pair := &record.Group{Name: "screen flush", Role: record.RoleScreen, Control: "A", Primary: "steady_tok_s", Model: "m", Sides: sides, Verdict: record.Better, Arms: []*record.Arm{
		benchArm("A", record.OK, 0, 20, 19.5, 100, 90),
		benchArm("B", record.OK, 1, 22, 21.4, 98, 100),
		benchArm("B", record.Invalid, 1, 11, 10, 50, 200),
		benchArm("B", record.OK, 2, 24, 23.2, 99, 110),
		benchArm("A", record.OK, 3, 21, 20.4, 101, 95),
	}}
	ladder := &record.Group{Name: "rungs", Role: record.RoleLadder, Control: "U", Primary: "steady_tok_s",
		Sides: []record.Side{{Label: "U", Engine: "ds4", Control: true}, {Label: "S1", Engine: "ds4"}, {Label: "S2", Engine: "ds4"}}}
	for i, l := range []string{"U", "S1", "U", "S2", "U"} {
		ladder.Arms = append(ladder.Arms, benchArm(l, record.OK, i, 20+float64(i), 19.5+float64(i), 100, 80))
	}
	var b bytes.Buffer
	if err := WriteResultsJSON(&b, &record.Session{ID: "s", Status: "done", Machine: record.Machine{Facts: map[string]string{"cpu_model": "x"}}}, []*record.Group{pair, ladder}); err != nil {
		t.Fatal(err)
	}
	res, err := ReadResultsJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	for _, d := range res.Disagreements {
		// Its arms are made up, so that their times do not close, and names its clock in no gate.
		if d.Kind != "time" {
			t.Errorf("the reader disagrees: %v", d)
		}
	}
	if len(res.Groups) != 3 {
		t.Fatalf("got %d groups back, want the pair, what it excluded, and the ladder", len(res.Groups))
	}
	g, out, rungs := res.Groups[0], res.Groups[1], res.Groups[2]
	if g.Order != "ABBA" || len(g.Arms) != 4 || len(g.Sides[1].Stack) != 2 || g.Sides[1].Command.Env["DS4_FLUSH"] != "1" {
		t.Errorf("the pair came back as %s, %d arms, B %+v", g.Order, len(g.Arms), g.Sides[1])
	}
	if len(out.Arms) != 1 || out.Arms[0].Disposition != record.Invalid || !strings.Contains(out.Arms[0].Reason, "clock below the floor") {
		t.Errorf("the excluded arm came back as %+v", out.Arms)
	}
	if rungs.Role != record.RoleLadder || rungs.Order != "U S1 U S2 U" || len(rungs.Arms) != 5 {
		t.Errorf("the ladder came back as %s %q with %d arms", rungs.Role, rungs.Order, len(rungs.Arms))
	}
	var top struct {
		Groups []struct {
			Gain   float64   `json:"steady_gain_pct"`
			Deltas []float64 `json:"pair_deltas_steady"`
			Tokens int       `json:"generated_tokens"`
		} `json:"groups"`
	}
	if err := json.Unmarshal(b.Bytes(), &top); err != nil {
		t.Fatal(err)
	}
	// Medians 20.5 and 23: 100·(23/20.5 − 1) = 12.195…; pairs 22 − 20 and 24 − 21.
	if p := top.Groups[0]; p.Gain < 12.195 || p.Gain > 12.196 || len(p.Deltas) != 2 || p.Deltas[0] != 2 || p.Deltas[1] != 3 || p.Tokens != 64 {
		t.Errorf("got %+v", p)
	}
}

// The rate of a client holds the prefill and is not the format's: null with the reason, as all that is not measured.
func TestResultsJSONOfAClient(t *testing.T) {
	v, n := 50., 20
	first := int64(3e9)
	arm := &record.Arm{ID: "a", Label: "A", Purpose: "measured", Disposition: record.OK, Process: &record.Process{Pid: 7, LaunchNS: 1e9},
		Metrics:  []record.Metric{{Name: "generation_tok_s", Value: &v, Source: "client clock, usage"}, {Name: "steady_tok_s", Value: &v, Source: "client clock, usage"}},
		Requests: []record.Request{{Mark: record.MarkMeasured, FirstContentNS: &first, CompletionTokens: &n, TextSHA: "t"}}}
	g := &record.Group{Name: "g", Control: "A", Primary: "decode_tok_s", Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}, Arms: []*record.Arm{arm}}
	var b bytes.Buffer
	if err := WriteResultsJSON(&b, &record.Session{}, []*record.Group{g}); err != nil {
		t.Fatal(err)
	}
	var top struct{ Arms []map[string]any }
	if err := json.Unmarshal(b.Bytes(), &top); err != nil {
		t.Fatal(err)
	}
	a := top.Arms[0]
	why := a["null_reasons"].(map[string]any)
	if a["generation_tok_s"] != nil || !strings.Contains(why["generation_tok_s"].(string), "prefill") {
		t.Errorf("generation_tok_s is %v: %v", a["generation_tok_s"], why["generation_tok_s"])
	}
	if a["steady_tok_s"] != 50. || a["engine_launch_to_first_token_seconds"] != 2. || a["generated_tokens"] != 20. || a["output_sha256"] != "t" {
		t.Errorf("got %v", a)
	}
	for k, x := range a {
		if x == nil && why[k] == nil {
			t.Errorf("%s is null without a reason", k)
		}
	}
}
