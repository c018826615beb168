package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Section 4: false positives of the larger of the two standard errors, at Q = 2, 3, 4, 6.
func TestSection4FalsePositives(t *testing.T) {
	n := sessions(t)
	for _, c := range []struct {
		name string
		tr   trouble
		want [4]float64
	}{
		{"normal", trouble{}, [4]float64{.040, .038, .039, .038}},
		{"linear 2", trouble{linear: 2}, [4]float64{.040, .038, .039, .038}},
		{"AR(1) .5", trouble{ar: .5}, [4]float64{.050, .049, .048, .046}},
		{"cold session 5", trouble{coldSession: 5}, [4]float64{.039, .040, .041, .045}},
		{"quadratic .3", trouble{quadratic: .3}, [4]float64{.028, .033, .026, .024}},
	} {
		r := rand.New(rand.NewPCG(1, uint64(len(c.name))))
		cr := crit{}
		for i, Q := range []int{2, 3, 4, 6} {
			hits := 0
			for range n {
				e, _ := Quads(c.tr.session(r, Q), nil)
				if cr.outside(e, .05) {
					hits++
				}
			}
			nearRate(t, fmt.Sprintf("%s, %d quads", c.name, Q), float64(hits)/float64(n), n, c.want[i], 40_000, .001)
		}
	}
}

// The group-sequential rule over the cap: looks at 2, 3, 4 quads without history, at 1 to 4 with one.
func TestLooksKeepFivePercent(t *testing.T) {
	n := sessions(t)
	for _, c := range []struct {
		name  string
		tr    trouble
		noise bool
		first int
		most  float64
	}{
		{"own noise", trouble{}, false, 2, .055},
		{"own noise, AR(1) .5", trouble{ar: .5}, false, 2, .065},
		{"borrowed", trouble{}, true, 1, .055},
		{"borrowed, 3 % depressed", trouble{depressed: .03}, true, 1, .055},
	} {
		r := rand.New(rand.NewPCG(4, uint64(len(c.name))))
		cr, hits := crit{}, 0
		const most = 4
		p := PocockP(most - c.first + 1)
		for range n {
			var history *Noise
			if c.noise {
				ss := 0.0
				for range 12 {
					x := r.NormFloat64()
					ss += x * x
				}
				history = &Noise{SD: math.Sqrt(ss / 12), DF: 12}
			}
			qs := c.tr.session(r, most)
			for Q := c.first; Q <= most; Q++ {
				if e, _ := Quads(qs[:Q], history); cr.outside(e, p) {
					hits++
					break
				}
			}
		}
		rate := float64(hits) / float64(n)
		t.Logf("%s: %.4f", c.name, rate)
		if rate > c.most || rate < .01 {
			t.Errorf("%s: false positives %.4f over all looks, want at most %.3f", c.name, rate, c.most)
		}
	}
}

// Section 4: the quad e-process to six quads stops falsely in .6, 1.2 and 1.5 % for g = 1, 4, 10.
func TestSection4EProcessErrors(t *testing.T) {
	n := sessions(t)
	for _, c := range []struct{ g, want float64 }{{1, .006}, {4, .012}, {10, .015}} {
		r := rand.New(rand.NewPCG(5, uint64(c.g)))
		var at [7]float64
		for Q := 1; Q <= 6; Q++ {
			at[Q], _ = ECritical(float64(Q), float64(2*Q-1), .05, c.g)
		}
		hits := 0
		for range n {
			qs := trouble{linear: 1}.session(r, 6)
			for Q := 1; Q <= 6; Q++ {
				tau, h, s := quadSums(qs[:Q])
				tt := tau / math.Sqrt((h+s)/float64(2*Q-1)/float64(Q))
				if at[Q] > 0 && math.Abs(tt) >= at[Q] {
					hits++
					break
				}
			}
		}
		nearRate(t, fmt.Sprintf("g=%g", c.g), float64(hits)/float64(n), n, c.want, 100_000, .001)
	}
}

// Section 3.1: neighbouring rungs share a control and correlate by 1/6.
func TestSection31RungCorrelation(t *testing.T) {
	n := sessions(t)
	r := rand.New(rand.NewPCG(6, 6))
	labels := []string{"U", "S1", "U", "S2", "U"}
	var xy, xx, yy float64
	for range n {
		y := make([]float64, 5)
		for i := range y {
			y[i] = r.NormFloat64()
		}
		a, _ := Rung([]Ladder{{y, labels}}, "U", "S1", nil)
		b, _ := Rung([]Ladder{{y, labels}}, "U", "S2", nil)
		xy, xx, yy = xy+a.Diff*b.Diff, xx+a.Diff*a.Diff, yy+b.Diff*b.Diff
	}
	// Four standard errors of a correlation, (1−ρ²)/√n, and of a variance, σ²·√(2/n).
	near(t, "correlation", xy/math.Sqrt(xx*yy), 1./6, 4*(1-1./36)/math.Sqrt(float64(n)))
	near(t, "variance", xx/float64(n), 1.5, 4*1.5*math.Sqrt(2/float64(n)))
}

// The degrees of freedom of VonNeumann make its intervals keep their level.
func TestVonNeumannDF(t *testing.T) {
	n := sessions(t)
	r := rand.New(rand.NewPCG(7, 7))
	labels := []string{"U", "S1", "U", "S2", "U", "S3", "U"}
	hits, cr := 0, crit{}
	for range n {
		y := make([]float64, len(labels))
		for i := range y {
			y[i] = r.NormFloat64() + float64(i)
		}
		e, _ := Rung([]Ladder{{y, labels}}, "U", "S2", nil)
		if cr.outside(e, .05) {
			hits++
		}
	}
	// A steady drift of one sd an arm enters the controls' differences, so the rule errs on the safe side.
	if rate := float64(hits) / float64(n); rate > .05 {
		t.Errorf("false positives %.4f", rate)
	}
	hits = 0
	for range n {
		y := make([]float64, len(labels))
		for i := range y {
			y[i] = r.NormFloat64()
		}
		e, _ := Rung([]Ladder{{y, labels}}, "U", "S2", nil)
		if cr.outside(e, .05) {
			hits++
		}
	}
	// The controls beside the rung enter the noise as well: a little on the safe side again.
	if rate := float64(hits) / float64(n); rate > .05 || rate < .015 {
		t.Errorf("false positives without drift %.4f", rate)
	}
}

// Properties of every estimator: a shift of all values changes nothing, a scale scales, swapping the sides
// turns the sign, and the order of whole blocks does not matter.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 2000 {
		Q := 1 + r.IntN(4)
		qs := trouble{linear: r.NormFloat64()}.session(r, Q)
		var noise *Noise
		scale := math.Exp(r.NormFloat64())
		scaled := noise
		if r.IntN(2) == 0 {
			noise = &Noise{SD: math.Exp(r.NormFloat64()), DF: 1 + 20*r.Float64()}
			scaled = &Noise{SD: noise.SD * scale, DF: noise.DF}
		}
		e, _ := Quads(qs, noise)
		moved, swapped, turned := make([]Quad, Q), make([]Quad, Q), make([]Quad, Q)
		shift := 10 * r.NormFloat64()
		for i, q := range qs {
			for s := range q.Y {
				moved[i].Y[s] = scale*q.Y[s] + shift
			}
			moved[i].BFirst = q.BFirst
			swapped[i] = Quad{q.Y, !q.BFirst}
			turned[Q-1-i] = q
		}
		m, _ := Quads(moved, scaled)
		near(t, "scaled", m.Diff, scale*e.Diff, 1e-9*(1+math.Abs(shift)+scale))
		near(t, "scaled SE", m.SE/(scale*e.SE), 1, 1e-7)
		s, _ := Quads(swapped, noise)
		near(t, "swapped", s.Diff, -e.Diff, 1e-12)
		near(t, "swapped SE", s.SE, e.SE, 1e-12)
		p, _ := Quads(turned, noise)
		near(t, "permuted", p.Diff, e.Diff, 1e-9)
		near(t, "permuted SE", p.SE, e.SE, 1e-9)
	}
}

// Linear drift leaves every balanced design without bias, to the last bits.
func TestLinearDriftCancels(t *testing.T) {
	for _, g := range []float64{.001, .5, 40} {
		q := Quad{}
		for i := range q.Y {
			q.Y[i] = 3 + g*float64(i)
		}
		near(t, "quad", q.Contrast(), 0, 1e-12*(1+g))
		near(t, "curvature", q.Curvature(), 0, 1e-12*(1+40*g))
		y := make([]float64, 12)
		labels := []string{"U", "S1", "U", "S2", "U", "S3", "S3", "U", "S2", "U", "S1", "U"}
		for i := range y {
			y[i] = 3 + g*float64(i)
		}
		for _, s := range []string{"S1", "S2", "S3"} {
			e, _ := Rung([]Ladder{{y, labels}}, "U", s, nil)
			near(t, "rung "+s, e.Diff, 0, 1e-12*(1+40*g))
		}
		// Section 4: adjacent rungs take 2/3 and 1/3: one such arm has variance 1 + 4/9 + 1/9.
		one := Ladder{Y: []float64{0, 0, 0, 0}, Labels: []string{"U", "S", "T", "U"}}
		e, _ := Rung([]Ladder{one}, "U", "S", nil)
		near(t, "factor", e.K, 1+4./9+1./9, 1e-12)
	}
}
