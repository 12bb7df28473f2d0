-- The derived database next to the journals; it can be rebuilt from them at any time.

-- name: schema
CREATE TABLE IF NOT EXISTS runs (              -- a row a job of a run
  run_id TEXT NOT NULL,
  job TEXT NOT NULL,
  benchmark TEXT NOT NULL,
  benchmark_version TEXT NOT NULL,
  provider TEXT NOT NULL,
  provider_version TEXT NOT NULL,
  embedding_model TEXT,
  answering_model TEXT,
  judge_model TEXT,
  track TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  created_at TEXT NOT NULL,      -- UTC, ISO 8601
  finished_at TEXT,
  state TEXT NOT NULL,
  partial INTEGER NOT NULL,
  valid INTEGER NOT NULL,
  n_planned INTEGER NOT NULL,
  n_scored INTEGER NOT NULL,
  cost_usd TEXT,                 -- decimal text, NULL = unknown
  report TEXT NOT NULL,          -- folder of the report
  data TEXT NOT NULL,            -- JSON: labels, note, counts by state
  PRIMARY KEY (run_id, job)
) STRICT;
CREATE INDEX IF NOT EXISTS runs_by_benchmark ON runs (benchmark, provider, created_at);

CREATE TABLE IF NOT EXISTS run_metrics (       -- dimension '' = over all items
  run_id TEXT NOT NULL,
  job TEXT NOT NULL,
  metric TEXT NOT NULL,
  definition TEXT NOT NULL,
  dimension TEXT NOT NULL,
  label TEXT NOT NULL,
  value REAL,
  value_failures_as_zero REAL,
  n INTEGER NOT NULL,
  n_excluded INTEGER NOT NULL,
  n_failed INTEGER NOT NULL,
  low REAL,
  high REAL,
  level REAL,
  method TEXT,
  unit TEXT,
  PRIMARY KEY (run_id, job, metric, dimension, label),
  FOREIGN KEY (run_id, job) REFERENCES runs ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS results (           -- a row an item of a job
  run_id TEXT NOT NULL,
  job TEXT NOT NULL,
  corpus TEXT NOT NULL,
  item_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  question_type TEXT,
  state TEXT NOT NULL,
  correct INTEGER,
  error_kind TEXT,
  PRIMARY KEY (run_id, job, item_id, epoch),
  FOREIGN KEY (run_id, job) REFERENCES runs ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS result_metrics (
  run_id TEXT NOT NULL,
  job TEXT NOT NULL,
  item_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  metric TEXT NOT NULL,
  value REAL,                    -- NULL = does not apply; times in microseconds
  PRIMARY KEY (run_id, job, item_id, epoch, metric),
  FOREIGN KEY (run_id, job) REFERENCES runs ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- name: forget
DELETE FROM runs WHERE run_id = ?1;

-- name: add_run
INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_run_metric
INSERT INTO run_metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_result
INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_result_metric
INSERT INTO result_metrics VALUES (?, ?, ?, ?, ?, ?);

-- name: runs
SELECT * FROM runs
WHERE (?1 IS NULL OR run_id = ?1) AND (?2 IS NULL OR benchmark = ?2) AND (?3 IS NULL OR provider = ?3)
ORDER BY created_at DESC, run_id DESC, job;

-- name: run_metrics
SELECT metric, definition, dimension, label, value, value_failures_as_zero, n, n_excluded, n_failed, low, high, level,
  method, unit
FROM run_metrics WHERE run_id = ?1 AND job = ?2 ORDER BY metric, dimension, label;

-- name: newest
-- the newest complete and valid job of each provider with the same models, track, data and settings
SELECT * FROM (
  SELECT *, row_number() OVER (
    PARTITION BY provider, embedding_model, answering_model, judge_model, track, benchmark_version,
      data ->> '$.k', data ->> '$.context_budget', data ->> '$.selection', data ->> '$.prompts',
      data ->> '$.level', data ->> '$.evaluator', data ->> '$.epochs_reducer', data ->> '$.dataset.content_sha256'
    ORDER BY created_at DESC, run_id DESC) AS age
  FROM runs WHERE benchmark = ?1 AND state = 'complete' AND partial = 0 AND valid = 1)
WHERE age = 1
ORDER BY provider, embedding_model, answering_model, judge_model, track, created_at DESC, run_id DESC;

-- name: benchmarks
SELECT DISTINCT benchmark FROM runs ORDER BY benchmark;
