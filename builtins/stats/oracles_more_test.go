package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Section 3.1: a Thue-Morse order of 2^k arms cancels drifts up to degree k−1; a quad that is warmed by its own
// first arm carries nothing over; a cold first slot of ABBA favours B by half its cost in tokens a second.
func TestSection31Rules(t *testing.T) {
	order := []bool{false}
	for k := 1; k <= 5; k++ {
		n := len(order)
		for i := range n {
			order = append(order, !order[i])
		}
		for degree := 0; degree <= k; degree++ {
			bias := 0.0
			for i, b := range order {
				v := math.Pow(float64(i), float64(degree))
				if b {
					bias += v
				} else {
					bias -= v
				}
			}
			if (bias == 0) != (degree < k) {
				t.Errorf("2^%d arms, degree %d: bias %v", k, degree, bias)
			}
		}
	}
	near(t, "ABBA and BAAB, quadratic", biasOf(t, "ABBABAAB").Quadratic, 0, 0)
	// Re-warmed quads: each is a fresh order with its own first arm before it.
	near(t, "ABBA and BAAB re-warmed", biasOf(t, "ABBA").CarryWarm+biasOf(t, "BAAB").CarryWarm, 0, 0)
	// Section 4: a cost of 3 on a time is a gain of 3/2 for B on a speed.
	q := Quad{Y: [4]float64{100 - 3, 100, 100, 100}}
	near(t, "cold first slot", q.Contrast(), 1.5, 1e-12)
}

func biasOf(t *testing.T, order string) OrderBias {
	t.Helper()
	b, ok := BiasOf(sides(order))
	if !ok {
		t.Fatalf("%s has no bias", order)
	}
	return b
}

// Section 3.1: if a control after a rung pays k, the first rung is off by −k/2 of a cost and later rungs by −k.
func TestSection31LadderCarryOver(t *testing.T) {
	labels := []string{"U", "S1", "U", "S2", "U", "S3", "U"}
	y := []float64{0, 0, 1, 0, 1, 0, 1} // a cost of 1 on every U that follows a rung
	for rung, want := range map[string]float64{"S1": -.5, "S2": -1, "S3": -1} {
		e, ok := Rung([]Ladder{{y, labels}}, "U", rung, nil)
		if !ok {
			t.Fatal(rung)
		}
		near(t, rung, e.Diff, want, 1e-12)
	}
}

// Section 3.2: pair deltas of ABBA under drift are τ+g and τ−g, so that their variance is too large.
func TestSection32PairVariance(t *testing.T) {
	near(t, "four quads, g = 1: 2 + 8/7", PairVariance(4, 1), 3.143, 5e-4)
	near(t, "no drift", PairVariance(4, 0), 2, 0)
	d := PairDeltas([]float64{0, 3}, []float64{1, 2}) // A0 B1 B2 A3 with a drift of 1
	near(t, "first pair", d[0], 1, 0)
	near(t, "second pair", d[1], -1, 0)
	r := rand.New(rand.NewPCG(32, 1))
	const runs = 20000
	mean := 0.0
	for range runs {
		var d []float64
		for range 4 {
			var y [4]float64
			for i := range y {
				y[i] = float64(i) + r.NormFloat64()
			}
			d = append(d, y[1]-y[0], y[2]-y[3])
		}
		_, ss := meanSS(d)
		mean += ss / 7 / runs
	}
	near(t, "simulated, 3.156 there", mean, 3.143, .05)
}

// Section 3.2: the level that the global trend leaves: mean(y) − τ/2 − drift·3.5 in slots from 0.
func TestSection32TrendLevel(t *testing.T) {
	y := []float64{100, 103, 104, 103, 106, 104, 105, 108.5}
	e, drift, ok := Trend(y, sides("ABBABAAB"), nil)
	if !ok {
		t.Fatal("no estimate")
	}
	mean, _ := meanSS(y)
	near(t, "b0", mean-e.Diff/2-3.5*drift, 99.979167, 5e-7)
}

// Sections 3.2 and 3.3: two samples by ranks.
func TestSection32And33MannWhitney(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []float64
		u, p float64
	}{
		{"pairing matters", []float64{100, 102, 104, 106, 108}, []float64{101.1, 102.9, 105.0, 107.2, 108.8}, 10, .690476},
		// 101.0 is in both: two of 252 splits are as far, on either side.
		{"five pairs", []float64{100.0, 101.0, 99.5, 100.2, 100.8}, []float64{102.1, 102.9, 101.0, 102.6, 102.3}, .5, 4. / 252},
		{"all alike", []float64{1, 1}, []float64{1, 1}, 2, 1},
		{"signs are not sizes", []float64{-5, -4, -3}, []float64{1, 2, 3}, 0, .1}, // 2 of 20
		{"one each", []float64{1}, []float64{2}, 0, 1},
	} {
		for _, swap := range []bool{false, true} {
			a, b := c.a, c.b
			if swap {
				a, b = b, a
			}
			u, p, ok := MannWhitney(a, b)
			if !ok {
				t.Fatal(c.name)
			}
			near(t, c.name+" U", u, c.u, 1e-12)
			near(t, c.name+" p", p, c.p, 5e-7)
		}
	}
	near(t, "the five pairs' p as printed", 4./252, .015873, 5e-7)
	for _, c := range [][2][]float64{{nil, {1}}, {{1}, nil}, {make([]float64, 20), make([]float64, 20)}, {{math.NaN()}, {1}}} {
		if _, _, ok := MannWhitney(c[0], c[1]); ok {
			t.Errorf("a rank test of %v", c)
		}
	}
}

// Section 3.4: the smallest effect by the z formula, which is wrong: (1.96 + .8416)/√n.
func TestSection34ZFormula(t *testing.T) {
	for i, want := range []float64{1.98, 1.62, 1.40, 1.25, 1.14, 1.06, .99, .93, .89} {
		n := float64(i + 2)
		z, ok := MDE(1/n, 1e9, .05, .8)
		if !ok {
			t.Fatal("no MDE")
		}
		near(t, "z formula", z, want, 5.1e-3)
		if true1, _ := MDE(1/n, n-1, .05, .8); true1 <= z {
			t.Errorf("n=%g: the t formula asks for %v, the z formula for %v", n, true1, z)
		}
	}
}

// Section 3.4: coverage of the percentile bootstrap on normal data, and that of two values it is the range.
func TestSection34BootstrapCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 34))
	const runs, resamples = 3000, 400
	percentile := func(d []float64) (low, high float64) { // what Bootstrap does, without its refusal
		means := make([]float64, resamples)
		for i := range means {
			for range d {
				means[i] += d[r.IntN(len(d))] / float64(len(d))
			}
		}
		slices.Sort(means)
		return means[resamples/40], means[resamples-resamples/40]
	}
	for n, want := range map[int]float64{2: .502, 3: .751, 4: .79, 5: .84, 6: .86, 8: .885, 10: .89} {
		step := .01
		if math.Abs(100*want-math.Round(100*want)) > 1e-9 {
			step = .001
		}
		hit := 0
		for run := range runs {
			d := make([]float64, n)
			for i := range d {
				d[i] = r.NormFloat64()
			}
			low, high := 0.0, 0.0
			if n < minBootstrap {
				low, high = percentile(d)
			} else {
				var err error
				if low, high, err = Bootstrap(d, .95, resamples, uint64(run)); err != nil {
					t.Fatal(err)
				}
			}
			if n == 2 && (low != slices.Min(d) || high != slices.Max(d)) {
				t.Fatalf("two values: [%v, %v] of %v", low, high, d)
			}
			if low <= 0 && high >= 0 {
				hit++
			}
		}
		nearRate(t, fmt.Sprintf("%d values", n), float64(hit)/runs, runs, want, 4000, step)
	}
}

// Section 3.5: own noise instead of the pooled one at four pairs; the best number of requests, as a whole
// number; and what pseudo-replication leaves.
func TestSection35Borrowing(t *testing.T) {
	near(t, "own half-width, 3.1824·.6/2", TQuantile(.975, 3)*.6/2, .95473, 5e-6)
	near(t, "100 values of 20 launches", 100/DesignEffect(5, .37), 40.3, .05)
	// The variance at a fixed cost: (σ_L²+σ_w²/m)·(60+5m).
	cost := func(m float64) float64 { return (1 + 4/m) * (60 + 5*m) }
	best, _ := BestRepeats(60, 5, 1, 2)
	for m := 1.0; m < 40; m++ {
		if m != 7 && cost(m) <= cost(7) {
			t.Errorf("%g requests are as good as 7, %g by formula", m, best)
		}
	}
}

// Section 3.7: looks at 4, 7 and 10 values with t at the thresholds of z: .0525 and .0522.
func TestSection37GroupSequentialT(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 2))
	runs := sessions(t)
	looks := []int{4, 7, 10}
	var pocock, obf [3]float64
	for i, n := range looks {
		pocock[i] = TQuantile(1-PocockP(3)/2, float64(n-1))
		p := 2 * upper(OBrienFlemingZ(i+1, 3, 2.004))
		obf[i] = TQuantile(1-p/2, float64(n-1))
	}
	var hits [2]int
	for range runs {
		d := make([]float64, 10)
		for i := range d {
			d[i] = r.NormFloat64()
		}
		for k, bound := range [][3]float64{pocock, obf} {
			for i, n := range looks {
				if e, _ := Mean(d[:n]); math.Abs(e.Diff/e.SE) > bound[i] {
					hits[k]++
					break
				}
			}
		}
	}
	nearRate(t, "Pocock", float64(hits[0])/float64(runs), runs, .0525, 400_000, .0001)
	nearRate(t, "O'Brien-Fleming", float64(hits[1])/float64(runs), runs, .0522, 400_000, .0001)
	near(t, "Pocock p of three looks", PocockP(3), .0221, 5e-5)
}

// Section 3.7.3: ceilings, the earliest stops, and (section 4) those on quads.
func TestSection373Ceilings(t *testing.T) {
	inf := math.Inf(1)
	near(t, "g=4, n=4: 17^1.5", EValue(4, 3, inf, 4), 70.1, .05)
	near(t, "g=25, n=3: 76", EValue(3, 2, inf, 25), 76, 1e-9)
	near(t, "quads, g=1, Q=3: 4^2.5", QuadE(3, inf, 1), 32, 1e-9)
	near(t, "quads, g=4, Q=2: 9^1.5", QuadE(2, inf, 4), 27, 1e-9)
	first := func(g float64, nu func(n int) float64) int {
		for n := 2; ; n++ {
			if _, ok := ECritical(float64(n), nu(n), .05, g); ok {
				return n
			}
		}
	}
	pairs := func(n int) float64 { return float64(n - 1) }
	quads := func(n int) float64 { return float64(2*n - 1) }
	for _, c := range []struct{ got, want int }{{first(1, pairs), 5}, {first(1, quads), 3}, {first(4, quads), 2}} {
		if c.got != c.want {
			t.Errorf("the first possible stop is at %d, want %d", c.got, c.want)
		}
	}
}

// Section 3.7.3: false stops to ten pairs, power and mean number of pairs.
func TestSection373Simulated(t *testing.T) {
	runs := sessions(t)
	for _, c := range []struct{ g, effect, rate, mean float64 }{
		{1, 0, .010, 0}, {25, 0, .021, 0}, {1, 1, .38, 9.2}, {1, 2, .976, 6.9}, {1, 3, 1, 5.8},
	} {
		r := rand.New(rand.NewPCG(373, uint64(c.g+100*c.effect)))
		var at [11]float64
		for n := 2; n <= 10; n++ {
			at[n], _ = ECritical(float64(n), float64(n-1), .05, c.g)
		}
		hits, used := 0, 0
		for range runs {
			var d []float64
			n, stopped := 0, false
			for n < 10 && !stopped {
				n++
				d = append(d, c.effect+r.NormFloat64())
				if n > 1 && at[n] > 0 {
					e, _ := Mean(d)
					stopped = math.Abs(e.Diff/e.SE) >= at[n]
				}
			}
			used += n
			if stopped {
				hits++
			}
		}
		what := fmt.Sprintf("g = %g, effect %g sd", c.g, c.effect)
		of, step := 200_000.0, .001
		if c.effect > 0 {
			of, step = 40_000, .01
		}
		nearRate(t, what+": stopped", float64(hits)/float64(runs), runs, c.rate, of, step)
		if c.mean > 0 { // half a unit of the last digit, and four standard errors of a mean whose sd is 2 at most
			near(t, what+": pairs", float64(used)/float64(runs), c.mean, .05+4*2/math.Sqrt(float64(runs)))
		}
	}
}

// Section 3.7.4: the radius for one look is 1.96/√5 where the sequence has 1.36674.
func TestSection374FixedRadius(t *testing.T) {
	near(t, "fixed z", TQuantile(.975, 1e9)/math.Sqrt(5), .8765, 5e-5)
	if KnownRadius(5, 1, 1, .05) <= .8765 {
		t.Error("looking at any time costs nothing")
	}
}

// Section 3.7.5: staking all on one side, and where the mixture can stop.
func TestSection375AllIn(t *testing.T) {
	near(t, "five", AllInE(5, 5), 32, 0)
	near(t, "one dissent", AllInE(4, 5), 0, 0)
	near(t, "nothing yet", AllInE(0, 0), 1, 0)
	if math.IsInf(AllInE(5000, 5000), 0) {
		t.Error("beyond all numbers")
	}
	for n := 1; n <= 10; n++ {
		if got, want := SignE(n, n) >= 20, n >= 7; got != want {
			t.Errorf("%d of %d: stops %v", n, n, got)
		}
	}
}

// Section 3.8: what a ladder of eleven costs against Plackett-Burman, and that no correction passes five pairs.
func TestSection38Costs(t *testing.T) {
	const levers = 11
	labels, y := []string{"U"}, []float64{0}
	for i := range levers {
		labels, y = append(labels, string(rune('a'+i)), "U"), append(y, 0, 0)
	}
	near(t, "arms of a ladder, 2k+1", float64(len(labels)), 23, 0)
	near(t, "arms of Plackett-Burman", float64(len(PlackettBurman12())), 12, 0)
	rung, _ := Rung([]Ladder{{y, labels}}, "U", "c", nil)
	pb, ok := Factorial(runsOf(PlackettBurman12(), func(x []float64) float64 { return x[0] }), false, nil)
	if !ok {
		t.Fatal("no effects")
	}
	near(t, "ratio of variances", rung.K/pb[0].K, 4.5, 1e-9)
	for k := 2; k <= 20; k++ {
		p := make([]float64, k)
		for i := range p {
			p[i] = MinP(5)
		}
		if slices.Min(Holm(p)) <= .05 || slices.Min(BH(p)) <= .05 {
			t.Errorf("%d levers of five pairs pass", k)
		}
	}
	// Twenty levers ask for p ≤ .0025 under Holm: the first of them passes with ten pairs, not with nine.
	near(t, "ten pairs", MinP(10), .00195, 5e-6)
	for n, want := range map[int]bool{9: false, 10: true} {
		p := make([]float64, 20)
		for i := range p {
			p[i] = 1
		}
		p[0] = MinP(n)
		if got := slices.Min(Holm(p)) <= .05; got != want {
			t.Errorf("%d pairs pass among twenty levers: %v", n, got)
		}
	}
}

// Section 3.6: the data of the sections under the verdicts of section 4, on raw values as logarithms are.
func TestSection36Verdicts(t *testing.T) {
	five, _ := Mean([]float64{.021, .019, .015, .024, .015})
	none, _ := Mean([]float64{.002, -.003, .001, .004, -.001, .003})
	low, high, _ := none.Interval(.90)
	near(t, "90 % low", low, -.00114518, 5e-9)
	near(t, "90 % high", high, .00314518, 5e-9)
	for _, c := range []struct {
		name string
		e    Estimate
		r    Rule
		want string
	}{
		{"1.88 against 1", five, Rule{MinEffect: .01}, Better},
		{"its lower bound is over 1", five, Rule{MinEffect: .01, Superior: true}, Better},
		{"and not over 1.5", five, Rule{MinEffect: .015, Superior: true}, Inconclusive},
		{"lower is better", five, Rule{MinEffect: .01, Lower: true}, Worse},
		{"within 1", none, Rule{MinEffect: .01}, Equivalent},
		{"the interval's end is over .3", none, Rule{MinEffect: .003}, Inconclusive},
	} {
		if got, why := c.r.Verdict(c.e); got != c.want {
			t.Errorf("%s: got %s (%s), want %s", c.name, got, why, c.want)
		}
	}
}

// Section 4: at 2,000 sessions a cell, a perfect 5 % rule exceeds 6 % in 21 % of tables of twelve cells; at
// 20,000 in none.
func TestSection4SessionsPerCell(t *testing.T) {
	table := func(n float64) float64 {
		over := distuv.Binomial{N: n, P: .05}.Survival(math.Floor(.06 * n))
		return FamilyError(12, over)
	}
	near(t, "2,000", table(2000), .21, .005)
	near(t, "20,000", table(20000), 0, 1e-6)
}
