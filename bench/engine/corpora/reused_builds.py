"""Find a build of an earlier run. This run can then search the build, and need not ingest the same memories again.

Example::

    await reuse_builds(run, lanes)     # by --reuse-build: never, a run id, or auto (the newest match)

A build can be reused under three conditions. Its config, versions and memories are those that this run would ingest.
Every selected corpus is ready in the build. The contents of its namespaces have not changed.

This run does not count the cost of the build, and it never clears the memories. The earlier run does not clear the
memories while this run needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import anyio

from bench import canonical
from bench.engine.corpora.anonymizer import space_of, store_of
from bench.engine.corpora.build_contents import changed_contents, contents, is_unsearched
from bench.engine.corpora.corpus_state import CorpusState, returned
from bench.engine.open_lane import OpenLane
from bench.engine.run_context import CallOwner, RunContext
from bench.errors import IdentityError, JournalError, UsageError
from bench.journal import CorpusKind, CorpusRow, Event, ProbeRow, Reader
from bench.journal.build_borrowers import give_back, lend
from bench.journal.paths import CHECKPOINTS, find_run, run_ids
from bench.plan.identity import ABSENT, changes
from bench.plan.shared_builds import BUILD, REUSED, build_identity, can_share, version_of
from bench.plan.stored_builds import Build, builds_of
from bench.providers import Restores, Versioned, is_reusable
from bench.providers.plugin_guard import AdapterErrors
from bench.untyped_values import object_or_empty
from bench.visible_text import counted, money_text

NEVER, AUTO = "never", "auto"
READY = "ready, with a record of its contents"
Changes = list[tuple[str, str, str]]
"""the differences, each as (path, value of the build, value of this run)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBuild:
    """One build of an earlier run, read from its journal."""

    folder: Path
    build: Build
    made_with: Mapping[str, object]
    rows: Mapping[str, Sequence[CorpusRow]]
    """corpus -> the rows of the last attempt to prepare it"""
    probes: Sequence[ProbeRow]


async def reuse_builds(run: RunContext, lanes: Sequence[OpenLane]) -> None:
    """Find the builds that this run reuses, and copy their rows to its journal.

    If this run is resumed, check the builds that it already reuses.

    Raises:
        UsageError: there is no such run, or no provider of this run keeps its memories for other runs.
        IdentityError: a build differs from what this run would ingest, or its contents have changed.
    """
    wanted = run.plan.request.reuse_build
    searching = [lane for lane in lanes if not lane.plan.shares and any(one.pending.unsearched for one in lane.members)]
    if run.scope.is_rescore or not searching:
        return
    reused = await _reused_by_lane(run)
    for lane in searching:
        if lane.key in reused:
            await _recheck(run, lane, reused[lane.key])
    fresh = [lane for lane in searching if lane.key not in reused and not await _has_ingested(lane)]
    if wanted == NEVER or not fresh:
        return
    able = [lane for lane in fresh if _is_kept_elsewhere(lane)]
    if wanted == AUTO:
        for lane in able:
            await _reuse_newest(run, lane)
        return
    folder = _folder(run, wanted)
    if not able:
        names = ", ".join(lane.provider.name for lane in fresh)
        raise UsageError(
            f"--reuse-build {wanted}: the memories of {names} can be searched only by the run that ingested them",
            hint="start a new run that ingests again, without --reuse-build",
        )
    for lane in able:
        await _reuse_named(run, lane, folder)


def _is_kept_elsewhere(lane: OpenLane) -> bool:
    provider = lane.provider
    return provider.keeps_store and is_reusable(provider) and not lane.single and can_share(lane.plan)


def _folder(run: RunContext, wanted: str) -> Path:
    folder = find_run(run.plan.workspace, wanted).resolve()
    folder = folder if folder.is_dir() else folder.parent
    if folder.parent != (run.plan.workspace / CHECKPOINTS).resolve() or folder == run.folder.resolve():
        raise UsageError(
            f"--reuse-build {wanted}: expected the id of another run in this workspace", hint="give a run id, or auto"
        )
    return folder


async def _reused_by_lane(run: RunContext) -> dict[str, Mapping[str, object]]:
    if not run.resumed:
        return {}
    async with Reader.open(run.folder) as reader:
        return {event.scope: event.data for event in await reader.events(REUSED)}


async def _has_ingested(lane: OpenLane) -> bool:
    """Return True if this run has itself begun to ingest a corpus of the lane."""
    return any([(await lane.run.journal.corpus(lane.key, name)) for name in lane.corpus_ids])


# ----------------------------------------------------------------- choosing


async def _reuse_named(run: RunContext, lane: OpenLane, folder: Path) -> None:
    stored = await _stored_builds(folder, lane)
    found: list[tuple[Changes, StoredBuild]] = [(await _differences(run, lane, one), one) for one in stored]
    if not found:
        benchmark, provider = lane.plan.benchmark.name, lane.plan.provider.config.name
        raise IdentityError(
            f"run {folder.name} has no build of {benchmark} by {provider}",
            hint="list the builds of each run with: bench builds list",
        )
    different, one = min(found, key=lambda pair: len(pair[0]))
    different = different or await _lend_and_compare(run, lane, one)
    if different:
        raise _mismatch(lane, one.build.run_id, one.build.build, different)
    await _take_over(run, lane, one)


async def _reuse_newest(run: RunContext, lane: OpenLane) -> None:
    for name in run_ids(run.plan.workspace):
        folder = run.plan.workspace / CHECKPOINTS / name
        try:
            stored = [] if name == run.run_id else await _stored_builds(folder, lane)
        except JournalError:
            continue
        for one in stored:
            if await _differences(run, lane, one):
                continue
            different = await _lend_and_compare(run, lane, one)
            if not different:
                await _take_over(run, lane, one)
                return
            _report_not_reused(
                lane, f"build {one.build.build} of run {name} has other contents than before: {_line(different[0])}"
            )
    _report_not_reused(
        lane, "--reuse-build auto: no build of this workspace matches, so this run ingests the memories itself"
    )


def _report_not_reused(lane: OpenLane, text: str) -> None:
    lane.report(Event(kind="not_reused", scope=lane.key, message=text))


def _line(change: tuple[str, str, str]) -> str:
    path, before, now = change
    return f"{path}: {before} -> {now}"


def _mismatch(lane: OpenLane, run_id: str, build: str, different: Changes) -> IdentityError:
    return IdentityError(
        f"{lane.plan.provider.label} cannot reuse build {build} of run {run_id}, because these values differ",
        changes=different,
        hint="undo the change, or reuse only the builds that match: bench run --reuse-build auto",
    )


async def _stored_builds(folder: Path, lane: OpenLane) -> list[StoredBuild]:
    """Return the builds of a run that have the lane's benchmark and provider.

    Builds with the same provider variant as the lane come first.
    """
    found = []
    config, benchmark = lane.plan.provider.config, lane.plan.benchmark.name
    async with Reader.open(folder) as reader:
        events = {event.scope: event.data for event in await reader.events(BUILD)}
        for build in await builds_of(reader):
            name = build.provider.partition("@")[0]
            if build.benchmark != benchmark or name != config.name or build.build not in events:
                continue
            rows = {one.corpus: one.last async for one in reader.corpora(build.build) if one.last}
            probes = await reader.probes(build.build)
            data = events[build.build]
            found.append(
                StoredBuild(folder=folder, build=build, made_with=_build_identity(data), rows=rows, probes=probes)
            )
    return sorted(found, key=lambda one: one.build.provider != lane.plan.provider.label)


def _build_identity(data: Mapping[str, object]) -> dict[str, object]:
    return {**object_or_empty(data["made_with"]), "version": version_of(data), "upstream": data.get("upstream")}


# ----------------------------------------------------------------- comparing


async def _differences(run: RunContext, lane: OpenLane, stored: StoredBuild) -> Changes:
    """Return how a build differs from what this run would ingest, by comparing only the journals."""
    now = build_identity(lane.plan, run.environment)
    now |= {"version": version_of({"version": lane.provider.version}), "upstream": await _upstream(lane)}
    different = changes(stored.made_with, canonical.parse(canonical.dumps(now)))
    for name in lane.corpus_ids:
        rows = stored.rows.get(name, ())
        state = _reuse_state(rows)
        if state != READY:
            different.append((f"corpora.{name}", state, READY))
            continue
        before, ours = _row_data(rows, CorpusKind.INGESTED).get("sha256"), lane.anonymize(lane.corpus(name)).sha256
        if before != ours:
            different.append((f"corpora.{name}.memories", f"sha256 {before}", f"sha256 {ours}"))
    return different


async def _upstream(lane: OpenLane) -> str | None:
    provider = lane.provider
    if not isinstance(provider, Versioned):
        return None
    return (await lane.run.attempt_and_journal(provider.upstream_version, CallOwner(lane.key))).value


def _reuse_state(rows: Sequence[CorpusRow]) -> str:
    """Return READY if another run can search the corpus, otherwise the reason why it cannot."""
    if not rows:
        return ABSENT
    state = CorpusState.of(rows)
    if state.reused_from:
        return f"reused from run {state.reused_from}: give the id of that run"
    if CorpusKind.CLEARED in state.kinds:
        return "cleared: to keep memories, ingest with --cleanup never"
    if not state.is_ready:
        return "not ready"
    return (
        READY
        if "contents" in _row_data(rows, CorpusKind.READY)
        else ("no record of its contents: ingest it with --cleanup never")
    )


def _row_data(rows: Sequence[CorpusRow], kind: CorpusKind) -> Mapping[str, object]:
    return next((row.data for row in reversed(rows) if row.kind is kind), {})


async def _lend_and_compare(run: RunContext, lane: OpenLane, stored: StoredBuild) -> Changes:
    """Compare the contents of a build's namespaces with the stored record, and return the differences.

    Before the comparison, a file is written, so that the run that made the build does not clear the namespaces. The
    file is removed if the contents differ.
    """
    lend(stored.folder, to=run.run_id)
    different: Changes = []
    try:
        rows = {name: stored.rows[name] for name in lane.corpus_ids}
        run_dir = store_of(stored.folder, stored.build.build)
        different = await _compare_contents(lane, rows, stored.build.run_id, restored_from=run_dir)
    finally:
        if different:
            give_back(stored.folder, by=run.run_id)
    return different


async def _compare_contents(
    lane: OpenLane, rows: Mapping[str, Sequence[CorpusRow]], run_id: str, *, restored_from: Path | None = None
) -> Changes:
    """Return how the contents of namespaces have changed since their corpora were ready, in the order of the corpora.

    If ``restored_from`` is given and the provider can restore namespaces, each namespace is first restored from this
    folder. A restored namespace is cleared again if its contents differ.
    """
    found: dict[str, Changes] = {}
    slots = anyio.CapacityLimiter(lane.width)

    async def compare(name: str) -> None:
        async with slots:
            history = CorpusState.of(rows[name])
            space = space_of(lane.plan, journal="", run_id=run_id, corpus=name, history=history)
            if restored_from is not None and isinstance(lane.provider, Restores):
                with AdapterErrors(lane.plan.provider.config, f"cannot restore the memories of {name}"):
                    await lane.provider.restore(space, restored_from)
            before = object_or_empty(_row_data(rows[name], CorpusKind.READY)["contents"])
            memories = lane.anonymize(lane.corpus(name)).memories
            look = partial(contents, lane.provider, lane.plan.provider.config, space, memories)
            now = await lane.run.attempt_and_journal(look, CallOwner(lane.key))
            if now.value is None:
                found[name] = [(f"corpora.{name}", "ready", now.message)]
            else:
                found[name] = changed_contents(f"corpora.{name}", before, now.value)
            if found[name] and restored_from is not None and isinstance(lane.provider, Restores):
                await lane.provider.clear(space)  # a copy of what does not fit

    async with anyio.create_task_group() as looks:
        for name in rows:
            looks.start_soon(compare, name)
    return [change for name in rows for change in found[name]]


async def _recheck(run: RunContext, lane: OpenLane, reused: Mapping[str, object]) -> None:
    """On a resume, check the reused build again, for the corpora that are still to be searched."""
    run_id, build = str(reused["run"]), str(reused["build"])
    lender = run.folder.parent / run_id
    if lender.is_dir():
        lend(lender, to=run.run_id)
    names = [name for name in lane.corpus_ids if lane.is_unsearched(name)]
    rows = {name: await run.journal.corpus(lane.key, name) for name in names}
    different = changes({"upstream": reused.get("upstream")}, {"upstream": await _upstream(lane)})
    from_build = {name: some for name, some in rows.items() if CorpusState.of(some).reused_from}
    different += await _compare_contents(lane, from_build, run_id)
    if different:
        raise _mismatch(lane, run_id, build, different)


# ----------------------------------------------------------------- taking over


async def _take_over(run: RunContext, lane: OpenLane, stored: StoredBuild) -> None:
    """Copy the rows of the build to this run's journal, with an event that names the run that paid for the build."""
    for name in lane.corpus_ids:
        rows = stored.rows[name]
        state = CorpusState.of(rows)
        ingested = _row_data(rows, CorpusKind.INGESTED)
        kept = {key: ingested[key] for key in ("memories", "sha256", "tokens") if key in ingested}
        data = {
            **kept,
            **returned(state.collected.value),
            "namespace": state.namespace,
            "reused_from": stored.build.run_id,
            **({"prepared": dict(state.prepared)} if state.prepared else {}),
        }
        row = CorpusRow(lane=lane.key, corpus=name, attempt=state.attempt, kind=CorpusKind.INGESTED, data=data)
        ready = {
            key: value for key, value in _row_data(rows, CorpusKind.READY).items() if key in ("sentinel", "contents")
        }
        await run.journal.wait_for_room()
        run.journal.append(row)
        run.journal.append(replace(row, kind=CorpusKind.READY, data=ready))
        for probe in stored.probes:
            if (probe.corpus, probe.attempt) == (name, state.attempt):
                run.journal.append(replace(probe, lane=lane.key))
    build = stored.build
    unknown = f", {build.cost_unknown_calls} of unknown price" if build.cost_unknown_calls else ""
    text = (
        f"build {build.build} of run {build.run_id} (reused): that run ingested it and paid "
        f"{counted(build.calls, 'call(|s)')}, "
        f"USD {money_text(Decimal(build.cost_usd))}{unknown}; this run does not count them{_unsearched_note(stored)}"
    )
    facts = ("fingerprint", "calls", "tokens", "cost_usd", "cost_unknown_calls", "ingest_us", "n_memories", "n_corpora")
    data = {name: getattr(build, name) for name in facts}
    data |= {"run": build.run_id, "build": build.build, "upstream": stored.made_with.get("upstream")}
    lane.report(Event(kind=REUSED, scope=lane.key, message=text, data=data))
    await run.journal.flush()


def _unsearched_note(stored: StoredBuild) -> str:
    """Return a note if the build has no record of search results; "" if it has one.

    Without this record, less could be compared.
    """
    kept = (_row_data(rows, CorpusKind.READY).get("contents") for rows in stored.rows.values())
    if not any(isinstance(one, Mapping) and is_unsearched(one) for one in kept):
        return ""
    return "; without a record of its search results (--isolation off), only counts and sent texts were compared"
