"""``bench compare`` and ``bench leaderboard``: results beside one another. Nothing is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.flags import Many, spread
from bench.cli.global_flags import current
from bench.cli.results import show_grids
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.report.regression import Gated
    from bench.report.sides import Side

GATE_FAILED = 4
Switch = Annotated[bool, Parameter(negative=())]


def compare(
    *pairs: str,
    benchmark: str | None = None,
    providers: Many = None,
    metric: Many = None,
    markdown: Switch = False,
    fail_on_regression: Many = None,
    force: Switch = False,
) -> int:
    """Which of two is better, and how sure: paired by item, like for like or not at all.

    Parameters
    ----------
    pairs
        RUN_ID:PROVIDER, two or more; RUN_ID:PROVIDER:MODEL where a run has several answering models.
    benchmark
        Only this benchmark; with --providers: the newest complete valid run of each.
    providers
        Two or more providers by name.
    metric
        The headline metrics, and the only rows. Default: the benchmark's first.
    markdown
        The whole comparison as Markdown.
    fail_on_regression
        METRIC:POINTS: exit 4 when a later side is worse than the first by more than POINTS/100.
    force
        Compare what is not like for like; the output is marked.
    """
    from bench.report.compare import compare_sides
    from bench.report.compareview import comparison_grids, comparison_json, comparison_markdown, conclusions

    console.one_form({"--markdown": markdown})
    gates = [_gate(text) for text in spread(fail_on_regression)]
    groups = anyio.run(_loaded, current.get().workspace, pairs, benchmark, spread(providers))
    found = compare_sides(groups, metrics=spread(metric), force=force)
    checked = [one for gate in gates for one in _checked(groups, gate, force=force)]
    if current.get().json:
        console.json_value(comparison_json(found))
    elif markdown:
        console.raw(comparison_markdown(found))
    else:
        for text in conclusions(found):
            console.line(f"conclusion: {text}")
        console.line()
        show_grids(comparison_grids(found))
    if found.forced:
        console.note("not like for like: forced, do not quote these numbers as a comparison")
    for one in checked:
        console.note(one.text)
    return GATE_FAILED if any(one.missed for one in checked) else 0


def _gate(text: str) -> tuple[str, float]:
    metric, _, points = text.rpartition(":")
    try:
        allowed = float(points)
    except ValueError:
        allowed = -1.0
    if not metric or not 0 <= allowed < float("inf"):
        raise UsageError(
            f"--fail-on-regression {text}: not METRIC:POINTS", hint="for example accuracy:2, two points of a hundred"
        )
    return metric, allowed


async def _loaded(
    workspace: Path, pairs: tuple[str, ...], benchmark: str | None, providers: list[str]
) -> list[list[Side]]:
    """Read the sides; say which run a provider's name stands for."""
    from bench.report.choosing import chosen_targets, sides_of

    chosen = await chosen_targets(workspace, pairs, benchmark=benchmark, providers=providers)
    for target, job in chosen:
        if job is not None:
            console.note(f"{target.provider}: run {job.run_id} of {job.created_at:%Y-%m-%d %H:%M:%SZ}")
    return await sides_of(workspace, [target for target, _ in chosen], benchmark=benchmark)


def _checked(groups: list[list[Side]], gate: tuple[str, float], *, force: bool) -> list[Gated]:
    """Check a gate on its own metric, whatever rows were asked for."""
    from bench.report.compare import compare_sides
    from bench.report.regression import gated

    metric, points = gate
    return list(gated(compare_sides(groups, metrics=[metric], force=force), points))


def leaderboard(
    *,
    view: Literal["overall", "benchmark", "type", "provider", "model"] = "benchmark",
    benchmark: Many = None,
    markdown: Switch = False,
    csv: Switch = False,
    html: Path | None = None,
) -> int:
    """All comparable results side by side: the newest complete valid run of each provider and models.

    Parameters
    ----------
    view
        overall (macro over benchmarks), benchmark, type (question types),
        provider (models fixed) or model (provider fixed).
    benchmark
        Only these benchmarks.
    markdown
        Tables as Markdown.
    csv
        One line a row, unrounded.
    html
        One self-contained page.
    """
    from bench.report.leaderboard import board_csv, board_grids, board_json, load_board, tables_of

    console.one_form({"--markdown": markdown, "--csv": csv, "--html": html is not None})
    tables = tables_of(anyio.run(load_board, current.get().workspace, spread(benchmark)), view)
    if current.get().json:
        console.json_value(board_json(view, tables))
    elif csv:
        console.raw(board_csv(tables))
    elif markdown:
        from bench.report.rendering import markdown as as_markdown

        console.raw("\n".join(as_markdown(grid) for grid in board_grids(tables, view)))
    elif html is not None:
        from bench.report.page import grids_page
        from bench.report.publish import replace_text

        replace_text(html, grids_page(f"Leaderboard: {view}", board_grids(tables, view)))
        console.line(str(html))
    else:
        show_grids(board_grids(tables, view))
    return 0
