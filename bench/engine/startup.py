"""What a new run makes before its first call, taken back when the run cannot begin.

Example::

    with Startup.of(folder, report) as startup:
        startup.made = True     # once the journal is there
        ...                     # a missing key raises here: no folder, no journal, no log is left
        startup.begun = True    # from here on everything stays
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Startup:
    """The folders of a run until its first call."""

    made: bool = False
    """the journal is this process's own: what stands in the folders is, too"""
    begun: bool = False
    """the run exists: nothing is removed any more"""

    @classmethod
    @contextmanager
    def of(cls, *folders: Path) -> Iterator[Startup]:
        """Remove, unless the run began, those of the folders and of their parents that the block made."""
        new = [folder for folder in folders if not folder.exists()]
        parents = list(dict.fromkeys(up for folder in folders for up in folder.parents if not up.exists()))
        startup = cls()
        try:
            yield startup
        finally:
            if not startup.begun:
                for folder in new if startup.made else ():
                    shutil.rmtree(folder, ignore_errors=True)
                for empty in (*new, *sorted(parents, key=lambda up: -len(up.parts))):
                    with suppress(OSError):  # another process's run may be in it by now
                        empty.rmdir()
