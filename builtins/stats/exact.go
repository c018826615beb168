package stats

// Tests that assume no distribution, for differences of whole blocks: quad contrasts, or pairs whose order
// was drawn by coin (the pairs inside an ABBA are not exchangeable). With few blocks they cannot reach 95 %,
// and say so: two-sided, the smallest p of n differences is 2/2ⁿ.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// MinP is the smallest two-sided p that any exact test of n differences can give: 2/2ⁿ.
func MinP(n int) float64 { return math.Min(1, math.Exp2(float64(1-n))) }

// MaxCoverage is the largest coverage of an interval of n differences without a distribution: 1 − 2/2ⁿ.
func MaxCoverage(n int) float64 { return 1 - MinP(n) }

// MinPairs is how many differences an exact test needs before it can reach p: 6 for .05, 10 for .0025.
func MinPairs(p float64) int {
	for n := 1; n < 1000; n++ {
		if MinP(n) <= p {
			return n
		}
	}
	return 1000
}

// Attainable says in words why n differences cannot reach a level such as .95 without the normal
// distribution; "" when they can.
func Attainable(n int, level float64) string {
	need := MinPairs(1 - level + 1e-12)
	if n >= need {
		return ""
	}
	return fmt.Sprintf("cannot reach %.4g %% without normality; n >= %d needed", 100*level, need)
}

// Exact is the result of an exact test.
type Exact struct {
	P    float64 // two-sided
	N    int     // the effective number: differences that are not 0
	Zero int     // how many are 0
	K    int     // positive ones
	Stat float64 // sum of signed values or ranks; K for the sign test
	Why  string  // why there is no P; "" when there is one
}

func nonzero(d []float64) (x []float64, e Exact) {
	for _, v := range d {
		switch {
		case v > 0:
			e.K++
			fallthrough
		case v < 0:
			x = append(x, v)
		default:
			e.Zero++
		}
	}
	e.N, e.P = len(x), 1
	if e.N == 0 {
		e.Why = "no difference that is not 0"
	}
	return x, e
}

// SignTest counts signs: p = 2·Σ_{i≥max(k,n−k)} C(n,i)/2ⁿ. Zeros are dropped. Not valid at any look.
func SignTest(d []float64) Exact {
	_, e := nonzero(d)
	e.Stat = float64(e.K)
	p := 0.0
	for i := max(e.K, e.N-e.K); i <= e.N; i++ {
		p += math.Exp(lchoose(e.N, i) - float64(e.N)*math.Ln2)
	}
	if e.N > 0 {
		e.P = math.Min(1, 2*p)
	}
	return e
}

func lchoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// maxFlips bounds the enumeration of SignFlip: a million sums.
const maxFlips = 20

// SignFlip is the share of all 2ⁿ assignments of signs whose sum is at least as far from 0: exact by design
// when a coin drew each block's orientation. A zero counts as half a flip: both of its signs give the same sum, so
// that each of the two stands for half an assignment. The 2ⁿ assignments of all n differences then weigh as much as
// the 2ᴺ of the N that are not 0, and p is theirs. N is the effective number: no p is below 2/2ᴺ, however many
// zeros stand beside.
// Above 20 differences that are not 0 nothing is enumerated, and Why says so. Not valid at any look.
func SignFlip(d []float64) Exact {
	x, e := nonzero(d)
	scale := 0.0
	for _, v := range x {
		e.Stat += v
		scale += math.Abs(v)
	}
	if e.N > maxFlips {
		e.Why = fmt.Sprintf("%d differences are %d at most for an enumeration of signs; use the signed-rank test", e.N, maxFlips)
		return e
	}
	if e.N == 0 {
		return e
	}
	far := math.Abs(e.Stat) - 1e-12*scale // the same sum added in another order
	hits, sum, signs := 0, -scale, uint32(0)
	for i := uint32(0); ; {
		if math.Abs(sum) >= far {
			hits++
		}
		if i++; i == 1<<e.N {
			break
		}
		// Gray code: one sign changes from one assignment to the next.
		flip := 0
		for i>>flip&1 == 0 {
			flip++
		}
		step := 2 * math.Abs(x[flip])
		if signs ^= 1 << flip; signs>>flip&1 == 0 {
			step = -step
		}
		sum += step
	}
	e.P = float64(hits) / math.Exp2(float64(e.N))
	return e
}

// SignedRank is Wilcoxon's test, exact for any ties: zeros are dropped, tied sizes share their mean rank, and
// the distribution is that of the ranks as they are. Not valid at any look.
func SignedRank(d []float64) Exact {
	x, e := nonzero(d)
	if e.N == 0 {
		return e
	}
	if e.N > 500 {
		e.Why = fmt.Sprintf("%d differences are beyond the exact distribution", e.N)
		return e
	}
	ranks := midranks(x) // doubled, so that they are whole
	total, w := 0, 0
	for i, r := range ranks {
		total += r
		if x[i] > 0 {
			w += r
		}
	}
	e.Stat = float64(w) / 2
	ways := make([]float64, total+1) // probability of each sum
	ways[0] = 1
	for _, r := range ranks {
		for s := total; s >= 0; s-- {
			ways[s] /= 2
			if s >= r {
				ways[s] += ways[s-r] / 2
			}
		}
	}
	p, far := 0.0, abs(2*w-total)
	for s, q := range ways {
		if abs(2*s-total) >= far {
			p += q
		}
	}
	e.P = math.Min(1, p)
	return e
}

func abs(n int) int { return max(n, -n) }

// midranks is twice the mean rank of each size.
func midranks(x []float64) []int {
	at := make([]int, len(x))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(i, j int) int {
		switch a, b := math.Abs(x[i]), math.Abs(x[j]); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	ranks := make([]int, len(x))
	for i := 0; i < len(at); {
		j := i
		for j < len(at) && math.Abs(x[at[j]]) == math.Abs(x[at[i]]) {
			j++
		}
		for _, k := range at[i:j] {
			ranks[k] = i + 1 + j // (i+1) + j over 2, doubled
		}
		i = j
	}
	return ranks
}

// MedianRange is an interval of the median from order statistics: what it has for ends are values that were seen.
type MedianRange struct {
	Median    float64
	Low, High *float64 // nil: unbounded, since no value seen can be the end
	Coverage  float64  // exact, at least the level asked for
	Why       string   // why an end is unbounded; "" when none is
}

// MedianInterval is the interval of the median that assumes no distribution. From six values on (at 95 %) it is
// symmetric and inverts the sign test: the narrowest whose coverage is at least level. With fewer none is bounded on
// both sides. Then it ends at the largest value where that alone covers enough, as for five values with
// 1 − 2⁻⁵ = 97 %, and its lower end is open; else both are. ok is false for no values. Not valid at any look.
func MedianInterval(x []float64, level float64) (r MedianRange, ok bool) {
	n := len(x)
	if n == 0 || !(level > 0 && level < 1) {
		return r, false
	}
	s := slices.Clone(x)
	slices.Sort(s)
	r = MedianRange{Median: Median(s), Coverage: 1, Why: Attainable(n, level)}
	if r.Why != "" {
		if one := 1 - math.Exp2(-float64(n)); one >= level {
			r.High, r.Coverage = &s[n-1], one
		}
		return r, true
	}
	tail := 0.0
	for k := 1; k <= (n+1)/2; k++ { // from the k-th smallest to the k-th largest
		tail += math.Exp(lchoose(n, k-1) - float64(n)*math.Ln2)
		if 1-2*tail < level-1e-12 {
			break
		}
		r.Low, r.High, r.Coverage = &s[k-1], &s[n-k], 1-2*tail
	}
	return r, true
}

// Shift is the Hodges-Lehmann estimate of where differences lie.
type Shift struct {
	Estimate  float64 // the median of all (dᵢ+dⱼ)/2, i ≤ j
	Low, High float64 // meaningful only when Known
	Coverage  float64 // exact, at least the level asked for
	Known     bool
	Why       string // why there is no interval
}

// HodgesLehmann estimates the centre of differences and its interval, from the k-th smallest to the k-th
// largest mean of two: the narrowest whose exact coverage is at least level. Fewer than six differences have
// none at 95 %. ok is false for no differences. Not valid at any look.
func HodgesLehmann(d []float64, level float64) (s Shift, ok bool) {
	if len(d) == 0 {
		return s, false
	}
	var walsh []float64
	for i := range d {
		for j := i; j < len(d); j++ {
			walsh = append(walsh, d[i]/2+d[j]/2)
		}
	}
	slices.Sort(walsh)
	s.Estimate = Median(walsh)
	if s.Why = Attainable(len(d), level); s.Why != "" {
		return s, true
	}
	if len(d) > 500 {
		s.Why = "too many differences for the exact distribution"
		return s, true
	}
	// P(W ≤ k−1) of the ranks 1…n.
	total := len(walsh)
	ways := make([]float64, total+1)
	ways[0] = 1
	for r := 1; r <= len(d); r++ {
		for w := total; w >= 0; w-- {
			ways[w] /= 2
			if w >= r {
				ways[w] += ways[w-r] / 2
			}
		}
	}
	tail := 0.0
	for k := 1; k <= total/2; k++ {
		tail += ways[k-1]
		if 1-2*tail < level {
			break
		}
		s.Low, s.High, s.Coverage, s.Known = walsh[k-1], walsh[total-k], 1-2*tail, true
	}
	return s, true
}

// minBootstrap: below ten values the percentile interval of 95 % covers 89 % at best, and 50 % of two.
const minBootstrap = 10

// Bootstrap is the percentile interval of the mean from resamples drawn with seed. Below ten values it is
// refused: of two values it is their range, which covers 50 %. Not valid at any look.
func Bootstrap(d []float64, level float64, resamples int, seed uint64) (low, high float64, err error) {
	if len(d) < minBootstrap {
		return 0, 0, fmt.Errorf("bootstrap: got %d values, want at least %d: below that its 95 %% interval covers less than 89 %%", len(d), minBootstrap)
	}
	if !(level > 0 && level < 1) || resamples < 100 {
		return 0, 0, fmt.Errorf("bootstrap: got level %v and %d resamples, want a level between 0 and 1 and at least 100", level, resamples)
	}
	r := rand.New(rand.NewPCG(seed, 0x626f6f74))
	means := make([]float64, resamples)
	for i := range means {
		for range d {
			means[i] += d[r.IntN(len(d))] / float64(len(d))
		}
	}
	slices.Sort(means)
	at := func(q float64) float64 { return means[min(resamples-1, int(q*float64(resamples)))] }
	return at((1 - level) / 2), at((1 + level) / 2), nil
}

// TOST is two one-sided tests of equivalence (Schuirmann): p that the difference lies beyond ±margin, the
// larger of the two. Equivalent at .05 when p is below .05, that is when the 90 % interval lies within
// ±margin. ok is false without noise or margin. Not valid at any look.
func (e Estimate) TOST(margin float64) (p float64, ok bool) {
	low, lok := e.T(-margin)
	high, hok := e.T(margin)
	if !lok || !hok || !(margin > 0) {
		return 0, false
	}
	return math.Max(TTail(low, e.DF), TTail(-high, e.DF)), true
}

// Exceeds tests that the difference is larger than m: t, the one-sided p, and the lower bound of the
// one-sided interval at level. ok is false when no noise is known. Not valid at any look.
func (e Estimate) Exceeds(m, level float64) (t, p, lower float64, ok bool) {
	t, ok = e.T(m)
	if !ok || !(level > 0 && level < 1) {
		return 0, 0, 0, false
	}
	return t, TTail(t, e.DF), e.Diff - TQuantile(level, e.DF)*e.SE, true
}
