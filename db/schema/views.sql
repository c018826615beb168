-- The public interface: what SQL may rely on. A column of these views is never renamed or removed within
-- one version of flow_schema; new ones may come. Plain functions only, so that every SQLite reads them.
--
-- Throughout: *_pct is percent, *_ms milliseconds, *_ns nanoseconds, *_tok_s tokens per second. NULL is
-- "not measured", never 0. 1 is true and 0 is false. started and ended are UTC. Ids are text and join:
-- session_id, group_id, arm_id.

-- flow_schema: the version of the views, and of the tables below them.
CREATE VIEW flow_schema AS SELECT 1 AS version, 2 AS tables_version;

-- sessions: one execution of a workflow on one machine, with what its groups came to.
CREATE VIEW sessions AS
SELECT s.id, s.workflow, s.status, s.exit, nullif(s.error, '') AS error,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.wall_start_ns / 1e9, 'unixepoch') AS started,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.wall_end_ns / 1e9, 'unixepoch') AS ended,
  (s.wall_end_ns - s.wall_start_ns) / 1e9 AS duration_s,
  m.id AS machine_id, m.host AS machine,
  json_extract(m.facts, '$.cpu_model') AS cpu, json_extract(m.facts, '$.gpu0') AS gpu, json_extract(m.facts, '$.kernel') AS kernel,
  s.measurer, nullif(s.simulate, '') AS simulate, s.seed,
  (SELECT json_group_object(p.key, CASE WHEN json_valid(p.value) THEN json(p.value) ELSE p.value END) FROM json_each(s.params) p) AS params, s.flow_version, s.dialect, s.resumed, s.imported,
  (SELECT count(*) FROM t_group g WHERE g.session = s.key) AS groups,
  (SELECT count(*) FROM t_group g JOIN t_arm a ON a.grp = g.key WHERE g.session = s.key) AS arms,
  (SELECT count(*) FROM t_group g JOIN t_arm a ON a.grp = g.key WHERE g.session = s.key AND a.disposition = 'ok') AS arms_ok,
  (SELECT count(*) FROM t_group g WHERE g.session = s.key AND g.verdict = 'better') AS better,
  (SELECT count(*) FROM t_group g WHERE g.session = s.key AND g.verdict = 'worse') AS worse,
  (SELECT count(*) FROM t_group g WHERE g.session = s.key AND g.verdict = 'equivalent') AS equivalent,
  (SELECT count(*) FROM t_group g WHERE g.session = s.key AND g.verdict = 'inconclusive') AS inconclusive,
  (SELECT count(*) FROM t_group g WHERE g.session = s.key AND g.verdict = 'invalid') AS invalid,
  (SELECT count(*) FROM t_group g WHERE g.session = s.key AND g.verdict = 'infeasible') AS infeasible,
  s.wall_start_ns, s.wall_end_ns, s.mono_start_ns,
  s.offset_end_ns - s.offset_start_ns AS clock_step_ns
FROM t_session s JOIN t_machine m ON m.key = s.machine;

-- groups: one experiment. effect_pct and its interval are those of the first comparison on the primary
-- metric; all of them are in gains. lever is what the first side has and the control has not.
CREATE VIEW groups AS
SELECT g.id, s.id AS session_id, g.position, g.name, g.role, g.arm_order, g.engine,
  (SELECT d.added FROM t_side d WHERE d.grp = g.key AND d.is_control = 0 ORDER BY d.position LIMIT 1) AS lever,
  (SELECT d.stack FROM t_side d WHERE d.grp = g.key AND d.is_control = 1) AS base,
  nullif(g.verdict, '') AS verdict, nullif(g.reason, '') AS reason, nullif(g.stopped, '') AS stopped,
  g.metric, g.better, 100 * g.min_effect AS min_effect_pct,
  100 * c.effect AS effect_pct, 100 * c.low AS low_pct, 100 * c.high AS high_pct, c.level,
  c.median_control, c.median_side, c.gain_of_medians_pct, c.n_control, c.n_side, c.blocks,
  (SELECT count(*) FROM t_arm a WHERE a.grp = g.key) AS arms,
  (SELECT count(*) FROM t_arm a WHERE a.grp = g.key AND a.disposition = 'ok' AND a.purpose = 'measured') AS arms_ok,
  m.id AS machine_id, m.host AS machine, s.measurer,
  g.engine_hash, g.workload_hash, nullif(g.model, '') AS model_sha256, g.declared, g.resolved, nullif(g.place, '') AS place,
  strftime('%Y-%m-%dT%H:%M:%fZ', g.wall_start_ns / 1e9, 'unixepoch') AS started,
  strftime('%Y-%m-%dT%H:%M:%fZ', g.wall_end_ns / 1e9, 'unixepoch') AS ended,
  (g.wall_end_ns - g.wall_start_ns) / 1e9 AS duration_s
FROM t_group g JOIN t_session s ON s.key = g.session JOIN t_machine m ON m.key = s.machine
LEFT JOIN t_comparison c ON c.grp = g.key
  AND c.position = (SELECT min(x.position) FROM t_comparison x WHERE x.grp = g.key AND x.is_cost = 0);

-- arms: one execution of one side, every attempt. value is the group's primary metric. Only arms with
-- disposition ok and purpose measured count in a verdict.
CREATE VIEW arms AS
SELECT a.id, s.id AS session_id, g.id AS group_id, g.name AS group_name, g.role, a.label, d.is_control, d.engine,
  d.stack, d.added AS lever, a.seq, a.block, a.slot, a.attempt, a.purpose, a.disposition, nullif(a.reason, '') AS reason,
  g.metric, a.value, a.decode_tok_s, a.prefill_tok_s, a.ttft_ms, a.requests, a.requests_ok,
  strftime('%Y-%m-%dT%H:%M:%fZ', a.wall_start_ns / 1e9, 'unixepoch') AS started,
  (a.mono_end_ns - a.mono_start_ns) / 1e9 AS duration_s, a.overhead_ns / 1e6 AS overhead_ms,
  (json_extract(a.doc, '$.process.ready_ns') - json_extract(a.doc, '$.process.launch_ns')) / 1e6 AS ready_ms,
  json_extract(a.doc, '$.process.pid') AS pid, json_extract(a.doc, '$.process.exit_code') AS exit_code,
  nullif(json_extract(a.doc, '$.process.signal'), '') AS signal, json_extract(a.doc, '$.process.version') AS engine_version,
  json_extract(a.doc, '$.process.binary_sha256') AS binary_sha256, json_extract(a.doc, '$.process.argv') AS argv,
  nullif(g.model, '') AS model_sha256, m.id AS machine_id, m.host AS machine, s.measurer, a.attached,
  CASE WHEN s.measurer = 'real' AND s.imported = 0 THEN coalesce(json_extract(a.doc, '$.neighbours'), '[]') END AS neighbours,
  a.wall_start_ns, a.mono_start_ns, a.mono_end_ns
FROM t_arm a JOIN t_group g ON g.key = a.grp JOIN t_side d ON d.key = a.side
JOIN t_session s ON s.key = g.session JOIN t_machine m ON m.key = s.machine;

-- requests: one generation inside an arm, warm ones included (mark). All *_ns are monotonic.
-- arrivals_us is JSON: microseconds since sent for the first frame, then the deltas.
CREATE VIEW requests AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, a.disposition, r.idx, r.case_name, r.repeat, r.mark, r.status,
  json_extract(r.doc, '$.error') AS error, json_extract(r.doc, '$.error_kind') AS error_kind, json_extract(r.doc, '$.http_status') AS http_status,
  r.ttft_ms, r.decode_tok_s, r.server_decode_tok_s, (r.last_content_ns - r.sent_ns) / 1e6 AS generation_ms,
  r.prompt_tokens, r.completion_tokens, r.cached_tokens, r.reasoning_tokens, r.frames, r.content_frames,
  json_extract(r.doc, '$.finish_reason') AS finish_reason, json_extract(r.doc, '$.stamp_source') AS stamp_source,
  json_extract(r.doc, '$.prompt_sha256') AS prompt_sha256, nullif(r.text_sha256, '') AS text_sha256,
  r.scheduled_ns, r.sent_ns, r.headers_ns, r.first_byte_ns, r.first_choice_ns, r.first_reasoning_ns, r.first_content_ns,
  r.last_content_ns, r.usage_ns, r.done_ns, r.close_ns, r.arrivals_us,
  json_extract(r.doc, '$.usage') AS usage, json_extract(r.doc, '$.timings') AS timings
FROM t_request r JOIN t_arm a ON a.key = r.arm JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;

-- metrics: every metric of every arm, and of every request (request is its idx, NULL for the arm's own).
-- withheld is the value that its sources do not support; why says why value is NULL.
CREATE VIEW metrics AS
SELECT s.id AS session_id, g.id AS group_id, g.name AS group_name, a.id AS arm_id, a.label, d.is_control, a.disposition, a.purpose,
  x.request, x.name, x.case_name, x.value, x.unit, nullif(x.better, '') AS better, x.source, nullif(x.rule, '') AS rule,
  x.withheld, nullif(x.why, '') AS why, x.n, x.coverage
FROM t_metric x JOIN t_arm a ON a.key = x.arm JOIN t_side d ON d.key = a.side
JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;

-- summaries: every sensor of every arm, without looking at its samples. change is last - first: for a
-- counter it is what happened during the arm.
CREATE VIEW summaries AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, a.disposition, n.name AS sensor, nullif(n.unit, '') AS unit, n.counter,
  u.n, u.mean, u.min, u.max, u.first, u.last, u.last - u.first AS change
FROM t_summary u JOIN t_sensor n ON n.key = u.sensor JOIN t_arm a ON a.key = u.arm
JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;

-- phase_summaries: what each sensor did in the measured steps of an arm (measure), and while a measured request
-- was in its prefill or decode. growth is the largest less the first, rise the largest less the last before the
-- engine was launched, diff that of a counter between the edges. why says what is NULL for want of samples.
CREATE VIEW phase_summaries AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, a.disposition, n.name AS sensor, nullif(n.unit, '') AS unit, n.counter, p.phase,
  p.n, p.coverage, p.mean, p.min, p.max, p.p05, p.p50, p.p95, p.p99, p.growth, p.rise, p.diff, nullif(p.why, '') AS why
FROM t_phase p JOIN t_sensor n ON n.key = p.sensor JOIN t_arm a ON a.key = p.arm
JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;

-- samples: what sensors said over time. Ask for an arm_id, and a sensor where it is known; t_s counts from
-- the arm's start.
CREATE VIEW samples AS
SELECT s.id AS session_id, a.id AS arm_id, n.name AS sensor, nullif(n.unit, '') AS unit,
  x.mono_ns, (x.mono_ns - a.mono_start_ns) / 1e9 AS t_s, x.mono_ns + s.offset_start_ns AS wall_ns, x.value
FROM t_summary u JOIN t_arm a ON a.key = u.arm JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session
JOIN t_sensor n ON n.key = u.sensor
CROSS JOIN t_sample x ON x.key BETWEEN u.key_first AND u.key_last;

-- gates: what every gate and guard found on every arm, with the thresholds in force.
CREATE VIEW gates AS
SELECT s.id AS session_id, g.id AS group_id, g.name AS group_name, a.id AS arm_id, a.label, a.seq, f.gate, coalesce(t.kind, 'gate') AS kind,
  f.phase, CASE f.scope WHEN '' THEN 'arm' ELSE f.scope END AS scope, f.required, f.outcome,
  nullif(f.observed, '') AS observed, nullif(f.wanted, '') AS wanted, nullif(f.reason, '') AS reason, nullif(f.error, '') AS error,
  nullif(t.params, '') AS params, nullif(t.code, '') AS code, a.disposition
FROM t_finding f JOIN t_arm a ON a.key = f.arm JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session
LEFT JOIN t_gate t ON t.grp = g.key AND t.name = f.gate;

-- evidence: what was read to prove that a lever took effect. On the control found must be 0.
CREATE VIEW evidence AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, d.is_control, e.lever, e.kind, e.what, e.at, e.found,
  nullif(e.observed, '') AS observed, nullif(e.error, '') AS error
FROM t_evidence e JOIN t_arm a ON a.key = e.arm JOIN t_side d ON d.key = a.side
JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;

-- steps: the spans of an arm: settle, launch, ready, confirm, warm, measure, stop.
CREATE VIEW steps AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, p.position, p.name, p.start_ns, p.end_ns,
  (p.end_ns - p.start_ns) / 1e6 AS duration_ms
FROM t_step p JOIN t_arm a ON a.key = p.arm JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;

-- pairs: a control arm and the arm beside it in the same block, on the primary metric. Drift is still in
-- a single pair: the quad's estimate takes it out.
CREATE VIEW pairs AS
SELECT s.id AS session_id, g.id AS group_id, g.name AS group_name, b.block, b.attempt, b.slot / 2 AS pair, db.label, db.added AS lever, g.metric,
  a.id AS control_arm_id, b.id AS side_arm_id, a.value AS control_value, b.value AS side_value,
  b.value - a.value AS delta, 100 * (b.value / a.value - 1) AS delta_pct,
  a.slot < b.slot AS control_first
FROM t_arm b JOIN t_side db ON db.key = b.side AND db.is_control = 0
JOIN t_arm a ON a.grp = b.grp AND a.block = b.block AND a.attempt = b.attempt AND a.slot / 2 = b.slot / 2 AND a.purpose = 'measured' AND a.disposition = 'ok'
JOIN t_side da ON da.key = a.side AND da.is_control = 1
JOIN t_group g ON g.key = b.grp JOIN t_session s ON s.key = g.session
WHERE b.purpose = 'measured' AND b.disposition = 'ok' AND b.block >= 0;

-- gains: one row for each finished comparison of a side with its control: the history of levers. lever is
-- what the side has and the control has not (lever_hash when that is one lever), base what the control
-- has. A rung of a ladder that adds up has a second row: against the rung before it, which is named by step_over.
-- is_cost marks secondary metrics. Imported and simulated sessions are in it: see measurer and
-- imported.
CREATE VIEW gains AS
SELECT coalesce(c.added, d.added) AS lever,
  CASE WHEN json_array_length(coalesce(c.added_key, d.added_key)) = 1 THEN json_extract(coalesce(c.added_key, d.added_key), '$[0]') END AS lever_hash,
  coalesce(c.added_key, d.added_key) AS lever_hashes,
  g.verdict AS group_verdict, nullif(c.verdict, '') AS verdict, coalesce(nullif(c.reason, ''), nullif(g.reason, '')) AS reason,
  c.metric, nullif(c.case_name, '') AS case_name, c.is_cost, c.cost_broken,
  100 * c.effect AS effect_pct, 100 * c.low AS low_pct, 100 * c.high AS high_pct, c.level, 100 * c.low90 AS low90_pct, 100 * c.high90 AS high90_pct,
  c.se AS se_log, c.df, c.method, c.blocks, nullif(c.borrowed, '') AS borrowed, c.valid_anytime,
  c.median_control, c.median_side, c.gain_of_medians_pct, c.n_control, c.n_side,
  k.stack AS base, k.stack_key AS base_hashes, d.label, g.control, CASE WHEN c.over IS NOT NULL THEN k.label END AS step_over,
  s.id AS session_id, g.id AS group_id, g.name AS group_name, g.role, g.engine, g.engine_hash, g.workload_hash, nullif(g.model, '') AS model_sha256,
  m.id AS machine_id, m.host AS machine, s.measurer, s.imported, s.workflow,
  strftime('%Y-%m-%dT%H:%M:%fZ', g.wall_end_ns / 1e9, 'unixepoch') AS ended, g.wall_end_ns
FROM t_comparison c JOIN t_side d ON d.key = c.side JOIN t_group g ON g.key = c.grp
JOIN t_side k ON k.grp = g.key AND CASE WHEN c.over IS NULL THEN k.is_control = 1 ELSE k.key = c.over END
JOIN t_session s ON s.key = g.session JOIN t_machine m ON m.key = s.machine
WHERE g.verdict <> '';

-- warnings: what a group's judgement warned of, in order: what its design cannot show, blocks that were left
-- out, arms in two clusters, likely causes. kind is the words before the first colon.
CREATE VIEW warnings AS
SELECT s.id AS session_id, g.id AS group_id, g.name AS group_name, w.key AS position,
  CASE instr(w.value, ':') WHEN 0 THEN w.value ELSE substr(w.value, 1, instr(w.value, ':') - 1) END AS kind, w.value AS text
FROM t_group g JOIN t_session s ON s.key = g.session, json_each(g.doc, '$.warnings') w;

-- levers: every lever that was ever on a side, and how its own comparisons ended on real engines: those of sides
-- that add it alone. Where a group judges several sides (a ladder, shared controls, a factorial design) each lever
-- has its own side's verdict, joined over the cases by the workload's rule. A stack's verdict is no lever's, and
-- simulated and recorded sessions are not counted: see gains.
CREATE VIEW levers AS
WITH side_verdict AS MATERIALIZED (
  SELECT side, over IS NOT NULL AS is_step, min(verdict) AS low, max(verdict) AS high, max(verdict = 'invalid') AS bad, max(verdict = 'worse') AS loses,
    max(verdict = 'inconclusive') AS open, max(verdict = 'equivalent') AS same
  FROM t_comparison WHERE is_cost = 0 GROUP BY side, over IS NOT NULL
),
alone (lever, grp, side, is_step) AS MATERIALIZED (
  SELECT e.lever, d.grp, d.key, 0 FROM t_side_lever e JOIN t_side d ON d.key = e.side AND json_array_length(d.added_key) = 1 WHERE e.is_added
  UNION
  SELECT l.key, c.grp, c.side, 1 FROM t_comparison c JOIN t_lever l ON l.hash = json_extract(c.added_key, '$[0]')
  WHERE c.over IS NOT NULL AND json_array_length(c.added_key) = 1
),
own AS MATERIALIZED (
  SELECT a.lever, g.key AS grp, CASE
      WHEN g.verdict IN ('', 'invalid', 'infeasible') THEN g.verdict
      WHEN (SELECT count(*) FROM t_side x WHERE x.grp = g.key) = 2 THEN g.verdict
      WHEN v.low = v.high THEN v.low
      WHEN v.bad THEN 'invalid'
      WHEN v.loses AND coalesce(json_extract(g.doc, '$.case_rule'), '') <> 'each' THEN 'worse'
      WHEN json_extract(g.doc, '$.case_rule') = 'worst' AND NOT v.open AND v.same THEN 'equivalent'
      WHEN v.side IS NOT NULL THEN 'inconclusive'
    END AS verdict
  FROM alone a JOIN t_group g ON g.key = a.grp
  JOIN t_session s ON s.key = g.session AND s.measurer = 'real'
  LEFT JOIN side_verdict v ON v.side = a.side AND v.is_step = a.is_step
),
ended AS MATERIALIZED (
  SELECT lever, count(DISTINCT CASE verdict WHEN 'better' THEN grp END) AS better, count(DISTINCT CASE verdict WHEN 'worse' THEN grp END) AS worse,
    count(DISTINCT CASE verdict WHEN 'equivalent' THEN grp END) AS equivalent, count(DISTINCT CASE verdict WHEN 'inconclusive' THEN grp END) AS inconclusive,
    count(DISTINCT CASE WHEN verdict IN ('invalid', 'infeasible') THEN grp END) AS not_valid
  FROM own GROUP BY lever
)
SELECT l.name, l.hash AS lever_hash, nullif(l.factor, '') AS factor, l.change, l.changes_output, nullif(l.unconfirmed, '') AS unconfirmed,
  count(DISTINCT g.session) AS sessions, count(DISTINCT g.key) AS groups,
  coalesce(o.better, 0) AS better, coalesce(o.worse, 0) AS worse, coalesce(o.equivalent, 0) AS equivalent,
  coalesce(o.inconclusive, 0) AS inconclusive, coalesce(o.not_valid, 0) AS not_valid,
  strftime('%Y-%m-%dT%H:%M:%fZ', min(g.wall_start_ns) / 1e9, 'unixepoch') AS first_seen,
  strftime('%Y-%m-%dT%H:%M:%fZ', max(g.wall_start_ns) / 1e9, 'unixepoch') AS last_seen
FROM t_lever l LEFT JOIN t_side_lever e ON e.lever = l.key LEFT JOIN t_side d ON d.key = e.side
LEFT JOIN t_group g ON g.key = d.grp AND EXISTS (SELECT 1 FROM t_session s WHERE s.key = g.session AND s.measurer = 'real')
LEFT JOIN ended o ON o.lever = l.key
GROUP BY l.key;

-- champions: for each machine, engine, model and workload the best stack that a real session qualified. A
-- qualification whose control is itself a qualified stack stands on top of it: total_pct is the gain over the
-- engine without levers, effect_pct what this qualification measured.
CREATE VIEW champions AS
WITH RECURSIVE
-- The newest qualification of each step from a base to a stack.
step AS MATERIALIZED (
  SELECT * FROM (
    SELECT m.id || ' ' || s.measurer || ' ' || g.engine_hash || ' ' || g.workload_hash || ' ' || g.model || ' ' || g.metric AS scope,
      g.key AS grp, d.key AS side, d.stack, d.stack_key, k.stack_key AS base_key, c.effect, c.low, c.high, g.wall_end_ns,
      CASE g.better WHEN 'lower' THEN -1 ELSE 1 END AS sense,
      row_number() OVER (PARTITION BY m.id, s.measurer, g.engine_hash, g.workload_hash, g.model, g.metric, k.stack_key, d.stack_key ORDER BY g.wall_end_ns DESC, c.position) AS nth
    FROM t_group g JOIN t_session s ON s.key = g.session JOIN t_machine m ON m.key = s.machine
    JOIN t_side d ON d.grp = g.key AND d.is_control = 0
    JOIN t_side k ON k.grp = g.key AND k.is_control = 1
    JOIN t_comparison c ON c.grp = g.key AND c.side = d.key AND c.is_cost = 0 AND c.over IS NULL AND c.metric = g.metric
    WHERE s.measurer = 'real' AND g.role = 'qualification' AND g.verdict = 'better' AND c.effect IS NOT NULL)
  WHERE nth = 1
),
chain (scope, grp, side, stack, stack_key, effect, low, high, wall_end_ns, sense, total, path) AS (
  SELECT q.scope, q.grp, q.side, q.stack, q.stack_key, q.effect, q.low, q.high, q.wall_end_ns, q.sense, 1 + q.effect, '/' || q.grp || '/'
  FROM step q LEFT JOIN step b ON b.scope = q.scope AND b.stack_key = q.base_key AND q.base_key <> '[]'
  WHERE b.grp IS NULL
  UNION ALL
  SELECT q.scope, q.grp, q.side, q.stack, q.stack_key, q.effect, q.low, q.high, q.wall_end_ns, q.sense, c.total * (1 + q.effect), c.path || q.grp || '/'
  FROM chain c JOIN step q ON q.scope = c.scope AND q.base_key = c.stack_key
  WHERE instr(c.path, '/' || q.grp || '/') = 0 AND length(c.path) < 200 -- a step once; steps in a circle contradict each other
),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY scope ORDER BY sense * total DESC, wall_end_ns DESC) AS nth FROM chain
)
SELECT m.id AS machine_id, m.host AS machine, g.engine, g.engine_hash, nullif(g.model, '') AS model_sha256, g.workload_hash, s.measurer,
  r.stack, r.stack_key AS lever_hashes,
  (SELECT json_group_array(json(l.declared)) FROM (SELECT v.declared FROM t_side_lever e JOIN t_lever v ON v.key = e.lever WHERE e.side = r.side ORDER BY e.position) l) AS levers,
  g.metric, 100 * (r.total - 1) AS total_pct, 100 * r.effect AS effect_pct, 100 * r.low AS low_pct, 100 * r.high AS high_pct,
  s.id AS session_id, g.id AS group_id, strftime('%Y-%m-%dT%H:%M:%fZ', r.wall_end_ns / 1e9, 'unixepoch') AS ended
FROM ranked r JOIN t_group g ON g.key = r.grp JOIN t_session s ON s.key = g.session JOIN t_machine m ON m.key = s.machine
WHERE r.nth = 1;

-- noise: how much equal arms of a finished group differed: the standard deviation of the logarithm of the
-- primary metric within its sides, in percent, with its degrees of freedom. Drift is in it.
CREATE VIEW noise AS
SELECT m.id AS machine_id, m.host AS machine, g.engine, g.engine_hash, g.workload_hash, nullif(g.model, '') AS model_sha256, s.measurer,
  g.role, g.metric, 100 * g.noise_sd AS sd_pct, g.noise_df AS df, g.verdict, s.id AS session_id, g.id AS group_id, g.name AS group_name,
  strftime('%Y-%m-%dT%H:%M:%fZ', g.wall_end_ns / 1e9, 'unixepoch') AS ended
FROM t_group g JOIN t_session s ON s.key = g.session JOIN t_machine m ON m.key = s.machine
WHERE g.noise_sd IS NOT NULL AND g.verdict NOT IN ('', 'invalid', 'infeasible');

-- events: what went on, for people.
CREATE VIEW events AS
SELECT s.id AS session_id, strftime('%Y-%m-%dT%H:%M:%fZ', e.wall_ns / 1e9, 'unixepoch') AS at, e.kind, nullif(e.grp, '') AS group_name,
  nullif(e.group_id, '') AS group_id, nullif(e.arm, '') AS arm, nullif(e.text, '') AS text
FROM t_event e JOIN t_session s ON s.key = e.session;

-- amendments: later judgements, redactions and cuts, beside the facts.
CREATE VIEW amendments AS
SELECT subject, id, strftime('%Y-%m-%dT%H:%M:%fZ', wall_ns / 1e9, 'unixepoch') AS at, kind, text, detail FROM t_amendment;
