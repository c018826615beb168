package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/plan"
)

// TestGPUClocks: what is said to be locked is put back as it was said; what the clock of now disproves is
// refused before anything is changed.
func TestGPUClocks(t *testing.T) {
	for _, c := range []struct {
		before, clock string
		fails         error
		want          string // of the refusal; "" is none
		put           string
	}{
		{before: "", put: "nvidia-smi -i 0 -rgc"},
		{before: "300,1200", clock: "1200\n", put: "nvidia-smi -i 0 -lgc 300,1200"},
		{before: "300,1200", clock: "210\n", put: "nvidia-smi -i 0 -lgc 300,1200"}, // idle, or held down: no proof
		{before: "300,1200", clock: "1215\n", put: "nvidia-smi -i 0 -lgc 300,1200"},
		{before: "300,1200", clock: "1980\n", want: "before says that the clock is locked to 300,1200, and it is 1980 MHz now"},
		{before: "300,1200", fails: errors.New("no such device"), want: "the clock of now cannot be read: no such device"},
	} {
		_, s := fakeHost(t)
		var ran []string
		s.Run = func(_ context.Context, argv []string) (string, error) {
			ran = append(ran, strings.Join(argv, " "))
			return c.clock, c.fails
		}
		a, _, err := s.Apply(t.Context(), []plan.HostSetting{{Name: plan.HostGPUClocks, Target: "0", Value: "1600,1600", Before: c.before}})
		locked := slices.Contains(ran, "nvidia-smi -i 0 -lgc 1600,1600")
		if c.want != "" {
			if k, _ := diag.KindOf(err); k != diag.Machine || !strings.Contains(err.Error(), c.want) || locked {
				t.Errorf("before %q at %q: got %v after %q, want %q and nothing locked", c.before, c.clock, err, ran, c.want)
			}
			continue
		}
		if err != nil || !locked {
			t.Fatalf("before %q: %v after %q", c.before, err, ran)
		}
		if _, err := a.Restore(t.Context()); err != nil || ran[len(ran)-1] != c.put {
			t.Errorf("before %q: put back by %q (%v), want %q", c.before, ran[len(ran)-1], err, c.put)
		}
	}
}
