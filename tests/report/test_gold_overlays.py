"""Gold overlays: raw and corrected scores and their ceiling, before and after a rescore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.journal import Reader
from bench.metrics.overlay import GoldScores
from bench.model import State
from bench.plan.job_record import OverlayRecord
from bench.report import fold, results_json
from bench.report.fold import JobReport
from bench.report.job_notes import gold_notes
from tests.full_journal import ItemData, write_run
from tests.small_journal import measuring, record

NAMES = measuring("accuracy", "hit_at_5", "answer_length", "over_abstention_rate")


def overlay(*items: str) -> OverlayRecord:
    return OverlayRecord(name="audit", sha256="0" * 64, source="us", items=dict.fromkeys(items, "wrong"))


def item(
    name: str, accuracy: float | None, *, corrected: Mapping[str, float] | None = None, epoch: int = 1
) -> ItemData:
    values = {"accuracy": accuracy, "hit_at_5": 1.0, "answer_length": 7.0, "over_abstention_rate": 0.0}
    state = State.UNSCORED if accuracy is None else State.CORRECT if accuracy == 1 else State.INCORRECT
    return ItemData(item=name, state=state, values=values, corrected=corrected, epoch=epoch)


async def job_of(
    workspace: Path, items: Sequence[ItemData], *, overlay_record: OverlayRecord | None, **more: object
) -> JobReport:
    folder = await write_run(workspace, "r", [(record("p", overlay=overlay_record, **NAMES, **more), items)])
    async with Reader.open(folder) as reader:
        report = await fold(reader)
    document = results_json(report)["jobs"]
    assert isinstance(document, list) and ("gold" in document[0]) is (overlay_record is not None)
    return report.jobs[0]


async def test_without_an_overlay_there_are_no_gold_scores_and_notes(tmp_path: Path) -> None:
    job = await job_of(tmp_path, [item("q1", 1.0)], overlay_record=None)
    assert job.gold == {} and job.notes == ()


async def test_overlay_items_are_excluded_from_the_corrected_score_and_wrong_in_the_ceiling(tmp_path: Path) -> None:
    items = [item("q1", 1.0), item("q2", 0.0), item("q3", 1.0), item("q4", 0.0)]
    job = await job_of(tmp_path, items, overlay_record=overlay("q3", "q4"))
    assert job.gold == {
        "accuracy": GoldScores(raw=0.5, corrected=0.5, ceiling=0.5, n=4, n_listed=2),
    }, "only answer metrics between 0 and 1 for which higher is better"
    assert job.notes == ("accuracy raw 0.5000, corrected 0.5000, ceiling 0.5000 (2 questionable labels)",)


async def test_a_raw_score_above_the_ceiling_is_flagged(tmp_path: Path) -> None:
    job = await job_of(tmp_path, [item("q1", 1.0), item("q2", 1.0)], overlay_record=overlay("q1"))
    assert job.gold["accuracy"].above_ceiling
    (note,) = job.notes
    assert note.endswith("(1 questionable label); the raw score is above the ceiling")


async def test_overlay_items_with_a_corrected_answer_are_scored_against_it(tmp_path: Path) -> None:
    items = [item("q1", 1.0), item("q2", 0.0, corrected={"accuracy": 1.0}), item("q3", 0.0)]
    job = await job_of(tmp_path, items, overlay_record=overlay("q2", "q3"))
    found = job.gold["accuracy"]
    assert (found.raw, found.corrected, found.n_listed) == (1 / 3, 1.0, 2)


async def test_overlay_items_that_are_unscored_or_missing_change_no_score(tmp_path: Path) -> None:
    items = [item("q1", 1.0), item("q2", None), ItemData(item="q3", state=State.ERROR, outcome="timeout")]
    job = await job_of(tmp_path, items, overlay_record=overlay("q2", "q3", "elsewhere"), n_whole=3)
    assert job.gold["accuracy"] == GoldScores(raw=1.0, corrected=1.0, ceiling=1.0, n=1, n_listed=0)


async def test_epochs_of_an_item_count_as_their_mean(tmp_path: Path) -> None:
    items = [item("q1", 1.0), item("q1", 0.0, epoch=2), item("q2", 1.0), item("q2", 1.0, epoch=2)]
    job = await job_of(tmp_path, items, overlay_record=overlay("q2"), epochs=2)
    assert job.gold["accuracy"] == GoldScores(raw=0.75, corrected=0.5, ceiling=0.5, n=2, n_listed=1)


async def test_a_job_without_ended_items_has_no_gold_scores(tmp_path: Path) -> None:
    job = await job_of(tmp_path, [], overlay_record=overlay("q2"))
    assert job.gold == {} and job.notes == ()


def test_unknown_scores_are_dashes_and_without_a_raw_score_there_is_no_note() -> None:
    unknown = GoldScores(raw=0.5, corrected=None, ceiling=None, n=2, n_listed=2)
    assert gold_notes(
        {"accuracy": unknown, "mrr": GoldScores(raw=None, corrected=None, ceiling=None, n=0, n_listed=0)}
    ) == ["accuracy raw 0.5000, corrected -, ceiling - (2 questionable labels)"]
