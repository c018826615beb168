package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// Effect is the recorded effect of that index that is in force, nil when there is none.
func (d *DB) Effect(ctx context.Context, session string, index int) (*record.Effect, error) {
	e := &record.Effect{Index: index}
	var refs string
	err := d.reader.QueryRowContext(ctx, `SELECT e.op, e.hash, e.what, e.refs, e.done, e.result FROM t_effect e JOIN t_session s ON s.key = e.session
		WHERE s.id = ? AND e.idx = ? AND e.cut IS NULL`, session, index).Scan(&e.Op, &e.Hash, &e.What, &refs, &e.Done, &e.Result)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(refs), &e.Refs)
	}
	if err != nil {
		return nil, d.fail("read journal", err)
	}
	return e, nil
}

// BeginEffect journals that an effect is under way. It may be called again until the effect is done, when
// more is known of it: its refs.
func (d *DB) BeginEffect(ctx context.Context, session string, e record.Effect) error {
	refs, err := text(e.Refs)
	if err != nil {
		return err
	}
	var result any
	if e.Result != nil {
		result = e.Result
	}
	return d.write(ctx, "journal", true, func(tx *sql.Tx) error {
		key, err := sessionKey(tx, session)
		if err != nil {
			return err
		}
		res, err := tx.Exec(`INSERT INTO t_effect (session, idx, op, hash, what, refs, done, result) VALUES (?,?,?,?,?,?,?,?)
			ON CONFLICT (session, idx) WHERE cut IS NULL DO UPDATE SET op = excluded.op, hash = excluded.hash, what = excluded.what, refs = excluded.refs
			WHERE done = 0`, key, e.Index, e.Op, e.Hash, e.What, refs, flag(e.Done), result)
		if err != nil {
			return err
		}
		return one(res, "effect %d of session %s is done already", e.Index, session)
	})
}

// EndEffect journals an effect's result, its bytes as they are.
func (d *DB) EndEffect(ctx context.Context, session string, index int, result []byte) error {
	if result == nil {
		result = []byte{}
	}
	return d.write(ctx, "journal", true, func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE t_effect SET done = 1, result = ? WHERE session = (SELECT key FROM t_session WHERE id = ?) AND idx = ? AND cut IS NULL AND done = 0`,
			result, session, index)
		if err != nil {
			return err
		}
		return one(res, "effect %d of session %s never began or is done already", index, session)
	})
}

// Cut forgets nothing: the effects from index on stay as rows, marked with the amendment that says why, and
// run anew.
func (d *DB) Cut(ctx context.Context, session string, index int, why string) error {
	return d.write(ctx, "cut journal", true, func(tx *sql.Tx) error {
		key, err := sessionKey(tx, session)
		if err != nil {
			return err
		}
		var cut int64
		err = tx.QueryRow(`INSERT INTO t_amendment (subject, id, wall_ns, kind, text, detail) VALUES ('session', ?, ?, 'cut', ?, json_object('effect', ?)) RETURNING key`,
			session, d.Now(), why, index).Scan(&cut)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE t_effect SET cut = ? WHERE session = ? AND idx >= ? AND cut IS NULL`, cut, key, index)
		return err
	})
}

// Effects are the effects in force of a session, in order.
func (d *DB) Effects(ctx context.Context, session string) ([]record.Effect, error) {
	rows, err := d.reader.QueryContext(ctx, `SELECT e.idx, e.op, e.hash, e.what, e.refs, e.done, e.result FROM t_effect e JOIN t_session s ON s.key = e.session
		WHERE s.id = ? AND e.cut IS NULL ORDER BY e.idx`, session)
	if err != nil {
		return nil, d.fail("read journal", err)
	}
	defer func() { _ = rows.Close() }()
	var out []record.Effect
	for rows.Next() {
		var e record.Effect
		var refs string
		if err := rows.Scan(&e.Index, &e.Op, &e.Hash, &e.What, &refs, &e.Done, &e.Result); err != nil {
			return nil, d.fail("read journal", err)
		}
		if err := json.Unmarshal([]byte(refs), &e.Refs); err != nil {
			return nil, d.fail("read journal", err)
		}
		out = append(out, e)
	}
	return out, d.fail("read journal", rows.Err())
}

// Amendment is a later judgement, redaction or cut: a row beside the facts.
type Amendment struct {
	Subject string `json:"subject"` // session, group or arm
	ID      string `json:"id"`
	WallNS  int64  `json:"wall_ns"`
	Kind    string `json:"kind"` // cut, note, decision, exclusion, redaction
	Text    string `json:"text"`
	Detail  string `json:"detail,omitempty"` // JSON, "" is {}
}

// Amend adds an amendment. It is allowed at any time: it changes no fact.
func (d *DB) Amend(ctx context.Context, a Amendment) error {
	if a.Detail == "" {
		a.Detail = "{}"
	}
	return d.write(ctx, "amend", true, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO t_amendment (subject, id, wall_ns, kind, text, detail) VALUES (?,?,?,?,?,?)`, a.Subject, a.ID, a.WallNS, a.Kind, a.Text, a.Detail)
		return err
	})
}

// Event keeps a line of what goes on. It is no fact: a power cut may lose the last ones, a killed flow none.
func (d *DB) Event(ctx context.Context, session string, e record.Event) error {
	return d.write(ctx, "record event", false, func(tx *sql.Tx) error {
		key, err := sessionKey(tx, session)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO t_event (session, wall_ns, kind, grp, group_id, arm, text) VALUES (?,?,?,?,?,?,?)`,
			key, e.WallNS, e.Kind, e.Group, e.GroupID, e.Arm, e.Text)
		return err
	})
}

func sessionKey(tx *sql.Tx, id string) (int64, error) {
	return key(tx, "session", `SELECT key FROM t_session WHERE id = ?`, id)
}

// key is the file's own key of a row that must be there.
func key(tx *sql.Tx, what, query, id string) (int64, error) {
	var k int64
	err := tx.QueryRow(query, id).Scan(&k)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, &diag.Error{Kind: diag.Bug, Op: "record", Msg: fmt.Sprintf("there is no %s %q", what, id)}
	}
	return k, err
}

// one refuses a statement that did not change exactly one row.
func one(res sql.Result, format string, args ...any) error {
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n != 1 {
		return &diag.Error{Kind: diag.Bug, Op: "record", Msg: fmt.Sprintf(format, args...)}
	}
	return nil
}
