"""The dialect of Anthropic: the system text apart, content in blocks, a schema as one forced tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from bench.errors import ConfigError
from bench.model import Prompt
from bench.models.dialect import SCHEMA_NAME, Reply, Wish, as_list, as_map, error_inside, text_of, text_or_none

FINISH: Mapping[object, Literal["stop", "length", "refusal"]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class Anthropic:
    """``/v1/messages``."""

    def chat_url(self, base_url: str, model: str) -> str:
        return f"{base_url.removesuffix('/v1')}/v1/messages"

    def chat_body(self, model: str, prompt: Prompt, wish: Wish) -> dict[str, object]:
        system = "\n\n".join(message.content for message in prompt.messages if message.role == "system")
        body: dict[str, object] = {
            "model": model,
            "max_tokens": prompt.max_tokens,
            "messages": [
                {"role": message.role, "content": message.content}
                for message in prompt.messages
                if message.role != "system"
            ],
        }
        if system:
            body["system"] = system
        if wish.temperature:
            body["temperature"] = prompt.temperature
        if wish.schema and prompt.json_schema is not None:
            tool = {"name": SCHEMA_NAME, "description": "Give the reply.", "input_schema": prompt.json_schema}
            body["tools"] = [tool]
            body["tool_choice"] = {"type": "tool", "name": SCHEMA_NAME}
        return body

    def read_chat(self, body: object) -> Reply:
        tree = as_map(body, "message answer")
        if tree.get("type") == "error" or (tree.get("error") and "content" not in tree):
            raise error_inside(tree.get("error"))
        blocks = as_list(tree.get("content"), "message answer, content")
        return Reply(
            text=_tool_input(blocks) or text_of([block for block in blocks if _is_text(block)]),
            model=text_or_none(tree.get("model")),
            finish=FINISH.get(tree.get("stop_reason"), "other"),
        )

    def embed_url(self, base_url: str, model: str) -> str:
        raise ConfigError(f"anthropic/{model} cannot embed", hint="name an embedding model of another provider")

    def embed_body(self, model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
        raise ConfigError(f"anthropic/{model} cannot embed", hint="name an embedding model of another provider")

    def read_vectors(self, body: object) -> list[tuple[float, ...]]:
        raise ConfigError("the anthropic dialect has no embeddings", hint="name a model of another provider")


def _tool_input(blocks: Sequence[object]) -> str:
    """What the forced tool was called with, as JSON text: the same form in which other dialects answer."""
    for block in blocks:
        if isinstance(block, Mapping) and block.get("type") == "tool_use" and block.get("name") == SCHEMA_NAME:
            return json.dumps(block.get("input"), ensure_ascii=False)
    return ""


def _is_text(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text"
