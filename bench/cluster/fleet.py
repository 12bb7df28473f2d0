"""What is asked of a cluster: hand an order out, look how it stands, watch the workers, ask all to stop.

Example::

    errand = fleet.submit(run_shard, order, name="r1.1of4-7f", near=())
    while errand.state == "pending": ...
    returned = await errand.result()

:class:`bench.cluster.dask.Cluster` is one. Whatever else runs a function somewhere is one with these methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeVar, TypeVarTuple

from bench.cluster.order import Order, Returned

A = TypeVarTuple("A")
T = TypeVar("T")

ErrandState = Literal["pending", "finished", "error", "cancelled"]


class Errand(Protocol):
    """One order that is out."""

    @property
    def state(self) -> ErrandState:
        """How it stands now."""
        ...

    async def result(self) -> Returned | None:
        """What a finished one gave; None when that was lost on its way."""
        ...

    async def error(self) -> str:
        """Why it is in error."""
        ...

    async def cancel(self) -> None:
        """Let it go."""
        ...


class Fleet(Protocol):
    """The workers, and the way to them."""

    @property
    def address(self) -> str:
        """What people know it by."""
        ...

    @property
    def alive(self) -> bool:
        """Orders can be handed out and taken in."""
        ...

    async def slots(self) -> Mapping[str, int]:
        """How many orders each worker can carry out at once, by its address; empty when no worker is there."""
        ...

    def submit(
        self, function: Callable[[Order], Returned], order: Order, /, *, name: str, near: Sequence[str]
    ) -> Errand:
        """Hand an order out, if possible to one of the workers ``near``."""
        ...

    async def ask(
        self, function: Callable[[*A], Awaitable[T]], *arguments: *A, within_s: float
    ) -> Mapping[str, T | BaseException]:
        """Call a function on every worker at once, beside its orders; gives what came of it by address."""
        ...

    async def stop(self) -> None:
        """Ask every order to stop, also those that begin later."""
        ...

    async def drop(self, worker: str) -> None:
        """Take a worker out; what it had is run elsewhere."""
        ...
