"""Records of a reader: totals that do not depend on order, streams that agree, values of the last attempt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.journal import CorpusKind, Event, Journal, JournalRow, ProbeRow, Reader
from bench.journal.records import CorpusRecord, ErrorCount, UsageTotals, totals_by_role
from bench.model import Call, Phase, State, Usage
from tests.journal.journal_samples import (
    CHAIN,
    JOB,
    LANE,
    START,
    call,
    failed,
    meta,
    scored,
    search,
    step,
)
from tests.rows import each_row

COSTS = st.none() | st.decimals("0", "3", places=7).map(str)
CALLS = st.builds(
    call,
    role=st.sampled_from(["provider", "answering", "judge", "embedding"]),
    outcome=st.sampled_from(["ok", "ok", "timeout", "rate_limited"]),
    cost_usd=COSTS,
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 9), total_tokens=st.integers(0, 9)),
)


async def written(folder: Path, rows: Sequence[JournalRow]) -> Path:
    async with Journal.create(folder, meta()) as journal:
        for row in rows:
            journal.append(row)
            await journal.wait_for_room()
    return folder


# ------------------------------------------------------------------ sums


@given(st.lists(CALLS, max_size=12), st.integers(0, 12))
def test_totals_by_role_add_up_for_any_split_of_the_calls(calls: list[Call], at: int) -> None:
    parts = [totals_by_role(calls[:at]), totals_by_role(calls[at:])]
    whole = totals_by_role(calls)
    for role, total in whole.items():
        added = sum((part[role] for part in parts if role in part), start=UsageTotals())
        assert added == total
        assert Decimal(total.cost_usd) == sum(
            (Decimal(one.cost_usd) for one in calls if one.role == role and one.cost_usd is not None), Decimal(0)
        )
    assert sum(one.calls for one in whole.values()) == len(calls)
    assert sum(one.errors for one in whole.values()) == sum(one.outcome != "ok" for one in calls)
    assert sum(one.unknown_costs for one in whole.values()) == sum(
        one.cost_usd is None and (one.outcome == "ok" or one.usage is not None) for one in calls
    )
    assert totals_by_role(list(reversed(calls))) == whole


def test_totals_have_roles_in_order_and_costs_without_an_exponent() -> None:
    found = totals_by_role([call(role="provider", cost_usd="0.0000001"), call(role="answering", cost_usd=None)])
    assert list(found) == ["answering", "provider"]
    assert found["provider"].cost_usd == "0.0000001"
    assert (found["answering"].cost_usd, found["answering"].unknown_costs) == ("0", 1)


def test_usage_is_estimated_when_any_part_is() -> None:
    exact, guess = Usage(input_tokens=1, total_tokens=1), Usage(input_tokens=2, total_tokens=2, estimated=True)
    assert exact + guess == Usage(input_tokens=3, total_tokens=3, estimated=True)


def test_times_of_a_corpus_are_added_up_over_its_last_attempt() -> None:
    rows = (
        step(CorpusKind.BATCH, times_us={"total": 3}),
        step(CorpusKind.BATCH, times_us={"total": 4}, at=START + timedelta(seconds=1)),
        step(CorpusKind.READY, times_us={"index": 5}),
    )
    facts = CorpusRecord(lane=LANE, corpus="c1", attempts=2, last=rows, spent={}, uncleared=())
    assert facts.times_us == {"total": 7, "index": 5}
    assert facts.started_at == START
    assert facts.row("batch") is rows[1]
    assert facts.row("cleared") is None
    assert CorpusRecord(lane=LANE, corpus="c1", attempts=0, last=(), spent={}, uncleared=()).started_at is None


# ------------------------------------------------------------------ streams


def many(count: int) -> list[JournalRow]:
    """Shuffled items: correct, incorrect, without a value, failed; several corpora, types and epochs."""
    chance, rows = random.Random(5), list[JournalRow]()
    for number in range(count):
        unit, corpus = f"q{number:04d}", f"c{number % 7}"
        labels = {"question_type": "abc"[number % 3]}
        if number % 5 == 4:
            rows.append(failed(unit, ("timeout", "rejected")[number % 2], corpus=corpus, labels=labels))
        else:
            value = None if number % 11 == 3 else float(number % 2)
            data = {"reason": "no_evidence"} if value is None else {}
            epoch = 1 + number % 2
            rows.append(scored(unit, value, corpus=corpus, labels=labels, data=data, epoch=epoch))
    chance.shuffle(rows)
    return rows


async def test_items_values_and_score_groups_agree(tmp_path: Path) -> None:
    folder = await written(tmp_path / "run", many(500))
    async with Reader.open(folder) as reader:
        records = [one async for one in reader.items(CHAIN)]
        batches = [one async for one in reader.values(JOB)]
        groups = [one async for one in reader.score_groups(JOB)]
        states, unvalued = await reader.states(JOB), [one async for one in reader.items_without_value(JOB, "recall@5")]
    flat = [
        (corpus, item, epoch, state, outcome, dict(labels))
        for one in batches
        for corpus, item, epoch, state, outcome, labels in zip(
            one.corpora, one.items, one.epochs, one.states, one.outcomes, one.labels, strict=True
        )
    ]
    assert flat == [(one.corpus, one.item, one.epoch, str(one.state), one.outcome, dict(one.labels)) for one in records]
    assert flat == sorted(flat, key=lambda row: row[:3])
    assert {State(state): sum(row[3] == state for row in flat) for state in {row[3] for row in flat}} == states
    assert sum(len(one) for one in groups) == sum(len(one) for one in batches) == 500
    assert len({(one.state, one.outcome, str(one.labels)) for one in groups}) == len(groups)
    totals = [
        sum(value for one in every for value in one.values.get("recall@5", ()) if value == value)
        for every in (batches, groups)
    ]
    assert totals[0] == totals[1] == sum(one.values.get("recall@5") or 0.0 for one in records)
    lacking = [one for one in records if one.state is not State.ERROR and one.values["recall@5"] is None]
    assert sorted((one.corpus, one.item) for one in unvalued) == [(one.corpus, one.item) for one in lacking]
    assert {one.reason for one in unvalued} == {"no_evidence"}


async def test_error_counts_list_the_most_frequent_message_first(tmp_path: Path) -> None:
    rows = [failed(f"q{n}", "timeout") for n in range(3)] + [failed("q9", "rejected", message="no")]
    folder = await written(tmp_path / "run", [*rows, scored("q8")])
    async with Reader.open(folder) as reader:
        assert await reader.error_counts(JOB) == [
            ErrorCount(kind="timeout", text="the provider did not answer", count=3),
            ErrorCount(kind="rejected", text="no", count=1),
        ]
        assert await reader.error_counts("unknown") == []


async def test_an_item_is_found_with_and_without_its_corpus(tmp_path: Path) -> None:
    rows = [search("q1"), search("q1", corpus="c2"), scored("q1"), scored("q1", 0.0, epoch=2), scored("q2")]
    folder = await written(tmp_path / "run", rows)
    async with Reader.open(folder) as reader:
        found = await reader.item(CHAIN, "q1")
        assert [(one.corpus, one.epoch, one.state) for one in found] == [
            ("c1", 1, State.CORRECT), ("c1", 2, State.INCORRECT), ("c2", 1, None),
        ]  # fmt: skip
        assert [one.corpus for one in await reader.item(CHAIN, "q1", corpus="c2")] == ["c2"]
        assert await reader.item(CHAIN, "unknown") == []
        assert await reader.item(CHAIN, "q1", corpus="c9") == []


async def test_every_attempt_of_an_item_is_returned_with_its_calls(tmp_path: Path) -> None:
    rows = [
        search("q1", outcome="timeout", calls=(call(outcome="timeout"), call(outcome="timeout"))),
        failed("q1"),
        search("q1", calls=(call(),), started_at=START + timedelta(seconds=5)),
        scored("q1", calls=(call(role="judge"),)),
    ]
    folder = await written(tmp_path / "run", rows)
    async with Reader.open(folder) as reader:
        attempts = await reader.attempts(CHAIN, "q1", corpus="c1")
        (record,) = await reader.item(CHAIN, "q1")
    assert [(one.key.phase, one.attempt, one.outcome, len(one.calls)) for one in attempts] == [
        (Phase.SEARCH, 1, "timeout", 2), (Phase.SEARCH, 2, "ok", 1),
        (Phase.EVALUATE, 1, "timeout", 0), (Phase.EVALUATE, 2, "ok", 1),
    ]  # fmt: skip
    assert record.attempts == {Phase.SEARCH: 2, Phase.EVALUATE: 2}
    assert {role: one.calls for role, one in record.spent.items()} == {"judge": 1, "provider": 3}
    assert record.message == ""


async def test_owners_are_returned_with_their_phases(tmp_path: Path) -> None:
    folder = await written(tmp_path / "run", [search("q1"), scored("q1"), step(CorpusKind.INTENT)])
    async with Reader.open(folder) as reader:
        assert await reader.owners() == {LANE: {Phase.SEARCH}, JOB: {Phase.EVALUATE}}


async def test_events_after_a_number_are_the_later_events(tmp_path: Path) -> None:
    events = [Event(kind=f"k{n}", scope=LANE, message=f"m{n}", data={"n": n}, at=START) for n in range(4)]
    folder = await written(tmp_path / "run", events)
    async with Reader.open(folder) as reader:
        found = await reader.numbered_events()
        assert [event for _, event in found] == await reader.events() == events
        assert await reader.events("k2") == events[2:3]
        assert [event for _, event in await reader.numbered_events(after=found[1][0])] == events[2:]
        assert await reader.numbered_events(after=found[-1][0]) == []


async def test_probes_of_a_lane_are_returned_in_order(tmp_path: Path) -> None:
    probes = [
        ProbeRow(lane=LANE, corpus=f"c{n}", attempt=n, kind=kind, passed=bool(n % 2), data={"held": n}, at=START)
        for n, kind in enumerate(("emptiness", "sentinel", "canary"))  # type: ignore[arg-type]
    ]
    folder = await written(tmp_path / "run", probes)
    async with Reader.open(folder) as reader:
        assert await reader.probes(LANE) == probes
        assert await reader.probes("another") == []


@each_row("size", [1, 299, 300, 301, 900])
async def test_corpora_are_streamed_complete_for_any_number_of_rows(tmp_path: Path, size: int) -> None:
    rows: list[JournalRow] = [
        step(CorpusKind.BATCH, corpus=f"c{number // 3:04d}", data={"batch": number}) for number in range(size)
    ]
    folder = await written(tmp_path / "run", rows)
    async with Reader.open(folder) as reader:
        found = [one async for one in reader.corpora(LANE)]
    assert [one.corpus for one in found] == sorted({f"c{number // 3:04d}" for number in range(size)})
    assert sum(len(one.last) for one in found) == size
