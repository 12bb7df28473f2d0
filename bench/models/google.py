"""Build requests and read responses in Google's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from bench.model import Prompt
from bench.models.dialect import (
    ModelFeatures,
    Reply,
    as_list,
    as_map,
    error_in_reply,
    finish_of,
    refusal_or_error,
    vector,
)
from bench.models.reply import TOOL_CALL
from bench.models.streams import join_google
from bench.untyped_values import text_or_none

API = "v1beta"
TOOL_FINISHES = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")


class Google:
    """The request and response format of ``:generateContent`` and ``:batchEmbedContents``."""

    def chat_url(self, base_url: str, model: str, *, stream: bool = False) -> str:
        call = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{_models_url(base_url)}/{quote(model, safe='')}:{call}"

    def embed_url(self, base_url: str, model: str) -> str:
        return f"{_models_url(base_url)}/{quote(model, safe='')}:batchEmbedContents"

    def chat_body(self, model: str, prompt: Prompt, features: ModelFeatures) -> dict[str, object]:
        settings: dict[str, object] = {"maxOutputTokens": prompt.max_tokens}
        if features.temperature:
            settings["temperature"] = prompt.temperature
        if features.seed and prompt.seed is not None:
            settings["seed"] = prompt.seed
        if features.schema and prompt.json_schema is not None:
            settings |= {"responseMimeType": "application/json", "responseJsonSchema": prompt.json_schema}
        body: dict[str, object] = {
            "contents": [
                {"role": "model" if message.role == "assistant" else "user", "parts": [{"text": message.content}]}
                for message in prompt.messages
                if message.role != "system"
            ],
            "generationConfig": settings,
        }
        system = [{"text": message.content} for message in prompt.messages if message.role == "system"]
        if system:
            body["systemInstruction"] = {"parts": system}
        return body

    def read_chat(self, body: object) -> Reply:
        tree = as_map(body, "generateContent answer")
        if tree.get("error"):
            return refusal_or_error(tree["error"], tree.get("modelVersion"))
        feedback = tree.get("promptFeedback")
        blocked = isinstance(feedback, Mapping) and bool(feedback.get("blockReason"))
        candidates = tree.get("candidates")
        if blocked and not candidates:
            return Reply(
                text="", model=text_or_none(tree.get("modelVersion")), finish="refusal", native_finish="blockReason"
            )
        first = as_map(next(iter(as_list(candidates, "generateContent answer, candidates")), None), "candidates[0]")
        native = text_or_none(first.get("finishReason")) or ""
        calls = native in TOOL_FINISHES or any("functionCall" in part for part in _parts(first.get("content")))
        return Reply(
            text="" if calls else _texts(first.get("content"), thought=False),
            model=text_or_none(tree.get("modelVersion")),
            finish="refusal" if blocked else "other" if calls else finish_of(native),
            native_finish=TOOL_CALL if calls else native,
            reasoning=_texts(first.get("content"), thought=True),
        )

    def join_events(self, events: Sequence[object], *, done: bool) -> object:
        return join_google(events)

    def embed_body(self, model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
        wanted = {} if dimensions is None else {"outputDimensionality": dimensions}
        return {
            "requests": [
                {"model": f"models/{model}", "content": {"parts": [{"text": text}]}, **wanted} for text in texts
            ]
        }

    def read_vectors(self, body: object) -> list[tuple[float, ...]]:
        tree = as_map(body, "embeddings")
        if tree.get("error"):
            raise error_in_reply(tree["error"])
        rows = as_list(tree.get("embeddings"), "embeddings")
        return [
            vector(as_map(row, f"embeddings[{at}]").get("values"), f"embeddings[{at}]") for at, row in enumerate(rows)
        ]


def _models_url(base_url: str) -> str:
    return f"{base_url.removesuffix('/' + API)}/{API}/models"


def _texts(content: object, *, thought: bool) -> str:
    """Return the joined texts of the answer, or of the reasoning if ``thought`` is True."""
    texts = [part.get("text") for part in _parts(content) if bool(part.get("thought")) is thought]
    return "".join(text for text in texts if isinstance(text, str))


def _parts(content: object) -> list[Mapping[str, object]]:
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
