package gate

// From blocks to numbers: which values of which arms a comparison is made of.

import (
	"fmt"
	"math"
	"slices"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// collected is what one side, metric and case has: whole valid blocks in which every arm of the two sides
// has a value with a logarithm.
type collected struct {
	control, side string
	metric, cs    string
	kind          string // of the blocks: quad, pair, ladder, order
	blocks        []BlockState
	left          []string // blocks left out for this metric, in words
	noLog         bool     // values are there, but not all of them have a logarithm
	raw           []BlockState
}

// casesOf is the cases of a metric in order of first appearance. A value without a case beside values with
// one is a summary of them and no case of its own.
func casesOf(arms []*record.Arm, metric string) []string {
	var cases []string
	for _, a := range arms {
		if !measured(a) {
			continue
		}
		for i := range a.Metrics {
			if m := &a.Metrics[i]; m.Name == metric && !slices.Contains(cases, m.Case) {
				cases = append(cases, m.Case)
			}
		}
	}
	if len(cases) > 1 {
		cases = slices.DeleteFunc(cases, func(c string) bool { return c == "" })
	}
	return cases
}

// valueOf is an arm's value; nil with the reason when there is none.
func valueOf(a *record.Arm, metric, cs string) (v *float64, why string) {
	for i := range a.Metrics {
		m := &a.Metrics[i]
		if m.Name != metric || m.Case != cs {
			continue
		}
		switch {
		case m.Value != nil && !math.IsNaN(*m.Value) && !math.IsInf(*m.Value, 0):
			return m.Value, ""
		case m.Withheld != nil:
			return nil, metric + " is withheld: " + orWord(m.Why, "its sources disagree")
		}
		return nil, metric + " was not measured: " + orWord(m.Why, "no reason is on record")
	}
	return nil, metric + " was not measured"
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// collect takes the blocks that a comparison may use. Blocks of different kinds do not mix: the first valid
// one says the kind.
func collect(g *record.Group, blocks []BlockState, side, metric, cs string) collected {
	c := collected{control: g.Control, side: side, metric: metric, cs: cs}
	for _, b := range blocks {
		if !b.Valid {
			continue
		}
		if c.kind == "" {
			c.kind = b.Kind
		}
		if b.Kind != c.kind {
			c.left = append(c.left, fmt.Sprintf("block %d left out of %s: it is a %s among blocks that are not", b.Index+1, metric, b.Kind))
			continue
		}
		missing, log := "", true
		for _, a := range b.Arms {
			if a.Label != c.control && a.Label != side {
				continue
			}
			v, why := valueOf(a, metric, cs)
			if v == nil {
				of := ""
				if metric != g.Primary {
					of = " of cost " + metric + " alone" // of the verdict it is not left out
				}
				missing = fmt.Sprintf("block %d left out%s: arm %s: %s", b.Index+1, of, armName(a), why)
				break
			}
			log = log && *v > 0
		}
		if missing != "" {
			c.left = append(c.left, missing+caseWords(cs))
			continue
		}
		c.raw = append(c.raw, b)
		if !log {
			c.noLog = true
			continue
		}
		c.blocks = append(c.blocks, b)
	}
	if c.noLog {
		c.blocks = nil // a ratio of some arms only would be a selection by result
	}
	return c
}

func caseWords(cs string) string {
	if cs == "" {
		return ""
	}
	return " (" + cs + ")"
}

// values is the raw values of one label in time, over blocks.
func (c collected) values(blocks []BlockState, label string) []float64 {
	var y []float64
	for _, b := range blocks {
		for _, a := range b.Arms {
			if a != nil && a.Label == label {
				if v, _ := valueOf(a, c.metric, c.cs); v != nil {
					y = append(y, *v)
				}
			}
		}
	}
	return y
}

func (c collected) logs(b BlockState, i int) float64 {
	v, _ := valueOf(b.Arms[i], c.metric, c.cs)
	return math.Log(*v)
}

func (c collected) quads() []stats.Quad {
	qs := make([]stats.Quad, len(c.blocks))
	for i, b := range c.blocks {
		qs[i].BFirst = b.Labels[0] == c.side
		for s := range qs[i].Y {
			qs[i].Y[s] = c.logs(b, s)
		}
	}
	return qs
}

// ladders takes a rung's arms and the controls; slots of other rungs stay as places in time.
func (c collected) ladders() []stats.Ladder {
	ls := make([]stats.Ladder, len(c.blocks))
	for i, b := range c.blocks {
		ls[i] = stats.Ladder{Y: make([]float64, len(b.Labels)), Labels: b.Labels}
		for s, label := range b.Labels {
			if label == c.control || label == c.side {
				ls[i].Y[s] = c.logs(b, s)
			}
		}
	}
	return ls
}

// series is a block of two sides in time, for a fitted drift; true is not the control.
func series(b BlockState, control, metric, cs string) (y []float64, order []bool, ok bool) {
	for _, a := range b.Arms {
		v, _ := valueOf(a, metric, cs)
		if v == nil || !(*v > 0) {
			return nil, nil, false
		}
		y = append(y, math.Log(*v))
		order = append(order, a.Label != control)
	}
	return y, order, true
}

// estimate asks stats for what the blocks show. ok is false when there is nothing to estimate from.
func (c collected) estimate(n *stats.Noise) (e stats.Estimate, ok bool) {
	if len(c.blocks) == 0 {
		return e, false
	}
	switch c.kind {
	case "quad":
		return stats.Quads(c.quads(), n)
	case "ladder":
		return stats.Rung(c.ladders(), c.control, c.side, n)
	}
	a, _ := stats.Logs(c.values(c.blocks, c.control))
	b, _ := stats.Logs(c.values(c.blocks, c.side))
	if len(a) == len(b) {
		e, ok = stats.Pairs(a, b, n)
	} else {
		e, ok = stats.Unpaired(a, b, n)
	}
	e.N = len(c.blocks)
	return e, ok
}

// design is the variance factor and the degrees of freedom of n blocks like these.
func (c collected) design(e stats.Estimate) (k, df func(n int) float64) {
	have := float64(e.N)
	k = func(n int) float64 { return e.K * have / float64(n) }
	own := func(n float64) float64 {
		switch e.Method {
		case stats.MethodQuad:
			return 2*n - 1
		case stats.MethodPair:
			return n*(e.OwnDF+1)/have - 1
		case stats.MethodUnpaired:
			return n*(e.OwnDF+2)/have - 2
		}
		return n * e.OwnDF / have
	}
	return k, func(n int) float64 { return own(float64(n)) + e.BorrowedDF }
}
