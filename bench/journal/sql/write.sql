-- The statements of the writer.

-- name: own
INSERT OR IGNORE INTO owner (name) VALUES (?);

-- name: message
INSERT OR IGNORE INTO message (text) VALUES (?);

-- name: labels
INSERT OR IGNORE INTO labels (data) VALUES (?);

-- name: shape
INSERT OR IGNORE INTO shape (names) VALUES (?);

-- name: payload
INSERT INTO payload (hash, bytes, body) VALUES (?1, ?2, ?3)
ON CONFLICT (hash) DO UPDATE SET body = excluded.body WHERE body IS NULL;

-- name: entry
INSERT INTO entry (id, started_us, generation, message, times, data, measured, payloads)
VALUES (?1, ?2, ?3, (SELECT id FROM message WHERE text = ?4), ?5, ?6, ?7, ?8);

-- name: phase
INSERT INTO phase (owner, phase, corpus, unit, epoch, attempt, outcome, entry)
SELECT o.id, ?2, ?3, ?4, ?5,
  CASE WHEN ?6 > 0 THEN ?6 ELSE 1 + coalesce((
    SELECT max(p.attempt) FROM phase p
    WHERE p.owner = o.id AND p.phase = ?2 AND p.corpus = ?3 AND p.unit = ?4 AND p.epoch = ?5), 0) END,
  ?7, ?8
FROM owner o WHERE o.name = ?1;

-- name: score
INSERT OR REPLACE INTO score (owner, corpus, unit, epoch, generation, state, outcome, labels, shape, packed, entry)
VALUES ((SELECT id FROM owner WHERE name = ?1), ?2, ?3, ?4, ?5, ?6, ?7,
  (SELECT id FROM labels WHERE data = ?8), (SELECT id FROM shape WHERE names = ?9), ?10, ?11);

-- name: verdict
INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: call
INSERT INTO call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: corpus_row
INSERT INTO corpus_row (id, lane, corpus, origin, attempt, seq, kind, outcome, message, at_us, times, data)
-- ?11: the journal whose attempt it is; this one unless that is one of those that were merged into it
SELECT ?1, o.id, ?3, g.id, ?4, 1 + coalesce((
    SELECT max(r.seq) FROM corpus_row r
    WHERE r.lane = o.id AND r.corpus = ?3 AND r.origin = g.id AND r.attempt = ?4), 0),
  ?5, ?6, (SELECT id FROM message WHERE text = ?7), ?8, ?9, ?10
FROM owner o JOIN origin g ON g.id = coalesce((SELECT id FROM origin WHERE uuid = ?11), 1) WHERE o.name = ?2;

-- name: probe
INSERT INTO probe (origin, lane, corpus, attempt, kind, passed, at_us, data) VALUES (1, ?, ?, ?, ?, ?, ?, ?);

-- name: event
INSERT INTO event (origin, kind, scope, message, at_us, data) VALUES (1, ?, ?, ?, ?, ?);

-- name: set_meta
INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: origin
INSERT INTO origin (uuid, run_id, created_us, ranges) VALUES (?, ?, ?, ?);

-- name: resume
INSERT INTO resume (at_us, data) VALUES (?, ?);

-- name: last_id
SELECT max(coalesce((SELECT max(id) FROM entry), 0), coalesce((SELECT max(id) FROM corpus_row), 0));

-- name: hold
INSERT OR REPLACE INTO holder (id, pid, host, boot, started, token, since_us, heartbeat_us)
VALUES (1, ?, ?, ?, ?, ?, ?, ?);

-- name: heartbeat
UPDATE holder SET heartbeat_us = ?1 WHERE token = ?2;

-- name: release
DELETE FROM holder WHERE token = ?1;

-- name: drop_payloads
UPDATE payload SET body = NULL WHERE body IS NOT NULL;

-- name: flip_scores
-- show or hide the scorings from ?1 to ?2: the number of a hidden scoring is negative
UPDATE score SET generation = -generation WHERE generation BETWEEN ?1 AND ?2;

-- name: flip_entries
UPDATE entry SET generation = -generation WHERE generation BETWEEN ?1 AND ?2;
