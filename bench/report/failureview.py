"""Lost items as a document and as grids: counts, then what they were lost for, then the items one by one.

Example::

    losses_json(found)["jobs"][0]["reasons"][0]     # {"loss": "error", "error": "timeout", "count": 41, ...}
    losses_grids(found, cut=True)                   # long texts are cut, and the grid says so
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from bench.metrics.loss import LossKind
from bench.report.failures import JobLosses, Losses, LostItem, Reason
from bench.report.tables import Grid, models_named

SHOWN_ITEMS = 40
SHOWN_REASONS = 10
LONGEST_TEXT = 60
LONGEST_REASON = 160
NAMED_ITEMS = 5
"""how many of a reason's items the document names"""


def losses_json(losses: Losses) -> dict[str, object]:
    """The document of ``bench failures RUN --json``."""
    return {"run_id": losses.run_id, "jobs": [_job_json(job) for job in losses.jobs]}


def _job_json(job: JobLosses) -> dict[str, object]:
    return {
        "benchmark": job.record.benchmark,
        "provider": job.record.provider,
        "models": asdict(job.record.models),
        "n_lost": sum(job.counts.values()),
        "counts": {str(kind): count for kind, count in job.counts.items()},
        "reasons": [_reason_json(reason) for reason in job.reasons],
        "items": [_item_json(item) for item in job.items],
    }


def _reason_json(reason: Reason) -> dict[str, object]:
    return {
        "loss": str(reason.loss),
        "error": reason.error,
        "text": reason.text,
        "count": len(reason.items),
        "items": list(reason.items[:NAMED_ITEMS]),
    }


def _item_json(item: LostItem) -> dict[str, object]:
    return {
        "item_id": item.item,
        "corpus": item.corpus,
        "epoch": item.epoch,
        "question_type": item.question_type,
        "state": item.state,
        "loss": str(item.loss.kind),
        "partial_evidence": item.loss.partial_evidence,
        "reason": item.reason or None,
        "error": None if item.error is None else {"kind": item.error, "message": item.reason},
        "question": item.question,
        "expected": item.expected,
        "answer": item.answer,
        "evidence": list(item.evidence),
        "retrieved": None if item.retrieved is None else [list(slot) for slot in item.retrieved],
    }


def losses_grids(losses: Losses, *, cut: bool = True) -> list[Grid]:
    """A grid of counts; for each job one of reasons and one of items, whose long texts may be ``cut``."""
    return [_counts_grid(losses), *(grid for job in losses.jobs for grid in _job_grids(job, cut=cut))]


def _counts_grid(losses: Losses) -> Grid:
    kinds = [kind for kind in LossKind if any(kind in job.counts for job in losses.jobs)]
    return Grid(
        title=f"lost items of {losses.run_id}, each counted once",
        head=("benchmark", "provider", "models", "lost", *map(str, kinds)),
        rows=tuple(
            (
                job.record.benchmark,
                job.record.provider,
                models_named(job.record.models),
                str(sum(job.counts.values())),
                *(str(job.counts.get(kind, 0)) for kind in kinds),
            )
            for job in losses.jobs
        ),
        right=tuple(range(3, 4 + len(kinds))),
        notes=("below, each repeat that was lost has a line",)
        if any(job.record.epochs > 1 for job in losses.jobs)
        else (),
    )


def _job_grids(job: JobLosses, *, cut: bool) -> list[Grid]:
    name = f"{job.record.benchmark} x {job.record.provider}"
    grids = []
    if job.reasons:
        title = f"{name}: reasons, the commonest first"
        grids.append(_grid(title, REASONS, _reason_rows(job), SHOWN_REASONS, cut=cut, right=(0,)))
    if job.items:
        grids.append(_grid(name, ITEMS, _item_rows(job), SHOWN_ITEMS, cut=cut))
    return grids


REASONS = ("items", "loss", "error", "reason")
ITEMS = ("item", "type", "loss", "reason or question", "expected", "answer")
LONGEST = {"reason": LONGEST_REASON}


def _reason_rows(job: JobLosses) -> list[tuple[str, ...]]:
    return [(str(len(one.items)), str(one.loss), one.error or "", one.text) for one in job.reasons]


def _item_rows(job: JobLosses) -> list[tuple[str, ...]]:
    return [
        (
            item.item,
            item.question_type or "",
            str(item.loss.kind) + (" (partly)" if item.loss.partial_evidence else ""),
            item.reason or item.question or "",
            ", ".join(map(str, item.expected)) if isinstance(item.expected, list) else "",
            str(item.answer or ""),
        )
        for item in job.items
    ]


def _grid(
    title: str,
    head: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    most: int,
    *,
    cut: bool,
    right: tuple[int, ...] = (),
) -> Grid:
    """The first rows, each text on one line; what was left out or cut is said below."""
    whole = [tuple(" ".join(text.split()) for text in row) for row in rows[:most]]
    shown = [_cut(row, head) for row in whole] if cut else whole
    notes = [f"{len(rows) - most} more: --json shows all"] if len(rows) > most else []
    if shown != whole:
        notes.append("--full shows whole texts")
    return Grid(title=title, head=head, rows=tuple(shown), right=right, notes=tuple(notes))


def _cut(row: Sequence[str], head: Sequence[str]) -> tuple[str, ...]:
    return tuple(_short(text, LONGEST.get(name, LONGEST_TEXT)) for name, text in zip(head, row, strict=True))


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
