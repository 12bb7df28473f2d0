"""``bench list``: list benchmarks, providers, runs, and other things by kind.

Without a kind, ``bench list`` shows benchmarks and providers. With ``--json``, it prints one JSON object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli import console
from bench.cli.global_flags import current
from bench.errors import UsageError
from bench.visible_text import shorten

if TYPE_CHECKING:
    from bench.config.catalog import Catalog, CatalogEntry
    from bench.untyped_values import Json

    Rows = list[Json]

KINDS = ("benchmarks", "providers", "metrics", "evaluators", "models", "runs")
USAGE = f"write bench list [{'|'.join(KINDS)}] [--tags T] [--json]"
KEY = r"(?:^[ \t]+|[{,][ \t]*)(?:%s)\s*:\s*[\"']?([^\"'#,}\n]+?)[\"']?\s*(?:[#,}].*)?$"
"""regular expression for one line of YAML with a key and its value; ``%s`` is the name of the key"""
DATA_PATH = re.compile(KEY % "localPath|local_path", re.MULTILINE)
LOCAL_PATH = re.compile(KEY % "path", re.MULTILINE)
PAGE = re.compile(r"^  page: (\S+)", re.MULTILINE)
EXTENDS = re.compile(r"^extends\s*:\s*(\S+)", re.MULTILINE)
LICENSE = re.compile(r"""^(?:license\s*:|[ \t]*"license"\s*:)\s*["']?(.+?)["']?,?\s*$""", re.MULTILINE)
SIZE = re.compile(r"""^  size:[ ]*(?:>-\s*\n((?:    .*\n?)+)|["']?(.+?)["']?\s*$)""", re.MULTILINE)
DATA_FILE = re.compile(r'"data_file"\s*:\s*"([^"]+)"')
GAP = 2
NEEDS_DOWNLOAD = "needs download"


def main(arguments: Sequence[str]) -> int:
    """Print the lists that the arguments request, and return the exit code.

    Raises:
        UsageError: a kind or a flag is unknown.
    """
    kinds, tags = read_flags(arguments)
    shown = kinds or ["benchmarks", "providers"]
    found = {kind: filter_by_tags(LISTERS[kind](current.get().workspace), tags) for kind in shown}
    if current.get().json:
        console.json_value(found)
        return 0
    for kind, rows in found.items():
        print_kind(kind, rows)
    return 0


def read_flags(arguments: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """Return the kinds and the tags that the arguments request; ``--providers`` means the kind ``providers``."""
    kinds: list[str] = []
    tags: set[str] = set()
    tokens = list(arguments)
    while tokens:
        token = tokens.pop(0)
        if token.partition("=")[0] == "--tags":
            words = [token.partition("=")[2] or _next_word(tokens)]
            while tokens and not tokens[0].startswith("-") and tokens[0] not in KINDS:
                words.append(tokens.pop(0))
            named = {tag for word in words for tag in word.split(",") if tag}
            if not named:
                raise UsageError("--tags needs a value", hint=USAGE)
            tags |= named
        elif token.removeprefix("--") in KINDS:
            kinds.append(token.removeprefix("--"))
        else:
            raise UsageError(f'unexpected argument "{token}"', hint=USAGE)
    return kinds, frozenset(tags)


def _next_word(tokens: list[str]) -> str:
    return tokens.pop(0) if tokens and not tokens[0].startswith("-") else ""


def filter_by_tags(rows: Rows, tags: frozenset[str]) -> Rows:
    """Return the rows that have all of these tags."""
    return [row for row in rows if tags <= set(row.get("tags", ()))]  # type: ignore[call-overload]


def print_kind(kind: str, rows: Rows) -> None:
    """Print the rows of one kind in aligned columns. Lines are cut to the width of the terminal."""
    console.line(f"{kind} ({len(rows)})")
    columns = COLUMNS[kind]
    cells = [
        [_minute(_cell_text(row.get(name))) if name == DATE else _cell_text(_shown(row, name)) for name in columns]
        for row in rows
    ]
    widths = [max((len(row[index]) for row in cells), default=0) for index in range(len(columns))]
    room = console.width() - 2
    for row in cells:
        text = (" " * GAP).join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        console.line(f"  {shorten(text, room)}")
    console.line()


def _minute(instant: str) -> str:
    """Format an ISO time without seconds, so that it needs less width in the table of runs."""
    return instant[:16].replace("T", " ")


def _shown(row: Mapping[str, object], name: str) -> object:
    """Return the value ``name`` of a row.

    If the data of a benchmark must be downloaded, the license and size are added to its ``description``.
    """
    facts = [f"license {row['license']}"] if row.get("license") else []
    facts += [str(row["size"])] if row.get("size") else []
    if name != "description" or row.get("state") != NEEDS_DOWNLOAD or not facts:
        return row.get(name)
    return f"{row.get(name) or ''} ({'; '.join(facts)})".strip()


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    if isinstance(value, Mapping):
        return " ".join(str(one) for one in value.values())
    return " ".join(str(value).split())


COLUMNS = {
    "benchmarks": ("name", "state", "description"),
    "providers": ("name", "kind", "description"),
    "metrics": ("name", "definition", "description"),
    "evaluators": ("name", "description"),
    "models": ("name", "description"),
    "runs": ("run_id", "state", "benchmarks", "providers", "created_at"),
}
DATE = "created_at"


# ------------------------------------------------------------------------ kinds


def _catalog(workspace: Path) -> Catalog:
    from bench.config.catalog import Catalog

    return Catalog.load(workspace)


def benchmarks(workspace: Path) -> Rows:
    """Return all benchmarks, each with the state of its data."""
    catalog = _catalog(workspace)
    entries = [entry for entry in catalog.benchmarks() if not entry.shadowed]
    by_name = {entry.name: entry for entry in entries}
    bases = {entry.name: _with_bases(entry, by_name) for entry in entries}
    problems = {entry.name: _problem(catalog, entry) for entry in entries}
    return [
        {
            "name": entry.name,
            "displayName": entry.display_name or entry.name,
            "description": problems[entry.name] or entry.description,
            "aliases": list(entry.aliases),
            "tags": list(next((one.tags for one in bases[entry.name] if one.tags), ())),
            "license": _first_match(LICENSE, bases[entry.name]),
            "size": _first_match(SIZE, bases[entry.name]),
            "state": "broken" if problems[entry.name] else _data_state(entry, by_name, catalog.roots),
            "builtin": entry.builtin,
            "docs": _page(entry, by_name),
            "path": str(entry.path),
        }
        for entry in entries
    ]


def _with_bases(entry: CatalogEntry, by_name: Mapping[str, CatalogEntry]) -> list[CatalogEntry]:
    """Return a benchmark and the benchmarks that it extends, the nearest first."""
    found = [entry]
    while parent := EXTENDS.search(_text_of(found[-1])):
        base = by_name.get(parent[1])
        if base is None or base in found:
            break
        found.append(base)
    return found


def _first_match(pattern: re.Pattern[str], entries: Sequence[CatalogEntry]) -> str | None:
    """Return, on one line, what the pattern captures in the first config that it matches; None if it matches none."""
    matches = (pattern.search(_text_of(entry)) for entry in entries)
    found = next((match for match in matches if match), None)
    return None if found is None else " ".join(next(part for part in found.groups() if part).split())


def _text_of(entry: CatalogEntry) -> str:
    return entry.path.read_text(encoding="utf-8", errors="replace")


def _page(entry: CatalogEntry, by_name: Mapping[str, CatalogEntry]) -> str | None:
    """Return the path of a benchmark's documentation page, or of the page of the benchmark that it extends.

    Return None if there is no such page.
    """
    if not entry.builtin or entry.path.name == "manifest.json":
        return None
    text = _text_of(entry)
    if "\n  score:" in text:
        named = PAGE.search(text)
        return f"docs/benchmarks/{named[1] if named else entry.name}.md"
    parent = EXTENDS.search(text)
    return _page(by_name[parent[1]], by_name) if parent and parent[1] in by_name else None


def _problem(catalog: Catalog, entry: CatalogEntry) -> str | None:
    """Return the first error of a config; None if no error is known."""
    if entry.problem or entry.builtin:
        return entry.problem
    from bench.errors import ConfigError

    try:
        catalog.check(entry)
    except ConfigError as error:
        return str(error.problems[0] if error.problems else error)
    return None


def _data_state(entry: CatalogEntry, by_name: Mapping[str, CatalogEntry], roots: Sequence[Path]) -> str:
    """Return ``ready`` if the data file of a benchmark exists, else ``needs download`` or ``data missing``.

    The path of the data file is searched in the text of the config, without parsing it. ``bench describe`` shows the
    exact state.
    """
    text = _text_of(entry)
    places = [entry.path.parent, *roots]
    if found := DATA_FILE.search(text):
        return "ready" if any((place / found[1]).is_file() for place in places) else "data missing"
    match = DATA_PATH.search(text) or LOCAL_PATH.search(text)
    parent = EXTENDS.search(text)
    if match is None and parent is not None and parent[1] in by_name:
        others = {name: one for name, one in by_name.items() if one is not entry}
        return _data_state(by_name[parent[1]], others, roots)
    if match is not None and any((place / match[1]).is_file() for place in places):
        return "ready"
    return NEEDS_DOWNLOAD


def providers(workspace: Path) -> Rows:
    """Return all providers.

    With ``--json``, each config is read completely. Then a row also has the capabilities and variables of the provider.
    """
    catalog = _catalog(workspace)
    entries = [entry for entry in catalog.providers() if not entry.shadowed]
    if current.get().json:
        from bench.providers.description import list_entries

        return [dict(row) for row in list_entries(entries)]
    from bench.config.builtin_providers import BUILT_IN

    built_in: Rows = [
        {"name": name, "kind": "built-in", "description": text, "tags": ["built-in"]} for name, text in BUILT_IN.items()
    ]
    files: Rows = [
        {
            "name": entry.name,
            "kind": "broken" if problem else "config",
            "description": problem or entry.description or entry.display_name,
            "tags": list(entry.tags),
        }
        for entry in entries
        if entry.name not in BUILT_IN
        for problem in [_problem(catalog, entry)]
    ]
    return [*built_in, *files]


def metrics(workspace: Path) -> Rows:
    """Return all registered metrics, each with the id of its definition."""
    from bench.metrics import catalog

    return [
        {
            "name": one.name,
            "definition": one.definition,
            "aliases": list(one.aliases),
            "category": one.category,
            "unit": one.unit,
            "lower_is_better": one.lower_is_better,
            "description": one.summary,
        }
        for one in catalog()
    ]


def evaluators(workspace: Path) -> Rows:
    """Return all evaluators that a config can name."""
    from bench.evaluators import catalog

    return [{"name": name, "description": text} for name, text in catalog().items()]


def models(workspace: Path) -> Rows:
    """Return the prefixes of model names that bench knows, and the models that files in ``configs/models`` define."""
    from bench.models.names import BUILTINS, prefixes

    known: Rows = [{"name": name, "description": "built in, no key"} for name in BUILTINS]
    known += [{"name": f"{prefix}/MODEL", "description": text} for prefix, text in prefixes().items()]
    catalog = _catalog(workspace)
    own: Rows = [
        {
            "name": f"{entry.name}/",
            "description": _problem(catalog, entry) or entry.description,
            "path": str(entry.path),
        }
        for entry in catalog.models()
        if not entry.shadowed
    ]
    return [*known, *own]


def runs(workspace: Path) -> Rows:
    """Return the runs of the workspace, the newest first."""
    import anyio

    from bench.report.status import list_runs

    return anyio.run(list_runs, workspace)


LISTERS: dict[str, Callable[[Path], Rows]] = {
    "benchmarks": benchmarks,
    "providers": providers,
    "metrics": metrics,
    "evaluators": evaluators,
    "models": models,
    "runs": runs,
}
