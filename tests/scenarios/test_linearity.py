"""Operations that read or write every item of a run take CPU time in proportion to the items."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bench.journal import Journal, Reader, merge
from bench.model import Phase
from bench.receipt.signing.sign import SigningRequest, sign_run
from bench.receipt.signing.signature import SigningKey
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.verify import VerificationRequest, verify
from bench.report import fold
from bench.report.exports.export import export_rows
from bench.settings import Environment
from tests.small_journal import Job, made, record

RECORD = record("p", config_sha256={"benchmark": "b" * 64, "provider": "a" * 64}, prompts={"answer.default": "c" * 64})
RUN_ID = "d" * 64
MARGIN = 1.8
"""allowed factor above proportion; with quadratic cost, four times the items would take sixteen times the CPU"""


async def cpu_seconds(workspace: Path, items: int) -> dict[str, float]:
    """Return the CPU time of each operation on a run of this size; each operation must handle all items."""
    names = {f"q{number:06d}": number for number in range(items)}
    job = Job(
        record=RECORD,
        values={name: float(number % 3 == 0) for name, number in names.items()},
        corpora={name: f"c{number % 50}" for name, number in names.items()},
    )
    run, merged, receipts = await made(workspace, RUN_ID, [job]), workspace / "checkpoints/merged", workspace / "signed"

    async def merging() -> int:
        return (await merge([run], merged, run_id="merged")).phases

    async def resuming() -> int:
        async with Journal.resume(run) as journal:
            return len(await journal.finished(RECORD.key, Phase.EVALUATE))

    async def reporting() -> int:
        async with Reader.open(run) as reader:
            return (await fold(reader)).jobs[0].n_ended

    async def exporting() -> int:
        async with Reader.open(run) as reader:
            return await export_rows(reader, "jsonl", io.StringIO())

    async def signing() -> int:
        key = SigningKey.from_raw(bytes(range(32)))
        outcome = await sign_run(run, key, SigningRequest(output=receipts, environment=Environment()))
        return len(outcome.receipts) * items

    async def verifying() -> int:
        found = verify([receipts], VerificationRequest(trust=TrustStore(origin=None, keys=())))
        (receipt,) = found.outcomes
        assert receipt.receipt is not None
        return int(receipt.receipt.per_query.count)

    return {
        act.__name__: await taken(act, items) for act in (merging, resuming, reporting, exporting, signing, verifying)
    }


async def taken(act: Callable[[], Awaitable[int]], items: int) -> float:
    before = time.process_time()
    assert await act() == items
    return time.process_time() - before


@pytest.mark.parametrize(("few", "many"), [(1000, 4000), pytest.param(10_000, 100_000, marks=pytest.mark.long)])
async def test_merge_resume_report_export_sign_and_verify_take_cpu_in_proportion_to_the_items(
    tmp_path: Path, few: int, many: int
) -> None:
    await cpu_seconds(tmp_path / "warm", 20)
    least: dict[str, float] = {}
    over: dict[str, float] = {}
    for attempt in range(3):
        small, large = [await cpu_seconds(tmp_path / f"{attempt}-{items}", items) for items in (few, many)]
        least = {name: min(large[name] / small[name], least.get(name, math.inf)) for name in small}
        over = {name: ratio for name, ratio in least.items() if ratio > MARGIN * many / few}
        if not over:
            break
    assert not over
