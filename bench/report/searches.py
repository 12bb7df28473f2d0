"""Notes on what the searches of a job found: what a reader must know before a retrieval number is used.

Example::

    partly_found(probes)      # ["in 2 of 10 corpora only a part of what was looked for after the ingest was found ..."]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from bench.journal import ProbeRow
from bench.journal.records import HitCounts

UNMAPPED_ALLOWED = 0.1
"""a memory that extracts facts may make some of no single source; it is flagged above this share and never INVALID,
because a hit without a source can only lower the score of its provider, and proof of a leak is a check of its own"""

REVERSED_ALLOWED = 0.1
"""two or three hits in an order of another reason, such as a reranker's, may rise by chance"""


def unmapped_notes(hits: int, unmapped: int) -> list[str]:
    """Say how many hits map to nothing; many of them ask for a look."""
    if not unmapped:
        return []
    share = unmapped / hits
    text = f"{unmapped} of {hits} hits ({share:.0%}) map to no memory of their corpus"
    look = ": each counts as a miss; look at search.response.id_from and at the namespace that a search sends"
    return [text + (look if share > UNMAPPED_ALLOWED else "")]


def order_notes(counts: HitCounts) -> list[str]:
    """Ask whether the best hit comes last, where scores report it."""
    return [
        f"scores {way} with rank in {count} of {counts.searches} searches: is the order worst first? {why}"
        for way, count, why in (
            ("rise", counts.rising, "If a low score is good, say search.response.score: {kind: distance}"),
            ("fall", counts.falling, "search.response.score declares that a low score is good"),
        )
        if count > REVERSED_ALLOWED * counts.searches
    ]


def partly_found(probes: Sequence[ProbeRow]) -> list[str]:
    """Say in how many corpora a service found only some of the memories that were looked for when it was ready."""
    counts = [
        (cast("int", probe.data["found"]), cast("int", probe.data["looked"]))
        for probe in probes
        if probe.kind == "sentinel" and probe.last and "looked" in probe.data
    ]
    partly = [(found, looked) for found, looked in counts if found < looked]
    if not partly:
        return []
    found, looked = map(sum, zip(*partly, strict=True))
    return [
        f"in {len(partly)} of {len(counts)} corpora only {found} of {looked} memories that were looked for were found "
        "before the first question was asked: the service may have lost some that it acknowledged, or index them later "
        "(wait.settle_ms)"
    ]
