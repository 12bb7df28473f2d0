-- Pages of a journal's items, in the order of an index.

-- name: newest_generation
SELECT coalesce(max(generation), 0) FROM score WHERE owner = (SELECT id FROM owner WHERE name = ?1);

-- name: by_item
SELECT s.corpus, s.unit, s.entry FROM score s
WHERE s.owner = (SELECT id FROM owner WHERE name = ?1) AND (s.corpus, s.unit) > (?2, ?3)
  AND s.generation >= 0
  AND (?4 IS NULL OR s.state = ?4)
  AND (?5 IS NULL OR s.labels IN (SELECT value FROM json_each(?5)))
  AND (?6 = 0 OR s.generation = (SELECT max(t.generation) FROM score t
    WHERE t.owner = s.owner AND t.corpus = s.corpus AND t.unit = s.unit AND t.epoch = s.epoch))
GROUP BY s.corpus, s.unit
ORDER BY s.corpus, s.unit
LIMIT ?7;

-- name: payload_names
SELECT e.id, e.payloads FROM json_each(?1) j CROSS JOIN entry e ON e.id = j.value;

-- name: cells
SELECT s.corpus, s.unit, s.epoch, s.entry, s.state, s.outcome, l.data, h.names, s.packed, max(s.generation)
FROM json_each(?2) j CROSS JOIN score s ON s.owner = (SELECT id FROM owner WHERE name = ?1)
  AND s.corpus = j.value ->> 0 AND s.unit = j.value ->> 1 AND s.generation >= 0
JOIN labels l ON l.id = s.labels
JOIN shape h ON h.id = s.shape
GROUP BY s.corpus, s.unit, s.epoch;

-- name: times_count
SELECT count(*) FROM phase WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND phase = ?2 AND outcome = 'ok';

-- name: times
-- phases take turns in the numbers of entries, so every third of these could be no search at all: the numbers are mixed
SELECT e.times FROM phase p JOIN entry e ON e.id = p.entry
WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = ?2 AND p.outcome = 'ok'
  AND (p.entry * 2654435761 / 65536) % ?3 = 0
  AND e.times IS NOT NULL
LIMIT ?4;

-- name: entries_of_scores
SELECT min(entry), max(entry) FROM score WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation = 0;

-- name: ends
-- an item ends with its last epoch, ?4
SELECT b.n, e.started_us FROM (
  SELECT count(*) AS n, max(entry) AS last FROM score
  WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation = 0 AND epoch = ?4
  GROUP BY (entry - ?2) / ?3) b
JOIN entry e ON e.id = b.last
ORDER BY e.started_us;

-- name: corpus_of
SELECT DISTINCT corpus FROM score WHERE unit = ?1;
