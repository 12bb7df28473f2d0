"""The sentences above the tables of ``bench results``: ties, and where answers are lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.small_journal import Job, made, measuring, record

Bench = Callable[..., Any]


def sentences(bench: Bench, workspace: Path, jobs: Sequence[Job]) -> str:
    anyio.run(lambda: made(workspace, "r", jobs))
    return " ".join(bench("results", "r").stdout.partition("\n\n")[0].split())


def right(provider: str, count: int) -> Job:
    return Job(record=record(provider), values={f"q{at}": float(at < count) for at in range(12)})


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((3, 3), "a and b have the same score: a answers 25% of 12 questions right"),
        ((0, 0), "a and b have the same score: a answers 0% of 12 questions right"),
        ((3, 3, 1), "a and b are best with the same score: a answers 25%"),
        ((3,) * 6, "a, b, c and 3 more have the same score: a answers 25%"),
        ((3,) * 4, "a, b, c and d have the same score: a answers 25%"),
        ((3, 1), "a is best and answers 25% of 12 questions right"),
        ((3,), "a answers 25% of 12 questions right"),
    ],
)
def test_no_system_is_best_if_another_has_the_same_score(
    bench: Bench, tmp_path: Path, counts: Sequence[int], text: str
) -> None:
    shown = sentences(bench, tmp_path, [right(name, count) for name, count in zip("abcdef", counts, strict=False)])
    assert shown.startswith(text)
    assert ("is best and" in shown) is (counts == (3, 1))


@pytest.mark.parametrize(
    ("found", "correct", "text"),
    [
        (10, 6, "More answers are lost after the search than in it."),
        (6, 6, "More answers are lost in the search than after it."),
        (12, 12, ""),
        (10, 8, ""),
    ],
)
def test_losses_in_and_after_the_search_are_compared(
    bench: Bench, tmp_path: Path, found: int, correct: int, text: str
) -> None:
    names = [f"q{at}" for at in range(12)]
    job = Job(
        record=record("a", **measuring("accuracy", "hit_at_5")),
        values={name: float(at < correct) for at, name in enumerate(names)},
        more={"hit_at_5": {name: float(at < found) for at, name in enumerate(names)}},
    )
    shown = sentences(bench, tmp_path, [job])
    assert "finds evidence for" in shown
    assert text in shown and ("More answers" in shown) is bool(text)
