"""Server-sent events of a chat endpoint, joined into the body that it would have sent whole.

Example::

    if is_stream(response): events, done = read_events(response.text)
    body = join_openai(events, done=done)        # Unavailable where the stream ended in the middle

What a stream says after an error, or without an end, is never an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from bench.errors import Unavailable
from bench.http import Response

DONE = "[DONE]"
_LINE_END = re.compile(r"\r\n|\r|\n")
"""of an event; other line ends belong to its text"""


def is_stream(response: Response) -> bool:
    """Say whether a body is a stream of events, whatever was requested."""
    kind = response.headers.get("Content-Type", "")
    return "text/event-stream" in kind.lower() or response.body.lstrip().startswith((b"data:", b"event:"))


def read_events(text: str) -> tuple[list[object], bool]:
    """Return the JSON of each event, and whether the end mark was sent.

    Raises:
        Unavailable: an event that is cut in the middle.
    """
    found: list[object] = []
    data: list[str] = []
    for line in [*_LINE_END.split(text), ""]:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            event = "\n".join(data)
            data = []
            if event.strip() == DONE:
                return found, True
            found.append(_json(event))
    return found, False


def _json(event: str) -> object:
    try:
        return json.loads(event)
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"the stream holds an event that is not JSON: {event[:200]!r}") from error


def _cut(events: Sequence[object]) -> Unavailable:
    return Unavailable(f"the stream ended in the middle: {len(events)} events and no finish")


def _error_in(events: Sequence[object]) -> object:
    return next((one["error"] for one in events if isinstance(one, Mapping) and one.get("error")), None)


def join_openai(events: Sequence[object], *, done: bool) -> Mapping[str, object]:
    """Join the deltas of the first choice; the last usage counts."""
    if (error := _error_in(events)) is not None:
        return {"error": error}
    tree: dict[str, object] = {}
    message: dict[str, object] = {}
    choice: dict[str, object] = {"message": message}
    for event in events:
        if not isinstance(event, Mapping):
            continue
        tree |= {key: event[key] for key in ("model", "system_fingerprint", "usage") if event.get(key)}
        for one in event.get("choices") or ():
            if isinstance(one, Mapping) and one.get("index", 0) == 0:
                choice |= {key: one[key] for key in ("finish_reason", "error") if one.get(key)}
                _grow(message, one.get("delta") or one.get("message"))
    if not done and "finish_reason" not in choice and "error" not in choice:
        raise _cut(events)
    return {**tree, "choices": [choice]}


def _grow(message: dict[str, object], delta: object) -> None:
    """Add the texts of a delta; what is no text, such as a tool call, replaces."""
    for key, value in delta.items() if isinstance(delta, Mapping) else ():
        known = message.get(key)
        if isinstance(value, str) and key != "role":
            message[key] = (known if isinstance(known, str) else "") + value
        elif isinstance(value, list) and isinstance(known, list):
            message[key] = [*known, *value]
        elif value:
            message[key] = value


def join_anthropic(events: Sequence[object]) -> Mapping[str, object]:
    """Join the blocks of a message; the usage of its start and of its end are one."""
    if (error := _error_in(events)) is not None:
        return {"type": "error", "error": error}
    tree: dict[str, object] = {}
    usage: dict[str, object] = {}
    blocks: dict[object, dict[str, object]] = {}
    for event in events:
        if not isinstance(event, Mapping):
            continue
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), Mapping):
                tree |= event["message"]
                usage |= _map(event["message"].get("usage"))
            case "content_block_start":
                blocks[event.get("index")] = dict(_map(event.get("content_block")))
            case "content_block_delta":
                _grow_block(blocks.setdefault(event.get("index"), {"type": "text"}), _map(event.get("delta")))
            case "message_delta":
                tree |= _map(event.get("delta"))
                usage |= {key: value for key, value in _map(event.get("usage")).items() if value is not None}
    if not tree.get("stop_reason"):
        raise _cut(events)
    content = [_closed(block) for block in blocks.values()]
    return {**tree, "content": content, **({"usage": usage} if usage else {})}


def _grow_block(block: dict[str, object], delta: Mapping[str, object]) -> None:
    for key in ("text", "thinking", "partial_json"):
        if isinstance(delta.get(key), str):
            block[key] = f"{block.get(key) or ''}{delta[key]}"


def _closed(block: dict[str, object]) -> dict[str, object]:
    """Read the input of a tool, which is streamed as pieces of JSON."""
    if "partial_json" in block:
        block["input"] = _json(str(block.pop("partial_json")) or "{}")
    return block


def join_google(events: Sequence[object]) -> Mapping[str, object]:
    """Join the parts of the first candidate; the last usage counts."""
    if (error := _error_in(events)) is not None:
        return {"error": error}
    tree: dict[str, object] = {}
    parts: list[object] = []
    finish: object = None
    for event in events:
        if not isinstance(event, Mapping):
            continue
        tree |= {key: event[key] for key in ("modelVersion", "usageMetadata", "promptFeedback") if event.get(key)}
        first = _map(next(iter(event.get("candidates") or ()), None))
        more = _map(first.get("content")).get("parts")
        parts += more if isinstance(more, list) else []
        finish = first.get("finishReason") or finish
    if finish is None:
        if not _map(tree.get("promptFeedback")).get("blockReason"):
            raise _cut(events)
        return tree
    return {**tree, "candidates": [{"content": {"parts": parts}, "finishReason": finish}]}


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
