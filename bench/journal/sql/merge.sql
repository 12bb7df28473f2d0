-- A merge: stage the keys of every source, choose attempts and winners once, then copy what they refer to.
-- ``src`` is the attached source, ?1 its number. plain(x) undoes compression, digest(...) hashes its arguments.

-- name: staging
CREATE TEMP TABLE stage (
  source INTEGER NOT NULL, old_entry INTEGER NOT NULL,
  owner TEXT NOT NULL, phase INTEGER NOT NULL, corpus TEXT NOT NULL, unit TEXT NOT NULL, epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL, outcome TEXT NOT NULL, generation INTEGER NOT NULL, started_us INTEGER NOT NULL,
  scoring TEXT, content TEXT NOT NULL, whole TEXT NOT NULL,
  PRIMARY KEY (source, old_entry)
) WITHOUT ROWID;
CREATE TEMP TABLE step (
  source INTEGER NOT NULL, old_id INTEGER NOT NULL,
  lane TEXT NOT NULL, corpus TEXT NOT NULL, origin TEXT NOT NULL, attempt INTEGER NOT NULL, seq INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  PRIMARY KEY (source, old_id)
) WITHOUT ROWID;
CREATE TEMP TABLE note (
  origin TEXT NOT NULL, at_us INTEGER NOT NULL, kind TEXT NOT NULL, scope TEXT NOT NULL, corpus TEXT,
  attempt INTEGER, passed INTEGER, message TEXT, data TEXT
);
CREATE TEMP TABLE again (at_us INTEGER NOT NULL, data TEXT NOT NULL);

-- name: names
INSERT OR IGNORE INTO origin (uuid, run_id, created_us, ranges) SELECT uuid, run_id, created_us, ranges FROM src.origin;
INSERT OR IGNORE INTO owner (name) SELECT name FROM src.owner ORDER BY name;
INSERT OR IGNORE INTO message (text) SELECT text FROM src.message ORDER BY text;
INSERT OR IGNORE INTO labels (data) SELECT data FROM src.labels ORDER BY data;
INSERT OR IGNORE INTO shape (names) SELECT names FROM src.shape ORDER BY names;
INSERT INTO payload (hash, bytes, body) SELECT hash, bytes, body FROM src.payload WHERE true
ON CONFLICT (hash) DO UPDATE SET body = excluded.body WHERE payload.body IS NULL;

-- name: stage
-- content and scoring: what two sources must agree on (a scoring stays with the last attempt only). Values of metrics
-- are not among it: they follow from the content, or were measured and are never the same twice;
-- whole: the measured rest, which tells copies of one row from two rows
INSERT INTO stage
SELECT ?1, p.entry, o.name, p.phase, p.corpus, p.unit, p.epoch, p.attempt, p.outcome, e.generation, e.started_us,
  CASE WHEN s.entry IS NOT NULL THEN digest(s.state, l.data) END,
  digest(p.outcome, plain(e.data), (
    SELECT group_concat(digest(v.evaluator, v.value, v.correct), '') FROM (
      SELECT * FROM src.verdict WHERE entry = p.entry ORDER BY seq) v)),
  digest(m.text, e.times, plain(e.measured), e.payloads, (
    SELECT group_concat(digest(c.endpoint, c.outcome, c.started_us, c.network_us, c.usage, c.cost_usd), '') FROM (
      SELECT * FROM src.call WHERE entry = p.entry ORDER BY seq) c))
FROM src.phase p
JOIN src.owner o ON o.id = p.owner
JOIN src.entry e ON e.id = p.entry
LEFT JOIN src.message m ON m.id = e.message
LEFT JOIN src.score s ON p.phase = 5 AND s.owner = p.owner AND s.corpus = p.corpus AND s.unit = p.unit
  AND s.epoch = p.epoch AND s.generation = e.generation AND s.entry = p.entry
LEFT JOIN src.labels l ON l.id = s.labels;

-- name: stage_steps
INSERT INTO step
SELECT ?1, r.id, o.name, r.corpus, g.uuid, r.attempt, r.seq, r.at_us
FROM src.corpus_row r JOIN src.owner o ON o.id = r.lane JOIN src.origin g ON g.id = r.origin;

-- name: stage_probes
INSERT INTO note
SELECT g.uuid, p.at_us, p.kind, p.lane, p.corpus, p.attempt, p.passed, NULL, plain(p.data)
FROM src.probe p JOIN src.origin g ON g.id = p.origin;

-- name: stage_events
INSERT INTO note
SELECT g.uuid, e.at_us, e.kind, e.scope, NULL, NULL, NULL, e.message, plain(e.data)
FROM src.event e JOIN src.origin g ON g.id = e.origin;

-- name: stage_resumes
INSERT INTO again SELECT at_us, data FROM src.resume;

-- name: choose
-- the last ok attempt of each source stands for it; the earliest of these wins and becomes the last attempt
CREATE TEMP TABLE candidate AS
SELECT source, old_entry, owner, phase, corpus, unit, epoch, generation, started_us, scoring, content, whole FROM (
  SELECT *, row_number() OVER (
    PARTITION BY source, owner, phase, corpus, unit, epoch, generation ORDER BY attempt DESC) AS place
  FROM stage WHERE outcome = 'ok')
WHERE place = 1;
CREATE INDEX temp.candidate_by_key ON candidate (owner, phase, corpus, unit, epoch, generation, started_us, content, whole);
CREATE TEMP TABLE chosen AS
SELECT source, old_entry, owner, phase, corpus, unit, epoch, generation, outcome, scoring,
  row_number() OVER (
    PARTITION BY owner, phase, corpus, unit, epoch
    ORDER BY generation, wins, started_us, content, whole) AS attempt,
  row_number() OVER (
    ORDER BY owner, phase, corpus, unit, epoch, generation, wins, started_us, content, whole) AS entry
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY owner, phase, corpus, unit, epoch, generation, started_us, content, whole
    ORDER BY scoring IS NULL, source) AS copy
  FROM (
    SELECT s.*, EXISTS (
      SELECT 1 FROM (
        SELECT c.started_us AS first_us, c.content AS first_content, c.whole AS first_whole FROM candidate c
        WHERE c.owner = s.owner AND c.phase = s.phase AND c.corpus = s.corpus AND c.unit = s.unit
          AND c.epoch = s.epoch AND c.generation = s.generation
        ORDER BY c.started_us, c.content, c.whole LIMIT 1)
      WHERE first_us = s.started_us AND first_content = s.content AND first_whole = s.whole) AS wins
    FROM stage s))
WHERE copy = 1;
CREATE UNIQUE INDEX temp.chosen_by_source ON chosen (source, old_entry);
CREATE INDEX temp.chosen_by_key ON chosen (owner, phase, corpus, unit, epoch, generation, attempt) WHERE scoring IS NOT NULL;
CREATE TEMP TABLE chosen_step AS
SELECT source, old_id, origin, (SELECT coalesce(max(entry), 0) FROM chosen)
  + row_number() OVER (ORDER BY lane, corpus, origin, attempt, seq) AS id
FROM (
  SELECT *, row_number() OVER (PARTITION BY lane, corpus, origin, attempt, seq ORDER BY at_us, source) AS copy FROM step)
WHERE copy = 1;
CREATE UNIQUE INDEX temp.chosen_step_by_source ON chosen_step (source, old_id);

-- name: conflicts
SELECT DISTINCT owner, phase, corpus, unit, epoch FROM candidate
GROUP BY owner, phase, corpus, unit, epoch, generation
HAVING min(content) <> max(content) OR min(scoring) <> max(scoring)
ORDER BY owner, phase, corpus, unit, epoch;

-- name: shared
-- part(source) numbers the distinct ranges: an item that is in two of them is one item
SELECT owner, phase, sum(parts - 1) FROM (
  SELECT owner, phase, count(DISTINCT part(source)) AS parts FROM stage WHERE phase IN (3, 5)
  GROUP BY owner, phase, corpus, unit)
GROUP BY owner, phase;

-- name: phases
INSERT INTO phase (owner, phase, corpus, unit, epoch, attempt, outcome, entry)
SELECT o.id, c.phase, c.corpus, c.unit, c.epoch, c.attempt, c.outcome, c.entry
FROM chosen c JOIN owner o ON o.name = c.owner
ORDER BY o.id, c.phase, c.corpus, c.unit, c.epoch, c.attempt;

-- name: entries
INSERT INTO entry (id, started_us, generation, message, times, data, measured, payloads)
SELECT c.entry, e.started_us, e.generation, n.id, e.times, e.data, e.measured, e.payloads
FROM chosen c
JOIN src.entry e ON e.id = c.old_entry
LEFT JOIN src.message m ON m.id = e.message
LEFT JOIN message n ON n.text = m.text
WHERE c.source = ?1;

-- name: verdicts
INSERT INTO verdict
SELECT c.entry, v.seq, v.evaluator, v.value, v.correct, v.reason, v.judged, v.abstained, v.faithfulness, v.model,
  v.fingerprint, v.prompt_name, v.prompt_sha256, v.raw, v.ignored
FROM chosen c JOIN src.verdict v ON v.entry = c.old_entry
WHERE c.source = ?1;

-- name: calls
INSERT INTO call
SELECT c.entry, k.seq, k.endpoint, k.role, k.attempt, k.status, k.outcome, k.started_us, k.queue_us, k.limiter_us,
  k.network_us, k.provider_us, k.request_bytes, k.response_bytes, k.model, k.usage, k.cost_usd
FROM (
  SELECT source, old_entry, entry FROM chosen UNION ALL SELECT source, old_id, id FROM chosen_step) c
JOIN src.call k ON k.entry = c.old_entry
WHERE c.source = ?1;

-- name: scores
INSERT OR REPLACE INTO score (owner, corpus, unit, epoch, generation, state, outcome, labels, shape, packed, entry)
SELECT o.id, c.corpus, c.unit, c.epoch, c.generation, s.state, s.outcome, l.id, h.id, s.packed, c.entry
FROM chosen c
JOIN src.owner so ON so.name = c.owner
JOIN src.score s ON s.owner = so.id AND s.corpus = c.corpus AND s.unit = c.unit AND s.epoch = c.epoch
  AND s.generation = c.generation AND s.entry = c.old_entry
JOIN src.labels sl ON sl.id = s.labels
JOIN src.shape sh ON sh.id = s.shape
JOIN owner o ON o.name = c.owner
JOIN labels l ON l.data = sl.data
JOIN shape h ON h.names = sh.names
WHERE c.source = ?1 AND c.attempt = (
  SELECT max(d.attempt) FROM chosen d
  WHERE d.owner = c.owner AND d.phase = c.phase AND d.corpus = c.corpus AND d.unit = c.unit AND d.epoch = c.epoch
    AND d.generation = c.generation AND d.scoring IS NOT NULL);

-- name: steps
INSERT INTO corpus_row (id, lane, corpus, origin, attempt, seq, kind, outcome, message, at_us, times, data)
SELECT c.id, o.id, r.corpus, g.id, r.attempt, r.seq, r.kind, r.outcome, n.id, r.at_us, r.times, r.data
FROM chosen_step c
JOIN src.corpus_row r ON r.id = c.old_id
JOIN src.owner so ON so.id = r.lane
JOIN owner o ON o.name = so.name
JOIN origin g ON g.uuid = c.origin
LEFT JOIN src.message m ON m.id = r.message
LEFT JOIN message n ON n.text = m.text
WHERE c.source = ?1;

-- name: notes
INSERT INTO probe (origin, lane, corpus, attempt, kind, passed, at_us, data)
SELECT g.id, n.scope, n.corpus, n.attempt, n.kind, n.passed, n.at_us, n.data
FROM (SELECT DISTINCT * FROM note WHERE corpus IS NOT NULL) n JOIN origin g ON g.uuid = n.origin
ORDER BY n.at_us, n.origin, n.scope, n.corpus, n.attempt, n.kind;
INSERT INTO event (origin, kind, scope, message, at_us, data)
SELECT g.id, n.kind, n.scope, n.message, n.at_us, n.data
FROM (SELECT DISTINCT * FROM note WHERE corpus IS NULL) n JOIN origin g ON g.uuid = n.origin
ORDER BY n.at_us, n.origin, n.kind, n.scope, n.message;
INSERT INTO resume (at_us, data) SELECT DISTINCT at_us, data FROM again ORDER BY at_us, data;

-- name: count
SELECT count(*) FROM phase;
