"""``ended_items`` reads fewer columns than ``Reader.items`` and returns the same values."""

from __future__ import annotations

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.journal import ItemRecord, Journal, JournaledPhase, Key, Reader, pages
from bench.journal.pages import EndedItem, ended_items
from bench.model import Call, Phase, State, Verdict
from tests.journal.journal_samples import CHAIN, START, meta
from tests.laws import examples

OWNER = {Phase.SEARCH: CHAIN.lane, Phase.ANSWER: CHAIN.answering, Phase.EVALUATE: CHAIN.job}
texts = st.sampled_from(["q1", "q2", "ü", "q" * 40])


def a_call(cost_usd: str | None, outcome: str) -> Call:
    return Call(
        endpoint="e", role="answering", attempt=1, outcome=outcome, status=200, started_at=START, queue_us=0,
        limiter_us=0, network_us=1, provider_us=2, request_bytes=0, response_bytes=0, model="m", usage=None,
        cost_usd=cost_usd,
    )  # fmt: skip


costs_and_outcomes = st.tuples(st.sampled_from([None, "0.0001", "2"]), st.sampled_from(["ok", "timeout"]))


@st.composite
def entries(draw: st.DrawFn) -> JournaledPhase:
    """Any attempt of any phase; an evaluate entry has the state of the item, in one of two scoring generations."""
    phase = draw(st.sampled_from(list(OWNER)))
    key = Key(
        owner=OWNER[phase], phase=phase, corpus=draw(texts), unit=draw(texts), epoch=draw(st.sampled_from([1, 2, 10]))
    )
    common = {
        "key": key,
        "outcome": draw(st.sampled_from(["ok", "timeout"])),
        "times_us": draw(st.sampled_from([{}, {"total": 5, "network": 3}])),
        "data": draw(st.sampled_from([{}, {"retrieved": [["a"]] * 90, "gold": ["b"]}])),
        "measured": draw(st.sampled_from([{}, {"model": "m-1", "tokens_in": 9}])),
        "calls": tuple(a_call(*one) for one in draw(st.lists(costs_and_outcomes, max_size=2))),
    }
    if phase is not Phase.EVALUATE:
        return JournaledPhase(**common)
    values = draw(st.sampled_from([{"mrr": 0.5}, {"mrr": None, "hit": 1.0}, {}]))
    verdicts = (Verdict(evaluator="exact-match", value=1.0, correct=True),) if draw(st.booleans()) else ()
    return JournaledPhase(
        **common, state=draw(st.sampled_from([State.CORRECT, State.ERROR])), labels={"type": draw(texts)},
        values=values, verdicts=verdicts, generation=draw(st.sampled_from([0, 1])),
    )  # fmt: skip


def fields_of_ended(item: EndedItem) -> dict[str, object]:
    costs = [Decimal(cost) for cost in item.costs_usd if cost is not None]
    return {
        "unit": (item.corpus, item.item, item.epoch),
        "ended": (item.state, item.outcome, item.labels, item.values, tuple(item.verdicts)),
        "phases": {p: (one.ok, one.times_us, one.data, one.measured) for p, one in item.phases.items()},
        "attempts": {p: one.attempts for p, one in item.phases.items()},
        "money": (sum(costs, Decimal(0)), len(item.costs_usd) - len(costs)),
    }


def fields_of_record(item: ItemRecord) -> dict[str, object]:
    spent = item.spent.values()
    return {
        "unit": (item.corpus, item.item, item.epoch),
        "ended": (item.state, item.outcome, item.labels, item.values, item.verdicts),
        "phases": {p: (one.ok, one.times_us, one.data, one.measured) for p, one in item.phases.items()},
        "attempts": dict(item.attempts),
        "money": (sum((Decimal(one.cost_usd) for one in spent), Decimal(0)), sum(one.unknown_costs for one in spent)),
    }


# no shrinking: an example opens a file
@settings(max_examples=examples(30), phases=[Stage.explicit, Stage.generate])
@given(rows=st.lists(entries(), max_size=40))
def test_ended_items_agree_with_the_full_item_records(rows: list[JournaledPhase]) -> None:
    asyncio.run(_compare(rows))


@pytest.mark.parametrize("page", [1, 2, 400])
def test_ended_items_returns_each_item_once_for_any_page_size(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE", page)
    rows = [
        JournaledPhase(
            key=Key(owner=CHAIN.job, phase=Phase.EVALUATE, corpus=f"c{n % 3}", unit=f"q{n}"), state=State.CORRECT
        )
        for n in range(11)
    ]
    asyncio.run(_compare(rows))


async def _compare(rows: list[JournaledPhase]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Journal.create(Path(folder) / "r", meta("r")) as journal:
            for row in rows:
                journal.append(row)
        async with Reader.open(Path(folder) / "r") as reader:
            ended = [fields_of_ended(item) async for item in ended_items(reader, CHAIN)]
            records = [fields_of_record(item) async for item in reader.items(CHAIN) if item.state is not None]
    assert ended == records
