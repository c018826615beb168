package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/workflows/record"
)

// rowsPerInsert was measured: single-row statements are half as fast, 500 rows no faster, 5,000 slower.
const rowsPerInsert = 50

func finiteSamples(what string, ss []record.Sample) error {
	for i := range ss {
		if v := ss[i].Value; math.IsNaN(v) || math.IsInf(v, 0) {
			return notFinite(fmt.Sprintf("%s.samples[%d] of sensor %s (%v)", what, i, ss[i].Sensor, v))
		}
	}
	return nil
}

// keepSamples keeps an arm's samples, sensor by sensor, and a summary of each, so that nothing has to look
// at the samples again.
func (d *DB) keepSamples(tx *sql.Tx, arm int64, samples []record.Sample) error {
	if len(samples) == 0 {
		return nil
	}
	// Sensors as numbers first: comparing names in the sort would cost more than the inserts.
	order := map[string]int{}
	var names []string
	type row struct {
		sensor, mono int64
		value        float64
	}
	rows := make([]row, len(samples))
	for i := range samples {
		s := &samples[i]
		n, ok := order[s.Sensor]
		if !ok {
			n = len(names)
			order[s.Sensor] = n
			names = append(names, s.Sensor)
		}
		rows[i] = row{int64(n), s.MonoNS, s.Value}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		switch {
		case a.sensor != b.sensor:
			return int(a.sensor - b.sensor)
		case a.mono < b.mono:
			return -1
		case a.mono > b.mono:
			return 1
		}
		return 0
	})
	keys := make([]int64, len(names))
	for i, name := range names {
		k, err := d.sensor(tx, record.Sensor{Name: name})
		if err != nil {
			return err
		}
		keys[i] = k
	}
	var next int64
	if err := tx.QueryRow(`SELECT coalesce(max(key), 0) + 1 FROM t_sample`).Scan(&next); err != nil {
		return err
	}
	first := next
	const insert = `INSERT INTO t_sample (key, arm, sensor, mono_ns, value) VALUES `
	many, err := tx.Prepare(insert + strings.TrimSuffix(strings.Repeat("(?,?,?,?,?),", rowsPerInsert), ","))
	if err != nil {
		return err
	}
	defer func() { _ = many.Close() }()
	args := make([]any, 0, 5*rowsPerInsert)
	for i := range rows {
		r := &rows[i]
		args = append(args, next, arm, keys[r.sensor], r.mono, r.value)
		next++
		if len(args) == cap(args) {
			if _, err := many.Exec(args...); err != nil {
				return err
			}
			args = args[:0]
		}
	}
	if len(args) > 0 {
		if _, err := tx.Exec(insert+strings.TrimSuffix(strings.Repeat("(?,?,?,?,?),", len(args)/5), ","), args...); err != nil {
			return err
		}
	}
	for from := 0; from < len(rows); {
		to := from
		lo, hi, sum := math.Inf(1), math.Inf(-1), 0.0
		for ; to < len(rows) && rows[to].sensor == rows[from].sensor; to++ {
			v := rows[to].value
			lo, hi, sum = min(lo, v), max(hi, v), sum+v
		}
		n := to - from
		if _, err := tx.Exec(`INSERT INTO t_summary (arm, sensor, n, mean, min, max, first, last, key_first, key_last) VALUES (?,?,?,?,?,?,?,?,?,?)`,
			arm, keys[rows[from].sensor], n, mean(sum, n, lo, hi), lo, hi, rows[from].value, rows[to-1].value, first+int64(from), first+int64(to)-1); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// keepSummaries keeps what each sensor did in each phase of an arm.
func (d *DB) keepSummaries(tx *batch, arm int64, summaries []record.Summary) error {
	for i := range summaries {
		x := &summaries[i]
		sensor, err := d.sensor(tx.Tx, record.Sensor{Name: x.Sensor})
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO t_phase (arm, sensor, phase, n, coverage, mean, min, max, p05, p50, p95, p99, growth, rise, diff, why) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			arm, sensor, x.Phase, x.N, x.Coverage, x.Mean, x.Min, x.Max, x.P05, x.P50, x.P95, x.P99, x.Growth, x.Rise, x.Diff, x.Why); err != nil {
			return err
		}
	}
	return nil
}

// mean stays finite and within its bounds where the sum of huge values does not.
func mean(sum float64, n int, lo, hi float64) float64 {
	if math.IsInf(sum, 0) {
		return lo/2 + hi/2
	}
	return min(max(sum/float64(n), lo), hi)
}

// sensor gives the key of a sensor by name, made on first sight. What is known of it later fills it in.
func (d *DB) sensor(tx *sql.Tx, s record.Sensor) (int64, error) {
	known := s.Unit != "" || s.Source != ""
	if k, ok := d.sensors[s.Name]; ok && !known {
		return k, nil
	}
	var k int64
	err := tx.QueryRow(`SELECT key FROM t_sensor WHERE name = ?`, s.Name).Scan(&k)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		res, err := tx.Exec(`INSERT INTO t_sensor (name, unit, source, counter) VALUES (?,?,?,?)`, s.Name, s.Unit, s.Source, flag(s.Counter))
		if err != nil {
			return 0, err
		}
		if k, err = res.LastInsertId(); err != nil {
			return 0, err
		}
	case err != nil:
		return 0, err
	case known:
		if _, err := tx.Exec(`UPDATE t_sensor SET unit = ?, source = ?, counter = ? WHERE key = ? AND unit = '' AND source = ''`, s.Unit, s.Source, flag(s.Counter), k); err != nil {
			return 0, err
		}
	}
	d.sensors[s.Name] = k
	return k, nil
}

// KeepSensors keeps what could be sampled in a session, and why the rest could not.
func (d *DB) KeepSensors(ctx context.Context, session string, sensors []record.Sensor) error {
	return d.write(ctx, "record sensors", false, func(tx *sql.Tx) error {
		sk, err := sessionKey(tx, session)
		if err != nil {
			return err
		}
		for _, s := range sensors {
			k, err := d.sensor(tx, s)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT OR REPLACE INTO t_session_sensor (session, sensor, available, why, fix, period_ms) VALUES (?,?,?,?,?,?)`,
				sk, k, flag(s.Available), s.Why, s.Fix, s.PeriodMS); err != nil {
				return err
			}
		}
		return nil
	})
}

// Samples are those of one sensor of an arm in time, or of all its sensors when sensor is "".
func (d *DB) Samples(ctx context.Context, armID, sensor string) ([]record.Sample, error) {
	query := `SELECT n.name, x.mono_ns, x.value FROM t_arm a JOIN t_summary u ON u.arm = a.key JOIN t_sensor n ON n.key = u.sensor
		CROSS JOIN t_sample x ON x.key BETWEEN u.key_first AND u.key_last WHERE a.id = ?`
	args := []any{armID}
	if sensor != "" {
		query += ` AND n.name = ?`
		args = append(args, sensor)
	}
	var out []record.Sample
	err := d.each(ctx, func(scan func(...any) error) error {
		var s record.Sample
		err := scan(&s.Sensor, &s.MonoNS, &s.Value)
		out = append(out, s)
		return err
	}, query+` ORDER BY x.mono_ns, x.key`, args...)
	return out, d.fail("read samples", err)
}
