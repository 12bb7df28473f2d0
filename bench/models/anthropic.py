"""Build requests and read responses in Anthropic's format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bench.errors import ConfigError
from bench.model import Prompt
from bench.models.dialect import (
    SCHEMA_NAME,
    ModelFeatures,
    Reply,
    as_list,
    as_map,
    content_text,
    finish_of,
    refusal_or_error,
)
from bench.models.reply import TOOL_CALL
from bench.models.streams import join_anthropic
from bench.tokens import count_tokens
from bench.untyped_values import text_or_none

MIN_CACHED_TOKENS = 1024
"""Anthropic caches the beginning of a prompt only if it has at least this number of tokens"""


class Anthropic:
    """The request and response format of ``/v1/messages``."""

    def chat_url(self, base_url: str, model: str, *, stream: bool = False) -> str:
        return f"{base_url.removesuffix('/v1')}/v1/messages"

    def chat_body(self, model: str, prompt: Prompt, features: ModelFeatures) -> dict[str, object]:
        system = "\n\n".join(message.content for message in prompt.messages if message.role == "system")
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": prompt.max_tokens,
            "messages": [
                {"role": message.role, "content": message.content}
                for message in prompt.messages
                if message.role != "system"
            ],
        }
        if count_tokens(prompt.messages[0].content[: prompt.stable]) >= MIN_CACHED_TOKENS:
            body["messages"][0]["content"] = _cached_blocks(prompt.messages[0].content, prompt.stable)
        if system:
            body["system"] = system
        if features.temperature:
            body["temperature"] = prompt.temperature
        if features.schema and prompt.json_schema is not None:
            tool = {"name": SCHEMA_NAME, "description": "Give the reply.", "input_schema": prompt.json_schema}
            body["tools"] = [tool]
            body["tool_choice"] = {"type": "tool", "name": SCHEMA_NAME}
        if features.stream:
            body["stream"] = True
        return body

    def read_chat(self, body: object) -> Reply:
        tree = as_map(body, "message answer")
        if tree.get("type") == "error" or (tree.get("error") and "content" not in tree):
            return refusal_or_error(tree.get("error"), tree.get("model"))
        blocks = as_list(tree.get("content"), "message answer, content")
        native = text_or_none(tree.get("stop_reason")) or ""
        wanted = _tool_input(blocks)
        if wanted and native == "tool_use":
            return Reply(text=wanted, model=text_or_none(tree.get("model")), finish="stop", native_finish=native)
        text = content_text([block for block in blocks if _has_type(block, "text")], "message answer, content")
        calls = not wanted and (native == "tool_use" or any(_has_type(block, "tool_use") for block in blocks))
        return Reply(
            text="" if calls else wanted or text,
            model=text_or_none(tree.get("model")),
            finish="other" if calls else finish_of(native),
            native_finish=TOOL_CALL if calls else native,
            reasoning="".join(
                text_or_none(block.get("thinking")) or "" for block in blocks if isinstance(block, Mapping)
            ),
        )

    def join_events(self, events: Sequence[object], *, done: bool) -> object:
        return join_anthropic(events)

    def embed_url(self, base_url: str, model: str) -> str:
        raise ConfigError(
            f"anthropic/{model} is not an embedding model", hint="name an embedding model of another provider"
        )

    def embed_body(self, model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
        raise ConfigError(
            f"anthropic/{model} is not an embedding model", hint="name an embedding model of another provider"
        )

    def read_vectors(self, body: object) -> list[tuple[float, ...]]:
        raise ConfigError('the dialect "anthropic" has no embeddings', hint="name a model of another provider")


def _cached_blocks(text: str, stable: int) -> list[dict[str, object]]:
    """Split the text at ``stable`` into two content blocks, and request that the vendor caches the first.

    Return one block if no text follows ``stable``.
    """
    first: dict[str, object] = {"type": "text", "text": text[:stable], "cache_control": {"type": "ephemeral"}}
    return [first, {"type": "text", "text": text[stable:]}] if text[stable:] else [first]


def _tool_input(blocks: Sequence[object]) -> str:
    """Return the input of the forced tool call as JSON text; return "" if the reply has no such call."""
    for block in blocks:
        if isinstance(block, Mapping) and block.get("type") == "tool_use" and block.get("name") == SCHEMA_NAME:
            return json.dumps(block.get("input"), ensure_ascii=False)
    return ""


def _has_type(block: object, kind: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") == kind
