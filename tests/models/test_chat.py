"""Chat models in each dialect: requests, responses, and settings omitted after a refusal."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bench.config.model import ModelFile
from bench.errors import AuthError, ConfigError, MappingError, QuotaError, RateLimited, Rejected, Unavailable
from bench.http import Http, recording
from bench.model import ChatMessage, Completion, Model, Prompt, Usage
from bench.models import open_model
from bench.settings import Environment
from tests.rows import each_row

Plays = Callable[..., Awaitable[Any]]
SCHEMA = {
    "type": "object",
    "properties": {"correct": {"type": "boolean"}},
    "required": ["correct"],
    "additionalProperties": False,
}


def openai(text: str | None = "Lisbon", finish: str = "stop", **more: object) -> dict[str, object]:
    return {
        "model": "gpt-4o-2024-11-20",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **more}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 2, "total_tokens": 22},
    }


def anthropic(text: str = "Lisbon", stop: str = "end_turn") -> dict[str, object]:
    return {
        "type": "message",
        "model": "claude-sonnet-4-5-20250929",
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop,
        "usage": {"input_tokens": 20, "output_tokens": 2},
    }


def google(text: str = "Lisbon", finish: str = "STOP") -> dict[str, object]:
    return {
        "modelVersion": "gemini-2.5-flash-001",
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 2},
    }


def environment(url: str) -> Environment:
    return Environment(
        values={
            "OPENAI_API_KEY": "key-openai",
            "OPENAI_BASE_URL": f"{url}/v1",
            "ANTHROPIC_API_KEY": "key-anthropic",
            "ANTHROPIC_BASE_URL": url,
            "GEMINI_API_KEY": "key-google",
            "GOOGLE_BASE_URL": url,
            "OLLAMA_BASE_URL": f"{url}/v1",
            "AZURE_OPENAI_ENDPOINT": url,
            "AZURE_OPENAI_API_KEY": "key-azure",
            "AZURE_OPENAI_API_VERSION": "2025-01-01",
            "GROQ_API_KEY": "key-groq",
            "GROQ_BASE_URL": f"{url}/openai/v1",
        }
    )


async def ask(
    endpoint: Any,
    prompt: Prompt,
    name: str = "openai/gpt-4o",
    times: int = 1,
    price: Callable[..., str | None] | None = None,
    files: Mapping[str, ModelFile] | None = None,
) -> Completion:
    async with Http(random=random.Random(1)) as http:
        model: Model = open_model(
            name, http=http, environment=environment(endpoint.url), role="answering", price=price, files=files
        )
        assert model.name == name
        for _ in range(times - 1):
            await model.complete(prompt)
        return await model.complete(prompt)


async def test_openai_requests_have_the_documented_body_and_headers(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(openai())
    answer = await ask(endpoint, prompt)
    assert endpoint.bodies == [
        {
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "Where does she live?"},
            ],
            "max_tokens": 256,
            "temperature": 0.0,
            "seed": 7,
        }
    ]
    path, headers = endpoint.requests[0]
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer key-openai"
    assert answer.text == "Lisbon" and answer.finish == "stop" and answer.ignored == ()
    assert answer.model == "gpt-4o-2024-11-20" and answer.fingerprint == "fp_1"
    assert answer.usage == Usage(input_tokens=20, output_tokens=2, total_tokens=22)
    assert answer.latency_us > 0 and answer.attempts == 1


async def test_anthropic_requests_have_a_separate_system_text_and_their_own_headers(
    plays: Plays, prompt: Prompt
) -> None:
    endpoint = await plays(anthropic())
    answer = await ask(endpoint, prompt, "anthropic/claude-sonnet-4-5")
    assert endpoint.bodies == [
        {
            "model": "claude-sonnet-4-5",
            "max_tokens": 256,
            "messages": [{"role": "user", "content": "Where does she live?"}],
            "system": "Be short.",
            "temperature": 0.0,
        }
    ]
    path, headers = endpoint.requests[0]
    assert path == "/v1/messages"
    assert headers["x-api-key"] == "key-anthropic" and headers["anthropic-version"] == "2023-06-01"
    assert answer.text == "Lisbon" and answer.model == "claude-sonnet-4-5-20250929"
    assert answer.ignored == ("seed",)


async def test_google_requests_have_contents_and_no_key_in_the_URL(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(google())
    answer = await ask(endpoint, prompt, "google/gemini-2.5-flash")
    assert endpoint.bodies == [
        {
            "contents": [{"role": "user", "parts": [{"text": "Where does she live?"}]}],
            "generationConfig": {"maxOutputTokens": 256, "temperature": 0.0, "seed": 7},
            "systemInstruction": {"parts": [{"text": "Be short."}]},
        }
    ]
    path, headers = endpoint.requests[0]
    assert path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert headers["x-goog-api-key"] == "key-google"
    assert answer.text == "Lisbon" and answer.model == "gemini-2.5-flash-001" and answer.fingerprint is None


async def test_azure_requests_use_the_deployment_URL(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(openai())
    await ask(endpoint, prompt, "azure/my-deployment")
    path, headers = endpoint.requests[0]
    assert path == "/openai/deployments/my-deployment/chat/completions?api-version=2025-01-01"
    assert headers["api-key"] == "key-azure" and "Authorization" not in headers


async def test_slashes_in_a_model_name_are_preserved(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(openai())
    await ask(endpoint, prompt, "groq/meta-llama/llama-3.3-70b")
    assert endpoint.bodies[0]["model"] == "meta-llama/llama-3.3-70b"
    assert endpoint.requests[0][0] == "/openai/v1/chat/completions"


async def test_each_dialect_sends_a_schema_in_its_own_form(plays: Plays, prompt: Prompt) -> None:
    wanted = replace(prompt, json_schema=SCHEMA, max_tokens=512)
    one = await plays(openai('{"correct": true}'))
    await ask(one, wanted)
    assert one.bodies[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
    }
    two = await plays(
        {
            **anthropic(),
            "content": [{"type": "tool_use", "id": "t", "name": "reply", "input": {"correct": True}}],
            "stop_reason": "tool_use",
        }
    )
    answer = await ask(two, wanted, "anthropic/claude-sonnet-4-5")
    assert two.bodies[0]["tool_choice"] == {"type": "tool", "name": "reply"}
    assert two.bodies[0]["tools"][0]["input_schema"] == SCHEMA
    assert json.loads(answer.text) == {"correct": True} and answer.finish == "stop"
    three = await plays(google('{"correct": true}'))
    await ask(three, wanted, "google/gemini-2.5-flash")
    settings = three.bodies[0]["generationConfig"]
    assert settings["responseMimeType"] == "application/json" and settings["responseJsonSchema"] == SCHEMA


async def test_a_model_that_refuses_schemas_gets_the_schema_as_text(plays: Plays, prompt: Prompt) -> None:
    refusal = (400, {"error": {"message": "'response_format' of type 'json_schema' is not supported"}})
    endpoint = await plays(refusal, openai('{"correct": true}'))
    answer = await ask(endpoint, replace(prompt, json_schema=SCHEMA), times=2)
    assert "response_format" not in endpoint.bodies[1] and "response_format" not in endpoint.bodies[2]
    assert '"correct"' in endpoint.bodies[1]["messages"][-1]["content"]
    assert answer.text == '{"correct": true}'


async def test_a_refused_temperature_is_omitted_in_later_requests(plays: Plays, prompt: Prompt) -> None:
    text = "Unsupported value: 'temperature' does not support 0 with this model."
    endpoint = await plays((400, {"error": {"message": text, "param": "temperature"}}), openai())
    answer = await ask(endpoint, prompt, times=3)
    assert ["temperature" in body for body in endpoint.bodies] == [True, False, False, False]
    assert answer.ignored == ("temperature",)


async def test_fixed_temperature_of_the_model_file_is_never_sent(plays: Plays, prompt: Prompt) -> None:
    file = ModelFile.model_validate({"name": "openai", "models": {"o3": {"fixed_temperature": True}}})
    endpoint = await plays(openai())
    answer = await ask(endpoint, prompt, "openai/o3", files={"openai": file})
    assert "temperature" not in endpoint.bodies[0] and answer.ignored == ("temperature",)


async def test_max_completion_tokens_is_used_after_a_refusal_of_max_tokens(plays: Plays, prompt: Prompt) -> None:
    text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    endpoint = await plays((400, {"error": {"message": text}}), openai())
    await ask(endpoint, prompt, times=2)
    assert "max_tokens" in endpoint.bodies[0]
    assert [body.get("max_completion_tokens") for body in endpoint.bodies] == [None, 256, 256]


async def test_several_refused_settings_are_omitted_one_after_another(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(
        (400, {"error": {"message": "Use 'max_completion_tokens' instead of 'max_tokens'"}}),
        (400, {"error": {"message": "temperature is fixed"}}),
        (422, {"detail": "seed: extra fields not permitted"}),
        openai(),
    )
    answer = await ask(endpoint, prompt)
    assert endpoint.bodies[-1].keys() == {"model", "messages", "max_completion_tokens"}
    assert answer.ignored == ("temperature", "seed")


async def test_any_other_refusal_is_raised(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays((400, {"error": {"message": "context length exceeded"}}))
    with pytest.raises(Rejected, match="context length exceeded"):
        await ask(endpoint, prompt)
    assert len(endpoint.bodies) == 1


@each_row(
    ("name", "body", "finish"),
    [
        ("openai/x", openai(finish="stop"), "stop"),
        ("openai/x", openai(finish="length"), "length"),
        ("openai/x", openai(finish="content_filter"), "refusal"),
        ("openai/x", openai(None, refusal="I cannot help."), "refusal"),
        ("openai/x", openai(finish="tool_calls"), "other"),
        ("anthropic/x", anthropic(stop="end_turn"), "stop"),
        ("anthropic/x", anthropic(stop="stop_sequence"), "stop"),
        ("anthropic/x", anthropic(stop="max_tokens"), "length"),
        ("anthropic/x", anthropic(stop="model_context_window_exceeded"), "length"),
        ("anthropic/x", anthropic(stop="refusal"), "refusal"),
        ("anthropic/x", anthropic(stop="pause_turn"), "other"),
        ("google/x", google(finish="STOP"), "stop"),
        ("google/x", google(finish="MAX_TOKENS"), "length"),
        *(
            ("google/x", google(finish=reason), "refusal")
            for reason in ("SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "RECITATION")
        ),
        (
            "google/x",
            {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}},
            "refusal",
        ),
        ("google/x", google(finish="LANGUAGE"), "other"),
    ],
)
async def test_each_finish_reason_maps_to_one_of_four_values(
    plays: Plays, prompt: Prompt, name: str, body: dict[str, object], finish: str
) -> None:
    assert (await ask(await plays(body), prompt, name)).finish == finish


async def test_the_text_of_a_refusal_is_returned(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(openai(None, refusal="I cannot help with that."))
    answer = await ask(endpoint, prompt)
    assert answer.text == "I cannot help with that." and len(endpoint.bodies) == 1


async def test_an_empty_answer_is_requested_once_more_and_both_are_paid(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(openai("  "), openai("Lisbon"))
    answer = await ask(endpoint, prompt, price=lambda *_args, **_named: "0.5")
    assert answer.text == "Lisbon" and len(endpoint.bodies) == 2
    assert answer.usage is not None and answer.usage.total_tokens == 44
    assert answer.cost_usd == "1.0" and answer.attempts == 2


async def test_an_answer_that_is_empty_twice_is_returned_as_empty(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(openai(None))
    answer = await ask(endpoint, prompt)
    assert answer.text == "" and answer.finish == "stop" and len(endpoint.bodies) == 2


async def test_an_empty_truncated_answer_is_not_requested_again(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(openai("", finish="length"))
    assert (await ask(endpoint, prompt)).finish == "length" and len(endpoint.bodies) == 1


async def test_google_text_parts_are_joined_without_thoughts(plays: Plays, prompt: Prompt) -> None:
    body = google()
    body["candidates"][0]["content"]["parts"] = [  # type: ignore[index]
        {"text": "Let me think.", "thought": True},
        {"text": "In "},
        {"text": "Lisbon"},
    ]
    assert (await ask(await plays(body), prompt, "google/x")).text == "In Lisbon"


@each_row(
    ("name", "body"),
    [
        ("openai/x", {}),
        ("openai/x", {"choices": []}),
        ("openai/x", {"choices": ["x"]}),
        ("openai/x", {"choices": [{"message": None}]}),
        ("openai/x", []),
        ("anthropic/x", {"content": "text"}),
        ("anthropic/x", {}),
        ("google/x", {}),
        ("google/x", {"candidates": []}),
    ],
)
async def test_a_body_of_another_shape_is_a_MappingError_without_retry(
    plays: Plays, prompt: Prompt, name: str, body: object
) -> None:
    endpoint = await plays(body)
    with pytest.raises(MappingError):
        await ask(endpoint, prompt, name)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "slow down"}, RateLimited),
        ({"code": 401, "message": "bad key"}, AuthError),
        ({"code": 402, "message": "no credit"}, QuotaError),
        ({"code": 400, "message": "bad model"}, Rejected),
    ],
)
async def test_an_error_in_a_200_response_has_the_kind_of_its_code(
    plays: Plays, prompt: Prompt, error: dict[str, object], kind: type[Exception]
) -> None:
    from bench.models.dialect import error_in_reply

    assert type(error_in_reply(error)) is kind
    if kind is not RateLimited:
        with pytest.raises(kind):
            await ask(await plays({"error": error}), prompt)


async def test_i3_an_error_text_in_a_200_response_is_retried(plays: Plays, prompt: Prompt) -> None:
    from bench.models.dialect import error_in_reply

    assert type(error_in_reply("internal failure")) is Unavailable
    endpoint = await plays({"error": {"code": 502, "message": "upstream"}}, openai())
    assert (await ask(endpoint, prompt)).text == "Lisbon" and len(endpoint.bodies) == 2


async def test_the_call_log_contains_model_usage_and_price_of_each_attempt(plays: Plays, prompt: Prompt) -> None:
    call_price: list[tuple[str, Usage, str | None]] = []

    def price(name: str, usage: Usage, *, returned: str | None, when: datetime, batch: bool = False) -> str:
        call_price.append((name, usage, returned))
        assert when.tzinfo is not None
        return "0.0123"

    endpoint = await plays((503, {}), openai())
    with recording() as calls:
        answer = await ask(endpoint, prompt, price=price)
    assert answer.cost_usd == "0.0123" and answer.attempts == 2
    assert [(call.outcome, call.model, call.cost_usd) for call in calls] == [
        ("unavailable", None, None),
        ("ok", "gpt-4o-2024-11-20", "0.0123"),
    ]
    assert calls[1].endpoint == "openai/gpt-4o.answering" and calls[1].role == "answering"
    assert calls[1].usage == answer.usage
    assert call_price == [("openai/gpt-4o", answer.usage, "gpt-4o-2024-11-20")]


async def test_s12_an_unknown_price_is_None_and_a_free_model_costs_0(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays(openai())
    assert (await ask(endpoint, prompt)).cost_usd is None
    assert (await ask(endpoint, prompt, price=lambda *_args, **_named: None)).cost_usd is None
    assert (await ask(endpoint, prompt, "ollama/qwen3")).cost_usd == "0"


async def test_an_estimated_usage_has_no_price(plays: Plays, prompt: Prompt) -> None:
    body = openai()
    del body["usage"]
    answer = await ask(await plays(body), prompt, price=lambda *_args, **_named: "1")
    assert answer.usage is not None and answer.usage.estimated and answer.usage.output_tokens == 2
    assert answer.cost_usd is None


async def test_w4_a_refused_key_names_its_variable_and_not_the_key(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays((401, {"error": {"message": "Incorrect API key provided: key-openai"}}))
    with pytest.raises(AuthError) as caught:
        await ask(endpoint, prompt)
    assert "OPENAI_API_KEY" in str(caught.value) and "401" in str(caught.value)
    assert "key-openai" not in str(caught.value)


async def test_an_exhausted_quota_stops_without_retry(plays: Plays, prompt: Prompt) -> None:
    endpoint = await plays((429, {"error": {"code": "insufficient_quota", "message": "check your plan"}}))
    with pytest.raises(QuotaError):
        await ask(endpoint, prompt)
    assert len(endpoint.bodies) == 1


async def test_rate_limits_of_a_model_file_apply(plays: Plays, prompt: Prompt) -> None:
    import time

    file = ModelFile.model_validate({"name": "openai", "limits": {"rps": 5, "concurrency": 3}})
    endpoint = await plays(openai())
    started = time.perf_counter()
    await ask(endpoint, prompt, times=4, files={"openai": file})
    assert time.perf_counter() - started > 0.45


@pytest.mark.parametrize("name", ["02_answer_0.json", "03_answer_1.json", "04_answer_2.json", "06_judge_0.json"])
async def test_captured_responses_of_a_real_server_are_read(
    plays: Plays, captured: Callable[[str], Mapping[str, Any]], name: str
) -> None:
    exchange = captured(name)
    sent, body = exchange["request"]["body"], exchange["response"]["body"]
    endpoint = await plays(body)
    prompt = Prompt(
        messages=tuple(ChatMessage(**message) for message in sent["messages"]),
        max_tokens=sent["max_tokens"],
        seed=sent.get("seed"),
    )
    answer = await ask(endpoint, prompt, "ollama/smollm2")
    assert endpoint.bodies == [sent]
    choice = body["choices"][0]
    assert answer.text == choice["message"]["content"] and answer.finish == choice["finish_reason"]
    assert answer.model == body["model"] and answer.fingerprint == body["system_fingerprint"]
    assert answer.usage is not None
    assert answer.usage.total_tokens == body["usage"]["total_tokens"]
    assert answer.usage.cache_read_tokens == body["usage"]["prompt_tokens_details"]["cached_tokens"]


async def test_the_model_of_the_fault_server_answers_from_the_context(fault_server: Callable[..., str]) -> None:
    url = fault_server("chat:status:code=429,calls=1,retry_after=0")
    text = "Context:\n- The code of locker L01 is amber-3.\nQuestion: What is the code of locker L01?"
    async with Http() as http:
        values = {"OLLAMA_BASE_URL": f"{url}/v1"}
        model = open_model("ollama/stub-extract", http=http, environment=Environment(values=values), role="answering")
        answer = await model.complete(Prompt(messages=(ChatMessage(role="user", content=text),)))
    assert answer.text == "amber-3" and answer.attempts == 2


async def test_anthropic_has_no_embedding_models(tmp_path: Path) -> None:
    from bench.models import open_embedder

    with pytest.raises(ConfigError, match="is not an embedding model"):
        open_embedder("anthropic/claude-x", http=Http(), environment=environment("http://127.0.0.1:1"))
