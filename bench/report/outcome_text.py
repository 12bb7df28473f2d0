"""Describe the result of a run in sentences: the best system, its lead, and what limits its score.

Example::

    await outcome_texts(reader, report)
    # ["bm25 answers 23% of 160 questions right (95% interval 16 to 31%). It finds evidence for 80% ..."]

The providers oracle, no-memory, random and full-context are controls: they show the range of possible scores. They are
ranked only if the run has no other provider.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.config.builtin_providers import is_control
from bench.errors import UsageError
from bench.journal import Reader
from bench.model import Measurement
from bench.report.comparison.sides import load_side
from bench.report.fold import JobReport, Report
from bench.report.tables import by_benchmark, job_texts, number
from bench.visible_text import counted

MAX_TESTED_ITEMS = 200_000
"""maximum number of items for which the end of a run tests the best system against the second"""
SHOWN_TIED = 4
"""maximum number of systems with the same score that are named one by one"""
RULE_READER = "builtin/extractive"
RULE_READER_NOTE = (
    f"The reader, {RULE_READER}, is a fixed rule, not a language model: its accuracy only shows that everything works, "
    "not how good a memory system is. Name a model with --model."
)
EVIDENCE_METRICS = ("hit_at_", "recall_any_at_", "recall_fraction_at_")
"""prefixes of the metrics that measure whether evidence was found; the first prefix whose metric has a value is used"""


async def outcome_texts(reader: Reader, report: Report) -> list[str]:
    """Return one short paragraph per benchmark.

    Jobs with different judges are ranked separately.
    """
    groups = by_benchmark(report)
    texts = []
    for jobs in groups:
        name = f"{jobs[0].record.benchmark}: " if len(groups) > 1 else ""
        texts.append(name + " ".join(await _sentences(reader, report, jobs)))
    return texts


async def _sentences(reader: Reader, report: Report, jobs: Sequence[JobReport]) -> list[str]:
    names = dict(zip((job.record.key for job in jobs), job_texts(jobs), strict=True))
    scored = [job for job in jobs if _value(job) is not None]
    if not scored:
        return [_no_result(report, jobs)]
    ranked = [job for job in scored if not is_control(job.record.provider)] or scored
    best, by_judge = ranked[0], _by_judge(ranked)
    found = list(filter(None, [_so_far(report, jobs)]))
    for judge, some in by_judge.items():
        found += [f"Judge {judge}:"] if len(by_judge) > 1 else []
        found += await _ranking(reader, some)
    if len(by_judge) == 1:
        found += _limits(best, scored, names[best.record.key] if len(ranked) > 1 else "It")
    invalid = [names[job.record.key] for job in jobs if job.invalid]
    if invalid:
        found.append(f"{', '.join(invalid)} {'is' if len(invalid) == 1 else 'are'} INVALID and not ranked.")
    if best.record.models.answering == RULE_READER:
        found.append(RULE_READER_NOTE)
    return found


def _by_judge(ranked: Sequence[JobReport]) -> dict[str | None, list[JobReport]]:
    """Group jobs by judge, because the verdicts of different judges are not comparable."""
    found: dict[str | None, list[JobReport]] = {}
    for job in ranked:
        found.setdefault(job.record.models.judge, []).append(job)
    return found


async def _ranking(reader: Reader, ranked: Sequence[JobReport]) -> list[str]:
    texts = job_texts(ranked)
    tied = [name for job, name in zip(ranked, texts, strict=True) if _value(job) == _value(ranked[0])]
    if len(tied) > 1:
        *shown, last = (
            tied if len(tied) <= SHOWN_TIED else [*tied[: SHOWN_TIED - 1], f"{len(tied) - SHOWN_TIED + 1} more"]
        )
        shared = "are best with the same score" if len(tied) < len(ranked) else "have the same score"
        return [f"{', '.join(shown)} and {last} {shared}: {_score(ranked[0], texts[0])}"]
    if len(ranked) == 1:
        return [_score(ranked[0], texts[0])]
    names = dict(zip((job.record.key for job in ranked), texts, strict=True))
    best = _score(ranked[0], texts[0], best=True)
    return [best, await _margin(reader, ranked[0], ranked[1], names)]


def _value(job: JobReport) -> float | None:
    return None if job.headline is None or job.record.skipped or not job.valid else job.headline.value


def _no_result(report: Report, jobs: Sequence[JobReport]) -> str:
    reason = next((one for job in jobs for one in (*job.invalid, job.record.skipped or "") if one), None)
    if reason is None:
        return f"No item has a score yet (run {report.status})."
    more = f"; list the errors with: bench failures {report.run_id}" if report.stored else ""
    return f"No result: no job is valid ({reason}{more})."


def _so_far(report: Report, jobs: Sequence[JobReport]) -> str:
    pending = sum(job.n_pending for job in jobs)
    planned = sum(job.n_planned for job in jobs)
    return f"So far, with {planned - pending} of {counted(planned, 'item(|s)')} ended:" if pending else ""


def _score(job: JobReport, name: str, *, best: bool = False) -> str:
    one = _headline(job)
    bounds = f" (95% interval {_bounds(one)})" if one.interval is not None else " (too few items for an interval)"
    if one.metric == "accuracy":
        verb = "is best and answers" if best else "answers"
        return f"{name} {verb} {_text(one, one.value)} of {counted(one.n, 'question(|s)')} right{bounds}."
    verb = "is best with" if best else "has"
    return f"{name} {verb} {one.metric} {_text(one, one.value)}{bounds} over {counted(one.n, 'item(|s)')}."


def _headline(job: JobReport) -> Measurement:
    assert job.headline is not None
    return job.headline


def is_share(one: Measurement) -> bool:
    """Return True if a value is a share of items, so that the value is shown as a percentage."""
    return one.unit is None and (one.metric == "accuracy" or one.metric.startswith(EVIDENCE_METRICS))


def _text(one: Measurement, value: float | None) -> str:
    if value is None:
        return "-"
    return _percent(value) if is_share(one) else number(value, one.unit)


def _percent(value: float) -> str:
    shown = f"{100 * value:.1f}".removesuffix(".0") if abs(value) < 0.1 else f"{100 * value:.0f}"
    return f"{shown}%"


def _bounds(one: Measurement) -> str:
    assert one.interval is not None
    low, high = _text(one, one.interval.low), _text(one, one.interval.high)
    return f"{low.removesuffix('%')} to {high}"


async def _margin(reader: Reader, best: JobReport, second: JobReport, names: dict[str, str]) -> str:
    """Return a sentence on the best system's lead: the size of the lead, and whether it may be chance."""
    one, other = _headline(best), _headline(second)
    behind = f"{names[second.record.key]} is {_difference(one, abs((one.value or 0.0) - (other.value or 0.0)))} behind"
    if best.n_planned > MAX_TESTED_ITEMS:
        return f"{behind}; bench compare {reader.meta.run_id} shows whether that is more than chance."
    return f"{behind}{await _significance(reader, best, second)}."


def _difference(one: Measurement, difference: float) -> str:
    return f"{100 * difference:.1f} points" if is_share(one) else number(difference, one.unit)


async def _significance(reader: Reader, best: JobReport, second: JobReport) -> str:
    from bench.report.comparison.compare import compare_sides

    one = _headline(best)
    sides = [await load_side(reader, job.record) for job in (best, second)]
    try:
        rows = compare_sides([sides], metrics=[one.metric]).comparisons[0].headlines
    except UsageError as problem:
        return f", but the two are not like for like ({str(problem).splitlines()[-1].strip()})"
    row = rows[0] if rows else None
    if row is None or row.p_adjusted is None:
        return ", and so few items cannot show whether that is chance"
    if row.is_detected:
        return f", which is more than chance (p {_p(row.p_adjusted)}, paired by item)"
    seen = "" if row.mde is None else f"; these items can show a difference of {_difference(one, row.mde)} or more"
    return f", which may be chance (p {_p(row.p_adjusted)}{seen})"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _limits(best: JobReport, scored: Sequence[JobReport], name: str) -> list[str]:
    """Return sentences on what limits the score of the best system: its memory or its answering model.

    The sentences use the evidence that was found, and the scores of the controls oracle and no-memory.
    """
    one = _headline(best)
    if best.record.models.answering is None or one.metric != "accuracy" or one.value is None:
        return []
    found = next((m for prefix in EVIDENCE_METRICS if (m := _with_largest_k(best, prefix)) is not None), None)
    same = [job for job in scored if job.record.models == best.record.models and job.record.key != best.record.key]
    by_name = {job.record.provider: job for job in same}
    texts = []
    if found is not None and found.value is not None:
        texts.append(
            f"{name} finds evidence for {_percent(found.value)} of the "
            f"{counted(found.n, 'question(|s) that (has|have) evidence')}."
        )
    oracle, floor = by_name.get("oracle"), by_name.get("no-memory")
    if oracle is not None and oracle.memory_cost is not None and oracle.memory_cost.context_share == 0:
        texts.append("No question has evidence, so the oracle gave the reader nothing.")
    elif oracle is not None and (reach := _headline(oracle).value) is not None:
        parts = ("reader", "memory") if 1 - reach >= reach - one.value else ("memory", "reader")
        texts.append(
            f"Given all the evidence (oracle) the same reader answers {_percent(reach)} right, "
            f"so the {parts[0]} limits the score more than the {parts[1]}."
        )
    elif found is not None and found.value is not None:
        in_search = round((1 - found.value) * found.n)
        after = round((1 - one.value) * one.n) - in_search
        if in_search != after:
            places = ("in the search than after it", "after the search than in it")
            texts.append(f"More answers are lost {places[after > in_search]}.")
    if floor is not None and (without := _headline(floor).value) is not None:
        texts.append(f"Without a memory it answers {_percent(without)} right.")
    return texts


def _with_largest_k(job: JobReport, prefix: str) -> Measurement | None:
    """Return the metric with the largest k whose name is ``prefix`` and k, such as ``hit_at_10``.

    The result is None if there is no such metric.
    """
    named = [one for name, one in job.metrics.items() if name.startswith(prefix) and name[len(prefix) :].isdigit()]
    return max(named, key=lambda one: int(one.metric[len(prefix) :]), default=None)
