"""The pages of the public benchmarks: what was written by hand, and below it what their configs state.

A page ``docs/benchmarks/PAGE.md`` is written by hand up to the mark; what follows is made from every shipped config
that names the page. The index is made whole.

Example::

    text("beam")        # the whole page
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bench.config.benchmark import BenchmarkConfig
from bench.config.catalog import Catalog, builtin_root
from docs.site.markdown import code, page, table

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
MARK = "<!-- from here on made by python -m docs.site.generate; do not edit -->"
UNITS = {"session": "a session", "turn": "a turn", "corpus": "a whole history"}
LEAD = """\
The public benchmarks whose configs ship. None of them is bundled: `bench download NAME` fetches the data, and a file
that cannot be reached is named with the place to put it. A page states what a benchmark measures, how its official
score is computed, and what is computed here instead and why. `bench describe NAME` counts what is on your disk,
`bench plan` adds up what a run of yours would cost."""


@cache
def configs() -> dict[str, list[BenchmarkConfig]]:
    """Page -> the shipped configs that it is about, the one that others extend first."""
    catalog = Catalog.load(builtin_root())
    found: dict[str, list[BenchmarkConfig]] = {}
    for config in (catalog.benchmark(entry.name) for entry in catalog.benchmarks() if entry.builtin):
        if config.published.score is not None:
            found.setdefault(config.published.page or config.name, []).append(config)
    return {name: sorted(found[name], key=lambda one: (one.extends is not None, one.name)) for name in sorted(found)}


def index() -> str:
    """The list of all pages."""
    rows = [
        [
            f"[{', '.join(one.name for one in several)}]({name}.md)",
            (several[0].description or "").replace("; ", ", "),
            f"{sum(one.published.items or 0 for one in several[:1]):,}"
            if several[0].published.items
            else "not counted",
            several[0].license or "unknown",
        ]
        for name, several in configs().items()
    ]
    return page("The benchmarks that ship", LEAD, table(["configs", "what", "questions", "license"], rows))


def text(name: str) -> str:
    """One page: the part above the mark as it is, the rest from the configs."""
    written = (FOLDER / f"{name}.md").read_text(encoding="utf-8").partition(MARK)[0].rstrip()
    return "\n\n".join([written, MARK, *(part for one in configs()[name] for part in _parts(one))]) + "\n"


def _parts(config: BenchmarkConfig) -> Iterator[str]:
    known = config.published
    yield f"## {config.name}"
    yield f"{(config.description or '').rstrip('.')}."
    yield table(["", ""], [[label, value] for label, value in _facts(config) if value])
    yield "Published results: " + ("; ".join(known.baselines) or "none found") + "."
    yield table(["with one hosted memory, k = " + str(config.search.default_limit), "calls", "tokens"], _cost(config))


def _facts(config: BenchmarkConfig) -> Iterator[tuple[str, str]]:
    data, known = config.data, config.published
    evaluation = config.evaluation
    yield "source", f"<{config.source}>" if config.source else ""
    yield "paper", f"<{config.paper}>" if config.paper else ""
    yield "license of the data", config.license or "unknown"
    yield "split", known.split or ""
    yield "size", known.size or "not counted"
    yield "checksum", code(f"{data.sha256[:16]}...") if data.sha256 else "not recorded: a result is not publishable"
    chunk = config.ingestion.chunk
    unit = f"a piece of at most {chunk.words} words" if chunk else UNITS[config.unit]
    yield "a memory is", unit
    yield "one store", "for all rows with the same " + code(config.corpus.field) if config.corpus else "a row"
    yield "cut-off", f"a question sees nothing after {code(config.visibility.field)}" if config.visibility else ""
    others = [
        f"{code(method)} where {code(evaluation.methods_by)} is {code(kind)}"
        for kind, method in evaluation.methods.items()
    ]
    yield "evaluators", ", ".join([code(evaluation.method), *others])
    yield "metrics", ", ".join(code(one if isinstance(one, str) else one.name) for one in config.metrics)
    yield "official score", known.score or ""
    yield "computed here", known.differs or ""


def _cost(config: BenchmarkConfig) -> list[list[str]]:
    """What one hosted memory is asked, as far as the size is known; answers and judges are calls of a model."""
    known, k = config.published, config.search.default_limit
    asked = f"{known.items:,}" if known.items else "1 a question"
    size = known.memory_tokens
    stored = f"{known.memories * size:,}" if known.memories and size else "all that is stored"
    context = f"about {(known.items or 1) * (k * size + 200):,} in" if size else f"{k} memories and 200 a question in"
    rows = [["add", f"{known.memories:,} at most" if known.memories else "1 a memory", stored], ["search", asked, ""]]
    methods = config.evaluation.every_method
    if config.evaluation.method not in ("none", "memory-audit"):
        rows.append(["answer", asked, f"{context}, 60 a question out"])
    if "rubric-points" in methods:
        rows.append(["judge", "1 a rubric point", "500 in and 80 out a call"])
    elif "memory-audit" in methods:
        rows.append(["judge", "1 a memory point, 1 a stored memory", "the stored memories of a session a call"])
    elif not {"llm-judge", "labels", "rubric", "order-agreement"}.isdisjoint(methods):
        rows.append(["judge", asked if len(methods) == 1 else f"{asked} at most", "500 in and 80 out a call"])
    return rows
