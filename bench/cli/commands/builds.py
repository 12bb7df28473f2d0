"""``bench builds``: list the memories that runs ingested and the cost of each ingest, or clear these memories at their
providers.
"""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import App, Parameter

from bench.cli import console
from bench.cli.global_flags import current
from bench.errors import JournalError, UsageError
from bench.journal import Reader
from bench.journal.paths import CHECKPOINTS, find_run, run_ids
from bench.visible_text import money_text

if TYPE_CHECKING:
    from bench.plan.stored_builds import Build

MIN_DIGITS = 6
"""minimum number of digits with which a user can name a fingerprint"""

builds_app = App(name="builds", help="List ingested corpora: identity, cost, and data that providers still hold.")


@builds_app.default
@builds_app.command(name="list")
def builds_list() -> int:
    """List every build of this workspace, newest run first."""
    found = _all_builds(current.get().workspace)
    if current.get().json:
        console.json_value({"builds": [asdict(one) for one in found]})
    elif not found:
        console.note("no run of this workspace has ingested anything")
    else:
        _show_table(found)
    return 0


@builds_app.command(name="show")
def builds_show(name: str, /) -> int:
    """Show all fields of the builds of one run, or of the builds with one fingerprint.

    Parameters
    ----------
    name
        A run id, a run folder or journal file, or at least 6 digits of a fingerprint.
    """
    found = _builds_named(name)
    if current.get().json:
        console.json_value({"builds": [asdict(one) for one in found]})
        return 0
    for one in found:
        rows = [(key, _cell_text(value)) for key, value in asdict(one).items()]
        console.table(("field", "value"), rows, title=f"{one.run_id}: {one.build}")
    return 0


@builds_app.command(name="rm")
def builds_rm(run_id: str, /, *, yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False) -> int:
    """Clear the memories of a run's builds at their providers. The run and its results stay.

    Parameters
    ----------
    run_id
        The run that ingested the builds.
    yes
        Confirm. Without --yes, the command only shows what it would do.
    """
    from bench.cli.commands.clean import clean

    return clean(run_id, orphans=True, yes=yes)


def _all_builds(workspace: Path) -> list[Build]:
    found = []
    for name in run_ids(workspace):
        try:
            found += _builds_of_run(workspace / CHECKPOINTS / name)
        except JournalError as problem:
            console.note(f"{name}: {problem.message}")
    return found


def _builds_of_run(path: Path) -> list[Build]:
    return [one for one in anyio.run(_read, path) if one.n_corpora or one.n_held]


async def _read(path: Path) -> list[Build]:
    from bench.plan.stored_builds import builds_of

    async with Reader.open(path) as reader:
        return await builds_of(reader)


def _builds_named(name: str) -> list[Build]:
    workspace = current.get().workspace
    if len(name) >= MIN_DIGITS and set(name) <= set("0123456789abcdef"):
        found = [one for one in _all_builds(workspace) if one.fingerprint and one.fingerprint.startswith(name)]
        if found:
            return found
    found = _builds_of_run(find_run(workspace, name))
    if not found:
        raise UsageError(
            f"run {name} has no build, because the run has ingested nothing",
            hint="list the builds of this workspace with: bench builds list",
        )
    return found


def _show_table(found: list[Build]) -> None:
    from bench.plan.stored_builds import SHORT

    rows = [
        (
            one.run_id,
            one.build,
            (one.fingerprint or "-")[:SHORT],
            str(one.n_corpora),
            str(one.n_memories),
            str(one.n_held),
            str(one.calls),
            money_text(Decimal(one.cost_usd))
            + (f" + {one.cost_unknown_calls} unknown" if one.cost_unknown_calls else ""),
            f"{one.ingest_us / 1e6:.1f} s",
            ", ".join([*one.searched_by, *(f"run {name}" for name in one.lent_to)]),
        )
        for one in found
    ]
    head = ("run", "build", "fingerprint", "corpora", "memories", "held", "calls", "USD", "ingest", "searched by")
    console.table(head, rows, title="builds", right=tuple(range(3, 9)))


def _cell_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    return "-" if value is None else str(value)
