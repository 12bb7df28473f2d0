"""Create the template values of the one-page report of a run: its results, their intervals, and the reasons of lost
items.

Example::

    report_page = report_page_of(await run_document(site, "r1"), outcomes, tested)
    report_page["groups"][0]["sentences"][0]      # "bm25 is best on accuracy with 0.31 [0.24, 0.38]."

Costs do not include the judge, because in production no judge reads the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from bench.config.builtin_providers import is_control
from bench.metrics.failure_reason import LossKind
from bench.report.comparison.comparison_rows import UNDECIDED
from bench.report.comparison.formats import ComparedRow
from bench.report.cost_text import MemoryCostDocument, QueryCostDocument
from bench.report.item_outcomes import JobOutcomes, RunOutcomes
from bench.report.leaderboard.formats import BoardMetric
from bench.report.outcome_text import RULE_READER, RULE_READER_NOTE
from bench.report.results_document import MetricDocument
from bench.report.tables import brief
from bench.untyped_values import Json
from bench.visible_text import counted
from bench.web.charts import ReferenceLine, Scatter, intervals, scatter
from bench.web.documents.item_filter import LOSS_WORDS
from bench.web.documents.run_documents import LatencySpread, ReportedRun, side_names
from bench.web.figures import LINES, Headline, RunJob, chart_value, jobs_of
from bench.web.formatting import number

MAX_LOSS_SENTENCES = 5
"""maximum number of providers whose lost items are explained in sentences; the chart shows all providers"""
FEW_ITEMS = 30
"""number of items below which a cell of the heat map is pale"""
SHADES = 9
STAGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("answer_wrong", LOSS_WORDS[LossKind.ANSWER_WRONG], ("answer_wrong",)),
    ("below_cut", LOSS_WORDS[LossKind.BELOW_CUT], ("below_cut",)),
    ("not_retrieved", LOSS_WORDS[LossKind.NOT_RETRIEVED], ("not_retrieved",)),
    ("not_ingested", LOSS_WORDS[LossKind.NOT_INGESTED], ("not_ingested",)),
    ("should_have_abstained", LOSS_WORDS[LossKind.SHOULD_HAVE_ABSTAINED], ("should_have_abstained",)),
    (
        "other",
        "cause not known (no evidence named, doubtful gold, judges disagree, no verdict)",
        ("no_evidence_known", "gold_suspect", "judge_disagreement", "unscored"),
    ),
    ("failed", "failed", ("error", "not_ready", "unsupported")),
)
"""(id, words, causes) of each class of lost items.

The classes follow the steps at which an item can be lost, the last step first.
"""
LEGEND = (("right", "right"), *((name, words) for name, words, _ in STAGES), ("pending", "pending"))
ORDER = ("correct", "measured", "partial", "abstained", "incorrect", "unscored", "unsupported", "not_ready", "error")


LeadTest = ComparedRow | Literal["waits"] | None
"""the paired test of the two best jobs of a group

It is ``waits`` while the test is being computed, and None if there is no test.
"""


class BarPart(TypedDict):
    """A part of a bar: number of items, left end and width. Left end and width are in percent of the whole bar."""

    name: str
    words: str
    count: int
    left: float
    width: float


class ReportRow(RunJob):
    """One job of a report."""

    side: str
    provider: str
    benchmark: str
    bound: bool
    ranks: bool
    invalid: list[str]
    pending: int
    outcomes: list[BarPart]
    losses: list[BarPart] | None
    found_within: Sequence[tuple[int, float]]
    context_tokens: float | None
    search: LatencySpread | None
    memory_cost: MemoryCostDocument | None
    cost_unknown: bool
    per_question: float | None


def report_page_of(
    run: ReportedRun,
    outcomes: RunOutcomes | None,
    tested: Mapping[str, ComparedRow] | None = None,
    *,
    testing: bool = False,
) -> Json:
    """Build the report of a run as template values.

    ``outcomes`` is None while the outcomes are being computed. ``tested`` is group -> paired test of the two best jobs.
    ``testing`` is True while missing tests are being computed.
    """
    waits: LeadTest = "waits" if testing else None
    groups = [
        _group(key, group, (tested or {}).get(key, waits)) for key, group in _grouped(_rows(run, outcomes)).items()
    ]
    return {"run_id": run["run_id"], "groups": groups, "has_outcomes": outcomes is not None}


def leaders_of(run: ReportedRun) -> dict[str, tuple[str, str]]:
    """Return group -> names of the best and the second-best job, in the form that ``bench compare`` accepts.

    A group is left out if it has no second-best job, or if both jobs have the same provider.
    """
    found = {}
    for key, rows in _grouped(_rows(run, None)).items():
        ranked = [row for row in rows if row["ranks"]]
        second = _runner_up(ranked)
        if second is not None and ranked[0]["provider"] != second["provider"]:
            found[key] = (ranked[0]["side"], second["side"])
    return found


def _runner_up(ranked: Sequence[ReportRow]) -> ReportRow | None:
    """Return the best row whose value differs from the value of the first row.

    If all values are equal, return the second row; None if there is only one row.
    """
    behind = [row for row in ranked if _value(row) != _value(ranked[0])]
    return next(iter([*behind, *ranked[1:]]), None)


# ------------------------------------------------------------------ rows


def _rows(run: ReportedRun, outcomes: RunOutcomes | None) -> list[ReportRow]:
    jobs = jobs_of(run)
    known: Sequence[JobOutcomes | None] = outcomes["jobs"] if outcomes else [None] * len(jobs)
    sides = side_names([(job["record"]["provider"], job["record"]["models"]["answering"]) for job in jobs])
    return [_row(job, f"{run['run_id']}:{side}", one) for job, side, one in zip(jobs, sides, known, strict=True)]


def _row(job: RunJob, side: str, outcomes: JobOutcomes | None) -> ReportRow:
    record, standing, result, headline = job["record"], job["progress"], job["result"], job["headline"]
    provider, planned = record["provider"], standing["planned"]
    cost = result["memory_cost"] if result else None
    return {
        **job,
        "side": side,
        "provider": provider,
        "benchmark": record["benchmark"],
        "bound": is_control(provider),
        "ranks": headline is not None and headline["value"] is not None and not is_control(provider),
        "invalid": standing["invalid"] or (result["invalid"] if result else []),
        "pending": planned - standing["ended"],
        "outcomes": _segments(standing["counts"], planned),
        "losses": None if outcomes is None else _stages(outcomes, planned),
        "found_within": outcomes["found_within"] if outcomes else [],
        "context_tokens": outcomes["context_tokens"] if outcomes else None,
        "search": result["times"].get("search") if result else None,
        "memory_cost": cost,
        "cost_unknown": bool(cost and cost["query"]["cost_unknown_calls"]),
        "per_question": _per_question(cost["query"]) if cost else None,
    }


def _segments(counts: Mapping[str, int], planned: int) -> list[BarPart]:
    """Return a bar with one part per state of the items. The last part is the items that have not ended."""
    order = {state: at for at, state in enumerate(ORDER)}
    found = sorted(counts.items(), key=lambda one: order.get(one[0], len(ORDER)))
    pending = planned - sum(counts.values())
    return _bar([*((state, state, count) for state, count in found), ("pending", "pending", pending)], planned)


def _stages(outcomes: JobOutcomes, planned: int) -> list[BarPart]:
    losses, right = outcomes["losses"], outcomes["right"]
    lost = [(name, words, sum(losses.get(kind, 0) for kind in kinds)) for name, words, kinds in STAGES]
    pending = planned - right - sum(losses.values())
    return _bar([("right", "right", right), *lost, ("pending", "pending", pending)], planned)


def _bar(parts: Sequence[tuple[str, str, int]], whole: int) -> list[BarPart]:
    found: list[BarPart] = []
    left = 0.0
    for name, words, count in parts:
        if count > 0 and whole:
            width = 100 * count / whole
            found.append(
                {"name": name, "words": words, "count": count, "left": round(left, 2), "width": round(width, 2)}
            )
            left += width
    return found


def _per_question(query: QueryCostDocument) -> float | None:
    """Return USD per question; None if it is not known, or if the known cost is zero."""
    return query["known_usd_per_question"] or None


# ------------------------------------------------------------------ groups


def _grouped(rows: Sequence[ReportRow]) -> dict[str, list[ReportRow]]:
    """Group the rows by benchmark, models and main metric.

    In a group, the best row is first. Rows without a value, and then control providers, are last.
    """
    named: dict[str, str] = {}
    for row in rows:
        if row["headline"] is not None:
            named.setdefault(_setting(row), row["headline"]["metric"])
    groups: dict[str, list[ReportRow]] = {}
    for row in rows:
        groups.setdefault(f"{_setting(row)}: {named.get(_setting(row), 'no number')}", []).append(row)
    return {key: sorted(group, key=_sort_key) for key, group in groups.items()}


def _setting(row: ReportRow) -> str:
    models = row["record"]["models"]
    parts = [f"answered by {models['answering']}"] if models.get("answering") else ["retrieval only"]
    parts += [f"judged by {models['judge']}"] if models.get("judge") else []
    return f"{row['benchmark']}, {', '.join(parts)}"


def _sort_key(row: ReportRow) -> tuple[bool, bool, float, str]:
    headline = row["headline"]
    if headline is None or headline["value"] is None:
        return row["bound"], True, 0.0, row["name"]
    merit = headline["value"] if headline.get("unit") else -headline["value"]
    return row["bound"], False, merit, row["name"]


def _group(key: str, rows: Sequence[ReportRow], tested: LeadTest) -> Json:
    title, _, metric = key.rpartition(": ")
    valued = [(row, one) for row in rows if (one := row["headline"]) and one["value"] is not None]
    lines = [(row["provider"], _value(row)) for row, _ in valued if row["provider"] in LINES]
    chart = intervals([chart_value(row["name"], one) for row, one in valued], title=metric)
    cells = dict(zip((row["name"] for row, _ in valued), chart.rows, strict=True)) if chart else {}
    there = {part["name"] for row in rows for part in row["losses"] or []}
    names = [{"name": row["name"], "provider": row["provider"], "benchmark": row["benchmark"]} for row, _ in valued]
    return {
        "title": title,
        "metric": metric,
        "rows": [{**row, "cell": cells.get(row["name"])} for row in rows],
        "first": next((row["side"] for row in rows if row["ranks"]), None),
        "ticks": chart.ticks if chart else (),
        "sentences": _sentences(metric, rows, tested),
        "notes": _notes(rows),
        "tokens": _tokens(metric, [row for row, _ in valued], lines),
        "heat": heat_map(names, [one["breakdown"].get("question_type", {}) for _, one in valued]),
        "matrix": _matrix(rows),
        "has_losses": any(row["losses"] for row in rows),
        "legend": [{"name": name, "words": words} for name, words in LEGEND if name in there],
        "cuts": sorted({cut for row in rows for cut, _ in row["found_within"]}),
    }


def _notes(rows: Sequence[ReportRow]) -> list[str]:
    """Return each note on the results once, preceded by the names of the jobs that the note concerns."""
    owners: dict[str, list[str]] = {}
    for row in rows:
        for note in row["result"]["notes"] if row["result"] else []:
            owners.setdefault(note, []).append(row["name"])
    return [f"{'all' if len(named) == len(rows) > 1 else ', '.join(named)}: {note}" for note, named in owners.items()]


def _value(row: ReportRow) -> float:
    assert row["headline"] is not None
    assert row["headline"]["value"] is not None
    return row["headline"]["value"]


def _tokens(metric: str, rows: Sequence[ReportRow], lines: Sequence[ReferenceLine]) -> Scatter | None:
    points = [
        (row["name"], row["context_tokens"], _value(row))
        for row in rows
        if row["provider"] not in LINES and row["context_tokens"] is not None
    ]
    return scatter(
        points,
        title=f"{metric} against the context in the prompt",
        takes="context tokens per question",
        bounds={row["name"] for row in rows if row["bound"]},
        lines=lines,
    )


def heat_map(
    names: Sequence[Mapping[str, object]], split: Sequence[Mapping[str, MetricDocument | BoardMetric]]
) -> Json | None:
    """Return a table with one row per question type and one column per job; None for fewer than two question types."""
    labels = sorted({label for one in split for label in one})
    if len(labels) < 2:
        return None
    largest = max((abs(cell["value"] or 0) for one in split for cell in one.values()), default=0.0)
    scale = max(1.0, largest)
    return {
        "names": list(names),
        "rows": [{"label": label, "cells": [_heat_cell(one.get(label), scale) for one in split]} for label in labels],
    }


def _heat_cell(one: MetricDocument | BoardMetric | None, scale: float) -> Json | None:
    if one is None or one["value"] is None:
        return None
    value, n = one["value"], one["n"]
    shade = round(SHADES * max(0.0, value) / scale)
    return {"value": value, "n": n, "shade": shade, "pale": n < FEW_ITEMS, "interval": one.get("interval")}


def _matrix(rows: Sequence[ReportRow]) -> Json:
    """Return a table with one row per metric and one column per job."""
    shown = [(row, row["result"]["metrics"]) for row in rows if row["result"]]
    names = list(dict.fromkeys(name for _, table in shown for name in table))
    return {
        "names": [row["name"] for row, _ in shown],
        "rows": [
            {
                "metric": name,
                "unit": next((table[name].get("unit") for _, table in shown if name in table), None),
                "cells": [_matrix_cell(row, table.get(name)) for row, table in shown],
            }
            for name in names
        ],
    }


def _matrix_cell(row: ReportRow, one: MetricDocument | None) -> MetricDocument | None:
    return one if one is None or not row["pending"] else {**one, "interval": None}


# ------------------------------------------------------------------ sentences


def _sentences(metric: str, rows: Sequence[ReportRow], tested: LeadTest) -> list[str]:
    """Return sentences on the result of a group, on its certainty, and on the main causes of lost items."""
    ranked = [row for row in rows if row["ranks"]]
    invalid = [row["name"] for row in rows if row["invalid"]]
    limits = [text for row in ranked[:MAX_LOSS_SENTENCES] for text in _loss_sentences(row)]
    found = [*_lead(metric, ranked, tested), *_closed_gap(metric, ranked[:1], rows), *limits]
    if any(row["record"]["models"]["answering"] == RULE_READER for row in ranked):
        found.append(RULE_READER_NOTE)
    if invalid:
        found.append(f"INVALID, without a number: {', '.join(invalid)}. The reason is in the table.")
    return found or ["No number yet."]


def _lead(metric: str, ranked: Sequence[ReportRow], tested: LeadTest) -> list[str]:
    best = ranked[0]["headline"] if ranked else None
    if best is None:
        return []
    state = " so far" if best["so_far"] else ""
    lead = f"{ranked[0]['name']} has the best {metric}{state}: {_value_with_interval(best)}"
    second = _runner_up(ranked)
    if second is None:
        return [f"{lead}. There is no second system to compare it with."]
    ahead = abs(_value(ranked[0]) - _value(second))
    tied = [row["name"] for row in ranked if _value(row) == _value(ranked[0])]
    together = f"{', '.join(tied[:-1])} and {tied[-1]}"
    if ahead == 0:
        return [f"No system leads on {metric}: {together} have {_value_with_interval(best)}."]
    if len(tied) > 1:
        lead = f"{together} have the best {metric}{state}: {_value_with_interval(best)}"
    names = [ranked[0]["name"], second["name"]]
    if tested is None and any(row["pending"] for row in ranked):
        return [f"{lead}, {brief(ahead)} ahead of {names[1]}. The difference is tested when all items have ended."]
    return [f"{lead}, {brief(ahead)} ahead of {names[1]}. {_certainty(tested, names)}"]


def _certainty(tested: LeadTest, names: Sequence[str]) -> str:
    """Return a sentence on how certain a lead is, according to the paired test of the two best jobs."""
    if isinstance(tested, str):
        return "The paired test of the two is being computed."
    if tested is None:
        return "This lead was not tested."
    p = tested["p_adjusted"] if tested["p_adjusted"] is not None else tested["p"]
    chance = "" if p is None else f", p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
    verdict = tested["verdict"]
    for side, name in zip("AB", names, strict=True):
        verdict = verdict.replace(f"{side} higher", f"{name} is higher").replace(f"{side} lower", f"{name} is lower")
    more = (
        (" Only more conversations can decide this, not more questions about the same conversations.")
        if UNDECIDED in verdict
        else ""
    )
    return f"Compared item by item: {verdict}{chance}.{more}"


def _value_with_interval(one: Headline) -> str:
    interval = one["interval"]
    bounds = "" if not interval else f" [{number(interval['low'], 2)}, {number(interval['high'], 2)}]"
    return number(one["value"], 2) + bounds


def _closed_gap(metric: str, best: Sequence[ReportRow], rows: Sequence[ReportRow]) -> list[str]:
    """Return one sentence that compares the best job with two control providers: no-memory and oracle.

    The sentence says which part of the gap between no-memory and oracle the best job closes. Return [] if the value of
    one of the three jobs is missing, or if oracle is not above no-memory.
    """
    values = {row["provider"]: row["headline"]["value"] for row in rows if row["headline"] and row["bound"]}
    floor, ceiling = values.get("no-memory"), values.get("oracle")
    if not best or floor is None or ceiling is None or ceiling <= floor:
        return []
    share = (_value(best[0]) - floor) / (ceiling - floor)
    return [
        f"Without a memory, {metric} is {number(floor, 2)}, with all the evidence {number(ceiling, 2)}: "
        f"{best[0]['name']} closes {100 * share:.0f}% of that gap."
    ]


def _loss_sentences(row: ReportRow) -> list[str]:
    """Return one sentence on the two most frequent causes of a job's lost items; [] if no item is lost."""
    lost = [one for one in row["losses"] or [] if one["name"] not in ("right", "pending")]
    total = sum(one["count"] for one in lost)
    if not total:
        return []
    worst = sorted(lost, key=lambda one: -one["count"])[:2]
    causes = [f"{100 * one['count'] / total:.0f}% {one['words']}" for one in worst]
    return [f"Of {counted(total, 'item(|s)')} that {row['name']} lost: {', '.join(causes)}."]
