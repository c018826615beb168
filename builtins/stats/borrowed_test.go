package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// moderated is section 4's rule as its table has it: moderated variance from d0 degrees of freedom of a history
// whose noise is 1, and where these arms' variance is beyond limit (its F check) the wider of that interval and the
// one from them alone.
func moderated(qs []Quad, d0, limit float64, cr crit) (outside bool) {
	tau, curvature, spread := quadSums(qs)
	Q := float64(len(qs))
	df := 2*Q - 1
	s2 := (curvature + spread) / df
	half := cr.at(.05, d0+df) * math.Sqrt((d0+df*s2)/(d0+df)/Q)
	if s2 > limit {
		half = math.Max(half, cr.at(.05, df)*math.Sqrt(s2/Q))
	}
	return math.Abs(tau) > half
}

// Section 4, borrowed noise: false positives at Q = 1, 2, 3 of its rule, and of flow's own. That takes the larger
// of the two standard errors as well and is wrong less often; its figures are of 400,000 sessions.
func TestSection4Borrowed(t *testing.T) {
	n := sessions(t)
	for i, c := range []struct {
		name       string
		tr         trouble
		want, flow [3]float64
	}{
		{"normal", trouble{}, [3]float64{.026, .032, .036}, [3]float64{.0259, .0278, .0318}},
		{"3 % depressed arms", trouble{depressed: .03}, [3]float64{.045, .036, .038}, [3]float64{.0445, .0271, .0268}},
		{"unequal quad noise", trouble{unequal: .5}, [3]float64{.057, .047, .047}, [3]float64{.0577, .0314, .0313}},
		{"random walk", trouble{walk: 1}, [3]float64{.064, .067, .067}, [3]float64{.0644, .0585, .0582}},
		{"t3", trouble{t3: true}, [3]float64{.018, .018, .020}, [3]float64{.0180, .0126, .0147}},
	} {
		cr := crit{}
		for k, Q := range []int{1, 2, 3} {
			r := rand.New(rand.NewPCG(44+uint64(i), uint64(Q)))
			limit := FQuantile(.95, float64(2*Q-1), 8)
			table, own := 0, 0
			for range n {
				qs := c.tr.session(r, Q)
				if moderated(qs, 8, limit, cr) {
					table++
				}
				e, _ := Quads(qs, &Noise{SD: 1, DF: 8})
				if cr.outside(e, .05) {
					own++
				}
			}
			what := fmt.Sprintf("%s, %d quads", c.name, Q)
			nearRate(t, what+", its rule", float64(table)/float64(n), n, c.want[k], 40_000, .001)
			nearRate(t, what+", flow's", float64(own)/float64(n), n, c.flow[k], 400_000, .0001)
			if own > table {
				t.Errorf("%s: flow's rule is wrong in %d, the table's in %d of %d", what, own, table, n)
			}
		}
	}
}

// Section 4: full trust in a pooled sd of 30 degrees of freedom, without the check, with 3 % depressed arms.
func TestSection4FullTrust(t *testing.T) {
	n := sessions(t)
	cr := crit{}
	for k, want := range []float64{.143, .183, .182} {
		r := rand.New(rand.NewPCG(45, uint64(k)))
		hits := 0
		for range n {
			if moderated(trouble{depressed: .03}.session(r, k+1), 30, math.Inf(1), cr) {
				hits++
			}
		}
		nearRate(t, fmt.Sprintf("%d quads", k+1), float64(hits)/float64(n), n, want, 40_000, .001)
	}
}

// A history that is itself only eight degrees of freedom long, and so uncertain, keeps the level too.
func TestBorrowedHistoryIsUncertain(t *testing.T) {
	n := sessions(t)
	r := rand.New(rand.NewPCG(3, 3))
	cr := crit{}
	hits := 0
	for range n {
		ss := 0.0
		for range 8 {
			x := r.NormFloat64()
			ss += x * x
		}
		e, _ := Quads(trouble{}.session(r, 1), &Noise{SD: math.Sqrt(ss / 8), DF: 8})
		if cr.outside(e, .05) {
			hits++
		}
	}
	if rate := float64(hits) / float64(n); rate > .056 {
		t.Errorf("false positives %.4f", rate)
	}
}
