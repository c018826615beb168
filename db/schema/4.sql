-- What each sensor did in the measured steps of an arm, and while its requests were in their prefill and decode:
-- made once when the arm ends, because nothing should have to go through samples.
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
