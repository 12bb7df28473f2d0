"""The base class of the models of receipts, and the validation of documents.

Other functions read JSON values of a journal. If a value has the wrong type, they handle it as missing.

Example::

    validate(TrustedFile, parse(data))
    commit_or_none(code.get("commit"))              # None for a number, an empty text, or a missing key

``validate`` turns parsed JSON into a frozen model, or raises :class:`SchemaMismatch`. The error lists each problem with
the path of the field and a stable code: ``field_missing``, ``field_unknown``, ``field_type`` or ``field_value``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from bench.canonical import JSON
from bench.errors import VerificationError


class ClosedModel(BaseModel):
    """A frozen pydantic model. It refuses unknown fields, and its JSON keys are in camelCase."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z")


def _check_time(text: str) -> str:
    if not _TIME.fullmatch(text):
        raise ValueError("expected a time such as 2026-01-31T12:00:00Z")
    parse_time(text)
    return text


def parse_time(text: str) -> datetime:
    """Parse a UTC time ``YYYY-MM-DDTHH:MM:SS[.f]Z``. Digits after the microseconds are ignored."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(whole).replace(microsecond=int(fraction[:6].ljust(6, "0")), tzinfo=UTC)


def format_time(when: datetime) -> str:
    """Format a datetime with a time zone as UTC: ``YYYY-MM-DDTHH:MM:SSZ``. Microseconds are added if they are not 0."""
    text = when.astimezone(UTC).isoformat().removesuffix("+00:00")
    return text + "Z"


def matching(pattern: str) -> StringConstraints:
    """Return a pydantic constraint for strings that must match the whole ``pattern``."""
    return StringConstraints(strict=True, pattern=rf"^(?:{pattern})$")


Text = Annotated[str, Field(strict=True)]
Integer = Annotated[int, Field(strict=True)]
Natural = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Flag = Annotated[bool, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Hex64 = Annotated[str, matching("[0-9a-f]{64}")]
Hex40 = Annotated[str, matching("[0-9a-f]{40}")]
Hex16 = Annotated[str, matching("[0-9a-f]{16}")]
Fingerprint = Annotated[str, matching("sha256:[0-9a-f]{64}")]
Ulid = Annotated[str, matching("[0-7][0-9A-HJKMNP-TV-Z]{25}")]
Name = Annotated[str, StringConstraints(strict=True, min_length=1)]
Instant = Annotated[str, Field(strict=True), AfterValidator(_check_time)]
SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
Segment = Annotated[str, matching(SEGMENT)]
"""A name that is safe as a file name."""

Document = TypeVar("Document", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """One field of a document that does not fit the model."""

    code: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SchemaMismatch(VerificationError):
    """The error for a document that does not fit its model. ``code`` is the code of the first problem."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        super().__init__(problems[0].code, "; ".join(str(problem) for problem in problems[:5]))
        self.problems = tuple(problems)


def validate(model: type[Document], value: object) -> Document:
    """Convert parsed JSON to ``model``. If the JSON does not fit, raise SchemaMismatch with all problems."""
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise schema_mismatch_of(error) from None


def schema_mismatch_of(error: ValidationError) -> SchemaMismatch:
    """Convert a pydantic error to a SchemaMismatch, in which each problem has a stable code."""
    return SchemaMismatch(
        [
            FieldProblem(code=_code(detail), path=_path(detail["loc"]), message=detail["msg"])
            for detail in error.errors(include_url=False)
        ]
    )


def json_of(document: BaseModel) -> dict[str, JSON]:
    """Return a model as a JSON value, with camelCase keys."""
    return document.model_dump(mode="json", by_alias=True)


def _code(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind == "missing":
        return "field_missing"
    if kind == "extra_forbidden":
        return "field_unknown"
    wrong_literal = kind == "literal_error" and not isinstance(detail["input"], str)
    if wrong_literal or kind.endswith("_type"):
        return "field_type"
    return "field_value"


def _path(location: tuple[object, ...]) -> str:
    shown = ""
    for part in location:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else str(part)
    return shown


UNKNOWN = "unknown"
NO_DIGEST = "0" * 64


def integer(value: object) -> int:
    """Return the value if it is a whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def commit_or_none(value: object) -> str | None:
    """Return the value if it is a full git commit hash (40 hex digits), else None."""
    return value if isinstance(value, str) and re.fullmatch("[0-9a-f]{40}", value) else None
