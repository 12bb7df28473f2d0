"""``prices:`` of a run file: valid forms and errors with line and column."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import World

Bench = Callable[..., Any]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAULT_URL", "http://127.0.0.1:9")
    World.make(tmp_path)
    return tmp_path


def run_file(workspace: Path, prices: str) -> str:
    path = workspace / "c.yaml"
    path.write_text(
        f"benchmarks: [facts]\nproviders: [faulty]\nanswering_model: openai/m\nprices: {prices}\nisolation: 'off'\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("prices", "place", "words"),
    [
        ("{faulty.search: 0.01}", "4:10", "faulty.search"),
        ("{nonsense: 1}", "4:10", "nonsense"),
        ("{faulty: {serch: 1}}", "4:19", 'did you mean "search"'),
        ("{faulty: {input: 3}}", "4:19", "input"),
        ("{faulty: true}", "4:10", "true"),
        ("{faulty: free}", "4:10", "free"),
        ("{faulty: -1}", "4:10", "-1"),
        ("{faulty: {}}", "4:10", 'prices.faulty: does not contain a price: set "add" and "search", in USD per call'),
        ("{faulty: [1]}", "4:10", "a map of keys"),
        ("{openai/m: 3}", "4:10", "per million tokens"),
        ("{openai/m: {}}", "4:10", 'prices.openai/m: does not contain a price: set "input" and "output"'),
        ("{openai/m: {input: 1, outptu: 2}}", "4:31", 'did you mean "output"'),
        ("{opnai/m: {input: 1}}", "4:10", "opnai/m"),
        ("{gpt-4o: 1}", "4:10", "gpt-4o"),
        ("[faulty]", "4:1", "a map of keys"),
    ],
)
def test_an_invalid_price_is_an_error_with_line_and_column(
    bench: Bench, workspace: Path, prices: str, place: str, words: str
) -> None:
    path = run_file(workspace, prices)
    done = bench("plan", "-c", path, check=2)
    assert f"c.yaml:{place}: " in done.stderr and words in done.stderr
    assert f"c.yaml:{place}: " in (checked := bench("validate", path, check=2)).stderr + checked.stdout


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ("{faulty: 0.5, openai/m: {input: 0, output: 0}}", "USD 7"),
        ("{faulty: {add: 0.5, search: 0.25}, openai/m: {input: 0, output: 0}}", "USD 5"),
    ],
)
def test_a_number_is_the_price_of_each_call_of_a_provider(
    bench: Bench, workspace: Path, prices: str, cost: str
) -> None:
    done = bench("plan", "-c", run_file(workspace, prices))
    assert f"cost about {cost}\n" in done.stdout


def test_the_cost_estimate_names_the_answer_length_that_it_assumes(bench: Bench, workspace: Path) -> None:
    done = bench("plan", "-c", run_file(workspace, "{faulty: 0, openai/m: {input: 1, output: 2}}"))
    assert re.search(r"^cost about USD 0\.\d+, for an answer of 60 tokens; --max-cost is a limit$", done.stdout, re.M)


def test_a_price_of_a_model_that_the_run_does_not_call_is_noted(bench: Bench, workspace: Path) -> None:
    done = bench("plan", "-c", run_file(workspace, "{faulty: 1, openai/n: {input: 1, output: 1}}"))
    assert 'the price of "openai/n" has no effect' in done.stdout + done.stderr
    assert "openai/m.answering" in done.stdout
