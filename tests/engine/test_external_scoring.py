"""External rankings and answers are scored like those of a provider."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.datasets import Dataset
from bench.engine.external_results import GIVEN, CorpusIds, external_plan, known_name, score_external, search_result_of
from bench.engine.external_rows import ExternalRow, Hits
from bench.errors import DataError, UsageError
from bench.journal import Reader, RunState
from bench.journal.records import ItemRecord
from bench.model import Phase, State
from bench.plan import Plan
from bench.plan.job_record import read_jobs
from bench.report import fold
from tests.rows import each_row
from tests.small_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two corpora of four questions; fact N is in turn cXtN of session answer_X_(N mod 3)."""
    return World.make(tmp_path, corpora=2, items=4)


def row(item: str, *hits: str | Sequence[str], answer: str | None = None, line: int = 1) -> ExternalRow:
    slots: Hits = tuple((hit,) if isinstance(hit, str) else tuple(hit) for hit in hits)
    return ExternalRow(item=item, where=f"theirs:{line}", hits=slots or None, answer=answer)


def planned(world: World, rows: Sequence[ExternalRow], **flags: object) -> tuple[Plan, list[ExternalRow]]:
    request = RunRequest.combine(None, {"benchmarks": "facts", **flags})
    return external_plan(Catalog.load(world.workspace), request, rows, label="theirs", environment=world.environment)


async def scored(world: World, *rows: ExternalRow, **flags: object) -> list[ItemRecord]:
    """Score rows and return the journal record of each item."""
    plan, named = planned(world, rows, **flags)
    await score_external(plan, named, world.workspace / "scored", environment=world.environment)
    async with Reader.open(world.workspace / "scored") as reader:
        (job,) = read_jobs(reader.meta.extra)
        chain = job.chain
        return [record async for record in reader.items(chain)]


async def test_a_ranking_of_sessions_is_scored_by_session(world: World) -> None:
    first, second = await scored(world, row("c0q0", "answer_0_1", "answer_0_0"), row("c1q1", "answer_1_1"))
    assert first.phases[Phase.SEARCH].data["retrieved"] == [["answer_0_1"], ["answer_0_0"]]
    assert first.values["mrr"] == 0.5
    assert second.values["mrr"] == 1.0
    assert {first.state, second.state} == {State.MEASURED}


async def test_a_ranking_of_turns_is_scored_by_turn(world: World) -> None:
    (found,) = await scored(world, row("c0q1", "c0t4", "c0e1", "c0t1"))
    assert found.phases[Phase.SEARCH].data["retrieved"] == [[], ["c0e1"], ["c0t1"]]
    assert found.values["mrr"] == pytest.approx(1 / 3)
    assert found.phases[Phase.EVALUATE].data["gold"] == ["c0t1"]


async def test_a_hit_can_have_several_ids(world: World) -> None:
    (found,) = await scored(world, row("c0q1", ["c0t0", "c0t1"], "c0t3"))
    assert found.values["mrr"] == 1.0
    assert found.phases[Phase.SEARCH].data["retrieved"] == [["c0t0", "c0t1"], ["c0t3"]]


async def test_an_unknown_id_keeps_its_rank_and_is_reported_in_an_event(world: World) -> None:
    (found,) = await scored(world, row("c0q0", "nobody", "answer_0_0", "c1t0"))
    assert found.values["mrr"] == 0.5
    assert found.phases[Phase.SEARCH].data["unmapped"] == 2
    async with Reader.open(world.workspace / "scored") as reader:
        (event,) = await reader.events("unknown_ids")
    assert event.message.startswith('2 different hit ids are unknown in the corpus of their item, first "nobody"')


async def test_hits_beyond_k_are_cut_and_flagged(world: World) -> None:
    (found,) = await scored(world, row("c0q0", "answer_0_2", "answer_0_1", "answer_0_0"), k=2)
    data = found.phases[Phase.SEARCH].data
    assert (data["retrieved"], data["beyond"]) == ([["answer_0_2"], ["answer_0_1"]], [["answer_0_0"]])
    assert (data["requested"], data["returned"], data["flags"]) == (2, 3, ["over_returned"])


async def test_an_external_answer_is_evaluated_like_any_other(world: World) -> None:
    right, wrong = await scored(
        world, row("c0q0", answer="it is W0y0"), row("c1q2", "answer_1_2", answer="no idea at all")
    )
    assert (right.state, wrong.state) == (State.CORRECT, State.INCORRECT)
    assert right.phases[Phase.ANSWER].data["answer"] == "it is W0y0"
    assert right.phases[Phase.ANSWER].measured["model"] == GIVEN
    assert right.phases[Phase.SEARCH].data["reason"] == "no_ranking"
    assert right.values["mrr"] is None
    assert wrong.values["mrr"] == 1.0


async def test_items_without_a_row_stay_pending(world: World) -> None:
    await scored(world, row("c0q0", "answer_0_0"), row("c0q1", "answer_0_1"))
    async with Reader.open(world.workspace / "scored") as reader:
        assert (await reader.status()).state is RunState.PARTIAL
        (job,) = (await fold(reader)).jobs
    mrr = job.metrics["mrr"]
    assert (mrr.n, mrr.n_failed, job.record.n_selected) == (2, 6, 8)
    assert (job.record.provider, job.record.models.answering) == ("theirs", None)


async def test_a_file_with_all_items_makes_a_complete_run(world: World) -> None:
    rows = [row(f"c{corpus}q{item}", "c0t0" if corpus == 0 else "c1t0") for corpus in (0, 1) for item in range(4)]
    await scored(world, *rows)
    async with Reader.open(world.workspace / "scored") as reader:
        assert (await reader.status()).state is RunState.COMPLETE


@pytest.mark.parametrize(
    ("item", "hint"),
    [("c0q9", 'did you mean "c0q'), ("entirely-else", "list the ids with: bench describe facts --items")],
)
def test_an_unknown_item_suggests_the_nearest_one(world: World, item: str, hint: str) -> None:
    with pytest.raises(DataError) as refused:
        planned(world, [row("c0q0", "c0t0"), row(item, "c0t0", line=7)])
    assert (refused.value.message, refused.value.where) == (f'facts has no item "{item}"', "theirs:7")
    assert refused.value.hint.startswith(hint)


def test_sessions_and_turns_in_one_file_are_rejected(world: World) -> None:
    with pytest.raises(DataError) as refused:
        planned(world, [row("c0q0", "c0t0"), row("c1q0", "c1t1", "answer_1_0", line=2)])
    assert refused.value.message == 'hit "answer_1_0" is a session, but the hits before this hit are turns'
    assert (refused.value.where, refused.value.hint) == ("theirs:2", "rank only sessions or only turns in one file")


def test_a_turn_in_a_ranking_of_sessions_counts_as_its_session(world: World) -> None:
    plan, _ = planned(world, [row("c0q0", "answer_0_2", "c0t0")])
    assert plan.lanes[0].unit == "session"


def test_a_file_with_only_answers_needs_no_source_ids(world: World) -> None:
    plan, _ = planned(world, [row("c0q0", answer="x")])
    (lane,) = plan.lanes
    assert lane.unit == "session"
    assert [job.answering for job in lane.jobs] == [GIVEN]
    with pytest.raises(UsageError):
        planned(world, [row("c0q0", answer="x")], benchmarks="nobody-has-it")


@each_row(
    ("written", "name"),
    [
        ("a b", "a b"), ("a%20b", "a b"), ("a b#dup1", "a b"), ("a%20b#dup2", "a b"),
        ("c#dup1", "c#dup1"), ("%41", "%41"), ("z", "z"), ("#dup1", "#dup1"),
    ],
)  # fmt: skip
def test_known_name_accepts_percent_encoding_and_duplicate_suffixes(written: str, name: str) -> None:
    assert known_name(written, {"a b", "c#dup1", "%41", "A"}) == name


def test_an_id_of_both_a_session_and_a_turn_means_the_session(world: World) -> None:
    path = world.workspace / "datasets/facts.jsonl"
    path.write_text(path.read_text().replace('"c0t0"', '"answer_0_1"'))
    known = CorpusIds.of(dataset_of_plan(world), "c0")
    ranking = row("c0q0", "answer_0_1", "c0t1", "nobody")
    assert list(known.kinds(ranking)) == [("answer_0_1", True, "theirs:1"), ("c0t1", False, "theirs:1")]
    assert list(known.unknown_ids(ranking)) == [("nobody", "theirs:1")]


def dataset_of_plan(world: World) -> Dataset:
    return world.plan(providers="bm25").lanes[0].benchmark.dataset


def test_the_content_of_an_external_hit_is_the_text_of_its_source(world: World) -> None:
    plan, _ = planned(world, [row("c0q0", "answer_0_0")])
    known = CorpusIds.of(plan.lanes[0].benchmark.dataset, "c0")
    found = search_result_of(row("c0q0", "answer_0_0", "nobody"), known, plan.lanes[0])
    assert found.hits[0].content == (
        "The vault K0x0 opens with W0y0\nThe vault K0x3 opens with W0y3\nNoted in c0 part 0"
    )
    assert (found.hits[0].id, found.hits[1].id, found.hits[1].content) == ("answer_0_0", "nobody", "")
