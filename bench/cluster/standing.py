"""How far a cluster's run is before its shards are merged: what came back, and what is at work on this machine.

Example::

    found = await standing_of_run(Path("checkpoints/r1"))
    found["completed"], found["shards"]         # 40, {"count": 4, "back": 1, "here": 2}

What works on another machine tells only its coordinator; it is counted here when it has come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import cast

from bench.cluster.shelf import Shelf
from bench.cluster.worker import SCRATCH
from bench.journal import Reader
from bench.journal.places import CHECKPOINTS, JOURNAL
from bench.report.progress import standing

Standing = Mapping[str, object]


async def standing_of_run(run: Path) -> dict[str, object]:
    """The run's own document of ``bench status --json`` with the counts of every shard that can be seen from here."""
    own = await standing(run)
    async with Reader.open(run) as reader:
        count = reader.meta.request["shards"]
    back = {path.stem: path for path in Shelf(run).folder.glob("*of*.sqlite")}
    here = _at_work(run)
    furthest = []
    for name in {**back, **here}:
        seen = [await standing(path) for path in (back.get(name), *here.get(name, ())) if path is not None]
        furthest.append(max(seen, key=_ended))
    shards = {"count": count, "back": len(back), "here": len(here.keys() - back.keys())}
    if sum(map(_ended, furthest)) < _ended(own):
        return {**own, "shards": shards}
    return {**own, **_added(own, furthest), "shards": shards}


def _at_work(run: Path) -> dict[str, list[Path]]:
    """The journals of shards that a worker of this machine keeps in the run's workspace, by shard."""
    found: dict[str, list[Path]] = {}
    for path in sorted((run.parent / SCRATCH / CHECKPOINTS).glob(f"{run.name}.*of*-*/{JOURNAL}")):
        name = path.parent.name.removeprefix(f"{run.name}.").rpartition("-")[0]
        found.setdefault(name, []).append(path)
    return found


def _ended(one: Standing) -> int:
    return cast("int", one["completed"]) + cast("int", one["failed"])


def _added(own: Standing, shards: Sequence[Standing]) -> dict[str, object]:
    ended = sum(map(_ended, shards))
    failed = sum(cast("int", one["failed"]) for one in shards)
    phases: dict[str, Counter[str]] = {}
    for one in shards:
        for phase, counts in cast("Mapping[str, Mapping[str, int]]", one["phases"]).items():
            phases.setdefault(phase, Counter()).update(counts)
    oldest = [cast("float", one["oldest_request_s"]) for one in shards if one["oldest_request_s"] is not None]
    return {
        "completed": ended - failed,
        "failed": failed,
        "in_progress": cast("int", own["total"]) - ended if own["state"] == "running" else 0,
        "phases": {name: dict(counts) for name, counts in phases.items()},
        "oldest_request_s": max(oldest, default=None),
        "cost_usd": format(sum((Decimal(str(one["cost_usd"])) for one in shards), Decimal(0)), "f"),
    }
