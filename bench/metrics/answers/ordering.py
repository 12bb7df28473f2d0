"""A metric that compares the order of the events in an answer with the expected order.

Example::

    order_agreement([1, 3, 2], 3)       # 0.667: all three events, two of them swapped
    order_agreement([1, 2, 0], 2)       # 0.8: all in order, and one unexpected event
    bench.metrics.score("order_agreement", order=[1, 3, 2], events=3)

The input ``order`` contains one number for each event of the answer: the number of the matching expected event, or 0 if
no event matches. If an expected event occurs several times, only its first occurrence counts.

The value is computed from Kendall's tau-b and the F1 of the matched events. The tau-b is computed over the expected
events and the unmatched events of the answer. An event that is missing in one of the two orders
gets the last rank of this order. With F1 = 2 * matched / (answered + expected)::

    value = (tau_b + 1) / 2 * F1

If tau-b is undefined because all events of one order are tied, the value is F1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.metrics.answers.verdicts import value_of
from bench.metrics.protocol import Arithmetic, RegisteredMetric
from bench.stats import kendall_tau_b

ORDER = "order-agreement"


def order_agreement(order: Sequence[int], events: int) -> float:
    """Return how well ``order`` agrees with 1, 2, 3, ..., as a number in 0..1.

    ``events`` is the number of expected events. The result is 0 if no expected event occurs.

    Raises:
        ValueError: an event is outside 0..``events``.
    """
    expected, actual = _ranks(order, events)
    answered = [rank for rank in actual if rank <= len(actual)]
    matched = sum(mine <= len(actual) for mine in actual[:events])
    if not matched:
        return 0.0
    tau = kendall_tau_b(expected, actual)
    f1 = 2 * matched / (len(answered) + events)
    return f1 if tau is None else (tau + 1) / 2 * f1


def _ranks(order: Sequence[int], events: int) -> tuple[list[int], list[int]]:
    """Return two lists: the rank of each event in the expected order, and its rank in the answer.

    Both lists have the same events: first the expected events, then the events that only the answer has. An event that
    is missing in one order has the last rank there.
    """
    first: dict[int, int] = {}
    others = []
    for place, event in enumerate(order, start=1):
        if event < 0 or event > events:
            raise ValueError(f"event {event} is outside 0 to {events}")
        if event == 0:
            others.append(place)
        else:
            first.setdefault(event, place)
    places = sorted([*first.values(), *others])
    rank = {place: at for at, place in enumerate(places, start=1)}
    last = events + len(others) + 1
    expected = [*range(1, events + 1), *[last] * len(others)]
    actual = [rank[first[event]] if event in first else last for event in range(1, events + 1)]
    return expected, [*actual, *(rank[place] for place in others)]


def _build(k: int | None, params: Mapping[str, object]) -> Arithmetic:
    return Arithmetic(
        reads_verdicts=True,
        of_row=lambda row: value_of(row, ORDER),
        of_inputs=order_agreement,
        absent_reason="no_order",
        evaluators=(ORDER,),
    )


ENTRIES = (
    RegisteredMetric(
        name="order_agreement",
        summary="(Kendall's tau-b of the event order + 1) / 2 x F1 of the matched events",
        category="answer",
        build=_build,
    ),
)
