"""Cached documents: limited waiting, errors, recomputing after a change, and work in another process."""

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


async def test_a_request_with_a_short_wait_gets_the_last_document_and_later_the_new_one() -> None:
    may_end = anyio.Event()

    async def slow() -> Json:
        await may_end.wait()
        return {"n": 2}

    async def quick() -> Json:
        return {"n": 1}

    async with anyio.create_task_group() as tasks:
        cache = DocumentCache(tasks)
        assert (await cache.get("k", ONE, quick, max_wait_s=5)).document == {"n": 1}
        for _ in range(3):
            shown = await cache.get("k", TWO, slow, max_wait_s=0.01)
            assert (shown.document, shown.fresh) == ({"n": 1}, False)
        may_end.set()
        shown = await cache.get("k", TWO, slow, max_wait_s=5)
        assert (shown.document, shown.fresh) == ({"n": 2}, True)


async def test_a_request_during_an_older_computation_waits_for_the_newer_document(tmp_path: Path) -> None:
    """A small run that just ended is never shown as complete with older counts."""
    begun, may_end = anyio.Event(), anyio.Event()
    seen: list[Json | None] = []

    async def old() -> Json:
        begun.set()
        await may_end.wait()
        return {"n": 1}

    async def new() -> Json:
        return {"n": 2}

    async def look(cache: DocumentCache) -> None:
        shown = await cache.get("k", TWO, new, max_wait_s=5)
        seen.append(shown.document if shown.fresh else None)

    async with anyio.create_task_group() as tasks:
        cache = DocumentCache(tasks)
        tasks.start_soon(lambda: cache.get("k", ONE, old, max_wait_s=5))
        await begun.wait()
        for _ in range(3):
            tasks.start_soon(look, cache)
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


@pytest.mark.parametrize("message", FAILURES)
async def test_a_failed_document_reports_its_problem_and_others_are_unaffected(message: str) -> None:
    async def broken() -> Json:
        raise FAILURES[message]

    async def whole() -> Json:
        return {"n": 1}

    async with anyio.create_task_group() as tasks:
        cache = DocumentCache(tasks)
        shown = await cache.get("k", ONE, broken, max_wait_s=5)
        other = await cache.get("other", ONE, whole, max_wait_s=5)
        recovered = await cache.get("k", TWO, whole, max_wait_s=5)
    assert (shown.document, shown.fresh, str(shown.problem)) == (None, True, message)
    assert isinstance(shown.problem, JournalError)
    assert other.document == recovered.document == {"n": 1} and recovered.problem is None


async def test_the_cache_removes_the_least_recently_used_document() -> None:
    async def make() -> Json:
        return {}

    async with anyio.create_task_group() as tasks:
        cache = DocumentCache(tasks)
        for number in range(MAX_DOCUMENTS + 5):
            await cache.get(number, ONE, make, max_wait_s=5)
            await cache.get(0, ONE, make, max_wait_s=5)
        assert len(cache._known) == MAX_DOCUMENTS and 0 in cache._known and 1 not in cache._known


def test_stamp_of_changes_if_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "x"
    before = stamp_of(file)
    file.write_text("1")
    assert stamp_of(file) != before


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork other processes."""
    monkeypatch.setattr(sys, "executable", str(forked.client("python")))


@pytest.mark.usefixtures("forks")
async def test_make_in_process_returns_the_same_document_and_raises_the_same_error(finished: Path) -> None:
    here = await make_off_loop(make_results, str(finished), "r1", items=1)
    assert await make_in_process(make_results, str(finished), "r1") == json.loads(json.dumps(here))
    with pytest.raises(UsageError, match="nope"):
        await make_in_process(comparison_of, str(finished), ["r1:bm25", "r1:nope"], [], None, False)


@pytest.mark.parametrize(
    "error", [UsageError("no such run", hint="look at the list"), JournalError("torn", hint="mend")]
)
def test_an_error_keeps_type_message_and_hint_between_processes(error: BenchError) -> None:
    async def refused() -> Json:
        raise error

    message = json.loads(json.dumps(result_json(refused, [])))
    with pytest.raises(type(error)) as back:
        document_from_result(message)
    assert (str(back.value), back.value.hint) == (str(error), error.hint)


def test_a_document_is_unchanged_between_processes() -> None:
    async def make(name: str, many: list[int]) -> Json:
        return {"name": name, "many": many}

    assert document_from_result(json.loads(json.dumps(result_json(make, ["é", [1, 2]])))) == {
        "name": "é",
        "many": [1, 2],
    }


async def test_a_process_that_fails_raises_JournalError_with_a_hint() -> None:
    with pytest.raises(JournalError) as refused:
        await make_in_process(posixpath.join, "no", "coroutine")  # type: ignore[arg-type]
    assert str(refused.value) == "the content of this page could not be computed"
    assert (
        refused.value.hint
        == "run the command of this page in a terminal, for example bench results RUN_ID, to see the reason"
    )


@pytest.mark.usefixtures("forks")
async def test_large_documents_are_computed_in_a_process_and_small_ones_in_a_thread(finished: Path) -> None:
    import os

    eager = os.nice(0)
    here = await make_off_loop(make_results, str(finished), "r1", items=SMALL_ITEMS)
    assert await make_off_loop(make_results, str(finished), "r1", items=SMALL_ITEMS + 1) == json.loads(json.dumps(here))
    assert os.nice(0) == eager, "the priority of this process is unchanged"
