"""What a dialect is: how one vendor family writes requests and answers. One file each stands beside this one.

A dialect is pure: it builds trees and reads trees, and never sends. What may differ from model to model (is a
temperature taken, which name has the token limit, is a schema understood) comes in as a `Wish`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from sys import float_info
from typing import Literal, Protocol

from bench.errors import AuthError, CallError, MappingError, QuotaError, RateLimited, Rejected, Unavailable
from bench.events import redact
from bench.model import Prompt
from bench.values import dataclass

SCHEMA_NAME = "reply"
SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What this model takes, as far as we have learnt."""

    temperature: bool = True
    seed: bool = True
    schema: bool = True
    """False: a schema goes into the prompt as text"""
    tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a model, before usage and price."""

    text: str
    model: str | None
    """as returned"""
    finish: Literal["stop", "length", "refusal", "other"]
    fingerprint: str | None = None


class Dialect(Protocol):
    """One vendor family."""

    def chat_url(self, base_url: str, model: str) -> str: ...

    def chat_body(self, model: str, prompt: Prompt, wish: Wish) -> dict[str, object]: ...

    def read_chat(self, body: object) -> Reply: ...

    def embed_url(self, base_url: str, model: str) -> str: ...

    def embed_body(self, model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]: ...

    def read_vectors(self, body: object) -> list[tuple[float, ...]]: ...


def as_map(value: object, where: str) -> Mapping[str, object]:
    """Give the value as an object.

    Raises:
        MappingError: it is none.
    """
    if not isinstance(value, dict):
        raise MappingError(f"{where}: expected an object; got {shown(value)}")
    return value


def as_list(value: object, where: str) -> list[object]:
    """Give the value as a list.

    Raises:
        MappingError: it is none.
    """
    if not isinstance(value, list):
        raise MappingError(f"{where}: expected a list; got {shown(value)}")
    return value


def text_of(value: object) -> str:
    """Text, or the text parts of a list of content blocks; anything else is no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(text_of(part.get("text")) for part in value if isinstance(part, Mapping))
    return ""


def text_or_none(value: object) -> str | None:
    """Text that is there."""
    return value if isinstance(value, str) and value else None


def vector(value: object, where: str) -> tuple[float, ...]:
    """One embedding.

    Raises:
        MappingError: empty, or an element is no finite number.
    """
    numbers = as_list(value, where)
    if not numbers or not all(_is_finite(number) for number in numbers):
        raise MappingError(f"{where}: expected a list of finite numbers; got {shown(value)}")
    return tuple(float(number) for number in numbers)  # type: ignore[arg-type]


def error_inside(error: object) -> CallError:
    """Name the error that stands inside a 2xx answer; without a code it counts as the endpoint's own trouble."""
    code = error.get("code", error.get("status")) if isinstance(error, Mapping) else None
    text = f"the answer holds an error: {shown(error)}"
    match int(code) if isinstance(code, str) and code.isdecimal() else code:
        case 429:
            return RateLimited(text)
        case 401 | 403:
            return AuthError(text)
        case 402 | "insufficient_quota":
            return QuotaError(text)
        case int(status) if 400 <= status < 500 and status not in (408, 425):
            return Rejected(text)
        case _:
            return Unavailable(text)


def shown(value: object) -> str:
    """A short, redacted form for error texts."""
    return redact(json.dumps(value, ensure_ascii=False, default=str))[:SHOWN]


def _is_finite(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and abs(number) <= float_info.max
