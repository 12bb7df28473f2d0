"""Show the lost items of a run as JSON and as tables: counts, distinct errors, and the items.

Example::

    losses_json(losses)["jobs"][0]["reasons"][0]     # {"loss": "error", "error": "timeout", "count": 41, ...}
    losses_grids(losses, cut=True)                   # long texts are cut, and a note reports it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from bench.metrics.failure_reason import LossKind
from bench.report.failures import JobLosses, RunLosses
from bench.report.tables import Grid, models_text
from bench.untyped_values import Json
from bench.visible_text import counted, shorten

LONGEST_TEXT = 60
LONGEST_REASON = 160
NAMED_ITEMS = 5
"""maximum number of items that the JSON document lists per reason"""


def losses_json(losses: RunLosses) -> Json:
    """Return the document of ``bench failures RUN --json``."""
    return {"run_id": losses.run_id, "jobs": [_job_json(job) for job in losses.jobs]}


def _job_json(job: JobLosses) -> Json:
    return {
        "benchmark": job.record.benchmark,
        "provider": job.record.provider,
        "models": asdict(job.record.models),
        "n_lost": sum(job.counts.values()),
        "counts": {str(kind): count for kind, count in job.counts.items()},
        "reasons": [
            {
                "loss": one.loss,
                "error": one.error,
                "text": one.text,
                **({"hint": one.hint} if one.hint else {}),
                "count": len(one.items),
                "items": list(one.items[:NAMED_ITEMS]),
            }
            for one in job.reasons
        ],
        "items": list(job.items),
    }


def losses_grids(losses: RunLosses, *, limit: int = 0, cut: bool = True) -> list[Grid]:
    """Return tables of the lost items of a run.

    The first table has counts. For each job, a table of distinct errors follows, then a table of items lost without an
    error. A table of a job has at most ``limit`` rows; 0 means all. ``cut`` shortens long texts.
    """
    return [_counts_grid(losses), *(grid for job in losses.jobs for grid in _job_grids(job, limit, cut=cut))]


def _counts_grid(losses: RunLosses) -> Grid:
    """Return a table of counts with one row per job.

    A benchmark or models that all jobs share are in the title instead of the rows.
    """
    kinds = [kind for kind in LossKind if any(kind in job.counts for job in losses.jobs)]
    rows = [
        (
            job.record.provider,
            job.record.benchmark,
            models_text(job.record.models),
            str(sum(job.counts.values())),
            *(str(job.counts.get(kind, 0)) for kind in kinds),
        )
        for job in losses.jobs
    ]
    head = ("provider", "benchmark", "models", "lost", *map(str, kinds))
    same = [at for at in (1, 2) if len({row[at] for row in rows}) == 1]
    shown = [at for at in range(len(head)) if at not in same]
    return Grid(
        title=" | ".join([f"lost items of {losses.run_id}, one cause per item", *(rows[0][at] for at in same)]),
        head=tuple(head[at] for at in shown),
        rows=tuple(tuple(row[at] for at in shown) for row in rows),
        right=tuple(place for place, at in enumerate(shown) if at > 2),
        notes=("the tables below have one row per lost repeat",)
        if any(job.record.epochs > 1 for job in losses.jobs)
        else (),
    )


def _job_grids(job: JobLosses, limit: int, *, cut: bool) -> list[Grid]:
    name = f"{job.record.benchmark} x {job.record.provider}"
    grids = []
    if job.reasons:
        title = f"{name}: distinct errors, the most common first"
        grid = _grid(title, REASONS, _reason_rows(job), limit, cut=cut, right=(0,))
        hints = dict.fromkeys(f"{one.error}: {one.hint}" for one in job.reasons[: limit or None] if one.hint)
        grids.append(replace(grid, notes=(*hints, *grid.notes)))
    wrong = _item_rows(job)
    if wrong:
        grids.append(_grid(f"{name}: lost without an error", ITEMS, wrong, limit, cut=cut))
    return grids


REASONS = ("items", "loss", "error", "reason", "which")
ITEMS = ("item", "type", "loss", "question", "expected", "answer")
LONGEST = {"reason": LONGEST_REASON}
SHOWN_NAMES = 3


def _reason_rows(job: JobLosses) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in job.reasons:
        names = sorted(dict.fromkeys(one.items), key=natural_order)
        which = " ".join([*names[:SHOWN_NAMES], *(["..."] if len(names) > SHOWN_NAMES else [])])
        rows.append((str(len(one.items)), one.loss, one.error or "", one.text, which))
    return rows


def natural_order(name: str) -> list[tuple[bool, int, str]]:
    """Return a key for ``sorted`` that compares digits as numbers, so that q2 is before q10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"([0-9]+)", name)]


def _item_rows(job: JobLosses) -> list[tuple[str, ...]]:
    """Return one row for each item that was lost without an error text."""
    return [
        (
            item["item_id"],
            item["question_type"] or "",
            item["loss"] + (" (partly)" if item["partial_evidence"] else ""),
            item["question"] or "",
            ", ".join(map(str, item["expected"])) if isinstance(item["expected"], list) else "",
            str(item["answer"] or ""),
        )
        for item in sorted(job.items, key=lambda one: (natural_order(one["item_id"]), one["epoch"]))
        if not item["reason"]
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
    """Return a table of at most ``most`` rows (0 = all), each on one line.

    Notes report rows that are left out and texts that are cut.
    """
    whole = [tuple(" ".join(text.split()) for text in row) for row in rows[: most or None]]
    lengths = [LONGEST.get(name, LONGEST_TEXT) for name in head]
    shown = [tuple(map(shorten, row, lengths)) for row in whole] if cut else whole
    notes = [counted(len(rows) - most, "more row(|s): --limit 0 shows all")] if most and len(rows) > most else []
    if shown != whole:
        notes.append("--full shows the complete texts")
    return Grid(title=title, head=head, rows=tuple(shown), right=right, notes=tuple(notes))
