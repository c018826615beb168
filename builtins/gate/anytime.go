package gate

// always_valid(): a group that may be looked at as often as one likes; and the stops that only give up,
// futile() and equivalent().

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// anytimeStop is how the stop is called on record, before its parameters.
const anytimeStop = "always_valid"

// anytimeOf is the always-valid rule of a group, from its stops; nil when it has none.
func anytimeOf(g *record.Group) *stats.Anytime {
	for _, s := range g.Stops {
		name, params, _ := strings.Cut(s, " ")
		if name != anytimeStop {
			continue
		}
		var p struct {
			Kind string  `json:"kind"`
			G    float64 `json:"g"`
		}
		if params != "" && json.Unmarshal([]byte(params), &p) != nil {
			continue
		}
		if p.Kind != stats.AnytimeSign {
			p.Kind = stats.AnytimeT
		}
		return &stats.Anytime{Kind: p.Kind, G: p.G}
	}
	return nil
}

// anytime gives an estimate intervals that hold at any look. ok is false where the design has none.
func (c collected) anytime(e stats.Estimate, rule stats.Anytime) (stats.Estimate, bool) {
	if rule.Kind == stats.AnytimeSign {
		rule.Points = c.points()
	}
	return e.Anytime(rule)
}

// points is one difference for each quad, or for each pair.
func (c collected) points() []float64 {
	var d []float64
	if c.kind == "quad" {
		for _, q := range c.quads() {
			d = append(d, q.Contrast())
		}
		return d
	}
	a, _ := stats.Logs(c.values(c.blocks, c.control))
	b, _ := stats.Logs(c.values(c.blocks, c.side))
	return stats.PairDeltas(a, b)
}

// AlwaysValid is the stop rule always_valid(): the reason to stop, or "". It judges from these arms alone:
// noise of earlier ones is not borrowed, because the promise is that of the e-value.
func AlwaysValid(g *record.Group) string {
	if anytimeOf(g) == nil {
		return ""
	}
	v := look(g, true, false)
	switch v.verdict {
	case record.Better, record.Worse, record.Equivalent:
	default:
		if !settled(g, v) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %s", v.verdict, v.reason)
}

// Equivalent is the stop rule equivalent(): the reason to stop because every comparison of the primary metric
// has shown to lie within min_effect, or "".
func Equivalent(g *record.Group) string {
	v := look(g, true, false)
	if v.blocks < firstLook(g) && anytimeOf(g) == nil {
		return ""
	}
	n := 0
	for _, c := range v.comparisons {
		if c.Cost {
			continue
		}
		if c.Verdict != record.Equivalent {
			return ""
		}
		n++
	}
	if n == 0 {
		return ""
	}
	return "equivalent: " + v.reason
}

// futilePower is the chance below which going on is futile.
const futilePower = .1

// Futile is the stop rule futile(): the reason to give up because, if the rest goes on as it began, the
// chance that the group ends better is below 10 % for every side, or "". Giving up makes no false better; it
// costs power where the first blocks were unlucky (TestFutileErrors).
func Futile(g *record.Group) string {
	v := look(g, true, false)
	first := firstLook(g)
	if v.blocks < first || v.blocks >= g.Cap {
		return ""
	}
	rule := ruleOf(g, true)
	blocks := validBlocks(g)
	reason, sides := "", 0
	for _, s := range g.Sides {
		if s.Label == g.Control {
			continue
		}
		sides++
		best := -1.0 // chance of the side: of its least likely case, or of its likeliest under each
		for i, cs := range casesOf(g.Arms, g.Primary) {
			c := collect(g, blocks, s.Label, g.Primary, cs)
			e, ok := c.estimate(lent(g, g.Primary, cs))
			if !ok || !e.Known() || e.Zero {
				return ""
			}
			p := chance(g, c, e, rule)
			if i == 0 || g.CaseRule == "each" && p > best || g.CaseRule != "each" && p < best {
				best = p
			}
			if p == best {
				effect, _ := stats.Ratio(e.Diff)
				reason = fmt.Sprintf("at %s after %d of at most %d blocks the chance of ending better is %.2g %%%s", signed(effect), v.blocks, g.Cap, 100*p, caseWords(cs))
			}
		}
		if best < 0 || best >= futilePower {
			return ""
		}
	}
	if sides == 0 {
		return ""
	}
	return reason
}

// chance is the conditional power of one comparison.
func chance(g *record.Group, c collected, e stats.Estimate, rule stats.Rule) float64 {
	k, df := c.design(e)
	n := e.N
	end := max(g.Cap, n)
	z := stats.TQuantile(1-(1-rule.Level())/2, math.Max(df(end), 1))
	if a := anytimeOf(g); a != nil {
		if z2, ok := stats.ECritical(float64(end), math.Max(1, df(end)), 1-rule.Level(), gOf(a)); ok {
			z = z2
		}
	}
	bound := math.Max(math.Log1p(g.MinEffect), z*e.ArmSD*math.Sqrt(k(end)))
	diff := e.Diff
	if g.Better == "lower" {
		diff = -diff
		if g.MinEffect < 1 {
			bound = math.Max(-math.Log1p(-g.MinEffect), z*e.ArmSD*math.Sqrt(k(end)))
		}
	}
	return stats.ConditionalPower(diff, e.ArmSD, k(1), n, end, bound)
}

func gOf(a *stats.Anytime) float64 {
	if a.G > 0 {
		return a.G
	}
	return stats.DefaultG
}

func validBlocks(g *record.Group) []BlockState {
	var out []BlockState
	for _, b := range Blocks(g) {
		if b.Valid {
			out = append(out, b)
		}
	}
	return out
}

// Rules are the rules of a group by the names under which workflows ask for them.
func Rules() map[string]func(*record.Group) string {
	return map[string]func(*record.Group) string{"always_valid": AlwaysValid, "futile": Futile, "equivalent": Equivalent}
}
