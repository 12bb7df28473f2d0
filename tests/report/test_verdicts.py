"""Verdicts and conclusions of a comparison; they never claim that two sides are equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.journal import Event
from bench.report.comparison.compare import compare_sides
from bench.report.comparison.comparison_rows import (
    ComparisonRow,
    Comparisons,
    conclusion_sentences,
    difference_text,
    finding_of,
    p_text,
)
from bench.report.comparison.comparison_targets import ComparisonTarget, sides_of
from bench.report.comparison.formats import comparison_grids, comparison_json, conclusions
from bench.stats import Comparison
from tests.rows import each_row
from tests.small_journal import Job, made, record

NAMES = [f"q{at:03d}" for at in range(60)]
GOOD = {name: float(at % 4 != 0) for at, name in enumerate(NAMES)}
BAD = {name: float(at % 4 == 0) for at, name in enumerate(NAMES)}
NEAR = {**GOOD, "q001": 0.0, "q004": 1.0, "q008": 1.0}


def row(found: Comparison, **changes: object) -> ComparisonRow:
    plain = ComparisonRow(
        metric="accuracy", definition="accuracy/1", dimension=None, label=None, lower_is_better=False, unit=None,
        is_ratio=False, family="headline", found=found, p_adjusted=found.p,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


FOUND = Comparison(n=50, excluded=0, a=0.7, b=0.5, delta=0.2, p=0.01, mde=0.05, test="paired_t")
VERDICTS = {
    "a is higher": (row(FOUND), "A higher", "A higher"),
    "b is higher": (row(replace(FOUND, delta=-0.2)), "B higher", "B higher"),
    "a is slower": (row(FOUND, lower_is_better=True), "B lower, better", "B lower"),
    "nothing found": (
        row(replace(FOUND, p=0.4)), "no detectable difference (smallest detectable: 0.05)", "none",
    ),
    "lost to the correction": (
        row(FOUND, p_adjusted=0.09, family="exploratory"),
        "exploratory: no detectable difference (smallest detectable: 0.05)",
        "none (adjusted)",
    ),
    "no error to go by": (
        row(replace(FOUND, p=1.0, mde=None)), "no detectable difference (smallest detectable: not known)", "none",
    ),
    "one cluster": (
        row(Comparison(n=9, excluded=0, delta=0.1, note="not testable: one cluster")),
        "not testable: one cluster",
        "not testable",
    ),
    "too few clusters": (
        row(replace(FOUND, p=0.0625, test="cluster_sign_flip", n_clusters=5), least_p=0.0625),
        "cannot be decided: 5 conversations",
        "cannot be decided",
    ),
    "too few items": (
        row(replace(FOUND, p=0.5, n=4, test="mcnemar_exact"), least_p=0.125),
        "cannot be decided: 4 items",
        "cannot be decided",
    ),
    "less than the judge errs": (
        row(FOUND, noise=0.25), "A higher; within judge noise (0.25)", "A higher, within judge noise",
    ),
    "more than the judge errs": (row(FOUND, noise=0.1), "A higher", "A higher"),
}  # fmt: skip


@each_row("case", VERDICTS)
def test_a_verdict_claims_only_what_the_values_support(case: str) -> None:
    shown, verdict, finding = VERDICTS[case]
    assert (shown.verdict, finding_of(shown)) == (verdict, finding)


def test_a_p_equal_to_alpha_is_not_a_finding() -> None:
    assert row(replace(FOUND, p=0.05)).better is None
    assert row(replace(FOUND, p=0.0499)).better == "a"


@each_row(
    ("changes", "value", "text"),
    [
        ({}, 0.15, "+0.15"), ({}, -0.00001, "0"), ({}, 0.0, "0"), ({"unit": "ms"}, 12.0, "+12.00 ms"),
        ({"is_ratio": True}, 0.195, "+19.5%"), ({"is_ratio": True}, 154.04, "+15404%"), ({}, None, "not known"),
    ],
)  # fmt: skip
def test_difference_text_has_sign_unit_and_few_digits(
    changes: dict[str, object], value: float | None, text: str
) -> None:
    assert difference_text(row(FOUND, **changes), value, sign=True) == text


def test_p_text_never_shows_a_small_p_as_zero() -> None:
    assert [p_text(one) for one in (None, 1e-9, 0.04999, 1.0)] == ["-", "<0.0001", "0.0500", "1.0000"]


async def compared(workspace: Path, a: dict[str, float], b: dict[str, float], *more: dict[str, float]) -> Comparisons:
    jobs = [Job(record=record(name), values=values) for name, values in zip("xyz", (a, b, *more), strict=False)]
    await made(workspace, "r", jobs)
    groups = await sides_of(
        workspace, [ComparisonTarget.parse(f"r:{job.record.provider}") for job in jobs], benchmark=None
    )
    return compare_sides(groups)


async def test_the_conclusion_names_the_better_side_values_pairs_and_p(tmp_path: Path) -> None:
    (pair,) = (await compared(tmp_path, BAD, GOOD)).comparisons
    (text,) = conclusion_sentences(pair)
    assert text.startswith("B (y) is better than A (x) on accuracy: 0.2500 against 0.7500, A - B = -0.5 [-")
    assert text.endswith("over 60 paired items, p = 0.0001.")


async def test_a_tiny_p_is_written_as_less_than(tmp_path: Path) -> None:
    (pair,) = (await compared(tmp_path, dict.fromkeys(NAMES, 1.0), dict.fromkeys(NAMES, 0.0))).comparisons
    assert conclusion_sentences(pair)[0].endswith("over 60 paired items, p < 0.0001.")


async def test_the_conclusion_without_a_finding_names_the_detectable_difference(tmp_path: Path) -> None:
    (pair,) = (await compared(tmp_path, GOOD, NEAR)).comparisons
    (text,) = conclusion_sentences(pair)
    assert text.startswith("Neither side can be called better on accuracy: ")
    assert "would be detected with a power of 80%" in text


async def test_the_conclusion_shows_the_adjusted_p_if_it_differs(tmp_path: Path) -> None:
    found = await compared(tmp_path, GOOD, NEAR, BAD)
    assert len(conclusions(found)) == 3
    assert ", adjusted 0.0003" in conclusions(found)[1]
    assert "equal" not in " ".join(conclusions(found))


async def test_judge_noise_of_a_calibrated_judge_is_part_of_verdict_and_conclusion(tmp_path: Path) -> None:
    from bench.plan.job_record import ModelNames

    models = ModelNames(embedding=None, answering="acme/m1", judge="acme/j")
    changes = {"models": models, "evaluators": ("llm-judge",)}
    jobs = [Job(record=record(p, **changes), values=v) for p, v in (("x", GOOD), ("y", BAD))]
    data = {"judge": "acme/j", "fpr": {"value": 0.1}, "fnr": {"value": 0.6}}
    event = Event(kind="judge_calibration", message="calibrated", data=data)
    await made(tmp_path, "r", jobs, events=[event])
    groups = await sides_of(tmp_path, [ComparisonTarget.parse("r:x"), ComparisonTarget.parse("r:y")], benchmark=None)
    found = compare_sides(groups)
    documents = comparison_json(found)["comparisons"]
    assert isinstance(documents, list)
    (document,) = documents
    assert document["judge_noise"] == 0.6
    assert document["rows"][0]["verdict"] == "A higher; within judge noise (0.6)"
    assert "smaller than the judge's own error" in conclusions(found)[0]
    notes = [note for grid in comparison_grids(found) for note in grid.notes]
    assert any(note.startswith("judge noise: 0.6") for note in notes)
