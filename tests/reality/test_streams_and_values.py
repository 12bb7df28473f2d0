"""Unusual streams, settings and outputs are read as intended, or are an error with a clear message."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bench.config.provider.sections import check_address
from bench.errors import ConfigError, Unavailable
from bench.models.openai import OpenAI
from bench.models.streams import join_openai, read_events
from bench.settings import Environment
from tests.cli.conftest import Bench
from tests.reality.chat_stub import completion, delta, events
from tests.reality.test_answers import Job, Serve, job, serve, workspace
from tests.rows import each_row

__all__ = ["job", "serve", "workspace"]

END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def joined(body: bytes) -> dict[str, Any]:
    found, done = read_events(body.decode())
    return dict(join_openai(found, done=done))


def whole(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}


def numbered(text: str, index: int | None) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"content": text}}]}


@each_row(
    "body",
    [
        events(delta("Pa"), delta("ris"), END, done=False),
        events(numbered("Pa", None), numbered("ris", None), END),
        events(numbered("Pa", 0), numbered("Lund", 1), numbered("ris", 0), END),
        events(delta("P"), delta("Pa"), delta("Paris"), END),
        events(delta("P"), delta("Pa"), delta("Paris"), delta("Paris", "stop")),
        events(delta("Pa"), delta("ris"), whole("Paris")),
        events(whole("Paris")),
        b": keep-alive\r\n\r\nevent: message\r\nid: 1\r\n" + events(delta("Paris"), END).replace(b"\n", b"\r\n"),
    ],
)
def test_openai_streams_with_different_chunk_formats_are_joined_to_one_text(body: bytes) -> None:
    assert joined(body)["choices"][0]["message"]["content"] == "Paris"


def test_two_equal_chunks_of_a_stream_are_both_used() -> None:
    assert joined(events(delta("ha"), delta("ha"), END))["choices"][0]["message"]["content"] == "haha"


@each_row(
    "error",
    [
        b'event: error\ndata: {"message": "overloaded", "code": 529}\n\n',
        b'event: error\ndata: {"error": {"message": "overloaded"}}\n\n',
        b"event: error\ndata: overloaded\n\n",
        b'data: {"object": "error", "message": "overloaded", "code": 500}\n\n',
    ],
)
def test_an_error_event_in_a_stream_is_unavailable_and_not_a_short_answer(error: bytes) -> None:
    body = joined(events(delta("Pa"), done=False) + error + b"data: [DONE]\n\n")
    with pytest.raises(Unavailable, match="overloaded"):
        OpenAI().read_chat(body)


def test_of_several_choices_the_one_with_index_0_is_the_answer() -> None:
    body = completion("Lund") | {
        "choices": [
            {"index": 1, "message": {"content": "Lund"}, "finish_reason": "stop"},
            {"index": 0, "message": {"content": "Paris"}, "finish_reason": "stop"},
        ]
    }
    assert OpenAI().read_chat(body).text == "Paris"


def test_answers_that_are_a_json_object_are_noted_with_their_count(serve: Serve, job: Job) -> None:
    serve(completion('```json\n{"city": "a city that is not named in this conversation", "confidence": 0.4}\n```'))
    assert any("4 answers that are a JSON object" in note for note in job()["notes"])


# ------------------------------------------------------------------------ variables


@each_row("around", ["{}\n", " {}\r\n", "\ufeff{}", "\t{} "])
def test_environment_values_are_stripped_of_white_space_and_byte_order_marks(around: str) -> None:
    assert Environment(values={"KEY": around.format("sk-1")}).get("KEY") == "sk-1"


def test_a_blank_environment_value_counts_as_unset() -> None:
    assert Environment(values={"KEY": " \n"}).get("KEY") is None


@each_row(
    "url",
    ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://h:99999", "http://h/?x=1", "http://h/#a", "http://h/a b"],
)
def test_an_invalid_base_address_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a base address"):
        check_address(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "HTTPS://h", "http://[::1]:9/v1"])
def test_check_address_removes_only_the_trailing_slash(url: str) -> None:
    assert check_address(f"{url}/") == url


# ------------------------------------------------------------------------ output


def test_a_full_output_device_gives_an_error_message_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        from bench.cli import run

        assert run(["list", "benchmarks", "--json"]) == 3
    assert "error: [Errno 28] No space left on device" in capsys.readouterr().err


def test_a_command_with_a_closed_stdout_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.cli import run

    monkeypatch.setattr(sys, "stdout", None)
    assert run(["--version"]) == 0
    sys.stdout.close()


def test_a_list_flag_without_a_value_is_refused(bench: Bench) -> None:
    done = bench("plan", "--providers", "", check=2)
    assert (
        "error: --providers: expected a name, got an empty text; remove the flag or key to use the default"
        in done.stderr
    )
