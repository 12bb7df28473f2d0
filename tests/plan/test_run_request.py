"""Run requests from flags and run files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.config.file import Source, load
from bench.config.run import RunRequest
from bench.errors import ConfigError, UsageError
from tests.rows import each_row


def test_lists_can_be_separated_by_spaces_commas_or_repetition() -> None:
    for given in ("a b,c", ["a", "b,c"], ["a,b", "c"]):
        assert RunRequest.combine(None, {"benchmarks": given}).benchmarks == ("a", "b", "c")


def test_question_types_can_contain_spaces() -> None:
    assert RunRequest.combine(None, {"question_type": ["single hop"]}).question_type == ("single hop",)


@each_row(("text", "seconds"), [("90", 90), ("15m", 900), ("6h", 21600), ("0.5d", 43200)])
def test_durations_accept_units(text: str, seconds: float) -> None:
    assert RunRequest.combine(None, {"max_time": text}).max_time == seconds


def test_a_flag_overrides_the_run_file_and_the_file_the_default(tmp_path: Path) -> None:
    path = tmp_path / "nightly.yaml"
    path.write_text("benchmarks: [locomo]\nk: 7\nanswering_model: builtin/extractive\nmaxCost: 3\n")
    below = load(Source.read(path), RunRequest)
    combined = RunRequest.combine(below, {"k": 9, "seed": None})
    assert (combined.k, combined.benchmarks, combined.max_cost, combined.seed) == ((9,), ("locomo",), 3, 0)


def test_an_unknown_key_of_a_run_file_is_reported_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "nightly.yaml"
    path.write_text("benchmarks: [locomo]\nconcurency: 3\n")
    with pytest.raises(ConfigError, match=r'2:1: unknown field "concurency"; did you mean "concurrency"'):
        load(Source.read(path), RunRequest)


@each_row(
    "flags",
    [
        {"run_id": "../x"},
        {"run_id": ".hidden"},
        {"run_id": "a" * 101},
        {"k": 0},
        {"max_error_rate": 2},
        {"max_time": "soon"},
        {"start": 5, "end": 2},
        {"shard": "1/2", "start": 3},
        {"set": ["novalue"]},
        {"phases": "search,guess"},
        {"nonsense": 1},
    ],
)
def test_an_invalid_flag_value_is_a_usage_error(flags: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        RunRequest.combine(None, flags)


def test_rates_are_per_second_or_per_minute() -> None:
    request = RunRequest.combine(None, {"rate": ["p.search=50/s", "q=600/m"]})
    assert request.rates_per_s() == {"p.search": 50, "q": 10}
    with pytest.raises(UsageError, match="p=fast"):
        RunRequest.combine(None, {"rate": ["p=fast"]})


def test_operation_contains_only_settings_that_can_change_on_resume() -> None:
    request = RunRequest.combine(None, {"k": 3, "concurrency": 2})
    assert "concurrency" in request.operation() and "k" not in request.operation()


def test_a_request_is_unchanged_by_serialization() -> None:
    request = RunRequest.combine(None, {"set": {"p.a": 1}, "metrics": "mrr", "shard": "1/2", "max_time": "6h"})
    stored = request.model_dump(mode="json", exclude_unset=True)
    assert RunRequest.model_validate(stored) == request
