"""Read a config file into a pydantic model. Every error has the file, line and column.

All problems of a file are reported together. For an unknown name, the error suggests a similar known name.

Example::

    class Query(ConfigModel):
        question_field: str
        retrieval_limit: int = 10
    query = load(Source.read(Path("query.yaml")), Query)
    # query.yaml:2:1: unknown field "retreivalLimit"; did you mean "retrievalLimit"?
    source = Source.read(Path("manifest.json"))     # a file of the ConfigModel Manifest
    explain(source, Manifest, {"type": "extra_forbidden", "loc": ("query", "retreival_limit"), ...})
    # ConfigError: manifest.json:23:5: unknown field "retreival_limit" in query; did you mean "retrieval_limit"?
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from bench.config.jsontext import Places, TreePath, parse_json, shortened
from bench.errors import ConfigError

MAX_BYTES = 2_000_000
BOTH_SPELLINGS = "both_spellings"
"""error type for pydantic: a field is given in camelCase and snake_case, or by a name that is not a config key; ``ctx``
of the error has both names"""
_PLACE = re.compile(r"(.+):(\d+):(\d+)", re.DOTALL)


class ConfigModel(BaseModel):
    """An immutable config section that rejects unknown keys. Each key may be camelCase or snake_case, but not both."""

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
        """Reject a field that is given twice, in camelCase and in snake_case.

        Also reject a Python name that is not a config key, such as ``with_`` for the key ``with``.
        """
        if not isinstance(value, Mapping):
            return value
        for name, keys in keys_of_fields(cls):
            if name in value and name not in keys:
                text = 'unknown field "{name}"; write "{alias}"'
                raise PydanticCustomError(BOTH_SPELLINGS, text, {"alias": cls.model_fields[name].alias, "name": name})
            if len(keys) > 1 and len(same := [key for key in keys if key in value]) > 1:
                text = '"{alias}" and "{name}" are the same field'
                raise PydanticCustomError(BOTH_SPELLINGS, text, {"alias": same[0], "name": same[1]})
        return value

    @model_validator(mode="before")
    @classmethod
    def _no_boolean_as_number(cls, value: object) -> object:
        """Reject true and false as the value of a number, such as ``limit: true``. Python would read true as 1."""
        if not isinstance(value, Mapping) or not any(isinstance(one, bool) for one in value.values()):
            return value
        found: list[InitErrorDetails] = []
        for name, keys in keys_of_fields(cls):
            types_ = _plain_types(cls.model_fields[name].annotation)
            if types_ & {int, float} and not types_ & {bool, object}:
                kind = "int_type" if int in types_ else "float_type"
                given = [key for key in keys if isinstance(value.get(key), bool)]
                found += [InitErrorDetails(type=kind, loc=(key,), input=value[key]) for key in given]
        if found:
            raise ValidationError.from_exception_data(cls.__name__, found)
        return value


def _plain_types(annotation: object) -> set[object]:
    """Return the types that a value of a field can have.

    For a union, these are the types of all members. For a literal, these are the types of its values. ``Annotated`` is
    ignored.
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain_types(inner[0])
    if origin is Literal:
        return {type(value) for value in inner}
    if origin in (Union, types.UnionType):
        return set().union(*map(_plain_types, inner))
    return {annotation}


@cache
def keys_of_fields(model: type[BaseModel]) -> list[tuple[str, list[str]]]:
    """Return (field name, keys) for each field of a model. A file may use any of these keys for the field."""
    return [(name, keys_of(name, info)) for name, info in model.model_fields.items()]


def keys_of(name: str, info: FieldInfo) -> list[str]:
    """Return every key that a file can use for a field, the preferred key first.

    A field with an explicit alias, such as ``with`` for ``with_``, has only the alias as key.
    """
    if isinstance(info.validation_alias, AliasChoices):
        return list(dict.fromkeys((*map(str, info.validation_alias.choices), name)))
    renamed = info.alias_priority == 2 and info.alias != name
    return [info.alias or name] if renamed else list(dict.fromkeys((info.alias or name, name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The parsed content of one config file, with the line and column of each key."""

    path: Path
    tree: Mapping[str, object]
    places: Places = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a UTF-8 file: as JSON if its suffix is ``.json``, otherwise as YAML.

        Raises:
            ConfigError: the file cannot be read, is too large, is malformed, or is not a map of keys.
        """
        return cls.parse(_read_text(path), path)

    @classmethod
    def parse(cls, text: str, path: Path) -> Self:
        """Parse ``text`` as if it were the content of the file ``path``. The file is not read."""
        label = display_path(path)
        tree, places = parse_json(text, label) if path.suffix == ".json" else _parse_yaml(text, label)
        if not isinstance(tree, dict):
            hint = "show the keys with: bench schema KIND; KIND is benchmark, manifest, provider or run"
            raise ConfigError("a config must be a map of keys", where=f"{label}:1:1", hint=hint)
        return cls(path=path, tree=tree, places=places)

    @property
    def label(self) -> str:
        """Return the path of the file for error messages: relative if it is inside the working directory."""
        return display_path(self.path)

    def place(self, path: TreePath) -> str:
        """Return ``file:line:column`` of the key at ``path``.

        If the file lacks the key, return the place of the nearest enclosing key.
        """
        line, column = self.places.get(self.locate(path), (1, 1))
        return f"{self.label}:{line}:{column}"

    def locate(self, path: TreePath) -> TreePath:
        """Return the key path as the file spells it.

        Parts that the file does not have are left out, such as the union tags that pydantic adds.
        """
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
    """Return the key ``part`` as ``node`` spells it; None if ``node`` does not have this key."""
    if isinstance(node, list):
        return part if isinstance(part, int) and 0 <= part < len(node) else None
    if not isinstance(node, Mapping):
        return None
    if part in node:
        return str(part)
    return next((key for key in node if fold_key(key) == fold_key(str(part))), None)


def fold_key(key: str) -> str:
    """Return the key in lower case without underscores, so that ``runId`` and ``run_id`` are equal."""
    return key.replace("_", "").lower()


def display_path(path: Path) -> str:
    """Return the path for error messages: relative if it is inside the working directory, otherwise unchanged."""
    try:
        return _display_path(path, Path.cwd())
    except (ValueError, OSError):
        return str(path)


@lru_cache(maxsize=1024)
def _display_path(path: Path, folder: Path) -> str:
    resolved = path.resolve()
    return str(resolved.relative_to(folder) if resolved.is_relative_to(folder) else path)


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read the file: {error.strerror}", where=display_path(path), hint="check the path"
        ) from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(
            f"the config has {len(raw):,} bytes, expected at most {MAX_BYTES:,}",
            where=display_path(path),
            hint="split the config, or remove long texts",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"the file is not UTF-8 at byte {error.start}", where=display_path(path), hint="save the file as UTF-8"
        ) from error


def _parse_yaml(text: str, label: str) -> tuple[object, Places]:
    from bench.config.yamltext import parse_yaml  # ruamel.yaml takes 150 ms to import, JSON files need none of it

    return parse_yaml(text, label)


Model = TypeVar("Model", bound=ConfigModel)


def load(source: Source, model: type[Model]) -> Model:
    """Validate a file and return it as an instance of ``model``.

    Raises:
        ConfigError: the file has problems; the error lists all of them in file order.
    """
    try:
        return model.model_validate(source.tree)
    except ValidationError as error:
        raise ConfigError.of(validation_problems(source, model, error)) from None


def validation_problems(source: Source, model: type[ConfigModel], error: ValidationError) -> list[ConfigError]:
    """Convert the errors of pydantic to ConfigErrors, in file order and without duplicates."""

    def line_and_column(details: ErrorDetails) -> tuple[int, int]:
        return source.places.get(key_of(source, details), (1, 1))

    details = [entry for entry in error.errors() if not _is_of_other_branch(source, entry, error.errors())]
    problems = [explain(source, model, entry) for entry in sorted(details, key=line_and_column)]
    return list({str(problem): problem for problem in problems}.values())


def in_file_order(problems: Iterable[ConfigError]) -> list[ConfigError]:
    """Return the problems sorted by file, line and column. Problems without a line come last."""

    def place(error: ConfigError) -> tuple[bool, str, int, int]:
        found = _PLACE.fullmatch(error.where or "")
        return (False, found[1], int(found[2]), int(found[3])) if found else (True, error.where or "", 0, 0)

    return sorted(problems, key=place)


def _is_of_other_branch(source: Source, entry: ErrorDetails, every: list[ErrorDetails]) -> bool:
    """Return True if an error is about one type of a union, but the value fits another type of the union better."""
    stem = entry["loc"][:-1]
    if not stem or source.locate(tuple(entry["loc"])) != source.locate(tuple(stem)):
        return False
    farther = (other["loc"] for other in every if len(other["loc"]) > len(entry["loc"]))
    return entry["type"].endswith("_type") and any(loc[: len(stem)] == stem for loc in farther)


_EXPECTED_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a map of keys",
    "mapping_type": "a map of keys",
    "model_type": "a map of keys",
    "model_attributes_type": "a map of keys",
    "url_parsing": "a URL",
}


def nearest(name: str, known: Iterable[str], *, n: int = 1) -> list[str]:
    """Return up to ``n`` known names that are similar to ``name``, the most similar first."""
    lowered = {candidate.lower(): candidate for candidate in sorted(known)}
    return [lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=n, cutoff=0.6)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "NAME"?`` with the most similar known name.

    Return an empty text if no known name is similar.
    """
    near = nearest(name, known)
    return f'; did you mean "{near[0]}"?' if near else ""


def explain(source: Source, model: type[ConfigModel], error: ErrorDetails) -> ConfigError:
    """Return the ConfigError for one error of pydantic, with the line and column of the key."""
    path = source.locate(tuple(error["loc"]))
    where = source.place(key_of(source, error))
    match error["type"]:
        case "extra_forbidden":
            return _unknown_field(model_at(model, tuple(error["loc"])[:-1]), path, where)
        case "missing":
            key = str(error["loc"][-1])
            inside = f" in {key_text(path)}" if path else ""
            return ConfigError(f'missing field "{key}"{inside}', where=where, hint=f"add {key}")
        case "literal_error" | "enum":
            return _invalid_choice(path, error, where)
        case "union_tag_invalid" | "union_tag_not_found":
            return _invalid_tag(source, path, error)
        case kind if kind in _EXPECTED_TYPES:
            return _invalid_type(path, _EXPECTED_TYPES[kind], error["input"], where)
        case _:
            return _other_error(path, error, where)


def key_of(source: Source, error: ErrorDetails) -> TreePath:
    """Return the path of the key that an error is about.

    If a field is given in two spellings, return the key that comes second in the file.
    """
    path = source.locate(tuple(error["loc"]))
    spelt = [(*path, str(key)) for key in error.get("ctx", {}).values()] if error["type"] == BOTH_SPELLINGS else []
    return max((one for one in spelt if one in source.places), key=source.places.__getitem__, default=path)


def key_text(path: TreePath) -> str:
    """Return a key path as a text such as ``metrics[1].name``. An empty path becomes ``the file``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the file"


def quoted(value: object) -> str:
    """Return a value as a config file writes it, cut to 100 characters, for an error message.

    A map becomes ``a map of keys``, and a list becomes ``a list``.
    """
    return shortened(f'"{value}"' if isinstance(value, str) else _literal(value))


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a map of keys"
    return "a list" if isinstance(value, list | tuple) else str(value)


def _unknown_field(owner: type[BaseModel] | None, path: TreePath, where: str) -> ConfigError:
    key = str(path[-1])
    inside = f" in {key_text(path[:-1])}" if len(path) > 1 else ""
    known = accepted_keys(owner) if owner else []
    listed = ", ".join(info.alias or name for name, info in owner.model_fields.items()) if owner else ""
    hint = f"known fields: {listed}" if listed else "remove the field"
    return ConfigError(f'unknown field "{key}"{inside}{did_you_mean(key, known)}', where=where, hint=hint)


def _invalid_choice(path: TreePath, error: ErrorDetails, where: str) -> ConfigError:
    expected = str(error.get("ctx", {}).get("expected", ""))
    options = [part.strip().strip("'") for part in expected.replace(" or ", ", ").split(",")]
    listed = " or ".join(f'"{option}"' for option in options)
    value = error["input"]
    guess = did_you_mean(value, options) if isinstance(value, str) and len(options) > 1 else ""
    return ConfigError(
        f"{key_text(path)} must be {listed}, not {quoted(value)}{guess}", where=where, hint=f"write {listed}"
    )


def _invalid_tag(source: Source, path: TreePath, error: ErrorDetails) -> ConfigError:
    context = error.get("ctx", {})
    key = str(context.get("discriminator", "")).strip("'")
    if error["type"] == "union_tag_not_found":
        return ConfigError(f'missing field "{key}" in {key_text(path)}', where=source.place(path), hint=f"add {key}")
    options = [part.strip().strip("'") for part in str(context.get("expected_tags", "")).split(",")]
    tag = str(context.get("tag", ""))
    listed = " or ".join(f'"{option}"' for option in options)
    text = f"{key_text((*path, key))} must be {listed}, not {quoted(tag)}{did_you_mean(tag, options)}"
    return ConfigError(text, where=source.place((*path, key)), hint=f"write {listed}")


def flag_message(error: ErrorDetails) -> str:
    """Return the message for an invalid flag, such as ``--limit must be greater than 0, not -1``."""
    flag = f"--{str(error['loc'][0]).replace('_', '-')}" if error["loc"] else "flags"
    if error["type"] in ("value_error", "assertion_error"):
        return f"{flag}: {_bench_wording(error['msg'])}"
    if error["type"] == "extra_forbidden":
        return f"there is no {flag}"
    if error["type"] == "string_pattern_mismatch":
        return f"{flag}: {quoted(error['input'])} does not match the pattern {error['ctx']['pattern']}"
    wanted = _EXPECTED_TYPES.get(error["type"])
    problem = _bench_wording(error["msg"]) if wanted is None else f"must be {wanted}"
    return f"{flag} {problem}, not {quoted(error['input'])}"


def _bench_wording(message: str) -> str:
    """Return a message of pydantic in the style of bench: ``must be ...`` instead of ``Input should be ...``."""
    text = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return re.sub(r"^(Input|String|Value|List|Tuple|Dictionary) should", "must", text)


def _invalid_type(path: TreePath, wanted: str, value: object, where: str) -> ConfigError:
    is_number = wanted == "text" and isinstance(value, int | float)
    hint = f'put it in quotes: "{_literal(value)}"' if is_number else f"write {wanted}"
    return ConfigError(f"{key_text(path)} must be {wanted}, not {quoted(value)}", where=where, hint=hint)


def _other_error(path: TreePath, error: ErrorDetails, where: str) -> ConfigError:
    text = _bench_wording(error["msg"])
    if error["type"] not in ("value_error", BOTH_SPELLINGS):
        value = error["input"]
        return ConfigError(f"{key_text(path)} {text}, not {quoted(value)}", where=where, hint="correct the value")
    return ConfigError(f"{key_text(path)}: {text}" if path else text, where=where, hint="correct the value")


def accepted_keys(model: type[BaseModel]) -> list[str]:
    """Return all keys that a section of this model accepts, in camelCase and in snake_case."""
    return [key for _, keys in keys_of_fields(model) for key in keys]


def model_at(model: type[BaseModel], path: TreePath) -> type[BaseModel] | None:
    """Return the model of the section at a key path, starting from ``model``.

    The path can contain union tags of pydantic. Return None if the section is a map with any keys.
    """
    current: list[object] = [model]
    for part in path:
        chosen = [found for option in current for found in _models_in(option) if str(part) in _tags(found)]
        current = [*chosen] or [step for option in current for step in _types_below(option, part)]
    return next((found for option in current for found in _models_in(option)), None)


def _tags(model: type[BaseModel]) -> set[str]:
    """Return the names that pydantic uses for a model in key paths: its class name and its discriminator values."""
    literals = (info.annotation for info in model.model_fields.values() if get_origin(info.annotation) is Literal)
    return {model.__name__, *(str(value) for literal in literals for value in get_args(literal))}


def _types_below(annotation: object, part: str | int) -> list[object]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [info.annotation for name, info in annotation.model_fields.items() if str(part) in keys_of(name, info)]
    arguments = get_args(annotation)
    if options := _union_members(annotation):
        return [step for option in options for step in _types_below(option, part)]
    if not arguments:
        return []
    return [arguments[0] if isinstance(part, int) else arguments[-1]]


def _union_members(annotation: object) -> tuple[object, ...]:
    """Return the types of a union, or the type inside ``Annotated``. Return an empty tuple for any other type."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return arguments[:1]
    return arguments if get_origin(annotation) in (Union, types.UnionType) else ()


def _models_in(annotation: object) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for option in _union_members(annotation):
        yield from _models_in(option)
