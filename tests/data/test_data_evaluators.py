"""The evaluators of the shipped configs read common spellings of citations and figures."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from bench.evaluators import Evaluator
from bench.model import ScoredItem


@pytest.fixture(scope="session")
def beside_config(root: Path) -> Callable[[str], ModuleType]:
    """Load ``configs/benchmarks/NAME.py``."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, root / "configs" / "benchmarks" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def legal(beside_config: Callable[[str], ModuleType]) -> ModuleType:
    return beside_config("legal_citation")


@pytest.fixture(scope="session")
def financial(beside_config: Callable[[str], ModuleType]) -> ModuleType:
    return beside_config("financial_figures")


def item(*answers: str) -> ScoredItem:
    return ScoredItem(id="x", question="?", answers=answers)


def test_both_shipped_evaluators_follow_the_protocol_without_a_judge(legal: ModuleType, financial: ModuleType) -> None:
    for evaluator in (legal.LegalCitation(), financial.FinancialFigures()):
        assert isinstance(evaluator, Evaluator)
        assert not evaluator.needs_judge


@pytest.mark.parametrize(
    "text",
    [
        "Act 12, s. 4(2)",
        "act 12 section 4 (2)",
        "ACT 12 § 4(2)",
        "section 4(2) of the Act 12",
        "(Act 12, s.4(2))",
    ],
)
def test_spellings_of_a_citation_are_recognized(legal: ModuleType, text: str) -> None:
    assert legal.citations(text) == {"12:4(2)"}


@pytest.mark.parametrize("text", ["Act 12", "s. 4(2)", "12, 4(2)", "Markets Act", "the act of 4 men in section B", ""])
def test_an_incomplete_citation_is_not_recognized(legal: ModuleType, text: str) -> None:
    assert legal.citations(text) == set()


@pytest.mark.parametrize(
    ("answer", "value", "correct"),
    [
        ("It is Act 8, section 3(2), together with Act 8, section 3(4).", 1.0, True),
        ("Act 8, s. 3(4)", 0.5, False),
        ("Act 8, s. 3", 0.0, False),
        ("Six months.", 0.0, False),
    ],
)
async def test_all_expected_citations_are_needed(legal: ModuleType, answer: str, value: float, correct: bool) -> None:
    expected = item("Act 8, s. 3(2) and Act 8, s. 3(4)")
    verdict = await legal.LegalCitation().evaluate(expected, answer, [], None)
    assert (verdict.value, verdict.correct, verdict.abstained) == (value, correct, False)


async def test_a_reference_without_citation_is_not_scored(legal: ModuleType) -> None:
    verdict = await legal.LegalCitation().evaluate(item("six months"), "Act 8, s. 3(2)", [], None)
    assert verdict.value is None
    assert verdict.reason


@pytest.mark.parametrize(
    ("gold", "answer", "correct"),
    [
        ("1,250", "Revenue was 1250 thousand crowns.", True),
        ("1,250", "Revenue | 1,250 | 1,118", True),
        ("1,250", "about 1,256", True),
        ("1,250", "about 1,257", False),
        ("1,250", "It was 1,118.", False),
        ("12.5 %", "grew by 12.5 percent", True),
        ("12.5 %", "grew by 12.5", False),
        ("37", "37 %", False),
        ("(300)", "a loss: -300", True),
        ("(300)", "(300)", True),
        ("(300)", "300", False),
        ("14.2", "set aside 14.2 million crowns.", True),
        ("2,340,000", "2340000 passengers", True),
        ("1.85", "1.85, 2, 3, 4 and 5", False),
        ("40 %", "no figure here", False),
    ],
)
async def test_figures_match_within_half_a_percent(
    financial: ModuleType, gold: str, answer: str, correct: bool
) -> None:
    verdict = await financial.FinancialFigures().evaluate(item(gold), answer, [], None)
    assert (verdict.correct, verdict.value) == (correct, float(correct))


async def test_a_refusal_is_marked_as_abstained(legal: ModuleType, financial: ModuleType) -> None:
    for evaluator, gold in ((legal.LegalCitation(), "Act 3, s. 4"), (financial.FinancialFigures(), "840")):
        verdict = await evaluator.evaluate(item(gold), "I don't know.", [], None)
        assert verdict.abstained
        assert verdict.correct is False


async def test_a_reference_without_figure_is_not_scored(financial: ModuleType) -> None:
    verdict = await financial.FinancialFigures().evaluate(item("plenty"), "840", [], None)
    assert verdict.value is None


def test_digits_inside_words_are_not_figures(financial: ModuleType) -> None:
    assert [str(figure.value) for figure in financial.figures("Q3 and P16 of B2B, 7th")] == []
