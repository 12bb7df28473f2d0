"""Text after the finish of a stream, and JSON without its end, are noted."""

from __future__ import annotations

import json
from typing import Any

from bench.models.faulty_answers import is_cut_json
from bench.models.streams import AFTER_FINISH, join_anthropic, join_google, join_openai, read_events
from tests.reality.chat_stub import Reply, completion, delta, events
from tests.reality.test_answers import FACTS, Job, Serve, job, note, serve, workspace
from tests.rows import each_row

__all__ = ["job", "serve", "workspace"]

END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def google(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": text}]}, **({"finishReason": finish} if finish else {})}]}


def block(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}


@each_row(
    ("body", "text", "late"),
    [
        (join_openai([delta("Pa"), delta("ris", "stop"), delta(" User: and")], done=True), "Paris", True),
        (join_openai([delta("Paris"), END, delta(" User: and", "stop")], done=True), "Paris", True),
        (join_openai([delta("Pa", "stop"), delta("ris", "stop")], done=True), "Paris", False),
        (join_openai([delta("Paris"), END, {"choices": [], "usage": {"prompt_tokens": 1}}], done=True), "Paris", False),
        (join_anthropic([block("Paris"), STOP, block(" User: and")]), "Paris", True),
        (join_anthropic([block("Paris"), STOP, {"type": "message_stop"}]), "Paris", False),
        (join_google([google("Pa"), google("ris", "STOP"), google(" User: and")]), "Paris", True),
        (join_google([google("Pa", "STOP"), google("ris", "STOP")]), "Paris", False),
    ],
)
def test_text_after_the_finish_of_a_stream_is_dropped_and_flagged(body: dict[str, Any], text: str, late: bool) -> None:
    whole = json.dumps(body)
    assert "User" not in whole and "".join(word for word in ("Pa", "ris") if word in whole) == text
    assert (AFTER_FINISH in body) is late


def test_text_after_the_finish_and_unfinished_json_are_noted_with_their_count(serve: Serve, job: Job) -> None:
    replies: list[Reply] = [
        events(delta("under the blue pot"), END, delta(" Pelle"), done=True),
        completion('{"answer": "Pelle", "why": "It was'),
        completion('```json\n[{"town": "Umea"}, {"to'),
        completion('{"answer": "alto"} as in {'),
    ]

    def reply(body: dict[str, Any]) -> Reply:
        text = body["messages"][-1]["content"]
        return next(one for (*_, question, _), one in zip(FACTS, replies, strict=True) if question in text)

    serve(reply)
    found = job()
    assert note(found, "1 answer from a stream that continued after its finish: the later text is not used")
    assert note(found, "2 answers that are JSON without its end, and scored as sent")
    assert found["rows"][0]["answer"] == "under the blue pot"


@each_row("text", ["{}", '{"a": "{"}', '{"a": 1} "', "{name} is", "[1] is", "[Note: x", '{"a"] }', ""])
def test_is_cut_json_is_false_for_complete_texts(text: str) -> None:
    assert not is_cut_json(text)


@each_row("text", ["{", '{"a', '{"a": [1, 2', '{"a": "b\\"}', '[{"a": 1},', '```json\n{\n  "a": {"b": 1}'])
def test_is_cut_json_is_true_for_unfinished_json(text: str) -> None:
    assert is_cut_json(text)


def test_a_stream_event_with_an_empty_finish_reason_does_not_end_the_text() -> None:
    role = {"choices": [{"delta": {"role": "assistant"}, "finish_reason": ""}]}
    found, done = read_events(events(role, delta("Pa"), END).decode())
    assert "Pa" in json.dumps(join_openai(found, done=done))
