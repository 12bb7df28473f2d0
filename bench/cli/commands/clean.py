"""``bench clean``: delete runs, and clear the data that these runs left at providers.

Without ``--yes``, the command only lists what it would delete. If one of the runs may not be deleted, no run is
deleted. If a provider cannot be reached, its runs are kept. With ``--orphans``, no run is deleted, and an error at one
run does not stop the others.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.commands.status import folder_of
from bench.cli.flags import Many, Toggle
from bench.cli.global_flags import current
from bench.errors import BenchError, JournalError, Locked, UsageError
from bench.journal import Reader
from bench.journal.paths import CHECKPOINTS, public_logs, run_ids
from bench.visible_text import counted

if TYPE_CHECKING:
    from bench.plan.leftover_namespaces import Leftover
    from bench.settings import Environment
    from bench.untyped_values import Json


def clean(
    run_id: str | None = None,
    /,
    *,
    older_than: str | None = None,
    orphans: Toggle = False,
    moved: Many = None,
    forget: Many = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
) -> int:
    """Delete old runs, after clearing the namespaces that they left at providers.

    Without --yes, only list the runs with their sizes.

    Parameters
    ----------
    run_id
        One run.
    older_than
        Runs whose journal was not written for this time, for example 30d or 12h.
    orphans
        Only clear the namespaces that stopped runs left at providers. Delete no run.
    moved
        Providers with a new address or config but the same service: clear their namespaces with the new config.
    forget
        Providers that no longer exist: do not try to clear their namespaces. With ``--orphans``, the journal records
        that the namespaces were not cleared. Without ``--orphans``, the journal is deleted too.
    yes
        Confirm. Without --yes, the command only shows what it would do.
    """
    workspace = current.get().workspace
    found = _chosen_runs(workspace, run_id, older_than, orphans=orphans)
    if orphans:
        found = [one for one in found if (run_id is not None if one.running else one.namespaces)]
    services = NamedProviders(moved=_split_names(moved), forgotten=_split_names(forget))
    services.refuse_unknown(found)
    if not current.get().json:
        for one in found:
            console.line(one.as_line())
    if not found:
        console.note("nothing to clean")
    else:
        freed = frozenset() if orphans else frozenset(one.folder.name for one in found)
        environment = current.get().environment()
        work = CleanSettings(
            workspace=workspace, environment=environment, services=services, orphans=orphans, freed=freed
        )
        if not yes:
            _preview(work, found)
            console.note("nothing was changed; add --yes to do it" if orphans else _confirmation_text(found))
        elif orphans:
            for one in found:
                _require_stopped(one)
            _for_each_run(work, found, partial(_clear, work))
        else:
            _delete_all(work, found)
    if current.get().json:  # after the work, so that "done" is true
        console.json_value({"done": yes, "runs": [one.as_json() for one in found]})
    return 0


def _split_names(given: Sequence[str] | None) -> frozenset[str]:
    return frozenset(name for text in given or () for name in text.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProviders:
    """The providers that the user named with ``--moved`` and ``--forget``."""

    moved: frozenset[str]
    forgotten: frozenset[str]

    def refuse_unknown(self, found: Sequence[Cleanable]) -> None:
        """Check the names of providers.

        Raises:
            UsageError: the runs left no data at a named provider, or both flags name the same provider.
        """
        both = self.moved & self.forgotten
        if both:
            raise UsageError(
                f"--moved and --forget both name {min(both)}",
                hint="use --moved if the service has a new address; use --forget if the service no longer exists",
            )
        left = [one for run in found for one in run.left]
        for name in sorted(self.moved | self.forgotten):
            if not any(one.is_at((name,)) for one in left):
                places = sorted({one.provider for one in left})
                flag = "moved" if name in self.moved else "forget"
                named = f"name a provider that has data of the run: {', '.join(places)}"
                hint = named if places else f"remove --{flag}: no provider has data of the run"
                raise UsageError(f"--{flag} {name}: the run left no data at this provider", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanSettings:
    """The settings for cleaning that are equal for all runs."""

    workspace: Path
    environment: Environment
    services: NamedProviders
    orphans: bool
    """True if the runs themselves are kept"""
    freed: frozenset[str]
    """runs that are being deleted; cleaning is refused if any other run still searches their memories"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """A run to clean, with the data that the run left at providers."""

    folder: Path
    size: int
    """bytes of the files in the folder of the run"""
    left: Sequence[Leftover]
    """data that the run left at providers; empty if the journal cannot be read"""
    readable: bool
    """True if the journal can be read; only then is the left data known"""
    holder: str | None
    """the live process that executes the run; None if there is none"""

    @property
    def running(self) -> bool:
        return self.holder is not None

    @property
    def namespaces(self) -> int:
        return sum(len(one.attempts) for one in self.left)

    def as_json(self) -> Json:
        known = self.namespaces if self.readable else None
        return {"run_id": self.folder.name, "bytes": self.size, "namespaces": known, "running": self.running}

    def as_line(self) -> str:
        return f"{self.folder.name}  {self.size / 1e6:.1f} MB, {self.standing}"

    @property
    def standing(self) -> str:
        """Return a text that describes the data that the run left at providers."""
        where = ", ".join(sorted({one.provider for one in self.left})) or "providers"
        known = f"{counted(self.namespaces, 'namespace(|s)')} left at {where}"
        return known if self.readable else "unknown data left at providers"


def _read_cleanable(folder: Path, *, orphans: bool) -> Cleanable:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    try:
        holder, left = anyio.run(partial(_held_and_left, folder, orphans=orphans))
    except JournalError as problem:
        fault = problem.message.removesuffix("; it was not changed")  # it may be deleted in the next line
        console.note(f"{folder.name}: {fault}")
        return Cleanable(folder=folder, size=size, left=[], readable=False, holder=None)
    return Cleanable(folder=folder, size=size, left=left, readable=True, holder=holder)


def _chosen_runs(workspace: Path, run_id: str | None, older_than: str | None, *, orphans: bool) -> list[Cleanable]:
    folders = _chosen_folders(workspace, run_id, older_than, orphans=orphans)
    return [_read_cleanable(folder, orphans=orphans) for folder in folders]


async def _held_and_left(folder: Path, *, orphans: bool) -> tuple[str | None, list[Leftover]]:
    from bench.plan.leftover_namespaces import leftovers

    async with Reader.open(folder) as reader:
        return (await reader.status()).holder, await leftovers(reader, built_in=orphans)


def _chosen_folders(workspace: Path, run_id: str | None, older_than: str | None, *, orphans: bool) -> list[Path]:
    if run_id is None and older_than is None and not orphans:
        raise UsageError(
            "no run was given", hint="name a run (bench clean RUN_ID), or use --older-than 30d or --orphans"
        )
    if run_id is not None:
        return [_own_folder(workspace, run_id)]
    folders = [workspace / CHECKPOINTS / name for name in run_ids(workspace)]
    if older_than is None:
        return folders
    before = datetime.now(UTC) - _parse_age(older_than)
    return [path for path in folders if (path / "journal.sqlite").stat().st_mtime < before.timestamp()]


def _own_folder(workspace: Path, run_id: str) -> Path:
    """Return the folder of a run of this workspace.

    Raises:
        UsageError: the folder is outside the workspace; such a folder is never deleted.
    """
    folder = folder_of(run_id)
    if folder.resolve().parent != (workspace / CHECKPOINTS).resolve():
        raise UsageError(
            f"{run_id} is not a run of this workspace",
            hint="list the runs of this workspace with: bench list runs",
        )
    return folder


def _parse_age(text: str) -> timedelta:
    units = {"d": "days", "h": "hours", "m": "minutes"}
    found = re.fullmatch(r"([0-9]{1,5})([dhm])", text)
    if found is None:
        raise UsageError(f"--older-than {text}: expected a time such as 30d, 12h or 90m")
    return timedelta(**{units[found[2]]: int(found[1])})


def _confirmation_text(found: Sequence[Cleanable]) -> str:
    runs, them = ("the run", "it") if len(found) == 1 else (f"all {len(found)} runs", "them")
    kept = f"; --orphans clears the namespaces and keeps {them}" if any(one.namespaces for one in found) else ""
    return f"nothing was changed; --yes deletes {runs}: journal, report and receipts{kept}"


def _preview(work: CleanSettings, found: Sequence[Cleanable]) -> None:
    """Print notes on what ``--yes`` would do, without calling a provider.

    The notes have the number of namespaces that would not be cleared, and the runs that may not be deleted.
    """
    for one in found:
        name = one.folder.name
        given_up = sum(len(left.attempts) for left in one.left if left.is_at(work.services.forgotten))
        if given_up:
            kept = "the journal records this" if work.orphans else "no record is kept, because the journal is deleted"
            console.note(
                f"{name}: {counted(given_up, 'namespace(|s) would be abandoned without clearing (it|them)')}; {kept}"
            )
        try:
            _require_deletable(work, one)
        except BenchError as problem:
            console.note(f"{name}: --yes would be refused: {problem}\n  hint: {problem.hint}")


def _require_deletable(work: CleanSettings, one: Cleanable) -> None:
    """Check that a run may be deleted; raise BenchError if not.

    A run may not be deleted while a process executes it, while another run still searches its memories, or if its
    folder contains a public log. If the run left data at providers, it may also not be deleted if a config has changed.
    """
    from bench.engine.corpora.cleanup import clearing_plan, require_unborrowed

    if public_logs(one.folder):
        raise UsageError(
            f"{one.folder} contains a public log, which is never deleted", hint="move the log to another folder"
        )
    _require_stopped(one)
    if not work.orphans:  # also without a namespace at a service: built-in providers keep their memories in the folder
        anyio.run(partial(require_unborrowed, one.folder, freed=work.freed))
    if one.namespaces:
        services = work.services
        known = partial(clearing_plan, moved=services.moved, forgotten=services.forgotten, orphans=work.orphans)
        anyio.run(partial(known, freed=work.freed), work.workspace, one.folder, work.environment)


def _require_stopped(one: Cleanable) -> None:
    if one.running:
        raise Locked(
            f"run {one.folder.name} is locked by {one.holder}",
            hint=f"stop the run first: bench pause {one.folder.name}",
        )


def _delete_all(work: CleanSettings, found: Sequence[Cleanable]) -> None:
    """Check all runs, then clear and delete each run. A run whose provider cannot be reached is kept."""
    for one in found:
        _require_deletable(work, one)

    def deleted(one: Cleanable) -> None:
        _clear(work, one)
        shutil.rmtree(one.folder)
        report = work.workspace / "results" / one.folder.name
        if public_logs(report):
            console.note(f"{one.folder.name}: {report} contains a public log and was kept")
        else:
            shutil.rmtree(report, ignore_errors=True)
        console.note(f"{one.folder.name}: deleted")

    _for_each_run(work, found, deleted)


def _for_each_run(work: CleanSettings, found: Sequence[Cleanable], act: Callable[[Cleanable], None]) -> None:
    """Call ``act`` for every run, even after an error. At the end, print all later errors, and raise the first."""
    problems = []
    for one in found:
        try:
            act(one)
        except BenchError as problem:
            if len(found) > 1:
                now = _read_cleanable(one.folder, orphans=work.orphans)
                problem.message = f"{one.folder.name}: {now.standing}: {problem.message}"
            problems.append(problem)
    for other in problems[1:]:
        console.note(f"{other}\n  hint: {other.hint}")
    if problems:
        raise problems[0]


def _clear(work: CleanSettings, one: Cleanable) -> None:
    from bench.engine.corpora.cleanup import clear_run, forget

    if not one.namespaces:
        return
    name = one.folder.name
    given_up = anyio.run(partial(forget, one.folder, work.services.forgotten, orphans=work.orphans))
    if given_up:
        console.note(f"{name}: abandoned {counted(given_up, 'namespace(|s) without clearing (it|them)')}")
    if given_up < one.namespaces:
        moved = work.services.moved
        swept = partial(
            clear_run, work.workspace, one.folder, work.environment, moved=moved, orphans=work.orphans, freed=work.freed
        )
        console.note(f"{name}: cleared {counted(anyio.run(swept), 'namespace(|s)')}")
