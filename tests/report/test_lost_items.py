"""Lost items: each has one reason, and the reasons add up in each output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.journal import Reader
from bench.metrics.failure_reason import LossKind
from bench.model import State, Verdict
from bench.plan.job_record import ModelNames, OverlayRecord
from bench.report.failure_tables import losses_grids, losses_json
from bench.report.failures import RunLosses, lost_items
from bench.report.fold import fold
from tests.full_journal import RIGHT, WRONG, ItemData, write_run
from tests.rows import each_row
from tests.small_journal import record

JUDGED = Verdict(evaluator="llm-judge", value=0.0, correct=False, judged=True)
WRONGLY = ItemData(item="q", state=State.INCORRECT, verdicts=(WRONG,), values={"accuracy": 0.0})


def wrong(**more: object) -> ItemData:
    return replace(WRONGLY, **more)  # type: ignore[arg-type]


REASONS: dict[str, tuple[ItemData, str | None]] = {
    "an error": (ItemData(item="q", state=State.ERROR, outcome="timeout", message="late"), "error"),
    "an index that never was ready": (ItemData(item="q", state=State.NOT_READY, outcome="not_ready"), "not_ready"),
    "what a provider cannot do": (ItemData(item="q", state=State.UNSUPPORTED, outcome="unsupported"), "unsupported"),
    "no verdict": (wrong(state=State.UNSCORED, verdicts=(replace(WRONG, value=None, correct=None),)), "unscored"),
    "right": (ItemData(item="q"), None),
    "not ended": (ItemData(item="q", state=None), None),
    "a judge against an exact match": (wrong(verdicts=(RIGHT, JUDGED)), "judge_disagreement"),
    "an answer where there is none": (wrong(gold=(), answerable=False), "should_have_abstained"),
    "an answer from evidence of something else": (wrong(answerable=False), "should_have_abstained"),
    "no evidence named": (wrong(gold=()), "no_evidence_known"),
    "a system without ids": (wrong(retrieved=None), "no_evidence_known"),
    "evidence that was not sent": (wrong(not_ingested=("s1",)), "not_ingested"),
    "some evidence that was not sent": (wrong(gold=("s1", "s2"), not_ingested=("s2",)), "not_ingested"),
    "nothing found": (wrong(retrieved=[["s7"]]), "not_retrieved"),
    "nothing returned": (wrong(retrieved=[], hits=[]), "not_retrieved"),
    "found beyond k": (wrong(retrieved=[["s7"]], beyond=[["s1"]], context_hits=1), "below_cut"),
    "found and dropped by the budget": (wrong(retrieved=[["s7"], ["s1"]], context_hits=1), "below_cut"),
    "in the context": (wrong(retrieved=[["s7"], ["s1"]], context_hits=2), "answer_wrong"),
    "partly in the context": (wrong(gold=("s1", "s2"), retrieved=[["s1"], ["s2"]], context_hits=1), "answer_wrong"),
    "a refusal": (wrong(state=State.ABSTAINED), "answer_wrong"),
    "half right": (wrong(state=State.PARTIAL), "answer_wrong"),
    "measured and found": (wrong(state=State.MEASURED, answer=None, verdicts=()), None),
    "measured and not found": (
        wrong(state=State.MEASURED, answer=None, verdicts=(), retrieved=[["s7"]]), "not_retrieved",
    ),
}  # fmt: skip


async def losses(
    workspace: Path, items: Sequence[ItemData], *, kinds: Sequence[str] | None = None, **changes: object
) -> RunLosses:
    folder = await write_run(workspace, "r", [(record("p", **changes), items)])
    async with Reader.open(folder) as reader:
        return await lost_items(reader, kinds=kinds)


@each_row("case", REASONS)
async def test_an_item_is_lost_for_one_reason(tmp_path: Path, case: str) -> None:
    item, kind = REASONS[case]
    (job,) = (await losses(tmp_path, [item])).jobs
    assert [one["loss"] for one in job.items] == ([] if kind is None else [kind])
    assert job.counts == ({} if kind is None else {LossKind(kind): 1})
    if case.startswith("partly"):
        assert job.items[0]["partial_evidence"]
    elif kind == "answer_wrong":
        assert not job.items[0]["partial_evidence"]


async def test_the_counts_of_reasons_add_up_to_the_items_that_are_not_correct(tmp_path: Path) -> None:
    items = [replace(item, item=f"q{at:02d}") for at, (item, _) in enumerate(REASONS.values())]
    (job,) = (await losses(tmp_path, items)).jobs
    assert sum(job.counts.values()) == len(job.items) == sum(kind is not None for _, kind in REASONS.values())
    order = list(LossKind)
    assert list(job.counts) == sorted(job.counts, key=order.index)


async def test_gold_suspect_takes_precedence_over_retrieval_reasons(tmp_path: Path) -> None:
    overlay = OverlayRecord(name="audit", sha256="0" * 64, source="us", items={"q": "wrong"})
    (job,) = (await losses(tmp_path, [wrong(retrieved=[])], overlay=overlay)).jobs
    assert [one["loss"] for one in job.items] == ["gold_suspect"]


async def test_different_verdicts_of_two_judges_or_epochs_are_a_judge_disagreement(tmp_path: Path) -> None:
    def by(judge: str, *verdicts: Verdict) -> tuple[object, list[ItemData]]:
        models = ModelNames(embedding=None, answering="acme/m1", judge=judge)
        own = record("p", key=f"job-{judge}", lane="lane", answer_owner="answers", models=models)
        right = all(verdict.correct for verdict in verdicts)
        return own, [ItemData(item="q", verdicts=verdicts) if right else wrong(verdicts=verdicts)]

    agreed = replace(JUDGED, value=1.0, correct=True)
    folder = await write_run(tmp_path, "two", [by("a", JUDGED), by("b", agreed)])  # type: ignore[list-item]
    async with Reader.open(folder) as reader:
        first, second = (await lost_items(reader)).jobs
    assert (first.counts, second.counts) == ({LossKind.JUDGE_DISAGREEMENT: 1}, {})
    epochs = [wrong(verdicts=(JUDGED,)), ItemData(item="q", epoch=2, verdicts=(agreed,))]
    (job,) = (await losses(tmp_path, epochs, epochs=2)).jobs
    assert [(one["epoch"], one["loss"]) for one in job.items] == [(1, "judge_disagreement")]
    same = [wrong(verdicts=(JUDGED,)), wrong(epoch=2, verdicts=(JUDGED,))]
    (job,) = (await losses(tmp_path / "same", same, epochs=2)).jobs
    assert [(one["epoch"], one["loss"]) for one in job.items] == [(1, "answer_wrong"), (2, "answer_wrong")]
    assert job.counts == {LossKind.ANSWER_WRONG: 1}


async def test_an_item_with_epochs_is_lost_once_for_the_reason_of_its_state(tmp_path: Path) -> None:
    def late(item: str, epoch: int) -> ItemData:
        return ItemData(item=item, epoch=epoch, state=State.ERROR, outcome="timeout", message="late")

    def missed(item: str, epoch: int) -> ItemData:
        return wrong(item=item, epoch=epoch, retrieved=[], hits=[])

    repeats = [
        ItemData(item="a"), ItemData(item="a", epoch=2), late("a", 3),
        late("b", 1), late("b", 2), late("b", 3),
        missed("c", 1), wrong(item="c", epoch=2), missed("c", 3),
        late("d", 1), missed("d", 2), late("d", 3),
        missed("e", 1), missed("e", 2),
    ]  # fmt: skip
    found = await losses(tmp_path, repeats, epochs=3)
    (job,) = found.jobs
    assert job.counts == {LossKind.ERROR: 1, LossKind.NOT_RETRIEVED: 2}, "a is right, e is pending"
    assert [one["epoch"] for one in job.items if one["item_id"] == "a"] == [3], "its failure is shown"
    assert "the tables below have one row per lost repeat" in losses_grids(found)[0].notes


MIXED = [
    ItemData(item="q1", state=State.ERROR, outcome="timeout", message="late"),
    ItemData(item="q2", state=State.ERROR, outcome="timeout", message="late"),
    ItemData(item="q3", state=State.ERROR, outcome="network", message="gone"),
    wrong(item="q4", retrieved=[], hits=[]),
    wrong(item="q5"),
]


async def test_kinds_filter_the_listed_items_but_not_the_counts(tmp_path: Path) -> None:
    for kinds, names in (
        (["error"], ["q1", "q2", "q3"]), (["answer_wrong,not_retrieved"], ["q4", "q5"]),
        ([], ["q1", "q2", "q3", "q4", "q5"]), (["unscored"], []),
        (["error", "answer_wrong"], ["q1", "q2", "q3", "q5"]),
    ):  # fmt: skip
        place = tmp_path / "-".join(names or ["none"])
        (job,) = (await losses(place, MIXED, kinds=kinds)).jobs
        assert [one["item_id"] for one in job.items] == names
        assert job.counts == {LossKind.ERROR: 3, LossKind.NOT_RETRIEVED: 1, LossKind.ANSWER_WRONG: 1}


async def test_kinds_may_be_kinds_of_error(tmp_path: Path) -> None:
    lost = [*MIXED, ItemData(item="q6", state=State.ERROR, outcome="rejected", message="400")]
    for kinds, names in (
        (["timeout"], ["q1", "q2"]), (["rejected,answer_wrong"], ["q5", "q6"]), (["mapping"], []),
    ):  # fmt: skip
        (job,) = (await losses(tmp_path / kinds[0], lost, kinds=kinds)).jobs
        assert [one["item_id"] for one in job.items] == names


async def test_unknown_kinds_providers_and_benchmarks_are_rejected_with_the_known_ones(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r", [(record("p"), MIXED), (record("q"), MIXED)])
    async with Reader.open(folder) as reader:
        with pytest.raises(UsageError) as refused:
            await lost_items(reader, kinds=["error", "nope"])
        assert str(refused.value) == '"nope" is not a reason why items are lost'
        assert refused.value.hint == f"use {', '.join(LossKind)}, or a kind of error"
        for names, named in (
            ({"provider": "z"}, "z"), ({"benchmark": "tales"}, "tales"),
            ({"benchmark": "facts", "provider": "z"}, "z on facts"),
        ):  # fmt: skip
            with pytest.raises(UsageError) as refused:
                await lost_items(reader, **names)
            assert (str(refused.value), refused.value.hint) == (
                f"run r has no job of {named}", "jobs of this run: facts x p, facts x q",
            )  # fmt: skip
        assert [job.record.provider for job in (await lost_items(reader, provider="q")).jobs] == ["q"]
        assert len((await lost_items(reader, benchmark="FACTS")).jobs) == 2


async def test_losses_json_lists_items_and_distinct_reasons(tmp_path: Path) -> None:
    found = losses_json(await losses(tmp_path, MIXED))
    (job,) = found["jobs"]  # type: ignore[misc, attr-defined]
    assert (found["run_id"], job["n_lost"], job["counts"]) == (
        "r", 5, {"error": 3, "not_retrieved": 1, "answer_wrong": 1},
    )  # fmt: skip
    assert job["models"] == {"embedding": None, "answering": "acme/m1", "judge": None}
    assert [(one["loss"], one["error"], one["text"], one["count"]) for one in job["reasons"]] == [
        ("error", "timeout", "late", 2), ("error", "network", "gone", 1),
    ]  # fmt: skip
    first, *_, last = job["items"]
    assert (first["item_id"], first["error"], first["retrieved"], first["answer"]) == (
        "q1", {"kind": "timeout", "message": "late"}, None, None,
    )  # fmt: skip
    assert last == {
        "item_id": "q5", "corpus": "c", "epoch": 1, "question_type": "one", "state": "incorrect",
        "loss": "answer_wrong", "partial_evidence": False, "error": None,
        "question": "Where?", "expected": ["Oslo"], "answer": "Oslo", "evidence": ["s1"], "retrieved": [["s1"]],
        "reason": None,
    }  # fmt: skip


async def test_losses_grids_count_first_then_list_items_up_to_the_limit(tmp_path: Path) -> None:
    many = [wrong(item=f"q{at:03d}", question="so long a question " * 20) for at in range(43)]
    found = await losses(tmp_path, [*many, ItemData(item="q900", state=State.ERROR, outcome="timeout", message="late")])
    counts, *rest = losses_grids(found, limit=40, cut=True)
    assert counts.title == "lost items of r, one cause per item | facts | acme/m1"
    assert counts.head == ("provider", "lost", "error", "answer_wrong")
    assert counts.rows == (("p", "44", "1", "43"),) and counts.right == (1, 2, 3)
    items = rest[-1]
    assert len(items.rows) == 40 and all(len(row) == len(items.head) for row in items.rows)
    assert any("3 more rows: --limit 0" in note for note in items.notes)
    whole = losses_grids(found, limit=40, cut=False)[-1]
    assert max(len(cell) for row in items.rows for cell in row) < max(len(cell) for row in whole.rows for cell in row)


LATE = "{corpus} was not searchable 2 s after its last add"
DENIED = 'p.status: GET /api/spaces/bench-facts-r-{digits:016x} -> 401: {{"detail": "token expired"}}'


async def test_one_cause_is_one_line_although_its_messages_have_the_names_of_many_corpora(tmp_path: Path) -> None:
    late = [
        ItemData(
            item=f"q{at}", corpus=f"c{at % 5}", state=State.NOT_READY, outcome="not_ready",
            message=LATE.format(corpus=f"c{at % 5}"),
        )
        for at in range(20)
    ]  # fmt: skip
    denied = [
        ItemData(
            item=f"d{at}", corpus=f"c{at}", state=State.ERROR, outcome="auth", message=DENIED.format(digits=at * 9**16)
        )
        for at in range(5)
    ]
    only = ItemData(item="one", corpus="c9", state=State.ERROR, outcome="rejected", message="c9: one is too long")
    found = await losses(tmp_path, [*late, *denied, only])
    causes = [
        ("not_ready", LATE.format(corpus="<corpus>"), 20),
        ("auth", 'p.status: GET /api/spaces/<id> -> 401: {"detail": "token expired"}', 5),
        ("rejected", "c9: one is too long", 1),
    ]
    assert [(one.error, one.text, len(one.items)) for one in found.jobs[0].reasons] == causes
    async with Reader.open(tmp_path / "checkpoints/r") as reader:
        (job,) = (await fold(reader)).jobs
        assert [(one.kind, one.text, one.count) for one in await reader.error_counts(job.record.key)] == causes
    assert job.commonest is not None and job.commonest.count == 20


async def test_one_cause_is_one_line_although_item_ids_begin_with_the_corpus_id(tmp_path: Path) -> None:
    lost = [
        ItemData(
            item=f"c{corpus}-q{at}", corpus=f"c{corpus}", state=State.ERROR, outcome="evaluator",
            message=f"no verdict for item c{corpus}-q{at}",
        )
        for corpus in range(3)
        for at in range(4)
    ]  # fmt: skip
    found = await losses(tmp_path, lost)
    assert [(one.text, len(one.items)) for one in found.jobs[0].reasons] == [("no verdict for item <item>", 12)]


async def test_a_run_without_losses_has_a_row_of_zeros(tmp_path: Path) -> None:
    (grid,) = losses_grids(await losses(tmp_path, [ItemData(item="q")]))
    assert grid.rows == (("p", "0"),)


async def test_benchmark_names_are_case_insensitive(tmp_path: Path) -> None:
    folder = await write_run(
        tmp_path, "r", [(record("p", benchmark="NoLiMa"), [ItemData(item="i", state=State.ERROR)])]
    )
    async with Reader.open(folder) as reader:
        for name in ("NoLiMa", "nolima"):
            assert len((await lost_items(reader, benchmark=name)).jobs) == 1
            assert len((await fold(reader, benchmark=name)).jobs) == 1
