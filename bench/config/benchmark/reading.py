"""From a file to a `BenchmarkConfig`: dialect, extends, prompts of files, and every check that needs no data.

::

    config = read_benchmark(Path("configs/benchmarks/demo.yaml"), find=catalog_path)
    config.notes        # what a reader should know
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.config.benchmark import BenchmarkConfig, BenchmarkFile
from bench.config.benchmark.checks import notes_of, problems_of
from bench.config.benchmark.origin import Origin
from bench.config.jsontext import TreePath
from bench.config.manifest import PLACES, Manifest
from bench.config.manifestparts import LlmAsJudge
from bench.config.source import Source, in_file_order, load
from bench.errors import ConfigError

Find = Callable[[str], Path | None]
"""benchmark name -> its file, for ``extends``"""

MAX_EXTENDS = 10


def read_benchmark(path: Path, *, find: Find, workspace: Path | None = None) -> BenchmarkConfig:
    """Read one benchmark file of either dialect; ConfigError with every finding of the file."""
    origin = Origin(sources=_chain(path, find))
    is_manifest = _is_manifest(origin.sources[0])
    if any(_is_manifest(source) != is_manifest for source in origin.sources):
        raise ConfigError(
            "a manifest and a YAML benchmark cannot extend each other",
            where=origin.place(("extends",)),
            hint="extend a benchmark of the same dialect",
        )
    config, problems = _from_manifest(origin) if is_manifest else _from_yaml(origin, workspace)
    problems += problems_of(config)
    if problems:
        raise ConfigError.of(in_file_order(problems))
    config._notes = notes_of(config)
    return config


def _is_manifest(source: Source) -> bool:
    return "manifest_version" in source.tree or source.path.name == "manifest.json"


def _chain(path: Path, find: Find) -> tuple[Source, ...]:
    """The file and what it extends, nearest first."""
    sources = [Source.read(path)]
    while (name := sources[-1].tree.get("extends")) is not None:
        parent = find(name) if isinstance(name, str) else None
        where = sources[-1].place(("extends",))
        if parent is None:
            text = f'extends "{name}", which no benchmark is called'
            raise ConfigError(text, where=where, hint="bench list benchmarks shows the known ones")
        if any(source.path.resolve() == parent.resolve() for source in sources) or len(sources) > MAX_EXTENDS:
            raise ConfigError(f'extends "{name}" in a circle', where=where, hint="break the circle")
        sources.append(Source.read(parent))
    return tuple(sources)


def _merged(origin: Origin) -> Source:
    """One source with the merged tree, whose places are those of the nearest file."""
    if len(origin.sources) == 1:
        return origin.sources[0]
    tree = origin.tree() | _own(origin.sources[0])
    return _Merged(path=origin.path, tree=tree, places=origin.sources[0].places, origin=origin)


def _own(child: Source) -> dict[str, object]:
    """What is never inherited: aliases."""
    return {"aliases": child.tree.get("aliases") or []}


class _Merged(Source):
    """A source of several files: a place is asked of the file that has the key."""

    __slots__ = ("origin",)
    origin: Origin

    def __init__(self, *, path: Path, tree: Mapping[str, object], places: object, origin: Origin) -> None:
        super().__init__(path=path, tree=tree)
        object.__setattr__(self, "origin", origin)

    def place(self, path: TreePath) -> str:
        return self.origin.place(path)


def _from_yaml(origin: Origin, workspace: Path | None) -> tuple[BenchmarkConfig, list[ConfigError]]:
    """The config, and the prompt files that are not there; their ``@file`` stands as it is written."""
    file = load(_merged(origin), BenchmarkFile)
    values = file.model_dump(by_alias=True)
    problems = _insert_prompts(values["evaluation"], origin, workspace)
    _home_of_data(values, origin)
    config = BenchmarkConfig.model_validate(values)
    config._origin = origin
    return config, problems


def _home_of_data(values: dict[str, object], origin: Origin) -> None:
    """The cache place carries the name of the config that says what to fetch, so children share the file."""
    data = values["data"]
    assert isinstance(data, dict)
    if data["localPath"] is not None:
        return
    if data["type"] == "local":
        data["localPath"] = data["path"]
        return
    owner = origin.source_of(("data", "file") if data["file"] else ("data", "path"))
    name = Path(str(data["file"] or data["path"])).name
    data["localPath"] = f"datasets/{owner.tree.get('name', owner.path.stem)}/{name}"


_PROMPTS: tuple[TreePath, ...] = (
    ("answerPrompt", "default"),
    ("answerPrompt", "byQuestionType"),
    ("judgePrompts", "default"),
    ("judgePrompts", "byQuestionType"),
    ("judgePrompts", "abstention"),
)


def _insert_prompts(evaluation: object, origin: Origin, workspace: Path | None) -> list[ConfigError]:
    """Replace each ``@file`` by the file's text."""
    problems: list[ConfigError] = []
    for section, key in _PROMPTS:
        holder = evaluation[section]  # type: ignore[index]
        entries = holder[key] if isinstance(holder[key], dict) else holder
        for name in list(entries) if isinstance(holder[key], dict) else [key]:
            text = entries[name]
            path: TreePath = ("evaluation", section, key) if entries is holder else ("evaluation", section, key, name)
            if isinstance(text, str) and text.startswith("@"):
                try:
                    entries[name] = _file_text(text[1:].strip(), path, origin, workspace)
                except ConfigError as error:
                    problems.append(error)
    return problems


def _file_text(name: str, path: TreePath, origin: Origin, workspace: Path | None) -> str:
    folders = [origin.folder_of(path), *([workspace] if workspace else [])]
    found = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if found is None:
        looked = " and ".join(str(folder) for folder in folders)
        raise ConfigError(f'the file "{name}" is not there', where=origin.place(path), hint=f"looked in {looked}")
    try:
        return found.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f'cannot read "{name}": {error}', where=origin.place(path), hint="save it as UTF-8"
        ) from error


def _from_manifest(origin: Origin) -> tuple[BenchmarkConfig, list[ConfigError]]:
    manifest = load(_merged(origin), Manifest)
    problems: list[ConfigError] = []
    try:
        instructions = _instructions(manifest, origin)
    except ConfigError as error:
        instructions, problems = {}, [error]
    config = BenchmarkConfig.model_validate(manifest.as_benchmark(instructions))
    config._origin = Origin(sources=origin.sources, aliases=PLACES)
    return config, problems


def _instructions(manifest: Manifest, origin: Origin) -> dict[str, str]:
    """Read the type_instructions_file beside the manifest: a map of type to instruction."""
    if not isinstance(manifest.evaluation, LlmAsJudge) or manifest.evaluation.type_instructions_file is None:
        return {}
    path: TreePath = ("evaluation", "type_instructions_file")
    text = _file_text(manifest.evaluation.type_instructions_file, path, origin, None)
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"the instructions are no JSON: {error}", where=origin.place(path), hint="mend it") from error
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ConfigError("the instructions must map a type to a text", where=origin.place(path), hint="mend the file")
    return values
