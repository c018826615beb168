package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// coverageTable is section 4's: coverage of the quad model's 95 % interval at Q = 1, 2, 3, 5. Where section 4
// prints a range or rounds a row to two digits, its simulation's own cells stand here. world is the same trouble
// as flow's simulated machine has it, where it has it.
var coverageTable = []struct { // never written to
	name  string
	tr    trouble
	world World
	order string
	want  [4]float64
	exact bool // by theory
}{
	{"none", trouble{}, World{}, allABBA, [4]float64{.95, .95, .95, .95}, true},
	{"none", trouble{}, World{}, alternating, [4]float64{.95, .95, .95, .95}, true},
	{"none", trouble{}, World{}, byCoin, [4]float64{.95, .95, .95, .95}, true},
	{"linear to 2 sd an arm", trouble{linear: 2}, World{Drift: 2}, allABBA, [4]float64{.95, .95, .95, .95}, true},
	{"linear to 2 sd an arm", trouble{linear: 2}, World{Drift: 2}, alternating, [4]float64{.95, .95, .95, .95}, true},
	{"linear to 2 sd an arm", trouble{linear: 2}, World{Drift: 2}, byCoin, [4]float64{.95, .95, .95, .95}, true},
	{"quadratic .3", trouble{quadratic: .3}, World{Curve: .3}, allABBA, [4]float64{.939, .903, .859, .777}, false},
	{"quadratic .3", trouble{quadratic: .3}, World{Curve: .3}, alternating, [4]float64{.942, .961, .957, .962}, false},
	{"quadratic .3", trouble{quadratic: .3}, World{Curve: .3}, byCoin, [4]float64{.938, .931, .933, .935}, false},
	{"cold quads, 2 sd", trouble{coldQuad: 2}, World{ColdBlock: 2}, allABBA, [4]float64{.937, .851, .744, .531}, false},
	{"cold quads, 2 sd", trouble{coldQuad: 2}, World{ColdBlock: 2}, alternating, [4]float64{.934, .982, .969, .978}, false},
	{"cold quads, 2 sd", trouble{coldQuad: 2}, World{ColdBlock: 2}, byCoin, [4]float64{.933, .917, .914, .920}, false},
	{"cold quads, 5 sd", trouble{coldQuad: 5}, World{ColdBlock: 5}, allABBA, [4]float64{.913, .594, .221, .013}, false},
	{"cold quads, 5 sd", trouble{coldQuad: 5}, World{ColdBlock: 5}, alternating, [4]float64{.914, 1, .999, .999}, false},
	{"cold quads, 5 sd", trouble{coldQuad: 5}, World{ColdBlock: 5}, byCoin, [4]float64{.917, .796, .806, .882}, false},
	{"cold session, 5 sd", trouble{coldSession: 5}, World{Cold: 5}, allABBA, [4]float64{.919, .940, .934, .932}, false},
	{"cold session, 5 sd", trouble{coldSession: 5}, World{Cold: 5}, alternating, [4]float64{.912, .941, .935, .931}, false},
	{"cold session, 5 sd", trouble{coldSession: 5}, World{Cold: 5}, byCoin, [4]float64{.914, .937, .937, .928}, false},
	{"carry-over, no warm arm", trouble{carry: 1}, World{Carry: 1}, allABBA, [4]float64{.954, .959, .959, .959}, false},
	{"carry-over, no warm arm", trouble{carry: 1}, World{Carry: 1}, alternating, [4]float64{.958, .959, .948, .912}, false},
	{"carry-over, no warm arm", trouble{carry: 1}, World{Carry: 1}, byCoin, [4]float64{.954, .950, .949, .938}, false},
	{"carry-over, warm arm", trouble{carry: 1, warmArm: true}, World{Carry: 1}, allABBA, [4]float64{.955, .959, .960, .958}, false},
	{"carry-over, warm arm", trouble{carry: 1, warmArm: true}, World{Carry: 1}, alternating, [4]float64{.955, .958, .958, .958}, false},
	{"carry-over, warm arm", trouble{carry: 1, warmArm: true}, World{Carry: 1}, byCoin, [4]float64{.956, .958, .958, .961}, false},
	{"AR(1) .5", trouble{ar: .5}, World{AR: .5}, alternating, [4]float64{.940, .936, .938, .939}, false},
	{"AR(1) .5", trouble{ar: .5}, World{AR: .5}, byCoin, [4]float64{.938, .933, .928, .928}, false},
	{"t3", trouble{t3: true}, World{T3: true}, alternating, [4]float64{.950, .956, .957, .955}, false},
	{"t3", trouble{t3: true}, World{T3: true}, byCoin, [4]float64{.955, .955, .956, .952}, false},
	{"3 % depressed arms", trouble{depressed: .03}, World{}, alternating, [4]float64{.951, .959, .963, .962}, false},
	{"3 % depressed arms", trouble{depressed: .03}, World{}, byCoin, [4]float64{.954, .959, .959, .962}, false},
	{"unequal quad noise", trouble{unequal: .5}, World{}, alternating, [4]float64{.950, .960, .960, .956}, false},
	{"unequal quad noise", trouble{unequal: .5}, World{}, byCoin, [4]float64{.948, .959, .958, .957}, false},
	{"random walk", trouble{walk: 1}, World{}, alternating, [4]float64{.942, .944, .944, .943}, false},
	{"random walk", trouble{walk: 1}, World{}, byCoin, [4]float64{.943, .944, .946, .945}, false},
}

// tableRuns is how many sessions stand behind a cell of section 4's tables.
const tableRuns = 20000

// modelHolds: the interval of the plain quad model, without the larger of two standard errors, holds no effect.
func modelHolds(qs []Quad, cr crit) bool {
	tau, curvature, spread := quadSums(qs)
	df := float64(2*len(qs) - 1)
	return math.Abs(tau) <= cr.at(.05, df)*math.Sqrt((curvature+spread)/df/float64(len(qs)))
}

// Section 4: each cell of the table of coverage.
func TestSection4Coverage(t *testing.T) {
	n := sessions(t)
	cr := crit{}
	for i, c := range coverageTable {
		for k, Q := range []int{1, 2, 3, 5} {
			r := rand.New(rand.NewPCG(40+uint64(i), uint64(Q)))
			hit := 0
			for range n {
				if modelHolds(c.tr.quads(r, Q, c.order), cr) {
					hit++
				}
			}
			of, step := float64(tableRuns), .001
			if c.exact {
				of, step = exactly, 0
			}
			nearRate(t, fmt.Sprintf("%s, %s, Q = %d", c.name, c.order, Q), float64(hit)/float64(n), n, c.want[k], of, step)
		}
	}
	// The bias of a cold first slot of the session is 2.5 sd/Q, exactly, and so in the simulated machine.
	for Q := 1; Q <= 5; Q++ {
		for _, order := range []string{allABBA, alternating} {
			e, _ := Quads(worldQuads(World{Cold: 5}, 0, Q, order, false), nil)
			near(t, "bias", e.Diff, 2.5/float64(Q), 1e-12)
		}
	}
}

// Section 4, standard error: a global straight line over-covers under curvature, which is why it is not the default.
func TestSection4CoverageOfTrend(t *testing.T) {
	n := sessions(t)
	cr := crit{}
	for _, c := range []struct {
		order string
		want  [3]float64 // Q = 1, 2, 3; at one quad it is the quad model
	}{
		{allABBA, [3]float64{.939, .998, 1}},
		{alternating, [3]float64{.942, 1, 1}},
		{byCoin, [3]float64{.938, .998, 1}},
	} {
		for k, want := range c.want {
			r := rand.New(rand.NewPCG(49, uint64(k)))
			hit := 0
			for range n {
				var y []float64
				var order []bool
				for _, q := range (trouble{quadratic: .3}).quads(r, k+1, c.order) {
					y = append(y, q.Y[:]...)
					order = append(order, q.BFirst, !q.BFirst, !q.BFirst, q.BFirst)
				}
				if e, _, ok := Trend(y, order, nil); ok && !cr.outside(e, .05) {
					hit++
				}
			}
			nearRate(t, fmt.Sprintf("%s, Q = %d", c.order, k+1), float64(hit)/float64(n), n, want, tableRuns, .001)
		}
	}
}

// worldQuads is a session on flow's simulated machine.
func worldQuads(w World, key uint64, Q int, order string, warmArm bool) []Quad {
	r := rand.New(rand.NewPCG(key, 77))
	qs := make([]Quad, Q)
	before := false
	for q := range qs {
		qs[q].BFirst = order == alternating && q%2 == 1 || order == byCoin && r.IntN(2) == 1
		for i := range 4 {
			isB := (i == 1 || i == 2) != qs[q].BFirst
			if i == 0 && warmArm {
				before = isB
			}
			qs[q].Y[i] = w.Log(Place{Seed: key, Session: 4*q + i, Block: q, Slot: i, BlockLen: 4, After: before})
			before = isB
		}
	}
	return qs
}

// Section 4: flow's simulated machine covers as the machine of the table does, so that what `--simulate` says of
// a rule is what the table would.
func TestSection4CoverageOfWorld(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 600
	}
	cr := crit{}
	for i, c := range coverageTable {
		if c.world == (World{}) {
			continue
		}
		w := c.world
		w.SD = 1 // effects of place are small beside it, so that logarithms are values
		for k, Q := range []int{1, 2, 3, 5} {
			hit := 0
			for s := range n {
				if modelHolds(worldQuads(w, uint64(i+1)<<32|uint64(s), Q, c.order, c.tr.warmArm), cr) {
					hit++
				}
			}
			nearRate(t, fmt.Sprintf("%s, %s, Q = %d", c.name, c.order, Q), float64(hit)/float64(n), n, c.want[k], tableRuns, .001)
		}
	}
}

// Section 4: the seeds' own rule, two runs a side, both deltas positive, a gain of at least m; σ = .27 %. Its
// table is of 400,000 sessions a figure.
func TestSection4SeedsRule(t *testing.T) {
	n := 2 * sessions(t)
	r := rand.New(rand.NewPCG(4, 27))
	accept := func(order string, place [4]float64, effect, m float64) float64 {
		hit := 0
		for range n {
			var a, b []float64
			for i, l := range order {
				x := place[i] + .27*r.NormFloat64()
				if l == 'B' {
					b = append(b, x+effect)
				} else {
					a = append(a, x)
				}
			}
			d := PairDeltas(a, b)
			if d[0] > 0 && d[1] > 0 && (d[0]+d[1])/2 >= m {
				hit++
			}
		}
		return float64(hit) / float64(n)
	}
	calm, cold, drift := [4]float64{}, [4]float64{-1}, [4]float64{0, .16, .32, .48}
	for _, c := range []struct {
		name      string
		order     string
		place     [4]float64
		effect, m float64
		want      float64
		step      float64
	}{
		{"no effect, m = 0", "ABBA", calm, 0, 0, .25, 0},
		{"no effect, m = .25", "ABBA", calm, 0, .25, .147, .001},
		{"no effect, m = .45", "ABBA", calm, 0, .45, .045, .001},
		{"no effect, m = 1", "ABBA", calm, 0, 1, .0001, .0001},
		{"cold first arm", "ABBA", cold, 0, 0, .50, .01},
		{"cold first arm", "ABAB", cold, 0, 0, .50, .01},
		{"cold first arm", "BAAB", cold, 0, 0, .002, .001},
		{"drift .16 an arm", "ABAB", drift, 0, 0, .44, .01},
		{"true .25", "ABBA", calm, .25, 0, .55, .01},
		{"true .45", "ABBA", calm, .45, 0, .78, .01},
		{"true .8", "ABBA", calm, .8, 0, .96, .01},
	} {
		nearRate(t, c.name+", "+c.order, accept(c.order, c.place, c.effect, c.m), n, c.want, 400_000, c.step)
	}
	// Without drift, both deltas of independent arms are positive by chance in a quarter of all cases, exactly;
	// the power is Φ(effect/(σ√2))².
	for _, c := range []struct{ effect, want float64 }{{0, .25}, {.25, .55}, {.45, .78}, {.8, .96}} {
		p := 1 - upper(c.effect/(.27*math.Sqrt2))
		near(t, "in closed form", p*p, c.want, .0051)
	}
}
