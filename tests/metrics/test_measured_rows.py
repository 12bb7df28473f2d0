"""Rows given to ``measure``: unknown keys are refused, and configs of evaluators are returned."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import metrics
from bench.errors import UnknownMetric
from bench.metrics import evaluators_needed, open_metrics
from tests.rows import each_row


@each_row(
    ("name", "row", "message", "hint"),
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
def test_a_misspelled_row_key_is_refused(name: str, row: dict[str, object], message: str, hint: str | None) -> None:
    with pytest.raises(UnknownMetric) as caught:
        metrics.measure(name, [row])
    assert str(caught.value) == message
    assert hint is None or caught.value.hint == hint


def test_one_row_may_be_measured_by_several_metrics() -> None:
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
def test_evaluators_needed_returns_the_config_of_an_evaluator(tmp_path: Path, config: dict[str, object]) -> None:
    (tmp_path / "e.py").write_text(
        "class E:\n    async def evaluate(self, item, answer, hits, judge): ...\n", encoding="utf-8"
    )
    spec = {"name": "m", "method": "custom", "evaluator": "./e.py:E", "config": config}
    found = open_metrics([spec, {**spec, "name": "n"}], k=5, folder=tmp_path)
    assert evaluators_needed(found) == {"custom:./e.py:E": config}
