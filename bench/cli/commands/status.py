"""``bench status``, ``pause``, ``merge``: show, pause and merge runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.flags import Toggle, run_or_newest
from bench.cli.global_flags import command, current
from bench.cli.run_display import seconds_text, share_text
from bench.errors import UsageError
from bench.journal import Reader
from bench.journal.paths import CHECKPOINTS, find_run
from bench.visible_text import counted, money_text

if TYPE_CHECKING:
    from bench.report.status import RunStatus

WATCH_EVERY_S = 1.0
ENDED = frozenset({"complete", "partial", "failed", "stopped", "paused", "interrupted"})


def status(run_id: str | None = None, *, watch: Toggle = False) -> int:
    """Show the progress of a run, also while another process runs it. Default: the newest run.

    Parameters
    ----------
    run_id
        A run of this workspace, or a path to a journal.
    watch
        Update each second until the run ends.
    """
    workspace = current.get().workspace
    folder = find_run(workspace, run_or_newest(run_id))
    while True:
        found = anyio.run(_read_status, folder)
        if current.get().json:
            (console.json_line if watch else console.json_value)(found.to_json())
        else:
            _show(found)
        if not watch or found.state in ENDED:
            return 0
        time.sleep(WATCH_EVERY_S)


async def _read_status(folder: Path) -> RunStatus:
    """Return the status of a run. If a cluster executes the run in parts, the journals of all parts are read."""
    from bench.engine.run import SHARDS

    if (folder / SHARDS).is_dir():
        from bench.cluster.progress import standing_of_run

        return await standing_of_run(folder)
    from bench.report.status import run_status

    return await run_status(folder)


def _show(found: RunStatus) -> None:
    total, completed, failed = found.total, found.completed, found.failed
    console.line(f"run        {found.run_id}")
    holder = f" by {found.holder}" if found.holder else ""
    console.line(f"state      {found.state}{holder}" + (f" ({found.reason})" if found.reason else ""))
    open_items = total - completed - failed
    share = share_text(total - open_items, total)
    console.line(
        f"items      {total - open_items}/{total}{share}: {completed} ended well, {failed} failed, {open_items} pending"
    )
    if found.shards is not None:
        console.line(f"shards     {_shards_text(found.shards)}")
    for name, counts in found.phases.items():
        unit = " (corpora)" if name in ("ingest", "index") else ""
        console.line(f"{name:<10} " + ", ".join(f"{outcome} {count}" for outcome, count in counts.items()) + unit)
    if found.oldest_request_s is not None:
        console.line(f"slowest    {found.oldest_request_s:.0f} s in flight")
    if found.index_wait is not None:
        console.line(f"waiting    {found.index_wait.text}")
    if found.eta_s is not None:
        console.line(f"ETA        {seconds_text(found.eta_s)}")
    unknown = found.cost_unknown_calls
    least = f" or more ({counted(unknown, 'call(|s) (has|have)')} no known price)" if unknown else ""
    console.line(f"cost       USD {money_text(Decimal(found.cost_usd))}{least}")
    if found.state not in ("complete", "running"):
        resuming = command(f"bench run --resume {found.run_id}")
        console.line(f"next       {resuming}")


def _shards_text(shards: Mapping[str, int]) -> str:
    elsewhere = shards["count"] - shards["back"] - shards["here"]
    text = f"{shards['back']} of {shards['count']} finished, {shards['here']} running on this machine"
    return (
        (f"{text}, {elsewhere} elsewhere or not started: their items count when they are finished")
        if elsewhere
        else text
    )


def pause(run_id: str, /) -> int:
    """Stop a live run cleanly: it finishes the calls in flight and exits with 3.

    Parameters
    ----------
    run_id
        The running run.
    """
    from bench.engine.run import PAUSE_FILE

    folder = folder_of(run_id)
    found = anyio.run(_read_state, folder)
    if found != "running":
        console.note(f"run {run_id} is {found}, so there is nothing to pause")
    else:
        (folder / PAUSE_FILE).touch()
        console.note(f"run {run_id} will pause; watch the run with: bench status {run_id} --watch")
    if current.get().json:
        console.json_value({"run_id": run_id, "state": found, "asked": found == "running"})
    return 0


async def _read_state(folder: Path) -> str:
    async with Reader.open(folder) as reader:
        return str((await reader.status()).state)


def folder_of(run_id: str) -> Path:
    """Return the folder of a run. ``run_id`` can also be the path of the run's folder or journal."""
    found = find_run(current.get().workspace, run_id)
    return found if found.is_dir() else found.parent


def merge(
    sources: Annotated[list[str], Parameter(negative=())],
    /,
    *,
    into: str,
) -> int:
    """Merge runs of one plan: ranges that ran on other machines, copied here as folders or files.

    Parameters
    ----------
    sources
        Run ids, run folders or journal files.
    into
        Name of the new run.
    """
    from bench.config.value_rules import check_run_id
    from bench.journal import merge as merge_journals
    from bench.report import fold
    from bench.report.result_files import publish
    from bench.report.summary import store_report

    workspace = current.get().workspace
    try:
        check_run_id(into)
    except ValueError as problem:
        raise UsageError(f"--into {into}: {problem}", hint="choose another run id") from None
    target = workspace / CHECKPOINTS / into
    if target.exists():
        raise UsageError(f"run {into} exists already", hint="choose another name")
    paths = [find_run(workspace, name) for name in sources]

    async def merge_and_publish() -> tuple[Path, list[list[int]]]:
        outcome = await merge_journals(paths, target, run_id=into)
        async with Reader.open(target) as reader:
            report = await fold(reader)
            await store_report(reader, report, workspace / "results")
            return await publish(reader, report, workspace / "results"), [list(gap) for gap in outcome.gaps]

    folder, missing = anyio.run(merge_and_publish)
    for first, last in missing:
        console.note(f"gap: no run covers items {first} to {last}")
    if current.get().json:
        console.json_value({"run_id": into, "results": str(folder), "gaps": missing})
    else:
        console.line(f"results: {folder}")
    return 0
