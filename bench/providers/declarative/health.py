"""``endpoints.health``: the first call of a run waits until the service has loaded; 503 means not yet.

It is asked when something is first needed and not when the provider is opened, so that a service that is down fails
its own corpora and no other provider's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from bench.errors import Unavailable
from bench.providers.declarative.answer import Field

if TYPE_CHECKING:
    from bench.config.provider.calls import HealthCall
    from bench.providers.declarative.request import Wire, Wired

LOADING = 503
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0


@dataclass(slots=True)
class Health:
    """Whether the service has said that it is ready."""

    call: Wired
    value: Field | None
    timeout_s: float
    passed: bool = False
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """keeps true that one caller asks and the others wait for its answer"""

    @classmethod
    def of(cls, wire: Wire, health: HealthCall) -> Health:
        """Compile the call."""
        return cls(
            call=wire.call("health", health, traffic="status", ok=(LOADING,)),
            value=Field.at("health.value", health.value) if health.value else None,
            timeout_s=health.ready_timeout_s,
        )

    async def wait(self) -> None:
        """Return once the service is ready.

        Raises:
            Unavailable: it still says 503 at the end of the time.
        """
        async with self.lock:
            if not self.passed:
                await self._ask()
                self.passed = True

    async def _ask(self) -> None:
        pause_s = FIRST_PAUSE_S
        with anyio.move_on_after(self.timeout_s):
            while True:
                answer = await self.call.exchange({})
                if answer.status != LOADING:
                    if self.value is not None:
                        answer.one(self.value)
                    return
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
        name = self.call.endpoint.name.rpartition(".")[0]
        raise Unavailable(f"{name} answers {LOADING} for {self.timeout_s:g} s", hint="is it still loading?")
