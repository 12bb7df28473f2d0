"""Remove a namespace: clear it, wait, check it, then run the teardown calls.

Also in this module:

* Set up a namespace: the calls of ``setup`` in order, each only if its result does not exist yet.
* Poll the index: one round of the service's own status calls.

Example::

    captures = await Preparing.of(wire, config, vectors).prepare(values)         # {"storeId": "vs_1"}
    watch = Watch.of(wire, config.wait, "wait", gives_ids=True)
    await watch.poll(values, jobs=("job_1", "job_2"), sent=ids)     # Readiness(state="pending", detail="1 of 2 ready")

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
from bench.providers.declarative.ingest import AddResponseReader, IdMapReader
from bench.providers.declarative.request import CompiledCall, Paging, ProviderConnection
from bench.providers.declarative.response import (
    ResponsePath,
    ServiceResponse,
    compact,
    json_type,
    may_be_a_page,
    reports_more,
)
from bench.providers.declarative.variables import STORED, space_variables
from bench.providers.embedding import ProviderEmbedder
from bench.providers.protocol import Waiting, merge_captures
from bench.scalars import whole_number

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


SAMPLE_TEXT = "How long is a vector?"


@dataclass(frozen=True, slots=True)
class ExistingProbe:
    """A compiled ``existing`` lookup."""

    call: CompiledCall
    results: ResponsePath | None
    match: tuple[tuple[Path, Node], ...]
    paging: Paging

    @classmethod
    def compile(cls, connection: ProviderConnection, existing: Existing, key: str) -> ExistingProbe:
        """Compile a lookup; ``key`` is its path in the config, for errors."""
        return cls(
            connection.call(key, existing, traffic="status", check_kind="change"),
            ResponsePath.at(f"{key}.results", existing.results) if existing.results else None,
            tuple((compile_path(path), connection.compiler.tree(value)) for path, value in existing.match.items()),
            Paging.compile(existing.page, f"{key}.page"),
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
        if rows and reports_more(answer.tree, seen):
            raise answer.error(
                self.results or self.call.key,
                f"only the first {seen} elements of a longer list were read, and none of them matches: add page, "
                "or narrow the query",
            )
        return None


@dataclass(frozen=True, slots=True)
class SetupOperation:
    """The compiled ``setup`` of a config."""

    calls: tuple[tuple[CompiledCall, ExistingProbe | None], ...]
    dimensions: int | None
    embedder: ProviderEmbedder | None

    @classmethod
    def compile(
        cls, connection: ProviderConnection, config: ProviderConfig, embedder: ProviderEmbedder | None
    ) -> SetupOperation:
        """Compile every setup call."""
        settings = config.client_embeddings
        calls = tuple(_compiled(connection, call) for call in config.setup)
        return cls(calls, settings.dimensions if settings else None, embedder)

    async def prepare(self, values: Mapping[str, object]) -> dict[str, object]:
        """Send the needed setup calls, each with the captures of earlier calls; return all captures."""
        known = {**values, **await self._dimensions()}
        captures: dict[str, object] = {}
        for call, lookup in self.calls:
            seen = {**known, **captures}
            found = await lookup.find(seen) if lookup else None
            new = call.captured(await call.each(seen)) if found is None else call.captured_in(*found)
            captures = merge_captures(captures, new)
        return captures

    async def found(self, values: Mapping[str, object]) -> dict[str, object] | None:
        """Return the captures of an interrupted setup, by lookup or by repeating calls; None when nothing exists.

        Raises:
            NotCleared: a call has no ``existing`` and cannot be repeated, so it is unknown whether something exists.
        """
        captures: dict[str, object] = {}
        for call, lookup in self.calls:
            seen = {**values, **captures}
            if lookup is not None:
                found = await lookup.find(seen)
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
                captures = merge_captures(
                    captures, call.captured(await call.each({**seen, **await self._dimensions()}))
                )
        return captures

    async def _dimensions(self) -> dict[str, object]:
        """Return ``dimensions`` if a call uses it: the declared length of a vector, or that of a sample vector."""
        if not any("dimensions" in call.uses() for call, _ in self.calls):
            return {}
        if self.dimensions is not None or self.embedder is None:
            return {"dimensions": self.dimensions}
        return {"dimensions": len(await self.embedder.query(SAMPLE_TEXT))}


def _compiled(connection: ProviderConnection, call: SetupCall) -> tuple[CompiledCall, ExistingProbe | None]:
    key = f"setup.{call.name}"
    lookup = ExistingProbe.compile(connection, call.existing, f"{key}.existing") if call.existing else None
    return connection.call(key, call, traffic="manage"), lookup


SHOWN_VALUE = 100
FIRST_PAGE = " (perhaps this counts only the first page of a list)"
CONCURRENT_POLLS = 16
"""concurrent status calls for jobs"""

State = Literal["ready", "pending", "failed"]
Tests = tuple[tuple[ResponsePath, tuple[object, ...]], ...]


@dataclass(slots=True)
class PollResult:
    """The state that one status response shows."""

    state: State = "pending"
    detail: str = ""
    captures: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPoller:
    """A compiled ``wait`` block with a request."""

    request: CompiledCall
    by_id: bool
    until: Tests
    fail_on: tuple[tuple[Path, tuple[object, ...]], ...]
    count: ResponsePath | None
    id_map: IdMapReader | None
    done: set[tuple[str, str]] = field(default_factory=set)
    """ready jobs by namespace, which are not polled again"""

    @classmethod
    def compile(
        cls, connection: ProviderConnection, wait: WaitBlock, key: str, *, gives_ids: bool
    ) -> StatusPoller | None:
        """Compile a wait block; ``key`` is its path in the config, for errors.

        Return None if the block has no ``request``: the engine then waits for its sentinel.
        """
        if wait.request is None:
            return None
        return cls(
            request=connection.call(f"{key}.request", wait.request, traffic="status"),
            by_id=(wait.scope or ("id" if gives_ids else "namespace")) == "id",
            until=tuple((ResponsePath.at(f"{key}.until", path), tuple(values)) for path, values in wait.until.items()),
            fail_on=tuple((compile_path(path), tuple(values)) for path, values in wait.fail_on.items()),
            count=ResponsePath.at(f"{key}.count_at_least", wait.count_at_least) if wait.count_at_least else None,
            id_map=IdMapReader.compile(wait.id_map, f"{key}.id_map") if wait.id_map else None,
        )

    async def poll(self, values: Mapping[str, object], *, jobs: Sequence[str], sent: Sequence[str]) -> Readiness:
        """Poll once for the namespace, or once for each job that is not known to be ready."""
        variables = {**values, "sent": len(sent)}
        if not self.by_id:
            seen = await self._poll(variables, sent)
            return Readiness(state=seen.state, detail=seen.detail, captures=seen.captures)
        return await self._poll_jobs(variables, list(dict.fromkeys(jobs)), sent)

    async def _poll_jobs(self, values: Mapping[str, object], jobs: Sequence[str], sent: Sequence[str]) -> Readiness:
        """Poll jobs in order, a few at a time.

        The round ends with the first jobs that are not ready, because later jobs are processed later.
        """
        namespace = str(values.get("runTag", ""))
        captures: dict[str, object] = {}
        waiting = ""
        for start in range(0, len(jobs), CONCURRENT_POLLS):
            chunk = [job for job in jobs[start : start + CONCURRENT_POLLS] if (namespace, job) not in self.done]
            seen = await self._poll_each(values, chunk, sent)
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

    async def _poll_each(
        self, values: Mapping[str, object], jobs: Sequence[str], sent: Sequence[str]
    ) -> list[PollResult]:
        found = [PollResult() for _ in jobs]

        async def ask(index: int, job: str) -> None:
            found[index] = await self._poll({**values, "jobId": job}, sent)

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

    async def _poll(self, values: Mapping[str, object], sent: Sequence[str]) -> PollResult:
        answers = await self.request.each(values)
        captures = self.request.captured(answers)
        for answer in answers:
            state, detail = self._state_of(answer, len(sent))
            if state != "ready":
                return PollResult(state, detail)
        if self.id_map is not None:
            captures = merge_captures(captures, {self.id_map.name: self.id_map.read(answers, sent)})
        return PollResult("ready", "", captures)

    def _state_of(self, answer: ServiceResponse, sent: int) -> tuple[State, str]:
        """Return the state in a response; failure is checked first, a status in ``treat_as_ok`` counts as ready."""
        if not answer.ok:
            return "ready", ""
        for path, failing in self.fail_on:
            for value in path.all(answer.tree):
                if value in failing:
                    return "failed", f'"{path.text}" is {compact(value)}: {compact(answer.tree)[:300]}'
        for test, wanted in self.until:
            found = answer.values(test) if not test.path.single else [answer.value(test)]
            if (
                lost := next((value for value in found if _is_failure_state(value, wanted)), None)
            ) and not self.fail_on:
                return "failed", f'"{test.path.text}" is {compact(lost)}: {compact(answer.tree)[:300]}'
            if not found or any(value not in wanted for value in found):
                return "pending", f'"{test.path.text}" is {", ".join(map(compact, found))}'
        if self.count is not None:
            count = read_count(answer, self.count)
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


def _is_failure_state(value: object, wanted: Sequence[object]) -> bool:
    """Return True when a status value means a final failure, although the config does not name it."""
    return isinstance(value, str) and value not in wanted and value.lower() in LOST


def read_count(answer: ServiceResponse, at: ResponsePath) -> int:
    """Return a number, or the length of a list, an object or several matches."""
    if not at.path.single:
        return len(at.path.all(answer.tree))
    value = answer.value(at)
    if isinstance(value, list | dict):
        return len(value)
    found = whole_number(value)
    if found is None:
        raise answer.error(
            at, f"expected a whole number or a list, found {json_type(value)}: {compact(value)[:SHOWN_VALUE]}"
        )
    return found


def wait_rule(wait: WaitBlock | None) -> Waiting:
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
class EmptinessCheck:
    """A compiled ``verify_clear``, which is repeated until the namespace is empty."""

    request: CompiledCall
    empty: ResponsePath | None
    ok_statuses: frozenset[int]
    timeout_s: float

    @classmethod
    def compile(cls, connection: ProviderConnection, call: VerifyCall) -> EmptinessCheck:
        """Compile the call."""
        return cls(
            request=connection.call("verify_clear", call, traffic="status", ok=call.ok_status, check_kind="change"),
            empty=ResponsePath.at("verify_clear.empty", call.empty) if call.empty else None,
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
class ClearOperation:
    """The compiled ``endpoints.clear`` with the steps after it."""

    call: CompiledCall | None
    lookup: ExistingProbe | None
    setup: SetupOperation
    reader: AddResponseReader
    watch: StatusPoller | None
    waiting: Waiting
    emptiness: EmptinessCheck | None
    teardown: tuple[CompiledCall, ...]
    constants: Mapping[str, str]
    session_scoped: bool

    @classmethod
    def compile(cls, connection: ProviderConnection, config: ProviderConfig, setup: SetupOperation) -> ClearOperation:
        """Compile clear, its wait, verify_clear and teardown."""
        endpoints = config.endpoints
        clear = endpoints.clear if endpoints else None
        verify = endpoints.verify_clear if endpoints else None
        return cls(
            call=connection.call("clear", clear, traffic="manage") if clear else None,
            lookup=ExistingProbe.compile(connection, clear.existing, "clear.existing")
            if clear and clear.existing
            else None,
            setup=setup,
            reader=AddResponseReader.compile(clear.response, "clear.response")
            if clear
            else AddResponseReader(None, None),
            watch=_status_poller(connection, clear),
            waiting=wait_rule(clear.wait if clear else WaitBlock()),
            emptiness=EmptinessCheck.compile(connection, verify) if verify else None,
            teardown=tuple(
                connection.call(f"teardown.{call.name}", call, traffic="manage") for call in config.teardown
            ),
            constants=connection.constants,
            session_scoped=config.scoping.strategy == "sessionId",
        )

    async def clear(self, space: Space) -> None:
        """Remove all data of the namespace.

        Raises:
            NotCleared: data remains, or it is unknown.
            NotReady: the service did not finish in time.
        """
        values = space_variables(space, self.constants, session_scoped=self.session_scoped)
        values["ids"] = stored = _stored(space)
        values["idChunks"] = [stored[start : start + CHUNK] for start in range(0, len(stored), CHUNK)]
        values |= await self._look_up(values)
        if self.call is not None and self.call.uses() <= values.keys() | {"each"}:
            answers = await self.call.each(values)
            good = [answer for answer in answers if answer.ok]
            if self.watch is not None and good:
                await self._wait(self.watch, values, self.reader.job_ids(good))
        if self.emptiness is not None and self.emptiness.request.uses() <= values.keys():
            await self.emptiness.until_empty(values)
        for call in self.teardown:
            if call.uses() <= values.keys() | {"each"}:
                await call.each(values)

    async def _look_up(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the variables of the clear call that no stored response has, by lookup; empty when nothing exists."""
        if self.call is None or self.call.uses() <= values.keys() | {"each"}:
            return {}
        if self.lookup is not None:
            found = await self.lookup.find(values)
            return {} if found is None else self.call.captured_in(*found)
        return await self.setup.found(values) or {}

    async def _wait(self, watch: StatusPoller, values: Mapping[str, object], jobs: tuple[str, ...]) -> None:
        pause_s, namespace = self.waiting.interval_s, values["runTag"]
        with anyio.move_on_after(self.waiting.timeout_s):
            while True:
                seen = await watch.poll(values, jobs=jobs, sent=())
                if seen.state == "failed":
                    raise IngestFailed(f"clearing {namespace} failed: {seen.detail}")
                if seen.state == "ready":
                    return await anyio.sleep(self.waiting.settle_s)
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, self.waiting.max_interval_s)
        raise NotReady(f"clearing {namespace} took more than {self.waiting.timeout_s:g} s")


def _status_poller(connection: ProviderConnection, clear: ClearCall | None) -> StatusPoller | None:
    if clear is None or clear.wait is None:
        return None
    return StatusPoller.compile(connection, clear.wait, "clear.wait", gives_ids=clear.response.ids is not None)


def _stored(space: Space) -> list[str]:
    found = space.captures.get(STORED)
    return [str(one) for one in found] if isinstance(found, list | tuple) else []
