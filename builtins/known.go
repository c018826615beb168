package builtins

// What the metrics of a group may be called. A name that nothing measures would be found out when the arms have
// run, so it is refused where the group is declared. Which sensors there are is the machine's to say: flow check
// asks it.

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"flow/builtins/metric"
	"flow/starlark/diag"
	"flow/workflows/plan"
)

// knownMetrics refuses a primary metric or a cost that nothing measures.
func knownMetrics(c *Call, g plan.Group) error {
	known := measuredOf(g)
	names := slices.Collect(maps.Keys(known))
	for i, name := range append([]string{g.Primary}, slices.Sorted(maps.Keys(g.Costs))...) {
		if _, ok := known[name]; ok || name == "" || strings.Contains(name, "{") || len(metric.SensorsOf(name)) > 0 {
			continue
		}
		what := "primary"
		say := func(metric string) string { return fmt.Sprintf("primary = %q", metric) }
		if limit := g.Costs[name]; i > 0 {
			what = "cost"
			say = func(metric string) string {
				return fmt.Sprintf("costs = {%q: %s}", metric, limitFor(known[metric], limit))
			}
		}
		if strings.Contains(name, ".") {
			return c.Errorf(say(name+"_mean")+", or _max, _min, _p50, _growth, _diff and the others of flow doc machine",
				"group %q: %s %q is the name of a sensor, which has many values in an arm, and not of a metric", g.Name, what, name)
		}
		fix := "flow doc builtins metrics lists what flow measures; an engine's own are declared by engine(…, metrics = [metric(…)])"
		if near := nearMetric(name, names); near != "" {
			fix = "did you mean " + say(near)
		}
		if _, builtin := metric.Lookup(name); builtin {
			own := append(ownMetrics(g), "wall_s")
			if fix = say(own[0]); i > 0 {
				fix = "take the cost away"
			}
			return c.Errorf(fix, "group %q: no side measures the %s metric %q: it is of requests, and a command engine gets none", g.Name, what, name)
		}
		return c.Errorf(fix, "group %q: nothing measures the %s metric %q", g.Name, what, name)
	}
	return nil
}

// measuredOf is what the sides of a group measure, sensors left out, each with the better direction.
func measuredOf(g plan.Group) map[string]string {
	known := map[string]string{}
	asked := false
	for _, s := range g.Sides {
		asked = asked || s.Engine.API != nil
	}
	for _, d := range metric.Names() {
		if asked || metric.OfCommand(d.Name) {
			known[d.Name] = d.Better
		}
	}
	for _, s := range g.Sides {
		for _, m := range s.Engine.Metrics {
			known[m.Name] = m.Better
		}
	}
	return known
}

// ownMetrics are the metrics with a direction that the control's engine declares.
func ownMetrics(g plan.Group) (out []string) {
	for _, m := range g.Sides[0].Engine.Metrics {
		if m.Better != "" {
			out = append(out, m.Name)
		}
	}
	return out
}

// nearMetric is the metric that was probably meant: one whose name lacks its unit, else one a few letters away.
func nearMetric(name string, names []string) string {
	longer := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(n string) bool { return !strings.HasPrefix(n, name+"_") })
	if len(longer) > 0 {
		return slices.MinFunc(longer, func(a, b string) int { return len(a) - len(b) })
	}
	return diag.Nearest(name, names)
}

// limitFor is a cost's limit as one writes it, on the side on which the metric gets worse.
func limitFor(better string, limit *float64) string {
	if limit == nil {
		return "None"
	}
	x := *limit
	switch better {
	case "lower":
		x = math.Abs(x)
	case "higher":
		x = -math.Abs(x)
	}
	return fmt.Sprintf("\"%s%%\"", strconv.FormatFloat(x*100, 'g', 6, 64))
}

// directionFix says the direction of a metric that has none of its own.
func directionFix(e plan.Engine, name string) string {
	var known []string
	for _, m := range e.Metrics {
		known = append(known, m.Name)
	}
	for _, d := range metric.Names() {
		if d.Better != "" && d.Name != name && (e.API != nil || metric.OfCommand(d.Name)) {
			known = append(known, d.Name)
		}
	}
	if near := nearMetric(name, known); near != "" {
		return fmt.Sprintf("did you mean primary = %q; or say better = \"higher\" or better = \"lower\"", near)
	}
	return `say better = "higher" or better = "lower"`
}
