package builtins

// Records of arms and groups: what checks get and what session.run returns.

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"flow/builtins/metric"
	"flow/starlark/diag"
	"flow/starlark/value"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func recordFamily() Family {
	sensor := func(name, what string, pick func([]record.Sample) float64) Builtin {
		return Builtin{
			Name: "record." + name, Doc: what + " None when the sensor has no samples there.", Example: fmt.Sprintf("arm.%s(%q)", name, "meminfo.swap_used_mib"),
			Func: func(c *Call) (starlark.Value, error) {
				s, err := samplesArg(c)
				if err != nil || len(s) == 0 {
					return starlark.None, err
				}
				return starlark.Float(pick(s)), nil
			},
		}
	}
	return Family{"Records", "Methods of an arm's record, which gates get and results hold. The fields of results, comparisons, arms and metrics are listed under " +
		"\"Fields of records\", and by `flow builtins result`, `comparison`, `arm` and `metric`. What was not measured is None.", []Builtin{
		{
			Name: "record.metric", Doc: "The value of a metric of the arm, None when it was not measured or is withheld.", Example: `arm.metric("decode_tok_s")`,
			Func: func(c *Call) (starlark.Value, error) {
				m, err := metricArg(c)
				if err != nil || m == nil {
					return starlark.None, err
				}
				return floatOrNone(m.Value), nil
			},
		}, {
			Name: "record.metric_why", Doc: "Why a metric has no value, \"\" when it has one.", Example: `arm.metric_why("decode_tok_s")`,
			Func: func(c *Call) (starlark.Value, error) {
				m, err := metricArg(c)
				switch {
				case err != nil:
					return nil, err
				case m == nil:
					return text("the arm has no such metric"), nil
				case m.Value != nil:
					return text(""), nil
				case m.Why == "":
					return text("not measured"), nil
				}
				return text(m.Why), nil
			},
		}, {
			Name: "record.sensor", Doc: "The samples of a sensor: a list of (seconds since the arm began, value).", Example: `arm.sensor("meminfo.swap_used_mib")`,
			Func: func(c *Call) (starlark.Value, error) {
				s, err := samplesArg(c)
				if err != nil {
					return nil, err
				}
				start := c.Recv.(*armRecord).a.MonoStartNS
				out := make([]starlark.Value, len(s))
				for i, x := range s {
					out[i] = starlark.Tuple{starlark.Float(float64(x.MonoNS-start) / 1e9), starlark.Float(x.Value)}
				}
				return frozen(out), nil
			},
		},
		sensor("growth", "Last less first sample of a sensor.", func(s []record.Sample) float64 { return s[len(s)-1].Value - s[0].Value }),
		sensor("first", "First sample of a sensor.", func(s []record.Sample) float64 { return s[0].Value }),
		sensor("last", "Last sample of a sensor.", func(s []record.Sample) float64 { return s[len(s)-1].Value }),
		sensor("min", "Smallest sample of a sensor.", func(s []record.Sample) float64 { return fold(s, math.Min) }),
		sensor("max", "Largest sample of a sensor.", func(s []record.Sample) float64 { return fold(s, math.Max) }),
		sensor("mean", "Mean of the samples of a sensor.", func(s []record.Sample) float64 {
			sum := 0.0
			for _, x := range s {
				sum += x.Value
			}
			return sum / float64(len(s))
		}),
	}}
}

func fold(s []record.Sample, f func(a, b float64) float64) float64 {
	v := s[0].Value
	for _, x := range s[1:] {
		v = f(v, x.Value)
	}
	return v
}

// metricArg is the metric that a method names; nil when the arm has none of that name.
func metricArg(c *Call) (*record.Metric, error) {
	var name, k string
	err := c.Unpack(2,
		value.Param{Name: "name", Required: true, Into: value.String(&name), Doc: "the metric"},
		value.Param{Name: "case", Default: `""`, Into: value.String(&k), Doc: "the case, when the workload has several"},
	)
	if err != nil {
		return nil, err
	}
	r := c.Recv.(*armRecord)
	if r.blind != "" {
		return nil, peeked(r.blind, "the metric "+name+" of an arm")
	}
	a := r.a
	// By name only: a gate that goes over arm.metrics or arm.requests may be after their status or coverage.
	if r.asked != nil && r.group != nil && name == r.group.Primary {
		*r.asked = true
	}
	for i, m := range a.Metrics {
		if m.Name == name && m.Case == k {
			return &a.Metrics[i], nil
		}
	}
	return nil, unknownMetric(c, a, name)
}

// unknownMetric is the error of a name that nothing measures and that is a slip of one that something does: None for it would look like a measurement that
// failed, arm after arm. An arm that has no metrics yet, and one whose body records its own, may get any name.
func unknownMetric(c *Call, a *record.Arm, name string) error {
	arms := []*record.Arm{a}
	if a.Group != nil {
		arms = append(arms, a.Group.Arms...)
	}
	var known []string
	for _, x := range arms {
		for _, m := range x.Metrics {
			if m.Name == name || m.Source == "body" {
				return nil
			}
			known = append(known, m.Name)
		}
	}
	if len(a.Metrics) == 0 || strings.Contains(name, ".") {
		return nil
	}
	for _, d := range metric.Names() {
		if d.Name == name {
			return nil
		}
		known = append(known, d.Name)
	}
	near := diag.Typo(name, known)
	if near == "" {
		return nil // of another engine, perhaps: a gate may ask for what only some have
	}
	return c.Errorf(fmt.Sprintf("did you mean arm.%s(%q)", strings.TrimPrefix(c.Name, "record."), near), "nothing measures a metric %q", name)
}

// samplesArg is the samples that a method names, in time.
func samplesArg(c *Call) ([]record.Sample, error) {
	var name, step string
	err := c.Unpack(1,
		value.Param{Name: "sensor", Required: true, Into: value.String(&name), Doc: "name of the sensor"},
		value.Param{Name: "step", Default: `""`, Into: value.String(&step), Example: `"measure"`, Doc: "only while that step of the arm ran; empty is the whole arm"},
	)
	if err != nil {
		return nil, err
	}
	r := c.Recv.(*armRecord)
	if !r.samples {
		return nil, c.Errorf(`session.query("select * from samples where arm_id = :arm", arm = arm.id)`, "a result holds no samples")
	}
	if err := r.view.sample(r.a, r.group, strings.TrimPrefix(c.Name, "record."), name, step); err != nil {
		return nil, err
	}
	var out []record.Sample
	for _, s := range r.a.Samples {
		if s.Sensor == name && (step == "" || slices.ContainsFunc(r.a.Steps, func(p record.Step) bool {
			return p.Name == step && p.StartNS <= s.MonoNS && s.MonoNS <= p.EndNS
		})) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b record.Sample) int {
		switch {
		case a.MonoNS < b.MonoNS:
			return -1
		case a.MonoNS > b.MonoNS:
			return 1
		}
		return 0
	})
	return out, nil
}

// armRecord is an arm's record.
type armRecord struct {
	*fact
	a     *record.Arm
	group *record.Group // it belongs to; nil where it is not known
	env   *Env
	view
}

// newArmRecord wraps an arm with its group so far, for a gate. It sets asked where the gate asks for the primary metric.
func newArmRecord(env *Env, a *record.Arm, asked *bool) *armRecord {
	return armOf(env, a, a.Group, view{samples: true, asked: asked})
}

func armOf(env *Env, a *record.Arm, g *record.Group, w view) *armRecord {
	r := &armRecord{fact: newFact(env, "arm", a), a: a, group: g, env: env, view: w}
	r.shown = fmt.Sprintf("%d, side %s, %s", a.Seq, a.Label, or(a.Disposition, "not judged"))
	side := sideOf(g, a.Label)
	r.more = map[string]func() starlark.Value{
		"index":          func() starlark.Value { return starlark.MakeInt(a.Seq) },
		"side":           func() starlark.Value { return sideRecord(env, side) },
		"levers":         func() starlark.Value { return texts(leverNames(side, false)) },
		"changes_output": func() starlark.Value { return texts(leverNames(side, true)) },
		"group": func() starlark.Value {
			if g == nil {
				return starlark.None
			}
			return newGroupRecord(env, g, w)
		},
		"log": func() starlark.Value {
			if !w.samples || a.Process == nil || a.Process.Log == "" {
				return starlark.None
			}
			return text(a.Process.Log)
		},
	}
	if w.blind != "" {
		r.hide = w.shows("an arm", r.fact.AttrNames, blindArm)
		r.more["findings"] = func() starlark.Value {
			out := make([]starlark.Value, len(a.Findings))
			for i := range a.Findings {
				f := newFact(env, "finding", &a.Findings[i])
				f.shown = a.Findings[i].Gate
				f.hide = w.shows("a finding", f.AttrNames, blindFinding)
				out[i] = f
			}
			return frozen(out)
		}
	}
	return r
}

// Attr is a method or a field.
func (r *armRecord) Attr(name string) (starlark.Value, error) {
	if b, ok := r.env.methods["record"][name]; ok {
		return b.bind(r.env, r), nil
	}
	return r.fact.Attr(name)
}

// AttrNames is every method and field.
func (r *armRecord) AttrNames() []string {
	return sorted(append(r.fact.AttrNames(), slices.Collect(maps.Keys(r.env.methods["record"]))...))
}

func sideOf(g *record.Group, label string) *record.Side {
	if g == nil {
		return nil
	}
	for i := range g.Sides {
		if g.Sides[i].Label == label {
			return &g.Sides[i]
		}
	}
	return nil
}

func sideRecord(env *Env, s *record.Side) starlark.Value {
	if s == nil {
		return starlark.None
	}
	f := newFact(env, "side", s)
	f.shown = s.Label
	f.more = map[string]func() starlark.Value{
		"levers":         func() starlark.Value { return texts(leverNames(s, false)) },
		"changes_output": func() starlark.Value { return texts(leverNames(s, true)) },
	}
	return f
}

func leverNames(s *record.Side, changing bool) []string {
	var out []string
	if s != nil {
		for _, l := range s.Stack {
			if !changing || l.ChangesOutput {
				out = append(out, l.Name)
			}
		}
	}
	return out
}

// groupRecord is a group's record: so far, for gates and stops, or as a result.
type groupRecord struct {
	*fact
	g *record.Group
}

func newGroupRecord(env *Env, g *record.Group, w view) *groupRecord {
	r := &groupRecord{fact: newFact(env, "group", g), g: g}
	if w.blind != "" {
		hidden := []string{"effect", "low", "high", "comparisons", "steps", "verdict", "reason", "warnings"}
		if strings.HasSuffix(g.Primary, energyMetric) {
			hidden = append(hidden, "energy_j")
		}
		r.hide = w.hides("the group", hidden...)
	}
	r.shown = fmt.Sprintf("%q, %s", g.Name, or(g.Verdict, "under way"))
	if w.blind != "" {
		r.shown = fmt.Sprintf("%q, under way", g.Name)
	}
	first := firstComparison(g)
	estimate := func(pick func(*record.Estimate) starlark.Value) func() starlark.Value {
		return func() starlark.Value { return ofEstimate(first, pick) }
	}
	r.more = map[string]func() starlark.Value{
		"arms": func() starlark.Value {
			out := make([]starlark.Value, len(g.Arms))
			for i, a := range g.Arms {
				out[i] = armOf(env, a, g, w)
			}
			return frozen(out)
		},
		"sides": func() starlark.Value {
			out := make([]starlark.Value, len(g.Sides))
			for i := range g.Sides {
				out[i] = sideRecord(env, &g.Sides[i])
			}
			return frozen(out)
		},
		"comparisons": func() starlark.Value {
			out := make([]starlark.Value, len(g.Comparisons))
			for i := range g.Comparisons {
				out[i] = comparisonRecord(env, &g.Comparisons[i])
			}
			return frozen(out)
		},
		"steps": func() starlark.Value {
			out := make([]starlark.Value, len(g.Steps))
			for i := range g.Steps {
				out[i] = comparisonRecord(env, &g.Steps[i])
			}
			return frozen(out)
		},
		"levers": func() starlark.Value { return texts(groupLevers(g)) },
		"blocks": func() starlark.Value { return starlark.MakeInt(blocksDone(g)) },
		"seconds": func() starlark.Value {
			ns := int64(0)
			for _, a := range w.summed(g) {
				ns += a.MonoEndNS - a.MonoStartNS
			}
			return starlark.Float(float64(ns) / 1e9)
		},
		"energy_j": func() starlark.Value { return floatOrNone(energyOf(w.summed(g))) },
		"effect":   estimate(func(e *record.Estimate) starlark.Value { return starlark.Float(e.Effect) }),
		"low":      estimate(func(e *record.Estimate) starlark.Value { return floatOrNone(e.Low) }),
		"high":     estimate(func(e *record.Estimate) starlark.Value { return floatOrNone(e.High) }),
	}
	return r
}

// energyMetric is how metrics of energy end.
const energyMetric = ".energy_j"

// energyOf is the joules of all arms, nil where a measured one that counts has none.
func energyOf(arms []*record.Arm) *float64 {
	sum := 0.0
	for _, a := range arms {
		metered := false
		for i := range a.Metrics {
			if m := &a.Metrics[i]; strings.HasSuffix(m.Name, energyMetric) && m.Value != nil {
				sum, metered = sum+*m.Value, true
			}
		}
		if !metered && a.Purpose == "measured" && a.Disposition == record.OK {
			return nil
		}
	}
	return &sum
}

// firstComparison is the first on the primary metric.
func firstComparison(g *record.Group) *record.Comparison {
	for i := range g.Comparisons {
		if !g.Comparisons[i].Cost {
			return &g.Comparisons[i]
		}
	}
	return nil
}

func ofEstimate(c *record.Comparison, pick func(*record.Estimate) starlark.Value) starlark.Value {
	if c == nil || c.Estimate == nil {
		return starlark.None
	}
	return pick(c.Estimate)
}

func comparisonRecord(env *Env, c *record.Comparison) starlark.Value {
	f := newFact(env, "comparison", c)
	f.shown = fmt.Sprintf("%s against %s, %s, %s", c.Side, c.Control, c.Metric, or(c.Verdict, "no verdict"))
	estimate := func(pick func(*record.Estimate) starlark.Value) func() starlark.Value {
		return func() starlark.Value { return ofEstimate(c, pick) }
	}
	f.more = map[string]func() starlark.Value{
		"effect":   estimate(func(e *record.Estimate) starlark.Value { return starlark.Float(e.Effect) }),
		"low":      estimate(func(e *record.Estimate) starlark.Value { return floatOrNone(e.Low) }),
		"high":     estimate(func(e *record.Estimate) starlark.Value { return floatOrNone(e.High) }),
		"se":       estimate(func(e *record.Estimate) starlark.Value { return floatOrNone(e.SE) }),
		"df":       estimate(func(e *record.Estimate) starlark.Value { return starlark.Float(e.DF) }),
		"level":    estimate(func(e *record.Estimate) starlark.Value { return starlark.Float(e.Level) }),
		"n_blocks": estimate(func(e *record.Estimate) starlark.Value { return starlark.MakeInt(e.Blocks) }),
	}
	return f
}

// groupLevers names what the group tests: levers of other sides that the control has not.
func groupLevers(g *record.Group) []string {
	control := leverNames(sideOf(g, g.Control), false)
	var out []string
	for i := range g.Sides {
		if g.Sides[i].Label == g.Control {
			continue
		}
		for _, n := range leverNames(&g.Sides[i], false) {
			if !slices.Contains(control, n) && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// blocksDone counts the blocks whose arms all ran and count.
func blocksDone(g *record.Group) int {
	type key struct{ block, attempt int }
	good, last := map[key]int{}, map[int]int{}
	for _, a := range g.Arms {
		if a.Purpose != "" && a.Purpose != "measured" || a.Block < 0 {
			continue
		}
		last[a.Block] = max(last[a.Block], a.Attempt)
		if a.Disposition == record.OK {
			good[key{a.Block, a.Attempt}]++
		}
	}
	p := orderOf(g)
	if len(p.Sides) < 2 {
		return 0
	}
	n := 0
	for block, attempt := range last {
		if good[key{block, attempt}] >= len(p.BlockAt(block, false).Labels) {
			n++
		}
	}
	return n
}

// orderOf is a group's sides and order, as plan wants them: the control first.
func orderOf(g *record.Group) *plan.Group {
	p := &plan.Group{Order: g.Order}
	for _, s := range g.Sides {
		if s.Label == g.Control {
			p.Sides = append([]plan.Side{{Label: s.Label}}, p.Sides...)
		} else {
			p.Sides = append(p.Sides, plan.Side{Label: s.Label})
		}
	}
	return p
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
