package plan

import (
	"context"
	"strings"
	"testing"
)

// designOf is a group whose sides are combinations of levers a, b, … by their letters.
func designOf(t *testing.T, design, order string, stacks map[string]string) (*Group, error) {
	t.Helper()
	e := Engine{Name: "e", Command: []string{"e"}, Metrics: []Metric{{Name: "m", Better: "higher"}}}
	g := Group{Name: "d", Design: design, Order: order, Primary: "m"}
	seen := map[string]bool{}
	for _, label := range Labels(order) {
		if seen[label] {
			continue
		}
		seen[label] = true
		s := Side{Label: label, Engine: e}
		for _, l := range stacks[label] {
			s.Stack = append(s.Stack, Lever{Name: string(l), Env: map[string]string{string(l): "1"}, Confirm: []Confirm{{Kind: ConfirmNone, Reason: "a test"}}})
		}
		g.Sides = append(g.Sides, s)
	}
	return NewGroup(g)
}

func TestDesign(t *testing.T) {
	four := map[string]string{"U": "x", "R1": "xa", "R2": "xb", "R3": "xab"}
	g, err := designOf(t, DesignFactorial, "U R1 R2 R3 R3 R2 R1 U", four)
	if err != nil {
		t.Fatal(err)
	}
	if names := Stack(g.DesignLevers()).Names(); names != "a+b" {
		t.Errorf("levers %q", names)
	}
	sides, err := g.Estimated()
	if err != nil || len(sides) != 2 || sides[1].Label != "b" || !sides[1].Estimated || len(sides[1].Stack) != 2 || sides[1].Command.Delta["env b"] != "1" {
		t.Errorf("estimated %+v, %v", sides, err)
	}
	for _, c := range []struct{ name, design, order, want string }{
		{"another design", "latin-square", "U R1 R2 R3 R3 R2 R1 U", "got design"},
		{"one lever", DesignPB12, "U R1 R1 U", "got 1 levers that the control has not, want 2 to 11"},
		{"rarely on", DesignFactorial, "U R1 R1 R1 R1 R2 U", `"b" is on in 1 of 7 arms only`},
		{"too few arms", DesignFactorial, "U R1 R2 U", ""},
	} {
		_, err := designOf(t, c.design, c.order, four)
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := designOf(t, DesignFactorial, "U R1 R2 U", map[string]string{"U": "", "R1": "ab", "R2": "abc"}); err == nil || !strings.Contains(err.Error(), "on and off together") {
		t.Errorf("twins: %v", err)
	}
	if _, err := designOf(t, DesignFactorial, "U a R2 R3 R3 R2 a U", map[string]string{"U": "", "a": "a", "R2": "b", "R3": "ab"}); err == nil || !strings.Contains(err.Error(), "also the name of a lever") {
		t.Errorf("a label that is a lever: %v", err)
	}
	if _, err := designOf(t, DesignFactorial, "U R1 R2 R3 R3 R2 R1 U", map[string]string{"U": "x", "R1": "a", "R2": "xb", "R3": "xab"}); err == nil || !strings.Contains(err.Error(), "does not stand on the control's stack") {
		t.Errorf("another base: %v", err)
	}
}

// A design is part of what was asked: another one is another group.
func TestDesignIsHashed(t *testing.T) {
	four := map[string]string{"U": "", "R1": "a", "R2": "b", "R3": "ab"}
	hashes := map[string]bool{}
	for _, d := range []string{"", DesignFactorial, DesignFraction} {
		g, err := designOf(t, d, "U R1 R2 R3 R3 R2 R1 U", four)
		if err != nil {
			t.Fatal(err)
		}
		r, err := g.Resolve(context.Background(), someDigests{})
		if err != nil {
			t.Fatal(err)
		}
		declared, err := g.Declared()
		if err != nil {
			t.Fatal(err)
		}
		hashes[r.Hash], hashes[declared] = true, true
	}
	if len(hashes) != 6 {
		t.Errorf("%d hashes of 3 designs, want 6", len(hashes))
	}
}

type someDigests struct{}

func (someDigests) File(context.Context, string) (Hash, error)   { return "f", nil }
func (someDigests) Binary(context.Context, string) (Hash, error) { return "b", nil }
