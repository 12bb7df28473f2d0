"""Evaluators from a file or an installed distribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import ConfigError, EvaluatorFailed
from bench.evaluators import catalog, open_evaluator
from bench.evaluators.registry import BUILT_IN
from tests.distributions import install
from tests.evaluators.judge_double import item

MINE = """
from bench.model import Verdict


class Mine:
    name, needs_judge = "mine", False

    def __init__(self, letter="P"):
        self.letter = letter

    async def evaluate(self, item, answer, hits, judge):
        value = float(answer.startswith(self.letter))
        return Verdict(evaluator="whatever", value=value, correct=value == 1)


class Wrong(Mine):
    async def evaluate(self, item, answer, hits, judge):
        return 0.5


class High(Mine):
    async def evaluate(self, item, answer, hits, judge):
        return Verdict(evaluator="high", value=7.0, correct=True)


class Silent:
    name = "silent"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    return tmp_path


async def test_a_custom_evaluator_class_gives_verdicts_under_its_reference(folder: Path) -> None:
    evaluator = open_evaluator("custom:./mine.py:Mine", config={"letter": "R"}, folder=folder)
    assert evaluator is not None
    assert (evaluator.name, evaluator.needs_judge) == ("custom:./mine.py:Mine", False)
    found = await evaluator.evaluate(item(), "Rome", (), None)
    assert (found.evaluator, found.value) == ("custom:./mine.py:Mine", 1.0)


@pytest.mark.parametrize("name", ["Wrong", "High"])
async def test_an_invalid_result_of_a_custom_evaluator_is_EvaluatorFailed(folder: Path, name: str) -> None:
    evaluator = open_evaluator(f"custom:./mine.py:{name}", folder=folder)
    assert evaluator is not None
    with pytest.raises(EvaluatorFailed, match=name):
        await evaluator.evaluate(item(), "Rome", (), None)


@pytest.mark.parametrize(
    ("reference", "config", "text"),
    [
        ("./mine.py:Absent", {}, "no class"),
        ("./absent.py:Mine", {}, "no file"),
        ("./mine.ts:Mine", {}, "Python"),
        ("./mine.py:Silent", {}, 'no method "evaluate"'),
        ("./mine.py:Mine", {"leter": "R"}, "leter"),
    ],
)
def test_a_custom_evaluator_that_cannot_be_loaded_is_a_ConfigError(
    folder: Path, reference: str, config: dict[str, object], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        open_evaluator(f"custom:{reference}", config=config, folder=folder, where="b.yaml:1:1")


def test_an_installed_evaluator_is_opened_by_name_and_two_of_one_name_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(folder, "mine-dist", "bench.evaluators", "My_Own = mine:Mine")
    monkeypatch.syspath_prepend(str(folder))
    found = open_evaluator("my-own")
    assert found is not None and found.name == "my-own"
    assert catalog()["my-own"] == "plug-in of mine-dist"
    install(folder, "other-dist", "bench.evaluators", "my-own = mine:Mine")
    with pytest.raises(ConfigError, match=r'"my-own" is registered by (mine|other)-dist and by (mine|other)-dist'):
        open_evaluator("my-own")


def test_a_plugin_with_a_built_in_name_is_listed_as_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = catalog()
    install(folder, "mine-dist", "bench.evaluators", "rubric = mine:Mine", "NONE = mine:Mine")
    monkeypatch.syspath_prepend(str(folder))
    doubled = catalog()
    assert doubled["rubric"] == f"{plain['rubric']}; refused: it is a plug-in of mine-dist too"
    assert doubled["none"] == f"{plain['none']}; refused: it is a plug-in of mine-dist too"
    assert {name: text for name, text in doubled.items() if name not in ("rubric", "none")} == {
        name: text for name, text in plain.items() if name not in ("rubric", "none")
    }


def test_the_catalog_describes_every_evaluator() -> None:
    listed = catalog()
    assert list(listed) == sorted({*BUILT_IN, "custom", "none"})
    assert all(len(text.split()) >= 4 for text in listed.values())
