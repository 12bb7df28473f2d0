"""Build requests and read responses in the format of OpenAI and of compatible servers, such as Azure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from bench.errors import MappingError
from bench.model import Prompt
from bench.models.dialect import (
    ERROR_FINISHES,
    SCHEMA_NAME,
    ModelFeatures,
    Reply,
    as_list,
    as_map,
    content_text,
    error_in_reply,
    finish_of,
    refusal_or_error,
    shown,
    text_of,
    vector,
)
from bench.models.reply import TOOL_CALL
from bench.models.streams import join_openai
from bench.untyped_values import text_or_none

REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
"""fields in which servers send the model's reasoning apart from the text"""


class OpenAI:
    """The request and response format of ``/chat/completions`` and ``/embeddings``."""

    def chat_url(self, base_url: str, model: str, *, stream: bool = False) -> str:
        return f"{base_url}/chat/completions"

    def embed_url(self, base_url: str, model: str) -> str:
        return f"{base_url}/embeddings"

    def chat_body(self, model: str, prompt: Prompt, features: ModelFeatures) -> dict[str, object]:
        body: dict[str, object] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
            features.tokens_name: prompt.max_tokens,
        }
        if features.temperature:
            body["temperature"] = prompt.temperature
        if features.seed and prompt.seed is not None:
            body["seed"] = prompt.seed
        if features.schema and prompt.json_schema is not None:
            schema = {"name": SCHEMA_NAME, "strict": True, "schema": prompt.json_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if features.stream:
            body |= {"stream": True, **({"stream_options": {"include_usage": True}} if features.stream_usage else {})}
        return body

    def read_chat(self, body: object) -> Reply:
        tree = as_map(body, "chat answer")
        if not tree.get("choices") and (tree.get("error") or tree.get("object") == "error"):
            return refusal_or_error(tree.get("error") or tree, tree.get("model"))
        choices = tree.get("choices")
        if not isinstance(choices, list) or not choices:
            raise MappingError(f'chat answer: "choices" is missing or empty; got {shown(body)}')
        first = next((one for one in choices if isinstance(one, Mapping) and one.get("index") == 0), choices[0])
        choice = as_map(first, "chat answer, choices[0]")
        native = text_or_none(choice.get("finish_reason")) or ""
        message = choice.get("message")
        if message is not None or finish_of(native) in ("stop", "other"):
            message = as_map(message, "chat answer, choices[0].message")
        reply = _reply(tree, message or {}, native)
        error = choice.get("error") or (tree.get("error") if not reply.text.strip() else None)
        if error or native.lower() in ERROR_FINISHES:
            return refusal_or_error(error or {"message": f'finish_reason "{native}"'}, tree.get("model"))
        return reply

    def join_events(self, events: Sequence[object], *, done: bool) -> object:
        return join_openai(events, done=done)

    def embed_body(self, model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
        body: dict[str, object] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if dimensions is not None:
            body["dimensions"] = dimensions
        return body

    def read_vectors(self, body: object) -> list[tuple[float, ...]]:
        tree = as_map(body, "embeddings")
        if tree.get("error") and not tree.get("data"):
            raise error_in_reply(tree["error"])
        rows = [
            as_map(row, f"embeddings, data[{at}]")
            for at, row in enumerate(as_list(tree.get("data"), "embeddings, data"))
        ]
        by_index = {_index(row, at): row for at, row in enumerate(rows)}
        if sorted(by_index) != list(range(len(rows))):
            raise MappingError(
                f'embeddings: expected each "index" from 0 to {len(rows) - 1} once; got {shown(sorted(by_index))}'
            )
        return [vector(by_index[at].get("embedding"), f"embeddings, index {at}") for at in range(len(rows))]


@dataclass(frozen=True, slots=True)
class Azure(OpenAI):
    """OpenAI's format with the URLs of Azure: the model is a deployment, the API version a query parameter."""

    api_version: str

    def chat_url(self, base_url: str, model: str, *, stream: bool = False) -> str:
        return self._url(base_url, model, "chat/completions")

    def embed_url(self, base_url: str, model: str) -> str:
        return self._url(base_url, model, "embeddings")

    def _url(self, base_url: str, model: str, call: str) -> str:
        deployment, version = quote(model, safe=""), quote(self.api_version, safe="")
        return f"{base_url}/openai/deployments/{deployment}/{call}?api-version={version}"


def _reply(tree: Mapping[str, object], message: Mapping[str, object], native: str) -> Reply:
    content, refused = message.get("content"), message.get("refusal")
    refusal = text_or_none(refused) if refused else None
    if refusal is None and isinstance(content, list):
        refusal = _refusal_text(content)
    finish = "refusal" if refusal else finish_of(native)
    calls = bool(message.get("tool_calls") or message.get("function_call"))
    if calls or native in (TOOL_CALL, "function_call"):
        finish, native = "other", TOOL_CALL
    return Reply(
        text="" if native == TOOL_CALL else content_text(content, "chat answer, content") or refusal or "",
        model=text_or_none(tree.get("model")),
        finish=finish,
        fingerprint=text_or_none(tree.get("system_fingerprint")),
        native_finish=native,
        reasoning=_reasoning(message),
    )


def _reasoning(message: Mapping[str, object]) -> str:
    for name in REASONING:
        if name in message and (text := text_of(message[name])):
            return text
    return ""


def _refusal_text(content: Sequence[object]) -> str | None:
    for part in content:
        if isinstance(part, Mapping) and (text := text_or_none(part.get("refusal"))):
            return text
    return None


def _index(row: Mapping[str, object], position: int) -> int:
    index = row.get("index", position)
    if isinstance(index, bool) or not isinstance(index, int):
        raise MappingError(f'embeddings: expected a whole number as "index"; got {shown(index)}')
    return index
