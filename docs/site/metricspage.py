"""The page of metrics and evaluators, from their registries."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from bench.evaluators.registry import catalog as evaluators
from bench.metrics.protocol import RegisteredMetric
from bench.metrics.registry import FAMILIES, registry, with_cut
from bench.receipt.verification.recompute import read_definition
from docs.site.markdown import code, page, prose, table

LEAD = """\
These are the built-in metrics. In a name, replace `K` by a number of hits: `ndcg_at_10`. An option that changes the
arithmetic is part of the definition: `ndcg@10[gain=exponential]/1`. Values with different definitions are never
compared. For the aggregation of item values and for the intervals, see [Statistics](../statistics.md)."""


def text() -> str:
    """Return the page."""
    return page("Metrics and evaluators", LEAD, *_families(), "## Evaluators", _evaluators())


def _families() -> Iterator[str]:
    for family in FAMILIES:
        source = family.__name__.removeprefix("bench.metrics.").replace(".", "/")
        module = importlib.import_module(family.__name__)
        title, *rest = (module.__doc__ or "").partition("\n\nExample::")[0].split("\n\n")
        told = [part for part in rest if not part.startswith(("Also in this module:", "* "))]
        yield f"## {prose(title).rstrip('.')}"
        yield " ".join([*map(prose, told), f"Formulas: `bench/metrics/{source}.py`."])
        head = ["name", "definition", "value", "range", "better", "options"]
        yield table(head, map(_row, family.ENTRIES))


def _row(entry: RegisteredMetric) -> list[str]:
    name = with_cut(entry.name, "K" if entry.cut == "required" else None)
    info = registry().info(name)
    others = [with_cut(alias, "K" if entry.cut == "required" else None) for alias in entry.aliases]
    names = code(name) + (f", also {', '.join(map(code, others))}" if others else "")
    better = "lower" if entry.lower_is_better else "higher"
    return [names, code(info.definition), prose(entry.summary), _range(entry, info.definition), better, _options(entry)]


def _range(entry: RegisteredMetric, definition: str) -> str:
    if read_definition(definition.replace("@K", "@1")).is_rate:
        return "0..1"
    return f"from 0, {entry.unit}" if entry.unit else "number"


def _options(entry: RegisteredMetric) -> str:
    shown = []
    for name, parameter in entry.parameters.items():
        few = parameter.choices if len(parameter.choices) < 6 else ()
        choices = "|".join(str(one) for one in few if one is not None)
        default = "" if parameter.default is None else f" ({parameter.default})"
        shown.append(f"{code(f'{name}: {choices}' if choices else name)}{default}")
    return ", ".join(shown)


def _evaluators() -> str:
    rows = ([code(name), prose(summary)] for name, summary in evaluators().items())
    return table(["method", "verdict"], rows)
