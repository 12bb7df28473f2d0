"""The examples of the guide on metrics work."""

from __future__ import annotations

import re
from pathlib import Path

from bench import metrics
from bench.evaluators import open_evaluator
from bench.metrics import open_metrics
from bench.model import Row, ScoredItem


def blocks(root: Path) -> list[str]:
    text = (root / "docs" / "add-a-metric.md").read_text(encoding="utf-8")
    return re.findall(r"```python[^\n]*\n(.*?)```", text, re.DOTALL)


async def test_the_classes_of_the_guide_work(root: Path, tmp_path: Path) -> None:
    metric_source, evaluator_source, calls = blocks(root)
    (tmp_path / "shouting.py").write_text(metric_source, encoding="utf-8")
    (tmp_path / "shouts.py").write_text(evaluator_source, encoding="utf-8")
    spec = {"name": "shouting", "method": "custom", "evaluator": "./shouting.py:Shouting", "config": {"threshold": 0.5}}
    (metric,) = open_metrics([spec], k=5, folder=tmp_path)
    assert metric.score(Row(benchmark="b", corpus="c", item_id="i", prediction="LOUd")) == 1.0
    assert metric.score(Row(benchmark="b", corpus="c", item_id="i", prediction="12")) is None
    evaluator = open_evaluator("custom:./shouts.py:Shouts", folder=tmp_path)
    assert evaluator is not None
    item = ScoredItem(id="i", question="q", answers=())
    assert (await evaluator.evaluate(item, "LOUD", (), None)).correct is True
    for line in calls.splitlines():
        if "#" in line:
            expression, _, message = line.partition("#")
            assert eval(expression, {"metrics": metrics}) == eval(message), line
