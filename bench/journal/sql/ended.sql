-- The fields of a job's ended items that a receipt needs, one page at a time, in the order of the key.

-- name: scores
SELECT corpus, unit, epoch, entry, state, outcome, labels, shape, packed, max(generation)
FROM score WHERE owner = (SELECT id FROM owner WHERE name = ?1) AND (corpus, unit, epoch) > (?2, ?3, ?4)
  AND generation >= 0
GROUP BY corpus, unit, epoch
ORDER BY corpus, unit, epoch
LIMIT ?5;

-- name: phases
-- every attempt of one phase of the units from (?3, ?4, ?5) to (?6, ?7, ?8), pending ones among them
SELECT p.corpus, p.unit, p.epoch, p.attempt, p.outcome, p.entry, e.generation, e.times, e.data, e.measured
FROM phase p CROSS JOIN entry e ON e.id = p.entry
WHERE p.owner = (SELECT id FROM owner WHERE name = ?1) AND p.phase = ?2
  AND (p.corpus, p.unit, p.epoch) >= (?3, ?4, ?5) AND (p.corpus, p.unit, p.epoch) <= (?6, ?7, ?8)
ORDER BY p.corpus, p.unit, p.epoch, p.attempt;

-- name: costs
-- a failed call of unknown cost is counted as unknown only if it has a usage
SELECT c.entry, c.cost_usd FROM json_each(?1) j CROSS JOIN call c ON c.entry = j.value
WHERE c.cost_usd IS NOT NULL OR c.outcome = 'ok' OR c.usage IS NOT NULL ORDER BY c.entry, c.seq;
