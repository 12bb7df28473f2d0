"""A config file with the place of every key, and the loader that turns it into a typed model.

All findings of a file come at once, each with ``file:line:column`` and the nearest known name::

    class Query(ConfigModel):
        question_field: str
        retrieval_limit: int = 10

    query = load(Source.read(Path("query.yaml")), Query)
    # query.yaml:2:1: unknown field "retreivalLimit"; did you mean "retrievalLimit"?
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from bench.config.jsontext import Places, TreePath, parse_json
from bench.errors import ConfigError

MAX_BYTES = 2_000_000
BOTH_SPELLINGS = "both_spellings"
"""kind of the finding that a field is given twice; its context names both keys"""
_PLACE = re.compile(r"(.+):(\d+):(\d+)", re.DOTALL)


class ConfigModel(BaseModel):
    """A closed, frozen piece of config. Each key may be camelCase or snake_case, never both at once."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=False,
        allow_inf_nan=False,
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, value: object) -> object:
        """Refuse a field that is given in both spellings, or by its inner name."""
        if not isinstance(value, Mapping):
            return value
        for name, info in cls.model_fields.items():
            if name in value and name not in keys_of(name, info):
                text = 'unknown field "{name}"; it is called "{alias}"'
                raise PydanticCustomError(BOTH_SPELLINGS, text, {"alias": info.alias, "name": name})
            same = [key for key in keys_of(name, info) if key in value]
            if len(same) > 1:
                text = '"{alias}" and "{name}" are the same field'
                raise PydanticCustomError(BOTH_SPELLINGS, text, {"alias": same[0], "name": same[1]})
        return value


def keys_of(name: str, info: FieldInfo) -> list[str]:
    """Every key by which a file may give a field, the preferred one first; its inner name is none where it differs."""
    if isinstance(info.validation_alias, AliasChoices):
        return list(dict.fromkeys((*map(str, info.validation_alias.choices), name)))
    renamed = info.alias_priority == 2 and info.alias != name
    return [info.alias or name] if renamed else list(dict.fromkeys((info.alias or name, name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The tree of one file and where each of its keys stands."""

    path: Path
    tree: Mapping[str, object]
    places: Places = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read YAML or JSON (by suffix), UTF-8; ConfigError for anything that is no map of keys."""
        return cls.parse(_read_text(path), path)

    @classmethod
    def parse(cls, text: str, path: Path) -> Self:
        """Read the text as if it stood in ``path``."""
        label = show(path)
        tree, places = parse_json(text, label) if path.suffix == ".json" else _parse_yaml(text, label)
        if not isinstance(tree, dict):
            raise ConfigError("a config must be a map of keys", where=f"{label}:1:1", hint="see bench schema")
        return cls(path=path, tree=tree, places=places)

    @property
    def label(self) -> str:
        """The path as errors show it: relative to the working folder where that is shorter."""
        return show(self.path)

    def place(self, path: TreePath) -> str:
        """Give ``file:line:column`` of the key, or of the nearest enclosing key that the file has."""
        line, column = self.places.get(self.locate(path), (1, 1))
        return f"{self.label}:{line}:{column}"

    def locate(self, path: TreePath) -> TreePath:
        """Follow the path as far as the file goes; a key may be spelt the other way."""
        node: object = self.tree
        found: TreePath = ()
        for part in path:
            key = _key_of(node, part)
            if key is None:
                continue
            node = node[key]  # type: ignore[index]
            found = (*found, key)
        return found


def _key_of(node: object, part: str | int) -> str | int | None:
    """The part as the node spells it; None where it is not there (a union tag, an absent key)."""
    if isinstance(node, list):
        return part if isinstance(part, int) and 0 <= part < len(node) else None
    if not isinstance(node, Mapping):
        return None
    if part in node:
        return str(part)
    return next((key for key in node if fold(key) == fold(str(part))), None)


def fold(key: str) -> str:
    """One form for both spellings of a key."""
    return key.replace("_", "").lower()


def show(path: Path) -> str:
    """A path as errors print it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the file: {error.strerror}", where=show(path), hint="check the path") from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(
            f"a config of {len(raw):,} bytes", where=show(path), hint=f"configs are at most {MAX_BYTES:,} bytes"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}", where=show(path), hint="save it as UTF-8") from error


def _parse_yaml(text: str, label: str) -> tuple[object, Places]:
    from bench.config.yamltext import parse_yaml  # ruamel.yaml takes 150 ms to import, JSON files need none of it

    return parse_yaml(text, label)


Model = TypeVar("Model", bound=ConfigModel)


def load(source: Source, model: type[Model]) -> Model:
    """Validate the whole file; raise one ConfigError that holds every finding, in file order."""
    try:
        return model.model_validate(source.tree)
    except ValidationError as error:
        raise ConfigError.of(findings(source, model, error)) from None


def findings(source: Source, model: type[ConfigModel], error: ValidationError) -> list[ConfigError]:
    """Turn pydantic's errors into ours, in the order of the file, each text once."""
    from bench.config.findings import explain, key_of

    def line_and_column(details: ErrorDetails) -> tuple[int, int]:
        return source.places.get(key_of(source, details), (1, 1))

    details = [entry for entry in error.errors() if not _other_branch(source, entry, error.errors())]
    problems = [explain(source, model, entry) for entry in sorted(details, key=line_and_column)]
    return list({str(problem): problem for problem in problems}.values())


def in_file_order(problems: Iterable[ConfigError]) -> list[ConfigError]:
    """The findings of several checks as a reader meets them, line by line; those without a place come last."""

    def place(error: ConfigError) -> tuple[bool, str, int, int]:
        found = _PLACE.fullmatch(error.where or "")
        return (False, found[1], int(found[2]), int(found[3])) if found else (True, error.where or "", 0, 0)

    return sorted(problems, key=place)


def _other_branch(source: Source, entry: ErrorDetails, every: list[ErrorDetails]) -> bool:
    """True for "no text" said of a map that another branch of the union read farther."""
    stem = entry["loc"][:-1]
    if not stem or source.locate(tuple(entry["loc"])) != source.locate(tuple(stem)):
        return False
    farther = (other["loc"] for other in every if len(other["loc"]) > len(entry["loc"]))
    return entry["type"].endswith("_type") and any(loc[: len(stem)] == stem for loc in farther)
