"""An adapter of the workspace: a search result that contains only hits is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Bench

ADAPTER = """\
from bench.providers import Found, Hit, Ingested, Readiness


class Mine:
    def __init__(self, config, context):
        self.spaces = {}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    async def ingest(self, space, memories):
        self.spaces.setdefault(space.namespace, []).extend(memories)
        return Ingested()

    async def ready(self, space, ingested):
        return Readiness(state="ready")

    async def search(self, space, query):
        words = set(query.text.lower().split())
        stored = self.spaces.get(space.namespace, [])
        ranked = sorted(stored, key=lambda one: -len(words & set(one.content.lower().split())))
        return Found(hits=tuple(Hit(id=one.id, content=one.content, source_ids=(one.id,)) for one in ranked[:query.k]))

    async def clear(self, space):
        return len(self.spaces.pop(space.namespace, []))
"""


def test_a_result_that_contains_only_hits_has_no_note_on_k_and_a_valid_receipt(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    folder = tmp_path / "configs/providers"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(ADAPTER)
    (folder / "mine.yaml").write_text("name: mine\ntype: local\nadapter: ./mine.py:Mine\n")
    done = bench("run", "--providers", "mine", "--limit", "4", "-k", "3", "--answering-model", "none", "--run-id", "r")
    assert "accepts at most" not in done.stdout + done.stderr
    bench("export", "r", "--format", "jsonl", "--output", "rows.jsonl")
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert rows and all("k_capped" not in row["flags"] for row in rows)
    bench("keys", "new", "me")
    bench("sign", "r")
    (receipt,) = Path("results/r/receipts").glob("*.json")
    assert bench("verify", str(receipt), check=None).stdout.startswith("VALID")
