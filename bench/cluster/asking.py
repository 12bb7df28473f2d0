"""What the workers of a cluster are asked before the first order: who is there, who cannot take part, who has what.

Example::

    slots = sum((await workers(cluster)).values())
    await refuse_unfit(cluster, order, within_s=120)        # UsageError names the worker and what it lacks
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from bench.cluster.dask import CONNECT_S
from bench.cluster.fleet import Fleet
from bench.cluster.order import Order
from bench.cluster.worker import about, another_version, kept, refusal
from bench.errors import UsageError

ANSWER_S = 15.0
LOOK_EVERY_S = 0.1
HINT = "install the same bench with its extra [cluster] on every worker"


async def workers(cluster: Fleet) -> Mapping[str, int]:
    """The workers of a cluster; those of a local one are there at once."""
    with anyio.move_on_after(CONNECT_S):
        while not (found := await cluster.slots()):  # noqa: ASYNC110  a scheduler tells nobody of its workers
            await anyio.sleep(LOOK_EVERY_S)
        return found
    raise UsageError(
        f"--cluster {cluster.address}: the scheduler has no worker",
        hint=f"start some with: dask worker {cluster.address} --nthreads 1",
    )


async def refuse_unfit(cluster: Fleet, order: Order, *, within_s: float) -> None:
    """Ask every worker whether it could take part; opening a dataset may take a while.

    Raises:
        UsageError: a worker with another bench, config or dataset, or without a secret.
    """
    for worker, version in (await cluster.ask(about, within_s=ANSWER_S)).items():
        if isinstance(version, BaseException):
            raise UsageError(f"worker {worker}: {type(version).__name__}: {version}", hint=HINT)
        if version != order.version:
            raise UsageError(f"worker {worker}: {another_version(version, order.version).message}", hint=HINT)
    for worker, found in (await cluster.ask(refusal, order, within_s=within_s)).items():
        if isinstance(found, BaseException):
            raise UsageError(f"worker {worker}: {type(found).__name__}: {found}", hint=HINT)
        if found is not None:
            raise UsageError(f"worker {worker}: {found.message}", hint=found.hint)


async def survivors(cluster: Fleet, order: Order) -> dict[str, list[str]]:
    """Which workers still have a journal of which shard, by its run id."""
    found: dict[str, list[str]] = {}
    for worker, names in (await cluster.ask(kept, order, within_s=ANSWER_S)).items():
        for name in names if isinstance(names, list) else ():
            found.setdefault(name, []).append(worker)
    return found
