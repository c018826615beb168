package builtins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"flow/builtins"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// act runs a main over the prelude and gives what it printed.
func act(t *testing.T, s *fakeSession, body string) ([]string, error) {
	t.Helper()
	l, globals := load(t, prelude+"my_group = group(\"g\", sides = {\"A\": side(my_engine), \"B\": side(my_engine, stack = my_lever)}, workload = my_work)\ndef main(session):\n"+indent(body)+"\n")
	var printed []string
	l.Print = func(_ diag.Pos, msg string) { printed = append(printed, msg) }
	_, err := l.Call(t.Context(), "", globals["main"].(starlark.Callable), starlark.Tuple{builtins.SessionValue(l, s)}, nil)
	return printed, err
}

func mustAct(t *testing.T, s *fakeSession, body string) []string {
	t.Helper()
	printed, err := act(t, s, body)
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	return printed
}

// result is a finished group as session.run returns it.
func result() *record.Group {
	fast := record.Lever{Name: "fast"}
	return &record.Group{
		ID: "g1", Name: "g", Role: record.RoleScreen, Control: "A", Verdict: record.Better, Primary: "decode_tok_s",
		Sides: []record.Side{{Label: "A", Control: true, Stack: []record.Lever{{Name: "old"}}}, {Label: "B", Stack: []record.Lever{{Name: "old"}, fast}}},
		Comparisons: []record.Comparison{
			{Side: "B", Control: "A", Metric: "prefill_tok_s", Cost: true, Estimate: &record.Estimate{Effect: -.5}},
			{Side: "B", Control: "A", Metric: "decode_tok_s", Verdict: record.Better, NControl: 2, Estimate: &record.Estimate{Effect: .2, Low: ptr(.19), High: ptr(.21), DF: 3, Level: .95, Blocks: 1}},
			{Side: "B", Control: "A", Metric: "decode_tok_s", Case: "8K"},
		},
		Arms: []*record.Arm{
			{Label: "A", Purpose: "measured", Disposition: record.OK, Metrics: []record.Metric{{Name: "decode_tok_s", Value: ptr(20.5)}, {Name: "itl_p50_ms", Withheld: ptr(1.), Why: "counts disagree"}},
				Samples: []record.Sample{{Sensor: "x"}}, Process: &record.Process{Log: "secret", Pid: 7}, Requests: []record.Request{{Status: "ok", TextSHA: "ab"}}},
			{Label: "B", Seq: 1, Slot: 1, Purpose: "measured", Disposition: record.OK},
			{Label: "B", Seq: 2, Slot: 2, Purpose: "measured", Disposition: record.OK},
			{Label: "A", Seq: 3, Slot: 3, Purpose: "measured", Disposition: record.OK},
		},
	}
}

const readResult = `r = session.run(my_group)
print(r.verdict, r.name, r.role, r.reason, r.effect, r.low, r.high, r.levers, r.blocks, r.id)
print([(c.metric, c.case, c.effect, c.se, c.n_blocks, c.n_control) for c in r.comparisons])
a = r.arms[0]
print(a.index, a.label, a.side.label, a.levers, a.changes_output, a.disposition, a.metric("decode_tok_s"), a.metric("itl_p50_ms"), a.metric_why("itl_p50_ms"), a.metric_why("decode_tok_s") == "", a.metric("no"))
print(a.log, a.process.pid, a.process.exit_code, a.requests[0].text_sha256, a.requests[0].completion_tokens, a.requests[0].error, a.requests[0].case == "", a.group.name)
print(r)
print(json.encode(r.comparisons[1].estimate))
print(r == r, r.arms[1] == r.arms[2], r.arms[1] == r.arms[1], r.sides[1] == r.sides[1], my_lever in [my_lever])`

func TestRun(t *testing.T) {
	got := mustAct(t, &fakeSession{results: []*record.Group{result()}}, readResult)
	want := []string{
		`better g screen None 0.2 0.19 0.21 ["fast"] 1 g1`,
		`[("prefill_tok_s", "", -0.5, None, 0, 0), ("decode_tok_s", "", 0.2, None, 1, 2), ("decode_tok_s", "8K", None, None, None, 0)]`,
		`0 A A ["old"] [] ok 20.5 None counts disagree True None`,
		`None 7 None ab None None True g`,
		`group("g", better)`,
	}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("line %d:\ngot  %s\nwant %s", i, got[i], w)
		}
	}
	if !strings.Contains(got[5], `"effect":0.2`) {
		t.Errorf("an estimate as JSON: %s", got[5])
	}
	if got[6] != "True False True True True" {
		t.Errorf("equality: %s", got[6])
	}
}

// A replayed result is what JSON kept of the first one: the workflow must not be able to tell.
func TestReplayedResultIsTheSame(t *testing.T) {
	first := mustAct(t, &fakeSession{results: []*record.Group{result()}}, readResult)
	b, err := json.Marshal(result())
	if err != nil {
		t.Fatal(err)
	}
	var back record.Group
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	second := mustAct(t, &fakeSession{results: []*record.Group{&back}}, readResult)
	if !slices.Equal(first, second) {
		t.Errorf("first  %q\nsecond %q", first, second)
	}
	_, err = act(t, &fakeSession{results: []*record.Group{result()}}, `session.run(my_group).arms[0].growth("x")`)
	if err == nil || !strings.Contains(diag.Format(err), "fix: session.query(") {
		t.Errorf("samples of a result: %v", err)
	}
}

func TestRunOfSeveral(t *testing.T) {
	s := &fakeSession{}
	got := mustAct(t, s, `print(len(session.run([my_group, my_group])), session.run([]), type(session.run(my_group)))`)
	if got[0] != "2 [] group" || len(s.groups) != 3 {
		t.Errorf("got %s, %d groups", got[0], len(s.groups))
	}
}

func TestPrintIsSilentWhileReplaying(t *testing.T) {
	s := &fakeSession{replaying: true}
	if got := mustAct(t, s, `print("again")`); len(got) != 0 {
		t.Errorf("printed %q", got)
	}
	// A second session of the same loader is heard again.
	l := newLoader(newEnv(), map[string]string{"x.star": "def main(session):\n    print('x')\n"})
	n := 0
	l.Print = func(diag.Pos, string) { n++ }
	g, err := l.Load(t.Context(), "x.star")
	if err != nil {
		t.Fatal(err)
	}
	for _, replaying := range []bool{true, false} {
		if _, err := l.Call(t.Context(), "", g["main"].(starlark.Callable), starlark.Tuple{builtins.SessionValue(l, &fakeSession{replaying: replaying})}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("printed %d times, want 1", n)
	}
}

func TestQuery(t *testing.T) {
	s := &fakeSession{table: &record.Table{Columns: []string{"name", "n", "count(*)"}, Rows: [][]any{{"a", int64(2), 1.5}, {nil, int64(0), nil}}}}
	got := mustAct(t, s, `rows = session.query("select 1", lever = "x", n = 3, f = 0.5, b = True, none = None)
print([(r.name, r.n) for r in rows], rows[0]["count(*)"], len(rows), bool(rows))`)
	if got[0] != `[("a", 2), (None, 0)] 1.5 2 True` {
		t.Errorf("got %s", got[0])
	}
	want := map[string]any{"lever": "x", "n": int64(3), "f": .5, "b": true, "none": nil}
	if fmt.Sprint(s.params) != fmt.Sprint(want) {
		t.Errorf("params %v, want %v", s.params, want)
	}
}

func TestHistoryAndChampion(t *testing.T) {
	s := &fakeSession{}
	mustAct(t, s, `session.history()`)
	if s.scope != (builtins.HistoryScope{}) {
		t.Errorf("history() asks for %+v", s.scope)
	}
	mustAct(t, s, `session.history(my_lever, engine = my_engine, workload = my_work)`)
	if s.scope.Lever == nil || s.scope.Lever.Name != "fast" || s.scope.Engine.Name != "srv" || len(s.scope.Workload.Cases) != 1 {
		t.Errorf("history asks for %+v", s.scope)
	}
	if got := mustAct(t, s, `stack = session.champion(engine = my_engine, workload = my_work)
print(stack, bool(stack))`); got[0] != "[] False" {
		t.Errorf("no champion: %s", got[0])
	}
	// A champion comes back from the record without its place; it is the same lever for the workflow.
	s.stack = plan.Stack{{Name: "fast", Env: map[string]string{"X": "1"}}}
	if got := mustAct(t, s, `stack = session.champion(engine = my_engine, workload = my_work)
print(my_lever in stack, len(stack + [my_lever]), [l.name for l in stack])
stack.append(my_lever)`); got[0] != `True 2 ["fast"]` {
		t.Errorf("champion: %s", got[0])
	}
}

func TestBudget(t *testing.T) {
	s := &fakeSession{}
	mustAct(t, s, `session.budget(time = "2h", energy_j = 5000, arms = 40)
session.budget(arms = 3)`)
	if got := strings.Join(s.calls, "; "); got != "budget {Seconds:7200 Joules:5000 Arms:40}; budget {Seconds:0 Joules:0 Arms:3}" {
		t.Errorf("got %s", got)
	}
	for src, want := range map[string]string{
		`session.budget()`:                  "a budget of nothing",
		`session.budget(arms = 0)`:          "got a budget of 0 or less",
		`session.budget(energy_j = -1)`:     "got a budget of 0 or less",
		`session.budget(time = "soon")`:     `duration such as`,
		`session.budget("8h")`:              "without a name",
		`session.budget(time = "0s")`:       "got a budget of 0 or less",
		`session.budget(time = "1ns")`:      "got a budget of 1ns, want at least 1s",
		`session.budget(time = "999ms")`:    "got a budget of 999ms, want at least 1s",
		`session.budget(arms = 2, hours=1)`: "hours",
	} {
		if _, err := act(t, &fakeSession{}, src); err == nil || !strings.Contains(diag.Format(err), want) || !strings.Contains(diag.Format(err), "fix: ") {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

func TestReadWaitNote(t *testing.T) {
	s := &fakeSession{samples: []record.Sample{{Sensor: "a", Value: 1}, {Sensor: "b", Value: 2.5}}}
	got := mustAct(t, s, `print(session.read("a", "b"))
session.note("hello")
busy = gate("busy", check = lambda arm: ok() if arm.last("loadavg.1m") < 1 else bad(), needs = ["loadavg.1m"], phase = "before")
print(session.wait_until(busy), session.wait_until(lambda arm: bad(), timeout = "2s", needs = ["x"]))`)
	if got[0] != `{"a": 1.0, "b": 2.5}` || got[1] != "True False" {
		t.Errorf("got %q", got)
	}
	if s.timeout != 2*time.Second || !slices.Equal(s.sensors, []string{"x"}) || !slices.Contains(s.calls, "note hello") {
		t.Errorf("asked for %v, %v, %q", s.timeout, s.sensors, s.calls)
	}
}

func TestErrorsOfEffects(t *testing.T) {
	machine := &diag.Error{Kind: diag.Machine, Op: "launch", Msg: "port taken", Fix: "free it"}
	_, err := act(t, &fakeSession{err: machine}, `session.run(my_group)`)
	var d *diag.Error
	if !errors.As(err, &d) || d.Pos.IsZero() {
		t.Errorf("no place: %v", err)
	}
	if k, ok := diag.KindOf(err); !ok || k != diag.Machine {
		t.Errorf("kind %v of %v", k, err)
	}
	if !strings.Contains(diag.Format(err), "fix: free it") {
		t.Errorf("lost the fix: %s", diag.Format(err))
	}
	cause := errors.New("the disk is gone")
	if _, err := act(t, &fakeSession{err: cause}, `session.note("x")`); !errors.Is(err, cause) {
		t.Errorf("lost the cause: %v", err)
	}
}

func TestBody(t *testing.T) {
	s := &fakeSession{}
	got := mustAct(t, s, `def body(arm):
    p = arm.launch()
    print(arm.label, arm.engine.name, arm.workload.repeat, [l.name for l in arm.stack], p.info.pid)
    print([e.found for e in p.confirm()])
    arm.warm(p)
    arm.measure(p, workload = workload(prompt = "x", repeat = 9))
    print([(r.status, r.error, r.completion_tokens) for r in p.generate(arm.workload, mark = "warm")])
    print(arm.sample("250ms")[0].value, arm.exec(["echo", 1]).stdout)
    print(arm.check(gate("ok", check = lambda a: ok(observed = a.metric("decode_tok_s")))).observed)
    arm.record("extra_s", 1.5, unit = "s", better = "lower", case = "4K")
    arm.record("lost_s", None, why = "no clock")
    p.stop()
session.run(group("g", sides = {"A": side(my_engine), "B": side(my_engine, stack = my_lever)}, workload = my_work, body = body))`)
	want := []string{`A srv 1 [] 42`, `[True]`, `[("ok", None, None), ("error", "closed", 3)]`, `2.0 done`, `20.5`}
	if !slices.Equal(got, want) {
		t.Errorf("printed %q, want %q", got, want)
	}
	calls := []string{"launch srv", "confirm", "warm", "measure 9", "generate warm", "sample 250ms", "exec [echo 1]", "check ok", "stop"}
	if !slices.Equal(s.arm.calls, calls) {
		t.Errorf("did %q, want %q", s.arm.calls, calls)
	}
	metrics := []record.Metric{{Name: "extra_s", Source: "body", Value: ptr(1.5), Unit: "s", Better: "lower", Case: "4K"}, {Name: "lost_s", Source: "body", Why: "no clock"}}
	if !reflect.DeepEqual(s.arm.metrics, metrics) {
		t.Errorf("recorded %+v", s.arm.metrics)
	}
}

func TestStandardBodyIsTheDefault(t *testing.T) {
	s := &fakeSession{}
	l := newLoader(newEnv(), map[string]string{"x.star": "load('@flow//bodies.star', 'standard')\n" + prelude + "def main(session):\n    session.run(group('g', sides = {'A': side(my_engine), 'B': side(my_engine, stack = my_lever)}, workload = my_work, body = standard))\n"})
	g, err := l.Load(t.Context(), "x.star")
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	if _, err := l.Call(t.Context(), "", g["main"].(starlark.Callable), starlark.Tuple{builtins.SessionValue(l, s)}, nil); err != nil {
		t.Fatal(diag.Format(err))
	}
	if want := []string{"launch srv", "confirm", "warm", "measure 1", "stop"}; !slices.Equal(s.arm.calls, want) {
		t.Errorf("did %q, want %q", s.arm.calls, want)
	}
}

func TestGateReadsItsArm(t *testing.T) {
	s := &fakeSession{}
	got := mustAct(t, s, `def check(arm):
    x = "meminfo.swap_used_mib"
    print(arm.growth(x), arm.first(x), arm.last(x), arm.min(x), arm.max(x), arm.mean(x), arm.sensor(x))
    print(arm.growth(x, step = "measure"), arm.sensor(x, step = "warm"), arm.growth("none"), arm.min("none"))
    print(arm.metric_why("ttft_ms"), arm.metric("ttft_ms"), [s.label for s in arm.group.sides], arm.levers, arm.group.arms[0].label)
    return bad(observed = 1, limit = 2, reason = "why")
session.run(group("g", sides = {"A": side(my_engine), "B": side(my_engine, stack = my_lever)}, workload = my_work, gates = [gate("x", check = check, required = False, phase = "before", params = {"n": 1})]))`)
	want := []string{
		`3.0 4.0 7.0 1.0 7.0 4.0 [(1.0, 4.0), (2.0, 1.0), (3.0, 7.0)]`,
		`6.0 [] None None`,
		`the stream had no tokens None ["A", "B"] [] A`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("printed %q, want %q", got, want)
	}
	f := record.Finding{Gate: "x", Phase: "before", Outcome: record.Fail, Observed: "1", Limit: "2", Reason: "why"}
	if len(s.findings) != 1 || s.findings[0] != f {
		t.Errorf("found %+v, want %+v", s.findings, f)
	}
	if p := s.groups[0].Gates[0].Params; p != `{"n":1}` {
		t.Errorf("params %s", p)
	}
}

// An estimate that is not valid at every look cannot be asked by a stop, wherever it is called from.
func TestStopsCannotPeek(t *testing.T) {
	l, g := load(t, `
def _peek(group):
    return "better" if stats.pairs([1, 2, 3], [2, 3, 4]).p < 0.05 else None
def _describe(group):
    return "enough" if stats.median([1, 2]) > 1 and stats.quad_e(quads = 3, t = 9.0) > 0 else None
peek = stop("peek", check = _peek, sequential = True)
describe = stop("describe", check = _describe)
flag = stop("flag", check = lambda group: group.cap == 4)
decided = stop("decided", check = lambda group: stats.decided(group))
hopeless = stop("hopeless", check = lambda group: stats.hopeless(group))
direct = stats.pairs([1, 2, 3], [2, 3, 4]).p
`)
	rule := func(name string, g2 *record.Group) (string, error) {
		return g[name].(*builtins.Decl[plan.Stop]).V.Rule(t.Context(), g2)
	}
	_, err := rule("peek", &record.Group{Name: "g"})
	if err == nil || !strings.Contains(diag.Format(err), `x.star:3:`) || !strings.Contains(err.Error(), `stop "peek" looks after every block`) {
		t.Errorf("peeking: %v", err)
	}
	if why, err := rule("describe", &record.Group{}); why != "enough" || err != nil {
		t.Errorf("describing: %q, %v", why, err)
	}
	if why, err := rule("flag", &record.Group{Cap: 3}); why != "" || err != nil {
		t.Errorf("False goes on: %q, %v", why, err)
	}
	if _, err := rule("flag", &record.Group{Cap: 4}); err == nil {
		t.Error("True is no reason, and was taken for one")
	}
	for _, name := range []string{"decided", "hopeless"} {
		if why, err := rule(name, &record.Group{Stopped: "d", Reason: "h"}); why != name[:1] || err != nil {
			t.Errorf("%s: %q, %v", name, why, err)
		}
		if why, err := rule(name, &record.Group{}); why != "" || err != nil {
			t.Errorf("%s: %q, %v", name, why, err)
		}
	}
	_ = l
}

func TestChecksEndWithTheirContext(t *testing.T) {
	_, g := load(t, "def _long(arm):\n    for _ in range(1000000000):\n        pass\nx = gate('x', check = _long)\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g["x"].(*builtins.Decl[plan.Gate]).V.Check(ctx, &record.Arm{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled context", err)
	}
}

// What a gate is, is what it does: a threshold changes it, a comment does not.
func TestFingerprints(t *testing.T) {
	of := func(text string) string {
		_, g := load(t, text)
		fp, err := g["x"].(*builtins.Decl[plan.Gate]).V.Code.Fingerprint()
		if err != nil {
			t.Fatal(diag.Format(err))
		}
		return fp
	}
	const text = "base = lever('l', env = {'X': 1}, confirm = confirm.environ())\ndef _limit():\n    return 3\ndef _check(arm):\n    return ok(limit = _limit(), observed = base.name)\nx = gate('x', check = _check)\n"
	same := of(text)
	if of("# a comment\n"+text) != same {
		t.Error("a comment changed it")
	}
	if of(strings.Replace(text, "return 3", "return 4", 1)) == same {
		t.Error("a threshold in a helper did not change it")
	}
	if of(strings.Replace(text, "'X': 1", "'X': 2", 1)) == same {
		t.Error("a lever it names did not change it")
	}
	if of(strings.Replace(text, "confirm.environ()", "confirm.log('x')", 1)) == same {
		t.Error("the evidence of a lever it names did not change it")
	}
}

func TestPositions(t *testing.T) {
	_, g := load(t, "load('@flow//gates.star', 'no_swap_growth')\n\nx = no_swap_growth()\n")
	if p := g["x"].(*builtins.Decl[plan.Gate]).V.Pos; p.File != "x.star" || p.Line != 3 {
		t.Errorf("made at %s, want the user's line", p)
	}
}

func TestParams(t *testing.T) {
	const text = `
model = param("model", type = "path", help = "GGUF")
n = param("n", default = 200, choices = [100, 200])
rate = param("rate", default = 1)
ratio = param("ratio", default = 0.5)
deep = param("deep", default = False)
pause = param("pause", default = "5s", type = "duration")
share = param("share", default = "3%", type = "percent")
names = param("names", default = ["a"])
again = param("n", default = 200, choices = [100, 200])
`
	run := func(e *builtins.Env) (starlark.StringDict, error) {
		return newLoader(e, map[string]string{"x.star": text}).Load(t.Context(), "x.star")
	}
	e := newEnv()
	e.Params = map[string]string{"model": "m.gguf", "n": "100", "ratio": "2", "deep": "yes", "names": "b, c"}
	g, err := run(e)
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	for name, want := range map[string]string{"model": `"m.gguf"`, "n": "100", "again": "100", "rate": "1", "ratio": "2.0", "deep": "True", "pause": `"5s"`, "share": `"3%"`, "names": `["b", "c"]`} {
		if got := g[name].String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := e.ParamValues(); got["n"] != "100" || got["model"] != `"m.gguf"` || got["names"] != `["b","c"]` || len(got) != 8 {
		t.Errorf("values %v", got)
	}
	d := e.Declared()
	if d[0].Name != "model" || d[0].Default != "" || d[0].StandIn || d[0].Pos.Line != 2 || d[1].Default != "200" || !slices.Equal(d[1].Choices, []string{"100", "200"}) || d[1].Value != "100" {
		t.Errorf("declared %+v", d)
	}
	if err := e.UnknownParams(); err != nil {
		t.Error(err)
	}

	stand := newEnv()
	stand.StandIns = true
	if g, err = run(stand); err != nil {
		t.Fatal(diag.Format(err))
	}
	if g["model"].String() != `"{model}"` || !stand.Declared()[0].StandIn || stand.Declared()[1].StandIn {
		t.Errorf("stand-in %s, %+v", g["model"], stand.Declared())
	}

	for set, want := range map[string]string{
		"n=300":     "param n: got 300, want one of 100, 200",
		"n=x":       `param n: got "x", want int`,
		"deep=2":    `param deep: got "2", want true or false`,
		"ratio=nan": `param ratio: got "nan", want a number`,
		"pause=5":   "param pause: ",
	} {
		e := newEnv()
		name, v, _ := strings.Cut(set, "=")
		e.Params = map[string]string{"model": "m", name: v}
		_, err := run(e)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(diag.Format(err), "fix: --set "+name+"=") {
			t.Errorf("--set %s: got %v, want %s and a fix", set, err, want)
		}
	}

	e = newEnv()
	e.Params = map[string]string{"model": "m", "modle": "x"}
	if _, err := run(e); err != nil {
		t.Fatal(diag.Format(err))
	}
	if err := e.UnknownParams(); err == nil || !strings.Contains(diag.Format(err), "did you mean --set model=x") {
		t.Errorf("unknown parameter: %v", err)
	} else if k, _ := diag.KindOf(err); k != diag.Workflow {
		t.Errorf("kind %v", k)
	}
}

// Standing in covers every type, and what stands in is accepted where such a value goes.
func TestStandIns(t *testing.T) {
	e := newEnv()
	e.StandIns = true
	l := newLoader(e, map[string]string{"x.star": `
work = workload(prompt = prompt_file(param("p", type = "path")), max_tokens = param("n", type = "int"), temperature = param("t", type = "float"), nonce = param("b", type = "bool"))
e = engine("x", command = ["x"] + param("args", type = "list"), timeouts = {"request": param("d", type = "duration")})
share = percent(param("share", type = "percent"))
c = param("c", choices = ["one", "two"])
`})
	g, err := l.Load(t.Context(), "x.star")
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	if g["c"].String() != `"one"` {
		t.Errorf("a choice stands in as %s, want the first", g["c"])
	}
}

func BenchmarkLibraryGate(b *testing.B) {
	l := newLoader(newEnv(), map[string]string{"x.star": "load('@flow//gates.star', 'output_identical')\nx = output_identical()\n"})
	g, err := l.Load(b.Context(), "x.star")
	if err != nil {
		b.Fatal(err)
	}
	check := g["x"].(*builtins.Decl[plan.Gate]).V.Check
	group := &record.Group{Control: "A", Sides: []record.Side{{Label: "A"}, {Label: "B"}}}
	for i := range 16 {
		a := &record.Arm{Label: "AB"[i%2 : i%2+1], Seq: i, Disposition: record.OK, Group: group}
		for j := range 4 {
			a.Requests = append(a.Requests, record.Request{Index: j, Mark: record.MarkMeasured, Status: "ok", TextSHA: fmt.Sprint(j)})
		}
		group.Arms = append(group.Arms, a)
	}
	b.ReportAllocs()
	for b.Loop() {
		if f, err := check(b.Context(), group.Arms[15]); err != nil || f.Outcome != record.Pass {
			b.Fatal(f, err)
		}
	}
}

func BenchmarkAttach(b *testing.B) {
	for b.Loop() {
		newLoader(newEnv(), nil)
	}
}
