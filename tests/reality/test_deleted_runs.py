"""A run whose folder is deleted or replaced stops soon, because its rows could no longer be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest

from tests.reality.chat_stub import completion
from tests.reality.test_answers import Bench, Serve, serve, workspace

__all__ = ["serve", "workspace"]


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def replace(folder: Path) -> None:
    """Replace the journal, as a restored backup does."""
    copy = shutil.copy(folder / "journal.sqlite", folder / "copy")
    Path(copy).replace(folder / "journal.sqlite")


@pytest.mark.parametrize("change", [delete, replace])
def test_a_run_stops_when_its_journal_is_deleted_or_replaced(
    change: Callable[[Path], None], bench: Bench, serve: Serve, workspace: Path
) -> None:
    first, ended = Lock(), Event()

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        if first.acquire(blocking=False):
            change(workspace / "checkpoints/r")
        else:
            ended.wait(60)
        return completion("Pelle")

    stub = serve(reply)
    done = bench(
        "run", "--benchmarks", "mini", "--providers", "bm25", "--answering-model", "local/m", "--run-id", "r",
        "--concurrency", "4", check=2,
    )  # fmt: skip
    ended.set()
    assert "error: checkpoints/r/journal.sqlite: the journal was deleted or replaced during the run" in done.stderr
    assert len(stub.asked) <= 4, "the run does not wait for requests in flight and repeats none"
