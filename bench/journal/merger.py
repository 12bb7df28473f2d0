"""Merge several journals of one plan into a new run.

The order of the journals has no effect, and a repeated journal counts once. Every attempt of every journal is kept. If
a phase succeeded several times, the earliest success is its result. All successes must have the same hits, answer,
verdicts, state and labels; measured values may differ::

    outcome = await merge([Path("a"), Path("b")], Path("checkpoints/whole"), run_id="whole")
    print(outcome.gaps)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import aiosqlite
from anyio import to_thread

from bench.errors import IdentityError, JournalError, Locked, MergeConflict, UsageError
from bench.journal.codec import PHASE_OF, decode, micros, to_json
from bench.journal.file import (
    NAME,
    VERSION,
    draft_folder,
    examine,
    locate,
    open_reading,
    readable,
    sqlite_errors_reported,
    write_draft,
)
from bench.journal.queries import read_holder, read_meta, run_meta
from bench.journal.rows import RunMeta, RunState, wall
from bench.journal.sql import blocks
from bench.model import Phase
from bench.plan.job_record import EXTRA_KEY, merged_jobs, selects_per_range
from bench.plan.ranges import Range, Ranges, count_covered, gaps_of, union_of
from bench.untyped_values import Json

_MERGE = blocks("merge")
_STAGING = ("stage", "stage_steps", "stage_probes", "stage_events", "stage_resumes")
_COPYING = ("entries", "verdicts", "calls", "scores", "steps")
_DONE = (RunState.COMPLETE, RunState.PARTIAL)
_RANGE = ("start", "end", "shard", "run_id")
"""keys of a run's request that may differ between the sources"""
PARTS = "parts"
"""key in ``RunMeta.extra`` of a merged run; its value is the ranges of items that a resume may select"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutcome:
    """The result of a merge: the new file, its number of phase rows, and the item positions that no source covers."""

    path: Path
    phases: int
    gaps: tuple[Range, ...]
    """missing positions as 1-based inclusive ranges"""
    state: RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    path: Path
    meta: RunMeta
    state: RunState
    uuid: str


async def merge(
    sources: Sequence[Path], into: Path, *, run_id: str, request: Mapping[str, object] | None = None
) -> MergeOutcome:
    """Merge ``sources`` (run folders or journal files) into the new run folder ``into``.

    ``request`` has the flags with which the merged run can be resumed; by default they cover the ranges of all sources.
    After an error, no merged file exists.

    Raises:
        IdentityError: the sources are runs of different plans.
        MergeConflict: two sources have different results for an item; the error lists all such items.
        Locked: a live process has a source open for writing.
        JournalError, UsageError: a source cannot be read, or the merged run exists.
    """
    if not sources:
        raise UsageError("nothing to merge", hint="name at least one run folder or journal file")
    known = [await _source(locate(path)) for path in sources]
    known.sort(key=lambda source: (source.meta.created_at, source.uuid))
    _same_plan(known)
    meta = _merged_meta(known, run_id)
    meta = _resumable(meta, known) if request is None else replace(meta, request=request)
    gaps = gaps_of(meta.ranges, meta.total)
    whole = RunState.PARTIAL if gaps else RunState.COMPLETE
    state = whole if all(source.state in _DONE for source in known) else RunState.PAUSED
    path = into / NAME
    async with draft_folder(path, run_id) as draft:
        await to_thread.run_sync(write_draft, draft, meta)
        phases = await _fill(draft, known, meta, state)
    return MergeOutcome(path=path, phases=phases, gaps=gaps, state=state)


async def _source(path: Path) -> _Source:
    await examine(path)
    async with open_reading(path) as connection:
        with sqlite_errors_reported(path):
            values = await read_meta(connection)
            held = await read_holder(connection)
            version = next(iter(await connection.execute_fetchall("PRAGMA user_version")))[0]
            uuid = next(iter(await connection.execute_fetchall("SELECT uuid FROM origin WHERE id = 1")))[0]
    if version != VERSION:
        raise JournalError(
            f"the journal has format version {version}; expected {VERSION}",
            where=str(path),
            hint="resume the run once, so that its journal is migrated",
        )
    meta = run_meta(values)
    if held is not None and held.holder.lives(heartbeat_age_s=(micros(wall()) - held.heartbeat_us) / 1e6):
        raise Locked(f"run {meta.run_id} is locked by {held.holder}")
    state = values["state"]
    assert isinstance(state, list)
    return _Source(path=path, meta=meta, state=RunState(state[0]), uuid=uuid)


# ---------------------------------------------------------------------- what the merged run is


def _same_plan(sources: Sequence[_Source]) -> None:
    first = sources[0]
    for other in sources[1:]:
        if other.meta.plan_digest != first.meta.plan_digest:
            raise IdentityError(
                f"{other.path} and {first.path} are runs of different plans",
                changes=changes(first.meta.identity, other.meta.identity),
                hint="merge runs of one plan only",
            )


def changes(old: object, new: object, path: str = "") -> list[tuple[str, str, str]]:
    """Return the differences between two JSON values as (path, old, new), sorted by path."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = sorted({*old, *new})
        return [
            change
            for key in keys
            for change in changes(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [] if old == new else [(path, to_json(old), to_json(new))]


def _merged_meta(sources: Sequence[_Source], run_id: str) -> RunMeta:
    first = sources[0].meta
    total = max(source.meta.total for source in sources)
    shared = {
        key: value
        for key, value in first.extra.items()
        if key not in ("merged", PARTS) and all(source.meta.extra.get(key) == value for source in sources)
    }
    shards: Json = {}
    for source in sources:
        earlier = source.meta.extra.get("merged")
        if isinstance(earlier, Mapping):
            shards.update(earlier)
        else:
            shards[source.uuid] = {
                "run_id": source.meta.run_id,
                "created_us": micros(source.meta.created_at),
                "ranges": source.meta.ranges,
                "versions": source.meta.versions,
                "code_state": source.meta.code_state,
            }
    return replace(
        first,
        run_id=run_id,
        total=total,
        ranges=union_of((source.meta.ranges for source in sources), total),
        extra={**shared, "merged": dict(sorted(shards.items()))},
    )


def _resumable(meta: RunMeta, sources: Sequence[_Source]) -> RunMeta:
    """Return the metadata with changed flags, so that a resume selects the items of all sources."""
    request = {name: value for name, value in meta.request.items() if name not in _RANGE}
    parts = meta.ranges
    if selects_per_range(request):
        everything = ((1, meta.total),)
        apart = [selected_from(source.meta) or source.meta.ranges or everything for source in sources]
        parts = tuple(sorted({part for ranges in apart for part in ranges}))
    return replace(meta, request=request, extra={**meta.extra, PARTS: parts})


def selected_from(meta: RunMeta) -> Ranges | None:
    """Return the item ranges that a merged run, or a fork of a merged run, selects when it is resumed.

    Return None for other runs.
    """
    parts = meta.extra.get(PARTS)
    return None if not isinstance(parts, Sequence) else tuple((start, end) for start, end in parts)


# ---------------------------------------------------------------------- rows


async def _fill(draft: Path, sources: Sequence[_Source], meta: RunMeta, state: RunState) -> int:
    async with AsyncExitStack() as stack:
        uris = [await stack.enter_async_context(readable(source.path)) for source in sources]
        connection = await stack.enter_async_context(
            aiosqlite.connect(draft.resolve().as_uri(), uri=True, isolation_level=None)
        )
        # the draft is private until it is linked into place, and synced before that
        await connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32000;"
        )
        await connection.create_function("plain", 1, _plain, deterministic=True)
        await connection.create_function("digest", -1, _digest, deterministic=True)
        await connection.executescript(_MERGE["staging"])
        await _each(connection, uris, script="names", statements=_STAGING)
        await _refuse_conflicts(connection)
        parts = [(source.meta.ranges, source.meta.extra) for source in sources]
        extra = {**meta.extra, EXTRA_KEY: merged_jobs(parts, await _shared(connection, sources, meta))}
        await connection.execute(_MERGE["phases"])
        await _each(connection, uris, statements=_COPYING)
        await connection.executescript(_MERGE["notes"])
        await connection.executemany(
            blocks("write")["set_meta"],
            [("state", to_json([state, ""])), ("state_us", str(micros(wall()))), ("extra", to_json(extra))],
        )
        await connection.execute("PRAGMA journal_mode = WAL")
        counted = await connection.execute_fetchall(_MERGE["count"])
    return int(next(iter(counted))[0])


async def _each(
    connection: aiosqlite.Connection, uris: Sequence[str], *, statements: Sequence[str], script: str | None = None
) -> None:
    """For each source: attach it to the connection, run the statements, and detach it.

    A statement gets the number of the source as its parameter.
    """
    for number, uri in enumerate(uris):
        await connection.execute("ATTACH ? AS src", (uri,))
        if script is not None:
            await connection.executescript(_MERGE[script])
        for name in statements:
            sql = _MERGE[name]
            await connection.execute(sql, (number,) if "?1" in sql else ())
        await connection.execute("DETACH src")


async def _shared(
    connection: aiosqlite.Connection, sources: Sequence[_Source], meta: RunMeta
) -> dict[tuple[str, Phase], int]:
    """Count, for each owner and phase, the items that several ranges share.

    An item in n ranges counts n - 1 times.
    """
    ranges = list(dict.fromkeys(source.meta.ranges for source in sources))
    if sum(count_covered(one, meta.total) for one in ranges) == count_covered(meta.ranges, meta.total):
        return {}
    part_of = [ranges.index(source.meta.ranges) for source in sources]
    await connection.create_function("part", 1, part_of.__getitem__, deterministic=True)
    found = await connection.execute_fetchall(_MERGE["shared"])
    return {(owner, PHASE_OF[phase]): count for owner, phase, count in found}


async def _refuse_conflicts(connection: aiosqlite.Connection) -> None:
    await connection.executescript(_MERGE["choose"])
    found = await connection.execute_fetchall(_MERGE["conflicts"])
    if conflicts := [(unit, f"{PHASE_OF[phase]} of {owner}, epoch {epoch}") for owner, phase, _, unit, epoch in found]:
        raise MergeConflict(conflicts)


def _plain(column: str | bytes | None) -> str | bytes | None:
    return to_json(decode(column)) if isinstance(column, bytes) else column


def _digest(*columns: object) -> str:
    texts = [column.hex() if isinstance(column, bytes) else column for column in columns]
    return blake2b(json.dumps(texts).encode(), digest_size=16).hexdigest()
