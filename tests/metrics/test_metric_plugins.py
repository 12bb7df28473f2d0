"""Metrics from a file next to the config or from an installed distribution."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import metrics
from bench.errors import ConfigError
from bench.metrics import FoldRow, fold, open_metrics
from bench.model import Row, State, Verdict

SHOUTING = """
class Shouting:
    name, definition, category = "shouting", "shouting/3", "custom"
    unit, lower_is_better, params = None, True, {}

    def __init__(self, bonus=0.0):
        self.bonus = bonus

    def score(self, row):
        return None if row.prediction is None else float(row.prediction.isupper()) + self.bonus
"""
LARGEST = """
class Largest:
    name, definition = "largest", "largest/1"

    def score(self, row):
        return float(len(row.prediction))

    def aggregate(self, values):
        return max(values)
"""


def row(prediction: str | None) -> Row:
    return Row(benchmark="b", corpus="c", item_id="i", prediction=prediction)


def install(folder: Path, distribution: str, group: str, name: str, module: str, source: str) -> None:
    """Write a distribution with one entry point into a folder."""
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{distribution}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n", encoding="utf-8")


def test_a_class_next_to_the_config_is_a_metric(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SHOUTING, encoding="utf-8")
    spec = {"name": "my_metric", "method": "custom", "evaluator": "./mine.py:Shouting", "config": {"bonus": 1.0}}
    (metric,) = open_metrics([spec], k=5, folder=tmp_path)
    assert (metric.name, metric.definition, metric.lower_is_better) == ("my_metric", "shouting/3", True)
    assert metrics.values([metric], row("LOUD")) == {"my_metric": 2.0}
    assert metrics.values([metric], row(None)) == {"my_metric": None}


def test_a_metric_class_may_define_its_own_aggregate(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LARGEST, encoding="utf-8")
    (metric,) = open_metrics([{"name": "largest", "evaluator": "./mine.py:Largest"}], k=5, folder=tmp_path)
    rows = [FoldRow(str(i), "c", 1, "correct", (), (float(i),)) for i in range(5)]
    found = fold([metric], rows)["largest"]
    assert (found.value, found.n, found.interval) == (4.0, 5, None)


def test_an_installed_metric_plugin_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "loud-metrics", "bench.metrics", "shouting", "loud_metrics_mod:Shouting", "")
    (tmp_path / "loud_metrics_mod:Shouting.py").unlink()
    (tmp_path / "loud_metrics_mod.py").write_text(SHOUTING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert metrics.resolve("Shouting").definition == "shouting/3"
    assert "shouting" in metrics.names()
    assert "loud_metrics_mod" in sys.modules
    (metric,) = open_metrics(["shouting"], k=5, folder=tmp_path)
    assert metric.score(row("LOUD")) == 1.0


def test_a_broken_plugin_is_reported_by_name_and_does_not_hide_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken-metrics", "bench.metrics", "broken", "broken_metrics_mod", "import nothing_like_it\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert metrics.resolve("accuracy").name == "accuracy"
    assert "broken" in [info.name for info in metrics.catalog()]
    with pytest.raises(ConfigError, match="broken-metrics"):
        metrics.resolve("broken")


def test_a_plugin_may_not_use_a_built_in_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "greedy-dist", "bench.metrics", "accuracy", "greedy_mod", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="greedy-dist"):
        metrics.names()


def test_an_evaluator_next_to_the_config_is_read_through_its_verdicts(tmp_path: Path) -> None:
    source = "class Cites:\n    async def evaluate(self, item, answer, hits, judge): ...\n"
    (tmp_path / "cites.py").write_text(source, encoding="utf-8")
    spec = {"name": "legal_citation_accuracy", "method": "custom", "evaluator": "./cites.py:Cites"}
    (metric,) = open_metrics([spec], k=5, folder=tmp_path)
    assert metrics.evaluators_needed([metric]) == {"custom:./cites.py:Cites": {}}
    message = Verdict(evaluator="custom:./cites.py:Cites", value=0.5, correct=False)
    other = Verdict(evaluator="custom:./other.py:Other", value=1.0, correct=True)
    assert metric.score(replace(row("x"), verdicts=(message, other))) == 0.5
    assert metric.score(replace(row("x"), verdicts=(other,))) is None
    anyone = metrics.registry().measure("accuracy.custom")
    assert anyone.score(replace(row("x"), verdicts=(message, other))) == 1.0


OPEN_ENDED = """
class Words:
    name, definition = "words", "words/1"

    def score(self, row):
        return float(len((row.prediction or "").split()))

    def score_inputs(self, **inputs):
        return float(sum(len(str(value).split()) for value in inputs.values()))
"""


def test_a_class_with_score_inputs_gets_all_keys_of_a_plain_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "word-metrics", "bench.metrics", "words", "word_metrics_mod:Words", "")
    (tmp_path / "word_metrics_mod.py").write_text(OPEN_ENDED, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = [
        {"anything": "one two", "else": "three", "labels": {"speaker": "x"}, "corpus": "c"},
        replace(row("a b c d"), state=State.CORRECT),
    ]
    found = metrics.measure("words", rows, by="speaker")
    assert (found.value, found.n) == (3.5, 2)
    assert metrics.score("words", text="one two three") == 3
