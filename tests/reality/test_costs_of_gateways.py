"""The cost of a run is the sum of what the gateway of its models charges, as its replies report it."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import Counter
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


LOST = {"prompt_tokens": 200_000, "completion_tokens": 0, "total_tokens": 200_000}
"""usage of a response that has no usable reply: USD 2"""


def lost(body: dict[str, Any]) -> Reply:
    return {"model": body["model"], "choices": [], "usage": LOST}


def error_in_choice(body: dict[str, Any]) -> Reply:
    choice = {"index": 0, "message": {"content": "half"}, "finish_reason": "error", "error": {"code": 502}}
    return {"model": body["model"], "choices": [choice], "usage": LOST}


def server_error(body: dict[str, Any]) -> Reply:
    return 500, {"error": {"message": "try later"}, "usage": LOST}


def refused_request(body: dict[str, Any]) -> Reply:
    return 400, {"error": {"message": "too bad"}, "usage": LOST}


def filtered_prompt(body: dict[str, Any]) -> Reply:
    return 400, {"error": {"message": "no", "code": "content_filter"}, "usage": LOST}


def cut_stream(body: dict[str, Any]) -> Reply:
    event = {"model": "m1", "choices": [{"index": 0, "delta": {"content": "ha"}}], "usage": LOST}
    return f'data: {json.dumps(event)}\n\ndata: {{"choices": [{{'.encode()


def error_in_stream(body: dict[str, Any]) -> Reply:
    event = {"model": "m1", "choices": [{"index": 0, "delta": {"content": "ha"}}], "usage": LOST}
    return f'data: {json.dumps(event)}\n\ndata: {{"error": {{"code": 502}}}}\n\n'.encode()


@pytest.mark.parametrize(
    ("unusable", "failed"),
    [
        (error_in_choice, 0),
        (lost, 1),
        (server_error, 0),
        (refused_request, 1),
        (filtered_prompt, 0),
        (cut_stream, 0),
        (error_in_stream, 0),
    ],
)
def test_a_response_without_a_usable_reply_costs_what_it_reports(
    bench: Bench, results: Results, tmp_path: Path, unusable: Callable[[dict[str, Any]], Reply], failed: int
) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        return unusable(body) if len(stub.asked) == 1 else completion("x", usage=COUNTS)

    with gateway(tmp_path, reply) as stub:
        bench(*RUN, "--run-id", "r", "--concurrency", "1", "--max-error-rate", "1", "--metrics", "cost_total")
    (job,) = results("r")["jobs"]
    assert job["metrics"]["cost_total"]["n_failed"] == failed
    assert job["metrics"]["cost_total"]["value"] == pytest.approx(2 + (len(stub.asked) - 1) * 0.0022)
    assert float(job["usage"]["answering"]["cost_usd"]) == pytest.approx(2 + (len(stub.asked) - 1) * 0.0022)


def test_the_budget_counts_responses_without_a_usable_reply(bench: Bench, tmp_path: Path) -> None:
    with gateway(tmp_path, lost) as stub:
        bench(*RUN, "--run-id", "r", "--concurrency", "1", "--max-cost", "3", check=3)
    assert len(stub.asked) == 2 and "cost       USD 4\n" in bench("status", "r").stdout


def test_a_response_without_a_usable_reply_and_price_counts_as_unknown(
    bench: Bench, results: Results, tmp_path: Path
) -> None:
    with gateway(tmp_path, lost):
        (tmp_path / "prices.yaml").write_text("{}")
        bench(*RUN, "--run-id", "r", "--max-error-rate", "1", "--metrics", "cost_total", check=None)
    (job,) = results("r")["jobs"]
    assert (job["metrics"]["cost_total"]["value"], job["metrics"]["cost_total"]["n_unknown"]) == (None, 4)
    assert job["usage"]["answering"]["cost_unknown_calls"] == 4


def test_calls_that_timed_out_are_noted_because_their_cost_is_unknown(
    bench: Bench, results: Results, tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        if len(stub.asked) == 1:
            time.sleep(1.2)
        return completion("x", usage=COUNTS)

    with gateway(tmp_path, reply) as stub:
        bench(*RUN, "--run-id", "r", "--concurrency", "1", "--timeout", "1", "--metrics", "cost_total")
    (job,) = results("r")["jobs"]
    assert [note for note in job["notes"] if "timed out" in note] == [
        "1 call of the answering model timed out: the vendor may bill it, but the cost is unknown and not included"
    ]


JUDGED = ("--judge-model", "acme/j1", "--judge-calibration")


def judged(body: dict[str, Any]) -> Reply:
    verdict = '{"correctness": 1, "faithfulness": 1, "reasoning": "same"}'
    return completion("x" if body["model"] == "m1" else verdict, usage=COUNTS)


@pytest.mark.parametrize("unpriced", ["m1", "j1"])
def test_the_known_costs_of_an_item_with_a_call_of_unknown_cost_are_in_the_total(
    bench: Bench, results: Results, tmp_path: Path, unpriced: str
) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        number[body["model"]] += 1
        known = number[body["model"]] > (1 if body["model"] == unpriced else 0)
        return judged(body) if known else {**judged(body), "usage": None}

    number = Counter[str]()
    metrics = ("cost_total", "cost_judge", "cost_per_correct")
    with gateway(tmp_path, reply) as stub:
        (tmp_path / "prices.yaml").write_text(f"{PRICES}\nevaluators: [llm-judge]\n")
        bench(*RUN, "--judge-model", "acme/j1", "--concurrency", "1", "--run-id", "r", "--metrics", *metrics)
    (job,) = results("r")["jobs"]
    found, calls = job["metrics"], Counter(body["model"] for body in stub.asked)
    known = {model: 0.0022 * (count - (model == unpriced)) for model, count in calls.items()}
    assert found["cost_total"]["value"] == pytest.approx(sum(known.values()))
    assert found["cost_per_correct"]["value"] == pytest.approx(sum(known.values()) / 4)
    assert found["cost_judge"]["value"] == pytest.approx(known["j1"])
    assert [found[name]["n_unknown"] for name in metrics] == [1, int(unpriced == "j1"), 1]


def test_a_calibration_is_part_of_the_cost_of_the_judge(bench: Bench, results: Results, tmp_path: Path) -> None:
    with gateway(tmp_path, judged) as stub:
        (tmp_path / "prices.yaml").write_text(f"{PRICES}\nevaluators: [llm-judge]\n")
        bench(*RUN, *JUDGED, "--run-id", "r", "--metrics", "cost_judge", "cost_total", check=None)
    calls = [body["model"] for body in stub.asked]
    assert len(calls) > 100
    (job,) = results("r")["jobs"]
    assert job["metrics"]["cost_judge"]["value"] == pytest.approx(calls.count("j1") * 0.0022)
    assert job["metrics"]["cost_total"]["value"] == pytest.approx(len(calls) * 0.0022)


def test_the_budget_stops_a_calibration(bench: Bench, tmp_path: Path) -> None:
    with gateway(tmp_path, judged) as stub:
        (tmp_path / "prices.yaml").write_text(f"{PRICES}\nevaluators: [llm-judge]\n")
        bench(*RUN, *JUDGED, "--run-id", "r", "--max-cost", "0.01", check=3)
    assert len(stub.asked) == 5 and "cost       USD 0.011\n" in bench("status", "r").stdout


def test_a_cost_of_which_a_part_is_unknown_is_marked_as_a_lower_bound(bench: Bench, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        return completion("x", usage=COUNTS if len(stub.asked) % 2 else None)

    with gateway(tmp_path, reply) as stub:
        shown = bench(*RUN, "--run-id", "r", "--metrics", "cost_total", "cost_per_query").stdout
    markdown, table = bench("results", "r", "--markdown").stdout, bench("results", "r", "--csv").stdout
    bench("results", "r", "--html", "r.html")
    assert "cost_total (USD)" in shown and ">= 0.0044" in shown
    assert "| cost_total (USD) | &#62;= 0.0044 |" in markdown and "| cost_per_query (USD) | 0.0022 |" in markdown
    (total,) = [row for row in csv.DictReader(io.StringIO(table)) if row["metric"] == "cost_total" and not row["label"]]
    assert (total["value"], total["n_unknown"]) == ("0.0044", "2")
    assert "≥ 0.0044" in (tmp_path / "r.html").read_text()
