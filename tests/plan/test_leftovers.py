"""Namespaces that a run left at its providers, read from its journal."""

from __future__ import annotations

from pathlib import Path

from bench.journal import CorpusKind, CorpusRow, Journal, Reader
from bench.plan.leftover_namespaces import ABANDONED, Leftover, leftovers
from tests.full_journal import ItemData, write_run
from tests.small_journal import record

ITEMS = [ItemData(item="q1")]


def row(lane: str, corpus: str, kind: CorpusKind, attempt: int = 1) -> CorpusRow:
    return CorpusRow(lane=lane, corpus=corpus, attempt=attempt, kind=kind)


async def written(tmp_path: Path) -> Path:
    rows = [
        row("lane-hosted", "c1", CorpusKind.INGESTED), row("lane-hosted", "c2", CorpusKind.INGESTED),
        row("lane-hosted", "c2", CorpusKind.CLEARED), row("lane-hosted", "c3", CorpusKind.FAILED),
        row("lane-bm25", "c1", CorpusKind.INGESTED),
    ]  # fmt: skip
    jobs = [(record("hosted"), ITEMS), (record("bm25"), ITEMS), (record("bm25@b", lane="lane-bm25"), ITEMS)]
    return await write_run(tmp_path, "r1", jobs, more=rows)


async def left(folder: Path) -> list[Leftover]:
    async with Reader.open(folder) as reader:
        return await leftovers(reader)


async def test_leftovers_lists_uncleared_corpora_of_hosted_providers(tmp_path: Path) -> None:
    (one,) = await left(await written(tmp_path))
    assert (one.lane, one.provider, one.attempts) == ("lane-hosted", "hosted", {"c1": 1, "c3": 1})
    assert one.is_at(["hosted"]) and not one.is_at(["bm25"]), "a built-in provider stores in the folder of the run"


async def test_abandoned_namespaces_are_no_longer_leftovers_and_not_recorded_as_cleared(tmp_path: Path) -> None:
    folder = await written(tmp_path)
    (one,) = await left(folder)
    async with Journal.resume(folder) as journal:
        journal.append(one.abandonment())
        await journal.flush()
        assert await left(folder) == []
        rows = await journal.corpus("lane-hosted", "c1")
        assert [each.kind for each in rows] == [CorpusKind.INGESTED]
        journal.append(row("lane-hosted", "c3", CorpusKind.INGESTED, attempt=2))
        await journal.flush()
        assert [each.attempts for each in await left(folder)] == [{"c3": 2}], "a later attempt is another namespace"
    async with Reader.open(folder) as reader:
        (event,) = await reader.events(ABANDONED)
    assert (event.scope, event.message) == ("lane-hosted", "2 namespaces at hosted were abandoned: not cleared")


def test_is_at_a_provider_name_includes_its_variants() -> None:
    one = Leftover(lane="l", provider="p@big", attempts={"c": 1})
    assert one.is_at(["p"]) and one.is_at(["p@big"]) and not one.is_at(["p@small"])
