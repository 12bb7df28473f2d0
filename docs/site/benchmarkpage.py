"""The pages of the public benchmarks: a part written by hand, then a part generated from their configs.

A page ``docs/benchmarks/PAGE.md`` is written by hand up to the mark. The part below it is generated from every shipped
config that names the page. The index is generated as a whole.

Example::

    text("beam")        # the whole page
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.sections import Evaluation
from bench.config.catalog import Catalog, builtin_root
from docs.site.markdown import anchor, code, page, table

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
ALL_ROWS = "${'all'}"
"""the corpus field of a config whose rows all share one corpus"""
MARK = "<!-- from here on made by python -m docs.site.generate; do not edit -->"
UNITS = {
    "session": "one session (such as a conversation, a document or a day)",
    "turn": "one turn (such as a message, a paragraph or a document)",
    "corpus": "all texts of a corpus",
}
LEAD = """\
Configs for these public benchmarks ship with `bench`. The data is not bundled: `bench download NAME` fetches it. If a
file cannot be fetched, the error names the file and the place to put it.

Each page states what the benchmark measures, how its official score is computed, and what differs here. Known results
are quoted from the named source and were not checked, unless they are marked `measured here`. `bench describe NAME`
counts the data on your disk, and `bench plan` shows the calls and the cost of a run."""


@cache
def configs() -> dict[str, list[BenchmarkConfig]]:
    """Map each page to its shipped configs; a config that others extend comes first."""
    catalog = Catalog.load(builtin_root())
    found: dict[str, list[BenchmarkConfig]] = {}
    for config in (catalog.benchmark(entry.name) for entry in catalog.benchmarks() if entry.builtin):
        if config.published.score is not None:
            found.setdefault(config.published.page or config.name, []).append(config)
    return {name: sorted(found[name], key=lambda one: (one.extends is not None, one.name)) for name in sorted(found)}


def index() -> str:
    """Return the index page: a table of all benchmark pages."""
    rows = [
        [
            f"[{', '.join(one.name for one in several)}]({name}.md)",
            several[0].description or "",
            f"{sum(one.published.items or 0 for one in several[:1]):,}"
            if several[0].published.items
            else "not counted",
            several[0].license or "unknown",
        ]
        for name, several in configs().items()
    ]
    return page(
        "The benchmarks that ship",
        LEAD,
        table(["configs", "content of the first config", "questions of the first config", "license"], rows),
    )


def text(name: str) -> str:
    """Return one page: the part above the mark as it is, and the rest generated from the configs."""
    written = (FOLDER / f"{name}.md").read_text(encoding="utf-8").partition(MARK)[0].rstrip()
    first, *others = configs()[name]
    parts = [*_parts(first), *(part for one in others for part in _differences(one, first))]
    return "\n\n".join([written, MARK, *parts]) + "\n"


def _parts(config: BenchmarkConfig) -> Iterator[str]:
    yield from _head(config)
    yield table(["property", "value"], [[label, value] for label, value in _facts(config) if value])
    yield _results(config)
    yield _cost_table(config)


def _differences(config: BenchmarkConfig, first: BenchmarkConfig) -> Iterator[str]:
    """Yield only the values that differ from those of the first config of the page."""
    yield from _head(config)
    yield f"These values differ from those of [{first.name}](#{anchor(first.name)}):"
    same, reference = set(_facts(first)), f"same as {first.name}."
    differing = [fact for fact in _facts(config) if fact not in same and fact[1].lower() != reference]
    yield table(["property", "value"], [[label, value or "none"] for label, value in differing])
    if _results(config) not in {_results(first), f"Known results:\n\n- same as {first.name}"}:
        yield _results(config)
    if _cost_table(config) != _cost_table(first):
        yield _cost_table(config)


def _head(config: BenchmarkConfig) -> Iterator[str]:
    yield f"## {config.name}"
    yield f"{config.description or ''}."


def _results(config: BenchmarkConfig) -> str:
    found = config.published.baselines
    return "\n".join(["Known results:", "", *(f"- {one}" for one in found)]) if found else "Known results: none."


def _cost_table(config: BenchmarkConfig) -> str:
    head = [
        f"calls of a run with one hosted provider and k = {config.search.default_limit}",
        "number",
        "tokens (estimate)",
    ]
    return table(head, _cost(config))


def _facts(config: BenchmarkConfig) -> Iterator[tuple[str, str]]:
    data, known = config.data, config.published
    evaluation = config.evaluation
    yield "source", f"<{config.source}>" if config.source else ""
    yield "paper", f"<{config.paper}>" if config.paper else ""
    yield "license of the data", config.license or "unknown"
    yield "split", known.split or ""
    yield "size", known.size or "not counted"
    yield "checksum", code(f"{data.sha256[:16]}...") if data.sha256 else "none recorded, so results are not publishable"
    chunk = config.ingestion.chunk
    yield "one memory is", f"a piece of at most {chunk.words} words" if chunk else UNITS[config.unit]
    yield "one corpus contains", _corpus(config)
    yield "cut-off", _cut_off(config)
    yield "evaluators", _evaluators(evaluation)
    yield "metrics", ", ".join(code(one if isinstance(one, str) else one.name) for one in config.metrics)
    yield "official score", known.score or ""
    yield "computed here", known.differs or ""


def _evaluators(evaluation: Evaluation) -> str:
    if not evaluation.methods:
        only_retrieval = " (no answer is generated or scored)" if evaluation.method == "none" else ""
        return code(evaluation.method) + only_retrieval
    values: dict[str, list[str]] = {}
    for value, method in evaluation.methods.items():
        values.setdefault(method, []).append(value if value in ("present", "absent") else code(value))
    named = [
        f"{code(method)} if the item's {code(evaluation.methods_by)} is {' or '.join(known)}"
        for method, known in values.items()
    ]
    return "; ".join([*named, f"otherwise {code(evaluation.method)}"])


def _corpus(config: BenchmarkConfig) -> str:
    if config.corpus is None:
        return "the memories of one row of the data"
    if config.corpus.field == ALL_ROWS:
        return "the memories of all rows of the data"
    return "the memories of all rows of the data with the same " + code(config.corpus.field)


def _cut_off(config: BenchmarkConfig) -> str:
    cut = config.visibility
    if cut is None:
        return ""
    end = "up to and including" if cut.through else "before"
    return f"the search for a question sees the memories {end} the session or turn at position {code(cut.field)}"


def _cost(config: BenchmarkConfig) -> list[list[str]]:
    """Estimate the calls and tokens of a run with one hosted provider, as far as the size is known."""
    known, k = config.published, config.search.default_limit
    each = f"{known.items:,}" if known.items else "1 per question"
    size = known.memory_tokens
    each_memory = "at most 1 per memory"
    if config.visibility:
        each_memory += ", for each cut-off that includes the memory"
    stored = f"{known.memories * size:,}" if known.memories and size else "the tokens of all stored text"
    context = (
        f"input in total: about {(known.items or 1) * (k * size + 200):,}"
        if size
        else f"input per question: 200 + the tokens of {k} memories"
    )
    rows = [
        ["add", f"at most {known.memories:,}" if known.memories else each_memory, stored],
        ["search for questions (checks not counted)", each, "none"],
    ]
    methods = config.evaluation.every_method
    if _needs_answers(config):
        rows.append(["answer", each, f"{context}; output per question: 60"])
    if "rubric-points" in methods:
        rows.append(["judge", "1 per rubric point", "input per call: 500; output per call: 80"])
    elif "memory-audit" in methods:
        calls = "1 per memory point and 1 per stored memory"
        rows.append(["judge", calls, "input per call: all stored memories, or the text of one session"])
    elif not {"llm-judge", "labels", "rubric", "order-agreement"}.isdisjoint(methods):
        rows.append(
            ["judge", each if len(methods) == 1 else f"at most {each}", "input per call: 500; output per call: 80"]
        )
    return rows


def _needs_answers(config: BenchmarkConfig) -> bool:
    method = config.evaluation.method
    if method == "labels":
        return "${response" in (config.evaluation.judge_prompts.default or "")
    return method not in ("none", "memory-audit")
