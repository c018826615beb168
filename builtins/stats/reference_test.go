package stats

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// The machine of the simulations of section 4, and how a rate is held against its table.

// sessions is how many sessions a cell of a simulated table has: 20,000, because at 2,000 a perfect 5 %
// rule shows more than 6 % in a fifth of all tables. FLOW_SESSIONS asks for more.
func sessions(t testing.TB) int {
	if n, err := strconv.Atoi(os.Getenv("FLOW_SESSIONS")); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return 5000
	}
	return 20000
}

// exactly is the number of runs behind a rate that theory gives.
const exactly = 1e12

// nearRate fails when a rate of n runs is not that of a table: printed to a step, from so many runs of its own.
// It may be off by half the step and four standard errors of the difference of the two.
func nearRate(t *testing.T, what string, got float64, n int, want, of, step float64) {
	t.Helper()
	runs := float64(n)
	p := (got*runs + want*of + 2) / (runs + of + 4) // not quite 0 or 1, whatever was seen
	tol := step/2 + 4*math.Sqrt(p*(1-p)*(1/runs+1/of))
	if math.IsNaN(got) || math.Abs(got-want) > tol {
		t.Errorf("%s: got %.5f, want %.5g ± %.5f", what, got, want, tol)
	}
}

// trouble is what a session of arms suffers from, in units of the noise of one arm. The zero value is normal
// noise alone.
type trouble struct {
	linear, quadratic     float64 // per arm, per arm squared
	coldSession, coldQuad float64 // what the first arm of the session, of each quad, loses
	carry                 float64 // what an arm after a B loses
	warmArm               bool    // the first arm of each quad runs once before it, untimed
	ar, walk              float64 // correlation of neighbours; step of a random walk
	depressed             float64 // share of arms that lose 5 to 18
	unequal               float64 // spread of the logarithm of each quad's noise
	t3                    bool    // Student's t on 3 df, scaled to variance 1
}

// orders of the first arm of each quad.
const (
	allABBA     = "ABBA"
	alternating = "alternating"
	byCoin      = "random"
)

// quads draws a session of Q quads without any effect.
func (tr trouble) quads(r *rand.Rand, Q int, order string) []Quad {
	qs := make([]Quad, Q)
	prev, walk, sd, afterB := 0.0, 0.0, 1.0, false
	for i := range 4 * Q {
		q, slot := &qs[i/4], i%4
		if slot == 0 {
			q.BFirst = order == alternating && i/4%2 == 1 || order == byCoin && r.IntN(2) == 1
			if tr.warmArm {
				afterB = q.BFirst
			}
			if tr.unequal > 0 {
				sd = math.Exp(tr.unequal * r.NormFloat64())
			}
		}
		e := r.NormFloat64()
		if tr.t3 {
			x, y, z := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
			e /= math.Sqrt(x*x + y*y + z*z) // t is z/√(χ²/3), and its variance is 3
		}
		e *= sd
		if tr.ar > 0 {
			if i > 0 {
				e = tr.ar*prev + math.Sqrt(1-tr.ar*tr.ar)*e
			}
			prev = e
		}
		if tr.walk > 0 {
			walk += tr.walk * r.NormFloat64()
			e += walk
		}
		if tr.depressed > 0 && r.Float64() < tr.depressed {
			e -= 5 + 13*r.Float64()
		}
		x := float64(i)
		e += tr.linear*x + tr.quadratic*x*x
		if i == 0 {
			e -= tr.coldSession
		}
		if slot == 0 {
			e -= tr.coldQuad
		}
		if afterB {
			e -= tr.carry
		}
		q.Y[slot] = e
		afterB = (slot == 1 || slot == 2) != q.BFirst
	}
	return qs
}

// session is one of alternating quads, as flow runs them.
func (tr trouble) session(r *rand.Rand, Q int) []Quad { return tr.quads(r, Q, alternating) }

// crit remembers t quantiles by df.
type crit map[float64]float64

// outside: the estimate's interval at 1−p does not hold 0.
func (c crit) outside(e Estimate, p float64) bool {
	t, ok := e.T(0)
	return ok && math.Abs(t) > c.at(p, e.DF)
}

func (c crit) at(p, df float64) float64 {
	key := df + p*1e6
	q, ok := c[key]
	if !ok {
		q = TQuantile(1-p/2, df)
		c[key] = q
	}
	return q
}
