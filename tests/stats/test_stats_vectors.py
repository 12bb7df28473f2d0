"""The statistics agree with scipy, statsmodels and exact enumeration."""

from __future__ import annotations

import json
from pathlib import Path

from bench import stats


def close(got: object, expected: object, tolerance: float) -> bool:
    """abs(got - expected) <= max(tolerance, 1e-12) * max(1, abs(expected)), through lists and attributes."""
    if expected is None or got is None or isinstance(expected, bool | str):
        return got is expected or got == expected
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(close, got, expected, [tolerance] * 99))
    if isinstance(expected, dict):
        return all(close(getattr(got, key), value, tolerance) for key, value in expected.items())
    return abs(float(str(got)) - float(str(expected))) <= max(tolerance, 1e-12) * max(1, abs(float(str(expected))))


def test_every_statistic_agrees_with_its_reference_vectors(shared: Path) -> None:
    cases = json.loads((shared / "vectors/metrics/vectors-dev.json").read_text(encoding="utf-8"))["cases"]
    cases = [case for case in cases if case["call"] == "stats"]
    assert len(cases) > 100
    for case in cases:
        got = getattr(stats, case["metric"])(**case["input"], **case["params"])
        assert close(got, case["expected"], case["tolerance"]), (case["id"], case["metric"], got, case["expected"])
