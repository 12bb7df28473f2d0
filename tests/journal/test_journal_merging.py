"""Merge is commutative, idempotent and associative, and refuses journals that contradict each other."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import IdentityError, Locked, MergeConflict, UsageError
from bench.journal import CorpusKind, Event, Journal, JournaledPhase, JournalRow, ProbeRow, Reader, RunState, merge
from bench.model import Call, Phase, State
from tests.journal.journal_samples import (
    CHAIN,
    JOB,
    START,
    call,
    failed,
    items_of,
    meta,
    scored,
    search,
    states_of,
    step,
)
from tests.laws import examples

CONTENT = """
SELECT o.name, p.phase, p.corpus, p.unit, p.epoch, p.attempt, p.outcome, e.started_us, e.generation, m.text, e.times,
  e.data, e.measured, e.payloads, s.state, l.data, h.names, s.packed,
  (SELECT group_concat(v.evaluator || coalesce(v.value, '-'), ',') FROM verdict v WHERE v.entry = e.id),
  (SELECT count(*) FROM call c WHERE c.entry = e.id)
FROM phase p JOIN owner o ON o.id = p.owner JOIN entry e ON e.id = p.entry LEFT JOIN message m ON m.id = e.message
LEFT JOIN score s ON s.entry = e.id LEFT JOIN labels l ON l.id = s.labels LEFT JOIN shape h ON h.id = s.shape
ORDER BY 1, 2, 3, 4, 5, 6
"""
STEPS = """
SELECT o.name, r.corpus, g.run_id, r.attempt, r.seq, r.kind, r.outcome, r.at_us, r.data,
  (SELECT count(*) FROM call c WHERE c.entry = r.id)
FROM corpus_row r JOIN owner o ON o.id = r.lane JOIN origin g ON g.id = r.origin ORDER BY 1, 2, 3, 4, 5
"""
NOTES = """
SELECT g.run_id, n.kind, n.at_us, n.data FROM (
  SELECT origin, kind, at_us, data FROM probe UNION ALL SELECT origin, kind, at_us, data FROM event) n
JOIN origin g ON g.id = n.origin ORDER BY 1, 2, 3, 4
"""


def content(folder: Path) -> list[list[tuple[object, ...]]]:
    """Return all rows of a merged journal, without row numbers."""
    connection = sqlite3.connect(folder / "journal.sqlite")
    try:
        return [connection.execute(sql).fetchall() for sql in (CONTENT, STEPS, NOTES)]
    finally:
        connection.close()


async def journal_of(folder: Path, rows: Sequence[JournalRow], **changes: object) -> Path:
    async with Journal.create(folder, meta(folder.name, **changes)) as journal:
        for row in rows:
            journal.append(row)
        await journal.set_state(RunState.PARTIAL)
    return folder


units = st.sampled_from(["q1", "q2", "q3", "q4"])
seconds = st.integers(0, 5).map(lambda number: START + timedelta(seconds=number))


@st.composite
def entries(draw: st.DrawFn) -> JournaledPhase:
    """Rows in which the ok ones of an item always agree in content and differ in measured values."""
    unit, started_at = draw(units), draw(seconds)
    calls: tuple[Call, ...] = draw(st.sampled_from([(), (call(),)]))
    kind = draw(st.sampled_from(["search", "scored", "failed"]))
    measured = {"took": draw(st.integers(0, 3))}
    if kind == "search":
        return search(unit, started_at=started_at, calls=calls, payloads={"hits": [unit * 600]})
    if kind == "scored":
        return scored(unit, float(unit == "q1"), started_at=started_at, measured=measured)
    return failed(unit, draw(st.sampled_from(["timeout", "rejected"])), started_at=started_at)


@st.composite
def journals(draw: st.DrawFn) -> list[JournalRow]:
    rows: list[JournalRow] = list(draw(st.lists(entries(), max_size=8)))
    rows += [step(kind) for kind in draw(st.lists(st.sampled_from(list(CorpusKind)), max_size=3))]
    rows += [Event(kind=kind, at=START) for kind in draw(st.lists(st.sampled_from("ab"), max_size=2, unique=True))]
    if draw(st.booleans()):
        rows.append(ProbeRow(lane="lane", corpus="c1", attempt=1, kind="sentinel", passed=True, at=START))
    return rows


# no shrinking: an example opens a dozen files
@settings(max_examples=examples(5), phases=[Stage.explicit, Stage.generate])
@given(parts=st.lists(journals(), min_size=2, max_size=3))
def test_merge_is_commutative_idempotent_and_associative(parts: list[list[JournalRow]]) -> None:
    asyncio.run(_check_algebra(parts))


async def _check_algebra(parts: list[list[JournalRow]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        sources = [await journal_of(root / f"s{n}", rows) for n, rows in enumerate(parts)]
        await merge(sources, root / "whole", run_id="whole")
        expected = content(root / "whole")

        orders = list(itertools.permutations(sources))[1:3]
        for number, order in enumerate([*orders, [*sources, *sources]]):
            await merge(order, root / f"again{number}", run_id=f"again{number}")
            assert content(root / f"again{number}") == expected

        await merge(sources[:1] + sources[1:2], root / "left", run_id="left")
        await merge([root / "left", *sources[2:], sources[0]], root / "nested", run_id="nested")
        assert content(root / "nested") == expected


async def test_merge_joins_two_shards_and_reports_the_gaps(tmp_path: Path) -> None:
    a = await journal_of(tmp_path / "a", [search("q1"), scored("q1")], ranges=((1, 10),))
    b = await journal_of(tmp_path / "b", [search("q2"), scored("q2", 0.0)], ranges=((21, 100),))
    outcome = await merge([b, a / "journal.sqlite"], tmp_path / "whole", run_id="whole")
    assert outcome.gaps == ((11, 20),)
    assert outcome.state is RunState.PARTIAL
    assert states_of(await items_of(tmp_path / "whole")) == {"q1": State.CORRECT, "q2": State.INCORRECT}
    async with Reader.open(tmp_path / "whole") as reader:
        assert reader.meta.run_id == "whole"
        assert reader.meta.ranges == ((1, 10), (21, 100))
        assert {origin.run_id for origin in await reader.origins()} == {"whole", "a", "b"}
        (record, _) = [record async for record in reader.items(CHAIN)]
        assert await reader.payload(str(record.phases[Phase.SEARCH].payloads["hits"])) == search("q1").payloads["hits"]


async def test_a_merge_of_shards_without_gaps_is_complete(tmp_path: Path) -> None:
    a = await journal_of(tmp_path / "a", [scored("q1")], ranges=((1, 10),))
    b = await journal_of(tmp_path / "b", [scored("q2")], ranges=((11, 100),))
    outcome = await merge([a, b], tmp_path / "whole", run_id="whole")
    assert (outcome.gaps, outcome.state) == ((), RunState.COMPLETE)
    async with Reader.open(tmp_path / "whole") as reader:
        assert reader.meta.ranges == ()


async def test_a_merge_of_different_plans_is_an_identity_error_and_leaves_no_files(tmp_path: Path) -> None:
    a = await journal_of(tmp_path / "a", [])
    b = await journal_of(tmp_path / "b", [], plan_digest="d2", identity={"seed": 2})
    with pytest.raises(IdentityError) as refusal:
        await merge([a, b], tmp_path / "whole", run_id="whole")
    assert refusal.value.changes == (("seed", "1", "2"),)
    assert refusal.value.exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


async def test_a_merge_conflict_lists_every_contradictory_item_and_leaves_no_files(tmp_path: Path) -> None:
    a = await journal_of(tmp_path / "a", [scored("q1"), search("q2"), scored("q3")])
    b = await journal_of(tmp_path / "b", [scored("q1", 0.0), search("q2", data={"retrieved": []}), scored("q3")])
    with pytest.raises(MergeConflict) as refusal:
        await merge([a, b], tmp_path / "whole", run_id="whole")
    assert [item for item, _ in refusal.value.items] == ["q2", "q1"]
    assert refusal.value.exit_code == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


async def test_different_times_and_costs_are_not_a_merge_conflict(tmp_path: Path) -> None:
    a = await journal_of(tmp_path / "a", [search("q1", times_us={"search": 1}, calls=(call(),))])
    b = await journal_of(tmp_path / "b", [search("q1", times_us={"search": 2}, started_at=START - timedelta(hours=1))])
    await merge([a, b], tmp_path / "whole", run_id="whole")
    (record,) = await items_of(tmp_path / "whole")
    assert record.phases[Phase.SEARCH].times_us == {"search": 2}, "the earlier row wins"
    assert record.attempts == {Phase.SEARCH: 2}, "both attempts are stored"


async def test_merge_prefers_the_result_of_one_shard_to_the_error_of_another(tmp_path: Path) -> None:
    late = START + timedelta(days=1)
    a = await journal_of(tmp_path / "a", [scored("q1")])
    b = await journal_of(tmp_path / "b", [failed("q1", started_at=late)])
    await merge([a, b], tmp_path / "whole", run_id="whole")
    (record,) = await items_of(tmp_path / "whole")
    assert record.state is State.CORRECT
    assert record.attempts == {Phase.EVALUATE: 2}


async def test_a_merged_run_can_be_resumed_and_does_not_use_the_corpora_of_its_sources(tmp_path: Path) -> None:
    a = await journal_of(tmp_path / "a", [step(CorpusKind.INTENT), scored("q1")])
    await merge([a], tmp_path / "whole", run_id="whole")
    async with Journal.resume(tmp_path / "whole") as journal:
        assert ("q1", 1) in await journal.finished(JOB, Phase.EVALUATE)
        assert await journal.corpus("lane", "c1") == [], "another run's namespace is not this run's"
        await journal.append_durable(step(CorpusKind.INTENT))
        await journal.append_durable(scored("q2"))
        assert len(await journal.corpus("lane", "c1")) == 1
    assert set(states_of(await items_of(tmp_path / "whole"))) == {"q1", "q2"}


async def test_merge_accepts_more_sources_than_sqlite_can_attach(tmp_path: Path) -> None:
    sources = [await journal_of(tmp_path / f"s{n}", [scored(f"q{n}")]) for n in range(14)]
    outcome = await merge(sources, tmp_path / "whole", run_id="whole")
    assert outcome.phases == 14


async def test_a_merge_of_an_active_run_is_locked(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "a", meta("a")):
        with pytest.raises(Locked, match="run a is locked by pid"):
            await merge([tmp_path / "a"], tmp_path / "whole", run_id="whole")


async def test_a_merge_into_an_existing_run_is_a_usage_error(tmp_path: Path) -> None:
    a = await journal_of(tmp_path / "a", [scored("q1")])
    b = await journal_of(tmp_path / "b", [scored("q2")])
    with pytest.raises(UsageError, match="exists already"):
        await merge([a], b, run_id="b")
    assert set(states_of(await items_of(b))) == {"q2"}


async def test_a_merge_with_an_interrupted_source_is_paused(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "a", meta("a")) as journal:
        journal.append(scored("q1"))
    ended = await journal_of(tmp_path / "b", [scored("q2")])
    for number, sources in enumerate(([tmp_path / "a"], [tmp_path / "a", ended])):
        outcome = await merge(sources, tmp_path / f"whole{number}", run_id=f"whole{number}")
        assert (outcome.gaps, outcome.state) == ((), RunState.PAUSED)


@pytest.mark.parametrize("dropped", ["a", "b"])
async def test_payloads_that_one_source_dropped_come_from_the_other_source(tmp_path: Path, dropped: str) -> None:
    for at, name in enumerate("ab"):
        await journal_of(tmp_path / name, [search("q1")], created_at=START + timedelta(hours=at))
    async with Journal.resume(tmp_path / dropped) as journal:
        await journal.drop_payloads()
    await merge([tmp_path / "a", tmp_path / "b"], tmp_path / "whole", run_id="whole")
    async with Reader.open(tmp_path / "whole") as reader:
        (record,) = [record async for record in reader.items(CHAIN)]
        assert await reader.payload(str(record.phases[Phase.SEARCH].payloads["hits"])) == search("q1").payloads["hits"]
