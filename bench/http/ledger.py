"""The call ledger: every attempt made inside a block, also by its child tasks.

Example::

    with recording() as calls:
        await provider.search(space, query)
    sum(call.provider_us for call in calls)

The list travels in a context variable, so neither a provider nor a model has to hand it on. What an inner block
collects is also in the block around it, however the inner one ended.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from bench.model import Call

_calls: ContextVar[list[Call] | None] = ContextVar("calls", default=None)


class recording:  # noqa: N801 - used as the statement `with recording()`
    """Collect the calls made inside the block, in the order in which they ended."""

    __slots__ = ("_calls", "_token")
    _calls: list[Call]
    _token: Token[list[Call] | None]

    def __enter__(self) -> list[Call]:
        self._calls = []
        self._token = _calls.set(self._calls)
        return self._calls

    def __exit__(self, *_exc: object) -> None:
        _calls.reset(self._token)
        for call in self._calls:
            record(call)


def record(call: Call) -> None:
    """Add one attempt to the ledger of the block that runs; outside of any block it is dropped."""
    calls = _calls.get()
    if calls is not None:
        calls.append(call)


def wanted() -> bool:
    """Say whether anybody keeps a ledger, so that a row need not be built for nobody."""
    return _calls.get() is not None
