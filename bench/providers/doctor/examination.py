"""The state of a doctor run, its report, and helpers for its checks.

The helpers fill a namespace, wait for its index, and search it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import anyio

from bench.errors import BenchError, CallError, MappingError, NotReady, PluginFault, Unavailable
from bench.events import redact
from bench.model import Found, Hit, Ingested, Memory, Query, Space
from bench.providers.adapters import is_plugin
from bench.providers.batching import batches, pieces, with_split_rule
from bench.providers.namespaces import namespace
from bench.providers.plugin_guard import error_text
from bench.providers.protocol import Counts, Finishes, Prepares, Provider, merge_captures, merge_ingested
from bench.visible_text import counted

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


Outcome = Literal["pass", "fail", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """The result of one check of the doctor."""

    name: str
    outcome: Outcome
    detail: str = ""
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The results of all checks, in the order in which they ran."""

    provider: str
    version: str
    checks: tuple[DoctorCheck, ...]
    refused: bool = False
    """True if the provider rejects the API key or the account's quota is used up; the remaining checks cannot run"""
    hung: DoctorCheck | None = None
    """the check during which the provider did not respond in time; None if it always responded"""
    address: str = ""
    """URL of the service; empty if the provider has no URL"""

    @property
    def ok(self) -> bool:
        """Return True if no check failed. Skipped checks do not count as failed."""
        return all(check.outcome != "fail" for check in self.checks)

    def as_json(self) -> dict[str, object]:
        """Return the report as JSON for ``bench doctor --json``."""
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


SAMPLE_FACTS = (
    ("Ana moved to Lisbon in May because of a new job at a harbour office.", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
    ("Bruno is allergic to peanuts and carries a spray wherever he goes.", datetime(2023, 6, 2, 9, 5, tzinfo=UTC)),
    ("Carla adopted a grey cat called Miso from the shelter on Sunday.", datetime(2023, 7, 16, 18, 30, tzinfo=UTC)),
)
"""three memories with dates; no two of them share a word that carries meaning"""
TIMEOUT = "timeout"
"""kind of the error that is raised when a response does not arrive in time"""
OTHER = "Dmitri repairs old clocks in a workshop behind the station."


EMPTY = "empty namespace"


class CheckFailed(Exception):
    """Raised by a check that the provider does not pass; the message is the reason."""


class CheckSkipped(Exception):
    """Raised by a check that does not apply to this provider; the message is the reason."""


@dataclass(slots=True)
class ScratchNamespace:
    """One namespace that the doctor uses, with the memories that were added to it."""

    space: Space
    ingested: Ingested = field(default_factory=Ingested)
    used: bool = False
    """True if something was set up or added, so that the namespace must be cleared at the end"""


class Examination:
    """The state that all checks of one doctor run share, with helpers for the checks."""

    def __init__(self, config: ProviderConfig, provider: Provider, log: list[str], tell: Callable[[str], None]) -> None:
        self.config = config
        self.provider = provider
        self.batching = with_split_rule(config.ingest, provider.batching)
        self.log = log
        self.tell = tell
        """called with the name of each step as it begins"""
        self.version = provider.version
        self.run_id = f"doctor-{uuid.uuid4().hex[:8]}"
        self.memories = [
            Memory(id=f"m{index}-{uuid.uuid4().hex[:8]}", content=text, when=when, session_id=f"s{index}")
            for index, (text, when) in enumerate(SAMPLE_FACTS)
        ]
        self.first = self.new_namespace("first")
        self.second = self.new_namespace("second")
        self.texts: list[str] = []
        self.rewrites = False
        """True if the service changes the texts that it stores, so that texts cannot be compared"""
        self.refused = False
        self.hung: DoctorCheck | None = None
        """the check during which the provider did not respond in time; no further check calls the provider"""
        self._passed: set[str] = set()
        """names of the checks that have passed"""
        self._failed_checks: dict[str, str] = {}
        """name of a failed or skipped check -> reason why checks that depend on it cannot run"""
        self._unreachable = ""
        """reason why no further check can call the provider; empty while calls are possible"""

    @property
    def single(self) -> bool:
        """Return True if the service has only one namespace."""
        return self.config.scoping.single

    def new_namespace(self, corpus: str, attempt: int = 1) -> ScratchNamespace:
        """Return a new, unused namespace with a unique name."""
        name = namespace(
            self.config,
            journal=self.run_id,
            run_id=self.run_id,
            benchmark="doctor",
            lane="doctor",
            corpus=corpus,
            attempt=attempt,
        )
        return ScratchNamespace(
            Space(namespace=name, run_id=self.run_id, benchmark="doctor", corpus=corpus, attempt=attempt)
        )

    async def run(self, check: CheckDefinition) -> DoctorCheck:
        """Run one check, measure its time, and return its result. Skip the check if it depends on a failed check."""
        started = time.perf_counter()
        outcome: Outcome = "pass"
        hung = False
        try:
            self._require(check)
            self.tell(check.name)
            detail = await check.run(self)
            self._passed.add(check.name)
        except CheckSkipped as skipped:
            outcome, detail = "skip", str(skipped)
        except CheckFailed as failed:
            outcome, detail = "fail", str(failed)
        except BenchError as error:
            outcome, detail = "fail", f"{error.kind}: {error}{_config_hint(error)}"
            self._unreachable = f'not run, because of "{check.name}"' if is_unreachable(error) else ""
            self.refused = self.refused or is_refusal(error)
            hung = error.kind == TIMEOUT
        except Exception as error:
            if not is_plugin(self.config):
                raise
            outcome, detail = "fail", f"{PluginFault.kind}: {error_text(error)}"
        if outcome == "fail" and self.single and check.name == EMPTY:
            self.first.used = False
            self._unreachable = "not run: the only namespace of the service may contain memories, so it is not changed"
        if outcome == "fail":
            self._failed_checks[check.name] = f'needs "{check.name}", which failed'
        self.texts.append(detail)
        took_ms = (time.perf_counter() - started) * 1000
        result = DoctorCheck(name=check.name, outcome=outcome, detail=redact(detail), latency_ms=took_ms)
        if hung:
            self.hung = result
        return result

    def _require(self, check: CheckDefinition) -> None:
        reason = self._unreachable if check.calls_provider else ""
        reason = reason or next((self._failed_checks[name] for name in check.needs if name in self._failed_checks), "")
        if reason:
            self._failed_checks.setdefault(check.name, reason)
            raise CheckSkipped(reason)

    @property
    def is_filled(self) -> bool:
        """Return True if the checks have shown that the first namespace contains memories."""
        return self._passed.issuperset(("found by own text", "adding again"))

    async def clear_namespaces(self) -> None:
        """Clear the namespaces that the doctor used. If a namespace cannot be cleared, only report this."""
        for scratch in (self.first, self.second):
            try:
                if scratch.used:
                    self.tell(f"clearing {scratch.space.namespace}")
                    await self.provider.clear(scratch.space)
            except CallError as error:
                self.texts.append(str(error))
                self.tell(redact(f"{scratch.space.namespace} was not cleared: {error}"))
                if is_unreachable(error):
                    return
            except Exception as error:
                if not is_plugin(self.config):
                    raise
                self.tell(f"{scratch.space.namespace} was not cleared: {error_text(error)}")

    async def prepare(self, scratch: ScratchNamespace) -> None:
        """Set up a namespace, if the provider needs this."""
        scratch.used = scratch.used or isinstance(self.provider, Prepares)
        if isinstance(self.provider, Prepares):
            scratch.space = replace(scratch.space, captures=dict(await self.provider.prepare(scratch.space)))

    async def fill(self, scratch: ScratchNamespace, memories: Sequence[Memory]) -> None:
        """Add memories to a namespace without waiting until they can be found.

        Raises:
            CheckFailed: the service rejected a memory.
        """
        scratch.used = True
        added = Ingested()
        for batch in batches(pieces(memories, self.batching), self.batching):
            added = merge_ingested(added, await self.provider.ingest(scratch.space, batch))
        if isinstance(self.provider, Finishes):
            added = merge_ingested(added, await self.provider.finish(scratch.space, added))
        if added.rejected:
            reasons = "; ".join(f"{memory}: {reason}" for memory, reason in added.rejected.items())
            raise CheckFailed(f"the service rejected {counted(len(added.rejected), 'memor(y|ies)')}: {reasons}")
        scratch.space = replace(scratch.space, captures=merge_captures(scratch.space.captures, added.captures))
        scratch.ingested = merge_ingested(scratch.ingested, added)

    async def until_ready(self, scratch: ScratchNamespace, wanted: Sequence[str]) -> str:
        """Wait until the memories of a namespace can be found; return a text with the duration.

        Raises:
            NotReady: the memories cannot be found within the time limit.
            CheckFailed: the provider reports that indexing failed.
        """
        wait, started = self.provider.wait, time.perf_counter()
        pause_s, detail = wait.interval_s, ""
        with anyio.move_on_after(wait.timeout_s):
            while True:
                seen = await self.provider.ready(scratch.space, scratch.ingested)
                if seen.state == "failed":
                    raise CheckFailed(f"the provider reports that indexing failed: {seen.detail}")
                scratch.space = replace(scratch.space, captures=merge_captures(scratch.space.captures, seen.captures))
                detail = seen.detail
                if seen.state == "ready" and await self._readable(scratch, wanted):
                    await anyio.sleep(wait.settle_s)
                    return f"after {time.perf_counter() - started:.1f} s"
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, wait.max_interval_s)
        raise NotReady(f"not ready within {wait.timeout_s:g} s: {detail or 'nothing found'}")

    async def _readable(self, scratch: ScratchNamespace, wanted: Sequence[str]) -> bool:
        if self.provider.wait.by != "sentinel":
            return True
        return all([bool(await self.hits(scratch, text)) for text in wanted])

    async def hits(self, scratch: ScratchNamespace, text: str, k: int = 3) -> tuple[Hit, ...]:
        """Search a namespace; return only the hits."""
        return (await self.search(scratch, text, k)).hits

    async def search(self, scratch: ScratchNamespace, text: str, k: int) -> Found:
        """Search a namespace; return the hits, and the number of hits that the service returned."""
        return await self.provider.search(scratch.space, Query(text=text, k=k, key=text[:40]))

    async def count(self, scratch: ScratchNamespace, text: str) -> int:
        """Return the number of memories in a namespace.

        If the provider cannot count, return the number of hits (at most 10) of a search for ``text``.
        """
        if isinstance(self.provider, Counts):
            return await self.provider.count(scratch.space)
        return len(await self.hits(scratch, text, 10))

    def require_store(self) -> None:
        """Raise CheckSkipped if the provider stores nothing."""
        if not self.provider.keeps_store:
            raise CheckSkipped("the provider stores nothing")


@dataclass(frozen=True, slots=True)
class CheckDefinition:
    """One check of the doctor: its name, its function, and the checks that it depends on."""

    name: str
    run: Callable[[Examination], Awaitable[str]]
    """the function of the check: returns a detail text, or raises CheckFailed, CheckSkipped or a CallError"""
    needs: tuple[str, ...] = ()
    """names of the checks that this check depends on; if one of these failed, this check is skipped"""
    calls_provider: bool = True
    """False if the check does not call the provider"""


def _config_hint(error: BenchError) -> str:
    """Return the hint of an error about the config; return "" for any other error.

    The hints of other errors are about resuming a run, which the doctor cannot do.
    """
    about_config = isinstance(error, MappingError) and error.hint != error.default_hint
    return f"; {error.hint}" if about_config else ""


def is_unreachable(error: BenchError) -> bool:
    """Return True if every further call would fail in the same way: there is no connection, or the key is rejected."""
    return is_refusal(error) or (
        isinstance(error, Unavailable) and (error.__cause__ is not None or error.kind == TIMEOUT)
    )


def is_refusal(error: BenchError) -> bool:
    """Return True if the provider rejects all calls because of a wrong API key or a used-up quota."""
    return isinstance(error, CallError) and error.stops_lane
