"""Convert a report to tables of text, for the terminal, Markdown and HTML.

Example::

    for grid in overview(report):
        print(grid.title, grid.rows)

``overview(report)`` is shown at the end of a run. ``bench results`` adds ``breakdown`` and ``matrix``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from bench.config.builtin_providers import is_control
from bench.journal.records import ErrorCount
from bench.metrics.aggregation import ONE_CLUSTER
from bench.metrics.fold import AT_LEAST
from bench.metrics.fold_input import NO_LABEL
from bench.model import FAILED_STATES, Measurement
from bench.patterns import pattern
from bench.plan.job_record import ModelNames
from bench.report.cost_text import COST_HEAD, cost_rows, cost_sentence, share_text
from bench.report.fold import JobReport, Report
from bench.visible_text import money_text, shorten

TOP_TYPES = 6
DEFAULT_WIDTH = 160
SHARE_BOUND = 1.0
MILLISECONDS = "ms"
LONGEST_ERROR = 200
"""maximum length in characters of an error text below a table"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table: title, column names, rows of text, right-aligned columns, and notes."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    optional: tuple[int, ...] = ()
    """positions of the columns that may be left out on a narrow screen, in the order in which they are left out"""
    breaks: tuple[int, ...] = ()
    """indexes of the rows above which the terminal draws a line"""

    @property
    def width(self) -> int:
        """The length in characters of the table's longest line, with column separators."""
        columns = zip(self.head, *self.rows, strict=True)
        return sum(max(map(len, column)) + 3 for column in columns)


def overview(report: Report, *, width: int = DEFAULT_WIDTH) -> list[Grid]:
    """Return one table per benchmark and track (setting of the answer prompt), with one row per job.

    A row has the headline metric with its interval, counts of items, and values by question type. If anything costs
    money, a table with the cost of each memory system follows. The last table shows the calibration of the judges.
    Question types that do not fit into ``width`` characters are left out.
    """
    groups = by_benchmark(report)
    costs = [grid for jobs in groups if (grid := _cost_grid(jobs)) is not None]
    return [*(_overview_grid(report, jobs, width) for jobs in groups), *costs, *_calibration_grids(report.jobs)]


def _cost_grid(jobs: Sequence[JobReport]) -> Grid | None:
    """Return a table with two costs per job: the cost of the ingest, and the cost of one question.

    Return None if nothing costs money.
    """
    named = [(text, job.memory_cost, job.valid) for job, text in zip(jobs, job_texts(jobs), strict=True)]
    known = [(text, cost, valid) for text, cost, valid in named if cost and (cost.has_money or cost.query.totals.calls)]
    if not any(cost.has_money for _, cost, _ in known):
        return None
    rows = tuple((text, *cells) for text, cost, _ in known for cells in cost_rows(cost))
    notes = tuple(f"{text}: {words}" for text, cost, valid in known if valid and (words := cost_sentence(cost)))
    return Grid(
        title=f"{jobs[0].record.benchmark}: what the memory costs, without the judge",
        head=COST_HEAD,
        rows=rows,
        right=(2, 3, 4, 5),
        notes=notes,
    )


def _calibration_grids(jobs: Sequence[JobReport]) -> list[Grid]:
    """Return a table with one row per calibrated judge and judge prompt, or [] if no judge was calibrated."""
    rows = tuple(dict.fromkeys(one.cells for job in jobs for one in job.calibration))
    head = ("judge", "prompt", "wrong accepted (FPR)", "right refused (FNR)", "unparsed", "verdict")
    return [Grid(title="Judge calibration", head=head, rows=rows, right=(4,))] if rows else []


def _overview_grid(report: Report, jobs: Sequence[JobReport], width: int) -> Grid:
    types = _top_types(jobs)
    grids = [_benchmark_grid(report, jobs, types[:count]) for count in range(min(TOP_TYPES, len(types)), -1, -1)]
    grid = next((grid for grid in grids if grid.width <= width), grids[-1])
    if not types or types[-1] in grid.head:
        return grid
    where = f"bench results {report.run_id} --by question_type" if report.stored else "the table by question_type"
    which = "the only type" if len(types) == 1 else f"all {len(types)} types"
    return replace(grid, notes=(*grid.notes, f"{where} shows {which}"))


def matrix(report: Report) -> list[Grid]:
    """Return one table per benchmark, with the value of every metric in every job."""
    return [_metric_grid(jobs, job_texts(jobs)) for jobs in by_benchmark(report)]


def breakdown(report: Report, dimension: str) -> list[Grid]:
    """Return one table per benchmark, with the headline metric for each label of one item property.

    ``dimension`` names the property, such as ``question_type``.
    """
    return [grid for jobs in by_benchmark(report) if (grid := _label_grid(jobs, dimension)) is not None]


def by_benchmark(report: Report) -> list[list[JobReport]]:
    """Group the jobs that may share a table: same benchmark, track and headline metric.

    In each group, the best job is first. Jobs without a value follow the ranked jobs, and controls (such as oracle) are
    last.
    """
    groups: dict[tuple[str, str, str], list[JobReport]] = {}
    names: dict[str, str] = {}
    for job in report.jobs:
        if job.headline is not None:
            names.setdefault(job.record.benchmark, job.headline.metric)
    for job in report.jobs:
        record = job.record
        metric = job.headline.metric if job.headline is not None else names.get(record.benchmark, "")
        groups.setdefault((record.benchmark, record.track, metric), []).append(job)
    return [sorted(jobs, key=_rank) for jobs in groups.values()]


def _rank(job: JobReport) -> tuple[bool, bool, float]:
    headline = job.headline
    value = None if headline is None or job.invalid or job.record.skipped else headline.value
    lower = any(
        one.lower_is_better for one in job.record.metrics if headline is not None and one.name == headline.metric
    )
    score = 0.0 if value is None else value if lower else -value
    return is_control(job.record.provider), value is None, score


def _benchmark_grid(report: Report, jobs: Sequence[JobReport], types: Sequence[str]) -> Grid:
    models = len({models_text(job.record.models) for job in jobs}) > 1
    name = _metric_of(jobs)
    head = ["provider", *(["models"] if models else []), name, "failures as 0", "n", "failed", "excluded"]
    first, shares = 2 if models else 1, any(share_text(job.memory_cost) != "-" for job in jobs)
    context = len(head)
    head += [*(["context"] if shares else []), *types]
    rows = tuple(_overview_row(job, name, types, models=models, shares=shares) for job in jobs)
    real = sum(not is_control(job.record.provider) for job in jobs)
    return Grid(
        title=_title(report, jobs) + ("" if models else f" | models: {models_text(jobs[0].record.models)}"),
        head=tuple(head),
        rows=rows,
        right=tuple(range(first, len(head))),
        notes=_notes(report, jobs),
        optional=(*_uninformative_columns(rows, first), *([context] if shares else [])),
        breaks=(real,) if real < len(jobs) else (),
    )


def _metric_of(jobs: Sequence[JobReport]) -> str:
    """Return the metric of a table: the headline of its jobs.

    If no job has a headline, return the first metric that applies to items of a job, or the first planned metric.
    """
    headlines = (job.headline.metric for job in jobs if job.headline is not None)
    planned = [(job, metric) for job in jobs for metric in job.record.metrics]
    applicable = (
        metric.name
        for job, metric in planned
        if (found := job.metrics.get(metric.name)) is not None
        and (found.n or found.n_failed)
        and not (metric.category == "answer" and _unanswered(job))
    )
    return next(chain(headlines, applicable, (metric.name for _, metric in planned)), "no metric")


def _uninformative_columns(rows: Sequence[Sequence[str]], first: int) -> Iterator[int]:
    """Yield the positions of columns to leave out, because all their values are 0 or repeat another column."""
    value, as_zero, failed, excluded = first, first + 1, first + 3, first + 4
    for at in (excluded, failed):
        if all(row[at] == "0" for row in rows):
            yield at
    if all(row[as_zero] in ("-", row[value].partition(" ")[0]) for row in rows):
        yield as_zero


WITHOUT_CLUSTERS = ("wilson", "t")
"""methods of intervals that treat all items as independent"""


def _title(report: Report, jobs: Sequence[JobReport]) -> str:
    job, record = jobs[0], jobs[0].record
    limits = sorted({one.record.k for one in jobs})
    parts = [f"{record.benchmark} {record.benchmark_version}", f"k={', '.join(map(str, limits))}"]
    if record.epochs > 1:
        parts.append(f"{record.epochs} epochs ({record.epochs_reducer})")
    if record.selection:
        parts.append(", ".join(f"{name}={_plain(value)}" for name, value in record.selection.items()))
    if report.partial:
        parts.append("partial" if report.status == "partial" else f"partial ({report.status})")
    if record.track != "uniform":
        parts.append(f"track {record.track}")
    headline = job.headline
    if (
        record.cluster_by is not None
        and headline is not None
        and headline.interval is not None
        and headline.interval.method not in WITHOUT_CLUSTERS
        and ONE_CLUSTER not in headline.note
    ):
        parts.append(f"95% intervals over {record.cluster_by} clusters")
    return " | ".join(parts)


def _plain(value: object) -> str:
    return " ".join(str(one) for one in value) if isinstance(value, list | tuple) else str(value)


def _overview_row(job: JobReport, metric: str, types: Sequence[str], *, models: bool, shares: bool) -> tuple[str, ...]:
    control = " (control)" if is_control(job.record.provider) else ""
    cells = [job.record.provider + control, *([models_text(job.record.models)] if models else [])]
    blank = [""] * len(types)
    context = [share_text(job.memory_cost)] if shares else []
    headline = job.headline
    if job.record.skipped or headline is None:
        why = "skipped" if job.record.skipped else "INVALID" if job.invalid else "-"
        counted = None if job.record.skipped else job.metrics.get(metric)
        n, failed, excluded = (
            (0, _failed(job), 0) if counted is None else (counted.n, counted.n_failed, counted.n_excluded)
        )
        return (*cells, why, "-", str(n), _failed_text(job, failed), str(excluded), *context, *blank)
    labels = headline.breakdown.get("question_type", {})
    return (
        *cells,
        with_interval(headline),
        "-" if job.n_pending else number(headline.value_failures_as_zero, headline.unit),
        str(headline.n),
        _failed_text(job, headline.n_failed),
        str(headline.n_excluded),
        *context,
        *(value_cell(labels.get(label)) for label in types),
    )


def _failed(job: JobReport) -> int:
    return sum(job.counts.get(state, 0) for state in FAILED_STATES) + job.n_pending


def _failed_text(job: JobReport, failed: int) -> str:
    """Format the number of failed items. If items are pending, their number follows in brackets."""
    return f"{max(0, failed - job.n_pending)} ({job.n_pending} pending)" if job.n_pending else str(failed)


def models_text(models: ModelNames) -> str:
    """Return the names of the answering model, the judge and the embedding model as text.

    A judge or embedding model that is not used is left out.
    """
    named = [models.answering or "none"]
    if models.judge:
        named.append(f"judge {models.judge}")
    if models.embedding and not models.embedding.startswith("("):
        named.append(f"embedding {models.embedding}")
    return ", ".join(named)


def _top_types(jobs: Sequence[JobReport]) -> list[str]:
    """Return the question types, sorted by number of items, largest first."""
    sizes: dict[str, int] = {}
    for job in jobs:
        labels = job.headline.breakdown.get("question_type", {}) if job.headline else {}
        sizes |= {label: one.n for label, one in labels.items() if one.value is not None and label != NO_LABEL}
    return sorted(sizes, key=lambda label: (-sizes[label], label))


def _notes(report: Report, jobs: Sequence[JobReport]) -> tuple[str, ...]:
    """Return the notes below a table.

    A note that several jobs have is one line that begins with the names of these jobs.
    """
    # a file of external results has no stored run, and no flag adds answers to it
    hint = (
        ["retrieval only: answer metrics need --answering-model"]
        if report.stored and any(_unanswered(job) and job.record.models.judge in (None, "none") for job in jobs)
        else []
    )
    owners: dict[str, dict[str, None]] = {}
    for job, text in zip(jobs, job_texts(jobs), strict=True):
        for note in _job_notes(report, job):
            owners.setdefault(note, {})[text] = None
    return (*hint, *(f"{', '.join(named)}: {note}" for note, named in owners.items()))


def _unanswered(job: JobReport) -> bool:
    return job.record.models.answering is None and any(one.category == "answer" for one in job.record.metrics)


def _job_notes(report: Report, job: JobReport) -> list[str]:
    invalid = [f"INVALID, {reason}" for reason in job.invalid]
    commonest = [_commonest(report, job.commonest)] if invalid and job.commonest else []
    in_a_table = {one.text(str(job.record.models.judge)) for one in job.calibration}
    return [*invalid, *commonest, *(note for note in job.notes if note not in in_a_table)]


def _commonest(report: Report, found: ErrorCount) -> str:
    shown = shorten(" ".join(found.text.split()), LONGEST_ERROR)
    more = f" (list all failures with: bench failures {report.run_id})" if report.stored else ""
    times = "once" if found.count == 1 else f"{found.count} times"
    return f"the most common failure, {times}: {found.kind}{': ' if shown else ''}{shown}{more}"


def _metric_grid(jobs: Sequence[JobReport], columns: Sequence[str]) -> Grid:
    names = list(dict.fromkeys(name for job in jobs for name in job.metrics))
    of_answers = {one.name for job in jobs for one in job.record.metrics if one.category == "answer"}
    rows = []
    for name in names:
        found = [job.metrics.get(name) if job.valid else None for job in jobs]
        shown = next((one for one in found if one is not None), None)
        if name in of_answers and all(map(_unanswered, jobs)) and all(value_cell(one) == "-" for one in found):
            continue  # a note names what answer metrics need
        unit = f" ({shown.unit})" if shown is not None and shown.unit else ""
        rows.append((name + unit, *(value_cell(one) for one in found)))
    head = ("metric", *columns)
    return Grid(
        title=f"{jobs[0].record.benchmark}: all metrics",
        head=head,
        rows=tuple(rows),
        right=tuple(range(1, len(head))),
    )


def job_texts(jobs: Sequence[JobReport]) -> list[str]:
    """Return a short name per job: the provider, followed by the models that are not the same in all jobs."""
    roles = [
        role
        for role in ("embedding", "answering", "judge")
        if len({getattr(job.record.models, role) for job in jobs if not _has_no_embedding_model(job, role)}) > 1
    ]
    return [
        " / ".join([job.record.provider, *(str(getattr(job.record.models, role) or "none") for role in roles)])
        for job in jobs
    ]


def _has_no_embedding_model(job: JobReport, role: str) -> bool:
    """Return True if ``role`` is embedding and the job has no embedding model.

    Such a job is left out when the embedding models of several jobs are compared."""
    return role == "embedding" and job.record.models.embedding is None


def _label_grid(jobs: Sequence[JobReport], dimension: str) -> Grid | None:
    shown = [job for job in jobs if job.headline is not None and dimension in job.headline.breakdown]
    if not shown:
        return None
    labels = sorted({label for job in shown if job.headline for label in job.headline.breakdown[dimension]})
    rows = []
    for label in labels:
        found = [job.headline.breakdown[dimension].get(label) if job.headline else None for job in shown]
        n = next((one.n for one in found if one is not None), 0)
        rows.append((label, str(n), *(value_cell(one) for one in found)))
    head = (dimension, "n", *job_texts(shown))
    metric = shown[0].headline.metric if shown[0].headline else ""
    title = f"{jobs[0].record.benchmark}: {metric} by {dimension}"
    return Grid(title=title, head=head, rows=tuple(rows), right=tuple(range(1, len(head))))


def value_cell(one: Measurement | None) -> str:
    """Format a value for a table cell; "-" if there is no value, and with ">= " if the value is a lower bound."""
    return "-" if one is None else f"{'>= ' if AT_LEAST in one.note else ''}{number(one.value, one.unit)}"


def with_interval(one: Measurement) -> str:
    """Format a value, followed by its interval if there is one: ``0.7918 [0.7650, 0.8101]``."""
    text = value_cell(one)
    if one.interval is None:
        return text
    return f"{text} [{number(one.interval.low, one.unit)}, {number(one.interval.high, one.unit)}]"


def number(value: float | None, unit: str | None = None) -> str:
    """Format a number with a precision that fits its size and unit.

    A share has four decimals, and a larger number has one. Milliseconds have two decimals below 100 and none above. For
    USD, see `money_text`.
    """
    if value is None:
        return "-"
    if unit == "USD":
        return money_text(value)
    if unit == MILLISECONDS:
        return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    if abs(value) <= SHARE_BOUND:
        return f"{value:.4f}"
    return f"{value:.1f}"


def brief(value: float | None, unit: str | None = None) -> str:
    """Format a number for a sentence.

    A share has two decimals, or four if two decimals would show zero.
    """
    share = unit is None and value is not None and abs(value) <= SHARE_BOUND
    two = f"{value:.2f}" if share else ""
    return two if two and (float(two) or not value) else number(value, unit)


_FORMULA = pattern(r"(?![+-][0-9]+(?:[.,][0-9]+)?\Z)[=+\-@\t\r]")
"""the beginning of a text that a spreadsheet would run as a formula; a number with a sign is not a formula"""


def safe_row(cells: Iterable[object]) -> list[object]:
    """Put an apostrophe before each text of a CSV row that a spreadsheet would run as a formula."""
    return [f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in cells]
