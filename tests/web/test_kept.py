"""Documents that take a while: nobody waits for a large one, what failed is told, what changed is made anew."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from bench.errors import JournalError, UsageError
from bench.web.apart import apart, aside
from bench.web.comparisons import comparison_of
from bench.web.kept import MOST, Json, Kept, stamp_of
from bench.web.reports import document_of

ONE, TWO = ((1, 1),), ((2, 2),)


async def test_whoever_is_in_a_hurry_gets_the_last_one_and_later_the_new_one() -> None:
    may_end = anyio.Event()

    async def slow() -> Json:
        await may_end.wait()
        return {"n": 2}

    async def quick() -> Json:
        return {"n": 1}

    async with anyio.create_task_group() as tasks:
        kept = Kept(tasks)
        assert (await kept.of("k", ONE, quick, patience_s=5)).document == {"n": 1}
        for _ in range(3):
            shown = await kept.of("k", TWO, slow, patience_s=0.01)
            assert (shown.document, shown.fresh) == ({"n": 1}, False)
        may_end.set()
        shown = await kept.of("k", TWO, slow, patience_s=5)
        assert (shown.document, shown.fresh) == ({"n": 2}, True)


@pytest.mark.parametrize("failure", [JournalError("torn"), FileNotFoundError(2, "gone")])
async def test_what_cannot_be_made_is_told_and_ends_nothing_else(failure: Exception) -> None:
    async def broken() -> Json:
        raise failure

    async with anyio.create_task_group() as tasks:
        shown = await Kept(tasks).of("k", ONE, broken, patience_s=5)
    assert shown.document is None and isinstance(shown.problem, JournalError)


async def test_those_that_nobody_asks_for_make_room() -> None:
    async def make() -> Json:
        return {}

    async with anyio.create_task_group() as tasks:
        kept = Kept(tasks)
        for number in range(MOST + 5):
            await kept.of(number, ONE, make, patience_s=5)
            await kept.of(0, ONE, make, patience_s=5)
        assert len(kept._known) == MOST and 0 in kept._known and 1 not in kept._known


def test_a_stamp_changes_with_its_files(tmp_path: Path) -> None:
    file = tmp_path / "x"
    before = stamp_of(file)
    file.write_text("1")
    assert stamp_of(file) != before


async def test_another_process_makes_the_same_document_and_tells_the_same_error(finished: Path) -> None:
    here = await aside(document_of, str(finished), "r1", items=1)
    assert await apart(document_of, str(finished), "r1") == json.loads(json.dumps(here))
    with pytest.raises(UsageError, match="nope"):
        await apart(comparison_of, str(finished), ["r1:bm25", "r1:nope"], [], None, False)
