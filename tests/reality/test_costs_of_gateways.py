"""The cost of a run is the sum of what the gateway of its models charges, as its replies report it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bench
from tests.reality.chat_stub import Reply, Stub, completion, serving

Results = Callable[[str], dict[str, Any]]

RUN = ("run", "-q", "demo", "bm25", "--limit", "4", "--answering-model", "acme/m1", "-c", "prices.yaml")
PRICES = (
    "prices: {acme/m1: {input: 10, output: 20, cache_read: 1, cache_write: 12.5}, acme/j1: {input: 10, output: 20}}"
)
COUNTS = {"prompt_tokens": 200, "completion_tokens": 10, "total_tokens": 210}


@contextmanager
def gateway(folder: Path, reply: Callable[[dict[str, Any]], Reply], dialect: str = "openai") -> Iterator[Stub]:
    """Serve ``acme/m1`` and ``acme/j1`` with the replies of a function."""
    with serving(reply) as stub:
        place = folder / "configs/models/acme.yaml"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"name: acme\ndialect: {dialect}\nbase_url: {stub.url}\nauth: {{type: none}}\n")
        (folder / "prices.yaml").write_text(PRICES)
        yield stub


@pytest.mark.parametrize(
    ("usage", "per_call"),
    [
        (COUNTS, 0.0022),
        (COUNTS | {"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 140}, 0.00166),
        (COUNTS | {"cache_creation_input_tokens": 60, "cache_read_input_tokens": 20}, 0.00217),
        (COUNTS | {"total_tokens": 250}, 0.003),
        (COUNTS | {"total_tokens": 250, "completion_tokens_details": {"reasoning_tokens": 40}}, 0.003),
    ],
)
def test_cached_and_reasoning_tokens_have_their_price_in_the_forms_of_every_gateway(
    bench: Bench, results: Results, tmp_path: Path, usage: dict[str, Any], per_call: float
) -> None:
    with gateway(tmp_path, lambda body: completion("x", usage=usage)):
        bench(*RUN, "--run-id", "r", "--metrics", "cost_total")
    (job,) = results("r")["jobs"]
    assert job["metrics"]["cost_total"]["value"] == pytest.approx(4 * per_call)
    assert float(results("r")["jobs"][0]["usage"]["answering"]["cost_usd"]) == pytest.approx(4 * per_call)
