package run_test

import (
	"context"
	"strings"
	"testing"

	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

func TestArmStepsInOrder(t *testing.T) {
	m := newScripted(t)
	g := runOne(t, m, testGroup(t, func(g *plan.Group) { g.Cap = 1 }))
	want := "open A|settle A|gates A|launch A|confirm A|warm A|measure A|stop A|close A"
	if got := strings.Join(m.trace[:9], "|"); got != want {
		t.Errorf("steps of the first arm:\ngot  %s\nwant %s", got, want)
	}
	if got := labels(g); got != "A:ok B:ok B:ok A:ok" {
		t.Errorf("arms: %s", got)
	}
	if g.Verdict != record.Better {
		t.Errorf("verdict %s (%s), want better: B is 10 %% faster", g.Verdict, g.Reason)
	}
}

func TestBlockIsRedoneWhole(t *testing.T) {
	m := newScripted(t)
	bad := true
	m.during = func(_ context.Context, task run.Task) error {
		if task.Side.Label == "B" && bad {
			bad = false
			return &run.EngineError{Reason: "the engine exited by itself with code 1"}
		}
		return nil
	}
	g := runOne(t, m, testGroup(t, func(g *plan.Group) { g.Cap = 1 }))
	if got := labels(g); got != "A:ok B:failed A:ok B:ok B:ok A:ok" {
		t.Errorf("arms: %s; want the block redone from its first arm", got)
	}
	if g.Verdict != record.Better {
		t.Errorf("verdict %s: %s", g.Verdict, g.Reason)
	}
}

func TestProbeHoldsTheGroup(t *testing.T) {
	m := newScripted(t)
	m.value = func(task run.Task) float64 {
		if task.Purpose == "probe" && task.Slot == 0 {
			return 40
		}
		return 100
	}
	floor := 90.0
	g := runOne(t, m, testGroup(t, func(g *plan.Group) { g.Cap, g.Probe = 1, &plan.Probe{Metric: "decode_tok_s", Above: &floor} }))
	if got := labels(g); got != "A:ok A:ok A:ok B:ok B:ok A:ok" {
		t.Errorf("arms: %s; want two probe arms before the block", got)
	}
	m.value = func(run.Task) float64 { return 40 }
	g = runOne(t, m, testGroup(t, func(g *plan.Group) { g.Cap, g.Probe = 1, &plan.Probe{Metric: "decode_tok_s", Above: &floor} }))
	if g.Verdict != record.Invalid || !strings.Contains(g.Reason+g.Stopped, "probe arm: decode_tok_s is 40") {
		t.Errorf("verdict %s, reason %q, stopped %q", g.Verdict, g.Reason, g.Stopped)
	}
}

// TestQuarantineHoldsAcrossGroups: a group that ends in an incident leaves its quarantine to the next one, which
// runs the first group's control until it is inside the band again; a resumed session does as well.
func TestQuarantineHoldsAcrossGroups(t *testing.T) {
	floor := 90.0
	for _, c := range []struct {
		name       string
		sick       int  // probes after the incident that are outside
		resumed    bool // the session is begun anew between the groups
		probes     int  // after the incident
		second     string
		stopped    string
		after      string // arms of a third group
		afterCount int    // probes in all, when it has run
	}{
		{"released at once", 0, false, 1, "A:ok B:ok B:ok A:ok", "", "A:ok B:ok B:ok A:ok", 1},
		{"released at the second try", 1, false, 2, "A:ok B:ok B:ok A:ok", "", "A:ok B:ok B:ok A:ok", 2},
		{"released after a resume", 1, true, 2, "A:ok B:ok B:ok A:ok", "", "A:ok B:ok B:ok A:ok", 2},
		{"never inside", 99, false, 2, "", `quarantine since arm B3 of group "sick" was invalid: probe arm: decode_tok_s is 40, want above 90, after 2 tries`, "", 4},
		{"inside only before the third group", 2, false, 2, "", "quarantine since arm", "A:ok B:ok B:ok A:ok", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newScripted(t)
			mem := run.NewMemory()
			incident, probes := false, 0
			m.value = func(task run.Task) float64 {
				if task.Purpose == "probe" && incident {
					probes++
					if task.Group.Name != "sick" || task.Side.Label != "A" {
						t.Errorf("the probe is side %s of group %q, want the control of the group that fell ill", task.Side.Label, task.Group.Name)
					}
					if probes <= c.sick {
						return 40
					}
				}
				if task.Group.Name == "sick" && task.Side.Label == "B" {
					incident = true
				}
				return 100
			}
			sick := testGroup(t, func(g *plan.Group) {
				g.Name, g.Cap, g.Retry, g.Probe = "sick", 1, 0, &plan.Probe{Metric: "decode_tok_s", Above: &floor, Retries: 2}
				g.Gates = []plan.Gate{{Name: "no swap", Phase: plan.PhaseAfter, Required: true, Check: func(_ context.Context, a *record.Arm) (record.Finding, error) {
					if a.Label == "B" {
						return record.Finding{Outcome: record.Fail, Observed: "swap"}, nil
					}
					return record.Finding{Outcome: record.Pass}, nil
				}}}
			})
			plain := func(name string) *plan.Group {
				return testGroup(t, func(g *plan.Group) { g.Name, g.Cap = name, 1 })
			}
			s := newSession(m, mem)
			res, err := s.Run(t.Context(), []*plan.Group{sick})
			if err != nil || res[0].Verdict != record.Invalid || probes != 0 {
				t.Fatalf("the first group: %v, %v, %d probes after its incident", err, res, probes)
			}
			if c.resumed {
				s = newSession(m, mem)
				if res, err = s.Run(t.Context(), []*plan.Group{sick}); err != nil || labels(res[0]) != "A:ok A:ok B:invalid" {
					t.Fatalf("replay: %v", err)
				}
			}
			res, err = s.Run(t.Context(), []*plan.Group{plain("second")})
			if err != nil {
				t.Fatal(err)
			}
			if got := labels(res[0]); got != c.second || probes != c.probes || !strings.Contains(res[0].Stopped, c.stopped) {
				t.Errorf("the second group has %q after %d probes, stopped %q; want %q after %d, stopped %q", got, probes, res[0].Stopped, c.second, c.probes, c.stopped)
			}
			if c.second == "" && res[0].Verdict != record.Invalid {
				t.Errorf("a group that never began is %s", res[0].Verdict)
			}
			e, _ := mem.Effect(t.Context(), "s", 0)
			kept, _ := mem.Group(t.Context(), e.Refs[0])
			if len(kept.Arms) != 3+c.probes || kept.Arms[len(kept.Arms)-1].Purpose != "probe" || kept.Arms[3].Seq != 3 {
				t.Errorf("the first group keeps %s", labels(kept))
			}
			if res, err = s.Run(t.Context(), []*plan.Group{plain("third")}); err != nil || labels(res[0]) != c.after || probes != c.afterCount {
				t.Errorf("the third group: %v, %q after %d probes, want %q after %d", err, labels(res[0]), probes, c.after, c.afterCount)
			}
		})
	}
}
