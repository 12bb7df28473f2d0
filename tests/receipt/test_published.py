"""The published reference results: they verify offline, and the bm25 run gives the same digest again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Bench, bench, environment

__all__ = ["bench", "environment"]

SYSTEMS = {"bm25", "vector", "chroma", "pgvector", "mem0-library"}


def receipts(root: Path) -> dict[str, Path]:
    """Each published receipt by its provider."""
    found = {}
    for path in sorted((root / "results/published/receipts").glob("*.json")):
        found[str(json.loads(path.read_text(encoding="utf-8"))["provider"]["name"])] = path
    return found


def test_every_published_receipt_and_the_log_verify(root: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert receipts(root).keys() == SYSTEMS
    monkeypatch.chdir(root)
    verified = bench("verify", "results/published").stdout
    assert all(f"VALID  results/published/receipts/{path.name}" in verified for path in receipts(root).values())
    assert bench("log", "verify").stdout.startswith("VALID ")


def test_the_published_bm25_receipt_is_reproduced_to_the_digest(root: Path, bench: Bench) -> None:
    done = bench("reproduce", str(receipts(root)["bm25"]), "--trusted", str(root / "keys/trusted.json"), "--json")
    found = json.loads(done.stdout)
    assert (found["level"], found["same"], found["differs"]) == ("R2", True, [])


def test_the_readme_shows_the_published_numbers(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    for name, path in receipts(root).items():
        scores = json.loads(path.read_text(encoding="utf-8"))["scores"]["deterministic"]
        (row,) = re.findall(rf"^\| `{name}` \|.*$", text, re.M)
        for metric in ("hit_at_10", "ndcg_at_10"):
            assert f"{float(scores[metric]['value']):.4f}" in row, (name, metric)
