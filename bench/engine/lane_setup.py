"""Open the provider of each lane of a run and find the items to do, or record that the lane is skipped.

Example::

    for lane in await open_lanes(stack, run, models, width):
        if not lane.plan.shares:
            await run_lane(lane)
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack

import anyio

from bench.config.provider.config import ProviderConfig
from bench.engine.batches import WAITING_ITEMS
from bench.engine.circuit_breaker import CircuitBreaker
from bench.engine.corpora.anonymizer import store_of
from bench.engine.corpora.isolation import Ownership
from bench.engine.items.deletion import deletions_begun
from bench.engine.items.item_row import unsupported_rows
from bench.engine.items.oracle import Oracle
from bench.engine.models import CallPricing, OpenModels
from bench.engine.open_lane import OpenLane
from bench.engine.pending_items import PendingItems
from bench.engine.run_context import RunContext
from bench.evaluators.protocol import needs_listing
from bench.evaluators.routed import distinct_evaluators
from bench.journal import Event, Reader
from bench.model import Model, Phase
from bench.plan import Lane
from bench.plan.cost_estimate import call_prices
from bench.providers import Provider, ProviderContext, open_provider
from bench.providers.docker import running_projects
from bench.providers.endpoints import endpoint_of

MS = 1000


async def open_lanes(stack: AsyncExitStack, run: RunContext, models: OpenModels, width: int) -> list[OpenLane]:
    """Open every lane that is not skipped.

    If several lanes search the same build, the lane that ingests the build has the other lanes in ``followers``.

    Raises:
        ConfigError: a provider cannot be opened.
    """
    last, running = last_phase(run.plan.request.phases), run.plan.running
    pending_by_lane = {
        lane.key: await PendingItems.of(run.journal, lane, last=last, scope=run.scope, stopping=run.stopping)
        for lane in running
    }
    events = await _earlier_events(run)
    unsearched = {lane.build for lane in running if pending_by_lane[lane.key].unsearched}
    opened: dict[str, OpenLane] = {}
    for lane in running:
        # stored results need no memory system: none is opened, no key is needed, no container is started
        is_searched = run.scope.copy_rows is not None and lane.build not in unsearched
        builder = opened.get(lane.shares)
        one = await open_lane(
            stack,
            run,
            lane,
            models,
            width,
            pending=pending_by_lane[lane.key],
            events=events,
            is_searched=is_searched,
            builder=builder,
        )
        opened[lane.key] = one
        if builder is not None:
            builder.followers.append(one)
    return list(opened.values())


async def open_lane(
    stack: AsyncExitStack,
    run: RunContext,
    lane: Lane,
    models: OpenModels,
    width: int,
    *,
    pending: PendingItems,
    events: list[Event],
    is_searched: bool,
    builder: OpenLane | None,
) -> OpenLane:
    """Open a lane and, if it still has searches to do, its provider; the provider is open until ``stack`` is closed.

    ``events`` has the events of earlier processes of this run. ``is_searched`` is True if all searches are in the
    journal. If this lane searches the build of another lane, ``builder`` is this other lane. If this lane ingests,
    ``builder`` is None.

    Raises:
        ConfigError: the provider cannot be opened.
    """
    request = run.plan.request
    if builder is not None and builder.plan.provider.config is lane.provider.config:
        provider = builder.provider  # one store, also where it lies in this process
    else:
        provider = await stack.enter_async_context(Oracle() if is_searched else _provider(run, lane, models, events))
    return OpenLane(
        run=run,
        breaker=CircuitBreaker(run=run, lane=lane),
        plan=lane,
        provider=provider,
        models=models,
        pending=pending,
        last=last_phase(request.phases),
        ingest_slots=anyio.CapacityLimiter(request.ingest_concurrency or width),
        width=max(width, WAITING_ITEMS) if request.batch else width,
        ownership=run.ownerships.setdefault(lane.provider.label, Ownership()) if builder is None else builder.ownership,
        leaking=set() if builder is None else builder.leaking,
        add_price=endpoint_of(_run_config(run, lane), "add").price_usd,
        search_price=None if (price := _run_config(run, lane).prices.search) is None else str(price),
        lists_stored=any(map(needs_listing, distinct_evaluators(models.evaluators(lane)))),
        deletions_begun=deletions_begun(events, lane.key) if lane.benchmark.config.deletion is not None else set(),
    )


async def skip_lane(run: RunContext, lane: Lane) -> None:
    """Record that every item of a lane is unsupported, except items that an earlier process has recorded."""
    done = {job.key: await run.journal.finished(job.key, Phase.EVALUATE) for job in lane.jobs}
    for row in unsupported_rows(lane):
        if run.stopping.requested:
            return
        if (row.key.unit, row.key.epoch) not in done[row.key.owner]:
            await run.journal.wait_for_room()
            run.journal.append(row)


def last_phase(phases: tuple[Phase, ...]) -> Phase:
    """Return the phase that comes last in the order of work."""
    return max(phases, key=list(Phase).index)


def _provider(
    run: RunContext, lane: Lane, models: OpenModels, events: list[Event]
) -> AbstractAsyncContextManager[Provider]:
    if lane.provider.built_in == "oracle":
        return Oracle()
    config = _run_config(run, lane)

    async def open_for_provider(name: str) -> Model:
        from bench.models import open_model

        return open_model(
            name,
            http=run.http,
            environment=run.environment,
            role="provider",
            files=run.plan.model_files,
            price=CallPricing(run.plan.request.token_prices),
        )

    context = ProviderContext(
        http=run.http,
        environment=run.environment,
        run_dir=store_of(run.folder, lane.build),
        seed=run.plan.request.seed,
        embedder=models.embedders.get(lane.key),
        open_model=open_for_provider,
        note=lambda kind, data: run.journal.append(Event(kind=kind, scope=lane.key, data=data)),
        services=running_projects(
            (event.kind, event.data) for event in events if event.scope in (lane.key, lane.build)
        ),
    )
    return open_provider(config, context)


def _run_config(run: RunContext, lane: Lane) -> ProviderConfig:
    """Return the provider's config, changed to the timeout and the call prices of the run."""
    request, config = run.plan.request, lane.provider.config
    changes: dict[str, object] = {}
    if request.timeout is not None:
        changes["connection"] = config.connection.model_copy(update={"timeout": int(request.timeout * MS)})
    changes["prices"] = call_prices(request.prices, lane.provider)
    return config.model_copy(update=changes)


async def _earlier_events(run: RunContext) -> list[Event]:
    """Return the events that earlier processes of this run wrote to the journal."""
    if not run.resumed:
        return []
    async with Reader.open(run.folder) as reader:
        return await reader.events()
