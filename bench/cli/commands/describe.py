"""``bench describe``: show a benchmark, provider, metric or run, or the items and memories of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio

from bench.cli import console
from bench.cli.flags import SelectionFlags, Toggle, given_flags
from bench.cli.global_flags import current
from bench.config.catalog import Catalog
from bench.errors import UsageError
from bench.untyped_values import utc_text

if TYPE_CHECKING:
    from bench.datasets import Selection
    from bench.untyped_values import Json


def describe(
    name: str,
    *,
    memories: Toggle = False,
    selection: SelectionFlags | None = None,
) -> int:
    """Describe a benchmark, provider, metric or run: what it is, what its numbers mean and what it needs.

    With --items: print the named items, or all items, as JSON lines.

    Parameters
    ----------
    name
        A name of bench list.
    memories
        Print the memories that a run would ingest, as JSON lines.
    """
    chosen = selection or SelectionFlags()
    if memories or chosen.items is not None:
        _print_json_lines(name, replace(chosen, items=chosen.items or None), memories=memories)
        return 0
    found = _description(name)
    if current.get().json:
        console.json_value(found)
    else:
        for text in _description_lines(_in_words(found), ""):
            console.line(text)
    return 0


def _print_json_lines(name: str, flags: SelectionFlags, *, memories: bool) -> None:
    from bench.datasets import open_benchmark
    from bench.datasets.dataset_json import item_lines, memory_lines

    catalog = current.get().catalog()
    dataset = open_benchmark(catalog.benchmark(name), catalog.workspace)
    lines = memory_lines if memories else item_lines
    for line in lines(dataset, selection_of(flags)):
        console.json_line(line)


def selection_of(flags: SelectionFlags) -> Selection:
    """Return the selection of items that the flags describe.

    Raises:
        UsageError: the flag ``--shard`` is malformed.
    """
    from bench.config.run import RunRequest
    from bench.plan.benchmark import filters_of

    request = RunRequest.combine(None, given_flags(flags))
    shard = tuple(int(part) for part in request.shard.split("/")) if request.shard else None
    return replace(
        filters_of(request), start=request.start, end=request.end, shard=(shard[0], shard[1]) if shard else None
    )


def _description(name: str) -> Mapping[str, object]:
    """Return the description of the benchmark, provider, run or metric with this name, searched in this order."""
    from bench.journal.paths import run_ids

    catalog = current.get().catalog()
    if any(entry.has_name(name) for entry in catalog.benchmarks()):
        from bench.datasets import open_benchmark
        from bench.datasets.dataset_json import describe as describe_dataset

        return describe_dataset(open_benchmark(catalog.benchmark(name), catalog.workspace))
    if (provider := _provider(catalog, name)) is not None:
        return provider
    if name in run_ids(catalog.workspace):
        return _run(catalog.workspace, name)
    return _metric(catalog, name)


def _provider(catalog: Catalog, name: str) -> Mapping[str, object] | None:
    from bench.plan.provider import embedded_by, load_named
    from bench.providers.description import detailed_entry

    try:
        config = load_named(catalog, name)
    except UsageError:
        return None
    return detailed_entry(config, embedding=embedded_by(config, current.get().environment().dry_run()))


def _run(workspace: Path, name: str) -> Mapping[str, object]:
    from bench.journal import Reader
    from bench.journal.paths import find_run
    from bench.plan.validity import CALIBRATION

    async def read() -> Json:
        async with Reader.open(find_run(workspace, name)) as reader:
            meta = reader.meta
            return {
                "run_id": meta.run_id,
                "created_at": utc_text(meta.created_at),
                "plan_digest": meta.plan_digest,
                "request": dict(meta.request),
                "identity": dict(meta.identity),
                "ranges": [list(part) for part in meta.ranges],
                "versions": dict(meta.versions),
                "code_state": dict(meta.code_state),
                "notes": meta.extra.get("notes", []),
                "judge_calibration": [dict(one.data) for one in await reader.events(CALIBRATION)],
                "resumes": [{"at": utc_text(one.at), **one.data} for one in reader.resumes],
            }

    return anyio.run(read)


def _metric(catalog: Catalog, name: str) -> Mapping[str, object]:
    from dataclasses import asdict
    from difflib import get_close_matches

    from bench.config.builtin_providers import BUILT_IN
    from bench.errors import UnknownMetric
    from bench.metrics import resolve

    try:
        return asdict(resolve(name))
    except UnknownMetric as problem:
        known = [*BUILT_IN, *(entry.name for entry in (*catalog.benchmarks(), *catalog.providers()))]
        near = get_close_matches(name, known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else "list the known names with: bench list"
        raise UsageError(f'no benchmark, provider or metric has the name "{name}"', hint=hint) from problem


def _in_words(found: Mapping[str, object]) -> Mapping[str, object]:
    """Return the description with "required" or "optional" for each environment variable, instead of true or false."""
    variables = found.get("variables")
    if not isinstance(variables, Mapping):
        return found
    words = {name: "required" if needed else "optional" for name, needed in variables.items()}
    return {**found, "variables": words}


NOTHING: tuple[object, ...] = (None, "", [], (), {})
LONGEST_LINE = 100


def _description_lines(found: Mapping[str, object], indent: str) -> Iterator[str]:
    """Yield the lines that show a description: one line per value, with nested values indented below their name.

    Empty values are left out.
    """
    width = max((len(str(key)) for key, value in found.items() if not _is_nested(value)), default=0)
    for key, value in found.items():
        if value in NOTHING:
            continue
        if isinstance(value, Mapping):
            inner = list(_description_lines(value, indent + "  "))
            yield from [f"{indent}{key}:", *inner] if inner else []
        elif _is_nested(value):
            yield f"{indent}{key}:"
            for one in cast("Sequence[object]", value):
                yield from _list_lines(one, indent + "  ")
        else:
            yield f"{indent}{key:<{width}}  {_text(value)}"


def _list_lines(one: object, indent: str) -> Iterator[str]:
    if not isinstance(one, Mapping):
        yield f"{indent}{_text(one)}"
        return
    first = True
    for text in _description_lines(one, indent + "  "):
        yield f"{indent}- {text[len(indent) + 2 :]}" if first else text
        first = False


def _is_nested(value: object) -> bool:
    """Return True if a value needs several lines: a mapping, a list of mappings, or a long list."""
    if isinstance(value, Mapping):
        return True
    if not isinstance(value, list | tuple):
        return False
    return any(isinstance(one, Mapping) for one in value) or len(_text(value)) > LONGEST_LINE


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value)
    return str(value)
