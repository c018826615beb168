package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// batch is a transaction that prepares each statement once: an arm has hundreds of metrics, and preparing
// the insert of each cost more than inserting it.
type batch struct {
	*sql.Tx
	prepared map[string]*sql.Stmt
}

func newBatch(tx *sql.Tx) *batch { return &batch{tx, map[string]*sql.Stmt{}} }

// Exec is Tx.Exec on a statement that is prepared at its first use and closed with the transaction.
func (b *batch) Exec(query string, args ...any) (sql.Result, error) {
	st, ok := b.prepared[query]
	if !ok {
		var err error
		if st, err = b.Prepare(query); err != nil {
			return nil, err
		}
		b.prepared[query] = st
	}
	return st.Exec(args...)
}

// EndArm keeps an arm with its requests, samples, texts and log in one transaction, before its after-gates
// are judged. When it returns, the arm is on disk.
func (d *DB) EndArm(ctx context.Context, a *record.Arm) error {
	rest := *a
	rest.Samples, rest.Summaries, rest.Group = nil, nil, nil
	what := "arm " + a.ID
	if err := finite(what, rest); err != nil {
		return err
	}
	if err := finiteSamples(what, a.Samples); err != nil {
		return err
	}
	if err := finite(what+" summaries", a.Summaries); err != nil {
		return err
	}
	rest.Requests, rest.Steps, rest.Metrics, rest.Evidence, rest.Findings = nil, nil, nil, nil, nil
	doc, err := text(rest)
	if err != nil {
		return err
	}
	return d.write(ctx, "record arm", true, func(t *sql.Tx) error {
		tx := newBatch(t)
		var group, side int64
		var primary string
		group, err := key(t, "group", `SELECT key FROM t_group WHERE id = ?`, a.GroupID)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(`SELECT metric FROM t_group WHERE key = ?`, group).Scan(&primary); err != nil {
			return err
		}
		if side, err = key(t, "side", `SELECT key FROM t_side WHERE grp = `+fmt.Sprint(group)+` AND label = ?`, a.Label); err != nil {
			return err
		}
		var log any
		if a.Process != nil {
			if log, err = keepBlob(t, a.Process.Log); err != nil {
				return err
			}
		}
		measured, ok := 0, 0
		for _, r := range a.Requests {
			if r.Mark == record.MarkMeasured {
				measured++
				if r.Status == "ok" {
					ok++
				}
			}
		}
		res, err := tx.Exec(`INSERT INTO t_arm (id, grp, side, label, block, slot, attempt, seq, purpose, disposition, reason, attached, wall_start_ns, mono_start_ns,
			mono_end_ns, overhead_ns, value, decode_tok_s, prefill_tok_s, ttft_ms, requests_ok, requests, log, doc) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			a.ID, group, side, a.Label, a.Block, a.Slot, a.Attempt, a.Seq, a.Purpose, a.Disposition, a.Reason, flag(a.Attached), a.WallStartNS, a.MonoStartNS,
			a.MonoEndNS, a.OverheadNS, overall(a.Metrics, primary), overall(a.Metrics, "decode_tok_s"), overall(a.Metrics, "prefill_tok_s"), overall(a.Metrics, "ttft_ms"),
			ok, measured, log, doc)
		if err != nil {
			return err
		}
		arm, err := res.LastInsertId()
		if err != nil {
			return err
		}
		for i := range a.Requests {
			if err := keepRequest(tx, arm, &a.Requests[i]); err != nil {
				return err
			}
		}
		if err := keepMetrics(tx, arm, nil, a.Metrics); err != nil {
			return err
		}
		if err := keepParts(tx, arm, a); err != nil {
			return err
		}
		if err := d.keepSamples(t, arm, a.Samples); err != nil {
			return err
		}
		return d.keepSummaries(tx, arm, a.Summaries)
	})
}

// keepParts keeps steps, evidence and findings.
func keepParts(tx *batch, arm int64, a *record.Arm) error {
	for i, s := range a.Steps {
		if _, err := tx.Exec(`INSERT INTO t_step (arm, position, name, start_ns, end_ns) VALUES (?,?,?,?,?)`, arm, i, s.Name, s.StartNS, s.EndNS); err != nil {
			return err
		}
	}
	for i, e := range a.Evidence {
		if _, err := tx.Exec(`INSERT INTO t_evidence (arm, position, lever, kind, what, at, found, observed, error) VALUES (?,?,?,?,?,?,?,?,?)`,
			arm, i, e.Lever, e.Kind, e.What, e.When, flag(e.Found), e.Observed, e.Error); err != nil {
			return err
		}
	}
	return keepFindings(tx, arm, a.Findings)
}

func keepFindings(tx *batch, arm int64, fs []record.Finding) error {
	for i, f := range fs {
		if _, err := tx.Exec(`INSERT INTO t_finding (arm, position, gate, phase, scope, outcome, observed, wanted, reason, required, error) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
			arm, i, f.Gate, f.Phase, f.Scope, f.Outcome, f.Observed, f.Limit, f.Reason, flag(f.Required), f.Error); err != nil {
			return err
		}
	}
	return nil
}

func keepRequest(tx *batch, arm int64, r *record.Request) error {
	rest := *r
	rest.ArrivalsUS, rest.Values = nil, nil
	doc, err := text(rest)
	if err != nil {
		return err
	}
	var arrivals any
	if r.ArrivalsUS != nil {
		if arrivals, err = text(r.ArrivalsUS); err != nil {
			return err
		}
	}
	body, err := keepBlob(tx.Tx, r.Text)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO t_request (arm, idx, case_name, repeat, mark, status, scheduled_ns, sent_ns, headers_ns, first_byte_ns, first_choice_ns, first_reasoning_ns,
		first_content_ns, last_content_ns, usage_ns, done_ns, close_ns, frames, content_frames, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens,
		ttft_ms, decode_tok_s, server_decode_tok_s, text_sha256, text, arrivals_us, doc) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		arm, r.Index, r.Case, r.Repeat, r.Mark, r.Status, r.ScheduledNS, r.SentNS, r.HeadersNS, r.FirstByteNS, r.FirstChoiceNS, r.FirstReasoningNS,
		r.FirstContentNS, r.LastContentNS, r.UsageNS, r.DoneNS, r.CloseNS, r.Frames, r.ContentFrames, r.PromptTokens, r.CompletionTokens, r.CachedTokens, r.ReasoningTokens,
		overall(r.Values, "ttft_ms"), overall(r.Values, "decode_tok_s"), r.ServerDecodeTokS, r.TextSHA, body, arrivals, doc); err != nil {
		return err
	}
	return keepMetrics(tx, arm, r.Index, r.Values)
}

func keepMetrics(tx *batch, arm int64, request any, ms []record.Metric) error {
	for i, m := range ms {
		if _, err := tx.Exec(`INSERT INTO t_metric (arm, request, position, name, case_name, unit, better, source, rule, value, withheld, why, n, coverage) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			arm, request, i, m.Name, m.Case, m.Unit, m.Better, m.Source, m.Rule, m.Value, m.Withheld, m.Why, m.N, m.Coverage); err != nil {
			return err
		}
	}
	return nil
}

// JudgeArm keeps what was found about a kept arm: its disposition, reason and findings. What the arm
// measured stays as EndArm kept it.
func (d *DB) JudgeArm(ctx context.Context, a *record.Arm) error {
	return d.write(ctx, "record findings", true, func(tx *sql.Tx) error {
		k, err := key(tx, "arm", `SELECT key FROM t_arm WHERE id = ?`, a.ID)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE t_arm SET disposition = ?, reason = ?, judged = 1 WHERE key = ?`, a.Disposition, a.Reason, k); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM t_finding WHERE arm = ?`, k); err != nil {
			return err
		}
		return keepFindings(newBatch(tx), k, a.Findings)
	})
}

// Arm gives one arm, without samples, log and completion texts.
func (d *DB) Arm(ctx context.Context, id string) (*record.Arm, error) {
	as, err := d.arms(ctx, true, `WHERE a.id = ?`, id)
	if err != nil {
		return nil, d.fail("read arm", err)
	}
	if len(as) == 0 {
		return nil, &diag.Error{Kind: diag.Workflow, Op: "read arm", Msg: fmt.Sprintf("there is no arm %q in %s", id, d.path), Fix: "flow show last"}
	}
	return as[0], nil
}

func (d *DB) arms(ctx context.Context, requests bool, where string, arg any) ([]*record.Arm, error) {
	out, keys, err := d.armRows(ctx, where, arg)
	if err != nil {
		return nil, err
	}
	for i, a := range out {
		if requests {
			if err := d.readRequests(ctx, keys[i], a); err != nil {
				return nil, err
			}
		}
		if err := d.readMetrics(ctx, keys[i], a); err != nil {
			return nil, err
		}
		if err := d.readParts(ctx, keys[i], a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *DB) armRows(ctx context.Context, where string, arg any) (out []*record.Arm, keys []int64, err error) {
	err = d.each(ctx, func(scan func(...any) error) error {
		var key int64
		var doc string
		a := &record.Arm{}
		var disposition, reason string
		if err := scan(&key, &doc, &disposition, &reason); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(doc), a); err != nil {
			return err
		}
		a.Disposition, a.Reason = disposition, reason
		out, keys = append(out, a), append(keys, key)
		return nil
	}, `SELECT a.key, a.doc, a.disposition, a.reason FROM t_arm a `+where, arg)
	return out, keys, err
}

// each calls row for every row of a query.
func (d *DB) each(ctx context.Context, row func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := d.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (d *DB) readRequests(ctx context.Context, arm int64, a *record.Arm) error {
	return d.each(ctx, func(scan func(...any) error) error {
		var doc string
		var arrivals sql.NullString
		var r record.Request
		if err := scan(&doc, &arrivals); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(doc), &r); err != nil {
			return err
		}
		if arrivals.Valid {
			if err := json.Unmarshal([]byte(arrivals.String), &r.ArrivalsUS); err != nil {
				return err
			}
		}
		a.Requests = append(a.Requests, r)
		return nil
	}, `SELECT doc, arrivals_us FROM t_request WHERE arm = ? ORDER BY idx`, arm)
}

func (d *DB) readMetrics(ctx context.Context, arm int64, a *record.Arm) error {
	at := map[int64]int{}
	for i, r := range a.Requests {
		at[int64(r.Index)] = i
	}
	where := ` AND request IS NULL`
	if len(a.Requests) > 0 {
		where = ``
	}
	return d.each(ctx, func(scan func(...any) error) error {
		var request sql.NullInt64
		var m record.Metric
		if err := scan(&request, &m.Name, &m.Case, &m.Unit, &m.Better, &m.Source, &m.Rule, &m.Value, &m.Withheld, &m.Why, &m.N, &m.Coverage); err != nil {
			return err
		}
		if !request.Valid {
			a.Metrics = append(a.Metrics, m)
		} else if i, ok := at[request.Int64]; ok {
			a.Requests[i].Values = append(a.Requests[i].Values, m)
		}
		return nil
	}, `SELECT request, name, case_name, unit, better, source, rule, value, withheld, why, n, coverage FROM t_metric WHERE arm = ?`+where+` ORDER BY request, position`, arm)
}

func (d *DB) readParts(ctx context.Context, arm int64, a *record.Arm) error {
	if err := d.each(ctx, func(scan func(...any) error) error {
		var s record.Step
		err := scan(&s.Name, &s.StartNS, &s.EndNS)
		a.Steps = append(a.Steps, s)
		return err
	}, `SELECT name, start_ns, end_ns FROM t_step WHERE arm = ? ORDER BY position`, arm); err != nil {
		return err
	}
	if err := d.each(ctx, func(scan func(...any) error) error {
		var e record.Evidence
		err := scan(&e.Lever, &e.Kind, &e.What, &e.When, &e.Found, &e.Observed, &e.Error)
		a.Evidence = append(a.Evidence, e)
		return err
	}, `SELECT lever, kind, what, at, found, observed, error FROM t_evidence WHERE arm = ? ORDER BY position`, arm); err != nil {
		return err
	}
	return d.each(ctx, func(scan func(...any) error) error {
		var f record.Finding
		err := scan(&f.Gate, &f.Phase, &f.Scope, &f.Outcome, &f.Observed, &f.Limit, &f.Reason, &f.Required, &f.Error)
		a.Findings = append(a.Findings, f)
		return err
	}, `SELECT gate, phase, scope, outcome, observed, wanted, reason, required, error FROM t_finding WHERE arm = ? ORDER BY position`, arm)
}
