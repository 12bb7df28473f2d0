"""Write tables as Markdown or as one HTML page, and a whole report as CSV.

The HTML page has no script and loads nothing from the network.

Example::

    for grid in overview(report):
        print(markdown(grid))
    grids_page("Leaderboard", board_grids(board, "benchmark"))
    csv_text(report)
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence

from bench.model import Measurement
from bench.report.fold import JobReport, Report
from bench.report.tables import Grid, safe_row
from bench.visible_text import visible


def markdown(grid: Grid) -> str:
    """Return a table as Markdown, with its title and notes."""
    rule = ["---:" if index in grid.right else "---" for index in range(len(grid.head))]
    lines = [f"### {_cell(grid.title)}", "", _line(grid.head), _line(rule), *map(_line, grid.rows)]
    lines += ["", *(f"- {_cell(note)}" for note in grid.notes)] if grid.notes else []
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    """Return a text as a table cell: on one line, with all markup escaped."""
    escaped = "".join(f"&#{ord(sign)};" if sign in "<>&|`*" else sign for sign in visible(text))
    return " ".join(escaped.split()).replace("](", "]&#40;")


def csv_text(report: Report) -> str:
    """Return the report as CSV with unrounded values.

    Each line is one metric of a job, for all items or for the items with one label.
    """
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
    "n_unknown",
)  # fmt: skip


def _csv_row(job: JobReport, one: Measurement, dimension: str, label: str) -> list[object]:
    record, models = job.record, job.record.models
    bounds = (one.interval.low, one.interval.high) if one.interval else (None, None)
    return safe_row((
        record.benchmark, record.provider, models.embedding, models.answering, models.judge, record.track, job.valid,
        one.metric, one.definition, dimension, label, one.value, one.value_failures_as_zero, one.n, one.n_excluded,
        one.n_failed, *bounds, one.n_unknown,
    ))  # fmt: skip


STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1rem; margin: 2rem 0 .5rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; min-width: 40% }
th, td { padding: .3rem .7rem; text-align: left }
tr { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent) }
th { font-weight: 600 }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
ul { padding-left: 1.2rem; color: color-mix(in srgb, currentColor 75%, transparent) }
""".strip()


def grids_page(title: str, grids: Sequence[Grid]) -> str:
    """Return tables as one HTML page; every text is escaped."""
    body = "\n".join(_grid(grid) for grid in grids)
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_escaped(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        f"<h1>{_escaped(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _escaped(text: str) -> str:
    return html.escape(visible(text))


def _grid(grid: Grid) -> str:
    head = "".join(_html_cell("th", name, index in grid.right) for index, name in enumerate(grid.head))
    rows = "\n".join(
        "<tr>" + "".join(_html_cell("td", cell, index in grid.right) for index, cell in enumerate(row)) + "</tr>"
        for row in grid.rows
    )
    notes = "".join(f"<li>{_escaped(note)}</li>" for note in grid.notes)
    listed = f"<ul>{notes}</ul>" if notes else ""
    table = f"<div class='scroll'><table>\n<tr>{head}</tr>\n{rows}\n</table></div>"
    return f"<h2>{_escaped(grid.title)}</h2>\n{table}\n{listed}"


def _html_cell(tag: str, text: str, number: bool) -> str:
    return f"<{tag} class='number'>{_escaped(text)}</{tag}>" if number else f"<{tag}>{_escaped(text)}</{tag}>"
