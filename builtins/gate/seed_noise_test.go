package gate

import (
	"math"
	"strings"
	"testing"

	"flow/builtins/stats"
)

// sideUnits is the noise of each side of the complete groups of the record: two runs of one thing, the log of
// their ratio squared over two, on one degree of freedom.
func sideUnits(t *testing.T) (main, followUp []stats.Unit) {
	t.Helper()
	for i, g := range seeds(t).Groups {
		if len(g.Arms) != 4 {
			continue
		}
		for _, side := range []string{"A", "B"} {
			var y []float64
			for _, a := range g.Arms {
				if a.Label == side {
					y = append(y, math.Log(a.Steady))
				}
			}
			if len(y) != 2 {
				t.Fatalf("%s: %d runs of %s", g.ID, len(y), side)
			}
			u := stats.Unit{Name: g.ID + " " + side, SS: (y[0] - y[1]) * (y[0] - y[1]) / 2, DF: 1}
			if i < 10 {
				main = append(main, u)
			} else {
				followUp = append(followUp, u)
			}
		}
	}
	return main, followUp
}

func pooledPct(us []stats.Unit, without string) float64 {
	ss, df := 0.0, 0.0
	for _, u := range us {
		if u.Name != without {
			ss, df = ss+u.SS, df+u.DF
		}
	}
	return 100 * math.Sqrt(ss/df)
}

// Section 4, borrowed noise: one depressed arm moves the pooled sd of the record's 32 sides from .27 % to
// .66 %, and the robust rule names the side that holds it.
func TestSection4SeedNoise(t *testing.T) {
	const depressed = "post-moe-flush-all-layers A"
	main, followUp := sideUnits(t)
	all := append(append([]stats.Unit(nil), main...), followUp...)
	if len(all) != 32 || len(main) != 16 {
		t.Fatalf("%d and %d sides, want 16 and 16", len(main), len(followUp))
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"all", pooledPct(all, ""), .664},
		{"without the depressed side", pooledPct(all, depressed), .269},
		{"main", pooledPct(main, ""), .239},
		{"follow-up", pooledPct(followUp, depressed), .297},
	} {
		if math.Abs(c.got-c.want) > 5e-4 {
			t.Errorf("%s: got %.4f %%, want %.3f %%", c.name, c.got, c.want)
		}
	}
	n, left := stats.Pool(all)
	if len(left) != 1 || left[0] != depressed || n.DF != 31 || math.Abs(100*n.SD-.269) > 5e-4 || !strings.HasSuffix(n.From, "without "+depressed) {
		t.Errorf("left out %v, got %+v", left, n)
	}
}

// Section 4, ladders: the controls of the ladder of 27 September, and its rungs as plain ratios.
func TestSection4SeedLadder(t *testing.T) {
	l := seeds(t).Ladder
	raw := stats.Ladder{Labels: l.Sequence}
	for i, a := range l.Arms {
		if a.Label != l.Sequence[i] {
			t.Fatalf("arm %d is %s, want %s", i, a.Label, l.Sequence[i])
		}
		raw.Y = append(raw.Y, a.Steady)
	}
	logs, ok := stats.Logs(raw.Controls("U"))
	if !ok {
		t.Fatal("no logarithms")
	}
	e, _ := stats.Mean(logs)
	vn, _, _ := stats.VonNeumann(logs)
	for _, c := range []struct {
		name              string
		got, want, within float64
	}{
		{"plain log sd, %", 100 * e.ArmSD, .684, 5e-4},
		{"von Neumann, %", 100 * vn, .807, 5e-4},
		{"ratio", 2 * vn * vn / (e.ArmSD * e.ArmSD), 2.778, 5e-4},
	} {
		if math.Abs(c.got-c.want) > c.within {
			t.Errorf("%s: got %.5f, want %v", c.name, c.got, c.want)
		}
	}
	// The mean of each rung's two ratios to its interpolated control.
	for rung, want := range map[string]float64{"S1": 1.836650, "S2": 2.077456, "S3": 2.188908} {
		deltas, factors := raw.Deltas("U", rung)
		mean, at := 0.0, 0
		for i, label := range raw.Labels {
			if label == rung {
				mean += raw.Y[i] / (raw.Y[i] - deltas[at]) / float64(len(deltas))
				at++
			}
		}
		if at != 2 || math.Abs(mean-want) > 5e-7 {
			t.Errorf("%s: got %.6f from %d, want %.6f", rung, mean, at, want)
		}
		if rung == "S3" && math.Abs(factors[0]-(1+4./9+1./9)) > 1e-12 {
			t.Errorf("S3 S3 shares controls by %v", factors[0])
		}
	}
}
