"""The window of ``--concurrency auto``: laws that hold for any behavior of the server."""

from __future__ import annotations

import anyio
from hypothesis import given
from hypothesis import strategies as st

from bench.http.adaptive_concurrency import START, AdaptiveSlots, Slots

LATER = 1e9
"""an instant after every cut of these tests"""


def fill(window: AdaptiveSlots) -> list[object]:
    holders: list[object] = []
    while window.take_now(holder := object()):
        holders.append(holder)
    return holders


def one_round(window: AdaptiveSlots) -> None:
    """Answer every call in flight with success."""
    for holder in fill(window):
        window.give_back(holder)
        window.accepted(sent_at=LATER)


async def test_a_taken_slot_can_be_taken_again_only_after_it_was_given_back() -> None:
    slots = Slots(1)
    assert slots.take_now("a")
    assert not slots.take_now("b")
    slots.give_back("a")
    assert slots.take_now("b") and slots.taken == 1


async def test_the_window_doubles_until_the_first_refusal_then_grows_by_one_per_round() -> None:
    window = AdaptiveSlots(64)
    one_round(window)
    assert window.size >= START * 1.5
    while window.size < 32:
        one_round(window)
    window.refused(sent_at=10.0, now=10.5, with_wait=False)
    after = window.size
    assert after <= 32
    for _ in range(4):
        before = window.size
        one_round(window)
        assert window.size - before <= 1


async def test_several_refusals_in_one_round_cut_the_window_once() -> None:
    window = AdaptiveSlots(64)
    while window.size < 32:
        one_round(window)
    window.refused(sent_at=1.0, now=2.0, with_wait=False)
    once = window.size
    for _ in range(20):
        window.refused(sent_at=1.5, now=2.1, with_wait=False)
    assert window.size == once


async def test_a_refusal_with_a_wait_resets_the_window_to_one_and_it_grows_again() -> None:
    window = AdaptiveSlots(64)
    while window.size < 32:
        one_round(window)
    window.refused(sent_at=1.0, now=2.0, with_wait=True)
    assert window.size == 1
    for _ in range(20):
        one_round(window)
    assert window.size >= 8


async def test_an_idle_window_does_not_grow() -> None:
    window = AdaptiveSlots(64)
    while window.size < 8:
        one_round(window)
    size = window.size
    for _ in range(100):
        holder = object()
        assert window.take_now(holder)
        window.give_back(holder)
        window.accepted(sent_at=LATER)
    assert window.size == size


@given(st.lists(st.sampled_from(["good", "refused", "wait"]), max_size=60), st.integers(1, 50))
def test_the_window_stays_between_one_and_its_ceiling(events: list[str], ceiling: int) -> None:
    async def play() -> None:
        window = AdaptiveSlots(ceiling)
        for at, event in enumerate(events):
            if event == "good":
                one_round(window)
            else:
                window.refused(sent_at=float(at), now=float(at) + 0.5, with_wait=event == "wait")
            assert 1 <= window.size <= ceiling

    anyio.run(play)


async def test_successes_of_calls_sent_before_a_cut_do_not_grow_the_window() -> None:
    window = AdaptiveSlots(64)
    while window.size < 16:
        one_round(window)
    holders = fill(window)
    window.refused(sent_at=1.0, now=2.0, with_wait=True)
    for holder in holders:
        window.give_back(holder)
        window.accepted(sent_at=1.0)
    assert window.size == 1


async def test_a_refusal_of_a_call_sent_within_one_round_trip_of_a_cut_does_not_cut_again() -> None:
    window = AdaptiveSlots(64)
    while window.size < 32:
        one_round(window)
    window.refused(sent_at=1.0, now=2.0, with_wait=False)
    once = window.size
    window.refused(sent_at=2.5, now=3.5, with_wait=False)
    assert window.size == once
    window.refused(sent_at=3.5, now=4.5, with_wait=False)
    assert window.size <= once / 2 + 1
