"""Convert the server-sent events of a streamed reply to the body that the endpoint would return without a stream.

Example::

    if is_stream(response): events, done = read_events(response.text)
    body = join_openai(events, done=done)        # Unavailable if the stream ended in the middle

Text after an error or after the finish reason is never part of an answer. A stream without an end is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from bench.errors import Unavailable
from bench.fast_dataclass import dataclass
from bench.http import Response
from bench.untyped_values import object_or_empty
from bench.visible_text import counted

DONE = "[DONE]"
MIN_REPEATS = 3
"""minimum number of different pieces before bench concludes that each piece repeats all text so far"""
AFTER_FINISH = "after_finish"
"""set in a joined stream, and as a flag of its reply, if text after the end of the reply was ignored"""
_LINE_END = re.compile(r"\r\n|\r|\n")
"""matches the line ends of an event stream; other line separators are part of an event's text"""


def is_stream(response: Response) -> bool:
    """Return True if the response body is an event stream, even if no stream was requested."""
    if "text/event-stream" in response.headers.get("Content-Type", "").lower():
        return True
    return response.body[:1] != b"{" and response.body.lstrip().startswith((b"data:", b"event:"))


def read_events(text: str) -> tuple[list[object], bool]:
    """Return the JSON of each event, and True if the stream's end marker was received.

    Raises:
        Unavailable: an event is not JSON, for example because it is truncated.
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


def usage_events(text: str) -> Mapping[str, object]:
    """Return the model and the token counts that the events of a stream report, even if the stream is damaged.

    A later count replaces an earlier one.
    """
    tree: dict[str, object] = {}
    for line in _LINE_END.split(text):
        try:
            event = object_or_empty(json.loads(line.removeprefix("data:"))) if line.startswith("data:") else {}
        except (ValueError, RecursionError):
            continue
        for part in (event, object_or_empty(event.get("message"))):
            tree |= {"model": part["model"]} if part.get("model") else {}
            for name in ("usage", "usageMetadata"):
                if counts := object_or_empty(part.get(name)):
                    tree[name] = {**object_or_empty(tree.get(name)), **counts}
    return tree


def _error_event(event: str) -> object:
    """Return the content of an ``error`` event as a JSON object with the key ``error``."""
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
    return Unavailable(f"the stream ended too early: {counted(len(events), 'event(|s)')}, but no finish reason")


def _error_in(events: Sequence[object]) -> object:
    named = (one.get("error") or (one.get("object") == "error" and one) for one in events if isinstance(one, Mapping))
    return next((one for one in named if one), None)


@dataclass(slots=True)
class _StreamEnd:
    """The place where the text of a stream ends: the first event with a finish reason.

    If the server sends a finish reason with every piece of text, the text ends with the last of these events.
    """

    finished: bool = False
    finish_in_each: bool = True
    late: bool = False

    def accepts(self, *, text: bool, finish: bool) -> bool:
        """Return True if the content of the next event belongs to the reply.

        Text does not belong to the reply if it follows the end of the stream's text. Content other than text always
        belongs to the reply.
        """
        self.finish_in_each = self.finish_in_each and (finish or not text)
        taken = not self.finished or (finish and self.finish_in_each) or not text
        self.finished = self.finished or finish
        self.late = self.late or not taken
        return taken

    @property
    def mark(self) -> dict[str, object]:
        return {AFTER_FINISH: True} if self.late else {}


def join_openai(events: Sequence[object], *, done: bool) -> Mapping[str, object]:
    """Join the events of an OpenAI stream: the texts of the first choice, and the last usage.

    A stream is complete if it has a finish reason. It is also complete if it has the end marker and no event has a
    field for the reason.

    Raises:
        Unavailable: the stream is not complete.
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
                text = object_or_empty(one.get("delta")).get("content")
                if not ending.accepts(text=bool(text), finish=bool(one.get("finish_reason"))):
                    continue
                if one.get("delta"):
                    _append_delta(message, one["delta"])
                    pieces += [text] if text and isinstance(text, str) else []
                elif one.get("message"):  # the whole, which the deltas before it may have brought already
                    message |= {key: value for key, value in object_or_empty(one.get("message")).items() if value}
                    pieces = []
    if ends and "finish_reason" not in choice and "error" not in choice:
        raise _truncated_stream(events)
    if _repeats(pieces):
        message["content"] = pieces[-1]
    return {**tree, "choices": [choice], **ending.mark}


def _repeats(pieces: Sequence[str]) -> bool:
    """Return True if each piece of a text begins with the whole piece before it.

    Some servers send the whole text so far in each event.
    """
    return len(set(pieces)) >= MIN_REPEATS and all(other.startswith(one) for one, other in pairwise(pieces))


def _append_delta(message: dict[str, object], delta: object) -> None:
    """Append the texts and lists of a delta to the message. Any other value replaces the earlier value."""
    for key, value in delta.items() if isinstance(delta, Mapping) else ():
        known = message.get(key)
        if isinstance(value, str) and key != "role":
            message[key] = (known if isinstance(known, str) else "") + value
        elif isinstance(value, list) and isinstance(known, list):
            message[key] = [*known, *value]
        elif value:
            message[key] = value


def join_anthropic(events: Sequence[object]) -> Mapping[str, object]:
    """Join the events of an Anthropic stream: the content blocks and the usage.

    The token counts are in the events ``message_start`` and ``message_delta``. A later count replaces an earlier one.
    """
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
                usage |= object_or_empty(event["message"].get("usage"))
            case "content_block_start":
                blocks[event.get("index")] = dict(object_or_empty(event.get("content_block")))
            case "content_block_delta" if ending.accepts(
                text="text" in object_or_empty(event.get("delta")), finish=False
            ):
                _append_block_delta(
                    blocks.setdefault(event.get("index"), {"type": "text"}), object_or_empty(event.get("delta"))
                )
            case "message_delta":
                tree |= object_or_empty(event.get("delta"))
                ending.accepts(text=False, finish=bool(tree.get("stop_reason")))
                usage |= {key: value for key, value in object_or_empty(event.get("usage")).items() if value is not None}
    if not tree.get("stop_reason"):
        raise _truncated_stream(events)
    content = [_parsed_block(block) for block in blocks.values()]
    return {**tree, "content": content, **({"usage": usage} if usage else {}), **ending.mark}


def _append_block_delta(block: dict[str, object], delta: Mapping[str, object]) -> None:
    for key in ("text", "thinking", "partial_json"):
        if isinstance(delta.get(key), str):
            block[key] = f"{block.get(key) or ''}{delta[key]}"


def _parsed_block(block: dict[str, object]) -> dict[str, object]:
    """Return the block with its tool input parsed. The input was streamed as pieces of JSON text."""
    if "partial_json" in block:
        block["input"] = _json(str(block.pop("partial_json")) or "{}")
    return block


def join_google(events: Sequence[object]) -> Mapping[str, object]:
    """Join the events of a Google stream: the parts of the first candidate, and the last usage."""
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
        first = object_or_empty(next(iter(event.get("candidates") or ()), None))
        more = object_or_empty(first.get("content")).get("parts")
        if isinstance(more, list) and ending.accepts(text=bool(more), finish=bool(first.get("finishReason"))):
            parts += more
        finish = first.get("finishReason") or finish
    if finish is None:
        if not object_or_empty(tree.get("promptFeedback")).get("blockReason"):
            raise _truncated_stream(events)
        return tree
    return {**tree, "candidates": [{"content": {"parts": parts}, "finishReason": finish}], **ending.mark}
