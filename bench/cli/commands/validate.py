"""``bench validate``: check config files. The kind of a config is recognized by its folder or its keys.

Each error has its position in the file. A missing environment variable or extra is only a note here, although it is an
error in ``bench run``::

    report = check_all(catalog, [Path("configs/providers/x.yaml")], environment)
    report.problems, report.notes
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.config.catalog import KINDS, Catalog, Kind, builtin_root
from bench.config.file import Source, display_path, load
from bench.errors import BenchError, ConfigError, UsageError
from bench.settings import Environment
from bench.untyped_values import Json

SUFFIXES = (".yaml", ".yml", ".json")
SHOWN = 6
"""maximum number of config names in a note that summarizes several configs"""
VARIABLE = re.compile(r"the (environment variable) \w+ (is not set).*")
KEYS: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("benchmarks", frozenset({"manifest_version", "schema", "data"})),
    ("providers", frozenset({"endpoints", "adapter", "mcp"})),
    ("models", frozenset({"dialect"})),
    ("runs", frozenset({"benchmarks", "providers"})),
)


@dataclass(slots=True)
class ValidationReport:
    """The result of checking configs: errors and notes over all files."""

    checked: int = 0
    broken: int = 0
    """number of configs that have an error"""
    problems: list[BenchError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    of_shipped: dict[str, tuple[str, str]] = field(default_factory=dict)
    """note -> (config name, kind of note), for configs that are part of bench and were not named on the command line"""

    def folded_notes(self) -> list[str]:
        """Return the notes to print. Notes of the same kind on several built-in configs become one line."""
        groups: dict[str, dict[str, None]] = {}
        for name, kind in self.of_shipped.values():
            groups.setdefault(kind, {})[name] = None
        lines = [note for note in self.notes if note not in self.of_shipped]
        for kind, named in groups.items():
            names, more = [*named][:SHOWN], f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
            lines.append(
                f"{len(named)} shipped config{'s' if len(named) > 1 else ''}: {kind} ({', '.join(names)}{more})"
            )
        return lines

    def as_json(self) -> Json:
        """Return the JSON document that ``bench validate --json`` prints."""
        return {
            "checked": self.checked,
            "errors": [
                {"kind": one.kind, "message": one.message, "where": one.where, "hint": one.hint}
                for one in self.problems
            ],
            "notes": self.notes,
        }


def check_all(catalog: Catalog, paths: Sequence[Path], environment: Environment) -> ValidationReport:
    """Check the configs in these files and folders; without ``paths``, check every config of the catalog.

    Raises:
        UsageError: a path does not exist.
    """
    found = ValidationReport()
    chosen = list(_named_configs(catalog, paths)) if paths else list(_all_configs(catalog))
    for kind, path in chosen:
        found.checked += 1
        before = len(found.problems)
        try:
            resolved = kind or _kind_of(path)
            found.problems += catalog.name_problems(resolved, path)
            for problem, note in CHECKS[resolved](catalog, path, environment):
                found.problems += [problem] if problem else []
                found.notes += [note] if note else []
                if note and not paths and path.is_relative_to(builtin_root()):
                    found.of_shipped[note] = (_name(path), _kind_of_note(note, path))
        except BenchError as error:
            found.problems += error.problems if isinstance(error, ConfigError) and error.problems else [error]
        found.broken += len(found.problems) > before
    return found


def _name(path: Path) -> str:
    return path.parent.name if path.name == "manifest.json" else path.stem


def _kind_of_note(note: str, path: Path) -> str:
    """Return the kind of a note: the text of the note, shortened.

    The path of the config at the start, the name of an environment variable, and the details after a colon are
    removed.
    """
    return VARIABLE.sub(r"an \1 \2", note.removeprefix(f"{path}: ")).partition(": ")[0]


def _all_configs(catalog: Catalog) -> Iterator[tuple[Kind | None, Path]]:
    for kind in KINDS:
        for entry in catalog.entries(kind):
            yield kind, entry.path


def _named_configs(catalog: Catalog, paths: Iterable[Path]) -> Iterator[tuple[Kind | None, Path]]:
    """Yield (kind, file) for each config that ``paths`` name; kind is None if the folder does not show it.

    A path is searched for in the current folder, then in the workspace, then among the names of configs.
    """
    for named in paths:
        path = named if named.exists() else catalog.workspace / named
        if not path.exists():
            known = [
                (kind, entry.path) for kind in KINDS for entry in catalog.entries(kind) if entry.name == str(named)
            ]
            if not known:
                raise UsageError(
                    f"{named}: no such file, folder or config",
                    hint="give the name of a config, a config file, or a folder of config files",
                )
            yield from known
            continue
        files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES)
        for file in files:
            if file.stem.endswith(".compose"):  # is next to a provider and is Docker's
                continue
            kind = _kind_by_folder(file)
            if path.is_file() or kind is not None:
                yield kind, file


def _kind_by_folder(path: Path) -> Kind | None:
    """Return the kind of a config whose folder is ``configs/KIND``; None for any other folder.

    The manifest of a benchmark can also be one folder deeper.
    """
    folders = [parent.name for parent in path.resolve().parents]
    for kind in KINDS:
        nested = folders[:3] if kind == "benchmarks" and path.name == "manifest.json" else folders[:2]
        if kind in nested[:-1] and nested[nested.index(kind) + 1] == "configs":
            return kind
    return None


def _kind_of(path: Path) -> Kind:
    tree = Source.read(path).tree
    keys = set(tree) if isinstance(tree, dict) else set()
    for kind, marks in KEYS:
        if keys & marks:
            return kind
    raise ConfigError(
        "this is not a config of a known kind",
        where=str(path),
        hint=(
            'add a key that shows the kind: "schema" or "manifest_version" (benchmark), "endpoints" or '
            '"adapter" (provider), "dialect" (model)'
        ),
    )


Finding = tuple[BenchError | None, str | None]


def _check_benchmark(catalog: Catalog, path: Path, environment: Environment) -> Iterator[Finding]:
    from bench.datasets.validation import validate_benchmark
    from bench.plan.benchmark import data_problems, scoring_problems
    from bench.plan.scoring import written_metric_problems

    found = validate_benchmark(path, catalog)
    yield from ((error, None) for error in found.errors)
    yield from ((None, _noted(path, note)) for note in found.notes)
    reported = {error.where for error in found.errors}
    if found.name is None:  # the file is not a config as it is
        yield from ((error, None) for error in written_metric_problems(path) if error.where not in reported)
        return
    config = catalog.read_benchmark(path)
    reported |= {
        config.place("metrics", at)
        for at in range(len(config.metrics))
        if config.place("metrics", at, "evaluator") in reported
    }
    problems = scoring_problems(config, catalog.workspace)
    yield from ((error, None) for error in problems if error.where not in reported)
    if found.dataset is not None and not found.errors and not problems:
        yield from ((error, None) for error in data_problems(found.dataset, catalog.workspace))


def _noted(path: Path, note: str) -> str:
    """Return the note with the path of the file in front, unless the note begins with that path."""
    return note if note.startswith(f"{display_path(path)}:") else f"{path}: {note}"


def _check_provider(catalog: Catalog, path: Path, environment: Environment) -> Iterator[Finding]:
    from bench.config.provider.file import load_provider
    from bench.providers.adapters import provider_class
    from bench.providers.description import variables

    config = load_provider(path)
    if config.adapter is not None:
        try:
            provider_class(config)
        except ConfigError as error:
            missing_extra = error.hint.startswith("its extra is not installed")
            yield (None, f"{path}: {error.hint}") if missing_extra else (error, None)
    yield from ((None, _noted(path, warning)) for warning in config.warnings)
    for name, needed in variables(config).items():
        if needed and not environment.get(name):
            yield None, f"{path}: the environment variable {name} is not set, but a run needs it"


def _check_model(catalog: Catalog, path: Path, environment: Environment) -> Iterator[Finding]:
    from bench.config.model import read_model_file

    read_model_file(path)
    yield None, None


def _check_run(catalog: Catalog, path: Path, environment: Environment) -> Iterator[Finding]:
    from bench.config.run import RunRequest
    from bench.plan.cost_estimate import unknown_names
    from bench.plan.provider import load_named

    source = Source.read(path)
    request = load(source, RunRequest)
    looks: list[tuple[str, Callable[[str], object], Sequence[str]]] = [
        ("benchmarks", lambda name: catalog.find("benchmarks", name), request.benchmarks),
        ("providers", lambda label: load_named(catalog, label.partition("@")[0]), request.providers),
    ]
    for key, look, names in looks:
        for name in names:
            try:
                look(name)
            except UsageError as error:
                yield ConfigError(error.message, where=source.place((key,)), hint=error.hint), None
    for name, problem in unknown_names(catalog, request.prices, [entry.name for entry in catalog.models()]):
        yield ConfigError(problem.message, where=source.place(("prices", name)), hint=problem.hint), None


CHECKS: dict[Kind, Callable[[Catalog, Path, Environment], Iterator[Finding]]] = {
    "benchmarks": _check_benchmark,
    "providers": _check_provider,
    "models": _check_model,
    "runs": _check_run,
}
