"""Build the tables of the leaderboard. Only comparable rows are in the same table.

``load_board`` reads the newest complete and valid job of each provider, set of models and benchmark.

Example::

    board = await load_board(Path("."), ["locomo"])
    board[0].headline.value, board[0].task
    table = tables_of(board, "benchmark")[0]
    table.standings[0].first.job.provider        # the leading provider
    summary_sentences(table)      # ("bm25 leads on accuracy with 0.36 [0.26, 0.46]; vector is next, 0.12 behind ...",)

Views:

* ``benchmark``: one table per benchmark, settings and models.
* ``type``: the same tables, with values per question type.
* ``provider``: one table per set of models, one column per benchmark.
* ``model``: one table per provider, one row per answering model.
* ``overall``: the mean over all benchmarks, for the providers with results of all benchmarks.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

from bench.config.builtin_providers import is_control
from bench.errors import UsageError
from bench.journal.results_db import JobSummary, MetricSummary, ResultsDb
from bench.report.summary import RESULTS_FILE
from bench.report.tables import brief, number
from bench.visible_text import money_text

SETTINGS = ("k", "context_budget", "level", "selection", "prompts", "evaluator", "epochs_reducer")
UNKNOWN = "unknown"
"""value of a setting that an older version did not write to the results database"""

SHOWN_RUNS = 5
SHOWN_DIGEST = 12
HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedJob:
    """One job on the leaderboard, with its metrics."""

    job: JobSummary
    metrics: tuple[MetricSummary, ...]

    @property
    def headline(self) -> MetricSummary | None:
        """The first metric of the benchmark that has a value over all items; None if no metric has one."""
        names = self.job.data.get("metrics")
        found = {one.metric: one for one in self.metrics if not one.dimension and one.value is not None}
        order = names if isinstance(names, list) else sorted(found)
        return next((found[name] for name in order if name in found), None)

    @property
    def is_control(self) -> bool:
        """True if the provider is a control (oracle, no-memory, random, full-context), which is not ranked."""
        return is_control(self.job.provider)

    @property
    def name(self) -> str:
        """The provider's name; the name of a control is followed by ``(control)``."""
        return f"{self.job.provider} (control)" if self.is_control else self.job.provider

    @property
    def search_ms(self) -> float | None:
        """The median search latency in milliseconds; None if no search was timed."""
        found = self.job.data.get("search_p50_ms")
        return float(found) if isinstance(found, int | float) else None

    @property
    def cost(self) -> str:
        """The cost in US dollars as text. The text begins with ``>=`` if the price of some calls is unknown."""
        usd, unknown = self.job.cost_usd, self.job.data.get("cost_unknown_calls")
        return "-" if usd is None else f"{'>= ' if unknown else ''}{money_text(Decimal(usd))}"

    @property
    def lower_is_better(self) -> bool:
        """True if a lower value of the headline metric is better."""
        names = self.job.data.get("lower_is_better")
        return self.headline is not None and isinstance(names, list) and self.headline.metric in names

    def best_first(self, value: float | None) -> float:
        """Return a sort key that puts the best value first and None last."""
        return math.inf if value is None else value if self.lower_is_better else -value

    def by_type(self) -> dict[str, MetricSummary]:
        """Return question type -> value of the headline metric."""
        name = self.headline.metric if self.headline else None
        return {one.label: one for one in self.metrics if one.dimension == "question_type" and one.metric == name}

    @property
    def models(self) -> tuple[str, str, str]:
        """(answering model, judge, track); the track is ``vendor`` if the provider's own answer prompt is used."""
        return self.job.answering_model or "none", self.job.judge_model or "none", self.job.track

    @property
    def task(self) -> str:
        """A text that is equal for jobs whose values are comparable.

        The text contains all settings that must be equal. Provider and models are not in the text.
        """
        return json.dumps(list(self.settings.values()), sort_keys=True, default=str)

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings that comparable jobs share."""
        job, dataset = self.job, self.job.data.get("dataset")
        return {
            "benchmark": job.benchmark,
            "version": job.benchmark_version,
            "track": job.track,
            "dataset": dataset.get("content_sha256") if isinstance(dataset, Mapping) else None,
            **{name: job.data.get(name, UNKNOWN) for name in SETTINGS},
            "metric": self.headline.definition if self.headline else None,
        }

    @property
    def setting(self) -> tuple[str, ...]:
        """Benchmark, benchmark version, k, selection and models of the job.

        An INVALID job is listed with the tables whose jobs have the same values.
        """
        job = self.job
        selection = json.dumps(job.data.get("selection"), sort_keys=True, default=str)
        return (job.benchmark, job.benchmark_version, str(job.data.get("k")), selection, *self.models)

    def for_type(self, question_type: str) -> RankedJob:
        """Return a copy of the job whose headline value is the value for one question type."""
        found = self.by_type().get(question_type)
        return replace(self, metrics=() if found is None else (replace(found, dimension="", label=""),))


async def load_invalid(workspace: Path) -> list[RankedJob]:
    """Read the complete INVALID jobs, newest first. Such jobs are named in notes and are in no table."""
    path = workspace / "results" / RESULTS_FILE
    if not path.is_file():
        return []
    async with ResultsDb.open(path) as database:
        return [RankedJob(job=job, metrics=()) for job in await database.runs() if not job.valid and not job.partial]


async def load_board(workspace: Path, benchmarks: Sequence[str] = ()) -> list[RankedJob]:
    """Read the jobs of the leaderboard from the results database. Return [] if there is no database.

    Raises:
        UsageError: a benchmark has no run.
    """
    path = workspace / "results" / RESULTS_FILE
    if not path.is_file():
        return []
    async with ResultsDb.open(path) as database:
        known = await database.benchmarks()
        for name in benchmarks:
            if name not in known:
                raise UsageError(f"there is no run of {name}", hint=f"runs exist for: {', '.join(known) or 'none'}")
        jobs = [job for name in known if not benchmarks or name in benchmarks for job in await database.newest(name)]
        return [RankedJob(job=job, metrics=await database.metrics(job)) for job in jobs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One row of a table: the jobs of one provider (one job per benchmark), and the value that ranks the row."""

    places: tuple[RankedJob, ...]
    value: float | None

    @property
    def first(self) -> RankedJob:
        return self.places[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingTable:
    """A table whose rows are comparable.

    Each entry of ``tasks`` is one benchmark with its settings. If there are several tasks, each task is a column.
    """

    title: str
    tasks: tuple[str, ...]
    standings: tuple[Standing, ...]
    notes: tuple[str, ...] = ()

    @property
    def ranked(self) -> list[Standing]:
        """The rows that have a value and are not controls."""
        return [one for one in self.standings if one.value is not None and not one.first.is_control]


def tables_of(board: Sequence[RankedJob], view: str) -> list[RankingTable]:
    """Return the tables of one view: overall, benchmark, type, provider or model."""
    return VIEWS[view](board)


def _grouped(board: Sequence[RankedJob], key: Callable[[RankedJob], tuple[str, ...]]) -> Iterator[list[RankedJob]]:
    groups: dict[tuple[str, ...], list[RankedJob]] = {}
    for place in board:
        groups.setdefault(key(place), []).append(place)
    yield from (groups[name] for name in sorted(groups))


def _ranked(places: Sequence[RankedJob]) -> tuple[Standing, ...]:
    found = [Standing(places=(place,), value=place.headline.value if place.headline else None) for place in places]
    return tuple(sorted(found, key=_rank))


def _rank(one: Standing) -> tuple[bool, float, str]:
    """Return a sort key that puts controls after all other rows."""
    return one.first.is_control, one.first.best_first(one.value), one.first.job.provider


def _by_benchmark(board: Sequence[RankedJob]) -> list[RankingTable]:
    titles = distinct_texts(board, _task_title)
    return [
        RankingTable(
            title=f"{titles[group[0].task]} | {_models_title(group[0])}",
            tasks=(group[0].task,),
            standings=_ranked(group),
            notes=_unknown_settings(group),
        )
        for group in _grouped(board, lambda place: (place.task, *place.models))
    ]


def _by_model(board: Sequence[RankedJob]) -> list[RankingTable]:
    """Return tables that compare answering models: one row per model.

    All rows of a table have the same provider, embedding model, judge, and benchmark with settings.
    """
    titles = distinct_texts(board, _task_title)
    return [
        RankingTable(
            title=f"{group[0].job.provider} | embedding {group[0].job.embedding_model or 'none'} | "
            f"{titles[group[0].task]} | judge {group[0].models[1]}",
            tasks=(group[0].task,),
            standings=_ranked(group),
            notes=_unknown_settings(group),
        )
        for group in _grouped(
            board,
            lambda place: (place.job.provider, place.job.embedding_model or "", place.task, place.models[1]),
        )
    ]


def _by_provider(board: Sequence[RankedJob]) -> list[RankingTable]:
    """Return one table per answering model, judge and track.

    Each table has one row per provider, and one column per benchmark with settings.
    """
    return [
        RankingTable(
            title=_models_title(group[0]),
            tasks=tuple(sorted({place.task for place in group})),
            standings=_ranked(group) if len({place.task for place in group}) == 1 else _rows_by_provider(group),
            notes=("only values of one column are comparable", *_unknown_settings(group)),
        )
        for group in _grouped(board, lambda place: place.models)
    ]


def _rows_by_provider(group: Sequence[RankedJob]) -> tuple[Standing, ...]:
    rows = _grouped(group, lambda place: (place.job.provider, place.job.embedding_model or ""))
    return tuple(Standing(places=tuple(sorted(places, key=lambda one: one.task)), value=None) for places in rows)


def _overall(board: Sequence[RankedJob]) -> list[RankingTable]:
    """Return one table per answering model, judge and track, with the mean over all benchmarks.

    If jobs of a benchmark have different settings, only the settings with the most providers are used. A tie is decided
    by the most items, then by the newest job. A note names the other settings.
    """
    benchmarks = sorted({place.job.benchmark for place in board})
    return [_overall_table(group, benchmarks) for group in _grouped(board, lambda place: place.models)]


def _overall_table(group: Sequence[RankedJob], benchmarks: Sequence[str]) -> RankingTable:
    names = sorted({place.job.benchmark for place in group})
    tasks = {name: _main_task([place for place in group if place.job.benchmark == name]) for name in names}
    chosen = [place for place in group if place.task == tasks[place.job.benchmark] and place.headline is not None]
    rows, missing = [], []
    for one in _rows_by_provider(chosen):
        names = [place.job.benchmark for place in one.places]
        lacking = [name for name in benchmarks if name not in names]
        values = [place.headline.value for place in one.places if place.headline and place.headline.value is not None]
        if lacking:
            missing.append(f"{one.first.job.provider} is not in this table: it has no result for {', '.join(lacking)}")
        else:
            rows.append(Standing(places=one.places, value=math.fsum(values) / len(values)))
    return RankingTable(
        title=f"overall: mean over {', '.join(benchmarks)} | {_models_title(group[0])}",
        tasks=tuple(sorted(tasks.values())),
        standings=tuple(sorted(rows, key=_rank)),
        notes=(
            "the mean of the headline metrics of all benchmarks, each with the same weight",
            *missing,
            *_left_out(group, tasks),
            *_unknown_settings(chosen),
        ),
    )


def _main_task(places: Sequence[RankedJob]) -> str:
    """Return the task with the most providers. A tie is decided by the most items, then by the newest job."""

    def rank(task: str) -> tuple[int, int, float, str]:
        jobs = [place.job for place in places if place.task == task]
        newest = max(job.created_at for job in jobs)
        return -len({job.provider for job in jobs}), -max(job.n_planned for job in jobs), -newest.timestamp(), task

    return min({place.task for place in places}, key=rank)


def _left_out(group: Sequence[RankedJob], tasks: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each benchmark that has results with other settings than those in the table."""
    titles = distinct_texts(group, column_title)
    for name, used in tasks.items():
        others = sorted({titles[place.task] for place in group if place.job.benchmark == name and place.task != used})
        if others:
            yield f"only {titles[used]} is used, not {', '.join(others)} (see --view provider)"


def _unknown_settings(group: Sequence[RankedJob]) -> tuple[str, ...]:
    found = sorted({place.job.run_id for place in group if UNKNOWN in map(str, place.settings.values())})
    shown = ", ".join(found[:SHOWN_RUNS]) + (" ..." if len(found) > SHOWN_RUNS else "")
    return (f"not all settings of {shown} are known: read the journals with bench results --rebuild",) if found else ()


VIEWS: Mapping[str, Callable[[Sequence[RankedJob]], list[RankingTable]]] = {
    "overall": _overall,
    "benchmark": _by_benchmark,
    "type": _by_benchmark,
    "provider": _by_provider,
    "model": _by_model,
}


def _task_title(place: RankedJob) -> str:
    job = place.job
    parts = [f"{job.benchmark} {job.benchmark_version}", f"k={job.data.get('k')}", f"track {job.track}"]
    return " | ".join([*parts, *_selection_text(place)])


def column_title(place: RankedJob) -> str:
    """Return the title of a column that shows the headline metric of one benchmark with its settings."""
    metric = place.headline.metric if place.headline else "no metric"
    return " ".join([place.job.benchmark, f"k={place.job.data.get('k')}", *_selection_text(place), metric])


def _selection_text(place: RankedJob) -> list[str]:
    """Return the selection as text; [] if all items are selected."""
    selection = place.job.data.get("selection")
    found = selection if isinstance(selection, Mapping) else {}
    return [", ".join(f"{name}={value}" for name, value in found.items())] if found else []


def distinct_texts(places: Sequence[RankedJob], text: Callable[[RankedJob], str]) -> dict[str, str]:
    """Return task -> the text of its jobs. Equal texts of different tasks are followed by the settings that differ."""
    tasks = {place.task: place for place in places}
    texts = {task: text(place) for task, place in tasks.items()}
    alike: dict[str, list[RankedJob]] = {}
    for task, place in tasks.items():
        alike.setdefault(texts[task], []).append(place)
    for task, place in tasks.items():
        others = [other.settings for other in alike[texts[task]]]
        differing = [
            f"{name.replace('_', ' ')} {_short(value)}"
            for name, value in place.settings.items()
            if any(other[name] != value for other in others)
        ]
        texts[task] = " | ".join([texts[task], *differing])
    return texts


def _short(value: object) -> str:
    """Format a setting: a hash for a map, the first characters of a hash, other values as they are."""
    if isinstance(value, Mapping):
        value = sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
    text = "none" if value is None else str(value)
    return text[:SHOWN_DIGEST] if HASH.fullmatch(text) else text


def _models_title(place: RankedJob) -> str:
    answering, judge, track = place.models
    return f"answering {answering} | judge {judge}" + ("" if track == "uniform" else f" | track {track}")


def ranked_by_type(table: RankingTable, question_type: str) -> RankingTable:
    """Return the table with its rows ranked by their value for one question type."""
    places = [one.first.for_type(question_type) for one in table.standings]
    return replace(table, standings=_ranked(places))


def rank_spreads(table: RankingTable) -> list[tuple[int, int] | None]:
    """Return the best and worst possible rank of each row, from the 95% intervals.

    Two rows have different ranks only if their intervals do not overlap. The entry of a control, or of
    a row without an interval, is None.
    """
    shown = [
        one.first.headline if len(one.places) == 1 and not one.first.is_control else None for one in table.standings
    ]
    spans = [None if one is None or one.low is None or one.high is None else (one.low, one.high) for one in shown]
    if table.standings and table.standings[0].first.lower_is_better:
        spans = [None if one is None else (-one[1], -one[0]) for one in spans]
    known = [one for one in spans if one is not None]
    return [
        None if one is None else (1 + sum(low > one[1] for low, _ in known), sum(high >= one[0] for _, high in known))
        for one in spans
    ]


def leaders(table: RankingTable) -> tuple[str, str] | None:
    """Return the first two ranked rows as ``RUN:PROVIDER`` or ``RUN:PROVIDER:MODEL``.

    The result is None if fewer than two rows are ranked, or if a row has several jobs.
    """
    ranked = table.ranked
    if len(ranked) < 2 or len(ranked[0].places) > 1:
        return None
    first, second = _sides(*ranked[:2])
    return first, second


def summary_sentences(table: RankingTable, *, command: bool = True) -> tuple[str, ...]:
    """Return sentences on a table: the row that leads, and the rows that are not ranked.

    If ``command`` is true, the sentence on the leader has the command that tests the lead.
    """
    bounds = dict.fromkeys(one.first.job.provider for one in table.standings if one.first.is_control)
    unranked = (
        [f"not ranked, because they only show the limits of a memory system: {', '.join(bounds)}"] if bounds else []
    )
    return (*_lead(table, command=command), *unranked)


def _lead(table: RankingTable, *, command: bool) -> tuple[str, ...]:
    ranked = table.ranked
    if not ranked:
        return ()
    if len(ranked) == 1:
        return (f"there is only {_row_label(table, ranked[0])}, so there is nothing to compare yet",)
    first, second = ranked[:2]
    ahead = abs((first.value or 0) - (second.value or 0))
    if ahead == 0:
        tied = [_row_label(table, one) for one in ranked if one.value == first.value]
        names = f"{', '.join(tied[:-1])} and {tied[-1]}"
        return (f"no provider leads on {_metric(first)}: {names} have {brief(first.value, _unit(first))}",)
    lead = f"{_row_label(table, first)} leads on {_metric(first)} with {_value(first)}"
    behind = brief(ahead, _unit(first))
    proof = _proof(first, second) if command or len(first.places) > 1 else ""
    return (f"{lead}; {_row_label(table, second)} is next, {behind} behind{proof}",)


def _row_label(table: RankingTable, one: Standing) -> str:
    """Return the provider's name for a row. If all rows have the same provider, return the answering model's name."""
    same = len({row.first.job.provider for row in table.standings}) == 1 and len(table.standings) > 1
    return one.first.models[0] if same else one.first.job.provider


def _metric(one: Standing) -> str:
    if len(one.places) > 1:
        return f"the mean of {len(one.places)} benchmarks"
    return one.first.headline.metric if one.first.headline else "nothing"


def _unit(one: Standing) -> str | None:
    return one.first.headline.unit if one.first.headline else None


def _value(one: Standing) -> str:
    headline = one.first.headline
    if len(one.places) > 1 or headline is None:
        return brief(one.value)
    return value_with_interval(headline, brief)


def _proof(first: Standing, second: Standing) -> str:
    """Return a text with the command that tests whether the lead of the first row may be chance.

    If the rows are means over several benchmarks, the text says that such means are not tested.
    """
    if len(first.places) > 1:
        return " (a mean over benchmarks is not tested: compare them one by one)"
    return f". A rank is not proof: bench compare {' '.join(_sides(first, second))} tests the difference"


def _sides(first: Standing, second: Standing) -> list[str]:
    sides = [f"{one.first.job.run_id}:{one.first.job.provider}" for one in (first, second)]
    if sides[0] == sides[1] or first.first.models[0] != second.first.models[0]:
        sides = [f"{side}:{one.first.models[0]}" for side, one in zip(sides, (first, second), strict=True)]
    return sides


def value_with_interval(one: MetricSummary | None, shown: Callable[[float | None, str | None], str] = number) -> str:
    """Format a value, followed by its interval if there is one. ``shown`` formats one number with its unit."""
    if one is None:
        return "-"
    bounds = "" if one.low is None else f" [{shown(one.low, one.unit)}, {shown(one.high, one.unit)}]"
    return shown(one.value, one.unit) + bounds
