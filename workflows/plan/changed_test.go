package plan_test

import (
	"encoding/json"
	"slices"
	"testing"

	"flow/workflows/plan"
)

// TestChangedSaysOldAndNew: a refusal names the very thing of a design that is not as it was.
func TestChangedSaysOldAndNew(t *testing.T) {
	parts := func(change func(*plan.Group)) string {
		r, err := resolvable(t, func(g *plan.Group) {
			limit := .05
			g.Costs = map[string]*float64{"ttft_ms": &limit}
			g.Gates = []plan.Gate{{Name: "quick", Phase: plan.PhaseAfter, Scope: "arm", Params: `{"limit":5}`}}
			if change != nil {
				change(g)
			}
		}).Resolve(t.Context(), files{"srv": "b", "/models/x.gguf": "m", "p.txt": "prompt"})
		if err != nil {
			t.Fatal(err)
		}
		return r.Parts
	}
	other := .06
	base := parts(nil)
	for _, tc := range []struct {
		name   string
		change func(*plan.Group)
		want   string
	}{
		{"a cost's limit", func(g *plan.Group) { g.Costs["ttft_ms"] = &other }, "design changed: costs.ttft_ms was 0.05 and is 0.06"},
		{"a cost without its limit", func(g *plan.Group) { g.Costs["ttft_ms"] = nil }, "design changed: costs.ttft_ms was 0.05 and is null"},
		{"a cost more", func(g *plan.Group) { g.Costs["itl_ms"] = &other }, "design changed: costs.itl_ms 0.06 is new"},
		{"a gate's parameter", func(g *plan.Group) { g.Gates[0].Params = `{"limit":6}` }, "design changed: gates.quick.params.limit was 5 and is 6"},
		{"two things", func(g *plan.Group) { g.MinEffect, g.Retry = .02, 7 }, "design changed: min_effect was 0 and is 0.02, retry was 0 and is 7"},
	} {
		if got := plan.Changed(base, parts(tc.change)); !slices.Equal(got, []string{tc.want}) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestChangedOfSeveralGroups: parts of one name belong to groups in their order.
func TestChangedOfSeveralGroups(t *testing.T) {
	list := func(hashes ...string) string {
		var ps []map[string]string
		for _, h := range hashes {
			ps = append(ps, map[string]string{"what": "gate quick", "hash": h})
		}
		b, err := json.Marshal(ps)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct {
		was, now string
		want     []string
	}{
		{list("1", "2"), list("1", "2"), nil},
		{list("1", "2"), list("1", "3"), []string{"gate quick changed"}},
		{list("1", "2"), list("1"), []string{"gate quick is gone"}},
		{list("1"), list("1", "2"), []string{"gate quick is new"}},
	} {
		if got := plan.Changed(tc.was, tc.now); !slices.Equal(got, tc.want) {
			t.Errorf("%s to %s: got %q, want %q", tc.was, tc.now, got, tc.want)
		}
	}
}
