"""The input of `bench.metrics.fold.fold`: items with their stored metric values.

`FoldTable` keeps many items in little memory: it has one cell for all items with equal labels and equal state.
``reduce_repeats`` combines the epochs (repeats) of an item into one row.

Example::

    first = FoldRow("q1", "conv-26", 1, "correct", (("question_type", "temporal"),), (1.0, None), "no_evidence")
    second = FoldRow("q1", "conv-26", 2, "correct", (("question_type", "temporal"),), (0.5, None), "no_evidence")
    rows, spread = reduce_repeats([first, second], ["f1", "mrr"], "mean", epochs=2)
    spread                                                                 # {"f1": 0.354}: the standard deviation
    by_label(fold_table(rows, width=2).cells(), "question_type")           # {"temporal": [...]}
    item_outcome([("correct", "ok"), ("error", "timeout")], epochs=2)      # ("correct", "ok")

The order in which rows are added has no effect.

An item is pending until all of its epochs have ended. Then it has a value if at least one epoch has a value, and it is
failed if all epochs failed. Its cost is the sum over all epochs, including failed epochs.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import compress, groupby
from typing import Literal, NamedTuple

from bench.model import FAILED_STATES, Row, State
from bench.stats import ClusterValues, MixedValues

Labels = tuple[tuple[str, str], ...]

NO_LABEL = "(none)"
"""the label of an item without a label of the requested dimension"""


class FoldRow(NamedTuple):
    """The stored values of one item in one epoch. A plain tuple with these fields works too."""

    item_id: str
    corpus: str
    """the corpus of the item; the items of one corpus are a cluster, because they depend on each other"""
    epoch: int
    state: str | None
    """None = pending"""
    labels: Labels
    """sorted (dimension, label) pairs, such as (question_type, temporal)"""
    values: Sequence[float | None]
    """one value per metric, in the order of the metrics; can be empty for a failed item"""
    reason: str = ""
    """reason why retrieval metrics do not apply to the item, such as no_evidence; usually empty"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFacts:
    """The time and cost of the ingest of one corpus. ``failed`` means that the corpus never became ready."""

    corpus: str
    failed: bool = False
    times_us: Mapping[str, int] = field(default_factory=dict)
    """microseconds of ``ingest``, of its parts such as ``ingest.network``, and of ``searchable``"""
    memories: int | None = None
    tokens: int | None = None
    cost_usd: str | None = None
    """decimal text, None = unknown"""
    known_usd: float = 0.0
    """if ``cost_usd`` is None: total cost of the calls whose cost is known"""
    priced: bool = True
    """False: no call of the ingest has a price, so the ingest has no cost"""

    def row(self) -> Row:
        """Return these facts as a ``Row``, so that metrics can read them."""
        return Row(
            benchmark="",
            corpus=self.corpus,
            item_id=self.corpus,
            times_us=self.times_us,
            tokens={"ingest": self.tokens, "memories": self.memories},
            costs_usd={"ingest": self.cost_usd} if self.priced else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """The facts about the job that `bench.metrics.fold.fold` needs besides the items."""

    ingest_wall_us: int | None = None
    ingest_concurrency: int | None = None
    token_methods: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """role, such as answer_in -> (method of counting its tokens, such as ``chars/4``; True = estimated)"""
    price_methods: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """role, such as answer -> the name and version of the price table, or ``prices`` if the config sets the prices, or
    both; a role whose calls had no price is absent"""
    corpora: Sequence[CorpusFacts] = ()
    uncounted: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    """role, such as judge -> (cost in USD, number of calls with unknown cost) of calls that no value of an item
    includes, such as those of failed items"""
    lacking: Mapping[str, float] = field(default_factory=dict)
    """name of a cost metric -> total of the known costs in USD of the items whose value is unknown, because another
    of their costs is unknown"""
    judged: bool = False
    """true: a judge decides whether an item is correct, so an item without a verdict of the judge counts as failed"""


def labels_of(labels: Mapping[str, str]) -> Labels:
    """Return the labels as a tuple of (dimension, label) pairs, sorted by dimension."""
    return tuple(sorted(labels.items()))


def labels_of_each(many: Sequence[Mapping[str, str]]) -> list[Labels]:
    """Return `labels_of` for each mapping in ``many``; a mapping object that occurs often is converted only once."""
    names = list(map(id, many))
    forms = {name: labels_of(labels) for name, labels in dict(zip(names, many, strict=True)).items()}
    return list(map(forms.__getitem__, names))


NAN = math.nan
MIN_RUN = 32
"""minimum number of successive rows of one cluster; the values of fewer rows are put into ``FoldCell.mixed``"""
Key = tuple[Labels, str | None]
"""labels, state"""


@dataclass(slots=True)
class FoldCell:
    """All rows with equal labels and equal state.

    The values of a cluster (corpus) with many rows in succession are in ``by_cluster``. The values of all other rows
    are in ``mixed``.
    """

    labels: Labels
    state: str | None
    by_cluster: list[dict[int, ClusterValues]]
    """one dict per metric: cluster code -> the values of this cluster"""
    mixed: list[array[float]]
    """one array per metric: the values of all rows that are not in ``by_cluster``; NaN = no value"""
    clusters: array[int] = field(default_factory=lambda: array("Q"))
    """the cluster code of each row in ``mixed``; empty if the table ignores clusters"""
    count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """reason why retrieval metrics do not apply -> number of rows with this reason"""

    @property
    def failed(self) -> bool:
        """Return True if the state of the rows is error, not_ready or pending."""
        return self.state is None or self.state in FAILED_STATES

    def n(self, place: int) -> int:
        """Return how many rows have a value of the metric at position ``place``."""
        return sum(values.n for values in self.by_cluster[place].values()) + sum(map(_is_number, self.mixed[place]))

    def mixed_values(self, place: int, *, clustered: bool) -> MixedValues:
        """Return the values in ``mixed`` of the metric at position ``place``; rows without a value are left out."""
        values, clusters = self.mixed[place], self.clusters
        if _any_missing(values):
            there = [value == value for value in values]
            values = array("d", compress(values, there))
            clusters = array("Q", compress(clusters, there))
        return MixedValues(values, clusters if clustered else None)


class FoldTable:
    """The rows of one job, stored in one cell per combination of labels and state.

    ``width`` is the number of metrics per row.
    """

    def __init__(self, width: int, *, clustered: bool = True) -> None:
        self.clustered = clustered
        self._width = width
        self._cells: dict[Key, FoldCell] = {}

    def add(self, row: FoldRow) -> None:
        """Add one row."""
        _, corpus, _, state, labels, values, reason = row
        cell = self._cell((labels, state))
        cell.count += 1
        if reason:
            cell.reasons[reason] += 1
        if self.clustered:
            cell.clusters.append(cluster_code(corpus))
        for place, column in enumerate(cell.mixed):
            value = values[place] if values else None
            column.append(NAN if value is None else value)

    def add_group(
        self,
        *,
        labels: Labels,
        state: str | None,
        corpora: Sequence[str],
        columns: Sequence[array[float] | None],
    ) -> None:
        """Add many rows that have equal labels and equal state.

        ``corpora`` has the corpus of each row. ``columns`` has one array of values per metric, or None if no row has a
        value of this metric.
        """
        if not corpora:
            return
        cell = self._cell((labels, state))
        cell.count += len(corpora)
        start = at = 0
        for name, run in self._runs(corpora):
            end = at + len(list(run))
            if end - at >= MIN_RUN:
                self._add_mixed(cell, corpora, columns, start, at)
                _add_cluster_values(cell, cluster_code(name), columns, at, end)
                start = end
            at = end
        self._add_mixed(cell, corpora, columns, start, at)

    def add_pending(self, count: int, labels: Labels = ()) -> None:
        """Add ``count`` items that have not ended and have no values."""
        if count:
            self._cell((labels, None)).count += count

    def add_reason(self, labels: Labels, state: str, reason: str) -> None:
        """Record that retrieval metrics do not apply to a row for this reason; no row is added."""
        self._cell((labels, state)).reasons[reason] += 1

    def cells(self) -> list[FoldCell]:
        """Return all cells, sorted by labels and state."""
        return [self._cells[key] for key in sorted(self._cells, key=_order)]

    def lacks(self, place: int) -> bool:
        """Return True if some row has not failed, but has no value of the metric at position ``place``."""
        return any(cell.n(place) < cell.count for cell in self._cells.values() if not cell.failed)

    def _cell(self, key: Key) -> FoldCell:
        cell = self._cells.get(key)
        if cell is None:
            places = range(self._width)
            cell = self._cells[key] = FoldCell(
                *key, by_cluster=[{} for _ in places], mixed=[array("d") for _ in places]
            )
        return cell

    def _runs(self, corpora: Sequence[str]) -> Iterable[tuple[str, Iterable[str]]]:
        """Return one pair (corpus, its rows) for each group of adjacent rows of the same corpus.

        If the table ignores clusters, return one pair with all rows.
        """
        if not self.clustered:
            return [("", corpora)]
        if corpora.count(corpora[0]) == len(corpora):
            return [(corpora[0], corpora)]
        return groupby(corpora)

    def _add_mixed(
        self, cell: FoldCell, corpora: Sequence[str], columns: Sequence[array[float] | None], start: int, end: int
    ) -> None:
        if start == end:
            return
        if self.clustered:
            cell.clusters.extend(map(cluster_code, corpora[start:end]))
        for kept, given in zip(cell.mixed, columns, strict=True):
            kept.extend(array("d", [NAN]) * (end - start) if given is None else given[start:end])


def _add_cluster_values(
    cell: FoldCell, cluster: int, columns: Sequence[array[float] | None], start: int, end: int
) -> None:
    for by_cluster, given in zip(cell.by_cluster, columns, strict=True):
        if given is None:
            continue
        values = given if end - start == len(given) else given[start:end]
        if _any_missing(values):
            values = array("d", filter(_is_number, values))
        if values:
            by_cluster.setdefault(cluster, ClusterValues()).add(values)


def fold_table(rows: Iterable[FoldRow], width: int, *, clustered: bool = True) -> FoldTable:
    """Return a new table that contains ``rows``; ``width`` is the number of metrics per row."""
    table = FoldTable(width, clustered=clustered)
    for row in rows:
        table.add(row)
    return table


@lru_cache(maxsize=1024)
def cluster_code(name: str) -> int:
    """Return a 64-bit hash of the name of a cluster. The hash of a name is equal in every process."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _any_missing(values: array[float]) -> bool:
    total = sum(values)  # NaN spreads through any sum
    return total != total


def _is_number(value: float) -> bool:
    return value == value


def _order(key: Key) -> tuple[Labels, str]:
    labels, state = key
    return labels, state or ""


def by_label(cells: Sequence[FoldCell], dimension: str) -> dict[str, list[FoldCell]]:
    """Return label -> cells with this label in the dimension (such as ``question_type``).

    Cells without a label in the dimension are under ``(none)``.
    """
    groups: dict[str, list[FoldCell]] = {}
    for cell in cells:
        groups.setdefault(dict(cell.labels).get(dimension, NO_LABEL), []).append(cell)
    return groups


def has_dimension(cells: Sequence[FoldCell], dimension: str) -> bool:
    """Return True if at least one row has a label in the dimension, such as ``question_type``."""
    return any(dimension == name for cell in cells for name, _ in cell.labels)


Reducer = Literal["mean", "mode", "max"]
EndState = tuple[str, str]
"""(state, outcome) of one repeat or of one item; the outcome is ``ok`` or the error kind"""


def item_outcome(repeats: Sequence[EndState], epochs: int) -> EndState | None:
    """Return the state and outcome that are most common among the repeats of an item.

    Failed repeats count only if all repeats failed. Return None if fewer than ``epochs`` repeats have ended.
    """
    if len(repeats) < epochs:
        return None
    counting = [one for one in repeats if one[0] not in FAILED_STATES] or repeats
    state = _most_common([state for state, _ in counting])
    return state, _most_common([outcome for one, outcome in counting if one == state])


def reduce_repeats(
    rows: Iterable[FoldRow], names: Sequence[str], reducer: Reducer, added: Collection[str] = (), *, epochs: int
) -> tuple[list[FoldRow], dict[str, float]]:
    """Combine the rows of each item (one per epoch) into one row.

    Also return metric name -> spread: the standard deviation within an item, averaged over the items. A metric named in
    ``added``, such as a cost, is summed over the epochs. ``reducer`` combines the values of all other metrics.
    """
    repeats: dict[tuple[str, str], list[FoldRow]] = {}
    for row in rows:
        repeats.setdefault((row[1], row[0]), []).append(row)
    deviations: dict[str, list[float]] = {name: [] for name in names}
    items = []
    for key in sorted(repeats):
        rows_of = sorted(repeats[key], key=lambda row: row[2])
        columns = [_epoch_values(rows_of, place) for place in range(len(names))]
        for name, column in zip(names, columns, strict=True):
            if len(column) > 1:
                deviations[name].append(statistics.stdev(column))
        ended = item_outcome([(row[3], "") for row in rows_of if row[3] is not None], epochs)
        values = [
            _sum_over_epochs(rows_of, place)
            if name in added
            else reduce_values(columns[place] if ended else (), reducer)
            for place, name in enumerate(names)
        ]
        items.append(_item_row(rows_of, ended[0] if ended else None, values))
    return items, {name: math.fsum(found) / len(found) for name, found in deviations.items() if found}


def reduce_values(values: Sequence[float], reducer: Reducer) -> float | None:
    """Return the mean, the most common value (``mode``) or the maximum of the values; None if there are no values.

    If two values are equally common, ``mode`` returns the lower value.
    """
    if not values:
        return None
    if reducer == "max":
        return max(values)
    if reducer == "mode":
        counts = Counter(values)
        return min(counts, key=lambda value: (-counts[value], value))
    mean = math.fsum(values) / len(values)
    return min(max(mean, min(values)), max(values))  # rounding must not move equal repeats


def _failed(row: FoldRow) -> bool:
    return row[3] is None or row[3] in FAILED_STATES


def _epoch_values(epochs: Sequence[FoldRow], place: int) -> list[float]:
    found = (row[5][place] for row in epochs if row[5] and not _failed(row))
    return [value for value in found if value is not None]


def _sum_over_epochs(epochs: Sequence[FoldRow], place: int) -> float | None:
    """Return the sum of one metric over all epochs, including failed epochs.

    Return None if a successful epoch has no value.
    """
    if any(not row[5] or row[5][place] is None for row in epochs if not _failed(row)):
        return None
    known = [value for row in epochs if row[5] and (value := row[5][place]) is not None]
    return math.fsum(known) if known else None


def _item_row(repeats: Sequence[FoldRow], state: str | None, values: list[float | None]) -> FoldRow:
    first = next((row for row in repeats if not _failed(row)), repeats[0])
    return FoldRow(first[0], first[1], 1, state, first[4], values, first[6])


def _most_common(names: Sequence[str]) -> str:
    """Return the most common name.

    Of equally common names, return the first in alphabetical order. ``correct`` comes last in this order.
    """
    counts = Counter(names)
    return min(counts, key=lambda name: (-counts[name], name == State.CORRECT, name))
