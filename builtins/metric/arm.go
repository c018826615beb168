package metric

import (
	"fmt"
	"strings"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Arm is every metric of one arm: per case the median of its measured requests, then what the arm has as
// a whole (Case ""), energy, and the declared metrics. A declared metric replaces a built-in one of its
// name. Requests whose Values are filled in are taken by those.
func Arm(a *record.Arm, defs []plan.Metric, in Inputs) []record.Metric {
	if in.Log == "" && a.Process != nil {
		in.Log = a.Process.Log
	}
	t := &table{a: a, in: in, sensors: newSensors(a, in), formulas: map[string]*expr{}, why: map[string]string{}, memo: map[[2]string]answer{}}
	t.cases = casesOf(a)
	for _, c := range t.cases {
		t.put(requestMetrics(a, c)...)
	}
	t.put(whole(a, in)...)
	t.put(loaded(a)...)
	for _, c := range t.cases {
		t.put(compatible(a, c)...)
	}
	t.put(t.sensors.energies(a)...)
	declared := map[string]bool{}
	for _, d := range defs {
		declared[d.Name] = true
	}
	t.drop(declared)
	for _, d := range defs {
		if d.Of == "" {
			t.put(t.extracted(d)...)
		} else {
			t.parse(d)
		}
	}
	t.refuseCycles()
	for _, d := range defs {
		if d.Of != "" {
			t.put(t.derived(d)...)
		}
	}
	for _, name := range in.Needed {
		if m, ok := t.sensors.summary(name); ok && !t.has(name) {
			t.put(m)
		}
	}
	return t.out
}

// CheckDefs refuses declared metrics that cannot be computed: no name, a name twice, neither source nor
// formula, a pattern or formula that does not parse, formulas that lead back to themselves.
func CheckDefs(defs []plan.Metric) error {
	of := map[string]*expr{}
	seen := map[string]bool{}
	for _, d := range defs {
		if d.Name == "" {
			return fmt.Errorf("metric without a name")
		}
		if seen[d.Name] {
			return fmt.Errorf("metric %s: declared twice", d.Name)
		}
		seen[d.Name] = true
		if (d.Extract == nil) == (d.Of == "") {
			return fmt.Errorf("metric %s: got %s, want either a source or a formula", d.Name, map[bool]string{true: "neither", false: "both"}[d.Extract == nil])
		}
		if d.Of != "" {
			e, err := parseFormula(d.Of)
			if err != nil {
				return fmt.Errorf("metric %s: %w", d.Name, err)
			}
			of[d.Name] = e
			continue
		}
		if err := checkExtract(d.Extract); err != nil {
			return fmt.Errorf("metric %s: %w", d.Name, err)
		}
	}
	if c := cycle(of); c != nil {
		return fmt.Errorf("metric %s: its formula leads back to itself: %s", c[0], strings.Join(c, " → "))
	}
	return nil
}

func checkExtract(x *plan.Extract) error {
	switch x.Kind {
	case kindCSV:
		if v := pick([]float64{1}, x.Row); v.v == nil {
			return fmt.Errorf("%s", v.why)
		}
	case kindJSON:
		if x.Pointer != "" && x.Pointer[0] != '/' {
			return fmt.Errorf("pointer %q: want it to begin with /", x.Pointer)
		}
	case kindLog, kindStdout:
		_, err := compile(x.Pattern)
		return err
	case kindPrometheus:
	case kindRequest:
		if _, ok := requestDef(x.Name); !ok {
			return fmt.Errorf("no request metric %q", x.Name)
		}
	default:
		return fmt.Errorf("got extract kind %q, want csv, json, log, stdout, prometheus or request", x.Kind)
	}
	return nil
}

func requestDef(name string) (Def, bool) {
	for _, d := range requestDefs {
		if d.Name == name {
			return d, true
		}
	}
	return Def{}, false
}

// table is the metrics of an arm while they are made.
type table struct {
	a        *record.Arm
	in       Inputs
	cases    []string
	sensors  *sensors
	out      []record.Metric
	formulas map[string]*expr
	why      map[string]string // formulas that cannot be computed at all
	memo     map[[2]string]answer
}

// answer is the value of a formula for a case. Formulas that share parts would otherwise cost
// exponential time.
type answer struct {
	v      float64
	why    string
	byCase bool
}

func (t *table) put(ms ...record.Metric) { t.out = append(t.out, ms...) }

func (t *table) drop(names map[string]bool) {
	kept := t.out[:0]
	for _, m := range t.out {
		if !names[m.Name] {
			kept = append(kept, m)
		}
	}
	t.out = kept
}

func (t *table) has(name string) bool {
	for _, m := range t.out {
		if m.Name == name {
			return true
		}
	}
	return false
}

// find is a metric of a case, else of the arm as a whole.
func (t *table) find(name, c string) (m record.Metric, ofCase, ok bool) {
	for _, x := range t.out {
		if x.Name != name {
			continue
		}
		if x.Case == c {
			return x, c != "", true
		}
		if x.Case == "" {
			m, ok = x, true
		}
	}
	return m, false, ok
}

// casesOf is the cases of the measured requests in order of first appearance.
func casesOf(a *record.Arm) []string {
	var out []string
	seen := map[string]bool{}
	for i := range a.Requests {
		if r := &a.Requests[i]; r.Mark == record.MarkMeasured && !seen[r.Case] {
			seen[r.Case] = true
			out = append(out, r.Case)
		}
	}
	return out
}

// requestMetrics is the medians of a case's measured requests that ended ok.
func requestMetrics(a *record.Arm, c string) []record.Metric {
	of := map[string][]record.Metric{}
	tally := survivors(a, c)
	for i := range a.Requests {
		r := &a.Requests[i]
		if r.Mark != record.MarkMeasured || r.Case != c || r.Status != "ok" {
			continue
		}
		vals := r.Values
		if len(vals) == 0 {
			vals = Request(r)
		}
		for _, m := range vals {
			of[m.Name] = append(of[m.Name], m)
		}
	}
	out := make([]record.Metric, 0, len(requestDefs))
	for _, d := range requestDefs {
		m := medianOf(of[d.Name], tally).metric(d)
		m.Case = c
		out = append(out, m)
	}
	return out
}

// counted is how many measured requests of a case there were, and how many ended ok.
type counted struct{ all, ok int }

func survivors(a *record.Arm, c string) (n counted) {
	for i := range a.Requests {
		if r := &a.Requests[i]; r.Mark == record.MarkMeasured && r.Case == c {
			n.all++
			if r.Status == "ok" {
				n.ok++
			}
		}
	}
	return n
}

// words label a figure that leaves failed requests out: it says how fast the survivors were.
func (n counted) words() string {
	if n.ok == n.all {
		return ""
	}
	return fmt.Sprintf("; survivors only: %d of %d measured requests did not end ok", n.all-n.ok, n.all)
}

// medianOf is the median of one metric over requests. One withheld value withholds the whole: a median
// that leaves out the doubtful request would hide it.
func medianOf(ms []record.Metric, tally counted) value {
	requests := tally.ok
	if requests == 0 {
		return missing("no measured request ended ok")
	}
	var xs []float64
	var why, doubt string
	rules := map[string]bool{}
	for _, m := range ms {
		switch {
		case m.Value != nil:
			xs = append(xs, *m.Value)
		case m.Withheld != nil:
			xs = append(xs, *m.Withheld)
			if doubt == "" {
				doubt = m.Why
			}
		case why == "":
			why = m.Why
			continue
		default:
			continue
		}
		if m.Rule != "" {
			rules[m.Rule] = true
		}
	}
	if len(xs) == 0 {
		if why == "" {
			why = "not measured"
		}
		return missing(why)
	}
	rule := "median of measured requests"
	if len(xs) < requests {
		rule = fmt.Sprintf("median of %d of %d measured requests; the others: %s", len(xs), requests, why)
	}
	if rs := sortedKeys(rules); len(rs) > 0 {
		rule += "; " + strings.Join(rs[:min(len(rs), 3)], " | ")
	}
	v := number(median(xs), rule+tally.words())
	v.n = len(xs)
	if doubt != "" {
		v.withheld, v.why = true, doubt
	}
	return v
}

// whole is what an arm has beside its requests.
func whole(a *record.Arm, in Inputs) []record.Metric {
	vals := map[string]value{"wall_s": wall(a, in)}
	if p := a.Process; p != nil {
		vals["ready_ms"] = missing("the engine did not become ready")
		if p.ReadyNS > p.LaunchNS {
			vals["ready_ms"] = number(float64(p.ReadyNS-p.LaunchNS)/1e6, "")
		}
		switch {
		case p.ExitCode != nil && p.StoppedBy == "itself":
			vals["exit_code"] = number(float64(*p.ExitCode), "")
		case p.StoppedBy != "" && p.StoppedBy != "itself":
			vals["exit_code"] = missing("flow stopped the engine: by " + p.StoppedBy)
		case p.Signal != "":
			vals["exit_code"] = missing("ended by signal " + p.Signal)
		}
	}
	measured, bad, prompt, cached, unknown := 0, 0, 0, 0, false
	for i := range a.Requests {
		r := &a.Requests[i]
		if r.Mark != record.MarkMeasured {
			continue
		}
		measured++
		if r.Status != "ok" {
			bad++
			continue
		}
		if r.PromptTokens == nil || r.CachedTokens == nil {
			unknown = true
			continue
		}
		prompt, cached = prompt+*r.PromptTokens, cached+*r.CachedTokens
	}
	if measured > 0 {
		e := number(float64(bad), "count of measured requests")
		e.n = measured
		p := number(100*float64(bad)/float64(measured), "")
		p.n = measured
		vals["errors"], vals["error_rate_pct"] = e, p
		switch {
		case unknown:
			vals["cached_pct"] = missing("the server does not say how many prompt tokens were cached")
		case prompt == 0:
			vals["cached_pct"] = missing("no measured request ended ok")
		default:
			c := number(100*float64(cached)/float64(prompt), "sum over measured requests that ended ok")
			c.n = measured - bad
			vals["cached_pct"] = c
		}
	}
	var out []record.Metric
	for _, d := range armDefs {
		if v, ok := vals[d.Name]; ok {
			out = append(out, v.metric(d))
		}
	}
	return out
}

func wall(a *record.Arm, in Inputs) value {
	if in.Elapsed != nil {
		if *in.Elapsed <= 0 {
			return missing("no time passed in the measured step")
		}
		return number(*in.Elapsed, "")
	}
	ns := int64(0)
	for _, s := range a.Steps {
		if s.Name == "measure" && s.EndNS > s.StartNS {
			ns += s.EndNS - s.StartNS
		}
	}
	if ns == 0 {
		return missing("the arm has no measured step")
	}
	return number(float64(ns)/1e9, "")
}

// extracted is a declared metric with a source.
func (t *table) extracted(d plan.Metric) []record.Metric {
	def := Def{Name: d.Name, Unit: d.Unit, Better: d.Better}
	if d.Extract == nil {
		return []record.Metric{missing("declared without a source").metric(def)}
	}
	if d.Extract.Kind != kindRequest {
		v, source := extract(d.Extract, t.in)
		def.Source = source
		return []record.Metric{v.metric(def)}
	}
	def.Source = "request " + d.Extract.Name
	if _, ok := requestDef(d.Extract.Name); !ok {
		return []record.Metric{missing("no request metric " + d.Extract.Name).metric(def)}
	}
	if len(t.cases) == 0 {
		return []record.Metric{missing("the arm has no measured request").metric(def)}
	}
	var out []record.Metric
	for _, c := range t.cases {
		for _, m := range requestMetrics(t.a, c) {
			if m.Name == d.Extract.Name {
				m.Name, m.Source = d.Name, def.Source
				if d.Unit != "" {
					m.Unit = d.Unit
				}
				if d.Better != "" {
					m.Better = d.Better
				}
				out = append(out, m)
			}
		}
	}
	return out
}

func (t *table) parse(d plan.Metric) {
	e, err := parseFormula(d.Of)
	if err != nil {
		t.why[d.Name] = err.Error()
		return
	}
	t.formulas[d.Name] = e
}

func (t *table) refuseCycles() {
	for c := cycle(t.formulas); c != nil; c = cycle(t.formulas) {
		for _, name := range c {
			t.why[name] = "its formula leads back to itself: " + strings.Join(c, " → ")
			delete(t.formulas, name)
		}
	}
}

// derived is a declared metric with a formula: one per case where anything in it depends on the case.
func (t *table) derived(d plan.Metric) []record.Metric {
	def := Def{Name: d.Name, Unit: d.Unit, Better: d.Better, Source: "formula"}
	if why := t.why[d.Name]; why != "" {
		return []record.Metric{missing(why).metric(def)}
	}
	one := func(c string) (record.Metric, bool) {
		got := t.solve(d.Name, c)
		out := missing(got.why)
		if got.why == "" {
			out = number(got.v, d.Of)
		}
		m := out.metric(def)
		m.Rule, m.Case = d.Of, c
		return m, got.byCase
	}
	var out []record.Metric
	for _, c := range t.cases {
		m, byCase := one(c)
		if c == "" || byCase {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		m, _ := one("")
		out = append(out, m)
	}
	return out
}

// solve computes a formula for a case, once.
func (t *table) solve(name, c string) answer {
	key := [2]string{name, c}
	got, ok := t.memo[key]
	if !ok {
		got.v, got.why = t.formulas[name].eval(func(n string) (*float64, string) {
			return t.ask(n, c, &got.byCase)
		})
		t.memo[key] = got
	}
	return got
}

// ask answers a name of a formula.
func (t *table) ask(name, c string, byCase *bool) (*float64, string) {
	if why := t.why[name]; why != "" {
		return nil, why
	}
	if t.formulas[name] != nil {
		got := t.solve(name, c)
		*byCase = *byCase || got.byCase
		if got.why != "" {
			return nil, got.why
		}
		return &got.v, ""
	}
	m, ofCase, ok := t.find(name, c)
	if !ok {
		if m, ok = t.sensors.summary(name); !ok {
			return nil, "no metric and no sensor of that name"
		}
	}
	*byCase = *byCase || ofCase
	if m.Value == nil {
		if m.Withheld != nil {
			return nil, "withheld: " + m.Why
		}
		return nil, m.Why
	}
	return m.Value, ""
}
