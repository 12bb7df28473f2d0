"""The page of metrics and evaluators, from their registries."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from bench.evaluators.registry import catalog as evaluators
from bench.metrics.protocol import RegisteredMetric
from bench.metrics.registry import FAMILIES, registry, with_cut
from bench.receipt.verification.recompute import read_definition
from docs.site.markdown import code, page, prose, table

STATISTIC = re.compile(r"p\d\d|mean|max")
"""the part by which names and summaries of the metrics of times differ"""
LEAD = """\
These are the built-in metrics. In a name, replace `K` by a number of hits: `ndcg_at_10`. An option that changes the
arithmetic is part of the definition: `ndcg@10[gain=exponential]/1`. The number after the slash is the version of the
formula. Values with different definitions are never compared. In the column `options`, the default is in parentheses.
[Statistics](../statistics.md) describes the intervals."""


def text() -> str:
    """Return the page."""
    return page("Metrics and evaluators", LEAD, *_families(), "## Evaluators", _evaluators())


def _families() -> Iterator[str]:
    for family in FAMILIES:
        source = family.__name__.removeprefix("bench.metrics.").replace(".", "/")
        module = importlib.import_module(family.__name__)
        title, *rest = (module.__doc__ or "").partition("\n\nExample::")[0].split("\n\n")
        told = [part for part in rest if not part.startswith(("Also in this module:", "This module also ", "* "))]
        yield f"## {prose(title).rstrip('.')}"
        yield " ".join([*map(prose, told), f"Formulas: `bench/metrics/{source}.py`."])
        head = ["name", "definition", "value", "range", "better", "options"]
        yield table(head, _rows(family.ENTRIES))


def _rows(entries: Iterable[RegisteredMetric]) -> Iterator[list[str]]:
    """Yield a row per metric; metrics that differ only in their statistic share a row."""
    for _, several in groupby(entries, key=lambda entry: STATISTIC.sub("", f"{entry.name} {entry.summary}")):
        rows = list(several)
        first = _row(rows[0])
        if len(rows) > 1:
            statistics = [found[0] for entry in rows if (found := STATISTIC.search(entry.summary))]
            value = STATISTIC.sub(", ".join(statistics), rows[0].summary, count=1)
            first[:3] = [_names(rows), code(STATISTIC.sub("STATISTIC", rows[0].name) + "/1"), prose(value)]
        yield first


def _row(entry: RegisteredMetric) -> list[str]:
    info = registry().info(_shown(entry, entry.name))
    better = "lower" if entry.lower_is_better else "higher"
    definition = info.definition
    return [
        _names([entry]), code(definition), prose(entry.summary), _range(entry, definition), better, _options(entry),
    ]  # fmt: skip


def _names(entries: Sequence[RegisteredMetric]) -> str:
    names = ", ".join(code(_shown(entry, entry.name)) for entry in entries)
    others = ", ".join(code(_shown(entry, alias)) for entry in entries for alias in entry.aliases)
    return f"{names}, also {others}" if others else names


def _shown(entry: RegisteredMetric, name: str) -> str:
    return with_cut(name, "K" if entry.cut == "required" else None)


def _range(entry: RegisteredMetric, definition: str) -> str:
    if read_definition(definition.replace("@K", "@1")).is_rate:
        return "0..1"
    return f"from 0, {entry.unit}" if entry.unit else "any number"


def _options(entry: RegisteredMetric) -> str:
    shown = []
    for name, parameter in entry.parameters.items():
        few = parameter.choices if len(parameter.choices) < 7 else ()
        choices = "|".join(str(one) for one in few if one is not None)
        default = "" if parameter.default is None else f" ({parameter.default})"
        shown.append(f"{code(f'{name}: {choices}' if choices else name)}{default}")
    return ", ".join(shown)


def _evaluators() -> str:
    rows = ([code(name), prose(summary)] for name, summary in evaluators().items())
    return table(["method", "verdict"], rows)
