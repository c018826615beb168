package db

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"flow/starlark/diag"
)

// The schema goes forward only: N.sql brings a file from version N-1 to N, and views.sql is put in anew
// whenever a file moves. A change of a view alone is a version with an empty migration.
//
//go:embed schema/*.sql
var schema embed.FS

// schemaVersion is the newest version this flow knows: its user_version.
func schemaVersion() int {
	n := 0
	for {
		if _, err := fs.Stat(schema, fmt.Sprintf("schema/%d.sql", n+1)); err != nil {
			return n
		}
		n++
	}
}

// identity says what version of a flow database the file is, 0 for an empty file, and refuses any other.
func (d *DB) identity(ctx context.Context) (int, error) {
	pool := d.reader
	if d.writer != nil {
		pool = d.writer
	}
	var app, version, objects int
	// Three statements, because pragma functions are refused to readers.
	for _, q := range []struct {
		sql  string
		into *int
	}{{`PRAGMA application_id`, &app}, {`PRAGMA user_version`, &version}, {`SELECT count(*) FROM sqlite_schema`, &objects}} {
		if err := pool.QueryRowContext(ctx, q.sql).Scan(q.into); err != nil {
			return 0, d.fail("open database", err)
		}
	}
	switch {
	case app == 0 && version == 0 && objects == 0 && d.writer != nil:
		return 0, nil
	case app == 0 && version == 0 && objects == 0:
		return 0, &diag.Error{Kind: diag.Workflow, Op: "open database", Msg: d.path + " is empty", Fix: "flow run FILE"}
	case app != applicationID:
		return 0, &diag.Error{Kind: diag.Workflow, Op: "open database", Msg: d.path + " is not a flow database",
			Fix: "name another file with --db or FLOW_DB"}
	case version > schemaVersion():
		return 0, &diag.Error{Kind: diag.Workflow, Op: "open database",
			Msg: fmt.Sprintf("%s was made by a newer flow: got schema %d, want at most %d", d.path, version, schemaVersion()),
			Fix: "use that newer flow, or another file with --db"}
	}
	return version, nil
}

// prepare brings the file to the newest schema and registers this writer.
func (d *DB) prepare(ctx context.Context) error {
	version, err := d.identity(ctx)
	if err != nil {
		return err
	}
	// Two flows may make the same file at once, and changing the journal mode does not wait for a lock.
	for begin := time.Now(); ; {
		var mode string
		err := d.writer.QueryRowContext(ctx, `PRAGMA journal_mode=WAL`).Scan(&mode)
		if err == nil {
			break
		}
		if !isBusy(err) || time.Since(begin) > busyWait {
			return d.fail("open database", err)
		}
		select {
		case <-ctx.Done():
			return d.fail("open database", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	if version < schemaVersion() {
		if err := d.write(ctx, "migrate database", true, migrate); err != nil {
			return err
		}
	}
	return d.register(ctx)
}

// migrate runs inside one transaction: a file is wholly of one version.
func migrate(tx *sql.Tx) error {
	var version int // anew: another flow may have been first
	if err := tx.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version >= schemaVersion() {
		return nil
	}
	if err := dropViews(tx); err != nil {
		return err
	}
	for v := version + 1; v <= schemaVersion(); v++ {
		if err := apply(tx, strconv.Itoa(v)); err != nil {
			return err
		}
	}
	if err := apply(tx, "views"); err != nil {
		return err
	}
	_, err := tx.Exec(fmt.Sprintf(`PRAGMA application_id=%d; PRAGMA user_version=%d`, applicationID, schemaVersion()))
	return err
}

func apply(tx *sql.Tx, name string) error {
	text, err := schema.ReadFile("schema/" + name + ".sql")
	if err != nil {
		return err
	}
	if _, err := tx.Exec(string(text)); err != nil {
		return fmt.Errorf("schema %s: %w", name, err)
	}
	return nil
}

func dropViews(tx *sql.Tx) error {
	names, err := list(tx, `SELECT name FROM sqlite_schema WHERE type = 'view'`)
	if err != nil {
		return err
	}
	for _, n := range names {
		if _, err := tx.Exec(`DROP VIEW "` + strings.ReplaceAll(n, `"`, `""`) + `"`); err != nil {
			return err
		}
	}
	return nil
}

// queryer is a transaction or a pool.
type queryer interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

func list(tx queryer, query string, args ...any) ([]string, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// largeFile is where the integrity check gives up looking into indexes too: it would take minutes.
const largeFile = 256 << 20

// register leaves a mark of this writer. Where the mark of a writer that is gone was still there, the file
// is checked first, and the mark stays until it has passed.
func (d *DB) register(ctx context.Context) error {
	host, _ := os.Hostname() // "" is as good a name as any
	gone, err := d.gone(ctx, host)
	if err != nil {
		return d.fail("open database", err)
	}
	if len(gone) > 0 {
		if err := d.check(ctx); err != nil {
			return err
		}
	}
	return d.write(ctx, "open database", false, func(tx *sql.Tx) error {
		for _, key := range gone {
			if _, err := tx.Exec(`DELETE FROM t_writer WHERE key = ?`, key); err != nil {
				return err
			}
		}
		res, err := tx.Exec(`INSERT INTO t_writer (host, pid, started) VALUES (?, ?, ?)`, host, os.Getpid(), startTime(os.Getpid()))
		if err != nil {
			return err
		}
		d.marker, err = res.LastInsertId()
		return err
	})
}

// gone are the marks of writers of this host that run no more.
func (d *DB) gone(ctx context.Context, host string) ([]int64, error) {
	rows, err := d.writer.QueryContext(ctx, `SELECT key, pid, started FROM t_writer WHERE host = ?`, host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []int64
	for rows.Next() {
		var key int64
		var pid int
		var started string
		if err := rows.Scan(&key, &pid, &started); err != nil {
			return nil, err
		}
		if !running(pid, started) {
			out = append(out, key)
		}
	}
	return out, rows.Err()
}

// check is the integrity check.
func (d *DB) check(ctx context.Context) error {
	var pages, size int64
	if err := d.writer.QueryRowContext(ctx, `SELECT page_count, page_size FROM pragma_page_count, pragma_page_size`).Scan(&pages, &size); err != nil {
		return d.fail("check database", err)
	}
	pragma := `PRAGMA integrity_check(1)`
	if pages*size > largeFile {
		pragma = `PRAGMA quick_check(1)`
	}
	var said string
	if err := d.writer.QueryRowContext(ctx, pragma).Scan(&said); err != nil {
		return d.fail("check database", err)
	}
	if said != "ok" {
		return &diag.Error{Kind: diag.Machine, Op: "check database", Msg: d.path + " is damaged: " + said,
			Fix: "keep a copy, then save what can be read: sqlite3 " + d.path + " .recover | sqlite3 recovered.db"}
	}
	return nil
}
