package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// BeginSession keeps a session that starts.
func (d *DB) BeginSession(ctx context.Context, s *record.Session) error {
	if s.ID == "" {
		return &diag.Error{Kind: diag.Bug, Op: "record session", Msg: "it has no id"}
	}
	return d.write(ctx, "record session", true, func(tx *sql.Tx) error {
		facts, err := text(s.Machine.Facts)
		if err != nil {
			return err
		}
		if facts == "null" {
			facts = "{}"
		}
		machine, err := intern(tx, `SELECT key FROM t_machine WHERE id = ? AND host = ? AND facts = ?`,
			`INSERT INTO t_machine (id, host, facts) VALUES (?, ?, ?)`, s.Machine.ID, s.Machine.Host, facts)
		if err != nil {
			return err
		}
		doc, params, err := sessionDoc(s)
		if err != nil {
			return err
		}
		res, err := tx.Exec(`INSERT INTO t_session (id, workflow, status, exit, error, seed, params, measurer, simulate, machine, flow_version, dialect,
			wall_start_ns, wall_end_ns, mono_start_ns, offset_start_ns, offset_end_ns, resumed, imported, doc)
			VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			s.ID, s.Workflow, s.Status, s.Exit, s.Error, strconv.FormatUint(s.Seed, 10), params, s.Measurer, s.Simulate, machine, s.FlowVersion, s.Dialect,
			s.WallStartNS, s.WallEndNS, s.MonoStartNS, s.OffsetStartNS, s.OffsetEndNS, s.Resumed, flag(s.Imported), doc)
		if err != nil {
			return err
		}
		key, err := res.LastInsertId()
		if err != nil {
			return err
		}
		return keepSources(tx, key, s.Sources)
	})
}

func sessionDoc(s *record.Session) (doc, params string, err error) {
	rest := struct {
		record.Session
		Owner *owner `json:"owner,omitempty"`
	}{*s, nil}
	rest.Sources, rest.Params = nil, nil
	if s.Status == "running" && !s.Imported {
		rest.Owner = self()
	}
	if doc, err = text(rest); err != nil {
		return "", "", err
	}
	if s.Params == nil {
		return doc, "{}", nil
	}
	params, err = text(s.Params)
	return doc, params, err
}

// keepSources replaces the list of a session's files; their texts are kept once each.
func keepSources(tx *sql.Tx, session int64, sources []record.Source) error {
	if _, err := tx.Exec(`DELETE FROM t_session_source WHERE session = ?`, session); err != nil {
		return err
	}
	for i, src := range sources {
		var body any
		if src.Text != "" {
			body = src.Text
		}
		var key int64
		err := tx.QueryRow(`INSERT INTO t_source (sha256, text) VALUES (?, ?)
			ON CONFLICT (sha256) DO UPDATE SET text = coalesce(text, excluded.text) RETURNING key`, src.SHA256, body).Scan(&key)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO t_session_source (session, position, label, source, verbatim) VALUES (?,?,?,?,?)`,
			session, i, src.Label, key, flag(src.Text != "")); err != nil {
			return err
		}
	}
	return nil
}

// UpdateSession keeps what changes while a session runs: status, sources of a resumed one, notes.
func (d *DB) UpdateSession(ctx context.Context, s *record.Session) error {
	return d.write(ctx, "record session", true, func(tx *sql.Tx) error { return updateSession(tx, s) })
}

// EndSession keeps how a session ended. Once it is done its facts never change; stopped and failed ones can
// be resumed.
func (d *DB) EndSession(ctx context.Context, s *record.Session) error {
	return d.write(ctx, "record session", true, func(tx *sql.Tx) error { return updateSession(tx, s) })
}

func updateSession(tx *sql.Tx, s *record.Session) error {
	doc, params, err := sessionDoc(s)
	if err != nil {
		return err
	}
	var key int64
	err = tx.QueryRow(`UPDATE t_session SET workflow = ?, status = ?, exit = ?, error = ?, params = ?, flow_version = ?, dialect = ?,
		wall_end_ns = ?, offset_end_ns = ?, resumed = ?, doc = ? WHERE id = ? RETURNING key`,
		s.Workflow, s.Status, s.Exit, s.Error, params, s.FlowVersion, s.Dialect, s.WallEndNS, s.OffsetEndNS, s.Resumed, doc, s.ID).Scan(&key)
	if errors.Is(err, sql.ErrNoRows) {
		return &diag.Error{Kind: diag.Bug, Op: "record session", Msg: "there is no session " + s.ID}
	}
	if err != nil {
		return err
	}
	return keepSources(tx, key, s.Sources)
}

const sessionSelect = `SELECT s.key, s.doc, s.params, m.id, m.host, m.facts FROM t_session s JOIN t_machine m ON m.key = s.machine `

// Session gives a session by its id, by the beginning of it, or the newest one for "last".
func (d *DB) Session(ctx context.Context, ref string) (*record.Session, error) {
	id, err := d.resolve(ctx, "session", ref)
	if err != nil {
		return nil, err
	}
	ss, err := d.sessions(ctx, sessionSelect+`WHERE s.id = ?`, id)
	if err != nil {
		return nil, err
	}
	return ss[0], nil
}

// Sessions gives the newest sessions first; limit 0 is all of them.
func (d *DB) Sessions(ctx context.Context, limit int) ([]*record.Session, error) {
	if limit <= 0 {
		limit = -1
	}
	return d.sessions(ctx, sessionSelect+`ORDER BY s.wall_start_ns DESC, s.key DESC LIMIT ?`, limit)
}

func (d *DB) sessions(ctx context.Context, query string, args ...any) ([]*record.Session, error) {
	out, keys, err := d.sessionRows(ctx, query, args...)
	if err != nil {
		return nil, d.fail("read sessions", err)
	}
	for i, s := range out {
		if s.Sources, err = d.sources(ctx, keys[i]); err != nil {
			return nil, d.fail("read sessions", err)
		}
	}
	return out, nil
}

func (d *DB) sessionRows(ctx context.Context, query string, args ...any) ([]*record.Session, []int64, error) {
	rows, err := d.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []*record.Session
	var keys []int64
	for rows.Next() {
		var key int64
		var doc, params, facts string
		var m record.Machine
		if err := rows.Scan(&key, &doc, &params, &m.ID, &m.Host, &facts); err != nil {
			return nil, nil, err
		}
		s := &record.Session{}
		if err := errors.Join(json.Unmarshal([]byte(doc), s), json.Unmarshal([]byte(params), &s.Params), json.Unmarshal([]byte(facts), &m.Facts)); err != nil {
			return nil, nil, fmt.Errorf("session %s: %w", s.ID, err)
		}
		if len(s.Params) == 0 {
			s.Params = nil
		}
		if len(m.Facts) == 0 {
			m.Facts = nil
		}
		s.Machine = m
		out = append(out, s)
		keys = append(keys, key)
	}
	return out, keys, rows.Err()
}

func (d *DB) sources(ctx context.Context, session int64) ([]record.Source, error) {
	rows, err := d.reader.QueryContext(ctx, `SELECT x.label, t.sha256, CASE WHEN x.verbatim THEN t.text END FROM t_session_source x
		JOIN t_source t ON t.key = x.source WHERE x.session = ? ORDER BY x.position`, session)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []record.Source
	for rows.Next() {
		var s record.Source
		var body sql.NullString
		if err := rows.Scan(&s.Label, &s.SHA256, &body); err != nil {
			return nil, err
		}
		s.Text = body.String
		out = append(out, s)
	}
	return out, rows.Err()
}

// Kinds of what an id names, and their tables.
var kinds = [...]struct{ kind, table string }{{"session", "t_session"}, {"group", "t_group"}, {"arm", "t_arm"}}

// Find says what a reference names: kind is session, group or arm. A reference is an id, the beginning of
// one id, or "last".
func (d *DB) Find(ctx context.Context, ref string) (kind, id string, err error) {
	if ref == "last" {
		id, err = d.resolve(ctx, "session", ref)
		return "session", id, err
	}
	return d.find(ctx, "", ref)
}

// resolve is Find for one kind.
func (d *DB) resolve(ctx context.Context, kind, ref string) (string, error) {
	if ref != "last" {
		_, id, err := d.find(ctx, kind, ref)
		return id, err
	}
	var id string
	// What was refused before it did anything (another flow held the machine) is not what people mean by it.
	err := d.reader.QueryRowContext(ctx, `SELECT s.id FROM t_session s ORDER BY s.status = 'failed' AND NOT `+recorded+`,
		s.wall_start_ns DESC, s.key DESC LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", &diag.Error{Kind: diag.Workflow, Op: "find session", Msg: d.path + " has no sessions yet", Fix: "flow run FILE"}
	}
	return id, d.fail("find session", err)
}

func (d *DB) find(ctx context.Context, only, ref string) (kind, id string, err error) {
	var found []string // "kind id"
	for _, k := range kinds {
		if only != "" && only != k.kind || ref == "" {
			continue
		}
		ids, err := d.ids(ctx, k.table, ref, 5)
		if err != nil {
			return "", "", d.fail("find "+ref, err)
		}
		for _, id := range ids {
			if id == ref {
				return k.kind, id, nil
			}
			found = append(found, k.kind+" "+id)
		}
	}
	what := only
	if what == "" {
		what = "session, group or arm"
	}
	switch len(found) {
	case 1:
		kind, id, _ = strings.Cut(found[0], " ")
		return kind, id, nil
	case 0:
		return "", "", &diag.Error{Kind: diag.Workflow, Op: "find " + what, Msg: fmt.Sprintf("got %q, want the id of a %s in %s, or its beginning", ref, what, d.path),
			Fix: "flow sessions"}
	}
	return "", "", &diag.Error{Kind: diag.Workflow, Op: "find " + what, Msg: fmt.Sprintf("got %q, which begins several ids", ref),
		Fix: "use one of\n" + strings.Join(found, "\n")}
}

// ids are those that begin with prefix, in order, read from the index.
func (d *DB) ids(ctx context.Context, table, prefix string, limit int) ([]string, error) {
	rows, err := d.reader.QueryContext(ctx, `SELECT id FROM `+table+` WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`, prefix, prefix+"\U0010ffff", limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// IDs are the ids of sessions, groups and arms that begin with prefix, at most limit of each, with what
// they name: for shell completion.
func (d *DB) IDs(ctx context.Context, prefix string, limit int) (ids, names []string, err error) {
	for _, k := range kinds {
		some, err := d.ids(ctx, k.table, prefix, limit)
		if err != nil {
			return nil, nil, d.fail("read ids", err)
		}
		for _, id := range some {
			ids = append(ids, id)
			names = append(names, k.kind)
		}
	}
	return ids, names, nil
}

// Short is the shortest beginning of an id, at least eight characters, that names it alone in this file.
// Ids of one millisecond differ only in their tails, so a fixed length would not do.
func (d *DB) Short(ctx context.Context, id string) string {
	n := 8
	for _, k := range kinds {
		for _, q := range []string{`SELECT max(id) FROM ` + k.table + ` WHERE id < ?`, `SELECT min(id) FROM ` + k.table + ` WHERE id > ?`} {
			var other sql.NullString
			if err := d.reader.QueryRowContext(ctx, q, id).Scan(&other); err != nil || !other.Valid {
				continue
			}
			same := 0
			for same < len(id) && same < len(other.String) && id[same] == other.String[same] {
				same++
			}
			n = max(n, same+1)
		}
	}
	if n >= len(id) {
		return id
	}
	return strings.TrimSuffix(id[:n], "-")
}

// intern gives the key of a row that is kept once.
func intern(tx *sql.Tx, find, add string, args ...any) (int64, error) {
	var key int64
	err := tx.QueryRow(find, args...).Scan(&key)
	if !errors.Is(err, sql.ErrNoRows) {
		return key, err
	}
	res, err := tx.Exec(add, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// text is v as JSON, without HTML escapes: what a person reads in SQL should look as it was.
func text(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// flag is a truth as SQLite keeps it.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
