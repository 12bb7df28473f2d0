"""Read the journal of a run, also while another process writes to it.

Methods that stream keep at most a few thousand rows in memory::

    async with Reader.open(folder) as reader:
        async for batch in reader.values(job):
            print(batch.items, batch.values["recall@5"])
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import wraps
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import aiosqlite

from bench.errors import Locked
from bench.journal.codec import PHASE_OF, PHASES, clean, decode, from_json, instant, micros, pack, to_json
from bench.journal.file import locate, open_reading, run_in_thread, sqlite_errors_reported
from bench.journal.lease import INDEX_WAIT, OLDEST_SENT
from bench.journal.queries import (
    READ,
    CallRow,
    EntryColumns,
    Parts,
    PhaseRow,
    ScoreRow,
    StepColumns,
    VerdictRow,
    columns_of,
    corpus_row_of,
    entry_of,
    group_scores,
    read_counts,
    read_head,
    read_holder,
    read_meta,
    read_payload,
    read_spending,
    read_verdict_history,
    record_of,
)
from bench.journal.records import (
    CorpusRecord,
    ErrorCount,
    FlagCount,
    FlaggedItems,
    HitCounts,
    IndexWaiting,
    ItemRecord,
    ItemWithoutValue,
    JournalOrigin,
    JudgedItem,
    MissingVerdicts,
    PhaseTotals,
    ScoreGroup,
    Status,
    UsageTotals,
    Values,
    cause_texts,
    totals_by_role,
)
from bench.journal.rows import (
    Chain,
    CorpusKind,
    Event,
    JournaledPhase,
    Key,
    ProbeRow,
    ResumeRow,
    RunMeta,
    RunState,
    wall,
)
from bench.metrics.fold_input import EndState, item_outcome
from bench.model import NO_HITS, WARNED, Call, Phase, State, Verdict
from bench.untyped_values import list_texts

ITEMS_AT_ONCE = 300
VALUES_AT_ONCE = 4000

Interned = tuple[dict[int, dict[str, str]], dict[int, list[str]]]
"""sets of labels, and lists of metric names, each by its number in the file"""
SqlRow = tuple[Any, ...]
"""the untyped columns of one SQLite row; named tuples such as ``PhaseRow`` declare their types"""


Params = ParamSpec("Params")
Result = TypeVar("Result")


def cached_in_snapshot(
    method: Callable[Concatenate[Reader, Params], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Reader, Params], Coroutine[Any, Any, Result]]:
    """Decorate a method of ``Reader`` so that ``Reader.snapshot`` caches its result.

    In a snapshot, a second call with the same arguments returns the cached result. Outside, each call runs the query.
    """

    @wraps(method)
    async def ask(self: Reader, /, *given: Params.args, **named: Params.kwargs) -> Result:
        if self.cached_results is None:
            return await method(self, *given, **named)
        key = (method.__name__, *given, *named.items())
        if key not in self.cached_results:
            self.cached_results[key] = await method(self, *given, **named)
        return cast("Result", self.cached_results[key])

    return ask


class Reader:
    """A read-only view of one journal; use it with ``async with Reader.open(path) as reader``."""

    def __init__(
        self, path: Path, connection: aiosqlite.Connection, meta: RunMeta, resumes: tuple[ResumeRow, ...]
    ) -> None:
        self.path = path
        self.meta = meta
        self.resumes = resumes
        self.cached_results: dict[tuple[object, ...], object] | None = None
        """cached query results inside ``snapshot``; None outside, because the journal may change between two queries"""
        self._connection = connection

    @staticmethod
    @asynccontextmanager
    async def open(path: Path) -> AsyncIterator[Reader]:
        """Open a journal for reading; ``path`` is a run folder or a journal file.

        Raises:
            JournalError: the file is damaged, is not a journal, or was written by a newer version of bench.
            UsageError: there is no journal at this path.
        """
        file = locate(path)
        async with open_reading(file) as connection:
            with sqlite_errors_reported(file):
                meta, resumes = await run_in_thread(connection, read_head)
            yield Reader(file, connection, meta, resumes)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        """Make all queries in the ``with`` block see the same state of the journal, while the writer continues.

        A nested ``with`` block uses the snapshot of the outer block.
        """
        if self.cached_results is not None:
            yield
            return
        with sqlite_errors_reported(self.path):
            await self._connection.execute("BEGIN")
        self.cached_results = {}
        try:
            yield
        finally:
            self.cached_results = None
            await self._connection.rollback()

    # ------------------------------------------------------------------ the run

    async def status(self) -> Status:
        """Return the current state of the run.

        The state is ``interrupted`` if the run is marked as running but its process has ended.
        """
        values = await read_meta(self._connection)
        held = await read_holder(self._connection)
        state, reason = list_texts(values["state"])
        stamp = micros(wall())
        age_s = (stamp - held.heartbeat_us) / 1e6 if held else 0.0
        lives = held is not None and held.holder.lives(heartbeat_age_s=age_s)
        if state == RunState.RUNNING and not lives:
            state = RunState.INTERRUPTED
        sent_us = values.get(OLDEST_SENT) if lives else None
        return Status(
            state=RunState(state),
            reason=reason,
            at=instant(int(str(values["state_us"]))),
            holder=str(held.holder) if held and lives else None,
            heartbeat_at=instant(held.heartbeat_us) if held else None,
            oldest_request_s=max(0.0, (stamp - sent_us) / 1e6) if isinstance(sent_us, int) else None,
            index_wait=_index_wait(values.get(INDEX_WAIT), stamp) if lives else None,
        )

    async def refuse_held(self) -> None:
        """Raise Locked if a live process has the run open for writing; the error names this process."""
        holder = (await self.status()).holder
        if holder is not None:
            raise Locked(f"run {self.meta.run_id} is locked by {holder}")

    async def origins(self) -> list[JournalOrigin]:
        """Return the journals to which the rows were first written.

        A merged run has one such journal per source. For every other run, it is only the run's own journal.
        """
        rows = await self._all("origins")
        return [
            JournalOrigin(
                uuid=uuid, run_id=run_id, created_at=instant(at), ranges=tuple(map(tuple, json.loads(ranges)))
            )
            for uuid, run_id, at, ranges in rows
        ]

    async def counts(self) -> dict[tuple[Phase, str], int]:
        """Count phase rows and ended corpus steps by (phase, outcome).

        This scans the tables: about 0.1 s for a million rows.
        """
        with sqlite_errors_reported(self.path):
            return await read_counts(self._connection)

    async def last_outcomes(self, chains: Sequence[Chain], builds: Iterable[str]) -> dict[Phase, Counter[str]]:
        """Count how each phase ended last: ingest and index for each corpus of ``builds``, other phases for each item.

        The counts of evaluate leave out each item whose search or answer failed, because it was not evaluated.
        """
        found = {phase: Counter[str]() for phase in Phase}
        for build in dict.fromkeys(builds):
            for phase, outcome, count in await self._all("last_steps", clean(build)):
                found[PHASE_OF[int(str(phase))]][str(outcome)] += int(str(count))
        answered = set[str]()
        for lane in dict.fromkeys(one.lane for one in chains):
            found[Phase.SEARCH].update(await self._last_outcomes(lane, Phase.SEARCH))
        for owner in dict.fromkeys(one.answering for one in chains):
            counts = await self._last_outcomes(owner, Phase.ANSWER)
            found[Phase.ANSWER].update(counts)
            answered |= {owner} if counts else set()
        for one in chains:
            before = (one.answering, Phase.ANSWER) if one.answering in answered else (one.lane, Phase.SEARCH)
            for outcome, count in await self._all(
                "last_evaluations", clean(one.job), clean(before[0]), PHASES[before[1]]
            ):
                found[Phase.EVALUATE][str(outcome)] += int(str(count))
        return {phase: counts for phase, counts in found.items() if counts}

    async def _last_outcomes(self, owner: str, phase: Phase) -> dict[str, int]:
        rows = await self._all("last_outcomes", clean(owner), PHASES[phase])
        return {str(outcome): int(str(count)) for outcome, count in rows}

    async def states(self, job: str) -> dict[State, int]:
        """Count the ended items of a job by the state of their newest scoring.

        In a run with several epochs, an item counts once for each ended epoch.
        """
        return {State(state): count for state, count in await self._all("states", clean(job))}

    async def item_states(self, job: str, epochs: int) -> dict[State, int]:
        """Count the ended items of a job by state; an item is not counted before all its epochs have ended."""
        if epochs == 1:
            return await self.states(job)
        found: Counter[State] = Counter()
        for (state, _), count in (await self.settled(job, epochs)).items():
            found[State(state)] += count
        return dict(found)

    async def settled(self, job: str, epochs: int) -> Counter[EndState]:
        """Count the items of a job by (state, outcome), each item once.

        Items that have not ended in every epoch are not counted.
        """
        found: Counter[EndState] = Counter()
        for repeats, count in await self._all("repeats", clean(job)):
            one = item_outcome([(state, outcome) for state, outcome in json.loads(repeats)], epochs)
            if one is not None:
                found[one] += count
        return found

    async def ended_from(self, job: str, since: datetime, epochs: int) -> int:
        """Count the items of a job whose last epoch ended at or after ``since``; rescores do not count."""
        return int((await self._all("ended_from", clean(job), micros(since), epochs))[0][0])

    async def error_counts(self, job: str) -> list[ErrorCount]:
        """Return how many items of a job failed with each error (kind and text), the most frequent error first.

        Texts that differ only in names of corpora, items and namespaces are one error.
        """
        rows = await self._all("failed_for", clean(job))
        causes = cause_texts((str(text), str(corpus), str(item)) for _, text, _, corpus, item in rows)
        found = Counter[tuple[str, str]]()
        for kind, text, count, *_ in rows:
            found[str(kind), causes[str(text)]] += int(str(count))
        return [ErrorCount(kind=kind, text=text, count=count) for (kind, text), count in found.most_common()]

    @cached_in_snapshot
    async def flagged(self, owner: str, phase: Phase) -> list[FlaggedItems]:
        """Count the items of a phase that have flags.

        There is one record for each combination of flags and outcome. Only the newest attempt of an item counts.
        """
        if not await self._any("any_flag"):
            return []
        rows = await self._all("flagged", clean(owner), PHASES[phase])
        return [FlaggedItems(tuple(json.loads(flags)), *rest) for flags, *rest in rows if flags is not None]

    @cached_in_snapshot
    async def repliers(self) -> dict[str, set[str]]:
        """Return, for each role, the models that replied in any phase or attempt of the run."""
        found: dict[str, set[str]] = {}
        for role, model in await self._all("repliers"):
            found.setdefault(role, set()).add(model)
        return found

    @cached_in_snapshot
    async def reply_models(self, owner: str, phase: Phase, role: str) -> dict[str, int]:
        """Count the replies in one role and one phase, by the model that the endpoint reported.

        The most frequent model comes first.
        """
        rows = await self._all("reply_models", clean(owner), PHASES[phase], role)
        return {str(model): int(str(count)) for model, count in rows}

    @cached_in_snapshot
    async def missing_verdicts(self, job: str) -> list[MissingVerdicts]:
        """Count the missing verdicts of a job by evaluator and reason, the most frequent first."""
        if not await self._any("any_unscored"):
            return []
        rows = await self._all("unscored_for", clean(job))
        return [
            MissingVerdicts(evaluator=str(name), reason=str(reason), count=int(count)) for name, reason, count in rows
        ]

    async def ended_since(self, job: str, entry: int, limit: int) -> list[tuple[str, str, int, int]]:
        """Return up to ``limit`` items of a job that ended after the row with the id ``entry``.

        Each tuple is (corpus, item, epoch, row id), oldest first.
        """
        return [
            (str(c), str(i), int(n), int(at))
            for c, i, n, at in await self._all("ended_since", clean(job), entry, limit)
        ]

    async def judged(self, job: str, generation: int | None = None) -> list[JudgedItem]:
        """Return the judge's verdict on each item of a job.

        ``generation`` chooses the scoring: 0 is the run itself, each rescore adds one. None takes the newest scoring of
        each item.
        """
        return [
            JudgedItem(corpus, item, epoch, from_json(labels), value, None if right is None else bool(right), *rest)
            for corpus, item, epoch, labels, value, right, *rest in await self._all("judged", clean(job), generation)
        ]

    async def verdict_history(self, key: Key) -> list[Verdict]:
        """Return the verdicts of every attempt of an evaluate phase, the newest attempt first.

        In each verdict, ``raw`` is the judge's full text instead of a reference to it.
        """
        with sqlite_errors_reported(self.path):
            return await read_verdict_history(self._connection, key)

    async def owners(self) -> dict[str, set[Phase]]:
        """Return a map from each owner of phase rows to the phases of its rows.

        An owner is a lane, a lane with its answering model, or a job.
        """
        found: dict[str, set[Phase]] = {}
        for name, number in await self._all("owners"):
            phases = found.setdefault(name, set())
            phases.update(
                {phase for code, phase in PHASE_OF.items() if (await self._all("owner_has_phase", number, code))[0][0]}
            )
        return found

    async def probes(self, lane: str) -> list[ProbeRow]:
        """Return the isolation checks of a lane in the order in which they were recorded."""
        return [
            ProbeRow(
                lane=name,
                corpus=corpus,
                attempt=n,
                kind=kind,
                passed=bool(ok),
                at=instant(at),
                data=decode(data),
                last=bool(last),
            )
            for name, corpus, n, kind, ok, at, data, last in await self._all("probes", clean(lane))
        ]

    async def events(self, kind: str | None = None) -> list[Event]:
        """Return the events of one kind, or of all kinds for None, oldest first."""
        return [event for _, event in await self.numbered_events() if kind in (None, event.kind)]

    @cached_in_snapshot
    async def numbered_events(self, *, after: int = 0) -> list[tuple[int, Event]]:
        """Return (id, event) for the events with an id above ``after``, oldest first."""
        return [
            (number, Event(kind=kind, scope=scope, message=message, at=instant(at), data=decode(data)))
            for number, kind, scope, message, at, data in await self._all("events", after)
        ]

    async def payload(self, reference: str) -> object:
        """Load a large JSON value that was stored separately from its row; None if it was removed.

        The references are in ``JournaledPhase.payloads`` and in ``Verdict.raw``.
        """
        with sqlite_errors_reported(self.path):
            return await read_payload(self._connection, reference)

    # ------------------------------------------------------------------ items

    async def values(self, job: str) -> AsyncGenerator[Values, None]:
        """Stream the states, labels and metric values of a job's ended items, sorted by (corpus, item, epoch)."""
        labels, shapes = await self.interned()
        async with aclosing(self._scores("values", job)) as chunks:
            async for rows in chunks:
                for shape, group in groupby(rows, key=itemgetter(6)):
                    yield columns_of(list(group), shapes[shape], labels)

    async def score_groups(self, job: str) -> AsyncGenerator[ScoreGroup, None]:
        """Stream the ended items of a job in groups that have the same state, outcome and labels.

        The order is undefined, so use the groups for sums only.
        """
        labels, shapes = await self.interned()
        async with aclosing(self._scores("alike", job)) as chunks:
            async for rows in chunks:
                for group in group_scores(rows, shapes, labels):
                    yield group

    async def items_without_value(self, job: str, metric: str) -> AsyncGenerator[ItemWithoutValue, None]:
        """Stream the ended items of a job to which ``metric`` does not apply, each with the reason.

        Failed items are left out.
        """
        labels, shapes = await self.interned()
        for shape, names in shapes.items():
            if metric not in names:
                continue
            place = 1 + len(pack([None])) * names.index(metric)
            async with aclosing(self._chunks("unvalued", VALUES_AT_ONCE, clean(job), shape, place)) as chunks:
                async for rows in chunks:
                    for corpus, item, epoch, state, number, data in rows:
                        reason = str(decode(data).get("reason") or "")
                        yield ItemWithoutValue(corpus, item, epoch, state, labels[number], reason)

    async def interned(self) -> Interned:
        """Return all sets of labels and all lists of metric names, by their numbers in the file."""
        labels = {number: from_json(data) for number, data in await self._all("all_labels")}
        return labels, {number: from_json(names) for number, names in await self._all("shapes")}

    async def _scores(self, query: str, job: str) -> AsyncGenerator[list[SqlRow], None]:
        """Yield lists of score rows. Each ended item has one row per epoch, from its newest scoring."""
        rescored = bool((await self._all("rescored", clean(job)))[0][0])
        async with aclosing(
            self._chunks(f"newest_{query}" if rescored else query, VALUES_AT_ONCE, clean(job))
        ) as chunks:
            async for rows in chunks:
                yield rows

    async def items(self, chain: Chain) -> AsyncGenerator[ItemRecord, None]:
        """Stream the items of a job that have at least one row, sorted by (corpus, item, epoch).

        If an item failed in an early phase, ``evaluate`` is the only later phase in its record.
        """
        held: list[PhaseRow] = []
        async with aclosing(self._chunks("items", ITEMS_AT_ONCE * len(PHASE_OF), *_names(chain))) as chunks:
            async for rows in chunks:
                held += [PhaseRow(*row) for row in rows]
                last = held[-1].unit
                ended = [row for row in held if row.unit != last]
                held = [row for row in held if row.unit == last]
                for record in await self._records(chain, ended):
                    yield record
        for record in await self._records(chain, held):
            yield record

    async def item(self, chain: Chain, item: str, *, corpus: str | None = None) -> list[ItemRecord]:
        """Return the records of one item, one per epoch; empty if the journal has no row of the item.

        If ``corpus`` is None, this scans the table.
        """
        return await self._records(chain, await self._item_rows(chain, item, corpus))

    async def attempts(self, chain: Chain, item: str, *, corpus: str | None = None) -> list[JournaledPhase]:
        """Return every attempt of every phase of an item with its calls, sorted by epoch, phase and attempt."""
        rows = await self._item_rows(chain, item, corpus)
        entries = await self._entries(chain, rows)
        calls = await self._calls(row.entry for row in rows)
        return [replace(entries[row.entry], calls=tuple(calls.get(row.entry, ()))) for row in rows]

    async def _item_rows(self, chain: Chain, item: str, corpus: str | None) -> list[PhaseRow]:
        where = () if corpus is None else (clean(corpus),)
        rows = await self._all("item_in" if where else "item", *_names(chain), clean(item), *where)
        return [PhaseRow(*row) for row in rows]

    async def _records(self, chain: Chain, rows: Sequence[PhaseRow]) -> list[ItemRecord]:
        if not rows:
            return []
        units = list(dict.fromkeys(row.unit for row in rows))
        # oldest generation first, so the newest one stays
        found = [ScoreRow(*row) for row in await self._all("scores", clean(chain.job), to_json(units))]
        for unit in units:
            if "\0" in f"{unit[0]}{unit[1]}":
                found += [ScoreRow(*row) for row in await self._all("scores_of_one", clean(chain.job), *unit)]
        scores = {(score.corpus, score.item, score.epoch): score for score in found}
        parts = Parts(
            entries=await self._entries(chain, rows),
            scores=scores,
            verdicts=await self.verdicts(score.entry for score in scores.values()),
            calls=await self._calls(row.entry for row in rows),
        )
        return [record_of(list(group), parts) for _, group in groupby(rows, key=attrgetter("unit"))]

    async def _entries(self, chain: Chain, rows: Sequence[PhaseRow]) -> dict[int, JournaledPhase]:
        owner = {Phase.SEARCH: chain.lane, Phase.ANSWER: chain.answering, Phase.EVALUATE: chain.job}
        found = await self._all("entries", to_json([row.entry for row in rows]))
        columns = {number: EntryColumns(*rest) for number, *rest in found}
        return {
            row.entry: entry_of(
                Key(owner=owner[row.phase], phase=row.phase, corpus=row.corpus, unit=row.item, epoch=row.epoch),
                row.attempt,
                row.outcome,
                columns[row.entry],
            )
            for row in rows
        }

    async def verdicts(self, entries: Iterable[int]) -> dict[int, list[Verdict]]:
        """Return the verdicts of evaluate rows, by the id of the row; ``raw`` is a reference to the judge's text."""
        found: dict[int, list[Verdict]] = {}
        for row in map(VerdictRow._make, await self._all("verdicts", to_json(list(entries)))):
            found.setdefault(row.entry, []).append(row.verdict())
        return found

    async def _calls(self, entries: Iterable[int]) -> dict[int, list[Call]]:
        found: dict[int, list[Call]] = {}
        for row in map(CallRow._make, await self._all("calls", to_json(list(entries)))):
            found.setdefault(row.entry, []).append(row.call())
        return found

    # ------------------------------------------------------------------ corpora and the call log

    async def corpora(self, lane: str) -> AsyncGenerator[CorpusRecord, None]:
        """Stream the corpora of a lane, sorted by id.

        In a merged run, a corpus has one record for each source journal with rows of the corpus.
        """
        held: list[StepColumns] = []
        async with aclosing(self._chunks("corpora", ITEMS_AT_ONCE, clean(lane))) as chunks:
            async for rows in chunks:
                held += [StepColumns(*row) for row in rows]
                last = (held[-1].corpus, held[-1].origin)
                for facts in await self._facts(row for row in held if (row.corpus, row.origin) != last):
                    yield facts
                held = [row for row in held if (row.corpus, row.origin) == last]
        for facts in await self._facts(held):
            yield facts

    async def _facts(self, rows: Iterable[StepColumns]) -> list[CorpusRecord]:
        groups = [list(group) for _, group in groupby(rows, key=attrgetter("corpus", "origin"))]
        calls = await self._calls(row.id for group in groups for row in group)
        found = []
        for group in groups:
            steps = [row for row in group if row.kind != CorpusKind.CALLS]
            if steps:
                attempts = [tuple(map(corpus_row_of, rows)) for _, rows in groupby(steps, key=attrgetter("attempt"))]
                found.append(
                    CorpusRecord(
                        lane=steps[-1].lane,
                        corpus=steps[-1].corpus,
                        attempts=len(attempts),
                        last=attempts[-1],
                        uncleared=tuple(
                            rows for rows in attempts if CorpusKind.CLEARED not in {row.kind for row in rows}
                        ),
                        spent=totals_by_role(call for row in group for call in calls.get(row.id, ())),
                    )
                )
        return found

    async def calls(self, owner: str) -> AsyncGenerator[Call, None]:
        """Stream the logged calls of an owner.

        A lane owns the calls of ingest and search. A lane with its answering model owns the calls of answer. A job owns
        the calls of evaluate.
        """
        async with aclosing(self._chunks("owner_calls", VALUES_AT_ONCE, clean(owner))) as chunks:
            async for rows in chunks:
                for row in rows:
                    yield CallRow(*row).call()

    @cached_in_snapshot
    async def hit_counts(self, lane: str) -> HitCounts:
        """Count the searches of a lane, their hits, their flags, and the hits that match no memory of the corpus."""
        _, _, hits, unmapped, searches, flagged, long = await self._searched(lane)
        flags = {
            str(flag): FlagCount(int(count), tuple(dict.fromkeys((str(first), str(last)))))
            for flag, count, first, last in (await self._all("search_flags", clean(lane)) if flagged else ())
        }
        texts = await self._all("replies", clean(lane)) if flags.keys() & {NO_HITS, WARNED} else ()
        replies = {str(text): int(count) for text, _, count in texts if text is not None}
        warnings = {str(text): int(count) for _, text, count in texts if text is not None}
        counts = HitCounts(
            hits=hits, unmapped=unmapped, searches=searches, flags=flags, replies=replies, warnings=warnings
        )
        if not long:
            return counts
        async with aclosing(self._chunks("long_searches", VALUES_AT_ONCE, clean(lane))) as chunks:
            async for rows in chunks:
                for data, item in rows:
                    found = decode(data)
                    searches += 1
                    for flag in list_texts(found.get("flags")):
                        before = flags.get(flag, FlagCount(0, (str(item),)))
                        flags[flag] = replace(before, count=before.count + 1)
                    retrieved = found.get("retrieved")
                    if isinstance(retrieved, list):
                        hits += len(retrieved)
                        unmapped += int(str(found.get("unmapped", 0)))
        return replace(counts, hits=hits, unmapped=unmapped, searches=searches)

    @cached_in_snapshot
    async def _searched(self, lane: str) -> tuple[int, ...]:
        return tuple(map(int, (await self._all("searched", clean(lane)))[0]))

    async def spending(self) -> tuple[Decimal, int]:
        """Return the total cost of all calls in USD, and the number of billed calls whose cost is unknown."""
        with sqlite_errors_reported(self.path):
            return await read_spending(self._connection)

    @cached_in_snapshot
    async def phase_spent(self, owner: str, phase: Phase) -> PhaseTotals:
        """Return the total calls, tokens, cost and time of one phase of an owner, over all items and attempts."""
        if phase is Phase.SEARCH:
            units, time_us, _, _, short, _, long = await self._searched(owner)
            succeeded = short + long
        else:
            parts = await self._answered(owner, phase)
            units, time_us, succeeded = (sum(part[place] for part in parts) for place in (1, 2, 5))
        calls, tokens, unknown_costs, cost = 0, 0, 0, Decimal(0)
        paid = await self._all("phase_calls", clean(owner), PHASES[phase]) if await self._any("any_call") else ()
        for cost_usd, billed, count, used in paid:
            calls, tokens = calls + int(count), tokens + int(used)
            unknown_costs += int(count) if billed and cost_usd is None else 0
            cost += Decimal(cost_usd or 0) * int(count)
        return PhaseTotals(
            units=units,
            succeeded=succeeded,
            calls=calls,
            tokens=tokens,
            cost_usd=f"{cost:f}",
            unknown_costs=unknown_costs,
            time_us=time_us,
        )

    async def uncounted_costs(self, lane: str, answering: str, job: str) -> dict[str, tuple[Decimal, int]]:
        """Return, for each owner, the cost of its calls that are not part of an item's cost.

        The cost is (USD, number of calls with unknown cost). The calls are those of failed and unfinished items, of
        earlier attempts, and of no item, such as the calibration of a judge. Calls of a lane for no item are left out,
        because they belong to the ingest.
        """
        found: dict[str, tuple[Decimal, int]] = {}
        for owner, usd, billed, calls in await self._all("uncounted_costs", clean(lane), clean(answering), clean(job)):
            cost, unknown = found.get(str(owner), (Decimal(0), 0))
            unknown += int(calls) if billed and usd is None else 0
            found[str(owner)] = cost + Decimal(usd or 0) * int(calls), unknown
        return found

    async def lacking_costs(self, lane: str, answering: str, job: str) -> tuple[Decimal, Decimal]:
        """Return the known costs in USD of the ended items that also have a call of unknown cost.

        The first sum contains all calls of these items. The second contains the calls of the evaluations in which a
        call has an unknown cost.
        """
        every = judged = Decimal(0)
        for usd, calls, is_judged in await self._all("lacking_costs", clean(lane), clean(answering), clean(job)):
            every += Decimal(usd) * int(calls)
            judged += Decimal(usd) * int(calls) if is_judged else 0
        return every, judged

    async def contexts(self, answering: str) -> dict[str, tuple[int, int]]:
        """Return, for each corpus, the number of answers and the total tokens of their contexts.

        ``answering`` names a lane with its answering model.
        """
        return {name: (n, tokens) for name, _, _, n, tokens, _ in await self._answered(answering, Phase.ANSWER) if n}

    @cached_in_snapshot
    async def _answered(self, owner: str, phase: Phase) -> list[SqlRow]:
        return await self._all("answered", clean(owner), PHASES[phase])

    @cached_in_snapshot
    async def spent(self, owner: str) -> dict[str, UsageTotals]:
        """Return the totals of an owner's calls for each role; every attempt and retry counts."""
        total: dict[str, UsageTotals] = {}
        if not await self._any("any_call"):
            return total
        async with aclosing(self._chunks("owner_calls", VALUES_AT_ONCE, clean(owner))) as chunks:
            async for rows in chunks:
                part = totals_by_role(CallRow(*row).call() for row in rows)
                total.update({role: total[role] + spent if role in total else spent for role, spent in part.items()})
        return total

    # ------------------------------------------------------------------ SQLite

    async def rows(self, statement: str, *columns: str | int | None) -> list[SqlRow]:
        """Run one statement of a ``.sql`` file of this package and return its rows."""
        with sqlite_errors_reported(self.path):
            return list(await self._connection.execute_fetchall(statement, columns))  # type: ignore[arg-type]

    async def _all(self, query: str, *columns: str | int | None) -> list[SqlRow]:
        return await self.rows(READ[query], *columns)

    @cached_in_snapshot
    async def _any(self, query: str) -> bool:
        return bool((await self._all(query))[0][0])

    async def _chunks(self, query: str, size: int, *columns: str | int) -> AsyncGenerator[list[SqlRow], None]:
        def begin(raw: sqlite3.Connection) -> tuple[sqlite3.Cursor, list[SqlRow]]:
            cursor = raw.execute(READ[query], columns)
            return cursor, cursor.fetchmany(size)

        with sqlite_errors_reported(self.path):
            cursor, rows = await run_in_thread(self._connection, begin)
            try:
                while rows:
                    yield rows
                    rows = (
                        await run_in_thread(self._connection, lambda _: cursor.fetchmany(size))
                        if rows[size - 1 :]
                        else []
                    )
            finally:
                if rows:  # the stream was left before its end
                    await run_in_thread(self._connection, lambda _: cursor.close())


def _names(chain: Chain) -> tuple[str, str, str]:
    return clean(chain.lane), clean(chain.answering), clean(chain.job)


def _index_wait(stored: object, stamp: int) -> IndexWaiting | None:
    if not isinstance(stored, list):
        return None
    corpora, corpus, since_us, timeout_s = stored
    return IndexWaiting(
        corpora=corpora, corpus=corpus, waited_s=max(0.0, (stamp - since_us) / 1e6), timeout_s=timeout_s
    )
