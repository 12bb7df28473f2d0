"""Make a plan from a stored run, to resume it, retry its failures, score it again, or fork a new run from it.

Stored results are not paid again. When a run is resumed, new flags may change the speed of the work, but not the
results.

Example::

    folder, plan = await resumed_plan("r1", catalog=catalog, flags={}, environment=environment)
    await execute(plan, environment=environment, resume=folder, scope=RunScope(item_ids=await failed_items(folder)))
    folder, plan, scope = await rescored_plan("r1", catalog=catalog, flags={"metrics": "mrr"}, environment=environment)
    plan, scope = await forked_plan("r1", Phase.ANSWER, catalog=catalog, flags=flags, environment=environment)
    folder, plan = await resumed_plan("r1", catalog=catalog, flags={"concurrency": 4}, environment=environment)
    outcome = await execute(plan, environment=environment, resume=folder)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine.run_context import RunContext, RunScope
from bench.engine.run_metadata import CodeState, check_identity, run_meta
from bench.errors import IdentityError, JournalError, NotReady, UsageError
from bench.journal import Event, Journal, JournaledPhase, Reader, RunMeta, RunState
from bench.journal.merger import selected_from
from bench.journal.paths import find_run
from bench.model import FAILED_STATES, Phase, RunIdentity
from bench.plan import Lane, Plan, changes, make_plan
from bench.plan.build import unjudged
from bench.plan.job_record import EXTRA_KEY, RESCORED, JobRecord, dump_jobs, read_jobs, records
from bench.settings import Environment
from bench.visible_text import counted

NOTHING_TO_RETRY = "nothing to retry: no selected item has the state error or not_ready"
FIXED = ("start", "end", "shard", "run_id", "reuse_build")


async def resumed_plan(
    target: str, *, catalog: Catalog, flags: Mapping[str, object], environment: Environment
) -> tuple[Path, Plan]:
    """Return the journal and the plan of a run to continue; ``target`` is a run id, a run folder or a journal file.

    Raises:
        UsageError: there is no such run, or a flag is invalid.
        Locked: another live process works on the run.
        IdentityError: a flag cannot change; or a dataset, config, prompt, model or plug-in has changed.
    """
    path = find_run(catalog.workspace, target)
    async with Reader.open(path) as reader:
        await reader.refuse_held()
        meta = reader.meta
    stored = stored_request(meta)
    request = RunRequest.combine(stored, flags)
    for name in FIXED:
        if name in flags and flags[name] is not None and getattr(request, name) != getattr(stored, name):
            raise IdentityError(
                f"--{name.replace('_', '-')} of run {meta.run_id} cannot change",
                hint="start a new run with the new value; combine runs of different ranges with: bench merge",
            )
    plan = make_plan(catalog, request, environment, ranges=selected_from(meta))
    check_identity(meta, plan)
    return path, plan


def stored_request(meta: RunMeta) -> RunRequest:
    """Return the request with which the run was started.

    Raises:
        JournalError: the request has a flag that this version of bench does not know.
    """
    try:
        return RunRequest.model_validate(dict(meta.request))
    except ValidationError as error:
        flag = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise JournalError(
            f'run {meta.run_id} has the setting "{flag}", which this version of bench does not know',
            hint="resume the run with the version of bench that started it",
        ) from error


FROM_BENCHMARK = ("version", "config_sha256", "dataset", "k")
"""properties of a benchmark on which its stored searches depend"""
FROM_SETTINGS = ("seed", "epochs", "selection")
RANGE_FLAGS = ("start", "end", "shard")


async def has_failed_items(reader: Reader) -> bool:
    """Return True if an item of a run ended as error or not_ready."""
    for job in read_jobs(reader.meta.extra):
        if not FAILED_STATES.isdisjoint(await reader.states(job.key)):
            return True
    return False


async def failed_items(path: Path, *, phase: Phase | None = None, items: Sequence[str] = ()) -> frozenset[str]:
    """Return the ids of the items that ended as error or not_ready.

    ``phase`` limits the result to items that failed in this phase. ``items`` limits the result to these ids.
    """
    found: set[str] = set()
    async with Reader.open(path) as reader:
        for job in read_jobs(reader.meta.extra):
            async for one in reader.items(job.chain):
                failed = one.state in FAILED_STATES and (not items or one.item in items)
                if failed and (phase is None or phase is failed_phase(one.phases)):
                    found.add(one.item)
    return frozenset(found)


def failed_phase(phases: Mapping[Phase, JournaledPhase]) -> Phase:
    """Return the phase in which an item failed.

    An item that was not searched failed in ``index`` if its corpus was not ready in time, otherwise in ``ingest``.
    """
    if Phase.SEARCH not in phases:
        ended = phases.get(Phase.EVALUATE)
        return Phase.INDEX if ended is not None and ended.outcome == NotReady.kind else Phase.INGEST
    return next((phase for phase in Phase if phase in phases and not phases[phase].ok), Phase.EVALUATE)


async def stored_items(path: Path, start: Phase) -> frozenset[str]:
    """Return the ids of the items whose phases before ``start`` succeeded in every epoch and job.

    A fork that begins at ``start`` needs no provider for these items.
    """
    good: set[str] = set()
    lacking: set[str] = set()
    async with Reader.open(path) as reader:
        for job in read_jobs(reader.meta.extra):
            needed = [Phase.SEARCH, *([Phase.ANSWER] if start is Phase.EVALUATE and job.models.answering else [])]
            async for one in reader.items(job.chain):
                whole = all(phase in one.phases and one.phases[phase].ok for phase in needed)
                (good if whole else lacking).add(one.item)
    return frozenset(good - lacking)


async def rescored_plan(
    target: str,
    *,
    catalog: Catalog,
    flags: Mapping[str, object],
    environment: Environment,
    prompt: str = "",
    command: str = "",
) -> tuple[Path, Plan, RunScope]:
    """Plan a new scoring of a run: new verdicts and metric values for its stored results.

    ``prompt`` is the name by which tables show the judge prompt. ``command`` is the command of this rescore, which
    continues it if it is stopped.

    Raises:
        Locked: another live process works on the run.
        IdentityError: a flag or file changes something on which the stored results depend.
        UsageError: a flag names an evaluator that needs a judge, but there is no judge.
    """
    path = find_run(catalog.workspace, target)
    async with Reader.open(path) as reader:
        await reader.refuse_held()
        meta = reader.meta
        status = await reader.status()
        before = len(await reader.events(RESCORED))
    request = RunRequest.combine(stored_request(meta), flags)
    plan = make_plan(catalog, request, environment, ranges=selected_from(meta))
    check_stored(meta.identity, plan, Phase.EVALUATE)
    if "evaluators" in flags:
        for _, evaluator in unjudged(plan.running):
            raise UsageError(f"{evaluator} needs --judge-model", hint="name a judge: --judge-model PROVIDER/MODEL")

    async def announce(journal: Journal) -> None:
        journal.append(Event(kind=RESCORED, data={"generation": before + 1, "prompt": prompt}))
        await _keep_failures(path, plan, journal)

    async def end(journal: Journal, finished: bool) -> None:
        if finished:
            await journal.show_scoring(before + 1, **_shown_jobs(plan, meta))
        else:
            await journal.set_state(status.state, status.reason)

    return path, plan, RunScope(generation=before + 1, copy_rows=announce, end_rescore=end, command=command)


async def show_own_scoring(run: RunContext) -> None:
    """Hide the rescores of a run that continues, because they have no scores for the items that now run."""
    async with Reader.open(run.folder) as reader:
        rescored = bool(await reader.events(RESCORED))
    if not rescored:
        return
    jobs = _shown_jobs(run.plan, run.journal.meta)
    if jobs[EXTRA_KEY] != dump_jobs(read_jobs(run.journal.meta.extra)):
        text = "the results show the run's own scoring again; to score all items, repeat bench rescore"
        run.progress.events.append(text)
    await run.journal.show_scoring(0, **jobs)


def _shown_jobs(plan: Plan, meta: RunMeta) -> dict[str, object]:
    """Return the entry of ``meta.extra`` with which reports show the jobs of ``plan``."""
    return {EXTRA_KEY: dump_jobs(_with_stored_sizes(records(plan), read_jobs(meta.extra)))}


def _with_stored_sizes(new: Sequence[JobRecord], old: Sequence[JobRecord]) -> list[JobRecord]:
    """Return the new jobs with the item counts of the old jobs, because a rescore does not change the selection."""
    known = {job.benchmark: job for job in old}
    sizes = [known.get(job.benchmark, job) for job in new]
    return [
        replace(job, n_selected=size.n_selected, selected_types=size.selected_types)
        for job, size in zip(new, sizes, strict=True)
    ]


async def _keep_failures(path: Path, plan: Plan, journal: Journal) -> None:
    """Copy failures to each job that has a new judge.

    A judge cannot judge an item without an answer, so the failure of such an item stays its result.
    """
    async with Reader.open(path) as reader:
        for new in records(plan):
            if await reader.states(new.key):
                continue
            old = next((one for one in read_jobs(reader.meta.extra) if one.answer_owner == new.answer_owner), None)
            if old is not None:
                await _copy_failures(reader, old, new, journal)
    await journal.flush()


async def _copy_failures(reader: Reader, old: JobRecord, new: JobRecord, journal: Journal) -> None:
    async for item in reader.items(old.chain):
        entry = item.phases.get(Phase.EVALUATE)
        if entry is None or item.state not in FAILED_STATES or failed_phase(item.phases) is Phase.EVALUATE:
            continue
        texts = {name: await reader.payload(str(digest)) for name, digest in entry.payloads.items()}
        key = replace(entry.key, owner=new.key)
        await journal.wait_for_room()
        journal.append(replace(entry, key=key, payloads=texts, attempt=0, state=item.state, labels=item.labels))


async def forked_plan(
    target: str, start: Phase, *, catalog: Catalog, flags: Mapping[str, object], environment: Environment
) -> tuple[Plan, RunScope]:
    """Plan a new run that begins at ``start`` (answer or evaluate) and copies the rows of earlier phases.

    ``target`` is the run from which the rows are copied.

    Raises:
        IdentityError: dataset, provider, k or selection differ from those of the stored rows.
    """
    path = find_run(catalog.workspace, target)
    async with Reader.open(path) as reader:
        meta = reader.meta
    stored = stored_request(meta).model_copy(update={"run_id": None})
    narrowed = any(flags.get(name) is not None for name in RANGE_FLAGS)
    ranges = None if narrowed else selected_from(meta)
    plan = make_plan(catalog, RunRequest.combine(stored, flags), environment, ranges=ranges)
    check_stored(meta.identity, plan, start)
    return plan, RunScope(copy_rows=copy_rows_of(path, plan, start))


async def extended_plan(
    target: str, *, catalog: Catalog, flags: Mapping[str, object], environment: Environment
) -> tuple[Path, Plan]:
    """Replace the plan of a run by a plan with more items; a resume then runs the additional items.

    Raises:
        UsageError: no item is added, an item would be left out, or the run was announced, merged or distributed.
        IdentityError: something other than the selection differs; the error lists each difference.
    """
    path = find_run(catalog.workspace, target)
    async with Reader.open(path) as reader:
        await reader.refuse_held()
        meta = reader.meta
    stored = stored_request(meta)
    if stored.publishable or stored.cluster is not None or stored.shards is not None or selected_from(meta) is not None:
        raise UsageError(
            f"run {meta.run_id} cannot be extended, because it was announced, merged, or started with "
            "--cluster or --workers",
            hint="start a new run for the larger selection",
        )
    before = make_plan(catalog, stored, environment)
    check_identity(meta, before)
    plan = make_plan(catalog, RunRequest.combine(stored, flags), environment)
    other = changes(_without_selection(meta.identity), _without_selection(plan.identity))
    if other:
        raise IdentityError(
            f"only the item selection of run {meta.run_id} can be extended; its other settings cannot change",
            changes=other,
        )
    _check_wider(meta.run_id, before, plan, stored)
    new = run_meta(plan, meta.run_id, CodeState(), environment)
    async with Journal.resume(path) as journal:
        extra = {**meta.extra, EXTRA_KEY: new.extra[EXTRA_KEY]}
        unchanged = {"versions": meta.versions, "code_state": meta.code_state, "created_at": meta.created_at}
        sizes = {"before": {lane.key: lane.benchmark.n_selected for lane in before.running}}
        journal.append(Event(kind="extended", data=sizes))
        await journal.replan(replace(new, extra=extra, **unchanged))  # type: ignore[arg-type]
        await journal.set_state(RunState.PAUSED, "extended")
    return path, plan


def _without_selection(identity: RunIdentity) -> dict[str, object]:
    return {
        **identity,
        "benchmarks": {name: {**one, "selected": None} for name, one in identity["benchmarks"].items()},
        "settings": {**identity["settings"], "selection": None},
    }


def _check_wider(run_id: str, before: Plan, plan: Plan, stored: RunRequest) -> None:
    limits = " and ".join(
        f"a larger --{name}" for name in ("limit", "sample", "end") if getattr(stored, name) is not None
    )
    wider = limits or "a wider selection"
    had, wanted = ({lane.benchmark.name: _items(lane) for lane in each.running} for each in (before, plan))
    for name, items in had.items():
        lost = len(items - wanted[name])
        if lost:
            had_items = counted(len(items), "item(|s)")
            raise UsageError(
                f"run {run_id} has {had_items} of {name}, but the new selection does not include {lost} of them",
                hint=f"give {wider}, so that all items of the run are included",
            )
    if had == wanted:
        raise UsageError(f"the selection adds no item to run {run_id}", hint=f"give {wider}")


def _items(lane: Lane) -> frozenset[int]:
    return frozenset(ref.position for ref in lane.benchmark.dataset.items(lane.benchmark.selection))


async def reuse_plan(target: str, *, catalog: Catalog, flags: Mapping[str, object], environment: Environment) -> Plan:
    """Plan a new run that searches the memories of the run ``target`` instead of ingesting them again.

    The new run has the flags of ``target``, except where ``flags`` has another value.

    Raises:
        UsageError: there is no such run, or ``reuse_build`` is among the flags.
    """
    if flags.get("reuse_build") is not None:
        raise UsageError("--from ingest and --reuse-build exclude each other", hint="remove --reuse-build")
    async with Reader.open(find_run(catalog.workspace, target)) as reader:
        meta = reader.meta
    stored = stored_request(meta).model_copy(update={"run_id": None, "cluster": None, "shards": None, "workers": None})
    narrowed = any(flags.get(name) is not None for name in RANGE_FLAGS)
    request = RunRequest.combine(stored, {**flags, "reuse_build": target})
    return make_plan(catalog, request, environment, ranges=None if narrowed else selected_from(meta))


def check_stored(identity: RunIdentity, plan: Plan, start: Phase) -> None:
    """Check that a new plan does not change a setting on which the stored rows of the phases before ``start`` depend.

    Raises:
        IdentityError: a setting differs; the error lists each difference.
    """
    found = changes(stored_inputs(identity, start), stored_inputs(plan.identity, start))
    if start is Phase.EVALUATE:
        names = {job.answering for job in plan.jobs}
        found += changes(_answer_settings(identity, names), _answer_settings(plan.identity, names))
    if found:
        raise IdentityError("the stored results were computed with other settings", changes=found)


def _answer_settings(identity: RunIdentity, names: Set[str]) -> dict[str, object]:
    """Return the settings of answering models that change answers: token limit and additional request fields."""
    settings, models = identity["settings"], identity["models"]
    own = {name: models[name].get("settings") for name in sorted(names) if name in models}
    return {"settings": {"max_answer_tokens": settings.get("max_answer_tokens")}, "models": own}


def stored_inputs(identity: RunIdentity, start: Phase) -> dict[str, object]:
    """Return the part of an identity on which the phases before ``start`` depend."""
    benchmarks, settings = identity["benchmarks"], identity["settings"]
    kept = {name: {key: one.get(key) for key in FROM_BENCHMARK} for name, one in benchmarks.items()}
    if start is Phase.EVALUATE:
        for name, one in benchmarks.items():
            prompts = one["prompts"]
            answers = prompts.get("answer") if isinstance(prompts, Mapping) else None
            kept[name] |= {"context_budget": one.get("context_budget"), "answer_prompts": answers}
    return {
        "benchmarks": kept,
        "providers": identity["providers"],
        "settings": {name: settings.get(name) for name in FROM_SETTINGS},
    }


def copy_rows_of(source: Path, plan: Plan, start: Phase) -> Callable[[Journal], Awaitable[None]]:
    """Return a function that copies the successful rows of the phases before ``start`` into a journal.

    The texts of the rows are copied too, but not their calls.
    """
    phases = (Phase.SEARCH, Phase.ANSWER) if start is Phase.EVALUATE else (Phase.SEARCH,)
    wanted = {lane.key for lane in plan.running} | {job.answer_owner for job in plan.jobs}

    async def copy(journal: Journal) -> None:
        copied: set[tuple[str, Phase]] = set()
        async with Reader.open(source) as reader:
            for job in read_jobs(reader.meta.extra):
                owners = {Phase.SEARCH: job.lane, Phase.ANSWER: job.answer_owner}
                fresh = [one for one in phases if owners[one] in wanted and (owners[one], one) not in copied]
                copied.update((owners[one], one) for one in fresh)
                if fresh:
                    await _copy_job(reader, job, fresh, journal)
        await journal.flush()

    return copy


async def _copy_job(reader: Reader, job: JobRecord, phases: Sequence[Phase], journal: Journal) -> None:
    async for item in reader.items(job.chain):
        for phase in phases:
            entry = item.phases.get(phase)
            if entry is not None and entry.ok:
                texts = {name: await reader.payload(str(digest)) for name, digest in entry.payloads.items()}
                await journal.wait_for_room()
                journal.append(replace(entry, payloads=texts, attempt=0, calls=()))
