"""The one-page report: the result, its uncertainty, and the reasons for lost items, as template values.

Example::

    report_page = report_page_of(await run_document(site, "r1"), outcomes, tested)
    report_page["groups"][0]["sentences"][0]      # "bm25 is best on accuracy with 0.31 [0.24, 0.38]."

Times and tokens are those of the run, money is without the judge: a memory in use has no judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import cast

from bench.metrics.failure_reason import LossKind
from bench.providers.names import is_bound
from bench.report.comparison import UNDECIDED
from bench.report.outcome_text import READS_BY_RULE, RULE
from bench.report.tables import brief
from bench.web.cache import Json
from bench.web.charts import Line, Scatter, intervals, scatter
from bench.web.figures import LINES, jobs_of, measured
from bench.web.formatting import number
from bench.web.item_filter import LOSS_WORDS
from bench.web.run_documents import side_names

LOSERS = 5
"""maximum number of systems whose losses are stated in sentences; the chart has all of them"""
FEW = 30
"""a cell of the heat map with fewer items is pale"""
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
"""id, words, kinds of loss; in the order in which an item can be lost, the last step first"""
ORDER = ("correct", "measured", "partial", "abstained", "incorrect", "unscored", "unsupported", "not_ready", "error")


def report_page_of(
    run: Json, outcomes: Json | None, tested: Mapping[str, Json] | None = None, *, testing: bool = False
) -> Json:
    """Build the report of a run's document; ``outcomes`` None = they are being computed, ``tested`` by group.

    ``testing``: a test that is not there yet is being computed.
    """
    jobs = jobs_of(run)
    known = cast("list[Json]", outcomes["jobs"]) if outcomes else []
    rows = _named([_row(job, known[at] if at < len(known) else None) for at, job in enumerate(jobs)], run)
    waits: Json | None = {"waits": True} if testing else None
    groups = [_group(key, group, (tested or {}).get(key, waits)) for key, group in _grouped(rows).items()]
    return {"run_id": run["run_id"], "groups": groups, "has_outcomes": outcomes is not None}


def leaders_of(run: Json) -> dict[str, tuple[str, str]]:
    """Return the best job of each group and the next with another value, named as in a comparison."""
    found = {}
    for key, rows in _grouped(_named([_row(job, None) for job in jobs_of(run)], run)).items():
        ranked = [row for row in rows if row["ranks"]]
        second = _runner_up(ranked)
        if second is not None and ranked[0]["provider"] != second["provider"]:
            found[key] = (str(ranked[0]["side"]), str(second["side"]))
    return found


def _runner_up(ranked: Sequence[Json]) -> Json | None:
    """Return the next row whose value differs from the best; if all are equal, the second."""
    behind = [row for row in ranked if _value(row) != _value(ranked[0])]
    return next(iter([*behind, *ranked[1:]]), None)


# ------------------------------------------------------------------ rows


def _named(rows: list[Json], run: Json) -> list[Json]:
    """Add the name of each row in a comparison."""
    sides = side_names([(str(row["provider"]), cast("str | None", _models(row)["answering"])) for row in rows])
    return [{**row, "side": f"{run['run_id']}:{side}"} for row, side in zip(rows, sides, strict=True)]


def _models(row: Json) -> Json:
    return cast("Json", cast("Json", row["record"])["models"])


def _row(job: Json, outcomes: Json | None) -> Json:
    record, standing = cast("Json", job["record"]), cast("Json", job["progress"])
    result, headline = cast("Json | None", job["result"]), cast("Json | None", job["headline"])
    provider = str(record["provider"])
    planned = cast("int", standing["planned"])
    times = cast("Mapping[str, Json]", result["times"] if result else {})
    return {
        **job,
        "provider": provider,
        "benchmark": record["benchmark"],
        "bound": is_bound(provider),
        "ranks": headline is not None and headline["value"] is not None and not is_bound(provider),
        "invalid": standing.get("invalid") or (result["invalid"] if result else []),
        "pending": planned - cast("int", standing["ended"]),
        "outcomes": _segments(cast("Mapping[str, int]", standing.get("counts") or {}), planned),
        "losses": None if outcomes is None else _stages(outcomes, planned),
        "found_within": outcomes["found_within"] if outcomes else [],
        "context_tokens": outcomes["context_tokens"] if outcomes else None,
        "search": times.get("search"),
        **_prices(result),
    }


def _segments(counts: Mapping[str, int], planned: int) -> list[Json]:
    """Return the counts by state as parts of a bar, pending items last."""
    order = {state: at for at, state in enumerate(ORDER)}
    found = sorted(counts.items(), key=lambda one: order.get(one[0], len(ORDER)))
    pending = planned - sum(counts.values())
    return _bar([*((state, state, count) for state, count in found), ("pending", "pending", pending)], planned)


def _stages(outcomes: Json, planned: int) -> list[Json]:
    losses = cast("Mapping[str, int]", outcomes["losses"])
    right = cast("int", outcomes["right"])
    lost = [(name, words, sum(losses.get(kind, 0) for kind in kinds)) for name, words, kinds in STAGES]
    pending = planned - right - sum(losses.values())
    return _bar([("right", "right", right), *lost, ("pending", "pending", pending)], planned)


def _bar(parts: Sequence[tuple[str, str, int]], whole: int) -> list[Json]:
    found: list[Json] = []
    left = 0.0
    for name, words, count in parts:
        if count > 0 and whole:
            width = 100 * count / whole
            found.append(
                {"name": name, "words": words, "count": count, "left": round(left, 2), "width": round(width, 2)}
            )
            left += width
    return found


def _prices(result: Json | None) -> Json:
    """Return the cost of the memory and of a question; None where no price is known."""
    cost = cast("Json | None", result["memory_cost"] if result else None)
    if cost is None:
        return {"memory_cost": None, "cost_unknown": False, "per_question": None}
    query = cast("Json", cost["query"])
    priced = Decimal(str(query["cost_usd"])) > 0
    return {
        "memory_cost": cost,
        "cost_unknown": bool(query["cost_unknown_calls"]),
        "per_question": float(str(query["cost_usd"])) / cast("int", query["questions"]) if priced else None,
    }


# ------------------------------------------------------------------ groups


def _grouped(rows: Sequence[Json]) -> dict[str, list[Json]]:
    """Group the rows by benchmark, metric and models; the best first, bounds and rows without a value last."""
    named: dict[str, str] = {}
    for row in rows:
        headline = cast("Json | None", row["headline"])
        if headline is not None:
            named.setdefault(_setting(row), str(headline["metric"]))
    groups: dict[str, list[Json]] = {}
    for row in rows:
        groups.setdefault(f"{_setting(row)}: {named.get(_setting(row), 'no number')}", []).append(row)
    return {key: sorted(group, key=_place) for key, group in groups.items()}


def _setting(row: Json) -> str:
    models = _models(row)
    parts = [f"answered by {models['answering']}"] if models.get("answering") else ["retrieval only"]
    parts += [f"judged by {models['judge']}"] if models.get("judge") else []
    return f"{row['benchmark']}, {', '.join(parts)}"


def _place(row: Json) -> tuple[bool, bool, float, str]:
    headline = cast("Json | None", row["headline"])
    value = None if headline is None else cast("float | None", headline["value"])
    if headline is None or value is None:
        return bool(row["bound"]), True, 0.0, str(row["name"])
    merit = value if headline.get("unit") else -value
    return bool(row["bound"]), False, merit, str(row["name"])


def _group(key: str, rows: Sequence[Json], tested: Json | None) -> Json:
    title, _, metric = key.rpartition(": ")
    valued = [row for row in rows if row["headline"] and cast("Json", row["headline"])["value"] is not None]
    lines = [(str(row["provider"]), _value(row)) for row in valued if row["provider"] in LINES]
    chart = intervals([measured(str(row["name"]), cast("Json", row["headline"])) for row in valued], title=metric)
    cells = dict(zip((str(row["name"]) for row in valued), chart.rows, strict=True)) if chart else {}
    return {
        "title": title,
        "metric": metric,
        "rows": [{**row, "cell": cells.get(str(row["name"]))} for row in rows],
        "first": next((row["side"] for row in rows if row["ranks"]), None),
        "ticks": chart.ticks if chart else (),
        "sentences": _sentences(metric, rows, tested),
        "tested": tested,
        "notes": _notes(rows),
        "tokens": _tokens(metric, valued, lines),
        "heat": _heat(valued),
        "matrix": _matrix(rows),
        "has_losses": any(row["losses"] for row in rows),
        "legend": _legend(rows),
        "cuts": _cuts(rows),
    }


def _notes(rows: Sequence[Json]) -> list[str]:
    """Return the notes on the numbers; a note that applies to several systems is one line that names them."""
    owners: dict[str, list[str]] = {}
    for row in rows:
        for note in cast("list[str]", cast("Json", row["result"])["notes"]) if row["result"] else []:
            owners.setdefault(note, []).append(str(row["name"]))
    return [f"{'all' if len(named) == len(rows) > 1 else ', '.join(named)}: {note}" for note, named in owners.items()]


def _value(row: Json) -> float:
    return cast("float", cast("Json", row["headline"])["value"])


def _tokens(metric: str, rows: Sequence[Json], lines: Sequence[Line]) -> Scatter | None:
    points = [
        (str(row["name"]), cast("float | None", row["context_tokens"]), _value(row))
        for row in rows
        if row["provider"] not in LINES and row["context_tokens"] is not None
    ]
    return scatter(
        points,
        title=f"{metric} against what the prompt holds",
        takes="context tokens per question",
        bounds={str(row["name"]) for row in rows if row["bound"]},
        lines=lines,
    )


def _heat(rows: Sequence[Json]) -> Json | None:
    split = [
        cast("Mapping[str, Mapping[str, Json]]", cast("Json", row["headline"])["breakdown"]).get("question_type", {})
        for row in rows
    ]
    return heat_map([{name: row[name] for name in ("name", "provider", "benchmark")} for row in rows], split)


def heat_map(names: Sequence[Json], split: Sequence[Mapping[str, Json]]) -> Json | None:
    """Build a table of question types by systems; None if there is only one type."""
    labels = sorted({label for one in split for label in one})
    if len(labels) < 2:
        return None
    largest = max((abs(cast("float", cell["value"] or 0)) for one in split for cell in one.values()), default=0.0)
    scale = max(1.0, largest)
    return {
        "names": list(names),
        "rows": [{"label": label, "cells": [_heat_cell(one.get(label), scale) for one in split]} for label in labels],
    }


def _heat_cell(one: Json | None, scale: float) -> Json | None:
    if one is None or one["value"] is None:
        return None
    value, n = cast("float", one["value"]), cast("int", one["n"])
    shade = round(SHADES * max(0.0, value) / scale)
    return {"value": value, "n": n, "shade": shade, "pale": n < FEW, "interval": one.get("interval")}


def _matrix(rows: Sequence[Json]) -> Json:
    """Build a table of all metrics by systems."""
    shown = [row for row in rows if row["result"]]
    tables = [cast("Mapping[str, Json]", cast("Json", row["result"])["metrics"]) for row in shown]
    names = list(dict.fromkeys(name for table in tables for name in table))
    return {
        "names": [row["name"] for row in shown],
        "rows": [
            {
                "metric": name,
                "unit": next((table[name].get("unit") for table in tables if name in table), None),
                "cells": [
                    None if name not in table else {**table[name], **({"interval": None} if row["pending"] else {})}
                    for row, table in zip(shown, tables, strict=True)
                ],
            }
            for name in names
        ],
    }


def _legend(rows: Sequence[Json]) -> list[Json]:
    there = {part["name"] for row in rows for part in cast("list[Json]", row["losses"] or [])}
    every = [("right", "right"), *((name, words) for name, words, _ in STAGES), ("pending", "pending")]
    return [{"name": name, "words": words} for name, words in every if name in there]


def _cuts(rows: Sequence[Json]) -> list[int]:
    return sorted({cut for row in rows for cut, _ in cast("list[tuple[int, float]]", row["found_within"])})


# ------------------------------------------------------------------ sentences


def _sentences(metric: str, rows: Sequence[Json], tested: Json | None) -> list[str]:
    """Return the result, its certainty, and the main losses as sentences."""
    ranked = [row for row in rows if row["ranks"]]
    invalid = [str(row["name"]) for row in rows if row["invalid"]]
    limits = [text for row in ranked[:LOSERS] for text in _limit(row)]
    found = [*_lead(metric, ranked, tested), *_band(metric, ranked[:1], rows), *limits]
    if any(_models(row)["answering"] == RULE for row in ranked):
        found.append(READS_BY_RULE)
    if invalid:
        found.append(f"INVALID, without a number: {', '.join(invalid)}. The reason is in the table.")
    return found or ["No number yet."]


def _lead(metric: str, ranked: Sequence[Json], tested: Json | None) -> list[str]:
    if not ranked:
        return []
    best = cast("Json", ranked[0]["headline"])
    state = " so far" if best.get("so_far") else ""
    lead = f"{ranked[0]['name']} has the best {metric}{state}: {_spanned(best)}"
    if len(ranked) == 1:
        return [f"{lead}. There is no second system to compare it with."]
    second = cast("Json", _runner_up(ranked))
    ahead = abs(_value(ranked[0]) - _value(second))
    tied = [str(row["name"]) for row in ranked if _value(row) == _value(ranked[0])]
    together = f"{', '.join(tied[:-1])} and {tied[-1]}"
    if ahead == 0:
        return [f"No system leads on {metric}: {together} have {_spanned(best)}."]
    if len(tied) > 1:
        lead = f"{together} have the best {metric}{state}: {_spanned(best)}"
    names = [str(ranked[0]["name"]), str(second["name"])]
    if tested is None and any(row["pending"] for row in ranked):
        return [f"{lead}, {brief(ahead)} ahead of {names[1]}. Whether that is chance is tested once all have ended."]
    return [f"{lead}, {brief(ahead)} ahead of {names[1]}. {_sure(tested, names)}"]


def _sure(tested: Json | None, names: Sequence[str]) -> str:
    """Describe the certainty of a lead by the result of the paired test."""
    if tested is not None and tested.get("waits"):
        return "The paired test of the two is being computed."
    if tested is None:
        return "Whether that lead is more than chance was not tested here."
    p = cast("float | None", tested["p_adjusted"] if tested["p_adjusted"] is not None else tested["p"])
    chance = "" if p is None else f", p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
    verdict = str(tested["verdict"])
    for side, name in zip("AB", names, strict=True):
        verdict = verdict.replace(f"{side} higher", f"{name} is higher").replace(f"{side} lower", f"{name} is lower")
    more = " More conversations can decide it, not more questions about these." if UNDECIDED in verdict else ""
    return f"Compared item by item: {verdict}{chance}.{more}"


def _spanned(one: Json) -> str:
    interval = cast("Mapping[str, float] | None", one.get("interval"))
    bounds = "" if not interval else f" [{number(interval['low'], 2)}, {number(interval['high'], 2)}]"
    return number(one["value"], 2) + bounds


def _band(metric: str, best: Sequence[Json], rows: Sequence[Json]) -> list[str]:
    """Describe how much of the gap between no memory and the oracle the best system closes."""
    values = {str(row["provider"]): _value(row) for row in rows if row["headline"] and row["bound"]}
    floor, ceiling = values.get("no-memory"), values.get("oracle")
    if not best or floor is None or ceiling is None or ceiling <= floor:
        return []
    share = (_value(best[0]) - floor) / (ceiling - floor)
    return [
        f"Without a memory {metric} is {number(floor, 2)}, with the evidence in hand {number(ceiling, 2)}: "
        f"{best[0]['name']} closes {100 * share:.0f} % of that gap."
    ]


def _limit(row: Json) -> list[str]:
    """Describe the two most frequent causes of a system's lost items."""
    parts = cast("list[Json]", row["losses"] or [])
    lost = [one for one in parts if one["name"] not in ("right", "pending")]
    total = sum(cast("int", one["count"]) for one in lost)
    if not total:
        return []
    worst = sorted(lost, key=lambda one: -cast("int", one["count"]))[:2]
    causes = [f"{100 * cast('int', one['count']) / total:.0f} % {one['words']}" for one in worst]
    return [f"Of the {total} items that {row['name']} lost: {', '.join(causes)}."]
