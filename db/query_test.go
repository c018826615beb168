package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// publicViews are the names that scripts and documents rely on.
var publicViews = []string{"sessions", "groups", "arms", "requests", "metrics", "samples", "gates", "pairs", "levers", "gains", "champions", "noise", "warnings",
	"flow_schema", "summaries", "phase_summaries", "evidence", "steps", "events", "amendments"}

func TestViewsOnEmptyAndFilled(t *testing.T) {
	d, ctx := open(t), context.Background()
	got, err := d.Query(ctx, `select name from sqlite_schema where type = 'view'`, nil, 0)
	must(t, err)
	names := map[string]bool{}
	for _, r := range got.Rows {
		names[r[0].(string)] = true
	}
	for _, v := range publicViews {
		if !names[v] {
			t.Errorf("there is no view %s", v)
		}
		delete(names, v)
		if _, err := d.Query(ctx, `select * from `+v, nil, 0); err != nil {
			t.Errorf("%s, empty: %v", v, err)
		}
	}
	if len(names) > 0 {
		t.Errorf("views that publicViews does not know: %v", names)
	}
	fill(t, d, "s", 0, record.Better)
	q := group("q", "q-g", 1, nil, []record.Lever{lever("fa")})
	q.Role = record.RoleQualification
	must(t, d.BeginSession(ctx, session("q", 1)))
	must(t, d.BeginGroup(ctx, q))
	end(q, record.Better, .1)
	must(t, d.EndGroup(ctx, q))
	must(t, d.Event(ctx, "s", record.Event{WallNS: hour(0), Kind: "note", Text: "x"}))
	must(t, d.Amend(ctx, Amendment{Subject: "session", ID: "s", Kind: "note"}))
	for _, v := range publicViews {
		rows, err := d.Query(ctx, `select * from `+v, nil, 0)
		if err != nil || len(rows.Rows) == 0 {
			t.Errorf("%s, filled: got %v rows, error %v", v, rows, err)
			continue
		}
		seen := map[string]bool{}
		for _, c := range rows.Columns {
			if seen[c] || strings.ContainsAny(c, ":. ") {
				t.Errorf("%s: column %q twice or with an odd name", v, c)
			}
			seen[c] = true
		}
	}
}

// rows asks and compares.
func rows(t *testing.T, d *DB, query string, want [][]any) {
	t.Helper()
	got, err := d.Query(context.Background(), query, nil, 0)
	must(t, err)
	same(t, query, got.Rows, want)
}

func TestViewsSayTheRightThing(t *testing.T) {
	d := open(t)
	fill(t, d, "s", 0, record.Better)
	rows(t, d, `select id, status, started, duration_s, machine, cpu, gpu, groups, arms, arms_ok, better, worse, seed from sessions`,
		[][]any{{"s", "done", "2026-01-01T00:00:00.000Z", 60., "bench", "Xeon", "RTX", 1, 4, 4, 1, 0, "9223372036854775815"}})
	rows(t, d, `select params, json_extract(params, '$.model') from sessions`, [][]any{{`{"model":"m.gguf"}`, "m.gguf"}})
	rows(t, d, `select name, lever, base, verdict, round(effect_pct, 6), round(low_pct, 6), round(high_pct, 6), median_control, arms, arms_ok, engine from groups`,
		[][]any{{"screen s-g", "fa", "", "better", 10., 9., 11., 100., 4, 4, "llama"}})
	rows(t, d, `select label, is_control, lever, value, decode_tok_s, ttft_ms, requests, requests_ok, ready_ms, exit_code from arms order by seq`,
		[][]any{{"A", 1, "", 100., 100., 12.5, 1, 1, 2., 0}, {"B", 0, "fa", 110., 110., 12.5, 1, 1, 2., 0}, {"B", 0, "fa", 112., 112., 12.5, 1, 1, 2., 0}, {"A", 1, "", 101., 101., 12.5, 1, 1, 2., 0}})
	// ABBA: the pairs are slots 0, 1 and 2, 3; the control came first in one and last in the other.
	rows(t, d, `select pair, control_value, side_value, delta, round(delta_pct, 3), control_first from pairs order by pair`,
		[][]any{{0, 100., 110., 10., 10., 1}, {1, 101., 112., 11., 10.891, 0}})
	rows(t, d, `select arm_id, idx, mark, ttft_ms, generation_ms, completion_tokens, arrivals_us, (select sum(value) from json_each(arrivals_us)) from requests where idx = 1 limit 1`,
		[][]any{{"s-g-arm-00", 1, "measured", 12.5, 5., 200, "[10,20,30]", 60}})
	rows(t, d, `select name, value, why from metrics where arm_id = 's-g-arm-00' and request is null and name <> 'ttft_ms' order by name`,
		[][]any{{"decode_tok_s", 100., nil}, {"wall_energy_j", nil, "no meter"}})
	rows(t, d, `select gate, outcome, observed, wanted, params, required from gates limit 1`, [][]any{{"no_swap_growth", "pass", "0 MiB", "0 MiB", `{"mib":0}`, 1}})
	rows(t, d, `select lever, found from evidence order by arm_id`, [][]any{{"fa", 0}, {"fa", 1}, {"fa", 1}, {"fa", 0}})
	rows(t, d, `select lever, lever_hash, base_hashes, group_verdict, round(effect_pct, 6), n_side from gains`, [][]any{{"fa", "hash-fa", "[]", "better", 10., 2}})
	rows(t, d, `select name, groups, better, worse from levers`, [][]any{{"fa", 1, 1, 0}})
	rows(t, d, `select group_name, position, kind, text from warnings`, [][]any{{"screen s-g", 0, "two runs of side B", "two runs of side B: an observed range"}, {"screen s-g", 1, "1 quad", "1 quad"}})
	// ln 110, ln 112 and ln 100, ln 101: sum of squares (.018018/√2)² + (.009950/√2)², 2 degrees of freedom.
	rows(t, d, `select round(sd_pct, 4), df from noise`, [][]any{{1.0292, 2}})
	rows(t, d, `select name, duration_ms from steps where arm_id = 's-g-arm-00' order by position`, [][]any{{"launch", 1e-6}, {"measure", 7e-6}})
	rows(t, d, `select version from flow_schema`, [][]any{{1}})
}

// A rung of a ladder that adds up is in gains twice: against the control with all its levers, and against the rung
// before with its own. A lever is counted by its step.
func TestStepsAreGains(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 1, nil, nil)
	a, b := lever("a"), lever("b")
	g.Role, g.Sides = record.RoleLadder, append(g.Sides[:1], record.Side{Label: "S1", Engine: "llama", Stack: []record.Lever{a}}, record.Side{Label: "S2", Engine: "llama", Stack: []record.Lever{a, b}})
	must(t, d.BeginGroup(ctx, g))
	end(g, record.Inconclusive, .1)
	compared := func(side, control, verdict string, effect float64) record.Comparison {
		return record.Comparison{Side: side, Control: control, Metric: g.Primary, Verdict: verdict, Estimate: &record.Estimate{Method: "ladder", Effect: effect, Level: .95}}
	}
	g.Comparisons = []record.Comparison{compared("S1", "A", record.Better, .1), compared("S2", "A", record.Better, .04)}
	g.Steps = []record.Comparison{compared("S2", "S1", record.Worse, -.0545)}
	must(t, d.EndGroup(ctx, g))
	rows(t, d, `select lever, lever_hash, label, step_over, base, verdict, round(effect_pct, 2) from gains order by label, step_over`, [][]any{
		{"a", "hash-a", "S1", nil, "", "better", 10.},
		{"a+b", nil, "S2", nil, "", "better", 4.},
		{"b", "hash-b", "S2", "S1", "a", "worse", -5.45}})
	rows(t, d, `select name, better, worse from levers order by name`, [][]any{{"a", 1, 0}, {"b", 0, 1}})
	rows(t, d, `select count(*) from groups where effect_pct = 10`, [][]any{{1}})
}

// A lever is counted by the verdict of the side that adds it alone: a ladder whose rungs differ is inconclusive as a
// whole, and neither of its levers is. Cases are joined as the judge does, a stack's verdict is no lever's, and the
// combinations that a design runs are none of its findings.
func TestLeversByTheirOwnVerdict(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	type compared struct{ side, cs, verdict string }
	n := 0
	keep := func(verdict, rule, design string, sides map[string][]record.Lever, cs ...compared) {
		n++
		g := group("s", fmt.Sprintf("g%d", n), n, nil, nil)
		g.Sides, g.CaseRule, g.Design = g.Sides[:1], rule, design
		for _, label := range slices.Sorted(maps.Keys(sides)) {
			g.Sides = append(g.Sides, record.Side{Label: label, Engine: "llama", Stack: sides[label]})
		}
		must(t, d.BeginGroup(ctx, g))
		end(g, verdict, .1)
		g.Comparisons = nil
		for _, c := range cs {
			g.Comparisons = append(g.Comparisons, record.Comparison{Side: c.side, Control: "A", Case: c.cs, Metric: g.Primary, Verdict: c.verdict},
				record.Comparison{Side: c.side, Control: "A", Metric: "ttft_ms", Verdict: record.Worse, Cost: true})
		}
		must(t, d.EndGroup(ctx, g))
	}
	a, b, c, e := lever("a"), lever("b"), lever("c"), lever("e")
	one := func(l ...record.Lever) []record.Lever { return l }
	rungs := map[string][]record.Lever{"S1": one(a), "S2": one(b)}
	keep(record.Inconclusive, "", "", rungs, compared{"S1", "", record.Better}, compared{"S2", "", record.Worse})
	keep(record.Inconclusive, "all", "", rungs, compared{"S1", "4K", record.Better}, compared{"S1", "32K", record.Worse}, compared{"S2", "4K", record.Better}, compared{"S2", "32K", record.Equivalent})
	keep(record.Inconclusive, "worst", "", rungs, compared{"S1", "4K", record.Better}, compared{"S1", "32K", record.Equivalent}, compared{"S2", "4K", record.Better}, compared{"S2", "32K", record.Invalid})
	keep(record.Inconclusive, "each", "", rungs, compared{"S1", "4K", record.Better}, compared{"S1", "32K", record.Worse}, compared{"S2", "4K", record.Better}, compared{"S2", "32K", record.Better})
	keep(record.Better, "", "", map[string][]record.Lever{"B": one(a, b)}, compared{"B", "", record.Better})
	keep(record.Inconclusive, "", "plackett_burman", map[string][]record.Lever{"R1": one(c), "R2": one(c, e), "c": one(c), "e": one(e)},
		compared{"c", "", record.Better}, compared{"e", "", record.Equivalent})
	keep(record.Infeasible, "", "", rungs)
	rows(t, d, `select name, groups, better, worse, equivalent, inconclusive, not_valid from levers order by name`, [][]any{
		{"a", 6, 1, 1, 1, 1, 1}, // the ladder, all, worst, each, infeasible
		{"b", 6, 1, 1, 0, 1, 2}, // each better; worse; not every case; infeasible and a case without a block
		{"c", 1, 1, 0, 0, 0, 0},
		{"e", 1, 0, 0, 1, 0, 0},
	})
}

// What a session took: every arm of it, with the joules of the arm and not of its requests.
func TestSpent(t *testing.T) {
	d, ctx := open(t), context.Background()
	if sp, err := d.Spent(ctx, "none"); err != nil || sp != (record.Spent{}) {
		t.Errorf("nothing: got %+v, %v", sp, err)
	}
	fill(t, d, "other", 1, record.Better)
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "s-g", 0, nil, []record.Lever{lever("fa")})
	must(t, d.BeginGroup(ctx, g))
	for i := range 4 {
		must(t, d.EndArm(ctx, armOf(g, "A", i, 100)))
	}
	for i, disposition := range []string{record.OK, record.Failed, record.Superseded} {
		a := armOf(g, "A", 4+i, 100)
		a.Disposition = disposition
		if i == 0 {
			a.Metrics = append(a.Metrics, record.Metric{Name: "nvml.0.energy_j", Value: ptr(120.)}, record.Metric{Name: "rapl.package-0.energy_j", Value: ptr(30.)}, record.Metric{Name: "x.energy_j_max", Value: ptr(7.)})
			a.Requests[1].Values = append(a.Requests[1].Values, record.Metric{Name: "nvml.0.energy_j", Value: ptr(60.)})
		}
		must(t, d.EndArm(ctx, a))
	}
	sp, err := d.Spent(ctx, "s")
	must(t, err)
	// Seven arms of .9 s; four of the quad have no meter that measured, and failed ones need none.
	if want := (record.Spent{Seconds: 6.3, Joules: 150, Arms: 7, Unmetered: 4}); math.Abs(sp.Seconds-want.Seconds) > 1e-9 || sp.Joules != want.Joules || sp.Arms != want.Arms || sp.Unmetered != want.Unmetered {
		t.Errorf("got %+v, want %+v", sp, want)
	}
}

// A champion stands on the champion that was its control: the chain's total decides, not the last step.
func TestChampions(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	qualify := func(id string, n int, base, added []record.Lever, verdict string, effect float64) {
		g := group("s", id, n, base, added)
		g.Role = record.RoleQualification
		must(t, d.BeginGroup(ctx, g))
		end(g, verdict, effect)
		must(t, d.EndGroup(ctx, g))
	}
	a, b, c := lever("a"), lever("b"), lever("c")
	qualify("g1", 1, nil, []record.Lever{a}, record.Better, .20)
	qualify("g2", 2, []record.Lever{a}, []record.Lever{b}, record.Better, .03) // 1.2 * 1.03
	qualify("g3", 3, nil, []record.Lever{c}, record.Better, .10)               // newer, but less
	qualify("g4", 4, []record.Lever{a, b}, []record.Lever{c}, record.Inconclusive, .5)
	rows(t, d, `select stack, lever_hashes, levers, round(total_pct, 6), round(effect_pct, 6), group_id from champions`,
		[][]any{{"a+b", `["hash-a","hash-b"]`, `[{"name":"a"},{"name":"b"}]`, 23.6, 3., "g2"}})
}

// What was simulated, or judged again from recorded arms, is in gains with its measurer, and counts neither for a
// lever nor for a champion.
func TestOnlyRealSessionsCount(t *testing.T) {
	d, ctx := open(t), context.Background()
	for i, measurer := range []string{record.MeasurerSimulated, record.MeasurerRecorded} {
		s := session(measurer, i)
		s.Measurer = measurer
		must(t, d.BeginSession(ctx, s))
		g := group(measurer, measurer+"-g", i, nil, []record.Lever{lever("fa")})
		g.Role = record.RoleQualification
		must(t, d.BeginGroup(ctx, g))
		end(g, record.Better, .9)
		must(t, d.EndGroup(ctx, g))
	}
	counted := `select name, sessions, groups, better, first_seen is null from levers`
	rows(t, d, counted, [][]any{{"fa", 0, 0, 0, 1}})
	rows(t, d, `select count(*) from champions`, [][]any{{0}})
	rows(t, d, `select measurer from gains where not is_cost order by measurer`, [][]any{{"recorded"}, {"simulated"}})
	must(t, d.BeginSession(ctx, session("s", 2)))
	g := group("s", "s-g", 0, nil, []record.Lever{lever("fa")})
	g.Role = record.RoleQualification
	must(t, d.BeginGroup(ctx, g))
	end(g, record.Better, .1)
	must(t, d.EndGroup(ctx, g))
	rows(t, d, counted, [][]any{{"fa", 1, 1, 1, 0}})
	rows(t, d, `select round(effect_pct, 6), measurer from champions`, [][]any{{10., "real"}})
}

func TestQueryParameters(t *testing.T) {
	d, ctx := open(t), context.Background()
	got, err := d.Query(ctx, `select :i, @f, $s, :none, :b, :i, typeof(:bytes), (select count(*) from json_each(:list)) -- :not`, map[string]any{
		"i": 3, "f": 1.5, ":s": "it's", "none": nil, "b": true, "bytes": []byte{1}, "list": []any{"a", int64(2)}}, 0)
	must(t, err)
	same(t, "row", got.Rows, [][]any{{3, 1.5, "it's", nil, 1, 3, "blob", 2}})
	if _, ok := got.Rows[0][0].(int64); !ok {
		t.Errorf("got %T, want int64", got.Rows[0][0])
	}
	got, err = d.Query(ctx, `with recursive n(i) as (select 1 union all select i+1 from n) select i from n`, nil, 7)
	must(t, err)
	if len(got.Rows) != 7 {
		t.Errorf("got %d rows, want the limit of 7", len(got.Rows))
	}
	got, err = d.Query(ctx, `select 1 where 0;`, nil, 0)
	must(t, err)
	if got.Rows == nil || len(got.Rows) != 0 {
		t.Errorf("got %v, want no rows and not nil", got.Rows)
	}
}

// A word in double quotes is a name: where it is compared with, a text was most likely meant.
func TestQuotedNames(t *testing.T) {
	for query, want := range map[string]string{
		`select name from groups where verdict = "better"`:                     "better",
		`select name from groups where verdict <> "better" or "worse"<=lever`:  "better",
		`select name from groups where verdict in ('x', "better", "worse")`:    "better worse",
		`select name from groups where verdict like "better" order by "name"`:  "better",
		`select "better", "g"."name" from groups "g" group by "better"`:        "",
		`select 1 from groups g where name = "g"."lever"`:                      "",
		`select count("better") from groups where verdict = 'better' -- = "x"`: "",
	} {
		if got := strings.Join(QuotedNames(query), " "); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

func TestQueryErrors(t *testing.T) {
	d, ctx := open(t), context.Background()
	for _, c := range []struct{ sql, pos, want, fix string }{
		{"select * from armz", "sql:1:15", "no such view: armz", "did you mean arms? or use one of flow_schema, sessions, groups, arms"},
		{"select * from nothinglikeit", "sql:1:15", "no such view: nothinglikeit", "use one of flow_schema, sessions, groups, arms"},
		{"select * from group", "sql:1:15", `near "group": syntax error`, "did you mean the view groups? group is a word of SQL"},
		{"select nam\nfrom groups g", "sql:1:8", "no such column: nam", "groups has id, session_id, position, name"},
		{"select g.nam, '\n',\n  g.nam from groups g", "sql:1:10", "no such column: g.nam", "groups has id"},
		{"select 'from', 1 from groups\nwhere from", "sql:2:7", `near "from": syntax error`, ""},
		{"selec 1", "sql:1:1", `near "selec": syntax error`, ""},
		{"select (1, 2", "sql:1:13", "ends in the middle", "select COLUMNS from VIEW"},
		{"select * from arms where\n", "sql:1:25", "ends in the middle", "flow doc sql"},
		{"select median(value) from arms", "sql:1:8", "no such function: median", "no median"},
		{"select nosuch(1)", "sql:1:8", "no such function: nosuch", ""},
		{"select abs()", "sql:1:8", "wrong number of arguments", ""},
		{"select id from groups g join arms a on 1", "sql:1:8", "ambiguous column name: id", ""},
		{`select * from sessions where id = "last"`, "sql:1:35", "no such column: \"last\"", "a text stands in single quotes: 'last'\nsessions has id"},
		{"", "", "got no SQL", "select"},
		{" -- nothing\n ;", "", "got no SQL", ""},
		{"select 1; select 2", "sql:1:9", "more than one statement", ""},
		{"select ?", "sql:1:8", "without a name", ""},
		{"select 1,\n  :äx", "sql:2:3", "parameter :äx has no value", ""},
	} {
		_, err := d.Query(ctx, c.sql, nil, 0)
		var e *diag.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: got %v, want a diag.Error", c.sql, err)
			continue
		}
		if e.Kind != diag.Workflow || e.Pos.String() != c.pos || !strings.Contains(e.Error(), c.want) || e.Fix == "" || !strings.Contains(e.Fix, c.fix) {
			t.Errorf("%q: got %q at %q (fix %q), want %q at %q (fix %q)", c.sql, e.Error(), e.Pos, e.Fix, c.want, c.pos, c.fix)
		}
	}
	if _, err := d.Query(ctx, "select 1", map[string]any{"x": 1}, 0); err == nil || !strings.Contains(err.Error(), ":x") {
		t.Errorf("unused parameter: got %v", err)
	}
}

const endless = `with recursive n(i) as (select 1 union all select i+1 from n) select count(*) from n`

func TestQueryTimeLimit(t *testing.T) {
	d := open(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Query(ctx, endless, nil, 0); err == nil || !strings.Contains(err.Error(), "time limit") {
		t.Errorf("got %v, want the time limit", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := d.Query(ctx, endless, nil, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want cancelled", err)
	}
	if _, err := d.Query(context.Background(), `select 1`, nil, 0); err != nil {
		t.Errorf("after a time limit: %v", err)
	}
}

// Whoever asks cannot write, on a read-only handle as on a recording one, and not even after trying to
// switch the protection off.
func TestQueryCannotWrite(t *testing.T) {
	w, ctx := open(t), context.Background()
	fill(t, w, "s", 0, record.Better)
	ro, err := OpenReadOnly(ctx, w.Path())
	must(t, err)
	defer func() { _ = ro.Close() }()
	dir := filepath.Dir(w.Path())
	for _, sql := range []string{
		`insert into t_event (session) values (1)`, `update t_arm set reason = 'x'`, `delete from t_arm`, `drop view arms`, `create table x (i)`, `create temp table x (i)`,
		`create temp view x as select 1`, `pragma query_only = 0`, `pragma query_only`, `pragma user_version = 9`, `pragma journal_mode = delete`, `attach 'file:` + dir + `/other.db?mode=rwc' as o`,
		`attach '` + dir + `/other.db' as o`, `vacuum into '` + dir + `/copy.db'`, `vacuum`, `reindex`, `analyze`, `select load_extension('x')`, `begin`, `begin immediate`, `savepoint x`,
		`insert into t_event (session) values (1) returning key`, `with x as (select 1) delete from t_arm`, `explain delete from t_arm`, `select * from pragma_table_info('t_arm')`, `detach main`,
	} {
		for _, d := range []*DB{w, ro} {
			if got, err := d.Query(ctx, sql, nil, 0); err == nil {
				t.Errorf("%s: got %v, want a refusal", sql, got)
			} else if !strings.Contains(err.Error(), "more than read") && !strings.Contains(err.Error(), "not authorized") && !strings.Contains(err.Error(), "no such table") && !strings.Contains(err.Error(), "no such function") {
				t.Errorf("%s: got %v, want a refusal by the authorizer", sql, err)
			}
		}
	}
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), "flow.db") {
			t.Errorf("a query made the file %s", f.Name())
		}
	}
	rows(t, ro, `select count(*) from arms`, [][]any{{4}})
	if err := ro.EndArm(ctx, &record.Arm{}); err == nil {
		t.Error("a read-only database recorded an arm")
	}
}

// Other programs read the file: the views need nothing that an ordinary SQLite has not.
func TestPlainSQLite(t *testing.T) {
	bin, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("no sqlite3 on this machine")
	}
	d := open(t)
	fill(t, d, "s", 0, record.Better)
	for _, v := range publicViews {
		out, err := exec.Command(bin, "-readonly", d.Path(), `select count(*) from (select * from `+v+`)`).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", v, err, out)
		}
	}
	out, err := exec.Command(bin, "-readonly", d.Path(), `select name, verdict, round(effect_pct, 2) from groups; select count(*) from samples; pragma integrity_check; pragma application_id`).CombinedOutput()
	if want := "screen s-g|better|10.0\n16\nok\n1718382455\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func FuzzTokens(f *testing.F) {
	for _, s := range []string{"select 1", "select 'it''s', \"a\"\"b\", [c d], `e` from x where y = :z -- c\n/* d */;", "'open", "/* open", "?1 :x @y $z", "\"", "[", "1.5e3", "\x80é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		end := 0
		for _, tok := range tokens(sql) {
			if tok.text == "" || tok.at < end || sql[tok.at:tok.at+len(tok.text)] != tok.text {
				t.Fatalf("token %+v of %q overlaps or is not of the text", tok, sql)
			}
			end = tok.at + len(tok.text)
			_ = tok.name()
			queryAt(sql, tok.at, "", "")
		}
		// What is left out is space and comments: the tokens joined by spaces have the same tokens.
		var again []string
		for _, tok := range tokens(sql) {
			again = append(again, tok.text)
		}
		joined := tokens(strings.Join(again, " "))
		for i, tok := range joined {
			if i >= len(again) || tok.text != again[i] {
				t.Fatalf("%q: token %d is %q after joining", sql, i, tok.text)
			}
		}
	})
}

// A value that SQLite refuses for its size is the query's mistake, not the disk's.
func TestTooLargeValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flow.db")
	d, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	_, err = d.Query(t.Context(), "select zeroblob(2147483646)", nil, 0)
	if kind, _ := diag.KindOf(err); err == nil || kind != diag.Workflow || strings.Contains(diag.Format(err), "disk") {
		t.Errorf("got %v, want that the value is too large", err)
	}
}

// TestNeighboursInSQL: who else measured on the host; an empty list is nobody, NULL is that nobody looked.
func TestNeighboursInSQL(t *testing.T) {
	d, ctx := open(t), context.Background()
	for i, s := range []struct {
		id, measurer string
		imported     bool
	}{{"r", record.MeasurerReal, false}, {"m", "simulated", false}, {"i", record.MeasurerReal, true}} {
		x := session(s.id, i)
		x.Measurer, x.Imported = s.measurer, s.imported
		must(t, d.BeginSession(ctx, x))
		g := group(s.id, s.id+"-g", i, nil, nil)
		must(t, d.BeginGroup(ctx, g))
		for n, with := range [][]string{nil, {"session b (pid 7)"}} {
			a := armOf(g, "A", n, 100)
			a.Neighbours = with
			must(t, d.EndArm(ctx, a))
		}
	}
	rows(t, d, `select session_id, seq, neighbours from arms order by session_id, seq`, [][]any{
		{"i", 0, nil}, {"i", 1, nil}, {"m", 0, nil}, {"m", 1, nil}, {"r", 0, "[]"}, {"r", 1, `["session b (pid 7)"]`}})
	rows(t, d, `select a.id, n.value from arms a, json_each(a.neighbours) n`, [][]any{{"r-g-arm-01", "session b (pid 7)"}})
}

// TestPhaseSummaries: what a sensor did in a phase; what there were too few samples for is NULL, with the reason.
func TestPhaseSummaries(t *testing.T) {
	d, ctx := open(t), context.Background()
	must(t, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, nil)
	must(t, d.BeginGroup(ctx, g))
	a := armOf(g, "A", 0, 100)
	a.Summaries = []record.Summary{
		{Sensor: "power_w", Phase: "measure", N: 9, Coverage: .97, Mean: ptr(110.), Min: ptr(100.), Max: ptr(120.), P50: ptr(111.), Growth: ptr(20.), Why: "9 samples: p05 wants 20"},
		{Sensor: "package.energy_j", Phase: "decode", N: 2, Coverage: 1, Diff: ptr(42.)}}
	must(t, d.EndArm(ctx, a))
	rows(t, d, `select arm_id, sensor, phase, n, coverage, mean, p50, p05, rise, diff, why from phase_summaries order by sensor`, [][]any{
		{"g-arm-00", "package.energy_j", "decode", 2, 1., nil, nil, nil, nil, 42., nil},
		{"g-arm-00", "power_w", "measure", 9, .97, 110., 111., nil, nil, nil, "9 samples: p05 wants 20"}})
	bad := armOf(g, "A", 1, 100)
	bad.Summaries = []record.Summary{{Sensor: "power_w", Phase: "measure", Mean: ptr(math.NaN())}}
	if err := d.EndArm(ctx, bad); err == nil {
		t.Error("NaN was kept")
	}
}
