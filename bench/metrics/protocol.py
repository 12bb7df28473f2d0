"""The interface of plug-in metrics, and the classes of built-in metrics.

``canonical`` converts the spellings of a metric name, and ``split_cut`` splits the cutoff K from the name.

Example::

    class Shouting:
        name, definition, category = "shouting", "shouting/1", "custom"
        unit, lower_is_better, params = None, True, {}
        def score(self, row):
            return None if row.prediction is None else float(row.prediction.isupper())
    canonical("nDCG@10")                  # "ndcg_at_10"
    split_cut("ndcg_at_10")               # ("ndcg", 10)

A metric computes one number per item, or None if the item is not scored. It also defines how the numbers of many items
are combined. A plug-in implements ``Metric``. A built-in metric is a ``RegisteredMetric``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

from bench.metrics.aggregation import MEAN, FoldRule
from bench.model import JUDGED, Row

_CUT = re.compile(r"(?P<base>.+)_at_(?P<k>[0-9]{1,9}|k)")


def canonical(name: str) -> str:
    """Return the name in lower case, with ``-`` replaced by ``_`` and ``@`` by ``_at_``."""
    return name.strip().lower().replace("-", "_").replace("@", "_at_")


def split_cut(name: str) -> tuple[str, int | str | None]:
    """Split a canonical name at its cutoff: ``ndcg_at_10`` gives ``("ndcg", 10)``.

    K is ``"k"`` for a name such as ``ndcg_at_k``, and None for a name without a cutoff.
    """
    found = _CUT.fullmatch(name)
    if found is None:
        return name, None
    k = found["k"]
    return found["base"], k if k == "k" else int(k)


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three of the known names that are similar to ``name``, the most similar first."""
    return difflib.get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)


def or_list(names: Iterable[str]) -> str:
    """Return the names as one text for a hint, such as ``"a", "b" or "c"``; empty without names."""
    quoted = [f'"{name}"' for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" or {quoted[-1]}" if quoted else ""


Category = Literal["retrieval", "answer", "performance", "cost", "custom"]
Cut = Literal["required", "optional", "none"]
Scope = Literal["item", "corpus", "parts"]

MAX_VALUE = 1e100
"""largest allowed value of a metric; sums and squares of larger values would exceed the range of a float"""


@runtime_checkable
class Metric(Protocol):
    """A metric of a plug-in: ``score`` computes one number from one row.

    A class may also have ``aggregate(values)``, which combines the numbers of many rows. Without it, the mean is used.
    """

    @property
    def name(self) -> str: ...
    @property
    def definition(self) -> str: ...
    @property
    def category(self) -> str: ...
    @property
    def unit(self) -> str | None: ...
    @property
    def lower_is_better(self) -> bool: ...
    @property
    def params(self) -> Mapping[str, object]: ...

    def score(self, row: Row) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One option of a metric.

    Its value is one of ``choices``, or a number in the range ``within``. If neither is set, the value has the type of
    the default, which is a boolean or a text.
    """

    default: object
    choices: tuple[str | None, ...] = ()
    within: tuple[float, float] | None = None

    def accepts(self, value: object) -> bool:
        """Return True if the parameter can have this value.

        The value must be one of ``choices`` or in the range. If neither is set, the value must have the type of the
        default.
        """
        if value is None or isinstance(value, bool):
            return type(value) is type(self.default)
        if self.choices:
            return isinstance(value, str | int) and str(value) in self.choices
        if self.within is not None:
            return isinstance(value, int | float) and self.within[0] <= value <= self.within[1]
        return isinstance(value, str) and not isinstance(self.default, bool)

    def read(self, value: object) -> object:
        """Return an accepted value in the form in which it is stored.

        A number becomes a text if the parameter has ``choices``, otherwise a float. Any other value is not changed.
        """
        if not isinstance(value, int | float) or isinstance(value, bool):
            return value
        return str(value) if self.choices else float(value)

    @property
    def allowed(self) -> str:
        """Return a text for a hint that lists or describes the accepted values."""
        if self.choices:
            return or_list(choice for choice in self.choices if choice is not None)
        if self.within is not None:
            return f"a number in {self.within[0]:g}..{self.within[1]:g}"
        return "true or false" if isinstance(self.default, bool) else "a text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """The functions that compute one metric whose K and parameters are set."""

    of_row: Callable[[Row], float | None]
    of_inputs: Callable[..., float | None] | None = None
    """computes the value from named inputs, as in `bench.metrics.score`; None if only a ``Row`` has the inputs"""
    parts: Mapping[str, Callable[[Row], float | None]] = field(default_factory=dict)
    """for a metric that is a formula of sums over all items: name -> function that computes one summand of a row"""
    of_sums: Callable[[Sequence[float]], float | None] | None = None
    """computes the metric from the sums over all rows, in the order of ``parts``"""
    fold: FoldRule = MEAN
    evaluators: tuple[str, ...] = ()
    """names of evaluators that must run because the metric reads their verdicts; the benchmark's first evaluator
    always runs"""
    reads_verdicts: bool = False
    """true: the metric reads its values from verdicts"""
    method: Callable[[], str] | None = None
    """returns the name and settings of the library that computes the metric; stored with the result"""
    absent_reason: str = ""
    """the reason to report for finished items without a value
    If it is empty, a retrieval metric reports the reason that the row stores, and any other metric reports
    ``not_applicable``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredMetric:
    """A built-in metric before its K and parameters are set; the registry has one entry per metric."""

    name: str
    """name without the cutoff: ``ndcg``, not ``ndcg_at_10``"""
    summary: str
    category: Category
    build: Callable[[int | None, Mapping[str, object]], Arithmetic]
    define: Callable[[Mapping[str, object]], str] | None = None
    """returns the name in the definition if it differs from ``name``; without ``@K`` and version"""
    version: int = 1
    versions: Mapping[str, int] = field(default_factory=dict)
    """name in the definition -> its version, for variants whose version differs from ``version``"""
    aliases: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """other name -> the parameters that this name sets"""
    cut: Cut = "none"
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    run_presets: Mapping[str, object] = field(default_factory=dict)
    """parameters that a run sets for a name without a variant; ``bench.metrics.score`` uses the defaults instead"""
    dotted: str | None = None
    """name of the parameter that a suffix sets: ``accuracy.mcq`` sets ``method`` to ``mcq``"""
    unit: str | None = None
    lower_is_better: bool = False
    scope: Scope = "item"
    """item: one value per item; corpus: one value per corpus; parts: no value per item, only a formula of sums"""
    counts_unknown: bool = False
    """true: a missing value means that the number is unknown; false: that the metric does not apply"""
    dimensions: tuple[str, ...] = ()
    """labels by which the metric is always broken down"""
    title: str = ""
    """title in tables, in which ``{k}`` and parameters are filled in; empty: the name"""

    def definition(self, k: int | str | None, params: Mapping[str, object]) -> str:
        """Return the definition of the metric: ``NAME[@K][options]/VERSION``.

        The options are the parameters whose values differ from the defaults. A parameter that NAME already contains is
        left out.
        """
        name = self.define(params) if self.define else self.name
        cut = f"@{k}" if k is not None and self.cut != "none" else ""
        hidden = ("variant", self.dotted) if self.define else ()
        changed = [
            f"{key}={params[key]}"
            for key in sorted(params)
            if key not in hidden and params[key] != self.parameters[key].default
        ]
        version = self.versions.get(name, self.version)
        return f"{name}{cut}{'[' + ','.join(changed) + ']' if changed else ''}/{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """The meaning of a metric name; `bench.metrics.resolve` returns it."""

    name: str
    definition: str
    aliases: tuple[str, ...]
    category: str
    unit: str | None
    lower_is_better: bool
    summary: str = ""
    params: Mapping[str, object] = field(default_factory=dict)
    title: str = ""
    """title in tables, such as ``recall@5 (any)``"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A metric whose K and parameters are set, ready for use. Plug-ins are converted to this class too."""

    name: str
    definition: str
    category: str
    unit: str | None
    lower_is_better: bool
    params: Mapping[str, object]
    arithmetic: Arithmetic
    breakdown: tuple[str, ...] = ()
    """labels by which the metric is broken down"""
    scope: Scope = "item"
    counts_unknown: bool = False

    def score(self, row: Row) -> float | None:
        """Return the value of the metric for one row; None if the row is not scored."""
        return self.arithmetic.of_row(row)

    @property
    def needs_verdict(self) -> bool:
        """Return True if the metric has no value for an item that the judge did not score."""
        return self.arithmetic.reads_verdicts and JUDGED.issuperset(self.evaluators)

    @property
    def explained_by_rows(self) -> bool:
        """Return True for a retrieval metric whose rows store why they have no value, such as no_evidence."""
        return self.category == "retrieval" and not self.arithmetic.absent_reason

    @property
    def aggregation(self) -> str:
        """Return how the values of many rows are combined: ``mean``, ``macro:DIMENSION`` or ``other``."""
        return self.arithmetic.fold.name

    @property
    def columns(self) -> tuple[Measure, ...]:
        """Return the metrics whose values are stored for each item.

        If the metric has a value per item, this is the metric itself. Otherwise, there is one metric for each number
        that the metric sums.
        """
        if self.scope == "item":
            return (self,)
        return tuple(
            replace(self, name=f"{self.name}#{part}", scope="item", arithmetic=Arithmetic(of_row=of_row))
            for part, of_row in self.arithmetic.parts.items()
        )

    @property
    def evaluators(self) -> tuple[str, ...]:
        """Return the names of the evaluators that must run for this metric, except the benchmark's first evaluator."""
        return self.arithmetic.evaluators
