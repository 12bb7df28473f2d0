"""Metric rows from phase results: labels, gold, costs and reasons of exclusion."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.datasets import RenderedMemory
from bench.engine.corpora.anonymizer import AnonymizedCorpus
from bench.engine.items.hit_mapping import map_hits, query_of
from bench.engine.items.item_row import (
    LONGEST_LABEL,
    failed_row,
    gold,
    item_data,
    item_payload,
    labels,
    row_of,
    unsupported_rows,
)
from bench.engine.items.oracle import Oracle
from bench.engine.items.phase_results import AnswerResult, SearchResult
from bench.engine.run_context import Failure
from bench.journal import Key
from bench.model import Call, Completion, Evidence, Found, Hit, Item, Memory, Phase, Query, Space, State, Usage, Verdict
from bench.plan import Lane
from tests.rows import each_row
from tests.small_world import World

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    """The benchmark of facts with a group and a breakdown by place."""
    world = World.make(tmp_path, corpora=1, items=3)
    with (world.workspace / "configs/benchmarks/facts.yaml").open("a") as config:
        config.write("groups: {easy: [one], hard: [two]}\nabstention: {idPattern: _abs$}\n")
    (found,) = world.plan(providers="bm25", k=2, epochs=2).lanes
    scoring = found.benchmark.scoring
    first, *others = scoring.metrics
    broken_down = replace(scoring, metrics=(replace(first, breakdown=("place",)), *others))
    return replace(found, benchmark=replace(found.benchmark, scoring=broken_down))


def item(**changes: object) -> Item:
    values: dict[str, object] = {
        "id": "q1", "position": 1, "corpus": "c0", "question": "Where?", "answers": ("here", "there"),
        "evidence": Evidence(sessions=("answer_0_1",), turns=("c0t1",)), "question_type": "one",
    }  # fmt: skip
    return Item(**{**values, **changes})  # type: ignore[arg-type]


def found(**changes: object) -> SearchResult:
    values: dict[str, object] = {
        "hits": (Hit(id="a", content="x", score=0.9), Hit(id="b", content="y"), Hit(id="c", content="z", score=0.1)),
        "retrieved": (("answer_0_1",), ()), "requested": 2, "returned": 3,
    }  # fmt: skip
    return SearchResult(**{**values, **changes})  # type: ignore[arg-type]


def answered() -> AnswerResult:
    reply = Completion(text="here", model="m", usage=Usage(input_tokens=50, output_tokens=6), cost_usd="0.02")
    return AnswerResult(reply=reply, context_hits=1, prompt="default", prompt_sha256="0", context_tokens=40)


def call(**changes: object) -> Call:
    values: dict[str, object] = {
        "endpoint": "m.judge", "role": "judge", "attempt": 1, "status": 200, "outcome": "ok", "started_at": START,
        "usage": Usage(input_tokens=10, output_tokens=2, total_tokens=12), "cost_usd": "0.001",
    }  # fmt: skip
    return Call(**{**values, **changes})  # type: ignore[arg-type]


# ------------------------------------------------------------------ labels and gold


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"question_type": "one", "group": "easy"}),
        ({"question_type": "two"}, {"question_type": "two", "group": "hard"}),
        ({"question_type": "four"}, {"question_type": "four"}),
        ({"question_type": None}, {}),
        ({"question_type": None, "metadata": {"place": "Rome", "age": 3}}, {"place": "Rome"}),
        ({"question_type": None, "metadata": {"place": 7}}, {"place": "7"}),
        ({"question_type": None, "metadata": {"place": 1.5}}, {"place": "1.5"}),
        ({"question_type": None, "metadata": {"place": True}}, {"place": "true"}),
        ({"question_type": None, "metadata": {"place": ["Rome"]}}, {}),
        ({"question_type": None, "metadata": {"place": None}}, {}),
        ({"question_type": None, "metadata": {"place": "x" * 500}}, {"place": "x" * LONGEST_LABEL}),
    ],
)
def test_labels_are_question_type_group_and_scalar_breakdown_fields(
    lane: Lane, changes: dict[str, object], expected: dict[str, str]
) -> None:
    assert labels(lane, item(**changes)) == expected


@pytest.mark.parametrize(
    ("changes", "ids", "reason"),
    [
        ({}, ("answer_0_1",), ""),
        ({"evidence": Evidence()}, (), "no_evidence"),
        ({"abstention": True}, (), "abstention"),
        ({"abstention": True, "evidence": Evidence()}, (), "abstention"),
    ],
)
def test_gold_is_empty_with_a_reason_for_items_without_evidence_or_with_abstention(
    lane: Lane, changes: dict[str, object], ids: tuple[str, ...], reason: str
) -> None:
    assert lane.level == "session" or ids == ("answer_0_1",)
    assert gold(replace(lane, level="session"), item(**changes)) == (ids, reason)


def test_gold_ids_are_sessions_or_turns_by_the_level_of_the_lane(lane: Lane) -> None:
    assert gold(replace(lane, level="turn"), item())[0] == ("c0t1",)


# ------------------------------------------------------------------ rows


def test_a_row_has_all_data_that_metrics_read(lane: Lane) -> None:
    verdicts = (Verdict(evaluator="contains", value=1.0, correct=True),)
    row = row_of(
        replace(lane, level="session"), item(metadata={"category": "travel"}), 2,
        found().timed({"total": 9, "network": 4}), answered().timed({"total": 7}), verdicts,
        state=State.CORRECT, judging=[call(), call(outcome="timeout", usage=None, cost_usd=None)],
    )  # fmt: skip
    assert (row.benchmark, row.corpus, row.item_id, row.epoch, row.state) == ("facts", "c0", "q1", 2, State.CORRECT)
    assert (row.answerable, row.adversarial, row.abstained, row.reason, row.category) == (
        True, False, False, "", "travel",
    )  # fmt: skip
    assert (row.relevant, row.retrieved) == (("answer_0_1",), (("answer_0_1",), ()))
    assert row.returned_scores == (0.9, None), "no more than k"
    assert (row.prediction, row.references, row.verdicts) == ("here", ("here", "there"), verdicts)
    assert row.times_us == {"search": 9, "search.network": 4, "answer": 7}
    assert row.tokens == {"context": 40, "answer_in": 50, "answer_out": 6, "judge_in": 10, "judge_out": 2}
    assert row.costs_usd == {"answer": "0.02", "judge": "0.001"}


def test_a_row_without_an_answer_has_no_answer_tokens_or_costs(lane: Lane) -> None:
    row = row_of(lane, item(), 1, found(), None, (), state=State.MEASURED, judging=[])
    assert (row.prediction, row.tokens, row.costs_usd) == (None, {}, {})


def test_a_search_has_a_cost_only_if_it_is_priced(lane: Lane) -> None:
    free = row_of(lane, item(), 1, found(cost_usd="0"), None, (), state=State.MEASURED, judging=[])
    billed = row_of(lane, item(), 1, found(cost_usd="0.5", priced=True), None, (), state=State.MEASURED, judging=[])
    unknown = row_of(lane, item(), 1, found(priced=True), None, (), state=State.MEASURED, judging=[])
    assert [row.costs_usd for row in (free, billed, unknown)] == [{}, {"search": "0.5"}, {"search": None}]


@pytest.mark.parametrize(
    ("calls", "tokens", "cost"),
    [
        ([call(), call()], (20, 4), "0.002"),
        ([call(cost_usd=None), call()], (20, 4), None),
        ([call(usage=None)], (None, None), "0.001"),
        ([call(outcome="timeout", cost_usd=None, usage=None)], (None, None), "0"),
    ],
)
def test_tokens_and_costs_of_a_judge_are_summed_over_its_calls(
    lane: Lane, calls: list[Call], tokens: object, cost: str | None
) -> None:
    row = row_of(lane, item(), 1, found(), answered(), (), state=State.CORRECT, judging=calls)
    assert ((row.tokens["judge_in"], row.tokens["judge_out"]), row.costs_usd["judge"]) == (tokens, cost)


def test_the_reason_of_a_search_takes_precedence_over_that_of_the_item(lane: Lane) -> None:
    bare = item(evidence=Evidence())
    row = row_of(
        lane, bare, 1, found(retrieved=None, reason="no_source_ids"), None, (), state=State.MEASURED, judging=[]
    )
    assert row.reason == "no_source_ids"
    assert row_of(lane, bare, 1, found(), None, (), state=State.MEASURED, judging=[]).reason == "no_evidence"


@pytest.mark.parametrize(("abstained", "kind"), [(True, "adversarial"), (False, "one")])
def test_abstained_and_adversarial_items_are_marked(lane: Lane, abstained: bool, kind: str) -> None:
    verdicts = (
        Verdict(evaluator="a", value=0.0, correct=False),
        Verdict(evaluator="b", value=0.0, correct=False, abstained=abstained),
    )
    asked = item(question_type=kind, abstention=True)
    row = row_of(lane, asked, 1, found(), answered(), verdicts, state=State.ABSTAINED, judging=[])
    assert (row.abstained, row.adversarial, row.answerable) == (abstained, kind == "adversarial", False)


# ------------------------------------------------------------------ rows without a result


@pytest.mark.parametrize(
    ("kind", "state", "outcome"),
    [
        ("timeout", State.ERROR, "timeout"),
        ("plugin", State.ERROR, "plugin"),
        ("ingest_failed", State.ERROR, "ingest_failed"),
        ("not_ready", State.NOT_READY, "not_ready"),
        ("unsupported", State.UNSUPPORTED, "ok"),
    ],
)
def test_a_failed_item_keeps_labels_gold_and_item_data(lane: Lane, kind: str, state: State, outcome: str) -> None:
    key = Key(owner="j", phase=Phase.EVALUATE, corpus="c0", unit="q1")
    entry = failed_row(replace(lane, level="session"), key, item(), Failure(kind=kind, message="why"))
    assert (entry.key, entry.state, entry.outcome, entry.message) == (key, state, outcome, "why")
    assert entry.labels == {"question_type": "one", "group": "easy"}
    assert entry.data == {"gold": ["answer_0_1"], "reason": "", "answerable": True, "adversarial": False}
    assert entry.payloads == {"item": item_payload(item())}
    assert entry.values == {}


def test_item_payload_has_question_answers_evidence_and_metadata(lane: Lane) -> None:
    when = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    assert item_payload(item(question_date=when, metadata={"a": 1}, flags=("odd",))) == {
        "question": "Where?", "answers": ["here", "there"], "question_date": "2026-01-02T03:04:00+00:00",
        "evidence": {"sessions": ["answer_0_1"], "turns": ["c0t1"]}, "metadata": {"a": 1}, "flags": ["odd"],
    }  # fmt: skip
    assert item_payload(item())["question_date"] is None


def test_evidence_that_was_not_ingested_is_recorded() -> None:
    assert item_data(("a",), "", item(), not_sent=["c0t1"])["not_ingested"] == ["c0t1"]
    assert "not_ingested" not in item_data(("a",), "", item())


def test_each_epoch_of_each_job_of_a_skipped_lane_is_unsupported(lane: Lane) -> None:
    rows = list(unsupported_rows(replace(lane, skipped="needs wings")))
    (job,) = lane.jobs
    assert [(row.key.unit, row.key.epoch) for row in rows] == [
        (f"c0q{number}", epoch) for number in range(3) for epoch in (1, 2)
    ]
    assert {(row.key.owner, row.state, row.outcome, row.message) for row in rows} == {
        (job.key, State.UNSUPPORTED, "ok", "needs wings")
    }


# ------------------------------------------------------------------ between item and provider


class OpenLaneStub:
    """The parts of an open lane that ``map_hits`` uses."""

    def __init__(self, lane: Lane, *, unbounded: bool = False, price: str | None = None) -> None:
        self.plan, self.provider, self.search_price = lane, Oracle(), price
        self.provider.unbounded = unbounded


def anonymized() -> AnonymizedCorpus:
    rendered = [
        RenderedMemory(
            memory=Memory(id=f"m{at}", content=f"text {at}"), sessions=(f"s{at}",), turns=(f"t{at}",), corpus="c0",
            position=at,
        )
        for at in range(4)
    ]  # fmt: skip
    return AnonymizedCorpus.over("facts", "c0", rendered)


def hits(*ids: str) -> tuple[Hit, ...]:
    return tuple(
        Hit(id=f"h{at}", content="x" + " " * at, source_ids=(name,) if name else ()) for at, name in enumerate(ids)
    )


def test_a_query_contains_no_dataset_id(lane: Lane) -> None:
    query = query_of(OpenLaneStub(lane), item(id="answer_7"), "Where?")  # type: ignore[arg-type]
    assert (query.text, query.k) == ("Where?", 2)
    assert "answer" not in query.key
    assert query.key == query_of(OpenLaneStub(lane), item(id="answer_7"), "Who?").key  # type: ignore[arg-type]
    assert query.key != query_of(OpenLaneStub(lane), item(id="answer_8"), "Where?").key  # type: ignore[arg-type]


def test_hits_map_to_dataset_ids_and_are_cut_to_k(lane: Lane) -> None:
    own, known = anonymized(), [memory.id for memory in anonymized().memories]
    answer = Found(hits=hits(known[2], known[0], known[1]), requested=2, returned=3)
    result = map_hits(OpenLaneStub(replace(lane, level="session", unit="session")), own, answer)  # type: ignore[arg-type]
    assert result.retrieved == (("s2",), ("s0",))
    assert (result.requested, result.returned, result.flags, len(result.hits)) == (2, 3, ("over_returned",), 2)


def test_hits_beyond_k_of_an_unbounded_provider_are_kept_separately(lane: Lane) -> None:
    own, known = anonymized(), [memory.id for memory in anonymized().memories]
    answer = Found(hits=hits(*known), requested=4, returned=4)
    whole = OpenLaneStub(replace(lane, level="session", unit="session"), unbounded=True)
    result = map_hits(whole, own, answer)  # type: ignore[arg-type]
    assert (result.retrieved, result.beyond) == ((("s0",), ("s1",)), (("s2",), ("s3",)))
    assert (len(result.hits), result.flags) == (4, ())


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"requested": 1}, ("k_capped",)),
        ({"unmapped": 1}, ("unmapped",)),
        ({"returned": 9, "unmapped": 2, "requested": 1}, ("over_returned", "k_capped", "unmapped")),
        ({}, ()),
    ],
)
def test_unusual_counts_of_hits_are_flagged(lane: Lane, changes: dict[str, int], flags: tuple[str, ...]) -> None:
    known = anonymized().memories[0].id
    values = {"hits": hits(known), "requested": 2, "returned": 1, **changes}
    assert map_hits(OpenLaneStub(lane), anonymized(), Found(**values)).flags == flags  # type: ignore[arg-type]


def test_duplicate_hits_are_flagged_unless_hits_have_no_ids(lane: Lane) -> None:
    known = anonymized().memories[0].id
    twice = Found(hits=hits(known, known), requested=2, returned=2)
    assert map_hits(OpenLaneStub(lane), anonymized(), twice).flags == ("duplicates",)  # type: ignore[arg-type]
    bare = Found(hits=hits("", ""), requested=2, returned=2, ids_available=False)
    result = map_hits(OpenLaneStub(lane), anonymized(), bare)  # type: ignore[arg-type]
    assert (result.flags, result.retrieved, result.reason) == ((), None, "no_source_ids")


@pytest.mark.parametrize(("price", "cost", "priced"), [(None, None, False), ("0.01", "0.01", True), ("0", "0", True)])
def test_the_cost_of_a_search_is_its_price(lane: Lane, price: str | None, cost: str | None, priced: bool) -> None:
    result = map_hits(OpenLaneStub(lane, price=price), anonymized(), Found(hits=(), requested=2, returned=0))  # type: ignore[arg-type]
    assert (result.cost_usd, result.priced) == (cost, priced)


# ------------------------------------------------------------------ the oracle


async def test_the_oracle_returns_the_evidence_up_to_k() -> None:
    space = Space(namespace="n", run_id="r", benchmark="b", corpus="c", attempt=1)
    memories = [Memory(id=f"m{at}", content=f"text {at}", when=START) for at in range(3)]
    async with Oracle() as oracle:
        with_evidence = oracle.with_evidence(memories)
        answer = await with_evidence.search(space, Query(text="anything", k=2, key="q"))
        assert [(one.source_ids, one.content, one.when) for one in answer.hits] == [
            (("m0",), "text 0", START), (("m1",), "text 1", START),
        ]  # fmt: skip
        assert (answer.requested, answer.returned) == (2, 3)
        assert (await oracle.search(space, Query(text="anything", k=2, key="q"))).hits == (), "of no item"
        assert (await oracle.ingest(space, memories)).ids == {f"m{at}": (f"m{at}",) for at in range(3)}
        assert (await oracle.ready(space, await oracle.ingest(space, []))).state == "ready"
        assert await oracle.clear(space) == 0


async def test_a_run_of_the_oracle_is_all_correct(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=2, items=4)
    outcome = await world.run(providers="oracle", answering_model="builtin/extractive", run_id="r")
    assert outcome.jobs[0].states == {State.CORRECT: 8}
    rows = world.query(
        "r", "select json_extract(e.data, '$.returned') from phase p join entry e on e.id = p.entry where phase = 3"
    )
    assert rows == [(1,)] * 8
    assert world.query("r", "select count(*) from probe") == [(0,)], "it stores no memory that a probe could find"


# ------------------------------------------------------------------------ search costs


@each_row(
    ("price", "calls", "cost"),
    [
        (None, [], None),
        ("0.5", [], "0.5"),
        (None, ["0.007"], "0.007"),
        ("0.5", ["0.007", "0.001"], "0.508"),
        ("0.5", [None], None),
        (None, ["0.007", None], None),
    ],
)
def test_the_cost_of_a_query_embedding_is_part_of_the_search_cost(
    price: str | None, calls: list[str | None], cost: str | None
) -> None:
    asked = [call(cost_usd=one, role="embedding", outcome="ok") for one in calls]
    ignored = call(cost_usd=None, usage=None, role="embedding", outcome="timeout")
    result = found(cost_usd=price, priced=price is not None).billed([*asked, ignored])
    assert (result.cost_usd, result.priced) == (cost, bool(price or calls))


@each_row(
    ("price", "pages", "cost"),
    [
        ("0.5", [("0.5", "ok")], "0.5"),
        ("0.5", [("0.5", "ok"), (None, "unavailable"), ("0.5", "ok")], "1.0"),
        (None, [(None, "ok")], None),
    ],
)
def test_the_search_cost_contains_each_page(
    price: str | None, pages: list[tuple[str | None, str]], cost: str | None
) -> None:
    asked = [call(cost_usd=one, usage=None, role="provider", outcome=outcome) for one, outcome in pages]
    assert found(cost_usd=price, priced=True).billed(asked).cost_usd == cost
