package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/workflows/record"
)

// BeginGroup keeps a group before its first arm: what is compared, and the gates in force.
func (d *DB) BeginGroup(ctx context.Context, g *record.Group) error {
	doc, err := groupDoc(g)
	if err != nil {
		return err
	}
	return d.write(ctx, "record group", true, func(tx *sql.Tx) error {
		session, err := sessionKey(tx, g.SessionID)
		if err != nil {
			return err
		}
		engine := ""
		for _, s := range g.Sides {
			if s.Label == g.Control {
				engine = s.Engine
			}
		}
		res, err := tx.Exec(`INSERT INTO t_group (id, session, position, name, role, arm_order, control, metric, better, min_effect, cap, declared, resolved,
			engine, engine_hash, workload_hash, model, place, wall_start_ns, doc) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			g.ID, session, g.Index, g.Name, g.Role, g.Order, g.Control, g.Primary, g.Better, g.MinEffect, g.Cap, g.Declared, g.Resolved,
			engine, g.Engine, g.Workload, g.Model, g.Pos, g.WallStartNS, doc)
		if err != nil {
			return err
		}
		key, err := res.LastInsertId()
		if err != nil {
			return err
		}
		if err := keepSides(tx, key, g); err != nil {
			return err
		}
		for i, s := range g.Gates {
			if _, err := tx.Exec(`INSERT INTO t_gate (grp, name, position, kind, phase, scope, required, params, code) VALUES (?,?,?,?,?,?,?,?,?)`,
				key, s.Name, i, s.Kind, s.Phase, s.Scope, flag(s.Required), s.Params, s.Code); err != nil {
				return err
			}
		}
		if g.Verdict != "" { // an imported group is whole from the start
			return endGroup(tx, key, g)
		}
		return nil
	})
}

func groupDoc(g *record.Group) (string, error) {
	rest := *g
	rest.Arms = nil
	if err := finite("group "+g.Name, rest); err != nil {
		return "", err
	}
	return text(rest)
}

func keepSides(tx *sql.Tx, group int64, g *record.Group) error {
	control := map[string]bool{}
	for _, s := range g.Sides {
		if s.Label == g.Control {
			for _, l := range s.Stack {
				control[l.Hash] = true
			}
		}
	}
	for i, s := range g.Sides {
		names, hashes, added, addedHashes := []string{}, []string{}, []string{}, []string{}
		for _, l := range s.Stack {
			names, hashes = append(names, l.Name), append(hashes, l.Hash)
			if !control[l.Hash] {
				added, addedHashes = append(added, l.Name), append(addedHashes, l.Hash)
			}
		}
		command, err := text(s.Command)
		if err != nil {
			return err
		}
		stackKey, err := text(hashes)
		if err != nil {
			return err
		}
		addedKey, err := text(addedHashes)
		if err != nil {
			return err
		}
		res, err := tx.Exec(`INSERT INTO t_side (grp, label, position, is_control, engine, command, stack, stack_key, added, added_key) VALUES (?,?,?,?,?,?,?,?,?,?)`,
			group, s.Label, i, flag(s.Label == g.Control), s.Engine, command, strings.Join(names, "+"), stackKey, strings.Join(added, "+"), addedKey)
		if err != nil {
			return err
		}
		side, err := res.LastInsertId()
		if err != nil {
			return err
		}
		for j, l := range s.Stack {
			lever, err := keepLever(tx, l)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO t_side_lever (side, position, lever, is_added) VALUES (?,?,?,?)`, side, j, lever, flag(!control[l.Hash])); err != nil {
				return err
			}
		}
	}
	return nil
}

func keepLever(tx *sql.Tx, l record.Lever) (int64, error) {
	var key int64
	err := tx.QueryRow(`SELECT key FROM t_lever WHERE hash = ?`, l.Hash).Scan(&key)
	if !errors.Is(err, sql.ErrNoRows) {
		return key, err
	}
	// A lever's JSON must be JSON for the view of champions.
	declared := l.Declared
	if !json.Valid([]byte(declared)) {
		if declared, err = text(l.Declared); err != nil {
			return 0, err
		}
	}
	res, err := tx.Exec(`INSERT INTO t_lever (hash, name, factor, change, changes_output, unconfirmed, declared) VALUES (?,?,?,?,?,?,?)`,
		l.Hash, l.Name, l.Factor, l.Change, flag(l.ChangesOutput), l.Unconfirmed, declared)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// EndGroup keeps a group's verdict and comparisons.
func (d *DB) EndGroup(ctx context.Context, g *record.Group) error {
	return d.write(ctx, "record verdict", true, func(tx *sql.Tx) error {
		k, err := key(tx, "group", `SELECT key FROM t_group WHERE id = ?`, g.ID)
		if err != nil {
			return err
		}
		return endGroup(tx, k, g)
	})
}

func endGroup(tx *sql.Tx, group int64, g *record.Group) error {
	doc, err := groupDoc(g)
	if err != nil {
		return err
	}
	sd, df := noise(g)
	if _, err := tx.Exec(`UPDATE t_group SET verdict = ?, reason = ?, stopped = ?, noise_sd = ?, noise_df = ?, wall_end_ns = ?, resolved = ?, doc = ? WHERE key = ?`,
		g.Verdict, g.Reason, g.Stopped, sd, df, g.WallEndNS, g.Resolved, doc, group); err != nil {
		return err
	}
	for _, s := range g.Gates { // a gate whose function failed may have been mended since the group began
		if _, err := tx.Exec(`UPDATE t_gate SET params = ?, code = ? WHERE grp = ? AND name = ? AND code <> ?`, s.Params, s.Code, group, s.Name, s.Code); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(`DELETE FROM t_comparison WHERE grp = ?`, group); err != nil {
		return err
	}
	for i, c := range g.Comparisons {
		if err := keepComparison(tx, group, i, c, nil); err != nil {
			return err
		}
	}
	for i, c := range g.Steps {
		over, err := sideKey(tx, group, c.Control)
		if err != nil {
			return err
		}
		step := &stepOf{over: over}
		var names []string
		hashes := []string{}
		below := map[string]bool{}
		for _, label := range []string{c.Control, c.Side} {
			for _, s := range g.Sides {
				for _, l := range s.Stack {
					switch {
					case s.Label != label:
					case label == c.Control:
						below[l.Hash] = true
					case !below[l.Hash]:
						names, hashes = append(names, l.Name), append(hashes, l.Hash)
					}
				}
			}
		}
		step.added = strings.Join(names, "+")
		if step.addedKey, err = text(hashes); err != nil {
			return err
		}
		if err := keepComparison(tx, group, len(g.Comparisons)+i, c, step); err != nil {
			return err
		}
	}
	return nil
}

// stepOf says what a step stands over, and what it adds.
type stepOf struct {
	over            int64
	added, addedKey string
}

func sideKey(tx *sql.Tx, group int64, label string) (int64, error) {
	return key(tx, "side", `SELECT key FROM t_side WHERE grp = `+fmt.Sprint(group)+` AND label = ?`, label)
}

func keepComparison(tx *sql.Tx, group int64, position int, c record.Comparison, step *stepOf) error {
	side, err := sideKey(tx, group, c.Side)
	if err != nil {
		return err
	}
	e := c.Estimate
	args := []any{group, position, side, c.Case, c.Metric, c.Verdict, c.Reason, c.MedianControl, c.MedianSide, c.GainOfMediansPct, c.NControl, c.NSide, flag(c.Cost), flag(c.CostBroken)}
	if e == nil {
		args = append(args, "", nil, nil, nil, nil, nil, nil, nil, nil, nil, "", 0)
	} else {
		args = append(args, e.Method, e.Effect, e.SE, e.DF, e.Level, e.Low, e.High, e.Low90, e.High90, e.Blocks, e.Borrowed, flag(e.ValidAnytime))
	}
	if step == nil {
		args = append(args, nil, nil, nil)
	} else {
		args = append(args, step.over, step.added, step.addedKey)
	}
	_, err = tx.Exec(`INSERT INTO t_comparison (grp, position, side, case_name, metric, verdict, reason, median_control, median_side, gain_of_medians_pct,
		n_control, n_side, is_cost, cost_broken, method, effect, se, df, level, low, high, low90, high90, blocks, borrowed, valid_anytime, over, added, added_key)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, args...)
	return err
}

// noise is the standard deviation of the logarithm of the primary metric within sides, and its degrees of
// freedom; nil without two equal arms. It is computed here because the view must not need SQLite's
// optional mathematics.
func noise(g *record.Group) (sd, df any) {
	sides := map[string][]float64{}
	for _, a := range g.Arms {
		v := overall(a.Metrics, g.Primary)
		if a.Disposition == record.OK && a.Purpose == "measured" && v != nil && *v > 0 {
			sides[a.Label] = append(sides[a.Label], math.Log(*v))
		}
	}
	sum, n := 0.0, 0
	for _, logs := range sides {
		mean := 0.0
		for _, x := range logs {
			mean += x / float64(len(logs))
		}
		for _, x := range logs {
			sum += (x - mean) * (x - mean)
		}
		n += len(logs) - 1
	}
	if n < 1 {
		return nil, nil
	}
	return math.Sqrt(sum / float64(n)), n
}

// overall is the value of a metric for an arm as a whole: the one without a case, or that of its only
// case. Several cases have no single value.
func overall(ms []record.Metric, name string) *float64 {
	var out *float64
	for _, m := range ms {
		if m.Name != name {
			continue
		}
		if m.Case == "" {
			return m.Value
		}
		if out != nil {
			return nil
		}
		out = m.Value
	}
	return out
}

// Group gives a group with all its arms, without samples, logs and completion texts; nil when there is
// none of that id.
func (d *DB) Group(ctx context.Context, id string) (*record.Group, error) {
	gs, err := d.groups(ctx, true, `WHERE g.id = ?`, id)
	if err != nil || len(gs) == 0 {
		return nil, err
	}
	return gs[0], nil
}

// Groups gives a session's groups in order, with their arms but without requests.
func (d *DB) Groups(ctx context.Context, session string) ([]*record.Group, error) {
	return d.groups(ctx, false, `WHERE s.id = ? ORDER BY g.position, g.key`, session)
}

// Scope narrows Past, as run.Scope does. Empty fields match everything; hashes as in record.Group.
type Scope struct {
	Machine  string // record.Machine.ID
	Engine   string
	Workload string
	Model    string
	Role     string
	Lever    string // record.Lever.Hash, on any side but the control
	Session  string // only this session
	Measurer string // real or simulated: the two never mix
	Limit    int    // 0 is no limit
}

// Past gives finished groups of this and earlier sessions, newest first, without requests.
func (d *DB) Past(ctx context.Context, sc Scope) ([]*record.Group, error) {
	where := []string{`g.verdict <> ''`}
	var args []any
	for _, c := range []struct{ cond, value string }{
		{`m.id = ?`, sc.Machine}, {`g.engine_hash = ?`, sc.Engine}, {`g.workload_hash = ?`, sc.Workload}, {`g.model = ?`, sc.Model},
		{`g.role = ?`, sc.Role}, {`s.id = ?`, sc.Session}, {`s.measurer = ?`, sc.Measurer},
		{`EXISTS (SELECT 1 FROM t_side d JOIN t_side_lever e ON e.side = d.key JOIN t_lever l ON l.key = e.lever WHERE d.grp = g.key AND d.is_control = 0 AND l.hash = ?)`, sc.Lever},
	} {
		if c.value != "" {
			where, args = append(where, c.cond), append(args, c.value)
		}
	}
	limit := sc.Limit
	if limit <= 0 {
		limit = -1
	}
	return d.groups(ctx, false, `WHERE `+strings.Join(where, ` AND `)+` ORDER BY g.wall_end_ns DESC, g.key DESC LIMIT ?`, append(args, limit)...)
}

func (d *DB) groups(ctx context.Context, requests bool, where string, args ...any) ([]*record.Group, error) {
	gs, keys, err := d.groupRows(ctx, where, args...)
	if err != nil {
		return nil, d.fail("read groups", err)
	}
	for i, g := range gs {
		if g.Arms, err = d.arms(ctx, requests, `WHERE a.grp = ? ORDER BY a.seq, a.key`, keys[i]); err != nil {
			return nil, d.fail("read arms", err)
		}
	}
	return gs, nil
}

func (d *DB) groupRows(ctx context.Context, where string, args ...any) ([]*record.Group, []int64, error) {
	rows, err := d.reader.QueryContext(ctx, `SELECT g.key, g.doc FROM t_group g JOIN t_session s ON s.key = g.session JOIN t_machine m ON m.key = s.machine `+where, args...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []*record.Group
	var keys []int64
	for rows.Next() {
		var key int64
		var doc string
		if err := rows.Scan(&key, &doc); err != nil {
			return nil, nil, err
		}
		g := &record.Group{}
		if err := json.Unmarshal([]byte(doc), g); err != nil {
			return nil, nil, err
		}
		out, keys = append(out, g), append(keys, key)
	}
	return slices.Clip(out), keys, rows.Err()
}
