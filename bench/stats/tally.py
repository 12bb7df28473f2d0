"""Store many numbers, grouped by cluster, in little memory, and compute exact sums.

The order of the numbers has no effect, because sums are exact until the end::

    tally = Tally.of([1.0, 0.0, 1.0], ["a", "a", "b"])
    tally.n, tally.total, tally.clusters            # 3, 2.0, 2
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, compress, repeat

ALWAYS_COUNTED = 64
"""a cluster with at most this many different values always stores counts"""
COUNTED_COST = 16
"""memory for a different value with its count, divided by memory for a number in an array"""
UNIT_BITS = 1074
"""every double is an integer multiple of 2 ** -1074"""
_UNIT = 1 << UNIT_BITS


def to_units(value: float) -> int:
    """Return a finite float as an exact integer multiple of 2 ** -1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (UNIT_BITS + 1 - denominator.bit_length())


def from_units(total: int) -> float:
    """Return the float nearest to ``total`` * 2 ** -1074; this is the inverse of ``to_units``."""
    return total / _UNIT


def exact_sum(values: Iterable[float]) -> int:
    """Return the exact sum of floats as an integer multiple of 2 ** -1074.

    Raises:
        ValueError: a float is NaN or infinite.
    """
    taken: list[float] = []
    while rest := math.fsum(chain(values, taken)):
        if not math.isfinite(rest):
            raise ValueError("cannot compute an exact sum: a number is not finite")
        taken.append(-rest)
    return -sum(map(to_units, taken))


class ClusterValues:
    """The numbers of one cluster, as counts of different values or as an array."""

    __slots__ = ("_counts", "_listed", "_total", "n")

    def __init__(self) -> None:
        self.n = 0
        self._counts: Counter[float] | None = Counter()
        self._listed: array[float] = array("d")
        self._total: int | None = None

    def add(self, values: Sequence[float]) -> None:
        """Add finite numbers."""
        self.n += len(values)
        self._total = None
        if self._counts is None:
            self._listed.extend(values)
            return
        self._counts.update(values)
        if len(self._counts) > ALWAYS_COUNTED and len(self._counts) * COUNTED_COST > self.n:
            self._listed, self._counts = array("d", self._counts.elements()), None

    @property
    def total(self) -> int:
        """The exact sum of the numbers, as a multiple of 2 ** -1074."""
        if self._total is None:
            counts = self._counts
            self._total = (
                exact_sum(self._listed) if counts is None else sum(to_units(value) * n for value, n in counts.items())
            )
        return self._total

    def square(self, centre: float) -> int:
        """Return the sum of squared deviations from ``centre``, as an integer multiple of 2 ** -1074."""
        if self._counts is None:
            return exact_sum(array("d", ((d := value - centre) * d for value in self._listed)))
        return sum(to_units((d := value - centre) * d) * n for value, n in self._counts.items())

    def counted(self) -> Iterable[tuple[float, int]]:
        """Return pairs (number, count). The same number can occur in several pairs."""
        return zip(self._listed, repeat(1)) if self._counts is None else self._counts.items()

    def different(self) -> Sequence[float] | Mapping[float, int]:
        """Return a collection in which every number of the cluster occurs at least once; repeats may be left out."""
        return self._listed if self._counts is None else self._counts


class MixedValues:
    """Numbers of several small clusters; ``clusters`` has the cluster of each number, None = not clustered."""

    __slots__ = ("clusters", "values")

    def __init__(self, values: Sequence[float], clusters: Sequence[Hashable] | None) -> None:
        if clusters is not None and len(values) != len(clusters):
            raise ValueError(
                f"the values and clusters cannot be paired: got {len(values)} and {len(clusters)}, "
                "expected the same number"
            )
        self.values = values
        self.clusters = clusters


class Tally:
    """Stored numbers of many clusters, with their exact sums and deviations. A Tally is read only."""

    def __init__(
        self,
        by_cluster: Sequence[tuple[Hashable, ClusterValues]] = (),
        mixed: Sequence[MixedValues] = (),
        *,
        clustered: bool = True,
    ) -> None:
        self._by_cluster = [(cluster, own) for cluster, own in by_cluster if own.n]
        self._mixed = [some for some in mixed if some.values]
        self._clustered = clustered
        self.n = sum(own.n for _, own in self._by_cluster) + sum(len(some.values) for some in self._mixed)
        self._groups: dict[Hashable, tuple[int, int]] | None = None

    @classmethod
    def of(cls, values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Tally:
        """Return a tally of ``values``; ``clusters`` has the cluster of each value, None = not clustered."""
        return cls(mixed=[MixedValues(values, clusters)], clustered=clusters is not None)

    def __bool__(self) -> bool:
        return self.n > 0

    @property
    def exact_total(self) -> int:
        """The exact sum of all numbers, as a multiple of 2 ** -1074."""
        return sum(own.total for _, own in self._by_cluster) + sum(exact_sum(some.values) for some in self._mixed)

    @property
    def total(self) -> float:
        """The sum of all numbers as a float, rounded only at the end."""
        return from_units(self.exact_total)

    @property
    def clusters(self) -> int | None:
        """Return the number of clusters; None if every number is its own cluster."""
        if not self._clustered:
            return None
        return clusters_of([self])

    def names(self) -> Iterable[Hashable] | None:
        """Return the names of all clusters; a name can be repeated. Return None if the numbers are not clustered."""
        if not self._clustered:
            return None
        mixed = chain.from_iterable(some.clusters or () for some in self._mixed)
        return chain((cluster for cluster, _ in self._by_cluster), mixed)

    @property
    def groups(self) -> Mapping[Hashable, tuple[int, int]]:
        """cluster -> number of its values, and their exact sum as a multiple of 2 ** -1074."""
        if self._groups is None:
            found: dict[Hashable, tuple[int, int]] = {}
            for cluster, own in self._by_cluster:
                n, total = found.get(cluster, (0, 0))
                found[cluster] = (n + own.n, total + own.total)
            for some in self._mixed:
                for cluster, value in zip(some.clusters or (), some.values, strict=True):
                    n, total = found.get(cluster, (0, 0))
                    found[cluster] = (n + 1, total + to_units(value))
            self._groups = found
        return self._groups

    def deviations(self) -> list[float]:
        """Return each cluster's sum of deviations from the overall mean."""
        centre = to_units(self.total / self.n)
        return [from_units(total - n * centre) for n, total in self.groups.values()]

    def square(self) -> float:
        """Return the sum of squared deviations from the mean."""
        centre = self.total / self.n
        mixed = array("d", ((d := value - centre) * d for some in self._mixed for value in some.values))
        return from_units(sum(own.square(centre) for _, own in self._by_cluster) + exact_sum(mixed))

    def bounded(self) -> bool:
        """Return True when all values are in 0..1."""
        return all(min(some) >= 0 and max(some) <= 1 for some in self._different())

    def binary(self) -> bool:
        """Return True when all values are 0 or 1."""
        return all(
            some.keys() <= {0, 1} if isinstance(some, Mapping) else some.count(0) + some.count(1) == len(some)
            for some in self._different()
        )

    def ordered(self) -> list[float]:
        """Return all numbers, sorted from lowest to highest."""
        listed = [value for some in self._mixed for value in some.values]
        for _, own in self._by_cluster:
            for value, n in own.counted():
                listed += repeat(value, n) if n > 1 else (value,)
        listed.sort()
        return listed

    def at_most(self, limit: float) -> list[tuple[int, int]] | None:
        """Return (number of values, number of values up to ``limit``) for each cluster; None if not clustered."""
        if self.clusters is None:
            return None
        sizes, reached = Counter[Hashable](), Counter[Hashable]()
        for cluster, own in self._by_cluster:
            sizes[cluster] += own.n
            reached[cluster] += sum(n for value, n in own.counted() if value <= limit)
        for some in self._mixed:
            sizes.update(some.clusters or ())
            reached.update(compress(some.clusters or (), map(float(limit).__ge__, some.values)))
        return [(size, reached[cluster]) for cluster, size in sizes.items()]

    def pairs(self) -> tuple[list[float], list[Hashable] | None]:
        """Return a list of all numbers and a list of their clusters. The second is None if there are no clusters."""
        found = [(value, cluster) for cluster, own in self._by_cluster for value, n in own.counted() for _ in range(n)]
        for some in self._mixed:
            found += zip(some.values, some.clusters or repeat(None), strict=False)
        return [value for value, _ in found], [cluster for _, cluster in found] if self._clustered else None

    def _different(self) -> list[Sequence[float] | Mapping[float, int]]:
        return [own.different() for _, own in self._by_cluster] + [some.values for some in self._mixed]


class RunningSums:
    """Sums of shares, for a score that is shown during a run.

    ``groups`` has (n, sum, sum of squares) of each cluster. If ``clustered`` is False, all numbers are independent.
    """

    def __init__(self, groups: Iterable[tuple[int, float, float]], *, clustered: bool = True) -> None:
        self._groups = list(groups)
        self.n = sum(n for n, _, _ in self._groups)
        self.total = math.fsum(total for _, total, _ in self._groups)
        self._squares = math.fsum(squares for _, _, squares in self._groups)
        self._clustered = clustered

    def __bool__(self) -> bool:
        return self.n > 0

    @property
    def clusters(self) -> int | None:
        """Return the number of clusters; None if every number is its own cluster."""
        return len(self._groups) if self._clustered and len(self._groups) < self.n else None

    def deviations(self) -> list[float]:
        """Return each cluster's sum of deviations from the overall mean."""
        centre = self.total / self.n
        return [total - n * centre for n, total, _ in self._groups]

    def square(self) -> float:
        """Return the sum of squared deviations from the mean."""
        return max(0.0, self._squares - self.total * self.total / self.n)

    def bounded(self) -> bool:
        """Return True, because shares are always in 0..1."""
        return True

    def binary(self) -> bool:
        """Return True when all values are 0 or 1."""
        return self._squares == self.total


def clusters_of(tallies: Sequence[Tally]) -> int | None:
    """Return the number of different clusters in several tallies; None if every number is its own cluster."""
    names: set[Hashable] = set()
    for tally in tallies:
        own = tally.names()
        if own is None:
            return None
        names.update(own)
    return len(names) if len(names) < sum(tally.n for tally in tallies) else None
