package library_test

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"go.starlark.net/starlark"

	"flow/builtins"
	"flow/builtins/gate"
	"flow/starlark/diag"
	"flow/starlark/startest"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func TestManyLevers(t *testing.T) { runMany(t, "many_test.star") }
func TestHistory(t *testing.T)    { runMany(t, "history_test.star") }

// measured is a session whose history holds effects, and whose groups end as the effects of their levers say.
type measured struct {
	past
	effects map[string]float64
	groups  []string
}

func (m *measured) Run(_ context.Context, groups []*plan.Group) ([]*record.Group, error) {
	var out []*record.Group
	for _, g := range groups {
		m.groups = append(m.groups, g.Name)
		r := &record.Group{Name: g.Name, Verdict: record.Inconclusive, Primary: g.Primary}
		se := .002
		for _, s := range g.Sides[1:] {
			log := math.Log1p(m.effects[s.Stack[len(s.Stack)-1].Name])
			r.Comparisons = append(r.Comparisons, record.Comparison{Side: s.Label, Control: "U", Metric: g.Primary,
				Estimate: &record.Estimate{Effect: math.Expm1(log), Log: log, SE: &se, DF: 8}})
		}
		out = append(out, r)
	}
	return out, nil
}

func runMany(t *testing.T, name string) {
	t.Helper()
	text, err := fs.ReadFile(testdata, "testdata/"+name)
	if err != nil {
		t.Fatal(err)
	}
	l := newLoader(fstest.MapFS{name: {Data: text}})
	addFakes(l)
	l.Predeclared["past"] = starlark.NewBuiltin("past", func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		rows, effects := &starlark.List{}, &starlark.Dict{}
		if err := starlark.UnpackArgs("past", args, kwargs, "rows?", &rows, "effects?", &effects); err != nil {
			return nil, err
		}
		m := &measured{effects: map[string]float64{}}
		for _, kv := range effects.Items() {
			s, _ := starlark.AsString(kv[0])
			m.effects[s], _ = starlark.AsFloat(kv[1])
		}
		for i := range rows.Len() { // (lever, effect, half of its interval, verdict, in this session)
			row := rows.Index(i).(starlark.Tuple)
			l := row[0].(*builtins.Decl[plan.Lever]).V
			effect, known := starlark.AsFloat(row[1])
			half, _ := starlark.AsFloat(row[2])
			verdict, _ := starlark.AsString(row[3])
			r := []any{l.Name, l.Key(), "s", fmt.Sprint("g", i), "screen", verdict, nil, nil, nil, nil, "", "[]", "e", "w", bool(row[4].(starlark.Bool))}
			if known {
				r[7], r[8], r[9] = effect, effect-half, effect+half
			}
			m.rows = append(m.rows, r)
		}
		return builtins.SessionValue(l, m), nil
	})
	startest.Run(t, l, name)
}

// What plackett_burman() and fraction() make is what a judgement expects: every lever is on in half of the
// combinations, any two are balanced against each other, a drift weighs little, and the effects come back.
func TestDesignsAreBalanced(t *testing.T) {
	for _, c := range []struct {
		call   string
		levers int
		runs   int
		drift  float64 // the largest share of a lever's effect that a drift explains
	}{
		{"plackett_burman", 11, 14, .95}, {"plackett_burman", 8, 14, .12}, {"plackett_burman", 5, 14, .06},
		{"fraction", 7, 10, .77}, {"fraction", 4, 10, .06},
		{"plackett_burman_folded", 11, 27, 1e-9}, {"fraction_folded", 7, 19, 1e-9},
	} {
		text := `load("@flow//screens.star", "fraction", "plackett_burman")
load("@flow//engines/sim.star", "sim_lever", "sim_server")
names = ["l%d" % i for i in range(%LEVERS%)]
e = sim_server(levers = {n: "+1%" for n in names})
def plackett_burman_folded(*args, **kwargs):
    return plackett_burman(fold_over = True, *args, **kwargs)
def fraction_folded(*args, **kwargs):
    return fraction(fold_over = True, *args, **kwargs)
g = %CALL%([sim_lever(n) for n in names], engine = e, workload = workload(prompt = "x"), gates = [])
`
		text = strings.NewReplacer("%LEVERS%", fmt.Sprint(c.levers), "%CALL%", c.call).Replace(text)
		l := newLoader(fstest.MapFS{"x.star": {Data: []byte(text)}})
		globals, err := l.Load(t.Context(), "x.star")
		if err != nil {
			t.Fatal(diag.Format(err))
		}
		g := globals["g"].(*builtins.Decl[*plan.Group]).V
		labels := plan.Labels(g.Order)
		if len(labels) != c.runs || g.Cap != 1 || labels[0] != "U" || labels[len(labels)-1] != "U" {
			t.Errorf("%s of %d: order %q", c.call, c.levers, g.Order)
		}
		for j, lever := range g.DesignLevers() {
			if lever.Name != fmt.Sprint("l", j) {
				t.Errorf("%s: lever %d is %s: not as they were given", c.call, j, lever.Name)
			}
		}
		checkBalance(t, c.call, g, labels, c.drift)
		checkJudged(t, c.call, g, labels)
	}
}

func on(g *plan.Group, label, lever string) float64 {
	for _, s := range g.Sides {
		if s.Label == label {
			for _, l := range s.Stack {
				if l.Name == lever {
					return 1
				}
			}
		}
	}
	return -1
}

// checkBalance looks at the combinations without the controls around the halves.
func checkBalance(t *testing.T, what string, g *plan.Group, labels []string, drift float64) {
	t.Helper()
	halves := 1
	if len(labels) == 27 || len(labels) == 19 {
		halves = 2
	}
	var at []int
	per := (len(labels) - 1) / halves
	for i := range labels {
		if i%per != 0 {
			at = append(at, i)
		}
	}
	for _, a := range g.DesignLevers() {
		sum, slope, slots := 0.0, 0.0, 0.0
		mid := float64(len(labels)-1) / 2
		for _, i := range at {
			x := on(g, labels[i], a.Name)
			sum += x
			slope += x * (float64(i) - mid)
			slots += (float64(i) - mid) * (float64(i) - mid)
		}
		if sum != 0 {
			t.Errorf("%s: %s is on %v more than off", what, a.Name, sum)
		}
		if share := slope * slope / slots / float64(len(at)); share > drift {
			t.Errorf("%s: a drift explains %.2g of %s, want at most %.2g", what, share, a.Name, drift)
		}
		for _, b := range g.DesignLevers() {
			dot := 0.0
			for _, i := range at {
				dot += on(g, labels[i], a.Name) * on(g, labels[i], b.Name)
			}
			if a.Name != b.Name && dot != 0 {
				t.Errorf("%s: %s and %s are not balanced: %v", what, a.Name, b.Name, dot)
			}
		}
	}
}

// checkJudged runs the group on exact values with a drift: every effect comes back.
func checkJudged(t *testing.T, what string, g *plan.Group, labels []string) {
	t.Helper()
	r := &record.Group{Name: g.Name, Role: g.Role, Design: g.Design, Order: g.Order, Control: "U", Primary: "m", Better: "higher", MinEffect: .01, Cap: 1}
	for _, s := range g.Sides {
		r.Sides = append(r.Sides, record.Side{Label: s.Label, Control: s.Label == "U", Stack: s.Stack.Record()})
	}
	estimated, err := g.Estimated()
	if err != nil {
		t.Fatal(err)
	}
	r.Sides = append(r.Sides, estimated...)
	want := map[string]float64{}
	for i, label := range labels {
		y := math.Log(40) + .003*float64(i)
		for j, l := range g.DesignLevers() {
			want[l.Name] = .01 * float64(j-1)
			if on(g, label, l.Name) > 0 {
				y += want[l.Name]
			}
		}
		v := math.Exp(y)
		r.Arms = append(r.Arms, &record.Arm{Label: label, Slot: i, Seq: i, Purpose: "measured", Disposition: record.OK,
			Metrics: []record.Metric{{Name: "m", Value: &v}}})
	}
	gate.Judge(r, nil)
	if len(r.Comparisons) != len(want) {
		t.Fatalf("%s: %d comparisons, %s: %s", what, len(r.Comparisons), r.Verdict, r.Reason)
	}
	for _, c := range r.Comparisons {
		if c.Estimate == nil || math.Abs(c.Estimate.Log-want[c.Side]) > 1e-9 {
			t.Errorf("%s: %s is %+v, want %v", what, c.Side, c.Estimate, want[c.Side])
		}
	}
}
