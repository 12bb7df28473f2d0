"""Find configs by name: first the configs of the workspace, then the built-in configs.

A list of configs needs only the name, aliases, tags and description in each file. Invalid files are listed too::

    catalog = Catalog.load(Path("."))
    [entry.name for entry in catalog.benchmarks()]
    config = catalog.benchmark("LoCoMo")                # names and aliases ignore case
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from bench.config.builtin_providers import ALIASES, BUILT_IN
from bench.errors import ConfigError, UsageError
from bench.untyped_values import text_or_none

if TYPE_CHECKING:
    from bench.config.benchmark.config import BenchmarkConfig
    from bench.config.provider.config import ProviderConfig

Kind = Literal["benchmarks", "providers", "models", "runs"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_LISTED_KEYS = frozenset({"name", "aliases", "tags", "displayName", "display_name", "description"})
_KEY = re.compile(r"([A-Za-z_]\w*) *:(?= |$) *(.*?) *")
_COMMENT = r"(?: +#.*| *)"
_RESERVED = r"(?!(?:true|false|null)\b)"
_WORD = rf"(?i:{_RESERVED})[^\W\d_][\w.-]*"
_LINE = rf"(?i:{_RESERVED})[^\W\d_](?:[^#:]|:(?=\S)|(?<! )#)*?"
_SUFFIXES = (".yaml", ".yml", ".json")


@cache
def builtin_root() -> Path:
    """Return the folder that has the built-in ``configs/`` and ``datasets/``.

    The folder is in the installed package, or it is the root of the git checkout.
    """
    package = Path(__file__).resolve().parent.parent
    data = package / "_data"
    return data if data.is_dir() else package.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One config file in the catalog. Only the keys that are needed to list or find the config are read."""

    name: str
    kind: Kind
    path: Path
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    display_name: str | None = None
    description: str | None = None
    builtin: bool = False
    shadowed: bool = False
    """true: this built-in config is hidden, because a config of the workspace has the same name"""
    problem: str | None = None
    """reason why the file could not be read. An unreadable file is listed under its file name"""

    def has_name(self, name: str) -> bool:
        """Return True if ``name`` is the name or an alias of the config, ignoring case."""
        return name.lower() in {self.name.lower(), *(alias.lower() for alias in self.aliases)}


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """All configs that a workspace can use: the configs of the workspace and the built-in configs."""

    workspace: Path
    roots: tuple[Path, ...]

    @classmethod
    def load(cls, workspace: Path) -> Catalog:
        """Return the catalog for the folder ``workspace``."""
        shipped = builtin_root()
        same = workspace.resolve() == shipped.resolve()
        return cls(workspace=workspace, roots=(shipped,) if same else (workspace, shipped))

    def benchmarks(self) -> list[CatalogEntry]:
        return self._entries["benchmarks"]

    def providers(self) -> list[CatalogEntry]:
        return self._entries["providers"]

    def models(self) -> list[CatalogEntry]:
        return self._entries["models"]

    def runs(self) -> list[CatalogEntry]:
        return self._entries["runs"]

    def entries(self, kind: Kind) -> list[CatalogEntry]:
        """Return all configs of one kind, sorted by name.

        Built-in configs that are hidden by a config of the workspace are included.
        """
        return self._entries[kind]

    @cached_property
    def _entries(self) -> dict[Kind, list[CatalogEntry]]:
        kinds: tuple[Kind, ...] = ("benchmarks", "providers", "models", "runs")
        return {kind: _with_shadows(self._scan(kind)) for kind in kinds}

    def _scan(self, kind: Kind) -> Iterator[CatalogEntry]:
        shipped = builtin_root()
        for root in self.roots:
            for file in _files(root / "configs" / kind, manifests=kind == "benchmarks"):
                if root == shipped:
                    yield _shipped_entry(file, kind, _modified_ns(file))
                else:
                    yield _read_entry(Path(file), kind, builtin=False)

    def find(self, kind: Kind, name: str) -> CatalogEntry:
        """Return the config whose name or alias is ``name``, ignoring case. A name takes precedence over an alias.

        Raises:
            UsageError: no config has this name or alias.
            ConfigError: two configs have this name or alias.
        """
        found = [entry for entry in self._entries[kind] if entry.has_name(name) and not entry.shadowed]
        exact = [entry for entry in found if entry.name.lower() == name.lower()] or found
        if len(exact) > 1:
            places = " and ".join(str(entry.path) for entry in exact)
            raise ConfigError(f'two {kind} have the name or alias "{name}": {places}', hint="rename one of them")
        if not exact:
            raise self._unknown(kind, name)
        return exact[0]

    def _unknown(self, kind: Kind, name: str) -> UsageError:
        from bench.config.file import did_you_mean

        known = [alias for entry in self._entries[kind] for alias in (entry.name, *entry.aliases)]
        singular = kind.removesuffix("s")
        return UsageError(
            f'there is no {singular} "{name}"{did_you_mean(name, known)}',
            hint=f"list the known {kind} with: bench list {kind}",
        )

    def benchmark(self, name: str) -> BenchmarkConfig:
        """Load a benchmark config by name."""
        return self.read_benchmark(self._find_checked("benchmarks", name))

    def read_benchmark(self, path: Path) -> BenchmarkConfig:
        """Load a benchmark config from a file. The configs that the file extends are looked up in this catalog."""
        from bench.config.benchmark.file import read_benchmark

        return read_benchmark(path, find=self._path_of_benchmark, workspace=self.workspace)

    def check(self, entry: CatalogEntry) -> None:
        """Raise ConfigError if the config is invalid. The data of a benchmark is not checked."""
        problems = self.name_problems(entry.kind, entry.path)
        if problems:
            raise ConfigError.of(problems)
        match entry.kind:
            case "benchmarks":
                self.read_benchmark(entry.path)
            case "providers":
                from bench.config.provider.file import load_provider

                load_provider(entry.path)
            case "models":
                from bench.config.model import read_model_file

                read_model_file(entry.path)
            case "runs":
                from bench.config.file import Source, load
                from bench.config.run import RunRequest

                load(Source.read(entry.path), RunRequest)

    def name_problems(self, kind: Kind, path: Path) -> list[ConfigError]:
        """Return an error for each name in the file ``path`` that another config uses too.

        The names of a config are its name and its aliases. A config of the workspace may have the name of a built-in
        config, and then hides the built-in config. Return an empty list for a built-in config.
        """
        entry = next((one for one in self._entries[kind] if one.path.resolve() == path.resolve()), None)
        if entry is None or entry.builtin or entry.problem:
            return []
        from bench.config.file import Source, display_path

        others = [one for one in self._entries[kind] if one is not entry and not one.shadowed]
        found: list[tuple[tuple[str | int, ...], str, str]] = [
            (("name",), f'the name "{entry.name}" is also the name of {display_path(other.path)}', "rename one of them")
            for other in others
            if other.name.lower() == entry.name.lower()
        ]
        for at, alias in enumerate(entry.aliases):
            owners = [display_path(one.path) for one in others if one.has_name(alias)]
            if kind == "providers":
                owners += [f"the built-in provider {name}" for name in BUILT_IN if _is_built_in(name, alias)]
            if owners:
                message = f'the alias "{alias}" is already a name of {owners[0]}'
                found.append((("aliases", at), message, "choose another alias"))
        if not found:
            return []
        source = Source.read(entry.path)
        return [ConfigError(message, where=source.place(key), hint=hint) for key, message, hint in found]

    def _find_checked(self, kind: Kind, name: str) -> Path:
        path = self.find(kind, name).path
        problems = self.name_problems(kind, path)
        if problems:
            raise ConfigError.of(problems)
        return path

    def _path_of_benchmark(self, name: str) -> Path | None:
        try:
            return self.find("benchmarks", name).path
        except UsageError:
            return None

    def provider(self, name: str) -> ProviderConfig:
        """Load a provider config by name."""
        from bench.config.provider.file import load_provider

        return load_provider(self._find_checked("providers", name))


def _is_built_in(provider: str, name: str) -> bool:
    """Return True if ``name`` is the name or an alias of this built-in provider, ignoring case."""
    return name.lower() in {provider, *(alias.lower() for alias in ALIASES.get(provider, ()))}


def _files(folder: Path, *, manifests: bool) -> Iterator[str]:
    """Yield the paths of the config files in a folder. With ``manifests``, also yield each ``NAME/manifest.json``."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        stem, dot, suffix = entry.name.rpartition(".")
        if stem and dot + suffix in _SUFFIXES and not stem.startswith(".") and not stem.endswith(".compose"):
            yield entry.path
        elif manifests and (manifest := folder / entry.name / "manifest.json").exists():
            yield str(manifest)


def _with_shadows(entries: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    """Return the entries sorted by name, with ``shadowed`` set.

    A built-in config is shadowed if a config of the workspace has the same name.
    """
    listed = list(entries)
    own = {entry.name.lower() for entry in listed if not entry.builtin}
    marked = [replace(one, shadowed=True) if one.builtin and one.name.lower() in own else one for one in listed]
    return sorted(marked, key=lambda entry: (entry.name.lower(), entry.shadowed, str(entry.path)))


def _modified_ns(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns  # noqa: PTH116  # a plan asks for eighty files
    except OSError:
        return 0


@lru_cache(maxsize=256)
def _shipped_entry(file: str, kind: Kind, _modified_ns: int) -> CatalogEntry:
    """Return the catalog entry of a built-in config. The entry is cached until the file changes."""
    return _read_entry(Path(file), kind, builtin=True)


def _read_entry(path: Path, kind: Kind, *, builtin: bool) -> CatalogEntry:
    """Return the catalog entry of a file. If the file is invalid, ``problem`` of the entry says why.

    The YAML parser is slow, so it is used only if necessary.
    """
    fallback = path.parent.name if path.name == "manifest.json" else path.stem
    try:
        keys = _keys_of(path, path.read_text(encoding="utf-8-sig"), kind)
    except (OSError, ValueError, RecursionError, ConfigError) as error:
        return CatalogEntry(name=fallback, kind=kind, path=path, builtin=builtin, problem=str(error))
    if not isinstance(keys, dict):
        return CatalogEntry(name=fallback, kind=kind, path=path, builtin=builtin, problem="not a map of keys")
    return CatalogEntry(
        name=text_or_none(keys.get("name")) or fallback,
        kind=kind,
        path=path,
        aliases=_texts(keys.get("aliases")),
        tags=_texts(keys.get("tags")),
        display_name=text_or_none(keys.get("displayName", keys.get("display_name"))),
        description=text_or_none(keys.get("description")),
        builtin=builtin,
    )


def _keys_of(path: Path, text: str, kind: Kind) -> object:
    if path.suffix == ".json":
        return json.loads(text)
    keys = _top_keys(text)
    if keys is None or ("name" not in keys and kind != "runs"):  # a file of runs has no name inside
        from bench.config.file import display_path
        from bench.config.yamltext import parse_yaml

        return parse_yaml(text, display_path(path))[0]
    return keys


def _top_keys(text: str) -> dict[str, object] | None:
    """Return key -> value for the top-level keys that a catalog entry needs.

    Return None if only a YAML parser can read one of the values.
    """
    found: dict[str, object] = {}
    for key, value, below in _listed_keys(text.splitlines()):
        plain = _plain_value(value, below)
        if plain is None or key in found:
            return None
        found[key] = plain
    return found


def _listed_keys(lines: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (key, rest of the key's line, indented lines below the key) for each key in `_LISTED_KEYS`."""
    for at, line in enumerate(lines):
        match = _KEY.fullmatch(line)
        if match is not None and match[1] in _LISTED_KEYS:
            inside = takewhile(lambda one: one[:1] in ("", " ", "-", "#"), lines[at + 1 :])
            yield match[1], match[2], [one for one in inside if one.strip() and not one.strip().startswith("#")]


def _plain_value(text: str, below: list[str]) -> object | None:
    """Return the value of a YAML key, if the value is a text on one line or a list of words.

    ``text`` follows the key on its line, and ``below`` are the lines below the key. Return None for any other value.
    """
    words = re.fullmatch(rf"\[ *(?:({_WORD}(?: *, *{_WORD})*) *)?\]{_COMMENT}", text)
    if words is not None and not below:
        return [part.strip() for part in (words[1] or "").split(",") if part.strip()]
    if re.fullmatch(_COMMENT, text) and below:
        parts = [re.fullmatch(rf" *- +({_WORD}){_COMMENT}", line) for line in below]
        return [part[1] for part in parts if part] if all(parts) else None
    line = re.fullmatch(rf"(?:({_LINE})|'((?:[^']|'')*)'|\"([^\"\\\\]*)\"){_COMMENT}", text)
    if line is None or below:
        return None
    bare, single, double = line.groups()
    return (
        single.replace("''", "'") if single is not None else next(part for part in (bare, double) if part is not None)
    )


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(part for part in value if isinstance(part, str)) if isinstance(value, list) else ()
