package stats

// Ladders: U S1 U S2 U. A rung's control is interpolated in slot number between the nearest controls on
// both sides, which cancels a linear drift. Neighbouring rungs share a control and so correlate by 1/6.
// Carry-over cannot be told from an effect in a ladder: it screens, quads confirm.

import "math"

// Ladder is the arms of one ladder in time.
type Ladder struct {
	Y      []float64 // by slot, logarithms
	Labels []string
}

// weights is the weight of every arm in the mean difference of a rung to its interpolated controls, and
// how many arms of the rung stand between two controls.
func (l Ladder) weights(control, rung string) (w []float64, n int) {
	w = make([]float64, len(l.Y))
	for i, label := range l.Labels {
		if label != rung {
			continue
		}
		before, after := -1, -1
		for j := i - 1; j >= 0 && before < 0; j-- {
			if l.Labels[j] == control {
				before = j
			}
		}
		for j := i + 1; j < len(l.Labels) && after < 0; j++ {
			if l.Labels[j] == control {
				after = j
			}
		}
		if before < 0 || after < 0 {
			continue
		}
		n++
		share := float64(i-before) / float64(after-before)
		w[i]++
		w[before] -= 1 - share
		w[after] -= share
	}
	for i := range w {
		w[i] /= math.Max(1, float64(n))
	}
	return w, n
}

// weighed is the sum of the arms by weights, and its variance in units of that of one arm.
func (l Ladder) weighed(w []float64) (sum, k float64) {
	for i := range w {
		sum += w[i] * l.Y[i]
		k += w[i] * w[i]
	}
	return sum, k
}

// Deltas is the difference of every arm of a rung to its interpolated control, in time, and the factor of
// each: its variance in units of that of one arm. Arms that do not stand between two controls are left out.
func (l Ladder) Deltas(control, rung string) (deltas, factors []float64) {
	for i, label := range l.Labels {
		if label != rung {
			continue
		}
		one := Ladder{Y: l.Y, Labels: append([]string(nil), l.Labels...)}
		for j := range one.Labels { // this arm alone
			if j != i && one.Labels[j] == rung {
				one.Labels[j] = "\x00"
			}
		}
		w, n := one.weights(control, rung)
		if n == 0 {
			continue
		}
		d, k := l.weighed(w)
		deltas, factors = append(deltas, d), append(factors, k)
	}
	return deltas, factors
}

// Controls is the control's arms in time.
func (l Ladder) Controls(control string) []float64 {
	var u []float64
	for i, label := range l.Labels {
		if label == control {
			u = append(u, l.Y[i])
		}
	}
	return u
}

// Rung estimates one rung of a ladder that ran once or several times. The noise is that of the controls
// with the drift removed (VonNeumann), and not less than what the rung's own arms disagree by, in one ladder
// or between ladders: a lever may be noisier than its control. ok is false when no arm of the rung stands
// between two controls. Not valid at any look by itself.
func Rung(ls []Ladder, control, rung string, n *Noise) (e Estimate, ok bool) {
	var each, deltas []float64
	var k, ss, df, scale, factors float64
	for _, l := range ls {
		w, arms := l.weights(control, rung)
		if arms == 0 {
			continue
		}
		d, kk := l.weighed(w)
		each = append(each, d)
		k += kk
		scale = math.Max(scale, maxAbs(l.Y))
		if sd, vdf, ok := VonNeumann(l.Controls(control)); ok {
			ss += sd * sd * vdf
			df += vdf
		}
		ds, fs := l.Deltas(control, rung)
		deltas = append(deltas, ds...)
		for _, f := range fs {
			factors += f
		}
	}
	if len(each) == 0 {
		return e, false
	}
	m := float64(len(each))
	mean, _ := meanSS(each)
	own := 0.0
	if df > 0 {
		own = ss / df
	}
	if arms := float64(len(deltas)); arms > 1 {
		_, spread := meanSS(deltas)
		own = math.Max(own, spread/(arms-1)/(factors/arms))
	}
	e = Estimate{Method: MethodLadder, Diff: mean, N: len(each)}
	e.settle(own, df, k/(m*m), n, scale)
	return e, true
}

// RungContrast estimates what rung b has over rung a of ladders that ran both. The two share controls, so
// their effects are correlated, and the difference has less noise than two independent effects would have:
// its weights are the difference of the two rungs' weights. correlation is that of the two effects: 1/6
// between neighbours of U S1 U S2 U. ok is false when one of the rungs has no arm between controls. Not
// valid at any look by itself.
func RungContrast(ls []Ladder, control, a, b string, n *Noise) (e Estimate, correlation float64, ok bool) {
	var each []float64
	var k, ss, df, scale, aa, bb, ab float64
	for _, l := range ls {
		wa, na := l.weights(control, a)
		wb, nb := l.weights(control, b)
		if na == 0 || nb == 0 {
			continue
		}
		d := 0.0
		for i := range wa {
			w := wb[i] - wa[i]
			d += w * l.Y[i]
			k += w * w
			aa, bb, ab = aa+wa[i]*wa[i], bb+wb[i]*wb[i], ab+wa[i]*wb[i]
		}
		each = append(each, d)
		scale = math.Max(scale, maxAbs(l.Y))
		if sd, vdf, ok := VonNeumann(l.Controls(control)); ok {
			ss, df = ss+sd*sd*vdf, df+vdf
		}
	}
	if len(each) == 0 {
		return e, 0, false
	}
	m := float64(len(each))
	mean, spread := meanSS(each)
	own := 0.0
	if df > 0 {
		own = ss / df
	}
	if m > 1 {
		own = math.Max(own, spread/(m-1)/(k/m))
	}
	e = Estimate{Method: MethodLadder, Diff: mean, N: len(each)}
	e.settle(own, df, k/(m*m), n, scale)
	return e, ab / math.Sqrt(aa*bb), true
}
