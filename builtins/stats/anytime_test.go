package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Section 3.7.5: the sign e-process.
func TestSection375SignE(t *testing.T) {
	// It is a fair bet: the mean over fair signs is 1 at every n.
	for n := 1; n <= 30; n++ {
		mean := 0.0
		for k := range n + 1 {
			lb, _ := math.Lgamma(float64(n + 1))
			l1, _ := math.Lgamma(float64(k + 1))
			l2, _ := math.Lgamma(float64(n - k + 1))
			mean += math.Exp(lb-l1-l2-float64(n)*math.Ln2) * SignE(k, n)
		}
		near(t, "mean", mean, 1, 1e-9)
	}
	if _, _, ok := SignSequence([]float64{1, 2, 3, 4, 5, 6}, .05); ok {
		t.Error("six signs have an interval at 95 %")
	}
	low, high, ok := SignSequence([]float64{7, 1, 2, 3, 4, 5, 6}, .05)
	if !ok || low != 1 || high != 7 {
		t.Errorf("seven: %v %v %v", low, high, ok)
	}
}

// Section 3.7.4: the mixture ratio with known noise.
func TestSection374Known(t *testing.T) {
	for _, c := range []struct {
		n    int
		want float64
	}{{2, 8.30918}, {3, 45.00857}, {5, 1698.41985}} {
		near(t, "ratio", KnownE(c.n, 2, 1, 1)/c.want, 1, 1e-6)
	}
	for _, c := range []struct {
		n    int
		want float64
	}{{2, 2.30598}, {5, 1.36674}, {10, .96064}} {
		near(t, "radius", KnownRadius(c.n, 1, 1, .05), c.want, 5e-6)
		near(t, "they agree", KnownE(c.n, c.want, 1, 1), 20, 1e-3)
	}
}

// Section 3.7.3: the confidence sequence of the five pairs, .40614 to 3.35386 at g = 1.
func TestSection373Sequence(t *testing.T) {
	e, _ := Pairs([]float64{100.0, 101.0, 99.5, 100.2, 100.8}, []float64{102.1, 102.9, 101.0, 102.6, 102.3}, nil)
	e, ok := e.Anytime(Anytime{Kind: AnytimeT, G: 1})
	if !ok {
		t.Fatal("pairs have no sequence")
	}
	low, high, ok := e.Interval(.95)
	if !ok {
		t.Fatal("no interval")
	}
	near(t, "low", low, .40614, 6e-6)
	near(t, "high", high, 3.35386, 6e-6)
	near(t, "E", e.E(), 24.50614, 5e-5)

	// Section 4: the two quads of 3.2.
	qs := []Quad{{Y: [4]float64{100.0, 102.3, 102.9, 101.1}}, {Y: [4]float64{103.0, 101.2, 101.5, 103.9}, BFirst: true}}
	q, _ := Quads(qs, nil)
	q4, _ := q.Anytime(Anytime{G: 4})
	near(t, "E of quads", q4.E(), 25.7567, 5e-4)
	q1, _ := q.Anytime(Anytime{G: 1})
	if _, _, ok := q1.Interval(.95); ok {
		t.Error("two quads have a sequence at g = 1")
	}
	if _, ok := (Estimate{Method: MethodLadder}).Anytime(Anytime{}); ok {
		t.Error("a ladder has a sequence")
	}
	// No residual variation: a point once evidence is possible at all, and E is its ceiling.
	z, _ := Quads([]Quad{{Y: [4]float64{1, 2, 2, 1}}, {Y: [4]float64{1, 2, 2, 1}}, {Y: [4]float64{1, 2, 2, 1}}}, nil)
	z, _ = z.Anytime(Anytime{})
	if low, high, ok := z.Interval(.95); !ok || low != 1 || high != 1 || z.E() != EValue(3, 5, math.Inf(1), 10) {
		t.Errorf("no variation: %v %v %v, E %v", low, high, ok, z.E())
	}
}

// Section 3.7.2: how fast .05 may be spent.
func TestSection372Spending(t *testing.T) {
	for _, c := range []struct{ t, obf, pocock float64 }{{.25, .000089, .01787}, {.5, .005575, .03101}, {.75, .023625, .04140}} {
		near(t, "O'Brien-Fleming", SpendOBrienFleming(c.t), c.obf, 5e-7)
		near(t, "Pocock", SpendPocock(c.t), c.pocock, 5e-6)
	}
	near(t, "all", SpendOBrienFleming(1), .05, 1e-12)
	near(t, "all", SpendPocock(1), .05, 1e-12)
}

// Section 3.7: what peeking with a t test costs, 5.0 % at three looks' first and 16.6 % by ten.
func TestSection37Peeking(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 37))
	runs := sessions(t)
	var by [11]int
	for range runs {
		var d []float64
		out := false
		for n := 1; n <= 10; n++ {
			d = append(d, r.NormFloat64())
			if n >= 3 && !out {
				e, _ := Mean(d)
				p, _ := e.P()
				out = p < .05
			}
			if out {
				by[n]++
			}
		}
	}
	for i, want := range []float64{.050, .079, .100, .118, .132, .145, .156, .166} {
		nearRate(t, fmt.Sprintf("by %d", i+3), float64(by[i+3])/float64(runs), runs, want, 200_000, .001)
	}
}

// Section 3.5: what a noise floor lets a later mean show, and repeats inside a launch.
func TestSection35Floor(t *testing.T) {
	f, _ := Floor(.8, 10, 4, false)
	near(t, "floor", f, .9049, 5e-5)
	f, _ = Floor(.8, 10, 4, true)
	near(t, "with its mean", f, 1.0706, 5e-5)
	for _, c := range []struct{ n, want float64 }{{3, 4.415}, {5, 2.372}, {10, 1.645}, {20, 1.370}} {
		b, _ := SDBound(c.n - 1)
		near(t, "bound", b, c.want, 6e-4)
	}
	near(t, "design effect", DesignEffect(5, .37), 2.48, 1e-12)
	near(t, "effective", 100/DesignEffect(5, .37), 40.3, .05)
	m, _ := BestRepeats(60, 5, 1, 2)
	near(t, "repeats", m, 6.93, 5e-3)
}

func TestConditionalPower(t *testing.T) {
	near(t, "all done, reached", ConditionalPower(.02, .01, 1, 4, 4, .01), 1, 0)
	near(t, "all done, missed", ConditionalPower(.005, .01, 1, 4, 4, .01), 0, 0)
	near(t, "at the bound", ConditionalPower(.01, .01, 1, 2, 4, .01), .5, 1e-12)
	r := rand.New(rand.NewPCG(5, 5))
	hit, runs := 0, 20000
	for range runs {
		rest := 0.0
		for range 2 {
			rest += (.012 + .01*r.NormFloat64()) / 2
		}
		if (.012+rest)/2 >= .014 {
			hit++
		}
	}
	near(t, "simulated", ConditionalPower(.012, .01, 1, 2, 4, .014), float64(hit)/float64(runs), .012)
}
