"""Clear the namespaces that a run has left at providers, for ``bench clean``.

Example::

    cleared = await clear_run(Path("."), Path("checkpoints/r1"))                  # number of cleared namespaces
    given_up = await forget(Path("checkpoints/r1"), ["gone"])                 # number of abandoned namespaces

If the config or address of a provider has changed since the start of the run, nothing is sent to this provider,
because another service with other data could use the address. Settings that clearing does not use, such as a model
name, may differ. The argument ``moved`` names the providers that are still the same service.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from bench.config.builtin_providers import is_built_in
from bench.config.catalog import Catalog
from bench.config.model import ModelFile
from bench.config.provider.checks import calls_of
from bench.config.provider.config import ProviderConfig
from bench.config.run import RunRequest
from bench.engine.corpora.anonymizer import anonymize, space_of, store_of
from bench.engine.corpora.corpus_state import CorpusState
from bench.engine.corpora.isolation import clear_provably
from bench.engine.open_lane import THOROUGH
from bench.engine.resume import stored_request
from bench.errors import CallError, ConfigError, DataError, IdentityError, Locked, UsageError
from bench.http import Http, recording
from bench.journal import CorpusKind, CorpusRow, Journal, Reader, RunMeta
from bench.journal.build_borrowers import borrowers
from bench.model import Embedder, RunIdentity, Space
from bench.plan import Lane, Plan, make_plan
from bench.plan.identity import changes
from bench.plan.leftover_namespaces import Leftover, leftovers
from bench.plan.provider import label_at_cutoff, load_named
from bench.providers import ProviderContext, open_provider
from bench.settings import Environment

CLEARING = frozenset({"setup", "teardown", "clear", "verify_clear"})
"""sections of a provider's config whose calls are used to clear a namespace"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnclearedNamespace:
    """A namespace that was written and not cleared."""

    corpus: str
    space: Space
    origin: str
    """id of the journal of the run that ingested into this namespace"""


async def clear_run(
    workspace: Path,
    folder: Path,
    environment: Environment | None = None,
    *,
    moved: Collection[str] = (),
    orphans: bool = False,
    freed: Collection[str] = (),
) -> int:
    """Clear every namespace that a run has left, and return the number of cleared namespaces.

    Each clear is recorded in the journal. ``moved`` names providers whose changed address or config is accepted.
    ``freed`` names runs that no longer need the memories. ``orphans`` is True for ``bench clean --orphans``: the caller
    does not delete the run, so the files of built-in providers are deleted here.

    Raises:
        UsageError, ConfigError, DataError: the configs or data of the run can no longer be read.
        IdentityError: a provider or the data has changed, so nothing was sent.
        CallError: a provider refused; the namespaces at the other providers were cleared.
        Locked: another run still searches these memories, or another process works on the run.
    """
    known = environment or Environment.load(workspace)
    plan = await clearing_plan(workspace, folder, known, moved=moved, orphans=orphans, freed=freed)
    cleared = await _delete_files(folder) if orphans else 0
    if plan is None:
        return cleared
    refused: list[CallError] = []
    async with Http() as http, Journal.append_to(folder) as journal:
        left = {one.lane: one for one in await _left_in(folder)}
        async with Reader.open(folder) as reader:
            run_ids = {one.uuid: one.run_id for one in await reader.origins()}
        for lane in plan.running:
            if lane.key in left:
                context = ProviderContext(
                    http=http,
                    environment=known,
                    run_dir=store_of(folder, lane.build),
                    embedder=_embedder(lane, http, known, plan.model_files),
                )
                with _catch_refusal(_retry_command(folder, orphans=orphans), lane, refused):
                    proven = THOROUGH if plan.request.isolation != "off" and lane.provider.built_in is None else 0
                    places = uncleared_namespaces(lane, left[lane.key], run_ids)
                    cleared += await _clear(journal, lane, places, context, proven=proven)
    if refused:
        raise refused[0]
    return cleared


async def _delete_files(folder: Path) -> int:
    """Delete the files of built-in providers in the folder of a run, and return the number of their namespaces."""
    left = [one for one in await _left_in(folder, orphans=True) if is_built_in(one.provider)]
    if not left:
        return 0
    async with Journal.append_to(folder) as journal:
        for one in left:
            store = store_of(folder, one.lane)
            if store.exists():
                shutil.rmtree(store)
            for row in (rows[0] for rows in one.rows):
                cleared = CorpusRow(
                    lane=one.lane,
                    corpus=row.corpus,
                    attempt=row.attempt,
                    kind=CorpusKind.CLEARED,
                    data={"removed": None},
                    origin=row.origin,
                )
                journal.append(cleared)
    return sum(len(one.rows) for one in left)


async def forget(folder: Path, names: Collection[str], *, orphans: bool = False) -> int:
    """Mark the namespaces of a run at the named providers as abandoned, and return the number of namespaces.

    Nothing is sent to the providers, so their data is not deleted. ``orphans`` as in `clear_run`.

    Raises:
        Locked: another process works on the run.
        UsageError, JournalError: there is no journal, or it is damaged.
    """
    chosen = [one for one in await _left_in(folder, orphans=orphans) if one.is_at(names)]
    if chosen:
        async with Journal.append_to(folder) as journal:
            for one in chosen:
                journal.append(one.abandonment())
    return sum(len(one.attempts) for one in chosen)


async def clearing_plan(
    workspace: Path,
    folder: Path,
    environment: Environment,
    *,
    moved: Collection[str] = (),
    forgotten: Collection[str] = (),
    orphans: bool = False,
    freed: Collection[str] = (),
) -> Plan | None:
    """Check that the providers and data of a run are unchanged, and return the plan of the lanes to clear.

    Return None if no namespace is left, apart from those at the ``forgotten`` providers and at built-in providers.

    Raises:
        UsageError, ConfigError, DataError: the configs or data of the run can no longer be read.
        IdentityError: a provider or the data has changed; ``changes`` lists each difference.
        Locked: a run that is not in ``freed`` still searches these memories.
    """
    left = {one.provider for one in await _left_in(folder, orphans=orphans) if not one.is_at(forgotten)}
    if not left:
        return None
    await require_unborrowed(folder, freed=freed)
    labels = {label for label in left if not is_built_in(label)}
    if not labels:
        return None
    async with Reader.open(folder) as reader:
        meta = reader.meta
    again = _retry_command(folder, orphans=orphans)
    try:
        catalog = Catalog.load(workspace)
        plan = make_plan(catalog, _request_of_providers(catalog, stored_request(meta), labels), environment)
    except (UsageError, ConfigError, DataError) as problem:
        problem.hint = f"{problem.hint}; {_forget_hint(again, labels)}"
        raise
    outside = [lane for lane in plan.running if lane.provider.label in labels]
    found = changes(
        _namespace_identity(meta.identity, outside),
        _namespace_identity(_with_moved_addresses(meta, plan, outside, moved), outside),
    )
    if found:
        raise _changed_error(meta, found, labels, again)
    return plan


async def require_unborrowed(folder: Path, *, freed: Collection[str] = ()) -> None:
    """Check that no other run still searches the memories of a run. Runs in ``freed`` no longer need them.

    Raises:
        Locked: a run that is not in ``freed`` still searches these memories.
    """
    run_ids = [name for name in await borrowers(folder) if name not in freed]
    if run_ids:
        users = f"{'runs' if len(run_ids) > 1 else 'run'} {', '.join(run_ids)}"
        raise Locked(
            f"the memories of run {folder.name} are in use by {users}: nothing was cleared",
            hint=f"first finish run {run_ids[0]} (bench resume {run_ids[0]}) "
            f"or delete it (bench clean {run_ids[0]} --yes)",
        )


async def _left_in(folder: Path, *, orphans: bool = False) -> list[Leftover]:
    async with Reader.open(folder) as reader:
        return await leftovers(reader, built_in=orphans)


def _request_of_providers(catalog: Catalog, request: RunRequest, labels: Collection[str]) -> RunRequest:
    """Return the request with only the providers that have one of the labels; other configs may no longer exist."""
    ours = tuple(given for given in request.providers if _labels(catalog, request, given) & set(labels))
    others = tuple(f"{given}." for given in request.providers if given not in ours)
    if not others:
        return request
    sets = {key: value for key, value in request.set.items() if not key.startswith(others)}
    return request.model_copy(update={"providers": ours or tuple(sorted(labels)), "set": sets, "rate": {}})


def _labels(catalog: Catalog, request: RunRequest, given: str) -> set[str]:
    """Return the labels that a provider can have in a run: its name, and its name with each k of the run.

    ``given`` is the name or alias in the request, with the variant. If the config no longer exists, ``given`` is used
    as the name.
    """
    name, at, variant = given.partition("@")
    try:
        label = f"{load_named(catalog, name).name}{at}{variant}"
    except (UsageError, ConfigError):
        label = given
    return {label, *(label_at_cutoff(label, k) for k in request.k)}


def _with_moved_addresses(meta: RunMeta, plan: Plan, lanes: Sequence[Lane], moved: Collection[str]) -> RunIdentity:
    """Return the plan's identity, but with the stored config and address of each provider in ``moved``."""
    stored, now = meta.identity["providers"], dict(plan.identity["providers"])
    for lane in lanes:
        label, config = lane.provider.label, lane.provider.config
        before = stored.get(label, {})
        if {label, config.name} & set(moved) and isinstance(before.get("base_url"), str):
            now[label] = {**before, **{key: now[label].get(key) for key in ("name", "type", "plugin")}}
    return {**plan.identity, "providers": now}


def _namespace_identity(identity: RunIdentity, lanes: Sequence[Lane]) -> dict[str, object]:
    """Return the parts of a run's identity that decide where the namespaces of the run are: providers and datasets."""
    providers, benchmarks = identity["providers"], identity["benchmarks"]
    return {
        "providers": {
            lane.provider.label: _clearing_identity(lane, providers.get(lane.provider.label)) for lane in lanes
        },
        "datasets": {lane.benchmark.name: benchmarks.get(lane.benchmark.name, {}).get("dataset") for lane in lanes},
    }


def _clearing_identity(lane: Lane, provider: object) -> object:
    """Return the identity of a provider, without the config values that clearing does not use."""
    config = lane.provider.config
    if not isinstance(provider, Mapping) or config.endpoints is None:
        return provider
    used = json.dumps([_sent_to_clear(config), config.connection.model_dump(mode="json")])
    vars_ = {name: value for name, value in provider.get("vars", {}).items() if re.search(rf"\b{name}\b", used)}
    return {**provider, "vars": vars_, "embedding": None}


def _sent_to_clear(config: ProviderConfig) -> list[object]:
    """Return the config of each call that clearing may send.

    A setup call is included only if it is idempotent or only looks up a namespace.
    """
    return [
        call.model_dump(mode="json")
        for path, call in calls_of(config)
        if CLEARING & set(path) and (path[0] != "setup" or path[-1] == "existing" or call.idempotent)
    ]


def _retry_command(folder: Path, *, orphans: bool) -> str:
    """Return the command with which the user can try again."""
    return f"bench clean {folder.name} --orphans" if orphans else f"bench clean {folder.name}"


def _changed_error(
    meta: RunMeta, found: Sequence[tuple[str, str, str]], labels: Collection[str], again: str
) -> IdentityError:
    names = " ".join(sorted(labels))
    return IdentityError(
        f"the namespaces of run {meta.run_id} were not cleared: the config, address or data of a provider has changed",
        changes=found,
        hint=f"undo the change (config, variable, data), then {again}; "
        f"if the service only has a new address: {again} --moved {names}; "
        f"if the service no longer exists: {again} --forget {names}",
    )


def _forget_hint(again: str, labels: Collection[str]) -> str:
    return f"if the service no longer exists: {again} --forget {' '.join(sorted(labels))}"


@contextmanager
def _catch_refusal(again: str, lane: Lane, refused: list[CallError]) -> Iterator[None]:
    """Catch a CallError of the ``with`` block, and add it to ``refused`` with a hint on how to continue."""
    try:
        yield
    except CallError as problem:
        problem.hint = f"the run was kept; fix the cause, then {again}; {_forget_hint(again, [lane.provider.label])}"
        refused.append(problem)


def uncleared_namespaces(lane: Lane, left: Leftover, run_ids: Mapping[str, str]) -> list[UnclearedNamespace]:
    """Return the namespaces of a lane that were written and not cleared.

    ``run_ids`` maps the id of each source journal to its run id.
    """
    found = []
    for rows in left.rows:
        corpus, origin = rows[0].corpus, rows[0].origin
        history = CorpusState.of(rows)
        space = space_of(lane, journal=origin, run_id=run_ids[origin], corpus=corpus, history=history)
        found.append(UnclearedNamespace(corpus=corpus, space=space, origin=origin))
    return found


def _embedder(lane: Lane, http: Http, environment: Environment, files: Mapping[str, ModelFile]) -> Embedder | None:
    """Return the embedder that a provider needs; None if it gets no vectors from bench."""
    from bench.models import open_embedder

    rule = lane.provider.config.client_embeddings
    if lane.provider.embedding is None or rule is None:
        return None
    return open_embedder(lane.provider.embedding, http=http, environment=environment, files=files, options=rule)


async def _clear(
    journal: Journal, lane: Lane, left: Sequence[UnclearedNamespace], context: ProviderContext, *, proven: int
) -> int:
    """Clear namespaces of a lane, and return their number; 0 if the provider cannot clear.

    The first ``proven`` namespaces are searched afterwards, to check that they are empty.

    Raises:
        CallError: a clear was refused, or memories are still found after it.
    """
    if not left:
        return 0
    async with open_provider(lane.provider.config, context) as provider:
        if not provider.capabilities.clear:
            return 0
        for number, one in enumerate(left):
            clear = partial(provider.clear, one.space)
            if number < proven and provider.keeps_store:
                anonymized = anonymize(lane, lane.benchmark.dataset.corpus(one.corpus))
                clear = partial(clear_provably, provider, one.space, anonymized, anyio.sleep)
            with recording() as calls:
                removed = await clear()
            journal.append(
                CorpusRow(
                    lane=lane.key,
                    corpus=one.corpus,
                    attempt=one.space.attempt,
                    kind=CorpusKind.CLEARED,
                    data={"removed": removed},
                    origin=one.origin,
                    calls=tuple(calls),
                )
            )
    return len(left)
