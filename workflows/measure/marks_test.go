package measure

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"flow/workflows/plan"
)

// TestEnergyIsReadAtMarks: with a sampler that never ticks again, the counter of energy is read all the same
// when the step begins, when a request is sent, has its first token and ends.
func TestEnergyIsReadAtMarks(t *testing.T) {
	sys := t.TempDir()
	for path, text := range map[string]string{"name": "package-0\n", "energy_uj": "1000000\n", "max_energy_range_uj": "262143328850\n"} {
		path = filepath.Join(sys, "class/powercap/intel-rapl:0", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := armOn(t, simURL(t, "--prefill-tok-s", "30", "--decode-tok-s", "40"), setup{sys: sys, every: time.Hour, tokens: 20, work: plan.Workload{Repeat: 2}})
	if v := number(t, a, "sampler_interval_ms"); v != 3.6e6 {
		t.Errorf("the interval on record is %v ms, want an hour", v)
	}
	step := a.Steps[len(a.Steps)-2]
	if step.Name != "measure" || len(a.Requests) != 2 {
		t.Fatalf("got steps %v and %d requests", a.Steps, len(a.Requests))
	}
	read := func(what string, from, to int64) {
		t.Helper()
		for _, x := range a.Samples {
			if x.Sensor == "rapl.package-0.energy_j" && x.MonoNS >= from && x.MonoNS <= to {
				return
			}
		}
		t.Errorf("%s: no reading between %d and %d", what, from, to)
	}
	read("the step begins", step.StartNS-2e6, *a.Requests[0].FirstContentNS-1) // two marks within 2 ms are one reading
	for _, r := range a.Requests {
		read("a request is sent", *r.SentNS-2e6, *r.FirstContentNS-1) // two marks within 2 ms are one reading
		read("its first token", *r.FirstContentNS, *r.LastContentNS)
	}
	read("the first request ends", *a.Requests[0].LastContentNS, *a.Requests[1].FirstContentNS)
	read("the step ends", *a.Requests[1].LastContentNS, a.MonoEndNS)
}

// TestPhasesAreSummed: an arm that ends has its sensors by phase.
func TestPhasesAreSummed(t *testing.T) {
	a := armOn(t, simURL(t, "--prefill-tok-s", "100", "--decode-tok-s", "100"), setup{tokens: 20, every: 10 * time.Millisecond})
	phases := map[string]bool{}
	for _, s := range a.Summaries {
		if s.Sensor == "self.rss_mib" && s.Mean != nil && s.N > 0 {
			phases[s.Phase] = true
		}
	}
	if !phases["measure"] || !phases["decode"] {
		t.Errorf("self.rss_mib is summed in %v, want the measured step and the decode at least", phases)
	}
}
