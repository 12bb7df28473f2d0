"""Create the documents of items: one page of the table of items, or one item with all its data.

Example::

    grid = await grid_document(site, "r1", ItemQuery(state="error"), cursor="", limit=50)
    item = await item_document(site, "r1", "q17")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import NotRequired, TypedDict, cast

from bench.journal import JournaledPhase, Reader
from bench.journal.pages import (
    ItemPage,
    ItemQuery,
    Unit,
    cells_of,
    corpora_of,
    page_of,
    payloads_of,
    question_types,
    units_with,
)
from bench.journal.queries import ScoreRow
from bench.metrics.failure_reason import loss_of
from bench.metrics.latency import attempt_us
from bench.model import Phase
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.exports.export import HITS_PAYLOAD, ITEM_PAYLOAD, JUDGE_PAYLOAD, answer_status, payload, verdict_row
from bench.report.failures import loss_facts, verdicts_on_item
from bench.untyped_values import Json, instant, list_texts, utc_text
from bench.web.app_state import Site
from bench.web.documents.run_documents import folder_of
from bench.web.errors import NotFound, slug_of


def select_jobs(jobs: Sequence[JobRecord], *, benchmark: str | None, provider: str | None) -> list[JobRecord]:
    """Return the jobs of a benchmark; if ``provider`` is given, return only the jobs of this provider.

    If ``benchmark`` is None, the benchmark of the first job is used.
    """
    named = benchmark or (jobs[0].benchmark if jobs else None)
    return [job for job in jobs if job.benchmark == named and (provider is None or job.provider == provider)]


class GridRow(TypedDict):
    """A row of the table of items, with one cell per job. Only the keys that the API reads are declared."""

    item_id: str
    corpus: str
    cells: list[Json | None]


class ItemGrid(TypedDict):
    """A page of the table of items. Only the keys that the API reads are declared."""

    jobs: list[Json]
    items: list[GridRow]


async def grid_document(
    site: Site,
    run_id: str,
    wanted: ItemQuery,
    *,
    cursor: str = "",
    limit: int = 50,
    benchmark: str | None = None,
    provider: str | None = None,
    chosen_units: Sequence[Unit] | None = None,
) -> tuple[ItemGrid, int]:
    """Return a page of the table of items, and how many of ``chosen_units`` were read to fill the page.

    ``provider`` restricts the page to the jobs of this provider. ``chosen_units`` are items that the caller has
    selected. Without ``wanted.text``, the page has all of these items. With ``wanted.text``, it has the first ``limit``
    of these items that contain this text.
    """
    async with Reader.open(folder_of(site, run_id)) as reader:
        jobs = read_jobs(reader.meta.extra)
        shown = select_jobs(jobs, benchmark=benchmark, provider=provider)
        if not shown:
            target = " on ".join(one for one in (provider, benchmark) if one) or "any provider"
            raise NotFound(f"this run has no job of {target}", "see the page of the run")
        if chosen_units is None:
            page, looked_at = await page_of(reader, [job.key for job in shown], wanted, after=cursor, limit=limit), 0
        elif wanted.text:
            keys = [job.key for job in shown]
            found, looked_at = await units_with(reader, keys, chosen_units, wanted.text, limit=limit)
            page = ItemPage(units=tuple(found), cursor=None, cut=looked_at < len(chosen_units) and len(found) < limit)
        else:
            page, looked_at = ItemPage(units=tuple(chosen_units), cursor=None), len(chosen_units)
        columns = [await cells_of(reader, job.key, page.units) for job in shown]
        questions = await _questions(reader, columns)
        types = await question_types(reader)
    rows = []
    for unit in page.units:
        cells = [column.get(unit) for column in columns]
        first = next((cell for cell in cells if cell is not None), None)
        rows.append(
            {
                "item_id": unit[1],
                "slug": slug_of(unit[1]),
                "corpus": unit[0],
                "question_type": first.labels.get("question_type") if first else None,
                "question": questions.get(unit),
                "cells": [_cell(cell, job) for cell, job in zip(cells, shown, strict=True)],
            }
        )
    grid = {
        "run_id": run_id,
        "benchmark": shown[0].benchmark,
        "benchmarks": list(dict.fromkeys(job.benchmark for job in jobs)),
        "providers": list(dict.fromkeys(job.provider for job in jobs)),
        "question_types": types,
        "jobs": [{"job": job.key, "provider": job.provider, "models": asdict(job.models)} for job in shown],
        "items": rows,
        "cursor": page.cursor,
        "cut": page.cut,
    }
    return cast("ItemGrid", grid), looked_at


async def _questions(
    reader: Reader, columns: Sequence[Mapping[tuple[str, str], ScoreRow]]
) -> dict[tuple[str, str], str]:
    entries = {unit: cell.entry for column in reversed(columns) for unit, cell in column.items()}
    found = await payloads_of(reader, list(entries.values()), ITEM_PAYLOAD)
    questions = {}
    for unit, entry in entries.items():
        about = found.get(entry)
        if isinstance(about, Mapping):
            questions[unit] = str(about.get("question") or "")
    return questions


def _cell(cell: ScoreRow | None, job: JobRecord) -> Json | None:
    if cell is None:
        return None
    headline = job.metrics[0].name if job.metrics else ""
    return {"state": cell.state, "outcome": cell.outcome, "metric": headline, "value": cell.values.get(headline)}


class ItemHit(TypedDict):
    """A search hit. Only the keys that this module reads are declared."""

    rank: int
    content: NotRequired[str]
    source_ids: list[str] | None
    evidence: bool


class ItemSide(TypedDict):
    """The data of an item in one job. Only the keys that this module and the pages read are declared."""

    benchmark: str
    provider: str
    state: str
    evidence: list[str]
    search: Json | None
    hits: list[ItemHit]
    missed: NotRequired[list[Json]]


class ItemDocument(TypedDict):
    """One item: ``chips`` has a short state for every provider, ``sides`` has all data for each selected provider."""

    run_id: str
    item_id: str
    slug: str
    about: object
    chips: list[Json]
    sides: list[ItemSide]


async def item_document(site: Site, run_id: str, item: str, *, provider: str | None = None) -> ItemDocument:
    """Return all data of one item: question, hits, answers, verdicts, attempts, times, and cause of failure.

    ``provider`` names one provider, or several separated by commas. Evidence that a provider did not return is shown
    with the text that another provider returned.

    Raises:
        NotFound: the run has no such item, or the item has not begun.
    """
    async with Reader.open(folder_of(site, run_id)) as reader:
        records = read_jobs(reader.meta.extra)
        wanted = None if provider is None else set(provider.split(","))
        corpora: list[str | None] = [*await corpora_of(reader, item)] or [None]  # none ended yet: whichever it is
        sides = [await _side(reader, job, records, item, corpus) for job in records for corpus in corpora]
    every = [side for side in sides if side is not None]
    texts = _evidence_texts([side for side, _ in every])
    found = [one for one in every if wanted is None or one[0]["provider"] in wanted]
    if not found:
        raise NotFound("this run has no such item, or the item has not begun", "see the list of items")
    return {
        "run_id": run_id,
        "item_id": item,
        "slug": slug_of(item),
        "about": next((about for _, about in found if about), {}),
        "chips": [_chip(side) for side, _ in every],
        "sides": [{**side, "missed": _missed(side, texts)} for side, _ in found],
    }


def _evidence_texts(sides: Sequence[ItemSide]) -> dict[str, str]:
    """Return evidence id -> text. If several hits hold the same evidence, the shortest text is returned."""
    texts: dict[str, str] = {}
    for side in sides:
        for hit in side["hits"]:
            for name in (hit["source_ids"] or []) if hit["evidence"] else []:
                known = texts.get(name)
                text = str(hit.get("content") or "")
                if known is None or len(text) < len(known):
                    texts[name] = text
    return texts


def _missed(side: ItemSide, texts: Mapping[str, str]) -> list[Json]:
    """Return the evidence that a provider did not return.

    The list is empty if the item was not searched, or if there are hits but none of them has evidence ids.
    """
    hits = side["hits"]
    if side["search"] is None or (hits and all(hit["source_ids"] is None for hit in hits)):
        return []
    returned = {name for hit in hits for name in hit["source_ids"] or []}
    return [{"id": name, "text": texts.get(name)} for name in side["evidence"] if name not in returned]


def _chip(side: ItemSide) -> Json:
    """Return the state of the item with one provider, and the rank of the first hit that holds evidence."""
    rank = next((hit["rank"] for hit in side["hits"] if hit["evidence"]), None)
    return {"provider": side["provider"], "state": side["state"], "rank": rank, "has_evidence": bool(side["evidence"])}


async def _side(
    reader: Reader, job: JobRecord, jobs: Sequence[JobRecord], item: str, corpus: str | None
) -> tuple[ItemSide, object] | None:
    """Return all data of an item in one job, and the question with its expected answers.

    Return None if the item has not begun.
    """
    epochs = await reader.item(job.chain, item, corpus=corpus)
    if not epochs:
        return None
    record = epochs[0]
    search, answer = record.phases.get(Phase.SEARCH), record.phases.get(Phase.ANSWER)
    scored = record.phases.get(Phase.EVALUATE)
    verdicts = await verdicts_on_item(reader, job, jobs, item, corpus=record.corpus)
    loss = loss_of(loss_facts(record, verdicts, gold_suspect=item in job.suspects))
    attempts = await reader.attempts(job.chain, item, corpus=corpus)
    side = {
        "job": job.key,
        "benchmark": job.benchmark,
        "provider": job.provider,
        "models": asdict(job.models),
        "corpus": record.corpus,
        "question_type": record.labels.get("question_type"),
        "state": str(record.state) if record.state else "pending",
        "outcome": record.outcome,
        "message": record.message,
        **({"hint": record.hint} if record.hint else {}),
        "loss": asdict(loss) if loss else None,
        "evidence": list(list_texts(scored.data.get("gold") if scored else None)),
        "answerable": scored.data.get("answerable") if scored else None,
        "hits": await _hits(reader, search, scored),
        "search": dict(search.data) if search else None,
        "context": await payload(reader, answer, "prompt"),
        "answer": answer.data.get("answer") if answer else None,
        **answer_status(answer),
        "raw_answer": await payload(reader, answer, "raw"),
        "reasoning": await payload(reader, answer, "reasoning"),
        "answer_model": answer.measured.get("model") if answer else None,
        "verdicts": [await verdict_row(reader, one) for one in record.verdicts],
        "judge_prompts": await payload(reader, scored, JUDGE_PAYLOAD) or [],
        "values": dict(record.values),
        "latency": {str(phase): dict(entry.times_us) for phase, entry in record.phases.items()},
        "epochs": len(epochs),
        "attempts": [_attempt(entry) for entry in attempts],
        "spent": _spent(attempts),
    }
    return cast("ItemSide", side), _with_utc_date(await payload(reader, scored, ITEM_PAYLOAD))


def _with_utc_date(about: object) -> object:
    """Return the question of an item with its date in UTC; a journal of an older version has ``+00:00``."""
    when = instant(about.get("question_date")) if isinstance(about, Mapping) else None
    return about if when is None else {**about, "question_date": utc_text(when)}  # type: ignore[dict-item]


async def _hits(reader: Reader, search: JournaledPhase | None, scored: JournaledPhase | None) -> list[Json]:
    """Return the hits of a search in the provider's order. ``evidence`` is True if a hit holds evidence."""
    stored = await payload(reader, search, HITS_PAYLOAD) if search else None
    kept, beyond = (search.data.get(name) if search else None for name in ("retrieved", "beyond"))
    slots = [*kept, *(beyond if isinstance(beyond, list) else [])] if isinstance(kept, list) else []
    gold = set(list_texts(scored.data.get("gold") if scored else None))
    found = []
    for at, hit in enumerate(stored if isinstance(stored, list) else []):
        ids = list_texts(slots[at]) if at < len(slots) else None
        known = None if ids is None else list(ids)
        found.append({"rank": at + 1, **hit, "source_ids": known, "evidence": bool(gold & set(ids or ()))})
    return found


def _spent(attempts: Sequence[JournaledPhase]) -> Json:
    """Return time per phase, tokens and cost, summed over all attempts of an item.

    The cost is None if the price of any call is unknown.
    """
    phases: dict[str, int] = {}
    for one in attempts:
        phases[str(one.key.phase)] = phases.get(str(one.key.phase), 0) + (attempt_us(one.times_us) or 0)
    calls = [call for one in attempts for call in one.calls]
    used = [call.usage for call in calls if call.usage is not None]
    known = all(call.cost_usd is not None for call in calls if call.usage is not None)
    return {
        "phases": phases,
        "tokens_in": sum(one.input_tokens for one in used),
        "tokens_out": sum(one.output_tokens for one in used),
        "usd": str(sum((Decimal(call.cost_usd) for call in calls if call.cost_usd), Decimal(0))) if known else None,
    }


def _attempt(entry: JournaledPhase) -> Json:
    return {
        "phase": str(entry.key.phase),
        "epoch": entry.key.epoch,
        "attempt": entry.attempt,
        "outcome": entry.outcome,
        "message": entry.message,
        "started_at": utc_text(entry.started_at, "milliseconds"),
        "times_us": {**entry.times_us, "latency": attempt_us(entry.times_us)},
        "calls": [{**asdict(call), "started_at": utc_text(call.started_at, "milliseconds")} for call in entry.calls],
    }
