"""Create the documents of a comparison and of the leaderboard.

The document of a comparison is the JSON of ``bench compare --json``, with the result in words.

Example::

    await compare_document(site, ["r1:bm25", "r1:oracle"])
    await leaderboard_document(site, LeaderboardFilter(view="type", benchmark="demo"))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from bench.config.builtin_providers import is_control
from bench.journal import Reader
from bench.journal.paths import CHECKPOINTS
from bench.model import Phase
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.comparison.formats import ComparedPair, ComparisonDocument
from bench.report.exports.export import ITEM_PAYLOAD, payload
from bench.report.leaderboard.formats import JobRow, TableDocument, board_grids, row_json, table_json
from bench.report.leaderboard.standings import (
    VIEWS,
    RankedJob,
    RankingTable,
    leaders,
    load_board,
    load_invalid,
    rank_spreads,
    ranked_by_type,
    summary_sentences,
    tables_of,
)
from bench.report.tables import Grid
from bench.untyped_values import Json
from bench.web.app_state import Site
from bench.web.cache import make_off_loop, max_wait_s
from bench.web.documents.run_documents import folder_of, journal_stamp, planned_items, require_document
from bench.web.documents.workspace_documents import ReceiptKey, receipts_by_job
from bench.web.errors import RequestRefused, slug_of

if TYPE_CHECKING:
    from bench.report.comparison.comparison_rows import PairComparison

MAX_COMPARED = 6


class ShownPair(ComparedPair):
    """The comparison of two jobs, with the result in words and the items on which one job is better."""

    conclusion: list[str]
    load: str
    moves_times: list[str]
    units: Mapping[str, str | None]
    """metric -> unit of its values"""
    relative: list[str]
    """metrics whose differences are relative (ratio minus 1)"""
    flips: Mapping[str, list[str]]
    flipped: Mapping[str, list[Json]]


ShownComparison = ComparisonDocument[ShownPair]


async def compare_document(
    site: Site, names: Sequence[str], *, metrics: Sequence[str] = (), benchmark: str | None = None, force: bool = False
) -> ShownComparison:
    """Compare jobs that are named ``RUN:PROVIDER[:MODEL]``.

    Raises:
        RequestRefused: fewer than two jobs are named, or more than ``MAX_COMPARED``.
        Busy: the comparison of large runs is being computed; ask again.
        UsageError: the settings of the jobs differ; the message names each difference.
    """
    if not 2 <= len(names) <= MAX_COMPARED:
        raise RequestRefused(
            400,
            "usage",
            f"the number of jobs to compare is {len(names)}, expected 2 to {MAX_COMPARED}",
            "name each job as RUN:PROVIDER",
        )
    folders = [folder_of(site, run_id) for run_id in dict.fromkeys(name.partition(":")[0] for name in names)]
    items = sum([await _planned_items(folder) for folder in folders])
    arguments = (tuple(names), tuple(metrics), benchmark, force)
    stamp = tuple(part for folder in folders for part in journal_stamp(folder))
    make = partial(make_off_loop, comparison_of, str(site.workspace), *arguments, items=items)
    shown = await site.cache.get(("compare", *arguments), stamp, make, max_wait_s=max_wait_s(items))
    return require_document(shown, "the runs are being compared")


def form_choice(sides: Mapping[str, Sequence[str]], query: Mapping[str, str]) -> Json:
    """Return the values of the form that selects two jobs to compare.

    ``sides`` is run id -> job names. If ``query`` is empty, the values are two jobs of the newest run. If the user has
    chosen another run in the form, a job of this run replaces the job that was selected before.
    """
    found: Json = {"whole": True}
    taken = ""
    for side in "ab":
        job = query.get(side, "")
        run_id = query.get(f"run_{side}") or job.partition(":")[0] or next(iter(sides), "")
        whole = bool(job) and job.partition(":")[0] == run_id
        names = sorted(
            (f"{run_id}:{name}" for name in sides.get(run_id, ())), key=lambda one: is_control(one.split(":")[1])
        )
        found[f"run_{side}"] = run_id
        found[side] = taken = job if whole else next((name for name in names if name != taken), "")
        found["whole"] = whole and found["whole"]
    return found


async def _planned_items(folder: Path) -> int:
    async with Reader.open(folder) as reader:
        return planned_items(read_jobs(reader.meta.extra))


async def comparison_of(
    workspace: str, names: Sequence[str], metrics: Sequence[str], benchmark: str | None, force: bool
) -> ShownComparison:
    """Compare jobs, and return the document of the comparison; ``workspace`` is a path."""
    from bench.report.comparison.compare import compare_sides
    from bench.report.comparison.comparison_rows import conclusion_sentences, load_difference
    from bench.report.comparison.comparison_targets import ComparisonTarget, sides_of
    from bench.report.comparison.formats import comparison_json

    groups = await sides_of(Path(workspace), [ComparisonTarget.parse(name) for name in names], benchmark=benchmark)
    found = compare_sides(groups, metrics=metrics, force=force)
    document = comparison_json(found)
    pairs: list[ShownPair] = [
        {
            **shown,
            "conclusion": list(conclusion_sentences(pair)),
            "load": load_difference(pair),
            "moves_times": [check.name for check in pair.comparability.load],
            "units": {row.metric: row.unit for row in pair.rows},
            "relative": sorted({row.metric for row in pair.rows if row.is_ratio}),
            "flips": {side: list(i) for side, i in pair.items.flips.items()},
            "flipped": {side: await _flipped_items(Path(workspace), pair, i) for side, i in pair.items.flips.items()},
        }
        for shown, pair in zip(document["comparisons"], found.comparisons, strict=True)
    ]
    return {**document, "comparisons": pairs}


async def _flipped_items(workspace: Path, pair: PairComparison, items: Sequence[str]) -> list[Json]:
    """Return the first few of ``items``, each with its question, its expected answer, and the answers of both jobs."""
    found: list[Json] = [{"item": item, "slug": slug_of(item)} for item in items[:FLIPS_SHOWN]]
    for name, side in (("a", pair.a), ("b", pair.b)):
        async with Reader.open(workspace / CHECKPOINTS / side.run_id) as reader:
            for row in found:
                row.update(await _answer_of(reader, side.record, name, str(row["item"])))
    return found


async def _answer_of(reader: Reader, record: JobRecord, name: str, item: str) -> Json:
    epochs = await reader.item(record.chain, item)
    if not epochs:
        return {name: None}
    phases = epochs[0].phases
    answer, about = phases.get(Phase.ANSWER), await payload(reader, phases.get(Phase.EVALUATE), ITEM_PAYLOAD)
    shown: Json = {name: answer.data.get("answer") if answer else None, "type": epochs[0].labels.get("question_type")}
    if isinstance(about, Mapping):
        shown |= {"question": about.get("question"), "expected": about.get("answers")}
    return shown


FLIPS_SHOWN = 20
MATRIX_VIEWS = ("overall", "provider")
"""views of the leaderboard whose rows have one value per benchmark"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardFilter:
    """The filter of the leaderboard. A field that is None does not restrict the rows."""

    view: str = "benchmark"
    benchmark: str | None = None
    provider_type: str | None = None
    model: str | None = None
    """the name of a model that answers, judges or embeds in the job"""
    question_type: str | None = None
    """the question type whose values rank the rows; None to rank by the values over all items"""


class BoardRow(JobRow):
    """A row of the leaderboard with its name, its cost as text, and the address of its receipt."""

    name: str
    cost: str
    per_question: float | None
    receipt: str | None
    ranks: tuple[int, int] | None


class BoardTable(TableDocument[BoardRow]):
    """A table of the leaderboard. If ``grid`` is set, pages show ``grid`` instead of ``rows``."""

    saying: list[str]
    leaders: tuple[str, str] | None
    not_ranked: list[Json]
    grid: Json | None


class BoardDocument(TypedDict):
    """The document of ``bench leaderboard --json``, with values that only pages show."""

    benchmarks: list[str]
    filters: Json
    view: str
    tables: list[BoardTable]


async def leaderboard_document(site: Site, board_filter: LeaderboardFilter) -> BoardDocument:
    """Return the leaderboard: the newest complete valid job of each provider and set of models.

    A table contains only rows that are comparable with each other.

    Raises:
        RequestRefused: the view is unknown.
    """
    if board_filter.view not in VIEWS:
        raise RequestRefused(400, "usage", f"there is no view {board_filter.view!r}", f"known: {', '.join(VIEWS)}")
    board, invalid = await load_board(site.workspace), await load_invalid(site.workspace)
    shown = [place for place in board if _matches(place, board_filter)]
    tables = tables_of(shown, board_filter.view)
    if board_filter.question_type and board_filter.view not in MATRIX_VIEWS:
        tables = [ranked_by_type(table, board_filter.question_type) for table in tables]
    receipts = receipts_by_job(site, {place.job.run_id for place in shown})
    grids = board_grids(tables, board_filter.view) if board_filter.view in MATRIX_VIEWS else [None] * len(tables)
    about = f"{board_filter.question_type}: " if board_filter.question_type else ""
    return {
        "benchmarks": sorted({place.job.benchmark for place in board}),
        "filters": _filters(board),
        "view": board_filter.view,
        "tables": [
            {
                **document,
                "rows": _board_rows(table, receipts, board_filter)
                if grid is None
                else cast("list[BoardRow]", document["rows"]),
                "saying": [about + text for text in summary_sentences(table, command=False)],
                "leaders": leaders(table),
                "not_ranked": _not_ranked(site, table, invalid) if board_filter.view in ("benchmark", "type") else [],
                "grid": _grid(grid),
            }
            for document, table, grid in zip(map(table_json, tables), tables, grids, strict=bool(tables))
        ],
    }


def _not_ranked(site: Site, table: RankingTable, invalid: Sequence[RankedJob]) -> list[Json]:
    """Return the newest INVALID job of each provider that has no row in the table.

    A job counts only if it has the settings of the table.
    """
    settings = {one.first.setting for one in table.standings}
    there = {one.first.job.provider for one in table.standings}
    found: dict[str, Json] = {}
    for one in invalid:
        job = one.job
        if one.setting in settings and job.provider not in there | set(found):
            why = _why_invalid(site.workspace / "results" / job.run_id / "report.json", job.provider)
            found[job.provider] = {"provider": job.provider, "run_id": job.run_id, "reason": why}
    return list(found.values())


def _why_invalid(report: Path, provider: str) -> str:
    """Return the first reason in a run's report why the job of this provider is INVALID; empty if not known."""
    try:
        jobs = json.loads(report.read_bytes())["results"]["jobs"]
        return next((str(one["invalid"][0]) for one in jobs if one["provider"] == provider and one["invalid"]), "")
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _matches(place: RankedJob, board_filter: LeaderboardFilter) -> bool:
    job = place.job
    return (
        board_filter.benchmark in (None, job.benchmark)
        and board_filter.provider_type in (None, job.data.get("provider_type"))
        and board_filter.model in (None, job.answering_model, job.judge_model, job.embedding_model)
    )


def _filters(board: Sequence[RankedJob]) -> Json:
    """Return the values that each filter of the leaderboard can have."""
    jobs = [place.job for place in board]
    models = (name for job in jobs for name in (job.answering_model, job.judge_model, job.embedding_model))
    return {
        "views": list(VIEWS),
        "provider_types": sorted({str(job.data["provider_type"]) for job in jobs if job.data.get("provider_type")}),
        "models": sorted(set(filter(None, models))),
        "types": sorted({label for place in board for label in place.by_type()}),
    }


def _board_rows(
    table: RankingTable, receipts: Mapping[ReceiptKey, str], board_filter: LeaderboardFilter
) -> list[BoardRow]:
    return [
        {
            **row_json(standing),
            "name": job.answering_model or "none"
            if board_filter.view == "model"
            else " ".join(filter(None, (place.name, job.embedding_model))),
            "cost": place.cost,
            "per_question": _per_question(place),
            "receipt": receipts.get((job.run_id, job.benchmark, job.provider, job.answering_model, job.judge_model)),
            "ranks": spread,
        }
        for standing, spread in zip(table.standings, rank_spreads(table), strict=True)
        for place in [standing.first]
        for job in [place.job]
    ]


def _per_question(place: RankedJob) -> float | None:
    """Return USD per question; None if the price of any call is unknown."""
    job = place.job
    if job.cost_usd is None or job.data.get("cost_unknown_calls") or not job.n_planned:
        return None
    return float(job.cost_usd) / job.n_planned


def _grid(grid: Grid | None) -> Json | None:
    if grid is None:
        return None
    return {"head": list(grid.head), "rows": [list(row) for row in grid.rows], "right": list(grid.right)}
