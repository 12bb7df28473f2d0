"""Grids as one self-contained HTML page: no script, no network, dark mode, narrow screens.

Example::

    grids_page("Leaderboard", board_grids(board, "benchmark"))
    results_page(report)
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from bench.report.fold import Report
from bench.report.tables import Grid, breakdown, matrix, overview
from bench.visible import visible

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


def results_page(report: Report) -> str:
    """A run's tables as a page."""
    grids = [*overview(report), *matrix(report), *breakdown(report, "question_type"), *breakdown(report, "group")]
    return grids_page(f"Run {report.run_id}", grids)


def grids_page(title: str, grids: Sequence[Grid]) -> str:
    """Any grids as a page; every text is escaped."""
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
    head = "".join(_cell("th", name, index in grid.right) for index, name in enumerate(grid.head))
    rows = "\n".join(
        "<tr>" + "".join(_cell("td", cell, index in grid.right) for index, cell in enumerate(row)) + "</tr>"
        for row in grid.rows
    )
    notes = "".join(f"<li>{_escaped(note)}</li>" for note in grid.notes)
    listed = f"<ul>{notes}</ul>" if notes else ""
    table = f"<div class='scroll'><table>\n<tr>{head}</tr>\n{rows}\n</table></div>"
    return f"<h2>{_escaped(grid.title)}</h2>\n{table}\n{listed}"


def _cell(tag: str, text: str, number: bool) -> str:
    return f"<{tag} class='number'>{_escaped(text)}</{tag}>" if number else f"<{tag}>{_escaped(text)}</{tag}>"
