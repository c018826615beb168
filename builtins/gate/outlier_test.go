package gate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"flow/workflows/record"
)

func outlierWords(g *record.Group) (out []string) {
	for _, w := range g.Warnings {
		if strings.HasPrefix(w, "outlier: ") {
			out = append(out, w)
		}
	}
	return out
}

// One control of eight at 48 among 200: the interval is wide because of it, and it is named.
func TestOutlierIsNamed(t *testing.T) {
	g := ab("", lever("x"))
	for b, y := range [][]float64{{200, 206, 206.4, 200.2}, {199.8, 205.8, 206.2, 48}, {200.1, 206.1, 206, 199.9}, {200, 205.9, 206.3, 200.3}} {
		block(g, b, "ABBA", y...)
	}
	Judge(g, nil)
	if got := outlierWords(g); len(got) != 1 || !strings.Contains(got[0], "arm A8 is at 48, the other 7 of side A at 199.8 to 200.3: it counts") {
		t.Errorf("got %q", got)
	}
}

// One normal side in a hundred has one that is none.
func TestOutliersOfNormalSides(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 22))
	const runs = 2000
	told := 0
	for range runs {
		g := ab("", lever("x"))
		for b := range 3 {
			var y [4]float64
			for i := range y {
				y[i] = 100 * math.Exp(.05*r.NormFloat64())
			}
			block(g, b, "ABBA", y[:]...)
		}
		var v verdict
		v.outliers(g, Blocks(g))
		told += len(v.warnings)
	}
	if rate := float64(told) / (2 * runs); rate > .02 {
		t.Errorf("%.3f of normal sides are told to have one, want .01", rate)
	}
}

// A block that lacks a cost is left out of that cost, and of no verdict.
func TestCostLeftOutAlone(t *testing.T) {
	g := ab("", lever("x"))
	g.Costs = map[string]float64{"cost": .05}
	for b := range 2 {
		block(g, b, "ABBA", 100, 105, 105.1, 100.1)
	}
	for i, a := range g.Arms {
		if i != 5 {
			a.Metrics = append(a.Metrics, value("cost", 10+.01*float64(i)))
		}
	}
	Judge(g, nil)
	if w := strings.Join(g.Warnings, "\n"); !strings.Contains(w, "block 2 left out of cost cost alone: arm B6") || strings.Contains(w, "block 2 left out:") {
		t.Errorf("got %s", w)
	}
}
