"""The document of a comparison, as ``bench compare --json`` gives it, with the verdict in words beside each pair.

Example::

    await compare_document(site, ["r1:bm25", "r1:oracle"])
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.journal import Reader
from bench.plan.record import read
from bench.web.apart import aside
from bench.web.faults import Refused
from bench.web.kept import Json, patience
from bench.web.reports import journal_stamp
from bench.web.site import Site
from bench.web.views import folder_of, known, planned_items

COMPARED_AT_MOST = 6


async def compare_document(
    site: Site, names: Sequence[str], *, metrics: Sequence[str] = (), benchmark: str | None = None, force: bool = False
) -> Json:
    """Compare jobs named ``RUN:PROVIDER[:MODEL]``.

    Raises:
        Refused: fewer than two jobs, or too many.
        Busy: large runs are being compared; ask again.
        UsageError: the jobs are not like for like; the text lists each difference.
    """
    if not 2 <= len(names) <= COMPARED_AT_MOST:
        hint = f"name 2 to {COMPARED_AT_MOST} jobs as RUN:PROVIDER"
        raise Refused(400, "usage", "a comparison needs at least two jobs", hint)
    folders = [folder_of(site, run_id) for run_id in dict.fromkeys(name.partition(":")[0] for name in names)]
    items = sum([await _items(folder) for folder in folders])
    asked = (tuple(names), tuple(metrics), benchmark, force)
    stamp = tuple(part for folder in folders for part in journal_stamp(folder))
    make = partial(aside, comparison_of, str(site.workspace), *asked, items=items)
    shown = await site.kept.of(("compare", *asked), stamp, make, patience_s=patience(items))
    return known(shown, "the runs are being compared")


async def _items(folder: Path) -> int:
    async with Reader.open(folder) as reader:
        return planned_items(read(reader.meta.extra))


async def comparison_of(
    workspace: str, names: Sequence[str], metrics: Sequence[str], benchmark: str | None, force: bool
) -> Json:
    """Compare these jobs now."""
    from bench.report.choosing import Target, sides_of
    from bench.report.compare import compare_sides
    from bench.report.compareview import comparison_json
    from bench.report.verdicts import conclusion, other_load

    groups = await sides_of(Path(workspace), [Target.parse(name) for name in names], benchmark=benchmark)
    found = compare_sides(groups, metrics=metrics, force=force)
    document = comparison_json(found)
    pairs = document["comparisons"]
    assert isinstance(pairs, list)
    for shown, pair in zip(pairs, found.comparisons, strict=True):
        shown |= {
            "conclusion": list(conclusion(pair)),
            "load": other_load(pair),
            "moves_times": [check.name for check in pair.like_for_like.load],
            "flips": {side: list(i) for side, i in pair.items.flips.items()},
        }
    return document
