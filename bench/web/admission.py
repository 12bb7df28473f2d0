"""Check the requests over HTTP that start a run.

A flag is allowed if its value is a number, a boolean, a duration or one of a few words. Other texts are allowed only
for the flags in ``TEXT_CHECKS``. The flag ``set`` can change numbers and choices in a provider's config.

Example::

    request = admit({"benchmarks": ["demo"], "providers": ["bm25"], "limit": 20})
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from bench.config.file import did_you_mean, fold_key
from bench.config.provider.calls import WaitBlock
from bench.config.provider.config import ProviderConfig
from bench.config.provider.sections import ClientEmbeddings, IngestSection
from bench.config.run import RunRequest
from bench.errors import UsageError

FORBIDDEN = frozenset(
    {"sign", "shards", "workers", "allow_code_execution", "publishable", "download", "judge_calibration"}
)
"""flags that are refused, because they start processes, read keys, download, or write elsewhere"""
CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:+-]*(?:/[A-Za-z0-9][A-Za-z0-9._@:+-]*){0,5}")
METRIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:+ -]{0,99}")
SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,199}")
SAFE_TYPES = (int, float, bool, Decimal, type(None), ...)
MAX_TEXT = 100_000
"""maximum number of characters of a text"""
SETTABLE = ("ingest", "wait", "limits", "rate_limit", "prices", "client_embeddings")
"""blocks of a provider's config in which ``set`` may change numbers and choices"""
TEXT_UNITS = ("plain", "speaker", "dated")
"""values of ``ingest.text`` that ``set`` may choose; a template is not allowed"""


def admit(flags: Mapping[str, object]) -> RunRequest:
    """Check the flags of a run request from HTTP, and return the request.

    Raises:
        UsageError: a flag or a value is unknown, or is allowed only on the command line.
    """
    given = {CAPITAL.sub("_", name).replace("-", "_").lower(): value for name, value in flags.items()}
    for name in sorted(given.keys() - RunRequest.model_fields.keys()):
        raise UsageError(
            f'unknown key "{name}"{did_you_mean(name, RunRequest.model_fields)}',
            hint="the valid keys are those of a run file; see /api/v1/openapi.json",
        )
    request = RunRequest.combine(None, given)
    for name in sorted(request.model_fields_set):
        check = TEXT_CHECKS.get(name)
        if check is not None:
            check(name, getattr(request, name))
        elif name in FORBIDDEN or not _is_choice(RunRequest.model_fields[name].annotation):
            _refuse(name, "can be set only on the command line")
    return request


# --------------------------------------------------------------------------- texts


def _check_plain(name: str, value: object) -> None:
    """Refuse a text that contains ``${...}`` or is too long."""
    for text in _texts(value):
        if "${" in text or len(text) > MAX_TEXT:
            _refuse(name, "must be plain text without ${...} and at most 100,000 characters")


def _name_check(pattern: re.Pattern[str], what: str) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        for text in _texts(value):
            if not pattern.fullmatch(text) or ".." in text:
                _refuse(name, f"must be names of known {what}, not files")

    return check


def _check_metrics(name: str, value: object) -> None:
    assert isinstance(value, tuple)
    for entry in value:
        names = [text for text in (entry.name, entry.method, entry.evaluator) if text is not None]
        files = [text for text in (*names, *_texts(entry.config)) if _is_file(text)]
        if files or not all(METRIC.fullmatch(text) for text in names):
            _refuse(name, "must be names of known metrics, not files")
        _check_plain(name, [*_texts(entry.config), *entry.breakdown])


def _is_file(text: str) -> bool:
    return any(mark in text for mark in ("/", "\\", "..")) or text.partition(":")[0].endswith(".py")


def _check_prompts(name: str, value: object) -> None:
    """Refuse a prompt that can be the name of a file. An accepted prompt has placeholders or several lines."""
    for entry in _texts(value):
        kind, equals, rest = entry.partition("=")
        text = rest if name == "judge_prompt" and equals and "\n" not in kind and "$" not in kind else entry
        if text.startswith("@") or not ("${" in text or "\n" in text) or len(text) > MAX_TEXT:
            _refuse("prompts", "must be texts with placeholders, not names of files")


def _check_sets(name: str, value: object) -> None:
    assert isinstance(value, Mapping)
    for key, wanted in value.items():
        _, dot, path = str(key).partition(".")
        block = path.partition(".")[0]
        known = next((one for one in SETTABLE if dot and fold_key(one) == fold_key(block)), None)
        if known is None or not SET_NAME.fullmatch(str(key)) or not _may_set(ProviderConfig, path.split("."), wanted):
            _refuse(name, f"cannot change {key}: expected a number or a choice in {', '.join(SETTABLE)}")


TEXT_CHECKS: Mapping[str, Callable[[str, object], None]] = {
    "benchmarks": _name_check(NAME, "configs"),
    "providers": _name_check(NAME, "configs"),
    "evaluators": _name_check(NAME, "configs"),
    "answering_model": _name_check(MODEL, "models"),
    "judge_model": _name_check(MODEL, "models"),
    "embedding_model": _name_check(MODEL, "models"),
    "metrics": _check_metrics,
    "set": _check_sets,
    "prices": _check_plain,
    "answer_prompt": _check_prompts,
    "judge_prompt": _check_prompts,
    "items": _check_plain,
    "items_of": _check_plain,
    "question_type": _check_plain,
    "shard": _check_plain,
    "rate": _check_plain,
    "min_score": _check_plain,
    "run_id": _check_plain,
    "label": _check_plain,
    "note": _check_plain,
}
"""flag -> check of its texts; a text in any other flag is refused"""


# --------------------------------------------------------------------------- types


def _may_set(model: type[BaseModel], path: Sequence[str], value: object) -> bool:
    """Return True if a request may set this path of a config model to ``value``.

    Numbers, choices, and blocks that contain only numbers and choices are allowed.
    """
    names = {fold_key(name): name for name in model.model_fields}
    found = names.get(fold_key(path[0]))
    if found is None:
        return False
    annotation = model.model_fields[found].annotation
    if model is IngestSection and found == "text" and len(path) == 1:
        return value in TEXT_UNITS
    if model is ClientEmbeddings and found == "model" and len(path) == 1:
        return isinstance(value, str) and MODEL.fullmatch(value) is not None
    if len(path) == 1 and _is_choice(annotation):
        if isinstance(value, str):
            return re.fullmatch(r"[A-Za-z0-9_.+-]{1,40}", value) is not None
        return value is None or isinstance(value, bool | int | float)
    block = _block_of(annotation)
    if block is None:
        return False
    if len(path) > 1:
        return _may_set(block, path[1:], value)
    if isinstance(value, Mapping):
        return all(_may_set(block, [str(key)], inner) for key, inner in value.items())
    return block is WaitBlock and value == "sentinel"


def _block_of(annotation: object) -> type[BaseModel] | None:
    """Return the config model that a type annotation contains.

    Return None if the annotation contains none or several, or if the model describes an HTTP call.
    """
    found = [one for one in _members(annotation) if isinstance(one, type) and issubclass(one, BaseModel)]
    if len(found) != 1 or {"method", "path", "body"} & found[0].model_fields.keys():
        return None
    return found[0]


def _is_choice(annotation: object) -> bool:
    """Return True if the annotation allows only numbers, booleans, fixed words, or tuples of such values."""
    members = list(_members(annotation))
    return bool(members) and all(
        get_origin(one) is Literal or one in SAFE_TYPES or (isinstance(one, type) and issubclass(one, Enum))
        for one in members
    )


def _members(annotation: object) -> Iterator[object]:
    """Yield the alternatives of a union type and the element types of a tuple, without ``Annotated``."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, types.UnionType, tuple):
        for one in get_args(annotation):
            yield from _members(one)
    else:
        yield annotation


def _texts(value: object) -> Iterator[str]:
    """Yield every text that a value contains, including the keys of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _refuse(name: str, problem: str) -> None:
    raise UsageError(f"{name} {problem}", hint="start this run with bench run")
