-- name: lock
SELECT pg_advisory_xact_lock(hashtext('bench_memories'));

-- name: create_extension
CREATE EXTENSION IF NOT EXISTS vector;

-- name: create
CREATE TABLE IF NOT EXISTS bench_memories (
  ns text NOT NULL,
  id text NOT NULL,
  content text NOT NULL,
  metadata jsonb NOT NULL,
  embedding vector NOT NULL,
  PRIMARY KEY (ns, id)
);

-- name: create_index
CREATE INDEX IF NOT EXISTS {index} ON bench_memories
USING hnsw ((embedding::vector({dimensions})) vector_cosine_ops);

-- name: put
INSERT INTO bench_memories (ns, id, content, metadata, embedding)
VALUES (%s, %s, %s, %s::jsonb, %s::vector)
ON CONFLICT (ns, id) DO UPDATE SET
  content = excluded.content, metadata = excluded.metadata, embedding = excluded.embedding;

-- name: search
SELECT id, content, metadata, 1 - (embedding <=> %(wanted)s::vector) AS score
FROM bench_memories
WHERE ns = %(ns)s
ORDER BY embedding <=> %(wanted)s::vector, id
LIMIT %(k)s;

-- name: search_index
SELECT id, content, metadata, 1 - (embedding::vector({dimensions}) <=> %(wanted)s::vector({dimensions})) AS score
FROM bench_memories
WHERE ns = %(ns)s
ORDER BY embedding::vector({dimensions}) <=> %(wanted)s::vector({dimensions})
LIMIT %(k)s;

-- name: list
SELECT id, content, metadata, NULL AS score FROM bench_memories
WHERE ns = %(ns)s AND (%(session)s::text IS NULL OR metadata ->> 'session' = %(session)s)
ORDER BY id;

-- name: count
SELECT count(*) FROM bench_memories WHERE ns = %s;

-- name: delete
DELETE FROM bench_memories WHERE ns = %s AND id = ANY(%s);

-- name: clear
DELETE FROM bench_memories WHERE ns = %s;

-- name: version
SELECT current_setting('server_version'), extversion FROM pg_extension WHERE extname = 'vector';
