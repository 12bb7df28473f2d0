"""Westfall and Young's step-down maxT: adjusted p values of many rows over the same conversations or items.

All rows of a family see the same sign patterns: rows that go together cost little, and few clusters can decide.
Source: Westfall and Young 1993, algorithm 4.1 (free step-down)::

    max_t([[0.4, 0.3, 0.5, 0.2, 0.6, 0.1], [0.1, -0.2, 0.0, 0.1, -0.1, 0.1]])        # [0.03125, 0.75]
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import repeat
from operator import add

EXACT_UP_TO = 14
"""so many units have all their 2^(units - 1) sign patterns enumerated"""
PATTERNS = 20_000
"""patterns that are drawn where there are more units"""
BLOCKS = 256
"""of more units than this, those that are BLOCKS apart share a sign: fewer patterns, and as valid a test"""
TIE = 1e-12
_GROUP = 8
"""signs in one random byte: a table holds the sums of its 256 patterns"""


def max_t(rows: Sequence[Sequence[float]], *, seed: int = 0) -> list[float]:
    """Return the adjusted p of each row; a row holds one sum of differences per unit, 0 where it has none.

    The statistic of a row is ``abs(sum) / sqrt(sum of squares)``, under every pattern of the units' signs.
    """
    if not rows:
        return []
    signs = _Signs(len(rows[0]), seed)
    scales = [math.sqrt(math.fsum(value * value for value in row)) or 1.0 for row in rows]
    observed = [abs(math.fsum(row)) / scale for row, scale in zip(rows, scales, strict=True)]
    rising = sorted(range(len(rows)), key=observed.__getitem__)
    adjusted = [1.0] * len(rows)
    largest = [0.0] * signs.patterns
    for at in rising:
        scale = scales[at]
        largest = list(map(max, largest, [abs(total) / scale for total in signs.totals(rows[at])]))
        least = observed[at] - TIE
        adjusted[at] = signs.share(sum(value >= least for value in largest))
    running = 0.0
    for at in reversed(rising):
        running = adjusted[at] = max(running, adjusted[at])
    return adjusted


def least_max_t(units: int, all_units: int) -> float:
    """Return the smallest adjusted p that a row can have with values in ``units`` of ``all_units``."""
    own = math.ldexp(1.0, 1 - max(1, units))
    return own if all_units <= EXACT_UP_TO else max(own, 1 / (1 + PATTERNS))


class _Signs:
    """The sign patterns of a family: all of few units, else a seeded sample."""

    def __init__(self, units: int, seed: int) -> None:
        self._exact = units <= EXACT_UP_TO
        self.patterns = 1 << max(0, units - 1) if self._exact else PATTERNS
        groups = math.ceil(min(units, BLOCKS) / _GROUP)
        drawn = b"" if self._exact else random.Random(seed).randbytes(PATTERNS * groups)
        self._columns = [drawn[at::groups] for at in range(groups)]

    def totals(self, row: Sequence[float]) -> list[float]:
        """Return the sum of a row under every pattern, always in the same order."""
        if self._exact:
            return _all_sums(row[0], row[1:])
        blocks = row if len(row) <= BLOCKS else [math.fsum(row[at::BLOCKS]) for at in range(BLOCKS)]
        totals = [0.0] * PATTERNS
        for at, column in enumerate(self._columns):
            group = [*blocks[at * _GROUP : (at + 1) * _GROUP], *repeat(0.0, _GROUP)][:_GROUP]
            half = _all_sums(group[0], group[1:])
            sums = [*half, *(-total for total in half)]
            totals = list(map(add, totals, map(sums.__getitem__, column)))
        return totals

    def share(self, reached: int) -> float:
        """Return the p of a maximum that ``reached`` patterns have; a sample counts the observed one too."""
        return reached / self.patterns if self._exact else (1 + reached) / (1 + self.patterns)


def _all_sums(first: float, rest: Sequence[float]) -> list[float]:
    """The sums over all signs of ``rest``; the sign of ``first`` is fixed, the other half is its mirror image."""
    totals = [first]
    for value in rest:
        totals = [*map(add, totals, repeat(value)), *map(add, totals, repeat(-value))]
    return totals
