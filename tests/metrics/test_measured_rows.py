"""Rows given to ``measure``: a key that nobody reads is refused, since what it should have said would be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import metrics
from bench.errors import ConfigError, UnknownMetric
from bench.metrics import evaluators_needed, open_metrics
from tests.rows import each_row


@each_row(
    ("name", "row", "said", "hint"),
    [
        (
            "accuracy",
            {"corect": True},
            'metric "accuracy": a row has the unknown key "corect"',
            'did you mean "correct" or "scores"?',
        ),
        (
            "exact_match",
            {"prediction": "a", "refernce": "a"},
            'metric "exact_match": a row has the unknown key "refernce"',
            None,
        ),
        (
            "recall_at_5",
            {"retreived": ["a"], "relevant": {"a"}},
            'metric "recall_at_5": a row has the unknown key "retreived"',
            None,
        ),
        (
            "mrr",
            {"retrieved": ["a"], "relevant": {"a"}, "lables": {}},
            'metric "mrr": a row has the unknown key "lables"',
            None,
        ),
        ("latency_p50", {"us": 1, "zzz": 2}, 'metric "latency_p50": a row has the unknown key "zzz"', "inputs: us"),
        (
            "bleu.sacrebleu_corpus",
            {"prediction": "a", "reference": "a", "zzz": 2},
            'metric "bleu.sacrebleu_corpus": a row has the unknown key "zzz"',
            None,
        ),
    ],
)
def test_a_misspelt_key_is_refused(name: str, row: dict[str, object], said: str, hint: str | None) -> None:
    with pytest.raises(UnknownMetric) as caught:
        metrics.measure(name, [row])
    assert str(caught.value) == said
    assert hint is None or caught.value.hint == hint


def test_one_row_may_serve_several_metrics() -> None:
    row: dict[str, object] = {
        "retrieved": ["a"],
        "relevant": {"a"},
        "correct": True,
        "prediction": "x",
        "reference": "x",
        "us": 5,
        "tokens": 3,
        "labels": {"question_type": "t"},
        "corpus": "c",
        "item_id": "i",
        "state": "correct",
        "reason": "",
    }
    for name in ("recall_at_5", "accuracy", "exact_match", "latency_p50", "tokens_context", "correctness"):
        assert metrics.measure(name, [row]).value is not None


@pytest.mark.parametrize("config", [{}, {"strict": True}])
def test_the_config_of_an_evaluator_is_what_it_is_opened_with(tmp_path: Path, config: dict[str, object]) -> None:
    (tmp_path / "e.py").write_text(
        "class E:\n    async def evaluate(self, item, answer, hits, judge): ...\n", encoding="utf-8"
    )
    spec = {"name": "m", "method": "custom", "evaluator": "./e.py:E", "config": config}
    found = open_metrics([spec, {**spec, "name": "n"}], k=5, folder=tmp_path)
    assert evaluators_needed(found) == {"custom:./e.py:E": config}


def test_two_metrics_that_say_different_things_of_one_evaluator_are_refused(tmp_path: Path) -> None:
    (tmp_path / "e.py").write_text(
        "class E:\n    async def evaluate(self, item, answer, hits, judge): ...\n", encoding="utf-8"
    )
    spec = {"name": "m", "method": "custom", "evaluator": "./e.py:E", "config": {"a": 1}}
    found = open_metrics([spec, {**spec, "name": "n", "config": {"a": 2}}], k=5, folder=tmp_path)
    with pytest.raises(ConfigError) as caught:
        evaluators_needed(found)
    assert str(caught.value) == "./e.py:E has two different configs: {'a': 1} and {'a': 2}"
    assert caught.value.hint == "give the same config to every metric of this class"
