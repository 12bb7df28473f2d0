"""Documents that take a while: nobody waits for a large one, what failed is told, what changed is made anew."""

from __future__ import annotations

import json
import posixpath
import sys
from pathlib import Path

import anyio
import pytest

from bench.errors import BenchError, JournalError, UsageError
from bench.web.cache import (
    MAX_DOCUMENTS,
    SMALL_ITEMS,
    DocumentCache,
    Json,
    document_from_result,
    make_in_process,
    make_off_loop,
    result_json,
    stamp_of,
)
from bench.web.documents.comparison_documents import comparison_of
from bench.web.documents.run_documents import make_results
from tests import forked

ONE, TWO = ((1, 1),), ((2, 2),)


async def test_whoever_is_in_a_hurry_gets_the_last_one_and_later_the_new_one() -> None:
    may_end = anyio.Event()

    async def slow() -> Json:
        await may_end.wait()
        return {"n": 2}

    async def quick() -> Json:
        return {"n": 1}

    async with anyio.create_task_group() as tasks:
        kept = DocumentCache(tasks)
        assert (await kept.get("k", ONE, quick, max_wait_s=5)).document == {"n": 1}
        for _ in range(3):
            shown = await kept.get("k", TWO, slow, max_wait_s=0.01)
            assert (shown.document, shown.fresh) == ({"n": 1}, False)
        may_end.set()
        shown = await kept.get("k", TWO, slow, max_wait_s=5)
        assert (shown.document, shown.fresh) == ({"n": 2}, True)


async def test_who_comes_while_an_older_one_is_made_waits_for_the_newer(tmp_path: Path) -> None:
    """A small run that ended just now is never shown as complete with the counts of a moment before."""
    begun, may_end = anyio.Event(), anyio.Event()
    seen: list[Json | None] = []

    async def old() -> Json:
        begun.set()
        await may_end.wait()
        return {"n": 1}

    async def new() -> Json:
        return {"n": 2}

    async def look(kept: DocumentCache) -> None:
        shown = await kept.get("k", TWO, new, max_wait_s=5)
        seen.append(shown.document if shown.fresh else None)

    async with anyio.create_task_group() as tasks:
        kept = DocumentCache(tasks)
        tasks.start_soon(lambda: kept.get("k", ONE, old, max_wait_s=5))
        await begun.wait()
        for _ in range(3):
            tasks.start_soon(look, kept)
        await anyio.sleep(0)
        may_end.set()
    assert seen == [{"n": 2}] * 3


FAILURES = {
    "torn": JournalError("torn"),
    "a file was removed or cannot be read: gone": FileNotFoundError(2, "gone"),
    "its files contain data that this version cannot read (KeyError)": KeyError("x"),
    "its files contain data that this version cannot read (TypeError)": TypeError("x"),
    "its files contain data that this version cannot read (UnicodeDecodeError)": UnicodeDecodeError(
        "utf-8", b"", 0, 1, "x"
    ),
}


@pytest.mark.parametrize("said", FAILURES)
async def test_what_cannot_be_made_is_told_and_ends_nothing_else(said: str) -> None:
    async def broken() -> Json:
        raise FAILURES[said]

    async def whole() -> Json:
        return {"n": 1}

    async with anyio.create_task_group() as tasks:
        kept = DocumentCache(tasks)
        shown = await kept.get("k", ONE, broken, max_wait_s=5)
        other = await kept.get("other", ONE, whole, max_wait_s=5)
        mended = await kept.get("k", TWO, whole, max_wait_s=5)
    assert (shown.document, shown.fresh, str(shown.problem)) == (None, True, said)
    assert isinstance(shown.problem, JournalError)
    assert other.document == mended.document == {"n": 1} and mended.problem is None


async def test_those_that_nobody_asks_for_make_room() -> None:
    async def make() -> Json:
        return {}

    async with anyio.create_task_group() as tasks:
        kept = DocumentCache(tasks)
        for number in range(MAX_DOCUMENTS + 5):
            await kept.get(number, ONE, make, max_wait_s=5)
            await kept.get(0, ONE, make, max_wait_s=5)
        assert len(kept._known) == MAX_DOCUMENTS and 0 in kept._known and 1 not in kept._known


def test_a_stamp_changes_with_its_files(tmp_path: Path) -> None:
    file = tmp_path / "x"
    before = stamp_of(file)
    file.write_text("1")
    assert stamp_of(file) != before


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes begin as a fork."""
    monkeypatch.setattr(sys, "executable", str(forked.client("python")))


@pytest.mark.usefixtures("forks")
async def test_another_process_makes_the_same_document_and_tells_the_same_error(finished: Path) -> None:
    here = await make_off_loop(make_results, str(finished), "r1", items=1)
    assert await make_in_process(make_results, str(finished), "r1") == json.loads(json.dumps(here))
    with pytest.raises(UsageError, match="nope"):
        await make_in_process(comparison_of, str(finished), ["r1:bm25", "r1:nope"], [], None, False)


@pytest.mark.parametrize(
    "error", [UsageError("no such run", hint="look at the list"), JournalError("torn", hint="mend")]
)
def test_an_error_crosses_to_the_other_process_and_back_as_what_it_is(error: BenchError) -> None:
    async def refused() -> Json:
        raise error

    said = json.loads(json.dumps(result_json(refused, [])))
    with pytest.raises(type(error)) as back:
        document_from_result(said)
    assert (str(back.value), back.value.hint) == (str(error), error.hint)


def test_a_document_crosses_as_it_is() -> None:
    async def make(name: str, many: list[int]) -> Json:
        return {"name": name, "many": many}

    assert document_from_result(json.loads(json.dumps(result_json(make, ["é", [1, 2]])))) == {
        "name": "é",
        "many": [1, 2],
    }


async def test_a_process_that_fails_altogether_is_a_problem_of_that_document() -> None:
    with pytest.raises(JournalError) as refused:
        await make_in_process(posixpath.join, "no", "coroutine")  # type: ignore[arg-type]
    assert str(refused.value) == "a document could not be created"
    assert (
        refused.value.hint
        == "run the command of this page in a terminal, for example bench results RUN_ID, to see the reason"
    )


@pytest.mark.usefixtures("forks")
async def test_what_is_large_is_made_in_another_process_and_what_is_small_in_a_thread(finished: Path) -> None:
    import os

    eager = os.nice(0)
    here = await make_off_loop(make_results, str(finished), "r1", items=SMALL_ITEMS)
    assert await make_off_loop(make_results, str(finished), "r1", items=SMALL_ITEMS + 1) == json.loads(json.dumps(here))
    assert os.nice(0) == eager, "this process is as eager as it was"
