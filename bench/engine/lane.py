"""Run one lane: a pool prepares corpora, and workers run their items.

Example::

    await run_lane(lane)        # an OpenLane of `bench.engine.lane_setup.open_lanes`

The lane that ingests a build also runs the lanes that search the same build: a corpus is prepared once, then each of
its items is run for all of these lanes. Rows about the corpus are written once, under the key of the lane that ingests.

A corpus worker uses an ingest slot only for the ingest, not while it waits for an index. Item workers take items from
the work queue, so there is one task per worker, not per item. A refusal stops only the jobs that it concerns.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from functools import partial

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from bench.engine.corpora.corpus import prepare
from bench.engine.corpora.corpus_state import CorpusState
from bench.engine.items.item_pipeline import ask, end_failed
from bench.engine.open_lane import LaneItem, OpenLane, Ready
from bench.engine.outcome import Failure
from bench.engine.run_context import OCCUPIED, Ledger
from bench.engine.work_queue import Handover
from bench.events import bind, log
from bench.journal import Event
from bench.model import Phase
from bench.plan.shared_builds import BUILD, build_identity
from bench.providers import Versioned

CLEARERS = 4
"""number of namespaces that are cleared concurrently"""


async def run_lane(build: OpenLane) -> None:
    """Prepare every corpus with open items, and run the items."""
    if not build.open_items:
        return
    with bind(job=build.key):
        if not build.single:
            await _work(build, iter(build.open_corpora))
            return
        async with build.live.turns.setdefault(build.plan.provider.config.name, anyio.Lock()):
            await _work(build, iter(await _one_by_one(build)))


async def _work(build: OpenLane, corpora: Iterator[str]) -> None:
    if any(one.todo.unsearched for one in build.members):
        await _record_version(build)
    handover: Handover[Ready, LaneItem] = Handover(bound=build.ingest_width)
    done, leaving = anyio.create_memory_object_stream[Ready](math.inf)
    async with anyio.create_task_group() as workers:
        workers.start_soon(_prepare_all, build, corpora, handover)
        for _ in range(min(build.width, build.open_items)):
            workers.start_soon(_ask_all, build, handover, done.clone())
        for _ in range(min(CLEARERS, build.ingest_width)):
            workers.start_soon(_leave_all, build, leaving.clone())
        done.close()
        leaving.close()
    for lane in build.members:
        if (note := getattr(lane.readers.embedders.get(lane.key), "cut_note", None)) is not None:
            lane.tell_once("texts_cut", note)
    if not build.live.errand.rescores and build.live.errand.only is None:
        await _sweep(build)


async def _one_by_one(build: OpenLane) -> list[str]:
    """Return the corpora in order for a service with one namespace; a corpus that is already in it comes first."""
    held = {name: history async for name, history in _histories(build) if history.held}
    wanted = build.open_corpora
    first = next(iter(held), None)
    if len(held) == 1 and first in wanted:
        return [first, *(name for name in wanted if name != first)]
    for name, history in held.items():
        await build.clear(name, build.space(name, history))
    await build.live.journal.flush()
    return wanted


async def _histories(build: OpenLane) -> AsyncIterator[tuple[str, CorpusState]]:
    """Yield the state of each corpus of the selection."""
    for name in build.corpus_ids:
        yield name, CorpusState.of(await build.live.journal.corpus(build.key, name))


async def _record_version(build: OpenLane) -> None:
    """Record the version of the memory system for the receipt."""
    upstream = None
    if isinstance(build.provider, Versioned):
        upstream = (await build.live.aside(build.provider.upstream_version, Ledger(build.key))).value
    data = {
        "version": build.provider.version,
        "upstream": upstream,
        "durability": build.provider.durability,
        "keeps_store": build.provider.keeps_store,
    }
    build.live.journal.append(Event(kind="provider_version", scope=build.key, data=data))
    made_with = {"made_with": build_identity(build.plan, build.live.environment)}
    versions = {"version": build.provider.version, "upstream": upstream}
    build.live.journal.append(Event(kind=BUILD, scope=build.key, data={**made_with, **versions}))


async def _prepare_all(build: OpenLane, corpora: Iterator[str], handover: Handover[Ready, LaneItem]) -> None:
    async with anyio.create_task_group() as workers:
        for _ in range(min(build.under_way, len(build.open_corpora))):
            workers.start_soon(_prepare_some, build, corpora, handover)
    handover.close()


async def _prepare_some(build: OpenLane, corpora: Iterator[str], handover: Handover[Ready, LaneItem]) -> None:
    for corpus_id in corpora:
        if build.build_halted:
            return
        with bind(corpus=corpus_id):
            outcome = await prepare(build, corpus_id)
            _tell(build, outcome)
        if isinstance(outcome, Ready):
            _count_corpus(build, corpus_id, None)
        if isinstance(outcome, Ready) and build.asks:
            outcome.open_items = sum(one.todo.count_of(corpus_id) for one in build.members)
            outcome.all_good = not build.left_out(corpus_id)
            build.vacant = anyio.Event()
            await handover.put(outcome, build.items(corpus_id))
            if build.single and not build.build_halted:
                await build.vacant.wait()
        elif isinstance(outcome, Failure):
            build.unfinished.add(corpus_id)
            await _corpus_failed(build, corpus_id, outcome)


def _tell(build: OpenLane, outcome: Ready | Failure | None) -> None:
    if isinstance(outcome, Ready):
        log().info("corpus_ready", namespace=outcome.space.namespace, attempt=outcome.space.attempt)
    elif outcome is not None:
        log().info("corpus_failed", kind=outcome.kind, error=outcome.message)


async def _corpus_failed(build: OpenLane, corpus_id: str, failure: Failure) -> None:
    """Record the failure of a corpus for each of its items, and stop the lanes if the failure requires this.

    Items of a corpus that found its only namespace occupied stay pending. After another failure, the only namespace of
    a service is cleared for the next corpus.
    """
    for lane, ref in build.items(corpus_id) if failure.kind != OCCUPIED else ():
        if build.live.stopping.asked:
            break
        await end_failed(lane, ref, failure)
    _count_corpus(build, corpus_id, failure)
    if failure.stops_lane:
        for lane in build.members:
            lane.halts.stop(lane.plan.jobs, failure)
    elif build.single and not build.live.stopping.asked:
        await build.live.journal.flush()
        history = CorpusState.of(await build.live.journal.corpus(build.key, corpus_id))
        if history.held:
            await build.clear(corpus_id, build.space(corpus_id, history))


def _count_corpus(build: OpenLane, corpus_id: str, failure: Failure | None) -> None:
    for lane in build.members:
        lane.halts.count_end(
            "corpus", partial(getattr, lane.plan, "jobs"), failure, items=lane.todo.count_of(corpus_id)
        )


async def _ask_all(build: OpenLane, handover: Handover[Ready, LaneItem], done: MemoryObjectSendStream[Ready]) -> None:
    async with done:
        while not build.build_halted and (work := await handover.take()) is not None:
            ready, (lane, ref) = work
            await build.live.journal.room()
            good = await ask(lane, ready, ref)
            ready.all_good = ready.all_good and good
            ready.open_items -= 1
            if not ready.all_good:
                build.unfinished.add(ready.corpus_id)
            if not ready.open_items and (ready.all_good or build.single):
                done.send_nowait(ready.closed())
        if build.build_halted:
            build.vacant.set()
            # no one will take what waits, so no one may wait for it to be taken
            handover.drop()


async def _leave_all(build: OpenLane, leaving: MemoryObjectReceiveStream[Ready]) -> None:
    """Clear the corpora whose items all have results, concurrently with the item workers."""
    wanted = (build.live.plan.request.cleanup == "corpus" or build.single) and not build.live.errand.rescores
    async with leaving:
        async for ready in leaving:
            if wanted and ready.held and not build.build_halted:
                # a crash after the clear must find every result: no one may ask an empty namespace again
                await build.live.journal.flush()
                await build.clear(ready.corpus_id, ready.space)
            build.vacant.set()


async def _sweep(build: OpenLane) -> None:
    """Clear the remaining namespaces: for ``--cleanup run``, and those of an earlier process."""
    rule = build.live.plan.request.cleanup
    if (
        rule == "never"
        or build.build_halted
        or not (rule == "run" or build.live.resumed)
        or build.last is not Phase.EVALUATE
    ):
        return
    await build.live.journal.flush()
    async for corpus_id, history in _histories(build):
        if build.live.stopping.asked:
            return
        if history.held and corpus_id not in build.unfinished:
            await build.clear(corpus_id, build.space(corpus_id, history))
