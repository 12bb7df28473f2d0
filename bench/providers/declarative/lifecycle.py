"""Remove a namespace: clear it, wait, check it, then run the teardown calls.

Also in this module:

* Set up a namespace: the calls of ``setup`` in order, each only if its result does not exist yet.
* Poll the index: one round of the service's own status calls.

Example::

    captures = await Preparing.of(wire, config, vectors).prepare(values)         # {"storeId": "vs_1"}
    watch = Watch.of(wire, config.wait, "wait", gives_ids=True)
    await watch.look(values, jobs=("job_1", "job_2"), sent=ids)     # Readiness(state="pending", detail="1 of 2 ready")

Clearing a missing namespace is not an error. Variables that clear needs, but no stored response has, are looked up
first (``existing``). If it is unknown whether a namespace exists, it counts as not cleared.

If the process dies after a setup call, the result of the call is not recorded. A resumed run finds it by ``existing``,
so that it neither creates it twice nor fails because it exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import anyio
from anyio import create_task_group

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.body import Node, Scope
from bench.config.provider.calls import ClearCall, Existing, SetupCall, VerifyCall, WaitBlock
from bench.errors import IngestFailed, NotCleared, NotReady
from bench.model import Readiness, Space
from bench.providers.declarative.ingest import IdMapping, Reading
from bench.providers.declarative.request import Paging, ProviderWire, Wired
from bench.providers.declarative.response import Field, ServiceResponse, compact, kind_of, may_be_a_page, says_more
from bench.providers.declarative.variables import STORED, of_space
from bench.providers.embedding import Vectors
from bench.providers.protocol import Waiting, merge_captures
from bench.scalars import whole_number

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


SAMPLE = "How long is a vector?"


@dataclass(frozen=True, slots=True)
class ExistingProbe:
    """A compiled ``existing`` lookup."""

    call: Wired
    results: Field | None
    match: tuple[tuple[Path, Node], ...]
    paging: Paging

    @classmethod
    def of(cls, wire: ProviderWire, existing: Existing, key: str) -> ExistingProbe:
        """Compile a lookup; ``key`` is its path in the config, for errors."""
        return cls(
            wire.call(key, existing, traffic="status", judged="change"),
            Field.at(f"{key}.results", existing.results) if existing.results else None,
            tuple((compile_path(path), wire.compiler.tree(value)) for path, value in existing.match.items()),
            Paging.of(existing.page, f"{key}.page"),
        )

    async def find(self, values: Mapping[str, object]) -> tuple[ServiceResponse, object] | None:
        """Return the response and the matching candidate in it.

        The result is None when nothing matches, or for a status in ``treat_as_ok``.

        Raises:
            MappingError: nothing matches, and the listing has pages that were not read.
        """
        seen = 0
        extra: tuple[tuple[str, str], ...] = ()
        for _ in range(self.paging.max_pages):
            answer = await self.call.send(values, extra)
            if not answer.ok:
                return None
            if self.results is None:
                return answer, answer.tree
            wanted = [(path, node.fill(Scope(values))) for path, node in self.match]
            rows = answer.rows(self.results)
            for row in rows:
                if all(path.all(row) == [value] for path, value in wanted):
                    return answer, row
            seen += len(rows)
            following = self.paging.after(answer)
            if not following or not rows or following == extra:
                break
            extra = following
        if rows and says_more(answer.tree, seen):
            raise answer.error(
                self.results or self.call.key,
                f"only the first {seen} elements of a longer list were read, and none of them matches: add page, "
                "or narrow the query",
            )
        return None


@dataclass(frozen=True, slots=True)
class Preparing:
    """The compiled ``setup`` of a config."""

    calls: tuple[tuple[Wired, ExistingProbe | None], ...]
    dimensions: int | None
    vectors: Vectors | None

    @classmethod
    def of(cls, wire: ProviderWire, config: ProviderConfig, vectors: Vectors | None) -> Preparing:
        """Compile every setup call."""
        settings = config.client_embeddings
        calls = tuple(_compiled(wire, call) for call in config.setup)
        return cls(calls, settings.dimensions if settings else None, vectors)

    async def prepare(self, values: Mapping[str, object]) -> dict[str, object]:
        """Send the needed setup calls, each with the captures of earlier calls; return all captures."""
        known = {**values, **await self._sizes()}
        captures: dict[str, object] = {}
        for call, finding in self.calls:
            seen = {**known, **captures}
            found = await finding.find(seen) if finding else None
            new = call.captured(await call.each(seen)) if found is None else call.captured_in(*found)
            captures = merge_captures(captures, new)
        return captures

    async def found(self, values: Mapping[str, object]) -> dict[str, object] | None:
        """Return the captures of an interrupted setup, by lookup or by repeating calls; None when nothing exists.

        Raises:
            NotCleared: a call has no ``existing`` and cannot be repeated, so it is unknown whether something exists.
        """
        captures: dict[str, object] = {}
        for call, finding in self.calls:
            seen = {**values, **captures}
            if finding is not None:
                found = await finding.find(seen)
                if found is None:
                    return None
                captures = merge_captures(captures, call.captured_in(*found))
            elif call.captures:
                if not call.is_repeatable:
                    namespace = values["runTag"]
                    raise NotCleared(
                        f"{namespace}: the answer to {call.key} was lost, and the created object cannot be looked up",
                        hint=f'delete the object at the service, or add "existing" to {call.key} to find it',
                    )
                captures = merge_captures(captures, call.captured(await call.each({**seen, **await self._sizes()})))
        return captures

    async def _sizes(self) -> dict[str, object]:
        """Return ``dimensions`` if a call uses it: the declared length of a vector, or that of a sample vector."""
        if not any("dimensions" in call.uses() for call, _ in self.calls):
            return {}
        if self.dimensions is not None or self.vectors is None:
            return {"dimensions": self.dimensions}
        return {"dimensions": len(await self.vectors.query(SAMPLE))}


def _compiled(wire: ProviderWire, call: SetupCall) -> tuple[Wired, ExistingProbe | None]:
    key = f"setup.{call.name}"
    finding = ExistingProbe.of(wire, call.existing, f"{key}.existing") if call.existing else None
    return wire.call(key, call, traffic="manage"), finding


SHOWN_VALUE = 100
FIRST_PAGE = " (perhaps this counts only the first page of a list)"
ABREAST = 16
"""concurrent status calls for jobs"""

State = Literal["ready", "pending", "failed"]
Tests = tuple[tuple[Field, tuple[object, ...]], ...]


@dataclass(slots=True)
class Seen:
    """The state that one status response shows."""

    state: State = "pending"
    detail: str = ""
    captures: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A compiled ``wait`` block with a request."""

    request: Wired
    by_id: bool
    until: Tests
    fail_on: tuple[tuple[Path, tuple[object, ...]], ...]
    count: Field | None
    id_map: IdMapping | None
    done: set[tuple[str, str]] = field(default_factory=set)
    """ready jobs by namespace, which are not polled again"""

    @classmethod
    def of(cls, wire: ProviderWire, wait: WaitBlock, key: str, *, gives_ids: bool) -> Watch | None:
        """Compile a wait block; ``key`` is its path in the config, for errors.

        Return None if the block has no ``request``: the engine then waits for its sentinel.
        """
        if wait.request is None:
            return None
        return cls(
            request=wire.call(f"{key}.request", wait.request, traffic="status"),
            by_id=(wait.scope or ("id" if gives_ids else "namespace")) == "id",
            until=tuple((Field.at(f"{key}.until", path), tuple(values)) for path, values in wait.until.items()),
            fail_on=tuple((compile_path(path), tuple(values)) for path, values in wait.fail_on.items()),
            count=Field.at(f"{key}.count_at_least", wait.count_at_least) if wait.count_at_least else None,
            id_map=IdMapping.of(wait.id_map, f"{key}.id_map") if wait.id_map else None,
        )

    async def look(self, values: Mapping[str, object], *, jobs: Sequence[str], sent: Sequence[str]) -> Readiness:
        """Poll once for the namespace, or once for each job that is not known to be ready."""
        variables = {**values, "sent": len(sent)}
        if not self.by_id:
            seen = await self._ask(variables, sent)
            return Readiness(state=seen.state, detail=seen.detail, captures=seen.captures)
        return await self._look_at_jobs(variables, list(dict.fromkeys(jobs)), sent)

    async def _look_at_jobs(self, values: Mapping[str, object], jobs: Sequence[str], sent: Sequence[str]) -> Readiness:
        """Poll jobs in order, a few at a time.

        The round ends with the first jobs that are not ready, because later jobs are processed later.
        """
        namespace = str(values.get("runTag", ""))
        captures: dict[str, object] = {}
        waiting = ""
        for start in range(0, len(jobs), ABREAST):
            chunk = [job for job in jobs[start : start + ABREAST] if (namespace, job) not in self.done]
            seen = await self._ask_all(values, chunk, sent)
            for job, one in zip(chunk, seen, strict=True):
                if one.state == "failed":
                    return Readiness(state="failed", detail=f"{job}: {one.detail}")
                captures = merge_captures(captures, one.captures)
                if one.state == "ready":
                    self.done.add((namespace, job))
            pending = (f"; {job}: {one.detail}" for job, one in zip(chunk, seen, strict=True) if one.state == "pending")
            waiting = next(pending, "")
            if waiting:
                break
        ready = sum((namespace, job) in self.done for job in jobs)
        return Readiness(
            state="ready" if ready == len(jobs) else "pending",
            detail=f"{ready} of {len(jobs)} jobs ready{waiting}",
            counts={"ready": ready, "jobs": len(jobs)},
            captures=captures,
        )

    async def _ask_all(self, values: Mapping[str, object], jobs: Sequence[str], sent: Sequence[str]) -> list[Seen]:
        found = [Seen() for _ in jobs]

        async def ask(index: int, job: str) -> None:
            found[index] = await self._ask({**values, "jobId": job}, sent)

        if len(jobs) == 1:
            await ask(0, jobs[0])
            return found
        try:
            async with create_task_group() as group:
                for index, job in enumerate(jobs):
                    group.start_soon(ask, index, job)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return found

    async def _ask(self, values: Mapping[str, object], sent: Sequence[str]) -> Seen:
        answers = await self.request.each(values)
        captures = self.request.captured(answers)
        for answer in answers:
            state, detail = self._judge(answer, len(sent))
            if state != "ready":
                return Seen(state, detail)
        if self.id_map is not None:
            captures = merge_captures(captures, {self.id_map.name: self.id_map.read(answers, sent)})
        return Seen("ready", "", captures)

    def _judge(self, answer: ServiceResponse, sent: int) -> tuple[State, str]:
        """Return the state in a response; failure is checked first, a status in ``treat_as_ok`` counts as ready."""
        if not answer.ok:
            return "ready", ""
        for path, failing in self.fail_on:
            for value in path.all(answer.tree):
                if value in failing:
                    return "failed", f'"{path.text}" is {compact(value)}: {compact(answer.tree)[:300]}'
        for test, wanted in self.until:
            found = answer.values(test) if not test.path.single else [answer.one(test)]
            if (lost := next((value for value in found if _is_lost(value, wanted)), None)) and not self.fail_on:
                return "failed", f'"{test.path.text}" is {compact(lost)}: {compact(answer.tree)[:300]}'
            if not found or any(value not in wanted for value in found):
                return "pending", f'"{test.path.text}" is {", ".join(map(compact, found))}'
        if self.count is not None:
            count = counted(answer, self.count)
            return (
                ("ready", "")
                if count >= sent
                else (
                    "pending",
                    f"{count} of {sent} memories there" + (FIRST_PAGE if may_be_a_page(answer.tree, count) else ""),
                )
            )
        return "ready", ""


LOST = frozenset({"failed", "failure", "error", "errored", "cancelled", "canceled", "aborted", "timed_out", "expired"})


def _is_lost(value: object, wanted: Sequence[object]) -> bool:
    """Return True when a status value means a final failure, although the config does not name it."""
    return isinstance(value, str) and value not in wanted and value.lower() in LOST


def counted(answer: ServiceResponse, at: Field) -> int:
    """Return a number, or the length of a list, an object or several matches."""
    if not at.path.single:
        return len(at.path.all(answer.tree))
    value = answer.one(at)
    if isinstance(value, list | dict):
        return len(value)
    found = whole_number(value)
    if found is None:
        raise answer.error(
            at, f"expected a whole number or a list, found {kind_of(value)}: {compact(value)[:SHOWN_VALUE]}"
        )
    return found


def waiting_of(wait: WaitBlock | None) -> Waiting:
    """Return a wait block as the engine's waiting rule, in seconds; without a block nothing is waited for."""
    if wait is None:
        return Waiting()
    return Waiting(
        by="sentinel" if wait.request is None else "status",
        interval_s=wait.interval_ms / 1000,
        max_interval_s=wait.max_interval_ms / 1000,
        timeout_s=wait.timeout_s,
        settle_s=wait.settle_ms / 1000,
    )


FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
CHUNK = 100
"""number of ids in each element of ``idChunks``; so many fit into a URL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifying:
    """A compiled ``verify_clear``, which is repeated until the namespace is empty."""

    request: Wired
    empty: Field | None
    ok_statuses: frozenset[int]
    timeout_s: float

    @classmethod
    def of(cls, wire: ProviderWire, call: VerifyCall) -> Verifying:
        """Compile the call."""
        return cls(
            request=wire.call("verify_clear", call, traffic="status", ok=call.ok_status, judged="change"),
            empty=Field.at("verify_clear.empty", call.empty) if call.empty else None,
            ok_statuses=frozenset(call.ok_status),
            timeout_s=call.timeout_s,
        )

    async def until_empty(self, values: Mapping[str, object]) -> None:
        """Wait until the namespace is empty; raise NotCleared after the time limit."""
        pause_s = FIRST_PAUSE_S
        with anyio.move_on_after(self.timeout_s):
            while True:
                answer = await self.request.send(values)
                if self._is_empty(answer):
                    return
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
        namespace = values["runTag"]
        raise NotCleared(
            f"{namespace} still contains data {self.timeout_s:g} s after it was cleared",
            hint="the service reported success, but it still has the data; bench clean --orphans tries again",
        )

    def _is_empty(self, answer: ServiceResponse) -> bool:
        if answer.status in self.ok_statuses:
            return True
        if self.empty is None:
            return False
        if not answer.ok:
            return True
        found = self.empty.path.all(answer.tree)
        return all(value in (0, None, [], "0") and value is not False for value in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """The compiled ``endpoints.clear`` with the steps after it."""

    call: Wired | None
    finding: ExistingProbe | None
    preparing: Preparing
    reading: Reading
    watch: Watch | None
    waiting: Waiting
    verifying: Verifying | None
    teardown: tuple[Wired, ...]
    constants: Mapping[str, str]
    threaded: bool

    @classmethod
    def of(cls, wire: ProviderWire, config: ProviderConfig, preparing: Preparing) -> Clearing:
        """Compile clear, its wait, verify_clear and teardown."""
        endpoints = config.endpoints
        clear = endpoints.clear if endpoints else None
        verify = endpoints.verify_clear if endpoints else None
        return cls(
            call=wire.call("clear", clear, traffic="manage") if clear else None,
            finding=ExistingProbe.of(wire, clear.existing, "clear.existing") if clear and clear.existing else None,
            preparing=preparing,
            reading=Reading.of(clear.response, "clear.response") if clear else Reading(None, None),
            watch=_watch(wire, clear),
            waiting=waiting_of(clear.wait if clear else WaitBlock()),
            verifying=Verifying.of(wire, verify) if verify else None,
            teardown=tuple(wire.call(f"teardown.{call.name}", call, traffic="manage") for call in config.teardown),
            constants=wire.constants,
            threaded=config.scoping.strategy == "sessionId",
        )

    async def clear(self, space: Space) -> None:
        """Remove all data of the namespace.

        Raises:
            NotCleared: data remains, or it is unknown.
            NotReady: the service did not finish in time.
        """
        values = of_space(space, self.constants, threaded=self.threaded)
        values["ids"] = stored = _stored(space)
        values["idChunks"] = [stored[start : start + CHUNK] for start in range(0, len(stored), CHUNK)]
        values |= await self._found(values)
        if self.call is not None and self.call.uses() <= values.keys() | {"each"}:
            answers = await self.call.each(values)
            good = [answer for answer in answers if answer.ok]
            if self.watch is not None and good:
                await self._wait(self.watch, values, self.reading.job_ids(good))
        if self.verifying is not None and self.verifying.request.uses() <= values.keys():
            await self.verifying.until_empty(values)
        for call in self.teardown:
            if call.uses() <= values.keys() | {"each"}:
                await call.each(values)

    async def _found(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the variables of the clear call that no stored response has, by lookup; empty when nothing exists."""
        if self.call is None or self.call.uses() <= values.keys() | {"each"}:
            return {}
        if self.finding is not None:
            found = await self.finding.find(values)
            return {} if found is None else self.call.captured_in(*found)
        return await self.preparing.found(values) or {}

    async def _wait(self, watch: Watch, values: Mapping[str, object], jobs: tuple[str, ...]) -> None:
        pause_s, namespace = self.waiting.interval_s, values["runTag"]
        with anyio.move_on_after(self.waiting.timeout_s):
            while True:
                seen = await watch.look(values, jobs=jobs, sent=())
                if seen.state == "failed":
                    raise IngestFailed(f"clearing {namespace} failed: {seen.detail}")
                if seen.state == "ready":
                    return await anyio.sleep(self.waiting.settle_s)
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, self.waiting.max_interval_s)
        raise NotReady(f"clearing {namespace} took more than {self.waiting.timeout_s:g} s")


def _watch(wire: ProviderWire, clear: ClearCall | None) -> Watch | None:
    if clear is None or clear.wait is None:
        return None
    return Watch.of(wire, clear.wait, "clear.wait", gives_ids=clear.response.ids is not None)


def _stored(space: Space) -> list[str]:
    found = space.captures.get(STORED)
    return [str(one) for one in found] if isinstance(found, list | tuple) else []
