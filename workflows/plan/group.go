package plan

// NewGroup and the refusals: what a group may not be, found where it is declared.

import (
	"fmt"
	"slices"
	"strings"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// DefaultCap is the cap of a group that names none, in blocks.
const DefaultCap = 4

// located puts a place and an operation on an error that has none.
func located(pos diag.Pos, op string, err error) error {
	return &diag.Error{Pos: pos, Kind: diag.Workflow, Op: op, Err: err}
}

func refuse(g *Group, fix, format string, args ...any) error {
	return &diag.Error{Pos: g.Pos, Kind: diag.Workflow, Op: fmt.Sprintf("group %q", g.Name), Msg: fmt.Sprintf(format, args...), Fix: fix}
}

// Labels splits an order into labels: "ABBA" by letters, "U S1 U" by spaces.
func Labels(order string) []string {
	if strings.Contains(strings.TrimSpace(order), " ") {
		return strings.Fields(order)
	}
	var out []string
	for _, r := range strings.TrimSpace(order) {
		out = append(out, string(r))
	}
	return out
}

// Block is one block of an order: its labels in time, and its kind.
type Block struct {
	Kind   string // quad, pair, ladder, floor, order
	Labels []string
}

// Blocks splits a declared order: into quads when it splits into ABBA and BAAB, else into one block. An
// empty order gives nil: quads in alternating orientation, the first by coin.
func (g *Group) Blocks() []Block {
	if g.Order == "" {
		return nil
	}
	l := Labels(g.Order)
	a := g.ControlSide().Label
	if len(g.Sides) == 2 && len(l)%4 == 0 {
		b := g.Sides[1].Label
		var quads []Block
		for i := 0; i < len(l); i += 4 {
			q := l[i : i+4]
			if slices.Equal(q, []string{a, b, b, a}) || slices.Equal(q, []string{b, a, a, b}) {
				quads = append(quads, Block{"quad", q})
			}
		}
		if len(quads)*4 == len(l) {
			return quads
		}
	}
	kind := "order"
	switch {
	case len(g.Sides) == 2 && len(l) == 2:
		kind = "pair"
	case isLadder(l, a):
		kind = "ladder"
	}
	return []Block{{kind, l}}
}

// isLadder: begins and ends with the control.
func isLadder(l []string, control string) bool {
	return len(l) > 2 && l[0] == control && l[len(l)-1] == control
}

// BlockAt is the n-th block of the group in time; orders repeat. coin is the group's coin for the first
// orientation of undeclared quads: false is ABBA.
func (g *Group) BlockAt(n int, coin bool) Block {
	if bs := g.Blocks(); len(bs) > 0 {
		return bs[n%len(bs)]
	}
	a, b := g.Sides[0].Label, g.Sides[1].Label
	if (n%2 == 1) != coin {
		return Block{"quad", []string{b, a, a, b}}
	}
	return Block{"quad", []string{a, b, b, a}}
}

// NewGroup checks g, fills in defaults and returns it. The checks are the refusals of the language.
func NewGroup(g Group) (*Group, error) {
	if g.Role == "" {
		g.Role = record.RoleScreen
	}
	roles := []string{record.RoleScreen, record.RoleQualification, record.RoleLadder, record.RoleNoiseFloor, record.RoleSweep}
	if !slices.Contains(roles, g.Role) {
		return nil, refuse(&g, "use one of "+strings.Join(roles, ", "), "got role %q", g.Role)
	}
	if len(g.Sides) < 2 {
		return nil, refuse(&g, `write sides = {"A": side(engine), "B": side(engine, stack = [my_lever])}`, "got %d sides, want at least 2", len(g.Sides))
	}
	seen := map[string]bool{}
	for _, s := range g.Sides {
		if s.Label == "" || strings.ContainsAny(s.Label, " \t") {
			return nil, refuse(&g, `use short labels such as "A" or "S1"`, "got side label %q", s.Label)
		}
		if seen[s.Label] {
			return nil, refuse(&g, "give each side its own label", "side %q stands twice", s.Label)
		}
		seen[s.Label] = true
		if len(g.WorkloadOf(s).Cases) == 0 && s.Engine.API != nil {
			return nil, refuse(&g, `write workload = workload(prompt = "…", max_tokens = 128)`, "side %q has a server engine and no workload", s.Label)
		}
	}
	if err := g.checkOrder(); err != nil {
		return nil, err
	}
	if err := g.checkContrast(); err != nil {
		return nil, err
	}
	if err := g.checkStops(); err != nil {
		return nil, err
	}
	if err := g.checkDesign(); err != nil {
		return nil, err
	}
	if g.Primary == "" {
		g.Primary = "decode_tok_s"
	}
	if g.Better == "" {
		g.Better = "higher"
	}
	for _, s := range g.Stops {
		if s.Cap > 0 {
			g.Cap = s.Cap
		}
	}
	if g.Cap == 0 {
		g.Cap = DefaultCap
		if len(g.Blocks()) == 1 && g.Blocks()[0].Kind != "quad" {
			g.Cap = 1
		}
	}
	if g.Cap < 0 || g.Cap > 1000 {
		return nil, refuse(&g, "write after(blocks = 4)", "got a cap of %d blocks, want 1 to 1000", g.Cap)
	}
	if g.MinEffect < 0 || g.MinEffect >= 1 {
		return nil, refuse(&g, `write min_effect = "1%"`, "got min_effect %v, want 0 to 1", g.MinEffect)
	}
	if err := g.checkCollectors(); err != nil {
		return nil, err
	}
	if err := g.gatherCollectors(); err != nil {
		return nil, err
	}
	if d := g.SampleEvery; d != 0 && (d < SampleFastest || d > SampleSlowest) {
		return nil, refuse(&g, fmt.Sprintf("write sample_every = %q", min(max(d, SampleFastest), SampleSlowest)), "got sample_every %s, want %s to %s", d, SampleFastest, SampleSlowest)
	}
	names := map[string]bool{}
	for _, x := range g.Gates {
		if names[x.Name] {
			return nil, refuse(&g, "give each gate its own name", "gate %q stands twice", x.Name)
		}
		names[x.Name] = true
	}
	for _, x := range g.Guards {
		if names[x.Name] {
			return nil, refuse(&g, "give each guard its own name", "guard %q stands twice", x.Name)
		}
		names[x.Name] = true
	}
	return &g, nil
}

func (g *Group) checkOrder() error {
	if g.Order == "" {
		if len(g.Sides) != 2 {
			return refuse(g, `write order = "U S1 U S2 U"`, "%d sides need a declared order", len(g.Sides))
		}
		return nil
	}
	l := Labels(g.Order)
	count := map[string]int{}
	for _, x := range l {
		if !slices.ContainsFunc(g.Sides, func(s Side) bool { return s.Label == x }) {
			return refuse(g, "use the labels of sides", "order %q names side %q, which is not declared", g.Order, x)
		}
		count[x]++
	}
	for _, s := range g.Sides {
		if count[s.Label] == 0 {
			return refuse(g, "put every side into the order", "order %q never runs side %q", g.Order, s.Label)
		}
	}
	control := g.ControlSide().Label
	if len(g.Sides) > 2 && !isLadder(l, control) {
		return refuse(g, fmt.Sprintf("begin and end the order with %q", control), "order %q has no closing control", g.Order)
	}
	if len(g.Sides) == 2 && !isLadder(l, control) && 2*count[control] != len(l) {
		return refuse(g, `use order = "ABBA"`, "order %q is unbalanced: %d of %s against %d of %s", g.Order,
			count[control], control, len(l)-count[control], g.Sides[1].Label)
	}
	return nil
}

// checkContrast refuses sides that do the same thing, unless that is what the group is for.
func (g *Group) checkContrast() error {
	type eff struct {
		label string
		key   Hash
	}
	var all []eff
	for _, s := range g.Sides {
		c, err := Effective(s.Engine, s.Stack)
		if err != nil {
			return err
		}
		c.Delta = nil
		all = append(all, eff{s.Label, Sum([]any{c, s.Engine.API, g.WorkloadOf(s)})})
	}
	if g.Role == record.RoleNoiseFloor {
		for _, e := range all[1:] {
			if e.key != all[0].key {
				return refuse(g, "give both sides the same engine and stack", "role noise-floor compares a side with itself, but %s and %s differ", all[0].label, e.label)
			}
		}
		return nil
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.key == b.key {
				return refuse(g, `change something effective, or say role = "noise-floor"`,
					"sides %s and %s are the same command, environment, config and request: a comparison of a thing with itself", a.label, b.label)
			}
		}
	}
	return nil
}
