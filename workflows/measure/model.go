package measure

// What --simulate says, and how it is read.

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"flow/builtins/stats"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Model is what --simulate says. Everything is a share of the primary metric in its good direction.
type Model struct {
	Effect  float64            // of every lever that Effects does not name, ratio; 0 when not said
	Effects map[string]float64 // by lever name, ratio; by "NAME.METRIC" what it does to a cost
	SD      float64            // of one arm, on the logarithm; .005 when not said
	CaseSD  map[string]float64 // by case of the workload, in place of SD and independent of it
	Drift   float64            // per arm, on the logarithm
	Trouble stats.World        // the rest; its SD and Drift are those above

	HistoryQuads int     // quads of the same thing against itself that earlier sessions measured
	HistorySD    float64 // their noise; SD when 0
}

// World is what disturbs the arms.
func (m Model) World() stats.World {
	w := m.Trouble
	w.SD, w.Drift = m.SD, m.Drift
	return w
}

// EffectOf is what a stack does to the logarithm of the primary metric, in its good direction.
func (m Model) EffectOf(s plan.Stack) (log float64) {
	for _, l := range s {
		e, ok := m.Effects[l.Name]
		if !ok {
			e = m.Effect
		}
		log += math.Log1p(e)
	}
	return log
}

// CostOf is what a stack does to the logarithm of a cost, as it is measured: more of it is positive.
func (m Model) CostOf(s plan.Stack, metric string) (log float64) {
	for _, l := range s {
		log += math.Log1p(m.Effects[l.Name+"."+metric])
	}
	return log
}

// SimulateHelp is the syntax of --simulate, for the help of the commands that take it.
const SimulateHelp = `  effect=2%               what every lever does (a ratio on the primary metric, in its good direction)
  effect.NAME=20%         what the lever NAME does
  effect.NAME.METRIC=5%   what it does to the cost METRIC, here 5 % more of it (nothing when not said)
  sd=.5%                  noise of one arm, in the primary metric and in each cost (.5 % when not said)
  sd.CASE=2%              noise of one arm in one case of the workload
  tails=t3                heavy tails: Student's t on 3 degrees of freedom, scaled to sd
  ar=.5                   correlation of the noise of neighbouring arms
  depressed=3%@5%         3 % of the arms lose 5 %
  drift=.1%/arm           linear drift
  curve=.01%/arm2         quadratic drift
  warmup=3%@2             the first arm loses 3 %, and 1/e of that is left after 2 arms
  cold=3%                 the first arm of the session loses 3 %
  cold_block=1%           the first arm of each block loses 1 %
  carry=.5%               an arm that follows one with a lever loses .5 %
  history=8@.3%           earlier sessions measured 8 quads at a noise of .3 % (of sd when not said)`

// simulateFix is what a wrong --simulate is answered with.
const simulateFix = "write --simulate 'effect=2%,sd=.5%,drift=.1%/arm,effect.NAME=20%'; flow run --help lists every name"

// ParseModel reads a --simulate text: comma-separated name=value, as SimulateHelp lists them. "" is no
// effect and .5 % noise.
func ParseModel(text string) (Model, error) {
	m := Model{SD: .005, Effects: map[string]float64{}, CaseSD: map[string]float64{}}
	said := map[string]bool{}
	for _, item := range strings.Split(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		key, val, ok := strings.Cut(item, "=")
		if !ok {
			return m, simulateError("got %q, want name=value", item)
		}
		if key = strings.TrimSpace(key); said[key] {
			return m, simulateError("%s stands twice", key)
		}
		said[key] = true
		if err := m.set(key, strings.TrimSpace(val)); err != nil {
			return m, err
		}
	}
	return m, nil
}

// LeversOf notes the levers that groups had, and with each of them the costs that it may have had.
func LeversOf(groups []*record.Group, had map[string]bool) {
	for _, g := range groups {
		for _, s := range g.Sides {
			for _, l := range s.Stack {
				had[l.Name] = true
				for c := range g.Costs {
					had[l.Name+"."+c] = true
				}
				for _, c := range g.CostsShown {
					had[l.Name+"."+c] = true
				}
			}
		}
	}
}

// Unknown is what to say about effects of levers that no group had, one sentence each: they did nothing, and
// are slips of the pen more often than not.
func (m Model) Unknown(had map[string]bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m.Effects)) {
		if had[name] {
			continue
		}
		words := fmt.Sprintf("--simulate says effect.%s, and no group had a lever of that name", name)
		if strings.Contains(name, ".") {
			words += " (or that lever with that cost)"
		}
		if near := diag.Nearest(name, slices.Sorted(maps.Keys(had))); near != "" {
			words += fmt.Sprintf(": did you mean effect.%s?", near)
		}
		out = append(out, words)
	}
	return out
}

func (m *Model) set(key, val string) error {
	// number reads a share or a number within bounds, the low one included.
	number := func(into *float64, text string, low, high float64) error {
		x, err := ratio(text)
		if err != nil {
			return simulateError("%s: got %q, want a share such as 2%% or .02", key, text)
		}
		if !(x >= low && x < high) {
			return simulateError("%s: got %s, want at least %v and less than %v", key, text, low, high)
		}
		*into = x
		return nil
	}
	// loss reads a share that is lost, with a second number after @ where there may be one.
	loss := func(into *float64) error { return number(into, val, -1, 1) }
	name, named := "", false
	if base, rest, dotted := strings.Cut(key, "."); dotted && rest != "" && (base == "effect" || base == "sd") {
		key, name, named = base, rest, true
	}
	if slices.Contains([]string{"effect", "sd", "drift", "curve"}, key) {
		// As in a workflow: 1 could mean 1 % or 100 %.
		text, _, _ := strings.Cut(val, "/")
		if x, err := ratio(text); err == nil && !strings.HasSuffix(text, "%") && math.Abs(x) >= 1 {
			return simulateError("%s: got %s, want a percent such as %s%%, or a ratio such as 0.01", key, text, text)
		}
	}
	w := &m.Trouble
	switch key {
	case "effect":
		x := 0.0
		if err := number(&x, val, math.Nextafter(-1, 0), math.Inf(1)); err != nil {
			return simulateError("effect: got %s, want a share of more than -100%%", val)
		}
		if !named {
			m.Effect = x
		} else {
			m.Effects[name] = x
		}
		return nil
	case "sd":
		x := 0.0
		if err := number(&x, val, 0, math.Inf(1)); err != nil {
			return err
		}
		if !named {
			m.SD = x
		} else {
			m.CaseSD[name] = x
		}
		return nil
	case "drift":
		return number(&m.Drift, strings.TrimSuffix(val, "/arm"), math.Inf(-1), math.Inf(1))
	case "curve":
		return number(&w.Curve, strings.TrimSuffix(val, "/arm2"), math.Inf(-1), math.Inf(1))
	case "warmup":
		text, arms, also := strings.Cut(val, "@")
		if w.WarmArms = 2; also {
			if err := number(&w.WarmArms, arms, math.SmallestNonzeroFloat64, math.Inf(1)); err != nil {
				return err
			}
		}
		return number(&w.Warm, text, -1, 1)
	case "cold":
		return loss(&w.Cold)
	case "cold_block":
		return loss(&w.ColdBlock)
	case "carry":
		return loss(&w.Carry)
	case "ar":
		return number(&w.AR, val, math.Nextafter(-1, 0), 1)
	case "tails":
		switch val {
		case "t3":
			w.T3 = true
		case "normal":
			w.T3 = false
		default:
			return simulateError("tails: got %q, want t3 or normal", val)
		}
		return nil
	case "depressed":
		text, depth, also := strings.Cut(val, "@")
		if w.Depth = .05; also {
			if err := number(&w.Depth, depth, 0, 1); err != nil {
				return err
			}
		}
		return number(&w.Depressed, text, 0, math.Nextafter(1, 2))
	case "history":
		quads, sd, also := strings.Cut(val, "@")
		n, err := strconv.Atoi(quads)
		if err != nil || n < 0 || n > 1000 {
			return simulateError("history: got %q, want a number of quads up to 1000, such as 8 or 8@.3%%", val)
		}
		m.HistoryQuads = n
		if also {
			return number(&m.HistorySD, sd, 0, math.Inf(1))
		}
		return nil
	}
	names := []string{"effect", "sd", "tails", "ar", "depressed", "drift", "curve", "warmup", "cold", "cold_block", "carry", "history"}
	fix := simulateFix
	if near := diag.Nearest(key, names); near != "" {
		fix = fmt.Sprintf("did you mean %s? ", near) + simulateFix
	}
	return &diag.Error{Kind: diag.Workflow, Op: "--simulate", Msg: fmt.Sprintf("got %q, want one of %s", key, strings.Join(names, ", ")), Fix: fix}
}

func simulateError(format string, args ...any) error {
	return &diag.Error{Kind: diag.Workflow, Op: "--simulate", Msg: fmt.Sprintf(format, args...), Fix: simulateFix}
}

func ratio(s string) (float64, error) {
	num, pct := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(num, 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = strconv.ErrRange
	}
	if pct {
		x /= 100
	}
	return x, err
}

// Past is the history that the model declares: one noise floor of an earlier session, in the metric and
// cases of a group that is about to begin. nil when there is none. It names no engine and no workload,
// so that it stands for whatever is asked.
func (m Model) Past(seed uint64, metric, better string, cases []string) *record.Group {
	if m.HistoryQuads == 0 {
		return nil
	}
	w := stats.World{SD: m.HistorySD}
	if w.SD == 0 {
		w.SD = m.SD
	}
	if len(cases) == 0 {
		cases = []string{""}
	}
	g := &record.Group{ID: "simulated-history", SessionID: "simulated-history", Name: "history", Role: record.RoleNoiseFloor, Control: "A",
		Primary: metric, Better: better, Cap: m.HistoryQuads, Verdict: record.Equivalent, Reason: "simulated",
		Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}}
	for b := range m.HistoryQuads {
		for slot, label := range []string{"A", "B", "B", "A"} {
			if b%2 == 1 {
				label = []string{"B", "A", "A", "B"}[slot]
			}
			a := &record.Arm{ID: fmt.Sprintf("simulated-history-%d-%d", b, slot), GroupID: g.ID, Label: label, Block: b, Slot: slot, Seq: len(g.Arms),
				Purpose: "measured", Disposition: record.OK}
			for i, c := range cases {
				x := w
				if sd, ok := m.CaseSD[c]; ok && m.HistorySD == 0 {
					x.SD = sd
				}
				v := 100 * math.Exp(x.Log(stats.Place{Seed: ^seed, Block: b, Slot: slot, Stream: uint64(i)}))
				a.Metrics = append(a.Metrics, record.Metric{Name: metric, Case: c, Better: better, Source: "simulated", Value: &v, N: 1})
			}
			g.Arms = append(g.Arms, a)
		}
	}
	return g
}
