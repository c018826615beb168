package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// Every past schema is kept as a dump with one session in it (testdata/vN.sql) and must migrate to the
// newest with its facts whole. A new version adds its dump by sqlite3 flow.db .dump.
func TestMigratePast(t *testing.T) {
	for v := 1; v <= schemaVersion(); v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			ctx, path := context.Background(), filepath.Join(t.TempDir(), "flow.db")
			dump, err := os.ReadFile(fmt.Sprintf("testdata/v%d.sql", v))
			must(t, err)
			w, err := pool(dsn(path, true), nil)
			must(t, err)
			_, err = w.Exec(string(dump))
			must(t, err)
			_, err = w.Exec(fmt.Sprintf(`pragma application_id=%d; pragma user_version=%d`, applicationID, v))
			must(t, err)
			must(t, w.Close())
			d, err := OpenReadOnly(ctx, path) // an older file is migrated even for a reader
			must(t, err)
			defer func() { _ = d.Close() }()
			for _, view := range publicViews {
				if _, err := d.Query(ctx, `select * from `+view, nil, 0); err != nil {
					t.Errorf("%s: %v", view, err)
				}
			}
			rows(t, d, `select id, workflow, better, arms_ok from sessions`, [][]any{{"s", "stack-screen.star", 1, 4}})
			rows(t, d, `select verdict, round(effect_pct, 6), median_control from groups`, [][]any{{"better", 10., 100.}})
			rows(t, d, `select count(*), sum(value) from samples`, [][]any{{16, 892.}})
			g, err := d.Group(ctx, "s-g")
			must(t, err)
			if len(g.Arms) != 4 || len(g.Arms[0].Requests) != 2 || *g.Arms[1].Metrics[0].Value != 110 {
				t.Errorf("got %+v", g)
			}
			if log, err := d.Log(ctx, g.Arms[0].ID); err != nil || log != "listening\n" {
				t.Errorf("log: got %q, %v", log, err)
			}
		})
	}
}

// The dump of the newest version is of the newest schema: whoever changes a table or a view in place,
// without a new version, fails here.
func TestNewestSchemaIsKept(t *testing.T) {
	d := open(t)
	dump, err := os.ReadFile(fmt.Sprintf("testdata/v%d.sql", schemaVersion()))
	must(t, err)
	have, err := list(d.writer, `select sql from sqlite_schema where sql is not null and name not like 'sqlite_%'`)
	must(t, err)
	for _, sql := range have {
		if !strings.Contains(string(dump), sql+";") && !strings.Contains(string(dump), sql+"\n;") { // the shell's way with comments
			t.Errorf("the kept dump has not: %.80s…", sql)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(path("text.db"), []byte(strings.Repeat("not a database at all\n", 100)), 0o600))
	must(t, os.WriteFile(path("empty.db"), nil, 0o600))
	other, err := pool(dsn(path("other.db"), true), nil)
	must(t, err)
	_, err = other.Exec(`create table x (i); pragma user_version = 3`)
	must(t, err)
	must(t, other.Close())
	newer, err := Open(ctx, path("newer.db"))
	must(t, err)
	_, err = newer.writer.Exec(`pragma user_version = 99`)
	must(t, err)
	must(t, newer.Close())
	for _, c := range []struct {
		name, want string
		both       bool
	}{
		{"text.db", "is not a flow database", true},
		{"other.db", "is not a flow database", true},
		{"newer.db", "made by a newer flow: got schema 99, want at most", true},
		{"missing/flow.db", "no ", true},
		{"none.db", "no database", false},
		{"empty.db", "is empty", false},
		{".", "", true},
	} {
		opened := map[string]error{}
		_, opened["read"] = OpenReadOnly(ctx, path(c.name))
		if c.both {
			_, opened["write"] = Open(ctx, path(c.name))
		}
		for how, err := range opened {
			var e *diag.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) || e.Fix == "" {
				t.Errorf("%s %s: got %v, want %q with a fix", how, c.name, err, c.want)
			}
		}
	}
	if _, err := os.Stat(path("none.db")); err == nil {
		t.Error("a reader made a file")
	}
	if b, _ := os.ReadFile(path("text.db")); !strings.HasPrefix(string(b), "not a database") {
		t.Error("a file that is not ours was changed")
	}
	rows := 0
	o, err := pool(dsn(path("other.db"), false), nil)
	must(t, err)
	must(t, o.QueryRow(`select count(*) from sqlite_schema`).Scan(&rows))
	_ = o.Close()
	if rows != 1 {
		t.Errorf("another program's database has %d objects now, want 1", rows)
	}
}

func TestOpenNames(t *testing.T) {
	for _, name := range []string{"a b.db", "50%.db", "what?.db", "#1.db", "ä.db", "a;b'.db"} {
		ctx, path := context.Background(), filepath.Join(t.TempDir(), name)
		d, err := Open(ctx, path)
		must(t, err)
		fill(t, d, "s", 0, record.Better)
		must(t, d.Close())
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r, err := OpenReadOnly(ctx, path)
		must(t, err)
		rows(t, r, `select count(*) from arms`, [][]any{{4}})
		must(t, r.Close())
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		for _, l := range left {
			if !strings.HasPrefix(filepath.Base(l), name) {
				t.Errorf("%s: left %s", name, l)
			}
		}
	}
}
