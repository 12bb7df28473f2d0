"""The words that benchmark configs may use as values, and the types that check single values.

::

    Segment        # a name that is safe as a file and a run id: demo, locomo-turns
    FieldPath      # "$.content", or a bare field name
"""

from __future__ import annotations

import re
from datetime import datetime
from importlib.metadata import entry_points
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from bench.config.filenames import SEGMENT, portable
from bench.config.jsonpath import compile_path
from bench.config.patterns import problem_of
from bench.errors import ConfigError


def _segment(value: str) -> str:
    if not SEGMENT.fullmatch(value):
        raise ValueError(f'"{value}" is no safe name: letters, digits, ".", "_" and "-", at most 100')
    return portable(value)


def _field_path(value: str) -> str:
    try:
        compile_path(value, bare=True)
    except ConfigError as error:
        raise ValueError(error.message) from error
    return value


def _pattern(value: str) -> str:
    problem = problem_of(value, groups=None)
    if problem is not None:
        raise ValueError(f'"{value}" {problem}')
    return value


def _zone(value: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f'"{value}" is no time zone of the IANA database') from error
    return value


def _date_format(value: str) -> str:
    try:
        datetime.strptime("", value)
    except ValueError as error:
        if "directive" in str(error) or "stray" in str(error):
            raise ValueError(f'"{value}" is no format of strptime: {error}') from error
    return value


def _digest(value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError("a SHA-256 is 64 hexadecimal digits")
    return value.lower()


def _python_class(value: str) -> str:
    if value.split(":")[0].endswith((".ts", ".js", ".mjs", ".tsx")):
        raise ValueError(f'"{value}": an evaluator is a Python class, written ./file.py:Class')
    if ":" not in value:
        raise ValueError(f'"{value}" names no class; write ./file.py:Class')
    return value


Segment = Annotated[str, AfterValidator(_segment)]
FieldPath = Annotated[str, AfterValidator(_field_path)]
FieldPaths = FieldPath | Annotated[tuple[FieldPath, ...], Field(min_length=1)]
"""one path, or several whose values are all taken"""
Pattern = Annotated[str, AfterValidator(_pattern)]
Zone = Annotated[str, AfterValidator(_zone)]
DateFormat = Annotated[str, AfterValidator(_date_format)]
Sha256 = Annotated[str, AfterValidator(_digest)]
PythonClass = Annotated[str, AfterValidator(_python_class)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Milliseconds = Annotated[int, Field(ge=0)]
Temperature = Annotated[float, Field(ge=0)]

Format = Literal["json", "jsonl", "csv"]
Unit = Literal["session", "turn", "corpus"]
Parser = Literal["direct", "dialog_refs", "exact_text"]
Mode = Literal["session-based", "incremental", "bulk"]
Granularity = Literal["auto", "turn", "session", "memory"]
Capability = Literal["add_memory", "retrieve_memory", "delete_memory", "update_memory", "list_memories"]
METHODS = (
    "exact-match",
    "contains",
    "token-f1",
    "locomo-f1",
    "semantic-similarity",
    "llm-judge",
    "rubric",
    "mcq",
    "faithfulness",
    "code-correctness",
    "deletion-check",
    "custom",
    "none",
)
PLUG_INS = "bench.evaluators"
"""entry points whose names are methods too"""


def _known_method(name: str) -> str:
    """A method of our own, or the name of an installed evaluator."""
    if name in METHODS or name in {point.name for point in entry_points(group=PLUG_INS)}:
        return name
    listed = ", ".join(f"'{method}'" for method in METHODS)
    raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": listed})


Method = Annotated[str, AfterValidator(_known_method), WithJsonSchema({"type": "string", "examples": list(METHODS)})]

UNIT_OF_MODE: dict[Mode, Unit] = {"session-based": "session", "incremental": "turn", "bulk": "corpus"}
