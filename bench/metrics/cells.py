"""Where the rows of a fold lie: one cell for each set of labels and state, and in it a heap of numbers a cluster.

Rows come one by one or many alike at once; the order in which they come changes nothing.

Example::

    pool = Pool(width=3)
    pool.add_alike(labels=labels, state="correct", corpora=["conv-26"] * 4000, columns=[hits, None, ndcg])
    by_label(pool.cells(), "question_type")["temporal"]
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import compress, groupby

from bench.metrics.facts import NO_LABEL, FoldRow, Labels
from bench.model import FAILED_STATES
from bench.stats import Heap, Strays

NAN = math.nan
LONG = 32
"""so many rows of one cluster in a row get a heap of their own"""
Key = tuple[Labels, str | None]
"""labels, state"""


@dataclass(slots=True)
class Cell:
    """Rows that share labels and state; a heap a metric and cluster, and the rows whose clusters are small."""

    labels: Labels
    state: str | None
    heaps: list[dict[int, Heap]]
    """metric -> cluster -> its values"""
    strays: list[array[float]]
    """metric -> values, NaN = none"""
    clusters: array[int] = field(default_factory=lambda: array("Q"))
    """of the strays; empty when not clustered"""
    count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """why retrieval metrics do not apply to some of the rows"""

    @property
    def failed(self) -> bool:
        """error, not_ready or pending."""
        return self.state is None or self.state in FAILED_STATES

    def n(self, place: int) -> int:
        """How many rows have a value of one metric."""
        return sum(heap.n for heap in self.heaps[place].values()) + sum(map(_is_number, self.strays[place]))

    def kept(self, place: int, *, clustered: bool) -> Strays:
        """The strays that have a value of one metric."""
        values, clusters = self.strays[place], self.clusters
        if _any_missing(values):
            there = [value == value for value in values]
            values = array("d", compress(values, there))
            clusters = array("Q", compress(clusters, there))
        return Strays(values, clusters if clustered else None)


class Pool:
    """Takes the rows of one job and sorts them into cells; ``width`` is the number of metrics."""

    def __init__(self, width: int, *, clustered: bool = True) -> None:
        self.clustered = clustered
        self._width = width
        self._cells: dict[Key, Cell] = {}

    def add(self, row: FoldRow) -> None:
        """Take one row."""
        _, corpus, _, state, labels, values, reason = row
        cell = self._cell((labels, state))
        cell.count += 1
        if reason:
            cell.reasons[reason] += 1
        if self.clustered:
            cell.clusters.append(cluster_code(corpus))
        for place, column in enumerate(cell.strays):
            value = values[place] if values else None
            column.append(NAN if value is None else value)

    def add_alike(
        self,
        *,
        labels: Labels,
        state: str | None,
        corpora: Sequence[str],
        columns: Sequence[array[float] | None],
    ) -> None:
        """Take many rows of the same labels and state; a column that is None is NaN throughout."""
        if not corpora:
            return
        cell = self._cell((labels, state))
        cell.count += len(corpora)
        start = at = 0
        for name, run in self._runs(corpora):
            end = at + len(list(run))
            if end - at >= LONG:
                self._stray(cell, corpora, columns, start, at)
                _heap(cell, cluster_code(name), columns, at, end)
                start = end
            at = end
        self._stray(cell, corpora, columns, start, at)

    def add_pending(self, count: int, labels: Labels = ()) -> None:
        """Count items that have not ended."""
        if count:
            self._cell((labels, None)).count += count

    def explain(self, labels: Labels, state: str, reason: str, count: int = 1) -> None:
        """Say why retrieval metrics do not apply to rows that were taken."""
        self._cell((labels, state)).reasons[reason] += count

    def cells(self) -> list[Cell]:
        """The cells in an order that does not depend on the rows' order."""
        return [self._cells[key] for key in sorted(self._cells, key=_order)]

    def lacks(self, place: int) -> bool:
        """Whether any row that did not fail is without a value of one metric."""
        return any(cell.n(place) < cell.count for cell in self._cells.values() if not cell.failed)

    def _cell(self, key: Key) -> Cell:
        cell = self._cells.get(key)
        if cell is None:
            places = range(self._width)
            cell = self._cells[key] = Cell(*key, heaps=[{} for _ in places], strays=[array("d") for _ in places])
        return cell

    def _runs(self, corpora: Sequence[str]) -> Iterable[tuple[str, Iterable[str]]]:
        """Clusters that stand together."""
        if not self.clustered:
            return [("", corpora)]
        if corpora.count(corpora[0]) == len(corpora):
            return [(corpora[0], corpora)]
        return groupby(corpora)

    def _stray(
        self, cell: Cell, corpora: Sequence[str], columns: Sequence[array[float] | None], start: int, end: int
    ) -> None:
        if start == end:
            return
        if self.clustered:
            cell.clusters.extend(map(cluster_code, corpora[start:end]))
        for kept, given in zip(cell.strays, columns, strict=True):
            kept.extend(array("d", [NAN]) * (end - start) if given is None else given[start:end])


def _heap(cell: Cell, cluster: int, columns: Sequence[array[float] | None], start: int, end: int) -> None:
    for heaps, given in zip(cell.heaps, columns, strict=True):
        if given is None:
            continue
        values = given if end - start == len(given) else given[start:end]
        if _any_missing(values):
            values = array("d", filter(_is_number, values))
        if values:
            heaps.setdefault(cluster, Heap()).add(values)


def poured(rows: Iterable[FoldRow], width: int, *, clustered: bool = True) -> Pool:
    """A pool of these rows."""
    pool = Pool(width, clustered=clustered)
    for row in rows:
        pool.add(row)
    return pool


@lru_cache(maxsize=1024)
def cluster_code(name: str) -> int:
    """64 bits that stand for a cluster, the same in every process; a million clusters hardly ever share one."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _any_missing(values: array[float]) -> bool:
    total = sum(values)  # NaN spreads through any sum
    return total != total


def _is_number(value: float) -> bool:
    return value == value


def _order(key: Key) -> tuple[Labels, str]:
    labels, state = key
    return labels, state or ""


def by_label(cells: Sequence[Cell], dimension: str) -> dict[str, list[Cell]]:
    """Cells by their label of one dimension; those without it under ``(none)``."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(dict(cell.labels).get(dimension, NO_LABEL), []).append(cell)
    return groups


def has_dimension(cells: Sequence[Cell], dimension: str) -> bool:
    """Whether any row has a label of it."""
    return any(dimension == name for cell in cells for name, _ in cell.labels)
