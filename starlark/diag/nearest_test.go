package diag

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"workload", "lever", "levels", "min_effect", "no_swap_growth", "engine"}
	for _, c := range []struct{ name, want string }{
		{"workloda", "workload"}, // two neighbours swapped
		{"leve", "lever"},
		{"Engine", "engine"},
		{"mineffect", "min_effect"},
		{"no_swap_grwoth", "no_swap_growth"},
		{"x", ""}, // anything is one letter away from nothing
		{"temperature", ""},
		{"", ""},
	} {
		if got := Nearest(c.name, names); got != c.want {
			t.Errorf("Nearest(%q) = %q, want %q", c.name, got, c.want)
		}
	}
	if got := Nearest("leer", []string{"lever", "leder"}); got != "leder" {
		t.Errorf("tie: got %q, want the first by name", got)
	}
	if names[0] != "workload" {
		t.Error("the caller's slice was sorted")
	}
}
