"""An embedding model that reads only the beginning of a text is noted, because it reports no error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.reality.test_answers import Serve, serve, workspace

__all__ = ["serve", "workspace"]


@pytest.mark.parametrize(("most", "noted"), [(1, True), (1_000, False), (None, False)])
def test_an_embedding_endpoint_that_reads_only_the_beginning_of_texts_is_noted(
    most: int | None, noted: bool, bench: Callable[..., Any], serve: Serve
) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        texts = body["input"]
        data = [{"index": at, "embedding": [float(len(text)), 1.0]} for at, text in enumerate(texts)]
        read = sum(min(most or 0, len(text.split())) for text in texts)
        return {"data": data, **({} if most is None else {"usage": {"prompt_tokens": read, "total_tokens": read}})}

    serve(reply)
    done = bench(
        "run", "--benchmarks", "mini", "--providers", "vector", "--embedding-model", "local/m", "--run-id", "r",
        "--answering-model", "none",
    )  # fmt: skip
    assert ("local/m read only the beginning of" in done.stdout) == noted
    assert ("ingest: {unit: chunk, chunk: {size: 1000}}" in done.stdout) == noted
