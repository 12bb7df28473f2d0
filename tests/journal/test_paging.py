"""Pages of items: every item is listed once and in order, with any filter and any page size."""

from __future__ import annotations

import asyncio
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.journal import Journal, JournaledPhase, Reader
from bench.journal import pages as paging
from bench.journal.pages import (
    STEPS,
    ItemPage,
    ItemQuery,
    cells_of,
    corpora_of,
    ends_of,
    page_of,
    payloads_of,
    question_types,
    sampled_times,
)
from bench.model import Phase
from tests.journal.journal_samples import JOB, LANE, START, failed, meta, scored, search
from tests.laws import examples

OTHER = "lane + model + another judge"
EVERYTHING = ItemQuery()


def evaluated(
    unit: str, question: str, value: float | None = 1.0, *, kind: str = "temporal", **changes: object
) -> JournaledPhase:
    """An evaluated item with its question."""
    return scored(unit, value, payloads={"item": {"question": question}}, labels={"question_type": kind}, **changes)


async def journal_of(folder: Path, rows: Sequence[JournaledPhase]) -> Path:
    async with Journal.create(folder, meta()) as journal:
        for row in rows:
            journal.append(row)
    return folder


async def pages(
    reader: Reader, wanted: ItemQuery = EVERYTHING, *, limit: int = 2, jobs: Sequence[str] = (JOB,)
) -> list[ItemPage]:
    """Every page, one cursor after the other."""
    found: list[ItemPage] = []
    after: str | None = ""
    while after is not None:
        found.append(await page_of(reader, jobs, wanted, after=after, limit=limit))
        after = found[-1].cursor
        assert len(found) < 100
    return found


def units_of(found: Sequence[ItemPage]) -> list[tuple[str, str]]:
    return [unit for page in found for unit in page.units]


ROWS = [
    evaluated("q3", "Where is the KEY?", 0.0, corpus="c1"),
    evaluated("q1", "Who has the key?", corpus="c2", kind="single"),
    evaluated("q2", "When was tea?", corpus="c1"),
    failed("q9", corpus="c1"),
    evaluated("q4", "Ärger im Büro?", 0.0, corpus="c3", kind="single"),
]


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Reader]:
    await journal_of(tmp_path / "run", ROWS)
    async with Reader.open(tmp_path / "run") as opened:
        yield opened


async def test_items_are_listed_by_corpus_and_id(reader: Reader) -> None:
    assert units_of(await pages(reader)) == [("c1", "q2"), ("c1", "q3"), ("c1", "q9"), ("c2", "q1"), ("c3", "q4")]


async def test_a_last_page_that_is_full_has_no_cursor(reader: Reader) -> None:
    page = await page_of(reader, [JOB], ItemQuery(), after="", limit=5)
    assert (len(page.units), page.cursor, page.cut) == (5, None, False)
    assert (await page_of(reader, [JOB], ItemQuery(), after="", limit=4)).cursor is not None


@pytest.mark.parametrize(
    ("wanted", "items"),
    [
        (ItemQuery(state="error"), ["q9"]),
        (ItemQuery(state="incorrect"), ["q3", "q4"]),
        (ItemQuery(question_type="single"), ["q1", "q4"]),
        (ItemQuery(question_type="single", state="correct"), ["q1"]),
        (ItemQuery(question_type="unknown"), []),
        (ItemQuery(state="pending"), []),
        (ItemQuery(text="KEY"), ["q3", "q1"]),
        (ItemQuery(text="key", state="correct"), ["q1"]),
        (ItemQuery(text="ÄRGER"), ["q4"]),
        (ItemQuery(text="Q9"), ["q9"]),
        (ItemQuery(text="%"), []),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_a_filter_lists_the_matching_items_in_order_for_any_page_size(
    reader: Reader, wanted: ItemQuery, items: list[str], limit: int
) -> None:
    assert [item for _, item in units_of(await pages(reader, wanted, limit=limit))] == items


@pytest.mark.parametrize(
    "text", ["", "1", "[]", '["c1"]', '["c1", 2]', '{"c1": "q1"}', "[" * 5000, '["c1","q1","q2"]', "null", "\xff"]
)
async def test_an_invalid_cursor_is_a_usage_error(reader: Reader, text: str) -> None:
    cursor = urlsafe_b64encode(text.encode("latin-1")).decode() or "!"
    with pytest.raises(UsageError, match="is not valid for this list"):
        await page_of(reader, [JOB], ItemQuery(), after=cursor, limit=5)


async def test_a_cursor_with_a_lone_surrogate_is_accepted(reader: Reader) -> None:
    cursor = urlsafe_b64encode(b'["c1","\\ud800"]').decode()
    assert (await page_of(reader, [JOB], ItemQuery(), after=cursor, limit=5)).units == (
        ("c1", "q2"), ("c1", "q3"), ("c1", "q9"), ("c2", "q1"), ("c3", "q4"),
    )  # fmt: skip


async def test_an_item_of_several_jobs_is_listed_once(tmp_path: Path) -> None:
    rows = [evaluated("q1", "a"), evaluated("q2", "b")]
    rows += [replace(row, key=replace(row.key, owner=OTHER)) for row in (evaluated("q2", "b"), evaluated("q3", "c"))]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        for wanted in (ItemQuery(), ItemQuery(text="q")):
            found = units_of(await pages(reader, wanted, limit=1, jobs=(JOB, OTHER)))
            assert found == [("c1", "q1"), ("c1", "q2"), ("c1", "q3")]


async def test_a_rescored_item_is_listed_by_its_newest_state(tmp_path: Path) -> None:
    rows = [evaluated("q1", "a", 0.0), evaluated("q2", "b", 0.0), evaluated("q1", "a", 1.0, generation=1)]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        assert units_of(await pages(reader, ItemQuery(state="incorrect"))) == [("c1", "q2")]
        assert units_of(await pages(reader, ItemQuery(state="correct"))) == [("c1", "q1")]
        cells = await cells_of(reader, JOB, [("c1", "q1"), ("c1", "q2"), ("c1", "unknown")])
    assert {unit: cell.state for unit, cell in cells.items()} == {("c1", "q1"): "correct", ("c1", "q2"): "incorrect"}


async def test_a_cell_has_state_outcome_labels_and_values_of_an_item(reader: Reader) -> None:
    cells = await cells_of(reader, JOB, [("c1", "q3"), ("c1", "q9")])
    wrong, lost = cells["c1", "q3"], cells["c1", "q9"]
    assert (wrong.corpus, wrong.item, wrong.epoch, wrong.state, wrong.outcome) == ("c1", "q3", 1, "incorrect", "ok")
    assert (wrong.labels, wrong.values) == ({"question_type": "temporal"}, {"recall@5": 0.0, "mrr": None})
    assert (lost.state, lost.outcome, lost.values) == ("error", "timeout", {})
    assert await payloads_of(reader, [wrong.entry, lost.entry], "item") == {
        wrong.entry: {"question": "Where is the KEY?"}
    }
    assert await payloads_of(reader, [wrong.entry], "nothing") == {}
    assert await cells_of(reader, "unknown", [("c1", "q3")]) == {}


async def test_only_the_first_epoch_has_a_cell(tmp_path: Path) -> None:
    rows = [evaluated("q1", "a", 0.0, epoch=2), evaluated("q1", "a", 1.0, epoch=1)]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        assert units_of(await pages(reader)) == [("c1", "q1")]
        (cell,) = (await cells_of(reader, JOB, [("c1", "q1")])).values()
    assert (cell.epoch, cell.state) == (1, "correct")


async def test_corpora_and_question_types_of_ended_items_are_listed(reader: Reader) -> None:
    assert await corpora_of(reader, "q1") == ["c2"]
    assert await corpora_of(reader, "unknown") == []
    assert await question_types(reader) == ["single", "temporal"]


async def test_a_text_search_over_its_time_limit_continues_on_the_next_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "SEARCH_S", -1.0)
    monkeypatch.setattr(paging, "SEARCHED_AT_ONCE", 3)
    rows = [evaluated(f"q{number}", "the needle" if number == 7 else "hay") for number in range(9)]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        found = await pages(reader, ItemQuery(text="needle"), limit=5)
    assert [(page.units, page.cut) for page in found] == [((), True), ((), True), ((("c1", "q7"),), True), ((), False)]


@pytest.mark.parametrize("size", [5, 12, 21, 100])
async def test_sampled_times_cover_the_whole_run_within_the_sample_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(paging, "SAMPLE", size)
    rows = [search(f"q{number:02d}", times_us={"total": number}) for number in range(20)]
    rows += [search("q99", outcome="timeout", times_us={"total": 99}), search("q98", times_us={})]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        count, sample = await sampled_times(reader, LANE, Phase.SEARCH)
        assert await sampled_times(reader, JOB, Phase.SEARCH) == (0, [])
    assert count == 21
    numbers = sorted(one["total"] for one in sample)
    if size >= 21:
        assert numbers == list(range(20))
    assert 2 <= len(numbers) <= size
    assert numbers[0] < 10 <= numbers[-1], "both halves are in it"


@pytest.mark.parametrize("every", [2, 3, 6])
async def test_a_phase_that_alternates_with_others_fills_at_least_half_of_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    rows = [row for number in range(60) for row in (search(f"q{number}"), scored(f"q{number}"), failed(f"q{number}"))]
    monkeypatch.setattr(paging, "SAMPLE", 60 // every)
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        _, sample = await sampled_times(reader, LANE, Phase.SEARCH)
    assert len(sample) >= 60 // every / 2


async def test_the_counts_of_ended_items_over_time_add_up_to_all_items(tmp_path: Path) -> None:
    began = START - timedelta(seconds=10)
    rows = [scored(f"q{number:03d}", started_at=START + timedelta(seconds=number)) for number in range(200)]
    async with Journal.create(tmp_path / "run", meta(created_at=began)) as journal:
        for row in rows:
            journal.append(row)
    async with Reader.open(tmp_path / "run") as reader:
        ends = await ends_of(reader, JOB)
        assert await ends_of(reader, "unknown") == []
    assert len(ends) <= STEPS
    assert ends[-1] == (209.0, 200)
    assert ends == sorted(ends)


@settings(max_examples=examples(15), phases=[Stage.explicit, Stage.generate])
@given(
    units=st.lists(
        st.tuples(st.text(min_size=1, max_size=3), st.text(min_size=1, max_size=3)), unique=True, max_size=9
    ),
    limit=st.integers(1, 4),
)
def test_every_item_is_listed_once_for_any_id(units: list[tuple[str, str]], limit: int) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            rows = [scored(unit, float(at % 2), corpus=corpus) for at, (corpus, unit) in enumerate(units)]
            async with Reader.open(await journal_of(Path(folder) / "run", rows)) as reader:
                found = units_of(await pages(reader, ItemQuery(), limit=limit))
        assert found == sorted(units, key=lambda unit: (unit[0].encode(), unit[1].encode()))

    asyncio.run(check())
