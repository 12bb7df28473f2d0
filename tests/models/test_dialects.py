"""The three dialects without a server: request bodies, responses, and refused bodies."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import AuthError, CallError, ConfigError, MappingError, QuotaError, RateLimited, Rejected, Unavailable
from bench.model import ChatMessage, Prompt
from bench.models.anthropic import Anthropic
from bench.models.chat import with_schema_text, without_refused_feature
from bench.models.dialect import Dialect, ModelFeatures, Reply, error_in_reply, text_of, vector
from bench.models.google import Google
from bench.models.openai import Azure, OpenAI
from tests.rows import each_row

DIALECTS: Mapping[str, Dialect] = {"openai": OpenAI(), "anthropic": Anthropic(), "google": Google()}
SCHEMA: dict[str, object] = {"type": "object"}
ASKED = Prompt(
    messages=(
        ChatMessage(role="system", content="Be short."),
        ChatMessage(role="user", content="Hello"),
        ChatMessage(role="assistant", content="Yes?"),
        ChatMessage(role="system", content="And kind."),
        ChatMessage(role="user", content="Where?"),
    ),
    max_tokens=50,
    temperature=0.25,
    seed=7,
    json_schema=SCHEMA,
)
NOTHING = ModelFeatures(temperature=False, seed=False, schema=False, tokens_name="max_completion_tokens")


# ------------------------------------------------------------------------ request bodies


def test_openai_bodies_contain_every_message_in_order() -> None:
    assert OpenAI().chat_body("m", ASKED, ModelFeatures()) == {
        "model": "m",
        "messages": [{"role": one.role, "content": one.content} for one in ASKED.messages],
        "max_tokens": 50,
        "temperature": 0.25,
        "seed": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
        },
    }
    assert OpenAI().chat_body("m", ASKED, NOTHING) == {
        "model": "m",
        "messages": [{"role": one.role, "content": one.content} for one in ASKED.messages],
        "max_completion_tokens": 50,
    }


def test_anthropic_bodies_join_system_texts_and_force_one_tool() -> None:
    turns = [{"role": one.role, "content": one.content} for one in ASKED.messages if one.role != "system"]
    body = Anthropic().chat_body("m", ASKED, ModelFeatures(seed=False))
    assert body == {
        "model": "m",
        "max_tokens": 50,
        "messages": turns,
        "system": "Be short.\n\nAnd kind.",
        "temperature": 0.25,
        "tools": [{"name": "reply", "description": "Give the reply.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "tool", "name": "reply"},
    }
    plain = Prompt(messages=(ChatMessage(role="user", content="Hi"),), max_tokens=5)
    assert Anthropic().chat_body("m", plain, NOTHING) == {
        "model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}],
    }  # fmt: skip


def test_google_bodies_use_role_model_and_generationConfig() -> None:
    assert Google().chat_body("m", ASKED, ModelFeatures()) == {
        "contents": [
            {"role": "user", "parts": [{"text": "Hello"}]},
            {"role": "model", "parts": [{"text": "Yes?"}]},
            {"role": "user", "parts": [{"text": "Where?"}]},
        ],
        "generationConfig": {
            "maxOutputTokens": 50,
            "temperature": 0.25,
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
        "systemInstruction": {"parts": [{"text": "Be short."}, {"text": "And kind."}]},
    }
    plain = Prompt(messages=(ChatMessage(role="user", content="Hi"),), max_tokens=5)
    assert Google().chat_body("m", plain, NOTHING) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 5},
    }  # fmt: skip


@each_row(
    ("dialect", "base", "model", "chat", "embed"),
    [
        (OpenAI(), "http://h/v1", "a/b", "http://h/v1/chat/completions", "http://h/v1/embeddings"),
        (
            Azure(api_version="2024 10"), "http://h", "my model",
            "http://h/openai/deployments/my%20model/chat/completions?api-version=2024%2010",
            "http://h/openai/deployments/my%20model/embeddings?api-version=2024%2010",
        ),
        (
            Google(), "http://h", "tuned/x",
            "http://h/v1beta/models/tuned%2Fx:generateContent", "http://h/v1beta/models/tuned%2Fx:batchEmbedContents",
        ),
        (
            Google(), "http://h/v1beta", "m",
            "http://h/v1beta/models/m:generateContent", "http://h/v1beta/models/m:batchEmbedContents",
        ),
    ],
)  # fmt: skip
def test_each_dialect_builds_its_URLs(dialect: Dialect, base: str, model: str, chat: str, embed: str) -> None:
    assert (dialect.chat_url(base, model), dialect.embed_url(base, model)) == (chat, embed)


@pytest.mark.parametrize("base", ["http://h", "http://h/v1"])
def test_anthropic_URLs_work_with_and_without_version_and_embedding_fails(base: str) -> None:
    assert Anthropic().chat_url(base, "m") == "http://h/v1/messages"
    for ask in (
        lambda: Anthropic().embed_url(base, "m"),
        lambda: Anthropic().embed_body("m", ["x"], None),
        lambda: Anthropic().read_vectors({}),
    ):
        with pytest.raises(ConfigError, match=r"is not an embedding model|has no embeddings"):
            ask()


@pytest.mark.parametrize("dimensions", [None, 3])
def test_embedding_bodies_contain_the_texts_in_order_and_the_dimension(dimensions: int | None) -> None:
    texts = ["one", "", "two"]
    size = {} if dimensions is None else {"dimensions": 3}
    expected = {"model": "m", "input": texts, "encoding_format": "float", **size}
    assert OpenAI().embed_body("m", texts, dimensions) == expected
    wanted = {} if dimensions is None else {"outputDimensionality": 3}
    assert Google().embed_body("m", texts, dimensions) == {
        "requests": [{"model": "models/m", "content": {"parts": [{"text": text}]}, **wanted} for text in texts]
    }


# ------------------------------------------------------------------------ responses


def openai(**message: object) -> dict[str, object]:
    return {"model": "m-1", "choices": [{"finish_reason": "stop", "message": message}]}


def anthropic(*blocks: object, stop: str = "end_turn") -> dict[str, object]:
    return {"type": "message", "model": "m-1", "content": list(blocks), "stop_reason": stop}


def google(*parts: object, finish: str = "STOP") -> dict[str, object]:
    return {"modelVersion": "m-1", "candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}]}


@each_row(
    ("dialect", "body", "reply"),
    [
        ("openai", openai(content="Lisbon"), Reply(text="Lisbon", model="m-1", finish="stop")),
        ("openai", openai(content=None), Reply(text="", model="m-1", finish="stop")),
        ("openai", openai(), Reply(text="", model="m-1", finish="stop")),
        (
            "openai",
            openai(content=[{"type": "text", "text": "Lis"}, {"type": "image"}, {"text": "bon"}]),
            Reply(text="Lisbon", model="m-1", finish="stop"),
        ),
        ("openai", openai(refusal="I may not"), Reply(text="I may not", model="m-1", finish="refusal")),
        ("openai", openai(content="x", refusal=""), Reply(text="x", model="m-1", finish="stop")),
        (
            "openai",
            {**openai(content="x"), "model": "", "system_fingerprint": "fp", "error": {"code": 500}},
            Reply(text="x", model=None, finish="stop", fingerprint="fp"),
        ),
        ("anthropic", anthropic({"type": "text", "text": "Lisbon"}), Reply(text="Lisbon", model="m-1", finish="stop")),
        (
            "anthropic",
            anthropic({"type": "thinking", "thinking": "hm", "text": "no"}, {"type": "text", "text": "yes"}),
            Reply(text="yes", model="m-1", finish="stop"),
        ),
        (
            "anthropic",
            anthropic({"type": "text", "text": "x"}, {"type": "tool_use", "name": "reply", "input": {"a": "\u00e9"}}),
            Reply(text='{"a": "\u00e9"}', model="m-1", finish="stop"),
        ),
        (
            "anthropic",
            anthropic(
                {"type": "tool_use", "name": "other", "input": {}}, {"type": "text", "text": "x"}, stop="tool_use"
            ),
            Reply(text="", model="m-1", finish="other"),
        ),
        ("anthropic", anthropic(stop="refusal"), Reply(text="", model="m-1", finish="refusal")),
        ("anthropic", anthropic(stop="pause_turn"), Reply(text="", model="m-1", finish="other")),
        ("google", google({"text": "Lis"}, {"text": "bon"}), Reply(text="Lisbon", model="m-1", finish="stop")),
        ("google", google({"text": "hm", "thought": True}, {"text": "x"}), Reply(text="x", model="m-1", finish="stop")),
        ("google", google({"functionCall": {}}, 5), Reply(text="", model="m-1", finish="other")),
        ("google", google(finish="RECITATION"), Reply(text="", model="m-1", finish="refusal")),
        ("google", google(finish="NEW_REASON"), Reply(text="", model="m-1", finish="other")),
        (
            "google",
            {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "m-1"},
            Reply(text="", model="m-1", finish="refusal"),
        ),
        (
            "google",
            {**google({"text": "x"}), "promptFeedback": {"blockReason": "SAFETY"}},
            Reply(text="x", model="m-1", finish="refusal"),
        ),
        (
            "google",
            {"candidates": [{"finishReason": "MAX_TOKENS"}]},
            Reply(text="", model=None, finish="length"),
        ),
    ],
)
def test_read_chat_returns_text_model_and_finish(dialect: str, body: object, reply: Reply) -> None:
    assert DIALECTS[dialect].read_chat(body) == reply


@each_row(
    ("dialect", "body", "message"),
    [
        ("openai", [], "chat answer: expected an object; got []"),
        ("openai", {}, 'chat answer: "choices" is missing or empty; got {}'),
        ("openai", {"choices": []}, 'chat answer: "choices" is missing or empty; got'),
        ("openai", {"choices": [5]}, "chat answer, choices[0]: expected an object; got 5"),
        ("openai", {"choices": [{}]}, "chat answer, choices[0].message: expected an object; got null"),
        ("anthropic", "x", "message answer: expected an object"),
        ("anthropic", {"content": "x"}, "message answer, content: expected a list"),
        ("google", {"candidates": None}, "generateContent answer, candidates: expected a list; got null"),
        ("google", {"candidates": []}, "candidates[0]: expected an object; got null"),
        ("google", {"promptFeedback": {}}, "generateContent answer, candidates: expected a list"),
    ],
)
def test_read_chat_reports_where_a_body_has_another_shape(dialect: str, body: object, message: str) -> None:
    with pytest.raises(MappingError) as caught:
        DIALECTS[dialect].read_chat(body)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai", {"data": [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}]}),
        ("openai", {"data": [{"embedding": [1]}, {"embedding": [2]}]}),
        ("google", {"embeddings": [{"values": [1]}, {"values": [2.0]}]}),
    ],
)
def test_read_vectors_returns_vectors_in_the_order_of_the_texts(dialect: str, body: object) -> None:
    assert DIALECTS[dialect].read_vectors(body) == [(1.0,), (2.0,)]


@each_row(
    ("dialect", "body", "message"),
    [
        (
            "openai",
            {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]},
            'expected each "index" from 0 to',
        ),
        ("openai", {"data": [{"index": 1, "embedding": [1]}]}, 'expected each "index" from 0 to 0'),
        ("openai", {"data": [{"index": True, "embedding": [1]}]}, 'expected a whole number as "index"'),
        ("openai", {"data": [{"index": "0", "embedding": [1]}]}, 'expected a whole number as "index"'),
        ("openai", {"data": [{"embedding": []}]}, "expected a list of finite numbers"),
        ("openai", {"data": [{"embedding": "AAAA"}]}, "expected a list; got"),
        ("openai", {"data": [5]}, "data[0]: expected an object; got 5"),
        ("openai", {"data": None}, "embeddings, data: expected a list"),
        ("google", {"embeddings": [{"values": [1, None]}]}, "expected a list of finite numbers"),
        ("google", {"embeddings": [[1]]}, "embeddings[0]: expected an object"),
        ("google", {}, "embeddings: expected a list; got null"),
    ],
)
def test_read_vectors_refuses_bodies_of_another_shape(dialect: str, body: object, message: str) -> None:
    with pytest.raises(MappingError) as caught:
        DIALECTS[dialect].read_vectors(body)
    assert message in caught.value.message


@each_row("number", [float("nan"), float("inf"), float("-inf"), 10**400, True, "1", None, [1]])
def test_a_vector_contains_only_finite_numbers(number: object) -> None:
    with pytest.raises(MappingError, match="finite numbers"):
        vector([0.5, number], "embeddings")


@each_row(
    ("error", "kind"),
    [
        ({"code": 401}, AuthError),
        ({"status": 403}, AuthError),
        ({"code": 402}, QuotaError),
        ({"code": "429"}, RateLimited),
        ({"code": 400}, Rejected),
        ({"code": 503}, Unavailable),
        ({"code": "insufficient_quota"}, QuotaError),
        ({"code": 0, "type": "invalid_request_error"}, Rejected),
        ({"code": 40001, "status": 401}, AuthError),
        ({"message": "busy"}, Unavailable),
        ("busy", Unavailable),
        (None, Unavailable),
    ],
)
def test_an_error_in_a_good_response_has_the_kind_of_its_code(error: object, kind: type[CallError]) -> None:
    assert type(error_in_reply(error)) is kind


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "google"])
def test_every_dialect_raises_an_error_in_a_good_response(dialect: str) -> None:
    with pytest.raises(RateLimited):
        DIALECTS[dialect].read_chat({"error": {"code": 429}})
    if dialect != "anthropic":
        with pytest.raises(RateLimited):
            DIALECTS[dialect].read_vectors({"error": {"code": 429}})


def test_an_error_body_of_anthropic_is_raised() -> None:
    with pytest.raises(CallError):
        Anthropic().read_chat({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})


TREES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "candidates",
                    "parts",
                    "text",
                    "error",
                    "data",
                    "embeddings",
                    "embedding",
                    "values",
                    "index",
                    "type",
                    "code",
                ]
            ),
            below,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(body=TREES)
@pytest.mark.parametrize("dialect", ["openai", "google"])
def test_any_body_is_a_reply_or_a_CallError(dialect: str, body: object) -> None:
    for read in (DIALECTS[dialect].read_chat, DIALECTS[dialect].read_vectors):
        try:
            read(body)
        except CallError as error:
            assert str(error)


@each_row(
    ("value", "text"),
    [
        ("x", "x"),
        ([{"text": "a"}, {"text": [{"text": "b"}]}, 5, {"text": None}], "ab"),
        (None, ""),
        ({"text": "x"}, ""),
    ],
)
def test_text_of_joins_the_texts_of_blocks(value: object, text: str) -> None:
    assert text_of(value) == text


# ------------------------------------------------------------------------ refused settings


@each_row(
    ("refusal", "learnt"),
    [
        ("m -> 400: use max_completion_tokens", ModelFeatures(tokens_name="max_completion_tokens")),
        ("m -> 400: temperature is fixed", ModelFeatures(temperature=False)),
        ("m -> 422: unknown field response_format", ModelFeatures(schema=False)),
        ("m -> 400: tool_choice is not supported", ModelFeatures(schema=False)),
        ("m -> 400: seed is unknown", ModelFeatures(seed=False)),
        ("m -> 400: the prompt is too long", None),
        ("m -> 404: temperature", None),
        ("m -> 500: temperature", None),
    ],
)
def test_a_refusal_that_names_a_setting_disables_it(refusal: str, learnt: ModelFeatures | None) -> None:
    assert without_refused_feature(ModelFeatures(), refusal) == learnt
    if learnt is not None:
        assert without_refused_feature(learnt, refusal) is None


def test_all_settings_can_be_disabled_in_turn() -> None:
    features, refusals = (
        ModelFeatures(),
        ["-> 400 temperature", "-> 400 seed", "-> 400 tools", "-> 400 max_completion_tokens"],
    )
    for refusal in refusals:
        features = without_refused_feature(features, refusal) or features
    assert features == NOTHING


def test_with_schema_text_appends_the_schema_to_the_last_message() -> None:
    prompt = with_schema_text(ASKED, {"b": 1, "a": "\u00e9"})
    assert prompt.messages[:-1] == ASKED.messages[:-1]
    before, _, schema = prompt.messages[-1].content.rpartition("\n")
    assert before == "Where?\n\nReply with one JSON object and nothing else. It must fit this JSON Schema:"
    assert (schema, json.loads(schema)) == ('{"a": "\u00e9", "b": 1}', {"a": "\u00e9", "b": 1})
