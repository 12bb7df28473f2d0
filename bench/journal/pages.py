"""Read the items of a run page by page, with a filter, and the outcome of each item in each job.

``ended_items`` yields the ended items of a job with only the fields that receipts need, which is faster than complete
records.

Example::

    async with Reader.open(folder) as reader:
        page = await page_of(reader, [job.key], ItemQuery(state="error"), after="", limit=50)
        cells = await cells_of(reader, job.key, page.units)
    async with Reader.open(folder) as reader:
        async for item in ended_items(reader, chain):
            item.state, item.phases[Phase.SEARCH].data["retrieved"]

A text search reads every question and stops at a time limit. The cursor of its page is the position at which the search
continues.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.errors import UsageError
from bench.journal.codec import PHASES, clean, decode, from_json, to_json, unpack
from bench.journal.file import sqlite_errors_reported
from bench.journal.queries import ScoreRow
from bench.journal.reader import Interned, Reader, SqlRow
from bench.journal.rows import Chain
from bench.journal.sql import blocks
from bench.model import Phase, Verdict

Unit = tuple[str, str]
"""(corpus, item)"""

SEARCH_S = 0.08
"""seconds that one page may search for a text"""
SEARCHED_AT_ONCE = 250
SAMPLE = 2000
STEPS = 80

_SQL = blocks("paging")
_TYPE = "question_type"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuery:
    """The filters of a page; a filter that is None or empty matches every item."""

    state: str | None = None
    question_type: str | None = None
    text: str = ""
    """part of an item id or question, ignoring case"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    """A page of items; pass ``cursor`` to get the next page (None = this is the last page)."""

    units: tuple[Unit, ...]
    cursor: str | None
    cut: bool = False
    """True if the text search stopped at its time limit, so that the page may be shorter than asked"""


async def page_of(reader: Reader, jobs: Sequence[str], wanted: ItemQuery, *, after: str, limit: int) -> ItemPage:
    """Return the next page of the items of some jobs.

    The page has at most ``limit`` items, and each item matches the filters ``wanted``. ``after`` is the cursor of the
    page before; empty for the first page.

    Raises:
        UsageError: the cursor is invalid.
    """
    with sqlite_errors_reported(reader.path):
        if wanted.text:
            return await _searched_page(reader, jobs, wanted, after=after, limit=limit)
        units = await _next_units(reader, jobs, wanted, _unit_of(after), limit + 1)
    return _page(list(units), limit)


async def units_with(
    reader: Reader, jobs: Sequence[str], units: Sequence[Unit], text: str, *, limit: int
) -> tuple[list[Unit], int]:
    """Search some items for a text, and stop at the time limit or after ``limit`` matches.

    Return the items whose id or question contains the text, and the number of items that were searched.
    """
    needle, found, until = text.casefold(), list[Unit](), time.monotonic() + SEARCH_S
    for start in range(0, len(units), SEARCHED_AT_ONCE):
        block = units[start : start + SEARCHED_AT_ONCE]
        entries: dict[Unit, int] = {}
        for job in jobs:
            missing = [unit for unit in block if unit not in entries]
            cells = await cells_of(reader, job, missing) if missing else {}
            entries |= {unit: cell.entry for unit, cell in cells.items()}
        questions = await payloads_of(reader, list(entries.values()), "item")
        for at, unit in enumerate(block, start=start + 1):
            if needle in _searchable(unit, questions.get(entries.get(unit, -1))):
                found.append(unit)
            if len(found) == limit:
                return found, at
        if time.monotonic() > until:
            return found, start + len(block)
    return found, len(units)


async def cells_of(reader: Reader, job: str, units: Sequence[Unit]) -> dict[Unit, ScoreRow]:
    """Return the outcomes of some items in one job: those of the first epoch, from the newest scoring."""
    rows = await _all(reader, "cells", clean(job), to_json([[clean(part) for part in unit] for unit in units]))
    found: dict[Unit, ScoreRow] = {}
    for row in rows:
        found.setdefault(row[:2], ScoreRow(*row))
    return found


async def payloads_of(reader: Reader, entries: Sequence[int], name: str) -> dict[int, object]:
    """Return a map from row id to the payload called ``name``, such as the hits of a search.

    ``entries`` are the row ids. Rows without this payload are left out.
    """
    rows = await _all(reader, "payload_names", to_json(list(entries)))
    found = {}
    for entry, column in rows:
        reference = json.loads(column).get(name) if column else None
        value = await reader.payload(reference) if reference else None
        if value is not None:
            found[int(entry)] = value
    return found


async def corpora_of(reader: Reader, item: str) -> list[str]:
    """Return the corpora that have an ended item with this id; several if two benchmarks use the same id."""
    return [str(row[0]) for row in await _all(reader, "corpus_of", clean(item))]


async def sampled_times(reader: Reader, owner: str, phase: Phase) -> tuple[int, list[Mapping[str, int]]]:
    """Return the number of successful attempts of a phase, and the times of a sample of these attempts.

    The sample has at most ``SAMPLE`` attempts, spread evenly over the run.
    """
    count = int((await _all(reader, "times_count", clean(owner), PHASES[phase]))[0][0])
    every = max(1, -(-count // SAMPLE))
    rows = await _all(reader, "times", clean(owner), PHASES[phase], every, SAMPLE)
    return count, [json.loads(row[0]) for row in rows]


async def ends_of(reader: Reader, job: str, epochs: int = 1) -> list[tuple[float, int]]:
    """Return the number of ended items of a job over time, as a curve of about ``STEPS`` points.

    Each point is (seconds since the start of the run, number of ended items).
    """
    first, last = (await _all(reader, "entries_of_scores", clean(job)))[0]
    if first is None:
        return []
    found, ended = [], 0
    began_s = reader.meta.created_at.timestamp()
    for count, started_us in await _all(reader, "ends", clean(job), first, (last - first) // STEPS + 1, epochs):
        ended += count
        found.append((round(max(0.0, started_us / 1e6 - began_s), 3), ended))
    return found


# ------------------------------------------------------------------ the two ways to a page


async def _next_units(
    reader: Reader, jobs: Sequence[str], wanted: ItemQuery, after: Unit, limit: int
) -> dict[Unit, int]:
    """Return the next ``limit`` items after the item ``after``, each with the id of a row that has its question."""
    found: dict[Unit, int] = {}
    labels = await _labels(reader, wanted.question_type)
    for job in jobs:
        rescored = int((await _all(reader, "newest_generation", clean(job)))[0][0] > 0)
        rows = await _all(reader, "by_item", clean(job), *after, wanted.state, labels, rescored, limit)
        for corpus, item, entry in rows:
            found.setdefault((corpus, item), entry)
    return {unit: found[unit] for unit in sorted(found, key=_order)[:limit]}


async def _searched_page(reader: Reader, jobs: Sequence[str], wanted: ItemQuery, *, after: str, limit: int) -> ItemPage:
    position, needle = _unit_of(after), wanted.text.casefold()
    units: list[Unit] = []
    until = time.monotonic() + SEARCH_S
    while len(units) <= limit:
        block = await _next_units(reader, jobs, wanted, position, SEARCHED_AT_ONCE)
        if not block:
            return _page(units, limit)
        questions = await payloads_of(reader, list(block.values()), "item")
        units += [unit for unit, entry in block.items() if needle in _searchable(unit, questions.get(entry))]
        position = list(block)[-1]
        if time.monotonic() > until and len(units) <= limit:
            return ItemPage(units=tuple(units), cursor=_cursor(position), cut=True)
    return _page(units, limit)


def _page(units: list[Unit], limit: int) -> ItemPage:
    more = len(units) > limit
    return ItemPage(units=tuple(units[:limit]), cursor=_cursor(units[limit - 1]) if more else None)


def _searchable(unit: Unit, payload: object) -> str:
    question = payload.get("question") if isinstance(payload, Mapping) else None
    return f"{unit[1]}\n{question or ''}".casefold()


# ------------------------------------------------------------------ parts


def _order(unit: Unit) -> tuple[bytes, bytes]:
    return unit[0].encode(), unit[1].encode()


def _cursor(unit: Unit) -> str:
    return urlsafe_b64encode(to_json(unit).encode()).decode().rstrip("=")


def _unit_of(cursor: str) -> Unit:
    if not cursor:
        return ("", "")
    try:
        found = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError) as error:
        raise _cursor_error(cursor) from error
    if not isinstance(found, list) or [type(part) for part in found] != [str, str]:
        raise _cursor_error(cursor)
    return clean(found[0]), clean(found[1])


def _cursor_error(cursor: str) -> UsageError:
    return UsageError(
        f"cursor {cursor!r} is not valid for this list",
        hint="remove the cursor, so that the list starts at the first item",
    )


async def _labels(reader: Reader, question_type: str | None) -> str | None:
    """Return the ids of all label sets that have this question type, as a JSON list.

    Return None if ``question_type`` is None, which means any type.
    """
    if question_type is None:
        return None
    label_sets, _ = await reader.interned()
    return to_json([number for number, data in label_sets.items() if data.get(_TYPE) == question_type])


async def question_types(reader: Reader) -> list[str]:
    """Return the question types of all ended items, sorted."""
    label_sets, _ = await reader.interned()
    return sorted({data[_TYPE] for data in label_sets.values() if _TYPE in data})


async def _all(reader: Reader, query: str, *columns: str | int | None) -> list[SqlRow]:
    return await reader.rows(_SQL[query], *columns)


PAGE = 400

Epoch = tuple[str, str, int]
"""corpus, item, epoch"""

_ENDED_SQL = blocks("ended")


class PhaseAttempt(NamedTuple):
    """The SQLite columns of one attempt of a phase."""

    attempt: int
    outcome: str
    entry: int
    generation: int
    times: str | None
    data: str | bytes | None
    measured: str | bytes | None


class EndedPhase(NamedTuple):
    """One phase of an ended item: the number of attempts and the last attempt.

    The columns of the last attempt are decoded on access.
    """

    attempts: int
    last: PhaseAttempt

    @property
    def ok(self) -> bool:
        """Return True when the last attempt succeeded."""
        return self.last.outcome == "ok"

    @property
    def times_us(self) -> Mapping[str, int]:
        """Return the times of the last attempt, as in ``JournaledPhase.times_us``."""
        times: dict[str, int] = from_json(self.last.times) if self.last.times else {}
        return times

    @property
    def data(self) -> Mapping[str, object]:
        """Return the data of the last attempt, as in ``JournaledPhase.data``."""
        return decode(self.last.data)

    @property
    def measured(self) -> Mapping[str, object]:
        """Return the measured values of the last attempt, as in ``JournaledPhase.measured``."""
        return decode(self.last.measured)


class EndedItem(NamedTuple):
    """One ended item in one epoch, with the state, values and verdicts of its newest scoring."""

    corpus: str
    item: str
    epoch: int
    state: str
    outcome: str
    """``ok`` or the error kind"""
    labels: Mapping[str, str]
    values: Mapping[str, float | None]
    phases: Mapping[Phase, EndedPhase]
    verdicts: Sequence[Verdict]
    costs_usd: Sequence[str | None]
    """cost of each call, over all attempts; None = unknown"""


async def ended_items(reader: Reader, chain: Chain) -> AsyncGenerator[EndedItem, None]:
    """Stream the ended items of a job, sorted by (corpus, item, epoch)."""
    interned = await reader.interned()
    after: tuple[str, str, int] = ("", "", -1)
    while scores := await reader.rows(_ENDED_SQL["scores"], clean(chain.job), *after, PAGE):
        for item in await _ended_page(reader, chain, scores, interned):
            yield item
        after = scores[-1][:3]


async def ended_from(reader: Reader, chain: Chain, corpora: Sequence[str], limit: int) -> list[EndedItem]:
    """Return the ended items that follow the start of each corpus in ``corpora``, up to ``limit`` per start.

    If a corpus has fewer than ``limit`` ended items, items of the next corpora are returned too. No item is returned
    twice.
    """
    interned = await reader.interned()
    found: dict[tuple[str, str, int], EndedItem] = {}
    for corpus in corpora:
        scores = await reader.rows(_ENDED_SQL["scores"], clean(chain.job), clean(corpus), "", -1, limit)
        if scores:
            found |= {one[:3]: one for one in await _ended_page(reader, chain, scores, interned)}
    return list(found.values())


async def _ended_page(reader: Reader, chain: Chain, scores: list[SqlRow], interned: Interned) -> list[EndedItem]:
    attempts: dict[Epoch, dict[Phase, list[PhaseAttempt]]] = {score[:3]: {} for score in scores}
    for phase, owner in ((Phase.SEARCH, chain.lane), (Phase.ANSWER, chain.answering), (Phase.EVALUATE, chain.job)):
        span = (*scores[0][:3], *scores[-1][:3])
        for row in await reader.rows(_ENDED_SQL["phases"], clean(owner), PHASES[phase], *span):
            if (unit := attempts.get(row[:3])) is not None:
                unit.setdefault(phase, []).append(PhaseAttempt(*row[3:]))
    entries = [one.entry for unit in attempts.values() for tries in unit.values() for one in tries]
    costs, verdicts = await _costs(reader, entries), await reader.verdicts([score[3] for score in scores])
    return [
        _item(
            score,
            unit,
            interned,
            verdicts=verdicts.get(score[3], ()),
            costs_usd=[cost for tries in unit.values() for one in tries for cost in costs.get(one.entry, ())],
        )
        for score, unit in zip(scores, attempts.values(), strict=True)
    ]


def _item(
    score: SqlRow,
    attempts: Mapping[Phase, list[PhaseAttempt]],
    interned: Interned,
    *,
    verdicts: Sequence[Verdict],
    costs_usd: Sequence[str | None],
) -> EndedItem:
    corpus, item, epoch, _, state, outcome, labels, shape, packed, generation = score
    label_sets, shapes = interned
    values = zip(shapes[shape], unpack(packed), strict=True)
    return EndedItem(
        corpus,
        item,
        epoch,
        state,
        outcome,
        label_sets[labels],
        {name: None if value != value else value for name, value in values},
        {
            phase: EndedPhase(len(shown), shown[-1])
            for phase, tries in attempts.items()
            if (shown := _shown(phase, tries, generation))
        },
        verdicts,
        costs_usd,
    )


def _shown(phase: Phase, attempts: list[PhaseAttempt], generation: int) -> list[PhaseAttempt]:
    """Return the attempts of a phase; for the evaluate phase, return only those of the scoring ``generation``."""
    if phase is not Phase.EVALUATE:
        return attempts
    return [one for one in attempts if one.generation == generation]


async def _costs(reader: Reader, entries: Sequence[int]) -> dict[int, list[str | None]]:
    found: dict[int, list[str | None]] = {}
    for entry, cost_usd in await reader.rows(_ENDED_SQL["costs"], to_json(entries)):
        found.setdefault(entry, []).append(cost_usd)
    return found
