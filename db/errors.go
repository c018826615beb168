package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"flow/starlark/diag"
)

// code is SQLite's extended result code, 0 when err is not SQLite's.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

func isBusy(err error) bool {
	c := code(err) & 0xff
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// fail turns an error of SQLite into one that names the file and says what to do.
func (d *DB) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	var done *diag.Error
	if errors.As(err, &done) {
		return err
	}
	e := &diag.Error{Kind: diag.Machine, Op: op, Err: err}
	full := d.path
	if abs, absErr := filepath.Abs(d.path); absErr == nil && d.path != Memory {
		full = abs
	}
	switch c := code(err); {
	case c&0xff == sqlite3.SQLITE_FULL, c == sqlite3.SQLITE_IOERR_WRITE:
		e.Msg = "no room to write " + full + "; what was recorded before is kept"
		e.Fix = "free space on the disk of " + filepath.Dir(full) + ", then flow resume"
	case isBusy(err):
		e.Msg = full + " is locked by another program"
		e.Fix = "end the program that holds it (an open transaction in sqlite3, a backup), then flow resume"
	case c&0xff == sqlite3.SQLITE_NOTADB:
		e.Kind, e.Msg, e.Err = diag.Workflow, full+" is not a flow database", nil
		e.Fix = "name another file with --db or FLOW_DB"
	case c&0xff == sqlite3.SQLITE_CORRUPT:
		e.Msg = full + " is damaged"
		e.Fix = "keep a copy, then save what can be read: sqlite3 " + filepath.Base(full) + " .recover | sqlite3 recovered.db"
	case c&0xff == sqlite3.SQLITE_CANTOPEN, c&0xff == sqlite3.SQLITE_READONLY, c&0xff == sqlite3.SQLITE_PERM:
		e.Msg = "cannot open or write " + full
		e.Fix = "check the permissions of the file and of its folder (SQLite writes -wal and -shm beside it), or copy it elsewhere"
	case c&0xff == sqlite3.SQLITE_CONSTRAINT:
		e.Kind, e.Msg = diag.Bug, full+" refused a record"
		if strings.Contains(err.Error(), "finished session") {
			e.Kind, e.Msg = diag.Workflow, full
			e.Fix = "run the workflow again for a new session"
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Kind, e.Msg = diag.Stopped, full
	case c&0xff == sqlite3.SQLITE_TOOBIG, c&0xff == sqlite3.SQLITE_NOMEM:
		e.Kind, e.Msg = diag.Workflow, "a value of the query is too large"
		e.Fix = "ask for less in one value, as with substr(value, 1, 1000)"
	case c != 0:
		e.Msg = full
		e.Fix = "check that it is a file on a sound local disk, or name another one with --db"
	default:
		e.Kind, e.Msg = diag.Bug, full
	}
	return e
}

// finite refuses NaN and infinities before they reach SQLite, which would keep NaN silently as NULL. The
// error names the field by its JSON name.
func finite(what string, v any) error {
	if path := nonFinite(reflect.ValueOf(v)); path != "" {
		return notFinite(what + path)
	}
	return nil
}

func notFinite(field string) error {
	return &diag.Error{Kind: diag.Bug, Op: "record", Msg: "got a number that is not finite in " + field + ", want nil where nothing was measured"}
}

// nonFinite is the path to the first float that is not finite, "" when there is none.
func nonFinite(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Float64, reflect.Float32:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprintf(" (%v)", f)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return nonFinite(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Int, reflect.Int64, reflect.Uint8:
			return ""
		}
		for i := range v.Len() {
			if p := nonFinite(v.Index(i)); p != "" {
				return fmt.Sprintf("[%d]%s", i, p)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if p := nonFinite(it.Value()); p != "" {
				return fmt.Sprintf("[%q]%s", it.Key().String(), p)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name == "-" {
				continue // not of the record: samples are checked apart, groups and logs hold no numbers of their own
			}
			if p := nonFinite(v.Field(i)); p != "" {
				return "." + name + p
			}
		}
	}
	return ""
}
