"""Ingest metrics: computed from the corpus rows of a lane and shared by all its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bench.journal import CorpusKind, CorpusRow, Journal, Reader, RunState
from bench.model import Call, Measurement, State
from bench.plan.job_record import JobRecord
from bench.report.fold import JobReport, fold
from bench.report.job_data import OutcomeCounts, job_facts, open_measures
from tests.full_journal import AT, ItemData, call, rows_of, write_run
from tests.small_journal import measuring, record

NAMES = (
    "accuracy", "ingest_throughput", "ingest_to_searchable_p50", "tokens_ingest", "cost_ingest", "ingest_latency_p50",
)  # fmt: skip
JOB = record("p", **measuring(*NAMES))


def steps(
    corpus: str,
    *,
    memories: int | None = 10,
    began_s: float = 0.0,
    took_s: float = 2.0,
    searchable_us: int | None = 500_000,
    calls: Sequence[Call] = (),
    failed: bool = False,
    lane: str = "lane-p",
    attempt: int = 1,
) -> list[CorpusRow]:
    """Return the rows of an ingest."""

    def row(kind: CorpusKind, after_s: float, **more: object) -> CorpusRow:
        at = AT + timedelta(seconds=began_s + after_s)
        return CorpusRow(lane=lane, corpus=corpus, attempt=attempt, kind=kind, at=at, **more)  # type: ignore[arg-type]

    begun = row(CorpusKind.INTENT, 0.0)
    if failed:
        return [begun, row(CorpusKind.FAILED, took_s, outcome="network", calls=tuple(calls))]
    data = {} if memories is None else {"memories": memories}
    times = {"ingest": round(took_s * 1e6)}
    ready = {} if searchable_us is None else {"searchable": searchable_us}
    return [
        begun, row(CorpusKind.INGESTED, took_s, data=data, times_us=times, calls=tuple(calls)),
        row(CorpusKind.READY, took_s + 0.5, times_us=ready),
    ]  # fmt: skip


async def folded(workspace: Path, rows: Sequence[CorpusRow], *, job: JobRecord = JOB, **request: object) -> JobReport:
    folder = await write_run(workspace, "r", [(job, [ItemData(item="q1")])], more=rows, request=request)
    async with Reader.open(folder) as reader:
        return (await fold(reader)).jobs[0]


def of(job: JobReport, name: str) -> Measurement:
    return job.metrics[name]


async def test_the_throughput_of_concurrent_ingests_uses_the_wall_clock(tmp_path: Path) -> None:
    rows = [*steps("c1", memories=30), *steps("c2", memories=10, began_s=1.0, took_s=3.0)]
    job = await folded(tmp_path, rows, ingest_concurrency=2)
    throughput = of(job, "ingest_throughput")
    assert throughput.value == pytest.approx(40 / 4.0), (
        "memories divided by the seconds from the first start to the last end"
    )
    assert (throughput.n, throughput.unit, throughput.note) == (2, "memories/s", "at ingest concurrency 2")
    async with Reader.open(tmp_path / "checkpoints" / "r") as reader:
        facts = await job_facts(reader, JOB, {owner: {} for owner in JOB.owners})
    assert (facts.ingest_wall_us, facts.ingest_concurrency) == (4_000_000, 2)
    assert [(one.corpus, one.memories, one.failed) for one in facts.corpora] == [("c1", 30, False), ("c2", 10, False)]
    assert [one.times_us for one in facts.corpora] == [
        {"ingest": 2_000_000, "searchable": 500_000}, {"ingest": 3_000_000, "searchable": 500_000},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "concurrency"), [({"concurrency": 7}, 7), ({"ingest_concurrency": 3, "concurrency": 7}, 3), ({}, None),
                                  ({"concurrency": "auto"}, None)]
)  # fmt: skip
async def test_ingest_concurrency_is_its_own_setting_or_that_of_the_run(
    tmp_path: Path, request_: dict[str, object], concurrency: int | None
) -> None:
    folder = await write_run(tmp_path, "r", [(JOB, [ItemData(item="q1")])], more=steps("c1"), request=request_)
    async with Reader.open(folder) as reader:
        assert (await job_facts(reader, JOB, {owner: {} for owner in JOB.owners})).ingest_concurrency == concurrency


async def test_ingest_to_searchable_has_one_value_per_ready_corpus(tmp_path: Path) -> None:
    rows = [*steps("c1", searchable_us=100_000), *steps("c2", searchable_us=300_000), *steps("c3", searchable_us=None)]
    found = of(await folded(tmp_path, rows), "ingest_to_searchable_p50")
    assert (found.value, found.n, found.unit) == (100.0, 2, "ms"), "the nearest rank of two"


async def test_a_failed_corpus_counts_as_failed_in_corpus_metrics(tmp_path: Path) -> None:
    rows = [*steps("c1"), *steps("c2", failed=True)]
    found = of(await folded(tmp_path, rows), "ingest_to_searchable_p50")
    assert (found.n, found.n_failed, found.n + found.n_excluded + found.n_failed) == (1, 1, 2)


async def test_times_come_from_the_last_attempt_of_a_corpus_and_costs_from_all(tmp_path: Path) -> None:
    paid = call("provider", cost="0.5", tokens=10)
    rows = [*steps("c1", failed=True, calls=[paid]), *steps("c1", attempt=2, began_s=10, calls=[paid], memories=4)]
    job = await folded(tmp_path, rows)
    assert of(job, "ingest_throughput").value == pytest.approx(2.0)
    assert (of(job, "cost_ingest").value, of(job, "tokens_ingest").value) == (1.0, 20.0)
    assert job.spent["lane-p"]["provider"].calls == 2


async def test_the_known_part_of_a_corpus_with_a_call_of_unknown_price_is_in_the_cost(tmp_path: Path) -> None:
    known, unknown = call("embedding", cost="0.25", tokens=5), call("embedding", tokens=7)
    job = await folded(tmp_path, [*steps("c1", calls=[known]), *steps("c2", calls=[known, unknown])])
    cost = of(job, "cost_ingest")
    assert (cost.value, cost.n, cost.n_unknown, cost.note) == (0.5, 1, 1, "at least: 1 value is unknown")
    assert (of(job, "tokens_ingest").value, of(job, "tokens_ingest").n) == (17.0, 2)


async def test_a_corpus_without_calls_costs_zero_and_has_unknown_tokens(tmp_path: Path) -> None:
    for place, calls in (("none", []), ("silent", [call("provider", cost="0")])):
        job = await folded(tmp_path / place, steps("c1", calls=calls))
        assert (of(job, "cost_ingest").value, of(job, "cost_ingest").n_unknown) == (0.0, 0)
        tokens = of(job, "tokens_ingest")
        assert (tokens.value, tokens.n, tokens.n_unknown, tokens.note) == (None, 0, 1, "unknown"), place


async def test_a_run_without_an_ingest_has_no_ingest_values(tmp_path: Path) -> None:
    for rows in ([], [CorpusRow(lane="lane-p", corpus="c1", attempt=1, kind=CorpusKind.INTENT, at=AT)]):
        job = await folded(tmp_path / str(len(rows)), rows)
        for name in set(NAMES[1:]) - {"cost_ingest"}:
            assert of(job, name).value is None, name
        assert of(job, "cost_ingest").value == (0.0 if rows else None), "started, without cost so far"


async def test_jobs_of_one_lane_share_ingest_values_and_other_lanes_have_their_own(tmp_path: Path) -> None:
    first = record("p", key="1", lane="lane", **measuring(*NAMES))
    second = record("p", key="2", lane="lane", answer_owner="other", **measuring(*NAMES))
    third = record("q", **measuring(*NAMES))
    rows = [*steps("c1", lane="lane", memories=8), *steps("c1", lane="lane-q", memories=2)]
    folder = await write_run(tmp_path, "r", [(job, [ItemData(item="q1")]) for job in (first, second, third)], more=rows)
    async with Reader.open(folder) as reader:
        found = [of(job, "ingest_throughput").value for job in (await fold(reader)).jobs]
    assert found == [4.0, 4.0, 1.0]


# ------------------------------------------------------------------------------ running runs


async def test_reports_of_a_running_run_count_durable_items_and_only_grow(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r", [(JOB, [ItemData(item="q0")])], planned=6, state=RunState.RUNNING)
    pending, values = [], []
    async with Journal.resume(folder) as journal:
        for number in range(1, 6):
            async with Reader.open(folder) as reader:
                report = await fold(reader)
            (job,) = report.jobs
            pending.append(job.n_pending)
            values.append((of(job, "accuracy").n, of(job, "accuracy").n_failed))
            assert report.partial
            state = State.CORRECT if number % 2 else State.INCORRECT
            for row in rows_of(JOB, ItemData(item=f"q{number}", state=state, values={"accuracy": float(number % 2)})):
                journal.append(row)
            await journal.flush()
        await journal.set_state(RunState.COMPLETE)
    assert pending == [5, 4, 3, 2, 1]
    assert values == [(1, 5), (2, 4), (3, 3), (4, 2), (5, 1)], "what has not ended counts as failed"
    async with Reader.open(folder) as reader:
        report = await fold(reader)
    assert not report.partial and report.jobs[0].n_pending == 0
    assert report.jobs[0].counts == {State.CORRECT: 4, State.INCORRECT: 2}


async def test_a_retried_item_counts_with_its_last_outcome(tmp_path: Path) -> None:
    failed = ItemData(item="q1", state=State.ERROR, outcome="timeout")
    folder = await write_run(tmp_path, "r", [(JOB, [failed, ItemData(item="q2")])])
    async with Journal.resume(folder) as journal:
        for row in rows_of(JOB, ItemData(item="q1")):
            journal.append(row)
        await journal.flush()
    async with Reader.open(folder) as reader:
        (job,) = (await fold(reader)).jobs
    assert (job.counts, job.error_kinds, job.valid) == ({State.CORRECT: 2}, {}, True)
    assert of(job, "accuracy").n == 2


def test_OutcomeCounts_keeps_errors_by_kind() -> None:
    from collections import Counter

    found = OutcomeCounts.of(Counter({
        ("error", "timeout"): 2, ("error", "network"): 1, ("not_ready", "not_ready"): 3, ("correct", "ok"): 4,
        ("unsupported", "unsupported"): 1,
    }))  # fmt: skip
    assert found.states == {State.ERROR: 3, State.NOT_READY: 3, State.CORRECT: 4, State.UNSUPPORTED: 1}
    assert found.error_kinds == {"timeout": 2, "network": 1}
    assert OutcomeCounts.of(Counter()) == OutcomeCounts(states={}, error_kinds={})


def test_values_of_an_older_run_keep_the_definition_by_which_they_were_computed() -> None:
    older = replace(JOB.metrics[0], name="contains_match", definition="contains_match/2")
    (found,), _ = open_measures(record("p", metrics=(older,), metric_entries=("contains_match",)))
    assert found.definition == "contains_match/2"


def test_open_measures_opens_metrics_as_requested_and_notes_unknown_ones() -> None:
    found, notes = open_measures(JOB)
    assert [one.name for one in found] == list(NAMES) and notes == []
    gone, notes = open_measures(record("p", metrics=JOB.metrics[:1], metric_entries=("no_such_metric",)))
    assert [one.name for one in gone] == ["accuracy"] and len(notes) == 1
