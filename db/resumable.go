package db

// Which sessions there is something to go on with, and what one took so far.

import (
	"context"

	"flow/workflows/record"
)

// recorded holds of a session s of t_session that has an arm, or an effect that is done. A run that was
// refused (a lock, a typo, a file that is missing) has neither.
const recorded = `(EXISTS (SELECT 1 FROM t_group g JOIN t_arm a ON a.grp = g.key WHERE g.session = s.key)
	OR EXISTS (SELECT 1 FROM t_effect e WHERE e.session = s.key AND e.done = 1 AND e.cut IS NULL))`

// Resumable gives the ids of the sessions that did not end and have something to go on with, newest first. A
// session that is still called running ended without a word, or runs now: it counts whatever it recorded,
// because its first arm may have been under way.
func (d *DB) Resumable(ctx context.Context) ([]string, error) {
	var out []string
	err := d.each(ctx, func(scan func(...any) error) error {
		var id string
		if err := scan(&id); err != nil {
			return err
		}
		out = append(out, id)
		return nil
	}, `SELECT s.id FROM t_session s WHERE s.status <> 'done' AND s.imported = 0 AND (s.status = 'running' OR `+recorded+`)
		ORDER BY s.wall_start_ns DESC, s.key DESC`)
	if err != nil {
		return nil, d.fail("read sessions", err)
	}
	return out, nil
}

// Recorded reports whether a session has an arm or an effect that is done.
func (d *DB) Recorded(ctx context.Context, session string) (bool, error) {
	var yes bool
	err := d.reader.QueryRowContext(ctx, `SELECT `+recorded+` FROM t_session s WHERE s.id = ?`, session).Scan(&yes)
	return yes, d.fail("read sessions", err)
}

// Spent is what the arms of a session took so far: every attempt, also of groups that the journal was cut of.
func (d *DB) Spent(ctx context.Context, session string) (record.Spent, error) {
	var sp record.Spent
	err := d.reader.QueryRowContext(ctx, `
		SELECT count(*), coalesce(sum(took), 0) / 1e9, coalesce(sum(joules), 0), coalesce(sum(joules IS NULL AND purpose = 'measured' AND disposition = 'ok'), 0)
		FROM (SELECT a.purpose, a.disposition, a.mono_end_ns - a.mono_start_ns AS took,
			(SELECT sum(x.value) FROM t_metric x WHERE x.arm = a.key AND x.request IS NULL AND substr(x.name, -9) = '.energy_j') AS joules
			FROM t_arm a JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session WHERE s.id = ?)`, session).
		Scan(&sp.Arms, &sp.Seconds, &sp.Joules, &sp.Unmetered)
	return sp, d.fail("read sessions", err)
}
