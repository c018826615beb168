package gate

import (
	"strings"
	"testing"

	"flow/workflows/record"
)

// with sets a metric of each arm, in time.
func with(g *record.Group, name string, x ...float64) *record.Group {
	for i, a := range g.Arms {
		v := x[i]
		a.Metrics = append(a.Metrics, record.Metric{Name: name, Source: "sensor", Value: &v})
	}
	return g
}

func TestCauses(t *testing.T) {
	for _, c := range []struct {
		name string
		g    *record.Group
		want []string
	}{
		{"nothing jumps", with(block(ab(""), 0, "ABBA", 100, 101, 101, 100), "gpu.clock_mhz_mean", 1620, 1500, 1500, 1620), nil},
		{"a clock behind a gain", with(block(ab(""), 0, "BAAB", 162, 100, 101, 163), "gpu.clock_mhz_mean", 1620, 951, 985, 1620),
			[]string{"side B is at +61.69 % of A, and differs in more than its levers: gpu.clock_mhz_mean 1620 against 968 (+67.36 %)"}},
		{"a clock that speaks against", with(block(ab(""), 0, "BAAB", 162, 100, 101, 163), "gpu.clock_mhz_mean", 951, 1620, 1620, 985), nil},
		{"clocks that overlap", with(block(ab(""), 0, "BAAB", 162, 100, 101, 163), "gpu.clock_mhz_mean", 1620, 951, 1630, 1620), nil},
		{"one arm that swapped", with(block(ab(""), 0, "ABBA", 95, 101, 101, 100), "meminfo.swap_used_mib_growth", 260, 0, 0, 0),
			[]string{"arm A1 is at -5.00 % of the others of its side; likely cause: meminfo.swap_used_mib_growth 260 against 0"}},
		{"a cold cache", with(block(ab(""), 0, "ABBA", 77, 90, 90, 90), "strata.hit_rate", .7, .92, .92, .92),
			[]string{"arm A1 is at -14.44 % of the others of its side; likely cause: strata.hit_rate 0.7 against 0.92 (-23.91 %)"}},
		{"nothing measured", block(ab(""), 0, "ABBA"), nil},
	} {
		got := Causes(c.g)
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: got %q, want %q", c.name, got[i], c.want[i])
			}
		}
	}
	g := with(block(ab(""), 0, "BAAB", 162, 100, 101, 163), "gpu.clock_mhz_mean", 1620, 951, 985, 1620)
	Judge(g, nil)
	if !warned(g, "differs in more than its levers: gpu.clock_mhz_mean") {
		t.Errorf("the judge does not say it: %q", g.Warnings)
	}
}
