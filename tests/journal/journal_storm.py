"""A process that writes as fast as it can, to be killed or to fill its disk: ``journal_storm.py FOLDER MODE [FSIZE]``.

It prints the number of acknowledged rows after each commit. MODE is ``create``,
``resume`` or ``hold`` (take the journal, print, sleep).
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import anyio

from bench.errors import BenchError
from bench.journal import Journal
from bench.model import Phase
from tests.journal.journal_samples import meta, scored, search


async def storm(folder: Path, mode: str) -> None:
    opening = Journal.create(folder, meta()) if mode == "create" else Journal.resume(folder)
    async with opening as journal:
        start = len(await journal.finished("lane", Phase.SEARCH))
        print(f"open {start}", flush=True)
        if mode == "hold":
            await anyio.sleep(60)
        acknowledged = start

        def print_acknowledged(rows: object) -> None:
            nonlocal acknowledged
            acknowledged += sum(row.key.phase is Phase.SEARCH for row in rows)  # type: ignore[attr-defined]
            print(acknowledged, flush=True)

        journal.on_commit = print_acknowledged
        for number in range(start, start + 1_000_000):
            await journal.wait_for_room()
            journal.append(search(f"q{number:07d}", attempt=1))
            journal.append(scored(f"q{number:07d}", attempt=1))
            if number % 7 == 0:
                await anyio.sleep(0)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        limit = int(sys.argv[3])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        anyio.run(storm, Path(sys.argv[1]), sys.argv[2])
    except BenchError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        sys.exit(error.exit_code)
