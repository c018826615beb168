package stats

// Factorial designs: many levers in few arms, every arm saying something about every lever. A
// Plackett-Burman design of 12 runs gives each of up to 11 levers a variance of a third of an arm's, where a
// ladder gives 1.5; what it costs is that interactions of two levers leak into the main effects of others.
// So sure winners belong into the base before, and quads confirm after.

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// MethodFactorial is the Method of estimates from a factorial design.
const MethodFactorial = "factorial"

// pbGenerator is the first row of the Plackett-Burman design of 12; the others are its cyclic shifts and a
// row of all low.
const pbGenerator = "++-+++---+-"

// PlackettBurman12 is the 12 runs of 11 columns; true is high. Any two columns are orthogonal.
func PlackettBurman12() [][]bool {
	n := len(pbGenerator)
	rows := make([][]bool, n+1)
	for i := range rows {
		rows[i] = make([]bool, n)
		for j := range rows[i] {
			rows[i][j] = i < n && pbGenerator[(j-i+n)%n] == '+'
		}
	}
	return rows
}

// Fraction8 is 8 runs of k columns. Up to four, the fourth is the product of the first three (2^(4−1),
// resolution IV: main effects are free of interactions of two); five to seven use up the interactions too
// (resolution III). The columns are A, B, C, ABC, BC, AC, AB.
func Fraction8(k int) [][]bool {
	rows := make([][]bool, 8)
	for i := range rows {
		a, b, c := i&4 != 0, i&2 != 0, i&1 != 0
		all := []bool{a, b, c, (a == b) == c, b == c, a == c, a == b}
		rows[i] = all[:min(max(k, 0), 7)]
	}
	return rows
}

// FoldOver appends the mirror image of every run: main effects become free of interactions of two.
func FoldOver(rows [][]bool) [][]bool {
	out := slices.Clone(rows)
	for _, r := range rows {
		m := make([]bool, len(r))
		for j, x := range r {
			m[j] = !x
		}
		out = append(out, m)
	}
	return out
}

// Run is one arm of a factorial design.
type Run struct {
	Block int
	On    []bool // by lever
	Y     float64
}

// Factorial estimates every lever's main effect, high minus low, by least squares: y ~ block + levers, and a
// straight drift within each block when drift says so. Runs are in time, and a block's slots are counted as
// they come. The noise is the residual, which holds the interactions too, moderated by n. With less than m/3
// degrees of freedom of noise known for m levers it is Lenth's PSE instead: most levers do nothing, and what
// their effects differ by is noise. ok is false when the runs cannot tell the levers apart.
// Not valid at any look.
func Factorial(runs []Run, drift bool, n *Noise) (effects []Estimate, ok bool) {
	x, inv, ok := model(runs, drift)
	if !ok {
		return nil, false
	}
	m := len(runs[0].On)
	y := make([]float64, len(runs))
	for i, r := range runs {
		y[i] = r.Y
	}
	b := solve(x, inv, y)
	rss := 0.0
	for i := range x {
		r := y[i]
		for j, v := range x[i] {
			r -= v * b[j]
		}
		rss += r * r
	}
	df := float64(len(x) - len(b))
	own := 0.0
	if df > 0 {
		own = rss / df
	}
	blocks := map[int]bool{}
	for _, r := range runs {
		blocks[r.Block] = true
	}
	all := make([]float64, m)
	for j := range all {
		all[j] = 2 * b[j]
		if math.IsNaN(all[j]) || math.IsInf(all[j], 0) {
			return nil, false
		}
		e := Estimate{Method: MethodFactorial, Diff: all[j], N: len(blocks)}
		e.settle(own, df, 4*inv[j][j], n, maxAbs(y))
		effects = append(effects, e)
	}
	if l, ok := Lenth(all); ok && effects[0].DF < l.DF {
		for j := range effects {
			e := &effects[j]
			e.OwnDF, e.BorrowedDF, e.DF = l.DF, 0, l.DF
			e.SE, e.ArmSD, e.Zero = l.PSE, l.PSE/math.Sqrt(e.K), false
			e.Borrowed = fmt.Sprintf("noise of %s an effect from the small effects of %d levers themselves (Lenth), because only %.3g df are known otherwise", pct(l.PSE), m, math.Max(0, df))
		}
	}
	return effects, true
}

// model is the design matrix, levers as ±1 first, then levels and drifts of blocks, and (X'X)⁻¹.
func model(runs []Run, drift bool) (x, inv [][]float64, ok bool) {
	if len(runs) == 0 || len(runs[0].On) == 0 {
		return nil, nil, false
	}
	m := len(runs[0].On)
	place, slots := map[int]int{}, map[int]int{}
	for _, r := range runs {
		if len(r.On) != m {
			return nil, nil, false
		}
		if _, ok := place[r.Block]; !ok {
			place[r.Block] = len(place)
		}
		slots[r.Block]++
	}
	per := 1
	if drift {
		per = 2
	}
	p := m + per*len(place)
	at := map[int]int{}
	for _, r := range runs {
		row := make([]float64, p)
		for j, on := range r.On {
			row[j] = sign(on)
		}
		k := m + per*place[r.Block]
		row[k] = 1
		if drift {
			half := float64(slots[r.Block]-1) / 2
			row[k+1] = (float64(at[r.Block]) - half) / math.Max(1, half)
		}
		at[r.Block]++
		x = append(x, row)
	}
	if len(x) < p {
		return nil, nil, false
	}
	inv, ok = inverse(x)
	return x, inv, ok
}

func sign(on bool) float64 {
	if on {
		return 1
	}
	return -1
}

// solve is (X'X)⁻¹X'y.
func solve(x, inv [][]float64, y []float64) []float64 {
	p := len(inv)
	xy, b := make([]float64, p), make([]float64, p)
	for i := range x {
		for j, v := range x[i] {
			xy[j] += v * y[i]
		}
	}
	for i := range inv {
		for j, v := range inv[i] {
			b[i] += v * xy[j]
		}
	}
	return b
}

// inverse is (X'X)⁻¹ by Gauss and Jordan: the columns are signs and shares, so that nothing is badly scaled.
func inverse(x [][]float64) (inv [][]float64, ok bool) {
	p := len(x[0])
	a := make([][]float64, p)
	for i := range a {
		a[i] = make([]float64, 2*p)
		a[i][p+i] = 1
		for j := range p {
			for _, row := range x {
				a[i][j] += row[i] * row[j]
			}
		}
	}
	for c := range p {
		at := c
		for r := c + 1; r < p; r++ {
			if math.Abs(a[r][c]) > math.Abs(a[at][c]) {
				at = r
			}
		}
		if math.Abs(a[at][c]) < 1e-9 {
			return nil, false
		}
		a[c], a[at] = a[at], a[c]
		d := a[c][c]
		for j := range a[c] {
			a[c][j] /= d
		}
		for r := range p {
			if f := a[r][c]; r != c && f != 0 {
				for j := range a[r] {
					a[r][j] -= f * a[c][j]
				}
			}
		}
	}
	for i := range a {
		inv = append(inv, a[i][p:])
	}
	return inv, true
}

// Alias is how much of an interaction of levers J and K a lever's main effect holds: ±1 is all of it.
type Alias struct {
	Lever, J, K int
	Share       float64
}

// Aliases lists what leaks into the main effects of a design, for shares of .05 and more, the largest first.
// Valid at any look: it is about the design.
func Aliases(runs []Run, drift bool) []Alias {
	x, inv, ok := model(runs, drift)
	if !ok {
		return nil
	}
	m := len(runs[0].On)
	var out []Alias
	for j := range m {
		for k := j + 1; k < m; k++ {
			z := make([]float64, len(runs))
			for i, r := range runs {
				z[i] = sign(r.On[j]) * sign(r.On[k])
			}
			for l, share := range solve(x, inv, z)[:m] {
				if math.Abs(share) >= .05 {
					out = append(out, Alias{l, j, k, share})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Alias) int {
		switch x, y := math.Abs(a.Share), math.Abs(b.Share); {
		case x > y+1e-9:
			return -1
		case x < y-1e-9:
			return 1
		}
		return 0
	})
	return out
}

// LenthNoise is the noise of effects, from the effects themselves (Lenth 1989).
type LenthNoise struct {
	S0  float64 // 1.5 times the median size: the first guess
	PSE float64 // 1.5 times the median size of those below 2.5·S0: the standard error of an effect
	DF  float64 // m/3
}

// ME is the margin of error: an effect beyond it is active at a level such as .95.
func (l LenthNoise) ME(level float64) float64 { return TQuantile((1+level)/2, l.DF) * l.PSE }

// Lenth takes the noise from m effects of which most are nothing. ok is false for fewer than five, where a
// median of effects is no noise, and where it is 0. Not valid at any look.
func Lenth(effects []float64) (l LenthNoise, ok bool) {
	if len(effects) < 5 {
		return l, false
	}
	size := make([]float64, len(effects))
	for i, e := range effects {
		size[i] = math.Abs(e)
	}
	l.S0 = 1.5 * Median(size)
	var small []float64
	for _, s := range size {
		if s < 2.5*l.S0 {
			small = append(small, s)
		}
	}
	l.PSE, l.DF = 1.5*Median(small), float64(len(effects))/3
	return l, l.PSE > 0 && !math.IsInf(l.PSE, 0) && !math.IsNaN(l.PSE)
}

// Interaction is the interaction contrast on logarithms, ln(AB/U) − ln(A/U) − ln(B/U): what the stack of two
// levers has beyond their product; negative when they get in each other's way. Its variance is twice that of
// a main effect from as many arms. ok is false where a value has no logarithm. Valid at any look: it claims
// nothing without its error.
func Interaction(u, a, b, ab float64) (log float64, ok bool) {
	l, ok := Logs([]float64{u, a, b, ab})
	if !ok {
		return 0, false
	}
	return l[3] - l[1] - l[2] + l[0], true
}

// InteractionOf is the interaction of a stack with separate estimates of its parts: the stack's effect less
// the sum of theirs, with the standard errors added in squares and Welch's degrees of freedom. ok is false
// when there are no parts or a noise is not known.
func InteractionOf(stack Estimate, parts []Estimate) (e Estimate, ok bool) {
	e = Estimate{Method: "interaction", Diff: stack.Diff, N: stack.N, K: 1}
	v, w := 0.0, 0.0
	for i, p := range append([]Estimate{stack}, parts...) {
		if !p.Known() {
			return e, false
		}
		if i > 0 {
			e.Diff -= p.Diff
		}
		v += p.SE * p.SE
		w += p.SE * p.SE * p.SE * p.SE / p.DF
	}
	if len(parts) == 0 || !(v > 0) || !(w > 0) {
		return e, false
	}
	e.DF, e.SE = v*v/w, math.Sqrt(v)
	e.ArmSD = e.SE
	return e, true
}

// normal quantities that several files need.
func phi(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }
func upper(z float64) float64 {
	return distuv.UnitNormal.Survival(z)
}
