"""The work on a corpus: namespace, ingest, index, isolation checks, reuse and cleanup."""
