"""From journal to report: excluded items keep their reasons in any order and with epochs and rescores."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.journal import CorpusKind, CorpusRow, Journal, JournaledPhase, Key, Reader, RunMeta
from bench.model import Measurement, Phase, State
from bench.plan.job_record import JobRecord, dump_jobs
from bench.report.fold import Report, fold
from bench.report.results_document import results_json
from tests.small_journal import measuring, record

NAMES = ("hit_at_10", "avg_retrieval_score", "accuracy", "accuracy_excl_adversarial")
RECORD = record("p", **measuring(*NAMES), cluster_by="corpus")


def entry(
    number: int,
    reason: str = "",
    *,
    state: State = State.CORRECT,
    kind: str = "plain",
    epoch: int = 1,
    generation: int = 0,
) -> JournaledPhase:
    hit = None if reason else float(number % 2)
    correct = None if state is State.UNSCORED else float(state is State.CORRECT)
    values = {
        "hit_at_10": hit,
        "avg_retrieval_score": 0.1 * (number % 7),
        "accuracy": correct,
        "accuracy_excl_adversarial": None if kind == "adversarial" else correct,
    }
    key = Key(owner=RECORD.key, phase=Phase.EVALUATE, corpus=f"c{number // 50}", unit=f"q{number}", epoch=epoch)
    padding = {"gold": ["x" * 50] * 60} if number % 5 == 0 else {}
    return JournaledPhase(
        key=key,
        data={**padding, "reason": reason},
        state=state,
        labels={"question_type": kind},
        values=values,
        generation=generation,
    )


async def folded(
    folder: Path, entries: Sequence[JournaledPhase], made: JobRecord = RECORD, rows: Sequence[CorpusRow] = ()
) -> Report:
    meta = RunMeta(run_id="r", plan_digest="d", identity={}, extra={"jobs": dump_jobs((made,))})
    async with Journal.create(folder, meta) as journal:
        for one in (*entries, *rows):
            await journal.wait_for_room()
            journal.append(one)
    async with Reader.open(folder) as reader:
        return await fold(reader)


def metric(report: Report, name: str) -> Measurement:
    return report.jobs[0].metrics[name]


MIXED = [
    *(entry(n) for n in range(90)),
    *(entry(n, "no_evidence", kind="adversarial") for n in range(90, 93)),
    *(entry(n, "abstention") for n in range(93, 95)),
    entry(95, "no_source_ids", state=State.UNSCORED),
    replace(entry(96), state=State.ERROR, outcome="timeout", values={}),
    replace(entry(97), state=State.UNSUPPORTED, values={}),
]
MADE = replace(RECORD, n_selected=99)


async def test_each_excluded_item_is_counted_under_its_own_reason(tmp_path: Path) -> None:
    report = await folded(tmp_path / "r", MIXED, MADE)
    hit = metric(report, "hit_at_10")
    wanted = {"abstention": 2, "no_evidence": 3, "no_source_ids": 1, "unsupported": 1}
    assert (hit.excluded_reasons, hit.n, hit.n_failed) == (wanted, 90, 2)
    assert hit.breakdown["question_type"]["adversarial"].excluded_reasons == {"no_evidence": 3}
    assert metric(report, "accuracy").excluded_reasons == {"unscored": 1, "unsupported": 1}
    others = {"adversarial": 3, "unscored": 1, "unsupported": 1}
    assert metric(report, "accuracy_excl_adversarial").excluded_reasons == others
    assert metric(report, "avg_retrieval_score").excluded_reasons == {"unsupported": 1}


@pytest.mark.parametrize("seed", range(3))
async def test_the_order_of_rows_does_not_change_a_report(tmp_path: Path, seed: int) -> None:
    mixed = random.Random(seed).sample(MIXED, len(MIXED))
    plain, other = await folded(tmp_path / "r", MIXED, MADE), await folded(tmp_path / "s", mixed, MADE)
    assert results_json(plain) == results_json(other)


async def test_a_rescore_replaces_the_reasons_of_its_items(tmp_path: Path) -> None:
    later = [entry(n, "no_evidence", kind="adversarial", generation=1) for n in range(91, 93)] + [
        entry(90, generation=1)
    ]
    hit = metric(await folded(tmp_path / "r", [*MIXED, *later], MADE), "hit_at_10")
    assert hit.excluded_reasons == {"abstention": 2, "no_evidence": 2, "no_source_ids": 1, "unsupported": 1}
    assert hit.n == 91


async def test_reasons_are_kept_when_epochs_are_reduced(tmp_path: Path) -> None:
    twice = [entry(n, "no_evidence" if n < 3 else "", epoch=epoch) for n in range(10) for epoch in (1, 2)]
    report = await folded(tmp_path / "r", twice, replace(RECORD, n_selected=10, epochs=2))
    assert metric(report, "hit_at_10").excluded_reasons == {"no_evidence": 3}


@pytest.mark.parametrize(("memories", "warned"), [(9, True), (10, True), (19, True), (20, False)])
async def test_a_k_near_the_number_of_memories_gets_a_note(tmp_path: Path, memories: int, warned: bool) -> None:
    rows = [CorpusRow(lane=RECORD.lane, corpus="c0", attempt=1, kind=CorpusKind.INGESTED, data={"memories": memories})]
    report = await folded(tmp_path / "r", [entry(1)], replace(RECORD, n_selected=1), rows)
    assert any("k = 10 is near the size of the corpora" in note for note in report.jobs[0].notes) is warned
