package gate

// Traps that only show when arms are laid side by side, and what the arms themselves warned of, said once
// for the group. None of it changes a verdict: gates do that.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"flow/workflows/record"
)

// Traps are the warnings of a group's measured arms.
func Traps(g *record.Group) []string {
	var out []string
	arms := make([]*record.Arm, 0, len(g.Arms))
	for _, a := range g.Arms {
		if measured(a) && a.Disposition != record.Superseded {
			arms = append(arms, a)
		}
	}
	out = append(out, endings(g, arms)...)
	out = append(out, texts(g, arms)...)
	return append(out, said(arms)...)
}

// said is what arms warned of: by topic, with the words of the first arm that has it.
func said(arms []*record.Arm) (out []string) {
	first, who := map[string]string{}, map[string][]string{}
	var order []string
	for _, a := range arms {
		for _, w := range a.Warnings {
			topic, _, _ := strings.Cut(w, ":")
			if first[topic] == "" {
				first[topic] = w
				order = append(order, topic)
			}
			if name := armName(a); !slices.Contains(who[topic], name) {
				who[topic] = append(who[topic], name)
			}
		}
	}
	for _, topic := range order {
		w := first[topic]
		switch n := len(who[topic]); {
		case n == len(arms) && n > 1:
			w += " (all arms)"
		case n > 4:
			w += fmt.Sprintf(" (%d of %d arms)", n, len(arms))
		default:
			w += " (" + strings.Join(who[topic], ", ") + ")"
		}
		out = append(out, w)
	}
	return out
}

// endings compares how answers end: a side whose answers stop early does less work.
func endings(g *record.Group, arms []*record.Arm) (out []string) {
	type key struct{ c, side string }
	ends := map[key]map[string]int{}
	lengths := map[key][]int{}
	var cases []string
	for _, a := range arms {
		for i := range a.Requests {
			r := &a.Requests[i]
			if r.Mark != record.MarkMeasured || r.Status != "ok" {
				continue
			}
			if !slices.Contains(cases, r.Case) {
				cases = append(cases, r.Case)
			}
			k := key{r.Case, a.Label}
			if ends[k] == nil {
				ends[k] = map[string]int{}
			}
			ends[k][orWord(r.FinishReason, "no reason")]++
			if r.CompletionTokens != nil {
				lengths[k] = append(lengths[k], *r.CompletionTokens)
			}
		}
	}
	for _, c := range cases {
		control := key{c, g.Control}
		for i := range g.Sides {
			side := key{c, g.Sides[i].Label}
			if side == control || ends[side] == nil || ends[control] == nil {
				continue
			}
			of := ""
			if c != "" {
				of = " in case " + c
			}
			if a, b := shares(ends[control]), shares(ends[side]); a != b {
				out = append(out, fmt.Sprintf("answers end differently%s: side %s %s, side %s %s: they are not the same work", of, control.side, a, side.side, b))
				continue
			}
			if a, b := span(lengths[control]), span(lengths[side]); a != b {
				out = append(out, fmt.Sprintf("answers differ in length%s: side %s %s tokens, side %s %s: whole times are not comparable", of, control.side, a, side.side, b))
			}
		}
	}
	return out
}

// shares is a histogram in percent: sides have different numbers of arms.
func shares(h map[string]int) string {
	total := 0
	for _, n := range h {
		total += n
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", name, 100*float64(h[name])/float64(total)))
	}
	return strings.Join(parts, ", ")
}

func span(xs []int) string {
	if len(xs) == 0 {
		return "unknown"
	}
	if a, b := slices.Min(xs), slices.Max(xs); a != b {
		return fmt.Sprintf("%d to %d", a, b)
	}
	return fmt.Sprint(xs[0])
}

// texts says where the same request got another text on the same side: sampling, or arithmetic that depends
// on what else was in the batch. Then an output gate says nothing of the lever.
func texts(g *record.Group, arms []*record.Arm) (out []string) {
	type key struct {
		side  string
		index int
	}
	firsts := map[key]*record.Request{}
	told := map[string]bool{}
	for _, a := range arms {
		for i := range a.Requests {
			r := &a.Requests[i]
			if r.Mark != record.MarkMeasured || r.Status != "ok" || r.TextSHA == "" {
				continue
			}
			k := key{a.Label, r.Index}
			first := firsts[k]
			if first == nil {
				firsts[k] = r
				continue
			}
			if first.TextSHA == r.TextSHA || first.PromptSHA != r.PromptSHA || first.Nonce != r.Nonce || told[a.Label] {
				continue
			}
			told[a.Label] = true
			at := ""
			if first.Text != "" && r.Text != "" {
				at = fmt.Sprintf(" from byte %d of %d on", common(first.Text, r.Text), len(first.Text))
			}
			load := ""
			if a.Load != nil && a.Load.Asked != 1 {
				load = " with " + a.Load.Arrival
			}
			out = append(out, fmt.Sprintf("text not repeatable: request %d of side %s differs between its own arms%s%s: a difference between sides is no proof against a lever", r.Index, a.Label, at, load))
		}
	}
	return out
}

// common is the length of the common beginning.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
