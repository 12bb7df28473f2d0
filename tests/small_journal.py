"""Journals made from numbers: the journal of a run of any size, without running anything.

Example::

    folder = await made(tmp_path, "r1", [Job(record=record("bm25"), values={"q1": 1.0, "q2": None})])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.journal import Event, Journal, JournaledPhase, Key, RunMeta, RunState
from bench.metrics import open_metrics
from bench.model import Phase, State
from bench.plan.job_record import JobRecord, MetricRecord, ModelNames, dump_jobs

ACCURACY = MetricRecord(name="accuracy", definition="accuracy/1", category="answer", unit=None, lower_is_better=False)
RECORD = JobRecord(
    key="job", lane="lane", answer_owner="answer", benchmark="facts", benchmark_version="1", benchmark_title="Facts",
    provider="p", provider_type="local", models=ModelNames(embedding=None, answering="acme/m1", judge=None),
    track="uniform", k=10, context_budget=None, epochs=1, epochs_reducer="mean", seed=0, unit="session",
    level="session", n_selected=0, n_whole=0, n_items=0, metrics=(ACCURACY,), metric_entries=("accuracy",),
    metric_folder="", evaluators=("exact-match",), cluster_by=None, groups={}, selection={},
    dataset={"content_sha256": "d" * 64}, prompts={"answer.default": "a" * 64, "judge.default": "j" * 64},
    config_sha256={"benchmark": "b" * 64, "provider": "p" * 64},
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job: item -> value of the first metric; None = an item that ended with an error."""

    record: JobRecord = RECORD
    values: Mapping[str, float | None]
    corpora: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    epochs: Mapping[int, Mapping[str, float | None]] = field(default_factory=dict)
    """further epochs, from 2"""
    more: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """metric -> item -> value, of further metrics"""
    planned: int | None = None
    messages: Mapping[str, str] = field(default_factory=dict)
    """item -> message of its error"""


def measuring(*names: str) -> dict[str, object]:
    """Return the changes of a record that computes these metrics."""
    metrics = tuple(
        MetricRecord(
            name=one.name, definition=one.definition, category=one.category, unit=one.unit,
            lower_is_better=one.lower_is_better,
        )
        for one in open_metrics(names, k=RECORD.k, folder=Path())
    )  # fmt: skip
    return {"metrics": metrics, "metric_entries": tuple(one.name for one in metrics)}


def record(provider: str, **changes: object) -> JobRecord:
    """Return a job record with these changes."""
    own = {"key": f"job-{provider}", "lane": f"lane-{provider}", "answer_owner": f"answer-{provider}"}
    return replace(RECORD, provider=provider, **{**own, **changes})  # type: ignore[arg-type]


async def made(
    workspace: Path,
    run_id: str,
    jobs: Sequence[Job],
    *,
    state: RunState = RunState.COMPLETE,
    events: Sequence[Event] = (),
) -> Path:
    """Write the journal of a run and return its folder."""
    records = [replace(job.record, n_selected=job.planned or len(job.values)) for job in jobs]
    folder = workspace / "checkpoints" / run_id
    meta = RunMeta(run_id=run_id, plan_digest=run_id, identity={}, extra={"jobs": dump_jobs(records)})
    async with Journal.create(folder, meta) as journal:
        for job in jobs:
            for epoch, values in {1: job.values, **job.epochs}.items():
                for item, value in values.items():
                    journal.append(_entry(job, item, epoch, value))
                    await journal.wait_for_room()
        for event in events:
            journal.append(event)
        await journal.set_state(state)
    return folder


def _entry(job: Job, item: str, epoch: int, value: float | None) -> JournaledPhase:
    failed = value is None
    state = State.ERROR if failed else State.CORRECT if value == 1 else State.INCORRECT
    unit = Key(owner=job.record.key, phase=Phase.EVALUATE, corpus=job.corpora.get(item, "c"), unit=item, epoch=epoch)
    labels = {"question_type": job.types[item]} if item in job.types else {}
    metric = job.record.metrics[0].name
    return JournaledPhase(
        key=unit, attempt=1, outcome="timeout" if failed else "ok", state=state, labels=labels,
        message=job.messages.get(item, ""),
        values={} if failed else {metric: value, **{name: own[item] for name, own in job.more.items() if item in own}},
    )  # fmt: skip
