"""The ended items of a job, with only what a receipt says of them: half the work of whole records.

    async with Reader.open(folder) as reader:
        async for item in ended_items(reader, chain):
            item.state, item.phases[Phase.SEARCH].data["retrieved"]

Read by key, a page at a time, so a hundred thousand items take no more memory than a page.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple

from bench.journal.assembly import VerdictRow
from bench.journal.codec import PHASES, clean, decode, from_json, to_json, unpack
from bench.journal.reader import Reader, SqlRow
from bench.journal.rows import Chain
from bench.journal.sql import blocks
from bench.model import Phase, Verdict

PAGE = 400

Unit = tuple[str, str, int]
"""corpus, item, epoch"""

_SQL = blocks("ended")
_READ = blocks("read")


class Attempt(NamedTuple):
    """One attempt of a phase, as SQLite gives it."""

    attempt: int
    outcome: str
    entry: int
    generation: int
    times: str | None
    data: str | bytes | None
    measured: str | bytes | None


class EndedPhase(NamedTuple):
    """The last attempt of one phase; its columns are decoded when they are asked for."""

    attempts: int
    last: Attempt

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.last.outcome == "ok"

    @property
    def times_us(self) -> Mapping[str, int]:
        """As in ``Entry``."""
        times: dict[str, int] = from_json(self.last.times) if self.last.times else {}
        return times

    @property
    def data(self) -> Mapping[str, object]:
        """As in ``Entry``."""
        return decode(self.last.data)

    @property
    def measured(self) -> Mapping[str, object]:
        """As in ``Entry``."""
        return decode(self.last.measured)


class EndedItem(NamedTuple):
    """One item, its newest scoring."""

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
    """of every call of every attempt; None = not known"""


class _Interned(NamedTuple):
    labels: Mapping[int, Mapping[str, str]]
    shapes: Mapping[int, Sequence[str]]


async def ended_items(reader: Reader, chain: Chain) -> AsyncGenerator[EndedItem, None]:
    """Stream the ended items of a job by (corpus, item, epoch)."""
    interned = _Interned(
        labels={number: from_json(data) for number, data in await reader.rows(_READ["all_labels"])},
        shapes={number: from_json(names) for number, names in await reader.rows(_READ["shapes"])},
    )
    after: tuple[str, str, int] = ("", "", -1)
    while scores := await reader.rows(_SQL["scores"], clean(chain.job), *after, PAGE):
        for item in await _page(reader, chain, scores, interned):
            yield item
        after = scores[-1][:3]


async def _page(reader: Reader, chain: Chain, scores: list[SqlRow], interned: _Interned) -> list[EndedItem]:
    attempts: dict[Unit, dict[Phase, list[Attempt]]] = {score[:3]: {} for score in scores}
    for phase, owner in ((Phase.SEARCH, chain.lane), (Phase.ANSWER, chain.answering), (Phase.EVALUATE, chain.job)):
        span = (*scores[0][:3], *scores[-1][:3])
        for row in await reader.rows(_SQL["phases"], clean(owner), PHASES[phase], *span):
            if (unit := attempts.get(row[:3])) is not None:
                unit.setdefault(phase, []).append(Attempt(*row[3:]))
    entries = [one.entry for unit in attempts.values() for tries in unit.values() for one in tries]
    costs, verdicts = await _costs(reader, entries), await _verdicts(reader, [score[3] for score in scores])
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
    attempts: Mapping[Phase, list[Attempt]],
    interned: _Interned,
    *,
    verdicts: Sequence[Verdict],
    costs_usd: Sequence[str | None],
) -> EndedItem:
    corpus, item, epoch, _, state, outcome, labels, shape, packed, generation = score
    values = zip(interned.shapes[shape], unpack(packed), strict=True)
    return EndedItem(
        corpus,
        item,
        epoch,
        state,
        outcome,
        interned.labels[labels],
        {name: None if value != value else value for name, value in values},
        {
            phase: EndedPhase(len(shown), shown[-1])
            for phase, tries in attempts.items()
            if (shown := _shown(phase, tries, generation))
        },
        verdicts,
        costs_usd,
    )


def _shown(phase: Phase, attempts: list[Attempt], generation: int) -> list[Attempt]:
    """Scorings of older generations are no attempts of the one that is shown."""
    if phase is not Phase.EVALUATE:
        return attempts
    return [one for one in attempts if one.generation == generation]


async def _costs(reader: Reader, entries: Sequence[int]) -> dict[int, list[str | None]]:
    found: dict[int, list[str | None]] = {}
    for entry, cost_usd in await reader.rows(_SQL["costs"], to_json(entries)):
        found.setdefault(entry, []).append(cost_usd)
    return found


async def _verdicts(reader: Reader, entries: Sequence[int]) -> dict[int, list[Verdict]]:
    found: dict[int, list[Verdict]] = {}
    for row in map(VerdictRow._make, await reader.rows(_READ["verdicts"], to_json(entries))):
        found.setdefault(row.entry, []).append(row.verdict())
    return found
