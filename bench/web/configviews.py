"""The configs of a workspace: each with what is in its file, or with its errors and their places. Never a secret.

Configs name secrets by variable only, so showing a file shows none; what looks like a key is redacted all the same::

    await configs_document(site)
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import anyio.to_thread

from bench.config.catalog import Catalog, Entry
from bench.config.modelfile import read_model_file
from bench.config.run import RunRequest
from bench.config.source import Source, load
from bench.errors import BenchError, ConfigError
from bench.events import redact
from bench.web.faults import NotFound
from bench.web.kept import Json
from bench.web.site import Site

Kind = Literal["benchmarks", "providers", "models", "runs"]
KINDS: tuple[Kind, ...] = ("benchmarks", "providers", "models", "runs")
SHOWN_CHARS = 200_000

_checked: dict[tuple[Path, int, int], list[Json]] = {}


async def configs_document(site: Site) -> Json:
    """Every config, checked."""
    return await anyio.to_thread.run_sync(all_configs, site.workspace)


def all_configs(workspace: Path) -> Json:
    """The document, made now; a config is checked again only when its file changed."""
    catalog = Catalog.load(workspace)
    return {kind: [_entry(catalog, workspace, entry) for entry in catalog.entries(kind)] for kind in KINDS}


def _entry(catalog: Catalog, workspace: Path, entry: Entry) -> Json:
    problems = _problems(catalog, entry)
    return {
        "name": entry.name,
        "kind": entry.kind,
        "title": entry.display_name,
        "description": entry.description,
        "tags": list(entry.tags),
        "builtin": entry.builtin,
        "shadowed": entry.shadowed,
        "file": _place(workspace, entry.path),
        "problems": problems,
    }


def _problems(catalog: Catalog, entry: Entry) -> list[Json]:
    """What is wrong with a config; kept until its file changes."""
    stat = entry.path.stat()
    key = (entry.path, stat.st_mtime_ns, stat.st_size)
    if key not in _checked:
        _checked[key] = _found(catalog, entry)
    return _checked[key]


def _found(catalog: Catalog, entry: Entry) -> list[Json]:
    try:
        _check(catalog, entry)
    except BenchError as error:
        found = error.problems if isinstance(error, ConfigError) and error.problems else (error,)
        return [{"message": redact(one.message), "where": one.where, "hint": one.hint} for one in found]
    return []


def _check(catalog: Catalog, entry: Entry) -> None:
    match entry.kind:
        case "benchmarks":
            catalog.read_benchmark(entry.path)
        case "providers":
            from bench.config.provider import load_provider

            load_provider(entry.path)
        case "models":
            read_model_file(entry.path)
        case "runs":
            load(Source.read(entry.path), RunRequest)


async def config_document(site: Site, kind: str, name: str) -> Json:
    """One config with its text.

    Raises:
        NotFound: there is no such config.
    """
    catalog = Catalog.load(site.workspace)
    entries = [entry for one in KINDS if one == kind for entry in catalog.entries(one) if entry.name == name]
    if not entries:
        raise NotFound("there is no such config", "see the list of configs")
    text = entries[0].path.read_text(encoding="utf-8", errors="replace")[:SHOWN_CHARS]
    return {**_entry(catalog, site.workspace, entries[0]), "text": redact(text)}


def _place(workspace: Path, path: Path) -> str:
    try:
        return str(path.relative_to(workspace))
    except ValueError:
        return "/".join(path.parts[path.parts.index("configs") :]) if "configs" in path.parts else path.name
