-- The queries of readers. CROSS JOIN keeps SQLite from turning a lookup of a few units into a scan.

-- name: meta
SELECT key, value FROM meta;

-- name: holder
SELECT pid, host, boot, started, token, since_us, heartbeat_us FROM holder;

-- name: resumes
SELECT at_us, data FROM resume ORDER BY id;

-- name: origins
SELECT uuid, run_id, created_us, ranges FROM origin ORDER BY id;

-- name: owners
SELECT o.name, o.id FROM owner o ORDER BY o.name;

-- name: owner_has_phase
SELECT EXISTS (SELECT 1 FROM phase WHERE owner = ?1 AND phase = ?2);

-- name: finished
-- verdicts of a rescore are not those of the run
SELECT json_group_array(unit) FILTER (WHERE epoch = 1),
  json_group_array(json_array(unit, epoch)) FILTER (WHERE epoch <> 1)
FROM phase
WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND phase = ?2 AND outcome = 'ok'
  AND (phase <> 5 OR (SELECT generation FROM entry WHERE id = phase.entry) = 0);

-- name: load
SELECT j.key, p.attempt, p.outcome, e.started_us, e.generation, m.text, e.times, e.data, e.measured, e.payloads, e.id
FROM json_each(?1) j CROSS JOIN owner o ON o.name = j.value ->> 0
CROSS JOIN phase p ON p.owner = o.id AND p.phase = j.value ->> 1 AND p.corpus = j.value ->> 2
  AND p.unit = j.value ->> 3 AND p.epoch = j.value ->> 4
JOIN entry e ON e.id = p.entry
LEFT JOIN message m ON m.id = e.message
WHERE p.attempt = (
  SELECT max(q.attempt) FROM phase q
  WHERE q.owner = p.owner AND q.phase = p.phase AND q.corpus = p.corpus AND q.unit = p.unit AND q.epoch = p.epoch);

-- name: corpus
SELECT r.id, o.name, r.corpus, g.uuid, r.attempt, r.seq, r.kind, r.outcome, m.text, r.at_us, r.times, r.data
FROM corpus_row r
JOIN owner o ON o.id = r.lane
JOIN origin g ON g.id = r.origin
LEFT JOIN message m ON m.id = r.message
WHERE o.name = ?1 AND r.corpus = ?2 AND r.origin = 1 AND r.kind <> 'calls'
ORDER BY r.attempt, r.seq;

-- name: corpora
SELECT r.id, o.name, r.corpus, g.uuid, r.attempt, r.seq, r.kind, r.outcome, m.text, r.at_us, r.times, r.data
FROM corpus_row r
JOIN owner o ON o.id = r.lane
JOIN origin g ON g.id = r.origin
LEFT JOIN message m ON m.id = r.message
WHERE o.name = ?1
ORDER BY r.corpus, r.origin, r.attempt, r.seq;

-- name: counts
SELECT phase, outcome, count(*) FROM phase GROUP BY phase, outcome;

-- name: corpus_counts
SELECT kind, outcome, count(*) FROM corpus_row WHERE kind IN ('ingested', 'ready', 'failed') GROUP BY kind, outcome;

-- name: last_outcomes
-- how a phase of each item ended last
SELECT outcome, count(*) FROM (
  SELECT outcome, max(attempt) FROM phase WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND phase = ?2
  GROUP BY corpus, unit, epoch)
GROUP BY outcome;

-- name: last_evaluations
-- how the evaluation of each item ended last, without the items whose phase ?3 of owner ?2 did not succeed
SELECT outcome, count(*) FROM (
  SELECT corpus, unit, epoch, outcome, max(attempt) FROM phase
  WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND phase = 5
  GROUP BY corpus, unit, epoch) e
WHERE outcome = 'ok' OR 'ok' = (
  SELECT p.outcome FROM phase p
  WHERE p.owner = (SELECT id FROM owner WHERE name = ?2) AND p.phase = ?3
    AND p.corpus = e.corpus AND p.unit = e.unit AND p.epoch = e.epoch
  ORDER BY p.attempt DESC LIMIT 1)
GROUP BY outcome;

-- name: last_steps
-- how ingest (1) and index (2) of each corpus of a lane ended in its last attempt
WITH last AS (
  SELECT corpus, origin, max(attempt) AS attempt FROM corpus_row
  WHERE lane = (SELECT id FROM owner WHERE name = ?1)
  GROUP BY corpus, origin),
ended AS (
  SELECT max(r.kind = 'ingested') AS ingested, max(r.id) FILTER (WHERE r.kind IN ('ready', 'failed')) AS row
  FROM last JOIN corpus_row r USING (corpus, origin, attempt)
  WHERE r.lane = (SELECT id FROM owner WHERE name = ?1)
  GROUP BY corpus, origin)
SELECT 1, 'ok', count(*) FROM ended WHERE ingested HAVING count(*)
UNION ALL
SELECT iif(ingested OR r.kind = 'ready', 2, 1), r.outcome, count(*) FROM ended JOIN corpus_row r ON r.id = ended.row
GROUP BY 1, 2;

-- name: states
SELECT state, count(*) FROM (
  SELECT state, max(generation) FROM score
  WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation >= 0
  GROUP BY corpus, unit, epoch)
GROUP BY state;

-- name: ended_from
-- items that ended, with their last epoch ?3, at or after a time
SELECT count(*) FROM score s JOIN entry e ON e.id = s.entry
WHERE s.owner = (SELECT id FROM owner WHERE name = ?1) AND s.epoch = ?3 AND s.generation = 0 AND e.started_us >= ?2;

-- name: repeats
-- how the repeats of each item ended in the newest scoring, equal lists together
SELECT found, count(*) FROM (
  SELECT json_group_array(json_array(state, outcome)) AS found FROM (
    SELECT corpus, unit, state, outcome, max(generation) FROM score
    WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation >= 0
    GROUP BY corpus, unit, epoch)
  GROUP BY corpus, unit)
GROUP BY found;

-- name: failed_for
-- the newest outcome of each item that failed, equal texts together, the commonest first; the corpus and the item
-- are empty if a text has several
SELECT s.outcome, coalesce(m.text, ''), count(*),
  iif(min(corpus) = max(corpus), corpus, ''), iif(min(unit) = max(unit), unit, '') FROM (
  SELECT corpus, unit, state, outcome, entry, max(generation) FROM score
  WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation >= 0
  GROUP BY corpus, unit, epoch) s
JOIN entry e ON e.id = s.entry LEFT JOIN message m ON m.id = e.message
WHERE s.state IN ('error', 'not_ready')
GROUP BY s.outcome, m.text ORDER BY count(*) DESC, s.outcome, m.text;

-- name: flagged
-- what was noted of the newest attempt of each item in a phase, with the tokens that were sent and counted
SELECT json_extract(measured, '$.flags'), outcome, count(*), sum(coalesce(json_extract(measured, '$.sent_tokens'), 0)),
  sum(coalesce(json_extract(measured, '$.tokens_in'), json_extract(measured, '$.tokens.judge_in'), 0)),
  sum(coalesce(json_extract(measured, '$.tokens_out'), json_extract(measured, '$.tokens.judge_out'), 0)),
  sum(CAST(json_extract(measured, '$.saved_usd') AS REAL)), min(unit)
FROM (
  SELECT e.measured, p.outcome, p.unit, max(p.attempt) FROM phase p JOIN entry e ON e.id = p.entry
  WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = ?2
  GROUP BY p.corpus, p.unit, p.epoch)
WHERE typeof(measured) = 'text' AND measured LIKE '%"flags"%'
GROUP BY 1, 2;

-- name: any_flag
SELECT EXISTS (SELECT 1 FROM entry WHERE typeof(measured) = 'text' AND measured LIKE '%"flags"%');

-- name: reply_models
-- the models that replied in the newest attempt of each item in a phase, as their endpoints name them
SELECT c.model, count(*) FROM (
  SELECT p.entry, max(p.attempt) FROM phase p
  WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = ?2
  GROUP BY p.corpus, p.unit, p.epoch) newest
JOIN call c ON c.entry = newest.entry
WHERE c.role = ?3 AND c.outcome = 'ok' AND c.model IS NOT NULL
GROUP BY c.model ORDER BY count(*) DESC, c.model;

-- name: repliers
-- every model that replied in a role
SELECT DISTINCT role, model FROM call WHERE outcome = 'ok' AND model IS NOT NULL;

-- name: unscored_for
-- the verdicts that judges owe in the newest scoring of each item, by evaluator and reason, the commonest first
SELECT v.evaluator, v.reason, count(*) FROM (
  SELECT entry, max(generation) FROM score
  WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation >= 0
  GROUP BY corpus, unit, epoch) s
JOIN verdict v ON v.entry = s.entry
WHERE v.judged AND v.value IS NULL AND v.reason NOT IN ('no_judge', 'no_rubric', 'no_statements')
GROUP BY v.evaluator, v.reason ORDER BY count(*) DESC, v.evaluator, v.reason;

-- name: any_unscored
SELECT EXISTS (
  SELECT 1 FROM verdict
  WHERE judged AND value IS NULL AND reason NOT IN ('no_judge', 'no_rubric', 'no_statements'));

-- name: rescored
SELECT max(generation) > 0 FROM score WHERE owner = (SELECT id FROM owner WHERE name = ?1);

-- name: values
SELECT corpus, unit, epoch, state, outcome, labels, shape, packed
FROM score WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation >= 0
ORDER BY corpus, unit, epoch;

-- name: newest_values
SELECT corpus, unit, epoch, state, outcome, labels, shape, packed, max(generation)
FROM score WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation >= 0
GROUP BY corpus, unit, epoch
ORDER BY corpus, unit, epoch;

-- name: alike
SELECT state, outcome, labels, shape, corpus, packed
FROM score WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation >= 0
ORDER BY corpus, unit, epoch;

-- name: newest_alike
SELECT state, outcome, labels, shape, corpus, packed, max(generation)
FROM score WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND generation >= 0
GROUP BY corpus, unit, epoch
ORDER BY corpus, unit, epoch;

-- name: unvalued
-- ended items whose value at byte ?3 of a row of shape ?2 is NaN
SELECT s.corpus, s.unit, s.epoch, s.state, s.labels, e.data
FROM score s JOIN entry e ON e.id = s.entry
WHERE s.owner = (SELECT id FROM owner WHERE name = ?1) AND s.shape = ?2 AND s.generation >= 0
  AND substr(s.packed, ?3, 8) = x'000000000000f87f'
  AND NOT EXISTS (
    SELECT 1 FROM score t WHERE t.owner = s.owner AND t.corpus = s.corpus AND t.unit = s.unit AND t.epoch = s.epoch
      AND t.generation > s.generation);

-- name: all_labels
SELECT id, data FROM labels;

-- name: shapes
SELECT id, names FROM shape;

-- name: items
SELECT corpus, unit, epoch, phase, attempt, outcome, entry FROM (
  SELECT corpus, unit, epoch, phase, attempt, outcome, entry FROM phase
  WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND phase = 3
  UNION ALL
  SELECT corpus, unit, epoch, phase, attempt, outcome, entry FROM phase
  WHERE owner = (SELECT id FROM owner WHERE name = ?2) AND phase = 4
  UNION ALL
  SELECT corpus, unit, epoch, phase, attempt, outcome, entry FROM phase
  WHERE owner = (SELECT id FROM owner WHERE name = ?3) AND phase = 5
  ORDER BY corpus, unit, epoch, phase, attempt);

-- name: item
SELECT corpus, unit, epoch, phase, attempt, outcome, entry FROM phase
WHERE ((owner = (SELECT id FROM owner WHERE name = ?1) AND phase = 3)
    OR (owner = (SELECT id FROM owner WHERE name = ?2) AND phase = 4)
    OR (owner = (SELECT id FROM owner WHERE name = ?3) AND phase = 5))
  AND unit = ?4
ORDER BY corpus, unit, epoch, phase, attempt;

-- name: item_in
SELECT corpus, unit, epoch, phase, attempt, outcome, entry FROM phase
WHERE ((owner = (SELECT id FROM owner WHERE name = ?1) AND phase = 3)
    OR (owner = (SELECT id FROM owner WHERE name = ?2) AND phase = 4)
    OR (owner = (SELECT id FROM owner WHERE name = ?3) AND phase = 5))
  AND unit = ?4 AND corpus = ?5
ORDER BY corpus, unit, epoch, phase, attempt;

-- name: entries
SELECT e.id, e.started_us, e.generation, m.text, e.times, e.data, e.measured, e.payloads
FROM json_each(?1) j CROSS JOIN entry e ON e.id = j.value
LEFT JOIN message m ON m.id = e.message;

-- name: scores
SELECT s.corpus, s.unit, s.epoch, s.entry, s.state, s.outcome, l.data, h.names, s.packed, s.generation
FROM json_each(?2) j CROSS JOIN score s ON s.owner = (SELECT id FROM owner WHERE name = ?1)
  AND s.corpus = j.value ->> 0 AND s.unit = j.value ->> 1 AND s.epoch = j.value ->> 2
  AND s.generation >= 0
JOIN labels l ON l.id = s.labels
JOIN shape h ON h.id = s.shape
ORDER BY s.corpus, s.unit, s.epoch, s.generation;

-- name: scores_of_one
-- for an id with a NUL, at which a text out of JSON ends
SELECT s.corpus, s.unit, s.epoch, s.entry, s.state, s.outcome, l.data, h.names, s.packed, s.generation
FROM score s JOIN labels l ON l.id = s.labels JOIN shape h ON h.id = s.shape
WHERE s.owner = (SELECT id FROM owner WHERE name = ?1) AND s.corpus = ?2 AND s.unit = ?3 AND s.epoch = ?4
  AND s.generation >= 0
ORDER BY s.generation;

-- name: said
-- what every attempt of an evaluate phase came to, the newest first
SELECT v.* FROM phase p CROSS JOIN verdict v ON v.entry = p.entry
WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = ?2 AND p.corpus = ?3 AND p.unit = ?4
  AND p.epoch = ?5
ORDER BY p.attempt DESC, v.seq;

-- name: verdicts
SELECT v.* FROM json_each(?1) j CROSS JOIN verdict v ON v.entry = j.value ORDER BY v.entry, v.seq;

-- name: calls
SELECT c.* FROM json_each(?1) j CROSS JOIN call c ON c.entry = j.value ORDER BY c.entry, c.seq;

-- name: any_call
SELECT EXISTS (SELECT 1 FROM call);

-- name: owner_calls
SELECT c.* FROM phase p JOIN call c ON c.entry = p.entry
WHERE p.owner = (SELECT id FROM owner WHERE name = ?1)
UNION ALL
SELECT c.* FROM corpus_row r JOIN call c ON c.entry = r.id
WHERE r.lane = (SELECT id FROM owner WHERE name = ?1);

-- name: searched
-- the searches of a lane in one pass. All: items. Those that ended well: time without queue and limiter; in short rows
-- hits that can be mapped, those of them that map to no memory, searches, and searches with a flag; long rows
-- LIMIT keeps SQLite from computing what is named here again for each use
SELECT coalesce(sum(is_first), 0), coalesce(sum(time_us) FILTER (WHERE ok), 0),
  coalesce(sum(json_array_length(data, '$.retrieved')) FILTER (WHERE short AND mapped), 0),
  coalesce(sum(json_extract(data, '$.unmapped')) FILTER (WHERE short AND mapped), 0),
  count(*) FILTER (WHERE short), count(*) FILTER (WHERE short AND json_array_length(data, '$.flags') > 0),
  count(*) FILTER (WHERE ok AND typeof(data) = 'blob')
FROM (
  SELECT CASE WHEN p.attempt = 1 THEN 1 ELSE NOT EXISTS (
      SELECT 1 FROM phase q WHERE q.owner = p.owner AND q.phase = p.phase AND q.corpus = p.corpus AND q.unit = p.unit
        AND q.epoch = p.epoch AND q.attempt < p.attempt) END AS is_first,
    p.outcome = 'ok' AS ok, p.outcome = 'ok' AND typeof(e.data) = 'text' AS short, e.data,
    instr(e.data, '"retrieved":[') AS mapped,
    CASE WHEN instr(e.times, '"network":') OR instr(e.times, '"provider":')
      THEN coalesce(e.times ->> '$.network', 0) + coalesce(e.times ->> '$.provider', 0)
      ELSE e.times ->> '$.total' END AS time_us
  FROM phase p JOIN entry e ON e.id = p.entry
  WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = 3
  LIMIT -1);

-- name: search_flags
-- each flag of a search with its count and two of its items; short rows only
SELECT f.value, count(*), min(p.unit), max(p.unit)
FROM phase p JOIN entry e ON e.id = p.entry, json_each(e.data, '$.flags') f
WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = 3 AND p.outcome = 'ok'
  AND typeof(e.data) = 'text' AND e.data NOT LIKE '%"flags":[]%'
GROUP BY 1;

-- name: replies
-- what the responses of searches contained next to hits, or instead of them, the most frequent first
SELECT e.measured ->> '$.replied', e.measured ->> '$.warned', count(*) FROM phase p JOIN entry e ON e.id = p.entry
WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = 3 AND p.outcome = 'ok'
  AND typeof(e.measured) = 'text' AND (e.measured LIKE '%"replied"%' OR e.measured LIKE '%"warned"%')
GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2;

-- name: long_searches
SELECT e.data, p.unit FROM phase p JOIN entry e ON e.id = p.entry
WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = 3 AND p.outcome = 'ok'
  AND typeof(e.data) = 'blob';

-- name: spending
-- equal costs together; a failed call of unknown cost is counted as unknown only if it has a usage
SELECT cost_usd, outcome = 'ok' OR usage IS NOT NULL, count(*) FROM call GROUP BY 1, 2;

-- name: answered
-- a phase in one pass, by corpus: items; the time of those that ended well, without queue and limiter; the newest
-- answers that a model gave, and the tokens of their contexts (short rows only); attempts that ended well
SELECT corpus, sum(is_first), coalesce(sum(time_us) FILTER (WHERE ok), 0), count(tokens), coalesce(sum(tokens), 0),
  sum(ok)
FROM (
  SELECT p.corpus, CASE WHEN p.attempt = 1 THEN 1 ELSE NOT EXISTS (
      SELECT 1 FROM phase q WHERE q.owner = p.owner AND q.phase = p.phase AND q.corpus = p.corpus AND q.unit = p.unit
        AND q.epoch = p.epoch AND q.attempt < p.attempt) END AS is_first,
    p.outcome = 'ok' AS ok,
    CASE WHEN instr(e.times, '"network":') OR instr(e.times, '"provider":')
      THEN coalesce(e.times ->> '$.network', 0) + coalesce(e.times ->> '$.provider', 0)
      ELSE e.times ->> '$.total' END AS time_us,
    CASE WHEN p.outcome = 'ok' AND typeof(e.measured) = 'text' AND e.measured ->> '$.model' IS NOT '(given)'
      AND NOT EXISTS (
        SELECT 1 FROM phase q JOIN entry f ON f.id = q.entry
        WHERE q.owner = p.owner AND q.phase = p.phase AND q.corpus = p.corpus AND q.unit = p.unit
          AND q.epoch = p.epoch AND q.attempt > p.attempt AND typeof(f.measured) = 'text')
      THEN e.measured ->> '$.context_tokens' END AS tokens
  FROM phase p JOIN entry e ON e.id = p.entry
  WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = ?2)
GROUP BY corpus;

-- name: phase_calls
-- the calls of every attempt of a phase, equal costs together: cost, billed, calls, tokens in and out
SELECT c.cost_usd, c.outcome = 'ok' OR c.usage IS NOT NULL, count(*), coalesce(sum((c.usage ->> '$[0]') + (c.usage ->> '$[3]')), 0)
FROM phase p JOIN call c ON c.entry = p.entry
WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = ?2
GROUP BY 1, 2;

-- name: uncounted_costs
-- the calls of a job that the values of its items do not include: of items without a score, of earlier attempts, and
-- (not of the lane, ?1) of no item; equal costs together: owner, cost, billed, calls
SELECT owner, cost_usd, billed, sum(calls) FROM (
  SELECT o.name AS owner, c.cost_usd, c.outcome = 'ok' OR c.usage IS NOT NULL AS billed, count(*) AS calls
  FROM owner o JOIN phase p ON p.owner = o.id JOIN call c ON c.entry = p.entry
  WHERE o.name IN (?1, ?2, ?3) AND (
    EXISTS (SELECT 1 FROM phase q WHERE q.owner = p.owner AND q.phase = p.phase AND q.corpus = p.corpus
      AND q.unit = p.unit AND q.epoch = p.epoch AND q.attempt > p.attempt)
    OR coalesce((SELECT s.state IN ('error', 'not_ready') FROM score s
      WHERE s.owner = (SELECT id FROM owner WHERE name = ?3) AND s.corpus = p.corpus AND s.unit = p.unit
        AND s.epoch = p.epoch ORDER BY s.generation DESC), 1))
  GROUP BY 1, 2, 3
  UNION ALL
  SELECT o.name, c.cost_usd, c.outcome = 'ok' OR c.usage IS NOT NULL, count(*)
  FROM owner o JOIN corpus_row r ON r.lane = o.id JOIN call c ON c.entry = r.id
  WHERE o.name IN (?2, ?3) AND o.name <> ?1
  GROUP BY 1, 2, 3)
GROUP BY 1, 2, 3;

-- name: lacking_costs
-- the known costs of the ended items of a job that also have a call of unknown cost, of all their epochs: cost, calls,
-- and 1 if the evaluation of the item (?3) has such a call; a provider without a price does not count
WITH paid AS (
  SELECT o.name AS owner, p.corpus, p.unit, c.cost_usd,
    c.cost_usd IS NULL AND (c.outcome = 'ok' OR c.usage IS NOT NULL) AND c.role <> 'provider' AS unknown
  FROM owner o JOIN phase p ON p.owner = o.id JOIN call c ON c.entry = p.entry
  WHERE o.name IN (?1, ?2, ?3)
    AND NOT EXISTS (SELECT 1 FROM phase q WHERE q.owner = p.owner AND q.phase = p.phase AND q.corpus = p.corpus
      AND q.unit = p.unit AND q.epoch = p.epoch AND q.attempt > p.attempt)
    AND NOT coalesce((SELECT s.state IN ('error', 'not_ready') FROM score s
      WHERE s.owner = (SELECT id FROM owner WHERE name = ?3) AND s.corpus = p.corpus AND s.unit = p.unit
        AND s.epoch = p.epoch ORDER BY s.generation DESC), 1)),
lacking AS (
  SELECT corpus, unit, max(unknown AND owner = ?3) AS judged FROM paid GROUP BY 1, 2 HAVING max(unknown))
SELECT cost_usd, count(*), judged AND owner = ?3
FROM paid JOIN lacking USING (corpus, unit) WHERE cost_usd IS NOT NULL GROUP BY 1, 3;

-- name: payload
SELECT body FROM payload WHERE hash = ?1;

-- name: probes
-- the last column: it is of the last attempt of its corpus in the journal that wrote it
SELECT p.lane, p.corpus, p.attempt, p.kind, p.passed, p.at_us, p.data, p.attempt >= coalesce((
    SELECT max(r.attempt) FROM corpus_row r
    WHERE r.lane = (SELECT id FROM owner WHERE name = ?1) AND r.corpus = p.corpus AND r.origin = p.origin
      AND r.kind <> 'calls'), 0)
FROM probe p WHERE p.lane = ?1 ORDER BY p.id;

-- name: events
SELECT id, kind, scope, message, at_us, data FROM event WHERE id > ?1 ORDER BY id;

-- name: ended_since
-- the items of a job that ended after an entry, in the order in which they did
SELECT corpus, unit, epoch, entry FROM score
WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND entry > ?2 AND generation >= 0
ORDER BY entry LIMIT ?3;

-- name: judged
-- the first verdict of a model on each item of a job in one scoring generation; null = the newest of each item
SELECT s.corpus, s.unit, s.epoch, l.data, v.value, v.correct, v.reason, v.model, v.prompt_name, v.prompt_sha256
FROM score s JOIN labels l ON l.id = s.labels
JOIN verdict v ON v.entry = s.entry
  AND v.seq = (SELECT min(w.seq) FROM verdict w WHERE w.entry = s.entry AND w.judged)
WHERE s.owner = (SELECT id FROM owner WHERE name = ?1)
  AND s.generation >= 0 AND s.generation = coalesce(?2, (
    SELECT max(t.generation) FROM score t
    WHERE t.owner = s.owner AND t.corpus = s.corpus AND t.unit = s.unit AND t.epoch = s.epoch))
ORDER BY s.corpus, s.unit, s.epoch;
