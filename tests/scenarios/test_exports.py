"""M2: an export is written row by row, so its memory does not grow with the number of items."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.journal import Journal, JournaledPhase, Key, RunMeta, RunState
from bench.model import Phase, State, Verdict
from bench.plan.job_record import dump_jobs
from tests.scenarios.program import PEAK, clean, peak_and_bytes_read
from tests.small_journal import record

ITEM_BYTES = 20_000
LIMIT_KB = 200_000


def rows_of(number: int) -> list[JournaledPhase]:
    """Return the rows of one item with 20 KB of unique text, half of it in the hits and half in the answer."""
    half = f"{number:09d} " * (ITEM_BYTES // 20)
    parts = {Phase.SEARCH: "lane-p", Phase.ANSWER: "answer-p", Phase.EVALUATE: "job-p"}
    search, answer, score = (
        Key(owner=owner, phase=phase, corpus=f"c{number % 50}", unit=f"q{number:06d}") for phase, owner in parts.items()
    )
    hits = [{"id": f"m{number}", "content": half}]
    return [
        JournaledPhase(key=search, attempt=1, data={"retrieved": [[f"m{number}"]]}, payloads={"hits": hits}),
        JournaledPhase(key=answer, attempt=1, data={"answer": half}, measured={"model": "m1"}),
        JournaledPhase(
            key=score, attempt=1, state=State.CORRECT, values={"accuracy": 1.0},
            verdicts=(Verdict(evaluator="exact-match", value=1.0, correct=True),),
        ),
    ]  # fmt: skip


async def journal_of(workspace: Path, items: int) -> None:
    """Write the journal of a finished run."""
    meta = RunMeta(
        run_id="large",
        plan_digest="d",
        identity={},
        total=items,
        extra={"jobs": dump_jobs([record("p", n_selected=items)])},
    )
    async with Journal.create(workspace / "checkpoints/large", meta, bound=2000) as journal:
        for number in range(items):
            await journal.wait_for_room()
            for row in rows_of(number):
                journal.append(row)
        await journal.set_state(RunState.COMPLETE)


def written(stream: io.TextIOWrapper, form: str) -> Iterator[tuple[str, int]]:
    """Yield the id of each exported item and the length of its texts while the program writes them."""
    if form == "csv":
        csv.field_size_limit(ITEM_BYTES)
        for row in csv.DictReader(stream):
            yield row["item_id"], 2 * len(row["answer"])
        return
    for line in stream:
        if line.startswith("{"):
            row = json.loads(line.rstrip().removesuffix(","))
            yield row["item_id"], len(row["hits"][0]["content"]) + len(row["answer"])


def exported(workspace: Path, form: str) -> tuple[int, int]:
    """Export to a pipe; return the number of complete items and the program's peak of memory in KB."""
    command = [sys.executable, "-c", PEAK, "export", "large", "--format", form]
    with subprocess.Popen(
        command, cwd=workspace, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        with io.TextIOWrapper(process.stdout, encoding="utf-8", newline="") as stream:
            whole = sum(size == ITEM_BYTES for _, size in written(stream, form))
        stderr = process.stderr.read()
    assert process.returncode == 0, stderr.decode()
    return whole, peak_and_bytes_read(stderr)[0]


@pytest.mark.parametrize("items", [pytest.param(50_000, marks=pytest.mark.long)])
async def test_M2_an_export_of_50_000_long_items_needs_less_than_200_mb(tmp_path: Path, items: int) -> None:
    await journal_of(tmp_path, items)
    for form in ("jsonl", "csv", "json"):
        whole, peak_kb = exported(tmp_path, form)
        assert whole == items
        assert peak_kb < LIMIT_KB, form


async def test_M2_an_export_of_more_items_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for items in (20, 2000):
        await journal_of(tmp_path / str(items), items)
        whole, peak_kb = exported(tmp_path / str(items), "json")
        assert whole == items
        peaks.append(peak_kb)
    assert peaks[1] < peaks[0] + 20_000, "40 MB were written"
