"""Record which runs search the memories of an earlier run, so that the earlier run does not clear these memories.

Example::

    lend(checkpoints / "r1", to="r2")
    await borrowers(checkpoints / "r1")      # ("r2",); empty once r2 is complete, or its journal is deleted

The earlier run is the lender, and each run that searches its memories is a borrower. A borrower needs the memories
until its journal is complete or deleted.
"""

from __future__ import annotations

from pathlib import Path

from bench.errors import JournalError
from bench.journal.paths import JOURNAL
from bench.journal.reader import Reader
from bench.journal.rows import RunState

LENT = "lent"
"""subfolder of the lender's run folder, with one file per borrower"""


def lend(lender: Path, *, to: str) -> None:
    """Record that the run ``to`` needs the memories of the run in the folder ``lender``."""
    (lender / LENT).mkdir(exist_ok=True)
    (lender / LENT / to).touch()


def give_back(lender: Path, *, by: str) -> None:
    """Remove the record that the run ``by`` needs the memories."""
    (lender / LENT / by).unlink(missing_ok=True)


async def borrowers(lender: Path) -> tuple[str, ...]:
    """Return the ids of the runs that still need the memories of the run ``lender``.

    A run whose journal cannot be read counts too.
    """
    noted = sorted((lender / LENT).glob("*"))
    return tuple([one.name for one in noted if await _needs(lender.parent / one.name)])


async def _needs(borrower: Path) -> bool:
    if not (borrower / JOURNAL).is_file():
        return False
    try:
        async with Reader.open(borrower) as reader:
            return (await reader.status()).state is not RunState.COMPLETE
    except JournalError:
        return True
