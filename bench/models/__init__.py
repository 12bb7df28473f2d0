"""Open answering, judge and embedding models by name: ``openai/gpt-4o``, ``vllm/qwen3-8b``, ``builtin/extractive``.

Example::

    model = open_model("gpt-4o-mini", http=http, environment=environment, role="answering", files=files, price=price)
    completion = await model.complete(prompt)

This package contains the request and response formats of vendors, and the built-in models. It must not depend on items,
providers or metrics.
"""

from __future__ import annotations

from bench.models.factory import check_model, open_embedder, open_model
from bench.models.names import resolve_name, variables
from bench.models.reply import missing_answer_error, non_answer_error, strip_reasoning

__all__ = [
    "check_model",
    "missing_answer_error",
    "non_answer_error",
    "open_embedder",
    "open_model",
    "resolve_name",
    "strip_reasoning",
    "variables",
]  # fmt: skip
