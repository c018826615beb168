PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE t_amendment (
  key     INTEGER PRIMARY KEY,
  subject TEXT NOT NULL,           -- session, group or arm
  id      TEXT NOT NULL,
  wall_ns INTEGER NOT NULL,
  kind    TEXT NOT NULL,           -- cut, note, decision, exclusion, redaction
  text    TEXT NOT NULL,
  detail  TEXT NOT NULL            -- JSON
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
INSERT INTO "t_arm" VALUES(1,'s-g-arm-00',1,1,'A',0,0,0,0,'measured','ok','',1,0,1767225600000000000,0,900000000,1000000,100.0,100.0,NULL,12.5,1,1,1,'{"id":"s-g-arm-00","group_id":"s-g","label":"A","block":0,"slot":0,"attempt":0,"seq":0,"purpose":"measured","disposition":"ok","process":{"argv":["llama-server"],"env":{"A":"1"},"version":"b1","pid":42,"launch_ns":10,"ready_ns":2000010,"exit_code":0,"log_bytes":10},"wall_start_ns":1767225600000000000,"mono_start_ns":0,"mono_end_ns":900000000,"overhead_ns":1000000}');
INSERT INTO "t_arm" VALUES(2,'s-g-arm-01',1,2,'B',0,1,0,1,'measured','ok','',1,0,1767225601000000000,1000000000,1900000000,1000000,110.0,110.0,NULL,12.5,1,1,1,'{"id":"s-g-arm-01","group_id":"s-g","label":"B","block":0,"slot":1,"attempt":0,"seq":1,"purpose":"measured","disposition":"ok","process":{"argv":["llama-server"],"env":{"A":"1"},"version":"b1","pid":42,"launch_ns":10,"ready_ns":2000010,"exit_code":0,"log_bytes":10},"wall_start_ns":1767225601000000000,"mono_start_ns":1000000000,"mono_end_ns":1900000000,"overhead_ns":1000000}');
INSERT INTO "t_arm" VALUES(3,'s-g-arm-02',1,2,'B',0,2,0,2,'measured','ok','',1,0,1767225602000000000,2000000000,2900000000,1000000,112.0,112.0,NULL,12.5,1,1,1,'{"id":"s-g-arm-02","group_id":"s-g","label":"B","block":0,"slot":2,"attempt":0,"seq":2,"purpose":"measured","disposition":"ok","process":{"argv":["llama-server"],"env":{"A":"1"},"version":"b1","pid":42,"launch_ns":10,"ready_ns":2000010,"exit_code":0,"log_bytes":10},"wall_start_ns":1767225602000000000,"mono_start_ns":2000000000,"mono_end_ns":2900000000,"overhead_ns":1000000}');
INSERT INTO "t_arm" VALUES(4,'s-g-arm-03',1,1,'A',0,3,0,3,'measured','ok','',1,0,1767225603000000000,3000000000,3900000000,1000000,101.0,101.0,NULL,12.5,1,1,1,'{"id":"s-g-arm-03","group_id":"s-g","label":"A","block":0,"slot":3,"attempt":0,"seq":3,"purpose":"measured","disposition":"ok","process":{"argv":["llama-server"],"env":{"A":"1"},"version":"b1","pid":42,"launch_ns":10,"ready_ns":2000010,"exit_code":0,"log_bytes":10},"wall_start_ns":1767225603000000000,"mono_start_ns":3000000000,"mono_end_ns":3900000000,"overhead_ns":1000000}');
CREATE TABLE t_blob (
  key    INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,     -- of the whole text
  codec  TEXT NOT NULL,            -- plain or zstd
  bytes  INTEGER NOT NULL,         -- of the whole text
  kept   INTEGER NOT NULL,         -- less than bytes when only head and tail were kept
  data   BLOB NOT NULL
) STRICT;
INSERT INTO "t_blob" VALUES(1,'c3942bd61afab5cf6ef1751089337438abe8ce822a2434f1dc6e122d3c5626e6','plain',10,10,X'6C697374656E696E670A');
INSERT INTO "t_blob" VALUES(2,'4203cee971cf8d52402255e2f68b71fc8234e629f80acfad694dc265f588d4e1','plain',19,19,X'7468652073616D6520636F6D706C6574696F6E');
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
  cost_broken   INTEGER NOT NULL, over INTEGER REFERENCES t_side (key), added TEXT, added_key TEXT,
  PRIMARY KEY (grp, position)
) STRICT, WITHOUT ROWID;
INSERT INTO "t_comparison" VALUES(1,0,2,'','decode_tok_s','better','','quad',0.1,0.001,2.0,0.95,9.00000000000000105471e-02,0.11,NULL,NULL,1,'',0,100.0,1.10000000000000014216e+02,NULL,2,2,0,0,NULL,NULL,NULL);
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
INSERT INTO "t_evidence" VALUES(1,0,'fa','log','flash','ready',0,'flash_attn = enabled','');
INSERT INTO "t_evidence" VALUES(2,0,'fa','log','flash','ready',1,'flash_attn = enabled','');
INSERT INTO "t_evidence" VALUES(3,0,'fa','log','flash','ready',1,'flash_attn = enabled','');
INSERT INTO "t_evidence" VALUES(4,0,'fa','log','flash','ready',0,'flash_attn = enabled','');
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
INSERT INTO "t_finding" VALUES(1,0,'no_swap_growth','after','','pass','0 MiB','0 MiB','',1,'');
INSERT INTO "t_finding" VALUES(2,0,'no_swap_growth','after','','pass','0 MiB','0 MiB','',1,'');
INSERT INTO "t_finding" VALUES(3,0,'no_swap_growth','after','','pass','0 MiB','0 MiB','',1,'');
INSERT INTO "t_finding" VALUES(4,0,'no_swap_growth','after','','pass','0 MiB','0 MiB','',1,'');
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
INSERT INTO "t_gate" VALUES(1,'no_swap_growth',0,'gate','after','arm',1,'{"mib":0}','');
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
INSERT INTO "t_group" VALUES(1,'s-g',1,0,'screen s-g','screen','','A','decode_tok_s','higher',0.01,4,'d','r','llama','engine-1','work-1','model-1','','better','because','',1.02916911224240365668e-02,2,1767225600000000000,1767225601000000000,'{"id":"s-g","session_id":"s","index":0,"name":"screen s-g","role":"screen","order":"","seed":18446744073709551615,"declared":"d","resolved":"r","engine":"engine-1","workload":"work-1","model":"model-1","sides":[{"label":"A","engine":"llama","stack":null,"command":{"argv":["llama-server"]},"control":true},{"label":"B","engine":"llama","stack":[{"name":"fa","change":"{\"args\":[\"-x\"]}","hash":"hash-fa","declared":"{\"name\":\"fa\"}"}],"command":{"argv":["llama-server","-x"]}}],"control":"A","primary":"decode_tok_s","better":"higher","min_effect":0.01,"cap":4,"gates":[{"name":"no_swap_growth","kind":"gate","phase":"after","scope":"arm","required":true,"params":"{\"mib\":0}"}],"verdict":"better","reason":"because","comparisons":[{"side":"B","control":"A","metric":"decode_tok_s","verdict":"better","estimate":{"method":"quad","effect":0.1,"log":0.1,"se":0.001,"df":2,"level":0.95,"low":0.09000000000000001,"high":0.11,"blocks":1},"median_control":100,"median_side":110.00000000000001,"n_control":2,"n_side":2}],"wall_start_ns":1767225600000000000,"wall_end_ns":1767225601000000000}');
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
INSERT INTO "t_lever" VALUES(1,'hash-fa','fa','','{"args":["-x"]}',0,'','{"name":"fa"}');
CREATE TABLE t_machine (
  key   INTEGER PRIMARY KEY,
  id    TEXT NOT NULL,             -- hash of stable fields
  host  TEXT NOT NULL,
  facts TEXT NOT NULL,             -- JSON object
  UNIQUE (id, host, facts)
) STRICT;
INSERT INTO "t_machine" VALUES(1,'machine-1','bench','{"cpu_model":"Xeon","gpu0":"RTX"}');
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
INSERT INTO "t_metric" VALUES(1,0,0,'ttft_ms','','ms','','client clock','',12.5,NULL,'',0,NULL);
INSERT INTO "t_metric" VALUES(1,1,0,'ttft_ms','','ms','','client clock','',12.5,NULL,'',0,NULL);
INSERT INTO "t_metric" VALUES(1,NULL,0,'decode_tok_s','','tok/s','higher','client clock','',100.0,NULL,'',2,NULL);
INSERT INTO "t_metric" VALUES(1,NULL,1,'ttft_ms','','ms','','client clock','',12.5,NULL,'',2,NULL);
INSERT INTO "t_metric" VALUES(1,NULL,2,'wall_energy_j','','J','','meter','',NULL,NULL,'no meter',0,NULL);
INSERT INTO "t_metric" VALUES(2,0,0,'ttft_ms','','ms','','client clock','',12.5,NULL,'',0,NULL);
INSERT INTO "t_metric" VALUES(2,1,0,'ttft_ms','','ms','','client clock','',12.5,NULL,'',0,NULL);
INSERT INTO "t_metric" VALUES(2,NULL,0,'decode_tok_s','','tok/s','higher','client clock','',110.0,NULL,'',2,NULL);
INSERT INTO "t_metric" VALUES(2,NULL,1,'ttft_ms','','ms','','client clock','',12.5,NULL,'',2,NULL);
INSERT INTO "t_metric" VALUES(2,NULL,2,'wall_energy_j','','J','','meter','',NULL,NULL,'no meter',0,NULL);
INSERT INTO "t_metric" VALUES(3,0,0,'ttft_ms','','ms','','client clock','',12.5,NULL,'',0,NULL);
INSERT INTO "t_metric" VALUES(3,1,0,'ttft_ms','','ms','','client clock','',12.5,NULL,'',0,NULL);
INSERT INTO "t_metric" VALUES(3,NULL,0,'decode_tok_s','','tok/s','higher','client clock','',112.0,NULL,'',2,NULL);
INSERT INTO "t_metric" VALUES(3,NULL,1,'ttft_ms','','ms','','client clock','',12.5,NULL,'',2,NULL);
INSERT INTO "t_metric" VALUES(3,NULL,2,'wall_energy_j','','J','','meter','',NULL,NULL,'no meter',0,NULL);
INSERT INTO "t_metric" VALUES(4,0,0,'ttft_ms','','ms','','client clock','',12.5,NULL,'',0,NULL);
INSERT INTO "t_metric" VALUES(4,1,0,'ttft_ms','','ms','','client clock','',12.5,NULL,'',0,NULL);
INSERT INTO "t_metric" VALUES(4,NULL,0,'decode_tok_s','','tok/s','higher','client clock','',101.0,NULL,'',2,NULL);
INSERT INTO "t_metric" VALUES(4,NULL,1,'ttft_ms','','ms','','client clock','',12.5,NULL,'',2,NULL);
INSERT INTO "t_metric" VALUES(4,NULL,2,'wall_energy_j','','J','','meter','',NULL,NULL,'no meter',0,NULL);
CREATE TABLE t_phase (
  arm      INTEGER NOT NULL REFERENCES t_arm (key),
  sensor   INTEGER NOT NULL REFERENCES t_sensor (key),
  phase    TEXT NOT NULL,
  n        INTEGER NOT NULL,
  coverage REAL NOT NULL,
  mean     REAL,
  min      REAL,
  max      REAL,
  p05      REAL,
  p50      REAL,
  p95      REAL,
  p99      REAL,
  growth   REAL,
  rise     REAL,
  diff     REAL,
  why      TEXT NOT NULL,
  PRIMARY KEY (arm, sensor, phase)
) STRICT, WITHOUT ROWID;
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
INSERT INTO "t_request" VALUES(1,0,'',0,'warm','ok',NULL,100,NULL,NULL,NULL,NULL,1000100,5000100,NULL,NULL,NULL,3,2,NULL,200,NULL,NULL,12.5,NULL,NULL,'t',2,'[10,20,30]','{"index":0,"repeat":0,"mark":"warm","status":"ok","prompt_sha256":"p","sent_ns":100,"first_content_ns":1000100,"last_content_ns":5000100,"stamp_source":"read","frames":3,"content_frames":2,"reads":0,"completion_tokens":200,"finish_reason":"length","text_sha256":"t"}');
INSERT INTO "t_request" VALUES(1,1,'',0,'measured','ok',NULL,100,NULL,NULL,NULL,NULL,1000100,5000100,NULL,NULL,NULL,3,2,NULL,200,NULL,NULL,12.5,NULL,NULL,'t',2,'[10,20,30]','{"index":1,"repeat":0,"mark":"measured","status":"ok","prompt_sha256":"p","sent_ns":100,"first_content_ns":1000100,"last_content_ns":5000100,"stamp_source":"read","frames":3,"content_frames":2,"reads":0,"completion_tokens":200,"finish_reason":"length","text_sha256":"t"}');
INSERT INTO "t_request" VALUES(2,0,'',0,'warm','ok',NULL,100,NULL,NULL,NULL,NULL,1000100,5000100,NULL,NULL,NULL,3,2,NULL,200,NULL,NULL,12.5,NULL,NULL,'t',2,'[10,20,30]','{"index":0,"repeat":0,"mark":"warm","status":"ok","prompt_sha256":"p","sent_ns":100,"first_content_ns":1000100,"last_content_ns":5000100,"stamp_source":"read","frames":3,"content_frames":2,"reads":0,"completion_tokens":200,"finish_reason":"length","text_sha256":"t"}');
INSERT INTO "t_request" VALUES(2,1,'',0,'measured','ok',NULL,100,NULL,NULL,NULL,NULL,1000100,5000100,NULL,NULL,NULL,3,2,NULL,200,NULL,NULL,12.5,NULL,NULL,'t',2,'[10,20,30]','{"index":1,"repeat":0,"mark":"measured","status":"ok","prompt_sha256":"p","sent_ns":100,"first_content_ns":1000100,"last_content_ns":5000100,"stamp_source":"read","frames":3,"content_frames":2,"reads":0,"completion_tokens":200,"finish_reason":"length","text_sha256":"t"}');
INSERT INTO "t_request" VALUES(3,0,'',0,'warm','ok',NULL,100,NULL,NULL,NULL,NULL,1000100,5000100,NULL,NULL,NULL,3,2,NULL,200,NULL,NULL,12.5,NULL,NULL,'t',2,'[10,20,30]','{"index":0,"repeat":0,"mark":"warm","status":"ok","prompt_sha256":"p","sent_ns":100,"first_content_ns":1000100,"last_content_ns":5000100,"stamp_source":"read","frames":3,"content_frames":2,"reads":0,"completion_tokens":200,"finish_reason":"length","text_sha256":"t"}');
INSERT INTO "t_request" VALUES(3,1,'',0,'measured','ok',NULL,100,NULL,NULL,NULL,NULL,1000100,5000100,NULL,NULL,NULL,3,2,NULL,200,NULL,NULL,12.5,NULL,NULL,'t',2,'[10,20,30]','{"index":1,"repeat":0,"mark":"measured","status":"ok","prompt_sha256":"p","sent_ns":100,"first_content_ns":1000100,"last_content_ns":5000100,"stamp_source":"read","frames":3,"content_frames":2,"reads":0,"completion_tokens":200,"finish_reason":"length","text_sha256":"t"}');
INSERT INTO "t_request" VALUES(4,0,'',0,'warm','ok',NULL,100,NULL,NULL,NULL,NULL,1000100,5000100,NULL,NULL,NULL,3,2,NULL,200,NULL,NULL,12.5,NULL,NULL,'t',2,'[10,20,30]','{"index":0,"repeat":0,"mark":"warm","status":"ok","prompt_sha256":"p","sent_ns":100,"first_content_ns":1000100,"last_content_ns":5000100,"stamp_source":"read","frames":3,"content_frames":2,"reads":0,"completion_tokens":200,"finish_reason":"length","text_sha256":"t"}');
INSERT INTO "t_request" VALUES(4,1,'',0,'measured','ok',NULL,100,NULL,NULL,NULL,NULL,1000100,5000100,NULL,NULL,NULL,3,2,NULL,200,NULL,NULL,12.5,NULL,NULL,'t',2,'[10,20,30]','{"index":1,"repeat":0,"mark":"measured","status":"ok","prompt_sha256":"p","sent_ns":100,"first_content_ns":1000100,"last_content_ns":5000100,"stamp_source":"read","frames":3,"content_frames":2,"reads":0,"completion_tokens":200,"finish_reason":"length","text_sha256":"t"}');
CREATE TABLE t_sample (
  key     INTEGER PRIMARY KEY,
  arm     INTEGER NOT NULL,
  sensor  INTEGER NOT NULL,
  mono_ns INTEGER NOT NULL,
  value   REAL NOT NULL
) STRICT;
INSERT INTO "t_sample" VALUES(1,1,1,1,1.0);
INSERT INTO "t_sample" VALUES(2,1,1,3,2.0);
INSERT INTO "t_sample" VALUES(3,1,2,2,100.0);
INSERT INTO "t_sample" VALUES(4,1,2,4,120.0);
INSERT INTO "t_sample" VALUES(5,2,1,1,1.0);
INSERT INTO "t_sample" VALUES(6,2,1,3,2.0);
INSERT INTO "t_sample" VALUES(7,2,2,2,100.0);
INSERT INTO "t_sample" VALUES(8,2,2,4,120.0);
INSERT INTO "t_sample" VALUES(9,3,1,1,1.0);
INSERT INTO "t_sample" VALUES(10,3,1,3,2.0);
INSERT INTO "t_sample" VALUES(11,3,2,2,100.0);
INSERT INTO "t_sample" VALUES(12,3,2,4,120.0);
INSERT INTO "t_sample" VALUES(13,4,1,1,1.0);
INSERT INTO "t_sample" VALUES(14,4,1,3,2.0);
INSERT INTO "t_sample" VALUES(15,4,2,2,100.0);
INSERT INTO "t_sample" VALUES(16,4,2,4,120.0);
CREATE TABLE t_sensor (
  key     INTEGER PRIMARY KEY,
  name    TEXT NOT NULL UNIQUE,
  unit    TEXT NOT NULL,
  source  TEXT NOT NULL,
  counter INTEGER NOT NULL
) STRICT;
INSERT INTO "t_sensor" VALUES(1,'psi.cpu','','',0);
INSERT INTO "t_sensor" VALUES(2,'power_w','','',0);
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
INSERT INTO "t_session" VALUES(1,'s','stack-screen.star','done',0,'','9223372036854775815','{"model":"\"m.gguf\""}','real','',1,'0.1','d1',1767225600000000000,1767225660000000000,5,1767225599999999995,NULL,0,0,'{"id":"s","workflow":"stack-screen.star","status":"done","exit":0,"seed":9223372036854775815,"measurer":"real","machine":{"id":"machine-1","host":"bench","facts":{"cpu_model":"Xeon","gpu0":"RTX"}},"flow_version":"0.1","dialect":"d1","wall_start_ns":1767225600000000000,"wall_end_ns":1767225660000000000,"mono_start_ns":5,"offset_start_ns":1767225599999999995}');
CREATE TABLE t_session_sensor (
  session   INTEGER NOT NULL REFERENCES t_session (key),
  sensor    INTEGER NOT NULL REFERENCES t_sensor (key),
  available INTEGER NOT NULL,
  why       TEXT NOT NULL,
  fix       TEXT NOT NULL,
  period_ms INTEGER NOT NULL,
  PRIMARY KEY (session, sensor)
) STRICT, WITHOUT ROWID;
CREATE TABLE t_session_source (
  session  INTEGER NOT NULL REFERENCES t_session (key),
  position INTEGER NOT NULL,
  label    TEXT NOT NULL,
  source   INTEGER NOT NULL REFERENCES t_source (key),
  verbatim INTEGER NOT NULL,       -- whether this session kept the text
  PRIMARY KEY (session, position)
) STRICT, WITHOUT ROWID;
INSERT INTO "t_session_source" VALUES(1,0,'stack-screen.star',1,1);
INSERT INTO "t_session_source" VALUES(1,1,'prompts/main.txt',2,0);
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
INSERT INTO "t_side" VALUES(1,1,'A',0,1,'llama','{"argv":["llama-server"]}','','[]','','[]');
INSERT INTO "t_side" VALUES(2,1,'B',1,0,'llama','{"argv":["llama-server","-x"]}','fa','["hash-fa"]','fa','["hash-fa"]');
CREATE TABLE t_side_lever (
  side     INTEGER NOT NULL REFERENCES t_side (key),
  position INTEGER NOT NULL,
  lever    INTEGER NOT NULL REFERENCES t_lever (key),
  is_added INTEGER NOT NULL,       -- not on the control
  PRIMARY KEY (side, position)
) STRICT, WITHOUT ROWID;
INSERT INTO "t_side_lever" VALUES(2,0,1,1);
CREATE TABLE t_source (
  key    INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL,
  text   TEXT,                     -- NULL: known by its digest only
  UNIQUE (sha256)
) STRICT;
INSERT INTO "t_source" VALUES(1,'aa','def main(session): pass
');
INSERT INTO "t_source" VALUES(2,'bb',NULL);
CREATE TABLE t_step (
  arm      INTEGER NOT NULL REFERENCES t_arm (key),
  position INTEGER NOT NULL,
  name     TEXT NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns   INTEGER NOT NULL,
  PRIMARY KEY (arm, position)
) STRICT, WITHOUT ROWID;
INSERT INTO "t_step" VALUES(1,0,'launch',1,2);
INSERT INTO "t_step" VALUES(1,1,'measure',2,9);
INSERT INTO "t_step" VALUES(2,0,'launch',1,2);
INSERT INTO "t_step" VALUES(2,1,'measure',2,9);
INSERT INTO "t_step" VALUES(3,0,'launch',1,2);
INSERT INTO "t_step" VALUES(3,1,'measure',2,9);
INSERT INTO "t_step" VALUES(4,0,'launch',1,2);
INSERT INTO "t_step" VALUES(4,1,'measure',2,9);
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
INSERT INTO "t_summary" VALUES(1,1,2,1.5,1.0,2.0,1.0,2.0,1,2);
INSERT INTO "t_summary" VALUES(1,2,2,110.0,100.0,120.0,100.0,120.0,3,4);
INSERT INTO "t_summary" VALUES(2,1,2,1.5,1.0,2.0,1.0,2.0,5,6);
INSERT INTO "t_summary" VALUES(2,2,2,110.0,100.0,120.0,100.0,120.0,7,8);
INSERT INTO "t_summary" VALUES(3,1,2,1.5,1.0,2.0,1.0,2.0,9,10);
INSERT INTO "t_summary" VALUES(3,2,2,110.0,100.0,120.0,100.0,120.0,11,12);
INSERT INTO "t_summary" VALUES(4,1,2,1.5,1.0,2.0,1.0,2.0,13,14);
INSERT INTO "t_summary" VALUES(4,2,2,110.0,100.0,120.0,100.0,120.0,15,16);
CREATE TABLE t_writer (
  key     INTEGER PRIMARY KEY,
  host    TEXT NOT NULL,
  pid     INTEGER NOT NULL,
  started TEXT NOT NULL            -- the process's start time where the system tells it
) STRICT;
CREATE INDEX t_session_start ON t_session (wall_start_ns);
CREATE INDEX t_lever_name ON t_lever (name);
CREATE INDEX t_group_session ON t_group (session, position);
CREATE INDEX t_group_history ON t_group (engine_hash, workload_hash, role);
CREATE INDEX t_side_lever_lever ON t_side_lever (lever);
CREATE INDEX t_arm_group ON t_arm (grp, seq);
CREATE INDEX t_metric_arm ON t_metric (arm, request, name);
CREATE INDEX t_metric_name ON t_metric (name, arm);
CREATE UNIQUE INDEX t_effect_in_force ON t_effect (session, idx) WHERE cut IS NULL;
CREATE INDEX t_event_session ON t_event (session, key);
CREATE INDEX t_amendment_id ON t_amendment (id);
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
CREATE TRIGGER t_request_kept BEFORE UPDATE ON t_request BEGIN SELECT raise(ABORT, 'recorded requests never change'); END;
CREATE TRIGGER t_metric_kept BEFORE UPDATE ON t_metric BEGIN SELECT raise(ABORT, 'recorded metrics never change'); END;
CREATE TRIGGER t_sample_kept BEFORE UPDATE ON t_sample BEGIN SELECT raise(ABORT, 'recorded samples never change'); END;
CREATE TRIGGER t_evidence_kept BEFORE UPDATE ON t_evidence BEGIN SELECT raise(ABORT, 'recorded evidence never changes'); END;
CREATE TRIGGER t_step_kept BEFORE UPDATE ON t_step BEGIN SELECT raise(ABORT, 'recorded steps never change'); END;
CREATE VIEW flow_schema AS SELECT 1 AS version, 2 AS tables_version;
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
CREATE VIEW metrics AS
SELECT s.id AS session_id, g.id AS group_id, g.name AS group_name, a.id AS arm_id, a.label, d.is_control, a.disposition, a.purpose,
  x.request, x.name, x.case_name, x.value, x.unit, nullif(x.better, '') AS better, x.source, nullif(x.rule, '') AS rule,
  x.withheld, nullif(x.why, '') AS why, x.n, x.coverage
FROM t_metric x JOIN t_arm a ON a.key = x.arm JOIN t_side d ON d.key = a.side
JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;
CREATE VIEW summaries AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, a.disposition, n.name AS sensor, nullif(n.unit, '') AS unit, n.counter,
  u.n, u.mean, u.min, u.max, u.first, u.last, u.last - u.first AS change
FROM t_summary u JOIN t_sensor n ON n.key = u.sensor JOIN t_arm a ON a.key = u.arm
JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;
CREATE VIEW phase_summaries AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, a.disposition, n.name AS sensor, nullif(n.unit, '') AS unit, n.counter, p.phase,
  p.n, p.coverage, p.mean, p.min, p.max, p.p05, p.p50, p.p95, p.p99, p.growth, p.rise, p.diff, nullif(p.why, '') AS why
FROM t_phase p JOIN t_sensor n ON n.key = p.sensor JOIN t_arm a ON a.key = p.arm
JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;
CREATE VIEW samples AS
SELECT s.id AS session_id, a.id AS arm_id, n.name AS sensor, nullif(n.unit, '') AS unit,
  x.mono_ns, (x.mono_ns - a.mono_start_ns) / 1e9 AS t_s, x.mono_ns + s.offset_start_ns AS wall_ns, x.value
FROM t_summary u JOIN t_arm a ON a.key = u.arm JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session
JOIN t_sensor n ON n.key = u.sensor
CROSS JOIN t_sample x ON x.key BETWEEN u.key_first AND u.key_last;
CREATE VIEW gates AS
SELECT s.id AS session_id, g.id AS group_id, g.name AS group_name, a.id AS arm_id, a.label, a.seq, f.gate, coalesce(t.kind, 'gate') AS kind,
  f.phase, CASE f.scope WHEN '' THEN 'arm' ELSE f.scope END AS scope, f.required, f.outcome,
  nullif(f.observed, '') AS observed, nullif(f.wanted, '') AS wanted, nullif(f.reason, '') AS reason, nullif(f.error, '') AS error,
  nullif(t.params, '') AS params, nullif(t.code, '') AS code, a.disposition
FROM t_finding f JOIN t_arm a ON a.key = f.arm JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session
LEFT JOIN t_gate t ON t.grp = g.key AND t.name = f.gate;
CREATE VIEW evidence AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, d.is_control, e.lever, e.kind, e.what, e.at, e.found,
  nullif(e.observed, '') AS observed, nullif(e.error, '') AS error
FROM t_evidence e JOIN t_arm a ON a.key = e.arm JOIN t_side d ON d.key = a.side
JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;
CREATE VIEW steps AS
SELECT s.id AS session_id, g.id AS group_id, a.id AS arm_id, a.label, p.position, p.name, p.start_ns, p.end_ns,
  (p.end_ns - p.start_ns) / 1e6 AS duration_ms
FROM t_step p JOIN t_arm a ON a.key = p.arm JOIN t_group g ON g.key = a.grp JOIN t_session s ON s.key = g.session;
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
CREATE VIEW warnings AS
SELECT s.id AS session_id, g.id AS group_id, g.name AS group_name, w.key AS position,
  CASE instr(w.value, ':') WHEN 0 THEN w.value ELSE substr(w.value, 1, instr(w.value, ':') - 1) END AS kind, w.value AS text
FROM t_group g JOIN t_session s ON s.key = g.session, json_each(g.doc, '$.warnings') w;
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
CREATE VIEW noise AS
SELECT m.id AS machine_id, m.host AS machine, g.engine, g.engine_hash, g.workload_hash, nullif(g.model, '') AS model_sha256, s.measurer,
  g.role, g.metric, 100 * g.noise_sd AS sd_pct, g.noise_df AS df, g.verdict, s.id AS session_id, g.id AS group_id, g.name AS group_name,
  strftime('%Y-%m-%dT%H:%M:%fZ', g.wall_end_ns / 1e9, 'unixepoch') AS ended
FROM t_group g JOIN t_session s ON s.key = g.session JOIN t_machine m ON m.key = s.machine
WHERE g.noise_sd IS NOT NULL AND g.verdict NOT IN ('', 'invalid', 'infeasible');
CREATE VIEW events AS
SELECT s.id AS session_id, strftime('%Y-%m-%dT%H:%M:%fZ', e.wall_ns / 1e9, 'unixepoch') AS at, e.kind, nullif(e.grp, '') AS group_name,
  nullif(e.group_id, '') AS group_id, nullif(e.arm, '') AS arm, nullif(e.text, '') AS text
FROM t_event e JOIN t_session s ON s.key = e.session;
CREATE VIEW amendments AS
SELECT subject, id, strftime('%Y-%m-%dT%H:%M:%fZ', wall_ns / 1e9, 'unixepoch') AS at, kind, text, detail FROM t_amendment;
COMMIT;
