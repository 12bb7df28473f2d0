"""Fourteen questions that every provider must answer before a number about it means anything.

The same list is ``bench doctor NAME`` and the contract suite of the tests::

    report = await examine(config, context)
    report.ok, [(check.name, check.outcome, check.detail) for check in report.checks]

It uses namespaces of its own and leaves nothing behind unless asked to.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import anyio

from bench.errors import BenchError, CallError, NotReady, Rejected
from bench.events import redact, redactor
from bench.model import Hit, Ingested, Memory, Query, Space
from bench.providers.batching import batches, pieces, whole_id
from bench.providers.opening import open_provider
from bench.providers.protocol import (
    Counts,
    Finishes,
    Prepares,
    Provider,
    ProviderContext,
    Versioned,
    merge_captures,
    merge_ingested,
)
from bench.providers.scoping import namespace

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig

Outcome = Literal["pass", "fail", "skip"]

FACTS = (
    ("Ana moved to Lisbon in May because of a new job at a harbour office.", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
    ("Bruno is allergic to peanuts and carries a spray wherever he goes.", datetime(2023, 6, 2, 9, 5, tzinfo=UTC)),
    ("Carla adopted a grey cat called Miso from the shelter on Sunday.", datetime(2023, 7, 16, 18, 30, tzinfo=UTC)),
)
OTHER = "Dmitri repairs old clocks in a workshop behind the station."
AWKWARD = (
    "Line one\nline \"two\" with 'quotes' and \\ back\\slashes; \U0001f408 cat, \u05e2\u05d1\u05e8\u05d9\u05ea, "
    "${x} and $.x, {{y}} & <b>\u00e9</b> zephyrine"
)
LONG = "The marmalade ledger begins here. " + "Every line of the marmalade ledger names one jar and one shelf. " * 156


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question and its answer."""

    name: str
    outcome: Outcome
    detail: str = ""
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The answers in order."""

    provider: str
    version: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """True when no check failed; a skipped one says why."""
        return all(check.outcome != "fail" for check in self.checks)

    def as_json(self) -> dict[str, object]:
        """The tree of ``bench doctor --json``."""
        return {
            "provider": self.provider,
            "version": self.version,
            "ok": self.ok,
            "checks": [
                {
                    "name": check.name,
                    "outcome": check.outcome,
                    "detail": check.detail,
                    "latency_ms": round(check.latency_ms, 3),
                }
                for check in self.checks
            ],
        }


class Failed(Exception):
    """The provider does not do what this check asks."""


class Skipped(Exception):
    """The check does not apply to this provider."""


async def examine(config: ProviderConfig, context: ProviderContext, *, keep: bool = False) -> DoctorReport:
    """Open the provider and ask every question; a failed check does not end the list.

    Raises:
        ConfigError: the provider cannot be built at all.
    """
    with ExitStack() as stack:
        lines: list[str] = []
        stack.enter_context(_listening(lines))
        async with open_provider(config, context) as provider:
            examination = Examination(config, provider, lines)
            try:
                checks = [await examination.ask(name, question) for name, question in QUESTIONS]
            finally:
                if not keep:
                    await examination.leave()
    return DoctorReport(provider=config.name, version=examination.version, checks=tuple(checks))


@dataclass(slots=True)
class Room:
    """One namespace of the examination and what it was given."""

    space: Space
    ingested: Ingested = field(default_factory=Ingested)


class Examination:
    """The state that the questions share."""

    def __init__(self, config: ProviderConfig, provider: Provider, log: list[str]) -> None:
        self.config = config
        self.provider = provider
        self.log = log
        self.version = provider.version
        self.run_id = f"doctor-{uuid.uuid4().hex[:8]}"
        self.memories = [
            Memory(id=f"m{index}-{uuid.uuid4().hex[:8]}", content=text, when=when, session_id=f"s{index}")
            for index, (text, when) in enumerate(FACTS)
        ]
        self.first = self.room("first")
        self.second = self.room("second")
        self.texts: list[str] = []
        self.rewrites = False
        """the service stores something else than it was given, so texts cannot be compared"""

    def room(self, corpus: str, attempt: int = 1) -> Room:
        """A namespace that nobody has used."""
        name = namespace(
            self.config, run_id=self.run_id, benchmark="doctor", lane="doctor", corpus=corpus, attempt=attempt
        )
        return Room(Space(namespace=name, run_id=self.run_id, benchmark="doctor", corpus=corpus, attempt=attempt))

    async def ask(self, name: str, question: Question) -> Check:
        """Ask one question and time the answer."""
        started = time.perf_counter()
        outcome: Outcome = "pass"
        try:
            detail = await question(self)
        except Skipped as skipped:
            outcome, detail = "skip", str(skipped)
        except Failed as failed:
            outcome, detail = "fail", str(failed)
        except BenchError as error:
            outcome, detail = "fail", f"{error.kind}: {error}"
        self.texts.append(detail)
        took_ms = (time.perf_counter() - started) * 1000
        return Check(name=name, outcome=outcome, detail=redact(detail), latency_ms=took_ms)

    async def leave(self) -> None:
        """Clear what was made; a provider that cannot clear keeps it."""
        for room in (self.first, self.second):
            try:
                await self.provider.clear(room.space)
            except CallError as error:
                self.texts.append(str(error))

    async def prepare(self, room: Room) -> None:
        """Set a namespace up."""
        if isinstance(self.provider, Prepares):
            room.space = replace(room.space, captures=dict(await self.provider.prepare(room.space)))

    async def fill(self, room: Room, memories: Sequence[Memory]) -> None:
        """Add memories and wait until they can be found."""
        added = Ingested()
        for batch in batches(pieces(memories, self.provider.batching), self.provider.batching):
            added = merge_ingested(added, await self.provider.ingest(room.space, batch))
        if isinstance(self.provider, Finishes):
            added = merge_ingested(added, await self.provider.finish(room.space, added))
        if added.rejected:
            raise Failed(f"rejected: {dict(added.rejected)}")
        room.space = replace(room.space, captures=merge_captures(room.space.captures, added.captures))
        room.ingested = merge_ingested(room.ingested, added)

    async def until_ready(self, room: Room, wanted: Sequence[str]) -> str:
        """Ask the status calls, then read; give how long it took.

        Raises:
            NotReady: not in time.
        """
        wait, started = self.provider.wait, time.perf_counter()
        pause_s, detail = wait.interval_s, ""
        with anyio.move_on_after(wait.timeout_s):
            while True:
                seen = await self.provider.ready(room.space, room.ingested)
                if seen.state == "failed":
                    raise Failed(f"the provider says that indexing failed: {seen.detail}")
                room.space = replace(room.space, captures=merge_captures(room.space.captures, seen.captures))
                detail = seen.detail
                if seen.state == "ready" and await self._readable(room, wanted):
                    await anyio.sleep(wait.settle_s)
                    return f"after {time.perf_counter() - started:.1f} s"
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, wait.max_interval_s)
        raise NotReady(f"not ready within {wait.timeout_s:g} s: {detail or 'nothing found'}")

    async def _readable(self, room: Room, wanted: Sequence[str]) -> bool:
        if self.provider.wait.by != "sentinel":
            return True
        return all([bool(await self.hits(room, text)) for text in wanted])

    async def hits(self, room: Room, text: str, k: int = 3) -> tuple[Hit, ...]:
        """Search a namespace."""
        return (await self.provider.search(room.space, Query(text=text, k=k, key=text[:40]))).hits

    async def held(self, room: Room, text: str) -> int:
        """How much a namespace holds, by its count or else by a search."""
        if isinstance(self.provider, Counts):
            return await self.provider.count(room.space)
        return len(await self.hits(room, text, 10))

    def needs_store(self) -> None:
        """Skip what cannot be asked of a provider that remembers nothing."""
        if not self.provider.keeps_store:
            raise Skipped("keeps no store")


Question = Callable[[Examination], Awaitable[str]]


async def _version(exam: Examination) -> str:
    if isinstance(exam.provider, Versioned):
        exam.version = await exam.provider.upstream_version()
        if not exam.version.strip():
            raise Failed("the version is empty")
    return exam.version


async def _setup(exam: Examination) -> str:
    await exam.prepare(exam.first)
    await exam.prepare(exam.first)
    await exam.prepare(exam.second)
    return f"captured {', '.join(exam.first.space.captures)}" if exam.first.space.captures else "nothing to set up"


async def _empty(exam: Examination) -> str:
    exam.needs_store()
    held = await exam.held(exam.first, FACTS[0][0])
    found = len(await exam.hits(exam.first, FACTS[0][0]))
    if held or found:
        raise Failed(f"a new namespace holds {held}, a search finds {found}")
    return "holds nothing"


async def _add(exam: Examination) -> str:
    await exam.fill(exam.first, exam.memories)
    return f"{len(exam.memories)} memories"


async def _ready(exam: Examination) -> str:
    if not exam.provider.keeps_store:
        raise Skipped("keeps no store")
    return await exam.until_ready(exam.first, [text for text, _ in FACTS])


async def _found(exam: Examination) -> str:
    exam.needs_store()
    mapped = True
    for memory in exam.memories:
        hits = await exam.hits(exam.first, memory.content)
        if not hits:
            raise Failed(f'nothing found for "{memory.content[:40]}"')
        own = [hit for hit in hits if memory.id in map(whole_id, hit.source_ids)]
        mapped = mapped and any(hit.source_ids for hit in hits)
        if any(hit.source_ids for hit in hits) and not own:
            raise Failed(f'"{memory.content[:40]}" is not among its first 3 hits by id')
        exam.rewrites = exam.rewrites or not any(hit.content == memory.content for hit in own or hits)
        _check_date(exam, memory, own)
    return "by id" if mapped else "by text; hits carry no id that we sent, so retrieval metrics do not apply"


def _check_date(exam: Examination, memory: Memory, own: Sequence[Hit]) -> None:
    endpoints = exam.config.endpoints
    declared = endpoints is not None and endpoints.search.response.when is not None
    for hit in own[:1]:
        if hit.when is None and declared:
            raise Failed(f"the hit of {memory.id} has no date, though search.response.when is given")
        if hit.when is not None and memory.when is not None and hit.when.date() != memory.when.date():
            raise Failed(f"the hit of {memory.id} is dated {hit.when.isoformat()}, sent {memory.when.isoformat()}")


async def _cut(exam: Examination) -> str:
    if exam.provider.unbounded:
        raise Skipped("returns everything by design")
    exam.needs_store()
    counts = [len(await exam.hits(exam.first, FACTS[0][0], k)) for k in (1, 2)]
    if counts[0] != 1 or counts[1] > 2:
        raise Failed(f"k = 1 gives {counts[0]}, k = 2 gives {counts[1]}")
    return f"1 and {counts[1]}"


async def _apart(exam: Examination) -> str:
    exam.needs_store()
    found = await exam.hits(exam.second, FACTS[0][0])
    if found:
        raise Failed(f"a second namespace finds {len(found)} memories of the first")
    await exam.fill(exam.second, [Memory(id="other-1", content=OTHER, when=FACTS[0][1])])
    await exam.until_ready(exam.second, [OTHER])
    return "sees nothing of the first"


async def _again(exam: Examination) -> str:
    exam.needs_store()
    rule = exam.provider.on_unknown
    if rule != "repeat":
        await exam.provider.clear(exam.first.space)
        exam.first = exam.room("first", attempt=2)
        await exam.prepare(exam.first)
    await exam.fill(exam.first, exam.memories)
    await exam.until_ready(exam.first, [text for text, _ in FACTS])
    hits = await exam.hits(exam.first, FACTS[1][0], 10)
    sources = [source for hit in hits for source in set(map(whole_id, hit.source_ids))]
    if rule == "repeat" and len(sources) != len(set(sources)):
        raise Failed(f"on_unknown says repeat, but a repeated batch is stored twice: {sources}")
    return f"{rule}: each memory once" if sources else rule


async def _survives(exam: Examination) -> str:
    exam.needs_store()
    if exam.rewrites:
        raise Skipped("the service rewrites what it stores")
    awkward = [Memory(id="awkward-1", content=AWKWARD), Memory(id="long-1", content=LONG[:10_000])]
    dated = [replace(memory, when=FACTS[0][1]) for memory in awkward]
    await exam.fill(exam.first, dated)
    await exam.until_ready(exam.first, [memory.content for memory in dated])
    for memory in pieces(dated, exam.provider.batching):
        hits = await exam.hits(exam.first, memory.content[:200], 10)
        if all(hit.content != memory.content for hit in hits):
            shown = json.dumps([hit.content[:60] for hit in hits], ensure_ascii=False)
            raise Failed(f"{memory.id} does not come back as it was sent; found {shown}")
    return "newlines, quotes, emoji, right-to-left text, placeholders, 10,000 characters"


async def _nothing_asked(exam: Examination) -> str:
    try:
        found = await exam.hits(exam.first, "")
    except Rejected as error:
        return f"Rejected: {str(error)[:80]}"
    return f"{len(found)} hits"


async def _clear(exam: Examination) -> str:
    if not exam.provider.capabilities.clear:
        raise Skipped("declares that it cannot clear")
    await exam.provider.clear(exam.first.space)
    await exam.provider.clear(exam.first.space)
    if not exam.provider.keeps_store:
        return "nothing to clear"
    await exam.prepare(exam.first)
    held = await exam.held(exam.first, FACTS[0][0])
    if held:
        raise Failed(f"{held} memories are left after clear")
    return "twice; nothing is left"


async def _other_lives(exam: Examination) -> str:
    exam.needs_store()
    found = await exam.hits(exam.second, OTHER)
    if not found:
        raise Failed("clearing one namespace emptied the other")
    return "still there"


async def _no_secret(exam: Examination) -> str:
    kept = [repr((room.space.captures, room.ingested)) for room in (exam.first, exam.second)]
    for place, texts in (("an error or detail", exam.texts), ("the journal", kept), ("the log", exam.log)):
        if any(redactor.holds_secret(text) for text in texts):
            raise Failed(f"a secret stands in {place}")
    return "in no log, journal or error"


QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("version", _version),
    ("setup twice", _setup),
    ("empty namespace", _empty),
    ("add", _add),
    ("ready", _ready),
    ("found by own text", _found),
    ("k is kept", _cut),
    ("namespaces apart", _apart),
    ("adding again", _again),
    ("text survives", _survives),
    ("empty query", _nothing_asked),
    ("clear", _clear),
    ("other namespace lives", _other_lives),
    ("no secret shown", _no_secret),
)


class _listening(logging.Handler):  # noqa: N801  used as a context manager
    """Collect what is logged while the block runs."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(str(record.msg))

    def __enter__(self) -> _listening:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger().removeHandler(self)
