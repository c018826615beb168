package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// Query answers one SELECT over the public views with at most limit rows (0: all). Parameters are named
// (:x, @x or $x); a list or dict becomes JSON text for json_each. Values are nil, int64, float64, string
// or []byte. Whatever would write is refused by SQLite's authorizer. An error carries its place in the
// SQL, under the label "sql".
func (d *DB) Query(ctx context.Context, query string, params map[string]any, limit int) (*record.Table, error) {
	args, err := bind(query, params)
	if err != nil {
		return nil, err
	}
	conn, err := d.reader.Conn(ctx)
	if err != nil {
		return nil, d.queryError(ctx, nil, query, err)
	}
	defer func() { _ = conn.Close() }()
	if d.reader == d.writer { // a memory database has one connection for everything
		if err := conn.Raw(func(c any) error { return restrict(c, true) }); err != nil {
			return nil, d.fail("query", err)
		}
		defer func() { _ = conn.Raw(func(c any) error { return restrict(c, false) }) }()
	}
	t, err := ask(ctx, conn, query, args, limit)
	if err != nil {
		return nil, d.queryError(ctx, conn, query, err)
	}
	return t, nil
}

func ask(ctx context.Context, conn *sql.Conn, query string, args []any, limit int) (*record.Table, error) {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	t := &record.Table{Rows: [][]any{}}
	if t.Columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	for (limit <= 0 || len(t.Rows) < limit) && rows.Next() {
		row := make([]any, len(t.Columns))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, v := range row {
			if at, ok := v.(time.Time); ok { // a cast to a type that the driver takes for a time
				row[i] = at.Format(time.RFC3339Nano)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t, rows.Err()
}

// bind checks that a query is one statement and that its parameters and the given ones are the same.
func bind(query string, params map[string]any) ([]any, error) {
	toks := tokens(query)
	for len(toks) > 0 && toks[len(toks)-1].kind == ';' {
		toks = toks[:len(toks)-1]
	}
	if len(toks) == 0 {
		return nil, &diag.Error{Kind: diag.Workflow, Op: "query", Msg: "got no SQL, want a SELECT", Fix: "select name, verdict, effect_pct from groups"}
	}
	given := map[string]any{}
	for k, v := range params {
		given[strings.TrimLeft(k, ":@$")] = v
	}
	used := map[string]bool{}
	var args []any
	for _, t := range toks {
		switch t.kind {
		case ';':
			return nil, queryAt(query, t.at, "got more than one statement, want one", "ask one question at a time")
		case 'p':
			if t.text[0] == '?' {
				return nil, queryAt(query, t.at, "got a parameter without a name, want :name", "write :x and give x")
			}
			name := t.text[1:]
			v, ok := given[name]
			if !ok {
				return nil, queryAt(query, t.at, "parameter "+t.text+" has no value", fmt.Sprintf("give it: query(…, %s = …)", name))
			}
			if used[name] {
				continue
			}
			used[name] = true
			v, err := parameter(v)
			if err != nil {
				return nil, queryAt(query, t.at, "parameter "+t.text+": "+err.Error(), "give a text, a number, a bool, None or a list")
			}
			args = append(args, sql.Named(name, v))
		}
	}
	for _, name := range sortedKeys(given) {
		if !used[name] {
			return nil, &diag.Error{Kind: diag.Workflow, Op: "query", Msg: fmt.Sprintf("got a value for :%s, which the SQL does not name", name), Fix: "leave it out, or write :" + name}
		}
	}
	return args, nil
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func parameter(v any) (any, error) {
	switch v := v.(type) {
	case nil, int64, float64, string, []byte:
		return v, nil
	case int:
		return int64(v), nil
	case bool:
		return int64(flag(v)), nil
	}
	return text(v)
}

// queryAt is a mistake in a query at a byte offset; -1 is no place.
func queryAt(query string, at int, msg, fix string) *diag.Error {
	e := &diag.Error{Kind: diag.Workflow, Op: "query", Msg: msg, Fix: fix}
	if at >= 0 {
		before := query[:at]
		line := strings.Count(before, "\n")
		col := len([]rune(before[strings.LastIndex(before, "\n")+1:]))
		e.Pos = diag.Pos{File: "sql", Line: line + 1, Col: col + 1}
	}
	return e
}

var (
	nearToken    = regexp.MustCompile(`near "((?s:.*))": syntax error`)
	missingTable = regexp.MustCompile(`no such table: (?:main\.)?(.+?)(?: \(\d+\))?$`)
	missingThing = regexp.MustCompile(`(?:no such column|ambiguous column name|no such function|wrong number of arguments to function):? ?"?([\w.$]+)`)
	trailingCode = regexp.MustCompile(`^SQL logic error: |^interrupted: | \(\d+\)$`)
)

// queryError says where in the SQL the mistake is and what would be right. conn asks SQLite where a syntax
// error is; it may be nil.
func (d *DB) queryError(ctx context.Context, conn *sql.Conn, query string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &diag.Error{Kind: diag.Workflow, Op: "query", Msg: "got no answer within the time limit", Fix: "narrow the query (samples by arm_id, arms by session_id), or allow it more time"}
	case ctx.Err() != nil:
		return &diag.Error{Kind: diag.Stopped, Op: "query", Err: ctx.Err()}
	case code(err)&0xff == sqlite3.SQLITE_AUTH:
		return &diag.Error{Kind: diag.Workflow, Op: "query", Msg: "got a statement that does more than read, want a SELECT",
			Fix: "copy the file and change the copy with sqlite3"}
	case code(err)&0xff != sqlite3.SQLITE_ERROR:
		return d.fail("query", err)
	}
	msg := err.Error()
	for trailingCode.MatchString(msg) {
		msg = trailingCode.ReplaceAllString(msg, "")
	}
	if m := missingTable.FindStringSubmatch(msg); m != nil {
		views := d.views(ctx, conn)
		fix := "use one of " + strings.Join(views, ", ")
		if near := diag.Nearest(m[1], views); near != "" {
			fix = "did you mean " + near + "? or " + fix
		}
		return queryAt(query, place(query, m[1]), "no such view: "+m[1], fix)
	}
	if m := nearToken.FindStringSubmatch(msg); m != nil {
		fix := syntaxFix
		if plural := strings.ToLower(m[1]) + "s"; slices.Contains(d.views(ctx, conn), plural) {
			fix = "did you mean the view " + plural + "? " + m[1] + " is a word of SQL; or " + syntaxFix
		}
		return queryAt(query, syntaxPlace(ctx, conn, query, m[1]), msg, fix)
	}
	if m := missingThing.FindStringSubmatch(msg); m != nil {
		fix := ""
		switch {
		case strings.HasPrefix(msg, "no such column"):
			fix = columnsFix(ctx, conn, query)
			if i := slices.IndexFunc(tokens(query), func(t token) bool { return t.text == `"`+m[1]+`"` }); i >= 0 {
				fix = strings.TrimSuffix("a text stands in single quotes: '"+m[1]+"'\n"+fix, "\n")
			}
		case strings.HasPrefix(msg, "no such function"):
			fix = functionFix(m[1])
		case strings.HasPrefix(msg, "ambiguous column"):
			fix = "write the view's name or alias before it, such as arms." + m[1]
		case strings.HasPrefix(msg, "wrong number of arguments"):
			fix = "sqlite.org/lang_corefunc.html lists SQLite's functions with their arguments"
		}
		return queryAt(query, place(query, m[1]), msg, fix)
	}
	if strings.HasPrefix(msg, "incomplete input") {
		return queryAt(query, len(strings.TrimRight(query, " \t\n")), "the query ends in the middle of something", syntaxFix)
	}
	return queryAt(query, -1, msg, syntaxFix)
}

const syntaxFix = "select COLUMNS from VIEW [where CONDITION] [group by …] [order by …] [limit N]; flow doc sql has examples to paste"

// functionFix says what to write where SQLite has no such function.
func functionFix(name string) string {
	switch strings.ToLower(name) {
	case "median", "percentile", "quantile", "percentile_cont":
		return "SQLite has no median: flow doc sql has one to paste (row_number() over (order by value))"
	case "stddev", "stdev", "stddev_samp", "variance", "var_samp":
		return "SQLite has no standard deviation: sqrt((sum(x*x) - sum(x)*sum(x)/count(x)) / (count(x) - 1.0))"
	}
	return "SQLite has avg, sum, total, min, max, count, group_concat, round, abs, sqrt, coalesce, substr, replace, printf, json_extract and more; flow doc sql has examples"
}

// QuotedNames are the words in double quotes that a query compares something with. In SQL they are names of
// columns: verdict = "better" compares the verdict with the column better, and finds nothing.
func QuotedNames(query string) []string {
	var out []string
	toks := tokens(query)
	for i, t := range toks {
		if i == 0 || t.kind != 'w' || t.text[0] != '"' || i+1 < len(toks) && toks[i+1].text == "." {
			continue
		}
		before := toks[i-1]
		compared := before.kind == 'o' && strings.ContainsAny(before.text, "=<>") || before.kind == 'w' && slices.Contains([]string{"like", "glob", "is"}, strings.ToLower(before.text))
		for j := i - 1; !compared && j > 0 && (toks[j].text == "," || toks[j].text == "(" || toks[j].kind == 's' || toks[j].kind == 'n' || toks[j].text[0] == '"'); j-- {
			compared = toks[j].text == "(" && strings.EqualFold(toks[j-1].text, "in")
		}
		if compared && !slices.Contains(out, t.name()) {
			out = append(out, t.name())
		}
	}
	return out
}

// place is where a name, qualified or not, first stands in a query; -1 when it does not.
func place(query, name string) int {
	last := name[strings.LastIndex(name, ".")+1:]
	for _, t := range tokens(query) {
		if t.kind == 'w' && (strings.EqualFold(t.name(), name) || strings.EqualFold(t.name(), last)) {
			return t.at
		}
	}
	return -1
}

// syntaxPlace finds which of several equal tokens SQLite stumbled over: it is the first whose prefix of the
// query already has this error. The driver does not tell the offset.
func syntaxPlace(ctx context.Context, conn *sql.Conn, query, near string) int {
	first, tries := -1, 0
	for _, t := range tokens(query) {
		if t.text != near {
			continue
		}
		if first < 0 {
			first = t.at
		}
		if tries++; conn == nil || tries > 50 {
			return first
		}
		rows, err := conn.QueryContext(ctx, "EXPLAIN "+query[:t.at+len(t.text)])
		if err == nil {
			_ = rows.Close()
			continue
		}
		if m := nearToken.FindStringSubmatch(err.Error()); m != nil && m[1] == near {
			return t.at
		}
	}
	return first
}

// views are the names of the public views.
func (d *DB) views(ctx context.Context, conn *sql.Conn) []string {
	if conn == nil {
		return nil
	}
	var out []string
	rows, err := conn.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY rowid`)
	if err != nil {
		return nil
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if rows.Scan(&s) == nil {
			out = append(out, s)
		}
	}
	return out
}

// columnsFix lists the columns of the views that a query names.
func columnsFix(ctx context.Context, conn *sql.Conn, query string) string {
	if conn == nil {
		return ""
	}
	var lines []string
	seen := map[string]bool{}
	toks := tokens(query)
	for i, t := range toks {
		name := t.name()
		if t.kind != 'w' || i == 0 || seen[name] || len(lines) == 3 {
			continue
		}
		if before := strings.ToLower(toks[i-1].text); before != "from" && before != "join" && before != "," {
			continue
		}
		rows, err := conn.QueryContext(ctx, `SELECT * FROM "`+strings.ReplaceAll(name, `"`, `""`)+`" LIMIT 0`)
		if err != nil {
			continue
		}
		cols, err := rows.Columns()
		_ = rows.Close()
		if err == nil {
			seen[name] = true
			lines = append(lines, name+" has "+strings.Join(cols, ", "))
		}
	}
	return strings.Join(lines, "\n")
}
