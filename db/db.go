// Package db keeps what happened in one SQLite file, and is the only package that knows SQLite.
//
// Its opinion: tables are private and hold facts, views are public and carry a version; a fact is on disk
// when the call that recorded it returns; what was measured is never changed, only amended by rows
// beside it; a number that is not finite is refused by name instead of turning into NULL; and whoever
// asks questions cannot write, whatever SQL they send. The package knows diag and record. workflows/run
// states what it asks of a recorder and a journal, and cmd/flow joins the two.
package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"

	"flow/starlark/diag"
)

// applicationID marks a file as flow's: "flow" in ASCII.
const applicationID = 0x666c6f77

// Memory is the path of a database that lives in memory and ends with its DB.
const Memory = ":memory:"

// DB is one open file. Its methods may be called from many goroutines; writes take turns.
type DB struct {
	// Now is the wall clock for rows whose caller gives no time (a cut). Default: the machine's.
	Now func() int64

	path     string
	readOnly bool
	writer   *sql.DB // one connection; nil when read-only
	reader   *sql.DB // a small pool behind the authorizer; the writer itself for a memory database
	mu       sync.Mutex
	marker   int64
	durable  bool // what synchronous stands at on the writer's connection: FULL
	sensors  map[string]int64
	file     os.FileInfo // what the path named when it was opened; nil for a memory database

	impatient bool // the last wait for another program's lock was in vain
}

// busyWait is how long a writer waits for another flow on the same file.
const busyWait = 30 * time.Second

// Open opens the file for recording: it makes a new one or migrates an old one, and checks its integrity
// when the last writer did not end properly.
func Open(ctx context.Context, path string) (*DB, error) {
	d := &DB{Now: wallNow, path: path, durable: true, sensors: map[string]int64{}}
	if path != Memory {
		// SQLite's own word for this is "unable to open database file".
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return nil, &diag.Error{Kind: diag.Machine, Op: "open database", Msg: "no folder for " + path, Err: plainPathError(err),
				Fix: "make the folder, or name another file with --db or FLOW_DB"}
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return nil, notRegular(path)
		}
	}
	w, err := pool(dsn(path, true), nil)
	if err != nil {
		return nil, d.fail("open database", err)
	}
	w.SetMaxOpenConns(1)
	d.writer = w
	if path == Memory {
		d.reader = w
	} else if d.reader, err = readers(path); err != nil {
		_ = w.Close()
		return nil, d.fail("open database", err)
	}
	if err := d.prepare(ctx); err != nil {
		d.closePools()
		return nil, err
	}
	if path != Memory {
		if d.file, err = os.Stat(path); err != nil {
			d.closePools()
			return nil, d.replaced("open database")
		}
	}
	return d, nil
}

// OpenReadOnly opens an existing file for questions only: SQLite's authorizer refuses everything but
// reading on every connection, because mode=ro and query_only can both be escaped from within SQL. A
// file of an older flow is migrated first. It makes no integrity check, so that a question is answered at
// once.
func OpenReadOnly(ctx context.Context, path string) (*DB, error) {
	d := &DB{Now: wallNow, path: path, readOnly: true}
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, &diag.Error{Kind: diag.Workflow, Op: "open database", Msg: "no database " + path, Err: plainPathError(err),
			Fix: "run a workflow first, or name the file with --db or FLOW_DB"}
	case !info.Mode().IsRegular():
		return nil, notRegular(path)
	}
	r, err := readers(path)
	if err != nil {
		return nil, d.fail("open database", err)
	}
	d.reader = r
	version, err := d.identity(ctx)
	if err != nil {
		d.closePools()
		return nil, err
	}
	if version < schemaVersion() {
		d.closePools()
		w, err := Open(ctx, path)
		if err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		if d.reader, err = readers(path); err != nil {
			return nil, d.fail("open database", err)
		}
	}
	return d, nil
}

// notRegular refuses what SQLite would wait for, as a FIFO, or read without end.
func notRegular(path string) error {
	return &diag.Error{Kind: diag.Workflow, Op: "open database", Msg: path + " is not a regular file", Fix: "name a database file with --db or FLOW_DB"}
}

// plainPathError is the cause of a path error without the path, which the message has already.
func plainPathError(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func wallNow() int64 { return time.Now().UnixNano() }

// Path is the file.
func (d *DB) Path() string { return d.path }

// Close ends the use of the file. Recorded facts are on disk already; Close only tidies.
func (d *DB) Close() error {
	var err error
	if d.writer != nil && d.marker != 0 {
		// A full disk must not turn a finished session into a failed one: the marker then only costs the
		// next opening an integrity check.
		_ = d.write(context.Background(), "close", false, func(tx *sql.Tx) error {
			_, e := tx.Exec(`DELETE FROM t_writer WHERE key = ?`, d.marker)
			return e
		})
		d.marker = 0
	}
	err = d.closePools()
	if err != nil {
		return d.fail("close", err)
	}
	return nil
}

func (d *DB) closePools() error {
	var err error
	if d.reader != nil && d.reader != d.writer {
		err = d.reader.Close()
	}
	if d.writer != nil {
		err = errors.Join(err, d.writer.Close())
	}
	return err
}

// dsn is the data source name. Pragmas belong in it, because database/sql opens connections as it
// likes. The file is never opened by os.Open: closing that would strip SQLite's locks from this process.
func dsn(path string, write bool) string {
	q := url.Values{}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyWait.Milliseconds()))
	q.Add("_pragma", "foreign_keys(1)")
	q.Add("_pragma", "trusted_schema(0)")
	q.Set("_dqs", "0") // "x" is a column, never a text
	if path == Memory {
		q.Set("_txlock", "immediate")
		return "file::memory:?" + q.Encode()
	}
	if write {
		q.Set("_txlock", "immediate")
		q.Set("mode", "rwc")
		q.Add("_pragma", "synchronous(FULL)")
	} else {
		q.Set("mode", "ro")
		q.Add("_pragma", "query_only(1)")
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// hooked is a connector that sets up every physical connection.
type hooked struct {
	driver.Connector
	setup func(driver.Conn) error
}

func (h hooked) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := h.Connector.Connect(ctx)
	if err != nil || h.setup == nil {
		return c, err
	}
	if err := h.setup(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func pool(dsn string, setup func(driver.Conn) error) (*sql.DB, error) {
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(hooked{c, setup}), nil
}

func readers(path string) (*sql.DB, error) {
	r, err := pool(dsn(path, false), func(c driver.Conn) error { return restrict(c, true) })
	if err != nil {
		return nil, err
	}
	r.SetMaxOpenConns(4)
	return r, nil
}

// restrict puts the read-only policy on a physical connection, or takes it off.
func restrict(c any, on bool) error {
	r, ok := c.(sqlite.AuthorizerRegisterer)
	if !ok {
		return errors.New("the SQLite driver has no authorizer")
	}
	if !on {
		return r.RegisterAuthorizer(nil)
	}
	return r.RegisterAuthorizer(readOnlyPolicy)
}

func readOnlyPolicy(action sqlite.AuthorizerActionCode, arg1, arg2, _, _ string) sqlite.AuthorizerReturnCode {
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRead, sqlite.AuthRecursive:
		return sqlite.AuthorizerOK
	case sqlite.AuthFunction:
		if !strings.EqualFold(arg2, "load_extension") {
			return sqlite.AuthorizerOK
		}
	case sqlite.AuthPragma:
		// What flow itself asks to know the file; each only reads.
		if arg2 == "" && (arg1 == "application_id" || arg1 == "user_version") {
			return sqlite.AuthorizerOK
		}
	}
	return sqlite.AuthorizerDeny
}

// write runs fn in one transaction, one writer at a time. A fact that happened is recorded even when the
// session's context has been cancelled: an interrupted arm is what an interrupt must not lose. durable
// false skips the sync of the commit (a killed flow loses nothing even so; a power cut may lose it), and
// the next durable commit brings it along.
func (d *DB) write(ctx context.Context, op string, durable bool, fn func(tx *sql.Tx) error) error {
	if d.writer == nil {
		return &diag.Error{Kind: diag.Bug, Op: op, Msg: d.path + " is open for reading only"}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), busyWait+10*time.Second)
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	if durable != d.durable {
		level := "NORMAL"
		if durable {
			level = "FULL"
		}
		if _, err := d.writer.ExecContext(ctx, "PRAGMA synchronous="+level); err != nil {
			return d.fail(op, err)
		}
		d.durable = durable
	}
	tx, err := d.writer.BeginTx(ctx, nil)
	if err != nil {
		d.waitLess(ctx, d.writer, isBusy(err))
		return d.fail(op, err)
	}
	defer func() { _ = tx.Rollback() }()
	d.waitLess(ctx, tx, false)
	if err := fn(tx); err != nil {
		clear(d.sensors) // keys made in a transaction that did not happen
		return d.fail(op, err)
	}
	if err := tx.Commit(); err != nil {
		clear(d.sensors)
		return d.fail(op, err)
	}
	return d.replaced(op)
}

// Replaced is the cause of an error of writing when the file was deleted or replaced while it was open: SQLite
// goes on writing to what nobody can open any more. It is a type, not a variable, for errors.As.
type Replaced struct{ Path string }

func (r *Replaced) Error() string {
	return r.Path + " was deleted, moved or replaced while it was written: what this session records is lost"
}

// replaced is an error when the path no longer names the open file. It asks after the commit, so that no
// fact is called recorded that is in a file without a name.
func (d *DB) replaced(op string) error {
	if d.file == nil {
		return nil
	}
	if now, err := os.Stat(d.path); err == nil && os.SameFile(now, d.file) {
		return nil
	}
	return &diag.Error{Kind: diag.Machine, Op: op, Err: &Replaced{d.path}, Fix: "leave the database alone while flow runs; run the workflow again"}
}

// execer is the pool, or the transaction that has its only connection.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// waitLess shortens the wait for a lock that was waited for in vain, and restores it when the lock was got:
// a session that ends because its file is locked writes a few times more, and must not take minutes for it.
func (d *DB) waitLess(ctx context.Context, on execer, less bool) {
	if less == d.impatient {
		return
	}
	wait := busyWait
	if less {
		wait = time.Second
	}
	if _, err := on.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d", wait.Milliseconds())); err == nil {
		d.impatient = less
	}
}
