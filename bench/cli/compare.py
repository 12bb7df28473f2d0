"""``bench compare``: which of two is better, and how sure. ``bench leaderboard``: comparable results side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.global_flags import current
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.report.choosing import Target

Many = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]
Switch = Annotated[bool, Parameter(negative=())]
REGRESSION = 4


def compare(
    sides: Annotated[list[str] | None, Parameter(negative=())] = None,
    /,
    *,
    benchmark: str | None = None,
    providers: Many = None,
    metric: Many = None,
    markdown: Switch = False,
    fail_on_regression: Many = None,
    force: Switch = False,
) -> int:
    """Compare two or more jobs over the items they share: like for like, paired, corrected, said in words.

    Parameters
    ----------
    sides
        RUN_ID:PROVIDER, or RUN_ID:PROVIDER:ANSWERING_MODEL; the first is the baseline.
    benchmark
        With --providers: the newest complete valid run of each.
    providers
        Providers by name.
    metric
        The headline metrics; restricts the rows to them.
    markdown
        As Markdown.
    fail_on_regression
        METRIC:POINTS: exit 4 when a later side is worse than the first by more.
    force
        Compare although the sides are not like for like; the output says so.
    """
    from bench.metrics import resolve
    from bench.report.choosing import Target, sides_of
    from bench.report.compare import compare_sides
    from bench.report.compareview import comparison_grids, comparison_json, comparison_markdown, regressions

    gates = [_gate(text) for text in fail_on_regression or ()]
    workspace = current.get().workspace
    targets = [Target.parse(text) for text in sides or ()] or anyio.run(_newest, workspace, benchmark, providers)
    groups = anyio.run(lambda: sides_of(workspace, targets, benchmark=benchmark))
    found = compare_sides(groups, metrics=[resolve(name).name for name in metric or ()], force=force)
    if current.get().json:
        console.json_value(comparison_json(found))
    elif markdown:
        console.raw(comparison_markdown(found))
    else:
        from bench.cli.results import show_grids

        show_grids(comparison_grids(found))
    missed = [text for name, points in gates for text in regressions(found, resolve(name).name, points)]
    for text in missed:
        console.note(text)
    return REGRESSION if missed else 0


def _gate(text: str) -> tuple[str, float]:
    metric, colon, points = text.rpartition(":")
    try:
        found = float(points)
    except ValueError:
        found = -1.0
    if not colon or not 0 <= found < float("inf"):
        raise UsageError(f"--fail-on-regression {text}", hint="write METRIC:POINTS, for example accuracy:2")
    return metric, found


async def _newest(workspace: Path, benchmark: str | None, providers: Sequence[str] | None) -> list[Target]:
    from bench.report.choosing import newest_targets

    if benchmark is None or not providers:
        raise UsageError("what is compared?", hint="RUN_ID:PROVIDER twice, or --benchmark B --providers P P")
    chosen = await newest_targets(workspace, benchmark, providers)
    for _, job in chosen:
        console.note(f"{job.provider}: run {job.run_id} of {job.created_at:%Y-%m-%dT%H:%M:%SZ}")
    return [target for target, _ in chosen]


def leaderboard(
    *,
    view: Literal["overall", "benchmark", "type", "provider", "model"] = "benchmark",
    benchmark: str | None = None,
    markdown: Switch = False,
    csv: Switch = False,
    html: Path | None = None,
) -> int:
    """All results that may stand side by side: the newest complete valid run of each provider and models.

    Parameters
    ----------
    view
        overall (macro over benchmarks), benchmark, type, provider or model.
    benchmark
        Only this benchmark.
    markdown
        As Markdown.
    csv
        As CSV, unrounded.
    html
        One self-contained page.
    """
    from bench.report.leaderboard import board_csv, board_grids, board_json, load_board
    from bench.report.tables import markdown as as_markdown

    board = anyio.run(load_board, current.get().workspace, benchmark)
    grids = board_grids(board, view)
    if current.get().json:
        console.json_value(board_json(board, view))
    elif csv:
        console.raw(board_csv(board))
    elif markdown:
        console.raw("\n".join(as_markdown(grid) for grid in grids))
    elif html is not None:
        from bench.report.page import grids_page
        from bench.report.publish import replace_text

        replace_text(html, grids_page("Leaderboard", grids))
        console.line(str(html))
    else:
        from bench.cli.results import show_grids

        show_grids(grids)
    return 0
