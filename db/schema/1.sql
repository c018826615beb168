-- The facts of flow, version 1. Tables are private: read the views. Every table is STRICT, times are
-- integer nanoseconds, ids are UUIDv7 text so that files from many machines merge, and NULL means
-- "not measured". The integer keys are of this file only.
--
-- doc columns hold the rest of a record as JSON, so that a fact that got no column is still kept.

CREATE TABLE t_machine (
  key   INTEGER PRIMARY KEY,
  id    TEXT NOT NULL,             -- hash of stable fields
  host  TEXT NOT NULL,
  facts TEXT NOT NULL,             -- JSON object
  UNIQUE (id, host, facts)
) STRICT;

CREATE TABLE t_session (
  key             INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  workflow        TEXT NOT NULL,
  status          TEXT NOT NULL,   -- running, done, stopped, failed
  exit            INTEGER,
  error           TEXT NOT NULL DEFAULT '',
  seed            TEXT NOT NULL,   -- unsigned 64 bits do not fit an SQLite integer
  params          TEXT NOT NULL,   -- JSON object
  measurer        TEXT NOT NULL,
  simulate        TEXT NOT NULL,
  machine         INTEGER NOT NULL REFERENCES t_machine (key),
  flow_version    TEXT NOT NULL,
  dialect         TEXT NOT NULL,
  wall_start_ns   INTEGER NOT NULL,
  wall_end_ns     INTEGER,
  mono_start_ns   INTEGER NOT NULL,
  offset_start_ns INTEGER NOT NULL, -- wall minus monotonic
  offset_end_ns   INTEGER,
  resumed         INTEGER NOT NULL,
  imported        INTEGER NOT NULL,
  doc             TEXT NOT NULL
) STRICT;
CREATE INDEX t_session_start ON t_session (wall_start_ns);

-- A file's text is stored once, however many sessions it was part of.
CREATE TABLE t_source (
  key    INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL,
  text   TEXT,                     -- NULL: known by its digest only
  UNIQUE (sha256)
) STRICT;
CREATE TABLE t_session_source (
  session  INTEGER NOT NULL REFERENCES t_session (key),
  position INTEGER NOT NULL,
  label    TEXT NOT NULL,
  source   INTEGER NOT NULL REFERENCES t_source (key),
  verbatim INTEGER NOT NULL,       -- whether this session kept the text
  PRIMARY KEY (session, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE t_lever (
  key            INTEGER PRIMARY KEY,
  hash           TEXT NOT NULL UNIQUE, -- of name and effective change
  name           TEXT NOT NULL,
  factor         TEXT NOT NULL,
  change         TEXT NOT NULL,    -- JSON
  changes_output INTEGER NOT NULL,
  unconfirmed    TEXT NOT NULL,
  declared       TEXT NOT NULL     -- JSON, as first seen
) STRICT;
CREATE INDEX t_lever_name ON t_lever (name);

CREATE TABLE t_group (
  key           INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  session       INTEGER NOT NULL REFERENCES t_session (key),
  position      INTEGER NOT NULL,
  name          TEXT NOT NULL,
  role          TEXT NOT NULL,
  arm_order     TEXT NOT NULL,
  control       TEXT NOT NULL,     -- label
  metric        TEXT NOT NULL,     -- the primary one
  better        TEXT NOT NULL,     -- higher or lower
  min_effect    REAL NOT NULL,
  cap           INTEGER NOT NULL,
  declared      TEXT NOT NULL,
  resolved      TEXT NOT NULL,
  engine        TEXT NOT NULL,     -- name of the control's engine
  engine_hash   TEXT NOT NULL,
  workload_hash TEXT NOT NULL,
  model         TEXT NOT NULL,     -- SHA-256, '' when none is named
  place         TEXT NOT NULL,     -- where the user made it
  verdict       TEXT NOT NULL DEFAULT '', -- '' until the group ends
  reason        TEXT NOT NULL DEFAULT '',
  stopped       TEXT NOT NULL DEFAULT '',
  noise_sd      REAL,              -- of the logarithm of the primary metric within sides
  noise_df      INTEGER,
  wall_start_ns INTEGER NOT NULL,
  wall_end_ns   INTEGER,
  doc           TEXT NOT NULL
) STRICT;
CREATE INDEX t_group_session ON t_group (session, position);
CREATE INDEX t_group_history ON t_group (engine_hash, workload_hash, role);

CREATE TABLE t_side (
  key        INTEGER PRIMARY KEY,
  grp        INTEGER NOT NULL REFERENCES t_group (key),
  label      TEXT NOT NULL,
  position   INTEGER NOT NULL,
  is_control INTEGER NOT NULL,
  engine     TEXT NOT NULL,
  command    TEXT NOT NULL,        -- JSON: absolute and as a delta
  stack      TEXT NOT NULL,        -- names joined with +
  stack_key  TEXT NOT NULL,        -- JSON list of lever hashes
  added      TEXT NOT NULL,        -- names of the levers that the control does not have
  added_key  TEXT NOT NULL,        -- JSON list of their hashes
  UNIQUE (grp, label)
) STRICT;
CREATE TABLE t_side_lever (
  side     INTEGER NOT NULL REFERENCES t_side (key),
  position INTEGER NOT NULL,
  lever    INTEGER NOT NULL REFERENCES t_lever (key),
  is_added INTEGER NOT NULL,       -- not on the control
  PRIMARY KEY (side, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX t_side_lever_lever ON t_side_lever (lever);

-- A gate or guard as it stood when the group ran.
CREATE TABLE t_gate (
  grp      INTEGER NOT NULL REFERENCES t_group (key),
  name     TEXT NOT NULL,
  position INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  phase    TEXT NOT NULL,
  scope    TEXT NOT NULL,
  required INTEGER NOT NULL,
  params   TEXT NOT NULL,          -- thresholds, JSON
  code     TEXT NOT NULL,
  PRIMARY KEY (grp, name)
) STRICT, WITHOUT ROWID;

-- Logs and completion texts, each once. Short ones are stored plain, so that any tool reads them.
CREATE TABLE t_blob (
  key    INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,     -- of the whole text
  codec  TEXT NOT NULL,            -- plain or zstd
  bytes  INTEGER NOT NULL,         -- of the whole text
  kept   INTEGER NOT NULL,         -- less than bytes when only head and tail were kept
  data   BLOB NOT NULL
) STRICT;

CREATE TABLE t_arm (
  key           INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  grp           INTEGER NOT NULL REFERENCES t_group (key),
  side          INTEGER NOT NULL REFERENCES t_side (key),
  label         TEXT NOT NULL,
  block         INTEGER NOT NULL,
  slot          INTEGER NOT NULL,
  attempt       INTEGER NOT NULL,
  seq           INTEGER NOT NULL,
  purpose       TEXT NOT NULL,
  disposition   TEXT NOT NULL,
  reason        TEXT NOT NULL,
  judged        INTEGER NOT NULL DEFAULT 0,
  attached      INTEGER NOT NULL,
  wall_start_ns INTEGER NOT NULL,
  mono_start_ns INTEGER NOT NULL,
  mono_end_ns   INTEGER NOT NULL,
  overhead_ns   INTEGER NOT NULL,
  value         REAL,              -- the group's primary metric; the headline metrics stand beside it,
  decode_tok_s  REAL,              -- so that no query over many arms has to look for them
  prefill_tok_s REAL,
  ttft_ms       REAL,
  requests_ok   INTEGER NOT NULL,
  requests      INTEGER NOT NULL,  -- measured ones
  log           INTEGER REFERENCES t_blob (key),
  doc           TEXT NOT NULL
) STRICT;
CREATE INDEX t_arm_group ON t_arm (grp, seq);

CREATE TABLE t_request (
  arm               INTEGER NOT NULL REFERENCES t_arm (key),
  idx               INTEGER NOT NULL,
  case_name         TEXT NOT NULL,
  repeat            INTEGER NOT NULL,
  mark              TEXT NOT NULL,
  status            TEXT NOT NULL,
  scheduled_ns      INTEGER, sent_ns INTEGER, headers_ns INTEGER, first_byte_ns INTEGER, first_choice_ns INTEGER,
  first_reasoning_ns INTEGER, first_content_ns INTEGER, last_content_ns INTEGER, usage_ns INTEGER, done_ns INTEGER, close_ns INTEGER,
  frames            INTEGER NOT NULL,
  content_frames    INTEGER NOT NULL,
  prompt_tokens     INTEGER,
  completion_tokens INTEGER,
  cached_tokens     INTEGER,
  reasoning_tokens  INTEGER,
  ttft_ms           REAL,          -- from the request's own metrics
  decode_tok_s      REAL,
  server_decode_tok_s REAL,
  text_sha256       TEXT NOT NULL,
  text              INTEGER REFERENCES t_blob (key),
  arrivals_us       TEXT,          -- JSON: microseconds since sent for the first frame, then deltas
  doc               TEXT NOT NULL,
  PRIMARY KEY (arm, idx)
) STRICT;

CREATE TABLE t_metric (
  arm       INTEGER NOT NULL REFERENCES t_arm (key),
  request   INTEGER,               -- NULL: of the arm as a whole
  position  INTEGER NOT NULL,
  name      TEXT NOT NULL,
  case_name TEXT NOT NULL,
  unit      TEXT NOT NULL,
  better    TEXT NOT NULL,
  source    TEXT NOT NULL,
  rule      TEXT NOT NULL,
  value     REAL,
  withheld  REAL,
  why       TEXT NOT NULL,
  n         INTEGER NOT NULL,
  coverage  REAL
) STRICT;
CREATE INDEX t_metric_arm ON t_metric (arm, request, name);
CREATE INDEX t_metric_name ON t_metric (name, arm);

CREATE TABLE t_sensor (
  key     INTEGER PRIMARY KEY,
  name    TEXT NOT NULL UNIQUE,
  unit    TEXT NOT NULL,
  source  TEXT NOT NULL,
  counter INTEGER NOT NULL
) STRICT;
CREATE TABLE t_session_sensor (
  session   INTEGER NOT NULL REFERENCES t_session (key),
  sensor    INTEGER NOT NULL REFERENCES t_sensor (key),
  available INTEGER NOT NULL,
  why       TEXT NOT NULL,
  fix       TEXT NOT NULL,
  period_ms INTEGER NOT NULL,
  PRIMARY KEY (session, sensor)
) STRICT, WITHOUT ROWID;

-- The samples of one sensor of one arm are one run of keys, written in one transaction: t_summary knows
-- the run, so that no index on this largest table is needed (one would halve the rate of writing).
CREATE TABLE t_sample (
  key     INTEGER PRIMARY KEY,
  arm     INTEGER NOT NULL,
  sensor  INTEGER NOT NULL,
  mono_ns INTEGER NOT NULL,
  value   REAL NOT NULL
) STRICT;
CREATE TABLE t_summary (
  arm       INTEGER NOT NULL REFERENCES t_arm (key),
  sensor    INTEGER NOT NULL REFERENCES t_sensor (key),
  n         INTEGER NOT NULL,
  mean      REAL NOT NULL,
  min       REAL NOT NULL,
  max       REAL NOT NULL,
  first     REAL NOT NULL,
  last      REAL NOT NULL,
  key_first INTEGER NOT NULL,
  key_last  INTEGER NOT NULL,
  PRIMARY KEY (arm, sensor)
) STRICT, WITHOUT ROWID;

CREATE TABLE t_step (
  arm      INTEGER NOT NULL REFERENCES t_arm (key),
  position INTEGER NOT NULL,
  name     TEXT NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns   INTEGER NOT NULL,
  PRIMARY KEY (arm, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE t_finding (
  arm      INTEGER NOT NULL REFERENCES t_arm (key),
  position INTEGER NOT NULL,
  gate     TEXT NOT NULL,
  phase    TEXT NOT NULL,
  scope    TEXT NOT NULL,
  outcome  TEXT NOT NULL,          -- pass, fail, unmeasured
  observed TEXT NOT NULL,
  wanted   TEXT NOT NULL,
  reason   TEXT NOT NULL,
  required INTEGER NOT NULL,
  error    TEXT NOT NULL,
  PRIMARY KEY (arm, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE t_evidence (
  arm      INTEGER NOT NULL REFERENCES t_arm (key),
  position INTEGER NOT NULL,
  lever    TEXT NOT NULL,
  kind     TEXT NOT NULL,
  what     TEXT NOT NULL,
  at       TEXT NOT NULL,          -- ready or stop
  found    INTEGER NOT NULL,
  observed TEXT NOT NULL,
  error    TEXT NOT NULL,
  PRIMARY KEY (arm, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE t_comparison (
  grp           INTEGER NOT NULL REFERENCES t_group (key),
  position      INTEGER NOT NULL,
  side          INTEGER NOT NULL REFERENCES t_side (key),
  case_name     TEXT NOT NULL,
  metric        TEXT NOT NULL,
  verdict       TEXT NOT NULL,
  reason        TEXT NOT NULL,
  method        TEXT NOT NULL,     -- '' when there was nothing to estimate from
  effect        REAL, se REAL, df REAL, level REAL, low REAL, high REAL, low90 REAL, high90 REAL,
  blocks        INTEGER,
  borrowed      TEXT NOT NULL,
  valid_anytime INTEGER NOT NULL,
  median_control REAL, median_side REAL, gain_of_medians_pct REAL,
  n_control     INTEGER NOT NULL,
  n_side        INTEGER NOT NULL,
  is_cost       INTEGER NOT NULL,
  cost_broken   INTEGER NOT NULL,
  PRIMARY KEY (grp, position)
) STRICT, WITHOUT ROWID;

-- The effect journal: what main did and what it saw, for resume.
CREATE TABLE t_effect (
  key     INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES t_session (key),
  idx     INTEGER NOT NULL,
  op      TEXT NOT NULL,
  hash    TEXT NOT NULL,
  what    TEXT NOT NULL,
  refs    TEXT NOT NULL,           -- JSON list of group ids
  done    INTEGER NOT NULL,
  result  BLOB,
  cut     INTEGER REFERENCES t_amendment (key) -- NULL: in force
) STRICT;
CREATE UNIQUE INDEX t_effect_in_force ON t_effect (session, idx) WHERE cut IS NULL;

CREATE TABLE t_event (
  key      INTEGER PRIMARY KEY,
  session  INTEGER NOT NULL REFERENCES t_session (key),
  wall_ns  INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  grp      TEXT NOT NULL,          -- name
  group_id TEXT NOT NULL,
  arm      TEXT NOT NULL,
  text     TEXT NOT NULL
) STRICT;
CREATE INDEX t_event_session ON t_event (session, key);

-- Later judgements, redactions and cuts: rows beside the facts, never changes of them.
CREATE TABLE t_amendment (
  key     INTEGER PRIMARY KEY,
  subject TEXT NOT NULL,           -- session, group or arm
  id      TEXT NOT NULL,
  wall_ns INTEGER NOT NULL,
  kind    TEXT NOT NULL,           -- cut, note, decision, exclusion, redaction
  text    TEXT NOT NULL,
  detail  TEXT NOT NULL            -- JSON
) STRICT;
CREATE INDEX t_amendment_id ON t_amendment (id);

-- Who has this file open for writing: a row of a process that is gone means an unclean end.
CREATE TABLE t_writer (
  key     INTEGER PRIMARY KEY,
  host    TEXT NOT NULL,
  pid     INTEGER NOT NULL,
  started TEXT NOT NULL            -- the process's start time where the system tells it
) STRICT;

-- The facts of a finished session never change.
CREATE TRIGGER t_session_finished BEFORE UPDATE ON t_session WHEN old.status = 'done'
BEGIN SELECT raise(ABORT, 'finished session: its facts never change'); END;
CREATE TRIGGER t_group_finished BEFORE UPDATE ON t_group WHEN (SELECT status FROM t_session WHERE key = old.session) = 'done'
BEGIN SELECT raise(ABORT, 'finished session: its facts never change'); END;
CREATE TRIGGER t_group_added BEFORE INSERT ON t_group WHEN (SELECT status FROM t_session WHERE key = new.session) = 'done'
BEGIN SELECT raise(ABORT, 'finished session: its facts never change'); END;
CREATE TRIGGER t_arm_finished BEFORE UPDATE ON t_arm WHEN (SELECT s.status FROM t_group g JOIN t_session s ON s.key = g.session WHERE g.key = old.grp) = 'done'
BEGIN SELECT raise(ABORT, 'finished session: its facts never change'); END;
CREATE TRIGGER t_arm_added BEFORE INSERT ON t_arm WHEN (SELECT s.status FROM t_group g JOIN t_session s ON s.key = g.session WHERE g.key = new.grp) = 'done'
BEGIN SELECT raise(ABORT, 'finished session: its facts never change'); END;
-- What an arm measured never changes at all.
CREATE TRIGGER t_request_kept BEFORE UPDATE ON t_request BEGIN SELECT raise(ABORT, 'recorded requests never change'); END;
CREATE TRIGGER t_metric_kept BEFORE UPDATE ON t_metric BEGIN SELECT raise(ABORT, 'recorded metrics never change'); END;
CREATE TRIGGER t_sample_kept BEFORE UPDATE ON t_sample BEGIN SELECT raise(ABORT, 'recorded samples never change'); END;
CREATE TRIGGER t_evidence_kept BEFORE UPDATE ON t_evidence BEGIN SELECT raise(ABORT, 'recorded evidence never changes'); END;
CREATE TRIGGER t_step_kept BEFORE UPDATE ON t_step BEGIN SELECT raise(ABORT, 'recorded steps never change'); END;
