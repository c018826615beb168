package measure

import (
	"strings"
	"testing"

	"flow/builtins/gate"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Traps of engines that are not as asked.

// simEngine is the embedded engine as a process.
func simEngine(args ...string) *plan.Engine {
	return &plan.Engine{Name: "sim", Command: append([]string{"{flow}", "sim-engine", "serve", "--port", "{port}", "--decode-tok-s", "2000", "--prefill-tok-s", "200000"}, args...),
		Ready: plan.Ready{Kind: plan.ReadyHTTP, Path: "/health"}, API: &plan.API{Kind: plan.APIChat, Metrics: "/metrics"}}
}

// A lever that the engine takes and ignores has no evidence, and a variable that is nowhere in the program is
// a dead knob: neither can be neutral.
func TestT32LeverThatDidNothing(t *testing.T) {
	yes := "true"
	ignored := plan.Lever{Name: "fast", Args: []plan.Arg{{Flag: "--on", Values: []string{"fast"}}}, Confirm: []plan.Confirm{{Kind: plan.ConfirmHTTP, Path: "/props", Pointer: "/levers/fast", Equals: &yes}}}
	e := simEngine("--lever", "fast=+20%", "--ignore", "fast")
	b := armOn(t, "", setup{engine: e, stack: plan.Stack{ignored}})
	for _, ev := range b.Evidence {
		if ev.Lever == "fast" && ev.Found {
			t.Errorf("evidence was found: %+v", ev)
		}
	}
	a := armOn(t, "", setup{engine: e})
	g := &record.Group{ID: "g", Control: "A", Primary: "decode_tok_s", Better: "higher", Cap: 1,
		Sides: []record.Side{{Label: "A", Control: true}, {Label: "B", Stack: plan.Stack{ignored}.Record()}}}
	for i, x := range []*record.Arm{a, b} {
		x.Label, x.Slot, x.Seq, x.GroupID, x.Group = g.Sides[i].Label, i, i, "g", g
		x.Disposition, x.Reason = gate.JudgeArm(x)
		g.Arms = append(g.Arms, x)
	}
	gate.Judge(g, nil)
	if g.Verdict == record.Equivalent || g.Verdict == record.Better || b.Disposition == record.OK {
		t.Errorf("got verdict %q, arm %s (%s): a lever without evidence counted", g.Verdict, b.Disposition, b.Reason)
	}

	knob := strings.Join([]string{"ENGINE", "FASTER", "ATTENTION"}, "_") // made at run time: the test binary is the engine
	dead := plan.Lever{Name: "dead", Env: map[string]string{knob: "1"}, Confirm: []plan.Confirm{{Kind: plan.ConfirmEnviron}}}
	d := armOn(t, "", setup{engine: e, stack: plan.Stack{dead}})
	warns(t, d, "dead knob", "lever dead sets "+knob)
	unconfirmed := false
	for _, ev := range d.Evidence {
		unconfirmed = unconfirmed || ev.Kind == plan.ConfirmLiteral && !ev.Found
	}
	if !unconfirmed {
		t.Errorf("the evidence does not say so: %+v", d.Evidence)
	}
}
