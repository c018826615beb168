package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flow/db"
	"flow/workflows/record"
)

// Ids in the form that sessions have: their first characters tell the time.
const (
	oneSession = "0192f0c4-77aa-7000-8000-00000000000a"
	oneGroup   = "0192f0c4-77ab-7000-8000-00000000000b"
	oneArm     = "0192f0c4-77b0-7000-8000-0000000000%02d"
)

// recorded makes a database with one stopped session of one screen: a quad with an arm that a gate voided.
func recorded(t *testing.T) string {
	t.Helper()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "flow.db")
	d, err := db.Open(ctx, path)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	num := func(f float64) *float64 { return &f }
	code, start := 4, int64(1_767_225_600_000_000_000) // 2026-01-01
	ended := start + 90e9
	s := &record.Session{ID: oneSession, Workflow: "screen.star", Status: "running", Measurer: record.MeasurerReal, Machine: record.Machine{ID: "m", Host: "bench", Facts: map[string]string{"gpu0": "RTX"}},
		Params: map[string]string{"tokens": "200"}, WallStartNS: start}
	check(d.BeginSession(ctx, s))
	fa := record.Lever{Name: "flash-attn", Hash: "h", Change: "{}", Declared: "{}"}
	g := &record.Group{ID: oneGroup, SessionID: oneSession, Name: "screen flash-attn", Role: record.RoleScreen, Control: "A", Primary: "decode_tok_s", Better: "higher", MinEffect: .01, Cap: 4,
		Sides: []record.Side{{Label: "A", Engine: "llama", Control: true}, {Label: "B", Engine: "llama", Stack: []record.Lever{fa}, Command: record.Command{Delta: map[string]string{"arg -fa": "on"}}}},
		Gates: []record.GateSpec{{Name: "no_swap_growth", Kind: "gate", Phase: "after", Scope: "arm", Required: true}}, WallStartNS: start, Pos: "screen.star:9:5"}
	check(d.BeginGroup(ctx, g))
	for i, v := range []float64{100, 110, 112, 101} {
		sent, first := int64(5e9), int64(6e9)
		a := &record.Arm{ID: fmt.Sprintf(oneArm, i), GroupID: oneGroup, Label: []string{"A", "B", "B", "A"}[i], Slot: i, Seq: i, Purpose: "measured", Disposition: record.OK,
			WallStartNS: start + int64(i)*1e9, MonoStartNS: 4e9, MonoEndNS: 9e9, OverheadNS: 7e6,
			Process:  &record.Process{Argv: []string{"llama-server", "-fa", "on"}, Pid: 77, LaunchNS: 4e9, ReadyNS: 5e9, Log: strings.Repeat("noise\n", 30) + "flash_attn = enabled\n"},
			Requests: []record.Request{{Mark: record.MarkMeasured, Status: "ok", SentNS: &sent, FirstContentNS: &first, LastContentNS: &first, ArrivalsUS: []int64{900, 100, 200}}},
			Metrics:  []record.Metric{{Name: "decode_tok_s", Unit: "tok/s", Source: "client clock", Value: num(v)}, {Name: "energy_j", Unit: "J", Source: "meter", Why: "no meter"}, {Name: "vllm_ttft_ms", Unit: "ms", Source: "client clock", Value: num(7)}},
			Findings: []record.Finding{{Gate: "no_swap_growth", Phase: "after", Outcome: record.Pass, Observed: "0 MiB", Limit: "0 MiB", Required: true}},
			Evidence: []record.Evidence{{Lever: "flash-attn", Kind: "log", What: "flash_attn", When: "ready", Found: i == 1 || i == 2}},
			Steps:    []record.Step{{Name: "measure", StartNS: 5e9, EndNS: 8e9}}, Samples: []record.Sample{{Sensor: "power_w", MonoNS: 5e9, Value: 99}}}
		check(d.EndArm(ctx, a))
		if i == 2 {
			a.Disposition, a.Reason = record.Invalid, "swap grew"
			a.Findings[0].Outcome, a.Findings[0].Observed = record.Fail, "12 MiB"
		}
		check(d.JudgeArm(ctx, a))
		g.Arms = append(g.Arms, a)
	}
	g.Verdict, g.Reason, g.WallEndNS = record.Better, "the interval excludes 0", &ended
	g.Comparisons = []record.Comparison{{Side: "B", Control: "A", Metric: "decode_tok_s", Verdict: record.Better, MedianControl: num(100.5), MedianSide: num(110), NControl: 2, NSide: 1,
		Estimate: &record.Estimate{Method: "quad", Effect: .0945, Level: .95, Low: num(.08), High: num(.11)}}}
	check(d.EndGroup(ctx, g))
	s.Status, s.Exit, s.WallEndNS = "stopped", &code, &ended
	check(d.EndSession(ctx, s))
	check(d.Close())
	return path
}

// flow runs the command line without a process.
func flowCommand(t *testing.T, path, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = main1(context.Background(), &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &err, dbPath: path}, args)
	return code, out.String(), err.String()
}

func TestSQLCommand(t *testing.T) {
	path := recorded(t)
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		out, err    string // exactly, and contained
	}{
		{"table", "", []string{"select label, seq, value, reason from arms order by seq"}, 0,
			"label  seq  value  reason\nA        0    100  NULL\nB        1    110  NULL\nB        2    112  swap grew\nA        3    101  NULL\n", ""},
		{"csv", "", []string{"--format", "csv", "select 1.5 as a, 'x,y' as b, null as c, x'0aff' as d, 1/3.0 as e"}, 0, "a,b,c,d,e\n1.5,\"x,y\",,0aff,0.3333333333333333\n", ""},
		{"json", "", []string{"--json", "select 'a<b' as t, 1 as n, 2 as n, null as z, 1e999 as inf"}, 0, "[\n  {\"t\": \"a<b\", \"n\": 1, \"n_2\": 2, \"z\": null, \"inf\": null}\n]\n", ""},
		{"no rows", "", []string{"--json", "select 1 where 0"}, 0, "[]\n", ""},
		{"md", "", []string{"--format", "md", "select name, 'a|b' as p from groups"}, 0, "| name | p |\n|:--- |:--- |\n| screen flash-attn | a\\|b |\n", ""},
		{"stdin", "select count(*) as n\nfrom arms;\n", []string{"-"}, 0, "n\n4\n", ""},
		{"limit", "", []string{"--limit", "2", "select seq from arms order by 1"}, 0, "seq\n  0\n  1\n", "only the first 2 rows"},
		{"exactly the limit", "", []string{"--limit", "4", "select 1 as x from arms"}, 0, "x\n1\n1\n1\n1\n", ""},
		{"lines in texts", "", []string{`select 'a' || char(10) || char(27) || '[31mb' as x`}, 0, "x\na  [31mb\n", ""},
		{"unknown view", "", []string{"select *\nfrom arm"}, 2, "", "sql:2:6: query: no such view: arm\n\tfrom arm\n\t     ^\n\tfix: did you mean arms? or use one of "},
		{"double quotes", "", []string{`select name from groups where verdict = "better"`}, 0, "name\n", `warning: "better" in double quotes is the column of that name; the text is 'better', in single quotes`},
		{"single quotes", "", []string{`select name from groups where verdict = 'better'`}, 0, "name\nscreen flash-attn\n", ""},
		{"unknown column", "", []string{"select\tnam from groups"}, 2, "", "\tselect\tnam from groups\n\t      \t^\n\tfix: groups has id, session_id"},
		{"syntax", "", []string{"select from from arms"}, 2, "", `sql:1:8: query: near "from": syntax error`},
		{"write", "", []string{"delete from t_arm"}, 2, "", "want a SELECT"},
		{"time limit", "", []string{"--timeout", "30ms", "with recursive n(i) as (select 1 union all select i+1 from n) select count(*) from n"}, 2, "", "time limit"},
		{"format", "", []string{"--format", "xml", "select 1"}, 2, "", "want table, csv, json or md"},
		{"no query", "", nil, 2, "", "flow sql --help"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, err := flowCommand(t, path, c.stdin, append([]string{"sql"}, c.args...)...)
			if code != c.code || out != c.out || !strings.Contains(err, c.err) || c.err == "" && err != "" {
				t.Errorf("got code %d\n%s---\n%s\nwant %d\n%s---\n%s", code, out, err, c.code, c.out, c.err)
			}
		})
	}
	none := filepath.Join(t.TempDir(), "none.db")
	if code, _, err := flowCommand(t, none, "", "sql", "select 1"); code != 2 || !strings.Contains(err, "no database "+none) {
		t.Errorf("no database: got %d, %s", code, err)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a question made a database")
	}
}

func TestSessionsCommand(t *testing.T) {
	path := recorded(t)
	code, out, err := flowCommand(t, path, "", "sessions")
	want := "id        workflow     started (UTC)     status   groups  arms  verdicts\n0192f0c4-77aa  screen.star  2026-01-01 00:00  stopped       1     4  1 better\n"
	if code != 0 || strings.Join(strings.Fields(out), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got %d\n%s%s\nwant\n%s", code, out, err, want)
	}
	_, out, _ = flowCommand(t, path, "", "sessions", "--json")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || rows[0]["id"] != oneSession || rows[0]["better"] != 1. {
		t.Errorf("json: got %v, %v", rows, err)
	}
}

func TestShowCommand(t *testing.T) {
	path := recorded(t)
	arm := fmt.Sprintf(oneArm, 2)
	for _, c := range []struct {
		id   string
		want []string
	}{
		{"last", []string{"session " + oneSession, "stopped, exit 4", "bench, RTX", "tokens = 200", "screen flash-attn", "better", "+9.45 % [+8.00, +11.00]", "100.5 → 110", "3 ok, 1 invalid", "flow resume 0192f0c4-77aa"}},
		{"0192f0c4-77ab", []string{"group " + oneGroup, "screen.star:9:5", "A (control)", "arg -fa on", "swap grew", "A1   0192f0c4-77b0", "B3", "gates that did not pass", "12 MiB", "comparisons", "B / A", "1 / 2"}},
		{arm, []string{"arm " + arm, "invalid", "llama-server -fa on", "pid 77, ready after 1s", "decode_tok_s", "112", "not measured", "no meter", "no_swap_growth", "flash_attn", "measure", "the last 20 of 31 lines", "flash_attn = enabled", "B3, side B", "block 1 slot 3 attempt 1, measured", "and 1 by the definitions of other tools"}},
	} {
		code, out, err := flowCommand(t, path, "", "show", c.id)
		if code != 0 || err != "" {
			t.Errorf("show %s: got %d, %s", c.id, code, err)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("show %s: %q is not in\n%s", c.id, w, out)
			}
		}
		code, out, _ = flowCommand(t, path, "", "show", "--json", c.id)
		if !json.Valid([]byte(out)) || code != 0 {
			t.Errorf("show --json %s: got %d\n%s", c.id, code, out)
		}
	}
	// The figures of a verdict stand in one place; its reason and what ended the group say what is beyond them.
	g := &record.Group{Verdict: record.Worse, Reason: "-2.91 % [-4.52 %, -1.28 %] at 97.79 %, 2 quads", Stopped: "decided: worse: -2.91 % [-4.52 %, -1.28 %] at 97.79 %, 2 quads; look 1 of at most 3"}
	if ended, why := endedText(g), beyondFigures(g.Reason); ended != "decided; look 1 of at most 3" || why != "at 97.79 %, 2 quads" {
		t.Errorf("got %q, %q", ended, why)
	}
	if cost := "cost ttft_ms was not measured; decode_tok_s alone is better: +1.00 % [+0.50 %, +1.50 %] at 95 %"; beyondFigures(cost) != cost {
		t.Errorf("got %q", beyondFigures(cost))
	}
	for id, want := range map[string]string{"0192f0c4-77": "begins several ids", "nope": "want the id of a session, group or arm"} {
		if code, _, err := flowCommand(t, path, "", "show", id); code != 2 || !strings.Contains(err, want) {
			t.Errorf("show %s: got %d, %s, want %q", id, code, err, want)
		}
	}
	if _, out, _ := flowCommand(t, path, "", "show", arm); strings.Contains(out, "vllm_ttft_ms") {
		t.Errorf("metrics of other tools are shown without being asked for:\n%s", out)
	}
	if _, out, _ := flowCommand(t, path, "", "show", arm, "--all"); !strings.Contains(out, "vllm_ttft_ms") {
		t.Errorf("--all: got\n%s", out)
	}
	for _, id := range []string{"last", "0192f0c4-77ab", arm} {
		_, out, _ := flowCommand(t, path, "", "show", id)
		for _, l := range strings.Split(out, "\n") {
			if cellWidth(l) > 80 && !strings.Contains(l, "flow show ") { // whole ids, where their beginnings are alike
				t.Errorf("show %s: %d columns: %q", id, cellWidth(l), l)
			}
		}
	}
	_, out, _ := flowCommand(t, path, "", "__complete", "show", "0192f0c4-77a")
	if !strings.Contains(out, oneSession+"\tsession") || !strings.Contains(out, oneGroup+"\tgroup") {
		t.Errorf("completion: got %s", out)
	}
}

// Every query of the document runs, and every column of every view is described in its section.
func TestSQLDocument(t *testing.T) {
	text, err := os.ReadFile("doc/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	d, err := db.OpenReadOnly(ctx, recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	queries := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(queries) < 10 {
		t.Fatalf("got %d queries in the document, want at least 10", len(queries))
	}
	for _, q := range queries {
		if _, err := d.Query(ctx, q[1], nil, 0); err != nil {
			t.Errorf("%s: %v", q[1], err)
		}
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n### ")[1:] {
		name, body, _ := strings.Cut(s, "\n")
		sections[name] = body
	}
	views, err := d.Query(ctx, `select name from sqlite_schema where type = 'view'`, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`(\\w+)`")
	for _, v := range views.Rows {
		name := v[0].(string)
		body, ok := sections[name]
		if !ok {
			t.Errorf("view %s is not described", name)
			continue
		}
		tab, err := d.Query(ctx, `select * from `+name+` limit 0`, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range tab.Columns {
			if !strings.Contains(body, "`"+c+"`") {
				t.Errorf("%s.%s is not described", name, c)
			}
		}
		for _, w := range word.FindAllStringSubmatch(body, -1) {
			if !slices.Contains(tab.Columns, w[1]) {
				t.Errorf("%s: the document describes a column %s that is not there", name, w[1])
			}
		}
		delete(sections, name)
	}
	for name := range sections {
		t.Errorf("the document describes %s, which is no view", name)
	}
}

func TestCSVKeepsEverything(t *testing.T) {
	var b bytes.Buffer
	rows := [][]any{{"a\nb", int64(-1), .1, nil}, {`"q",`, int64(1 << 60), 1e300, []byte{1}}}
	if err := writeCSV(&b, &record.Table{Columns: []string{"t", "i", "f", "b"}, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	got, err := csv.NewReader(&b).ReadAll()
	want := [][]string{{"t", "i", "f", "b"}, {"a\nb", "-1", "0.1", ""}, {`"q",`, "1152921504606846976", "1e+300", "01"}}
	if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// What a program wrote to its log is shown as text, and what is no text is counted.
func TestLogTails(t *testing.T) {
	tail := func(log string) string {
		var b bytes.Buffer
		(&shower{w: &b, width: 80}).tail(log)
		return b.String()
	}
	if got := tail("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4F\x02\x00\x9b\x07"); !strings.Contains(got, "16 bytes") || !strings.Contains(got, "not shown") || strings.ContainsAny(got, "\x00\x07") {
		t.Errorf("binary: got %q", got)
	}
	got := tail("ready \x1b[31mred\x1b[0m\r\nbell\a \u009b31m é \u202egnp\n" + strings.Repeat("text ", 50))
	if strings.ContainsAny(got, "\x1b\a\r\u009b\u202e") || !strings.Contains(got, "red") || !strings.Contains(got, "é") {
		t.Errorf("text: got %q", got)
	}
}
