"""The metrics agree with pytrec_eval, ranx, the benchmarks' own scripts, NLTK, sacreBLEU and genai-prices."""

from __future__ import annotations

import importlib.metadata
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench import metrics
from bench.metrics.answers.text_normalization import stem
from bench.model import Measurement

Case = dict[str, Any]


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[Case]:
    found: list[Case] = json.loads((shared / "vectors/metrics/vectors-dev.json").read_text(encoding="utf-8"))["cases"]
    return [case for case in found if not case.get("optional") and installed(case.get("needs"))]


def installed(needs: str | None) -> bool:
    """Return whether the named version is installed."""
    if needs is None:
        return True
    name, _, version = needs.partition("==")
    return importlib.metadata.version(name) == version


def close(got: float | None, expected: float | None, tolerance: float) -> bool:
    if got is None or expected is None:
        return got is expected
    return abs(got - expected) <= max(tolerance, 1e-12) * max(1, abs(expected))


def test_score_agrees_with_every_reference_vector(cases: list[Case]) -> None:
    chosen = [case for case in cases if case["call"] == "score"]
    assert len(chosen) > 900
    for case in chosen:
        got = metrics.score(case["metric"], params=case["params"], **case["input"])
        assert close(got, case["expected"], case["tolerance"]), (case["id"], case["metric"], got, case["expected"])


def test_measure_agrees_with_every_reference_vector(cases: list[Case]) -> None:
    chosen = [case for case in cases if case["call"] == "measure"]
    assert len(chosen) > 40
    for case in chosen:
        params = dict(case["params"])
        by = params.pop("by", None)
        got = metrics.measure(case["metric"], case["input"]["rows"], params=params, by=by)
        for name, value in case["expected"].items():
            if name == "breakdown":
                assert same_breakdown(got, value, case["tolerance"]), case["id"]
            else:
                assert close(getattr(got, name), value, case["tolerance"]), (case["id"], name, got)


def same_breakdown(got: Measurement, expected: dict[str, dict[str, float]], tolerance: float) -> bool:
    return all(
        set(got.breakdown[dimension]) == set(labels)
        and all(close(got.breakdown[dimension][label].value, v, tolerance) for label, v in labels.items())
        for dimension, labels in expected.items()
    )


def test_cost_agrees_with_every_reference_vector(cases: list[Case]) -> None:
    chosen = [case for case in cases if case["call"] == "cost"]
    assert len(chosen) > 7
    for case in chosen:
        got = metrics.cost(case["input"]["usage"], **case["params"])
        expected = None if case["expected"] is None else Decimal(case["expected"])
        assert got == expected, (case["id"], got, expected)


def test_stem_agrees_with_the_default_mode_of_NLTK(shared: Path) -> None:
    stems = json.loads((shared / "vectors/metrics/porter-stems.json").read_text(encoding="utf-8"))
    assert {word: stem(word) for word in stems} == stems
