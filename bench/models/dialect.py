"""The dialect protocol: the request and response format of a vendor family. Each dialect is one module.

Also in this module:

* Join the server-sent events of a chat endpoint into the body of an unstreamed response.

Example::

    if is_stream(response): events, done = read_events(response.text)
    body = join_openai(events, done=done)        # Unavailable where the stream ended in the middle

A dialect only builds request trees and reads response trees; it sends nothing. Features that differ between models
(temperature, name of the token limit, schema) are passed as a `ModelFeatures`.

Text of a stream after an error or after its finish, and a stream without an end, are never an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from sys import float_info
from typing import Literal, Protocol

from bench.errors import AuthError, CallError, MappingError, QuotaError, RateLimited, Rejected, Unavailable
from bench.events import redact
from bench.http import Response
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
        MappingError: it is not an object.
    """
    if not isinstance(value, dict):
        raise MappingError(f"{where}: expected an object; got {shown(value)}")
    return value


def as_list(value: object, where: str) -> list[object]:
    """Return the value as a list.

    Raises:
        MappingError: it is not a list.
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
        MappingError: it is empty or an element is not a finite number.
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


DONE = "[DONE]"
MIN_REPEATS = 3
"""minimum number of pieces that prove that each piece of a stream repeats the text so far"""
AFTER_FINISH = "after_finish"
"""key of a joined stream and flag of its reply: text after the finish was ignored"""
_LINE_END = re.compile(r"\r\n|\r|\n")
"""line ends of an event; other line separators are part of its text"""


def is_stream(response: Response) -> bool:
    """Return True when the body is an event stream, whatever was requested."""
    if "text/event-stream" in response.headers.get("Content-Type", "").lower():
        return True
    return response.body[:1] != b"{" and response.body.lstrip().startswith((b"data:", b"event:"))


def read_events(text: str) -> tuple[list[object], bool]:
    """Return the JSON of each event, and whether the end marker was received.

    Raises:
        Unavailable: a truncated event.
    """
    found: list[object] = []
    data: list[str] = []
    kind = ""
    for line in [*_LINE_END.split(text), ""]:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line.startswith("event:"):
            kind = line[6:].strip().lower()
        elif not line:
            event = "\n".join(data)
            if event.strip() == DONE:
                return found, True
            if data:
                found.append(_error_event(event) if kind == "error" else _json(event))
            data, kind = [], ""
    return found, False


def _error_event(event: str) -> object:
    """Return the content of an ``error`` event as an error object."""
    try:
        tree = _json(event)
    except Unavailable:
        tree = {"message": event[:200]}
    return tree if isinstance(tree, Mapping) and tree.get("error") else {"error": tree or {"message": "error"}}


def _json(event: str) -> object:
    try:
        return json.loads(event)
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"the stream contains an event that is not JSON: {event[:200]!r}") from error


def _truncated_stream(events: Sequence[object]) -> Unavailable:
    return Unavailable(f"the stream ended too early: {len(events)} events, but no finish reason")


def _error_in(events: Sequence[object]) -> object:
    named = (one.get("error") or (one.get("object") == "error" and one) for one in events if isinstance(one, Mapping))
    return next((one for one in named if one), None)


@dataclass(slots=True)
class _StreamEnd:
    """The end of the text in a stream: its finish, unless the server sends a finish with every piece."""

    finished: bool = False
    finish_in_each: bool = True
    late: bool = False

    def accepts(self, *, text: bool, finish: bool) -> bool:
        """Return True when the content of an event comes before the end."""
        self.finish_in_each = self.finish_in_each and (finish or not text)
        taken = not self.finished or (finish and self.finish_in_each) or not text
        self.finished = self.finished or finish
        self.late = self.late or not taken
        return taken

    @property
    def mark(self) -> dict[str, object]:
        return {AFTER_FINISH: True} if self.late else {}


def join_openai(events: Sequence[object], *, done: bool) -> Mapping[str, object]:
    """Join the deltas of the first choice; the last usage is used.

    A stream without a finish was truncated, unless no event has a finish field: such a server never sends one.
    """
    if (error := _error_in(events)) is not None:
        return {"error": error}
    tree: dict[str, object] = {}
    message: dict[str, object] = {}
    pieces: list[str] = []
    choice: dict[str, object] = {"message": message}
    ends, ending = not done, _StreamEnd()
    for event in events:
        if not isinstance(event, Mapping):
            continue
        tree |= {key: event[key] for key in ("model", "system_fingerprint", "usage") if event.get(key)}
        for one in event.get("choices") or ():
            if isinstance(one, Mapping) and one.get("index") in (None, 0):
                ends = ends or "finish_reason" in one
                choice |= {key: one[key] for key in ("finish_reason", "error") if one.get(key)}
                text = _map(one.get("delta")).get("content")
                if not ending.accepts(text=bool(text), finish=bool(one.get("finish_reason"))):
                    continue
                if one.get("delta"):
                    _append_delta(message, one["delta"])
                    pieces += [text] if text and isinstance(text, str) else []
                elif one.get("message"):  # the whole, which the deltas before it may have brought already
                    message |= {key: value for key, value in _map(one.get("message")).items() if value}
                    pieces = []
    if ends and "finish_reason" not in choice and "error" not in choice:
        raise _truncated_stream(events)
    if _repeats(pieces):
        message["content"] = pieces[-1]
    return {**tree, "choices": [choice], **ending.mark}


def _repeats(pieces: Sequence[str]) -> bool:
    """Return True when each piece of a text contains all pieces before it, as some servers stream."""
    return len(set(pieces)) >= MIN_REPEATS and all(other.startswith(one) for one, other in pairwise(pieces))


def _append_delta(message: dict[str, object], delta: object) -> None:
    """Append the texts of a delta; other values, such as tool calls, replace the earlier ones."""
    for key, value in delta.items() if isinstance(delta, Mapping) else ():
        known = message.get(key)
        if isinstance(value, str) and key != "role":
            message[key] = (known if isinstance(known, str) else "") + value
        elif isinstance(value, list) and isinstance(known, list):
            message[key] = [*known, *value]
        elif value:
            message[key] = value


def join_anthropic(events: Sequence[object]) -> Mapping[str, object]:
    """Join the blocks of a message; the usages of its start and end are merged."""
    if (error := _error_in(events)) is not None:
        return {"type": "error", "error": error}
    tree: dict[str, object] = {}
    usage: dict[str, object] = {}
    blocks: dict[object, dict[str, object]] = {}
    ending = _StreamEnd()
    for event in events:
        if not isinstance(event, Mapping):
            continue
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), Mapping):
                tree |= event["message"]
                usage |= _map(event["message"].get("usage"))
            case "content_block_start":
                blocks[event.get("index")] = dict(_map(event.get("content_block")))
            case "content_block_delta" if ending.accepts(text="text" in _map(event.get("delta")), finish=False):
                _append_block_delta(blocks.setdefault(event.get("index"), {"type": "text"}), _map(event.get("delta")))
            case "message_delta":
                tree |= _map(event.get("delta"))
                ending.accepts(text=False, finish=bool(tree.get("stop_reason")))
                usage |= {key: value for key, value in _map(event.get("usage")).items() if value is not None}
    if not tree.get("stop_reason"):
        raise _truncated_stream(events)
    content = [_parsed_block(block) for block in blocks.values()]
    return {**tree, "content": content, **({"usage": usage} if usage else {}), **ending.mark}


def _append_block_delta(block: dict[str, object], delta: Mapping[str, object]) -> None:
    for key in ("text", "thinking", "partial_json"):
        if isinstance(delta.get(key), str):
            block[key] = f"{block.get(key) or ''}{delta[key]}"


def _parsed_block(block: dict[str, object]) -> dict[str, object]:
    """Parse the input of a tool, which is streamed as pieces of JSON text."""
    if "partial_json" in block:
        block["input"] = _json(str(block.pop("partial_json")) or "{}")
    return block


def join_google(events: Sequence[object]) -> Mapping[str, object]:
    """Join the parts of the first candidate; the last usage is used."""
    if (error := _error_in(events)) is not None:
        return {"error": error}
    tree: dict[str, object] = {}
    parts: list[object] = []
    finish: object = None
    ending = _StreamEnd()
    for event in events:
        if not isinstance(event, Mapping):
            continue
        tree |= {key: event[key] for key in ("modelVersion", "usageMetadata", "promptFeedback") if event.get(key)}
        first = _map(next(iter(event.get("candidates") or ()), None))
        more = _map(first.get("content")).get("parts")
        if isinstance(more, list) and ending.accepts(text=bool(more), finish=bool(first.get("finishReason"))):
            parts += more
        finish = first.get("finishReason") or finish
    if finish is None:
        if not _map(tree.get("promptFeedback")).get("blockReason"):
            raise _truncated_stream(events)
        return tree
    return {**tree, "candidates": [{"content": {"parts": parts}, "finishReason": finish}], **ending.mark}


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
