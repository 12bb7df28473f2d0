"""Go on with a run: its request is in the journal, so no flag is needed; flags may change how, never what.

Example::

    folder, plan = await resumed_plan("r1", catalog=catalog, flags={"concurrency": 4}, environment=environment)
    outcome = await execute(plan, environment=environment, resume=folder)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine.meta import check_identity
from bench.errors import IdentityError, JournalError
from bench.journal import Reader, RunMeta
from bench.journal.merging import selected_from
from bench.journal.places import find_run
from bench.plan import Plan, make_plan
from bench.settings import Environment

FIXED = ("start", "end", "shard", "run_id")


async def resumed_plan(
    target: str, *, catalog: Catalog, flags: Mapping[str, object], environment: Environment
) -> tuple[Path, Plan]:
    """Plan the rest of a run; ``target`` is a run id, a run folder or a journal file.

    Raises:
        UsageError: there is no such run, or a flag that only a new run can have.
        Locked: another live process holds it.
        IdentityError: dataset, config, prompt, model or plug-in is not what it was, with a readable diff.
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
                hint="start another run for the other range and merge the two",
            )
    plan = make_plan(catalog, request, environment, ranges=selected_from(meta))
    check_identity(meta, plan)
    return path, plan


def stored_request(meta: RunMeta) -> RunRequest:
    """What the run was asked.

    Raises:
        JournalError: another version's flags are in it.
    """
    try:
        return RunRequest.model_validate(dict(meta.request))
    except ValidationError as error:
        flag = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise JournalError(
            f'run {meta.run_id} was asked for something that this version does not know: "{flag}"',
            hint="go on with the bench that started it",
        ) from error
