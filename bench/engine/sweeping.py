"""Clear what a run that will not go on has left at providers; the behind of ``bench clean``.

Example::

    cleared = await sweep(Path("."), Path("checkpoints/r1"))        # how many namespaces were cleared

Nothing is sent to a provider whose config or address is not what it was when the run was started: another service
would be asked to delete, and say that it did.

A namespace is left when the last attempt of its corpus has rows and none of them says that it was cleared. What a
built-in keeps lies below the run's own folder and goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.config.catalog import Catalog
from bench.config.modelfile import ModelFile
from bench.engine.history import History
from bench.engine.opaque import opaque
from bench.engine.readers import embedding_options
from bench.engine.resuming import stored_request
from bench.engine.spaces import space_of
from bench.errors import CallError, IdentityError
from bench.http import Http
from bench.journal import CorpusKind, CorpusRow, Journal, Reader, RunMeta
from bench.model import Embedder, Space
from bench.plan import Lane, Plan, make_plan
from bench.plan.identity import changes
from bench.providers import ProviderContext, merge_captures, open_provider
from bench.settings import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """One namespace that nobody cleared."""

    corpus: str
    space: Space


async def sweep(workspace: Path, folder: Path, environment: Environment | None = None) -> int:
    """Clear every namespace that a run has left; each is journaled.

    Raises:
        UsageError, ConfigError, DataError: the run's benchmark or provider cannot be planned any more.
        IdentityError: a provider or the data is not what it was; nothing was sent.
        CallError: a provider refuses; what was cleared before it is journaled.
    """
    known = environment or Environment.load(workspace)
    plan = await sweepable(workspace, folder, known)
    async with Reader.open(folder) as reader:
        before = await reader.status()
    cleared = 0
    async with Http() as http, Journal.resume(folder) as journal:
        try:
            for lane in plan.running:
                if lane.provider.built_in is None:
                    left = await left_over(journal, lane)
                    context = ProviderContext(
                        http=http,
                        environment=known,
                        run_dir=folder / "stores" / opaque("l", lane.key),
                        embedder=_embedder(lane, http, known, plan.model_files),
                    )
                    with _told_for_clean(folder):
                        cleared += await _clear(journal, lane, left, context)
        finally:
            # taking the journal marked the run as running; it is what it was
            await journal.set_state(before.state, before.reason)
    return cleared


async def sweepable(workspace: Path, folder: Path, environment: Environment) -> Plan:
    """Plan the run once more, and refuse when its providers or its data are others by now.

    Raises:
        UsageError, ConfigError, DataError: the run cannot be planned any more.
        IdentityError: a provider or the data is not what it was; ``changes`` lists each leaf.
    """
    async with Reader.open(folder) as reader:
        meta = reader.meta
    plan = make_plan(Catalog.load(workspace), stored_request(meta), environment)
    outside = [lane for lane in plan.running if lane.provider.built_in is None]
    found = changes(_places(meta.identity, outside), _places(plan.identity, outside))
    if found:
        raise _other_place(meta, found)
    return plan


def _places(identity: Mapping[str, object], lanes: Sequence[Lane]) -> dict[str, object]:
    """What of an identity says where a namespace lies and which there are; prompts and models do not."""
    providers = cast("Mapping[str, object]", identity["providers"])
    benchmarks = cast("Mapping[str, Mapping[str, object]]", identity["benchmarks"])
    return {
        "providers": {lane.provider.label: providers.get(lane.provider.label) for lane in lanes},
        "datasets": {lane.benchmark.name: benchmarks.get(lane.benchmark.name, {}).get("dataset") for lane in lanes},
    }


def _other_place(meta: RunMeta, found: Sequence[tuple[str, str, str]]) -> IdentityError:
    return IdentityError(
        f"what run {meta.run_id} left is not looked for elsewhere than where it was written: nothing was sent",
        changes=found,
        hint=f"put back what changed (config, variable, data), then bench clean {meta.run_id}",
    )


@contextmanager
def _told_for_clean(folder: Path) -> Iterator[None]:
    """What helps a run that stopped, to resume it, is no advice to one that is to go."""
    try:
        yield
    except CallError as problem:
        problem.hint = f"the run was kept; once that is mended: bench clean {folder.name}"
        raise


async def left_over(journal: Journal, lane: Lane) -> list[Left]:
    """The namespaces of a lane that were written and not cleared."""
    found = []
    for corpus in lane.benchmark.dataset.corpora():
        rows = await journal.corpus(lane.key, corpus)
        if not rows:
            continue
        attempt = max(row.attempt for row in rows)
        if any(row.kind is CorpusKind.CLEARED for row in rows if row.attempt == attempt):
            continue
        history = History.of(rows)
        captures = merge_captures(history.prepared, history.collected.captures)
        run_id = journal.meta.run_id
        space = space_of(lane, run_id=run_id, corpus=corpus, attempt=history.attempt, captures=captures)
        found.append(Left(corpus=corpus, space=space))
    return found


def _embedder(lane: Lane, http: Http, environment: Environment, files: Mapping[str, ModelFile]) -> Embedder | None:
    """Some providers cannot be opened without the model of their vectors; it is not asked here."""
    from bench.models import open_embedder

    rule = lane.provider.config.client_embeddings
    if lane.provider.embedding is None or rule is None:
        return None
    return open_embedder(
        lane.provider.embedding, http=http, environment=environment, files=files, options=embedding_options(rule)
    )


async def _clear(journal: Journal, lane: Lane, left: Sequence[Left], context: ProviderContext) -> int:
    if not left:
        return 0
    async with open_provider(lane.provider.config, context) as provider:
        if not provider.capabilities.clear:
            return 0
        for one in left:
            removed = await provider.clear(one.space)
            journal.append(
                CorpusRow(
                    lane=lane.key,
                    corpus=one.corpus,
                    attempt=one.space.attempt,
                    kind=CorpusKind.CLEARED,
                    data={"removed": removed},
                )
            )
    return len(left)
