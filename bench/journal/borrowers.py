"""Runs that search the memories of another run: the memories are not cleared while such a run needs them.

Example::

    lend(checkpoints / "r1", to="r2")
    await borrowers(checkpoints / "r1")      # ("r2",); empty once r2 is complete, or its journal is deleted

The lender's folder has an empty file for each borrower, and the borrower's own journal says whether it still counts:
nothing has to be taken back by a run that was killed or deleted.
"""

from __future__ import annotations

from pathlib import Path

from bench.errors import JournalError
from bench.journal.paths import JOURNAL
from bench.journal.reader import Reader
from bench.journal.rows import RunState

LENT = "lent"
"""folder in the lender's folder"""


def lend(lender: Path, *, to: str) -> None:
    """Note that a run of the same workspace needs what this one ingested."""
    (lender / LENT).mkdir(exist_ok=True)
    (lender / LENT / to).touch()


def give_back(lender: Path, *, by: str) -> None:
    """Forget a borrower."""
    (lender / LENT / by).unlink(missing_ok=True)


async def borrowers(lender: Path) -> tuple[str, ...]:
    """Return the runs that still need what this one ingested; one that cannot be read counts as one of them."""
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
