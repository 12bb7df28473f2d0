"""``bench list``, ``validate``, ``schema``, ``new``, ``download``: what lies in the workspace; nothing is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import Parameter

from bench.cli import console, listing
from bench.cli.flags import Many
from bench.cli.global_flags import command, current

if TYPE_CHECKING:
    from bench.config.catalog import Catalog
    from bench.datasets.download import Downloaded


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


def validate(paths: list[Path] | None = None, /) -> int:
    """Check configs and the data they name; without PATH every config of the workspace and the shipped ones.

    Parameters
    ----------
    paths
        Config files, or folders of them.
    """
    from bench.cli.checking import check_all
    from bench.settings import Environment

    environment = Environment.load(current.get().workspace, current.get().env_file)
    report = check_all(_catalog(), paths or [], environment)
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
    from bench.cli.schemas import editors_schema

    console.json_value(editors_schema(kind))
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

    made = write_new(kind, name, data=from_, workspace=current.get().workspace)
    next_step = command(f"bench validate {made.path}")
    if current.get().json:
        console.json_value(
            {"path": str(made.path), "guesses": list(made.guesses), "unmapped": list(made.unmapped), "next": next_step}
        )
    else:
        console.line(str(made.path))
        for text in made.guesses:
            console.note(f"guessed: {text}; correct it in the file")
        for text in made.unmapped:
            console.note(f"not mapped: {text}")
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
    found = download_benchmark(_catalog(), benchmark, source=from_)
    if current.get().json:
        facts = {"state": found.state, "path": str(found.path), "bytes": found.size, "sha256": found.sha256}
        console.json_value({"benchmark": benchmark, **facts})
    return 0


def download_benchmark(catalog: Catalog, name: str, *, source: str | None) -> Downloaded:
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
    say = console.note if current.get().json else console.line
    say(f"{name}: {found.state}, {found.path} ({found.size:,} bytes, sha256 {found.sha256})")
    return found


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
