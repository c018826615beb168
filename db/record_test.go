package db

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// same compares as JSON, which is what a workflow sees, and shows the first difference.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err := json.MarshalIndent(got, "", " ")
	must(t, err)
	w, err := json.MarshalIndent(want, "", " ")
	must(t, err)
	if string(g) == string(w) {
		return
	}
	gl, wl := strings.Split(string(g), "\n"), strings.Split(string(w), "\n")
	for i := range wl {
		if i >= len(gl) || gl[i] != wl[i] {
			t.Fatalf("%s: line %d: got %q, want %q", what, i+1, append(gl, "")[min(i, len(gl))], wl[i])
		}
	}
	t.Fatalf("%s: got more than was recorded:\n%s", what, g)
}

// Every field of every record comes back, whatever fields the records have: a field that is added to
// record and forgotten here fails this test.
func TestEverythingComesBack(t *testing.T) {
	d, ctx, n := open(t), context.Background(), 0
	var s record.Session
	filled(reflect.ValueOf(&s).Elem(), &n)
	s.Status = "running"
	must(t, d.BeginSession(ctx, &s))
	got, err := d.Session(ctx, s.ID)
	must(t, err)
	same(t, "session", got, s)

	var g record.Group
	filled(reflect.ValueOf(&g).Elem(), &n)
	g.SessionID, g.Control = s.ID, g.Sides[0].Label
	for i := range g.Comparisons {
		g.Comparisons[i].Side = g.Sides[1].Label
	}
	for i := range g.Steps {
		g.Steps[i].Side, g.Steps[i].Control = g.Sides[1].Label, g.Sides[0].Label
	}
	must(t, d.BeginGroup(ctx, &g))
	for i := range 2 {
		a := &record.Arm{}
		filled(reflect.ValueOf(a).Elem(), &n)
		a.GroupID, a.Label, a.Seq, a.Group = g.ID, g.Sides[i].Label, i, nil
		for j := range a.Requests {
			a.Requests[j].Index = j
		}
		must(t, d.EndArm(ctx, a))
		g.Arms = append(g.Arms, a)

		gotArm, err := d.Arm(ctx, a.ID)
		must(t, err)
		same(t, "arm", gotArm, a)
		samples, err := d.Samples(ctx, a.ID, "")
		must(t, err)
		same(t, "samples", samples, a.Samples)
		log, err := d.Log(ctx, a.ID)
		must(t, err)
		same(t, "log", log, a.Process.Log)
		body, err := d.Text(ctx, a.ID, 1)
		must(t, err)
		same(t, "text", body, a.Requests[1].Text)
	}
	must(t, d.EndGroup(ctx, &g))
	gotGroup, err := d.Group(ctx, g.ID)
	must(t, err)
	same(t, "group", gotGroup, g)

	var e record.Effect
	filled(reflect.ValueOf(&e).Elem(), &n)
	e.Done, e.Result = false, nil
	must(t, d.BeginEffect(ctx, s.ID, e))
	gotEffect, err := d.Effect(ctx, s.ID, e.Index)
	must(t, err)
	same(t, "effect", gotEffect, e)
}

func TestNoneIsNil(t *testing.T) {
	d, ctx := open(t), context.Background()
	if g, err := d.Group(ctx, "none"); g != nil || err != nil {
		t.Errorf("got group %v, error %v, want nil, nil", g, err)
	}
	if e, err := d.Effect(ctx, "none", 0); e != nil || err != nil {
		t.Errorf("got effect %v, error %v, want nil, nil", e, err)
	}
	if s, err := d.Log(ctx, "none"); s != "" || err != nil {
		t.Errorf("got log %q, error %v, want none", s, err)
	}
	if _, err := d.Session(ctx, "last"); err == nil || !strings.Contains(err.Error(), "no sessions") {
		t.Errorf("got %v, want an error that there are no sessions", err)
	}
}

// What was not measured is NULL and nil, never 0.
func TestNotMeasured(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, []record.Lever{lever("fa")})
	must(t, d.BeginGroup(ctx, g))
	must(t, d.EndArm(ctx, &record.Arm{ID: "a", GroupID: "g", Label: "A", Purpose: "measured", Disposition: record.Failed, Requests: []record.Request{{Status: "error", Mark: record.MarkMeasured}}}))
	got, err := d.Query(ctx, `select value, decode_tok_s, ttft_ms, ready_ms, pid, exit_code, signal, engine_version, reason from arms`, nil, 0)
	must(t, err)
	for i, v := range got.Rows[0] {
		if v != nil {
			t.Errorf("arms.%s: got %v, want NULL", got.Columns[i], v)
		}
	}
	a, err := d.Arm(ctx, "a")
	must(t, err)
	if r := a.Requests[0]; r.SentNS != nil || r.ArrivalsUS != nil || r.CompletionTokens != nil || a.Process != nil {
		t.Errorf("got %+v, want nil for what was not measured", r)
	}
}

func TestNumbersThatAreNotFinite(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, []record.Lever{lever("fa")})
	must(t, d.BeginGroup(ctx, g))
	arm := func(change func(a *record.Arm)) error {
		a := armOf(g, "A", 0, 100)
		change(a)
		return d.EndArm(ctx, a)
	}
	for _, c := range []struct {
		want string
		err  error
	}{
		{"arm g-arm-00.metrics[1].value (NaN)", arm(func(a *record.Arm) { a.Metrics[1].Value = ptr(math.NaN()) })},
		{"arm g-arm-00.requests[1].server_decode_tok_s (+Inf)", arm(func(a *record.Arm) { a.Requests[1].ServerDecodeTokS = ptr(math.Inf(1)) })},
		{"arm g-arm-00.requests[0].values[0].withheld (-Inf)", arm(func(a *record.Arm) { a.Requests[0].Values[0].Withheld = ptr(math.Inf(-1)) })},
		{"arm g-arm-00.samples[2] of sensor power_w (NaN)", arm(func(a *record.Arm) { a.Samples[2].Value = math.NaN() })},
		{`group screen g2.costs["ttft_ms"] (+Inf)`, func() error {
			g := group("s", "g2", 1, nil, nil)
			g.Costs = map[string]float64{"ttft_ms": math.Inf(1)}
			return d.BeginGroup(ctx, g)
		}()},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want an error that names %s", c.err, c.want)
		}
	}
	if got, _ := d.Query(ctx, `select count(*) from arms`, nil, 0); got.Rows[0][0] != int64(0) {
		t.Errorf("got %v arms, want none", got.Rows[0][0])
	}
}

func TestFinishedSessionNeverChanges(t *testing.T) {
	d, ctx := open(t), context.Background()
	g := fill(t, d, "s", 0, record.Better)
	before, err := d.Group(ctx, g.ID)
	must(t, err)
	s, err := d.Session(ctx, "s")
	must(t, err)
	s.Status = "running"
	g.Verdict = record.Worse
	g.Arms[0].Disposition = record.Invalid
	for what, err := range map[string]error{
		"session":   d.UpdateSession(ctx, s),
		"group":     d.EndGroup(ctx, g),
		"arm":       d.JudgeArm(ctx, g.Arms[0]),
		"new arm":   d.EndArm(ctx, armOf(g, "A", 9, 1)),
		"new group": d.BeginGroup(ctx, group("s", "late", 5, nil, nil)),
	} {
		var e *diag.Error
		if !errors.As(err, &e) || e.Kind != diag.Workflow || !strings.Contains(err.Error(), "never change") {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
	}
	after, err := d.Group(ctx, g.ID)
	must(t, err)
	same(t, "group", after, before)
	must(t, d.Amend(ctx, Amendment{Subject: "group", ID: g.ID, WallNS: hour(5), Kind: "exclusion", Text: "the fan was off"}))
	got, err := d.Query(ctx, `select kind, text, at from amendments where id = :id`, map[string]any{"id": g.ID}, 0)
	must(t, err)
	same(t, "amendment", got.Rows, [][]any{{"exclusion", "the fan was off", "2026-01-01T05:00:00.000Z"}})
	// Not even by SQL that goes around the methods.
	for _, sql := range []string{`update t_metric set value = 1`, `update t_sample set value = 1`, `update t_request set frames = 1`, `update t_step set name = 'x'`, `update t_evidence set found = 1`} {
		if _, err := d.writer.Exec(sql); err == nil {
			t.Errorf("%s: got no error, want a refusal", sql)
		}
	}
}

func TestJudgeArmKeepsWhatWasMeasured(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, []record.Lever{lever("fa")})
	must(t, d.BeginGroup(ctx, g))
	a := armOf(g, "A", 0, 100)
	must(t, d.EndArm(ctx, a))
	judged := *a
	judged.Metrics, judged.Requests = nil, nil
	judged.Disposition, judged.Reason = record.Invalid, "swap grew"
	judged.Findings = []record.Finding{{Gate: "no_swap_growth", Outcome: record.Fail, Observed: "9 MiB"}, {Gate: "x", Outcome: record.Unmeasured, Error: "div by zero"}}
	must(t, d.JudgeArm(ctx, &judged))
	want := *a
	want.Disposition, want.Reason, want.Findings = judged.Disposition, judged.Reason, judged.Findings
	got, err := d.Arm(ctx, a.ID)
	must(t, err)
	same(t, "arm", got, want)
}

func TestSourcesAreKeptOnce(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s1", 0)))
	must(t, d.BeginSession(ctx, session("s2", 1)))
	if n, err := list(d.writer, `SELECT label FROM t_session_source`); err != nil || len(n) != 4 {
		t.Fatalf("got %v, %v, want 4 references", n, err)
	}
	if n, err := list(d.writer, `SELECT sha256 FROM t_source`); err != nil || len(n) != 2 {
		t.Fatalf("got %v, %v, want 2 sources", n, err)
	}
}

func TestBlobs(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, []record.Lever{lever("fa")})
	must(t, d.BeginGroup(ctx, g))
	long := "begin " + strings.Repeat("0123456789abcdef", (headBytes+tailBytes)/16) + " end"
	for i, log := range []string{"short", strings.Repeat("compress me ", 1000), long, "", "short"} {
		a := armOf(g, "A", i, 100)
		a.Process.Log = log
		must(t, d.EndArm(ctx, a))
		got, err := d.Log(ctx, a.ID)
		must(t, err)
		if log == long {
			if !strings.HasPrefix(got, "begin ") || !strings.HasSuffix(got, " end") || !strings.Contains(got, "\n… 10 bytes left out …\n") {
				t.Errorf("huge log: got %d bytes from %q to %q", len(got), got[:20], got[len(got)-20:])
			}
		} else if got != log {
			t.Errorf("log %d: got %d bytes, want %d", i, len(got), len(log))
		}
	}
	// Logs "short" are one, completions of all requests are one, and short ones are readable as they are.
	got, err := d.Query(ctx, `select codec, count(*) from t_blob group by codec order by codec`, nil, 0)
	must(t, err)
	same(t, "blobs", got.Rows, [][]any{{"plain", 2}, {"zstd", 2}})
}

func TestSamples(t *testing.T) {
	d, ctx := open(t), context.Background()
	g := fill(t, d, "s", 0, record.Better)
	id := g.Arms[2].ID
	got, err := d.Samples(ctx, id, "power_w")
	must(t, err)
	same(t, "power", got, []record.Sample{{Sensor: "power_w", MonoNS: 2, Value: 100}, {Sensor: "power_w", MonoNS: 4, Value: 120}})
	tab, err := d.Query(ctx, `select sensor, n, mean, min, max, first, last, change from summaries where arm_id = :a order by sensor`, map[string]any{"a": id}, 0)
	must(t, err)
	same(t, "summaries", tab.Rows, [][]any{{"power_w", 2, 110., 100., 120., 100., 120., 20.}, {"psi.cpu", 2, 1.5, 1., 2., 1., 2., 1.}})
	// The view finds an arm's samples by their keys: no scan of the table.
	plan, err := d.Query(ctx, `explain query plan select * from samples where arm_id = 'x' and sensor = 'power_w'`, nil, 0)
	must(t, err)
	for _, r := range plan.Rows {
		if strings.HasPrefix(r[3].(string), "SCAN") {
			t.Errorf("samples by arm and sensor: got %q", r[3])
		}
	}
	must(t, d.BeginSession(ctx, session("s2", 1)))
	must(t, d.KeepSensors(ctx, "s2", []record.Sensor{{Name: "power_w", Unit: "W", Source: "nvml", Available: true, PeriodMS: 100}, {Name: "rapl", Unit: "J", Counter: true, Why: "no permission"}}))
	if tab, err = d.Query(ctx, `select distinct unit from samples where sensor = 'power_w'`, nil, 0); err != nil || tab.Rows[0][0] != "W" {
		t.Errorf("unit: got %v, %v, want W", tab, err)
	}
}

func TestPast(t *testing.T) {
	d, ctx := open(t), context.Background()
	fill(t, d, "s1", 0, record.Better)
	fill(t, d, "s2", 1, record.Worse)
	s := session("s3", 2)
	s.Machine.ID, s.Measurer = "machine-2", record.MeasurerSimulated
	must(t, d.BeginSession(ctx, s))
	g := group("s3", "g3", 2, []record.Lever{lever("fa")}, []record.Lever{lever("ub")})
	g.Role = record.RoleQualification
	must(t, d.BeginGroup(ctx, g))
	must(t, d.BeginGroup(ctx, group("s3", "unfinished", 3, nil, nil)))
	end(g, record.Better, .2)
	must(t, d.EndGroup(ctx, g))
	for _, c := range []struct {
		scope Scope
		want  string
	}{
		{Scope{}, "g3 s2-g s1-g"},
		{Scope{Limit: 1}, "g3"},
		{Scope{Machine: "machine-1"}, "s2-g s1-g"},
		{Scope{Measurer: record.MeasurerSimulated}, "g3"},
		{Scope{Role: record.RoleQualification}, "g3"},
		{Scope{Session: "s1"}, "s1-g"},
		{Scope{Engine: "engine-1", Workload: "work-1", Model: "model-1"}, "g3 s2-g s1-g"},
		{Scope{Engine: "other"}, ""},
		{Scope{Lever: "hash-fa"}, "g3 s2-g s1-g"}, // on any side but the control
		{Scope{Lever: "hash-ub"}, "g3"},
		{Scope{Lever: "hash-none"}, ""},
	} {
		past, err := d.Past(ctx, c.scope)
		must(t, err)
		var ids []string
		for _, g := range past {
			ids = append(ids, g.ID)
			if strings.HasPrefix(g.ID, "s") && (len(g.Arms) != 4 || len(g.Arms[0].Requests) != 0 || len(g.Arms[0].Metrics) != 3) {
				t.Errorf("%s: got arms %+v", g.ID, g.Arms)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("past %+v: got %q, want %q", c.scope, got, c.want)
		}
	}
}

func TestFind(t *testing.T) {
	d, ctx := open(t), context.Background()
	g := fill(t, d, "0190-aaaa-1", 0, record.Better)
	fill(t, d, "0190-aaaa-2", 1, record.Better)
	for ref, want := range map[string]string{
		"last": "session 0190-aaaa-2", "0190-aaaa-1": "session 0190-aaaa-1", "0190-aaaa-1-g": "group 0190-aaaa-1-g", g.Arms[3].ID: "arm " + g.Arms[3].ID,
		"0190-aaaa-2-g-arm-01": "arm 0190-aaaa-2-g-arm-01",
	} {
		kind, id, err := d.Find(ctx, ref)
		must(t, err)
		if kind+" "+id != want {
			t.Errorf("find %s: got %s %s, want %s", ref, kind, id, want)
		}
	}
	// What failed before it did anything is found by its id, and is not the last one.
	refused := session("0190-aaaa-3", 2)
	must(t, d.BeginSession(ctx, refused))
	refused.Status = "failed"
	must(t, d.EndSession(ctx, refused))
	for ref, want := range map[string]string{"last": "0190-aaaa-2", "0190-aaaa-3": "0190-aaaa-3"} {
		if s, err := d.Session(ctx, ref); err != nil || s.ID != want {
			t.Errorf("session %s: got %+v, %v, want %s", ref, s, err, want)
		}
	}
	if _, _, err := d.Find(ctx, "0190-"); err == nil || !strings.Contains(diag.Format(err), "0190-aaaa-2") {
		t.Errorf("ambiguous: got %v, want the candidates", err)
	}
	if _, _, err := d.Find(ctx, "zzz"); err == nil || !strings.Contains(diag.Format(err), "flow sessions") {
		t.Errorf("unknown: got %v", err)
	}
	for id, want := range map[string]string{"0190-aaaa-1": "0190-aaaa-1", "0190-aaaa-1-g": "0190-aaaa-1-g", g.Arms[0].ID: g.Arms[0].ID} {
		if got := d.Short(ctx, id); got != want {
			t.Errorf("short %s: got %s, want %s", id, got, want)
		}
	}
	must(t, d.BeginSession(ctx, session("0777aaaa-bbbb-cccc", 3)))
	if got := d.Short(ctx, "0777aaaa-bbbb-cccc"); got != "0777aaaa" {
		t.Errorf("short: got %s", got)
	}
	ids, names, err := d.IDs(ctx, "0190-aaaa-1", 10)
	must(t, err)
	if len(ids) != 6 || names[0] != "session" || names[1] != "group" || names[2] != "arm" {
		t.Errorf("ids: got %v %v", ids, names)
	}
}

func TestMemory(t *testing.T) {
	ctx := context.Background()
	d, err := Open(ctx, Memory)
	must(t, err)
	fill(t, d, "s", 0, record.Better)
	got, err := d.Query(ctx, `select count(*) from arms`, nil, 0)
	must(t, err)
	if got.Rows[0][0] != int64(4) {
		t.Errorf("got %v arms, want 4", got.Rows[0][0])
	}
	if _, err := d.Query(ctx, `delete from t_arm`, nil, 0); err == nil {
		t.Error("a query wrote")
	}
	fill(t, d, "s2", 1, record.Better)
	must(t, d.Close())
	if m, _ := filepath.Glob("*memory*"); m != nil {
		t.Errorf("got files %v", m)
	}
}
