"""An embedding model that reads only the beginning of a text answers as well as one that reads all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.reality.test_answers import Serve, serve, workspace

__all__ = ["serve", "workspace"]


@pytest.mark.parametrize(("most", "told"), [(1, True), (1_000, False), (None, False)])
def test_texts_of_which_an_endpoint_reads_only_the_beginning_are_told(
    most: int | None, told: bool, bench: Callable[..., Any], serve: Serve
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
    assert ("local/m read only the beginning of" in done.stdout) == told
    assert ("ingest: {unit: chunk, chunk: {size: 1000}}" in done.stdout) == told
