"""The interface of dialects. A dialect is the request and response format of some vendors.

A dialect builds the JSON of requests and reads the JSON of responses, but sends nothing. Differences between models,
such as the name of the token limit, are passed as `ModelFeatures`.
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
from bench.fast_dataclass import dataclass
from bench.model import Prompt
from bench.untyped_values import text_or_none

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
"""finish reason of a reply, as a vendor writes it, in lower case -> the word that bench uses for this reason"""
ERROR_FINISHES = frozenset(
    {"error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource", "failed"}
)
"""finish reasons of vendors that mean an error of the endpoint"""
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
    """The features that a model is known or assumed to support."""

    temperature: bool = True
    seed: bool = True
    schema: bool = True
    """False: the model gets no schema as a parameter; the schema is written into the prompt"""
    tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream: bool = False
    """True: the reply is requested as a stream, because the endpoint supports nothing else"""
    stream_usage: bool = True
    """True: the usage is requested in a stream"""
    body: Mapping[str, object] = field(default_factory=dict)
    """extra fields of the request body, from the model's settings in the config"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply of a model, without its price."""

    text: str
    model: str | None
    """name of the model as the response states it"""
    finish: Finish
    fingerprint: str | None = None
    native_finish: str = field(default="", compare=False)
    """the finish reason of the reply, as the vendor writes it"""
    reasoning: str = field(default="", compare=False)
    """the model's reasoning, if it was sent apart from the text"""


class Dialect(Protocol):
    """The request and response format of one family of vendors."""

    def chat_url(self, base_url: str, model: str, *, stream: bool = False) -> str: ...

    def chat_body(self, model: str, prompt: Prompt, features: ModelFeatures) -> dict[str, object]: ...

    def read_chat(self, body: object) -> Reply: ...

    def join_events(self, events: Sequence[object], *, done: bool) -> object:
        """Join the events of a stream to the body that the endpoint would return without a stream.

        ``done`` is True if the stream's end marker was received.

        Raises:
            Unavailable: the stream ended too early.
        """
        ...

    def embed_url(self, base_url: str, model: str) -> str: ...

    def embed_body(self, model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]: ...

    def read_vectors(self, body: object) -> list[tuple[float, ...]]: ...


def as_map(value: object, where: str) -> Mapping[str, object]:
    """Return ``value`` if it is a JSON object. ``where`` names its place in the response, for error messages.

    Raises:
        MappingError: the value is not an object.
    """
    if not isinstance(value, dict):
        raise MappingError(f"{where}: expected an object; got {shown(value)}")
    return value


def as_list(value: object, where: str) -> list[object]:
    """Return ``value`` if it is a JSON list. ``where`` names its place in the response, for error messages.

    Raises:
        MappingError: the value is not a list.
    """
    if not isinstance(value, list):
        raise MappingError(f"{where}: expected a list; got {shown(value)}")
    return value


def text_of(value: object) -> str:
    """Return a text, or the joined texts of a list of content blocks. Blocks of other types are left out."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [part for part in value if isinstance(part, Mapping) and part.get("type") in TEXT_TYPES]
        return "".join(text_of(part.get("text")) for part in parts)
    return ""


TEXT_TYPES = (None, "text", "output_text")


def content_text(content: object, where: str) -> str:
    """Return the text of a reply's content, which may be null, a text, a block or a list of texts and blocks.

    A block of another type than text, such as an image, adds no text.

    Raises:
        MappingError: the content has another form, so that it might be an answer that bench cannot read.
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
    """Convert a vendor's finish reason of a reply to the word that bench uses; return "other" for an unknown reason."""
    return FINISHES.get(str(native).lower(), "other")


def is_filter_refusal(error: object) -> bool:
    """Return True if the codes or the message of an error show that the vendor's content filter raised it."""
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
    """Return the error object in a response body, or the whole body if it contains none.

    If the body is not a JSON object, return its text.
    """
    try:
        tree: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(tree, Mapping):
        return text
    inner = tree.get("error", tree.get("detail"))
    return inner if isinstance(inner, Mapping) else tree if inner is None else {**tree, "message": inner}


def refusal_or_error(error: object, model: object = None) -> Reply:
    """Return a refusal as the reply if the error comes from the vendor's content filter.

    Raises:
        CallError: the error has another cause.
    """
    if is_filter_refusal(error):
        return Reply(text="", model=text_or_none(model), finish="refusal", native_finish="content_filter")
    raise error_in_reply(error)


def vector(value: object, where: str) -> tuple[float, ...]:
    """Return one embedding as a tuple of floats. ``where`` names its place in the response, for error messages.

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
    """Return the CallError for an error that a 2xx response contains.

    An error without a known code counts as a fault of the endpoint (Unavailable).
    """
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
"""a vendor's name of an error -> the HTTP status with the same meaning"""


def _status_of(error: object) -> int | None:
    """Return the HTTP status of an error object, from its numeric code or its error name.

    Return None if the error has no such number and no known name.
    """
    if not isinstance(error, Mapping):
        return None
    for key in ("code", "status", "type"):
        code = error.get(key)
        if isinstance(code, str) and code.isdecimal() and len(code) == HTTP_DIGITS:
            return int(code)
        if isinstance(code, int | float) and 100 <= code < 600 and code == code // 1:
            return int(code)
        if isinstance(code, str) and code.lower() in STATUS_OF:
            return STATUS_OF[code.lower()]
    return None


HTTP_DIGITS = 3


def shown(value: object) -> str:
    """Return a value as short JSON text without secrets, for error messages."""
    return redact(json.dumps(value, ensure_ascii=False, default=str))[:SHOWN]
