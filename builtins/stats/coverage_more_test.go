package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// noisyQuads draws n sessions' worth of noise that a World does not have: depressed arms of 5 to 18 sd, noise
// that differs between quads, a random walk.
type noisyQuads struct {
	depressed, unequal, walk float64
	t3                       bool
}

func (w noisyQuads) draw(r *rand.Rand, Q int, random bool) []Quad {
	qs := make([]Quad, Q)
	walk := 0.0
	for q := range qs {
		qs[q].BFirst = q%2 == 1
		if random {
			qs[q].BFirst = r.IntN(2) == 1
		}
		sd := math.Exp(w.unequal * r.NormFloat64())
		for i := range qs[q].Y {
			e := r.NormFloat64()
			if w.t3 {
				chi := 0.0
				for range 3 {
					x := r.NormFloat64()
					chi += x * x
				}
				e /= math.Sqrt(chi)
			}
			e *= sd
			if w.walk > 0 {
				walk += w.walk * r.NormFloat64()
				e += walk
			}
			if w.depressed > 0 && r.Float64() < w.depressed {
				e -= 5 + 13*r.Float64()
			}
			qs[q].Y[i] = e
		}
	}
	return qs
}

// Section 4: the rows of the coverage table whose noise is not that of a World, as ranges.
func TestSection4CoverageOfNoise(t *testing.T) {
	n := 6000
	if testing.Short() {
		n = 2000
	}
	tol := 4 * math.Sqrt(.05*.95/float64(n))
	for i, c := range []struct {
		name   string
		w      noisyQuads
		alt    [2]float64
		random [2]float64
	}{
		{"none", noisyQuads{}, [2]float64{.95, .95}, [2]float64{.95, .95}},
		{"t3", noisyQuads{t3: true}, [2]float64{.950, .963}, [2]float64{.948, .962}},
		{"3 % depressed arms", noisyQuads{depressed: .03}, [2]float64{.950, .963}, [2]float64{.948, .962}},
		{"unequal quad noise", noisyQuads{unequal: .5}, [2]float64{.950, .963}, [2]float64{.948, .962}},
		{"random walk", noisyQuads{walk: 1}, [2]float64{.942, .944}, [2]float64{.943, .946}},
	} {
		for _, random := range []bool{false, true} {
			r := rand.New(rand.NewPCG(4, uint64(i)))
			want := c.alt
			if random {
				want = c.random
			}
			for _, Q := range []int{1, 2, 3, 5} {
				df := float64(2*Q - 1)
				q := TQuantile(.975, df) / math.Sqrt(df*float64(Q))
				hit := 0
				for range n {
					tau, curvature, spread := quadSums(c.w.draw(r, Q, random))
					if math.Abs(tau) <= q*math.Sqrt(curvature+spread) {
						hit++
					}
				}
				if got := float64(hit) / float64(n); got < want[0]-tol || got > want[1]+tol {
					t.Errorf("%s, random %v, Q = %d: got %.4f, want %.3f to %.3f", c.name, random, Q, got, want[0], want[1])
				}
			}
		}
	}
}

// Section 4: the rows of the coverage table that hold in the other orders too.
func TestSection4CoverageOtherOrders(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 1000
	}
	for i, c := range []struct {
		name    string
		w       World
		warmArm bool
		mode    string
		want    [4]float64
	}{
		{"none", World{}, false, "ABBA", [4]float64{.95, .95, .95, .95}},
		{"linear to 2 sd an arm", World{Drift: 2}, false, "alternating", [4]float64{.95, .95, .95, .95}},
		{"cold session", World{Cold: 5}, false, "ABBA", [4]float64{.92, .94, .93, .93}},
		{"cold session", World{Cold: 5}, false, "random", [4]float64{.92, .94, .93, .93}},
		{"carry-over, warm arm", World{Carry: 1}, true, "alternating", [4]float64{.955, .9565, .9565, .958}},
		{"carry-over, warm arm", World{Carry: 1}, true, "random", [4]float64{.955, .9565, .9565, .958}},
	} {
		for k, Q := range []int{1, 2, 3, 5} {
			want := c.want[k]
			tol := 4*math.Sqrt(want*(1-want)/float64(n)) + .004
			near(t, fmt.Sprintf("%s, %s, Q = %d", c.name, c.mode, Q), coverage(c.w, c.mode, c.warmArm, Q, n, uint64(100+i)), want, tol)
		}
	}
	// The bias of a cold first slot of the session is 2.5 sd/Q, exactly.
	for Q := 1; Q <= 5; Q++ {
		qs := make([]Quad, Q)
		for q := range qs {
			qs[q].BFirst = q%2 == 1
			for i := range qs[q].Y {
				qs[q].Y[i] = World{Cold: 5}.Log(Place{Session: 4*q + i, Block: q, Slot: i, BlockLen: 4})
			}
		}
		e, _ := Quads(qs, nil)
		near(t, "bias", e.Diff, 2.5/float64(Q), 1e-12)
	}
}

// Section 4: false positives with borrowed noise under unequal quad noise and heavy tails; and what full trust
// in a pooled sd makes of 3 % depressed arms. The larger of the two standard errors only lowers the first two.
func TestSection4BorrowedMore(t *testing.T) {
	n := sessions(t)
	tol := 4 * math.Sqrt(.05*.95/float64(n))
	for i, c := range []struct {
		name string
		w    noisyQuads
		most [3]float64
	}{
		{"unequal quad noise", noisyQuads{unequal: .5}, [3]float64{.057, .047, .047}},
		{"t3", noisyQuads{t3: true}, [3]float64{.018, .018, .020}},
	} {
		r := rand.New(rand.NewPCG(44, uint64(i)))
		cr := crit{}
		for k, Q := range []int{1, 2, 3} {
			hits := 0
			for range n {
				e, _ := Quads(c.w.draw(r, Q, false), &Noise{SD: 1, DF: 8})
				if cr.outside(e, .05) {
					hits++
				}
			}
			if rate := float64(hits) / float64(n); rate > c.most[k]+tol || rate < c.most[k]/3 {
				t.Errorf("%s, %d quads: got %.4f, want near %.3f", c.name, Q, rate, c.most[k])
			}
		}
	}
	r := rand.New(rand.NewPCG(45, 45))
	for k, want := range []float64{.143, .183, .182} {
		Q := k + 1
		const trust = 30 // degrees of freedom of history, all of them believed, no F check
		df := float64(2*Q - 1)
		q := TQuantile(.975, trust+df)
		hits := 0
		for range n {
			tau, curvature, spread := quadSums(noisyQuads{depressed: .03}.draw(r, Q, false))
			if math.Abs(tau) > q*math.Sqrt((trust+curvature+spread)/(trust+df)/float64(Q)) {
				hits++
			}
		}
		near(t, fmt.Sprintf("full trust, %d quads", Q), float64(hits)/float64(n), want, 4*math.Sqrt(want/float64(n))+.005)
	}
}
