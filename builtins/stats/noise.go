package stats

// Noise: what one arm varies by, from these arms, from earlier ones, or both.
//
// The rule (moderated variance): s² = (d₀s₀² + df·s²)/(d₀ + df) with d₀ = min(8, df of the history). Full
// trust in a pooled sd was tried and dropped: with 3 % depressed arms it calls 14 to 18 % of nothing a
// difference, against .04 for this rule.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// MaxBorrowedDF bounds what earlier arms may say about these.
const MaxBorrowedDF = 8

// Noise is what is known of the noise of one arm from arms that are not part of the comparison.
type Noise struct {
	SD   float64 // of one arm, on the scale analysed (logarithms): .0027 is .27 %
	DF   float64 // degrees of freedom behind SD; at most 8 of them are borrowed
	From string  // in words, with what was left out
}

// Usable reports whether anything can be borrowed from n; nil is not usable.
func (n *Noise) Usable() bool {
	return n != nil && n.SD > 0 && n.DF >= 1 && !math.IsInf(n.SD, 0) && !math.IsNaN(n.DF)
}

// LentDF is how many degrees of freedom n lends: min(8, its own), 0 when nothing can be borrowed.
func (n *Noise) LentDF() float64 {
	if !n.Usable() {
		return 0
	}
	return math.Min(MaxBorrowedDF, n.DF)
}

// settle fills in the noise of an estimate: own is the variance of one arm from these arms on df degrees
// of freedom, k the design's factor, scale the size of the numbers behind own (its rounding floor).
func (e *Estimate) settle(own, df, k float64, n *Noise, scale float64) {
	e.OwnDF, e.K = df, k
	floor := 1e-12 * math.Max(1, scale)
	if own < floor*floor {
		own = 0
	}
	v, total := own, df
	if d0 := n.LentDF(); d0 > 0 {
		s0 := n.SD * n.SD
		if df > 0 && own/s0 > FQuantile(.95, df, d0) {
			e.Borrowed = fmt.Sprintf("nothing borrowed: these arms vary by %s each, beyond the %s of %s", pct(math.Sqrt(own)), pct(n.SD), n.From)
		} else {
			v, total = (d0*s0+df*own)/(d0+df), d0+df
			e.BorrowedDF = d0
			e.Borrowed = fmt.Sprintf("noise of %s an arm (%.3g of %.3g df) from %s", pct(n.SD), d0, n.DF, n.From)
		}
	}
	e.DF, e.ArmSD, e.SE = total, math.Sqrt(v), math.Sqrt(v*k)
	if e.Zero = total > 0 && v == 0; e.Zero && math.Abs(e.Diff) < floor {
		e.Diff = 0 // the rounding of logarithms is no difference
	}
	if math.IsInf(v, 0) || math.IsNaN(v) { // values beyond what can be squared: no noise is known
		e.DF, e.ArmSD, e.SE, e.Zero = 0, 0, 0, false
	}
}

// pct prints a difference of logarithms as a percentage with three digits.
func pct(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }

// FQuantile is the quantile of the F distribution.
func FQuantile(p, df1, df2 float64) float64 {
	// Through the beta distribution, whose quantile is the better conditioned of the two for 1 or 2 df.
	b := distuv.Beta{Alpha: df1 / 2, Beta: df2 / 2}.Quantile(p)
	if b >= 1 {
		return math.MaxFloat64
	}
	return df2 * b / (df1 * (1 - b))
}

// Unit is one independent piece of noise: a sum of squares that estimates DF times the variance of one arm.
type Unit struct {
	Name string // in words, for what is left out: `block 0 of "flush512"`
	SS   float64
	DF   float64
}

// minUnits is how many units it takes before one of them can be called an outlier.
const minUnits = 5

// Pool pools the noise of earlier blocks by a robust rule and names what it left out: with five units or
// more, a unit whose mean square lies beyond the .9995 point of its χ² around the robust scale (the median
// of the units' mean squares, each divided by the median of its χ²). One depressed arm in 64 otherwise
// moves a pooled sd from .27 % to .66 %. At most a quarter of the units is left out, the largest first:
// noise where more than that sticks out is not cleaner noise, it is another distribution.
// What is left may still be of several kinds (Bartlett beyond unequalP): then its noise is that of no one kind,
// and DF is at most unequalDF, so that these arms' own noise counts for more.
// Returns nil when there is nothing to pool. Valid at any look: it sees no arm of the comparison.
func Pool(units []Unit) (n *Noise, left []string) {
	us := slices.DeleteFunc(slices.Clone(units), func(u Unit) bool {
		return !(u.DF > 0) || !(u.SS >= 0) || math.IsInf(u.SS, 0) || math.IsInf(u.DF, 0)
	})
	if len(us) >= minUnits {
		var scaled []float64
		middle, far := map[float64]float64{}, map[float64]float64{} // quantiles by df: there are few
		for _, u := range us {
			if _, ok := middle[u.DF]; !ok {
				middle[u.DF] = distuv.ChiSquared{K: u.DF}.Quantile(.5)
				far[u.DF] = distuv.ChiSquared{K: u.DF}.Quantile(.9995)
			}
			scaled = append(scaled, u.SS/middle[u.DF])
		}
		robust := Median(scaled)
		excess := func(u Unit) float64 { return u.SS / far[u.DF] }
		slices.SortStableFunc(us, func(a, b Unit) int { // largest first
			switch x, y := excess(a), excess(b); {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
		most := len(us) / 4
		for robust > 0 && len(left) < most && excess(us[0]) > robust {
			left = append(left, us[0].Name)
			us = us[1:]
		}
	}
	var ss, df float64
	for _, u := range us {
		ss += u.SS
		df += u.DF
	}
	sd := math.Sqrt(ss / df)
	if !(df > 0) || !(sd > 0) || math.IsInf(sd, 0) {
		return nil, left
	}
	n = &Noise{SD: sd, DF: df, From: fmt.Sprintf("%d earlier blocks", len(us))}
	if len(us) == 1 {
		n.From = "1 earlier block"
	}
	if len(left) > 0 {
		n.From += ", without " + strings.Join(left, ", ")
	}
	if _, _, p, ok := Bartlett(us); ok && p < unequalP && df > unequalDF {
		n.DF = unequalDF
		n.From += fmt.Sprintf(", whose noise differs beyond chance (Bartlett p %.1g): %d of %.3g df are lent", p, unequalDF, df)
	}
	return n, left
}

// unequalDF is lent by a history whose blocks differ in noise more than chance lets them: with 4 degrees of
// freedom unequal noise gives .043, .036 and .038 false positives at one, two and three quads, with 8 of them
// .057, .047 and .047 (the rule of section 4).
const (
	unequalDF = 4
	unequalP  = .01
)

// Bartlett tests whether independent variances are one: the statistic, its degrees of freedom (one less than
// there are variances) and p from the upper tail of χ². It is meant for normal values and calls heavy tails
// unequal too; of variances on one degree of freedom it is cautious, with 3 % where 5 % are due. A unit without
// any variation has no logarithm and is left out: rounding made it. ok is false for fewer than two others.
// Valid at any look when it sees no arm of the comparison.
func Bartlett(units []Unit) (stat, df, p float64, ok bool) {
	var ss, nu, logs, inverse, k float64
	for _, u := range units {
		if !(u.SS > 0) || !(u.DF > 0) || math.IsInf(u.SS, 0) || math.IsInf(u.DF, 0) {
			continue
		}
		k++
		ss, nu = ss+u.SS, nu+u.DF
		logs += u.DF * math.Log(u.SS/u.DF)
		inverse += 1 / u.DF
	}
	if k < 2 || math.IsInf(ss, 0) {
		return 0, 0, 0, false
	}
	stat = math.Max(0, nu*math.Log(ss/nu)-logs) / (1 + (inverse-1/nu)/(3*(k-1)))
	return stat, k - 1, distuv.ChiSquared{K: k - 1}.Survival(stat), true
}

// VonNeumann is the noise of one arm from successive differences, which a drift does not enter:
// σ² = Σ(uᵢ−uᵢ₋₁)²/(2(m−1)), with the degrees of freedom of that estimator for independent values,
// 2k²/(3k−1) for k differences. ok is false for fewer than two values. Not valid at any look.
func VonNeumann(u []float64) (sd, df float64, ok bool) {
	if len(u) < 2 {
		return 0, 0, false
	}
	ss, k := 0.0, float64(len(u)-1)
	for i := 1; i < len(u); i++ {
		ss += (u[i] - u[i-1]) * (u[i] - u[i-1])
	}
	return math.Sqrt(ss / (2 * k)), 2 * k * k / (3*k - 1), true
}
