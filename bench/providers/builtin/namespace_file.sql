-- name: create
CREATE TABLE IF NOT EXISTS memories (
  position INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  content TEXT NOT NULL,
  session TEXT,
  at TEXT,
  embedding BLOB
);

-- name: create_words
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(content, tokenize = 'porter unicode61');

-- name: put
INSERT INTO memories (id, content, session, at, embedding) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
  content = excluded.content, session = excluded.session, at = excluded.at, embedding = excluded.embedding;

-- name: forget_words
DELETE FROM words WHERE rowid IN (SELECT position FROM memories WHERE id = ?);

-- name: put_words
INSERT INTO words (rowid, content) SELECT position, ?1 FROM memories WHERE id = ?2;

-- name: match
SELECT m.id, m.content, m.session, m.at, bm25(words) AS score
FROM words JOIN memories m ON m.position = words.rowid
WHERE words MATCH ?
ORDER BY bm25(words), words.rowid
LIMIT ?;

-- name: all
SELECT id, content, session, at FROM memories WHERE ?1 IS NULL OR session = ?1 ORDER BY position;

-- name: embeddings
SELECT id, content, session, at, embedding FROM memories ORDER BY position;

-- name: count
SELECT count(*) FROM memories;

-- name: delete
DELETE FROM memories WHERE id = ?;
