package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// Section 3.3: five pairs, and six with a contrary one.
func TestSection33FivePairs(t *testing.T) {
	a := []float64{100.0, 101.0, 99.5, 100.2, 100.8}
	b := []float64{102.1, 102.9, 101.0, 102.6, 102.3}
	var d, ld []float64
	for i := range a {
		d = append(d, b[i]-a[i])
		ld = append(ld, math.Log(b[i]/a[i]))
	}
	e, _ := Mean(d)
	near(t, "mean", e.Diff, 1.88, 1e-12) // (2.1+1.9+1.5+2.4+1.5)/5
	near(t, "sd", e.ArmSD, .3898718, 5e-8)
	near(t, "SE", e.SE, .1743560, 5e-8) // .3898718/√5
	tt, _ := e.T(0)
	near(t, "t", tt, 10.78254, 5e-6)
	p, _ := e.P()
	near(t, "p", p, .000420, 5e-7)
	low, high, _ := e.Interval(.95)
	near(t, "low", low, 1.395910, 5e-7)
	near(t, "high", high, 2.364090, 5e-7)
	near(t, "median", Median(d), 1.9, 1e-12)
	hl, _ := HodgesLehmann(d, .95)
	near(t, "Hodges-Lehmann", hl.Estimate, 1.9, 1e-12)
	if hl.Known || hl.Why != "cannot reach 95 % without normality; n >= 6 needed" {
		t.Errorf("five differences have an interval: %+v", hl)
	}
	// All five positive: 2/2⁵.
	for name, x := range map[string]Exact{"sign": SignTest(d), "flip": SignFlip(d), "rank": SignedRank(d)} {
		near(t, name, x.P, .0625, 1e-12)
	}
	w, df, p, _ := Welch(a, b)
	near(t, "Welch t", w, -4.43861, 5e-6)
	near(t, "Welch df", df, 7.7622, 5e-5)
	near(t, "Welch p", p, .002339, 5e-7)
	l, _ := Mean(ld)
	near(t, "log mean", l.Diff, .0185647, 5e-8)
	near(t, "log sd", l.ArmSD, .0038193, 5e-8)
	low, high, _ = l.Interval(.95)
	near(t, "log low", low, .0138224, 5e-8)
	near(t, "log high", high, .0233070, 5e-8)
	near(t, "ratio", math.Exp(l.Diff), 1.018738, 5e-7)
	near(t, "ratio low", math.Exp(low), 1.013918, 5e-7)
	near(t, "ratio high", math.Exp(high), 1.023581, 5e-7)

	d = []float64{2.1, 1.9, -.4, 2.4, 1.5, .3}
	e, _ = Mean(d)
	near(t, "six: mean", e.Diff, 1.3, 1e-12)
	near(t, "six: sd", e.ArmSD, 1.1081516, 5e-8)
	tt, _ = e.T(0)
	near(t, "six: t", tt, 2.87356, 5e-6)
	p, _ = e.P()
	near(t, "six: p", p, .034849, 5e-7)
	low, high, _ = e.Interval(.95)
	near(t, "six: low", low, .137066, 5e-7)
	near(t, "six: high", high, 2.462934, 5e-7)
	hl, _ = HodgesLehmann(d, .95)
	near(t, "six: Hodges-Lehmann", hl.Estimate, 1.35, 1e-12)
	near(t, "six: median", Median(d), 1.7, 1e-12)
	near(t, "six: flip", SignFlip(d).P, .09375, 1e-12)                               // 6 of 64
	near(t, "six: rank", SignedRank(d).P, .09375, 1e-12)                             // W⁻ = 2: {}, {1}, {2} on either side, 6 of 64
	near(t, "six: sign", SignTest(d).P, .21875, 1e-12)                               // 2·(6+1)/64
	near(t, "all six alike", SignTest([]float64{1, 1, 1, 1, 1, 1}).P, .03125, 1e-12) // 2/64
}

// Section 3.4: what n can and cannot say.
func TestSection34Attainability(t *testing.T) {
	for _, c := range []struct {
		n          int
		p, cover   float64
		k          int // the k-th smallest mean of two
		hl         float64
		t975, half float64
		mde        float64
	}{
		{2, .5, .50, 0, 0, 12.7062, 8.985, 11.55},
		{3, .25, .75, 0, 0, 4.3027, 2.484, 3.264},
		{4, .125, .875, 0, 0, 3.1824, 1.591, 2.128},
		{5, .0625, .9375, 0, 0, 2.7764, 1.242, 1.682},
		{6, .03125, .96875, 1, .96875, 2.5706, 1.049, 1.435},
		{7, .015625, .984375, 3, .953125, 2.4469, .925, 1.273},
		{8, .0078125, .9921875, 4, .9609375, 2.3646, .836, 1.156},
		{9, .00390625, .99609375, 6, .9609375, 2.3060, .769, 1.067},
		{10, .001953125, .998046875, 9, .951171875, 2.2622, .715, .996},
	} {
		near(t, "smallest p", MinP(c.n), c.p, 1e-15)
		near(t, "largest coverage", MaxCoverage(c.n), c.cover, 1e-15)
		d := make([]float64, c.n)
		var walsh []float64
		for i := range d {
			d[i] = math.Pow(1.7, float64(i)) // all positive, all means of two different
		}
		for _, x := range []Exact{SignTest(d), SignFlip(d), SignedRank(d)} {
			near(t, "unanimous", x.P, c.p, 1e-12)
		}
		s, ok := HodgesLehmann(d, .95)
		if !ok || s.Known != (c.k > 0) || (s.Why == "") != (c.k > 0) {
			t.Fatalf("n=%d: %+v", c.n, s)
		}
		if c.k > 0 {
			for i := range d {
				for j := i; j < c.n; j++ {
					walsh = append(walsh, (d[i]+d[j])/2)
				}
			}
			near(t, "coverage", s.Coverage, c.hl, 1e-9)
			below := 1
			for _, w := range walsh {
				if w < s.Low-1e-12 {
					below++
				}
			}
			if below != c.k {
				t.Errorf("n=%d: the interval begins at mean %d, want %d", c.n, below, c.k)
			}
		}
		near(t, "t.975", TQuantile(.975, float64(c.n-1)), c.t975, 6e-5)
		near(t, "half-width", TQuantile(.975, float64(c.n-1))/math.Sqrt(float64(c.n)), c.half, 6e-4)
		mde, _ := MDE(1/float64(c.n), float64(c.n-1), .05, .8)
		near(t, "MDE", mde, c.mde, 6e-4+1e-3*c.mde) // its table of s/σ is good to three digits
	}
	if MinPairs(.05) != 6 || MinPairs(.0025) != 10 { // section 3.8: twenty levers under Holm
		t.Errorf("got %d and %d pairs, want 6 and 10", MinPairs(.05), MinPairs(.0025))
	}
	if w := Attainable(5, .95); w != "cannot reach 95 % without normality; n >= 6 needed" {
		t.Error(w)
	}
	if w := Attainable(6, .95); w != "" {
		t.Error(w)
	}
}

// Section 3.4: the bootstrap is refused where it lies.
func TestSection34Bootstrap(t *testing.T) {
	for n := range 10 {
		if _, _, err := Bootstrap(make([]float64, n), .95, 1000, 1); err == nil || !strings.Contains(err.Error(), "want at least 10") {
			t.Errorf("n=%d: got %v", n, err)
		}
	}
	d := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	low, high, err := Bootstrap(d, .95, 4000, 7)
	again, _, _ := Bootstrap(d, .95, 4000, 7)
	// The mean is 5.5, its bootstrap sd √(8.25/10) = .908: about [3.7, 7.3].
	if err != nil || math.Abs(low-3.7) > .3 || math.Abs(high-7.3) > .3 || low != again {
		t.Errorf("got [%v, %v], %v; again %v", low, high, err, again)
	}
}

// Section 3.6: more than a minimum effect, and equivalence.
func TestSection36MinimumEffectAndTOST(t *testing.T) {
	e, _ := Mean([]float64{2.1, 1.9, 1.5, 2.4, 1.5})
	tt, p, lower, ok := e.Exceeds(1, .95) // (1.88−1)/.1743560; 1.88 − 2.131847·.1743560
	if !ok {
		t.Fatal("no test")
	}
	near(t, "t", tt, 5.04715, 5e-6)
	near(t, "one-sided p", p, .003623, 5e-7)
	near(t, "lower", lower, 1.508300, 5e-7)

	e, _ = Mean([]float64{.2, -.3, .1, .4, -.1, .3})
	p, ok = e.TOST(1) // the nearer end: (1−.1)/(.260768/√6) = 8.454 on 5 df
	near(t, "p_TOST", p, .000190, 5e-7)
	if !ok {
		t.Error("no test")
	}
	if _, ok := e.TOST(0); ok {
		t.Error("equivalence without a margin")
	}
	if p, _ := e.TOST(.2); p < .05 { // the 90 % interval is [−.114518, .314518]
		t.Errorf("equivalent within .2: p %v", p)
	}
	if _, _, _, ok := (Estimate{Diff: 1}).Exceeds(0, .95); ok {
		t.Error("a test without noise")
	}
}

func TestExactEdges(t *testing.T) {
	for name, f := range map[string]func([]float64) Exact{"sign": SignTest, "flip": SignFlip, "rank": SignedRank} {
		for _, d := range [][]float64{nil, {0}, {0, 0, 0}} {
			if x := f(d); x.P != 1 || x.Why == "" || x.N != 0 || x.Zero != len(d) {
				t.Errorf("%s of %v: %+v", name, d, x)
			}
		}
		// A zero says nothing: the p is that of the others.
		with, without := f([]float64{1, 2, 0, 3, -.5, 0}), f([]float64{1, 2, 3, -.5})
		if with.P != without.P || with.N != 4 || with.Zero != 2 || with.K != 3 {
			t.Errorf("%s with zeros: %+v, without %+v", name, with, without)
		}
	}
	// Ties: sizes 1, 1, 1, 2 have ranks 2, 2, 2, 4. W⁺ of −1 +1 +1 +2 is 8 of 10; as far from 5 or farther:
	// sums 0, 2 (three ways), 8 (three ways), 10: 8 of 16.
	near(t, "tied ranks", SignedRank([]float64{-1, 1, 1, 2}).P, .5, 1e-12)
	// The same sums as sign flips of 2, 2, 2, 4, hence the same p.
	near(t, "flips of ranks", SignFlip([]float64{-2, 2, 2, 4}).P, .5, 1e-12)
	// .1+.2 and .3 are the same sum in another order.
	near(t, "rounding", SignFlip([]float64{.1, .2, -.3}).P, 1, 1e-12)
	if x := SignFlip(make21()); x.Why == "" || x.P != 1 {
		t.Errorf("21 differences were enumerated: %+v", x)
	}
	if x := SignedRank(make21()); x.Why != "" || math.Abs(x.P-math.Exp2(-20)) > 1e-15 {
		t.Errorf("signed rank of 21: %+v", x)
	}
	if _, ok := HodgesLehmann(nil, .95); ok {
		t.Error("the centre of nothing")
	}
}

func make21() []float64 {
	d := make([]float64, 21)
	for i := range d {
		d[i] = float64(i + 1)
	}
	return d
}

// Section 3.4: zeros are dropped for the sign test and are half a flip each for the sign-flip test, whose p is found
// here by going through all assignments of all differences, zeros among them.
func TestSection34Zeros(t *testing.T) {
	for _, c := range []struct {
		d        []float64
		eff      int
		flip, by float64 // p of the flips, of the signs
	}{
		{[]float64{2.1, 1.9, 1.5, 2.4, 1.5, 0}, 5, .0625, .0625},           // 2/2⁵, not 2/2⁶
		{[]float64{2.1, 1.9, -.4, 2.4, 0, 1.5, .3, 0}, 6, .09375, .21875},  // the six of 3.3: 6 and 2·7 of 64
		{[]float64{0, 1, 0, -1, 0}, 2, 1, 1},                               // a sum of 0: every assignment is as far
		{[]float64{0, 0, 3}, 1, 1, 1},                                      // 2/2
		{[]float64{-1, 2, 4, 8, 0, 16, 32, 0, 64, 128}, 8, .015625, .0703}, // 253 and 255 of 255, either way: 4 of 256; 2·(8+1)/2⁸
	} {
		flip, by := SignFlip(c.d), SignTest(c.d)
		near(t, "flips", flip.P, c.flip, 1e-12)
		near(t, "signs", by.P, c.by, 5e-5)
		if flip.N != c.eff || by.N != c.eff || flip.N+flip.Zero != len(c.d) || flip.P < MinP(flip.N) {
			t.Errorf("%v: flips %+v, signs %+v, want %d effective differences", c.d, flip, by, c.eff)
		}
		var sum, hits, all float64
		for _, v := range c.d {
			sum += v
		}
		for signs := range 1 << len(c.d) {
			weight, s := 1.0, 0.0
			for i, v := range c.d {
				if v == 0 {
					weight /= 2
				}
				if signs>>i&1 == 1 {
					v = -v
				}
				s += v
			}
			all += weight
			if math.Abs(s) >= math.Abs(sum)-1e-9 {
				hits += weight
			}
		}
		near(t, "weight of all assignments", all, math.Exp2(float64(c.eff)), 1e-12)
		near(t, "enumerated", flip.P, hits/all, 1e-12)
	}
}

// Section 3.3: the interval of the median at n = 5 is [−∞, 101] and takes six values to have two ends.
func TestSection33MedianInterval(t *testing.T) {
	text := func(r MedianRange) string {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	a := []float64{100.0, 101.0, 99.5, 100.2, 100.8}
	five, ok := MedianInterval(a, .95)
	if !ok || five.Low != nil || five.High == nil || *five.High != 101 || five.Median != 100.2 ||
		five.Why != "cannot reach 95 % without normality; n >= 6 needed" || a[1] != 101 {
		t.Errorf("five values: %s", text(five))
	}
	near(t, "coverage of one end, 1 − 1/32", five.Coverage, .96875, 1e-15)
	if got := text(five); !strings.Contains(got, `"Low":null,"High":101`) {
		t.Error(got)
	}
	// Ends of n values, and what they cover: the k-th smallest and largest leave 2·Σ_{i<k} C(n,i)/2ⁿ.
	for _, c := range []struct {
		n     int
		level float64
		k     int // 0: none
		open  bool
		cover float64
	}{
		{1, .95, 0, false, 1}, {2, .95, 0, false, 1}, {4, .95, 0, false, 1},
		{5, .95, 0, true, .96875},
		{6, .95, 1, false, 1 - 2./64}, {7, .95, 1, false, 1 - 2./128}, {8, .95, 1, false, 1 - 2./256},
		{9, .95, 2, false, 1 - 20./512}, {10, .95, 2, false, 1 - 22./1024}, {20, .95, 6, false, .958610534668},
		{5, .90, 1, false, 1 - 2./32}, {2, .5, 1, false, .5}, {1, .5, 0, true, .5},
	} {
		x := make([]float64, c.n)
		for i := range x {
			x[i] = float64(c.n - i)
		}
		r, ok := MedianInterval(x, c.level)
		if !ok || (r.Low != nil) != (c.k > 0) || (r.High != nil) != (c.k > 0 || c.open) || (r.Why == "") != (c.k > 0) {
			t.Fatalf("%d values at %v: %s", c.n, c.level, text(r))
		}
		near(t, "coverage", r.Coverage, c.cover, 1e-9)
		if c.k > 0 && (*r.Low != float64(c.k) || *r.High != float64(c.n+1-c.k)) {
			t.Errorf("%d values at %v: %s, want from %d", c.n, c.level, text(r), c.k)
		}
	}
	for _, bad := range []struct {
		x     []float64
		level float64
	}{{nil, .95}, {a, 0}, {a, 1}, {a, math.NaN()}} {
		if _, ok := MedianInterval(bad.x, bad.level); ok {
			t.Errorf("an interval of %v at %v", bad.x, bad.level)
		}
	}
}

// It inverts the sign test: a value outside is one that the signs of the differences to it speak against.
func TestMedianIntervalInvertsSignTest(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 33))
	for range 300 {
		x := make([]float64, 6+r.IntN(9))
		for i := range x {
			x[i] = r.NormFloat64()
		}
		m, _ := MedianInterval(x, .95)
		for _, c := range []struct {
			at   float64
			hold bool
		}{{*m.Low + 1e-9, true}, {*m.High - 1e-9, true}, {*m.Low - 1e-9, false}, {*m.High + 1e-9, false}} {
			d := make([]float64, len(x))
			for i := range x {
				d[i] = x[i] - c.at
			}
			if p := SignTest(d).P; (p > .05) != c.hold {
				t.Fatalf("%v in [%v, %v]: p %v", c.at, *m.Low, *m.High, p)
			}
		}
	}
}

// Properties: signs turned turn nothing but the sign; a scale changes no p; order does not matter.
func TestExactProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 1 + r.IntN(12)
		d, neg, big := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range d {
			d[i] = math.Round(4 * r.NormFloat64()) // ties and zeros
			neg[n-1-i], big[i] = -d[i], 1e3*d[i]
		}
		for _, f := range []func([]float64) Exact{SignTest, SignFlip, SignedRank} {
			a, b, c := f(d), f(neg), f(big)
			if math.Abs(a.P-b.P) > 1e-12 || math.Abs(a.P-c.P) > 1e-12 || a.K != b.N-b.K || a.P < MinP(a.N)-1e-12 || a.P > 1 {
				t.Fatalf("%v: %+v, turned %+v, scaled %+v", d, a, b, c)
			}
		}
		a, _ := HodgesLehmann(d, .95)
		b, _ := HodgesLehmann(neg, .95)
		if math.Abs(a.Estimate+b.Estimate) > 1e-12 || math.Abs(a.Low+b.High) > 1e-12 || a.Known && (a.Estimate < a.Low || a.Estimate > a.High) {
			t.Fatalf("%v: %+v, turned %+v", d, a, b)
		}
	}
}

func BenchmarkSignFlip(b *testing.B) {
	d := make21()[:20]
	for b.Loop() {
		SignFlip(d)
	}
}
