-- Version 1 of a journal. Times are microseconds since 1970 (UTC) or durations in microseconds.

-- name: schema
CREATE TABLE meta (              -- run_id, plan_digest, identity, state ...: one JSON value per key
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE origin (            -- the journal that first wrote a row; 1: this journal, others: merged journals
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  ranges TEXT NOT NULL
) STRICT;

CREATE TABLE holder (            -- the process that may write; no row: no process
  id INTEGER PRIMARY KEY CHECK (id = 1),
  pid INTEGER NOT NULL,
  host TEXT NOT NULL,
  boot TEXT NOT NULL,
  started INTEGER NOT NULL,
  token TEXT NOT NULL,
  since_us INTEGER NOT NULL,
  heartbeat_us INTEGER NOT NULL
) STRICT;

CREATE TABLE resume (
  id INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,
  data TEXT NOT NULL
) STRICT;

CREATE TABLE owner (             -- lanes, lanes with an answering model, jobs
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE message (           -- each different error text once
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE labels (
  id INTEGER PRIMARY KEY,
  data TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE shape (             -- the metric names of packed values
  id INTEGER PRIMARY KEY,
  names TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE phase (             -- small rows: to resume a run, or to count its items, only this table is scanned
  owner INTEGER NOT NULL REFERENCES owner,
  phase INTEGER NOT NULL,
  corpus TEXT NOT NULL,
  unit TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  entry INTEGER NOT NULL,
  PRIMARY KEY (owner, phase, corpus, unit, epoch, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE entry (             -- the other columns of a phase row, in order of writing
  id INTEGER PRIMARY KEY,
  started_us INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  message INTEGER REFERENCES message,
  times TEXT,
  data ANY,                      -- JSON text, plain or compressed with zstd
  measured ANY,                  -- in the same form
  payloads TEXT                  -- JSON: name -> reference to a payload
) STRICT;

CREATE TABLE score (             -- how an item of a job ended, per scoring; generation: number of the scoring, negative: not shown
  owner INTEGER NOT NULL REFERENCES owner,
  corpus TEXT NOT NULL,
  unit TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  state TEXT NOT NULL,
  outcome TEXT NOT NULL,
  labels INTEGER NOT NULL REFERENCES labels,
  shape INTEGER NOT NULL REFERENCES shape,
  packed BLOB NOT NULL,          -- little-endian doubles; NaN: the metric does not apply
  entry INTEGER NOT NULL,
  PRIMARY KEY (owner, corpus, unit, epoch, generation)
) STRICT, WITHOUT ROWID;

CREATE TABLE verdict (
  entry INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  evaluator TEXT NOT NULL,
  value REAL,
  correct INTEGER,
  reason TEXT NOT NULL,
  judged INTEGER NOT NULL,
  abstained INTEGER NOT NULL,
  faithfulness REAL,
  model TEXT,
  fingerprint TEXT,
  prompt_name TEXT,
  prompt_sha256 TEXT,
  raw TEXT,                      -- reference to a payload
  ignored TEXT,
  PRIMARY KEY (entry, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE call (              -- one row per attempt; entry: id of a row of entry or corpus_row (no id is in both tables)
  entry INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  endpoint TEXT NOT NULL,
  role TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  status INTEGER,
  outcome TEXT NOT NULL,
  started_us INTEGER NOT NULL,
  queue_us INTEGER NOT NULL,
  limiter_us INTEGER NOT NULL,
  network_us INTEGER NOT NULL,
  provider_us INTEGER NOT NULL,
  request_bytes INTEGER NOT NULL,
  response_bytes INTEGER NOT NULL,
  model TEXT,
  usage TEXT,
  cost_usd TEXT,
  PRIMARY KEY (entry, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE payload (
  id INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  bytes INTEGER NOT NULL,
  body BLOB                      -- JSON compressed with zstd; NULL: dropped
) STRICT;

CREATE TABLE corpus_row (
  id INTEGER PRIMARY KEY,
  lane INTEGER NOT NULL REFERENCES owner,
  corpus TEXT NOT NULL,
  origin INTEGER NOT NULL REFERENCES origin,
  attempt INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  outcome TEXT NOT NULL,
  message INTEGER REFERENCES message,
  at_us INTEGER NOT NULL,
  times TEXT,
  data ANY,
  UNIQUE (lane, corpus, origin, attempt, seq)
) STRICT;

CREATE TABLE probe (
  id INTEGER PRIMARY KEY,
  origin INTEGER NOT NULL REFERENCES origin,
  lane TEXT NOT NULL,
  corpus TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  kind TEXT NOT NULL,
  passed INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  data ANY
) STRICT;

CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  origin INTEGER NOT NULL REFERENCES origin,
  kind TEXT NOT NULL,
  scope TEXT NOT NULL,
  message TEXT NOT NULL,
  at_us INTEGER NOT NULL,
  data ANY
) STRICT;
