"""Removing a namespace: clear, wait for it, make sure, then take down what set-up made.

Clearing what does not exist is success: a call that needs something no set-up has captured has nothing to remove.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from bench.config.provider.calls import ClearCall, VerifyCall, WaitBlock
from bench.errors import IngestFailed, NotCleared, NotReady
from bench.model import Space
from bench.providers.declarative.answer import Answer, Field
from bench.providers.declarative.ingesting import Reading
from bench.providers.declarative.request import Wire, Wired
from bench.providers.declarative.variables import STORED, of_space
from bench.providers.declarative.waiting import Watch, waiting_of
from bench.providers.protocol import Waiting

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
CHUNK = 100
"""ids of one ``idChunks``: what fits into a URL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifying:
    """``verify_clear``: asked until the namespace is empty."""

    request: Wired
    empty: Field | None
    ok_statuses: frozenset[int]
    timeout_s: float

    @classmethod
    def of(cls, wire: Wire, call: VerifyCall) -> Verifying:
        """Compile the call."""
        return cls(
            request=wire.call("verify_clear", call, traffic="status", ok=call.ok_status),
            empty=Field.at("verify_clear.empty", call.empty) if call.empty else None,
            ok_statuses=frozenset(call.ok_status),
            timeout_s=call.timeout_s,
        )

    async def until_empty(self, values: Mapping[str, object]) -> None:
        """Raise NotCleared when something is still there at the end of the time."""
        pause_s = FIRST_PAUSE_S
        with anyio.move_on_after(self.timeout_s):
            while True:
                answer = await self.request.send(values)
                if self._is_empty(answer):
                    return
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
        raise NotCleared(
            f"{values['runTag']} still holds something {self.timeout_s:g} s after it was cleared",
            hint="the service says success and keeps the data; bench clean --orphans tries again",
        )

    def _is_empty(self, answer: Answer) -> bool:
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
    """``endpoints.clear`` with everything that follows it."""

    call: Wired | None
    reading: Reading
    watch: Watch | None
    waiting: Waiting
    verifying: Verifying | None
    teardown: tuple[Wired, ...]
    constants: Mapping[str, str]
    threaded: bool

    @classmethod
    def of(cls, wire: Wire, config: ProviderConfig) -> Clearing:
        """Compile clear, its wait, verify_clear and teardown."""
        endpoints = config.endpoints
        clear = endpoints.clear if endpoints else None
        verify = endpoints.verify_clear if endpoints else None
        return cls(
            call=wire.call("clear", clear, traffic="manage") if clear else None,
            reading=Reading.of(clear.response, "clear.response") if clear else Reading(None, None),
            watch=_watch(wire, clear),
            waiting=waiting_of(clear.wait if clear else WaitBlock()),
            verifying=Verifying.of(wire, verify) if verify else None,
            teardown=tuple(wire.call(f"teardown.{call.name}", call, traffic="manage") for call in config.teardown),
            constants=wire.constants,
            threaded=config.scoping.strategy == "sessionId",
        )

    async def clear(self, space: Space) -> None:
        """Remove everything of the namespace.

        Raises:
            NotCleared: something is still there.
            NotReady: the service did not say in time that it has finished.
        """
        values = of_space(space, self.constants, threaded=self.threaded)
        values["ids"] = stored = _stored(space)
        values["idChunks"] = [stored[start : start + CHUNK] for start in range(0, len(stored), CHUNK)]
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

    async def _wait(self, watch: Watch, values: Mapping[str, object], jobs: tuple[str, ...]) -> None:
        pause_s = self.waiting.interval_s
        with anyio.move_on_after(self.waiting.timeout_s):
            while True:
                seen = await watch.look(values, jobs=jobs, sent=())
                if seen.state == "failed":
                    raise IngestFailed(f"clearing {values['runTag']} failed: {seen.detail}")
                if seen.state == "ready":
                    return await anyio.sleep(self.waiting.settle_s)
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, self.waiting.max_interval_s)
        raise NotReady(f"clearing {values['runTag']} took more than {self.waiting.timeout_s:g} s")


def _watch(wire: Wire, clear: ClearCall | None) -> Watch | None:
    if clear is None or clear.wait is None:
        return None
    return Watch.of(wire, clear.wait, "clear.wait", gives_ids=clear.response.ids is not None)


def _stored(space: Space) -> list[str]:
    found = space.captures.get(STORED)
    return [str(one) for one in found] if isinstance(found, list | tuple) else []
