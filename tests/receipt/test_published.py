"""The published reference results: they verify offline, and the bm25 run gives the same digest again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from perf import reference
from tests.cli.conftest import Bench, bench, environment

__all__ = ["bench", "environment"]

DEMO = {"bm25", "vector", "chroma", "pgvector", "mem0-library", "agent-memory-server", "hindsight"}


def receipts(root: Path) -> dict[tuple[str, str], Path]:
    """Each published receipt by its provider and benchmark."""
    return {
        (one.system, one.benchmark): root / "results/published/receipts" / f"{one.receipt_id}.json"
        for one in reference.published(root)
    }


@pytest.mark.parametrize("rows", [200, pytest.param(10_000, marks=pytest.mark.long)])
def test_every_published_receipt_and_the_log_verify(
    root: Path, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Larger items files, except that of bm25, are only compared with the digest in their receipt."""
    assert {system for system, benchmark in receipts(root) if benchmark == "demo"} >= DEMO
    for (system, _), path in receipts(root).items():
        items, stated = path.with_suffix(".items.jsonl"), json.loads(path.read_bytes())["perQuery"]
        assert sha256(items.read_bytes()).hexdigest() == stated["sha256"]
        for file in (path, items) if stated["count"] <= rows or system == "bm25" else (path,):
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(root)
    verified = bench("verify", str(tmp_path)).stdout
    assert all(f"VALID  {tmp_path / path.name}" in verified for path in receipts(root).values())
    assert bench("log", "verify").stdout.startswith("VALID ")


def test_the_published_bm25_receipt_is_reproduced_to_the_digest(root: Path, bench: Bench) -> None:
    done = bench(
        "reproduce", str(receipts(root)["bm25", "demo"]), "--trusted", str(root / "keys/trusted.json"), "--json"
    )
    found = json.loads(done.stdout)
    assert (found["level"], found["same"], found["differs"]) == ("R2", True, [])


def test_the_published_tables_and_chart_match_the_receipts(root: Path) -> None:
    for name, text in reference.made(root).items():
        assert (root / name).read_text(encoding="utf-8") == text, f"python -m perf.reference writes {name}"


def test_published_rows_contain_ids_and_ranks_but_no_text(root: Path) -> None:
    for path in receipts(root).values():
        with path.with_suffix(".items.jsonl").open(encoding="utf-8") as rows:
            texts = {text for row in rows for text in _texts(json.loads(row))}
        assert all(len(text) <= 64 and " " not in text for text in texts), path.name


def test_receipts_of_one_benchmark_have_the_same_evidence_ids(root: Path) -> None:
    golds: dict[str, dict[str, list[str]]] = {}
    for (system, benchmark), path in receipts(root).items():
        with path.with_suffix(".items.jsonl").open(encoding="utf-8") as rows:
            found = {row["itemId"]: sorted(row["gold"] or ()) for row in map(json.loads, rows)}
        assert golds.setdefault(benchmark, found) == found, f"{system} on {benchmark}: another level of evidence"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value
