"""The dialect protocol: the request and response format of a vendor family. Each dialect is one module.

A dialect only builds request trees and reads response trees; it sends nothing. Features that differ between models
(temperature, name of the token limit, schema) are passed as a `ModelFeatures`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from sys import float_info
from typing import Literal, Protocol

from bench.errors import AuthError, CallError, MappingError, QuotaError, RateLimited, Rejected, Unavailable
from bench.events import redact
from bench.model import Prompt
from bench.values import dataclass

SCHEMA_NAME = "reply"
SHOWN = 300

Finish = Literal["stop", "length", "refusal", "other"]
FINISHES: Mapping[str, Finish] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos", "eos_token", "completed", "complete"), "stop"),
    **dict.fromkeys(
        (
            "length", "max_tokens", "max_output_tokens", "max_new_tokens", "max_length", "model_length",
            "model_context_window_exceeded", "context_length_exceeded", "token_limit",
        ),
        "length",
    ),
    **dict.fromkeys(
        (
            "content_filter", "content_filtered", "refusal", "safety", "blocklist", "prohibited_content", "spii",
            "recitation", "image_safety", "sensitive", "guardrail_intervened", "blocked", "model_armor", "flagged",
        ),
        "refusal",
    ),
}  # fmt: skip
"""finish of any vendor in lower case -> finish of bench; routers pass on names of other vendors"""
ERROR_FINISHES = frozenset(
    {"error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource", "failed"}
)
"""finish values that mean that the endpoint stopped because of an error"""
FILTER_CODES = frozenset(
    {
        "content_filter", "responsibleaipolicyviolation", "content_policy_violation", "content_filtered",
        "data_inspection_failed", "datainspectionfailed", "moderation", "moderation_blocked", "prompt_blocked",
        "safety", "prohibited_content", "sensitive", "image_safety", "1301", "content_moderation",
        "guardrail_intervened",
    }
)  # fmt: skip
_FILTER_WORDS = re.compile(
    r"content[ _-]{0,2}(?:filter|management policy|policy violation|moderation)|flagged (?:by|for|as)|usage polic",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFeatures:
    """The features that the model supports, as far as is known."""

    temperature: bool = True
    seed: bool = True
    schema: bool = True
    """False: the schema is written into the prompt"""
    tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream: bool = False
    """the endpoint supports streamed replies only"""
    stream_usage: bool = True
    """request the usage of a stream"""
    body: Mapping[str, object] = field(default_factory=dict)
    """extra fields of the request, from the model's settings"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply of a model, without price."""

    text: str
    model: str | None
    """the model name in the response"""
    finish: Finish
    fingerprint: str | None = None
    native_finish: str = field(default="", compare=False)
    """the finish in the endpoint's own wording"""
    reasoning: str = field(default="", compare=False)
    """reasoning that was sent separately from the text"""


class Dialect(Protocol):
    """The request and response format of one vendor family."""

    def chat_url(self, base_url: str, model: str, *, stream: bool = False) -> str: ...

    def chat_body(self, model: str, prompt: Prompt, features: ModelFeatures) -> dict[str, object]: ...

    def read_chat(self, body: object) -> Reply: ...

    def join_events(self, events: Sequence[object], *, done: bool) -> object:
        """Return the events of a stream as the body of an unstreamed reply; ``done``: the end marker was received.

        Raises:
            Unavailable: the stream ended too early.
        """
        ...

    def embed_url(self, base_url: str, model: str) -> str: ...

    def embed_body(self, model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]: ...

    def read_vectors(self, body: object) -> list[tuple[float, ...]]: ...


def as_map(value: object, where: str) -> Mapping[str, object]:
    """Return the value as an object.

    Raises:
        MappingError: the value is not an object.
    """
    if not isinstance(value, dict):
        raise MappingError(f"{where}: expected an object; got {shown(value)}")
    return value


def as_list(value: object, where: str) -> list[object]:
    """Return the value as a list.

    Raises:
        MappingError: the value is not a list.
    """
    if not isinstance(value, list):
        raise MappingError(f"{where}: expected a list; got {shown(value)}")
    return value


def text_of(value: object) -> str:
    """Return a text, or the text parts of a list of content blocks; other content, such as reasoning, is left out."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [part for part in value if isinstance(part, Mapping) and part.get("type") in TEXT_TYPES]
        return "".join(text_of(part.get("text")) for part in parts)
    return ""


TEXT_TYPES = (None, "text", "output_text")


def content_text(content: object, where: str) -> str:
    """Return the text of a reply's content: null, a text, or a list of texts and blocks.

    Raises:
        MappingError: content of another form, which could be an unreadable answer.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(content_text(part, where) for part in content)
    if isinstance(content, Mapping) and content.get("type") in TEXT_TYPES and "text" in content:
        return content_text(content["text"], where)
    if content is not None and not (isinstance(content, Mapping) and "type" in content):
        raise MappingError(f"{where}: expected a text or a list of blocks; got {shown(content)}")
    return ""


def finish_of(native: object) -> Finish:
    """Return the finish in bench's names; an unknown one is ``other``."""
    return FINISHES.get(str(native).lower(), "other")


def is_filter_refusal(error: object) -> bool:
    """Return True when an error is from the endpoint's content filter, by its codes or its message."""
    if isinstance(error, str):
        return _FILTER_WORDS.search(error[:2000]) is not None
    if not isinstance(error, Mapping):
        return False
    metadata, inner = error.get("metadata"), error.get("innererror")
    codes = [error.get("code"), error.get("type"), error.get("status"), error.get("error_code")]
    codes += [inner.get("code")] if isinstance(inner, Mapping) else []
    if any(str(code).lower() in FILTER_CODES for code in codes):
        return True
    if isinstance(metadata, Mapping) and metadata.get("flagged_input"):
        return True
    return _FILTER_WORDS.search(str(error.get("message") or "")[:2000]) is not None


def body_error(text: str) -> object:
    """Return the error object of a response body; the text itself when it is not JSON."""
    try:
        tree: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(tree, Mapping):
        return text
    inner = tree.get("error", tree.get("detail"))
    return inner if isinstance(inner, Mapping) else tree if inner is None else {**tree, "message": inner}


def refusal_or_error(error: object, model: object = None) -> Reply:
    """Return the reply that represents a content filter error.

    Raises:
        CallError: any other error.
    """
    if is_filter_refusal(error):
        return Reply(text="", model=text_or_none(model), finish="refusal", native_finish="content_filter")
    raise error_in_reply(error)


def text_or_none(value: object) -> str | None:
    """Return a non-empty text, or None for any other value."""
    return value if isinstance(value, str) and value else None


def vector(value: object, where: str) -> tuple[float, ...]:
    """Return one embedding as floats.

    Raises:
        MappingError: the embedding is empty, or an element is not a finite number.
    """
    numbers = as_list(value, where)
    finite = [
        float(one)
        for one in numbers
        if isinstance(one, int | float) and not isinstance(one, bool) and abs(one) <= float_info.max
    ]
    if not numbers or len(finite) != len(numbers):
        raise MappingError(f"{where}: expected a list of finite numbers; got {shown(value)}")
    return tuple(finite)


def error_in_reply(error: object) -> CallError:
    """Return the CallError for an error inside a 2xx response; without a code it counts as a fault of the endpoint."""
    text = f"the answer contains an error: {shown(error)}"
    match _status_of(error):
        case 429:
            return RateLimited(text)
        case 401 | 403:
            return AuthError(text)
        case 402:
            return QuotaError(text)
        case int(status) if 400 <= status < 500 and status not in (408, 425):
            return Rejected(text)
        case _:
            return Unavailable(text)


STATUS_OF: Mapping[str, int] = {
    "insufficient_quota": 402, "rate_limit_error": 429, "rate_limit_exceeded": 429, "resource_exhausted": 429,
    "invalid_request_error": 400, "invalid_argument": 400, "context_length_exceeded": 400,
    "authentication_error": 401, "invalid_api_key": 401, "permission_error": 403, "not_found_error": 404,
}  # fmt: skip
"""error name of a vendor -> equivalent HTTP status"""


def _status_of(error: object) -> int | None:
    """Return the HTTP status for the number or name in an error; None if it has neither."""
    if not isinstance(error, Mapping):
        return None
    for key in ("code", "status", "type"):
        code = error.get(key)
        if isinstance(code, str) and code.isdecimal() and len(code) == HTTP_DIGITS:
            return int(code)
        if isinstance(code, int | float) and not isinstance(code, bool) and code == code // 1:
            return int(code)
        if isinstance(code, str) and code.lower() in STATUS_OF:
            return STATUS_OF[code.lower()]
    return None


HTTP_DIGITS = 3


def shown(value: object) -> str:
    """Return a short, redacted form of a value for error messages."""
    return redact(json.dumps(value, ensure_ascii=False, default=str))[:SHOWN]
