"""Grids as Markdown, and a whole report as CSV.

Example::

    for grid in overview(report):
        print(markdown(grid))
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from bench.model import Measurement
from bench.report.fold import JobReport, Report
from bench.report.tables import Grid, safe_row
from bench.visible import visible


def markdown(grid: Grid) -> str:
    """The grid as a Markdown table with its title and notes."""
    lines = [f"### {_cell(grid.title)}", "", _line(grid.head), _line(_rule(grid)), *map(_line, grid.rows)]
    lines += ["", *(f"- {_cell(note)}" for note in grid.notes)] if grid.notes else []
    return "\n".join(lines) + "\n"


def _rule(grid: Grid) -> Sequence[str]:
    return ["---:" if index in grid.right else "---" for index in range(len(grid.head))]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    """A text on one line that is no markup, no link and no second cell; intervals keep their brackets."""
    escaped = "".join(f"&#{ord(sign)};" if sign in "<>&|`*" else sign for sign in visible(text))
    return " ".join(escaped.split()).replace("](", "]&#40;")


def csv_text(report: Report) -> str:
    """A line a metric and label of each job: unrounded values, one header line."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow(CSV_HEAD)
    for job in report.jobs:
        for one in job.metrics.values():
            writer.writerow(_csv_row(job, one, "", ""))
            for dimension, labels in one.breakdown.items():
                for label, inner in labels.items():
                    writer.writerow(_csv_row(job, inner, dimension, label))
    return sink.getvalue()


CSV_HEAD = (
    "benchmark", "provider", "embedding_model", "answering_model", "judge_model", "track", "valid", "metric",
    "definition", "dimension", "label", "value", "value_failures_as_zero", "n", "n_excluded", "n_failed", "low", "high",
)  # fmt: skip


def _csv_row(job: JobReport, one: Measurement, dimension: str, label: str) -> list[object]:
    record, models = job.record, job.record.models
    bounds = (one.interval.low, one.interval.high) if one.interval else (None, None)
    return safe_row((
        record.benchmark, record.provider, models.embedding, models.answering, models.judge, record.track, job.valid,
        one.metric, one.definition, dimension, label, one.value, one.value_failures_as_zero, one.n, one.n_excluded,
        one.n_failed, *bounds,
    ))  # fmt: skip
