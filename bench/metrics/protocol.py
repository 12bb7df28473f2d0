"""The metric protocol for plug-ins and built-in metrics.

Also in this module:

* The spelling of metric names: the canonical form, the cut at K, similar names.

Example::

    class Shouting:
        name, definition, category = "shouting", "shouting/1", "custom"
        unit, lower_is_better, params = None, True, {}
        def score(self, row):
            return None if row.prediction is None else float(row.prediction.isupper())
    canonical("nDCG@10")                  # "ndcg_at_10"
    split_cut("ndcg_at_10")               # ("ndcg", 10)

A metric computes one number or None (not scored) from a ``Row``, and defines how numbers are combined. A plug-in
implements ``Metric``; a built-in one is a ``RegisteredMetric`` in its family's module, from which the registry makes a
``Measure``.
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
    """Return the name in lower case, with ``-`` as ``_`` and ``@`` as ``_at_``."""
    return name.strip().lower().replace("-", "_").replace("@", "_at_")


def split_cut(name: str) -> tuple[str, int | str | None]:
    """Return the base and the K of a canonical name; K is ``"k"`` in the generic form and None without a cut."""
    found = _CUT.fullmatch(name)
    if found is None:
        return name, None
    k = found["k"]
    return found["base"], k if k == "k" else int(k)


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names similar to ``name``, best first."""
    return difflib.get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)


def or_list(names: Iterable[str]) -> str:
    """Return the names as one text for a hint, such as ``"a", "b" or "c"``; empty without names."""
    quoted = [f'"{name}"' for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" or {quoted[-1]}" if quoted else ""


Category = Literal["retrieval", "answer", "performance", "cost", "custom"]
Cut = Literal["required", "optional", "none"]
Scope = Literal["item", "corpus", "parts"]

MAX_VALUE = 1e100
"""largest allowed value: the square of a larger one, or the sum of many, leaves the range of a double"""


@runtime_checkable
class Metric(Protocol):
    """A function from one item to one number. A plug-in may add ``aggregate``; the default is the mean."""

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
    """One option of a metric: one of its ``choices``, a number ``within`` a range, a switch, or a text."""

    default: object
    choices: tuple[str | None, ...] = ()
    within: tuple[float, float] | None = None

    def accepts(self, value: object) -> bool:
        """Return True when the value has the right type, and is among the choices or in the range."""
        if value is None or isinstance(value, bool):
            return type(value) is type(self.default)
        if self.choices:
            return isinstance(value, str | int) and str(value) in self.choices
        if self.within is not None:
            return isinstance(value, int | float) and self.within[0] <= value <= self.within[1]
        return isinstance(value, str) and not isinstance(self.default, bool)

    def read(self, value: object) -> object:
        """Return an accepted value in the form that the definition has: 1 becomes 1.0, or the choice "1"."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            return value
        return str(value) if self.choices else float(value)

    @property
    def allowed(self) -> str:
        """Return the values that the parameter accepts, for a hint."""
        if self.choices:
            return or_list(choice for choice in self.choices if choice is not None)
        if self.within is not None:
            return f"a number in {self.within[0]:g}..{self.within[1]:g}"
        return "true or false" if isinstance(self.default, bool) else "a text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """The functions of one metric for one set of parameters: the value of an item, and how values are combined."""

    of_row: Callable[[Row], float | None]
    of_inputs: Callable[..., float | None] | None = None
    """the function of named inputs; None when there is no generic form"""
    parts: Mapping[str, Callable[[Row], float | None]] = field(default_factory=dict)
    """for a metric without a value per item: the functions of the parts that are stored per item and summed"""
    of_sums: Callable[[Sequence[float]], float | None] | None = None
    """the number from the sums of the parts, in their order"""
    fold: FoldRule = MEAN
    evaluators: tuple[str, ...] = ()
    """evaluators whose verdicts the metric reads, in addition to the benchmark's first evaluator"""
    reads_verdicts: bool = False
    """the values come from the verdict of an evaluator"""
    method: Callable[[], str] | None = None
    """name and settings of the implementation, stored with the number"""
    absent_reason: str = ""
    """reason why a finished item has no value; empty = the item has the reason (retrieval metrics), or the metric
    does not apply"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredMetric:
    """One entry of the registry: a metric before its K and parameters are set."""

    name: str
    """base name, without the cut: ``ndcg``"""
    summary: str
    category: Category
    build: Callable[[int | None, Mapping[str, object]], Arithmetic]
    define: Callable[[Mapping[str, object]], str] | None = None
    """definition name if it differs from ``name`` (without @K and version)"""
    version: int = 1
    aliases: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """other names, each with its preset parameters"""
    cut: Cut = "none"
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    run_presets: Mapping[str, object] = field(default_factory=dict)
    """parameters preset in runs; ``score`` uses the defaults, as the published script does"""
    dotted: str | None = None
    """the parameter that ``name.value`` sets"""
    unit: str | None = None
    lower_is_better: bool = False
    scope: Scope = "item"
    """item: a value per item; corpus: a value per corpus; parts: a number from the sums of parts only"""
    counts_unknown: bool = False
    """a missing value means that the number is unknown, not that it does not apply"""
    dimensions: tuple[str, ...] = ()
    """breakdowns that are always computed"""
    title: str = ""
    """title with ``{k}`` and parameters; empty = its name"""

    def definition(self, k: int | str | None, params: Mapping[str, object]) -> str:
        """Return ``NAME[@K][options]/VERSION``; options are the parameters that change the arithmetic."""
        name = self.define(params) if self.define else self.name
        cut = f"@{k}" if k is not None and self.cut != "none" else ""
        hidden = ("variant", self.dotted) if self.define else ()
        changed = [
            f"{key}={params[key]}"
            for key in sorted(params)
            if key not in hidden and params[key] != self.parameters[key].default
        ]
        return f"{name}{cut}{'[' + ','.join(changed) + ']' if changed else ''}/{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """The meaning of a metric name, as ``resolve`` returns it."""

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
    """A metric ready for use: built-in, or a plug-in in the same form."""

    name: str
    definition: str
    category: str
    unit: str | None
    lower_is_better: bool
    params: Mapping[str, object]
    arithmetic: Arithmetic
    breakdown: tuple[str, ...] = ()
    """dimensions of the breakdown in its config entry"""
    scope: Scope = "item"
    counts_unknown: bool = False

    def score(self, row: Row) -> float | None:
        """Return the row's value; None = not scored."""
        return self.arithmetic.of_row(row)

    @property
    def needs_verdict(self) -> bool:
        """Return True when an item without a judge's verdict has no value of this metric."""
        return self.arithmetic.reads_verdicts and JUDGED.issuperset(self.evaluators)

    @property
    def explained_by_rows(self) -> bool:
        """Return True when items have their own reason for a missing value: no evidence, no ids."""
        return self.category == "retrieval" and not self.arithmetic.absent_reason

    @property
    def aggregation(self) -> str:
        """Return ``mean``, ``macro:DIMENSION`` or ``other``."""
        return self.arithmetic.fold.name

    @property
    def columns(self) -> tuple[Measure, ...]:
        """Return the metrics whose values are stored per item: the metric itself, its parts, or none."""
        if self.scope == "item":
            return (self,)
        return tuple(
            replace(self, name=f"{self.name}#{part}", scope="item", arithmetic=Arithmetic(of_row=of_row))
            for part, of_row in self.arithmetic.parts.items()
        )

    @property
    def evaluators(self) -> tuple[str, ...]:
        """Return the evaluators whose verdicts the metric reads, in addition to the benchmark's first evaluator."""
        return self.arithmetic.evaluators
