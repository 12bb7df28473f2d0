"""``bench list``, ``describe``, ``validate``, ``schema``, ``new``, ``download``: look around; no provider is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import Parameter

from bench.cli import console, listing
from bench.cli.flags import SelectionFlags, given
from bench.cli.global_flags import command, current
from bench.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from bench.config.catalog import Catalog
    from bench.datasets import Selection
    from bench.datasets.download import Downloaded

Switch = Annotated[bool, Parameter(negative=())]
Many = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]


def list_(
    kind: Literal["benchmarks", "providers", "metrics", "evaluators", "models", "runs"] | None = None,
    *,
    tags: Many = None,
) -> int:
    """Benchmarks, providers, metrics, evaluators, models or runs.

    Parameters
    ----------
    kind
        What to list; without it benchmarks and providers.
    tags
        Only entries with all of these tags.
    """
    return listing.main([*([kind] if kind else []), *(["--tags", ",".join(tags)] if tags else [])])


def describe(
    name: str,
    *,
    items: Switch = False,
    memories: Switch = False,
    selection: SelectionFlags | None = None,
) -> int:
    """What a benchmark, provider, metric or run is, what its numbers mean and what it needs.

    Parameters
    ----------
    name
        A name of bench list.
    items
        JSON lines: what a run would ask.
    memories
        JSON lines: what a run would ingest.
    """
    if items or memories:
        _stream(name, selection or SelectionFlags(), memories=memories)
        return 0
    found = _described(name)
    if current.get().json:
        console.json_value(found)
    else:
        _show(found)
    return 0


def _stream(name: str, flags: SelectionFlags, *, memories: bool) -> None:
    from bench.datasets import open_benchmark
    from bench.datasets.describing import item_lines, memory_lines

    catalog = _catalog()
    dataset = open_benchmark(catalog.benchmark(name), catalog.workspace)
    lines = memory_lines if memories else item_lines
    for line in lines(dataset, selection_of(flags)):
        console.json_line(line)


def selection_of(flags: SelectionFlags) -> Selection:
    """The selection flags as a selection; raise UsageError for a malformed shard."""
    from bench.config.run import RunRequest
    from bench.datasets import Selection
    from bench.plan.benchmarks import filters_of

    request = RunRequest.combine(None, given(flags))
    filters = filters_of(request)
    shard = tuple(int(part) for part in request.shard.split("/")) if request.shard else None
    return Selection(
        start=request.start,
        end=request.end,
        shard=(shard[0], shard[1]) if shard else None,
        items=filters.items,
        items_of=filters.items_of,
        question_types=filters.question_types,
        sample=filters.sample,
        per_type=filters.per_type,
        seed=filters.seed,
        limit=filters.limit,
    )


def _described(name: str) -> Mapping[str, object]:
    """The first of benchmark, provider, run and metric that has the name."""
    from bench.journal.places import run_ids

    catalog = _catalog()
    if any(entry.answers_to(name) for entry in catalog.benchmarks()):
        from bench.datasets import open_benchmark
        from bench.datasets.describing import describe as describe_dataset

        return describe_dataset(open_benchmark(catalog.benchmark(name), catalog.workspace))
    if (provider := _provider(catalog, name)) is not None:
        return provider
    if name in run_ids(catalog.workspace):
        return _run(catalog.workspace, name)
    return _metric(catalog, name)


def _provider(catalog: Catalog, name: str) -> Mapping[str, object] | None:
    from bench.plan.providers import load_named
    from bench.providers.facts import described

    try:
        return described(load_named(catalog, name))
    except UsageError:
        return None


def _run(workspace: Path, name: str) -> Mapping[str, object]:
    from bench.journal import Reader
    from bench.journal.places import find_run

    async def read() -> dict[str, object]:
        async with Reader.open(find_run(workspace, name)) as reader:
            meta, events = reader.meta, await reader.events()
            return {
                "run_id": meta.run_id,
                "created_at": meta.created_at.isoformat(),
                "plan_digest": meta.plan_digest,
                "request": dict(meta.request),
                "identity": dict(meta.identity),
                "ranges": [list(part) for part in meta.ranges],
                "versions": dict(meta.versions),
                "code_state": dict(meta.code_state),
                "notes": meta.extra.get("notes", []),
                "judge_calibration": [dict(one.data) for _, one in events if one.kind == "judge_calibration"],
                "resumes": [{"at": one.at.isoformat(), **one.data} for one in reader.resumes],
            }

    return anyio.run(read)


def _metric(catalog: Catalog, name: str) -> Mapping[str, object]:
    from dataclasses import asdict
    from difflib import get_close_matches

    from bench.errors import UnknownMetric
    from bench.metrics import resolve

    try:
        return asdict(resolve(name))
    except UnknownMetric as problem:
        known = [entry.name for entry in (*catalog.benchmarks(), *catalog.providers())]
        near = get_close_matches(name, known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else "bench list shows what there is"
        raise UsageError(f'nothing is called "{name}"', hint=hint) from problem


def _show(found: Mapping[str, object]) -> None:
    width = max(map(len, found))
    for key, value in found.items():
        if value in (None, [], (), {}, ""):
            continue
        if isinstance(value, Mapping):
            console.line(f"{key}:")
            for name, inner in value.items():
                console.line(f"  {name}: {_text(inner)}")
        else:
            console.line(f"{key:<{width}}  {_text(value)}")


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value)
    return console.dump(value) if isinstance(value, Mapping) else str(value)


def validate(paths: list[Path] | None = None, /) -> int:
    """Check configs and the data they name; without PATH every config of the workspace and the shipped ones.

    Parameters
    ----------
    paths
        Config files, or folders of them.
    """
    from bench.cli.checking import check_all

    report = check_all(_catalog(), paths or [])
    if current.get().json:
        console.json_value(report.as_json())
    else:
        for problem in report.problems:
            console.note(f"error: {problem}\nhint: {problem.hint}")
        for note in report.notes:
            console.note(f"note: {note}")
        console.line(f"{report.checked} configs checked, {len(report.problems)} with errors")
    return 2 if report.problems else 0


def schema(kind: Literal["benchmark", "manifest", "provider", "run", "receipt", "event"], /) -> int:
    """JSON Schema of a file kind: editors complete and check YAML with it."""
    from bench.cli.schemas import schema_of

    console.json_value(schema_of(kind))
    return 0


def new(
    kind: Literal["provider", "benchmark"],
    name: str,
    /,
    *,
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
) -> int:
    """A commented, valid config to start from, in configs/ of the workspace.

    Parameters
    ----------
    kind
        provider or benchmark.
    name
        Its name: lower case, digits, dots and dashes.
    from_
        Data file whose fields are guessed (benchmark).
    """
    from bench.cli.scaffold import write_new

    path = write_new(kind, name, data=from_, workspace=current.get().workspace)
    next_step = command(f"bench validate {path}")
    if current.get().json:
        console.json_value({"path": str(path), "next": next_step})
    else:
        console.line(str(path))
        console.note(f"next: {next_step}")
    return 0


def download(benchmark: str, /, *, from_: Annotated[str | None, Parameter(name="--from")] = None) -> int:
    """Fetch a benchmark's data, checked against its sha256; an interrupted download resumes.

    Parameters
    ----------
    benchmark
        A name of bench list.
    from_
        A file or URL to take it from instead.
    """
    from bench import events

    events.configure(verbose=current.get().verbose, log_file=current.get().log_file)
    download_benchmark(_catalog(), benchmark, source=from_)
    return 0


def download_benchmark(catalog: Catalog, name: str, *, source: str | None) -> None:
    """Bring one dataset to its place, or say that it is there already."""
    from bench.datasets.download import download as bring
    from bench.datasets.fetching import aiohttp_fetch
    from bench.settings import Environment

    environment = Environment.load(catalog.workspace, current.get().env_file)
    config = catalog.benchmark(name)

    async def brought() -> Downloaded:
        import aiohttp

        async with aiohttp.ClientSession(trust_env=True) as session:
            fetch = aiohttp_fetch(session)
            return await bring(
                config, catalog.workspace, fetch=fetch, environment=environment.get, source=source, progress=_Progress()
            )

    console.note(f"{name}: licence {config.license or 'unknown'}, from {source or config.source or config.data.path}")
    found = anyio.run(brought)
    console.line(f"{name}: {found.state}, {found.path} ({found.size:,} bytes, sha256 {found.sha256})")


class _Progress:
    """A line on stderr for each tenth of a download."""

    def __init__(self) -> None:
        self._tenth = -1

    def __call__(self, done: int, total: int | None) -> None:
        tenth = done * 10 // total if total else done // 100_000_000
        if tenth != self._tenth:
            self._tenth = tenth
            console.note(f"{done:,} of {total:,} bytes" if total else f"{done:,} bytes")


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Shell completion: eval the output, or put it where your shell looks."""
    from bench.cli.app import build

    console.raw(build().generate_completion(shell=shell, prog_name="bench"))
    return 0


def _catalog() -> Catalog:
    from bench.config.catalog import Catalog

    return Catalog.load(current.get().workspace)


def problems_of(error: ConfigError) -> Iterable[ConfigError]:
    """Every finding of a file."""
    return error.problems or (error,)
