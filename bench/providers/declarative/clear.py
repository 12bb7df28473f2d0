"""Remove a namespace: clear it, wait until it is empty, then run the teardown calls.

Clearing a missing namespace is not an error. If it is unknown whether a namespace exists, the namespace counts as not
cleared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from bench.config.provider.calls import ClearCall, VerifyCall, WaitBlock
from bench.errors import IngestFailed, NotCleared, NotReady
from bench.model import Space
from bench.providers.declarative.ingest import AddResponseReader
from bench.providers.declarative.request import CompiledCall, ProviderConnection
from bench.providers.declarative.response import ResponsePath, ServiceResponse
from bench.providers.declarative.setup import ExistingProbe, SetupOperation
from bench.providers.declarative.status_poller import StatusPoller, wait_rule
from bench.providers.declarative.variables import STORED, space_variables
from bench.providers.protocol import Waiting

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
CHUNK = 100
"""number of ids in each list of the variable ``idChunks``; this number of ids fits into a URL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptinessCheck:
    """A compiled ``verify_clear`` call. It is sent again until the namespace is empty."""

    request: CompiledCall
    empty: ResponsePath | None
    ok_statuses: frozenset[int]
    timeout_s: float

    @classmethod
    def compile(cls, connection: ProviderConnection, call: VerifyCall) -> EmptinessCheck:
        """Compile the ``verify_clear`` call of a config."""
        return cls(
            request=connection.call("verify_clear", call, traffic="status", ok=call.ok_status, check_kind="change"),
            empty=ResponsePath.at("verify_clear.empty", call.empty) if call.empty else None,
            ok_statuses=frozenset(call.ok_status),
            timeout_s=call.timeout_s,
        )

    async def until_empty(self, values: Mapping[str, object]) -> None:
        """Send ``verify_clear`` until the namespace is empty; raise NotCleared after ``timeout_s`` seconds."""
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
            f"{namespace} still contains data {self.timeout_s:g} s after the service reported that it was cleared"
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
    """The compiled ``endpoints.clear``, and the steps after the clear call: wait, verify_clear and teardown."""

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
        """Compile the clear call, its wait, ``verify_clear`` and the teardown calls."""
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
            NotCleared: data remains, or it is unknown whether data remains.
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
        """Look up the variables that the clear call needs and that have no value yet; return their values.

        Return {} if all variables have a value, or if the lookup finds no object at the service.
        """
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
        raise NotReady(
            f"clearing {namespace} took more than {self.waiting.timeout_s:g} s",
            hint="clear the namespace again with: bench clean --orphans",
        )


def _status_poller(connection: ProviderConnection, clear: ClearCall | None) -> StatusPoller | None:
    if clear is None or clear.wait is None:
        return None
    return StatusPoller.compile(connection, clear.wait, "clear.wait", gives_ids=clear.response.ids is not None)


def _stored(space: Space) -> list[str]:
    found = space.captures.get(STORED)
    return [str(one) for one in found] if isinstance(found, list | tuple) else []
