package gate

// Blocks: what is analysed, excluded and redone together, reconstructed from the arms alone.

import (
	"fmt"
	"slices"
	"strings"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// BlockState is the latest attempt of a block.
type BlockState struct {
	Index    int
	Attempt  int
	Kind     string        // quad, pair, ladder, order
	Labels   []string      // as they should be, by slot
	Arms     []*record.Arm // by slot; nil where the arm is missing
	Complete bool          // every slot has its arm
	Valid    bool          // complete, every arm ok, the same conditions throughout
	Reason   string        // why it is not valid
}

// Blocks reconstructs the blocks of a group from its measured arms, by index: of each the latest attempt
// that was not superseded. A block without any arm of such an attempt is there with no arms, so that a
// caller sees what to redo.
func Blocks(g *record.Group) []BlockState {
	byBlock := map[int][]*record.Arm{}
	for _, a := range g.Arms {
		if measured(a) && a.Block >= 0 {
			byBlock[a.Block] = append(byBlock[a.Block], a)
		}
	}
	var out []BlockState
	for index := range byBlock {
		out = append(out, blockOf(g, index, byBlock[index]))
	}
	slices.SortFunc(out, func(a, b BlockState) int { return a.Index - b.Index })
	return out
}

// measured: warm and probe arms are never analysed. Imported arms may say no purpose.
func measured(a *record.Arm) bool { return a.Purpose == "measured" || a.Purpose == "" }

func blockOf(g *record.Group, index int, arms []*record.Arm) BlockState {
	b := BlockState{Index: index}
	live := false
	for _, a := range arms {
		if a.Disposition != record.Superseded {
			b.Attempt, live = max(b.Attempt, a.Attempt), true
		}
	}
	if !live {
		for _, a := range arms {
			b.Attempt = max(b.Attempt, a.Attempt)
		}
	}
	arms = slices.DeleteFunc(slices.Clone(arms), func(a *record.Arm) bool {
		return a.Attempt != b.Attempt || a.Disposition == record.Superseded
	})
	slices.SortStableFunc(arms, func(x, y *record.Arm) int { return x.Seq - y.Seq })
	b.Kind, b.Labels = shapeOf(g, index, arms)
	b.Arms = make([]*record.Arm, len(b.Labels))
	for _, a := range arms {
		if a.Slot < 0 || a.Slot >= len(b.Labels) || b.Labels[a.Slot] != a.Label {
			b.Reason = fmt.Sprintf("arm %s stands in slot %d, where the order %q has none of it", armName(a), a.Slot+1, strings.Join(b.Labels, " "))
			continue
		}
		b.Arms[a.Slot] = a
	}
	have := 0
	for _, a := range b.Arms {
		if a != nil {
			have++
		}
	}
	b.Complete = have == len(b.Labels)
	if b.Reason == "" {
		b.Reason = b.trouble(g, have, live)
	}
	b.Valid = b.Complete && b.Reason == ""
	return b
}

// shapeOf is what a block of this index is made of. Where quads alternate by coin, the first arm says which
// orientation this one has.
func shapeOf(g *record.Group, index int, arms []*record.Arm) (kind string, labels []string) {
	p := &plan.Group{Order: g.Order}
	for _, s := range g.Sides { // the control first, as a plan has it
		if s.Label == g.Control {
			p.Sides = slices.Insert(p.Sides, 0, plan.Side{Label: s.Label})
		} else {
			p.Sides = append(p.Sides, plan.Side{Label: s.Label})
		}
	}
	if len(p.Sides) < 2 { // a record without its sides: as the arms stand
		for _, a := range arms {
			labels = append(labels, a.Label)
		}
		return "order", labels
	}
	coin := false
	if g.Order == "" {
		for _, a := range arms {
			inner := a.Slot == 1 || a.Slot == 2
			bFirst := (a.Label != g.Control) != inner
			coin = bFirst != (index%2 == 1)
			break
		}
	}
	b := p.BlockAt(index, coin)
	return b.Kind, b.Labels
}

// trouble says why a block does not count; "" when it does.
func (b BlockState) trouble(g *record.Group, have int, live bool) string {
	if !live {
		return "superseded"
	}
	for _, a := range b.Arms {
		if a == nil || a.Disposition == record.OK {
			continue
		}
		w := fmt.Sprintf("arm %s is %s", armName(a), orNone(a.Disposition))
		if a.Reason != "" {
			w += ": " + a.Reason
		}
		return w
	}
	if !b.Complete {
		return fmt.Sprintf("%d of %d arms", have, len(b.Labels))
	}
	for _, a := range b.Arms {
		if w := Contrast(g, a); w != "" {
			return w
		}
	}
	return b.changed(g)
}

// changed says what did not stay the same inside the block: neighbours that came or went, a binary that was
// replaced under a side's name.
func (b BlockState) changed(g *record.Group) string {
	first := b.Arms[0]
	for _, a := range b.Arms[1:] {
		x, y := slices.Sorted(slices.Values(first.Neighbours)), slices.Sorted(slices.Values(a.Neighbours))
		if !slices.Equal(x, y) {
			return fmt.Sprintf("a neighbour started or ended inside the block: %s beside arm %s, %s beside arm %s",
				listOr(x, "none"), armName(first), listOr(y, "none"), armName(a))
		}
	}
	for _, a := range b.Arms {
		for _, o := range g.Arms { // the first of its side in the group
			if o.Label != a.Label || o.Process == nil || o.Process.BinarySHA == "" {
				continue
			}
			if a.Process != nil && a.Process.BinarySHA != "" && a.Process.BinarySHA != o.Process.BinarySHA {
				return fmt.Sprintf("the binary of side %s changed between arms %s and %s", a.Label, armName(o), armName(a))
			}
			break
		}
	}
	return ""
}

func armName(a *record.Arm) string { return record.ArmName(a.Label, a.Seq) }

func listOr(x []string, none string) string {
	if len(x) == 0 {
		return none
	}
	return strings.Join(x, ", ")
}

func orNone(disposition string) string {
	if disposition == "" {
		return "not judged"
	}
	return disposition
}
