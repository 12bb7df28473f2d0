"""Evaluators that others bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import ConfigError, EvaluatorFailed
from bench.evaluators import catalog, evaluator_names, open_evaluator
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


async def test_a_class_beside_the_config_gives_verdicts_under_the_name_it_was_asked_for(folder: Path) -> None:
    evaluator = open_evaluator("custom:./mine.py:Mine", config={"letter": "R"}, folder=folder)
    assert evaluator is not None
    assert (evaluator.name, evaluator.needs_judge) == ("custom:./mine.py:Mine", False)
    found = await evaluator.evaluate(item(), "Rome", (), None)
    assert (found.evaluator, found.value) == ("custom:./mine.py:Mine", 1.0)


@pytest.mark.parametrize("name", ["Wrong", "High"])
async def test_a_wrong_type_or_value_is_an_error_of_the_evaluator(folder: Path, name: str) -> None:
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
        ("./mine.py:Silent", {}, "no method evaluate"),
        ("./mine.py:Mine", {"leter": "R"}, "leter"),
    ],
)
def test_what_cannot_be_loaded_is_a_config_error(
    folder: Path, reference: str, config: dict[str, object], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        open_evaluator(f"custom:{reference}", config=config, folder=folder, where="b.yaml:1:1")


def test_an_installed_evaluator_is_opened_by_name_and_a_clash_names_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = folder / "mine_dist-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-dist\nVersion: 1\n", encoding="utf-8")
    points = info / "entry_points.txt"
    points.write_text("[bench.evaluators]\nmine = mine:Mine\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    found = open_evaluator("mine")
    assert found is not None and found.name == "mine"
    assert "mine" in evaluator_names()
    assert catalog()["mine"] == "plug-in of mine-dist"
    points.write_text("[bench.evaluators]\nrubric = mine:Mine\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="mine-dist"):
        evaluator_names()


def test_every_known_evaluator_is_described() -> None:
    assert set(evaluator_names()) == set(catalog())
    assert all(catalog().values())
