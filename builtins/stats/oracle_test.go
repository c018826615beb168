package stats

import (
	"math"
	"testing"
)

// near fails when got is not want to within tol.
func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tol {
		t.Errorf("%s: got %.9g, want %.9g", what, got, want)
	}
}

func sides(s string) []bool {
	var o []bool
	for _, r := range s {
		o = append(o, r == 'B')
	}
	return o
}

// Section 3.1: the table of biases.
func TestSection31Biases(t *testing.T) {
	const skip = -999
	for _, c := range []struct {
		order                              string
		lin, quad, cub, cold, carry, warmd float64
	}{
		{"AABB", 2, 6, 17, -.5, skip, skip},
		{"ABAB", 1, 3, 10, -.5, -.5, -.5},
		{"ABBA", 0, -2, -9, -.5, 0, 0},
		{"BAAB", 0, 2, 9, .5, -.5, 0},
		{"ABBAABBA", 0, -2, -21, -.25, 0, 0},
		{"ABBABAAB", 0, 0, 12, -.25, skip, -.25},
	} {
		b, ok := BiasOf(sides(c.order))
		if !ok {
			t.Fatalf("%s: no bias", c.order)
		}
		for _, x := range []struct {
			name      string
			got, want float64
		}{{"linear", b.Linear, c.lin}, {"quadratic", b.Quadratic, c.quad}, {"cubic", b.Cubic, c.cub},
			{"cold", b.ColdFirst, c.cold}, {"carry", b.CarryOver, c.carry}, {"carry warm", b.CarryWarm, c.warmd}} {
			if x.want != skip {
				near(t, c.order+" "+x.name, x.got, x.want, 1e-12)
			}
		}
		if b.Confounded() != (c.lin != 0) {
			t.Errorf("%s: confounded %v", c.order, b.Confounded())
		}
	}
	if _, ok := BiasOf(sides("AAA")); ok {
		t.Error("an order of one side has a bias")
	}
}

// Section 3.1: the ladder, on raw values and (section 4) in logs.
func TestSection31Ladder(t *testing.T) {
	y := []float64{100.0, 105.2, 100.4, 103.7, 100.8, 99.2, 101.2}
	labels := []string{"U", "S1", "U", "S2", "U", "S3", "U"}
	logs, _ := Logs(y)
	for i, c := range []struct{ raw, pct, logPct float64 }{
		{5, 4.99002, 4.990229}, {3.1, 3.08151, 3.081715}, {-1.8, -1.78218, -1.781986},
	} {
		rung := []string{"S1", "S2", "S3"}[i]
		e, ok := Rung([]Ladder{{y, labels}}, "U", rung, nil)
		if !ok {
			t.Fatal(rung)
		}
		near(t, rung, e.Diff, c.raw, 1e-9)
		near(t, rung+" factor", e.K, 1.5, 1e-12)
		u := (y[2*i] + y[2*i+2]) / 2
		near(t, rung+" of control", 100*e.Diff/u, c.pct, 5e-6)
		l, _ := Rung([]Ladder{{logs, labels}}, "U", rung, nil)
		near(t, rung+" log", 100*math.Expm1(l.Diff), c.logPct, 5e-7)
	}
}

// A rung that disagrees with itself more than the controls do is not given the controls' calm.
func TestRungOwnNoise(t *testing.T) {
	labels := []string{"U", "S", "U", "S", "U"}
	calm, _ := Rung([]Ladder{{[]float64{0, 1, .01, 1, 0}, labels}}, "U", "S", nil)
	wild, _ := Rung([]Ladder{{[]float64{0, .5, .01, 1.5, 0}, labels}}, "U", "S", nil)
	d, f := Ladder{[]float64{0, .5, .01, 1.5, 0}, labels}.Deltas("U", "S")
	if len(d) != 2 || f[0] != 1.5 || wild.Diff != calm.Diff {
		t.Fatal(d, f, calm, wild)
	}
	near(t, "calm", calm.ArmSD, .01/math.Sqrt2, 1e-12)
	near(t, "wild", wild.ArmSD, math.Sqrt((d[0]-d[1])*(d[0]-d[1])/2/1.5), 1e-12)
	// Several ladders: their disagreement counts, and the factor halves.
	two, _ := Rung([]Ladder{{[]float64{0, 1, 0}, labels[:3]}, {[]float64{0, 2, 0}, labels[:3]}}, "U", "S", nil)
	near(t, "two ladders", two.Diff, 1.5, 1e-12)
	near(t, "factor", two.K, .75, 1e-12)
	near(t, "sd", two.ArmSD, math.Sqrt(.5/1.5), 1e-12)
}

// Section 3.1: control noise with the drift removed.
func TestSection31VonNeumann(t *testing.T) {
	u := []float64{100, 101.1, 99.6, 100.9, 99.9}
	sd, df, ok := VonNeumann(u)
	if !ok {
		t.Fatal("no noise")
	}
	near(t, "sd", sd, .876784, 5e-7)
	near(t, "df of 4 differences, 2·16/11", df, 32./11, 1e-12)
	_, ss := meanSS(u)
	near(t, "plain sd", math.Sqrt(ss/4), .659545, 5e-7)
	near(t, "ratio", 2*sd*sd/(ss/4), 3.534, 5e-4)
	if _, _, ok := VonNeumann([]float64{1}); ok {
		t.Error("one control has noise")
	}
}

var twoQuads = []Quad{
	{Y: [4]float64{100.0, 102.3, 102.9, 101.1}},
	{Y: [4]float64{103.0, 101.2, 101.5, 103.9}, BFirst: true},
}

func logQuads(qs []Quad) []Quad {
	out := append([]Quad(nil), qs...)
	for i := range out {
		for j := range out[i].Y {
			out[i].Y[j] = math.Log(out[i].Y[j])
		}
	}
	return out
}

// Section 3.2: two quads.
func TestSection32Quads(t *testing.T) {
	for i, c := range []float64{2.05, 2.10} {
		near(t, "c", twoQuads[i].Contrast(), c, 1e-9)
		near(t, "h", twoQuads[i].Curvature(), []float64{-.7, 0}[i], 1e-9)
	}
	e, ok := Quads(twoQuads, nil)
	if !ok {
		t.Fatal("no estimate")
	}
	near(t, "tau", e.Diff, 2.075, 1e-9)
	near(t, "s²", e.ArmSD*e.ArmSD, .008583333, 5e-10)
	near(t, "SE", e.SE, .06551081, 5e-9)
	tt, _ := e.T(0)
	near(t, "t", tt, 31.67416, 5e-5)
	near(t, "df", e.DF, 3, 0)
	low, high, _ := e.Interval(.95)
	near(t, "low", low, 1.866515, 5e-7)
	near(t, "high", high, 2.283485, 5e-7)

	// The same data as four naive pairs and as two contrasts.
	p, _ := Pairs([]float64{100.0, 101.1, 101.2, 101.5}, []float64{102.3, 102.9, 103.0, 103.9}, nil)
	near(t, "pair sd", p.ArmSD*math.Sqrt2, .3201562, 5e-8)
	low, high, _ = p.Interval(.95)
	near(t, "pair half-width", (high-low)/2, .509440, 5e-7)
	m, _ := Mean([]float64{2.05, 2.10})
	low, high, _ = m.Interval(.95)
	near(t, "contrast half-width", (high-low)/2, .317655, 5e-7)

	// Section 4: in logs.
	e, _ = Quads(logQuads(twoQuads), nil)
	near(t, "log tau", 100*math.Expm1(e.Diff), 2.055524, 5e-7)
	low, high, _ = e.Interval(.95)
	near(t, "log low", 100*math.Expm1(low), 1.857744, 5e-7)
	near(t, "log high", 100*math.Expm1(high), 2.253688, 5e-7)
	tt, _ = e.T(0)
	near(t, "log t", tt, 33.38040, 5e-6)
}

// Section 3.2: one global linear trend.
func TestSection32Trend(t *testing.T) {
	y := []float64{100, 103, 104, 103, 106, 104, 105, 108.5}
	e, drift, ok := Trend(y, sides("ABBABAAB"), nil)
	if !ok {
		t.Fatal("no estimate")
	}
	near(t, "tau", e.Diff, 2.375, 1e-9)
	near(t, "drift", drift, .863095, 5e-7)
	near(t, "RSS", e.ArmSD*e.ArmSD*5, .400298, 5e-7)
	near(t, "df", e.DF, 5, 0)
	near(t, "SE", e.SE, .200074, 5e-7)
	tt, _ := e.T(0)
	near(t, "t", tt, 11.870585, 5e-6)
	p, _ := e.P()
	near(t, "p", p, .000075, 5e-7)
	low, high, _ := e.Interval(.95)
	near(t, "low", low, 1.8607, 5e-5)
	near(t, "high", high, 2.8893, 5e-5)
}

// Section 3.2: the exact case must not print p = 0.
func TestSection32NoResidualVariation(t *testing.T) {
	q := []Quad{{Y: [4]float64{100, 103, 104, 103}}}
	for _, qs := range [][]Quad{q, logQuads([]Quad{{Y: [4]float64{100, 102, 102, 100}}})} {
		e, _ := Quads(qs, nil)
		if !e.Zero || e.DF != 1 || e.SE != 0 {
			t.Errorf("got %+v, want no residual variation on one df", e)
		}
		if p, ok := e.P(); ok {
			t.Errorf("p = %v was said", p)
		}
		if want := "no residual variation, df=1"; len(e.NoVariation()) < len(want) || e.NoVariation()[:len(want)] != want {
			t.Errorf("got %q", e.NoVariation())
		}
		if low, high, ok := e.Interval(.95); !ok || low != e.Diff || high != e.Diff {
			t.Errorf("interval [%v, %v] of %v", low, high, e.Diff)
		}
		// Borrowed noise takes its place.
		b, _ := Quads(qs, &Noise{SD: .003, DF: 20})
		if b.Zero || b.DF != 9 || b.SE == 0 {
			t.Errorf("with borrowed noise: %+v", b)
		}
	}
	e, _ := Quads(q, nil)
	near(t, "tau", e.Diff, 2, 1e-12)
	_, drift, _ := Trend([]float64{100, 103, 104, 103}, sides("ABBA"), nil)
	near(t, "drift", drift, 1, 1e-12)
}

// Section 3.2: that pairing matters.
func TestSection32Pairing(t *testing.T) {
	a := []float64{100, 102, 104, 106, 108}
	b := []float64{101.1, 102.9, 105.0, 107.2, 108.8}
	e, _ := Pairs(a, b, nil)
	tt, _ := e.T(0)
	p, _ := e.P()
	near(t, "T", tt, 14.142136, 5e-7)
	near(t, "p", p, .00014513, 5e-9)
	wt, _, wp, _ := Welch(b, a)
	near(t, "Welch T", wt, .503473, 5e-7)
	near(t, "Welch p", wp, .628202, 5e-7)
}

// Section 3.3: the five pairs as pairs, raw and in logs, as their differences are in TestSection33FivePairs.
func TestSection33Pairs(t *testing.T) {
	a := []float64{100.0, 101.0, 99.5, 100.2, 100.8}
	b := []float64{102.1, 102.9, 101.0, 102.6, 102.3}
	e, _ := Pairs(a, b, nil)
	near(t, "mean", e.Diff, 1.88, 5e-8)
	near(t, "sd of a difference", e.ArmSD*math.Sqrt2, .3898718, 5e-8)
	near(t, "SE", e.SE, .1743560, 5e-8)
	gt, _ := e.T(0)
	near(t, "t", gt, 10.78254, 5e-6)
	p, _ := e.P()
	near(t, "p", p, .000420, 5e-7)
	low, high, _ := e.Interval(.95)
	near(t, "low", low, 1.395910, 5e-7)
	near(t, "high", high, 2.364090, 5e-7)
	near(t, "median", Median(PairDeltas(a, b)), 1.9, 1e-9)

	la, _ := Logs(a)
	lb, _ := Logs(b)
	e, _ = Pairs(la, lb, nil)
	near(t, "log mean", e.Diff, .0185647, 5e-8)
	near(t, "log sd", e.ArmSD*math.Sqrt2, .0038193, 5e-8)
	r, _ := Ratio(e.Diff)
	near(t, "ratio", 1+r, 1.018738, 5e-7)
}

// Section 4: half-widths with 8 borrowed df and own, and the smallest effects, of Q quads.
func TestSection4QuadTables(t *testing.T) {
	for i, c := range []struct{ own, borrowed float64 }{{16.3, 3.15}, {3.01, 2.18}, {2.03, 1.75}, {1.63, 1.50}, {1.41, 1.33}, {1.26, 1.21}} {
		Q := float64(i + 1)
		own, _ := MDE(1/Q, 2*Q-1, .05, .8)
		bor, _ := MDE(1/Q, 2*Q+7, .05, .8)
		step := .01
		if c.own > 10 {
			step = .1
		}
		near(t, "own MDE", own, c.own, step/2+1e-3*c.own)
		near(t, "borrowed MDE", bor, c.borrowed, .005+1e-3*c.borrowed)
	}
	for i, c := range []struct{ own, borrowed float64 }{{12.7, 2.26}, {2.25, 1.56}, {1.48, 1.25}, {1.18, 1.07}} {
		Q := float64(i + 1)
		step := .01
		if c.own > 10 {
			step = .1
		}
		near(t, "own", TQuantile(.975, 2*Q-1)/math.Sqrt(Q), c.own, .51*step)
		near(t, "borrowed", TQuantile(.975, 2*Q+7)/math.Sqrt(Q), c.borrowed, .0051)
	}
}

// Sections 3.7 and 4: Pocock's p and constants, the recursion behind them, O'Brien-Fleming's boundaries.
func TestSection37Looks(t *testing.T) {
	for i, p := range []float64{.05, .0294, .0221, .0182, .0158} {
		near(t, "p", PocockP(i+1), p, 5e-5)
	}
	for i, z := range []float64{2.178, 2.289, 2.361, 2.413} {
		near(t, "alpha of z", PocockCrossing(i+2, z), .05, 1e-4)
	}
	for _, k := range []int{6, 8, 11, 14, 40} { // in the table and between its entries
		a := PocockCrossing(k, zOf(PocockP(k)))
		if a > .0500005 || a < .046 {
			t.Errorf("%d looks cross with %.5f, want just under .05", k, a)
		}
	}
	if p := PocockP(500); p > .0001 {
		t.Errorf("500 looks at p %v", p)
	}
	last := 1.0
	for k := 1; k < 300; k++ {
		p := PocockP(k)
		if p > last || p <= 0 {
			t.Fatalf("p of %d looks is %v after %v", k, p, last)
		}
		last = p
	}
	for i, c := range []float64{1.977, 2.004, 2.024, 2.040} {
		k := i + 2
		near(t, "OBF alpha", crossing(k, func(look int) float64 { return OBrienFlemingZ(look, k, c) }), .05, 1e-4)
	}
	for i, z := range []float64{3.471, 2.454, 2.004} {
		near(t, "OBF boundary", OBrienFlemingZ(i+1, 3, 2.004), z, 5e-4)
	}
}

func zOf(p float64) float64 { return TQuantile(1-p/2, 1e9) }

// Section 3.7: the e-process, and section 4: on quads.
func TestSection37EProcess(t *testing.T) {
	near(t, "g=1", EValue(5, 4, 10.78254, 1), 24.50614, 5e-5)
	near(t, "g=4", EValue(5, 4, 10.78254, 4), 123.24447, 5e-4)
	inf := math.Inf(1)
	near(t, "ceiling n=4", EValue(4, 3, inf, 1), 11.18, 5e-3)
	near(t, "ceiling n=5, (1+5)^(4/2)", EValue(5, 4, inf, 1), 36, 1e-9)
	for _, c := range []struct{ n, g, t float64 }{{5, 1, 8.453}, {6, 1, 5.450}, {8, 1, 4.251}, {10, 1, 3.870}, {4, 4, 7.214}, {5, 4, 5.357}, {6, 4, 4.729}, {10, 4, 3.971}} {
		crit, ok := ECritical(c.n, c.n-1, .05, c.g)
		if !ok {
			t.Fatal(c)
		}
		near(t, "critical", crit, c.t, 5e-4)
	}
	if _, ok := ECritical(4, 3, .05, 1); ok {
		t.Error("four pairs can stop at g = 1")
	}
	near(t, "quads g=4", QuadE(2, 31.67416, 4), 25.7567, 5e-4)
	near(t, "quads g=1", QuadE(2, 31.67416, 1), 5.1347, 5e-4)
	for _, c := range []struct {
		g float64
		q int
		t float64
	}{{4, 2, 12.052}, {4, 3, 4.823}, {4, 4, 4.139}, {10, 2, 6.875}, {10, 3, 4.749}, {10, 4, 4.246}} {
		crit, _ := ECritical(float64(c.q), float64(2*c.q-1), .05, c.g)
		near(t, "quad critical", crit, c.t, 5e-4)
	}
	if _, ok := ECritical(2, 3, .05, 1); ok {
		t.Error("two quads can stop at g = 1")
	}
}

// Section 3.5: the pooled sd, and that an outlier is named.
func TestSection35Pool(t *testing.T) {
	n, left := Pool([]Unit{{"a", 9 * .64, 9}, {"b", 3 * .36, 3}})
	if len(left) != 0 {
		t.Error("two units and one left out")
	}
	near(t, "pooled", n.SD, .754983, 5e-7)
	near(t, "df", n.DF, 12, 0)
	near(t, "half-width at n=4", TQuantile(.975, 12)*n.SD/2, .82248, 5e-6)
	if n, _ := Pool(nil); n != nil {
		t.Error("nothing pooled to something")
	}
	if n, _ := Pool([]Unit{{"z", 0, 4}}); n != nil {
		t.Error("zero noise was pooled")
	}
}
