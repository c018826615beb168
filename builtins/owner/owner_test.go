package owner

import (
	"context"
	"slices"
	"testing"
)

func TestCarries(t *testing.T) {
	for _, c := range []struct {
		mark, id string
		want     bool
	}{
		{"5f3a", "5f3a", true},
		{"5f3a.77", "5f3a", true},
		{"5f3a.77", "5f3a.77", true},
		{"5f3a", "5f3a.77", false},
		{"5f3a0", "5f3a", false},
		{"", "5f3a", false},
		{"5f3a", "", false},
		{"", "", false},
	} {
		if got := carries(c.mark, c.id); got != c.want {
			t.Errorf("mark %q, id %q: got %t, want %t", c.mark, c.id, got, c.want)
		}
	}
}

// A mark replaces the one that flow itself was started with.
func TestMark(t *testing.T) {
	env := []string{"A=1", Env + "=outer", "B=2"}
	if got, want := Mark(env, "x"), []string{"A=1", "B=2", Env + "=x"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if env[1] != Env+"=outer" {
		t.Error("the caller's list was changed")
	}
}

// Without an owner things are marked and no record is kept.
func TestNil(t *testing.T) {
	h := Of(context.Background()).Hold("x")
	if h.ID() == "" || h.ID() == (*Owner)(nil).Hold("x").ID() {
		t.Errorf("got mark %q, want one of its own", h.ID())
	}
	if err := h.Keep(func(*Record) {}); err != nil {
		t.Error(err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	if err := (*Owner)(nil).End(); err != nil {
		t.Error(err)
	}
}
