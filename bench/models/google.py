"""The dialect of Google: parts inside contents, settings in ``generationConfig``, finish reasons in capitals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import quote

from bench.model import Prompt
from bench.models.dialect import Reply, Wish, as_list, as_map, error_inside, text_or_none, vector

API = "v1beta"
FINISH: Mapping[object, Literal["stop", "length", "refusal"]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "RECITATION": "refusal",
}


class Google:
    """``:generateContent`` and ``:batchEmbedContents``."""

    def chat_url(self, base_url: str, model: str) -> str:
        return f"{_models_url(base_url)}/{quote(model, safe='')}:generateContent"

    def embed_url(self, base_url: str, model: str) -> str:
        return f"{_models_url(base_url)}/{quote(model, safe='')}:batchEmbedContents"

    def chat_body(self, model: str, prompt: Prompt, wish: Wish) -> dict[str, object]:
        settings: dict[str, object] = {"maxOutputTokens": prompt.max_tokens}
        if wish.temperature:
            settings["temperature"] = prompt.temperature
        if wish.seed and prompt.seed is not None:
            settings["seed"] = prompt.seed
        if wish.schema and prompt.json_schema is not None:
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
            raise error_inside(tree["error"])
        feedback = tree.get("promptFeedback")
        blocked = isinstance(feedback, Mapping) and bool(feedback.get("blockReason"))
        candidates = tree.get("candidates")
        if blocked and not candidates:
            return Reply(text="", model=text_or_none(tree.get("modelVersion")), finish="refusal")
        first = as_map(next(iter(as_list(candidates, "generateContent answer, candidates")), None), "candidates[0]")
        return Reply(
            text=_answer_text(first.get("content")),
            model=text_or_none(tree.get("modelVersion")),
            finish="refusal" if blocked else FINISH.get(first.get("finishReason"), "other"),
        )

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
            raise error_inside(tree["error"])
        rows = as_list(tree.get("embeddings"), "embeddings")
        return [
            vector(as_map(row, f"embeddings[{at}]").get("values"), f"embeddings[{at}]") for at, row in enumerate(rows)
        ]


def _models_url(base_url: str) -> str:
    return f"{base_url.removesuffix('/' + API)}/{API}/models"


def _answer_text(content: object) -> str:
    """The parts that are the answer: a thought is none."""
    parts = content.get("parts") if isinstance(content, Mapping) else None
    if not isinstance(parts, list):
        return ""
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and not part.get("thought")]
    return "".join(text for text in texts if isinstance(text, str))
