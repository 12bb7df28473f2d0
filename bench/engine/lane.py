"""Run one lane: some workers prepare corpora, while other workers run the items of corpora that are ready.

Example::

    await run_lane(lane)        # an OpenLane of `bench.engine.lane_setup.open_lanes`

Several lanes can search the same ingested memories. Then one of these lanes ingests each corpus once, and runs each
item for all of these lanes.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from bench.engine.corpora.corpus import prepare_corpus
from bench.engine.corpora.corpus_state import CorpusState
from bench.engine.items.item_pipeline import record_failed_item, run_item
from bench.engine.open_lane import LaneItem, OpenLane, ReadyCorpus
from bench.engine.outcome import Failure
from bench.engine.run_context import OCCUPIED, CallOwner
from bench.engine.work_queue import WorkQueue
from bench.events import bind, log
from bench.journal import Event
from bench.model import Phase
from bench.plan.shared_builds import BUILD, PROVIDER_VERSION, build_identity
from bench.providers import Versioned

ItemQueue = WorkQueue[ReadyCorpus, LaneItem]
CORPORA_A_SLOT = 8
"""number of corpora in preparation for each ingest slot, because most of them wait for their index"""
CLEARERS = 4
"""number of namespaces that are cleared concurrently"""


async def run_lane(build: OpenLane) -> None:
    """Prepare every corpus that has open items, and run these items; ``build`` is the lane that ingests."""
    if not build.open_items:
        return
    with bind(job=build.key):
        if not build.single:
            await _run_build(build, iter(build.open_corpora))
            return
        async with build.run.namespace_locks.setdefault(build.plan.provider.config.name, anyio.Lock()):
            await _run_build(build, iter(await _single_namespace_order(build)))


async def _run_build(build: OpenLane, corpora: Iterator[str]) -> None:
    if any(lane.pending.unsearched for lane in build.members):
        await _record_version(build)
    queue = ItemQueue(bound=build.ingest_width)
    send_finished, receive_finished = anyio.create_memory_object_stream[ReadyCorpus](math.inf)
    async with anyio.create_task_group() as workers:
        workers.start_soon(_prepare_corpora, build, corpora, queue)
        for _ in range(min(build.width, build.open_items)):
            workers.start_soon(_run_items, build, queue, send_finished.clone())
        for _ in range(min(CLEARERS, build.ingest_width)):
            workers.start_soon(_clear_finished, build, receive_finished.clone())
        send_finished.close()
        receive_finished.close()
    for lane in build.members:
        if (note := getattr(lane.models.embedders.get(lane.key), "cut_note", None)) is not None:
            lane.report_once("texts_cut", note)
    if not build.run.scope.is_rescore and build.run.scope.item_ids is None:
        await _clear_remaining(build)


async def _prepare_corpora(build: OpenLane, corpora: Iterator[str], queue: ItemQueue) -> None:
    """Prepare several corpora at a time, then close the queue.

    If the provider has an index to wait for, more corpora are in preparation than there are ingest slots.
    """
    width = build.ingest_width * (1 if build.provider.wait.by == "nothing" else CORPORA_A_SLOT)
    async with anyio.create_task_group() as workers:
        for _ in range(1 if build.single else min(width, len(build.open_corpora))):
            workers.start_soon(_prepare_next, build, corpora, queue)
    queue.close()


async def _prepare_next(build: OpenLane, corpora: Iterator[str], queue: ItemQueue) -> None:
    """Prepare corpora one after the other, and put each ready corpus into the queue."""
    for corpus_id in corpora:
        if build.is_build_stopped:
            return
        with bind(corpus=corpus_id):
            outcome = await prepare_corpus(build, corpus_id)
            if isinstance(outcome, ReadyCorpus):
                log().info("corpus_ready", namespace=outcome.space.namespace, attempt=outcome.space.attempt)
            elif outcome is not None:
                log().info("corpus_failed", kind=outcome.kind, error=outcome.message)
        if isinstance(outcome, Failure):
            build.unfinished.add(corpus_id)
            await _record_failed_corpus(build, corpus_id, outcome)
        elif outcome is not None:
            _count_corpus(build, corpus_id, None)
            if build.runs_items:
                outcome.open_items = sum(lane.pending.count_of(corpus_id) for lane in build.members)
                outcome.all_good = not build.report_unselected_items(corpus_id)
                build.namespace_free = anyio.Event()
                await queue.put(outcome, build.items(corpus_id))
                if build.single and not build.is_build_stopped:
                    await build.namespace_free.wait()


async def _run_items(build: OpenLane, queue: ItemQueue, send_finished: MemoryObjectSendStream[ReadyCorpus]) -> None:
    async with send_finished:
        while not build.is_build_stopped and (work := await queue.take()) is not None:
            ready, (lane, ref) = work
            await build.run.journal.wait_for_room()
            good = await run_item(lane, ready, ref)
            ready.all_good = ready.all_good and good
            ready.open_items -= 1
            if not ready.all_good:
                build.unfinished.add(ready.corpus_id)
            if not ready.open_items and (ready.all_good or build.single):
                send_finished.send_nowait(ready.closed())
        if build.is_build_stopped:
            build.namespace_free.set()
            # nothing takes the waiting corpora any more, so nothing may wait for that
            queue.drop()


async def _clear_finished(build: OpenLane, receive_finished: MemoryObjectReceiveStream[ReadyCorpus]) -> None:
    """Clear each corpus whose items have all ended without a failure, while other items still run.

    This is done with ``--cleanup corpus``. If a service has only one namespace, it is always done, also after a
    failure.
    """
    wanted = (build.run.plan.request.cleanup == "corpus" or build.single) and not build.run.scope.is_rescore
    async with receive_finished:
        async for ready in receive_finished:
            if wanted and ready.held and not build.is_build_stopped:
                # a crash after the clear must find every result: an empty namespace must not be searched again
                await build.run.journal.flush()
                await build.clear(ready.corpus_id, ready.space)
            build.namespace_free.set()


async def _clear_remaining(build: OpenLane) -> None:
    """At the end of the run, clear the namespaces that are left: with ``--cleanup run``, or after a resume.

    The namespace of a corpus with a failed item is kept.
    """
    rule = build.run.plan.request.cleanup
    if (
        rule == "never"
        or build.is_build_stopped
        or not (rule == "run" or build.run.resumed)
        or build.last is not Phase.EVALUATE
    ):
        return
    await build.run.journal.flush()
    async for corpus_id, history in _corpus_states(build):
        if build.run.stopping.requested:
            return
        if history.holds_memories and corpus_id not in build.unfinished:
            await build.clear(corpus_id, build.space(corpus_id, history))


async def _record_failed_corpus(build: OpenLane, corpus_id: str, failure: Failure) -> None:
    """Record that every item of a corpus failed, because the corpus could not be prepared.

    If the only namespace of a service was occupied, the items stay pending instead. A failure with ``stops_lane`` also
    stops all lanes that use the build. After any other failure, a service with only one namespace is cleared for the
    next corpus.
    """
    for lane, ref in build.items(corpus_id) if failure.kind != OCCUPIED else ():
        if build.run.stopping.requested:
            break
        await record_failed_item(lane, ref, failure)
    _count_corpus(build, corpus_id, failure)
    if failure.stops_lane:
        for lane in build.members:
            lane.breaker.stop(lane.plan.jobs, failure)
    elif build.single and not build.run.stopping.requested:
        await build.run.journal.flush()
        history = CorpusState.of(await build.run.journal.corpus(build.key, corpus_id))
        if history.holds_memories:
            await build.clear(corpus_id, build.space(corpus_id, history))


def _count_corpus(build: OpenLane, corpus_id: str, failure: Failure | None) -> None:
    for lane in build.members:
        lane.breaker.count_outcome("corpus", lane.plan.jobs, failure, items=lane.pending.count_of(corpus_id))


async def _single_namespace_order(build: OpenLane) -> list[str]:
    """Return the corpora with open items in the order for a service that has only one namespace.

    The corpus that is already in the namespace comes first. If it has no open items, it is cleared.
    """
    held = {name: history async for name, history in _corpus_states(build) if history.holds_memories}
    wanted = build.open_corpora
    first = next(iter(held), None)
    if len(held) == 1 and first in wanted:
        return [first, *(name for name in wanted if name != first)]
    for name, history in held.items():
        await build.clear(name, build.space(name, history))
    await build.run.journal.flush()
    return wanted


async def _record_version(build: OpenLane) -> None:
    """Write the version of the memory system and the identity of the build to the journal."""
    upstream = None
    if isinstance(build.provider, Versioned):
        upstream = (await build.run.attempt_and_journal(build.provider.upstream_version, CallOwner(build.key))).value
    data = {
        "version": build.provider.version,
        "upstream": upstream,
        "durability": build.provider.durability,
        "keeps_store": build.provider.keeps_store,
    }
    build.run.journal.append(Event(kind=PROVIDER_VERSION, scope=build.key, data=data))
    made_with = {"made_with": build_identity(build.plan, build.run.environment)}
    versions = {"version": build.provider.version, "upstream": upstream}
    build.run.journal.append(Event(kind=BUILD, scope=build.key, data={**made_with, **versions}))


async def _corpus_states(build: OpenLane) -> AsyncIterator[tuple[str, CorpusState]]:
    """Yield the id and the journaled state of each corpus of the selection."""
    for name in build.corpus_ids:
        yield name, CorpusState.of(await build.run.journal.corpus(build.key, name))
