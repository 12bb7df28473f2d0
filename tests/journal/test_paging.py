"""A screenful at a time: every item comes once and in order, under any filter, whatever the size of a page."""

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


def asked(
    unit: str, question: str, value: float | None = 1.0, *, kind: str = "temporal", **changes: object
) -> JournaledPhase:
    """An evaluated item that knows its question."""
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
    asked("q3", "Where is the KEY?", 0.0, corpus="c1"),
    asked("q1", "Who has the key?", corpus="c2", kind="single"),
    asked("q2", "When was tea?", corpus="c1"),
    failed("q9", corpus="c1"),
    asked("q4", "Ärger im Büro?", 0.0, corpus="c3", kind="single"),
]


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Reader]:
    await journal_of(tmp_path / "run", ROWS)
    async with Reader.open(tmp_path / "run") as opened:
        yield opened


async def test_items_come_by_corpus_and_id(reader: Reader) -> None:
    assert units_of(await pages(reader)) == [("c1", "q2"), ("c1", "q3"), ("c1", "q9"), ("c2", "q1"), ("c3", "q4")]


async def test_a_page_that_is_just_full_has_no_cursor(reader: Reader) -> None:
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
        (ItemQuery(question_type="nobody has it"), []),
        (ItemQuery(state="pending"), []),
        (ItemQuery(text="KEY"), ["q3", "q1"]),
        (ItemQuery(text="key", state="correct"), ["q1"]),
        (ItemQuery(text="ÄRGER"), ["q4"]),
        (ItemQuery(text="Q9"), ["q9"]),
        (ItemQuery(text="%"), []),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_filters_and_orders(reader: Reader, wanted: ItemQuery, items: list[str], limit: int) -> None:
    assert [item for _, item in units_of(await pages(reader, wanted, limit=limit))] == items


@pytest.mark.parametrize(
    "text", ["", "1", "[]", '["c1"]', '["c1", 2]', '{"c1": "q1"}', "[" * 5000, '["c1","q1","q2"]', "null", "\xff"]
)
async def test_a_cursor_that_is_not_ours_is_refused(reader: Reader, text: str) -> None:
    cursor = urlsafe_b64encode(text.encode("latin-1")).decode() or "!"
    with pytest.raises(UsageError, match="is not valid for this list"):
        await page_of(reader, [JOB], ItemQuery(), after=cursor, limit=5)


async def test_a_cursor_of_half_a_character_finds_its_place(reader: Reader) -> None:
    cursor = urlsafe_b64encode(b'["c1","\\ud800"]').decode()
    assert (await page_of(reader, [JOB], ItemQuery(), after=cursor, limit=5)).units == (
        ("c1", "q2"), ("c1", "q3"), ("c1", "q9"), ("c2", "q1"), ("c3", "q4"),
    )  # fmt: skip


async def test_an_item_that_any_of_the_jobs_has_is_shown_once(tmp_path: Path) -> None:
    rows = [asked("q1", "a"), asked("q2", "b")]
    rows += [replace(row, key=replace(row.key, owner=OTHER)) for row in (asked("q2", "b"), asked("q3", "c"))]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        for wanted in (ItemQuery(), ItemQuery(text="q")):
            found = units_of(await pages(reader, wanted, limit=1, jobs=(JOB, OTHER)))
            assert found == [("c1", "q1"), ("c1", "q2"), ("c1", "q3")]


async def test_a_rescored_item_stands_under_its_newest_state(tmp_path: Path) -> None:
    rows = [asked("q1", "a", 0.0), asked("q2", "b", 0.0), asked("q1", "a", 1.0, generation=1)]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        assert units_of(await pages(reader, ItemQuery(state="incorrect"))) == [("c1", "q2")]
        assert units_of(await pages(reader, ItemQuery(state="correct"))) == [("c1", "q1")]
        cells = await cells_of(reader, JOB, [("c1", "q1"), ("c1", "q2"), ("c1", "nobody")])
    assert {unit: cell.state for unit, cell in cells.items()} == {("c1", "q1"): "correct", ("c1", "q2"): "incorrect"}


async def test_a_cell_says_how_an_item_ended(reader: Reader) -> None:
    cells = await cells_of(reader, JOB, [("c1", "q3"), ("c1", "q9")])
    wrong, lost = cells["c1", "q3"], cells["c1", "q9"]
    assert (wrong.corpus, wrong.item, wrong.epoch, wrong.state, wrong.outcome) == ("c1", "q3", 1, "incorrect", "ok")
    assert (wrong.labels, wrong.values) == ({"question_type": "temporal"}, {"recall@5": 0.0, "mrr": None})
    assert (lost.state, lost.outcome, lost.values) == ("error", "timeout", {})
    assert await payloads_of(reader, [wrong.entry, lost.entry], "item") == {
        wrong.entry: {"question": "Where is the KEY?"}
    }
    assert await payloads_of(reader, [wrong.entry], "nothing") == {}
    assert await cells_of(reader, "nobody", [("c1", "q3")]) == {}


async def test_only_the_first_epoch_has_a_cell(tmp_path: Path) -> None:
    rows = [asked("q1", "a", 0.0, epoch=2), asked("q1", "a", 1.0, epoch=1)]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        assert units_of(await pages(reader)) == [("c1", "q1")]
        (cell,) = (await cells_of(reader, JOB, [("c1", "q1")])).values()
    assert (cell.epoch, cell.state) == (1, "correct")


async def test_corpora_and_types_of_what_ended(reader: Reader) -> None:
    assert await corpora_of(reader, "q1") == ["c2"]
    assert await corpora_of(reader, "nobody") == []
    assert await question_types(reader) == ["single", "temporal"]


async def test_a_search_that_takes_too_long_is_cut_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "SEARCH_S", -1.0)
    monkeypatch.setattr(paging, "SEARCHED_AT_ONCE", 3)
    rows = [asked(f"q{number}", "the needle" if number == 7 else "hay") for number in range(9)]
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        found = await pages(reader, ItemQuery(text="needle"), limit=5)
    assert [(page.units, page.cut) for page in found] == [((), True), ((), True), ((("c1", "q7"),), True), ((), False)]


@pytest.mark.parametrize("size", [5, 12, 21, 100])
async def test_times_are_sampled_over_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
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
async def test_phases_that_take_turns_are_all_in_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    rows = [row for number in range(60) for row in (search(f"q{number}"), scored(f"q{number}"), failed(f"q{number}"))]
    monkeypatch.setattr(paging, "SAMPLE", 60 // every)
    async with Reader.open(await journal_of(tmp_path / "run", rows)) as reader:
        _, sample = await sampled_times(reader, LANE, Phase.SEARCH)
    assert len(sample) >= 60 // every / 2


async def test_the_ends_of_a_run_add_up_to_its_items(tmp_path: Path) -> None:
    began = START - timedelta(seconds=10)
    rows = [scored(f"q{number:03d}", started_at=START + timedelta(seconds=number)) for number in range(200)]
    async with Journal.create(tmp_path / "run", meta(created_at=began)) as journal:
        for row in rows:
            journal.append(row)
    async with Reader.open(tmp_path / "run") as reader:
        ends = await ends_of(reader, JOB)
        assert await ends_of(reader, "nobody") == []
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
def test_every_item_comes_once_whatever_its_name(units: list[tuple[str, str]], limit: int) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            rows = [scored(unit, float(at % 2), corpus=corpus) for at, (corpus, unit) in enumerate(units)]
            async with Reader.open(await journal_of(Path(folder) / "run", rows)) as reader:
                found = units_of(await pages(reader, ItemQuery(), limit=limit))
        assert found == sorted(units, key=lambda unit: (unit[0].encode(), unit[1].encode()))

    asyncio.run(check())
