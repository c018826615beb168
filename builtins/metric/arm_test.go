package metric

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flow/workflows/plan"
	"flow/workflows/record"
)

func armOf(rs ...*record.Request) *record.Arm {
	a := &record.Arm{Steps: []record.Step{{Name: "launch", EndNS: 1e9}, {Name: "measure", StartNS: 1e9, EndNS: 3e9}}}
	for i, r := range rs {
		r.Index = i
		a.Requests = append(a.Requests, *r)
	}
	return a
}

// decodeOf is a request of n tokens, one a frame, with a step of ms.
func decodeOf(ms float64, n int, c string) *record.Request {
	var fs []frame
	for i := range n {
		fs = append(fs, frame{ms: 100 + ms*float64(i), what: "text"})
	}
	r := usage(stream(fs...), 50, n)
	r.Case = c
	return r
}

func of(t *testing.T, ms []record.Metric, name, c string) record.Metric {
	t.Helper()
	for _, m := range ms {
		if m.Name == name && m.Case == c {
			return m
		}
	}
	t.Fatalf("no metric %s of case %q", name, c)
	return record.Metric{}
}

func want(t *testing.T, m record.Metric, v float64) {
	t.Helper()
	if m.Value == nil || !near(*m.Value, v) {
		t.Errorf("%s %s: got %v (%s), want %v", m.Name, m.Case, show(m.Value), m.Why, v)
	}
}

func wantNil(t *testing.T, m record.Metric, why string) {
	t.Helper()
	if m.Value != nil || !strings.Contains(m.Why, why) {
		t.Errorf("%s: got %v because %q, want nil because %q", m.Name, show(m.Value), m.Why, why)
	}
}

func TestArmMedians(t *testing.T) {
	warm := decodeOf(1, 10, "4K")
	warm.Mark = record.MarkWarm
	failed := decodeOf(2, 10, "4K")
	failed.Status = "error"
	a := armOf(warm, decodeOf(10, 10, "4K"), decodeOf(20, 10, "4K"), decodeOf(8, 10, "4K"), failed, decodeOf(40, 10, "32K"))
	ms := Arm(a, nil, Inputs{})
	m := of(t, ms, "decode_tok_s", "4K")
	want(t, m, 100) // of 100, 50, 125: neither the warm one nor the failed one counts
	if m.N != 3 || !strings.HasPrefix(m.Rule, "median of measured requests") {
		t.Errorf("n %d, rule %q", m.N, m.Rule)
	}
	want(t, of(t, ms, "decode_tok_s", "32K"), 25)
	want(t, of(t, ms, "errors", ""), 1)
	want(t, of(t, ms, "error_rate_pct", ""), 20)
	want(t, of(t, ms, "wall_s", ""), 2)
	wantNil(t, of(t, ms, "cached_pct", ""), "does not say")
}

// One request whose counts disagree withholds the arm's rate: a median without it would hide it.
func TestArmWithholds(t *testing.T) {
	doubt := decodeOf(10, 10, "")
	doubt.ServerDecodeN = ptr(20)
	ms := Arm(armOf(decodeOf(10, 10, ""), doubt, decodeOf(10, 10, "")), nil, Inputs{})
	m := of(t, ms, "decode_tok_s", "")
	wantNil(t, m, "usage 10, timings 20")
	if m.Withheld == nil || !near(*m.Withheld, 100) {
		t.Errorf("withheld %v, want 100", show(m.Withheld))
	}
	want(t, of(t, ms, "ttft_ms", ""), 100)
}

func TestArmWithoutSuccess(t *testing.T) {
	failed := decodeOf(10, 10, "")
	failed.Status = "error"
	ms := Arm(armOf(failed), nil, Inputs{})
	wantNil(t, of(t, ms, "decode_tok_s", ""), "no measured request ended ok")
	want(t, of(t, ms, "error_rate_pct", ""), 100)
}

// Values that were stored with the requests are taken as they are.
func TestArmTakesStoredValues(t *testing.T) {
	r := decodeOf(10, 10, "")
	r.Values = []record.Metric{{Name: "decode_tok_s", Value: ptr(7.0)}}
	ms := Arm(armOf(r), nil, Inputs{})
	want(t, of(t, ms, "decode_tok_s", ""), 7)
	wantNil(t, of(t, ms, "ttft_ms", ""), "not measured")
}

func TestArmCached(t *testing.T) {
	a, b := decodeOf(10, 10, ""), decodeOf(10, 10, "")
	a.CachedTokens, b.CachedTokens = ptr(0), ptr(25)
	want(t, of(t, Arm(armOf(a, b), nil, Inputs{}), "cached_pct", ""), 25)
}

func TestCommandEngine(t *testing.T) {
	a := armOf()
	a.Process = &record.Process{LaunchNS: 1e9, ReadyNS: 1e9 + 5e6, ExitCode: ptr(0), StoppedBy: "itself"}
	elapsed := 1.5
	ms := Arm(a, nil, Inputs{Elapsed: &elapsed})
	want(t, of(t, ms, "wall_s", ""), 1.5)
	want(t, of(t, ms, "exit_code", ""), 0)
	want(t, of(t, ms, "ready_ms", ""), 5)
	for _, m := range ms {
		if m.Name == "decode_tok_s" || m.Name == "errors" {
			t.Errorf("a command engine has no %s", m.Name)
		}
	}
	a.Process.StoppedBy = "kill"
	wantNil(t, of(t, Arm(a, nil, Inputs{}), "exit_code", ""), "stopped the engine")
}

func files(t *testing.T) func(string) ([]byte, error) {
	return func(p string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", p)) }
}

// Series with labels only: counters are summed, and of gauges there must be one.
func TestSeriesOfLabels(t *testing.T) {
	after := map[string]float64{`hits_total{model="a"}`: 7, `hits_total{model="b"}`: 5, `load{gpu="0"}`: .5, `slots{model="a"}`: 3}
	before := map[string]float64{`hits_total{model="a"}`: 4}
	get := func(name string) value {
		return fromSeries(&plan.Extract{Kind: "prometheus", Name: name}, Inputs{Before: before, After: after})
	}
	if v := get("hits_total"); v.v == nil || *v.v != 8 { // 7 + 5 − 4
		t.Errorf("hits_total: got %v, want 8", show(v.v))
	}
	if v := get("slots"); v.v == nil || *v.v != 3 {
		t.Errorf("slots: got %v, want 3", show(v.v))
	}
	after[`slots{model="b"}`] = 4
	if v := get("slots"); v.v != nil || !strings.Contains(v.why, "2 series") {
		t.Errorf("slots of two models: got %v, %q", show(v.v), v.why)
	}
}

// A real ds4-bench file: 200 tokens at 21.50 a second, first step 488.399 ms, 199 at 22.59.
func TestDeclared(t *testing.T) {
	csv := func(name, column string) plan.Metric {
		return plan.Metric{Name: name, Unit: tokS, Better: higher, Extract: &plan.Extract{Kind: "csv", Path: "{out}/ds4-bench.csv", Column: column}}
	}
	defs := []plan.Metric{
		csv("steady_tok_s", "gen_steady_tps"), csv("tokens", "gen_tokens"), csv("first_ms", "gen_first_ms"), csv("steady_tokens", "gen_steady_tokens"), csv("gone", "no_such"),
		{Name: "generation_tok_s", Unit: tokS, Of: "tokens / (first_ms / 1000 + steady_s)"},
		{Name: "steady_s", Unit: "s", Of: "steady_tokens / steady_tok_s"},
		{Name: "hit", Unit: "%", Extract: &plan.Extract{Kind: "log", Pattern: `hit rate: ([0-9.]+)%`}},
		{Name: "echo", Extract: &plan.Extract{Kind: "stdout", Pattern: `^n=(\d+)$`}},
		{Name: "drafts", Extract: &plan.Extract{Kind: "prometheus", Name: "drafts_total"}},
		{Name: "slots", Extract: &plan.Extract{Kind: "prometheus", Name: "slots"}},
		{Name: "reads", Extract: &plan.Extract{Kind: "prometheus", Name: "reads", Counter: true}},
		{Name: "from_gone", Of: "gone * 2"},
		{Name: "by_zero", Of: "1 / (tokens - 200)"},
		{Name: "a", Of: "b + 1"}, {Name: "b", Of: "a"}, {Name: "c", Of: "b"},
		{Name: "unknown", Of: "no_such_metric"},
		{Name: "broken", Of: "1 +"},
	}
	ms := Arm(armOf(), defs, Inputs{
		File: files(t), Log: "hit rate: 81.5%\nhit rate: 79.25% (3 hits)\n", Stdout: "x\nn=42\ny\n",
		Before: map[string]float64{"drafts_total": 10, "slots": 1, "reads": 5}, After: map[string]float64{"drafts_total": 25, "slots": 2, "reads": 9},
	})
	want(t, of(t, ms, "steady_tok_s", ""), 22.59)
	want(t, of(t, ms, "tokens", ""), 200)
	want(t, of(t, ms, "steady_s", ""), 199/22.59)
	want(t, of(t, ms, "hit", ""), 79.25)
	want(t, of(t, ms, "echo", ""), 42)
	want(t, of(t, ms, "drafts", ""), 15)
	want(t, of(t, ms, "slots", ""), 2)
	want(t, of(t, ms, "reads", ""), 4)
	// What ds4-bench printed for the whole, from its parts, which it rounds.
	if m := of(t, ms, "generation_tok_s", ""); m.Value == nil || math.Abs(*m.Value-21.50) > .02 {
		t.Errorf("generation_tok_s %v, want 21.50", show(m.Value))
	}
	wantNil(t, of(t, ms, "gone", ""), `no column "no_such"`)
	wantNil(t, of(t, ms, "from_gone", ""), `gone: no column`)
	wantNil(t, of(t, ms, "by_zero", ""), "division by zero")
	wantNil(t, of(t, ms, "a", ""), "a → b → a")
	wantNil(t, of(t, ms, "c", ""), "leads back to itself")
	wantNil(t, of(t, ms, "unknown", ""), "no metric and no sensor")
	wantNil(t, of(t, ms, "broken", ""), "the end")
}

// A formula of request metrics has a value per case; a declared one replaces the built-in of its name.
func TestDeclaredPerCase(t *testing.T) {
	a := armOf(decodeOf(10, 10, "4K"), decodeOf(40, 10, "32K"))
	defs := []plan.Metric{
		{Name: "step_ms", Unit: "ms", Better: lower, Of: "1000 / decode_tok_s"},
		{Name: "my_ttft", Better: lower, Extract: &plan.Extract{Kind: "request", Name: "ttft_ms"}},
		{Name: "wall_s", Unit: "s", Extract: &plan.Extract{Kind: "log", Pattern: `t=(\S+)`}},
		{Name: "twice", Of: "2 * wall_s"},
	}
	ms := Arm(a, defs, Inputs{Log: "t=3"})
	want(t, of(t, ms, "step_ms", "4K"), 10)
	want(t, of(t, ms, "step_ms", "32K"), 40)
	want(t, of(t, ms, "my_ttft", "32K"), 100)
	want(t, of(t, ms, "wall_s", ""), 3)
	want(t, of(t, ms, "twice", ""), 6)
	n := 0
	for _, m := range ms {
		if m.Name == "wall_s" || m.Name == "twice" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d of wall_s and twice, want one each", n)
	}
}

func TestExtract(t *testing.T) {
	in := Inputs{File: func(p string) ([]byte, error) {
		if p == "none" {
			return nil, errors.New("no such file")
		}
		return []byte(p), nil
	}}
	x := func(kind, path, what, row string) *plan.Extract {
		return &plan.Extract{Kind: kind, Path: path, Column: what, Pointer: what, Row: row}
	}
	const rows = "ctx,tps\n1,10\n2,20\n4,60\n"
	const doc = `{"a":{"b/c":[1.5,{"~d":-2e3}]},"s":"7","n":null,"":9}`
	tests := []struct {
		x    *plan.Extract
		want float64
		why  string
	}{
		{x("csv", rows, "tps", "last"), 60, ""},
		{x("csv", rows, "tps", "first"), 10, ""},
		{x("csv", rows, "tps", "sum"), 90, ""},
		{x("csv", rows, "tps", "mean"), 30, ""},
		{x("csv", rows, "tps", ""), 0, "got 3 rows, want exactly one"},
		{x("csv", rows, "tps", "middle"), 0, "got row \"middle\""},
		{x("csv", "tps\r\n 7.5 \r\n", "tps", ""), 7.5, ""},
		{x("csv", "\ufefftps,x\n3,4\n", "tps", ""), 3, ""},
		{x("csv", "a,b\n1\n", "b", ""), 0, "wrong number of fields"},
		{x("csv", "a,a\n1,2\n", "a", ""), 0, "twice"},
		{x("csv", "a\n", "a", ""), 0, "no rows"},
		{x("csv", "", "a", ""), 0, "empty"},
		{x("csv", "a\nNaN\n", "a", ""), 0, `got "NaN", want a number`},
		{x("csv", "a\ninf\n", "a", ""), 0, "want a number"},
		{x("csv", "a\n0x10\n", "a", ""), 0, "want a number"},
		{x("csv", "a,b\n,1\n", "a", ""), 0, "got nothing"},
		{x("csv", "none", "a", ""), 0, "no such file"},
		{x("json", doc, "/a/b~1c/0", ""), 1.5, ""},
		{x("json", doc, "/a/b~1c/1/~0d", ""), -2000, ""},
		{x("json", doc, "/", ""), 9, ""},
		{x("json", "12", "", ""), 12, ""},
		{x("json", doc, "/s", ""), 0, "got a string, want a number"},
		{x("json", doc, "/n", ""), 0, "got null"},
		{x("json", doc, "/a", ""), 0, "got an object"},
		{x("json", doc, "/a/b~1c/2", ""), 0, "a list of 2"},
		{x("json", doc, "/a/b~1c/00", ""), 0, "nothing at"},
		{x("json", doc, "/a/b~1c/-", ""), 0, "nothing at"},
		{x("json", doc, "/x/y", ""), 0, "nothing at /x"},
		{x("json", doc, "/s/y", ""), 0, "above it is a string"},
		{x("json", doc, "a", ""), 0, "begin with /"},
		{x("json", `{"a":NaN}`, "/a", ""), 0, "json:"},
		{x("json", `1 2`, "", ""), 0, "more than one value"},
		{x("json", `1e999`, "", ""), 0, "want a number"},
		{x("xml", "", "", ""), 0, "got extract kind"},
	}
	for _, tt := range tests {
		v, _ := extract(tt.x, in)
		if tt.why != "" {
			if v.v != nil || !strings.Contains(v.why, tt.why) {
				t.Errorf("%s %q %s: got %v, %q, want %q", tt.x.Kind, tt.x.Path, tt.x.Column, show(v.v), v.why, tt.why)
			}
		} else if v.v == nil || !near(*v.v, tt.want) {
			t.Errorf("%s %q %s: got %v (%s), want %v", tt.x.Kind, tt.x.Path, tt.x.Column, show(v.v), v.why, tt.want)
		}
	}
	if v, _ := extract(x("csv", "a", "a", ""), Inputs{}); v.v != nil || v.why == "" {
		t.Error("no files: want nil with a reason")
	}
	b, err := os.ReadFile("testdata/ds4-bench-bom.csv")
	if err != nil {
		t.Fatal(err)
	}
	if v := fromCSV(b, "ctx_tokens", "first"); v.v == nil || *v.v != 2048 {
		t.Errorf("the first column behind a byte order mark: %v (%s)", show(v.v), v.why)
	}
}

func TestSeries(t *testing.T) {
	x := &plan.Extract{Kind: "prometheus", Name: `n_total{a="b"}`}
	for _, tt := range []struct {
		before, after map[string]float64
		want          float64
		why           string
	}{
		{map[string]float64{x.Name: 3}, map[string]float64{x.Name: 8}, 5, ""},
		{map[string]float64{"other": 1}, map[string]float64{x.Name: 8}, 8, ""},
		{nil, map[string]float64{x.Name: 8}, 0, "not read before"},
		{map[string]float64{x.Name: 9}, map[string]float64{x.Name: 8}, 0, "restarted"},
		{nil, nil, 0, "was not read"},
		{nil, map[string]float64{"other": 1}, 0, "has no series"},
	} {
		v := fromSeries(x, Inputs{Before: tt.before, After: tt.after})
		if tt.why != "" && (v.v != nil || !strings.Contains(v.why, tt.why)) || tt.why == "" && (v.v == nil || *v.v != tt.want) {
			t.Errorf("%v → %v: got %v, %q, want %v, %q", tt.before, tt.after, show(v.v), v.why, tt.want, tt.why)
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct{ pattern, why string }{
		{`x=(\d+`, "missing closing"}, {`x=\d+`, "got no group"}, {`y=(\d+)`, "no line of"}, {`x=(\w+)`, "want a number"},
	} {
		if v := fromText("x=1\nx=no\n", tt.pattern, "the log"); v.v != nil || !strings.Contains(v.why, tt.why) {
			t.Errorf("%s: %q, want %q", tt.pattern, v.why, tt.why)
		}
	}
	if v := fromText("", `(\d)`, "the log"); v.v != nil || v.why != "the log is empty" {
		t.Errorf("empty log: %q", v.why)
	}
	if v := fromText("a1\nb(2)x?(y)", `b\((\d)\)(x)?`, "the log"); v.v == nil || *v.v != 2 {
		t.Errorf("got %v", v)
	}
}

// 100 W for 3 s, then 200 W: the step from 1 s to 7 s holds 2·100 + 4·200 J. Samples every 100 ms, off the
// edges by 50 ms, so that both edges are interpolated.
func TestEnergy(t *testing.T) {
	power := func(at float64) float64 {
		if at < 3 {
			return 100
		}
		return 200
	}
	joules := func(at float64) float64 { return 100*math.Min(at, 3) + 200*math.Max(0, at-3) }
	a := &record.Arm{Steps: []record.Step{{Name: "measure", StartNS: 1e9, EndNS: 7e9}}}
	for i := range 90 {
		at := .05 + .1*float64(i)
		ns := int64(at * 1e9)
		a.Samples = append(a.Samples,
			record.Sample{Sensor: "nvml.0.power_w", MonoNS: ns, Value: power(at)},
			record.Sample{Sensor: "nvml.1.power_w", MonoNS: ns, Value: power(at)},
			record.Sample{Sensor: "nvml.1.energy_mj", MonoNS: ns, Value: 1000 * joules(at)},
			record.Sample{Sensor: "rapl.package-0.energy_uj", MonoNS: ns, Value: 1e6 * joules(at)},
		)
	}
	ms := Arm(a, nil, Inputs{Needed: []string{"nvml.0.power_w_max", "nvml.0.power_w_mean", "nvml.0.power_w_min", "nvml.0.power_w_growth", "nvml.1.energy_mj_diff", "nvml.9.power_w_max"}})
	m := of(t, ms, "nvml.0.energy_j", "")
	want(t, m, 1000) // the trapezoid is exact: the change lies midway between two samples
	if m.Source != "nvml.0.power_w" || m.Coverage == nil || !near(*m.Coverage, 1) || m.N != 60 {
		t.Errorf("source %s, coverage %v, n %d", m.Source, show(m.Coverage), m.N)
	}
	m = of(t, ms, "nvml.1.energy_j", "")
	want(t, m, 1000)
	if m.Source != "nvml.1.energy_mj" {
		t.Errorf("a counter is there, but energy came from %s", m.Source)
	}
	want(t, of(t, ms, "rapl.package-0.energy_j", ""), 1000)
	want(t, of(t, ms, "nvml.0.power_w_max", ""), 200)
	want(t, of(t, ms, "nvml.0.power_w_min", ""), 100)
	want(t, of(t, ms, "nvml.0.power_w_growth", ""), 100)
	want(t, of(t, ms, "nvml.0.power_w_mean", ""), (20*100+40*200)/60.0)
	want(t, of(t, ms, "nvml.1.energy_mj_diff", ""), 1e6)

	t.Run("shared", func(t *testing.T) {
		b := *a
		b.Neighbours = []string{"other"}
		ms := Arm(&b, nil, Inputs{})
		wantNil(t, of(t, ms, "rapl.package-0.energy_j", ""), "shared")
		want(t, of(t, ms, "nvml.0.energy_j", ""), 1000)
	})
	t.Run("too short", func(t *testing.T) {
		b := *a
		b.Steps = []record.Step{{Name: "measure", StartNS: 1e9, EndNS: 2e9}}
		wantNil(t, of(t, Arm(&b, nil, Inputs{}), "nvml.0.energy_j", ""), "too short: 10 updates of the source in 1.0 s, want 50")
	})
	t.Run("slow source", func(t *testing.T) {
		ms := Arm(a, nil, Inputs{Sensors: []record.Sensor{{Name: "nvml.0.power_w", PeriodMS: 1000}}})
		wantNil(t, of(t, ms, "nvml.0.energy_j", ""), "too short: 6 updates")
	})
	t.Run("hole", func(t *testing.T) {
		b := *a
		b.Samples = nil
		for _, s := range a.Samples {
			if s.MonoNS < 2e9 || s.MonoNS > 4e9 {
				b.Samples = append(b.Samples, s)
			}
		}
		m := of(t, Arm(&b, nil, Inputs{}), "nvml.0.energy_j", "")
		wantNil(t, m, "samples cover 65 % of the measured step")
		if m.Coverage == nil || math.Abs(*m.Coverage-.65) > .001 {
			t.Errorf("coverage %v", show(m.Coverage))
		}
	})
	t.Run("backwards", func(t *testing.T) {
		b := *a
		b.Samples = append([]record.Sample(nil), a.Samples...)
		for i := range b.Samples {
			if b.Samples[i].Sensor == "nvml.1.energy_mj" && b.Samples[i].MonoNS > 5e9 {
				b.Samples[i].Value -= 5e5
			}
		}
		wantNil(t, of(t, Arm(&b, nil, Inputs{}), "nvml.1.energy_j", ""), "backwards")
	})
	t.Run("no step", func(t *testing.T) {
		b := *a
		b.Steps = nil
		wantNil(t, of(t, Arm(&b, nil, Inputs{}), "nvml.0.energy_j", ""), "no measured step")
	})
	t.Run("in a formula", func(t *testing.T) {
		defs := []plan.Metric{{Name: "j_per_s", Of: "nvml.0.energy_j / wall_s"}, {Name: "peak", Of: "nvml.0.power_w_max / `rapl.package-0.energy_uj_diff`"}}
		ms := Arm(a, defs, Inputs{})
		want(t, of(t, ms, "j_per_s", ""), 1000/6.0)
		want(t, of(t, ms, "peak", ""), 200/1e9)
	})
}

func TestCheckDefs(t *testing.T) {
	src := &plan.Extract{Kind: "log", Pattern: `(\d)`}
	for _, tt := range []struct {
		defs []plan.Metric
		err  string
	}{
		{[]plan.Metric{{Name: "a", Extract: src}, {Name: "b", Of: "a+1"}}, ""},
		{[]plan.Metric{{Name: "a", Extract: src}, {Name: "a", Of: "1"}}, "declared twice"},
		{[]plan.Metric{{Name: "a"}}, "got neither"},
		{[]plan.Metric{{Name: "a", Of: "1", Extract: src}}, "got both"},
		{[]plan.Metric{{Extract: src}}, "without a name"},
		{[]plan.Metric{{Name: "a", Of: "b"}, {Name: "b", Of: "c"}, {Name: "c", Of: "b"}}, "b → c → b"},
		{[]plan.Metric{{Name: "a", Of: "a"}}, "a → a"},
		{[]plan.Metric{{Name: "a", Of: "(1"}}, "want )"},
		{[]plan.Metric{{Name: "a", Extract: &plan.Extract{Kind: "log", Pattern: "x"}}}, "no group"},
		{[]plan.Metric{{Name: "a", Extract: &plan.Extract{Kind: "csv", Row: "x"}}}, "got row"},
		{[]plan.Metric{{Name: "a", Extract: &plan.Extract{Kind: "json", Pointer: "x"}}}, "begin with /"},
		{[]plan.Metric{{Name: "a", Extract: &plan.Extract{Kind: "request", Name: "x"}}}, "no request metric"},
		{[]plan.Metric{{Name: "a", Extract: &plan.Extract{Kind: "x"}}}, "got extract kind"},
	} {
		err := CheckDefs(tt.defs)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: got %v, want %q", tt.defs, err, tt.err)
		}
	}
}

// Formulas that share parts are solved once each: this chain of 60 would otherwise take 2^60 steps.
func TestFormulasShare(t *testing.T) {
	var defs []plan.Metric
	for i := range 60 {
		defs = append(defs, plan.Metric{Name: fmt.Sprintf("f%d", i), Of: fmt.Sprintf("f%d + f%d", i+1, i+1)})
	}
	defs = append(defs, plan.Metric{Name: "f60", Of: "1"})
	want(t, of(t, Arm(armOf(), defs, Inputs{}), "f0", ""), math.Pow(2, 60))
}
