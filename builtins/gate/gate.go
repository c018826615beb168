// Package gate judges recorded facts: arms against their gates and evidence, guards against samples, groups
// against their control, stops against what a group shows so far.
//
// Its opinion: judging is a function of the record alone, so that it can be done again, by anyone, with the
// same result. Nothing here looks at a clock or a machine. A group's verdict comes from whole, valid blocks
// and from noise that was written down before the group began (record.Group.Noise); what was left out is
// named. An arm that a gate excludes keeps all its figures.
//
// A group compares sides with its control. A factorial group (record.Group.Design) compares levers instead:
// its sides that ran are combinations, so that none of them is a finding, and what is judged is one side per
// lever that no arm runs (record.Side.Estimated, labelled by the lever). So a verdict, a gain and a history
// of a lever look the same whatever design they come from. The levers of a whole session are one family, and
// Family judges them as one.
//
// Its neighbours: stats knows what an order of arms shows, run acts on what is found here.
package gate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// JudgeArm says what an arm counts as: from its disposition so far (failed, infeasible, interrupted and
// superseded stay), its required findings, and the evidence of the levers of its own side. The side is found
// in a.Group; without it evidence is not judged. A finding of a gate whose scope is the group concerns the
// group (Judge), not the arm. Everything that is wrong is named, not only the first.
func JudgeArm(a *record.Arm) (disposition, reason string) {
	switch a.Disposition {
	case record.Failed, record.Infeasible, record.Interrupted, record.Superseded:
		return a.Disposition, a.Reason
	}
	var why []string
	for _, f := range a.Findings {
		if f.Required && f.Scope != scopeGroup && f.Outcome != record.Pass {
			why = append(why, findingWords(f))
		}
	}
	if a.Group != nil && a.Purpose != "warm" {
		if s := sideOf(a.Group, a.Label); s != nil {
			for _, l := range s.Stack {
				if w := unproven(l, a); w != "" {
					why = append(why, w)
				}
			}
		}
	}
	if len(why) == 0 {
		return record.OK, ""
	}
	return record.Invalid, strings.Join(why, "; ")
}

const scopeGroup = "group"

// findingWords is a finding as a reason: the gate, what was seen, what was allowed.
func findingWords(f record.Finding) string {
	var parts []string
	if f.Observed != "" {
		parts = append(parts, "observed "+f.Observed)
	}
	if f.Limit != "" {
		parts = append(parts, "limit "+f.Limit)
	}
	if f.Reason != "" {
		parts = append(parts, f.Reason)
	}
	if f.Error != "" {
		parts = append(parts, f.Error)
	}
	w := "gate " + f.Gate
	switch f.Outcome {
	case record.Fail:
	case record.Unmeasured:
		w += " could not be measured"
	default:
		w += fmt.Sprintf(" said %q, want pass, fail or unmeasured", f.Outcome)
	}
	if len(parts) > 0 {
		w += ": " + strings.Join(parts, ", ")
	}
	return w
}

// FindingOf completes what a gate's check returned: name, phase, scope, required. An error of the function
// is unmeasured and keeps the error; so is an outcome that does not exist.
func FindingOf(g plan.Gate, f record.Finding, err error) record.Finding {
	if err != nil {
		f = record.Finding{Outcome: record.Unmeasured, Error: err.Error(), Reason: "its function failed"}
	}
	switch f.Outcome {
	case record.Pass, record.Fail, record.Unmeasured:
	default:
		f.Reason = strings.TrimSpace(fmt.Sprintf("its function gave the outcome %q %s", f.Outcome, f.Reason))
		f.Outcome = record.Unmeasured
	}
	f.Gate, f.Phase, f.Required, f.Scope = g.Name, g.Phase, g.Required, g.Scope
	return f
}

// sideOf is the side of a label, nil when there is none.
func sideOf(g *record.Group, label string) *record.Side {
	for i := range g.Sides {
		if g.Sides[i].Label == label {
			return &g.Sides[i]
		}
	}
	return nil
}

// confirms is what a lever declares as its evidence, none apart. ok is false where the record does not say.
func confirms(l record.Lever) (c []plan.Confirm, ok bool) {
	var d plan.Lever
	if l.Declared == "" || json.Unmarshal([]byte(l.Declared), &d) != nil {
		return nil, false
	}
	for _, x := range d.Confirm {
		if x.Kind != plan.ConfirmNone {
			c = append(c, x)
		}
	}
	return c, true
}

// reading is everything that was read for one confirm: at ready, at stop.
type reading struct {
	kind, what string
	found      bool
	last       record.Evidence
}

// readings groups an arm's evidence of a lever by what was asked. One positive reading is enough: a log line
// may come late, and an endpoint is gone at the stop.
func readings(lever string, a *record.Arm) []reading {
	var rs []reading
	for _, e := range a.Evidence {
		if e.Lever != lever || e.Kind == plan.ConfirmNone {
			continue
		}
		i := slices.IndexFunc(rs, func(r reading) bool { return r.kind == e.Kind && r.what == e.What })
		if i < 0 {
			rs = append(rs, reading{kind: e.Kind, what: e.What})
			i = len(rs) - 1
		}
		rs[i].found = rs[i].found || e.Found
		if e.Error == "" || rs[i].last.Kind == "" {
			rs[i].last = e
		}
	}
	return rs
}

// unproven says why a lever of the arm's own side has no evidence; "" when it has, or when it declares none.
func unproven(l record.Lever, a *record.Arm) string {
	rs := readings(l.Name, a)
	want, known := confirms(l)
	if l.Unconfirmed != "" && len(want) == 0 || known && len(want) == 0 {
		return ""
	}
	const no = "lever %s: no evidence that it took effect: "
	if len(rs) == 0 {
		return fmt.Sprintf(no+"none was read", l.Name)
	}
	for _, r := range rs {
		if r.found {
			continue
		}
		w := fmt.Sprintf(no+"%s %s", l.Name, r.kind, r.what)
		switch {
		case r.last.Error != "":
			w += " could not be read: " + r.last.Error
		case r.last.Observed != "":
			w += " shows " + r.last.Observed
		default:
			w += " was not found"
		}
		return w
	}
	for _, c := range want {
		if !slices.ContainsFunc(rs, func(r reading) bool { return r.kind == c.Kind }) {
			return fmt.Sprintf(no+"its %s was not read", l.Name, c.Kind)
		}
	}
	return ""
}

// Contrast says why an arm of the control shows that there is nothing to compare: a lever that is only on
// other sides and whose evidence holds here as well. "" for arms of other sides and where all is well. A
// literal in the binary proves that the binary knows a name, on every side alike, so it shows no lack of
// contrast unless the lever is the binary.
func Contrast(g *record.Group, a *record.Arm) string {
	if a.Label != g.Control || g.Role == record.RoleNoiseFloor {
		return ""
	}
	here := map[string]bool{}
	if s := sideOf(g, g.Control); s != nil {
		for _, l := range s.Stack {
			here[l.Name] = true
		}
	}
	for _, s := range g.Sides {
		if s.Label == g.Control {
			continue
		}
		for _, l := range s.Stack {
			if here[l.Name] {
				continue
			}
			here[l.Name] = true // once is enough
			n, all := 0, true
			for _, r := range readings(l.Name, a) {
				if r.kind == plan.ConfirmLiteral && !changesBinary(l) {
					continue
				}
				n++
				all = all && r.found
			}
			if n > 0 && all {
				return fmt.Sprintf("no contrast: lever %s also holds on the control (%s)", l.Name, foundWords(l.Name, a))
			}
		}
	}
	return ""
}

func changesBinary(l record.Lever) bool {
	var d plan.Lever
	return json.Unmarshal([]byte(l.Declared), &d) == nil && d.Binary != ""
}

// foundWords is the evidence seen, "log n_ubatch = 512: n_ubatch = 512".
func foundWords(lever string, a *record.Arm) string {
	for _, e := range a.Evidence {
		if e.Lever == lever && e.Found && e.Kind != plan.ConfirmNone {
			if e.Observed != "" {
				return fmt.Sprintf("%s %s: %s", e.Kind, e.What, e.Observed)
			}
			return e.Kind + " " + e.What
		}
	}
	return "its evidence was found"
}
