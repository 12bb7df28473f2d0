-- name: lock
SELECT pg_advisory_xact_lock(hashtext('bench_rag'));

-- name: create_extension
CREATE EXTENSION IF NOT EXISTS vector;

-- name: create_pieces
CREATE TABLE IF NOT EXISTS bench_rag_pieces (
  ns text NOT NULL,
  id text NOT NULL,
  memory text NOT NULL,
  written bigint GENERATED ALWAYS AS IDENTITY,
  body jsonb NOT NULL,
  PRIMARY KEY (ns, id)
);

-- name: create_vectors
CREATE TABLE IF NOT EXISTS bench_rag_vectors (
  ns text NOT NULL,
  piece text NOT NULL,
  kind text NOT NULL,
  embedding vector NOT NULL,
  FOREIGN KEY (ns, piece) REFERENCES bench_rag_pieces (ns, id) ON DELETE CASCADE
);

-- name: create_index
CREATE INDEX IF NOT EXISTS bench_rag_vectors_piece ON bench_rag_vectors (ns, piece);

-- name: drop
DELETE FROM bench_rag_pieces WHERE ns = %s AND id = %s;

-- name: put_piece
INSERT INTO bench_rag_pieces (ns, id, memory, body) VALUES (%s, %s, %s, %s::jsonb);

-- name: put_vector
INSERT INTO bench_rag_vectors (ns, piece, kind, embedding) VALUES (%s, %s, %s, %s::vector);

-- name: pieces
SELECT body FROM bench_rag_pieces WHERE ns = %s ORDER BY written;

-- name: alike
SELECT p.id, v.kind, max(1 - (v.embedding <=> %(wanted)s::vector))
FROM bench_rag_pieces p JOIN bench_rag_vectors v ON v.ns = p.ns AND v.piece = p.id
WHERE p.ns = %(ns)s
GROUP BY p.id, p.written, v.kind
ORDER BY p.written;

-- name: forget
DELETE FROM bench_rag_pieces WHERE ns = %s AND memory = ANY(%s);

-- name: clear
DELETE FROM bench_rag_pieces WHERE ns = %s;
