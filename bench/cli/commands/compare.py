"""``bench compare`` and ``bench leaderboard``: compare the results of several runs without network calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.flags import Many, Toggle, run_or_newest, split_values
from bench.cli.global_flags import current
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.report.comparison.comparison_rows import GateOutcome
    from bench.report.comparison.sides import Side

GATE_FAILED = 4


def compare(
    *pairs: str,
    benchmark: str | None = None,
    providers: Annotated[Many, Parameter(name=["--providers", "--provider"])] = None,
    metric: Annotated[Many, Parameter(name=["--metric", "--metrics"])] = None,
    markdown: Toggle = False,
    fail_on_regression: Many = None,
    force: Toggle = False,
) -> int:
    """Compare two or more providers or runs, paired by item, and test the differences. All must be comparable.

    Parameters
    ----------
    pairs
        Two or more of RUN_ID:PROVIDER, or RUN_ID:PROVIDER:MODEL if a run has several answering models. RUN_ID RUN_ID
        compares each provider of the first run with the same provider of the other runs. One RUN_ID compares the
        providers of this run. Default: the providers of the newest run.
    benchmark
        Only this benchmark. With --providers: use the newest complete valid run of each provider.
    providers
        Two or more providers by name.
    metric
        Metrics to compare, each as a main metric. Default: every metric; the benchmark's first is the main metric.
    markdown
        Print the whole comparison as Markdown.
    fail_on_regression
        METRIC:POINTS: exit 4 if a later job is worse than the first job by more than POINTS/100. For times, POINTS are
        percent of the time of the first job.
    force
        Compare even if the jobs are not comparable. The output is marked.
    """
    from bench.report.comparison.compare import compare_sides
    from bench.report.comparison.formats import (
        comparison_grids,
        comparison_json,
        comparison_markdown,
        conclusions,
    )

    console.require_one_format({"--markdown": markdown})
    gates = [_parse_gate(text) for text in split_values(fail_on_regression)]
    if not pairs and not providers and benchmark is None:
        pairs = (run_or_newest(None),)
    groups = anyio.run(_load_sides, current.get().workspace, pairs, benchmark, split_values(providers))
    found = compare_sides(groups, metrics=split_values(metric), force=force)
    checked = [one for gate in gates for one in _check_gate(groups, gate, force=force)]
    if current.get().json:
        console.json_value(comparison_json(found))
    elif markdown:
        console.raw(comparison_markdown(found))
    else:
        for text in conclusions(found):
            console.line(f"conclusion: {text}")
        console.line()
        console.grids(comparison_grids(found))
    if found.forced:
        console.note("not like for like: the comparison was forced; do not quote these numbers as a comparison")
    for one in checked:
        console.note(one.text)
    return GATE_FAILED if any(one.missed for one in checked) else 0


def _parse_gate(text: str) -> tuple[str, float]:
    metric, _, points = text.rpartition(":")
    try:
        allowed = float(points)
    except ValueError:
        allowed = -1.0
    if not metric or not 0 <= allowed < float("inf"):
        raise UsageError(
            f"--fail-on-regression {text}: expected METRIC:POINTS",
            hint="for example accuracy:2, which means two percentage points",
        )
    return metric, allowed


async def _load_sides(
    workspace: Path, pairs: tuple[str, ...], benchmark: str | None, providers: list[str]
) -> list[list[Side]]:
    """Load the jobs to compare. For a provider that is given by name, print a note with the run that was chosen."""
    from bench.report.comparison.comparison_targets import are_run_ids, parse_targets, sides_of, sides_of_runs

    if are_run_ids(pairs, providers):
        return await sides_of_runs(workspace, pairs, benchmark=benchmark)
    chosen = await parse_targets(workspace, pairs, benchmark=benchmark, providers=providers)
    for target, job in chosen:
        if job is not None:
            console.note(f"{target.provider}: run {job.run_id} of {job.created_at:%Y-%m-%d %H:%M:%SZ}")
    return await sides_of(workspace, [target for target, _ in chosen], benchmark=benchmark)


def _check_gate(groups: list[list[Side]], gate: tuple[str, float], *, force: bool) -> list[GateOutcome]:
    """Compare the jobs by the metric of a ``--fail-on-regression`` gate, and return the outcomes of the gate.

    The metric is compared even if the printed comparison does not show it.
    """
    from bench.report.comparison.compare import compare_sides
    from bench.report.comparison.comparison_rows import gate_outcomes

    metric, points = gate
    return list(gate_outcomes(compare_sides(groups, metrics=[metric], force=force), points))


def leaderboard(
    *,
    view: Literal["overall", "benchmark", "type", "provider", "model"] = "benchmark",
    benchmark: Annotated[Many, Parameter(name=["--benchmark", "--benchmarks"])] = None,
    markdown: Toggle = False,
    csv: Toggle = False,
    html: Path | None = None,
) -> int:
    """Show all comparable results: the newest complete valid run of each provider with its models.

    Parameters
    ----------
    view
        benchmark: one table of providers per benchmark; type: the same per question type; overall: providers by their
        mean over the benchmarks; provider: one row per provider, one column per benchmark; model: answering models of
        each provider.
    benchmark
        Only these benchmarks.
    markdown
        Print the tables as Markdown.
    csv
        One line per value, not rounded.
    html
        Write one page without external resources to this file.
    """
    from bench.report.leaderboard.formats import board_csv, board_grids, board_json
    from bench.report.leaderboard.standings import load_board, tables_of

    console.require_one_format({"--markdown": markdown, "--csv": csv, "--html": html is not None})
    tables = tables_of(anyio.run(load_board, current.get().workspace, split_values(benchmark)), view)
    if current.get().json:
        console.json_value(board_json(view, tables))
    elif csv:
        console.raw(board_csv(tables))
    elif markdown:
        from bench.report.rendering import markdown as as_markdown

        console.raw("\n".join(as_markdown(grid) for grid in board_grids(tables, view)))
    elif html is not None:
        from bench.report.rendering import grids_page
        from bench.report.result_files import replace_text

        replace_text(html, grids_page(f"Leaderboard: {view}", board_grids(tables, view)))
        console.line(str(html))
    else:
        console.grids(board_grids(tables, view))
    return 0
